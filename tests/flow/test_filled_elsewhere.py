"""Lists and dicts that code out of sight fills: what is empty in the text need not be empty when it is used."""

from __future__ import annotations

from pathlib import Path

import pytest
from listening import listen

from amplint.events import Backward

REGISTRY = """
import torch
from registry import LOSSES, Registry


class Registry:
    def __init__(self):
        self._made = {}

    def get(self, name):
        return self._made.get(name)


NAMES = {}
KNOWN = Registry()


def main(name, x):
    build = {question}
    loss = build(x)
    loss.backward()
"""

HOOK = """
import torch


def main(model, x):
    kept = []

    def hook(module, given, result):
        kept.append(result)

    model.register_forward_hook(hook)
    model(x)
    loss = kept[-1].sum()
    loss.backward()
"""

GIVEN = """
from elsewhere import gather


def main(x):
    parts, names = [], {}
    gather(parts, names, x)
    if not parts or not names:
        return
    parts[0].backward()
"""

DISPATCH = """
from functools import singledispatch


@singledispatch
def to_loss(value):
    raise TypeError


@to_loss.register(float)
def _(value):
    return value


def main(x):
    loss = to_loss(x)
    loss.backward()
"""


@pytest.mark.parametrize(
    "program",
    [
        REGISTRY.replace("{question}", "KNOWN.get(name)"),
        REGISTRY.replace("{question}", "NAMES.get(name)"),
        REGISTRY.replace("{question}", "KNOWN._made[name]"),
        HOOK,
        GIVEN,
        DISPATCH,
    ],
    ids=["registry", "names", "item", "hook", "given away", "dispatch"],
)
def test_what_follows_is_walked(tmp_path: Path, program: str) -> None:
    assert listen(tmp_path, program).lines(Backward)


def test_a_list_that_nobody_else_has_is_empty(tmp_path: Path) -> None:
    told = listen(
        tmp_path,
        """
def main(x):
    parts = []
    if parts:
        x.backward()
    x.first.backward()
""",
    )
    assert len(told.lines(Backward)) == 1


def test_a_dict_that_a_script_sets_itself_has_what_it_has_set_so_far(tmp_path: Path) -> None:
    told = listen(
        tmp_path,
        """
import torch

HOOKS = {}


def register(function):
    HOOKS[function.__name__] = function
    return function


@register
def log(x):
    return x


x = torch.randn(2, 2)
if "first" in HOOKS:
    x.backward()
HOOKS["first"] = True
x.sum().backward()
""",
        start=None,
    )
    assert len(told.lines(Backward)) == 1


def test_objects_that_hold_each_others_methods(tmp_path: Path) -> None:
    told = listen(
        tmp_path,
        """
import torch
from runner import run


class Part:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.hook = None

    def step(self):
        self.optimizer.step()


def main(optimizer: torch.optim.Optimizer, x):
    first, second = Part(optimizer), Part(optimizer)
    first.hook = second.step
    second.hook = first.step
    run(first.step)
    x.sum().backward()
""",
    )
    assert len(told.lines(Backward)) == 1
