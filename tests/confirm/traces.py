"""Traces that are written by hand: the tests of what is shown need no run."""

from __future__ import annotations

from amplint.confirm.recording import Opened, Recording
from amplint.confirm.trace import CastRow, End, ModuleRow, OpRow, PairRow, Timeline, TimeSpan, Trace
from amplint.findings import Span

FILE = "train.py"
REGION = ("train.py:2", "float16")


def at(line: int) -> Span:
    """A stretch of a line."""
    return Span(line, 5, line, 20)


def module(name: str, kind: str, line: int, calls: int = 10) -> ModuleRow:
    """A module that is called in a line."""
    weights = (("float32", 400),) if kind == "Linear" else ()
    return ModuleRow(name, kind, FILE, at(line), f"self.{name.rpartition('.')[2]}(x)", weights, calls)


def op(name: str, line: int, where: str, result: str, size: int = 1000, count: int = 10) -> OpRow:
    """An op in a module."""
    return OpRow(FILE, at(line), name, where, ("float32",), result, *REGION, "forward", count, size)


def cast(line: int, what: str, by: str, size: int, **more: object) -> CastRow:
    """Casts for an op."""
    values = {
        "op": "linear",
        "module": "Net.layers.0",
        "source": "float32",
        "to": "float16",
        "text": "self.layer(x)",
    }
    values |= {
        "region": REGION[0],
        "region_type": REGION[1],
        "phase": "forward",
        "count": 10,
        "written": size // 2,
    }
    values |= more  # type: ignore[arg-type]
    return CastRow(path=FILE, span=at(line), what=what, by=by, size=size, **values)  # type: ignore[arg-type]


def layers(count: int, kept: int = -1) -> tuple[tuple[ModuleRow, ...], tuple[OpRow, ...]]:
    """A network of linear layers, of which one was kept in float32."""
    names = [f"Net.layers.{number}" for number in range(count)]
    types = ["float32" if number == kept else "float16" for number in range(count)]
    modules = (module("Net", "Net", 7), *(module(name, "Linear", 4) for name in names))
    return modules, tuple(op("linear", 4, name, dtype) for name, dtype in zip(names, types, strict=True))


def recording(kept: int = 17, count: int = 48, **more: object) -> Recording:
    """Ten steps of it, with casts of all kinds."""
    modules, ops = layers(count, kept)
    casts = (
        cast(4, "weight", "autocast", 2_000_000, hits=30, hit_size=6_000_000),
        cast(4, "activation", "autocast", 4_000_000, backward=10, backward_size=2_000_000, held=200_000),
        cast(
            5,
            "activation",
            "code",
            1_000,
            op="float",
            module="Net",
            source="float16",
            to="float32",
            text="x.float()",
        ),
        cast(9, "activation", "library", 500, op="to", module=""),
    )
    pair = PairRow(
        End(FILE, 5, "float", "Net"),
        End(FILE, 4, "linear", "Net.layers.0"),
        "float16",
        "float32",
        1,
        10,
        3_000,
    )
    timeline = Timeline(
        3,
        (
            TimeSpan("phase", "forward", 0, 600),
            TimeSpan("region", "autocast", 0, 700, "float16", "", FILE, 2),
            TimeSpan("module", "Net", 10, 500, "", "Net", FILE, 7),
            TimeSpan("op", "linear", 20, 300, "float16", "Net.layers.0", FILE, 4),
            TimeSpan("op", "add", 400, 100, "float32", "Net", FILE, 5),
            TimeSpan("phase", "loss", 600, 100),
            TimeSpan("phase", "backward", 700, 200),
            TimeSpan("phase", "step", 950, 50),
        ),
        ((0, 0), (500, 200_000), (900, 0)),
    )
    ops = (*ops, op("add", 5, "Net", "float32"), op("sum", 9, "", "float32", 40))
    trace = Trace(
        backwards=10, forwards=10, modules=modules, ops=ops, casts=casts, pairs=(pair,), timeline=timeline
    )
    values = {"torch": "2.13.0", "command": (FILE,), "steps": 10, "trace": trace}
    values["opened"] = (Opened(FILE, at(2), "cuda", "float16", True, 10),)
    return Recording("simulated-cuda", **{**values, **more})  # type: ignore[arg-type]


SOURCE = """import torch
with torch.autocast("cuda"):
    for step in range(10):
        x = self.layer(x)
        y = x.float() + 1  # <b>
def forward(self, x):
    return net(x)
'<script>alert(1)</script>' & b
x.sum()
"""
"""What ``train.py`` holds."""
