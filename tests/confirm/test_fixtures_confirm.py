"""A run shows what the fixtures say: under simulated CUDA each ``bad_*`` is seen on the marked lines, and each
``good_*`` gives nothing. Of what a golden fix makes of a ``bad_*``, a run shows nothing that is mended: a fix takes the
reason of its finding away, and not only the finding. Spelling is no matter of runs: syntax rules take no part."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "fixes")]

from goldens import KINDS, RULES, assembled, golden, programs, sources  # noqa: E402
from test_fixtures import ALL, FIXTURES, Place, expected, found  # noqa: E402
from test_fixtures_run import is_too_old_for  # noqa: E402

from amplint.rules import rule_classes  # noqa: E402
from amplint.rules.base import FlowRule  # noqa: E402

RUNNER = Path(__file__).with_name("run_observed.py")
NOT_SEEN = {
    "autocast-wrong-device/bad_compared_as_text.py": "a run does not see what a flag was compared with",
    "autocast-wrong-device/bad_compared_in_a_trainer.py": "a run does not see what a flag was compared with",
    "autocast-lost-in-threads/bad_data_parallel.py": "there is one device, so that nothing is replicated",
    "autocast-not-entered/bad_from_a_helper.py": "a run does not see that a helper's result is thrown away",
    "autocast-not-entered/bad_class_in_with.py": "the interpreter refuses the class before torch is called",
    "custom-function-without-cast/bad_runs_again.py": "a run does not know which layers the forward ran",
    "custom-function-without-cast/bad_checkpoint_by_hand.py": "a run does not know which layers the forward ran",
    "gradient-penalty-scale/bad_weight_of_settings.py": "a run does not know the settings from the scale",
    "half-input/bad_images_and_targets.py": "a type that is not spelt out is taken for the one in use",
    "half-input/bad_kept_model.py": "a type that is not spelt out is taken for the one in use",
    "misplaced-argument/bad_device_for_old_class.py": "the region raises before the scaler is used",
    "missing-float/bad_backward_of_function.py": "a saved tensor comes back as another object",
    "missing-grad-scaler/bad_forward_decorated.py": "the region opens inside the outermost module call",
    "scheduler-on-skipped-step/bad_same_scale.py": "a run does not see what the scheduler depends on",
    "scheduler-on-skipped-step/bad_scale_differs.py": "a run does not see what the scheduler depends on",
    "clip-without-unscale/bad_scale_is_logged.py": "a run does not see what becomes of the scale",
    "scaler-not-saved/bad_helper.py": "a run shows the call that saves, which the helper makes",
    "scaler-not-saved/bad_helper_of_another_file": "a run shows the call that saves, which the helper makes",
    "scaler-not-saved/bad_method_that_loads_is_never_called.py": "a run does not know what it saves for",
    "scaler-not-saved/bad_saved_and_never_loaded.py": "a run does not know what it saves for",
    "scaler-not-saved/bad_never_loaded_by_trainer.py": "a run does not know what it saves for",
    "no-grad-then-grad/bad_module_with_parts.py": "only the outermost module call is told",
    "epoch-wide-autocast/good_other_network.py": "a run tells of the region, and not of the steps in it",
}
"""Programs of which a run under the probe does not show all that is marked, and why."""
SAID_ALL_THE_SAME = {
    "direct-optimizer-step/good_divided_all_at_once.py": "a run does not see what divides gradients",
    "autocast-wrong-device/good_device_as_text.py": "a run sees the text, which torch before 2.4 refused",
    "scaler-not-saved/bad_helper.py": "a run shows the call that saves, which the helper makes",
    "scaler-not-saved/bad_helper_of_another_file": "a run shows the call that saves, which the helper makes",
    "epoch-wide-autocast/good_other_network.py": "a run does not know whose parameters those are",
    "direct-optimizer-step/good_optimizer_that_divides.py": "a run does not look into the step of an optimizer",
    "unscaled-backward/good_gradient_cache.py": "a run does not follow gradients into another loss",
    "no-grad-then-grad/good_discriminator_of_another_optimizer.py": "a run does not know whose parameters those are",
    "scaler-not-saved/good_never_resumed.py": "what other code loads is not seen when something is saved",
}
"""Programs of which a run says more than is marked, and why."""
RAISES = {
    *(
        f"cuda-graph-with-cache/{name}.py"
        for name in (
            "good_cache_off",
            "good_cleared",
            "good_no_region",
            "good_region_for_the_capture",
            "good_region_inside",
            "bad_runner_class",
            "bad_warm_up",
        )
    ),
    "cuda-graph-with-cache/bad_two_files",
}
"""Programs that simulated CUDA cannot run to their end: graphs."""
MAY_RAISE = {"jit-under-autocast/good_block_in_script.py"}
"""A script, which simulated CUDA runs with torch 2.6 and not with 2.13."""
SUPPRESSED = "unused-suppression"
"""These programs carry comments that silence the linter. A run is not silenced."""

FLOW = [rule() for rule in rule_classes() if issubclass(rule, FlowRule)]
FLOW_RULES = {rule.name for rule in FLOW}
NOT_OBSERVED = sorted(rule.name for rule in FLOW if rule.needs or rule.unseen)
"""Rules that say themselves why simulated CUDA does not show them. They must not be told of falsely either."""
RUNNABLE = [program for program in ALL if "static" not in program.parts and program.parent.name != SUPPRESSED]
GOLDENS = [
    (program, kind)
    for rule in RULES
    if rule in FLOW_RULES
    for program in programs(rule)
    for kind in KINDS
    if any(golden(source, kind).exists() for source in sources(program))
]
"""What the fixes make of the programs of rules that listen to events."""


@dataclass(frozen=True)
class Outcome:
    """What came of a program."""

    found: set[Place]
    raised: str | None
    errors: list[str]


def name_of(program: Path) -> str:
    return program.relative_to(FIXTURES).as_posix()


def golden_name(program: Path, kind: str) -> str:
    return f"{name_of(program).removesuffix('.py')}{kind}"


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The programs that the fixes make, by name."""
    folder = tmp_path_factory.mktemp("fixed")
    made = {}
    for number, (program, kind) in enumerate(GOLDENS):
        place = folder / str(number)
        place.mkdir()
        made[golden_name(program, kind)] = assembled(program, kind, place)
    return made


