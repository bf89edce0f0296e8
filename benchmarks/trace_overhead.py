"""Times training steps under ``amplint trace`` against the same steps without it, both under simulated CUDA.

    python benchmarks/trace_overhead.py [--steps N] [--rounds N]

One process, one thread, float16 with a scaler; the median over the rounds of the ratio of CPU times.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch
from overhead import cnn, mlp, seconds
from torch import nn

from amplint.confirm.levels import Level
from amplint.confirm.probe import Probe
from amplint.confirm.simulation import SimulatedCuda
from amplint.confirm.tracer import Tracer

Made = tuple[nn.Module, torch.Tensor, torch.Tensor]


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention and an MLP."""
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = self.mlp(self.second(x))
        return x + y


def transformer() -> Made:
    """Four layers on 64 tokens."""
    layers = [Block(128) for _ in range(4)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 128, 10))
    return model, torch.randn(8, 64, 128), torch.randint(10, (8,))


def trainer(build: Callable[[], Made]) -> Callable[[int], None]:
    """A function that trains for a number of steps."""
    torch.manual_seed(0)
    model, x, y = build()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")

    def train(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    return train


def ratio(train: Callable[[int], None], steps: int, rounds: int) -> float:
    """Traced over plain, after the steps that have a timeline."""
    ratios = []
    for _ in range(rounds):
        plain = seconds(train, steps)
        probe = Probe(
            Tracer(), is_user_file=lambda name: name == __file__, root=Path.cwd(), level=Level.CASTS
        )
        with probe:
            train(4)
            traced = seconds(train, steps)
        ratios.append(traced / ((plain + seconds(train, steps)) / 2))
    return median(ratios)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    programs = {
        "MLP 8x64": partial(mlp, 64),
        "MLP 8x256": partial(mlp, 256),
        "CNN": cnn,
        "transformer": transformer,
    }
    print("| program | traced / plain | asked for |\n|---|---|---|")
    with SimulatedCuda():
        for name, build in programs.items():
            train = trainer(build)
            train(3)
            print(f"| {name} | {ratio(train, options.steps, options.rounds):.2f} | 3 |", flush=True)


if __name__ == "__main__":
    main()
