"""What would cost much is done in little time and memory, or not at all, and then that is said."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from time import process_time

import pytest
from running import command, environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sets limits as Linux has them")


def _slowness() -> float:
    """How many times slower this machine is now than the one on which five seconds were asked for: a million rounds
    took 0.08 of a second of the processor's time there."""

    def rounds() -> float:
        before = process_time()
        sum(number * number % 7 for number in range(1_000_000))
        return process_time() - before

    return max(1.0, min(rounds() for _ in range(3)) / 0.08)


SECONDS = 10
"""Of the processor's time on that machine: twice what was asked for."""
BYTES = 600 << 20
HEAD = 'import torch\nfrom torch import nn\n\nscaler = torch.amp.GradScaler("cuda")\n'
REGION = '    with torch.autocast("cuda"):\n'


def _calls_in_a_circle(number: int) -> str:
    parts = [
        f"def f{one}(model, x):\n{REGION}        y = model(x)\n    return f{(one + 1) % number}(model, y)\n"
        for one in range(number)
    ]
    return HEAD + "".join(parts)


def _inheritance(number: int) -> str:
    first = f"class C0(nn.Module):\n    def forward(self, x):\n    {REGION}            return x\n"
    parts = [
        f"class C{one}(C{one - 1}):\n    def forward(self, x):\n        return super().forward(x)\n"
        for one in range(1, number)
    ]
    return f"{HEAD}{first}{''.join(parts)}C{number - 1}()(torch.ones(1))\n"


def _branches(number: int) -> str:
    parts = [
        f"        {'elif' if one else 'if'} k == {one}:\n            loss.backward()\n"
        for one in range(number)
    ]
    return f"{HEAD}def f(model, x, k):\n{REGION}        loss = model(x).sum()\n{''.join(parts)}"


def _cases(number: int) -> str:
    parts = [f"            case {one}:\n                loss.backward()\n" for one in range(number)]
    return f"{HEAD}def f(model, x, k):\n{REGION}        loss = model(x).sum()\n        match k:\n{''.join(parts)}"


def _swaps(number: int) -> str:
    parts = [f"    if flags[{one}]:\n        a, b = b, a\n" for one in range(number)]
    end = f"{REGION}        loss = model(x).sum()\n    if a == 3:\n        loss.backward()\n"
    return f"{HEAD}def f(model, x, flags):\n    a, b = 0, 1\n{''.join(parts)}{end}"


def _regions(number: int) -> str:
    part = 'with torch.autocast("cuda"):\n    y = model(x)\nloss = y.sum()\nloss.backward()\n'
    return HEAD + "model, x = nn.Linear(1, 1), torch.ones(1)\n" + part * number


CALLS_ITSELF_WITH_WHAT_IT_MAKES = """\
import argparse
import torch
from timm.utils import NativeScaler
from torch import nn


def train(model, optimizer, batches, loss_scaler, args):
    for index, (x, y) in enumerate(batches):
        with torch.autocast("cuda"):
            loss = nn.functional.mse_loss(model(x), y) / args.accumulate
        update = (index + 1) % args.accumulate == 0
        loss_scaler(loss, optimizer, clip_grad=args.clip, parameters=model.parameters(), need_update=update)
        if update:
            optimizer.zero_grad()


def main(model, batches, args):
    optimizer = torch.optim.AdamW(model.parameters())
    loss_scaler = NativeScaler()
    if args.resume:
        states = torch.load(args.resume)
        optimizer.load_state_dict(states["optimizer"])
        loss_scaler.load_state_dict(states["scaler"])
    for _ in range(args.epochs):
        train(model, optimizer, batches, loss_scaler, args)
        torch.save({"optimizer": optimizer.state_dict(), "scaler": loss_scaler.state_dict()}, "last.pt")
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=1)
    main(nn.Linear(8, 1).cuda(), batches, parser.parse_args())
"""
COSTLY = {
    "a function that calls itself with what it makes": CALLS_ITSELF_WITH_WHAT_IT_MAKES,
    "hex literal": f"{HEAD}x = 0x{'f' * 30_000}\n",
    "long string": f"{HEAD}x = '{'f' * 300_000}'\n",
    "blanks": f"{HEAD}#{' ' * 200_000}amplint:{' ' * 200_000}ignore\n",
    "elif": _branches(60),
    "match": _cases(100),
    "numbers that change places": _swaps(40),
    "calls in a circle": _calls_in_a_circle(2_000),
    "inheritance": _inheritance(1_000),
    "suppressions": HEAD + "x = scaler  " + "# amplint: ignore[half-model] " * 2_000 + "\n",
    "regions": _regions(500),
}
TOO_MUCH = {
    "list": (f"{HEAD}x = [{'1, ' * 1_000_000}]\n", "not analysed: it has 3,000,"),
    "lines": (HEAD + "x = 1\n" * 50_000, "not analysed: it has 50,004 lines, more than 30,000"),
}


def limited(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A run that ends by a signal, or by MemoryError, where it takes more than it may."""

    seconds = math.ceil(SECONDS * _slowness())

    def limit() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))

    return subprocess.run(
        command("--no-cache", "--select", "ALL", "-j1", *arguments, fake=False),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=limit,
        timeout=300,
    )


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY.keys())
def test_what_looks_costly_is_not(tmp_path: Path, text: str) -> None:
    (tmp_path / "program.py").write_text(text)
    done = limited(tmp_path, "--output-format", "concise")
    assert (done.returncode in (0, 1), done.stderr) == (True, ""), done.returncode
    assert "AMP902" not in done.stdout


def test_a_large_table_without_imports_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "songs.py").write_text("SONGS = [\n" + '    "GradScaler blues",\n' * 40_000 + "]\n")
    done = limited(tmp_path, "--output-format", "concise")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


@pytest.mark.parametrize("text", [COSTLY["elif"], COSTLY["match"]], ids=["elif", "match"])
def test_fixes_of_many_branches_are_made(tmp_path: Path, text: str) -> None:
    (tmp_path / "program.py").write_text(text)
    done = limited(tmp_path, "--fix", "--unsafe-fixes", "--select", "backward-in-autocast")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("All good: no findings; checked 1 file.\n")


@pytest.mark.parametrize(("text", "message"), TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_a_file_that_is_too_much_is_one_finding(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "program.py").write_text(text)
    (tmp_path / "other.py").write_text("import torch\n\nwith torch.autocast('cuda'):\n    loss.backward()\n")
    done = limited(tmp_path, "--output-format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    found = {finding["path"]: finding for finding in json.loads(done.stdout)}
    assert (found["program.py"]["code"], found["program.py"]["level"]) == ("AMP902", "warning")
    assert found["program.py"]["message"].startswith(message)
    assert found["other.py"]["code"] == "AMP101"


def test_requirements_are_read_in_linear_time(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(HEAD)
    (tmp_path / "requirements.txt").write_text("torch " + "!a" * 50_000 + "\ntorch>=2." + "9" * 5_000 + "\n")
    done = limited(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_lines_that_a_program_wrote_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(COSTLY["suppressions"])
    done = limited(tmp_path)
    assert done.returncode == 1
    assert max(map(len, done.stdout.splitlines())) < 1_000
