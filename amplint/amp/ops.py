"""What autocast does to the ops of torch, by the names under which people call them and by release of torch.

The table is data: ``op_policies.json`` beside this file, measured on the releases that it names by
``tests/amp/generate_op_policies.py``. A row of it holds for all of them, unless ``since`` or ``until`` name the
first or the last for which it does. Nothing here imports torch.

``torch`` is everywhere the releases that the answer has to hold for: the bounds of a project, or the release of a
run (``of_release``). Where they differ, what is asked is not known.
"""

from __future__ import annotations

import json
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

from amplint.amp.versions import Bounds, parse

_DEVICES = {"cuda": "cuda", "xpu": "cuda", "cpu": "cpu"}
_NAMESPACES = ("torch.nn.functional.", "torch.Tensor.", "torch.")
_SUBMODULES = ("linalg_", "fft_", "special_")

EVERY: Bounds = ((0, 0), None)
"""The bounds of who takes any release."""

SENSITIVE: frozenset[str]
"""Ops whose result in half precision is materially worse than in float32. See ``sensitivity_of``."""
MODULES: dict[str, str]
"""Qualified class name to op name, for the classes of torch.nn that are one op, in any release."""
KINDS_OF_WEIGHTS: dict[str, str]
"""Ops with weights of their own, and what ``weights_meet_half`` says of them for every release, or else "differs"."""
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


@lru_cache(maxsize=1)
def releases() -> tuple[tuple[int, int], ...]:
    """The releases of torch on which the table was measured, the oldest first."""
    return tuple(sorted(_release(name) for name in table()["releases"]))


@lru_cache(maxsize=64)
def measured(torch: Bounds) -> tuple[tuple[int, int], ...]:
    """The measured releases that stand for those within the bounds: the ones within, and the one before a lowest
    release that was not measured. Beyond the ends of the table it is the first or the last one."""
    low, high = torch
    first = max((release for release in releases() if release <= low), default=releases()[0])
    within = [release for release in releases() if release >= first and (high is None or release <= high)]
    return tuple(within) or (first,)


def of_release(version: str) -> Bounds:
    """The bounds that admit the release of a version such as "2.13.0+cpu" alone."""
    parsed = parse(version)
    if parsed is None or len(parsed) < 2:
        return EVERY
    release = (parsed[0], parsed[1])
    return release, release


def name_of_table(torch: Bounds) -> str:
    """Which rows an answer for these bounds rests on: "op table of torch 2.13", "op tables of torch 2.6 to 2.15"."""
    found = measured(torch)
    (first, first_minor), (last, last_minor) = found[0], found[-1]
    if len(found) == 1:
        return f"op table of torch {first}.{first_minor}"
    return f"op tables of torch {first}.{first_minor} to {last}.{last_minor}"


@lru_cache(maxsize=8192)
def rows(section: str, name: str, torch: Bounds = EVERY) -> tuple[dict[str, Any], ...]:
    """What a section of the table has on a name, for the releases within the bounds that know it."""
    found = table()[section].get(name, ())
    spans = [found] if isinstance(found, dict) else found
    wanted = measured(torch)
    return tuple(
        row
        for row in spans
        if any(
            _release(row.get("since", "0.0")) <= release <= _release(row.get("until", "99.0"))
            for release in wanted
        )
    )


def _agreed(section: str, name: str, key: str, torch: Bounds) -> Any:
    """What all rows on a name say under a key; None where they differ or there is none."""
    said = {row.get(key) for row in rows(section, name, torch)}
    return said.pop() if len(said) == 1 else None


@lru_cache(maxsize=64)
def _release(name: str) -> tuple[int, int]:
    major, _, minor = name.partition(".")
    return int(major), int(minor)


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
def policy_of(op: str, device: str = "cuda", torch: Bounds = EVERY) -> Policy | None:
    """The policy of an op in a region of this device type, or None where it is not known or the releases differ.

    ``op`` is a name such as "matmul", "softmax", "cross_entropy", "linalg.inv", "__pow__" or, for ``1 / x``,
    "__rtruediv__". In-place ops are never cast: they keep the type of their receiver.
    """
    measured_on = _DEVICES.get(device)
    if measured_on is None:
        return None
    name = plain_name(op)
    if is_in_place(name):
        return Policy.UNTOUCHED
    policy = _agreed("ops", name, measured_on, torch)
    return Policy(policy) if policy is not None else None


