"""The codes and names of all rules, read off the file names so that no rule has to be imported.

A rule lives in a file such as ``amp101_backward_in_autocast.py``: code AMP101, name backward-in-autocast.
"""

from __future__ import annotations

import pkgutil
from functools import lru_cache
from pathlib import Path

SYNTAX_ERROR = ("AMP902", "syntax-error")
"""Reported for files that cannot be read or parsed; no rule module has to exist for it."""


@lru_cache(maxsize=1)
def rule_names() -> dict[str, str]:
    """Code -> name of every rule, in the order of their codes."""
    modules = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    found = dict(_code_and_name(module) for module in modules if _is_rule(module))
    found.setdefault(*SYNTAX_ERROR)
    return dict(sorted(found.items()))


def _is_rule(module: str) -> bool:
    code, _, name = module.partition("_")
    return code.startswith("amp") and code[3:].isdigit() and bool(name)


def _code_and_name(module: str) -> tuple[str, str]:
    code, _, name = module.partition("_")
    return code.upper(), name.replace("_", "-")
