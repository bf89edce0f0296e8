"""The codes and names of all rules, read off the file names so that no rule has to be imported.

A rule lives in a file of ``amplint/rules`` such as ``amp101_backward_in_autocast.py``: code AMP101, name
backward-in-autocast.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from pathlib import Path
from typing import NamedTuple

SYNTAX_ERROR = ("AMP902", "syntax-error")
"""Reported for files that cannot be read or parsed; no rule module has to exist for it."""

UNUSED_SUPPRESSION = ("AMP901", "unused-suppression")
"""Decided when all findings are there; see amplint/silence.py."""


class Row(NamedTuple):
    """A rule and the module of ``amplint.rules`` that it lives in."""

    code: str
    name: str
    module: str


@cache
def catalog() -> tuple[Row, ...]:
    """The rule modules, by code. This module stands outside of that package, whose import brings LibCST."""
    modules = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / "rules")]))
    return tuple(sorted(_row(module) for module in modules if _is_rule(module)))


@cache
def rule_names() -> dict[str, str]:
    """Code -> name of everything that can be reported, by code."""
    names = {row.code: row.name for row in catalog()}
    names.setdefault(*SYNTAX_ERROR)
    return dict(sorted(names.items()))


def _is_rule(module: str) -> bool:
    code, _, name = module.partition("_")
    return code.startswith("amp") and code[3:].isdigit() and bool(name)


def _row(module: str) -> Row:
    code, _, name = module.partition("_")
    return Row(code.upper(), name.replace("_", "-"), module)
