"""Calls that a framework has a method of its own for."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from amplint.events import Framework, Place
from amplint.findings import Fix
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.dependence import dotted
from amplint.fixes.made import function_around
from amplint.fixes.parsed import Refusal
from amplint.fixes.scaling import call_at, receiver_of
from amplint.fixes.statements import exchanged


@dataclass(frozen=True)
class ClipThroughFramework(FixBuilder):
    """Clips with the method of the object whose ``backward`` has scaled the gradients."""

    clip: Place
    backward: Place
    framework: Framework

    def offer(self, files: Files) -> Fix | Refusal:
        """Unsafe: the method unscales the gradients of all optimizers, and may do so once for each step."""
        taken = dict(self.framework.stands_for)
        if self.framework.hook:
            return Refusal(f"the clip belongs into `{self.framework.hook}`")
        if not taken:
            return Refusal(f"`{self.framework.clips}` takes other arguments")
        if self.clip.path != self.backward.path:
            return Refusal("the backward pass is in another file")
        file = files.parsed(self.clip.path)
        call, backward = call_at(file, self.clip), call_at(file, self.backward)
        if function_around(file, call) is not function_around(file, backward):
            return Refusal("the backward pass is in another function")
        own = (dotted(call.func) or "").rpartition(".")[2]
        if own not in taken:
            return Refusal(f"the framework has no method for `{file.code(call.func)}`")
        if len(call.args) > len(taken[own]) or any(
            argument.star or (argument.keyword is not None and argument.keyword.value not in taken[own])
            for argument in call.args
        ):
            return Refusal("the framework's method does not take all of the arguments")
        method = f"{receiver_of(backward)}.{own}"
        function = cst.parse_expression(method)
        module = exchanged(file, {call: call.with_changes(func=function)})
        return make_fix(
            f"Clip with `{method}`",
            {file: module},
            [(file, file.statement(call))],
            unsafe="it divides the gradients of all prepared optimizers and may run once for each step: where "
            "gradients are accumulated, only in the round that steps",
        )
