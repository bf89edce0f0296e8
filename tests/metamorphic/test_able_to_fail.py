"""The tests of this folder notice what they are there for: a rule that goes by names, by words or by layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import test_metamorphic

from amplint.analysis import Analysis
from amplint.events import Backward
from amplint.rules.amp101_backward_in_autocast import BackwardInAutocast

PROGRAM = test_metamorphic.FIXTURES / "backward-in-autocast" / "bad_helper_function.py"


def rewrite() -> None:
    """The test of the one program."""
    test_metamorphic.test_how_a_program_is_written_changes_nothing(PROGRAM)


def blind(monkeypatch: pytest.MonkeyPatch, sees: Callable[[Backward], bool]) -> None:
    """Has the rule on backward passes in a region hear only some of them."""
    original = BackwardInAutocast.on_backward

    def on_backward(self: Any, state: Any, event: Backward, report: Any) -> Any:
        return original(self, state, event, report) if sees(event) else state

    monkeypatch.setattr(BackwardInAutocast, "on_backward", on_backward)


def test_as_it_is_the_program_passes() -> None:
    rewrite()


def test_a_rule_that_goes_by_names_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    blind(monkeypatch, lambda event: "loss" in event.place.text)
    with pytest.raises(AssertionError, match=r"^renamed"):
        rewrite()


def test_a_rule_that_goes_by_layout_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    blind(monkeypatch, lambda event: (event.place.span.column - 1) % 4 == 0)
    with pytest.raises(AssertionError, match="laid out"):
        rewrite()


def test_an_analysis_that_goes_by_words_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Analysis._drafted

    def drafted(self: Analysis, keep: Any) -> Any:
        found = original(self, keep)
        return [one for one in found if "StandardScaler" not in (self.project.text_of(one.path) or "")]

    monkeypatch.setattr(Analysis, "_drafted", drafted)
    with pytest.raises(AssertionError, match="with words"):
        rewrite()


def test_an_analysis_that_goes_by_the_order_of_definitions_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = Analysis._drafted

    def drafted(self: Analysis, keep: Any) -> Any:
        first = {file.display: file.outline.tree.body[1] for file in self.files}
        return [one for one in original(self, keep) if type(first[one.path]).__name__ == "Import"]

    monkeypatch.setattr(Analysis, "_drafted", drafted)
    with pytest.raises(AssertionError, match="shuffled"):
        rewrite()
