"""Dicts and objects of modules that decorators and statements fill: registries of losses, models, hooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.flow.project import registrations

TRAIN = """\
import torch
from parts.registry import LOSSES

def train(model, loader, name):
    criterion = {chosen}
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        loss.backward()
"""
TABLE = """\
LOSSES = {}

def register(name=None):
    def decorate(part):
        LOSSES[name or part.__name__] = part
        return part
    return decorate
"""
WRAPS = """\
from functools import wraps

LOSSES = {}

def register(part):
    key = part.__name__
    if key in LOSSES:
        raise ValueError(key)
    LOSSES[key] = part
    @wraps(part)
    def wrapper(*args, **kwargs):
        return part(*args, **kwargs)
    return wrapper
"""
CLASS = """\
class Registry:
    def __init__(self):
        self._parts = {}

    def register(self, part):
        self._parts[part.__name__] = part
        return part

    def get(self, name):
        if name not in self._parts:
            raise KeyError(name)
        return self._parts[name]

LOSSES = Registry()
"""
LOSS = """\
from torch import nn
from torch.nn import functional as F
from .registry import {name}

{decorator}
class Entropy(nn.Module):
    def forward(self, chances, target):
        return F.binary_cross_entropy(chances, target)
"""


def said(folder: Path, registry: str, losses: str, chosen: str, place: str = "losses.py") -> list[str]:
    """The rules that speak of a project whose package ``parts`` has a registry and losses."""
    package = folder / "parts"
    package.mkdir()
    for path, text in {
        folder / "train.py": TRAIN.replace("{chosen}", chosen),
        package / "__init__.py": "",
        package / "registry.py": registry,
        package / place: losses,
    }.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    result = check([str(folder)], Settings(root=folder, errors_only=("**/test_*.py",)), jobs=1)
    assert result.crashes == ()
    return [finding.name for finding in result.findings]


@pytest.mark.parametrize(
    ("registry", "decorator", "chosen"),
    [
        (TABLE, '@register("entropy")', 'LOSSES["entropy"]()'),
        (TABLE, '@register("entropy")', "LOSSES[name]()"),
        (TABLE, '@register("entropy")', 'LOSSES.get("entropy")()'),
        (TABLE, "@register()", 'LOSSES["Entropy"]()'),
        (WRAPS, "@register", 'LOSSES["Entropy"]()'),
        (WRAPS, "@register", "LOSSES[name]()"),
        (CLASS, "@LOSSES.register", 'LOSSES.get("Entropy")()'),
    ],
)
def test_what_a_decorator_puts_into_a_registry(
    tmp_path: Path, registry: str, decorator: str, chosen: str
) -> None:
    name = "LOSSES" if "LOSSES" in decorator else "register"
    assert "bce-in-autocast" in said(tmp_path, registry, LOSS.format(name=name, decorator=decorator), chosen)


def test_what_a_statement_puts_into_a_registry(tmp_path: Path) -> None:
    table = f"{LOSS.format(name='os', decorator='').replace('from .registry import os', '')}\nLOSSES = {{}}\n"
    assert "bce-in-autocast" in said(tmp_path, f'{table}LOSSES["a"] = Entropy\n', "", 'LOSSES["a"]()')


def test_what_is_under_another_key(tmp_path: Path) -> None:
    loss = LOSS.format(name="register", decorator='@register("entropy")')
    squared = "\n@register('squared')\nclass Squared(nn.Module):\n    def forward(self, x, y):\n        return x - y\n"
    assert said(tmp_path, TABLE, loss + squared, 'LOSSES["squared"]()') == []


def test_what_tests_register_is_nothing(tmp_path: Path) -> None:
    loss = LOSS.format(name="register", decorator='@register("entropy")')
    assert said(tmp_path, TABLE, loss, 'LOSSES["entropy"]()', place="test_losses.py") == []


def test_too_many_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations, "MOST_REGISTERED", 0)
    loss = LOSS.format(name="register", decorator='@register("entropy")')
    assert said(tmp_path, TABLE, loss, 'LOSSES["entropy"]()') == []
