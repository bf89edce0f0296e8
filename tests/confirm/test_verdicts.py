"""What a recording says of a finding. Nothing runs here."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from amplint.confirm.recording import (
    KILLED,
    RAISED,
    Hidden,
    NoRecording,
    Opened,
    Raised,
    Reached,
    Recording,
    Seen,
    merged,
    read,
    write,
)
from amplint.confirm.verdicts import Status, Verdict, cross_check
from amplint.findings import Finding, Level, Span, TrailStep
from amplint.rules import all_rules
from amplint.rules.base import FlowRule
from amplint.rules.dispatcher import heard_by

CODES = {rule.name: rule.code for rule in all_rules()}
REGION = Span(3, 6, 3, 30)
BACKWARD = Span(5, 9, 5, 24)


def finding(name: str = "backward-in-autocast", span: Span = BACKWARD, path: str = "train.py") -> Finding:
    trail = (TrailStep(path, REGION, "autocast is enabled here"),)
    return Finding(CODES[name], name, Level.WARNING, "it is so", path, span, trail)


def run(**what: object) -> Recording:
    told = tuple(kind for rule in all_rules() if isinstance(rule, FlowRule) for kind in heard_by(rule))
    made = Recording("simulated-cuda", torch="2.13.0", steps=3, files={"train.py": "abc"}, told=told)
    return replace(made, **what)  # type: ignore[arg-type]


def verdict(recording: Recording, wanted: Finding | None = None, digest: str | None = "abc") -> Verdict:
    wanted = wanted or finding()
    return cross_check([wanted], recording, all_rules(), {wanted.path: digest}).findings[0]


RAN = Reached("Backward", "train.py", BACKWARD, 12)


def test_confirmed_with_how_often_and_the_evidence() -> None:
    seen = Seen(finding(), 12, ("backward ran in the float16 region of train.py:3",))
    found = verdict(run(seen=(seen,), reached=(RAN,)))
    assert (found.status, found.count, found.evidence) == (Status.CONFIRMED, 12, seen.evidence)
    assert found.reason == "CUDA simulated on CPU"


def test_confirmed_where_the_static_pass_names_the_call_that_led_there() -> None:
    inner = Finding(
        CODES["backward-in-autocast"],
        "backward-in-autocast",
        Level.WARNING,
        "",
        "helper.py",
        Span(1, 1, 1, 5),
        (TrailStep("train.py", BACKWARD, "called from here"),),
    )
    assert verdict(run(seen=(Seen(inner, 2),))).status is Status.CONFIRMED


def test_confirmed_by_an_exception() -> None:
    raised = Raised("TypeError", "Got unsupported ScalarType BFloat16", (("train.py", 5),))
    found = verdict(run(raised=(raised,)), finding("bfloat16-to-numpy"))
    assert found.status is Status.CONFIRMED
    assert found.evidence == ("raised TypeError: Got unsupported ScalarType BFloat16",)


def test_another_exception_confirms_nothing() -> None:
    raised = Raised("TypeError", "no", (("train.py", 5),))
    found = verdict(run(raised=(raised,), lines={"train.py": {5: 1}}), finding("bfloat16-to-numpy"))
    assert found.status is Status.INCONCLUSIVE


def test_refuted_where_its_line_ran_and_it_was_false_each_time() -> None:
    found = verdict(run(reached=(RAN,)))
    assert (found.status, found.count) == (Status.REFUTED, 12)
    assert found.evidence == ("never in an enabled region",)


def test_refuted_where_no_half_precision_tensor_met_the_op() -> None:
    found = verdict(run(lines={"train.py": {3: 7, 5: 7}}), finding("missing-float"))
    assert (found.status, found.count) == (Status.REFUTED, 7)


def test_not_refuted_where_the_probe_does_not_tell_all_that_the_rule_listens_to() -> None:
    found = verdict(run(reached=(RAN,), told=("Backward",)))
    assert found.status is Status.INCONCLUSIVE
    assert "RegionExited" in found.reason


def test_an_event_within_the_expression_is_not_that_of_the_expression() -> None:
    part = Reached("Op", "train.py", Span(5, 9, 5, 12), 3)
    found = verdict(run(reached=(part,)), finding("useless-float"))
    assert found.status is Status.INCONCLUSIVE


def test_lines_are_enough_where_python_knows_no_more() -> None:
    line = Reached("Backward", "train.py", Span(5, 1, 5, 80), 3)
    assert verdict(run(reached=(line,), exact=False)).status is Status.REFUTED


def test_not_reached() -> None:
    assert verdict(run(lines={"train.py": {1: 1}})).status is Status.NOT_REACHED
    assert verdict(run(), finding(path="other.py"), None).status is Status.NOT_REACHED


def test_not_observable_where_no_run_shows_it() -> None:
    assert verdict(run(reached=(RAN,)), finding("deprecated-amp-api")).status is Status.NOT_OBSERVABLE


def test_a_plain_run_on_the_cpu_refutes_nothing_about_cuda() -> None:
    off = Opened("train.py", REGION, "cuda", "float16", False, 12)
    found = verdict(run(device="cpu", reached=(RAN,), opened=(off,)))
    assert found.status is Status.NOT_OBSERVABLE
    assert "--device simulated-cuda" in found.reason


def test_a_plain_run_on_the_cpu_is_evidence_about_regions_for_the_cpu() -> None:
    on = Opened("train.py", REGION, "cpu", "bfloat16", True, 12)
    assert verdict(run(device="cpu", reached=(RAN,), opened=(on,))).status is Status.REFUTED


def test_inconclusive_where_the_run_was_cut_off_before_its_end() -> None:
    cast = Reached("ModuleCast", "train.py", BACKWARD, 1)
    assert verdict(run(reached=(cast,), ended=KILLED), finding("half-model")).status is Status.INCONCLUSIVE
    assert verdict(run(reached=(cast,)), finding("half-model")).status is Status.REFUTED
    step = Reached("ScalerUsed", "train.py", BACKWARD, 1)
    update = finding("missing-scaler-update")  # the second step, which raises, never came
    assert verdict(run(reached=(step,), ended=RAISED), update).status is Status.INCONCLUSIVE
    assert verdict(run(reached=(step,)), update).status is Status.REFUTED


def test_a_file_that_has_changed_is_told() -> None:
    found = verdict(run(reached=(RAN,)), digest="def")
    assert found.status is Status.INCONCLUSIVE
    assert "not the one that was linted" in found.reason


def test_a_file_is_known_by_its_content_wherever_it_lies() -> None:
    here = finding(path="src/train.py")
    assert verdict(run(reached=(RAN,)), here).status is Status.REFUTED


def test_missed_is_what_only_the_run_saw() -> None:
    seen = Seen(finding(span=Span(9, 1, 9, 10)), 4)
    crossed = cross_check([finding()], run(seen=(seen,)), all_rules(), {"train.py": "abc"})
    assert [(each.status, each.count) for each in crossed.missed] == [(Status.MISSED, 4)]


def test_a_run_adds_nothing_of_a_rule_that_rests_on_the_text_too() -> None:
    seen = Seen(finding("scaler-not-saved"), 4)
    assert cross_check([], run(seen=(seen,)), all_rules(), {}).missed == ()
    assert verdict(run(seen=(seen,)), finding("scaler-not-saved")).status is Status.CONFIRMED


def test_a_run_adds_nothing_that_rests_on_the_text_too() -> None:
    seen = Seen(finding(), 4, told_by_text=True)
    assert cross_check([], run(seen=(seen,)), all_rules(), {}).missed == ()
    assert verdict(run(seen=(seen,))).status is Status.CONFIRMED


def test_what_the_project_does_not_want_to_hear_of_is_not_missed() -> None:
    recording = run(seen=(Seen(finding(), 4),))
    crossed = cross_check([], recording, all_rules(), {}, lambda finding: False)
    assert crossed.missed == ()


def test_a_recording_survives_its_file(tmp_path: Path) -> None:
    recording = run(
        seen=(Seen(finding(), 12, ("so",), (0,)),),
        reached=(replace(RAN, dtypes=("float16",)),),
        opened=(Opened("train.py", REGION, "cuda", None, True, 2),),
        raised=(Raised("KeyError", "x", (("train.py", 5),)),),
        lines={"train.py": {5: 12}},
        notes=("torch.compile was off",),
    )
    write(recording, tmp_path / "run.json")
    assert read(tmp_path / "run.json") == recording


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 0}', '{"format": 1}'])
def test_what_is_no_recording_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(NoRecording):
        read(tmp_path / "run.json")


def test_ranks_are_merged_and_told_apart() -> None:
    first = run(ranks=(0,), seen=(Seen(finding(), 2),), reached=(RAN,), lines={"train.py": {5: 1}})
    second = run(ranks=(1,), seen=(Seen(finding(), 3),), reached=(RAN,), lines={"train.py": {5: 1}})
    both = merged([first, second, run(ranks=(2,))])
    assert both.ranks == (0, 1, 2)
    assert both.lines == {"train.py": {5: 2}}
    assert both.reached[0].count == 24
    found = verdict(both)
    assert (found.status, found.count, found.ranks) == (Status.CONFIRMED, 5, (0, 1))


@pytest.mark.parametrize("device", ["simulated-cuda", "cuda"])
def test_what_no_run_shows_is_never_refuted(device: str) -> None:
    used = Reached("ScalerUsed", "train.py", BACKWARD, 12)
    found = verdict(run(device=device, reached=(used,)), finding("scaler-enabled-mismatch"))
    assert (found.status, found.reason) == (
        Status.NOT_OBSERVABLE,
        "a run has no flags, only what they were this time",
    )


def test_what_takes_a_cuda_device_is_not_refuted_without_one() -> None:
    captured = Reached("Captured", "train.py", BACKWARD, 1)
    wanted = finding("cuda-graph-with-cache")
    assert verdict(run(reached=(captured,)), wanted).status is Status.NOT_OBSERVABLE
    assert verdict(run(device="cuda", reached=(captured,)), wanted).status is Status.REFUTED


def test_not_reached_where_a_part_of_its_trail_did_not_run() -> None:
    lines = {"train.py": {5: 12}}
    found = verdict(run(reached=(RAN,), lines=lines))
    assert (found.status, found.reason) == (Status.NOT_REACHED, "line 3, of which it speaks, did not run")
    assert verdict(run(reached=(RAN,), lines={"train.py": {3: 1, 5: 12}})).status is Status.REFUTED


def test_an_exception_at_its_line_refutes_nothing() -> None:
    raised = Raised("RuntimeError", "the device is gone", (("train.py", 5),))
    found = verdict(run(reached=(RAN,), raised=(raised,)))
    assert (found.status, found.evidence) == (
        Status.INCONCLUSIVE,
        ("raised RuntimeError: the device is gone",),
    )


def test_what_a_run_could_not_show_at_a_place_is_not_refuted() -> None:
    lost = finding("autocast-lost-in-threads")
    ran = Reached("Forward", "train.py", BACKWARD, 12)
    assert verdict(run(reached=(ran,)), lost).status is Status.REFUTED
    for kind, place, status in (
        ("ThreadBegan", BACKWARD, Status.NOT_OBSERVABLE),
        ("ThreadBegan", Span(9, 1, 9, 5), Status.REFUTED),
        ("Op", BACKWARD, Status.REFUTED),
    ):
        hidden = Hidden(kind, "train.py", place, "there was one device")
        assert verdict(run(reached=(ran,), hidden=(hidden,)), lost).status is status


@pytest.mark.parametrize(
    "seen", [{"reached": (RAN,)}, {}, {"files": {}}], ids=["refuted", "not reached", "no such file"]
)
def test_a_record_that_is_cut_says_nothing_of_what_it_does_not_hold(seen: dict[str, object]) -> None:
    assert verdict(run(**seen)).status in (Status.REFUTED, Status.NOT_REACHED)
    found = verdict(run(ended=KILLED, is_cut=True, **seen))
    assert found.status is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    "seen", [{"reached": (RAN,)}, {}, {"files": {}}], ids=["refuted", "not reached", "no such file"]
)
def test_a_run_of_which_a_part_was_not_observed_refutes_nothing(seen: dict[str, object]) -> None:
    found = verdict(merged([run(), run(unobserved="it was compiled", **seen)]))
    assert (found.status, found.reason) == (Status.NOT_OBSERVABLE, "it was compiled")
    confirmed = Seen(finding(), 12)
    assert verdict(run(unobserved="it was compiled", seen=(confirmed,))).status is Status.CONFIRMED


@pytest.mark.parametrize(
    "seen",
    [{"lines": {"train.py": {3: 7, 5: 7}}}, {}, {"files": {}}],
    ids=["refuted", "not reached", "no such file"],
)
def test_a_run_that_the_simulation_ended_refutes_nothing(seen: dict[str, object]) -> None:
    raised = Raised(
        "RuntimeError", "there is no such thing as a graph", (("train.py", 3),), not_simulated=True
    )
    told = finding("disabled-region-without-cast")
    ended = run(ended=RAISED, raised=(raised,), **seen)
    assert verdict(replace(ended, raised=()), told).status in (Status.REFUTED, Status.NOT_REACHED)
    found = verdict(ended, told)
    assert found.status is Status.INCONCLUSIVE and "simulation" in found.reason


def test_what_a_cut_record_holds_is_confirmed() -> None:
    found = verdict(run(ended=KILLED, is_cut=True, seen=(Seen(finding(), 2),)))
    assert (found.status, found.count) == (Status.CONFIRMED, 2)


def test_what_is_true_of_other_releases_is_not_judged_by_this_one() -> None:
    seen = run(seen=(Seen(finding(), 2),))
    crossed = cross_check([finding()], seen, all_rules(), {"train.py": "abc"}, at_release=[])
    [found] = crossed.findings
    assert (found.status, found.reason) == (
        Status.NOT_OBSERVABLE,
        "not observable on torch 2.13.0: it is true of other releases",
    )
    same = cross_check([finding()], seen, all_rules(), {"train.py": "abc"}, at_release=[finding()])
    assert same.findings[0].status is Status.CONFIRMED


def test_what_is_true_of_the_release_that_ran_alone_is_not_missed() -> None:
    seen = run(seen=(Seen(finding(), 2),))
    assert len(cross_check([], seen, all_rules(), {}, at_release=[]).missed) == 1
    assert cross_check([], seen, all_rules(), {}, at_release=[finding()]).missed == ()


def test_what_libraries_do_is_counted_and_told_if_it_is_asked_for() -> None:
    seen = run(seen=(Seen(finding(), 2, by_library=True),))
    crossed = cross_check([], seen, all_rules(), {})
    assert (len(crossed.missed), len(crossed.in_libraries)) == (0, 1)
    crossed = cross_check([], seen, all_rules(), {}, libraries=True)
    assert (len(crossed.missed), len(crossed.in_libraries)) == (1, 0)


def test_what_ended_the_run_is_told_whoever_called_torch() -> None:
    half = finding("half-model")
    raised = Raised("ValueError", "Attempting to unscale FP16 gradients.", (("train.py", 3),))
    seen = run(seen=(Seen(half, 1, by_library=True),), raised=(raised,), ended=RAISED)
    [missed] = cross_check([], seen, all_rules(), {"train.py": "abc"}).missed
    assert missed.evidence == ("raised ValueError: Attempting to unscale FP16 gradients.",)
    other = run(seen=seen.seen, raised=(replace(raised, text="out of memory"),), ended=RAISED)
    assert cross_check([], other, all_rules(), {"train.py": "abc"}).missed == ()


def test_one_process_that_was_killed_cuts_the_record_of_all() -> None:
    assert merged([run(), run(is_cut=True)]).is_cut
    assert not merged([run(), run()]).is_cut


def test_the_users_own_part_is_not_a_librarys_in_any_rank() -> None:
    own, other = Seen(finding(), 1), Seen(finding(), 1, by_library=True)
    [seen] = merged([run(seen=(other,)), run(seen=(own,), ranks=(1,))]).seen
    assert not seen.by_library


def test_a_line_that_did_not_run_is_named_whatever_else_a_run_does_not_tell() -> None:
    lines = {"train.py": {5: 3}}
    found = verdict(run(reached=(RAN,), lines=lines, told=()))
    assert (found.status, found.reason) == (Status.NOT_REACHED, "line 3, of which it speaks, did not run")


def test_what_may_have_run_in_another_program_is_not_said_not_to_have_run() -> None:
    wanted = finding(path="other.py")
    assert verdict(run(), wanted, "other").status is Status.NOT_REACHED
    found = verdict(run(elsewhere="python other.py"), wanted, "other")
    assert (found.status, "`python other.py`" in found.reason) == (Status.INCONCLUSIVE, True)


def test_a_run_tells_what_it_makes_events_of() -> None:
    pytest.importorskip("torch")
    from amplint import events
    from amplint.confirm import session

    kinds = {name: kind for name, kind in vars(events).items() if isinstance(kind, type)}

    house = Path(session.__file__).parent
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in house.glob("*.py")]
    calls = [node.func for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = {part.id for part in calls if isinstance(part, ast.Name)}
    made = {name for name in (called - {"Event"}) & kinds.keys() if issubclass(kinds[name], events.Event)}
    assert {"Backward", "Constructed"} <= made <= set(session.events_told())
