"""A small part of benchmarks/fuzz.py: mutants of the fixtures, and what the benchmark notices."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits are those of Linux")
fuzz = pytest.importorskip("fuzz") if sys.platform == "linux" else None

FOLDERS = [ROOT / "fixtures" / name for name in ("epoch-wide-autocast", "deprecated-amp-api", "half-input")]


def test_mutants_of_the_fixtures_do_no_harm(tmp_path: Path) -> None:
    paths = fuzz.candidates(FOLDERS, 40_000)
    kinds = set()
    for task in fuzz.tasks(paths, 1, 0, 60):
        answer = fuzz.judged(task.data, lambda act, data: act(data))
        assert answer.failure == "", f"{task.mutations}\n{answer.details}"
        kinds.add(answer.kind)
    assert kinds == {"program", "no program"}


def test_a_mutant_is_known_by_its_number() -> None:
    paths = fuzz.candidates(FOLDERS, 40_000)
    whole = list(fuzz.tasks(paths, 1, 0, 20))
    assert list(fuzz.tasks(paths, 1, 15, 5)) == whole[15:]
    assert list(fuzz.tasks(paths, 2, 0, 20)) != whole
    assert len({task.data for task in whole}) > 15


def test_what_goes_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    held: list[bytes] = []

    def lint(data: bytes) -> int:
        while b"HANG" in data:
            pass
        if b"CRASH" in data:
            raise ZeroDivisionError("by zero")
        if b"FULL" in data:
            held.append(bytes(10**9))
        return 0

    def mend(data: bytes) -> int:
        raise fuzz.Wrong("does not compile after fixes of one") if b"unfit" in data else fuzz.Wrong("other")

    monkeypatch.setattr(fuzz, "lint", lint)
    monkeypatch.setattr(fuzz, "mend", mend)
    worker = fuzz.Worker(fuzz.Limits(0.3, 300_000_000), tmp_path / "log")
    texts = [b"(\n" * 9, b"(\n(\n(CRASH\n(\n", b"(HANG", b"(FULL", b"unfit = 1\nx = 2\n", b"(\n"]
    made = (fuzz.Task(number, Path("x.py"), [], text) for number, text in enumerate(texts))
    told = [answer for _, answer in fuzz.answers(made, [worker])]
    worker.process.terminate()
    worker.process.join()
    failures = [answer.failure.partition(" File ")[0].strip() for answer in told]
    assert failures == [
        "", "ZeroDivisionError: by zero", "hang", "MemoryError:", "does not compile after fixes of one", "",
    ]  # fmt: skip
    assert told[1].fewest == b"(CRASH\n"
    assert "in lint" in told[2].details
    assert told[4].fewest == b"unfit = 1\n"
