"""Ops that give complex numbers, and what autocast does to their products."""

from __future__ import annotations

import functools

import pytest

torch = pytest.importorskip("torch")

from amplint.amp import ops  # noqa: E402


def _run(name: str) -> object:
    op = functools.reduce(getattr, name.split("."), torch)
    real = torch.rand(4, 4, 2)
    if name in ("complex", "polar"):
        return op(real, real)
    of_complex = name in ops.TO_REAL or name == "fft.ifft"
    return op(torch.view_as_complex(real) if of_complex else real)


@pytest.mark.parametrize("name", sorted(ops.TO_COMPLEX))
def test_gives_complex_numbers(name: str) -> None:
    assert _run(name).is_complex()


@pytest.mark.parametrize("name", sorted(ops.TO_REAL))
def test_gives_real_numbers(name: str) -> None:
    assert not _run(name).is_complex()


@pytest.mark.parametrize("product", ["matmul", "einsum"])
def test_autocast_leaves_products_of_complex_numbers_alone(product: str) -> None:
    one = torch.view_as_complex(torch.rand(4, 4, 2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = torch.matmul(one, one) if product == "matmul" else torch.einsum("ij,jk->ik", one, one)
    assert result.dtype is torch.complex64
