"""``amplint confirm`` from the command line to its report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_COMMAND = "import sys; from amplint.cli.main import main; main()"

FROZEN = textwrap.dedent(
    """
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(2, 4, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        for _ in range(3):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
    print("the program's own words")
    """
)


def amplint(
    directory: Path, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", _COMMAND, *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", **(env or {})},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A project, and a run of its program that was recorded."""
    pytest.importorskip("torch")
    project = tmp_path_factory.mktemp("project")
    (project / "train.py").write_text(FROZEN)
    done = amplint(project, "confirm", "--record", "run.json", "--", "train.py")
    return project, done


def test_findings_become_verdicts(recorded: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    _, done = recorded
    assert done.stderr == ""
    assert done.returncode == 1
    assert done.stdout.startswith("the program's own words\n")
    assert (
        "confirmed 2 times (CUDA simulated on CPU)\ntrain.py:9:6: error[epoch-wide-autocast]" in done.stdout
    )
    assert "confirmed 3 times (CUDA simulated on CPU)\ntrain.py:12:9: warning" in done.stdout
    assert "= seen: the loss stood still: " in done.stdout
    assert done.stdout.endswith("2 findings: 2 confirmed\n")


def test_a_recording_is_judged_elsewhere(
    recorded: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    project, _ = recorded
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "renamed.py").write_text(FROZEN)
    replayed = amplint(tmp_path, "confirm", "--replay", str(project / "run.json"), "--output-format", "json")
    assert replayed.returncode == 1
    value = json.loads(replayed.stdout)
    assert (value["device"], value["steps"], value["ended"]) == ("simulated-cuda", 3, "finished")
    assert [(found["path"], found["verdict"], found["count"]) for found in value["findings"]] == [
        ("src/renamed.py", "confirmed", 2),
        ("src/renamed.py", "confirmed", 3),
    ]
    assert value["missed"] == []


def test_json_has_the_objects_of_the_lint(
    recorded: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    project, _ = recorded
    lint = amplint(project, "--output-format", "json")
    (project / "lint.json").write_text(lint.stdout)
    crossed = amplint(
        project, "confirm", "--replay", "run.json", "--findings", "lint.json", "--output-format", "json"
    )
    told = json.loads(crossed.stdout)["findings"]
    extra = {"verdict", "count", "evidence", "reason", "ranks"}
    for found, given in zip(told, json.loads(lint.stdout), strict=True):
        assert set(found) == {*given, *extra}
        fix = {"fix"}
        assert {key: found[key] for key in set(given) - fix} == {key: given[key] for key in set(given) - fix}


def test_a_file_that_has_changed_since_it_was_linted_is_told(
    recorded: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    project, _ = recorded
    (tmp_path / "train.py").write_text(FROZEN)
    lint = amplint(tmp_path, "--output-format", "json")
    (tmp_path / "lint.json").write_text(lint.stdout)
    (tmp_path / "train.py").write_text("\n" + FROZEN)
    crossed = amplint(tmp_path, "confirm", "--replay", str(project / "run.json"), "--findings", "lint.json")
    assert crossed.stdout.count("inconclusive: the file that ran is not the one that was linted") == 2


def test_what_a_baseline_kept_back_is_not_missed(
    recorded: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    project, _ = recorded
    (tmp_path / "train.py").write_text(FROZEN)
    release = ".".join(json.loads((project / "run.json").read_text())["torch"].split(".")[:2])
    (tmp_path / "amplint.toml").write_text(f'torch-version = "{release}"\n')
    run = ("confirm", "--replay", str(project / "run.json"), "--output-format", "json")
    (tmp_path / "lint.json").write_text("[]")
    missed = json.loads(amplint(tmp_path, *run, "--findings", "lint.json").stdout)["missed"]
    assert amplint(tmp_path, "baseline").returncode == 0
    (tmp_path / "lint.json").write_text(amplint(tmp_path, "--output-format", "json").stdout)
    with_baseline = json.loads(amplint(tmp_path, *run, "--findings", "lint.json").stdout)
    assert missed
    assert (with_baseline["findings"], with_baseline["missed"]) == ([], [])
    assert len(json.loads(amplint(tmp_path, *run).stdout)["findings"]) == 2, "alone, it judges all"


@pytest.mark.parametrize("more", [(), ("--findings", "lint.json")], ids=["linted", "handed over"])
def test_what_is_true_of_other_releases_is_not_observable(tmp_path: Path, more: tuple[str, ...]) -> None:
    """Torch takes an index since 2.4."""
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text("import torch\n\nwith torch.autocast('cuda:0'):\n    pass\n")
    (tmp_path / "amplint.toml").write_text('torch-version = ">=2.0"\n')
    (tmp_path / "lint.json").write_text(amplint(tmp_path, "--output-format", "json").stdout)
    crossed = amplint(tmp_path, "confirm", *more, "--", "train.py")
    assert "not observable on torch" in crossed.stdout
    assert "1 finding: 1 not observable here" in crossed.stdout


def test_github_gets_annotations(recorded: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    project, _ = recorded
    done = amplint(project, "confirm", "--replay", "run.json", "--output-format", "github")
    first = done.stdout.splitlines()[0]
    assert first.startswith("::error file=train.py,line=9")
    assert "confirmed 2 times (CUDA simulated on CPU)" in first


@pytest.mark.parametrize(("option", "status"), [("findings", 1), ("confirmed", 1), ("never", 0)])
def test_what_fails_is_chosen(
    recorded: tuple[Path, subprocess.CompletedProcess[str]], option: str, status: int
) -> None:
    project, _ = recorded
    assert amplint(project, "confirm", "--replay", "run.json", "--fail-on", option).returncode == status


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["confirm"], "there is no program to run"),
        (["confirm", "--", "gone.py"], "no such file: gone.py"),
        (["confirm", "--", "run.sh"], "is no Python program"),
        (["confirm", "--replay", "run.sh", "--", "train.py"], "takes the place of a run"),
        (["confirm", "--replay", "run.sh"], "is no recording of a run"),
        (["confirm", "--replay", "run.sh", "--keep-compile"], "--keep-compile is about a run"),
        (["confirm", "gone", "--", "train.py"], "no such file or directory: gone"),
        (["confirm", "--findings", "run.sh", "--", "train.py"], "does not hold what"),
    ],
)
def test_wrong_use_is_told(tmp_path: Path, arguments: list[str], message: str) -> None:
    pytest.importorskip("torch")
    (tmp_path / "run.sh").write_text("echo\n")
    (tmp_path / "train.py").write_text("")
    done = amplint(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_without_torch_it_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    code = (
        "import sys, importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'torch' else find(name, *more)\n"
    )
    (tmp_path / "hide.py").write_text(code + _COMMAND)
    done = subprocess.run(
        [sys.executable, "hide.py", "confirm", "--", "train.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "pip install 'amplint[torch]'" in done.stderr


def test_ranks_are_told_apart(tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed")
    (tmp_path / "train.py").write_text(
        "import torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        + FROZEN.replace("range(3)", "range(1 + dist.get_rank())")
        + "dist.destroy_process_group()\n"
    )
    command = ["torchrun", "--standalone", "--nproc-per-node", "2", "train.py"]
    done = amplint(tmp_path, "confirm", "--output-format", "json", "--", *command)
    value = json.loads(done.stdout)
    assert (value["ranks"], value["steps"], value["ended"]) == ([0, 1], 2, "finished")
    frozen, backward = value["findings"]
    assert (frozen["verdict"], frozen["count"], frozen["ranks"]) == ("confirmed", 1, [1])
    assert (backward["verdict"], backward["count"], backward["ranks"]) == ("confirmed", 3, [0, 1])


def test_spawned_workers_are_observed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    body = textwrap.indent(FROZEN.partition("from torch import nn")[2], "    ")
    (tmp_path / "train.py").write_text(
        "import torch\nfrom torch import nn\n\n\ndef work(rank):\n"
        + body
        + "\n\nif __name__ == '__main__':\n    torch.multiprocessing.spawn(work, nprocs=1)\n"
    )
    done = amplint(tmp_path, "confirm", "--output-format", "json", "--", "train.py")
    value = json.loads(done.stdout)
    assert (value["status"], value["steps"]) == (0, 3)
    assert [found["verdict"] for found in value["findings"]] == ["confirmed", "confirmed"]


def test_the_programs_own_output_stays_where_it_is_if_the_report_goes_to_a_file(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text("print('own words')")
    options = ["--isolated", "--output-format", "json"]
    apart = amplint(tmp_path, "confirm", *options, "--output-file", "report.json", "--", "train.py")
    assert (apart.stdout, apart.stderr) == ("own words\n", "")
    assert json.loads((tmp_path / "report.json").read_text())["findings"] == []
    together = amplint(tmp_path, "confirm", *options, "--", "train.py")
    assert (json.loads(together.stdout)["findings"], together.stderr) == ([], "own words\n")


def test_the_compiler_stays_on_if_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "graphs = []\n"
        "def backend(graph, inputs):\n"
        "    graphs.append(graph)\n"
        "    return graph.forward\n"
        "model = nn.Linear(4, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "compiled = torch.compile(model, backend=backend, fullgraph=True)\n"
        "for _ in range(2):\n"
        "    with torch.autocast('cpu', dtype=torch.bfloat16):\n"
        "        loss = compiled(torch.ones(2, 4)).float().sum()\n"
        "        loss.backward()\n"
        "    optimizer.step()\n"
        "print(len(graphs), 'compiled')\n"
    )
    done = amplint(tmp_path, "confirm", "--keep-compile", "--device", "cpu", "--", "train.py")
    assert done.stdout.startswith("1 compiled\nconfirmed 2 times (on the CPU)\ntrain.py:13:9: ")
    assert "note: torch.compile was on: " in done.stdout
    refused = amplint(tmp_path, "confirm", "--keep-compile", "--device", "simulated-cuda", "--", "train.py")
    assert refused.returncode == 2
    assert "compiled code cannot be" in refused.stderr
