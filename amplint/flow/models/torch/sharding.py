"""Parameters that are split among processes."""

from __future__ import annotations

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.notes import ShardedNote
from amplint.flow.models.torch.values import MODULE
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import NONE, External, Unknown, Value
from amplint.lowering.program import Node

models = Registry()

WRAPPERS = (
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "fairscale.nn.FullyShardedDataParallel",
    "fairscale.nn.data_parallel.FullyShardedDataParallel",
    "fairscale.nn.data_parallel.fully_sharded_data_parallel.FullyShardedDataParallel",
)
"""Classes that split the parameters of a module among processes, so that each sees its own gradients only.
``fully_shard`` (FSDP2) is none of them: its gradients are DTensors, whose infs all processes see."""


@models.into(models.annotations, *WRAPPERS)
def _annotated(api: Api, own: Symbol) -> Value:
    """``model: FullyShardedDataParallel``."""
    return Unknown(own, MODULE)


@models.call(*WRAPPERS)
def _sharded(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``FullyShardedDataParallel(module)``: the module, with a note that its parameters are split from here on, unless
    the strategy keeps them whole or is not known."""
    module = arguments.get(0, "module") or api.unknown(node)
    if isinstance(module, Unknown):
        module = Unknown(module.symbol, MODULE)
    strategy = arguments.get(2, "sharding_strategy")
    split = strategy in (None, NONE)
    if isinstance(strategy, External):
        split = strategy.name.rpartition(".")[2] != "NO_SHARD"
    identity = api.identity_of(module)
    if split and identity is not None:
        api.set_note(identity, ShardedNote(api.place(node)))
    return module
