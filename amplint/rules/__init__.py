"""The rules, one file each, found by walking this package."""

from __future__ import annotations

import importlib
from functools import cache

from amplint.rules.base import Rule
from amplint.rules.catalog import SYNTAX_ERROR, rule_names


@cache
def rule_classes() -> tuple[type[Rule], ...]:
    """All rule classes, by code."""
    found: list[type[Rule]] = []
    for code, name in rule_names().items():
        if (code, name) == SYNTAX_ERROR:
            continue
        module = importlib.import_module(f"amplint.rules.{code.lower()}_{name.replace('-', '_')}")
        found.extend(
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__
        )
    return tuple(found)


def all_rules() -> tuple[Rule, ...]:
    """All rules, with default settings, by code."""
    return tuple(rule() for rule in rule_classes())
