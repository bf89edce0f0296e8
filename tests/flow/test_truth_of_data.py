"""Data may be true or false, whatever is known of its type."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from listening import listen

from amplint.events import Backward
from amplint.flow.core import comparisons
from amplint.flow.core.api import Settings
from amplint.flow.driver import Driver
from amplint.flow.state.atoms import is_true
from amplint.flow.state.conditions import asked, atoms
from amplint.flow.state.graph import Happens
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import FunctionValue, Sequence, Unknown
from amplint.source.project import Project

HEAD = """\
import torch


def main(loader, model, optimizer, batches):
    for x in loader:
        loss = torch.mean(model(x))
"""


@pytest.mark.parametrize(
    "question",
    [
        "torch.isnan(loss)",
        "torch.isnan(loss).any()",
        "loss > 100",
        "not torch.isfinite(loss).all()",
        "loss.requires_grad",
        "batches.pop()",
    ],
)
def test_both_branches_are_walked(tmp_path: Path, question: str) -> None:
    told = listen(
        tmp_path,
        HEAD
        + f"""\
        if {question}:
            continue
        loss.backward()
""",
    )
    assert told.lines(Backward)


def test_what_a_method_was_called_of_may_still_be_empty(tmp_path: Path) -> None:
    """``parts.append(x)`` does not make ``if parts`` true for good: ``clear`` may follow."""
    told = listen(
        tmp_path,
        HEAD
        + """\
        batches.clear()
        if batches:
            continue
        loss.backward()
""",
    )
    assert told.lines(Backward)


def test_a_loop_that_is_left_by_break_goes_past_its_else(tmp_path: Path) -> None:
    told = listen(
        tmp_path,
        HEAD
        + """\
        for part in batches:
            if part.fits(x):
                break
        else:
            raise ValueError
        loss.backward()
        while batches.more():
            if x.done():
                break
        else:
            loss.first.backward()
            return
        loss.second.backward()
""",
    )
    assert len(told.lines(Backward)) == 3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("bad", "bad"),
        ("torch.isnan(loss)", "torch.isnan(loss)"),
        ("loss > 100", "loss > 100"),
        ("bad", "same"),
    ],
)
def test_the_same_reading_comes_out_the_same(tmp_path: Path, first: str, second: str) -> None:
    told = listen(
        tmp_path,
        HEAD
        + f"""\
        bad = torch.isnan(loss).any()
        same = bad
        if not ({first}):
            loss.backward()
        if {second}:
            loss.other.backward()
""",
    )
    rounds = [[event.place.line for event in way if isinstance(event, Backward)] for way in told.ways]
    assert rounds
    assert all(len(lines) == 2 for lines in rounds)  # of two rounds, one in each


def test_a_list_of_whose_contents_too_much_is_possible() -> None:
    """It was filled in so many ways that nothing of it is known any more."""
    filled = Unknown(symbol("one of data"))
    machine = SimpleNamespace(told_apart=lambda value: value, contents=lambda value: filled)
    assert comparisons.truth(machine, Sequence()) == asked(is_true(filled.symbol))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("check", "asked_for"),
    [
        ("x.shape == y.shape", 0),
        ("x.shape[:2] != (3, 4)", 0),
        ("(loss > 0).all()", 1),
        ("x.shape == y.shape and args.small", 2),
        ("args.small", 1),
    ],
)
def test_what_a_check_says_of_data_is_no_condition(tmp_path: Path, check: str, asked_for: int) -> None:
    """``assert x.shape == y.shape``: who lints does not ask whether the data fits. What may be asked again
    is remembered, with all of the same line."""
    path = tmp_path / "main.py"
    path.write_text(
        f"def main(x, y, args, model):\n    import torch\n\n    loss = torch.randn(2)\n    assert {check}\n"
        "    model(x).backward()\n"
    )
    project = Project([path])
    file = project.load(path)
    assert file is not None
    driver = Driver(project, [file], Settings(((2, 0), None), "cuda"))
    graph = driver.interpreter.walk_function(FunctionValue(file, file.outline.functions["main"]))
    assert graph is not None
    (happens,) = [
        item for item in graph.items if isinstance(item, Happens) and isinstance(item.event, Backward)
    ]
    assert len(atoms(happens.condition)) == asked_for
