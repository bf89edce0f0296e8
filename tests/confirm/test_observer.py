"""The observer with events made by hand: it counts, and it ends runs at the right place."""

from __future__ import annotations

import pytest

from amplint.confirm.observer import Observer, Stopped
from amplint.confirm.recording import FINISHED, KILLED, STOPPED, Recording
from amplint.confirm.verdicts import cross_check
from amplint.events import (
    AutocastSwitched,
    Backward,
    DType,
    Event,
    Forward,
    FunctionEnded,
    Op,
    OptimizerMade,
    OptimizerStepped,
    Place,
    Region,
    RegionEntered,
    RegionExited,
    ScalerUsed,
)
from amplint.findings import Span
from amplint.rules import all_rules
from amplint.rules.base import FlowRule, Report

RULES = [rule for rule in all_rules() if isinstance(rule, FlowRule)]


def at(line: int) -> Place:
    return Place("train.py", line, lambda: Span(line, 1, line, 9), lambda: "text")


REGION = Region(at(1), 1, "cuda", DType.FLOAT16)
MADE = Recording("simulated-cuda")


def told(observer: Observer) -> dict[str, int]:
    return {seen.finding.name: seen.count for seen in observer.recording(MADE).seen}


def test_findings_are_counted_by_place() -> None:
    observer = Observer(RULES)
    for _ in range(5):
        observer.hear(Backward(at(2), (REGION,), ".backward()"))
    assert told(observer) == {"backward-in-autocast": 5}


def test_what_a_rule_tells_once_is_counted_each_time_that_it_is_true() -> None:
    observer = Observer(RULES)
    observer.hear(RegionEntered(at(1), (REGION,)))
    for _ in range(4):
        observer.hear(Forward(at(2), (REGION,), "model"))
        observer.hear(Backward(at(2), (REGION,), ".backward()"))
        observer.hear(OptimizerStepped(at(3), (REGION,), "optimizer"))
    observer.hear(RegionExited(at(1), (), REGION))
    assert told(observer)["epoch-wide-autocast"] == 3


def test_a_rule_that_gives_way_gives_way_here() -> None:
    observer = Observer(RULES)
    for _ in range(2):
        observer.hear(Forward(at(2), (REGION,), "model"))
        observer.hear(OptimizerStepped(at(3), (REGION,), "optimizer"))
    observer.hear(RegionExited(at(1), (), REGION))
    assert set(told(observer)) == {"epoch-wide-autocast"}


def test_places_are_counted_with_and_without_a_region() -> None:
    observer = Observer(RULES)
    observer.hear(Backward(at(2), (), ".backward()"))
    observer.hear(Backward(at(2), (REGION,), ".backward()"))
    [reached] = observer.recording(MADE).reached
    assert (reached.kind, reached.count, reached.inside) == ("Backward", 2, 1)


def test_memory_does_not_grow_with_the_length_of_a_run() -> None:
    observer = Observer(RULES)
    for _ in range(1000):
        observer.hear(RegionEntered(at(1), (REGION,)))
        observer.hear(Backward(at(2), (REGION,), ".backward()"))
        observer.hear(RegionExited(at(1), (), REGION))
    recording = observer.recording(MADE)
    assert (len(recording.seen), len(recording.reached), len(recording.opened)) == (1, 3, 1)


STEP = OptimizerStepped(at(3), (), "optimizer")
NEXT = RegionEntered(at(1), (REGION,))


def test_a_run_ends_when_the_step_after_the_last_begins() -> None:
    observer = Observer(RULES, steps=2)
    observer.hear(STEP)
    observer.hear(NEXT)
    observer.hear(STEP)
    with pytest.raises(Stopped):
        observer.hear(NEXT)
    assert observer.steps == 2
    observer.hear(STEP)
    assert observer.steps == 2, "what happens while the program unwinds counts for nothing"


