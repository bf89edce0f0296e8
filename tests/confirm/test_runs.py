"""A program under the probe runs as it does without, and its recording is written however it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from probing import Probed

from amplint.amp.ops import name_of_table, of_release
from amplint.confirm.recording import FINISHED, KILLED, RAISED, STOPPED, TIMED_OUT
from amplint.report.verdicts import described_run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")

TRAIN = """
import sys, torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda", init_scale=2.0)


def step():
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.ones(2, 4, device="cuda")).float().pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.item()


"""


@pytest.mark.parametrize(
    ("last", "status", "ended"),
    [
        pytest.param("step()", 0, FINISHED, id="by itself"),
        pytest.param("step(); sys.exit(3)", 3, FINISHED, id="sys.exit"),
        pytest.param("step(); sys.exit('no')", 1, FINISHED, id="sys.exit with a text"),
        pytest.param("step(); import os; os._exit(4)", 4, RAISED, id="os._exit"),
        pytest.param("step(); raise KeyError('gone')", 1, RAISED, id="an exception"),
        pytest.param(
            "step(); import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15, KILLED, id="SIGTERM"
        ),
        pytest.param("step(); import atexit; atexit.register(step)", 0, FINISHED, id="work at exit"),
        pytest.param(
            "import threading; threading.Thread(target=step).start()", 0, FINISHED, id="work in a thread"
        ),
    ],
)
def test_a_recording_is_written(probed: Probed, last: str, status: int, ended: str) -> None:
    done = probed(TRAIN + last)
    assert (done.status, done.recording.ended) == (status, ended)
    assert done.recording.steps == (2 if "atexit" in last else 1)


def test_an_exception_looks_as_it_does_without_a_probe(probed: Probed, tmp_path: Path) -> None:
    done = probed("def fail():\n    raise KeyError('gone')\n\nfail()\n")
    plain = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.status, done.stderr) == (plain.returncode, plain.stderr)
    assert done.recording.raised[0].stack[-1] == ("train.py", 2)


def test_what_torch_raises_looks_as_it_does_without_a_probe(probed: Probed, tmp_path: Path) -> None:
    done = probed(
        """
        import torch

        weight = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight])
        scaler = torch.amp.GradScaler("cpu")
        weight.sum().backward()
        try:
            scaler.step(optimizer)
        except AssertionError as error:
            torch.nn.functional.linear(weight, weight[:1], None, 1)
        """
    )
    plain = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True)
    assert "AssertionError" in plain.stderr
    assert (done.status, done.stderr) == (plain.returncode, plain.stderr)


SELF_PORTRAIT = """
import pickle, sys

class Thing:
    pass

print(__name__, __file__, __package__, __spec__ and __spec__.name, sys.argv, sys.path[0])
print(type(pickle.loads(pickle.dumps(Thing()))), sys.modules["__main__"].Thing is Thing)
print(sorted(name for name in globals() if not name.startswith("__an")))
print("to stderr", file=sys.stderr)
"""


def test_a_script_sees_itself_as_ever(probed: Probed, tmp_path: Path) -> None:
    done = probed(SELF_PORTRAIT, "--epochs", "1", "--", "-x")
    plain = subprocess.run(
        [sys.executable, "train.py", "--epochs", "1", "--", "-x"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == (plain.stdout, plain.stderr)


def test_a_module_sees_itself_as_ever(probed: Probed, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "train.py").write_text(SELF_PORTRAIT + "from . import train\n")
    done = probed(["-m", "package.train", "a", "b"])
    plain = subprocess.run(
        [sys.executable, "-m", "package.train", "a", "b"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == (plain.stdout, plain.stderr)


def test_losses_are_those_of_a_run_without_a_probe(probed: Probed, tmp_path: Path) -> None:
    program = """
        import torch
        from torch import nn
        torch.set_num_threads(1)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(5):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(torch.randn(8, 4)).square().mean()
            loss.backward()
            optimizer.step()
            print(loss.item(), torch.rand(1).item())
    """
    done = probed(program, device="cpu")
    plain = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == plain.stdout != ""


def test_steps_end_a_run_with_nothing_pending(probed: Probed) -> None:
    done = probed(TRAIN + "while True: print(step(), flush=True)", steps=3)
    assert (done.status, done.recording.ended, done.recording.steps) == (0, STOPPED, 3)
    assert len(done.stdout.split()) == 3
    assert done.recording.seen == ()


def test_steps_end_a_run_that_catches_everything(probed: Probed) -> None:
    done = probed(
        TRAIN
        + """
