"""What types the arguments of an autocast context or a scaler have."""

from __future__ import annotations

from amplint.events import Constructed, Given, Place
from amplint.flow.core.api import Api, Arguments
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.values import DeviceValue, DTypeValue
from amplint.flow.state.values import Choice, Constant, Number, Text, Value
from amplint.lowering import program as ir
from amplint.lowering.program import Node


def tell(api: Api, name: str, parameters: tuple[str, ...], arguments: Arguments, node: Node) -> None:
    """Tells what an autocast context or a scaler is made with: ``autocast(device, dtype=torch.float16)``.
    ``parameters`` are the positional ones of what is called. What stands in for other arguments that a release did not
    take, ``except TypeError:``, may be wrong for all others."""
    if api.in_fallback:
        return
    found: list[Given] = []
    for index, (parameter, value) in enumerate(zip(parameters, arguments.positional, strict=False)):
        text = arguments.nodes[index] if index < len(arguments.nodes) else node
        found.append(_given(parameter, value, text, api.place(text), positional=True))
    for parameter, value in arguments.keywords:
        if api.is_tried and parameter not in parameters:
            continue
        text = arguments.keyword_node(parameter) or node
        found.append(_given(parameter, value, text, api.place(text), positional=False))
    named = {key for key, _ in arguments.keywords}
    missing = bool(parameters) and parameters[0] == "device_type"
    missing = missing and not (arguments.positional or arguments.unclear or "device_type" in named)
    api.emit(Constructed(api.place(node), regions(api), name, tuple(found), missing))


def _given(parameter: str, value: Value, text: Node, place: Place, *, positional: bool) -> Given:
    kind: tuple[str, object]
    match value:
        case _ if _is_condition(text):
            # how it comes out differs from path to path; what kind of value it is does not
            kind = "bool", None
        case Constant(value=bool()):
            kind = "bool", value.value
        case Choice():
            kind = "bool", None
        case Constant(value=str()):
            kind = "str", value.value
        case Constant(value=None):
            kind = "None", None
        case Constant(value=int() | float()) | Number():
            kind = "number", None
        case Text():
            kind = "str", f"{value.start}…"
        case DTypeValue():
            kind = "torch.dtype", value.dtype
        case DeviceValue():
            kind = "torch.device", value.text or value.device
        case _:
            kind = "unknown", None
    return Given(parameter, *kind, place, positional)


def _is_condition(text: Node) -> bool:
    """Whether an expression is a comparison or a negation, which give a bool whatever they are about."""
    return isinstance(text, ir.Compare) or (isinstance(text, ir.Unary) and text.operator == "not")
