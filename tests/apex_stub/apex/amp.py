"""`apex.amp` by its documentation (https://nvidia.github.io/apex/amp.html): levels O0 to O2, dynamic loss scales,
losses by number, master parameters, the state."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

GROWS_AFTER = 2000


class _Scaler:
    """The scale of one loss, by its number."""

    def __init__(self, scale: float, dynamic: bool) -> None:
        self.scale = scale
        self.dynamic = dynamic
        self.unskipped = 0

    def update(self, overflow: bool) -> None:
        if not self.dynamic:
            return
        if overflow:
            self.scale, self.unskipped = self.scale / 2, 0
        else:
            self.unskipped += 1
            if self.unskipped == GROWS_AFTER:
                self.scale, self.unskipped = self.scale * 2, 0


_scalers: list[_Scaler] = []
_enabled = False


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def initialize(
    models: Any,
    optimizers: Any = None,
    enabled: bool = True,
    opt_level: str = "O1",
    *,
    loss_scale: float | str | None = None,
    num_losses: int = 1,
    keep_batchnorm_fp32: bool | None = None,
    verbosity: int = 1,
) -> Any:
    """Has models run in half precision, and gives back what it is given."""
    global _enabled
    _enabled = enabled and opt_level != "O0"
    dynamic = loss_scale in (None, "dynamic")
    _scalers[:] = [_Scaler(2.0**16 if dynamic else float(loss_scale), dynamic) for _ in range(num_losses)]  # type: ignore[arg-type]
    if _enabled:
        for optimizer in _several(optimizers) if optimizers is not None else []:
            optimizer.overflow = False
            optimizer.step = _skipping(optimizer, optimizer.step)
            if opt_level == "O2":
                _keep_masters(optimizer)
        for model in _several(models):
            (_cast if opt_level == "O2" else _patch)(model)
    return models if optimizers is None else (models, optimizers)


def _patch(model: nn.Module) -> None:
    """O1 patches the functions of torch; what a model computes is the same as in a region."""
    forward = model.forward

    def patched(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cuda", dtype=torch.float16):
            result = forward(*args, **kwargs)
        # losses are computed in float32 there
        return result.float()

    model.forward = patched


def _cast(model: nn.Module) -> None:
    """O2 casts the weights but for those of batch norms, the inputs, and the outputs back."""
    for part in model.modules():
        if not isinstance(part, nn.modules.batchnorm._BatchNorm):
            for parameter in part.parameters(recurse=False):
                parameter.data = parameter.data.half()
    forward = model.forward

    def cast(*args: Any) -> Any:
        return forward(*(arg.half() if arg.is_floating_point() else arg for arg in args)).float()

    model.forward = cast


def _keep_masters(optimizer: torch.optim.Optimizer) -> None:
    optimizer.pairs = []  # type: ignore[attr-defined]
    for group in optimizer.param_groups:
        masters = [parameter.detach().clone().float().requires_grad_() for parameter in group["params"]]
        optimizer.pairs += zip(group["params"], masters, strict=True)  # type: ignore[attr-defined]
        group["params"] = masters
    step, zero = optimizer.step, optimizer.zero_grad

    def copied(*args: Any) -> Any:
        result = step(*args)
        for parameter, master in optimizer.pairs:  # type: ignore[attr-defined]
            parameter.data.copy_(master.data)
        return result

    def zeroed(*args: Any, **kwargs: Any) -> None:
        zero(*args, **kwargs)
        for parameter, _ in optimizer.pairs:  # type: ignore[attr-defined]
            parameter.grad = None

    optimizer.step, optimizer.zero_grad = copied, zeroed


def _skipping(optimizer: Any, step: Callable[..., Any]) -> Callable[..., Any]:
    def stepped(*args: Any) -> Any:
        skip, optimizer.overflow = optimizer.overflow, False
        return None if skip else step(*args)

    return stepped


@contextlib.contextmanager
def scale_loss(
    loss: torch.Tensor,
    optimizers: Any,
    loss_id: int = 0,
    model: Any = None,
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
) -> Iterator[torch.Tensor]:
    """Gives the loss times its scale, and divides the gradients by it afterwards."""
    if not _enabled:
        yield loss
        return
    scaler = _scalers[loss_id]
    yield loss.float() * scaler.scale
    if delay_unscale:
        return
    overflow = False
    for optimizer in _several(optimizers):
        for parameter, master in getattr(optimizer, "pairs", ()):
            if parameter.grad is not None:
                master.grad = parameter.grad.float()
        gradients = [p.grad for p in master_params(optimizer) if p.grad is not None]
        for gradient in gradients:
            gradient.div_(scaler.scale)
        overflow = overflow or not all(torch.isfinite(gradient).all() for gradient in gradients)
        optimizer.overflow = overflow
    scaler.update(overflow)


def master_params(optimizer: torch.optim.Optimizer) -> Iterable[torch.Tensor]:
    """The parameters that the optimizer steps."""
    for group in optimizer.param_groups:
        yield from group["params"]


def half_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose tensors are cast to float16."""

    def cast(*args: Any) -> Any:
        return function(*(arg.half() if _enabled and torch.is_tensor(arg) else arg for arg in args))

    return cast


def state_dict() -> dict[str, dict[str, float]]:
    """The scales."""
    return {
        f"loss_scaler{number}": {"loss_scale": one.scale, "unskipped": one.unskipped}
        for number, one in enumerate(_scalers)
    }


def load_state_dict(state: dict[str, dict[str, float]]) -> None:
    """Takes the scales over."""
    for one, kept in zip(_scalers, state.values(), strict=True):
        one.scale, one.unskipped = kept["loss_scale"], int(kept["unskipped"])
