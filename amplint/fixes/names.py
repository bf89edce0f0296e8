"""Names: which ones code uses, and what the top level of a file binds them to."""

from __future__ import annotations

import libcst as cst

from amplint.fixes.parsed import ParsedFile


def names_in(*nodes: cst.CSTNode) -> set[str]:
    """The names that are read or bound in nodes; attributes and keywords are none."""
    found: set[str] = set()

    class Names(cst.CSTVisitor):
        def visit_Name(self, node: cst.Name) -> None:
            found.add(node.value)

        def visit_Attribute(self, node: cst.Attribute) -> bool:
            node.value.visit(self)
            return False

        def visit_Arg(self, node: cst.Arg) -> bool:
            node.value.visit(self)
            return False

    for node in nodes:
        node.visit(Names())
    return found


def module_bindings(file: ParsedFile) -> dict[str, str]:
    """What the statements at the top of a file bind: the dotted origin of an import, and for everything else
    the file itself."""
    found: dict[str, str] = {}
    for statement in file.module.body:
        if isinstance(statement, cst.SimpleStatementLine):
            for part in statement.body:
                _bind(part, found, file.path)
        elif isinstance(statement, cst.FunctionDef | cst.ClassDef):
            found[statement.name.value] = f"{file.path}:{statement.name.value}"
    return found


def _bind(part: cst.BaseSmallStatement, into: dict[str, str], path: str) -> None:
    match part:
        case cst.Import():
            for alias in part.names:
                name = alias.evaluated_name
                if alias.asname is not None:
                    into[alias.evaluated_alias or name] = name
                else:
                    into[name.partition(".")[0]] = name.partition(".")[0]
        case cst.ImportFrom(names=cst.ImportStar()):
            pass
        case cst.ImportFrom():
            source = imported_from(part)
            for alias in part.names:  # type: ignore[union-attr]
                into[alias.evaluated_alias or alias.evaluated_name] = f"{source}.{alias.evaluated_name}"
        case cst.Assign():
            for target in part.targets:
                for name in names_in(target.target):
                    into[name] = f"{path}:{name}"
        case cst.AnnAssign(target=cst.Name(value=name)):
            into[name] = f"{path}:{name}"


def imported_from(statement: cst.ImportFrom) -> str:
    """The module that a `from` statement names, with its dots."""
    from amplint.fixes.dependence import dotted

    module = dotted(statement.module) if statement.module is not None else None
    return "." * len(statement.relative) + (module or "")
