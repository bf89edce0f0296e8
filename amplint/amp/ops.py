"""What autocast does to the ops of torch, by the names under which people call them.

The table is data: ``op_policies.json`` beside this file, measured on the torch release that it names by
``tests/amp/generate_op_policies.py``. Nothing here imports torch.
"""

from __future__ import annotations

import json
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

_DEVICES = {"cuda": "cuda", "xpu": "cuda", "cpu": "cpu"}
_NAMESPACES = ("torch.nn.functional.", "torch.Tensor.", "torch.")
_SUBMODULES = ("linalg_", "fft_", "special_")

SENSITIVE: frozenset[str]
"""Ops whose result in half precision is materially worse than in float32. See ``sensitivity_of``."""
MODULES: dict[str, str]
"""Qualified class name to op name, for the classes of torch.nn that are one op."""
KINDS_OF_WEIGHTS: dict[str, str]
"""Ops with weights of their own, and what happens outside regions when a half operand meets them in float32:
"raises", or "accepts" (a half result). Measured on the CPU."""
HAS_PARAMETERS: frozenset[str]
"""The ops of ``KINDS_OF_WEIGHTS``."""
TENSOR_ONLY: frozenset[str]
"""Methods that autocast casts and that nothing but a tensor is likely to have: ``softmax``, not ``log``."""


class Policy(str, Enum):
    """What autocast makes of an op. It holds for operands of the region's device, float64 excepted."""

    LOWER = "lower"
    """Runs, and gives its result, in the region's type. A ``.float()`` on an operand is undone."""
    FLOAT32 = "float32"
    """Runs in float32 and gives float32."""
    PROMOTE = "promote"
    """Takes several tensors, and gives the widest of their floating types: half and half stay half."""
    UNTOUCHED = "untouched"
    """Computes in the type of its (first floating) operand, with no protection."""
    VIEW = "view"
    """Hands on elements of its operand without computing; the result has the operand's type."""
    INTEGER = "integer"
    """Gives integers or booleans."""
    BANNED = "banned"
    """Raises in a region."""
    FACTORY = "factory"
    """Makes a new tensor of the default type, float32, when no type is asked for."""


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    """The data file, read once."""
    loaded: dict[str, Any] = json.loads((Path(__file__).parent / "op_policies.json").read_bytes())
    return loaded


def plain_name(op: str) -> str:
    """``matmul`` for ``torch.matmul``, ``torch.Tensor.matmul`` and ``matmul``; ``linalg.inv`` for
    ``torch.linalg.inv`` and ``linalg_inv``."""
    for namespace in _NAMESPACES:
        if op.startswith(namespace):
            op = op[len(namespace) :]
            break
    for submodule in _SUBMODULES:
        if op.startswith(submodule):
            return submodule[:-1] + "." + op[len(submodule) :]
    return op


def is_in_place(op: str) -> bool:
    """Whether the name is that of an in-place op: ``exp_``, ``__iadd__``."""
    if op.startswith("__"):
        return op.startswith("__i") and f"__{op[3:]}" in table()["ops"]
    return op.endswith("_") and not op.startswith("_")


@lru_cache(maxsize=4096)
def policy_of(op: str, device: str = "cuda") -> Policy | None:
    """The policy of an op in a region of this device type, or None where it is not known.

    ``op`` is a name such as "matmul", "softmax", "cross_entropy", "linalg.inv", "__pow__" or, for ``1 / x``,
    "__rtruediv__". In-place ops are never cast: they keep the type of their receiver.
    """
    measured_on = _DEVICES.get(device)
    if measured_on is None:
        return None
    name = plain_name(op)
    if is_in_place(name):
        return Policy.UNTOUCHED
    row = table()["ops"].get(name)
    policy = row[measured_on] if row is not None else None
    return Policy(policy) if policy is not None else None


def sensitivity_of(op: str) -> str | None:
    """What the op suffers from in half precision, or None where it does not: "loss", "softmax",
    "exponential", "reduction", "norm", "power", "linalg" or "fourier"."""
    name: str | None = table()["sensitive"].get(plain_name(op))
    return name


RANKING = frozenset(
    {
        "argmax",
        "argmin",
        "topk",
        "argsort",
        "sort",
        "max",
        "min",
        "ge",
        "gt",
        "le",
        "lt",
        "eq",
        "ne",
        "round",
        "__gt__",
        "__lt__",
        "__ge__",
        "__le__",
        "multinomial",
        "greater",
        "less",
    }
)
"""Ops for which only the order of the elements matters."""

INTEGER_TARGETS = frozenset(
    {
        "cross_entropy",
        "nll_loss",
        "ctc_loss",
        "multi_margin_loss",
        "multilabel_margin_loss",
    }
)
"""Losses whose target holds class numbers, so that nothing promotes a half-precision input."""

OF_LOG_PROBABILITIES = frozenset({"nll_loss", "ctc_loss", "kl_div"})
"""Losses whose input is what ``log_softmax`` gives, which autocast runs in float32."""


NO_HALF_KERNEL = frozenset(
    {
        "cholesky",
        "ctc_loss",
        "det",
        "geqrf",
        "inverse",
        "linalg.cholesky",
        "linalg.cond",
        "linalg.det",
        "linalg.eig",
        "linalg.eigh",
        "linalg.eigvals",
        "linalg.eigvalsh",
        "linalg.inv",
        "linalg.lstsq",
        "linalg.lu_factor",
        "linalg.matrix_rank",
        "linalg.pinv",
        "linalg.qr",
        "linalg.slogdet",
        "linalg.solve",
        "linalg.svd",
        "linalg.svdvals",
        "logdet",
        "nanquantile",
        "pinverse",
        "polar",
        "qr",
        "quantile",
        "slogdet",
        "svd",
    }
)
"""Ops that raise on float16 and bfloat16 tensors and that autocast does not cast on CUDA; torch 2.13."""
NO_BFLOAT16_KERNEL = frozenset({"complex", "view_as_complex"})
"""Ops that raise on bfloat16 and not on float16 tensors; torch 2.13."""

SOURCES = {
    "index_put": 1,
    "index_copy": 2,
    "index_add": 2,
    "index_reduce": 2,
    "scatter": 2,
    "scatter_add": 2,
    "scatter_reduce": 2,
    "masked_scatter": 1,
    "put": 1,
}
"""Ops that write one tensor into another by index, and which argument after ``self`` holds what is written.
They raise where the types differ; measured with torch 2.13."""
FILLS = {
    "masked_fill": (1, "value"),
    "index_fill": (2, "value"),
    "scatter": (2, "value"),
    "fill": (0, "value"),
    "full_like": (0, "fill_value"),
    "new_full": (1, "fill_value"),
    "full": (0, "fill_value"),
    "pad": (2, "value"),
}
"""Ops that convert a number to the type of a tensor and raise where it does not fit, and which argument after
``self`` (of ``full``: after the size) holds the number. Measured with torch 2.13."""


@lru_cache(maxsize=1)
def loss_ops() -> frozenset[str]:
    """The loss functions of torch.nn.functional."""
    return frozenset(name for name, harm in table()["sensitive"].items() if harm == "loss")


def __getattr__(name: str) -> Any:
    """The parts of the table under the names by which the rest of amplint knows them, read on first use."""
    match name:
        case "SENSITIVE":
            value: Any = frozenset(table()["sensitive"])
        case "MODULES":
            value = table()["modules"]
        case "KINDS_OF_WEIGHTS":
            value = table()["weights"]
        case "HAS_PARAMETERS":
            value = frozenset(table()["weights"])
        case "TENSOR_ONLY":
            value = frozenset(table()["tensor_methods"])
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
