"""``pytest --amplint``: the probe under the user's own tests, and the verdicts at the end.

pytest imports this module in every run; without the option it does nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from amplint.confirm.order import Order
    from amplint.confirm.recording import Recording
    from amplint.confirm.session import Session

_KEY = "amplint"
"""Under which pytest-xdist carries the order to its workers and their recordings back."""
_DEVICES = ("auto", "cuda", "simulated-cuda", "cpu")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--amplint`` and what goes with it."""
    group = parser.getgroup("amplint", "misuse of automatic mixed precision (AMP)")
    group.addoption(
        "--amplint",
        action="store_true",
        help="Watch what the tests do with torch.amp, and say at the end which findings of amplint are true.",
    )
    group.addoption(
        "--amplint-device",
        choices=_DEVICES,
        default="auto",
        help="What the tests run on; auto: CUDA if there is some, else CUDA simulated on the CPU.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Puts the process under the probe before any test module is imported; with pytest-xdist its workers."""
    if not config.getoption("--amplint"):
        return
    from amplint.confirm.order import Order, Unusable, chosen_device
    from amplint.confirm.runner import has_torch
    from amplint.confirm.session import Session

    if not has_torch():
        raise pytest.UsageError("--amplint needs torch: pip install 'amplint[torch]'")
    order = Order(
        folder="",
        root=str(config.invocation_params.dir),
        device=config.getoption("--amplint-device"),
        paths=(str(config.rootpath),),
        command=("pytest", *map(str, config.invocation_params.args)),
    )
    handed = getattr(config, "workerinput", {}).get(_KEY)
    try:
        if handed is None and config.getoption("dist", "no") != "no":
            chosen_device(order)
            config.pluginmanager.register(_Workers(order), "amplint-workers")
            return
        folder = tempfile.TemporaryDirectory(prefix="amplint-")
        order = replace(Order.read(handed) if handed else order, folder=folder.name)
        session = Session(order)
        session.start()
    except Unusable as error:
        raise pytest.UsageError(str(error)) from error
    config.pluginmanager.register(_Watch(session, folder), "amplint-watch")


class _Watch:
    """The plugin where tests run. In ``folder`` are the recordings of the processes that they start."""

    def __init__(self, session: Session, folder: tempfile.TemporaryDirectory[str]) -> None:
        self._session = session
        self._folder = folder
        self._failed = False

    def pytest_report_header(self) -> str:
        """What the verdicts will rest on."""
        return _header(self._session.device)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, None]:
        """A test is a program of its own to the rules."""
        self._failed = False
        self._session.observer.begin()
        yield
        if not self._failed:
            self._session.observer.over()

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """What a test raises is evidence."""
        if call.excinfo is not None:
            self._failed = True
            self._session.keep(call.excinfo.value)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker hands over what it saw."""
        if hasattr(session.config, "workeroutput"):
            from amplint.confirm.recording import as_text

            session.config.workeroutput[_KEY] = as_text(self._recording())

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """The verdicts."""
        _report(terminalreporter, config, self._recording())

    def pytest_unconfigure(self) -> None:
        """Leaves torch as it was, also where the run was broken off."""
        self._session.close()
        self._folder.cleanup()

    def _recording(self) -> Recording:
        from amplint.confirm.recording import merged, read

        self._session.close()
        return merged([read(path) for path in sorted(Path(self._folder.name).glob("*.json"))])


class _Workers:
    """The plugin where pytest-xdist distributes tests to workers."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._recordings: list[Recording] = []
        self._silent: list[str] = []

    def pytest_report_header(self) -> str:
        """What the verdicts will rest on."""
        from amplint.confirm.order import chosen_device

        return _header(chosen_device(self._order))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """A worker is told what to do."""
        node.workerinput[_KEY] = self._order.written()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker has ended."""
        from amplint.confirm.recording import from_text

        text = getattr(node, "workeroutput", {}).get(_KEY)
        if text is None:
            self._silent.append(node.gateway.id)
        else:
            self._recordings.append(from_text(text))

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """The verdicts."""
        from amplint.confirm.recording import merged

        silent = ", ".join(sorted(self._silent))
        if not self._recordings:
            terminalreporter.section("amplint")
            terminalreporter.write_line("amplint: error: no worker could tell what it saw", red=True)
            return
        made = merged(self._recordings)
        notes = (*made.notes, f"what these workers saw is lost with them: {silent}") if silent else made.notes
        steps = sum(recording.steps for recording in self._recordings)
        skipped = sum(recording.skipped for recording in self._recordings)
        _report(terminalreporter, config, replace(made, notes=notes, steps=steps, skipped=skipped))


def _header(device: str) -> str:
    import torch

    place = {"simulated-cuda": "CUDA simulated on CPU", "cpu": "the CPU"}.get(device, "CUDA")
    return f"amplint: watching torch.amp on {place} (torch {torch.__version__})"


def _report(terminalreporter: Any, config: pytest.Config, recording: Recording) -> None:
    from amplint.check import check
    from amplint.cli.confirm_command import digests_of, judged
    from amplint.cli.output import style_for
    from amplint.config import ConfigError, load_settings
    from amplint.report.verdicts import render

    terminalreporter.section("amplint")
    try:
        settings = load_settings(config.rootpath).of_a_run
    except ConfigError as error:
        terminalreporter.write_line(f"amplint: error: {error}", red=True)
        return
    result = check([Path(config.rootpath)], settings)
    crossed = judged(result, recording, settings, digests_of(result))
    style = style_for(None)._replace(color=terminalreporter.hasmarkup)
    terminalreporter.write(render(result, crossed, style))
