"""Workers that the program spawns to train in, as ``torch.multiprocessing.spawn`` does, are probed as well. Those of a
DataLoader are left alone, and so are processes that are forked off: they have the patched torch of their
parent, and nothing listens there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

from amplint.confirm.session import ENVIRONMENT, Order, Session

_LEFT_ALONE = ("multiprocessing.", "torch.utils.data", "concurrent.")


@dataclass
class Probed:
    """The target of a spawned process, under the probe."""

    target: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session = Session(Order.read(os.environ[ENVIRONMENT]))
        session.start()
        session.guard()
        try:
            return self.target(*args, **kwargs)
        except Exception as error:
            session.failed(error)
            raise
        finally:
            # a worker leaves with os._exit, which runs no handlers
            session.close()


@contextlib.contextmanager
def observe_processes(order: Order) -> Iterator[None]:
    """Wraps the targets of spawned processes."""
    base: Any = BaseProcess
    original = base.start

    def start(process: Any) -> None:
        target = getattr(process, "_target", None)
        spawned = getattr(process, "_start_method", None) in ("spawn", "forkserver")
        home = getattr(target, "__module__", None) or ""
        if spawned and target is not None and not home.startswith(_LEFT_ALONE) and ENVIRONMENT in os.environ:
            process._target = Probed(target)
        original(process)

    base.start = start
    try:
        yield
    finally:
        base.start = original
