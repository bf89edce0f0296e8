"""The user's program behaves the same under the probe."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from amplint.confirm.probe import Level, Probe  # noqa: E402
from amplint.events import Backward, Event, Op, RegionEntered  # noqa: E402


class Notebook:
    """Keeps all events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def hear(self, event: Event) -> None:
        """Keeps an event."""
        self.events.append(event)

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


def observe(level: Level = Level.FUNCTIONS) -> tuple[Notebook, Probe]:
    notebook = Notebook()
    is_mine = __file__.__eq__
    return notebook, Probe(
        notebook, is_user_file=is_mine, root=Path(__file__).parent, device="cpu", level=level
    )


def train(steps: int = 4) -> list[float]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 12), nn.Dropout(0.2), nn.ReLU(), nn.Linear(12, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cpu")
    seen = []
    for _ in range(steps):
        x, y = torch.randn(8, 6), torch.randint(3, (8,))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        seen.append(loss.item())
    return seen


@pytest.mark.parametrize("level", list(Level), ids=lambda level: level.name)
def test_losses_are_the_same_with_the_same_seed(level: Level) -> None:
    expected = train()
    _, probe = observe(level)
    with probe:
        assert train() == expected
    assert probe.errors == []


def test_exceptions_are_untouched() -> None:
    def wrong() -> None:
        torch.ones(2, 3) @ torch.ones(2, 3)

    with pytest.raises(RuntimeError) as expected:
        wrong()
    _, probe = observe()
    with probe, pytest.raises(RuntimeError) as caught:
        wrong()
    assert str(caught.value) == str(expected.value)


def test_warnings_point_at_the_same_line() -> None:
    def warned() -> list[tuple[str, str]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.autocast("cpu", dtype=torch.float32)
            torch.cuda.amp.GradScaler(enabled=False)
        return [(Path(warning.filename).name, str(warning.message)) for warning in caught]

    expected = warned()
    _, probe = observe()
    with probe:
        assert warned() == expected
    assert expected


def test_a_listener_that_fails_harms_nobody() -> None:
    class Broken:
        def hear(self, event: Event) -> None:
            raise RuntimeError("broken listener")

    probe = Probe(Broken(), is_user_file=__file__.__eq__, root=Path(__file__).parent)
    with probe:
        assert len(train(1)) == 1
    assert "broken listener" in probe.errors[0]


def test_long_runs_tell_the_same_op_by_the_same_object() -> None:
    notebook, probe = observe()
    with probe:
        train(6)
    told = notebook.of(Op)
    assert len(told) == 6 * len({id(event) for event in told})
    assert len(probe.histories) < 20


def test_threads_are_observed_and_have_no_region() -> None:
    def work() -> None:
        half = torch.ones(2, dtype=torch.bfloat16)
        half.exp()

    notebook, probe = observe()
    with probe, torch.autocast("cpu", dtype=torch.bfloat16):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [event.regions for event in notebook.of(Op)] == [()]


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_is_no_backward_of_its_own(reentrant: bool) -> None:
    notebook, probe = observe()
    layer = nn.Linear(4, 4)
    with probe:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = torch.ones(2, 4, requires_grad=True)
            output = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=reentrant)
        output.float().sum().backward()
    assert [event.regions for event in notebook.of(Backward)] == [()]


def test_the_compiler_is_off_and_the_probe_says_so() -> None:
    _, probe = observe()
    layer = nn.Linear(2, 2)
    with probe:
        assert torch.compile(layer)._orig_mod is layer
        assert torch.compile(len) is len
        assert torch.compile()(len) is len
    assert len(probe.notes) == 1


def test_places_are_those_of_the_text() -> None:
    notebook, probe = observe()
    layer = nn.Linear(2, 2)
    with probe, torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        (
            layer(torch.ones(1, 2))
            .exp()
        )  # fmt: skip
    (region,) = notebook.of(RegionEntered)
    assert region.place.text == 'torch.autocast("cpu", dtype=torch.bfloat16)'
    (op,) = [event for event in notebook.of(Op) if isinstance(event, Op) and event.name == "exp"]
    assert op.place.text == "layer(torch.ones(1, 2)) .exp()"
    assert op.operands[0].place.text == "layer(torch.ones(1, 2))"
    assert op.operands[0].born is not None and op.operands[0].born.line == op.place.line
