"""The ambient values of torch, as models ask for them."""

from __future__ import annotations

from amplint.events import Regions
from amplint.flow.core.api import Api
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.values import GradientMode, InThread, OpenRegions, RegionDefaults

models = Registry(ambients=[OpenRegions(), GradientMode(), InThread(), RegionDefaults()])


def regions(api: Api) -> Regions:
    """The autocast regions that are open, outermost first."""
    return api.ambient(OpenRegions).regions


def gradients(api: Api) -> bool:
    """Whether gradients are recorded."""
    return api.ambient(GradientMode).on
