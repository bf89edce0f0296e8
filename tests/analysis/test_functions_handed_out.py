"""Functions that are defined inside others, and that nobody in sight calls: whoever gets them may."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest
from one_rule import said

HEAD = """\
import functools

import torch
from engine import Engine, on

"""
STEP = """\
with torch.autocast("cuda"):
    loss = model(x).mean()
    loss.backward()
optimizer.step()
"""


def _program(text: str) -> str:
    before, _, after = dedent(text).partition("STEP")
    return HEAD + before + indent(STEP, before[before.rfind("\n") + 1 :]).lstrip() + after


@pytest.mark.parametrize(
    "text",
    [
        """
        def make(model, optimizer):
            def step(x):
                STEP
            return step
        """,
        """
        def make(model, optimizer):
            def decorate(function):
                def step(x):
                    STEP
                return step
            return decorate
        """,
        """
        def make(model, optimizer):
            def step(engine, x):
                STEP
            return Engine(step)

        def main(model, optimizer):
            make(model, optimizer).run()
        """,
        """
        def make(model, optimizer):
            def step(engine, x):
                STEP
            return step

        def main(model, optimizer):
            steps = {"train": make(model, optimizer)}
            Engine(**steps).run()
        """,
        """
        def make(model, optimizer, engine):
            @on(engine)
            @functools.wraps(engine)
            def step(x):
                STEP
        """,
        """
        class Trainer:
            def __init__(self, engine):
                self.engine = engine

            def train(self, model, optimizer):
                def decorate(function):
                    def step(x):
                        STEP
                    self.engine.process = step
                return decorate
        """,
        """
        def make(models, optimizer):
            for model in models:
                def step(x, model=model, optimizer=optimizer):
                    STEP
                on(step)
        """,
        """
        def main(model, optimizer):
            def step(x):
                STEP
            raise SystemExit(Engine(step).run())
        """,
    ],
    ids=[
        "returned",
        "by a decorator",
        "kept by a factory",
        "by a factory",
        "registered",
        "stored",
        "with what is there as its defaults",
        "by a program that exits",
    ],
)
def test_they_are_judged(tmp_path: Path, text: str) -> None:
    assert len(said(tmp_path, "backward-in-autocast", _program(text))) == 1


PLAIN = """\
def step(x):
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
"""
WRAPPER = """\
def around(function):
    def inner(*args):
        with torch.autocast("cuda"):
            return function(*args)

    return inner

"""


@pytest.mark.parametrize(
    ("decorator", "count"),
    [
        ('torch.autocast("cuda")', 1),
        ("around", 1),
        ("on(print)", 0),
        ('torch.autocast("cuda", enabled=False)', 0),
    ],
)
def test_they_run_inside_what_decorates_them(tmp_path: Path, decorator: str, count: int) -> None:
    step = indent(f"@{decorator}\n{PLAIN}", "    ")
    text = f"{HEAD}{WRAPPER}def make(model, optimizer, engine):\n{step}    engine.run(step)\n"
    assert len(said(tmp_path, "backward-in-autocast", text)) == count


def test_what_somebody_calls_is_judged_as_it_is_called(tmp_path: Path) -> None:
    """Also where that is not the function that defines it."""
    text = _program(
        """
        def run(function):
            function(False)

        def apply(function):
            run(function)

        def make(model, optimizer, x):
            def step(enabled):
                if enabled:
                    STEP
            apply(step)
        """
    )
    assert said(tmp_path, "backward-in-autocast", text) == ()
    assert len(said(tmp_path, "backward-in-autocast", text.replace("apply(step)", "print(step)"))) == 1


KEEPS = """\
KEPT = []


def keep(function):
    def inner(*args):
        KEPT.append(args)

    KEPT.append(function)
    return inner


"""


@pytest.mark.parametrize("decorator", ["around", "around\n@functools.cache", "twice(2)"])
def test_an_entry_point_is_run_by_what_decorates_it(tmp_path: Path, decorator: str) -> None:
    twice = "def twice(times):\n    return lambda function: around(function)\n\n"
    step = PLAIN.replace("step(x)", "step(model, optimizer, x)")
    text = f"{HEAD}{WRAPPER}{twice}@{decorator}\n{step}"
    assert len(said(tmp_path, "backward-in-autocast", text)) == 1


def test_an_entry_point_that_a_decorator_keeps_is_run_as_it_is(tmp_path: Path) -> None:
    step = "    " + indent(STEP, "    ").lstrip()
    text = f"{HEAD}{KEEPS}@keep\ndef step(model, optimizer, x):\n{step}"
    assert len(said(tmp_path, "backward-in-autocast", text)) == 1


@pytest.mark.parametrize(("enabled", "count"), [("True", 1), ("False", 0)])
def test_a_method_is_run_by_what_decorates_it(tmp_path: Path, enabled: str, count: int) -> None:
    wrapper = WRAPPER.replace('"cuda")', f'"cuda", enabled={enabled})')
    step = PLAIN.replace("step(x)", "step(self, x)").replace("model", "self.model")
    method = indent(f"@around\n{step}", "    ").replace("optimizer", "self.optimizer")
    made = (
        "    def __init__(self, model, optimizer):\n        self.model, self.optimizer = model, optimizer\n\n"
    )
    text = f"{HEAD}{wrapper}class Trainer:\n{made}{method}"
    assert len(said(tmp_path, "backward-in-autocast", text)) == count


LOOP = """
def train(model, optimizer, loader):
    for x in loader:
        def step(enabled):
            if enabled:
                STEP
        step(False)
"""
AGAIN = """
def make(model, optimizer, number):
    def step(x):
        STEP
        return make(model, optimizer, number + 1)
    return step
"""


@pytest.mark.parametrize(
    ("text", "count"), [(LOOP, 0), (LOOP.replace("step(False)", "on(step)"), 1), (AGAIN, 1)]
)
def test_one_that_is_made_again_and_again(tmp_path: Path, text: str, count: int) -> None:
    assert len(said(tmp_path, "backward-in-autocast", _program(text))) == count
