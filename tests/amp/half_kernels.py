"""The ops whose half-precision kernels are asked for, and operands to call them with."""

from __future__ import annotations

from typing import Any

import torch

WITHOUT_HALF_KERNELS = frozenset(
    [
        "cholesky",
        "complex",
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
        "view_as_complex",
    ]
)
"""Ops that autocast on CUDA does not cast and that have no kernel, on CUDA as on the CPU, for a half-precision
type. Which types these are is measured on the CPU."""


def operands_of_kernel(name: str, dtype: torch.dtype) -> tuple[Any, ...]:
    """Arguments for an op of ``WITHOUT_HALF_KERNELS`` that are right but for their type."""
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
