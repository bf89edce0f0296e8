"""Runs a program as Python would, under the probe, in this process.

What the program can see is as it is without a probe: ``sys.argv``, ``sys.path``, ``__main__``, its exit status, its
output. A traceback shows the program's frames alone.
"""

from __future__ import annotations

import builtins
import io
import itertools
import os
import runpy
import sys
import types
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from amplint.confirm.launchers import NotLaunched, launch, launcher_of
from amplint.confirm.order import ENVIRONMENT, UNUSABLE, Order, Unusable, chosen_device
from amplint.confirm.own_frames import clean
from amplint.confirm.recording import SIMULATED
from amplint.confirm.session import Session


def main(command: Sequence[str]) -> None:
    """Runs the command and leaves with its exit status. The order is in the environment."""
    # some launchers hand --local-rank to the program, in front of what it was given
    handed = list(itertools.takewhile(lambda word: word.startswith("--"), command))
    command = list(command[len(handed) :])
    at = 2 if command[0] == "-m" else 1
    command[at:at] = handed
    order = Order.read(os.environ[ENVIRONMENT])
    launcher = launcher_of(command)
    session = Session(order, _script(command))
    try:
        if launcher is not None:
            launch(launcher, command[2:], chosen_device(order) == SIMULATED)
            return
    except (Unusable, NotLaunched) as error:
        sys.stderr.write(f"amplint: error: {error}\n")
        sys.exit(UNUSABLE)
    session.guard()
    session.start_with_torch()
    try:
        _run(command)
    except SystemExit as error:
        session.status = _status(error)
        raise
    except BaseException as error:
        session.failed(error)
        _show(error)
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def _script(command: Sequence[str]) -> str | None:
    return command[0] if command[0] not in ("-m", "-c") else None


def _run(command: list[str]) -> None:
    if command[0] == "-m":
        sys.argv[:] = [command[1], *command[2:]]
        sys.path.insert(0, str(Path.cwd()))
        _run_module(command[1])
    elif command[0] == "-c":
        sys.argv[:] = ["-c", *command[2:]]
        sys.path.insert(0, "")
        _execute(compile(command[1], "<string>", "exec", dont_inherit=True), {"__loader__": None})
    elif Path(command[0]).is_dir() or command[0].endswith((".zip", ".pyz")):
        sys.argv[:] = command
        _run_directory(command[0])
    else:
        sys.argv[:] = command
        sys.path.insert(0, str(Path(command[0]).resolve().parent))
        file = str(Path(command[0]).absolute())
        with io.open_code(file) as source:
            code = compile(source.read(), file, "exec", dont_inherit=True)
        _execute(
            code, {"__file__": file, "__cached__": None, "__loader__": SourceFileLoader("__main__", file)}
        )


def _execute(code: types.CodeType, names: dict[str, Any]) -> None:
    """Runs code as ``__main__``, where pickle and multiprocessing look for its classes."""
    module = types.ModuleType("__main__")
    module.__dict__.update({"__builtins__": builtins, "__package__": None, "__spec__": None, **names})
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def _run_module(name: str) -> None:
    """As ``runpy`` does for ``python -m``, but in a module that stays ``__main__``."""
    try:
        _, spec, code = runpy._get_module_details(name)  # type: ignore[attr-defined]
    except ImportError as error:
        sys.stderr.write(f"{sys.executable}: {error}\n")
        sys.exit(1)
    sys.argv[0] = spec.origin
    names = {
        "__file__": spec.origin,
        "__cached__": spec.cached,
        "__package__": spec.parent,
        "__spec__": spec,
        "__loader__": spec.loader,
    }
    _execute(code, names)


def _run_directory(path: str) -> None:
    """A directory or an archive with a ``__main__.py``."""
    sys.path.insert(0, path)
    _, spec, code = runpy._get_module_details("__main__")  # type: ignore[attr-defined]
    names = {"__file__": spec.origin, "__spec__": spec, "__loader__": spec.loader, "__package__": ""}
    _execute(code, names)


def _status(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else 1


def _show(error: BaseException) -> None:
    """Prints the traceback without the frames of amplint."""
    clean(error)
    sys.excepthook(type(error), error, error.__traceback__)
