"""What is asked of a run: the order that each of its processes gets, and the device that there is for it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from amplint.confirm.recording import REAL, SIMULATED

ENVIRONMENT = "AMPLINT_CONFIRM"
"""Holds the order for processes that are started by others: ranks of torchrun, spawned workers."""

PATIENCE = 2.0
"""Seconds that a run which is out of time has until its next step begins; then it is interrupted."""
GRACE = 10.0
"""Seconds that a run has to unwind after it was told to stop; then it is ended."""
_BY_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
UNUSABLE = 97
"""Exit status where the run could not begin; the reason is on standard error."""


@dataclass(frozen=True)
class Order:
    """What is to be done with a run. ``folder`` is where recordings go, if anywhere; ``paths`` are the linted ones;
    ``root`` is the directory in which the run starts; ``keeps_compile``: torch.compile stays on."""

    folder: str
    root: str
    device: str = "auto"
    steps: int | None = None
    timeout: float | None = None
    paths: tuple[str, ...] = ()
    trace: bool = False
    keeps_compile: bool = False
    patience: float = PATIENCE
    grace: float = GRACE
    command: tuple[str, ...] = ()

    def written(self) -> str:
        """The order as text."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Order:
        """The order in a text."""
        value = json.loads(text)
        return cls(**{**value, "paths": tuple(value["paths"]), "command": tuple(value["command"])})


class Unusable(Exception):  # noqa: N818
    """The wanted device is not to be had."""


def chosen_device(order: Order) -> str:
    """What a run takes place on. It does not start CUDA: the program may still say which devices it wants to see.
    Raises Unusable."""
    device = _device(order.device)
    if device == SIMULATED and order.keeps_compile:
        raise Unusable(
            "CUDA is simulated here, and compiled code cannot be: give --device cpu, or leave --keep-compile out"
        )
    return device


def _device(wanted: str) -> str:
    if wanted in ("auto", REAL) and _has_cuda():
        return REAL
    if wanted == REAL:
        raise Unusable(
            "torch sees no CUDA device here; --device simulated-cuda runs the program on the CPU under CUDA's rules"
        )
    return SIMULATED if wanted == "auto" else wanted


def _has_cuda() -> bool:
    """Whether there is a device, asked in the way that leaves the driver alone: of NVML. That does not count the slices
    of a device that the environment names, for which torch would ask the driver."""
    import torch

    if os.environ.get("CUDA_VISIBLE_DEVICES", "").lstrip().startswith("MIG-"):
        return bool(torch.backends.cuda.is_built())
    before = os.environ.get(_BY_NVML)
    os.environ[_BY_NVML] = "1"
    try:
        return torch.cuda.is_available()
    finally:
        if before is None:
            del os.environ[_BY_NVML]
        else:
            os.environ[_BY_NVML] = before
