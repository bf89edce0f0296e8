"""What a session replaces in torch beside the probe, for as long as the run takes."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch


@contextlib.contextmanager
def losses_told(tell: Callable[[Any], None]) -> Iterator[None]:
    """Hands over the losses that backward passes begin from, without waiting for their values."""
    original = torch.Tensor.backward

    @functools.wraps(original)
    def backward(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            if tensor.numel() == 1:
                tell(tensor.detach())
        return original(tensor, *args, **kwargs)

    torch.Tensor.backward = backward  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        torch.Tensor.backward = original  # type: ignore[method-assign]


@contextlib.contextmanager
def compile_told(note: Callable[[str], None]) -> Iterator[None]:
    """Says that torch.compile did nothing, if the program uses it while dynamo is off."""
    original = torch.compile
    if os.environ.get("TORCHDYNAMO_DISABLE") != "1":
        yield
        return

    def compile(*args: Any, **kwargs: Any) -> Any:
        note("torch.compile was off in this run (TORCHDYNAMO_DISABLE=1)")
        return original(*args, **kwargs)

    torch.compile = compile
    try:
        yield
    finally:
        torch.compile = original


@contextlib.contextmanager
def rank_kept(ask: Callable[[], object]) -> Iterator[None]:
    """Has a process asked for its rank before it leaves its group."""
    if not torch.distributed.is_available():
        yield
        return
    owners: tuple[Any, ...] = (torch.distributed, torch.distributed.distributed_c10d)
    original = torch.distributed.destroy_process_group

    @functools.wraps(original)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            ask()
        return original(*args, **kwargs)

    for owner in owners:
        owner.destroy_process_group = destroy_process_group
    try:
        yield
    finally:
        for owner in owners:
            owner.destroy_process_group = original
