"""Times training steps as users have them: a program by itself, under a bare simulation, and under the whole of
``amplint confirm`` and ``amplint trace``.

    python benchmarks/overhead.py [--steps N] [--rounds N] [--models NAME...] [--devices cuda cpu]

Each run is a process of its own, on one thread; it says itself how much of the processor's time a step took, with all
that amplint does in that process. The runs take turns, and the figure is the median over the rounds. A region for CUDA
is simulated: there simulation is compared with simulation.
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

PROGRAM = Path(__file__).with_name("training_steps.py")
ROOT = PROGRAM.parents[1]
ASKED = {"MLP 8x64": 2.0, "MLP 8x256": 1.5, "CNN": 1.15, "transformer": 1.15}
"""At most so many times the plain step; for `trace` three times."""
STEPS = {"MLP 8x64": 400, "MLP 8x256": 200, "CNN": 60, "transformer": 40}
SIMULATED = "--simulated"
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
    on = ["--device", "simulated-cuda" if device == "cuda" else "cpu"]
    own = [sys.executable, "-m", "amplint"]
    alone = [sys.executable, str(PROGRAM)]
    return {
        "plain": [sys.executable, __file__, SIMULATED] if device == "cuda" else alone,
        "confirm": [*own, "confirm", *on, str(PROGRAM), "--", str(PROGRAM)],
        "trace": [*own, "trace", *on, "--", str(PROGRAM)],
    }


def milliseconds(command: list[str], model: str, device: str, steps: int) -> float:
    """Of a step."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "milliseconds"
        subprocess.run(
            [*command, model, device, str(steps), str(file)],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, **_STEADY},
        )
        return float(file.read_text())


def simulated(arguments: list[str]) -> None:
    """Runs the program under simulated CUDA and nothing else."""
    from amplint.confirm.simulation import SimulatedCuda

    sys.argv = [str(PROGRAM), *arguments]
    with SimulatedCuda():
        runpy.run_path(str(PROGRAM), run_name="__main__")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, help="instead of the number that is usual for a model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="*", choices=ASKED, default=list(ASKED))
    parser.add_argument("--devices", nargs="*", choices=("cuda", "cpu"), default=("cuda", "cpu"))
    parser.add_argument("--ways", nargs="*", choices=("confirm", "trace"), default=("confirm", "trace"))
    options = parser.parse_args()
    print("| program | region | plain step | `confirm` / plain | asked | `trace` / plain | asked |")
    print("|---|---|---|---|---|---|---|")
    for device in options.devices:
        ways = {way: it for way, it in commands(device).items() if way in ("plain", *options.ways)}
        for model in options.models:
            steps = options.steps or STEPS[model]
            rounds = [
                {way: milliseconds(command, model, device, steps) for way, command in ways.items()}
                for _ in range(options.rounds)
            ]
            plain = median(part["plain"] for part in rounds)
            told = [
                f"{median(part[way] for part in rounds) / plain:.2f}" if way in ways else ""
                for way in ("confirm", "trace")
            ]
            region = "float16, simulated CUDA" if device == "cuda" else "bfloat16, CPU"
            print(
                f"| {model} | {region} | {plain:.2f} ms | {told[0]} | {ASKED[model]} | {told[1]} | 3 |",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == [SIMULATED]:
        simulated(sys.argv[2:])
    else:
        main()
