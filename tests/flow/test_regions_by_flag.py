"""Regions that a flag switches: whatever a model is asked there, it is asked for each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from listening import Tape, listen

from amplint.events import LoopIterated, Op, ParameterWritten, innermost

PROGRAM = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.outer = nn.Parameter(torch.zeros(8, 8))

    def forward(self, x):
        return torch.matmul(self.inner(x), self.outer)


def main(loader, precision):
    net = Net()
    if precision == "bf16":
        on = True
    else:
        on = False
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=on):
        for batch in loader:
            net(batch)
        net.inner.weight[0] = 1.0
"""


@pytest.fixture
def tape(tmp_path: Path) -> Tape:
    return listen(tmp_path, PROGRAM)


def test_what_is_half_where_the_flag_is_set_is_not_half_where_it_is_not(tape: Tape) -> None:
    """A layer of a project's module gives what its own region makes of it."""
    told = [event for event in tape.of(Op) if event.name == "matmul"]
    assert told
    assert all(innermost(event.regions).enabled for event in told)


def test_a_loop_is_told_of_in_each_region(tape: Tape) -> None:
    rounds = [event for event in tape.of(LoopIterated) if event.number == 0]
    assert sorted(innermost(event.regions).enabled for event in rounds) == [False, True]


def test_a_statement_is_walked_for_each_region(tape: Tape) -> None:
    """``weight[0] = 1`` asks for the regions although no call stands in it."""
    written = tape.of(ParameterWritten)
    assert sorted(innermost(event.regions).enabled for event in written) == [False, True]
