"""What the events of a method that trains tell of its steps, and of what it saves."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from amplint.events import Call, LoopEnded, LoopIterated, OptimizerStepped, ScalerMade, ScalerUsed, StateSaved
from amplint.flow.state.graph import Calls, Graph, Happens

_OF_STATES = ("state_dict", "given")
"""What is done with a scaler that may save its state."""


def trains(graph: Graph) -> bool:
    """Whether an optimizer is stepped by a scaler that was there before, or by a framework."""
    made = {
        event.scaler for event in graph.different(frozenset({ScalerMade})) if isinstance(event, ScalerMade)
    }
    return any(
        isinstance(event, OptimizerStepped) and (event.framework or event.scaler not in {None, *made})
        for event in graph.different(frozenset({OptimizerStepped}))
    )


def is_a_step(graph: Graph) -> bool:
    """Whether an optimizer is stepped outside of all loops: who calls that does so again and again."""
    loops: list[Hashable] = []
    for item in graph.items:
        match item:
            case Happens(event=LoopIterated(loop=loop)) if loop not in loops:
                loops.append(loop)
            case Happens(event=LoopEnded(loop=loop)) if loop in loops:
                del loops[loops.index(loop) :]
            case Happens(event=OptimizerStepped()) if not loops:
                return True
            case Calls(graph=inner) if not loops and OptimizerStepped in inner.kinds and is_a_step(inner):
                return True
    return False


def only_saved(graph: Graph, through: Call | None = None) -> Graph:
    """What is saved in a graph, and which states are asked for. ``through``: the call that is taken to get there."""
    found = Graph()
    for item in graph.items:
        if isinstance(item, Calls):
            inner = only_saved(item.graph, through)
            if inner.items:
                found.items.append(Calls(item.condition, inner, item.place))
        elif isinstance(item.event, StateSaved):
            found.items.append(replace(item, event=replace(item.event, through=through)))
        elif isinstance(item.event, ScalerUsed) and item.event.act in _OF_STATES:
            found.items.append(item)
    return found
