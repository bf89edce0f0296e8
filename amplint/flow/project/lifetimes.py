"""How long what a function makes is used: ``scaler = GradScaler()`` of a training step that keeps it nowhere."""

from __future__ import annotations

import ast
from collections.abc import Hashable

from amplint.amp.scalers import OF_A_STEP
from amplint.events import Place, ScalerUsed
from amplint.flow.project.counting import comes_after_exit, is_loop, rounds_of
from amplint.flow.project.settings import was_there
from amplint.flow.project.stack import StackFrame, Stacks, node_at
from amplint.flow.project.view import View
from amplint.source.facts import facts_of


def is_for_one_step(view: View, stacks: Stacks, event: ScalerUsed) -> bool:
    """Whether a function makes a scaler for a single step, outside of all loops, of an optimizer that was there
    before, and nobody has the scaler afterwards."""
    stack = stacks.at(event.place)
    made = stacks.frame(event.made) if event.made is not None else None
    if made is None or not stack or made.function is not stack[0].function:
        return False
    if not was_there(event.optimizer) or any(map(_is_in_loop, (made, stack[0]))):
        return False
    name = _named(made)
    return name is not None and _steps_once(view, stacks, made, name)


_Loop = tuple[tuple[Hashable, ...], ast.AST]
"""A loop that is being run, behind the calls that led to its function."""


def is_anew_in_each_round(stacks: Stacks, made: Place, used: Place, other: Place) -> bool:
    """Whether a loop makes a thing in each round, whatever it finds, and uses it there, but was not yet being run where
    the other one was made."""
    loops = _loops_around(stacks, used).keys() - _loops_around(stacks, other).keys()
    return any(not asked for loop, asked in _loops_around(stacks, made).items() if loop in loops)


def _loops_around(stacks: Stacks, place: Place) -> dict[_Loop, bool]:
    """The loops that are being run at a place, each with whether a condition in it decides that the place is met."""
    found: dict[_Loop, bool] = {}
    for depth, one in enumerate((*place.calls, place)):
        frame = stacks.frame(one)
        if frame is None:
            continue
        calls = tuple(call.extent for call in place.calls[:depth])
        outer = dict(found)
        whole = frame.function.node
        inside = node_at(frame.file, frame.function, frame.place)
        around = [whole, *inside] if whole is not None else [*inside]
        for index, node in enumerate(around[:-1]):
            if is_loop(around, index):
                found[calls, node] = False
            if isinstance(node, (ast.If, ast.Match)):
                found = dict.fromkeys(found, True)
            elif comes_after_exit(around, index):  # whoever called goes on with what was there
                found = {loop: asked or loop[0] != calls for loop, asked in found.items()}
        if depth == len(place.calls) and _named(frame) is not None:
            found |= outer  # what only a local name has does not last from call to call
    return found


def _is_in_loop(frame: StackFrame) -> bool:
    return rounds_of(node_at(frame.file, frame.function, frame.place)) is not None


def _named(frame: StackFrame) -> str | None:
    """The local name that alone gets what is made at a place."""
    around = node_at(frame.file, frame.function, frame.place)
    match around:
        case (
            *_,
            ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
            ast.Call(),
        ):
            return name
    return None


def _steps_once(view: View, stacks: Stacks, frame: StackFrame, name: str) -> bool:
    """Whether a function, in which a name is given once, does nothing with it but one step."""
    facts = facts_of(frame.file.outline).of(frame.function)
    bodies = list(facts.bodies())
    if name in facts.body.elsewhere:
        return False
    if sum(len(body.stores.get(name, ())) for body in bodies) != 1:
        return False
    steps = sum(call.name == f"{name}.step" for body in bodies for call in body.calls)
    function = stacks.names.function(frame.file, frame.function)
    return steps == 1 and view.loads_only_calls(function, name, OF_A_STEP)
