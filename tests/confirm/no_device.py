"""Says at the end of the suite that tests which take a CUDA device did not run."""

from __future__ import annotations

from typing import Any

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many there were, and why."""
    # a module that is skipped as a whole has no keywords
    skipped: list[Any] = [
        report
        for report in terminalreporter.stats.get("skipped", [])
        if "cuda" in getattr(report, "keywords", ())
    ]
    if skipped:
        *_, reason = skipped[0].longrepr
        tests = "1 test" if len(skipped) == 1 else f"{len(skipped)} tests"
        terminalreporter.write_line(
            f"CUDA: {tests} of `-m cuda` did not run: {reason.removeprefix('Skipped: ')}", yellow=True
        )
