"""Processes that the program starts are observed as well, each with a recording of its own: those that are spawned from
their first line on, those that are forked off from their target on or, where that is not known, from the first region
or backward pass on. The workers of a DataLoader and of spawned pools are left alone. Of spawned
pools and of other programs of Python the report says that they were not observed."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_start_method, spawn
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

from amplint.confirm.order import ENVIRONMENT, Order
from amplint.confirm.runner import NotRun, prepared

_POOLS = ("multiprocessing.pool", "concurrent.")
_WORKERS = ("torch.utils.data", *_POOLS)
_LEFT_ALONE = ("multiprocessing.", *_WORKERS)
_PYTHON = re.compile(r"python[\d.]*(?:\.exe)?")


class Observed(Protocol):
    """The session of a process: what there is to know of it where the process starts others."""

    order: Order
    device: str
    script: Path | None

    def note(self, text: str) -> None:
        """Says something of the run once."""

    def started(self, program: str) -> None:
        """The process has started another program of Python, which is not observed."""

    def failed(self, error: BaseException) -> None:
        """The process ended with an exception."""

    def close(self) -> None:
        """Writes the recording, if that is still to be done."""

    def give_way(self) -> None:
        """As ``close``, where another program takes over the process: it writes a recording of its own."""


Begin = Callable[[str, bool], None]
"""What a spawned process does first: it is given the order as text, and whether the process is to be observed."""

Join = Callable[[str], Observed | None]
"""What a process does before it runs its target, to have a session: it is given the order as text."""


@dataclass
class Probed:
    """What a process runs, under the probe. It is pickled with ``join``, a function of a module."""

    target: Callable[..., Any]
    order: str
    join: Join

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session = self.join(self.order)
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


@contextlib.contextmanager
def observe_processes(session: Observed, begin: Begin, join: Join) -> Iterator[None]:
    """Has the processes observed that are started from now on. ``begin`` and ``join`` are functions of modules, which
    the started process can import."""
    starter = _Starter(session, begin, join)
    owners: Sequence[tuple[Any, str, Callable[[Any], Any]]] = (
        (BaseProcess, "start", starter.start),
        (spawn, "get_command_line", starter.get_command_line),
        (subprocess.Popen, "__init__", starter.popen),
        (os, "execv", starter.execv),
        (os, "execve", starter.execve),
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

    def __init__(self, session: Observed, begin: Begin, join: Join) -> None:
        self.session = session
        self.join = join
        self.first = _FIRST.format(
            house=str(Path(__file__).parents[2]), module=begin.__module__, name=begin.__qualname__
        )
        script = (str(session.script.parent),) if session.script is not None else ()
        self._scripts = script
        self._starting = threading.local()

    @property
    def order(self) -> str:
        """What the started process is told: it is on the same device."""
        order = self.session.order
        return replace(order, device=self.session.device, paths=(*order.paths, *self._scripts)).written()

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
                self.session.note("what a pool of spawned processes did was not observed")

        return start

    def _wrap_target(self, process: Any) -> None:
        if process._target.__module__ == "torch.multiprocessing.spawn" and process._args:
            # torch's own function catches what the user's raises
            process._args = (Probed(process._args[0], self.order, self.join), *process._args[1:])
        else:
            process._target = Probed(process._target, self.order, self.join)

    def get_command_line(self, original: Any) -> Any:
        """Wraps what makes the command of a spawned process."""

        def get_command_line(**settings: Any) -> Any:
            command = list(original(**settings))
            observed = getattr(self._starting, "observed", None)
            if observed is not None and "-c" in command:
                at = command.index("-c") + 1
                command[at] = f"{self.first}({self.order!r}, {observed}); {command[at]}"
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
                    command = " ".join(words)[:200]
                    self.session.started(command)
                    self.session.note(f"the program started another one, which was not observed: {command}")

        return __init__

    def execv(self, original: Any) -> Any:
        """Wraps what puts another program in the place of this one; all of its like call it or ``execve``."""

        def execv(path: Any, argv: Any) -> Any:
            self.session.give_way()
            return original(path, _followed(argv))

        return execv

    def execve(self, original: Any) -> Any:
        """The same, with an environment."""

        def execve(path: Any, argv: Any, env: Any) -> Any:
            self.session.give_way()
            return original(path, _followed(argv), {**env, ENVIRONMENT: self.session.order.written()})

        return execve


def _followed(argv: Sequence[Any]) -> Sequence[Any]:
    """A command under the probe, if it is one of Python."""
    try:
        words = [os.fsdecode(word) for word in argv]
        options, program = prepared(words)
    except (NotRun, TypeError):
        return argv
    if not _PYTHON.fullmatch(Path(words[0]).name):
        return argv
    return [words[0], *options, str(Path(__file__).with_name("launch.py")), *program]


_FIRST = (
    "import importlib as i, importlib.util as u, sys; u.find_spec('amplint') or sys.path.append({house!r}); "
    "i.import_module({module!r}).{name}"
)
"""How a spawned process finds the function that it begins with; the program's module search path is set after it."""
