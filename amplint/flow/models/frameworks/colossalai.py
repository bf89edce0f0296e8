"""ColossalAI: ``Booster``, which wraps module, optimizer and criterion and scales losses.

Source: ``colossalai/booster/booster.py``, ``colossalai/booster/mixed_precision/fp16_torch.py`` of colossalai 0.4. With
``mixed_precision="fp16"`` the forward of the module and the criterion run in torch.cuda.amp.autocast, and the optimizer
has a GradScaler of its own, which it unscales with before it clips. Most plugins decide on the precision themselves.
"""

from __future__ import annotations

from amplint.amp.tokens import SCALES_LOSSES
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.frameworks import roles
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.frameworks.scales import tell_precision
from amplint.flow.models.torch import losses
from amplint.flow.models.torch.notes import Prepared
from amplint.flow.models.torch.values import Optimizer
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import NONE, Constant, Sequence, Value
from amplint.lowering.program import Node

models = Registry()

BOOSTERS = ("colossalai.booster.Booster", "colossalai.booster.booster.Booster")
_BOOSTED = ("model", "optimizer", "criterion", "dataloader", "lr_scheduler")
"""The parameters of ``boost``, which gives them back in this order."""
_SCALED: frozenset[object] = frozenset({"fp16", "fp16_apex", "fp16_naive"})
_OPTIMIZERS = "colossalai.nn.optimizer."


def _tell(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``Booster(mixed_precision="fp16")``."""
    precision, plugin = arguments.get(1, "mixed_precision"), arguments.get(2, "plugin")
    if plugin not in (None, NONE):
        # it may have a precision of its own
        precision = api.unknown(node)
    elif precision in (None, NONE) and not arguments.unclear:
        precision = Constant("float32")
    tell_precision(api, identity, arguments, precision, _SCALED, node)


def _boost(api: Api, booster: Value, arguments: Arguments, node: Node) -> Value:
    """``model, optimizer, criterion, dataloader, lr_scheduler = booster.boost(model, optimizer)``."""
    named = arguments.by_name(_BOOSTED)
    for name in ("model", "optimizer", "criterion"):
        value = named.get(name)
        if value not in (None, NONE):
            roles.prepare(api, value or NONE, Prepared())
    absent = api.unknown(node) if arguments.unclear else NONE
    return Sequence(tuple(named.get(name, absent) for name in _BOOSTED))


roles.give_constructor(models, BOOSTERS, _tell)
roles.give(
    models,
    BOOSTERS,
    {
        "boost": Role(_boost),
        "backward": roles.BACKWARD,
        "no_sync": roles.NULL,
        "enable_lora": roles.SAME,
        "execute_pipeline": roles.HIDDEN,
    },
)


# optimizers ------------------------------------------------------------------------------------------------------


@models.namespace(_OPTIMIZERS, weight=Weight.EFFECT)
def _optimizer(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``colossalai.nn.optimizer.HybridAdam(model.parameters())``."""
    made = name.rpartition(".")[2][:1].isupper()
    return roles.optimizer_of(api, arguments, node) if made else None


@models.method(Optimizer, "backward", weight=Weight.EFFECT, tags=(SCALES_LOSSES,))
def _backward(api: Api, optimizer: Optimizer, name: str, arguments: Arguments, node: Node) -> Value:
    """``optimizer.backward(loss)`` of an optimizer that was wrapped."""
    losses.backward(api, roles.first(arguments), node, ".backward()", unclear=True)
    return NONE


@models.method(Optimizer, "clip_grad_by_norm", "clip_grad_by_value", "unscale_grad", weight=Weight.EFFECT)
def _clip(api: Api, optimizer: Optimizer, name: str, arguments: Arguments, node: Node) -> Value:
    """``optimizer.clip_grad_by_norm(1.0)`` unscales before."""
    return roles.hidden(api, optimizer, arguments, node)
