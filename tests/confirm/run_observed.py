"""Runs programs one after the other under the probe and simulated CUDA, and lets the rules judge each run.

    python tests/confirm/run_observed.py [--on-cuda] PROGRAM...

With --on-cuda the programs have the CUDA device that is there.

A program is a file, or a folder with a main.py. Prints one line of JSON for each: its path, the findings as
[file, line, rule], the exception that ended it or null, and the errors of the probe.
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from amplint.confirm.probe import Level, Probe
from amplint.confirm.simulation import SimulatedCuda, leave_regions
from amplint.events import Event
from amplint.rules import rule_classes
from amplint.rules.base import FlowRule, Report
from amplint.rules.context import Context
from amplint.rules.dispatcher import Dispatcher, findings_of

APEX = Path(__file__).parents[1] / "apex_stub"
"""What programs import as apex, which is not in any registry."""


class Judge:
    """Lets all flow rules hear a run."""

    def __init__(self) -> None:
        self.report = Report()
        rules = [rule() for rule in rule_classes() if issubclass(rule, FlowRule)]
        self._dispatcher = Dispatcher(rules, self.report)
        self._states = self._dispatcher.start()

    def ask(self, context: Context) -> None:
        """Whom the rules may ask."""
        self._dispatcher.ask(context)

    def hear(self, event: Event) -> None:
        """Hands an event on."""
        self._states = self._dispatcher.hear(self._states, event)


@contextlib.contextmanager
def as_main(main: Path) -> Iterator[None]:
    """What Python sets up for a script, and takes down after it."""
    modules, path, arguments = set(sys.modules), list(sys.path), list(sys.argv)
    sys.path.insert(0, str(main.parent))
    if "apex-amp" in main.parts:
        sys.path.append(str(APEX))
    sys.argv = [str(main)]
    try:
        yield
    finally:
        sys.path[:], sys.argv[:] = path, arguments
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and {main.parent, APEX} & set(Path(file).parents):
                del sys.modules[name]


def run(program: Path, *, on_cuda: bool = False) -> tuple[list[tuple[str, int, str]], str | None, list[str]]:
    """Findings, exception, errors of the probe."""
    main = program if program.is_file() else program / "main.py"
    root, mine = main.parent, str(program)
    judge = Judge()
    probe = Probe(judge, is_user_file=lambda name: name.startswith(mine), root=root, level=Level.FUNCTIONS)
    judge.ask(probe.context)
    raised = None
    torch.manual_seed(0)
    with as_main(main), contextlib.redirect_stdout(io.StringIO()):
        try:
            with contextlib.nullcontext() if on_cuda else SimulatedCuda(), probe:
                runpy.run_path(str(main), run_name="__main__")
        except BaseException as error:
            raised = repr(error)
        finally:
            leave_regions()  # a simulation does so by itself, a device does not
    found = {(part.path, part.span.line, part.name) for part in findings_of(judge.report.standing)}
    return sorted(found), raised, probe.errors


def main() -> None:
    """Each result is flushed, so that a crash of the interpreter shows where it happened."""
    torch.set_num_threads(1)
    on_cuda = sys.argv[1] == "--on-cuda"
    for name in sys.argv[1 + on_cuda :]:
        print(json.dumps([name, *run(Path(name).absolute(), on_cuda=on_cuda)]), flush=True)


if __name__ == "__main__":
    main()
