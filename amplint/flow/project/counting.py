"""In which rounds of a loop a statement runs, where conditions compare what the loop counts: ``if i == 0:``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from amplint.events import Rounds

_BLOCKS = ("body", "orelse", "finalbody")
_GOES_ON = (ast.Continue, ast.Break, ast.Return)
_LEAVES = (*_GOES_ON, ast.Raise)


def rounds_of(around: Sequence[ast.AST]) -> Rounds | None:
    """In which rounds of the innermost loop the last of these nodes runs, each of which stands in the one before; None
    if there is no loop."""
    start = next((index for index in reversed(range(len(around) - 1)) if is_loop(around, index)), None)
    if start is None:
        return None
    loop = around[start]
    counter = _counter(loop)
    if counter is None:
        return Rounds.ANY
    names = {counter}
    total = 0
    for outer, inner in zip(around[start:], around[start + 1 :], strict=False):
        total += _decided(outer, inner, counter, names)
    return Rounds(min(total, Rounds.ONE))


def is_loop(around: Sequence[ast.AST], index: int) -> bool:
    """Whether a node is a loop in whose body the next one stands."""
    node = around[index]
    return isinstance(node, (ast.For, ast.AsyncFor, ast.While)) and around[index + 1] in node.body


def comes_after_exit(around: Sequence[ast.AST], index: int) -> bool:
    """Whether a statement before the next node, in the block where that stands, may leave so that those around go on:
    ``if x: return``."""
    return any(_leaves(statement, _GOES_ON) for statement in _before(around[index], around[index + 1]))


def _before(outer: ast.AST, inner: ast.AST) -> Iterator[ast.stmt]:
    """The statements before one in the block of a node where that stands."""
    for name in _BLOCKS:
        block = getattr(outer, name, None)
        if isinstance(block, list) and inner in block:
            yield from block[: block.index(inner)]


def _leaves(statement: ast.stmt, how: tuple[type[ast.stmt], ...] = _LEAVES) -> TypeGuard[ast.If]:
    return isinstance(statement, ast.If) and isinstance(statement.body[-1], how)


def _counter(loop: ast.AST) -> str | None:
    """The name that a loop sets, or the first one, which is the number for ``enumerate``."""
    target = loop.target if isinstance(loop, (ast.For, ast.AsyncFor)) else None
    if isinstance(target, ast.Tuple) and target.elts:
        target = target.elts[0]
    return target.id if isinstance(target, ast.Name) else None


def _decided(outer: ast.AST, inner: ast.AST, counter: str, names: set[str]) -> int:
    """What a node and the statements before one in it ask for the counter. ``names`` are the counter and the names of
    what comparisons of it came to; those that are met are added."""
    total = 0
    if isinstance(outer, ast.If) and (inner in outer.body or inner in outer.orelse):
        asked = asks(outer.test, counter, names)
        total += asked if inner in outer.body else Rounds.ONE * bool(asked)
    for statement in _before(outer, inner):
        names.update(_outcomes(statement, counter, names))
        if _leaves(statement) and not statement.orelse:
            total += Rounds.ONE * bool(asks(statement.test, counter, names))
    return total


def _outcomes(statement: ast.stmt, counter: str, names: set[str]) -> Iterator[str]:
    """``is_last`` for ``is_last = i == n - 1``."""
    match statement:
        case ast.Assign(targets=targets, value=ast.Compare() as test) if asks(test, counter, names):
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def asks(test: ast.expr, counter: str, names: set[str]) -> Rounds:
    """For which rounds a condition asks that compares the counter, alone or with something added, or is the outcome of
    that. A remainder comes again in later rounds."""
    match test:
        case ast.BoolOp(values=values):
            return max(asks(value, counter, names) for value in values)
        case ast.UnaryOp(operand=operand):
            return Rounds.ONE if asks(operand, counter, names) else Rounds.ANY
        case ast.Name(id=name):
            return Rounds.ONE if name in names and name != counter else Rounds.ANY
        case ast.Compare(left=left, ops=[how, *_], comparators=others):
            sides = (left, *others)
            if not any(_is_counted(side, counter) for side in sides):
                return Rounds.ANY
            on_left = _is_counted(left, counter)
            below = isinstance(how, (ast.Lt, ast.LtE) if on_left else (ast.Gt, ast.GtE))
            zero = any(isinstance(side, ast.Constant) and side.value == 0 for side in sides)
            is_first = below or (isinstance(how, ast.Eq) and zero)
            return Rounds.FIRST if is_first and len(sides) == 2 else Rounds.ONE
    return Rounds.ANY


def _is_counted(node: ast.expr, counter: str) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return _is_counted(node.left, counter) or _is_counted(node.right, counter)
    return isinstance(node, ast.Name) and node.id == counter