def test_a_run_does_not_end_between_the_step_of_a_scaler_and_its_update() -> None:
    observer = Observer(RULES, steps=1)
    observer.hear(ScalerUsed(at(4), (), "scaler", "step"))
    observer.hear(NEXT)
    observer.hear(ScalerUsed(at(5), (), "scaler", "update"))
    with pytest.raises(Stopped):
        observer.hear(NEXT)


def test_a_step_that_the_scaler_left_out_is_a_step() -> None:
    observer = Observer(RULES)
    step = ScalerUsed(at(4), (), "scaler", "step", optimizer="optimizer")
    observer.hear(step)
    observer.hear(ScalerUsed(at(5), (), "scaler", "update"))
    observer.hear(step)
    observer.hear(OptimizerStepped(at(4), (), "optimizer", via_scaler=True))
    assert (observer.steps, observer.skipped) == (2, 1)


def test_a_step_that_the_scaler_refuses_is_none() -> None:
    observer = Observer(RULES)
    observer.hear(OptimizerMade(at(2), (), "optimizer", frozenset({"optimizer"})))
    step = ScalerUsed(at(4), (), "scaler", "step", optimizer="optimizer")
    observer.hear(step)
    observer.refused()
    observer.hear(ScalerUsed(at(5), (), "scaler", "update"))
    assert (observer.steps, observer.skipped) == (0, 0)


def test_nothing_is_said_of_steps_that_an_optimizer_does_not_tell_of() -> None:
    observer = Observer(RULES)
    observer.hear(ScalerUsed(at(4), (), "scaler", "step", optimizer="not torch's"))
    assert (observer.steps, observer.skipped) == (1, 0)


@pytest.mark.parametrize(("inside", "missed"), [(True, 0), (False, 1)])
def test_what_a_library_does_is_not_missed_in_the_code_that_calls_it(inside: bool, missed: int) -> None:
    observer = Observer(RULES, within_library=lambda: inside)
    observer.hear(Backward(at(2), (REGION,), ".backward()"))
    recording = observer.recording(MADE)
    assert len(recording.seen) == 1
    assert len(cross_check([], recording, all_rules(), {}).missed) == missed


@pytest.mark.parametrize(("ended", "heard"), [(FINISHED, 1), (STOPPED, 1), (KILLED, 0)])
def test_only_a_run_that_is_over_is_judged_at_its_end(ended: str, heard: int) -> None:
    observer = Observer(RULES)
    observer.end(ended)
    observer.hear(FunctionEnded(at(9), ()))
    assert sum(reached.count for reached in observer.recording(MADE).reached) == heard


def test_what_a_rule_takes_back_is_not_seen() -> None:
    class Hasty(FlowRule):
        def on_backward(self, state: object, event: Event, report: Report) -> object:
            report.add(self, event.place, "wrong", subject=event.place)
            report.add(self, event.place, "right")
            return state

        def on_forward(self, state: object, event: Event, report: Report) -> object:
            report.withdraw(self, at(2))
            return state

    observer = Observer([Hasty()])
    for event in (Backward(at(2), (), ".backward()"), Forward(at(3), (), "model")) * 2:
        observer.hear(event)
    [seen] = observer.recording(MADE).seen
    assert (seen.finding.message, seen.count) == ("right", 2)


def test_what_is_switched_off_while_a_stopped_run_unwinds_is_off() -> None:
    observer = Observer(RULES, steps=1)
    observer.hear(AutocastSwitched(at(1), (), True))
    observer.hear(STEP)
    with pytest.raises(Stopped):
        observer.hear(NEXT)
    observer.hear(AutocastSwitched(at(5), (), False))
    observer.end(STOPPED)
    observer.hear(FunctionEnded(at(9), ()))
    assert told(observer) == {}


def test_a_rule_that_fails_does_not_fail_the_program() -> None:
    class Broken(FlowRule):
        def on_backward(self, state: object, event: Event, report: object) -> None:
            raise ZeroDivisionError

    observer = Observer([Broken()])
    observer.hear(Backward(at(2), (), ".backward()"))
    assert any("internal error" in note for note in observer.notes)


