"""The dtype of autocast written as one that it can run in."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.arguments import keyword
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.imports import torch_at
from amplint.fixes.parsed import Refusal
from amplint.fixes.statements import Replacement, comments_of, exchanged

_TYPES = {
    "float16": "float16",
    "half": "float16",
    "fp16": "float16",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
}


@dataclass(frozen=True)
class WriteDtype(FixBuilder):
    """Gives autocast the dtype that a string names."""

    argument: Place
    name: str

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the region runs for the first time."""
        file = files.parsed(self.argument.path)
        node = file.expression(self.argument.span)
        meant = _TYPES.get(self.name.rpartition(".")[2].lower())
        if node is None or not isinstance(file.parent(node), cst.Arg):
            return Refusal("the type is not written where autocast is called")
        if meant is None:
            return Refusal(f"autocast has no type of the name {self.name!r}")
        changes: dict[cst.CSTNode, Replacement] = {}
        torch = torch_at(file, node, changes)
        if isinstance(node, cst.SimpleString):
            new: cst.BaseExpression = cst.parse_expression(f"{torch}.{meant}")
        elif self.name in ("float16", "half", "bfloat16"):
            given = [cst.Name(torch), node]
            new = cst.Call(func=cst.Name("getattr"), args=[cst.Arg(value=part) for part in given])
        else:
            return Refusal(f"torch has no type of the name {self.name!r}, and the string is made elsewhere")
        changes[node] = new
        note = "the region raised so far: what is in it runs in half precision for the first time"
        return make_fix(f"Write `{file.code(new)}`", {file: exchanged(file, changes)}, unsafe=note)


@dataclass(frozen=True)
class SwitchOff(FixBuilder):
    """Writes ``enabled=False`` for a type that switches the region off."""

    call: Place
    argument: Place
    parameters: tuple[str, ...]

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the region may be meant to be on."""
        file = files.parsed(self.call.path)
        call = file.find(cst.Call, self.call.span)
        if call is None or any(arg.star for arg in call.args):
            return Refusal("the call that makes the region is not found")
        given = [
            arg.keyword.value if arg.keyword is not None else self.parameters[number]
            for number, arg in enumerate(call.args)
        ]
        at = next((n for n, arg in enumerate(call.args) if file.span(arg.value) == self.argument.span), None)
        if at is None:
            return Refusal("the type is not written where the region is made")
        if any(arg.keyword is None for arg in call.args[at + 1 :]):
            return Refusal("positional arguments follow")
        args = list(call.args)
        off = cst.Name("False")
        if "enabled" in given:
            flag = given.index("enabled")
            args[flag] = args[flag].with_changes(value=off)
            gone = args.pop(at)
            if at == len(args):
                args[-1] = args[-1].with_changes(
                    comma=gone.comma, whitespace_after_arg=gone.whitespace_after_arg
                )
        else:
            named = keyword("enabled", off)
            args[at] = args[at].with_changes(keyword=named.keyword, equal=named.equal, value=off)
        new = call.with_changes(args=args)
        lost = comments_of(call) - comments_of(new)
        if lost:
            return Refusal(f"the comment `{next(iter(lost))}` would be lost")
        note = "the region stays off, as it is now; write `torch.bfloat16` if it is meant to be on"
        return make_fix("Write `enabled=False`", {file: exchanged(file, {call: new})}, unsafe=note)
