"""Warnings and tracebacks as the program would see them without a probe: frames of amplint stand in neither."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amplint.confirm.patches import UNCOUNTED, Patches

_OWN = (UNCOUNTED, str(Path(__file__).parent) + os.sep)
_CALLS_OPS = os.path.join("torch", "_ops.py")  # noqa: PTH118 (compared with the end of a name)
"""Where an op is called if a mode has been asked before."""
_DISPATCHES = os.path.join("torch", "overrides.py")  # noqa: PTH118
"""Where a function asks the mode, which calls the function once more."""
_REGISTRY = "__warningregistry__"
_WALKS = ("walk_tb", "_walk_tb_with_full_positions")
"""The functions of ``traceback`` through which all that prints or keeps a traceback goes."""


@contextlib.contextmanager
def warnings_placed() -> Iterator[None]:
    """What is warned of in a frame of the probe is warned of in the program's: there filters look for the module, and
    each line shows it once. C++ code takes the innermost frame; Python code may count one of the probe's."""
    patches = Patches()
    show = getattr(warnings, "_showwarnmsg")  # noqa: B009

    def _showwarnmsg(message: Any) -> None:
        frame = _frame_of(message)
        if frame is None:
            show(message)
            return
        names = frame.f_globals
        warnings.warn_explicit(
            message.message,
            message.category,
            frame.f_code.co_filename,
            frame.f_lineno,
            names.get("__name__") or "<unknown>",
            names.setdefault(_REGISTRY, {}),
            names,
            message.source,
        )

    patches.set(warnings, "_showwarnmsg", _showwarnmsg)
    for name, module in list(sys.modules.items()):
        if name.startswith("amplint.confirm.") or name == "torch._ops":
            patches.set(module, _REGISTRY, None)  # such a line shows each warning, not only its first
    try:
        yield
    finally:
        patches.undo()


def _frame_of(message: Any) -> types.FrameType | None:
    """The frame that a warning would have been placed in without the probe, if it was placed in one of the probe's."""
    if not (message.filename.startswith(_OWN) or message.filename.endswith(_CALLS_OPS)):
        return None
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and (frame.f_code.co_filename, frame.f_lineno) != (
        message.filename,
        message.lineno,
    ):
        frame = frame.f_back
    is_own = False
    while frame is not None:
        file = frame.f_code.co_filename
        if file.endswith(_DISPATCHES):
            frame = frame.f_back  # the function that asked
        elif file.startswith(_OWN):
            is_own = True
        elif not file.endswith(_CALLS_OPS):
            break
        frame = frame.f_back if frame is not None else None
    return frame if is_own else None


@contextlib.contextmanager
def tracebacks_cleaned() -> Iterator[None]:
    """Tracebacks that the program prints or keeps have no frames of amplint; nor have those of threads that raise."""
    patches = Patches()
    for name in _WALKS:
        if hasattr(traceback, name):
            patches.set(traceback, name, _skipping(getattr(traceback, name)))
    hook = threading.excepthook

    def excepthook(told: Any) -> Any:
        clean(told.exc_value)
        trace = without_own(told.exc_traceback)
        return hook(threading.ExceptHookArgs((told.exc_type, told.exc_value, trace, told.thread)))

    if hook is threading.__excepthook__:
        patches.set(threading, "excepthook", excepthook)
    try:
        yield
    finally:
        patches.undo()


def _skipping(walk: Any) -> Any:
    def walked(trace: types.TracebackType | None) -> Any:
        begun = False
        for frame, *where in walk(trace):
            # who begins with a frame of amplint has walked to it by himself, and asks for that one
            if not frame.f_code.co_filename.startswith(_OWN):
                begun = True
            elif begun:
                continue
            yield (frame, *where)

    return walked


def clean(error: BaseException | None) -> None:
    """Takes the frames of amplint, which lead to the program or stand between it and torch, out of the traceback of an
    exception and of those that it came from."""
    chain: list[BaseException] = []
    pending: list[BaseException | None] = [error]
    while pending:
        part = pending.pop()
        if part is not None and not any(part is known for known in chain):
            chain.append(part)
            pending += (part.__cause__, part.__context__)
            part.__traceback__ = without_own(part.__traceback__)


def without_own(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without the frames of amplint."""
    while trace is not None and _is_own(trace):
        trace = trace.tb_next
    part = trace
    while part is not None:
        following = part.tb_next
        while following is not None and _is_own(following):
            following = following.tb_next
        part.tb_next = following
        part = following
    return trace


def _is_own(trace: types.TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(_OWN)
