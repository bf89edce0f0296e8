"""The ways to enter an autocast region, with their signatures.

Source: ``torch/amp/autocast_mode.py``, ``torch/cuda/amp/autocast_mode.py`` and
``torch/cpu/amp/autocast_mode.py`` of torch 2.13.0; the wrappers' own sources for the frameworks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_GENERIC = ("device_type", "dtype", "enabled", "cache_enabled")
_PER_DEVICE = ("enabled", "dtype", "cache_enabled")


@dataclass(frozen=True, slots=True)
class Entry:
    """A callable that makes an autocast context.

    ``parameters`` are its positional parameters. ``device`` is set where the callable fixes it.
    ``inherits_dtype``: without ``dtype`` it takes the type of the region around it; the old spellings do not.
    """

    parameters: tuple[str, ...] = _GENERIC
    device: str | None = None
    inherits_dtype: bool = True
    framework: bool = False


ENTRIES: dict[str, Entry] = {
    "torch.autocast": Entry(),
    "torch.amp.autocast": Entry(),
    "torch.cuda.amp.autocast": Entry(_PER_DEVICE, "cuda", inherits_dtype=False),
    "torch.cuda.amp.common.autocast": Entry(_PER_DEVICE, "cuda", inherits_dtype=False),
    "torch.cpu.amp.autocast": Entry(_PER_DEVICE, "cpu", inherits_dtype=False),
    "torch.xpu.amp.autocast": Entry(_PER_DEVICE, "xpu", inherits_dtype=False),
    "torch.npu.amp.autocast": Entry(_PER_DEVICE, "npu", inherits_dtype=False),
    "torch_npu.npu.amp.autocast": Entry(_PER_DEVICE, "npu", inherits_dtype=False),
    "torch.musa.amp.autocast": Entry(_PER_DEVICE, "musa", inherits_dtype=False),
    "torch_mlu.amp.autocast": Entry(_PER_DEVICE, "mlu", inherits_dtype=False),
    "torch.mlu.amp.autocast": Entry(_PER_DEVICE, "mlu", inherits_dtype=False),
    "torch_xla.amp.autocast": Entry(("device", "enabled", "dtype", "cache_enabled"), "xla"),
    "mmengine.runner.autocast": Entry(("device_type", "dtype", "enabled", "cache_enabled"), framework=True),
    "mmengine.runner.amp.autocast": Entry(
        ("device_type", "dtype", "enabled", "cache_enabled"), framework=True
    ),
    "ultralytics.utils.torch_utils.autocast": Entry(("enabled", "device"), framework=True),
}

DEVICES_OF_NAMES = {"": "cuda", "gpu_": "cuda", "cpu_": "cpu", "xla_": "xla", "ipu_": "ipu"}
"""The devices that the names of ``torch.set_autocast_gpu_dtype`` and its like have in them; "cuda" where a device is
an argument and none is given."""

SET_DTYPE = {f"torch.set_autocast_{part}dtype": device for part, device in DEVICES_OF_NAMES.items()}
"""Functions that set the dtype of regions that are given none."""

QUESTIONS = frozenset({"torch.is_autocast_enabled", "torch.is_autocast_cpu_enabled"})
"""Functions that tell whether autocast is on."""

ABOUT_THE_MACHINE = re.compile(r"\Atorch\.(\w+\.)*(is_available|is_built|is_bf16_supported|device_count)")
"""Functions that ask about the machine, which does not change while a program runs."""

GRAD_OFF = frozenset(
    {
        "torch.no_grad",
        "torch.inference_mode",
        "torch.autograd.no_grad",
        "torch.autograd.inference_mode",
    }
)

GRAD_ON = frozenset({"torch.enable_grad", "torch.autograd.enable_grad"})

PLAIN_CONTEXTS = frozenset(
    {
        *GRAD_OFF,
        *GRAD_ON,
        "contextlib.nullcontext",
        "torch.autograd.profiler.record_function",
        "torch.profiler.record_function",
    }
)
"""Contexts that open no region, and for which it does not matter on which side of autocast they are entered."""

DEVICES_LIKE_CUDA = frozenset({"cuda", "xpu", "musa", "npu", "mlu", "hpu", "mtia", "privateuseone", "xla"})
"""Devices whose autocast policy is CUDA's, or close to it."""


GENERIC_ENTRIES = frozenset({"torch.autocast", "torch.amp.autocast"})
"""Entries of torch that take the device as a string."""

NAMES_OF_DEVICE = frozenset({"device_type", "device"})
"""By which names entries and scalers take their device, where it is not in their own name."""


def is_of_torch(name: str) -> bool:
    """Whether an entry or a scaler is torch's own, and not another package's for its device: it takes no parameters but
    those that are known."""
    return name in GENERIC_ENTRIES or name.startswith(("torch.amp.", "torch.cuda.amp.", "torch.cpu.amp."))


def _decorator(name: str) -> frozenset[str]:
    modules = ("torch.amp", "torch.cuda.amp")
    return frozenset(f"{module}.{name}" for module in modules)


CUSTOM_FWD = _decorator("custom_fwd")
CUSTOM_BWD = _decorator("custom_bwd")
"""The decorators for the methods of a torch.autograd.Function."""

NO_DEVICES = {"gpu": "cuda", "tpu": "xla", "rocm": "cuda", "hip": "cuda", "meta": None}
"""Strings that name no device for autocast, with the one that is meant. Names that are not known may belong
to a backend of another package."""

NO_TYPES_OF_DEVICES = frozenset({"gpu", "tpu", "rocm"})
"""Those of them that ``torch.device`` refuses, too."""


def default_dtype(device: str | None) -> str:
    """The type that a region runs matrix products in when nobody says. CPU and XLA default to bfloat16."""
    return "bfloat16" if device in ("cpu", "xla") else "float16"
