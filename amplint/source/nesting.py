"""Guards LibCST against code that is nested too deeply for it.

Measured with libcst 1.9.0 on Linux with the usual stack of 8 MiB: the native parser overflows the stack,
which kills the process without an exception, at 1,200 nested parentheses, at 10,000 terms of ``a + b + …`` or
``a and b and …``, at 10,000 ``elif`` branches and at 10,000 links of ``a.b.c…``; its time grows with the
square of the depth (3,000 links of ``a.b().b()…`` take 11 s). A LibCST visitor needs up to six Python frames
a level, so at Python's default recursion limit of 1,000 it fails at about 160 levels.

``ast.parse`` refuses brackets nested more than 200 deep, and some other shapes, with SyntaxError, MemoryError
or RecursionError. It lets ``and``/``or`` chains, ``elif`` chains and attribute chains through: those are
counted here.
"""

from __future__ import annotations

import ast
import sys

from amplint.source.outline import children

LIMIT = 400
"""Levels up to which LibCST is safe and quick."""

RECURSION_LIMIT = 10_000 if sys.version_info >= (3, 11) else 5_000
"""Python's recursion limit while code of up to ``LIMIT`` levels is analysed. Up to 3.10 each Python call
takes some 600 bytes of the native stack."""


def too_deep(tree: ast.AST, limit: int = LIMIT) -> bool:
    """Whether the code is nested more deeply than ``limit`` levels, counted as LibCST nests its nodes."""
    pending = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        if isinstance(node, ast.BoolOp):
            depth += len(node.values) - 1  # one node for ast, a chain of nodes for LibCST
        if depth > limit:
            return True
        depth += 1
        for child in children(node):
            if not isinstance(child, (ast.expr, ast.stmt)) or depth + _most_levels(child, limit) > limit:
                pending.append((child, depth))
    return False


def _most_levels(node: ast.expr | ast.stmt, limit: int) -> int:
    """How deep a node on one line may be: each level takes at least one character, but for an expression that stands
    as a statement."""
    if node.end_lineno != node.lineno or node.end_col_offset is None:
        return limit + 1
    return node.end_col_offset - node.col_offset + 1
