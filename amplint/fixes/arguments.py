"""Arguments put into calls, with the commas and line breaks that the calls have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import libcst as cst

from amplint.findings import Span
from amplint.fixes.parsed import ParsedFile
from amplint.fixes.statements import Replacement, comments_of

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
        if comments_of(comma):
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        if comments_of(last.comma):
            # a comment behind the last argument belongs to that one
            return call.with_changes(args=[*args[:-1], *_after_comment(call, last, arg)])
        args[-1] = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
        return call.with_changes(args=[*args, arg])
    arg = arg.with_changes(whitespace_after_arg=last.whitespace_after_arg)
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    args[-1] = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*args, arg])


def put_first(call: cst.Call, arg: cst.Arg) -> cst.Call:
    """A call with one more argument in front, spaced as its others are."""
    if not call.args:
        return call.with_changes(args=[arg])
    if arg.keyword is not None:
        equal = next((other.equal for other in call.args if other.keyword is not None), arg.equal)
        arg = arg.with_changes(equal=equal)
    space = call.whitespace_before_args
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    if isinstance(space, cst.ParenthesizedWhitespace):
        line = cst.ParenthesizedWhitespace(indent=space.indent, last_line=space.last_line)
        comma = cst.Comma(whitespace_after=line)
        return call.with_changes(args=[arg.with_changes(comma=comma), *_one_a_line(call.args, comma)])
    return call.with_changes(args=[arg.with_changes(comma=comma), *call.args])


def _one_a_line(args: Sequence[cst.Arg], between: cst.Comma) -> Sequence[cst.Arg]:
    """The arguments that stand on one line between the brackets, without a comma at the end: with one more there, each
    has a line and a comma of its own, as formatters write it."""
    last = args[-1]
    end = last.whitespace_after_arg
    if isinstance(last.comma, cst.Comma) or not isinstance(end, cst.ParenthesizedWhitespace):
        return args
    commas = [arg.comma for arg in args if isinstance(arg.comma, cst.Comma)]
    if any(isinstance(comma.whitespace_after, cst.ParenthesizedWhitespace) for comma in commas):
        return args
    own = last.with_changes(
        comma=cst.Comma(whitespace_after=end), whitespace_after_arg=cst.SimpleWhitespace("")
    )
    return [*(arg.with_changes(comma=between) for arg in args[:-1]), own]


def fitted(file: ParsedFile, old: cst.Call, new: cst.Call, length: int) -> cst.Call:
    """A call that takes the place of another one, with its arguments on lines of their own if its line would be too
    long and was not before, a comment at its end aside: on one line together if they fit, else each on its own."""
    code, span = file.code(new), file.span(old)
    if "\n" in code or "\r" in code or not new.args or not _begins_on_its_line(file, old):
        return new
    line = file.line_text(span.line)
    comments = file.inside(cst.Comment, Span(span.line, 1, span.line, len(line) + 1))
    if comments:
        line = line[: file.span(comments[0]).column - 1].rstrip()
    rest = line[span.end_column - 1 :]
    if len(line) > length or len(line[: span.column - 1] + code + rest) <= length:
        return new
    line_indent = line[: len(line) - len(line.lstrip())]
    inner = len((line_indent + file.module.default_indent).expandtabs(4))
    arguments = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in new.args]
    one_line = inner + len(", ".join(file.code(arg) for arg in arguments)) <= length
    between = cst.SimpleWhitespace(" ") if one_line else _new_line(file.module.default_indent)
    args = [arg.with_changes(comma=cst.Comma(whitespace_after=between)) for arg in arguments]
    end = _new_line("")
    last = arguments[-1]
    args[-1] = (
        last.with_changes(whitespace_after_arg=end)
        if one_line
        else last.with_changes(comma=cst.Comma(whitespace_after=end))
    )
    return new.with_changes(whitespace_before_args=_new_line(file.module.default_indent), args=args)


def on_lines(
    file: ParsedFile, changes: Mapping[cst.CSTNode, Replacement], length: int
) -> Mapping[cst.CSTNode, Replacement]:
    """What is exchanged for arguments of a call, or for the call where its line would become too long."""
    calls = {file.parent(arg) for node in changes if isinstance(arg := file.parent(node), cst.Arg)}
    call = calls.pop() if len(calls) == 1 else None
    if not isinstance(call, cst.Call) or not changes.keys() <= {arg.value for arg in call.args}:
        return changes
    args = [arg.with_changes(value=changes.get(arg.value, arg.value)) for arg in call.args]
    changed = call.with_changes(args=args)
    broken = fitted(file, call, changed, length)
    return changes if broken is changed else {call: broken}


def _begins_on_its_line(file: ParsedFile, call: cst.Call) -> bool:
    """Whether a call stands, as a whole, on the first line of its statement or of a decorator, and in no f-string."""
    span = file.span(call)
    around = list(file.parents(call))
    if span.end_line != span.line or any(isinstance(node, cst.FormattedString) for node in around):
        return False
    decorator = next((node for node in around if isinstance(node, cst.Decorator)), None)
    return file.span(decorator or file.statement(call)).line == span.line


def _new_line(further: str) -> cst.ParenthesizedWhitespace:
    return cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(further))


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
    if isinstance(old.comma, cst.Comma) and comments_of(old.comma):
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
