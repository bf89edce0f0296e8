"""The probe never waits for the device: it looks at no number of a tensor while a program trains."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from amplint.confirm.observer import Observer  # noqa: E402
from amplint.confirm.order import Order  # noqa: E402
from amplint.confirm.probe import Probe  # noqa: E402
from amplint.confirm.recording import KILLED, REAL, Recording  # noqa: E402
from amplint.confirm.release import RELEASE  # noqa: E402
from amplint.confirm.session import Session  # noqa: E402
from amplint.confirm.session_hooks import losses_told  # noqa: E402
from amplint.rules import rule_classes  # noqa: E402
from amplint.rules.base import FlowRule  # noqa: E402

COUNTED = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=FOREACH)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
for step in range(6):
    before = looks[0]
    BODY
    found.append(looks[0] - before)
"""

BODIES = {
    "right": """
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(2, 4)).float().square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=KEPT)
""",
    "wrong": """
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(2, 4)).float().square().mean()
        scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    nn.utils.clip_grad_value_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    if step % 2:
        model.zero_grad(set_to_none=KEPT)
""",
    "zeroed by hand": """
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(2, 4)).float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    for parameter in model.parameters():
        parameter.grad.data.zero_()
""",
}


@pytest.fixture
def looks() -> Iterator[list[int]]:
    """How often a number was read off a tensor: ``item``, ``bool``, ``float`` and ``is_nonzero`` all end there."""
    count = [0]

    def look(tensor: Any) -> Any:
        count[0] += 1
        return tensor.detach().numpy().item()

    library = torch.library.Library("aten", "IMPL", "CPU")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        override = {"allow_override": True} if RELEASE >= (2, 8) else {}
        library.impl("_local_scalar_dense", look, **override)
    yield count
    library._destroy()


def observed() -> tuple[Observer, Probe]:
    """A probe of the programs of this module, with all that a session has it tell."""
    rules = [rule() for rule in rule_classes() if issubclass(rule, FlowRule)]
    observer = Observer(rules, measure=lambda *what: probe.numbers.measured(*what))
    probe = Probe(observer, is_user_file="train.py".__eq__, root=Path.cwd(), device="cpu")
    observer.ask(probe.context)
    return observer, probe


@pytest.mark.parametrize("none", [True, False])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_step_reads_no_more_numbers_than_without_a_probe(looks: list[int], body: str, none: bool) -> None:
    text = COUNTED.replace("    BODY\n", body).replace("KEPT", str(none)).replace("FOREACH", str(none))
    program = compile(text, "train.py", "exec")

    def counts() -> list[int]:
        found: list[int] = []
        exec(program, {"looks": looks, "found": found})
        return found

    plain = counts()
    observer, probe = observed()
    with probe, losses_told(observer.loss):
        probed = counts()
    assert probe.errors == []
    assert probed == plain and any(plain)
    told = {seen.finding.name for seen in observer.recording(Recording("cuda")).seen}
    assert ("clip-without-unscale" in told) is (body == BODIES["wrong"])
    assert "unscale-misplaced" not in told or body == BODIES["wrong"]


class Watched(torch.Tensor):
    """Stands for a tensor on a device: says which threads look at its numbers."""

    looked: list[str]
    fails = ""

    def item(self) -> float:
        """Its value, or the error of a device that has failed."""
        if self.fails:
            raise RuntimeError(self.fails)
        self.looked.append(threading.current_thread().name)
        return 1.0


def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: Watched) -> Session:
    """One that takes its device for a real one, in which a rule has spoken and measured."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    made = Session(Order(str(tmp_path), str(tmp_path)))
    made.device, made._open = REAL, True
    made.observer, made.probe = observed()
    with made.probe:
        exec(
            compile(
                """
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters())
with torch.autocast("cpu", dtype=torch.bfloat16):
    for _ in range(3):
        tell(loss)
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
""",
                "train.py",
                "exec",
            ),
            {"tell": made.observer.loss, "loss": loss},
        )
    return made


@pytest.fixture
def loss() -> Watched:
    made = torch.ones(1).as_subclass(Watched)
    made.looked = []
    return made


def test_what_is_written_while_the_program_goes_on_leaves_the_device_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: Watched
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: asked.append("name") or "stub")
    made = session(tmp_path, monkeypatch, loss)
    thread = threading.Thread(target=made.save, name="amplint")
    thread.start()
    thread.join()
    made.save()
    assert (loss.looked, asked) == ([], [])
    found = made.recording()
    assert set(loss.looked) == {"MainThread"} and asked == ["name"]
    assert found.device_name == "stub" and any("loss stood still" in seen.evidence[0] for seen in found.seen)


def test_a_device_that_has_failed_leaves_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: Watched
) -> None:
    def fail() -> str:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "get_device_name", fail)
    made = session(tmp_path, monkeypatch, loss)
    made.ended = KILLED
    loss.fails = (
        "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be reported later"
    )
    found = made.recording()
    assert [seen.finding.name for seen in found.seen if seen.finding.name == "epoch-wide-autocast"]
    assert found.device_name == ""
    assert found.notes[-1].endswith("from the device: CUDA error: an illegal memory access was encountered")


def test_nothing_is_measured_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    from amplint.confirm.numbers import Numbers
    from amplint.events import OptimizerStepped

    weight = torch.nn.Parameter(torch.ones(2))
    weight.sum().backward()
    optimizer = torch.optim.SGD([weight])
    numbers = Numbers()
    numbers.optimizer("optimizer", optimizer)
    event = OptimizerStepped(None, (), "optimizer", False)  # type: ignore[arg-type]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    for capturing in (False, True):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)  # noqa: B023
        assert (numbers.measured(("norm",), event, None) is None) is capturing  # type: ignore[arg-type]


def test_the_largest_gradient_is_not_taken_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    from amplint.confirm.numbers import Numbers

    weight = torch.nn.Parameter(torch.ones(2))
    weight.sum().backward()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    for capturing in (False, True):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)  # noqa: B023
        numbers = Numbers()
        numbers.largest(None, [weight], 1.0)  # type: ignore[arg-type]
        assert bool(numbers._sizes) is not capturing


def test_a_record_that_the_sessions_thread_closes_leaves_the_device_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: Watched
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "stub")
    made = session(tmp_path, monkeypatch, loss)
    thread = threading.Thread(target=made.write, name="amplint")
    thread.start()
    thread.join()
    assert loss.looked == []


def test_a_slice_of_a_device_is_not_looked_for_with_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    from amplint.confirm import order

    asked: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: asked.append("driver") or False)
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-0a1b2c3d")
    assert order._has_cuda() and asked == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert not order._has_cuda() and asked == ["driver"]
