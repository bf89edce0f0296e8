"""Custom autograd functions whose backward pass relies on running in the region of their forward pass."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

import libcst as cst

from amplint.fixes.base import Files
from amplint.fixes.dependence import dotted
from amplint.fixes.parsed import ParsedFile

_HINT = re.compile(r"\bFunction\s*\)|\bFunction\s*,")
_FURTHEST = 3
"""How many imports lie between a file and what is looked at."""


def unprotected_function(files: Files, paths: Iterable[str]) -> str | None:
    """The name of a subclass of autograd.Function without custom_bwd in these files, or in files of the project
    that they import, or None."""
    seen: set[str] = set()
    waiting = sorted(set(paths))
    for _ in range(_FURTHEST + 1):
        further: list[str] = []
        for path in waiting:
            if path in seen:
                continue
            seen.add(path)
            text = files.text(path)
            if text is None:
                continue
            if _HINT.search(text):
                name = _unprotected(files.parsed(path))
                if name is not None:
                    return name
            further += _imported(path, text)
        waiting = further
    return None


def _unprotected(file: ParsedFile) -> str | None:
    found: list[str] = []

    class Classes(cst.CSTVisitor):
        def visit_ClassDef(self, node: cst.ClassDef) -> None:
            bases = [dotted(base.value) or "" for base in node.bases]
            if any(base.rpartition(".")[2] == "Function" for base in bases) and _lacks_custom_bwd(node):
                found.append(node.name.value)

    file.module.visit(Classes())
    return found[0] if found else None


def _lacks_custom_bwd(node: cst.ClassDef) -> bool:
    for part in node.body.body:
        if isinstance(part, cst.FunctionDef) and part.name.value == "backward":
            names = []
            for decorator in part.decorators:
                shape = decorator.decorator
                names.append(dotted(shape.func if isinstance(shape, cst.Call) else shape) or "")
            return not any("custom_bwd" in name or "bwd" in name.rpartition(".")[2] for name in names)
    return False


_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+([^\n#]+)|import[ \t]+([\w.][\w., \t]*))", re.MULTILINE
)


def _imported(path: str, text: str) -> list[str]:
    """The files that the import statements of a file may mean, whether they exist or not."""
    folder = PurePosixPath(path).parent
    found: list[str] = []
    for source, names, plain in _IMPORT.findall(text):
        modules = [name.split(" as ")[0].strip() for name in (plain or "").split(",")] if plain else []
        if source:
            modules.append(source)
            joint = "" if source.endswith(".") else "."
            modules += [f"{source}{joint}{name.split(' as ')[0].strip(' ()')}" for name in names.split(",")]
        for module in filter(None, modules):
            found += _files_of(module, folder)
    return found


def _files_of(module: str, folder: PurePosixPath) -> list[str]:
    dots = len(module) - len(module.lstrip("."))
    parts = [part for part in module.lstrip(".").split(".") if part]
    bases = [folder, *folder.parents] if not dots else [folder.joinpath(*[".."] * (dots - 1))]
    if dots > 1:
        base = folder
        for _ in range(dots - 1):
            base = base.parent
        bases = [base]
    if not parts or not all(part.isidentifier() for part in parts):
        return []
    found = []
    for base in bases[:6]:
        place = base.joinpath(*parts)
        found += [f"{place}.py", f"{place}/__init__.py"]
    return found