for _ in range(10):
    try:
        step()
    except:
        print("caught")
print("over")
""",
        steps=2,
    )
    assert done.recording.ended == STOPPED
    assert done.recording.steps == 2
    assert done.stdout.split() == ["caught"] * 8 + ["over"]


def test_a_run_that_never_ends_is_stopped_in_time(probed: Probed) -> None:
    done = probed(TRAIN + "while True: step()", timeout=8, grace=60)
    assert (done.status, done.recording.ended) == (0, TIMED_OUT)
    assert done.recording.steps > 0


def test_a_run_that_hangs_is_interrupted(probed: Probed) -> None:
    done = probed(
        TRAIN + "step()\nimport time\ntry:\n    time.sleep(600)\nfinally:\n    print('let go')",
        timeout=8,
        patience=0.1,
        grace=60,
    )
    assert (done.status, done.recording.ended, done.stdout) == (0, TIMED_OUT, "let go\n")


def test_a_run_that_does_not_let_go_is_ended(probed: Probed) -> None:
    done = probed(
        TRAIN
        + """
import time
while True:
    try:
        step()
        time.sleep(600)
    except BaseException:
        pass
""",
        timeout=3,
        patience=0.1,
        grace=0.5,
    )
    assert (done.status, done.recording.ended) == (124, TIMED_OUT)
    assert done.recording.steps == 1


def test_workers_of_a_loader_write_nothing(probed: Probed) -> None:
    done = probed(
        TRAIN
        + """
from torch.utils.data import DataLoader
if __name__ == "__main__":
    for batch in DataLoader([torch.ones(4)] * 4, num_workers=1, multiprocessing_context="fork"):
        step()
"""
    )
    assert (done.status, done.recording.steps, len(done.recordings)) == (0, 4, 1)


def test_recomputed_checkpoints_are_no_backward_of_their_own(probed: Probed) -> None:
    done = probed(
        TRAIN
        + """
from torch.utils.checkpoint import checkpoint
with torch.autocast("cuda"):
    loss = checkpoint(model, torch.ones(2, 4, device="cuda", requires_grad=True), use_reentrant=False).mean()
loss.backward()
"""
    )
    assert done.status == 0
    assert [reached.count for reached in done.recording.reached if reached.kind == "Backward"] == [1]


def test_a_step_that_the_scaler_refuses_is_no_step(probed: Probed) -> None:
    program = """
import torch
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
scaler.scale(model(torch.ones(2, 4).cuda()).mean()).backward()
scaler.step(optimizer)
try:
    scaler.step(optimizer)
except RuntimeError:
    scaler.update()
