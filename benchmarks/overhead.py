"""Times training steps as users have them: a program by itself, under a bare simulation, and under the whole of
``amplint confirm`` and ``amplint trace``.

    python benchmarks/overhead.py [--rounds N] [--models NAME...] [--devices cuda cpu gpu] [--ways confirm trace]

Each program is a process of its own, on one thread; it says itself how much of the processor's time a step took, with
all that amplint does in that process. The processes stand by each other and take turns of a few steps, so that what
else slows the machine down slows all of them; the figure is the median of the ratios of neighbouring turns, with their
quartiles. A region for CUDA is simulated: there simulation is compared with simulation. `gpu` is the
CUDA device that is there.
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles

PROGRAM = Path(__file__).with_name("training_steps.py")
ROOT = PROGRAM.parents[1]
ASKED = {"MLP 8x64": 2.0, "MLP 8x256": 1.5, "CNN": 1.15, "transformer": 1.15}
"""At most so many times the plain step; for `trace` three times."""
STEPS = {"MLP 8x64": 20, "MLP 8x256": 12, "CNN": 8, "transformer": 3}
"""Of a turn."""
WARM = 6
"""Turns that are not counted."""
SIMULATED = "--simulated"
REGIONS = {"cuda": "float16, simulated CUDA", "cpu": "bfloat16, CPU", "gpu": "float16, CUDA"}
TORCH = {"gpu": "cuda"}
"""What torch calls a device where it is called something else here."""
_STEADY = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_TOP_PAD_": "100000000",
    "MALLOC_TRIM_THRESHOLD_": "1000000000",
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
}
"""glibc keeps what is freed: how often it gives memory back to the system hangs on chance, and costs up to a fifth of a
step of the CNN."""


def commands(device: str) -> dict[str, list[str]]:
    """How the program is started, by what it is compared as."""
    on = ["--device", {"cuda": "simulated-cuda", "gpu": "cuda"}.get(device, device)]
    own = [sys.executable, "-m", "amplint"]
    alone = [sys.executable, str(PROGRAM)]
    return {
        "plain": [sys.executable, __file__, SIMULATED] if device == "cuda" else alone,
        "confirm": [*own, "confirm", *on, str(PROGRAM), "--", str(PROGRAM)],
        "trace": [*own, "trace", *on, "--", str(PROGRAM)],
    }


class Process:
    """A training program that waits for its turns."""

    def __init__(self, command: list[str], model: str, device: str, folder: Path) -> None:
        turns, told = folder / "turns", folder / "told"
        os.mkfifo(turns)
        os.mkfifo(told)
        self._process = subprocess.Popen(
            [*command, model, TORCH.get(device, device), str(STEPS[model]), str(turns), str(told)],
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, **_STEADY},
        )
        self._told = told.open()
        self._turns = turns.open("w")

    def turn(self) -> float:
        """Milliseconds of a step."""
        self._turns.write("\n")
        self._turns.flush()
        return float(self._told.readline())

    def end(self) -> None:
        """There are no more turns."""
        self._turns.close()
        self._told.close()
        if self._process.wait():
            raise RuntimeError(f"{self._process.args} ended with {self._process.returncode}")


def turns(ways: dict[str, list[str]], model: str, device: str, rounds: int) -> list[dict[str, float]]:
    """Milliseconds of a step in each round, by way; the first rounds are not counted."""
    with tempfile.TemporaryDirectory() as folder:
        processes = {}
        for way, command in ways.items():
            own = Path(folder) / way
            own.mkdir()
            processes[way] = Process(command, model, device, own)
        counted = [{way: it.turn() for way, it in processes.items()} for _ in range(WARM + rounds)][WARM:]
        for it in processes.values():
            it.end()
    return counted


def ratio(rounds: list[dict[str, float]], way: str) -> str:
    """Of a step to the plain one: the median and the quartiles."""
    low, middle, high = quantiles((part[way] / part["plain"] for part in rounds), n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def simulated(arguments: list[str]) -> None:
    """Runs the program under simulated CUDA and nothing else."""
    from amplint.confirm.simulation import SimulatedCuda

    sys.argv = [str(PROGRAM), *arguments]
    with SimulatedCuda():
        runpy.run_path(str(PROGRAM), run_name="__main__")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--models", nargs="*", choices=ASKED, default=list(ASKED))
    parser.add_argument("--devices", nargs="*", choices=REGIONS, default=("cuda", "cpu"))
    parser.add_argument("--ways", nargs="*", choices=("confirm", "trace"), default=("confirm", "trace"))
    options = parser.parse_args()
    print("| program | region | plain step | `confirm` / plain | asked | `trace` / plain | asked |")
    print("|---|---|---|---|---|---|---|")
    for device in options.devices:
        ways = {way: it for way, it in commands(device).items() if way in ("plain", *options.ways)}
        for model in options.models:
            rounds = turns(ways, model, device, options.rounds)
            plain = median(part["plain"] for part in rounds)
            told = [ratio(rounds, way) if way in ways else "" for way in ("confirm", "trace")]
            print(
                f"| {model} | {REGIONS[device]} | {plain:.2f} ms | {told[0]} | {ASKED[model]} | {told[1]} | 3 |",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == [SIMULATED]:
        simulated(sys.argv[2:])
    else:
        main()
