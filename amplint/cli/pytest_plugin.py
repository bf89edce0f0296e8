"""``pytest --amplint``: the probe under the user's own tests, and the verdicts at the end.

pytest imports this module in every run; without the option it does nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from amplint.confirm.session import Session

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
    """Puts the process under the probe before any test module is imported."""
    if not config.getoption("--amplint"):
        return
    from amplint.confirm.runner import has_torch
    from amplint.confirm.session import Order, Session, Unusable

    if not has_torch():
        raise pytest.UsageError("--amplint needs torch: pip install 'amplint[torch]'")
    root = config.invocation_params.dir
    order = Order(
        folder="",
        root=str(root),
        device=config.getoption("--amplint-device"),
        paths=(str(config.rootpath),),
        command=("pytest", *config.invocation_params.args),
    )
    session = Session(order)
    try:
        session.start()
    except Unusable as error:
        raise pytest.UsageError(str(error)) from error
    config.pluginmanager.register(_Watch(session), "amplint-watch")


class _Watch:
    """The plugin while it is on."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._failed = False

    def pytest_report_header(self) -> str:
        """What the verdicts will rest on."""
        names = {"simulated-cuda": "CUDA simulated on CPU", "cpu": "the CPU"}
        device = names.get(self._session.device, self._session.device_name)
        return f"amplint: watching torch.amp on {device} (torch {self._session.torch})"

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

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """The verdicts."""
        from amplint.check import check
        from amplint.cli.confirm_command import digests_of, judged
        from amplint.cli.output import style_for
        from amplint.config import ConfigError, load_settings
        from amplint.report.verdicts import render

        self._session.close()
        terminalreporter.section("amplint")
        try:
            settings = load_settings(config.rootpath)
        except ConfigError as error:
            terminalreporter.write_line(f"amplint: error: {error}", red=True)
            return
        result = check([Path(config.rootpath)], settings)
        recording = self._session.recording()
        crossed = judged(result, recording, settings, digests_of(result))
        style = style_for(None)._replace(color=terminalreporter.hasmarkup)
        terminalreporter.write(render(result, crossed, style))

    def pytest_unconfigure(self) -> None:
        """Leaves torch as it was, also where the run was broken off."""
        self._session.close()
