"""What the methods of an autograd Function do about autocast, read off their trees."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from amplint.amp.ops import CASTS, INTEGERS

PRODUCTS = frozenset(
    {"matmul", "mm", "bmm", "addmm", "addbmm", "baddbmm", "einsum", "linear"}
    | {
        f"conv{transposed}{dimensions}d{gradient}"
        for transposed in ("", "_transpose")
        for dimensions in (1, 2, 3)
        for gradient in ("", "_input", "_weight")
    }
)
"""Matrix products and convolutions."""
_TYPES = frozenset({"dtype", "float16", "bfloat16"})


def minds_types(parts: Iterable[ast.AST]) -> bool:
    """Whether a method, statements and decorators, minds autocast or types by itself."""
    return any(_minds(node) for part in parts for node in ast.walk(part))


def _minds(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name)) if name in CASTS:
            return not _to_integers(node)
        case ast.keyword(arg=str(name)) | ast.Attribute(attr=name) | ast.Name(id=name):
            return name in _TYPES or "autocast" in name
    return False


def _to_integers(call: ast.Call) -> bool:
    """``x.to(torch.int8)``: says nothing of the type of what is computed with."""
    names = [part.attr for part in call.args if isinstance(part, ast.Attribute)]
    return bool(names) and INTEGERS.issuperset(names)


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
                and node.func.attr in PRODUCTS
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
