"""The rules on the scaler's protocol against torch: every short program of scaler calls, as torch runs it.

A program is a sequence of calls on one parameter, one optimizer and the latest scaler. torch runs it with real
GradScaler objects whose scale moves with every update, and once more without scaling. It is right if both end
with the same weights at every step; otherwise it raises or is silently wrong, and a rule has to say so.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import torch

from amplint.amp.protocol import PROTOCOL, Fault
from amplint.analysis import Analysis
from amplint.config import Settings
from amplint.events import (
    Backward,
    Event,
    FunctionEnded,
    GradientsRead,
    GradientsZeroed,
    OptimizerMade,
    OptimizerStepped,
    Place,
    ScalerMade,
    ScalerUsed,
)
from amplint.findings import Span
from amplint.rules import rule_classes
from amplint.rules.base import FlowRule, Report
from amplint.rules.context import NothingElse
from amplint.rules.dispatcher import Dispatcher
from amplint.source.project import Project
from amplint.source.texts import read_source

CALLS = {
    "backward": "scaler.scale(0.5 * (w - v).square().sum()).backward()",
    "unscale_": "scaler.unscale_(optimizer)",
    "clip": "torch.nn.utils.clip_grad_norm_([w], 0.5); torch.nn.utils.clip_grad_norm_([v], 50.0)",
    "step": "scaler.step(optimizer)",
    "optimizer.step": "optimizer.step()",
    "update": "scaler.update()",
    "new scaler": "scaler = torch.amp.GradScaler('cpu')",
}
LONGEST = 6
NO_GRADIENTS = "No inf checks were recorded, because there was no gradient."


def scalers() -> Iterator[torch.amp.GradScaler]:
    """Scalers as a long run has them: no two have the same scale, and each update changes it."""
    scale = 2.0**10
    while True:
        yield torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=1)
        scale *= 8


@dataclass
class Run:
    """A program as torch runs it. A step is followed by zero_grad: gradients are used once. The gradient of
    ``w`` is larger than its limit, that of ``v`` smaller."""

    scaled: bool
    w: torch.Tensor = field(default_factory=lambda: torch.tensor([3.0, -2.0], requires_grad=True))
    v: torch.Tensor = field(default_factory=lambda: torch.tensor([0.5, 1.0], requires_grad=True))
    unchecked: bool = False
    """Whether a step or unscale_ found no gradient to check since the last update."""

    def __post_init__(self) -> None:
        self.optimizer = torch.optim.SGD([self.w, self.v], lr=0.1)
        self.made = scalers()
        self.scaler = next(self.made)

    def call(self, name: str) -> None:
        """Makes one call."""
        if name in ("step", "unscale_"):
            self.unchecked = self.unchecked or self.w.grad is None
        match name:
            case "backward":
                loss = 0.5 * (self.w - self.v).square().sum()
                (self.scaler.scale(loss) if self.scaled else loss).backward()
            case "clip":
                torch.nn.utils.clip_grad_norm_([self.w], 0.5)
                torch.nn.utils.clip_grad_norm_([self.v], 50.0)
            case "step" if self.scaled:
                self.scaler.step(self.optimizer)
                self.optimizer.zero_grad()
            case "step" | "optimizer.step":
                self.optimizer.step()
                self.optimizer.zero_grad()
            case "unscale_" if self.scaled:
                self.scaler.unscale_(self.optimizer)
            case "update" if self.scaled:
                self.scaler.update()
                self.unchecked = False
            case "new scaler":
                self.scaler = next(self.made)

    @property
    def standing(self) -> object:
        """All that its future depends on."""
        gradient = self.w.grad.tolist() if self.w.grad is not None else None
        stages = {key: state["stage"] for key, state in self.scaler._per_optimizer_states.items()}
        checked = [bool(s["found_inf_per_device"]) for s in self.scaler._per_optimizer_states.values()]
        scale = None if self.scaler._scale is None else self.scaler._scale.item()
        return str(
            (
                self.w.tolist(),
                self.v.tolist(),
                self.unchecked,
                gradient,
                sorted(stages.values(), key=str),
                checked,
                scale,
            )
        )


RIGHT, WRONG = "right", "wrong"


def outcome(program: tuple[str, ...]) -> tuple[str, object]:
    """RIGHT, WRONG, or the message with which torch raises; and how things stand at the end."""
    run, reference = Run(scaled=True), Run(scaled=False)
    for name in program:
        try:
            run.call(name)
        except (RuntimeError, AssertionError) as error:
            return (NO_GRADIENTS if run.unchecked and "No inf checks" in str(error) else str(error)), None
        reference.call(name)
        if not torch.allclose(torch.cat([run.w, run.v]), torch.cat([reference.w, reference.v]), rtol=1e-4):
            return WRONG, None
    return RIGHT, (run.standing, reference.standing, len(set(program[-1:]) & {"new scaler"}))


# what the rules say -----------------------------------------------------------------------------------------------


def place(key: object) -> Place:
    """A piece of text."""
    return Place("main.py", key, lambda: Span(1, 1, 1, 1), lambda: str(key))


def events_of(name: str, number: int, scaler: int) -> list[Event]:
    """The events of a call, ``number`` in the program, with the scaler that is the latest."""
    here, regions = place((name, number)), ()
    match name:
        case "backward":
            return [
                ScalerUsed(here, regions, scaler, "scale", enabled=True),
                Backward(here, regions, ".backward()", True, scaled_by=(scaler,)),
            ]
        case "clip":
            return [GradientsRead(here, regions, "clip_grad_norm_", WEIGHTS, True, 0.5)]
        case "optimizer.step":
            return [
                OptimizerStepped(here, regions, "optimizer", modules=WEIGHTS, in_sight=True),
                GradientsZeroed(here, regions, "optimizer", WEIGHTS),
            ]
        case "new scaler":
            return [ScalerMade(here, regions, scaler, True)]
    used = ScalerUsed(here, regions, scaler, name, enabled=True)
    if name in ("unscale_", "step"):
        used = replace(used, optimizer="optimizer", modules=WEIGHTS)
    if name != "step":
        return [used]
    return [
        used,
        OptimizerStepped(here, regions, "optimizer", True, scaler=scaler, modules=WEIGHTS),
        GradientsZeroed(here, regions, "optimizer", WEIGHTS),
    ]


WEIGHTS = frozenset({"w"})
RULES = [rule() for rule in rule_classes() if issubclass(rule, FlowRule) and rule.machine is PROTOCOL]


def verdict(program: tuple[str, ...]) -> tuple[list[str], object]:
    """The rules that speak of a program, and what they remember of it."""
    report = Report()
    jury = Dispatcher(RULES, report)
    start = place("start")
    state = jury.start()
    made: list[Event] = [
        OptimizerMade(start, (), "optimizer", modules=WEIGHTS),
        ScalerMade(start, (), 0, True),
    ]
    scaler = 0
    for number, name in enumerate(program):
        scaler += name == "new scaler"
        made += events_of(name, number, scaler)
    for event in [*made, FunctionEnded(place("end"), ())]:
        memory = state
        state = jury.hear(state, event)
    # which line it was matters to the message alone
    standing = re.sub(r"Place\([^)]*\)", "Place", repr(memory))
    return [draft.rule.name for draft in report.drafts], standing


@lru_cache
def programs() -> list[tuple[tuple[str, ...], str, list[str]]]:
    """All programs up to LONGEST calls whose beginnings are right and silent, with torch's outcome and what
    the rules say. Of programs that leave both torch and the rules as another one left them, only the
    shortest is gone on with; a program that goes on after its fault stays as wrong and as spoken of."""
    judged = []
    pending: deque[tuple[str, ...]] = deque([()])
    seen: set[object] = set()
    while pending:
        program = pending.popleft()
        result, torch_stands = outcome(program)
        said, rules_stand = verdict(program)
        judged.append((program, result, said))
        if result != RIGHT or said or len(program) == LONGEST:
            continue
        if (torch_stands, rules_stand) not in seen:
            seen.add((torch_stands, rules_stand))
            pending.extend((*program, name) for name in CALLS)
    return judged


def test_rules_and_torch_agree_on_every_program() -> None:
    disagreements = []
    count = 0
    for program, result, said in programs():
        count += 1
        if said and result == RIGHT:
            # gradients that are wrong show when they are used
            result, _ = outcome((*program, "step"))
        # a step without any gradient refuses at once and changes nothing: there is no number to get wrong
        if result != NO_GRADIENTS and bool(said) is (result == RIGHT):
            disagreements.append(f"{' '.join(program)}: torch: {result}, rules: {said}")
    assert disagreements == []
    assert count > 500


# programs as text -------------------------------------------------------------------------------------------------

HEAD = """\
import torch

