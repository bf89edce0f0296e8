"""Programs that start a training script, once or in several processes: torchrun and its like. Each process that they
start runs the script under the probe; they themselves are not observed."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class NotLaunched(Exception):  # noqa: N818
    """The launcher cannot be used under the probe. The message says why."""


@dataclass(frozen=True)
class Launcher:
    """``words`` is what users type, ``module`` what runs then; ``parse`` gives the options that the module makes of
    arguments, ``rest`` the name of the script's own arguments among them."""

    words: tuple[str, ...]
    module: str
    parse: Callable[[Any, list[str]], Any]
    rest: str = "training_script_args"


LAUNCHERS = (
    Launcher(
        ("torchrun",),
        "torch.distributed.run",
        lambda module, given: module.get_args_parser().parse_args(given),
    ),
    Launcher((), "torch.distributed.launch", lambda module, given: module.parse_args(given)),
    Launcher(
        ("accelerate", "launch"),
        "accelerate.commands.launch",
        lambda module, given: module.launch_command_parser().parse_args(given),
    ),
    Launcher(
        ("deepspeed",),
        "deepspeed.launcher.runner",
        lambda module, given: module.parse_args(given),
        rest="user_args",
    ),
)


def as_module(command: Sequence[str]) -> list[str]:
    """A command with a launcher in front as ``-m`` and its module."""
    for launcher in LAUNCHERS:
        typed = [Path(command[0]).name.removesuffix(".exe"), *command[1:]] if command else []
        count = len(launcher.words)
        if count and tuple(typed[:count]) == launcher.words:
            return ["-m", launcher.module, *command[count:]]
    return list(command)


def launcher_of(command: Sequence[str]) -> Launcher | None:
    """The launcher that a command runs as a module."""
    if len(command) < 2 or command[0] != "-m":
        return None
    return next((launcher for launcher in LAUNCHERS if launcher.module == command[1]), None)


def launch(launcher: Launcher, arguments: list[str], simulated: bool) -> None:
    """Runs the launcher, which takes the machine for one with a GPU if CUDA is ``simulated``. Raises NotLaunched."""
    try:
        module = importlib.import_module(launcher.module)
    except ImportError as error:
        name = " ".join(launcher.words) or launcher.module
        raise NotLaunched(f"{name} cannot be imported beside amplint: {error}") from error
    parsed = launcher.parse(module, arguments)
    if getattr(parsed, "no_python", False):
        raise NotLaunched("a launcher is to start a Python program, and not to start it with --no_python")
    at = len(arguments) - len(getattr(parsed, launcher.rest)) - 1
    own = ["-m"] if parsed.module else []
    options = [option for option in arguments[:at] if option not in ("-m", "--module")]
    first = str(Path(__file__).with_name("launch.py"))
    sys.argv[:] = [str(module.__file__), *options, first, *own, *arguments[at:]]
    with contextlib.ExitStack() as stack:
        if simulated:
            from amplint.confirm.simulation import SimulatedCuda

            stack.enter_context(SimulatedCuda())
        module.main()
