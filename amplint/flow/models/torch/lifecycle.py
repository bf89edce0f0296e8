"""What the interpreter tells of loops, objects and calls that are not followed, as events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from amplint.events import (
    AmpHidden,
    Backward,
    CalledByName,
    Event,
    FrameworkUnscaled,
    FunctionEnded,
    GradientsRead,
    Handled,
    LoopEnded,
    LoopIterated,
    ObjectMade,
    Place,
    ScalerUsed,
    enabled_region,
)
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Hooks, Registry
from amplint.flow.models.frameworks.scales import may_step
from amplint.flow.models.torch import hidden, losses, optimizers
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.forwards import given_by
from amplint.flow.models.torch.regions import back_to
from amplint.flow.models.torch.values import GradientMode, OpenRegions
from amplint.flow.models.torch.weights import may_have_cast
from amplint.flow.state.graph import Calls, Happens
from amplint.flow.state.store import Ambient
from amplint.flow.state.values import Instance, Value
from amplint.lowering.program import Node


class _Lifecycle(Hooks):
    """Tells of the life of functions, loops and objects."""

    def made(self, api: Api, instance: Value, given: Arguments, each_round: bool, node: Node) -> None:
        """An object of a class of the project is made; an optimizer that it is given may be stepped by it."""
        assert isinstance(instance, Instance)
        optimizers.held(api, given)
        made = ObjectMade(api.place(node), regions(api), instance.identity, each_round, api.runs_once_in)
        api.emit(made)

    def iterated(self, api: Api, number: int, node: Node) -> None:
        """A round of a loop begins."""
        api.emit(LoopIterated(api.place(node), regions(api), api.place(node).key, number))

    def ended(self, api: Api, node: Node) -> None:
        """A loop ended of which not all rounds were walked."""
        api.emit(LoopEnded(api.place(node), regions(api), api.place(node).key))

    def out_of_order(self, api: Api, node: Node) -> None:
        """Hooks are called in an order that is not known."""
        api.emit(AmpHidden(api.place(node), regions(api)))

    def depend_on_order(self, rounds: Sequence[Sequence[Happens | Calls]]) -> bool:
        """Whether one of several hooks changes what gradients are, and another one sees that."""
        told = [list(_events(one)) for one in rounds]
        changing = sum(any(_changes_gradients(event) for event in events) for events in told)
        seeing = sum(
            any(
                isinstance(event, (GradientsRead, ScalerUsed)) or _changes_gradients(event)
                for event in events
            )
            for events in told
        )
        return changing > 0 and seeing > 1

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
        """A method is called by its name alone: what it does in a region that is open is judged with it, and what it
        saves of the object that it is handed. Every module has a ``forward``: that name says nothing."""
        region = enabled_region(regions(api))
        inside = region is not None and not region.assumed and region.through is None
        handed = tuple(
            (index, value.identity)
            for index, value in enumerate(given.positional)
            if isinstance(value, Instance) and value.made_of is not None
        )
        if method != "forward" and (inside or handed):
            api.emit(CalledByName(api.place(node), regions(api), method, given_by(given), handed))

    def opaque(self, api: Api, arguments: Arguments, effects: bool, node: Node) -> Value | None:
        """A call is not followed."""
        if effects:
            api.emit(AmpHidden(api.place(node), regions(api)))
            if api.is_cut:
                for value in arguments.all:
                    may_have_cast(api, value)
        else:
            may_step(api, node)
        result = losses.out_of_sight(api, arguments, node)
        return hidden.computed(api, result if result is not None else api.unknown(node), node)


def _events(items: Sequence[Happens | Calls]) -> Iterator[Event]:
    for item in items:
        if isinstance(item, Happens):
            yield item.event
        else:
            yield from _events(item.graph.items)


def _changes_gradients(event: Event) -> bool:
    unscaled = isinstance(event, ScalerUsed) and event.act == "unscale_"
    return unscaled or isinstance(event, (AmpHidden, Backward, FrameworkUnscaled))


def _reached_from(place: Place, call: Place) -> Place:
    return place.reached_by((call, *place.calls))


models = Registry(hooks=_Lifecycle(), installed={"torch"})
