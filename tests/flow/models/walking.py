"""Walks ``main`` of a program with the interpreter; the marks on its lines are those of listening.py."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from amplint.events import Converted, Event
from amplint.flow.core.api import Settings
from amplint.flow.driver import Driver
from amplint.flow.state.values import FunctionValue
from amplint.source.project import Project

HEAD = textwrap.dedent("""
    import copy

    import torch
    import torch.nn.functional as F
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.scale = nn.Parameter(torch.ones(2))
            self.register_buffer("mean", torch.zeros(2))

        def forward(self, x):
            return self.fc(x)


    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Net()
            self.stack = nn.ModuleList([Net(), nn.Linear(2, 2)])
    """)


def events_of(folder: Path, body: str, parameters: str = "x, y") -> list[Event]:
    """What happens in ``def main(x, y): body``; ``w`` is a float32 tensor there."""
    text = f"{HEAD}\n\ndef main({parameters}):\n    w = torch.randn(2, 2)\n" + textwrap.indent(
        textwrap.dedent(body).strip() + "\n", "    "
    )
    path = folder / "main.py"
    path.write_text(text, encoding="utf-8")
    project = Project([path])
    file = project.load(path)
    assert file is not None
    driver = Driver(project, [file], Settings(((2, 0), None), "cuda"))
    graph = driver.interpreter.walk_function(FunctionValue(file, file.outline.functions["main"]))
    assert graph is not None
    return list(graph.events())


def types_seen(events: list[Event]) -> list[str]:
    """The types of the tensors on which ``.numpy()`` is called, in order, each once for each line."""
    return list(dict.fromkeys(_told(event) for event in events if isinstance(event, Converted)))


def _told(event: Converted) -> str:
    dtype = event.operand.dtype
    return dtype.value if dtype is not None else "unknown"


def of(events: list[Event], kind: type[Event]) -> Iterator[Event]:
    """The events of a kind."""
    return (event for event in events if isinstance(event, kind))
