"""Times training steps with and without the probe, at each level.

    python benchmarks/overhead.py [--steps N] [--rounds N]

Plain and observed steps run in turns in one process, on one thread, in a bfloat16 region on the CPU with a
scaler; the figure is the median over the rounds of the ratio of CPU times. The listener counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import nn

from amplint.confirm.probe import Level, Probe
from amplint.events import Event

ASKED = {
    ("API", "MLP"): 1.1,
    ("API", "CNN"): 1.1,
    ("FUNCTIONS", "MLP"): 1.5,
    ("FUNCTIONS", "CNN"): 1.25,
}


class Counter:
    """Counts events by identity, as a recording does."""

    def __init__(self) -> None:
        self.seen: dict[type[Event], int] = {}

    def hear(self, event: Event) -> None:
        """Counts one."""
        kind = type(event)
        self.seen[kind] = self.seen.get(kind, 0) + 1


def mlp(width: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Eight layers."""
    layers = [part for _ in range(8) for part in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(width, 10))
    return model, torch.randn(16, width), torch.randint(10, (16,))


def cnn() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Four convolutions on 32 x 32."""
    model = nn.Sequential(
        *[
            part
            for first, last in ((3, 16), (16, 16), (16, 32), (32, 32))
            for part in (nn.Conv2d(first, last, 3, padding=1), nn.BatchNorm2d(last), nn.ReLU())
        ],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    return model, torch.randn(4, 3, 32, 32), torch.randint(10, (4,))


def trainer(build: Callable[[], tuple[nn.Module, torch.Tensor, torch.Tensor]]) -> Callable[[int], None]:
    """A function that trains for a number of steps."""
    torch.manual_seed(0)
    model, x, y = build()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cpu")

    def train(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    return train


def seconds(train: Callable[[int], None], steps: int) -> float:
    """CPU time of some steps."""
    start = time.process_time()
    train(steps)
    return time.process_time() - start


def ratio(train: Callable[[int], None], level: Level, steps: int, rounds: int) -> tuple[float, float]:
    """Observed over plain, and milliseconds of a plain step."""
    ratios, plain_times = [], []
    for _ in range(rounds):
        plain = seconds(train, steps)
        with Probe(Counter(), is_user_file=lambda name: name == __file__, root=Path.cwd(), level=level):
            train(2)
            observed = seconds(train, steps)
        plain = (plain + seconds(train, steps)) / 2
        ratios.append(observed / plain)
        plain_times.append(plain / steps * 1000)
    return median(ratios), median(plain_times)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| program | level | plain step | observed / plain | asked for |\n|---|---|---|---|---|")
    for name, build in (
        ("MLP 8x64", partial(mlp, 64)),
        ("MLP 8x256", partial(mlp, 256)),
        ("CNN", cnn),
    ):
        train = trainer(build)
        train(5)
        for level in Level:
            times, step = ratio(train, level, options.steps, options.rounds)
            asked = ASKED.get((level.name, name[:3]))
            print(f"| {name} | {level.name} | {step:.1f} ms | {times:.2f} | {asked or ''} |", flush=True)


if __name__ == "__main__":
    main()
