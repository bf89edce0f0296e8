"""Names: which ones code uses, and what the top level of a file binds them to."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from amplint.fixes.dependence import dotted
from amplint.fixes.parsed import ParsedFile


def names_in(*nodes: cst.CSTNode) -> set[str]:
    """The names that are read or bound in nodes; attributes and keywords are none."""
    return {name.value for node in nodes for name in roots(node)}


def roots(expression: cst.CSTNode) -> list[cst.Name]:
    """The names that an expression looks up."""
    found: list[cst.Name] = []

    class Roots(cst.CSTVisitor):
        def visit_Name(self, node: cst.Name) -> None:
            found.append(node)

        def visit_Attribute(self, node: cst.Attribute) -> bool:
            node.value.visit(self)
            return False

        def visit_Arg(self, node: cst.Arg) -> bool:
            node.value.visit(self)
            return False

    expression.visit(Roots())
    return found


def module_bindings(
    file: ParsedFile, origin: Callable[[str, str], str] = lambda path, target: target
) -> dict[str, str]:
    """What the statements at the top of a file bind: where an import comes from, and for everything else the file
    itself. ``origin`` is that of the files, so that a name means the same in the file that defines it."""
    found: dict[str, str] = {}
    for statement in file.module.body:
        if isinstance(statement, cst.SimpleStatementLine):
            for part in statement.body:
                _bind(part, found, file.path, origin)
        elif isinstance(statement, cst.FunctionDef | cst.ClassDef):
            found[statement.name.value] = f"{file.path}:{statement.name.value}"
    return found


def _bind(
    part: cst.BaseSmallStatement, into: dict[str, str], path: str, origin: Callable[[str, str], str]
) -> None:
    match part:
        case cst.Import():
            for alias in part.names:
                name = alias.evaluated_name
                if alias.asname is not None:
                    into[alias.evaluated_alias or name] = origin(path, name)
                else:
                    into[name.partition(".")[0]] = name.partition(".")[0]
        case cst.ImportFrom(names=cst.ImportStar()):
            pass
        case cst.ImportFrom():
            source = imported_from(part)
            for alias in part.names:  # type: ignore[union-attr]
                imported = f"{source}{'' if source.endswith('.') else '.'}{alias.evaluated_name}"
                into[alias.evaluated_alias or alias.evaluated_name] = origin(path, imported)
        case cst.Assign():
            for target in part.targets:
                for name in names_in(target.target):
                    into[name] = f"{path}:{name}"
        case cst.AnnAssign(target=cst.Name(value=name)):
            into[name] = f"{path}:{name}"


def imported_from(statement: cst.ImportFrom) -> str:
    """The module that a `from` statement names, with its dots."""
    module = dotted(statement.module) if statement.module is not None else None
    return "." * len(statement.relative) + (module or "")
