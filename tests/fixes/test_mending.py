"""A small part of benchmarks/mending.py: fixed programs train like right ones, and broken ones do not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from goldens import RULES

torch = pytest.importorskip("torch")
if torch.cuda.is_available():
    pytest.skip("CUDA is simulated where there is none", allow_module_level=True)
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import mending  # noqa: E402
from mistakes import MISTAKES, UNSEEN  # noqa: E402
from training_programs import VARIANTS, right, source  # noqa: E402

BY_RULE = {mistake.rule: mistake for mistake in MISTAKES}


def test_every_rule_with_a_fix_has_a_mistake_or_a_reason() -> None:
    assert sorted([*BY_RULE, *UNSEEN]) == sorted(RULES)


@pytest.mark.parametrize("rule", ["clip-without-unscale", "missing-grad-scaler", "scaler-not-saved"])
@pytest.mark.parametrize("number", [1, 3])
def test_the_fixed_program_follows_the_right_one(rule: str, number: int) -> None:
    verdict = mending.judged(BY_RULE[rule], number)
    assert verdict.broken
    assert not verdict.fixed


@pytest.mark.parametrize("number", range(len(VARIANTS)))
def test_the_right_program_learns(number: int) -> None:
    outcome = mending.right(source(VARIANTS[number], right(VARIANTS[number])))
    assert not outcome.error
    assert outcome.losses[-1] < 0.95 * outcome.losses[0]


def test_what_counts_as_a_difference() -> None:
    one = mending.Outcome((1.0, 0.5), ("a",))
    assert mending.difference(one, one) == ""
    assert mending.difference(mending.Outcome((1.0, 0.53), ("a",)), one) == ""
    assert mending.difference(mending.Outcome((1.0, 0.56), ("a",)), one) == "loss"
    assert mending.difference(mending.Outcome((1.0, float("nan")), ("a",)), one) == "loss"
    assert mending.difference(mending.Outcome((1.0,), ("a",)), one) == "loss"
    assert mending.difference(mending.Outcome((1.0, 0.5), ("b",)), one) == "types"
    assert mending.difference(mending.Outcome(error="ValueError: no"), one) == "raises"
