"""What the interpreter tells of loops, objects and calls that are not followed, as events."""

from __future__ import annotations

from dataclasses import replace

from amplint.events import (
    AmpHidden,
    CalledByName,
    FunctionEnded,
    Handled,
    LoopEnded,
    LoopIterated,
    ObjectMade,
    Place,
    enabled_region,
)
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Hooks, Registry
from amplint.flow.models.frameworks.scales import may_step
from amplint.flow.models.torch import losses, optimizers
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.forwards import given_by
from amplint.flow.models.torch.regions import back_to
from amplint.flow.models.torch.values import GradientMode, OpenRegions
from amplint.flow.state.store import Ambient
from amplint.flow.state.values import Instance, Value
from amplint.lowering.program import Node


class _Lifecycle(Hooks):
    """Tells of the life of functions, loops and objects."""

    def made(self, api: Api, instance: Value, given: Arguments, each_round: bool, node: Node) -> None:
        """An object of a class of the project is made; an optimizer that it is given may be stepped by it."""
        assert isinstance(instance, Instance)
        optimizers.held(api, given)
        api.emit(ObjectMade(api.place(node), regions(api), instance.identity, each_round))

    def iterated(self, api: Api, number: int, node: Node) -> None:
        """A round of a loop begins."""
        api.emit(LoopIterated(api.place(node), regions(api), api.place(node).key, number))

    def ended(self, api: Api, node: Node) -> None:
        """A loop ended of which not all rounds were walked."""
        api.emit(LoopEnded(api.place(node), regions(api), api.place(node).key))

    def handled(self, api: Api, node: Node) -> None:
        """A handler was left."""
        api.emit(Handled(api.place(node), ()))

    def returned(self, api: Api, node: Node) -> None:
        """An entry point came to its end."""
        api.emit(FunctionEnded(api.place(node), regions(api)))

    def entered(self, api: Api, before: dict[type[Ambient], Value], node: Node) -> None:
        """A context manager of the project is entered: the regions that it opens are reached from here."""
        known = before[OpenRegions]
        if not isinstance(known, OpenRegions):
            return
        call = api.place(node)
        own = tuple(
            region if region in known.regions else replace(region, place=_reached_from(region.place, call))
            for region in regions(api)
        )
        api.surround(OpenRegions(own))

    def left(self, api: Api, before: dict[type[Ambient], Value], node: Node) -> None:
        """A context manager of the project is left: regions that it has opened end."""
        mode = before[GradientMode]
        back_to(api, before[OpenRegions])
        if isinstance(mode, GradientMode):
            api.surround(mode)

    def unresolved(self, api: Api, method: str, given: Arguments, node: Node) -> None:
        """A method is called by its name alone: what it does in a region that is open is judged with it. Every module
        has a ``forward``: that name says nothing."""
        region = enabled_region(regions(api))
        if method != "forward" and region is not None and not region.assumed and region.through is None:
            api.emit(CalledByName(api.place(node), regions(api), method, given_by(given)))

    def opaque(self, api: Api, arguments: Arguments, effects: bool, node: Node) -> Value | None:
        """A call is not followed."""
        if effects:
            api.emit(AmpHidden(api.place(node), regions(api)))
        else:
            may_step(api, node)
        return losses.out_of_sight(api, arguments, node)


def _reached_from(place: Place, call: Place) -> Place:
    return place.reached_by((call, *place.calls))


models = Registry(hooks=_Lifecycle(), installed={"torch"})
