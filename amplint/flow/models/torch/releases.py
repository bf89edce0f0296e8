"""The release of torch as a value: ``torch.__version__ >= "2.4"``."""

from __future__ import annotations

from amplint.amp.versions import Bounds, compare, parse
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.values import TorchVersion
from amplint.flow.state.atoms import is_true
from amplint.flow.state.conditions import choice
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import FALSE, TRUE, Constant, Sequence, Unknown, Value
from amplint.lowering.program import Node

models = Registry()

_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_OPPOSITE = {"!=": "==", ">=": "<", ">": "<="}


@models.into(
    models.externals, "torch.__version__", "torch.version.__version__", "torch.torch_version.__version__"
)
def _version(api: Api, base: Value, name: str, node: Node | None) -> Value:
    return TorchVersion()


@models.call(
    "packaging.version.parse",
    "packaging.version.Version",
    "distutils.version.LooseVersion",
    "distutils.version.StrictVersion",
    "pkg_resources.parse_version",
    "pkg_resources.packaging.version.parse",
    "pkg_resources.packaging.version.Version",
    "looseversion.LooseVersion",
    "torch.torch_version.TorchVersion",
)
def _parsed(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``version.parse(torch.__version__)`` stays what it is."""
    return arguments.positional[0] if arguments.positional else api.unknown(node)


@models.into(models.operators, TorchVersion)
def _compare(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``torch.__version__ >= "2.4"``: known where it is the same for all releases that the project admits."""
    if operator not in ("==", "!=", "<", "<=", ">", ">=") or right is None:
        return None
    other = right
    if isinstance(right, TorchVersion):
        operator, other = _TURNED.get(operator, operator), left
    version = _release(other)
    if version is None:
        return None
    known = compare(bounds_of(api), operator, version)
    if known is not None:
        return Constant(known)
    # one question for ">=" and "<" of the same release, so that the two exclude each other
    plain = _OPPOSITE.get(operator, operator)
    asked = is_true(symbol("torch", plain, version))
    return choice(asked, TRUE, FALSE) if plain == operator else choice(asked, FALSE, TRUE)


def asks_for_release(question: Symbol) -> bool:
    """Whether a question is about the release of torch: its number, or what it has. What a function of torch answers
    when the program runs, such as ``torch.distributed.is_available()``, is another matter."""
    match question.parts:
        case ("torch", _, *_):
            return True
        case ("has attribute", Symbol(parts=("external", str() as name)), *_):
            return name == "torch" or name.startswith("torch.")
    return any(asks_for_release(part) for part in question.parts if isinstance(part, Symbol))


def bounds_of(api: Api) -> Bounds:
    """The releases that the project admits."""
    low, high = api.settings.releases
    return (low[0], low[1]), ((high[0], high[1]) if high is not None else None)


def _release(value: Value) -> tuple[int, ...] | None:
    """``"2.4"``, ``(2, 4)``."""
    match value:
        case Constant(value=str() as text):
            return parse(text)
        case Sequence(exact=True) if value.items:
            parts = [item.value for item in value.items if isinstance(item, Constant)]
            numbers = tuple(part for part in parts if type(part) is int)
            return numbers if len(numbers) == len(value.items) else None
    return None


@models.into(models.attributes, TorchVersion)
def _attribute(api: Api, base: TorchVersion, name: str, node: Node) -> Value | None:
    """``version.parse(torch.__version__).release``; its parts alone say less."""
    if name in ("release", "base_version", "public"):
        return base
    return Unknown(symbol("torch", name)) if name in ("major", "minor", "micro") else None


@models.method(TorchVersion)
def _method(api: Api, base: TorchVersion, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``torch.__version__.split("+")[0]`` is still the release; its numbers are not looked at one by one."""
    separator = arguments.positional[0] if arguments.positional else None
    if name in ("split", "rsplit", "partition") and separator in (
        Constant("+"),
        Constant("a"),
        Constant("rc"),
    ):
        return Sequence((base, api.unknown(node)), exact=False, prefix=1)
    return base if name in ("__str__", "__format__", "strip", "lower") else None


@models.into(models.items, TorchVersion)
def _item(api: Api, base: TorchVersion, keys: tuple[Value, ...], node: Node) -> Value | None:
    """``torch.__version__[:3]``; slices of ``release`` begin at the same place."""
    key = keys[0] if len(keys) == 1 else None
    if isinstance(key, Constant) and isinstance(key.value, slice) and key.value.start in (None, 0):
        return base
    return Unknown(symbol("torch", "part", key)) if isinstance(key, Constant) else None
