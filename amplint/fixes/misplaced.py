"""Arguments given by the name of the parameter that they belong to."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.arguments import fitted, keyword, put_first
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.devices import device_type
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.quotes import quoted
from amplint.fixes.statements import Replacement, comments_of, exchanged


@dataclass(frozen=True)
class Misplaced:
    """An argument that stands in the wrong place: the parameter that it belongs to, "" to leave it out.
    ``device``: it is a torch.device where the string is wanted."""

    argument: Place
    parameter: str
    device: bool = False


@dataclass(frozen=True)
class NameArguments(FixBuilder):
    """Names the arguments of a call that stand in the wrong place, and the positional ones after them.
    ``parameters`` is the signature; ``device`` is a device to put in front; ``doubt`` says why another may be
    meant."""

    call: Place
    parameters: tuple[str, ...]
    misplaced: tuple[Misplaced, ...]
    device: str = ""
    doubt: str = ""

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe where the type of each argument says what it is meant for."""
        file = files.parsed(self.call.path)
        call = file.find(cst.Call, self.call.span)
        if call is None:
            return Refusal("the call is not found")
        if any(arg.star for arg in call.args):
            return Refusal("a star hides which arguments are given")
        changes: dict[cst.CSTNode, Replacement] = {}
        args = self._arranged(file, call, changes)
        new = call.with_changes(args=args)
        if not args:
            new = new.with_changes(whitespace_before_args=cst.SimpleWhitespace(""))
        if self.device:
            new = put_first(new, cst.Arg(value=quoted(file, call, self.device)))
        lost = comments_of(call) - comments_of(new)
        if lost:
            return Refusal(f"the comment `{next(iter(lost))}` would be lost")
        changes[call] = fitted(file, call, new, files.line_length)
        names = [part.parameter for part in self.misplaced if part.parameter]
        title = f"Give `{names[0]}` by keyword" if names else "Leave the device out"
        return make_fix(title, {file: exchanged(file, changes)}, unsafe=self.doubt)

    def _arranged(
        self, file: ParsedFile, call: cst.Call, changes: dict[cst.CSTNode, Replacement]
    ) -> list[cst.Arg]:
        places = {part.argument.span: part for part in self.misplaced}
        args: list[cst.Arg] = []
        given: list[str] = []
        moved = False
        for number, arg in enumerate(call.args):
            part = places.pop(file.span(arg.value), None)
            if part is None:
                name = arg.keyword.value if arg.keyword is not None else self.parameters[number]
            else:
                name = part.parameter
                moved = True
                if not name:
                    continue
                if part.device:
                    arg = arg.with_changes(value=device_type(file, arg.value, changes))
            if (moved and arg.keyword is None) or (arg.keyword is not None and arg.keyword.value != name):
                named = keyword(name, arg.value)
                arg = arg.with_changes(keyword=named.keyword, equal=named.equal)
            args.append(arg)
            given.append(name)
        if places:
            raise Refusal("the argument is not written where the class is called")
        twice = next((name for name in given if given.count(name) > 1), None)
        if twice is not None:
            raise Refusal(f"`{twice}` is given already")
        if args and args[-1].value is not call.args[-1].value and call.args[-1] not in args:
            last = call.args[-1]
            if not any(arg.value is last.value for arg in args):
                args[-1] = args[-1].with_changes(
                    comma=last.comma, whitespace_after_arg=last.whitespace_after_arg
                )
        return args
