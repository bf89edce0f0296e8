"""The backward of autograd Functions: it comes after the region, and what it runs again runs without it."""

from __future__ import annotations

from textwrap import dedent

import pytest
from listening import Holds, Tape

from amplint.events import Backward, Forward, Op, RunAgain

FUNCTION = """
    import torch
    from torch import nn

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, layer):
            ctx.save_for_backward(x)
            ctx.layer = layer
            return layer(x)

        @staticmethod
        def backward(ctx, gradient):
            {backward}

    layer = nn.Linear(2, 2)
    with torch.autocast("cuda"{dtype}):
        h = layer(torch.zeros(2, 2))
        y = Again.apply(h, layer)
        layer(h)
    y.backward()
"""
RUNS = "(x,) = ctx.saved_tensors; ctx.layer(x)"


def _walked(holds: Holds, backward: str = RUNS, dtype: str = "") -> Tape:
    return holds(dedent(FUNCTION).format(backward=backward, dtype=dtype), start=None)


def test_a_layer_of_the_forward_runs_again(holds: Holds) -> None:
    (again,) = _walked(holds).of(RunAgain)
    assert isinstance(again, RunAgain)
    assert again.function.name == "Again"
    assert again.regions == ()


def test_the_region_is_open_again_after_it(holds: Holds) -> None:
    runs = [bool(event.regions) for event in _walked(holds).of(Forward)]
    assert runs == [True, True, False, True]


def test_a_region_that_runs_in_float32(holds: Holds) -> None:
    assert _walked(holds, dtype=", dtype=torch.float32").of(RunAgain) == []


def test_a_pass_inside_a_backward_is_part_of_the_pass_around(holds: Holds) -> None:
    tape = _walked(holds, backward=f"{RUNS}.backward(gradient)")
    assert [event.place.text for event in tape.of(Backward)] == ["y.backward()"]


def test_what_comes_after_a_backward_that_raises(holds: Holds) -> None:
    tape = _walked(holds, backward="raise NotImplementedError")
    assert len(tape.of(Forward)) == 3
    assert len(tape.of(Backward)) == 1


@pytest.mark.parametrize(
    ("backward", "told"),
    [
        ("(x,) = ctx.saved_tensors; return torch.exp(x)", True),
        ("(x,) = ctx.saved_tensors; return torch.exp(x * gradient)", False),
        ("return torch.exp(gradient)", False),
    ],
)
def test_half_operands_of_a_backward(holds: Holds, backward: str, told: bool) -> None:
    ops = [event.name for event in _walked(holds, backward=backward).of(Op) if not event.regions]
    assert ("exp" in ops) is told
