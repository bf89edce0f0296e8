"""Where an object that was made has a name: what code elsewhere in the file can call it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amplint.fixes.casts import shortened
from amplint.fixes.dependence import dotted
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scopes import times_bound_at_top, times_bound_in

_CONDITIONS = (cst.If, cst.IfExp, cst.BooleanOperation, cst.Match, cst.Try, cst.TryStar, cst.Lambda)


def name_given(file: ParsedFile, made: cst.BaseExpression) -> str:
    """The name or attribute that something gets where it is made, whatever the way there. Raises Refusal."""
    assign = file.parent(made)
    target: cst.CSTNode | None = None
    if isinstance(assign, cst.Assign) and len(assign.targets) == 1:
        target = assign.targets[0].target
    elif isinstance(assign, cst.AnnAssign):
        target = assign.target
    refuse_conditional(file, made)
    name = dotted(target) if target is not None else None
    if name is None:
        raise Refusal(f"`{shortened(file.code(made))}` gets no name where it is made")
    return name


def refuse_conditional(file: ParsedFile, made: cst.BaseExpression) -> None:
    """Raises Refusal where something is made under a condition: it may be something else as well."""
    for around in file.parents(made):
        if isinstance(around, cst.FunctionDef | cst.ClassDef):
            break
        if isinstance(around, _CONDITIONS) and not is_main(around):
            raise Refusal(f"`{shortened(file.code(made))}` is made under a condition")


def is_known(file: ParsedFile, name: str, made: cst.BaseExpression, at: cst.CSTNode) -> bool:
    """Whether a name that an object got where it was made means it at a node as well: as a local name further down, as
    a name of the module, or as an attribute that the constructor of the class sets."""
    home, there = function_around(file, made), function_around(file, at)
    if home is there:
        return _comes_before(file, file.statement(made), at) and (
            "." in name or _is_set_once(file, name, home)
        )
    if "." in name:
        owner = class_around(file, made)
        return (
            owner is not None
            and owner is class_around(file, at)
            and name.startswith("self.")
            and isinstance(home, cst.FunctionDef)
            and home.name.value == "__init__"
        )
    if isinstance(home, cst.FunctionDef) and home not in file.parents(there):
        return False
    inner = [part for part in (there, *file.parents(there)) if isinstance(part, cst.FunctionDef)]
    if isinstance(home, cst.FunctionDef):
        inner = inner[: inner.index(home)]
    return _is_set_once(file, name, home) and not any(times_bound_in(part)[name] for part in inner)


def function_around(file: ParsedFile, node: cst.CSTNode) -> cst.FunctionDef | cst.Module:
    """The function around a piece of code, or the module."""
    return next((part for part in file.parents(node) if isinstance(part, cst.FunctionDef)), file.module)


def class_around(file: ParsedFile, node: cst.CSTNode) -> cst.ClassDef | None:
    """The class whose method a piece of code stands in."""
    return next((part for part in file.parents(node) if isinstance(part, cst.ClassDef)), None)


def parameters_of(function: cst.FunctionDef) -> Iterator[cst.Param]:
    """All parameters that have a name of their own, but for those with stars."""
    yield from function.params.posonly_params
    yield from function.params.params
    yield from function.params.kwonly_params


def _comes_before(file: ParsedFile, first: cst.CSTNode, at: cst.CSTNode) -> bool:
    """Whether a statement has run whenever a node of its function is reached."""
    block = file.parent(first)
    return block is not None and block in file.parents(at) and file.span(first) < file.span(at)


def _is_set_once(file: ParsedFile, name: str, home: cst.FunctionDef | cst.Module) -> bool:
    if isinstance(home, cst.Module):
        return times_bound_at_top(file)[name] == 1
    return times_bound_in(home)[name] == 1


def is_main(node: cst.CSTNode) -> bool:
    """Whether a node is ``if __name__ == "__main__":``."""
    match node:
        case cst.If(
            test=cst.Comparison(
                left=cst.Name(value="__name__"),
                comparisons=[
                    cst.ComparisonTarget(operator=cst.Equal(), comparator=cst.SimpleString() as text)
                ],
            )
        ):
            return text.evaluated_value == "__main__"
    return False
