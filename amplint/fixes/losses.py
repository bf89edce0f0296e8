"""Losses that CUDA autocast refuses, taken out of its regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.casts import as_float, shortened
from amplint.fixes.dependence import dotted, needs_region
from amplint.fixes.imports import qualified_name, torch_at
from amplint.fixes.openings import with_item
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.quotes import quoted
from amplint.fixes.scopes import scopes_of
from amplint.fixes.statements import Replacement, comments_of, exchanged, replaced, spliced

_LOSS = "binary_cross_entropy"
_MODULE = "torch.nn.BCELoss"
_LOGITS = "binary_cross_entropy_with_logits"
_SIGMOIDS = frozenset({"torch.sigmoid", "torch.nn.functional.sigmoid"})
_PARAMETERS = ("input", "target")
_KEEP_THE_DEVICE = frozenset(
    {
        "sigmoid",
        "float",
        "double",
        "half",
        "squeeze",
        "unsqueeze",
        "view",
        "reshape",
        "flatten",
        "detach",
        "clamp",
    }
)
_CREATORS = frozenset(
    {"ones_like", "zeros_like", "full_like", "rand_like", "empty_like", "tensor", "new_ones"}
)


@dataclass(frozen=True)
class LeaveLoss(FixBuilder):
    """Computes a binary cross entropy from the logits, or in a nested region with autocast off. ``device`` is the
    device of the region, if that is known; ``doubles`` are arguments in float64."""

    loss: Place
    device: str | None
    doubles: tuple[Place, ...] = ()

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe where it is always this loss: on CUDA it raises where it stands."""
        file = files.parsed(self.loss.path)
        call = file.find(cst.Call, self.loss.span)
        if call is None:
            return Refusal("the loss is not a call")
        if any(arg.star for arg in call.args):
            return Refusal("a star hides the arguments of the loss")
        changes = _from_logits(file, call)
        if changes is not None:
            module = exchanged(file, changes)
            return make_fix(f"Use `{_LOGITS}` on the logits", {file: module}, [(file, file.statement(call))])
        return self._nested(file, call)

    def _nested(self, file: ParsedFile, call: cst.Call) -> Fix | Refusal:
        statement = file.statement(call)
        if not isinstance(statement, cst.SimpleStatementLine):
            return Refusal("the loss stands in the head of a statement with a block")
        arguments = _arguments(call)
        if "input" not in arguments:
            return Refusal("the arguments of the loss are given in an unusual way")
        creators = {node for node in file.inside(cst.Call, self.loss.span) if _name(node) in _CREATORS}
        for arg in call.args:
            other = needs_region(arg, creators, powers=False)
            if other is not None:
                return Refusal(
                    f"`{shortened(file.code(other))}` in the same statement would run in float32, too"
                )
        other = needs_region(statement, {*creators, call}, powers=False)
        if other is not None:
            return Refusal(f"`{shortened(file.code(other))}` in the same statement would run in float32, too")
        kept = {place.span for place in self.doubles}
        always = _is_always(file, call)
        target = arguments.get("target")
        if not always and target is not None and target not in creators:
            kept.add(file.span(target))  # another loss may take indices
        casts: dict[cst.CSTNode, Replacement] = {
            node: as_float(node)
            for node in arguments.values()
            if file.span(node) not in kept
            and not (isinstance(node, cst.Call) and _name(node) in ("float", "double"))
        }
        changes: dict[cst.CSTNode, Replacement] = {}
        torch = torch_at(file, call, changes)
        context = cst.parse_expression(f"{torch}.autocast({self._device(file, arguments)}, enabled=False)")
        inner = replaced(statement, casts).with_changes(leading_lines=())
        changed = with_item(context, [inner]).with_changes(leading_lines=statement.leading_lines)
        changes.update(spliced(file, statement, [changed]))
        weight = next((arg for arg in call.args if arg.keyword and arg.keyword.value == "weight"), None)
        note = "the weight has to be float32, too" if weight is not None else ""
        if not always:
            note = f"`{shortened(file.code(call.func))}` may be another loss, too; a half target has to be float32"
        module = exchanged(file, changes)
        return make_fix(
            "Compute the loss with autocast off", {file: module}, [(file, statement)], unsafe=note
        )

    def _device(self, file: ParsedFile, arguments: dict[str, cst.BaseExpression]) -> str:
        for node in arguments.values():
            name = dotted(_tensor(file, node))
            if name is not None:
                return f"{name}.device.type"
        if self.device is None:
            raise Refusal("neither the device of the region nor that of an argument is known")
        return quoted(file, file.module, self.device).value


