"""Launchers: the processes that they start are observed, and get what they would get."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from probing import Done, Probed

from amplint.confirm.launchers import launch, launcher_of
from amplint.confirm.order import UNUSABLE
from amplint.confirm.runner import NotRun, prepared

forks = pytest.mark.skipif(sys.platform == "win32", reason="forks")

TRAIN = """
import sys, torch

if __name__ == "__main__":
    print(sys.argv)
    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(torch.ones(2, 4, device="cuda")).square().mean()
        loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("torchrun --nproc-per-node 2 a.py", "-m torch.distributed.run --nproc-per-node 2 a.py"),
        ("/usr/bin/torchrun.exe a.py", "-m torch.distributed.run a.py"),
        ("python -m torch.distributed.launch a.py", "-m torch.distributed.launch a.py"),
        ("accelerate launch --cpu a.py", "-m accelerate.commands.launch --cpu a.py"),
        ("deepspeed a.py --deepspeed", "-m deepspeed.launcher.runner a.py --deepspeed"),
    ],
)
def test_a_launcher_is_known_by_what_users_type(command: str, program: str) -> None:
    assert prepared(command.split()) == ([], program.split())


def test_other_launchers_are_not_run(tmp_path: Path) -> None:
    with pytest.raises(NotRun, match="one of torchrun, accelerate launch, deepspeed with its options"):
        prepared(["horovodrun", "-np", "2", "python", "a.py"])
    with pytest.raises(NotRun, match="no such file: accelerate"):
        prepared(["accelerate", "config"])


def check(done: Done, printed: str) -> None:
    assert (done.status, done.stdout) == (0, printed), done.stderr
    [seen] = done.recording.seen
    assert (seen.finding.name, seen.count, done.recording.steps) == ("backward-in-autocast", 1, 1)


@forks
def test_a_local_rank_is_handed_to_the_program(probed: Probed, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    # as torch.distributed.launch and deepspeed start it
    done = probed(["--local-rank=0", "train.py", "--lr", "3"])
    check(done, "['train.py', '--local-rank=0', '--lr', '3']\n")


@pytest.mark.parametrize("name", ["torch.distributed.run", "torch.distributed.launch"])
def test_a_launcher_starts_the_program_under_the_probe(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip(name)
    got: list[str] = []
    monkeypatch.setattr(module, "main", lambda: got.extend(sys.argv[1:]))
    monkeypatch.setattr(sys, "argv", ["launch.py"])
    launcher = launcher_of(["-m", name])
    assert launcher is not None
    launch(launcher, ["--nproc-per-node", "2", "-m", "train", "-m", "3"], simulated=False)
    assert got[:2] == ["--nproc-per-node", "2"]
    assert got[2].endswith("launch.py")
    assert got[3:] == ["-m", "train", "-m", "3"]


@forks
def test_accelerate_starts_modules(probed: Probed, tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    (tmp_path / "train.py").write_text(TRAIN)
    done = probed(["-m", "accelerate.commands.launch", "--num_processes", "1", "-m", "train", "--lr", "3"])
    check(done, f"['{tmp_path / 'train.py'}', '--lr', '3']\n")


@forks
@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is not None, reason="has deepspeed")
def test_a_launcher_that_is_not_there_is_told(probed: Probed) -> None:
    done = probed(["-m", "deepspeed.launcher.runner", "train.py"])
    assert (done.status, done.recordings) == (UNUSABLE, [])
    assert done.stderr == (
        "amplint: error: deepspeed cannot be imported beside amplint: No module named 'deepspeed'\n"
    )


@forks
def test_a_launcher_of_other_programs_is_refused(probed: Probed) -> None:
    done = probed(["-m", "torch.distributed.run", "--no-python", "train.sh"])
    assert (done.status, done.recordings) == (UNUSABLE, [])
    assert "a launcher is to start a Python program" in done.stderr
