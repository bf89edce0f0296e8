"""The action for GitHub and the template for GitLab: their scripts, run as those services run them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from running import command, environment

REPOSITORY = Path(__file__).resolve().parents[2]
BROKEN = "import torch\n\nwith torch.autocast('gpu'):\n    pass\n"

pytestmark = pytest.mark.skipif(
    shutil.which("bash") is None, reason="runs the scripts of the templates in bash"
)


@pytest.fixture
def program(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """amplint as one command."""
    path = tmp_path_factory.mktemp("bin") / "amplint"
    path.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, command(fake=False)))} "$@"\n')
    path.chmod(0o755)
    return path


class Job:
    """The steps of the action that are scripts, one after the other, with what they hand on."""

    def __init__(self, program: Path, temporary: Path, inputs: dict[str, str]) -> None:
        self.action = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))
        given = {key: str(one.get("default", "")) for key, one in self.action["inputs"].items()}
        self.inputs = {**given, **inputs}
        self.program, self.temporary = program, temporary
        self.outputs: dict[str, dict[str, str]] = {"python": {}}

    def value(self, expression: str) -> str:
        """What ``${{ … }}`` stands for."""
        kind, *rest = expression.split(".")
        if kind == "inputs":
            return self.inputs[rest[0]]
        assert kind == "steps" and rest[1] == "outputs", expression
        return self.outputs[rest[0]].get(rest[2], "")

    def filled(self, text: str) -> str:
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: self.value(found[1]), text)

    def run(self, name: str) -> subprocess.CompletedProcess[bytes]:
        (step,) = [step for step in self.action["runs"]["steps"] if step.get("name") == name]
        assert "${{" not in step["run"]  # text of the user would be run
        output = self.temporary / f"{name}.output"
        output.touch()
        variables = {key: self.filled(text) for key, text in step["env"].items()}
        known = {
            "AMPLINT": str(self.program),
            "GITHUB_OUTPUT": str(output),
            "RUNNER_TEMP": str(self.temporary),
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.filled(step.get("working-directory", ".")),
            env=environment(
                **known,
                **variables,
                GITHUB_STEP_SUMMARY=str(self.temporary / "summary.md"),
                GITHUB_WORKSPACE=str(Path.cwd()),
            ),
            capture_output=True,
            timeout=120,
        )
        lines = output.read_text(encoding="utf-8").splitlines()
        self.outputs[step.get("id", name)] = dict(line.split("=", 1) for line in lines)
        return done


@pytest.mark.parametrize(("fail", "status"), [("true", 1), ("false", 0)])
def test_the_action_annotates_and_judges(
    program: Path, project: Path, tmp_path_factory: pytest.TempPathFactory, fail: str, status: int
) -> None:
    (project / "my project").mkdir()
    (project / "my project/train.py").write_text(BROKEN)
    temporary = tmp_path_factory.mktemp("runner")
    inputs = {
        "working-directory": "my project",
        "args": "train.py\n  --level error\n",
        "fail": fail,
        "sarif": "true",
    }
    job = Job(program, temporary, inputs)
    done = job.run("Run amplint")
    assert done.returncode == 0, done.stderr
    assert b"::error file=my project/train.py,line=3" in done.stdout
    assert "autocast-wrong-device" in (temporary / "summary.md").read_text(encoding="utf-8")
    assert job.run("Write SARIF").returncode == 0
    document = json.loads(Path(job.outputs["sarif"]["file"]).read_text(encoding="utf-8"))
    assert [result["ruleId"] for result in document["runs"][0]["results"]] == ["AMP105"]
    assert job.run("Judge").returncode == status


def test_arguments_of_the_action_are_no_shell(
    program: Path, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    job = Job(
        program,
        tmp_path_factory.mktemp("runner"),
        {"args": "$(touch${IFS}hacked) `touch hacked` ; touch hacked"},
    )
    assert job.run("Run amplint").returncode == 2
    assert not (project / "hacked").exists()


def test_an_error_fails_the_action_at_once(
    program: Path, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    job = Job(program, tmp_path_factory.mktemp("runner"), {"args": "missing.py", "fail": "false"})
    assert job.run("Run amplint").returncode == 2


def test_nothing_found_passes(program: Path, project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (project / "fine.py").write_text("import torch\n")
    job = Job(program, tmp_path_factory.mktemp("runner"), {})
    assert job.run("Run amplint").returncode == 0
    assert job.run("Judge").returncode == 0


def gitlab_job(inputs: dict[str, str]) -> dict[str, Any]:
    """The job that GitLab makes of the template."""
    head, body = (REPOSITORY / "templates/amplint.yml").read_text(encoding="utf-8").split("\n---\n")
    known = yaml.safe_load(head)["spec"]["inputs"]
    given = {key: inputs.get(key, (one or {}).get("default")) for key, one in known.items()}
    assert None not in given.values()
    filled = re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", lambda found: str(given[found[1]]), body)
    (job,) = yaml.safe_load(filled).values()
    assert isinstance(job, dict)
    return job


def test_the_template_of_gitlab_reports_and_fails(program: Path, project: Path) -> None:
    (project / "train.py").write_text(BROKEN)
    job = gitlab_job({"package": "amplint", "args": "train.py"})
    statuses = []
    for line in job["script"][2:]:
        line = line.replace("/tmp/amplint/bin/amplint", str(program))
        statuses.append(subprocess.run(["bash", "-c", line], cwd=project, env=environment()).returncode)
    assert statuses == [0, 1]
    report = json.loads((project / job["artifacts"]["reports"]["codequality"]).read_text(encoding="utf-8"))
    assert [entry["check_name"] for entry in report] == ["AMP105"]