def weights_meet_half(op: str, torch: Bounds = EVERY, device: str = "cuda") -> str | None:
    """What happens outside regions when a half operand meets the float32 weights of an op: "raises", "accepts" (a
    half result) or "promotes" (a float32 result). None if it has no weights, or the releases differ. Measured on
    the CPU; where a CUDA device does something else the table says so."""
    name = plain_name(op)
    there = _agreed("ops", name, "weights_on_cuda", torch) if device == "cuda" else None
    found: str | None = there or _agreed("ops", name, "weights", torch)
    return found


def lacks_kernel(op: str, dtype: str, torch: Bounds = EVERY) -> bool:
    """Whether an op, which autocast does not cast on CUDA, raises on tensors of this type: "float16", "bfloat16",
    or "half" for either of them. It does in all releases within the bounds that have the op."""
    found = rows("ops", plain_name(op), torch)
    return bool(found) and all(row.get("lacks") in ("half", dtype) for row in found)


def overload_policies(torch: Bounds = EVERY) -> dict[str, str]:
    """What autocast on CUDA does to the overloads for which it has a kernel: "lower", "float32", "optional_dtype"
    and "appended_dtype" (float32 unless the code asks for another type), "promote", "banned", or "recurrent"."""
    agreed = {name: _agreed("overloads", name, "cuda", torch) for name in table()["overloads"]}
    return {name: policy for name, policy in agreed.items() if policy is not None}


def overloads_on_cpu(torch: Bounds = EVERY) -> frozenset[str]:
    """The overloads for which autocast has a kernel on the CPU."""
    return frozenset(name for name in table()["overloads"] if _agreed("overloads", name, "cpu", torch))


def sensitivity_of(op: str) -> str | None:
    """What the op suffers from in half precision, or None where it does not: "loss", "softmax", "exponential",
    "reduction", "norm", "power", "linalg", "fourier", or "spectrum" for that of frames, whose length is nearly always
    a power of two."""
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

OF_TARGET_TYPE = frozenset({"binary_cross_entropy_with_logits"})
"""Losses that are computed in the type of their target, whatever that of their input: ``(1 - target).mul_(input)``
(measured with torch 2.13)."""

OF_LOG_PROBABILITIES = frozenset({"nll_loss", "ctc_loss", "kl_div"})
"""Losses whose input is what ``log_softmax`` gives, which autocast runs in float32."""


_TRANSFORMS = ("fft", "ifft", "rfft", "ihfft")
TO_COMPLEX = frozenset(
    {
        "complex",
        "polar",
        "view_as_complex",
        *(f"fft.{name}{n}" for name in _TRANSFORMS for n in ("", "2", "n")),
    }
)
"""Ops that give complex numbers, which autocast leaves alone."""
TO_REAL = frozenset(
    {
        "abs",
        "angle",
        "real",
        "imag",
        "view_as_real",
        *(f"fft.{name}{n}" for name in ("irfft", "hfft") for n in ("", "2", "n")),
    }
)
"""Ops that make real numbers of complex ones."""


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
They raise where the types differ."""
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
``self`` (of ``full``: after the size) holds the number."""


CASTS = frozenset({"to", "type", "type_as", "float", "half", "bfloat16", "double"})
"""Methods of tensors that give another type."""
INTEGERS = frozenset(
    {"int8", "int16", "int32", "int64", "int", "long", "short", "uint8", "uint16", "uint32", "uint64", "bool"}
)
"""The types of integers below ``torch``."""


@lru_cache(maxsize=1)
def minding_regions() -> frozenset[str]:
    """The ops that make something half in a region, or raise there, or of which that is not known; and casts."""
    policies = (Policy.LOWER, Policy.BANNED, None)
    return CASTS | {name for name in table()["ops"] if policy_of(name) in policies}


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
            value = {module: rows("modules", module)[-1]["op"] for module in table()["modules"]}
        case "KINDS_OF_WEIGHTS":
            with_weights = [op for op in table()["ops"] if any("weights" in row for row in rows("ops", op))]
            value = {op: weights_meet_half(op) or "differs" for op in with_weights}
        case "TENSOR_ONLY":
            value = frozenset(table()["tensor_methods"])
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