"""
    seen = probed(program).recording
    assert (seen.steps, seen.skipped) == (1, 0)


def test_compiling_is_off_and_said_once(probed: Probed) -> None:
    done = probed(TRAIN + "model = torch.compile(model); step()")
    assert done.status == 0
    [note] = [note for note in done.recording.notes if "torch.compile" in note]
    assert note.startswith("torch.compile is off while the run is observed")


def test_a_compiler_that_the_program_has_switched_off_is_not_on(probed: Probed) -> None:
    program = "import torch\nmodel = torch.compile(torch.nn.Linear(2, 2))\nmodel(torch.ones(1, 2))\n"
    done = probed(program, device="cpu", keeps_compile=True)
    assert done.status == 0
    assert done.recording.notes == ("torch.compile was off in this run (TORCHDYNAMO_DISABLE=1)",)
    assert done.recording.unobserved == ""


def test_what_torch_warns_of_is_shown_at_the_line_of_the_program(probed: Probed) -> None:
    done = probed("import torch\n\ntorch.tensor(torch.ones(2))\nfloat(torch.ones(1, requires_grad=True))\n")
    places = [line.partition(" ")[0] for line in done.stderr.splitlines() if "Warning: " in line]
    assert places[0].endswith("train.py:3:")
    assert all(place.endswith("train.py:4:") for place in places[1:])  # torch 2.6 does not warn of that


def test_the_state_of_an_optimizer_is_not_kept_alive(probed: Probed) -> None:
    done = probed(
        """
        import gc
        import weakref
        import torch

        weight = torch.nn.Parameter(torch.ones(2))

        def trained():
            optimizer = torch.optim.Adam([weight])
            weight.sum().backward()
            optimizer.step()
            return optimizer

        first = trained()
        state = first.state_dict()
        kept = weakref.ref(state["state"][0]["exp_avg"])
        del first, state
        trained()
        gc.collect()
        print(kept() is None)
        """
    )
    assert done.stdout == "True\n"


def test_a_compiled_model_has_the_names_that_it_has_without_a_probe(probed: Probed) -> None:
    done = probed(
        TRAIN
        + """
        kept = model
        model = torch.compile(model)
        step()
        names = ["_orig_mod." + name for name in kept.state_dict()]
        print(model._orig_mod is kept, list(model.state_dict()) == names)
        twice = torch.compile(lambda x: x * 2)
        print(twice(torch.ones(1)).item())
        """.replace("\n        ", "\n")
    )
    assert done.stdout.splitlines()[-2:] == ["True True", "2.0"]
    assert (done.status, done.recording.steps) == (0, 1)


@pytest.mark.parametrize(("left_with", "said"), [("3", "it exited with 3"), ("None", "it finished")])
def test_the_exit_status_of_a_program_is_told(probed: Probed, left_with: str, said: str) -> None:
    done = probed(f"import torch, sys\nsys.exit({left_with})")
    assert described_run(done.recording).endswith(f"{said}.")


def test_a_recording_names_the_op_table_of_its_torch(probed: Probed) -> None:
    done = probed(TRAIN + "step()\n")
    assert done.recording.op_table == name_of_table(of_release(done.recording.torch))
    assert f"(torch {done.recording.torch}, op table of torch " in described_run(done.recording)


@pytest.mark.parametrize("step", [0, 3])
def test_a_process_that_is_killed_leaves_what_it_saw_so_far(probed: Probed, step: int) -> None:
    done = probed(
        f"""
        import os
        import signal
        import torch
        from torch import nn

        model = nn.Linear(4, 1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.ones(2, 4, device="cuda")
        for step in range(6):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(x).square().mean()
                loss.backward()
            if step == {step}:
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.step()
        """
    )
    assert done.status == -9
    recording = done.recording
    assert recording.is_cut
    assert any(part.kind == "Backward" for part in recording.reached)
    assert (recording.steps > 0) == (step > 0)
    assert [seen.finding.name for seen in recording.seen if seen.finding.name == "backward-in-autocast"]


SEEN_BY_IT = """
import threading, traceback, warnings
import torch

told = []
warnings.showwarning = lambda message, category, file, line, *more: told.append((file.rpartition("/")[2], line))
a = torch.ones(2)
b = torch.tensor(a)
c = torch.tensor(a)
d = (a.requires_grad_() * 2).grad
torch.nn.MSELoss()(torch.zeros(2, 1), torch.zeros(2))
print(told)
warnings.filterwarnings("error", module="__main__")
try:
    torch.tensor(c)
except UserWarning as error:
    print("an error")


def fail():
    torch.zeros(2) @ torch.zeros(3)


def files(error):
    return [(part.filename.rpartition("/")[2], part.lineno) for part in traceback.extract_tb(error.__traceback__)]


try:
    fail()
except RuntimeError as error:
    print(files(error), traceback.format_exc().count("File"))
thread = threading.Thread(target=fail)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("device", ["cpu", "simulated-cuda"])
def test_warnings_and_tracebacks_are_the_programs(probed: Probed, tmp_path: Path, device: str) -> None:
    done = probed(SEEN_BY_IT, device=device)
    plain = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True)
    assert plain.stdout.count("train.py") >= 5
    if device == "cpu":
        assert done.stdout == plain.stdout
        assert done.stderr == plain.stderr
    else:  # torch's own frames stand between the program and the op there
        assert done.stdout.splitlines()[:2] == plain.stdout.splitlines()[:2]
    assert "amplint" not in done.stdout + done.stderr
