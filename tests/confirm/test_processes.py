"""Processes that the program starts: what they do reaches the report, and they run as ever."""

from __future__ import annotations

import sys

import pytest
from probing import Probed

from amplint.confirm.recording import FINISHED, KILLED, RAISED, Recording, merged

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")

LOADER = """
import sys, torch
from torch.utils.data import DataLoader

torch.cuda.set_device(0)
print("imported", file=sys.stderr)


class Numbers:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((4,), float(index), device="cuda").cpu()


if __name__ == "__main__":
    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(Numbers(), batch_size=2, num_workers=1, multiprocessing_context=sys.argv[1]):
        print(batch[:, 0].tolist())
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(batch.cuda()).square().mean()
            loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("how", "imports"), [("fork", 1), ("spawn", 2)])
def test_workers_of_a_loader_run_as_ever(probed: Probed, how: str, imports: int) -> None:
    done = probed(LOADER, how)
    assert (done.status, done.stdout) == (0, "[0.0, 1.0]\n[2.0, 3.0]\n")
    assert done.stderr == "imported\n" * imports
    [recording] = done.recordings
    assert (recording.steps, recording.notes) == (2, ())
    assert [(seen.finding.name, seen.count) for seen in recording.seen] == [("backward-in-autocast", 2)]


TRAIN = """
import os, sys, torch
import torch.multiprocessing as mp


def train(rank, steps):
    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(torch.ones(2, 4, device="cuda")).square().mean()
            loss.backward()
        optimizer.step()
    return steps


"""


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(
            "process = mp.get_context('fork').Process(target=train, args=(0, 2)); process.start(); process.join()",
            id="Process",
        ),
        pytest.param("mp.start_processes(train, (2,), nprocs=1, start_method='fork')", id="start_processes"),
        pytest.param("child = os.fork()\nif child: os.waitpid(child, 0)\nelse: train(0, 2)", id="os.fork"),
        pytest.param(
            "with mp.get_context('fork').Pool(1) as pool: assert pool.starmap(train, [(0, 2)]) == [2]",
            id="Pool",
        ),
    ],
)
def test_what_is_forked_off_is_observed(probed: Probed, how: str) -> None:
    done = probed(TRAIN + "train(0, 1)\n" + how)
    assert (done.status, done.stderr) == (0, "")
    parent, child = sorted(done.recordings, key=lambda recording: recording.is_worker)
    assert (parent.is_worker, parent.steps, child.is_worker, child.steps) == (False, 1, True, 2)
    assert [(seen.finding.name, seen.count) for seen in done.recording.seen] == [("backward-in-autocast", 3)]


def test_what_a_worker_raises_is_evidence(probed: Probed) -> None:
    done = probed(TRAIN + "mp.start_processes(train, ('two',), nprocs=1, start_method='fork')")
    assert (done.status, done.recording.ended) == (1, RAISED)
    first = done.recording.raised[0]
    assert (first.type, first.stack[-1]) == ("TypeError", ("train.py", 9))


def test_workers_keep_their_ranks(probed: Probed) -> None:
    done = probed(
        TRAIN
        + """
import torch.distributed as dist

def work(rank):
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=rank, world_size=2)
    train(rank, 1 + rank)
    dist.destroy_process_group()

mp.start_processes(work, nprocs=2, start_method="fork")
"""
    )
    assert (done.status, done.recording.ranks) == (0, (0, 1))
    assert {recording.ranks: recording.steps for recording in done.recordings if recording.is_worker} == {
        (0,): 1,
        (1,): 2,
    }


def test_what_is_out_of_sight_is_told(probed: Probed) -> None:
    done = probed(
        """
import multiprocessing, subprocess, sys

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(abs, [-1]) == [1]
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    subprocess.run([sys.executable, "-S", "other.py", "--x"])
""",
        device="cpu",
    )
    assert done.status == 0
    assert done.recording.notes == (
        "what a pool of spawned processes did was not observed",
        f"the program started another one, which was not observed: {sys.executable} -S other.py --x",
    )


def test_a_run_ends_as_its_first_process_ends() -> None:
    parent, child = Recording("cuda"), Recording("cuda", ended=KILLED, status=143, is_worker=True)
    both = merged([child, parent])
    assert (both.ended, both.status, both.is_worker) == (FINISHED, 0, False)
    assert merged([child, child]).ended == KILLED


def test_forks_give_no_warning_of_threads(probed: Probed) -> None:
    # Python 3.12 and later warn where a process with threads forks; the probe's thread is away meanwhile
    done = probed(
        """
import os, threading, warnings

warnings.simplefilter("always", DeprecationWarning)
for _ in range(2):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    print([thread.name for thread in threading.enumerate()])
"""
    )
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout == "['MainThread', 'amplint']\n" * 2


KILLED_EARLY = """
import os, signal, sys, torch
import torch.multiprocessing as mp


def train():
    model = torch.nn.Linear(4, 1).cuda()
    model.half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    process = mp.get_context(sys.argv[1]).Process(target=train)
    process.start()
    process.join()
"""


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_worker_that_is_killed_before_its_first_region_was_there(probed: Probed, how: str) -> None:
    done = probed(KILLED_EARLY, how)
    assert (done.status, done.recording.is_cut) == (0, True)


def test_a_program_that_another_one_starts_may_have_run_what_did_not_run_here(probed: Probed) -> None:
    done = probed("import subprocess, sys\nsubprocess.run([sys.executable, 'other.py'])\n")
    assert done.recording.elsewhere.endswith("other.py")
