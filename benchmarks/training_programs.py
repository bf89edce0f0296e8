"""Right training programs for benchmarks/mending.py: one loop, five models, losses and styles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Line:
    """One line of a program by its name; ``depth`` is that of its block."""

    name: str
    depth: int
    code: str


Program = tuple[Line, ...]


@dataclass(frozen=True)
class Variant:
    """What tells a program from the others. ``layers`` and ``criterion`` are code; ``shape`` is that of an input,
    ``classes`` the number of labels, 0 for numbers."""

    layers: str
    criterion: str
    shape: tuple[int, ...]
    classes: int
    optimizer: str
    style: str
    accumulate: int = 1


_MLP = "nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)"
VARIANTS = (
    Variant(_MLP, "F.mse_loss", (8,), 0, "SGD(model.parameters(), lr=0.1)", "script"),
    Variant(
        "nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)",
        "F.cross_entropy",
        (1, 8, 8),
        3,
        "SGD(model.parameters(), lr=0.1, momentum=0.5)",
        "function",
    ),
    Variant(
        "nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3)",
        "F.cross_entropy",
        (8,),
        3,
        "SGD(model.parameters(), lr=0.2)",
        "method",
    ),
    Variant(_MLP, "F.mse_loss", (8,), 0, "SGD(model.parameters(), lr=0.1)", "function", 2),
    Variant(
        "nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)",
        "F.smooth_l1_loss",
        (8,),
        0,
        "SGD(model.parameters(), lr=0.3)",
        "script",
        2,
    ),
)
HEAD = """import copy
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
from torch import nn

device = "cuda"
generator = torch.Generator().manual_seed(1)
{definitions}

def batch():
    x = torch.randn(16, {shape}, generator=generator)
    if {classes}:
        return x.to(device), torch.randint({classes}, (16,), generator=generator).to(device)
    return x.to(device), torch.randn(16, 1, generator=generator).to(device)


batches = [batch(), batch()]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential({layers})

    def forward(self, x):
        return self.layers(x)


def criterion(output, y):
    return {criterion}(output.float(), y)

"""
_SETUP = ("model", "optimizer", "scaler", "more")


def right(variant: Variant) -> Program:
    """The right program of a variant: autocast, a scaler, gradients that are clipped."""
    inner = 1 if variant.accumulate == 1 else 2
    share = "loss" if variant.accumulate == 1 else f"loss / {variant.accumulate}"
    lines = [
        Line("model", 0, "model = Model().to(device)"),
        Line("optimizer", 0, f"optimizer = torch.optim.{variant.optimizer}"),
        Line("scaler", 0, "scaler = torch.amp.GradScaler(device, init_scale=1024.0)"),
        Line("more", 0, "losses, seen = [], []"),
        Line("for", 0, "for number in range(50):"),
        Line("batch", 1, "x, y = batches[number % 2]"),
        Line("region", 1, "with torch.autocast(device, dtype=torch.float16):"),
        Line("forward", 2, "output = model(x)"),
        Line("loss", 2, "loss = criterion(output, y)"),
        Line("share", 1, f"share = {share}"),
        Line("scale", 1, "scaler.scale(share).backward()"),
        Line("unscale", inner, "scaler.unscale_(optimizer)"),
        Line("clip", inner, "nn.utils.clip_grad_norm_(model.parameters(), 0.5)"),
        Line("step", inner, "scaler.step(optimizer)"),
        Line("update", inner, "scaler.update()"),
        Line("zero", inner, "optimizer.zero_grad()"),
        Line("keep", 1, "losses.append(loss.item())"),
        Line("see", 1, "seen.append(output.dtype)"),
    ]
    if variant.accumulate > 1:
        at = next(number for number, line in enumerate(lines) if line.name == "unscale")
        lines.insert(at, Line("guard", 1, f"if number % {variant.accumulate} == {variant.accumulate - 1}:"))
    return tuple(lines)


def edited(program: Program, **changes: str | tuple[int, str] | None) -> Program:
    """A program with other lines in the places of some, by name: several lines, lines that stand further in or out by
    so many blocks, or none. What a name stands for is kept in ``{}``."""
    unknown = {name for name, change in changes.items() if change is not None} - {
        line.name for line in program
    }
    if unknown:
        raise ValueError(f"no such line: {min(unknown)}")
    lines: list[Line] = []
    for line in program:
        change = changes.get(line.name, line.code)
        if change is None:
            continue
        by, code = change if isinstance(change, tuple) else (0, change)
        lines.append(replace(line, depth=line.depth + by, code=code.replace("{}", line.code)))
    return tuple(lines)


def source(variant: Variant, program: Program, definitions: str = "") -> str:
    """The text of a program in the style of its variant."""
    head = HEAD.format(
        definitions=definitions,
        shape=", ".join(map(str, variant.shape)),
        classes=variant.classes,
        layers=variant.layers,
        criterion=variant.criterion,
    )
    if variant.style == "script":
        return head + "\n" + _text(program, 0)
    if variant.style == "function":
        body = _text(program, 1)
        return f"{head}\ndef main():\n{body}    return losses, seen\n\n\nlosses, seen = main()\n"
    setup = [line for line in program if line.name in ("model", "optimizer", "scaler")]
    rest = [line for line in program if line not in setup]
    text = f"class Trainer:\n    def __init__(self):\n{_text(setup, 2)}\n    def fit(self):\n{_text(rest, 2)}"
    text = re.sub(r"""(?<![\w."'])(model|optimizer|scaler)(?![\w"'=])""", r"self.\1", text)
    return f"{head}\n{text}        return losses, seen\n\n\nlosses, seen = Trainer().fit()\n"


def _text(program: Sequence[Line], depth: int) -> str:
    lines = []
    for line in program:
        indent = "    " * (line.depth + depth)
        lines += [f"{indent}{part}\n" if part else "\n" for part in line.code.split("\n")]
    return "".join(lines)
