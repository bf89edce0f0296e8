"""Gradients that only some of the ways through a loop drop."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

import libcst as cst

from amplint.flow.paths import HANDED_OUT, SCALER_STEPPED, STEPPED, ZEROED


def elsewhere(node: cst.For | cst.While, rounds: Iterable[int]) -> bool:
    """Whether the ways through a loop on which an optimizer steps without a scaler drop gradients, while on those on
    which a scaler steps nothing does, and no code out of sight may. ``rounds``: what was done on each way that was
    walked. A way for another value of a flag, which was asked for before the loop, is not among them, so the text of
    the loop tells of it, too."""
    rounds = list(rounds)
    scaled = reduce(or_, (done for done in rounds if done & SCALER_STEPPED), 0)
    if not scaled or scaled & (ZEROED | HANDED_OUT):
        return False
    found = _Found()
    node.body.visit(found)
    if found.by_hand:
        return False
    return any(
        done & ZEROED and done & STEPPED for done in rounds if not done & SCALER_STEPPED
    ) or _in_other_branch(found)


def _in_other_branch(found: _Found) -> bool:
    """Whether all that drops gradients in a loop stands beside a step without a scaler, in an ``if`` whose other branch
    is the one with the scaler's step."""
    return found.zeroed > 0 and found.zeroed == found.beside


class _Found(cst.CSTVisitor):
    """Counts in a piece of code what drops gradients, the steps with and without a scaler, and what drops gradients in
    the branch opposite to a scaler's step."""

    def __init__(self) -> None:
        self.zeroed = self.scaled = self.plain = self.beside = 0
        self.by_hand = False
        """Whether gradients are worked on in a way that may drop them."""

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Attribute):
            name = node.func.attr.value
            self.zeroed += name == "zero_grad"
            self.scaled += name == "step" and bool(node.args)
            self.plain += name == "step" and not node.args

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool | None:
        dropped = isinstance(node.target, cst.Attribute) and node.target.attr.value == "grad"
        self.zeroed += dropped
        return not dropped

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.by_hand |= node.attr.value == "grad" or node.attr.value.startswith("_foreach_")

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        self.by_hand |= node.raw_value == "grad"

    def visit_If(self, node: cst.If) -> bool:
        node.test.visit(self)
        body, other = _Found(), _Found()
        node.body.visit(body)
        if node.orelse is not None:
            node.orelse.visit(other)
        for one, opposite in ((body, other), (other, body)):
            beside = one.zeroed and one.plain and not one.scaled and opposite.scaled and not opposite.zeroed
            self.beside += one.zeroed if beside else one.beside
            self.zeroed += one.zeroed
            self.scaled += one.scaled
            self.plain += one.plain
            self.by_hand |= one.by_hand
        return False
