"""Deriving fixes takes time that grows with the file and not with its square: counted in calls of functions."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.check import CheckResult, Stdin, check_stdin
from amplint.config import Settings
from amplint.scope import text_alone

HERE = Settings(root=Path.cwd(), select=("ALL",), torch=((2, 4), None), torch_from="the tests")
LOOP = """import torch

def train(model, opt, kind, data):
    with torch.autocast("cuda", dtype=torch.float16):
        for x in data:
"""


def branches(number: int) -> str:
    """Branches of one `if`, each of which trains."""
    parts = [
        f"            {'elif' if case else 'if'} kind == {case}:\n"
        f"                loss = model(x, {case}).mean()\n"
        "                loss.backward()\n                opt.step()\n"
        for case in range(number)
    ]
    return LOOP + "".join(parts)


def cases(number: int) -> str:
    """Cases of one `match`, each of which trains."""
    parts = [
        f"                case {case}:\n                    loss = model(x, {case}).mean()\n"
        "                    loss.backward()\n                    opt.step()\n"
        for case in range(number)
    ]
    return f"{LOOP}            match kind:\n{''.join(parts)}"


def functions(number: int) -> str:
    """Functions that each use a deprecated name."""
    parts = [
        f"\ndef f{case}(model, x):\n    with autocast():\n        return model(x)\n" for case in range(number)
    ]
    return "import torch\nfrom torch.cuda.amp import autocast\n" + "".join(parts)


def judged(text: str) -> tuple[CheckResult, int]:
    """The findings, and the calls that it took."""
    profile = cProfile.Profile()
    view = text_alone(Path("program.py"), HERE)
    result = profile.runcall(check_stdin, view, Stdin(Path("program.py"), text.encode()))
    return result, pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


@pytest.mark.parametrize(("write", "number"), [(branches, 30), (cases, 50), (functions, 100)])
def test_twice_as_much_takes_about_twice_as_long(write: Callable[[int], str], number: int) -> None:
    judged(write(2))
    half, few = judged(write(number))
    whole, many = judged(write(2 * number))
    assert len(half.findings) >= number
    assert len(whole.findings) >= 2 * number
    assert many < 2.7 * few