def _name(call: cst.Call) -> str:
    return (dotted(call.func) or "").rpartition(".")[2] or (
        call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    )


def _is_always(file: ParsedFile, call: cst.Call) -> bool:
    """Whether a call computes the loss whatever path led to it: its function is torch's, or is set once in the file,
    to a ``BCELoss``."""
    if qualified_name(file, call.func) == f"torch.nn.functional.{_LOSS}":
        return True
    made: cst.CSTNode | None = call.func
    if isinstance(call.func, cst.Name):
        scope = scopes_of(file).found(call.func.value, call.func)
        made = _set_once(file, scope.others.get(call.func.value, []) if scope is not None else [])
    elif isinstance(call.func, cst.Attribute):
        owner = dotted(call.func)
        targets = [
            target.target
            for target in file.nodes(cst.AssignTarget)
            if isinstance(target.target, cst.Attribute) and target.target.attr.value == call.func.attr.value
        ]
        same = len(targets) == 1 and owner is not None and dotted(targets[0]) == owner
        made = _set_once(file, targets) if same else None
    return isinstance(made, cst.Call) and qualified_name(file, made.func) == _MODULE


def _set_once(file: ParsedFile, targets: Sequence[cst.CSTNode]) -> cst.CSTNode | None:
    """What the one place among some gives that set a name, where it is a plain assignment."""
    if len(targets) != 1:
        return None
    target = file.parent(targets[0])
    assign = file.parent(target) if isinstance(target, cst.AssignTarget) else None
    return assign.value if isinstance(assign, cst.Assign) and len(assign.targets) == 1 else None


def _arguments(call: cst.Call) -> dict[str, cst.BaseExpression]:
    """Input and target of the loss."""
    found = {}
    for number, arg in enumerate(call.args):
        name = arg.keyword.value if arg.keyword is not None else (*_PARAMETERS, "", "")[min(number, 2)]
        if name in _PARAMETERS:
            found[name] = arg.value
    return found


def _tensor(file: ParsedFile, node: cst.BaseExpression) -> cst.BaseExpression:
    """A tensor that an expression is computed from, on the same device."""
    while isinstance(node, cst.Call):
        if qualified_name(file, node.func) in _SIGMOIDS and node.args:
            node = node.args[0].value
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value in _KEEP_THE_DEVICE:
            node = node.func.value
        else:
            break
    return node


def _from_logits(file: ParsedFile, call: cst.Call) -> dict[cst.CSTNode, Replacement] | None:
    """What to exchange for the loss to take the logits, or None where the sigmoid is no argument of it."""
    if qualified_name(file, call.func) != f"torch.nn.functional.{_LOSS}":
        return None
    value = _arguments(call).get("input")
    if not isinstance(call.func, cst.Attribute) or not isinstance(value, cst.Call):
        return None
    if qualified_name(file, value.func) in _SIGMOIDS:
        logits = value.args[0].value if len(value.args) == 1 and not value.args[0].star else None
    elif isinstance(value.func, cst.Attribute) and value.func.attr.value == "sigmoid" and not value.args:
        logits = value.func.value
    else:
        logits = None
    if logits is None or comments_of(value) - comments_of(logits):
        return None
    return {call.func.attr: cst.Name(_LOGITS), value: logits}
