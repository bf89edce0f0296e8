"""Compares the op policy of simulated CUDA with torch's own, op by op.

    python benchmarks/fidelity.py [--on-cuda]

The oracle is AutocastCUDA itself, on fake CUDA tensors: no kernel runs, the types are right. Each op is called
with float32, half and mixed operands in a float16 region; it agrees if all results have the same types and
the same calls raise. Ops that cannot run on fake tensors are left out.

With --on-cuda the oracle is the CUDA device that is there, with its kernels, and no op is left out. CUDA is simulated
in a process from which the device is hidden.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "amp"))

import generate_op_policies as ops

from amplint.confirm.simulation import SimulatedCuda

_REFUSALS = (
    "not implemented for 'Half'",
    "Unsupported dtype Half",
    "doesn't support tensors of type: Half",
    "not yet implemented for tensors with different dtypes",
    "must have the same scalar type",
    "expected to have the same dtype",
    "expected scalar type Half but found Float",
    "Expected object of scalar type Half but got scalar type Float",
)
FAKE, SIMULATED, REAL = "fake tensors", "simulated", "a device"
COMBINATIONS = {"ff": "float32", "hh": "half", "hf": "half, float32", "fh": "float32, half"}


@dataclass(frozen=True)
class Difference:
    """An op that does something else on the simulated device."""

    op: str
    operands: str
    cuda: str
    simulated: str

    @property
    def only_the_kernel(self) -> bool:
        """Whether the types arrived as on CUDA, and the CPU's kernel refused them. Fake tensors have none."""
        return any(text in self.simulated for text in _REFUSALS)


def outcome(device: str, function: Any, sample: Any, operands: str) -> str:
    """The type of the result ("f", "h", "d", "i"), or what was raised."""
    kinds = {"f": torch.float32, "h": torch.float16}
    make = ops.Tensors if device == FAKE else ops.Filled
    tensors = make("cuda", kinds[operands[0]], kinds[operands[1]])
    region = torch.autocast("cuda:0" if device == FAKE else "cuda", dtype=torch.float16)
    try:
        arguments, keywords = sample(tensors)
        with region:
            return str(ops._kind(function(*arguments, **keywords)))
    except Exception as error:  # any failure of an op is a result
        if "device-side assert" in str(error):
            raise  # nothing runs on the device after that
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def measure(
    device: str, gradients: Any = torch.no_grad, *, every: bool = False
) -> dict[tuple[str, str], str]:
    """Outcomes by op and operands. The first sample that an op runs on counts. ``gradients`` is what the ops run under:
    ``torch.no_grad``, ``torch.inference_mode`` or ``torch.enable_grad``. ``every``: those that cannot run on fake
    tensors, too."""
    found: dict[tuple[str, str], str] = {}
    left_out = set() if every else set(ops.UNMEASURABLE_ON_CUDA)
    modes: dict[str, Any] = {
        FAKE: ops.cuda_tensors,
        SIMULATED: SimulatedCuda,
        REAL: contextlib.nullcontext,
    }
    mode = modes[device]()
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        stack.enter_context(mode)
        stack.enter_context(gradients())
        for number, (sample, names) in enumerate(ops.SAMPLES):
            for name in names.split():
                if name in left_out:
                    continue
                for spelling, function in ops.spellings(name):
                    for operands in COMBINATIONS:
                        result = outcome(device, function, sample, operands)
                        found[f"{spelling} {number}", operands] = result
    return found


def compare(*, on_cuda: bool = False) -> tuple[int, list[Difference]]:
    """How many public ops were compared, and those that differ: with fake tensors, or with a CUDA device."""
    if on_cuda:
        oracle, simulated = measure(REAL, every=True), _hidden()
    else:
        oracle, simulated = measure(FAKE), measure(SIMULATED)
    names: set[str] = set()
    differences: dict[str, Difference] = {}
    for (spelling, operands), expected in oracle.items():
        if oracle[spelling, "ff"] not in ("f", "h", "d", "i") and "unsafe" not in oracle[spelling, "ff"]:
            continue  # no such call
        op = ops_name(spelling)
        names.add(op)
        got = simulated[spelling, operands]
        if got != expected and not (expected[1:] and got[1:]):
            differences.setdefault(op, Difference(op, COMBINATIONS[operands], expected, got))
    return len(names), sorted(differences.values(), key=lambda part: part.op)


def _hidden() -> dict[tuple[str, str], str]:
    """What simulated CUDA does, in a process that sees no device."""
    told = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--tell"],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        check=True,
    )
    return {(spelling, operands): result for spelling, operands, result in json.loads(told.stdout)}


def by_gradients() -> tuple[int, list[Difference]]:
    """How many public ops were compared, and those that simulated CUDA treats differently with gradients or under
    ``inference_mode``. torch's own policy knows no difference."""
    usual = measure(SIMULATED)
    names = {ops_name(spelling) for spelling, _ in usual}
    differences = {}
    for gradients in (torch.inference_mode, torch.enable_grad):
        others = measure(SIMULATED, gradients)
        for (spelling, operands), expected in usual.items():
            got = others[spelling, operands]
            if got != expected and not (expected[1:] and got[1:]):
                op = ops_name(spelling)
                name = f"{op} under {gradients.__name__}"
                differences.setdefault(name, Difference(name, COMBINATIONS[operands], expected, got))
    return len(names), list(differences.values())


def ops_name(spelling: str) -> str:
    """The op of a spelling: "matmul" for "torch.Tensor.matmul 3"."""
    return ops_plain(spelling.split()[0])


def ops_plain(name: str) -> str:
    """The name without its module."""
    from amplint.amp.ops import plain_name

    return plain_name(name)


def main() -> None:
    """Prints the table."""
    if "--tell" in sys.argv:
        print(json.dumps([[*key, result] for key, result in measure(SIMULATED, every=True).items()]))
        return
    on_cuda = "--on-cuda" in sys.argv
    total, differences = compare(on_cuda=on_cuda)
    policy = [part for part in differences if not part.only_the_kernel]
    print(f"torch {torch.__version__}, {total} ops")
    print(f"same policy: {total - len(policy)} ({1 - len(policy) / total:.1%})")
    print(
        f"same outcome, kernels included: {total - len(differences)} ({1 - len(differences) / total:.1%})\n"
    )
    print("| op | operands | CUDA | simulated |\n|---|---|---|---|")
    for part in differences:
        print(f"| {part.op} | {part.operands} | {part.cuda} | {part.simulated} |")
    if on_cuda:
        return
    total, others = by_gradients()
    print(f"\n{total} ops with gradients, without and under inference_mode: {len(others)} differ")
    for part in others:
        print(f"* {part.op}, {part.operands}: {part.simulated} instead of {part.cuda}")


if __name__ == "__main__":
    main()
