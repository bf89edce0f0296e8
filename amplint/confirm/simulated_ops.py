"""Ops while CUDA is simulated: their results have a device, and what the CPU cannot do in half precision is done in
float32."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from amplint.confirm.composites import calls_others, in_parts, parts_meet_autocast
from amplint.confirm.placement import common, spread
from amplint.confirm.refusals import refuse


def seen_in_thread(original: Any) -> Any:
    """A thread has modes of its own."""

    def start(thread: threading.Thread) -> None:
        run, own = thread.run, vars(thread).get("run")

        def seen() -> None:
            if own is None:
                del thread.run
            else:
                thread.run = own  # type: ignore[method-assign]
            with SimulatedOps():
                run()

        thread.run = seen  # type: ignore[method-assign]
        original(thread)

    return start


_AS_IT_IS = contextlib.nullcontext()


class SimulatedOps(TorchDispatchMode):
    """Sees each op: keeps in mind on which device its result is, and computes in float32, and rounds, where the CPU
    has no half-precision kernel and CUDA has one."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ for kind in types):
            return NotImplemented  # a class of tensors makes other ops of it, and they come here
        kwargs = kwargs or {}
        done = in_parts(self, func, args, kwargs)
        if done is not NotImplemented:
            return done
        with torch._C.DisableTorchFunction():
            device = common(func, args, kwargs)
            refuse(func, args)
        try:
            with parts_meet_autocast() if calls_others(func) else _AS_IT_IS:
                result = func(*args, **kwargs)
        except RuntimeError as error:
            if not _lacks_kernel(func, str(error)):
                if not _has_kernel(func):
                    error.amplint_not_simulated = True  # type: ignore[attr-defined]
                raise
            _as_cufft(func, args)
            result = _in_float32(func, args, kwargs)
        with torch._C.DisableTorchFunction():
            spread(result, device)
        return result


def is_not_simulated(error: BaseException | None) -> bool:
    """Whether an exception, or one that led to it, says that something is not simulated: an op has no kernel for the
    CPU, or a part of ``torch.cuda`` was used that needs a device."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if hasattr(error, "amplint_not_simulated") or _is_of_cuda(error.__traceback__):
            return True
        if isinstance(error, RuntimeError) and str(error).startswith(_NOT_ON_CPU):
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_of_cuda(trace: TracebackType | None) -> bool:
    """Whether torch raised it in ``torch.cuda``, or in what that calls."""
    through_cuda = False
    while trace is not None:
        folders = Path(trace.tb_frame.f_code.co_filename).parents
        through_cuda = _TORCH in folders and (
            through_cuda or (_TORCH / "cuda" in folders and _TORCH / "cuda" / "amp" not in folders)
        )
        trace = trace.tb_next
    return through_cuda


def _has_kernel(func: Any) -> bool:
    return bool(torch._C._dispatch_has_computed_kernel_for_dispatch_key(func.name(), "CPU"))


_TORCH = Path(torch.__file__).parent
_NOT_ON_CPU = ("CUDA error: ", "Found no NVIDIA driver", "Unsupported dtype Half")
"""How exceptions begin that torch raises in C++ where there is no device, and those of torch.fft, which has no half
precision on the CPU and raises before any op is met."""
_LACKING = (
    "not implemented for 'Half'",
    "could not create a primitive",
    "FFT doesn't support tensors of type: Half",
)
_NOT_ON_CUDA = (
    *("linalg_", "_linalg_", "cholesky", "geqrf", "ormqr", "_ctc_loss", "lu_", "triangular_solve"),
    *("polar", "special_erfcx", "special_log_ndtr", "special_ndtri", "special_zeta"),
)


def _lacks_kernel(func: Any, message: str) -> bool:
    lacks = any(text in message for text in _LACKING)
    return lacks and not func._schema.name.removeprefix("aten::").startswith(_NOT_ON_CUDA)


def _as_cufft(func: Any, args: tuple[Any, ...]) -> None:
    """Raises where cuFFT has no half-precision transform, either."""
    if func._schema.name.startswith("aten::_fft_"):
        sizes = [args[0].size(part) for part in args[1]]
        if any(size & (size - 1) for size in sizes):
            raise RuntimeError(
                "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision, but "
                f"got a signal size of{sizes}"
            )


def _in_float32(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raised: list[tuple[torch.Tensor, torch.Tensor]] = []

    def up(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype is torch.float16:
            copy = value.float()
            raised.append((value, copy))
            return copy
        if isinstance(value, (tuple, list)):
            return type(value)(up(part) for part in value)
        return torch.float32 if value is torch.float16 else value

    def down(value: Any) -> Any:
        for original, copy in raised:
            if value is copy:
                return original
        if isinstance(value, torch.Tensor) and value.dtype is torch.float32:
            return value.half()
        if isinstance(value, torch.Tensor) and value.dtype is torch.complex64:
            return value.to(torch.complex32)
        if isinstance(value, (tuple, list)):
            return type(value)(down(part) for part in value)
        return value

    result = func(*up(args), **{key: up(value) for key, value in kwargs.items()})
    if func._schema.is_mutable:
        for original, copy in raised:
            original.copy_(copy)
    return down(result)
