"""How long what a function makes is used: ``scaler = GradScaler()`` of a training step that keeps it nowhere."""

from __future__ import annotations

import ast

from amplint.amp.scalers import OF_A_STEP
from amplint.events import ScalerUsed
from amplint.flow.project.counting import rounds_of
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
