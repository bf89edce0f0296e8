"""What the methods of an autograd Function do about autocast, read off their text."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

_MINDS_TYPES = re.compile(
    r"autocast|\.to\((?!torch\.(?:u?int|long|short|bool))|\.type(?:_as)?\(|\.(?:float|half|bfloat16|double)\(|dtype|float16"
)
_PRODUCTS = re.compile(r"matmul|b?mm|(?:ba)?ddb?mm|einsum|linear|conv(?:_transpose)?\dd(?:_input|_weight)?")


def minds_types(text: str) -> bool:
    """Whether a method minds autocast or types by itself."""
    return _MINDS_TYPES.search(text) is not None


def hands_on(body: Sequence[ast.stmt], context: str) -> bool:
    """Whether ``ctx`` itself is an argument of a call, or gets what custom_fwd would note on it."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and any(
                isinstance(part, ast.Name) and part.id == context for part in node.args
            ):
                return True
            if isinstance(node, ast.Attribute) and node.attr == "_fwd_used_autocast":
                return True
    return False


def multiplies(body: Sequence[ast.stmt]) -> bool:
    """Whether matrix products or convolutions are among the calls."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
                return True
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and _PRODUCTS.fullmatch(node.func.attr)
            ):
                return True
    return False


def is_attribute_of(context: str, part: ast.expr) -> bool:
    """Whether an expression is what was saved on ``ctx``."""
    return isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == context


def by_name(parameters: tuple[str, ...], node: ast.Call) -> dict[str, ast.expr]:
    """The arguments of a call by the parameters that they are for."""
    named = dict(zip(parameters, node.args, strict=False))
    named.update((part.arg or "**", part.value) for part in node.keywords)
    return named
