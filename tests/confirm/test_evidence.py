"""What a run measures where a finding is true."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from probing import Probed

torch = pytest.importorskip("torch")

from amplint.confirm.observer import Observer  # noqa: E402
from amplint.confirm.probe import Probe  # noqa: E402
from amplint.confirm.recording import Recording  # noqa: E402
from amplint.rules import all_rules  # noqa: E402
from amplint.rules.base import FlowRule  # noqa: E402

forks = pytest.mark.skipif(sys.platform == "win32", reason="forks")

SCALER = 'scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)'
START = f"""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{SCALER}


def loss(factor=1.0):
    with torch.autocast("cuda", dtype=torch.float16):
        return model(torch.ones(2, 4, device="cuda")).float().pow(2).mul(factor).mean()


def norm():
    return torch.cat([part.grad.flatten() for part in model.parameters()]).norm().item()


"""


def numbers(probed: Probed, rest: str, name: str) -> tuple[list[str], list[str]]:
    """The first piece of evidence for each finding of a rule, and what the program printed."""
    start = START if "scaler" in rest else START.replace(SCALER, "")
    done = probed(start + rest)
    assert (done.status, done.stderr) == (0, "")
    pieces = [seen.evidence[0] for seen in done.recording.seen if seen.finding.name == name]
    return pieces, done.stdout.split()


@forks
def test_a_clip_shows_what_it_met(probed: Probed) -> None:
    told, [largest, norm] = numbers(
        probed,
        """
scaler.scale(loss()).backward()
print(max(max(part.grad.abs().flatten().tolist()) for part in model.parameters()))
nn.utils.clip_grad_value_(model.parameters(), 400)
print(nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
scaler.step(optimizer)
scaler.update()
""",
        "clip-without-unscale",
    )
    assert sorted(told) == [
        f"the gradient norm was {float(norm):.6g} where 0.5 is allowed, the scale was 1024",
        f"the largest gradient was {float(largest):.6g} where 400 is allowed, the scale was 1024",
    ]
    assert float(largest) > 400


@forks
def test_a_norm_by_hand_shows_what_it_came_to(probed: Probed) -> None:
    [told], [found] = numbers(
        probed,
        """
scaler.scale(loss()).backward()
print(next(model.parameters()).grad.pow(2).sum().item())
scaler.step(optimizer)
scaler.update()
""",
        "clip-without-unscale",
    )
    assert told == f"the figure was {float(found):.6g}, the scale was 1024"


@forks
def test_a_step_shows_what_it_applies_and_what_it_divides_by(probed: Probed) -> None:
    [direct], [found] = numbers(
        probed,
        "scaler.scale(loss()).backward()\nprint(norm())\noptimizer.step()\n",
        "direct-optimizer-step",
    )
    assert direct == f"the gradient norm was {float(found):.6g}, the scale was 1024"
    [divided], [found] = numbers(
        probed,
        "scaler.scale(loss())\nloss().backward()\nprint(norm())\nscaler.step(optimizer)\nscaler.update()\n",
        "unscaled-backward",
    )
    assert divided == f"the gradient norm was {float(found):.6g}, the scale was 1024"


@forks
def test_a_measurement_of_finite_numbers_is_preferred(probed: Probed) -> None:
    [told], found = numbers(
        probed,
        """
scaler = torch.amp.GradScaler("cuda", init_scale=2.0**18)
for _ in range(6):
    optimizer.zero_grad()
    scaler.scale(loss()).backward()
    print(nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
    scaler.step(optimizer)
    scaler.update()
""",
        "clip-without-unscale",
    )
    first = next(value for value in map(float, found) if value < float("inf"))
    assert told.startswith(f"the gradient norm was {first:.6g} where 0.5 is allowed")


@forks
def test_without_a_scaler_the_lost_gradients_are_counted(probed: Probed) -> None:
    [told], [norm, zeros] = numbers(
        probed,
        """
model = nn.Sequential(nn.Linear(4, 40), nn.ReLU(), nn.Linear(40, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss(1e-6).backward()
print(norm())
gradients = torch.cat([part.grad.flatten() for part in model.parameters()])
print(100 * (gradients == 0).float().mean().item())
optimizer.step()
""",
        "missing-grad-scaler",
    )
    assert told == f"the gradient norm was {float(norm):.6g}, {float(zeros):.3g} % of the gradients were zero"


def train() -> list[float]:
    """Clips scaled gradients, and steps around the scaler."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Dropout(0.2), torch.nn.Linear(12, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cpu")
    seen = []
    for number in range(6):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(torch.randn(8, 6)).float().square().mean()
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.1)
        if number % 2:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        seen += [loss.item(), torch.rand(1).item()]
    return seen


def test_measuring_changes_nothing() -> None:
    expected = train()
    rules = [rule for rule in all_rules() if isinstance(rule, FlowRule)]
    observer = Observer(rules, measure=lambda *what: probe.numbers.measured(*what))
    probe = Probe(observer, is_user_file=__file__.__eq__, root=Path(__file__).parent, device="cpu")
    observer.ask(probe.context)
    with probe:
        assert train() == expected
    assert (probe.errors, observer.notes) == ([], {})
    seen = observer.recording(Recording("cpu")).seen
    assert {part.finding.name for part in seen} == {"clip-without-unscale", "direct-optimizer-step"}
    assert all(part.evidence[0].startswith("the ") for part in seen)
