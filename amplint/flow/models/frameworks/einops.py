"""einops: the functions that move the elements of tensors about, reduce them or multiply them, and the layers that do.

Source: ``einops/einops.py``, ``einops/packing.py`` and ``einops/layers/torch.py`` of einops 0.8. All are made of ops of
torch, and so take the types that those give: ``rearrange`` views, ``reduce(x, "b n -> b", "mean")`` is ``x.mean``.
"""

from __future__ import annotations

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.operations import Run, apply
from amplint.flow.models.torch.values import Tensor
from amplint.flow.state.values import Constant, External, Instance, Sequence, Value
from amplint.lowering.program import Node

models = Registry()

REARRANGE = "einops.layers.torch.Rearrange"
REDUCE = "einops.layers.torch.Reduce"
_OPS = {
    "mean": "mean",
    "sum": "sum",
    "prod": "prod",
    "max": "amax",
    "min": "amin",
    "any": "any",
    "all": "all",
}
"""The op of torch that a reduction is, by the name with which it is asked for."""
_PATTERN = 1
_REDUCTION = 2


@models.call("einops.rearrange", "einops.repeat", "einops.unpack")
def _moves(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``rearrange(x, "b n d -> n b d")``; a list of tensors is stacked. What ``unpack`` gives are views, too."""
    first = arguments.get(0, "tensor")
    return _moved(api, first, node)


def _moved(api: Api, value: Value | None, node: Node) -> Value:
    if isinstance(value, Sequence):
        return api.call(External("torch.stack"), Arguments((value,), (), (node,)), node)
    return value.moved() if isinstance(value, Tensor) else api.unknown(node)


@models.call("einops.pack")
def _packs(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``packed, shapes = pack([x, y], "b *")``."""
    given = arguments.get(0, "tensors")
    if not isinstance(given, Sequence):
        return api.unknown(node)
    joined = api.call(External("torch.cat"), Arguments((given,), (), (node,)), node)
    return Sequence((joined, api.unknown(node)))


@models.call("einops.reduce")
def _reduces(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``reduce(x, "b n d -> b d", "mean")``."""
    return _reduced(api, arguments.get(0, "tensor"), arguments.get(_REDUCTION, "reduction"), arguments, node)


def _reduced(api: Api, value: Value | None, asked: Value | None, arguments: Arguments, node: Node) -> Value:
    if isinstance(value, Sequence):
        value = _moved(api, value, node)
    op = _OPS.get(str(asked.value)) if isinstance(asked, Constant) else None
    if op is None or value is None:
        return api.unknown(node)
    return apply(api, Run(op, (value,), arguments.nodes[:1] or (node,)), node)


@models.call("einops.einsum")
def _multiplies(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``einsum(x, y, "b i, j i -> b j")``."""
    values = tuple(value for value in arguments.positional if not isinstance(value, Constant))
    return apply(api, Run("einsum", values, arguments.nodes[: len(values)]), node)


# layers ----------------------------------------------------------------------------------------------------------


@models.call(REARRANGE)
def _makes_mover(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``Rearrange("b n d -> n b d")``."""
    return Instance(api.fresh(node), None, name)


@models.call(REDUCE)
def _makes_reducer(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``Reduce("b n d -> b d", "mean")``."""
    layer = Instance(api.fresh(node), None, name)
    asked = arguments.get(_PATTERN, "reduction")
    if asked is not None:
        api.store(layer.identity, "reduction", asked)
    return layer


@models.into(models.instances, REARRANGE)
def _moves_in_layer(api: Api, value: Instance, name: str, arguments: Arguments, node: Node) -> Value:
    return _moved(api, arguments.get(0, "input"), node)


@models.into(models.instances, REDUCE)
def _reduces_in_layer(api: Api, value: Instance, name: str, arguments: Arguments, node: Node) -> Value:
    asked = api.attributes_of(value).get("reduction")
    return _reduced(api, arguments.get(0, "input"), asked, arguments, node)
