"""Devices as values, and questions about the machine: ``torch.device("cuda")``, ``torch.cuda.is_available()``."""

from __future__ import annotations

from dataclasses import dataclass

from amplint.amp.regions import ABOUT_THE_MACHINE, NO_TYPES_OF_DEVICES
from amplint.amp.versions import compare
from amplint.events import Place
from amplint.flow.core.api import Api, Arguments, Dead
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.notes import ComparedAsText, UsedAsType
from amplint.flow.models.torch.releases import bounds_of
from amplint.flow.models.torch.values import DeviceValue
from amplint.flow.state.atoms import equals
from amplint.flow.state.conditions import asked, both, choice, negation
from amplint.flow.state.symbols import AT, Symbol, symbol
from amplint.flow.state.values import FALSE, TRUE, Constant, Note, Number, Text, Unknown, Value
from amplint.lowering.program import Node

models = Registry()

EMULATED_SINCE = (2, 3)
"""Since this release CUDA devices without bfloat16 say that they have it: they compute in float32."""


@dataclass(frozen=True, slots=True)
class UsedAsDevice(Note):
    """An unknown was given as a device: ``torch.zeros(2, device=x)``, ``model.to(x)``, ``batch.to(x)``."""

    def joined(self, other: Note | None) -> Note:
        """What one path shows of a value holds on the other, too."""
        return self


@models.call("torch.device", "torch.cuda.device", "torch.types.Device")
def _made(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    if name != "torch.device":
        return None
    given = arguments.get(0, "type")
    tell_device(api, given)
    made = device_of(api, given)
    if made.device in NO_TYPES_OF_DEVICES:
        raise Dead
    return made


def device_of(api: Api, value: Value | None) -> DeviceValue:
    """``torch.device(value)``."""
    match value:
        case DeviceValue():
            return value
        case Constant(value=str() as text):
            return DeviceValue(text.split(":")[0], text)
        case Constant(value=int()):
            return DeviceValue("cuda")
        case Text() if ":" in value.start:
            return DeviceValue(value.start.split(":")[0], f"{value.start}…")
        case Unknown():
            return DeviceValue(symbol=symbol("device", value.symbol))
        case Number():
            return DeviceValue(symbol=symbol("device", value.symbol))
        case Text() if value.symbol is not None:
            return DeviceValue(symbol=symbol("device", value.symbol))
    return DeviceValue()


@models.into(models.attributes, DeviceValue)
def _attribute(api: Api, base: DeviceValue, name: str, node: Node) -> Value | None:
    """``device.type``."""
    if name == "type":
        if base.device is not None:
            return Constant(base.device)
        return Unknown(symbol("type of", base.symbol)) if base.symbol is not None else api.unknown(node)
    return api.unknown(node) if name == "index" else None


@models.into(models.operators, DeviceValue)
def _compare(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``device == torch.device("cpu")``. A device and a text, ``device == "cpu"``, are never the same. What the author
    meant to do where they are is walked all the same."""
    if operator not in ("==", "!=") or right is None:
        return None
    yes, no = (TRUE, FALSE) if operator == "==" else (FALSE, TRUE)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, DeviceValue) and isinstance(other, Constant) and isinstance(other.value, str):
            api.set_note(_as_text(other.value), ComparedAsText(api.place(node)))
            return choice(_as_text(other.value), yes, no)
        if isinstance(one, DeviceValue) and isinstance(other, DeviceValue) and other.device is not None:
            if one.device is not None:
                if one.device != other.device:
                    return no
                if any(text is None or text.endswith("…") for text in (one.text, other.text)):
                    return None
                return yes if one.text == other.text else no  # ``cuda`` and ``cuda:0`` are two
            if one.symbol is not None:
                return choice(equals(one.symbol, Constant(other.device)), yes, no)
    return None


def _as_text(name: str) -> Symbol:
    """Stands for the question whether a torch.device is the text of its type. It is not."""
    return symbol("device as text", name)


def never(api: Api, flag: Value | None) -> Place | None:
    """The comparison of a torch.device with a text that would have to be true for a flag to be, or for this path to be
    taken."""
    truth = api.truth(flag) if flag is not None else TRUE
    if api.known_truth(truth) is False:
        return None
    for name in ("cuda", "cpu", "mps"):
        compared = api.notes(_as_text(name), ComparedAsText)
        if compared and api.known_truth(both(negation(asked(_as_text(name))), truth)) is False:
            return compared[0].place
    return None


@models.method(DeviceValue, "__str__", "__format__")
def _text(api: Api, base: DeviceValue, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``str(device)``."""
    if base.text is None:
        return Unknown(symbol("text of", base.symbol)) if base.symbol is not None else None
    return Text(base.text[:-1]) if base.text.endswith("…") else Constant(base.text)


@models.call("torch.cuda.is_available")
def _has_cuda(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """What is linted is the run on the device that AMP is for."""
    return TRUE if api.settings.device == "cuda" else Unknown(symbol(name))


@models.call("torch.cuda.is_bf16_supported")
def _has_bfloat16(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    """Since torch 2.3 each CUDA device has it, if by emulation; ``including_emulation=False`` asks for more."""
    asks_for_more = arguments.get(0, "including_emulation") not in (None, TRUE) or arguments.unclear
    on_all = compare(bounds_of(api), ">=", EMULATED_SINCE) is True and api.settings.device == "cuda"
    return TRUE if on_all and not asks_for_more else about_the_machine(name, arguments)


def about_the_machine(name: str, arguments: Arguments) -> Value | None:
    """What a function says of the machine, which does not change while a program runs; None for other functions."""
    if arguments.all or ABOUT_THE_MACHINE.fullmatch(name) is None:
        return None
    return Unknown(symbol(name))


# one unknown argument --------------------------------------------------------------------------------------------


def tell_type(api: Api, value: Value | None) -> None:
    """Notes that an unknown was given as a type."""
    if isinstance(value, Unknown) and value.kind is None:
        api.set_note(value.symbol, UsedAsType())


def tell_device(api: Api, value: Value | None) -> None:
    """Notes that an unknown was given as a device."""
    if isinstance(value, Unknown):
        api.set_note(value.symbol, UsedAsDevice())


def may_be_dtype(api: Api, value: Value, *, computed: bool) -> bool:
    """Whether ``x.to(value)`` may be a cast. One unknown argument is nearly always a device, which leaves the type
    alone; it may be a type if it was read as one, ``model.dtype``, was given as one before, or is what a call out of
    sight gives, ``x.to(working_type(x))``. ``computed``: the model has computed ``x``, which is where it is needed; it
    may be a type unless it was used as a device before."""
    match value:
        case DeviceValue() | Number() | Text() | Constant():
            return False
        case Unknown():
            called = value.symbol.parts[0] in (AT, "call")
            if called or api.notes(value.symbol, UsedAsType) or _is_read_off_torch(value):
                return True
            return computed and not (_is_read(value, "device") or api.notes(value.symbol, UsedAsDevice))
    return True


def _is_read_off_torch(value: Unknown) -> bool:
    """``unknown.dtype``, an attribute that tensors and many models have; ``getattr(torch, name)``."""
    parts = value.symbol.parts
    return _is_read(value, "dtype") or (parts[0] == "attribute" and parts[1] == symbol("external", "torch"))


def _is_read(value: Unknown, attribute: str) -> bool:
    """Whether an unknown is what an attribute of something holds, ``y.device``."""
    return value.symbol.parts[0] == "attribute" and value.symbol.parts[-1] == attribute
