"""GradScaler by its names, and the parts of its protocol that the flow needs."""

from __future__ import annotations

from dataclasses import dataclass

SHARDED = "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"
"""The scaler of torch for parameters that are split among processes."""

PLAIN = frozenset(
    {
        "torch.GradScaler",
        "torch.amp.GradScaler",
        "torch.cuda.amp.GradScaler",
    }
)
"""The scaler of torch for parameters that every process has whole, for CUDA or for a device that it is told."""

TAKES_SCALE = "_step_supports_amp_scaling"
"""What ``GradScaler.step`` asks an optimizer for: one that says yes unscales the gradients in its own step."""

OF_A_STEP = frozenset({"scale", "unscale_", "step", "update", "get_scale", "is_enabled"})
"""The methods of a scaler after which nobody else has it or its state."""

SCALERS = PLAIN | frozenset(
    {
        "torch.cpu.amp.GradScaler",
        "torch.npu.amp.GradScaler",
        "torch_npu.npu.amp.GradScaler",
        SHARDED,
        "fairscale.optim.grad_scaler.ShardedGradScaler",
        "fairscale.optim.grad_scaler.GradScaler",
        "torch.xpu.amp.GradScaler",
    }
)
"""Classes that scale losses. ShardedGradScaler takes float16 parameters; see TAKES_HALF_PARAMETERS."""

TAKES_HALF_PARAMETERS = frozenset(
    {
        SHARDED,
        "fairscale.optim.grad_scaler.ShardedGradScaler",
        "fairscale.optim.grad_scaler.GradScaler",
    }
)

STATE_KEYS = frozenset({"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"})
"""What ``state_dict()`` holds, unless the scaler is off: then it is empty."""

_PARAMETERS = ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")


def parameters_of(name: str) -> tuple[str, ...]:
    """The positional parameters of a scaler class of torch; empty for classes of other packages."""
    if name in ("torch.GradScaler", "torch.amp.GradScaler"):
        return ("device", *_PARAMETERS)
    return _PARAMETERS if name.startswith("torch.") and name.endswith(".GradScaler") else ()


@dataclass(frozen=True)
class GradientOp:
    """A function that takes parameters and works on their gradients. ``clips`` says that it limits them;
    ``parameters`` names its arguments, the parameters first, the limit second."""

    parameters: tuple[str, ...]
    clips: bool = True


_CLIP_NORM = GradientOp(("parameters", "max_norm"))
_CLIP_VALUE = GradientOp(("parameters", "clip_value"))

GRADIENT_OPS: dict[str, GradientOp] = {
    f"{module}.{name}": op
    for module in ("torch.nn.utils", "torch.nn.utils.clip_grad")
    for name, op in (
        ("clip_grad_norm_", _CLIP_NORM),
        ("clip_grad_norm", _CLIP_NORM),
        ("clip_grad_value_", _CLIP_VALUE),
        ("clip_grads_with_norm_", _CLIP_NORM),
    )
} | {
    f"timm.{module}.{name}": op
    for module in ("utils", "utils.clip_grad", "utils.agc")
    for name, op in (
        ("dispatch_clip_grad", GradientOp(("parameters", "value"))),
        ("adaptive_clip_grad", GradientOp(("parameters", "clip_factor"))),
    )
}
"""Functions whose result depends on how large gradients are. Adaptive clipping compares them with the weights."""

CLIPS = frozenset(name.rpartition(".")[2] for name in GRADIENT_OPS if name.startswith("torch."))
"""The functions of ``torch.nn.utils`` that limit gradients; accelerate and others have methods of these names."""

READS = frozenset({"item", "tolist", "numpy", "__float__", "__format__"})
"""Methods that make a number or text of a loss."""

KEEPS = frozenset(
    {
        "detach",
        "detach_",
        "clone",
        "cpu",
        "cuda",
        "to",
        "float",
        "double",
        "mean",
        "sum",
        "squeeze",
        "unsqueeze",
        "reshape",
        "view",
        "flatten",
        "contiguous",
        "data",
        "requires_grad_",
    }
)
"""Methods that give a tensor of the same scale."""

COPIES = frozenset({"clone", "mean", "sum"})
"""Those of them that always give a tensor of its own."""

COMBINES = frozenset({"add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_"})
"""Methods that compute with a further value."""

MULTIPLIES = frozenset({"dot", "vdot", "inner", "matmul", "mm", "bmm", "einsum"})
"""Functions that multiply tensors and add up: the result is as many times too large as one of them."""

JOINS = frozenset({"stack", "cat", "hstack"})
"""Functions that put several tensors together."""

LIMITS = frozenset({"clamp_", "clip_", "clamp_min_", "clamp_max_"})
"""Methods that limit a gradient in place."""

PROPORTIONAL = KEEPS | frozenset(
    {"norm", "vector_norm", "pow", "square", "sqrt", "abs", "stack", "cat", "max"}
)
"""Operations after which a scaled gradient, or a power of it, is still too large by the scale."""

NORMS = frozenset({"norm", "vector_norm", "linalg.norm", "linalg.vector_norm", "_foreach_norm"})
"""Methods whose result is as many times too large as the gradient."""

SIZES = {
    "square": frozenset({"sum", "mean"}),
    "abs": frozenset({"mean", "max", "amax"}),
}
"""What a norm is computed with by hand, and what makes one of it; a sum of magnitudes is mostly asked for zero."""


def size_of(name: str, exponent: object) -> str | None:
    """What is left of a gradient by an op: its squares or its magnitudes: ``size_of("pow", 2)``."""
    if name in ("pow", "__pow__") and type(exponent) in (int, float) and exponent == 2:
        return "square"
    return name if name in SIZES else None
