"""Functions of torch: ``torch.matmul(x, y)``, ``F.cross_entropy(x, y)``, ``torch.zeros(2)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from amplint.amp import ops
from amplint.amp.reexports import inner_modules, public
from amplint.amp.scalers import COMBINES, JOINS, MULTIPLIES
from amplint.amp.traits import COUNTING, FEW, left_by
from amplint.events import DType
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.devices import about_the_machine, device_of, tell_device, tell_type
from amplint.flow.models.torch.dtypes import TENSOR_TYPES, asked_of, default_dtype, dtype_in
from amplint.flow.models.torch.indexing import fill, put
from amplint.flow.models.torch.losses import MAYBE_SCALED
from amplint.flow.models.torch.operations import (
    Run,
    apply,
    below_one,
    meets_half,
    new_like,
    plain_name,
    promoted,
    resolved,
    small_constant,
    write,
)
from amplint.flow.models.torch.tensors import CUTS, PAIRS, WHOLE, leaf, left_torch, paired
from amplint.flow.models.torch.values import (
    Gradient,
    ScaledGradient,
    ScaledLoss,
    Tensor,
)
from amplint.flow.models.torch.weights import current
from amplint.flow.state.conditions import leaves
from amplint.flow.state.values import (
    NONE,
    TRUE,
    BoundMethod,
    Choice,
    Constant,
    External,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

_SUBMODULES = ("torch.special.", "torch.linalg.", "torch.fft.")
_OPERANDS = ("input", "other", "target", "weight", "query", "key", "value", "mat2", "tensors", "x")
"""Parameters of functions that take tensors."""
_JOINS = frozenset(
    {"cat", "stack", "concat", "concatenate", "hstack", "vstack", "dstack", "column_stack", "row_stack"}
)
_OF_DATA = frozenset({"tensor", "as_tensor", "asarray", "scalar_tensor"})
"""Functions that make a tensor of the type of the data."""


@models.namespace("torch.", "torch.nn.functional.", "torch.Tensor.", *_SUBMODULES)
def _function(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    """A function of torch of a name that has no model of its own."""
    legacy = TENSOR_TYPES.get(name.rpartition(".")[2])
    if legacy is not None:
        return Tensor(legacy)
    short = _short(name)
    if short is None:
        return about_the_machine(name, arguments)
    held = next((value for value in arguments.positional if _differs(value)), None)
    if isinstance(held, Sequence):
        exact = held.exact

        def call(items: tuple[Value, ...]) -> Value:
            given = tuple(
                Sequence(items, exact) if value is held else value for value in arguments.positional
            )
            return api.call(External(name), replace(arguments, positional=given), node)

        return resolved(api, held.items, call, node)
    training = _training(api, short, arguments, node)
    if training is not None:
        return training
    found = about_the_machine(name, arguments)
    return found if found is not None else function(api, short, arguments, node)


def _short(name: str) -> str | None:
    """The name of an op: "relu" for ``torch.nn.functional.relu``, "linalg.inv" for ``torch.linalg.inv``."""
    if name.startswith(_SUBMODULES):
        return name.removeprefix("torch.")
    for prefix in ("torch.nn.functional.", "torch.Tensor.", "torch."):
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            return rest if "." not in rest else None
    return None


_OF_TRAINING = (ScaledLoss, ScaledGradient, Gradient)


def _differs(value: Value) -> bool:
    """Whether a collection holds what is a scaled loss or a gradient on some paths alone."""
    return isinstance(value, Sequence) and any(
        isinstance(item, Choice) and any(isinstance(leaf, _OF_TRAINING) for leaf in leaves(item))
        for item in value.items
    )


def _training(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    """What a function makes of scaled losses and of gradients: what their method of that name does."""
    for index, value in enumerate(arguments.positional):
        items = value.items if isinstance(value, Sequence) else (value,)
        first = next((item for item in items if isinstance(item, _OF_TRAINING)), None)
        if first is not None:
            others = tuple(item for item in items if item is not first)
            given = (*others, *arguments.positional[index + 1 :])
            nodes = (node,) * len(given)
            return api.call(BoundMethod(first, name), Arguments(given, arguments.keywords, nodes), node)
        maybe = any(isinstance(item, Unknown) and item.kind == MAYBE_SCALED for item in items)
        if maybe and name in COMBINES | JOINS | MULTIPLIES:
            return api.unknown(node, MAYBE_SCALED)
    return None


@models.into(models.externals, "torch._C._nn.")
def _internal(api: Api, base: Value, name: str, node: Node | None) -> Value:
    """``torch._C._nn.gelu`` is the function behind ``torch.nn.functional.gelu``."""
    return External("torch.nn.functional." + name.rpartition(".")[2])


@models.into(models.externals, *(f"{module}." for module in inner_modules()))
def _inner(api: Api, base: Value, name: str, node: Node | None) -> Value:
    """``torch.optim.sgd.SGD`` after ``import torch.optim.sgd``."""
    return External(public(name))


# ops -------------------------------------------------------------------------------------------------------------


def _operands(name: str, arguments: Arguments, node: Node) -> Arguments:
    """The operands of an op in order, ``input`` first, as positional arguments."""
    values, nodes = list(arguments.positional), list(arguments.nodes)
    nodes += [node] * (len(values) - len(nodes))
    for key, value in arguments.keywords:
        if key not in _OPERANDS:
            continue
        position = 0 if key == "input" else len(values)
        values.insert(position, value)
        nodes.insert(position, arguments.keyword_node(key) or node)
    if name == "einsum":
        values, nodes = values[1:], nodes[1:]
        only = values[0] if len(values) == 1 else None
        if isinstance(only, Sequence):
            values, nodes = list(only.items), nodes * len(only.items)
    return replace(arguments, positional=tuple(values), nodes=tuple(nodes))


def function(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """A function by the name of its op."""
    given = _operands(name, arguments, node)
    special = _SPECIAL.get(name) or _by_group(name)
    if special is not None:
        found = special(api, name, given, node)
        if found is not None:
            return found
    first = given.positional[0] if given.positional else None
    plain = plain_name(name)
    if plain in ops.FILLS and first is not None:
        fill(api, name, first, given.nodes[0], arguments.rest(1), node)
    if plain in ops.SOURCES and first is not None:
        put(api, name, first, given.nodes[0], arguments.rest(1), node)
    wider = arguments.keyword("out_dtype")
    if wider is not None and wider != NONE:
        # an overload of its own, which autocast does not know
        dtype = dtype_in(wider)
        return Tensor(dtype.dtype if dtype is not None else None)
    asked = asked_of(arguments, given.positional[1:])
    dtype = dtype_in(asked)
    if asked is not None and dtype is None and asked != NONE:
        tell_type(api, asked)
        return _finished(api, Tensor(), arguments, node)
    run = Run(
        name,
        given.positional,
        given.nodes,
        *_weights(api, name, given.positional),
        small_constant(name, arguments.positional[1:], arguments),
        dtype.dtype if dtype is not None else None,
        arguments.keyword("out"),
        below_one(name, arguments.positional[1:], arguments),
    )
    result = apply(api, run, node)
    if dtype is not None and isinstance(result, Tensor):
        result = Tensor(dtype.dtype)
    if name in WHOLE and len(arguments.all) == 1 and isinstance(result, Tensor):
        result = replace(result, trait="scalar")
    return _finished(api, result, arguments, node)


def _finished(api: Api, result: Value, arguments: Arguments, node: Node) -> Value:
    """A new tensor with what else was asked for: ``device``, ``requires_grad``."""
    device = arguments.keyword("device")
    tell_device(api, device)
    if isinstance(result, Tensor) and device is not None:
        result = replace(result, device=device_of(api, device).device)
    return leaf(api, result, node) if arguments.keyword("requires_grad") == TRUE else result


_WEIGHT = {"layer_norm": 2, "group_norm": 2}
"""Where the weights are given, if not behind the input."""


def _weights(api: Api, name: str, values: tuple[Value, ...]) -> tuple[DType | None, bool]:
    """The type of the weights of ``F.linear(x, self.weight)``, and whether it raises where operands are of another
    one."""
    meeting = meets_half(api, name, values)
    position = _WEIGHT.get(name, 1)
    weight = current(api, values[position]) if meeting is not None and len(values) > position else None
    if isinstance(weight, Tensor) and weight.parameter_of is not None and weight.raised is None:
        return weight.dtype, meeting == "raises"
    return None, False


# functions that are no plain ops ---------------------------------------------------------------------------------

Special = Callable[[Api, str, Arguments, Node], "Value | None"]


def _join(api: Api, name: str, given: Arguments, node: Node) -> Value:
    """``torch.cat([x, y])``."""
    first = given.positional[0] if given.positional else None
    if not isinstance(first, Sequence) or not first.items:
        return api.unknown(node)
    if not first.exact and any(isinstance(item, Unknown) for item in first.items):
        return api.unknown(node)

    def join(items: tuple[Value, ...]) -> Value:
        known = [current(api, item) for item in items]
        found = promoted(known)
        if found is None:
            return api.unknown(node)
        left = left_by(
            name, [item.trait if isinstance(item, Tensor) else None for item in known], found.is_half
        )
        return replace(found, trait=left)

    return resolved(api, tuple(dict.fromkeys(first.items)), join, node)


def _where(api: Api, name: str, given: Arguments, node: Node) -> Value | None:
    """``torch.where(mask, x, y)``."""
    if len(given.positional) != 3:
        return None
    found = promoted(current(api, value) for value in given.positional[1:])
    return found if found is not None else api.unknown(node)


def _spectrum(api: Api, name: str, given: Arguments, node: Node) -> Value | None:
    """``torch.stft(x, n_fft, window=w)``: what is transformed is the product with the window."""
    window = given.keyword("window") or (given.positional[4] if len(given.positional) > 4 else NONE)
    if window == NONE or not given.positional:
        return None
    product = promoted((current(api, given.positional[0]), current(api, window)))
    return (
        apply(api, Run(name, (product,), given.nodes[:1]), node) if product is not None else api.unknown(node)
    )


def _pair(api: Api, name: str, given: Arguments, node: Node) -> Value | None:
    """``torch.max(x, dim=1)``."""
    first = given.positional[0] if given.positional else None
    if not isinstance(first, Tensor):
        return None
    second = given.positional[1] if len(given.positional) > 1 else None
    if name in ("max", "min") and isinstance(second, (Tensor, Unknown)):
        return None  # of two tensors, element by element
    apply(api, Run(name, (first,), given.nodes[:1]), node)
    return paired(first, name, whole=second is None and given.keyword("dim") is None)


def _cut(api: Api, name: str, given: Arguments, node: Node) -> Value | None:
    first = given.positional[0] if given.positional else None
    return Sequence((first.moved(),), exact=False) if isinstance(first, Tensor) else None


def _like(api: Api, name: str, given: Arguments, node: Node) -> Value | None:
    """``torch.zeros_like(x)``."""
    first = current(api, given.positional[0]) if given.positional else None
    if not isinstance(first, Tensor) or given.keyword("dtype") is not None:
        return None
    if name == "full_like":
        fill(api, name, first, given.nodes[0], given.rest(1), node)
    return _finished(api, new_like(first), given, node)


def _of_data(api: Api, name: str, given: Arguments, node: Node) -> Value | None:
    """``torch.tensor([0.5, 1])``, ``torch.tensor(x, dtype=torch.float16)``."""
    if given.keyword("dtype") is not None:
        dtype = dtype_in(given.keyword("dtype"))
        return _finished(api, Tensor(dtype.dtype), given, node) if dtype is not None else None
    data = given.positional[0] if given.positional else given.keyword("data")
    if isinstance(data, Tensor):
        return _finished(api, replace(new_like(data)), given, node)
    made = Tensor(_type_of(api, data), trait="scalar" if isinstance(data, Constant) else None)
    return _finished(api, made, given, node)


def _type_of(api: Api, data: Value | None) -> DType | None:
    """The type of a tensor that is made of numbers."""
    if isinstance(data, Constant) and type(data.value) in (bool, int, float):
        return default_dtype(api) if isinstance(data.value, float) else DType.INTEGER
    if isinstance(data, Sequence) and data.items:
        types = {_type_of(api, item) for item in data.items}
        return None if None in types else max(types, key=lambda dtype: dtype is not DType.INTEGER)
    return None


def _untyped(api: Api, name: str, given: Arguments, node: Node) -> Value | None:
    """``torch.from_numpy(a)``: the type is that of the numbers."""
    return _finished(api, Tensor(), given, node) if given.keyword("dtype") is None else None


def _counting(api: Api, name: str, given: Arguments, node: Node) -> Value:
    """``torch.arange(n)``, whose type is that of the numbers, ``torch.randint(n, size)``, or what is asked for."""
    asked = given.keyword("dtype")
    dtype = dtype_in(asked)
    if asked is not None and dtype is None and asked != NONE:
        tell_type(api, asked)
    known = [one.value for one in given.positional if isinstance(one, Constant) and type(one.value) is int]
    whole = len(known) == len(given.positional) > 0
    usual = DType.INTEGER if name == "randint" or whole else None
    trait = left_by(name, (), False) if not whole or max(known) > FEW else None
    made = Tensor(dtype.dtype if dtype is not None else usual, trait=trait)
    return _finished(api, made, given, node)


def _full(api: Api, name: str, given: Arguments, node: Node) -> Value | None:
    """``torch.full((2,), -1e9, dtype=torch.float16)``."""
    asked = given.keyword("dtype")
    dtype = dtype_in(asked)
    if dtype is not None and given.nodes:
        fill(api, name, Tensor(dtype.dtype), given.nodes[0], given.rest(1), node)
        return _finished(api, Tensor(dtype.dtype), given, node)
    number = given.get(1, "fill_value")
    return _finished(api, Tensor(_type_of(api, number) if asked is None else None), given, node)


def _embedded(api: Api, name: str, given: Arguments, node: Node) -> Value:
    """``F.embedding(i, table)`` gives what stands in the table."""
    table = current(api, given.positional[1]) if len(given.positional) > 1 else None
    return Tensor(table.dtype) if isinstance(table, Tensor) else api.unknown(node)


def _question(api: Api, name: str, given: Arguments, node: Node) -> Value:
    """``torch.is_floating_point(x)``, ``torch.is_tensor(x)``."""
    first = current(api, given.positional[0]) if given.positional else NONE
    if not isinstance(first, Tensor):
        return api.unknown(node)
    if name == "is_tensor":
        return TRUE if not first.whole_output else api.unknown(node)
    return Constant(first.dtype.is_floating) if first.dtype is not None else api.unknown(node)


def _counted(api: Api, name: str, given: Arguments, node: Node) -> Value:
    return api.number(node)


_SPECIAL: dict[str, Special] = {
    "where": _where,
    "stft": _spectrum,
    "full": _full,
    **dict.fromkeys(COUNTING, _counting),
    "from_numpy": _untyped,
    "frombuffer": _untyped,
    "Tensor": lambda api, name, given, node: Tensor(default_dtype(api)),
    "embedding": _embedded,
    "embedding_bag": _embedded,
    "is_tensor": _question,
    "is_floating_point": _question,
    "numel": _counted,
    **dict.fromkeys(_JOINS, _join),
    **dict.fromkeys(_OF_DATA, _of_data),
    **dict.fromkeys(PAIRS, _pair),
    **dict.fromkeys(CUTS, _cut),
}


def _by_group(name: str) -> Special | None:
    return _like if name.endswith("_like") else None


# other packages, and functions that write ------------------------------------------------------------------------


@models.call(
    "numpy.asarray", "numpy.array", "numpy.ascontiguousarray", "numpy.asanyarray", "numpy.save", "numpy.savez"
)
def _to_numpy(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``np.asarray(x)`` calls ``x.__array__()``."""
    for value, written in zip(arguments.positional, arguments.nodes, strict=False):
        if isinstance(value, Tensor):
            left_torch(api, value, written, node)
    return api.unknown(node)


@models.namespace("torch.nn.init.")
def _initialised(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``nn.init.zeros_(weight)`` writes in place."""
    first = arguments.get(0, "tensor")
    if first is not None and name.endswith("_"):
        write(api, first, f"{name}()", node)
    return first if first is not None else api.unknown(node)


@models.namespace("torch.nn.utils.")
def _of_utils(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if name == "torch.nn.utils.vector_to_parameters" and len(arguments.positional) > 1:
        write(api, arguments.positional[1], f"{name}()", node)
    return api.unknown(node)
