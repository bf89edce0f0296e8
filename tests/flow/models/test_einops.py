"""What is known of the type of tensors that einops has moved, reduced or multiplied."""

from __future__ import annotations

from pathlib import Path

import pytest
from walking import events_of, types_seen

PROGRAM = """
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import Rearrange, Reduce
linear = nn.Linear(4, 4)
plain = torch.ones(2, 4)
with torch.autocast("cuda"):
    half = linear(x)
    out = {inside}
({after}).numpy()
"""


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        ('rearrange(half, "b n -> n b")', "float16"),
        ('rearrange(plain, "b n -> n b")', "float32"),
        ('rearrange([half, half], "k b n -> b k n")', "float16"),
        ('rearrange([half, plain], "k b n -> b k n")', "float32"),
        ('repeat(half, "b n -> b n k", k=2)', "float16"),
        ('unpack(half, [[4]], "b *")[0]', "float16"),
        ('pack([half], "b *")[0]', "float16"),
        ('reduce(half, "b n -> b", "mean")', "float16"),
        ('reduce(half, "b n -> b", "max")', "float16"),
        ('reduce(half, "b n -> b", reduction="min")', "float16"),
        ('reduce(plain, "b n -> b", "mean")', "float32"),
        ('einsum(half, half, "b n, b n -> b")', "float16"),
        ('einsum(plain, plain, "b n, b n -> b")', "float32"),
        ('Rearrange("b n -> n b")(half)', "float16"),
        ('Reduce("b n -> b", "max")(half)', "float16"),
    ],
)
def test_after_the_region(tmp_path: Path, given: str, dtype: str) -> None:
    events = events_of(tmp_path, PROGRAM.format(inside="half", after=given))
    assert types_seen(events) == [dtype]


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        ('reduce(half, "b n -> b", "sum")', "float32"),
        ('reduce(half, "b n -> b", "prod")', "float32"),
        ('reduce(half, "b n -> b", "mean")', "float16"),
        ('Reduce("b n -> b", "sum")(half)', "float32"),
        ('einsum(plain, plain, "b n, b n -> b")', "float16"),
        ('rearrange(plain, "b n -> n b")', "float32"),
        ('nn.Sequential(linear, Rearrange("b n -> n b"))(x)', "float16"),
        ('nn.Sequential(linear, Reduce("b n -> b", "sum"))(x)', "float32"),
    ],
)
def test_in_the_region(tmp_path: Path, given: str, dtype: str) -> None:
    events = events_of(tmp_path, PROGRAM.format(inside=given, after="out"))
    assert types_seen(events) == [dtype]


@pytest.mark.parametrize("given", ['reduce(half, "b n -> b", how)', 'Reduce("b n -> b", how)(half)'])
def test_a_reduction_out_of_sight_gives_anything(tmp_path: Path, given: str) -> None:
    assert types_seen(events_of(tmp_path, PROGRAM.format(inside="half", after=given))) in ([], ["unknown"])
