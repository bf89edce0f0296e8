"""Simulated CUDA agrees with torch's own policy for CUDA, op by op."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "amp"), str(TESTS.parent / "benchmarks")]

import fidelity  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def test_gradients_make_no_difference_to_the_policy() -> None:
    total, differences = fidelity.by_gradients()
    assert total >= 240
    assert differences == []


def test_at_least_96_of_100_ops_have_the_policy_of_cuda() -> None:
    total, differences = fidelity.compare()
    policy = [part for part in differences if not part.only_the_kernel]
    assert total >= 240
    assert 1 - len(policy) / total >= 0.96, policy
    # the rest are types that reach the kernel as they do on CUDA, where it exists or refuses as well
    assert 1 - len(differences) / total >= 0.9, differences