def observed(arguments: list[str], **environment: str) -> dict[str, Outcome]:
    """What came of programs, by the names that they are given by."""
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", str(RUNNER), *arguments],
        cwd=FIXTURES,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=900,
    )
    lines = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("[")]
    return {
        name: Outcome({(file, line, rule) for file, line, rule in found}, raised, errors)
        for name, found, raised, errors in lines
    }


@pytest.fixture(scope="module")
def outcomes(fixed: dict[str, Path]) -> dict[str, Outcome]:
    names = {str(path): name for name, path in fixed.items()}
    found = observed([*map(name_of, RUNNABLE), *names], CUDA_VISIBLE_DEVICES="")
    return {names.get(name, name): outcome for name, outcome in found.items()}


def of(outcomes: dict[str, Outcome], program: Path | str) -> Outcome:
    name = program if isinstance(program, str) else name_of(program)
    assert name in outcomes, "the interpreter crashed here or before"
    return outcomes[name]


def marked(program: Path) -> set[Place]:
    return {place for place in expected(program) if place[2] in FLOW_RULES}


@pytest.mark.parametrize("program", RUNNABLE, ids=name_of)
def test_a_run_shows_what_is_marked(outcomes: dict[str, Outcome], program: Path) -> None:
    seen = of(outcomes, program).found
    if name_of(program) not in NOT_SEEN:
        assert {place for place in marked(program) - seen if place[2] not in NOT_OBSERVED} == set()
    if name_of(program) not in SAID_ALL_THE_SAME:
        assert seen - marked(program) == set()


@pytest.mark.parametrize("program", RUNNABLE, ids=name_of)
def test_a_run_goes_to_its_end(outcomes: dict[str, Outcome], program: Path) -> None:
    outcome = of(outcomes, program)
    assert outcome.errors == []
    name = name_of(program)
    if name not in MAY_RAISE:
        assert (outcome.raised is not None) is (name in RAISES or is_too_old_for(name))


@pytest.mark.parametrize(("program", "kind"), GOLDENS, ids=lambda part: str(part).rpartition("fixtures/")[2])
def test_a_run_of_a_fixed_program_shows_nothing_that_is_mended(
    outcomes: dict[str, Outcome], fixed: dict[str, Path], program: Path, kind: str
) -> None:
    rule, name = program.relative_to(FIXTURES).parts[0], golden_name(program, kind)
    seen = {place for place in of(outcomes, name).found if place[2] == rule}
    # a builder may refuse, or its fix be unsafe, and then the static finding is still there, too
    assert not seen or seen <= {place for place in found(fixed[name]) if place[2] == rule}
    if name_of(program) not in RAISES | MAY_RAISE:
        assert of(outcomes, name).raised is None


@pytest.mark.parametrize("name", [*NOT_SEEN, *SAID_ALL_THE_SAME])
def test_an_exception_is_still_one(outcomes: dict[str, Outcome], name: str) -> None:
    assert outcomes[name].found != marked(FIXTURES / name)


@pytest.mark.parametrize("rule", NOT_OBSERVED)
def test_a_rule_that_a_run_does_not_show_is_still_one(outcomes: dict[str, Outcome], rule: str) -> None:
    bad = [program for program in RUNNABLE if program.parent.name == rule and program.name.startswith("bad_")]
    missing = [program for program in bad if marked(program) - outcomes[name_of(program)].found]
    assert missing, "the rule is seen"
