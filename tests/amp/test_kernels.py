"""What amp.ops says of ops without half-precision kernels, and of ops that refuse mixed types. That the installed
torch lacks the kernels is measured with the rest of the table, on the CPU, which stands for CUDA here."""

from __future__ import annotations

from typing import Any

import pytest

from amplint.amp import ops
from amplint.flow import tensors

torch = pytest.importorskip("torch")

from half_kernels import WITHOUT_HALF_KERNELS  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def casts(op: str) -> bool:
    """Whether autocast on CUDA has a kernel for an op, in any release."""
    overloads = {
        name.partition(".")[0]
        for name in ops.table()["overloads"]
        if ops.rows("overloads", name)[-1].get("cuda")
    }
    return op.replace("linalg.", "linalg_") in overloads


@pytest.mark.parametrize("name", sorted(WITHOUT_HALF_KERNELS))
def test_cuda_autocast_does_not_cast_what_has_no_half_kernel(name: str) -> None:
    assert not casts(name)


@pytest.mark.parametrize(
    ("op", "dtype", "release", "lacks"),
    [
        ("svd", "float16", "2.6", True),
        ("torch.linalg.inv", "half", "2.15", True),
        ("complex", "float16", "2.13", False),
        ("complex", "half", "2.13", False),
        ("complex", "bfloat16", "2.13", True),
        ("polar", "float16", "2.13", True),
        ("polar", "float16", "2.14", False),
        ("polar", "bfloat16", "2.14", True),
        ("qr", "half", "2.13", True),
        ("matmul", "half", "2.13", False),
        ("no_such_op", "half", "2.13", False),
    ],
)
def test_kernels_are_those_of_the_release(op: str, dtype: str, release: str, lacks: bool) -> None:
    assert ops.lacks_kernel(op, dtype, ops.of_release(release)) is lacks


def test_a_kernel_is_missing_only_where_all_releases_that_have_the_op_lack_it() -> None:
    assert not ops.lacks_kernel("polar", "float16", ((2, 6), None))
    assert ops.lacks_kernel("polar", "float16", ((2, 6), (2, 13)))
    assert ops.lacks_kernel("polar", "bfloat16", ((2, 6), None))
    assert ops.lacks_kernel("qr", "float16", ((2, 6), None))
    assert not ops.lacks_kernel("qr", "float16", ((2, 14), None))


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
