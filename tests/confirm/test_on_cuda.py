"""On a CUDA device the fixtures show what they show under simulated CUDA: `pytest -m cuda`. Without one these tests are
skipped, and the end of the suite says so."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from test_fixtures_confirm import MAY_RAISE, NOT_OBSERVED, RAISES, RUNNABLE, Outcome, name_of, observed

pytest_plugins = ["pytester"]
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
DIFFERS: dict[str, str] = {}
"""Programs that show something else on a device, and why."""


def differences(simulated: Outcome | None, real: Outcome | None, *, can_end: bool = True) -> list[str]:
    """What a device shows of a program that the simulation does not, and the other way round. What takes a device by
    the word of its rule is left out; ``can_end`` is False of a program that the simulation cannot run to its end."""
    if simulated is None or real is None:
        return ["the interpreter crashed here or before"]
    told = []
    for file, line, rule in sorted(simulated.found ^ real.found):
        if rule not in NOT_OBSERVED and (can_end or (file, line, rule) in simulated.found):
            where = "only simulated" if (file, line, rule) in simulated.found else "only on the device"
            told.append(f"{file}:{line}: {rule} {where}")
    if can_end and (simulated.raised is None) is not (real.raised is None):
        told.append(f"simulated: {simulated.raised}, on the device: {real.raised}")
    return [*told, *real.errors]


@pytest.fixture(scope="module")
def both() -> tuple[dict[str, Outcome], dict[str, Outcome]]:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    names = [name_of(program) for program in RUNNABLE]
    # a device is only hidden from a process before it has asked for one
    return observed(names, CUDA_VISIBLE_DEVICES=""), observed(["--on-cuda", *names])


@needs_torch
@pytest.mark.cuda
@pytest.mark.parametrize("name", [name_of(program) for program in RUNNABLE])
def test_a_device_shows_what_the_simulation_shows(
    both: tuple[dict[str, Outcome], dict[str, Outcome]], name: str
) -> None:
    simulated, real = both
    found = differences(simulated.get(name), real.get(name), can_end=name not in RAISES | MAY_RAISE)
    assert bool(found) is (name in DIFFERS), found


def test_differences_are_told() -> None:
    here = ("train.py", 3, "missing-float")
    assert differences(Outcome({here}, None, []), Outcome({here}, None, [])) == []
    assert differences(Outcome({here}, None, []), Outcome(set(), None, [])) == [
        "train.py:3: missing-float only simulated"
    ]
    assert differences(Outcome(set(), None, []), Outcome({here}, None, [])) == [
        "train.py:3: missing-float only on the device"
    ]
    assert differences(Outcome(set(), "E()", []), Outcome(set(), None, [])) == [
        "simulated: E(), on the device: None"
    ]
    assert differences(Outcome(set(), None, []), Outcome(set(), None, ["broken"])) == ["broken"]
    assert differences(None, Outcome(set(), None, [])) == differences(Outcome(set(), None, []), None) != []


def test_what_takes_a_device_is_no_difference() -> None:
    takes = ("train.py", 3, NOT_OBSERVED[0])
    assert differences(Outcome(set(), None, []), Outcome({takes}, None, [])) == []
    later = ("train.py", 9, "missing-float")
    ended = Outcome(set(), "RuntimeError()", [])
    assert differences(ended, Outcome({later}, None, []), can_end=False) == []
    assert differences(ended, Outcome({later}, None, [])) != []


def test_the_end_of_the_suite_says_that_there_was_no_device(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers = cuda: needs a CUDA device")
    pytester.makeconftest(Path(__file__).with_name("no_device.py").read_text())
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.cuda
        def test_one():
            pytest.skip("no device")

        def test_two():
            pytest.skip("something else")
        """,
        test_whole="""
        import pytest

        pytest.skip("as a whole", allow_module_level=True)
        """,
    )
    assert "CUDA: 1 test of `-m cuda` did not run: no device" in pytester.runpytest_subprocess().stdout.str()
    assert "CUDA:" not in pytester.runpytest_subprocess("-k", "two").stdout.str()
