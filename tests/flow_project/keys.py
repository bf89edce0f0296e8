from __future__ import annotations

from amplint.amp.tokens import BESIDE_HALF, HALF, SCALES_LOSSES, TO_HALF
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import BARE, Registry, Weight
from amplint.flow.state.values import Value
from amplint.lowering.program import Node


def registry() -> Registry:
    models = Registry()

    @models.call("torch.autocast", weight=Weight.ENTRY, tags=("opens",))
    @models.call("torch.save", weight=Weight.EFFECT)
    @models.call("torch.amp.GradScaler", weight=Weight.ENTRY)
    @models.call("lib.Trainer.fit", weight=Weight.EFFECT)
    def _call(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
        return None

    models.about("torch.amp.scale", weight=Weight.ENTRY, tags=(SCALES_LOSSES,))

    @models.namespace("torch.optim.", weight=Weight.EFFECT)
    def _below(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
        return None

    @models.method("", "backward", weight=Weight.EFFECT, tags=("trains", BESIDE_HALF))
    def _method(api: Api, receiver: Value, name: str, arguments: Arguments, node: Node) -> Value | None:
        return None

    models.about(".update", weight=Weight.EFFECT, tags=(BARE,))
    models.about(".numpy", tags=(BESIDE_HALF,))
    models.about("torch.float16", weight=Weight.ENTRY, tags=(HALF,))
    models.about(".half", weight=Weight.ENTRY, tags=(TO_HALF,))
    models.about(".zero_grad", weight=Weight.EFFECT)
    return models
