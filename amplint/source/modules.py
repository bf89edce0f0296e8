"""Which file an import means, found without running anything.

``sys.path`` is not known. So the folders from which a module may be imported are tried in the order in which they
are likely on it: for a script its own folder, then the folders above it up to the root of the project; for a file of
a package the folder that holds the outermost package, then those above; then folders of sources such as ``src/``,
which hold packages or lie beside the folders above. Folders without ``__init__.py`` are packages, too (PEP 420).
Places that are mere guesses come last and are weak: who asks should take them only if the names that are imported
are there. The answer depends on the paths of the project's files alone, not on what was read or asked before.
"""

# a Path for each of many thousand files costs more than reading them:
# ruff: noqa: PTH118, PTH119, PTH120, PTH122

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from amplint.source.cells import is_notebook

_SOURCE_FOLDERS = ("src", "lib", "python")


@dataclass(frozen=True, slots=True)
class Location:
    """Where a module may be. ``path`` is a file, or the folder of a package without ``__init__.py`` (``is_folder``).
    ``base`` is the folder from which it is imported; ``weak`` if that is a guess."""

    path: Path
    base: Path
    is_folder: bool = False
    weak: bool = False


def _is_module(path: str) -> bool:
    """Whether an import can mean a file at all."""
    return not is_notebook(path)


class Modules:
    """The modules of a project by the folders they lie in. ``root`` is the folder of the project; without it, the
    innermost one that holds all files."""

    def __init__(self, paths: Iterable[Path], root: Path | None = None) -> None:
        self._files = {str(path): path for path in paths}
        self._packages = {
            os.path.dirname(name)
            for name in self._files
            if name.endswith((f"{os.sep}__init__.py", f"{os.sep}__init__.pyi"))
        }
        self._folders: set[str] = set()
        self._root = self._common() if root is None else str(root)
        for name in self._files:
            folder = os.path.dirname(name)
            while folder not in self._folders and self._is_inside(folder):
                self._folders.add(folder)
                folder = os.path.dirname(folder)
        self._by_tail: dict[str, list[str]] | None = None
        self._bases_of_packages: dict[str, list[str]] | None = None
        self._candidates = lru_cache(maxsize=None)(self._find)
        self._beside: dict[tuple[str, int, str], Location | None] = {}

    def _common(self) -> str:
        folders = {os.path.dirname(name) for name in self._files}
        return os.path.commonpath(folders) if folders else os.sep

    def _is_inside(self, folder: str) -> bool:
        return folder == self._root or folder.startswith(self._root.rstrip(os.sep) + os.sep)

    def place_of(self, path: Path) -> str:
        """The path of a file from the folder of the project."""
        return os.path.relpath(path, self._root).replace(os.sep, "/")

    def relative(self, near: Path, level: int, module: str) -> Location | None:
        """The module of ``from ..module import``, with ``level`` dots, in a file; None if there is none."""
        key = (os.path.dirname(near), level, module)
        if key not in self._beside:
            self._beside[key] = self._above(*key)
        return self._beside[key]

    def _above(self, folder: str, level: int, module: str) -> Location | None:
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        return self._below(folder, module) if self._is_inside(folder) else None

    def submodule(self, folder: Path, name: str) -> Location | None:
        """A module in the folder of a package."""
        return self._below(str(folder), name)

    def absolute(self, near: Path, module: str) -> tuple[Location, ...]:
        """The places at which a file may find an absolute import, likeliest first. A file never means itself."""
        found = self._candidates(os.path.dirname(near), module)
        return tuple(location for location in found if location.path != near)

    def _find(self, folder: str, module: str) -> tuple[Location, ...]:
        found: dict[Path, Location] = {}
        top = module.partition(".")[0]
        for base, weak in self._bases(folder, module):
            location = self._below(base, module, weak=weak)
            if location is not None and not (weak and top in sys.stdlib_module_names):
                found.setdefault(location.path, location)
        return tuple(sorted(found.values(), key=lambda location: (location.weak, location.is_folder)))

    def _bases(self, folder: str, module: str) -> Iterator[tuple[str, bool]]:
        outer, inner = folder, []
        while outer in self._packages:
            inner.append(outer)
            outer = os.path.dirname(outer)
        above = [outer]
        while outer != self._root and self._is_inside(outer):
            outer = os.path.dirname(outer)
            above.append(outer)
        yield from ((base, False) for base in above)
        for base in above:
            yield from ((os.path.join(base, name), False) for name in _SOURCE_FOLDERS)
        yield from ((base, False) for base in self._that_hold(module.partition(".")[0]))
        yield from ((base, True) for base in inner)
        found = self._with_tail(module)
        if len(found) == 1:
            yield found[0], True

    def _that_hold(self, package: str) -> list[str]:
        """The folders that hold an outermost package of a name, nearest to the root first."""
        if self._bases_of_packages is None:
            self._bases_of_packages = {}
            for folder in sorted(self._packages, key=lambda name: (name.count(os.sep), name)):
                base, name = os.path.split(folder)
                if base not in self._packages:
                    self._bases_of_packages.setdefault(name, []).append(base)
        return self._bases_of_packages.get(package, [])

    def _with_tail(self, module: str) -> list[str]:
        """The folders outside of packages from which a module of that name can be imported."""
        if self._by_tail is None:
            self._by_tail = {}
            for name in filter(_is_module, self._files):
                folder, last = os.path.split(name)
                stem, _ = os.path.splitext(last)
                tail = folder if stem == "__init__" else os.path.join(folder, stem)
                self._by_tail.setdefault(os.path.basename(tail), []).append(tail)
        parts = module.split(".")
        end = os.sep + os.path.join(*parts) if all(parts) else None
        if end is None:
            return []
        tails = self._by_tail.get(parts[-1], [])
        bases = {tail[: -len(end)] for tail in tails if tail.endswith(end)}
        return sorted(base for base in bases if base not in self._packages)

    def _below(self, base: str, module: str, *, weak: bool = False) -> Location | None:
        parts = module.split(".") if module else []
        folder = base
        for index, part in enumerate(parts):
            inner = os.path.join(folder, part)
            file = self._files.get(f"{inner}.py") or self._files.get(f"{inner}.pyi")
            if file is not None and inner not in self._packages:
                return Location(file, Path(base), weak=weak) if index == len(parts) - 1 else None
            folder = inner
        if folder not in self._folders:
            return None
        if folder in self._packages:
            file = self._files.get(os.path.join(folder, "__init__.py"))
            file = file or self._files[os.path.join(folder, "__init__.pyi")]
            return Location(file, Path(base), weak=weak)
        return Location(Path(folder), Path(base), is_folder=True, weak=weak)
