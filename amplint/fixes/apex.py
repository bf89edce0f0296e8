"""Programs that train with apex.amp brought to torch.amp: autocast around the forward and one GradScaler.

It takes two steps. The first leaves a program that runs in a region and scales nothing: ``scale_loss`` is gone and
``initialize`` is the place where a scaler is made. The second is what every float16 program without a scaler gets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import libcst as cst

from amplint.findings import Fix, Span
from amplint.fixes.apex_calls import STATES, ApexCalls
from amplint.fixes.apex_optional import unconditional
from amplint.fixes.apex_removal import WithoutApex
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.dependence import dotted
from amplint.fixes.imports import uses_of
from amplint.fixes.made import class_around, function_around
from amplint.fixes.new_scaler import FOLLOWS, Origin, Plan, scale
from amplint.fixes.parsed import ParsedFile, Refusal

_KEY, _OLD_KEY = "scaler", "amp"
_MOST_CALLS = 4


@dataclass(frozen=True)
class MigrateApex(FixBuilder):
    """Migrates the file that calls ``amp.initialize`` and all that it does with apex.amp."""

    path: str

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: other ops run in half precision, and weights are float32."""
        file = files.parsed(self.path)
        calls = ApexCalls(unconditional(file))
        text = WithoutApex(calls, files).module().code
        scaling = _Scaling(files, file, text, calls)
        for binding in calls.bindings:
            if binding.target != "apex" and uses_of(scaling.file, binding.name):
                return Refusal(f"`{binding.name}` is used in an unusual place")
        module = scaling.module()
        note = "; ".join(["other ops run in half precision than under apex", *calls.notes])
        title = "Use torch.autocast and a GradScaler instead of apex.amp"
        return replace(make_fix(title, {file: module}, unsafe=note), brings=FOLLOWS)


class _Scaling(Plan):
    """The second step: the losses are scaled, and the scaler is handed on to where they are."""

    def __init__(self, files: Files, before: ParsedFile, text: str, calls: ApexCalls) -> None:
        """``text`` is that of the file between the steps, ``before`` the file as it is."""

        def sites(path: str, name: str) -> tuple[tuple[str, Span], ...] | None:
            known = files.call_sites(before.path, name)
            if known is None or any(path != before.path for path, _ in known):
                return None
            found = [call for call in self.file.nodes(cst.Call) if dotted(call.func) == name]
            return tuple((path, self.file.span(call)) for call in found) if len(found) == len(known) else None

        super().__init__(files.halfway(before.path, text, sites))
        self.file = self.files.parsed(before.path)
        self.calls = calls
        self._plain = calls.scaler.removeprefix("self.")
        self.made = next(
            assign
            for assign in self.file.nodes(cst.Assign)
            if dotted(assign.targets[0].target) == calls.scaler
        )

    def origin(self, file: ParsedFile, name: str, at: cst.CSTNode) -> Origin:
        """The scaler stands where ``initialize`` did. Raises Refusal."""
        if name in self.calls.optimizers:
            if name.startswith("self."):
                if class_around(file, at) is class_around(file, self.made):
                    return Origin(file, self.made.value, name)
            elif function_around(file, self.made) in (function_around(file, at), file.module):
                return Origin(file, self.made.value, name)
        raise Refusal(f"`{name}` is not what `amp.initialize` is given in the same function or class")

    def module(self) -> cst.Module:
        """The migrated file. Raises Refusal."""
        file = self.file
        self.nodes.setdefault(file, {})
        functions = {
            function_around(file, call): None
            for call in file.nodes(cst.Call)
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"
        }
        for function in functions:
            self._scale(function)
        self._states(file)
        hand_on = {(one.func.__name__, id(one.args[1])): one for one in reversed(self.pending)}
        for once in hand_on.values():
            once()
        return self.modules()[file]

    def _scale(self, function: cst.FunctionDef | cst.Module) -> None:
        """Scales the losses of a function. Raises Refusal."""
        file, scaled = self.file, {name for name, _ in self.calls.scaled}
        steps = [
            call
            for call in file.inside(cst.Call, file.span(function))
            if function_around(file, call) is function and _stepped(call) in scaled
        ]
        if not steps:
            raise Refusal("the optimizer steps in another function than that of the backward pass")
        own = sorted({_stepped(call) for call in steps})
        for name in own:
            self.origins(file, function, name, steps[0], _MOST_CALLS)
        scaler = f"self.{self._plain}" if own[0].startswith("self.") else self._plain
        scale(self, file, function, own, scaler)

    def _states(self, file: ParsedFile) -> None:
        """The scaler's state in the place of apex's, under a key of its own. Raises Refusal."""
        nodes = self.nodes.setdefault(file, {})
        for call in file.nodes(cst.Call):
            name = dotted(call.func)
            if name not in STATES.values():
                continue
            self.origin(file, self.calls.optimizers[0], call)
            scaler = self.calls.scaler
            if name == STATES["state_dict"]:
                nodes.update(_renamed(file, call))
                nodes[call] = cst.parse_expression(f"{scaler}.state_dict()")
            else:
                self._loads(file, call, scaler)

    def _loads(self, file: ParsedFile, call: cst.Call, scaler: str) -> None:
        statement = file.statement(call)
        value = call.args[0].value if len(call.args) == 1 else None
        match value:
            case cst.Subscript(
                value=checkpoint,
                slice=[cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString() as key))],
            ) if (
                _is_old_key(key)
                and dotted(checkpoint) is not None
                and isinstance(file.parent(call), cst.Expr)
                and isinstance(statement, cst.SimpleStatementLine)
                and len(statement.body) == 1
            ):
                name = dotted(checkpoint)
                code = f'if {name}.get("{_KEY}"):\n    {scaler}.load_state_dict({name}["{_KEY}"])\n'
                new = cst.parse_statement(code, config=file.module.config_for_parsing)
                assert isinstance(new, cst.If)
                inner = new.body.body[0]
                assert isinstance(inner, cst.SimpleStatementLine)
                kept = inner.with_changes(trailing_whitespace=statement.trailing_whitespace)
                body = new.body.with_changes(body=[kept])
                self.nodes[file][statement] = new.with_changes(
                    leading_lines=statement.leading_lines, body=body
                )
            case _:
                raise Refusal(
                    "the state of apex is loaded in an unusual way, and a GradScaler does not read it"
                )


def _stepped(call: cst.Call) -> str:
    """What a call steps, or ""."""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value != "step" or call.args:
        return ""
    return dotted(func.value) or ""


def _renamed(file: ParsedFile, call: cst.Call) -> dict[cst.CSTNode, cst.CSTNode]:
    """What to exchange for a state to have the key of a scaler. Raises Refusal."""
    part = file.parent(call)
    key: cst.CSTNode | None = None
    if isinstance(part, cst.DictElement):
        key = part.key
    elif isinstance(part, cst.Arg) and part.keyword is not None and part.keyword.value == _OLD_KEY:
        return {part.keyword: cst.Name(_KEY)}
    elif isinstance(part, cst.Assign) and isinstance(part.targets[0].target, cst.Subscript):
        index = part.targets[0].target.slice[0].slice
        key = index.value if isinstance(index, cst.Index) else None
    if not isinstance(key, cst.SimpleString) or not _is_old_key(key):
        raise Refusal(f'the state of apex is not saved under "{_OLD_KEY}", and a GradScaler has another')
    return {key: key.with_changes(value=f"{key.quote}{_KEY}{key.quote}")}


def _is_old_key(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleString) and len(node.quote) == 1 and node.evaluated_value == _OLD_KEY
