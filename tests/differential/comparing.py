"""Lints random programs, runs each under the probe with CUDA simulated, and joins the two."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from generator import program

from amplint.bounds import TORCH_DEFAULT
from amplint.check import check
from amplint.config import Settings
from amplint.confirm.lines import LineCounts
from amplint.confirm.observer import Observer
from amplint.confirm.probe import Level, Probe
from amplint.confirm.recording import SIMULATED, Raised, Recording, digest_of, with_files
from amplint.confirm.session import events_told
from amplint.confirm.simulation import SimulatedCuda
from amplint.confirm.verdicts import CrossCheck, Verdict, cross_check
from amplint.findings import Finding
from amplint.rules import all_rules
from amplint.rules.base import FlowRule


@dataclass(frozen=True)
class Compared:
    """One program and what the join says of it."""

    seed: int
    path: Path
    joined: CrossCheck

    @property
    def verdicts(self) -> list[Verdict]:
        """All verdicts, those on what the static pass missed included."""
        return [*self.joined.findings, *self.joined.missed]


def compare(seeds: Sequence[int], folder: Path) -> Iterator[Compared]:
    """Writes the programs of these seeds into the folder, lints all of them at once and runs them one by one."""
    for seed in seeds:
        (folder / f"p{seed}.py").write_text(program(seed))
    settings = Settings(root=folder, select=("ALL",), torch=TORCH_DEFAULT, torch_from="the tests")
    with _inside(folder):
        found = check([f"p{seed}.py" for seed in seeds], settings, jobs=1)
        by_file: dict[str, list[Finding]] = {}
        for finding in found.findings:
            by_file.setdefault(finding.path, []).append(finding)
        assert not found.crashes, found.crashes
        with SimulatedCuda():
            for seed in seeds:
                name = f"p{seed}.py"
                recording = observe(folder / name, folder)
                digests: dict[str, str | None] = {name: digest_of(folder / name)}
                joined = cross_check(by_file.get(name, []), recording, all_rules(), digests)
                yield Compared(seed, folder / name, joined)


def observe(script: Path, root: Path) -> Recording:
    """Runs a program in this process under the probe."""
    import torch

    observer = Observer([rule for rule in all_rules() if isinstance(rule, FlowRule)])
    own = str(script)
    probe = Probe(
        observer, is_user_file=lambda name: name == own, root=root, device="cuda", level=Level.FUNCTIONS
    )
    observer.ask(probe.context)
    lines = LineCounts(lambda name: name == own)
    raised: tuple[Raised, ...] = ()
    torch.manual_seed(0)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        probe.start()
        lines.start()
        try:
            runpy.run_path(own, run_name="__main__")
        except Exception as error:
            stack = tuple(
                (script.name, frame.lineno or 0)
                for frame in traceback.extract_tb(error.__traceback__)
                if frame.filename == own
            )
            raised = (Raised(type(error).__name__, str(error).splitlines()[0], stack),)
        finally:
            lines.stop()
            observer.end("raised" if raised else "finished")
            probe.stop()
    assert not probe.errors, probe.errors[0]
    counted = lines.counts()
    made = Recording(
        device=SIMULATED,
        torch=torch.__version__,
        exact=sys.version_info >= (3, 11),
        ended="raised" if raised else "finished",
        raised=raised,
        told=events_told(),
        lines={script.name: counted.get(own, {})},
    )
    return with_files(observer.recording(made), {script.name: digest_of(script)})


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
