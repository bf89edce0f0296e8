"""Arguments put into calls, with the commas and line breaks that the calls have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import libcst as cst

Item = TypeVar("Item", cst.Arg, cst.Param)


def keyword(name: str, value: cst.BaseExpression) -> cst.Arg:
    """``name=value``."""
    equal = cst.AssignEqual(
        whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace("")
    )
    return cst.Arg(keyword=cst.Name(name), value=value, equal=equal)


def set_argument(call: cst.Call, number: int, arg: cst.Arg) -> cst.Call:
    """A call with one argument replaced or, after the last, added."""
    args = list(call.args)
    if number < len(args):
        args[number] = arg
        return call.with_changes(args=args)
    if not args:
        return call.with_changes(args=[arg])
    last = args[-1]
    if isinstance(last.comma, cst.Comma):
        # the comma that ends the list stays at its end; the space between the others shows how to go on
        arg = arg.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
        between = args[-2].comma if len(args) > 1 else call.whitespace_before_args
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        if isinstance(between, cst.Comma):
            comma = between
        elif isinstance(between, cst.ParenthesizedWhitespace):
            comma = cst.Comma(whitespace_after=between)
        if _has_comment(comma):
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        if _has_comment(last.comma):
            # a comment behind the last argument belongs to that one
            return call.with_changes(args=[*args[:-1], *_after_comment(call, last, arg)])
        args[-1] = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
        return call.with_changes(args=[*args, arg])
    arg = arg.with_changes(whitespace_after_arg=last.whitespace_after_arg)
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    args[-1] = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*args, arg])


def put_first(call: cst.Call, arg: cst.Arg) -> cst.Call:
    """A call with one more argument in front."""
    if not call.args:
        return call.with_changes(args=[arg])
    space = call.whitespace_before_args
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    if isinstance(space, cst.ParenthesizedWhitespace):
        line = cst.ParenthesizedWhitespace(indent=space.indent, last_line=space.last_line)
        comma = cst.Comma(whitespace_after=line)
    return call.with_changes(args=[arg.with_changes(comma=comma), *call.args])


def put_after(items: Sequence[Item], number: int, new: Item) -> list[Item]:
    """Arguments or parameters with one more behind another one, with the commas and line breaks that they have."""
    result = list(items)
    old, between = items[number], items[0].comma if len(items) > 1 else None
    space = between.whitespace_after if isinstance(between, cst.Comma) else cst.SimpleWhitespace(" ")
    if isinstance(space, cst.ParenthesizedWhitespace):
        space = cst.ParenthesizedWhitespace(indent=space.indent, last_line=space.last_line)
    comma = cst.Comma(whitespace_after=space)
    if number + 1 < len(items):
        result.insert(number + 1, new.with_changes(comma=comma))
        return result
    if isinstance(old.comma, cst.Comma) and _has_comment(old.comma):
        # the comment behind the last one belongs to that one
        result.append(new.with_changes(comma=comma))
        return result
    last = "whitespace_after_arg" if isinstance(old, cst.Arg) else "whitespace_after_param"
    result[number] = old.with_changes(comma=comma, **{last: cst.SimpleWhitespace("")})
    result.append(new.with_changes(comma=old.comma, **{last: getattr(old, last)}))
    return result


def _after_comment(call: cst.Call, last: cst.Arg, arg: cst.Arg) -> list[cst.Arg]:
    assert isinstance(last.comma, cst.Comma)
    space = call.whitespace_before_args
    after = last.comma.whitespace_after
    if isinstance(after, cst.ParenthesizedWhitespace) and isinstance(space, cst.ParenthesizedWhitespace):
        between = after.with_changes(indent=space.indent, last_line=space.last_line)
        closing = cst.ParenthesizedWhitespace(indent=after.indent, last_line=after.last_line)
        return [
            last.with_changes(comma=last.comma.with_changes(whitespace_after=between)),
            arg.with_changes(comma=cst.Comma(whitespace_after=closing)),
        ]
    return [last, arg]


def _has_comment(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Comment) or any(_has_comment(child) for child in node.children)
