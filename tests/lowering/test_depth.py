from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import libcst as cst
import pytest
from lowered import Nodes

from amplint.lowering.program import Binary, Boolean, Evaluate, If
from amplint.lowering.statements import Lowering

Joined = Callable[[cst.BaseExpression, cst.BaseExpression], cst.BaseExpression]


def a_sum(left: cst.BaseExpression, right: cst.BaseExpression) -> cst.BaseExpression:
    return cst.BinaryOperation(left, cst.Add(), right)


def a_conjunction(left: cst.BaseExpression, right: cst.BaseExpression) -> cst.BaseExpression:
    return cst.BooleanOperation(left, cst.And(), right)


@pytest.mark.parametrize("joined", [a_sum, a_conjunction])
def test_a_chain_of_thousands_of_operands_is_lowered_without_recursion(joined: Joined) -> None:
    tree = reduce(joined, [cst.Name("a")] * 3000)
    made = Lowering("made.py", (1, 0), Nodes()).expression(tree)
    depth = 0
    while isinstance(made, Binary | Boolean):
        made = made.left
        depth += 1
    assert depth == 2999


def test_thousands_of_branches_are_lowered_without_recursion() -> None:
    text = "if a: b\n" + "".join(f"elif a == {number}: b\n" for number in range(2000)) + "else: c\n"
    (made,) = Lowering("made.py", (1, 0), Nodes()).block(cst.parse_module(text).body)
    depth = 0
    while isinstance(made, If):
        (made,) = made.other
        depth += 1
    assert depth == 2001
    assert isinstance(made, Evaluate)