def test_numbers_that_wait_for_the_device_are_left_out_on_demand() -> None:
    class OnDevice:
        def item(self) -> float:
            raise AssertionError("nobody looks at it here")

    class Losing(FlowRule):
        evidence = ("loss",)

        def on_backward(self, state: object, event: Event, report: Report) -> object:
            report.add(self, event.place, "wrong")
            return state

    observer = Observer([Losing()])
    observer.loss(OnDevice())
    observer.hear(Backward(at(2), (), ".backward()"))
    assert len(observer.recording(MADE, numbers=False).seen) == 1
    with pytest.raises(AssertionError):
        observer.recording(MADE)


def test_what_is_known_is_saved_at_the_first_backward_pass_and_after_ever_more_steps() -> None:
    observer = Observer(RULES)
    saved: list[int] = []
    observer.save = lambda: saved.append(observer.steps)
    for _ in range(9):
        observer.hear(Backward(at(2), (), ".backward()"))
        observer.hear(STEP)
    assert saved == [0, 1, 2, 4, 8]


def test_an_op_that_led_to_nothing_is_heard_again_where_its_rules_know_more() -> None:
    class Patient(FlowRule):
        """Speaks of an op once a backward pass ran."""

        code, name = "AMP101", "backward-in-autocast"
        heard = 0

        def start(self) -> bool:
            return False

        def on_backward(self, state: bool, event: Backward, report: Report) -> bool:
            return True

        def on_op(self, state: bool, event: Op, report: Report) -> bool:
            Patient.heard += 1
            if state:
                report.add(self, event.place, "now")
            return state

    observer = Observer([Patient()])
    op = Op(at(4), (REGION,), "exp", (), None, None)
    for _ in range(3):
        observer.hear(op)
    assert Patient.heard == 1
    observer.hear(Backward(at(2), (), ".backward()"))
    for _ in range(2):
        observer.hear(op)
    recording = observer.recording(MADE)
    assert Patient.heard > 2
    assert [seen.count for seen in recording.seen] == [2]
    [reached] = [part for part in recording.reached if part.kind == "Op"]
    assert (reached.count, reached.inside) == (5, 5)


def test_an_op_is_heard_again_where_another_one_was_told() -> None:
    class Once(FlowRule):
        """Tells of line 9 once, and of each log."""

        code, name = "AMP101", "backward-in-autocast"

        def start(self) -> bool:
            return False

        def again(self, state: bool) -> bool:
            return False

        def on_op(self, state: bool, event: Op, report: Report) -> bool:
            if event.name == "log":
                report.add(self, event.place, "a log")
            elif not state:
                report.add(self, at(9), "once")
            return True

    def op(name: str, line: int) -> Op:
        return Op(at(line), (REGION,), name, (), None, None)

    observer, quiet = Observer([Once()]), op("exp", 5)
    for event in (op("exp", 4), quiet, quiet, op("log", 5), quiet):
        observer.hear(event)
    counts = {seen.finding.span.line: seen.count for seen in observer.recording(MADE).seen}
    assert counts == {9: 2, 5: 1}


def test_a_step_that_a_scaler_is_about_to_make_is_not_left_out() -> None:
    observer = Observer(RULES)
    observer.hear(OptimizerMade(at(2), (), "optimizer", frozenset({"optimizer"})))
    asked = ScalerUsed(at(3), (), "scaler", "step", optimizer="optimizer")
    observer.hear(asked)
    assert (observer.steps, observer.recording(MADE).skipped) == (1, 0)
    observer.hear(OptimizerStepped(at(3), (), "optimizer", True))
    observer.hear(asked)
    observer.hear(ScalerUsed(at(4), (), "scaler", "update"))
    assert (observer.steps, observer.recording(MADE).skipped) == (2, 1)
