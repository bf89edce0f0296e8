"""A program is observed from its first line on, and torch is imported when the program imports it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from probing import Done

from amplint.confirm.recording import FINISHED, TIMED_OUT, read

ROOT = Path(__file__).parents[2]
Observed = Callable[..., Done]


@pytest.fixture
def observed(tmp_path: Path) -> Observed:
    """Runs a program under ``amplint confirm``, in a process that has not imported torch."""
    pytest.importorskip("torch")

    def run(program: str, *options: str) -> Done:
        (tmp_path / "train.py").write_text(textwrap.dedent(program).lstrip("\n"), encoding="utf-8")
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        command = ["confirm", "--isolated", "--fail-on", "never", "--record", "run.json"]
        done = subprocess.run(
            [sys.executable, "-m", "amplint", *command, *options, "--", "train.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            timeout=300,
        )
        recordings = [read(tmp_path / "run.json")] if (tmp_path / "run.json").exists() else []
        return Done(done.returncode, done.stdout, done.stderr, recordings)

    return run


def test_what_a_program_sets_before_it_imports_torch_counts(observed: Observed) -> None:
    done = observed(
        """
        import os
        import sys

        assert "torch" not in sys.modules
        os.environ["OMP_NUM_THREADS"] = "1"
        import torch

        print(torch.get_num_threads(), type(torch.__loader__).__name__, type(torch.__spec__.loader).__name__)
        with torch.autocast("cuda"):
            torch.nn.Linear(2, 2).cuda()
        """
    )
    assert (done.status, done.stdout.split()[:3]) == (0, ["1", "SourceFileLoader", "SourceFileLoader"])
    assert done.recording.torch
    assert set(done.recording.lines["train.py"]) >= {1, 5, 9, 10}
    assert [opened.span.line for opened in done.recording.opened] == [9]


def test_a_program_without_torch_is_told_as_such(observed: Observed) -> None:
    done = observed("print('nothing to see')")
    assert done.stdout.splitlines()[:2] == [
        "nothing to see",
        "Ran train.py, which did not import torch: nothing was observed; it finished.",
    ]
    assert (done.recording.torch, done.recording.ended) == ("", FINISHED)
    assert done.recording.lines == {"train.py": {1: 1}}


def test_a_program_that_hangs_before_it_imports_torch_is_ended(observed: Observed) -> None:
    done = observed("import time\ntime.sleep(60)", "--timeout", "0.5")
    assert (done.status, done.recording.ended) == (0, TIMED_OUT)


def test_processes_are_observed_of_a_program_that_imports_torch_in_them_alone(observed: Observed) -> None:
    done = observed(
        """
        import multiprocessing
        import os

        def work():
            import torch

            with torch.autocast("cuda"):
                torch.nn.Linear(2, 2).cuda()(torch.ones(1, 2).cuda()).sum().backward()

        if __name__ == "__main__":
            for how in ("fork", "spawn"):
                process = multiprocessing.get_context(how).Process(target=work)
                process.start()
                process.join()
            child = os.fork()
            if not child:
                work()
                os._exit(0)
            os.waitpid(child, 0)
        """
    )
    assert done.status == 0
    recording = done.recording
    assert (bool(recording.torch), recording.device, recording.ended) == (True, "simulated-cuda", FINISHED)
    backward = [reached for reached in recording.reached if reached.kind == "Backward"]
    assert [(reached.span.line, reached.count) for reached in backward] == [(8, 3)]


def test_a_device_that_is_not_there_ends_the_program_where_it_imports_torch(observed: Observed) -> None:
    done = observed("print('first', flush=True)\nimport torch\nprint('second')", "--device", "cuda")
    assert done.recordings == []
    assert done.stderr.startswith("amplint: error: torch sees no CUDA device here")
    assert (done.stdout, "could not begin" in done.stderr) == ("first\n", True)


def test_a_program_that_runs_itself_again_is_followed(observed: Observed) -> None:
    done = observed(
        """
        import os
        import sys

        if "AGAIN" not in os.environ:
            os.environ["AGAIN"] = "1"
            os.execv(sys.executable, [sys.executable, *sys.argv])
        import torch

        with torch.autocast("cuda"):
            torch.nn.Linear(2, 2).cuda()(torch.ones(1, 2).cuda()).sum().backward()
        print(sys.argv)
        """
    )
    assert (done.status, done.stdout.splitlines()[0]) == (0, "['train.py']")
    assert [reached.span.line for reached in done.recording.reached if reached.kind == "Backward"] == [10]
    assert {6, 10} <= set(done.recording.lines["train.py"])
