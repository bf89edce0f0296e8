"""What the probe does in a step of training is counted, not timed: it must not grow with what is of no interest."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from amplint.confirm.functions import FunctionMode  # noqa: E402
from amplint.confirm.observer import Observer  # noqa: E402
from amplint.confirm.places import Sites  # noqa: E402
from amplint.confirm.probe import Probe  # noqa: E402
from amplint.confirm.recording import Recording  # noqa: E402
from amplint.confirm.session_hooks import losses_told  # noqa: E402
from amplint.events import DType, Event, Op, OptimizerStepped, Place, Region  # noqa: E402
from amplint.findings import Span  # noqa: E402
from amplint.rules import rule_classes  # noqa: E402
from amplint.rules.base import FlowRule  # noqa: E402
from amplint.rules.dispatcher import Dispatcher  # noqa: E402

STEPS = """
import torch
from torch import nn

model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(layers)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.ones(2, 4)).float().mean()
    scaler.scale(loss).backward()
    before = seen()
    scaler.step(optimizer)
    scaler.update()
    found.append(seen() - before)
"""

HELD = """
import torch
from torch import nn

model, held = nn.Linear(4, 4), []
model.bias.register_post_accumulate_grad_hook(lambda parameter: held.append(parameter.grad))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
scaler.scale(model(torch.ones(2, 4)).mean()).backward()
scaler.step(optimizer)
held[0].zero_()
"""

BATCHES = """
import torch

count = torch.zeros((), dtype=torch.int64)
with torch.autocast("cpu", dtype=torch.bfloat16):
    count.add_(1)
    before = seen()
    count.add_(1)
    found.append(seen() - before)
"""


def observed() -> tuple[Observer, Probe]:
    observer = Observer([rule() for rule in rule_classes() if issubclass(rule, FlowRule)])
    probe = Probe(observer, is_user_file="train.py".__eq__, root=Path.cwd(), device="cpu")
    observer.ask(probe.context)
    return observer, probe


def counted(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often a method is called, in a list of one number."""
    original, count = getattr(owner, name), [0]

    def method(*args: Any, **kwargs: Any) -> Any:
        count[0] += 1
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, method)
    return count


def run(text: str, count: list[int], **names: Any) -> list[int]:
    """What a program under the probe finds of a count."""
    found: list[int] = []
    observer, probe = observed()
    with probe, losses_told(observer.loss):
        exec(compile(text, "train.py", "exec"), {"found": found, "seen": lambda: count[0], **names})
    assert probe.errors == []
    return found


def test_a_scalers_step_is_not_looked_at_parameter_by_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = counted(FunctionMode, "__torch_function__", monkeypatch)
    few, many = run(STEPS, looks, layers=1), run(STEPS, looks, layers=9)
    assert few == many and any(few)


def test_a_gradient_that_a_scalers_step_has_divided_is_known_by_whatever_name() -> None:
    observer, probe = observed()
    with probe, losses_told(observer.loss):
        exec(compile(HELD, "train.py", "exec"), {})
    assert probe.errors == []
    zeroed = [
        part for part in observer.recording(Recording("cuda")).reached if part.kind == "GradientsZeroed"
    ]
    assert [part.span.line for part in zeroed] == [HELD.splitlines().index("held[0].zero_()") + 1]


def test_what_is_written_and_no_weight_has_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(BATCHES, counted(Sites, "frame", monkeypatch)) == [0]


def test_no_more_tensors_are_asked_for_their_device_than_it_takes_to_know() -> None:
    _, probe = observed()
    mode = FunctionMode(probe, SimpleNamespace())  # type: ignore[arg-type]
    asked: list[str] = []

    class On:
        def __init__(self, name: str) -> None:
            self._name = name

        @property
        def device(self) -> Any:
            asked.append(self._name)
            return SimpleNamespace(type=self._name)

    def device(*names: str) -> tuple[str, list[str]]:
        asked.clear()
        return mode._device([On(name) for name in names]), list(asked)  # type: ignore[misc]

    assert device("cuda", "cuda", "cpu") == ("cuda", ["cuda"])
    assert device("cpu", "cuda", "cuda") == ("cuda", ["cpu", "cuda"])
    assert device("meta", "cpu") == ("meta", ["meta", "cpu"])


def test_as_long_as_nothing_has_changed_no_rule_is_asked_for_its_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def at(line: int) -> Place:
        return Place("train.py", line, lambda: Span(line, 1, line, 9), lambda: "text")

    region = Region(at(1), 1, "cuda", DType.FLOAT16)
    observer, _ = observed()
    states: list[Hashable] = []
    original = Dispatcher.of_those

    def of_those(dispatcher: Dispatcher, kind: type[Event], state: tuple[Hashable, ...]) -> Any:
        states.append(state)
        return original(dispatcher, kind, state)

    monkeypatch.setattr(Dispatcher, "of_those", of_those)
    ops = [Op(at(line), (region,), "relu", (), DType.FLOAT16, "passthrough") for line in (2, 3, 4)]
    for op in ops:
        observer.hear(op)
    states.clear()
    for _ in range(100):
        for op in ops:
            observer.hear(op)
    assert states == []
    observer.hear(OptimizerStepped(at(5), (), "optimizer"))
    for op in ops * 2:
        observer.hear(op)
    assert len(states) <= len(ops)