w, v = torch.nn.Parameter(torch.tensor([3.0, -2.0])), torch.nn.Parameter(torch.tensor([0.5, 1.0]))
optimizer = torch.optim.SGD([w, v], lr=0.1)
scaler = torch.amp.GradScaler("cpu")
"""


def text_of(program: tuple[str, ...]) -> str:
    """The program as a script."""
    lines = []
    for name in program:
        lines.append(CALLS[name])
        if name in ("step", "optimizer.step"):
            lines.append("optimizer.zero_grad()")
    return HEAD + "\n".join(lines) + "\n"


def sample() -> list[tuple[str, ...]]:
    """All programs of up to two calls, and every so many of the longer ones."""
    return [
        program
        for number, (program, _, _) in enumerate(programs())
        if 0 < len(program) <= 2 or number % 41 == 0
    ]


def test_text_is_judged_like_its_events(tmp_path: Path) -> None:
    codes = frozenset(rule.code for rule in RULES)
    differences = []
    for number, program in enumerate(sample()):
        path = tmp_path / f"program_{number}.py"
        path.write_text(text_of(program), encoding="utf-8")
        found = Analysis([read_source(path)], Project([path]), Settings(tmp_path), codes).run().findings
        said = {finding.name for finding in found}
        if said != set(verdict(program)[0]):
            differences.append(f"{' '.join(program)}: text: {said}, events: {verdict(program)[0]}")
    assert differences == []


def test_the_update_of_another_scaler_leaves_the_scale_alone() -> None:
    where = place("somewhere")
    used = ScalerUsed(where, (), "generator's", "scale", enabled=True)
    both = [
        used,
        Backward(where, (), ".backward()", scaled=True, scaled_by=("generator's",)),
        replace(used, act="step", optimizer="generator's"),
        replace(used, act="update"),
    ]
    faults = {}
    for scaler in ("generator's", "discriminator's"):
        state, said = PROTOCOL.start(), []
        for event in [*both, replace(used, scaler=scaler, act="step", optimizer="discriminator's")]:
            state, violations = PROTOCOL.hear(state, event, NothingElse())
            said += [violation.fault for violation in violations]
        faults[scaler] = said
    assert faults == {"generator's": [Fault.UPDATED_BEFORE_STEP], "discriminator's": []}
