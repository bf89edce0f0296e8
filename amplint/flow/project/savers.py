"""What is saved of an object that trains, by code that no walk has reached: by methods of its own that nobody in sight
calls, and by methods of others that it calls by their name and hands itself, ``callback.on_end(self)``.

What else such methods do is theirs: of what they do here only checkpoints are heard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from amplint.events import Call, CalledByName
from amplint.flow.core.registry import Weight
from amplint.flow.core.walks import FEWER, Walks
from amplint.flow.project.callgraph import CallGraph
from amplint.flow.project.effects import Effects
from amplint.flow.project.signatures import parameter_at
from amplint.flow.project.view import View
from amplint.flow.state.graph import Graph
from amplint.flow.state.values import ClassValue, FunctionValue, Instance, Value

_HEARD = frozenset({CalledByName})


@dataclass(frozen=True)
class Savers:
    """``Savers(saved_in, interpreter, view, effects, calls, receiver).of(graph, trainer)``. ``saved_in`` leaves of the
    events of a graph what is saved, by way of a call; ``receiver`` gives the object on which a method is walked."""

    saved_in: Callable[[Graph, Call | None], Graph]
    interpreter: Walks
    view: View
    effects: Effects
    calls: CallGraph
    receiver: Callable[[FunctionValue], Value | None]

    def of(self, graph: Graph, trainer: Instance) -> Graph:
        """What is saved of an object whose method has these events."""
        found = Graph()
        judged = set(self.interpreter.reached)
        for saver in self._own(trainer):
            self._walk(found, saver, trainer, None)
        for saver, parameter, call in self._called(graph, trainer):
            self._walk(found, saver, self.receiver(saver), call, {parameter: trainer})
        self.interpreter.reached = judged  # of the savers nothing else was heard
        return found

    def _walk(
        self,
        found: Graph,
        saver: FunctionValue,
        receiver: Value | None,
        call: Call | None,
        given: Mapping[str, Value] | None = None,
    ) -> None:
        saved = self.interpreter.walk_function(
            saver, receiver, most=FEWER if call is not None else None, given=given
        )
        if saved is not None:
            found.items += self.saved_in(saved, call).items

    def _own(self, trainer: Instance) -> Iterator[FunctionValue]:
        for owner in self.view.bases(trainer.made_of) if trainer.made_of is not None else ():
            if isinstance(owner, ClassValue):
                yield from filter(self._may_save, self.view.classes.methods(owner).values())

    def _called(self, graph: Graph, trainer: Instance) -> Iterator[tuple[FunctionValue, str, Call]]:
        """Methods that the object may have called, the parameter as which they got it, and the call."""
        for event in list(graph.different(_HEARD)):
            assert isinstance(event, CalledByName)
            position = next((index for index, one in event.handed if one == trainer.identity), None)
            for method in self.calls.methods(event.method, event.given) if position is not None else ():
                parameter = parameter_at(method, position)
                if parameter is not None and self._may_save(method):
                    yield method, parameter, Call(event.place, event.method)

    def _may_save(self, method: FunctionValue) -> bool:
        reached = id(method.outline) in self.interpreter.reached
        return not reached and self.effects.weight(method) >= Weight.EFFECT
