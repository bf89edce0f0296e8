"""Autocast regions: what a context opens where it is entered, and how it is left."""

from __future__ import annotations

from amplint.amp.regions import default_dtype
from amplint.events import DType, Region, RegionEntered, RegionExited, Regions, innermost
from amplint.flow.core.api import Api
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.ambient import gradients, regions
from amplint.flow.models.torch.autocast_state import knows_of_autocast
from amplint.flow.models.torch.values import Autocast, OpenRegions, RegionDefaults
from amplint.flow.state.conditions import leaves, negation
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import TRUE, Choice, Number, Unknown, Value
from amplint.lowering import program as ir
from amplint.lowering.program import Node

models = Registry()

_KEPT = (ir.Name, ir.Attribute, ir.Subscript)
"""What is written where a context is entered that the code keeps: ``with amp:``, ``with self.amp:``."""
_ALL, _ENTERED = symbol("regions"), "entered"
"""What is stored where an enabled region was entered, whichever."""


@models.into(models.enters, Autocast)
def _enter(api: Api, context: Autocast, node: Node) -> Value:
    enter(api, context, node)
    return context


@models.into(models.exits, Autocast)
def leave(api: Api, context: Autocast, node: Node) -> None:
    """Leaves the innermost region that a context has opened, if one is open."""
    region = opened_by(api, context)
    if region is not None:
        close_region(api, region)


def opened_by(api: Api, context: Autocast) -> Region | None:
    """The innermost of the open regions that a context has opened."""
    return next((one for one in reversed(regions(api)) if _opened_by(one) is context.identity), None)


def enter(api: Api, context: Autocast, node: Node, by_hand: str | None = None) -> Region:
    """Enters a context: ``with context:``, ``context.__enter__()``, a call of a function that it decorates."""
    region = region_of(api, context, node)
    kept = context.decorates or by_hand is not None or isinstance(node, _KEPT)
    open_region(api, region, context.identity if kept else None, by_hand)
    return region


def region_of(api: Api, context: Autocast, node: Node) -> Region:
    """The region that a context opens where it is entered now. A flag that nothing is known of is taken to be
    on, unless the settings say that it is off, and the path remembers it."""
    around = regions(api)
    outer = innermost(around)
    device = context.device or (outer.device if outer is not None else None)
    enabled = _enabled(api, context)
    dtype = _dtype(api, context, around)
    if dtype is DType.FLOAT32 and device == "cpu":
        enabled = False
    cache = context.cache_enabled
    if cache is None:
        cache = outer.cache_enabled if context.inherits_dtype and outer is not None else True
    return Region(
        context.place if context.decorates else api.place(node),
        (context.identity, len(around)),
        device or api.settings.device,
        dtype,
        enabled,
        context.enabled is None,
        cache,
        framework=context.framework,
        inner=not around and knows_of_autocast(api),
        switch=switch_of(context.switch),
        chosen=context.chosen,
        whole_step=context.whole_step,
    )


def _enabled(api: Api, context: Autocast) -> bool:
    if context.enabled is not None:
        return context.enabled
    if context.switch is None:
        return True
    known = api.known_truth(context.switch)
    if known is None:
        truth = api.truth(context.switch)
        known = switch_of(context.switch) not in api.settings.off
        api.assume(truth if known else negation(truth))
    return known


def _dtype(api: Api, context: Autocast, around: Regions) -> DType:
    """The type that matrix products run in."""
    if context.dtype is not None:
        return context.dtype
    if context.dtype_given or context.framework:
        return DType.HALF
    device = context.device
    if context.inherits_dtype:
        same = [region for region in around if device is None or region.device in (None, device)]
        if same and same[-1].dtype is not None:
            return same[-1].dtype
    if device is None:
        default = DType.FLOAT16 if api.settings.device == "cuda" else DType.HALF
        return api.ambient(RegionDefaults).of(api.settings.device, default)
    default = DType(default_dtype(device))
    return api.ambient(RegionDefaults).of(device, default) if context.inherits_dtype else default


def switch_of(flag: Value | None) -> Symbol | Value | None:
    """What stands for the flag that switches a region or a scaler, in events: equal for equal flags."""
    if isinstance(flag, (Unknown, Number)):
        return flag.symbol
    return flag if isinstance(flag, Choice) else None


def open_region(api: Api, region: Region, instance: Symbol | None = None, by_hand: str | None = None) -> None:
    """Enters a region and tells of it."""
    around = (*regions(api), region)
    if region.enabled:
        api.store(_ALL, _ENTERED, TRUE)
    api.surround(OpenRegions(around))
    api.emit(RegionEntered(region.place, around, instance, by_hand, gradients(api)))


def close_region(api: Api, region: Region) -> None:
    """Leaves a region, if it is still open, and tells of it."""
    around = regions(api)
    if region in around:
        left = tuple(part for part in around if part != region)
        api.surround(OpenRegions(left))
        api.emit(RegionExited(region.place, left, region))


def may_be_left_out(api: Api) -> bool:
    """Whether a flag has decided that a region was entered: ``if fp16: with autocast(): …``."""
    return isinstance(api.load(_ALL, _ENTERED), Choice)


def back_to(api: Api, before: Value) -> None:
    """Leaves the regions that were opened since ``before`` was OpenRegions, which may be a Choice, innermost first."""
    known = {
        region.identity for leaf in leaves(before) if isinstance(leaf, OpenRegions) for region in leaf.regions
    }
    for region in reversed(regions(api)):
        if region.identity not in known:
            close_region(api, region)


def framework_region(
    api: Api, node: Node, enabled: bool | None = None, cache_enabled: bool | None = None
) -> Autocast:
    """The context that a framework's own ``autocast()`` makes. ``enabled`` is None where its settings decide, of
    which nothing is known."""
    return Autocast(
        api.place(node),
        api.fresh(node),
        None,
        None,
        dtype_given=False,
        enabled=enabled,
        cache_enabled=cache_enabled,
        framework=True,
    )


def _opened_by(region: Region) -> Symbol | None:
    """What names the context that opened a region."""
    identity = region.identity
    found = identity[0] if isinstance(identity, tuple) else None
    return found if isinstance(found, Symbol) else None
