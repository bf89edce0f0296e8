"""How the tests of the command line start it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

_WITH_FAKE_ANALYSIS = """
import sys
sys.path[:0] = [{root!r}, {here!r}]
import fake_analysis
sys.modules["amplint.analysis"] = fake_analysis
from amplint.cli.main import main
main()
"""

_AS_IT_IS = """
import sys
sys.path.insert(0, {root!r})
from amplint.cli.main import main
main()
"""


def command(*arguments: str | bytes, fake: bool = True) -> list[str | bytes]:
    """The command line with the fake analysis or with the real one."""
    script = _WITH_FAKE_ANALYSIS if fake else _AS_IT_IS
    here = str(Path(__file__).parent)
    return [sys.executable, "-c", script.format(root=str(ROOT), here=here), *arguments]


def environment(**more: str) -> dict[str, str]:
    """The environment without what would change the output."""
    unwanted = {"NO_COLOR", "FORCE_COLOR", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "AMPLINT_DEBUG"}
    unwanted |= {"FORCE_HYPERLINK", "TERM_PROGRAM", "VTE_VERSION", "WT_SESSION", "KONSOLE_VERSION", "DOMTERM"}
    return {key: value for key, value in os.environ.items() if key not in unwanted} | more
