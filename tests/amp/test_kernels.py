"""What amp.ops says of ops without half-precision kernels, and of ops that refuse mixed types, is true of the
installed torch. The CPU stands for CUDA: neither has these kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amplint.amp import ops
from amplint.flow import tensors

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")


def _arguments(name: str, dtype: Any) -> tuple[Any, ...]:
    matrix = torch.eye(4).to(dtype)
    match name:
        case "linalg.solve" | "linalg.lstsq" | "polar" | "complex":
            return matrix, matrix
        case "quantile" | "nanquantile":
            return matrix, 0.5
        case "view_as_complex":
            return (matrix[:, :2].contiguous(),)
        case "ctc_loss":
            log_probabilities = torch.zeros(5, 2, 4, dtype=dtype)
            lengths = torch.tensor([5, 5]), torch.tensor([2, 2])
            return log_probabilities, torch.ones(2, 2, dtype=torch.long), *lengths
    return (matrix,)


def _function(name: str) -> Callable[..., Any]:
    found: Any = torch.nn.functional if name == "ctc_loss" else torch
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", sorted(ops.NO_HALF_KERNEL))
def test_ops_without_half_kernels_raise(name: str, dtype: Any) -> None:
    _function(name)(*_arguments(name, torch.float32))
    with pytest.raises(RuntimeError):
        _function(name)(*_arguments(name, dtype))


@pytest.mark.parametrize("name", sorted(ops.NO_BFLOAT16_KERNEL))
def test_ops_without_bfloat16_kernels_raise(name: str) -> None:
    _function(name)(*_arguments(name, torch.float16))
    with pytest.raises(RuntimeError):
        _function(name)(*_arguments(name, torch.bfloat16))


@pytest.mark.parametrize("name", sorted(ops.NO_HALF_KERNEL | ops.NO_BFLOAT16_KERNEL))
def test_cuda_autocast_does_not_cast_them(name: str) -> None:
    registered = {op.partition(".")[0] for op in ops.table()["registered"]["AutocastCUDA"]}
    assert name.replace("linalg.", "linalg_") not in registered


@pytest.mark.parametrize("suffix", ["", "_"])
@pytest.mark.parametrize("name", sorted(ops.SOURCES))
def test_writes_by_index_raise_for_mixed_types(name: str, suffix: str) -> None:
    index = torch.zeros(4, dtype=torch.long)
    grid = torch.zeros(4, 4, dtype=torch.long)
    before: dict[str, tuple[Any, ...]] = {
        "index_put": ((index,),),
        "scatter": (0, grid),
        "scatter_add": (0, grid),
        "scatter_reduce": (0, grid),
        "masked_scatter": (torch.ones(4, 4, dtype=torch.bool),),
        "put": (grid,),
    }
    arguments = before.get(name, (0, index))
    assert len(arguments) == ops.SOURCES[name]
    rest = ("amax",) if name in ("scatter_reduce", "index_reduce") else ()
    write = getattr(torch.zeros(4, 4), name + suffix, None)
    if write is None:
        pytest.skip("has no such form")
    write(*arguments, torch.zeros(4, 4), *rest)
    with pytest.raises(RuntimeError):
        write(*arguments, torch.zeros(4, 4, dtype=torch.float16), *rest)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("masked_fill", (torch.ones(4, 4, dtype=torch.bool),)),
        ("index_fill", (0, torch.tensor([0]))),
        ("scatter", (0, torch.tensor([[0]]))),
        ("fill_", ()),
        ("new_full", ((2, 2),)),
    ],
)
def test_fills_raise_beyond_the_largest_number(name: str, arguments: tuple[Any, ...]) -> None:
    for dtype, (known, largest) in {
        torch.float16: (tensors.DType.FLOAT16, 65504.0),
        torch.bfloat16: (tensors.DType.BFLOAT16, torch.finfo(torch.bfloat16).max),
    }.items():
        assert largest == tensors.LARGEST[known]
        fill = getattr(torch.zeros(4, 4, dtype=dtype), name)
        fill(*arguments, -largest)
        fill(*arguments, float("-inf"))
        with pytest.raises(RuntimeError):
            fill(*arguments, -largest * 1.003)


def test_the_largest_vanishing_constant() -> None:
    from amplint.rules.half_operands import VANISHING

    zero = torch.zeros(1, dtype=torch.float16)
    assert (zero + VANISHING).item() == 0
    assert (zero + VANISHING * 1.01).item() > 0
