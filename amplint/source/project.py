"""The project: its files, loaded and outlined on demand, and the resolution of imports among them."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import TypeVar

from amplint.source.cells import is_notebook, line_name
from amplint.source.decoding import Unreadable, digest_of_bytes, display_name, split_lines
from amplint.source.handing_on import Use, uses
from amplint.source.modules import Modules
from amplint.source.nesting import too_deep
from amplint.source.newer import is_for_a_newer_python
from amplint.source.outline import ClassOutline, FunctionOutline, draw
from amplint.source.slices import Slice
from amplint.source.texts import SourceFile, code_in, read_source, source_of, text_of
from amplint.source.words import STAR, Asked, defined_names, imported_names, mentions

MOST_CHARACTERS = 1_000_000
MOST_LINES = 30_000
"""A file with more of them is not analysed: somebody's program wrote it."""
_MOST_HANDED_ON = 5
"""So many files may import a name from each other."""

_Word = TypeVar("_Word")


NEWER = "If the code is for a newer Python, run amplint with that one."
"""What to do about a syntax error that may be none."""
_RUN_NEWER = "Run amplint with that one, or name the file in `exclude` in the settings."


class Unparsable(Exception):  # noqa: N818
    """A file is no Python that this interpreter can parse. ``newer``: a newer one may."""

    def __init__(self, message: str, line: int, column: int, help: str = "", *, newer: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.help = help
        self.newer = newer
        self.line = line
        self.column = column


class TooLarge(Unparsable):
    """A file that is not parsed for its size. ``size``: "1,639,777 characters"."""

    def __init__(self, size: str, most: int) -> None:
        message = f"not analysed: it has {size}, more than {most:,}"
        super().__init__(message, 1, 1, "If a program wrote it, name it in `exclude` in the settings.")


class ProjectFile:
    """One file of the project with its outline and the slices that were parsed so far."""

    def __init__(self, source: SourceFile, module: str) -> None:
        self.path = source.path
        self.display = source.display
        self.text = source.text
        self.module = module
        self.is_package = source.path.name in ("__init__.py", "__init__.pyi")
        self.outline = draw(_parse(source.text))
        self._lines: list[str] | None = None
        self._offsets: list[int] | None = None
        self._slices: dict[tuple[int, int], Slice] = {}

    @property
    def lines(self) -> list[str]:
        """The lines of the file, line ends kept."""
        if self._lines is None:
            self._lines = split_lines(self.text)
        return self._lines

    def slice(self, first: int, last: int) -> Slice:
        """Lines ``first`` to ``last``, parsed with LibCST and kept."""
        found = self._slices.get((first, last))
        if found is None:
            found = self._slices[first, last] = Slice(self.lines, first, last)
        return found

    def line_name(self, line: int) -> str:
        """What messages call a line."""
        return line_name(self.display, self.text, line)

    def text_of(self, part: FunctionOutline | ClassOutline) -> str:
        """The source text of a definition."""
        return self.text_between(part.line, part.end_line)

    def text_between(self, first: int, last: int) -> str:
        """The text of lines ``first`` to ``last``."""
        if self._offsets is None:
            self._offsets = [0, *accumulate(map(len, self.lines))]
        return self.text[self._offsets[first - 1] : self._offsets[min(last, len(self.lines))]]


def python() -> str:
    """The release of Python that runs amplint and parses files: ``3.14``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _parse(text: str) -> ast.Module:
    if len(text) > MOST_CHARACTERS:
        raise TooLarge(f"{len(text):,} characters", MOST_CHARACTERS)
    lines = text.count("\n")
    if lines > MOST_LINES:
        raise TooLarge(f"{lines:,} lines", MOST_LINES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        said = error.msg or "invalid syntax"
        message = f"Python {python()}, which runs amplint, cannot parse this: {said}"
        newer = is_for_a_newer_python(text)
        if newer:
            message = f"this is for a Python newer than {python()}, which runs amplint"
        help = _RUN_NEWER if newer else NEWER
        raise Unparsable(message, error.lineno or 1, error.offset or 1, help, newer=newer) from None
    except ValueError as error:
        raise Unparsable(str(error), 1, 1) from None
    except (MemoryError, RecursionError):
        raise Unparsable("the code is nested too deeply to be parsed", 1, 1) from None
    if too_deep(tree):
        raise Unparsable("the code is nested too deeply to be parsed", 1, 1)
    if _OPEN_DECORATOR.search(text):
        _draw_up_decorators(tree, text)
    return tree


_OPEN_DECORATOR = re.compile(r"^[ \t\f]*@[ \t\f]*[(\\]", re.MULTILINE)


def _draw_up_decorators(tree: ast.Module, text: str) -> None:
    """Has decorators in parentheses begin on the line of their ``@``, which may stand above what ast tells of."""
    lines = split_lines(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for decorator in node.decorator_list:
                while decorator.lineno > 1 and not lines[decorator.lineno - 1].lstrip().startswith("@"):
                    decorator.lineno -= 1


def module_of(display: str) -> str:
    """The last part of the name of the module that a file is."""
    file = PurePosixPath(display)
    if is_notebook(display):
        return _unimportable(file.stem)
    return file.parent.name if file.stem == "__init__" else file.stem


def _unimportable(stem: str) -> str:
    """The last part of the name that a notebook has as a module, which no import can write."""
    return f"{stem}-notebook"


def _bytes_at(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


class Project:
    """All files that may be read, by dotted module name."""

    def __init__(self, paths: Sequence[Path], root: Path | None = None) -> None:
        self._root = root
        self._located: Modules | None = None
        self._paths = {path: path for path in paths}
        self._by_module: dict[str, Path] = {}
        self._modules: dict[Path, str] = {}
        self._loaded: dict[Path, ProjectFile | None] = {}
        self._displayed: dict[str, ProjectFile] = {}
        self._imported: dict[tuple[str, str], list[Path]] | None = None
        self._defining: dict[str, list[Path]] | None = None
        self._mentioned: dict[tuple[str, str], list[Path]] = {}
        self._used: dict[tuple[str, str, str], frozenset[Use]] = {}
        self._packages: dict[Path, bool] = {}
        self._bytes: dict[Path, bytes] = {}
        self._code: dict[Path, bytes] = {}
        """That of notebooks, which takes time to find."""
        self.changed: Mapping[str, bytes] = {}
        """Bytes by absolute path that count instead of those on the disk."""
        self.asked = Asked()
        self.extend(paths)

    def extend(self, paths: Sequence[Path]) -> None:
        """Takes in further files."""
        if any(path not in self._paths for path in paths):
            self._located = None
        self._paths.update((path, path) for path in paths if path not in self._paths)
        for path in paths:
            if path not in self._modules:
                name = self._module_name(path)
                self._modules[path] = name
                self._by_module.setdefault(name, path)

    @property
    def modules(self) -> Modules:
        """Where the modules of the project are."""
        if self._located is None:
            self._located = Modules(self._paths, self._root)
        return self._located

    def _module_name(self, path: Path) -> str:
        if is_notebook(path):
            return _unimportable(path.stem)
        parts = [] if path.name in ("__init__.py", "__init__.pyi") else [path.stem]
        folder = path.parent
        while self._is_package(folder):
            parts.append(folder.name)
            folder = folder.parent
        if not parts:
            parts = [path.parent.name]
        return ".".join(reversed(parts))

    def _is_package(self, folder: Path) -> bool:
        known = self._packages.get(folder)
        if known is None:
            known = folder / "__init__.py" in self._paths or (folder / "__init__.pyi") in self._paths
            self._packages[folder] = known
        return known

    def add(self, source: SourceFile) -> ProjectFile:
        """Takes in a file whose text is already at hand. Raises Unparsable."""
        self.asked.read[source.path] = source.digest
        module = self._modules.get(source.path) or source.path.stem
        made = ProjectFile(source, module)
        self._loaded[source.path] = made
        self._displayed[made.display] = made
        return made

    def place_of(self, display: str) -> str:
        """Where the file that reports call ``display`` lies in the project, which is the same wherever that lies; any
        other text is left as it is."""
        file = self._displayed.get(display)
        return display if file is None else self.modules.place_of(file.path)

    def displayed(self, display: str) -> ProjectFile | None:
        """The file that was loaded and is displayed as this."""
        return self._displayed.get(display)

    def text_of(self, display: str) -> str | None:
        """The text of a file that was read, by the name that reports call it."""
        file = self._displayed.get(display)
        return file.text if file is not None else None

    def origin(self, display: str, target: str) -> str:
        """Where the name is defined that an import in the file that reports call ``display`` is about: ``file:name``
        for one at the top of a file of the project, whoever hands it on, and its dotted name for everything else."""
        file = self._displayed.get(display)
        if file is None:
            return target
        name = self.absolute(file, target)
        for _ in range(_MOST_HANDED_ON):
            parent, _, last = name.rpartition(".")
            path = self.find_module(parent, file) if parent else None
            loaded = self.load(path) if path is not None else None
            if loaded is None:
                break
            onward = loaded.outline.imports.get(last)
            if onward is None or last in loaded.outline.assigned:
                return f"{loaded.display}:{last}"
            file, name = loaded, self.absolute(loaded, onward)
        return name

    def may_be_imported(self, display: str) -> bool:
        """Whether the file that reports call ``display`` is there for others: a part of a package, or named by an
        import somewhere in the project, judged by the last part of its module alone. All files are searched once."""
        file = self._displayed.get(display)
        packaged = file is not None and not is_notebook(file.path) and self._is_package(file.path.parent)
        return packaged or bool(self._imports((("", module_of(display)),)))

    def is_used(self, display: str, name: str) -> bool:
        """Whether some other file of the project may use a name of the file that reports call ``display``."""
        asked: set[str] = set()
        modules = [display]
        while modules:
            module = modules.pop()
            asked.add(module)
            last = module_of(module)
            if self._imports([(last, name)]) or self.uses(last, name, besides=module) - {"passes on"}:
                return True
            # who imports all names has this one, too
            modules += {display_name(path) for path in self._imports([(last, "*")])} - asked
        return False

    def uses(self, module: str, name: str, besides: str = "") -> frozenset[Use]:
        """What files of the project may do with a name of a module, which is known by the last parts of its own name;
        ``besides`` is left out."""
        known = self._used.get((module, name, besides))
        if known is None:
            found: set[Use] = set()
            for path in self._mentioning(name, module.rpartition(".")[2]):
                if display_name(path) != besides:
                    tree = self._tree(path)
                    found |= uses(tree, module, name) if tree is not None else {"reads"}
            known = self._used[module, name, besides] = frozenset(found)
        return known

    def mentions(self, word: str) -> bool:
        """Whether a word occurs in some file of the project. All files are read once for each word."""
        return bool(self._mentioning(word, word))

    def files_mentioning(self, word: str) -> list[ProjectFile]:
        """The files in which a word occurs, those that cannot be parsed left out. All files are read once for it."""
        files = map(self.load, self._mentioning(word, word))
        return [file for file in files if file is not None]

    def needs(self, module: str) -> bool:
        """Whether some file imports a module, or a name from it, under no condition: the code does not run without."""
        last = module.rpartition(".")[2]
        trees = map(self._tree, self._mentioning(last, last))
        return any(_imports(node, module) for tree in trees if tree is not None for node in tree.body)

    def importers(self, display: str, name: str) -> frozenset[Path]:
        """The files that may import a name from the file that reports call ``display``, judged by the last part of the
        module alone. All files are searched once."""
        last = module_of(display)
        return self._imports(((last, name), (last, "*")))

    def _imports(self, asked: Sequence[tuple[str, str]]) -> frozenset[Path]:
        if self._imported is None:
            self._imported = self._by_word(imported_names)
        self.asked.imported.update((pair, tuple(self._imported.get(pair, ()))) for pair in asked)
        return frozenset(path for pair in asked for path in self._imported.get(pair, ()))

    def _mentioning(self, word: str, beside: str) -> list[Path]:
        """The files that mention both words; what stands in them counts then, so that they are read."""
        asked = {word.encode(): {beside.encode()}}
        known = self._mentioned.get((word, beside))
        if known is None:
            every = ((path, self.current_bytes(path)) for path in self._paths)
            known = self._mentioned[word, beside] = [
                path
                for path, data in every
                if (word.encode() in data or STAR.search(data)) and mentions(path, data, asked)
            ]
            self.asked.mentioned.setdefault(word.encode(), set()).add(beside.encode())
            for path in known:
                self.bytes_of(path)
        return known

    def _tree(self, path: Path) -> ast.Module | None:
        """The tree of a file, or None if it cannot be parsed."""
        if self._loaded.get(path) is not None:
            return self._loaded[path].outline.tree  # type: ignore[union-attr]
        try:
            return _parse(text_of(self.bytes_of(path), path))
        except (Unparsable, Unreadable):
            return None

    def files_defining(self, name: str) -> list[Path]:
        """The files in which a function of that name may be defined, as their bytes show. All files are read once."""
        if self._defining is None:
            self._defining = self._by_word(defined_names)
        found = self._defining.get(name, [])
        self.asked.defined[name] = tuple(found)
        return found

    def _by_word(self, words: Callable[[bytes], Iterable[_Word]]) -> dict[_Word, list[Path]]:
        """For each word the files that have it, as their bytes are now."""
        found: dict[_Word, list[Path]] = {}
        for path in self._paths:
            for word in words(self.current_bytes(path)):
                found.setdefault(word, []).append(path)
        return found

    def current_bytes(self, path: Path) -> bytes:
        """The bytes of the code in a file, read now and not kept, but for notebooks; empty if it cannot be read."""
        if path in self._code:
            return self._code[path]
        data = self.changed.get(str(path))
        code = code_in((_bytes_at(path) or b"") if data is None else data, path)
        if is_notebook(path):
            self._code[path] = code
        return code

    def load(self, path: Path) -> ProjectFile | None:
        """The file at a path, or None if it cannot be read or parsed."""
        if path not in self._loaded:
            self.asked.read[path] = ""
            try:
                self.add(self._read(path))
            except (Unparsable, Unreadable, OSError):
                self._loaded[path] = None
        return self._loaded[path]

    def _read(self, path: Path) -> SourceFile:
        data = self.changed.get(str(path))
        return read_source(path) if data is None else source_of(path, display_name(path), data)

    def is_loaded(self, path: Path) -> bool:
        """Whether a file was read already."""
        return path in self._loaded

    def bytes_of(self, path: Path) -> bytes:
        """The bytes of a file that is not loaded, kept; empty if it cannot be read."""
        data = self._bytes.get(path) or self.changed.get(str(path))
        if data is None:
            data = _bytes_at(path)
            self.asked.read.setdefault(path, digest_of_bytes(data) if data is not None else "")
            data = self._bytes[path] = data or b""
        return data

    def absolute(self, file: ProjectFile, target: str) -> str:
        """A dotted name without leading dots, for an import as it is written in a file."""
        dots = len(target) - len(target.lstrip("."))
        if not dots:
            return target
        base = file.module.split(".")
        if not file.is_package:
            base = base[:-1]
        if dots > 1:
            base = base[: len(base) - (dots - 1)]
        rest = target[dots:]
        return ".".join([*base, rest] if rest else base)

    def find_module(self, name: str, near: ProjectFile | None = None) -> Path | None:
        """The file of a module of the project, or None. A script's neighbours are importable by bare name."""
        if near is not None and not self._is_package(near.path.parent):
            for candidate in (
                near.path.parent / (name.replace(".", "/") + ".py"),
                near.path.parent / name.replace(".", "/") / "__init__.py",
            ):
                if candidate in self._paths:
                    return candidate
        return self._by_module.get(name)


def _imports(node: ast.stmt, module: str) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == module and not node.level
    return isinstance(node, ast.Import) and any(alias.name == module for alias in node.names)
