"""Processes that the program starts are observed as well, each with a recording of its own: those that are spawned from
their first line on, those that are forked off from their target on or, where that is not known, from the first region
or backward pass on. The workers of a DataLoader and of spawned pools are left alone."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_start_method, spawn
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from amplint.confirm.recording import SIMULATED
from amplint.confirm.session import Order, Session, Unusable

_POOLS = ("multiprocessing.pool", "concurrent.")
_WORKERS = ("torch.utils.data", *_POOLS)
_LEFT_ALONE = ("multiprocessing.", *_WORKERS)
_PYTHON = re.compile(r"python[\d.]*(?:\.exe)?")


@dataclass
class Probed:
    """What a process runs, under the probe. ``order`` is for processes that have no session yet."""

    target: Callable[..., Any]
    order: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session = Session.current
        if session is None:
            session = _begun(Order.read(self.order))
        elif session.process != os.getpid():
            session.go_on()
        if session is None:
            return self.target(*args, **kwargs)
        try:
            return self.target(*args, **kwargs)
        except Exception as error:
            session.failed(error)
            raise
        finally:
            # the process leaves with os._exit, which runs no handlers
            session.close()


def begin(order: str, observed: bool) -> None:
    """The first thing that a spawned process does, before it imports the program. Without being ``observed`` it
    has simulated CUDA where its parent has."""
    first = sys.path.pop(0) if sys.path[:1] == [""] else None
    try:
        made = Order.read(order)
        if observed:
            _begun(made)
        elif made.device == SIMULATED:
            from amplint.confirm.simulation import SimulatedCuda

            SimulatedCuda().__enter__()
    finally:
        if first is not None:
            sys.path.insert(0, first)


def _begun(order: Order) -> Session | None:
    session = Session(order, is_worker=True)
    try:
        session.start()
    except Unusable:
        return None
    session.guard()
    return session


@contextlib.contextmanager
def observe_processes(session: Session) -> Iterator[None]:
    """Has the processes observed that are started from now on."""
    starter = _Starter(session)
    owners: Sequence[tuple[Any, str, Callable[[Any], Any]]] = (
        (BaseProcess, "start", starter.start),
        (spawn, "get_command_line", starter.get_command_line),
        (subprocess.Popen, "__init__", starter.popen),
    )
    originals = [vars(owner)[name] for owner, name, _ in owners]
    for (owner, name, make), original in zip(owners, originals, strict=True):
        setattr(owner, name, functools.wraps(original)(make(original)))
    try:
        yield
    finally:
        for (owner, name, _), original in zip(owners, originals, strict=True):
            setattr(owner, name, original)


class _Starter:
    """What happens where a process is started."""

    def __init__(self, session: Session) -> None:
        self.session = session
        script = (str(session.script.parent),) if session.script is not None else ()
        order = session.order
        self.order = replace(order, device=session.device, paths=(*order.paths, *script)).written()
        self._starting = threading.local()

    def start(self, original: Any) -> Any:
        """Wraps the method that starts a process."""

        def start(process: Any) -> None:
            target = getattr(process, "_target", None)
            home = getattr(target, "__module__", None) or ""
            observed = not home.startswith(_LEFT_ALONE)
            if observed and target is not None:
                self._wrap_target(process)
            self._starting.observed = observed if observed or home.startswith(_WORKERS) else None
            try:
                original(process)
            finally:
                self._starting.observed = None
            how = process._start_method or get_start_method()
            if how != "fork" and home.startswith(_POOLS):
                self.session.observer.note("what a pool of spawned processes did was not observed")

        return start

    def _wrap_target(self, process: Any) -> None:
        if process._target.__module__ == "torch.multiprocessing.spawn" and process._args:
            # torch's own function catches what the user's raises
            process._args = (Probed(process._args[0], self.order), *process._args[1:])
        else:
            process._target = Probed(process._target, self.order)

    def get_command_line(self, original: Any) -> Any:
        """Wraps what makes the command of a spawned process."""

        def get_command_line(**settings: Any) -> Any:
            command = list(original(**settings))
            observed = getattr(self._starting, "observed", None)
            if observed is not None and "-c" in command:
                at = command.index("-c") + 1
                command[at] = f"{_FIRST}begin({self.order!r}, {observed}); {command[at]}"
            return command

        return get_command_line

    def popen(self, original: Any) -> Any:
        """Wraps what starts other programs: they are told of, if they are Python's."""

        def __init__(process: Any, args: Any, *more: Any, **settings: Any) -> None:  # noqa: N807
            original(process, args, *more, **settings)
            with contextlib.suppress(Exception):
                words = args.split() if isinstance(args, str) else [os.fspath(part) for part in args]
                program = [word for word in words[1:] if not word.startswith("-")]
                if _PYTHON.fullmatch(Path(words[0]).name) and program and "-c" not in words:
                    self.session.observer.note(
                        f"the program started another one, which was not observed: {' '.join(words)[:200]}"
                    )

        return __init__


_FIRST = (
    "import importlib.util as u, sys; u.find_spec('amplint') or sys.path.append("
    f"{str(Path(__file__).parents[2])!r}); from amplint.confirm.processes import begin; "
)
"""How a spawned process finds ``begin``; the program's module search path is set after it."""
