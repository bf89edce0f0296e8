"""Measures what autocast does to the ops of torch, by the names under which people call them, and writes the row
of the installed release into ``amplint/amp/op_policies.json``.

    python tests/amp/generate_op_policies.py           # measures the installed torch, and writes the table
    python tests/amp/generate_op_policies.py --check   # compares it with the installed torch

CPU policies are measured on CPU tensors in bfloat16. CUDA policies are measured on fake CUDA tensors: torch's
own AutocastCUDA kernels cast them, and no GPU and no CUDA build is needed. Fake CUDA tensors must not
require grad (a parameter aborts the process in CPU builds), and a few ops that ask the device for its
properties cannot run on them: these are taken from torch's header and source, see ``UNMEASURABLE_ON_CUDA``.

In the file, what is the same in consecutive releases is written once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from half_kernels import WITHOUT_HALF_KERNELS, operands_of_kernel
from op_samples import (
    AMBIGUOUS_METHODS,
    MODULES,
    MOVES,
    REFUSED_ON_CUDA,
    SAMPLES,
    SENSITIVE,
    UNMEASURABLE_IN_OLD_RELEASES,
    UNMEASURABLE_ON_CUDA,
    Filled,
    Sample,
    Tensors,
)
from overload_policies import POLICIES
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

TABLE = Path(__file__).parents[2] / "amplint" / "amp" / "op_policies.json"
SOURCE = (
    "measured by tests/amp/generate_op_policies.py: cuda on fake CUDA tensors (AutocastCUDA dispatch, no GPU), "
    "cpu on CPU tensors in bfloat16; unmeasurable ones, and what is done to overloads on CUDA, from "
    "torch/include/ATen/autocast_mode.h, aten/src/ATen/autocast_mode.cpp and aten/src/ATen/cudnn/AutocastRNN.cpp"
)
SECTIONS = ("ops", "modules", "overloads")
"""The parts of the table that differ by release: facts by name."""

UNKNOWN = "unknown"
"""Stands for what has to be looked into before it is written: spellings or types that disagree, and kernels that
overload_policies.py does not have."""

Facts = dict[str, Any]
Section = dict[str, Facts]
Release = tuple[int, int]


FLOAT, HALF = "f", "h"


@dataclass(frozen=True)
class Outcome:
    """The type that an op gave back, or why it gave none."""

    kind: str
    message: str = ""


def _kind(result: Any) -> str:
    """f, h, d, i, or "none": of the first tensor in a result."""
    if isinstance(result, Tensor):
        if result.dtype in (torch.float16, torch.bfloat16, torch.complex32):
            return HALF
        if result.dtype in (torch.float32, torch.complex64):
            return FLOAT
        if result.dtype in (torch.float64, torch.complex128):
            return "d"
        return "i"
    if isinstance(result, (tuple, list)):
        for item in result:
            kind = _kind(item)
            if kind != "none":
                return kind
    return "none"


def spellings(name: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public callables of this name."""
    if "." in name:
        module, _, attribute = name.partition(".")
        dotted = getattr(getattr(torch, module), attribute, None)
        if dotted is not None:
            yield f"torch.{name}", dotted
        return
    for prefix, owner in (("torch", torch), ("torch.nn.functional", functional), ("torch.Tensor", Tensor)):
        found = getattr(owner, name, None)
        if callable(found):
            yield f"{prefix}.{name}", found


def _call(function: Callable[..., Any], sample: Sample, tensors: Tensors) -> Outcome:
    try:
        arguments, keywords = sample(tensors)
        if keywords.get("device"):
            keywords = {**keywords, "device": tensors.device}
        with torch.autocast(
            f"{tensors.device}:0", dtype=torch.float16 if tensors.device == "cuda" else torch.bfloat16
        ):
            return Outcome(_kind(function(*arguments, **keywords)))
    except Exception as error:  # any failure of an op is a result
        return Outcome("raises", f"{type(error).__name__}: {str(error).splitlines()[0]}")


def measure(
    device: str, function: Callable[..., Any], sample: Sample, make: type[Tensors] = Tensors
) -> str | None:
    """The policy of a callable under autocast on a device, or None where it does not run. ``make``: the operands."""
    half = torch.float16 if device == "cuda" else torch.bfloat16
    outcome: dict[str, Outcome] = {}
    operands = 0
    for first, rest in ("ff", "hh", "hf", "fh"):
        kinds = {FLOAT: torch.float32, HALF: half}
        tensors = make(device, kinds[first], kinds[rest])
        outcome[first + rest] = _call(function, sample, tensors)
        operands = max(operands, tensors.made)
    floats, halves, half_first, half_rest = (outcome[key] for key in ("ff", "hh", "hf", "fh"))
    if "unsafe to autocast" in floats.message:
        return "banned"
    if floats.kind == "raises":
        return None
    if floats.kind == "i":
        return "integer"
    if operands == 0:
        return "factory"
    if floats.kind == HALF:
        return "lower"
    if floats.kind == FLOAT and halves.kind == FLOAT:
        return "float32"
    if halves.kind not in (HALF, "raises"):
        return None
    if operands > 1 and half_first.kind == FLOAT and half_rest.kind == FLOAT:
        return "promote"
    return "untouched"


def measured_names() -> list[str]:
    """Every op that a sample exists for, once."""
    return sorted({name for _, names in SAMPLES for name in names.split()})


def cuda_tensors() -> Any:
    """The mode under which CUDA tensors exist without a GPU. Its complaints are results here, not errors."""
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    return FakeTensorMode(allow_non_fake_inputs=True)


def measure_all(device: str, wanted: Iterable[str], *, real: bool = False) -> dict[str, str]:
    """The policy of each wanted op that runs on a device, UNKNOWN where its spellings disagree. ``real``: on the CUDA
    device that is there, instead of fake tensors."""
    names = frozenset(wanted)
    found: dict[str, str] = {}
    fake = device == "cuda" and not real
    with torch.no_grad(), cuda_tensors() if fake else contextlib.nullcontext():
        for sample, group in SAMPLES:
            for name in names.intersection(group.split()):
                for _, function in spellings(name):
                    policy = measure(device, function, sample, Filled if real else Tensors)
                    if policy is None:
                        continue
                    if policy == "untouched" and name in MOVES:
                        policy = "view"
                    if found.setdefault(name, policy) != policy:
                        found[name] = UNKNOWN
    return found


def moves_elements(name: str) -> bool:
    """Whether all elements of the result are elements of the operands, or 0."""
    for sample, group in SAMPLES:
        if name not in group.split():
            continue
        for _, function in spellings(name):
            arguments, keywords = sample(Tensors("cpu", torch.float32, torch.float32))
            try:
                result = function(*arguments, **keywords)
            except (TypeError, RuntimeError):
                continue
            return _elements(result) <= _elements(arguments) | {0.0}
    return False


def _elements(value: Any) -> set[float]:
    if isinstance(value, Tensor):
        return set(value.flatten().tolist()) if value.is_floating_point() else set()
    if isinstance(value, (tuple, list)):
        return set().union(*(_elements(item) for item in value))
    return set()


def weighted_modules() -> dict[str, tuple[nn.Module, tuple[Tensor, ...]]]:
    """One module and its input for each op with weights of its own."""
    row, pair = torch.rand(2, 4), (torch.rand(2, 4), torch.rand(2, 4))
    line, image, volume = torch.rand(2, 4, 8), torch.rand(2, 4, 8, 8), torch.rand(2, 4, 8, 8, 8)
    tokens = torch.rand(2, 4, 4)
    return {
        "linear": (nn.Linear(4, 4), (row,)),
        "bilinear": (nn.Bilinear(4, 4, 4), pair),
        "conv1d": (nn.Conv1d(4, 4, 3), (line,)),
        "conv2d": (nn.Conv2d(4, 4, 3), (image,)),
        "conv3d": (nn.Conv3d(4, 4, 3), (volume,)),
        "conv_transpose1d": (nn.ConvTranspose1d(4, 4, 3), (line,)),
        "conv_transpose2d": (nn.ConvTranspose2d(4, 4, 3), (image,)),
        "conv_transpose3d": (nn.ConvTranspose3d(4, 4, 3), (volume,)),
        "prelu": (nn.PReLU(), (row,)),
        "lstm": (nn.LSTM(4, 4), (tokens,)),
        "gru": (nn.GRU(4, 4), (tokens,)),
        "rnn": (nn.RNN(4, 4), (tokens,)),
        "lstm_cell": (nn.LSTMCell(4, 4), (row,)),
        "gru_cell": (nn.GRUCell(4, 4), (row,)),
        "rnn_cell": (nn.RNNCell(4, 4), (row,)),
        "multi_head_attention_forward": (nn.MultiheadAttention(4, 1), (tokens, tokens, tokens)),
        "transformer_encoder_layer": (nn.TransformerEncoderLayer(4, 1, 8), (tokens,)),
        "transformer_decoder_layer": (nn.TransformerDecoderLayer(4, 1, 8), (tokens, tokens)),
        "transformer": (nn.Transformer(4, 1, 1, 1, 8), (tokens, tokens)),
        "adaptive_log_softmax_with_loss": (
            nn.AdaptiveLogSoftmaxWithLoss(4, 8, [4]),
            (row, torch.zeros(2, dtype=torch.long)),
        ),
        "layer_norm": (nn.LayerNorm(4), (row,)),
        "group_norm": (nn.GroupNorm(2, 4), (line,)),
        "rms_norm": (nn.RMSNorm(4), (row,)),
        "batch_norm": (nn.BatchNorm1d(4), (row,)),
        "instance_norm": (nn.InstanceNorm1d(4, affine=True), (line,)),
    }


def run_module(name: str, dtype: torch.dtype, *, autocast: bool, device: str = "cpu") -> Outcome:
    """The type of a float32 module's output for an input of this type."""
    module, inputs = weighted_modules()[name]
    cast = [value.to(device, dtype) if value.is_floating_point() else value.to(device) for value in inputs]
    try:
        with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
            return Outcome(_kind(module.to(device)(*cast)))
    except (RuntimeError, ValueError) as error:
        return Outcome("raises", str(error).splitlines()[0])


def weights_meet_half(name: str, device: str = "cpu") -> str:
    """What a module with float32 weights does with a half input outside autocast: raises, accepts (a half result)
    or promotes (a float32 result). UNKNOWN if float16 and bfloat16 differ."""
    outcomes = {
        run_module(name, dtype, autocast=False, device=device).kind
        for dtype in (torch.float16, torch.bfloat16)
    }
    if len(outcomes) != 1:
        return UNKNOWN
    return {"raises": "raises", HALF: "accepts", FLOAT: "promotes"}[outcomes.pop()]


def module_policy(name: str, device: str = "cpu") -> str:
    """The policy of an op that is only measured as a module. On the CPU an LSTM in float32 raises on a processor for
    which oneDNN has no bfloat16 kernel: autocast has cast what it was given."""
    floats, halves = (
        run_module(name, dtype, autocast=True, device=device) for dtype in (torch.float32, torch.bfloat16)
    )
    without = run_module(name, torch.float32, autocast=False, device=device)
    if floats.kind == HALF or (floats.kind == "raises" and without.kind == FLOAT):
        return "lower"
    return "float32" if halves.kind == FLOAT else "untouched"


def lacks(name: str, device: str = "cpu") -> str | None:
    """For which half-precision types an op raises: "half", "float16", "bfloat16" or None. None too where it raises on
    float32."""
    function = next((function for _, function in spellings(name)), None)

    def raises(dtype: torch.dtype) -> bool:
        try:
            operands = operands_of_kernel(name, dtype)
            function(*(it.to(device) if isinstance(it, Tensor) else it for it in operands))  # type: ignore[misc]
        except RuntimeError:
            return True
        return False

    if function is None or raises(torch.float32):
        return None
    missing = [name for name in ("float16", "bfloat16") if raises(getattr(torch, name))]
    return "half" if len(missing) == 2 else next(iter(missing), None)


def registered(key: str) -> list[str]:
    """The overloads that torch registers for an autocast dispatch key, in builds without CUDA."""
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return sorted(
        {name.removeprefix("aten::") for name in names if name.startswith("aten::")} - {"_cudnn_rnn"}
    )


def cuda_policies(measured: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """What was measured, and what is known of the ops that this release has and that cannot be measured."""
    gaps = {name: policy for name, policy in UNMEASURABLE_IN_OLD_RELEASES.items() if name in known}
    by_hand = {name: policy for name, (policy, _) in UNMEASURABLE_ON_CUDA.items() if name in known}
    return {**gaps, **measured, **by_hand}


def measured_ops() -> Section:
    """What this release does to ops."""
    names = measured_names()
    weighted = weighted_modules()
    on_cpu = measure_all("cpu", names)
    for name in sorted(set(weighted) - set(on_cpu)):
        on_cpu[name] = module_policy(name)
    on_cuda = cuda_policies(measure_all("cuda", names), on_cpu)
    found: Section = {}
    for name in sorted({*on_cuda, *on_cpu}):
        facts = {
            "cuda": on_cuda.get(name),
            "cpu": on_cpu.get(name),
            "weights": weights_meet_half(name) if name in weighted else None,
            "weights_on_cuda": "raises" if name in REFUSED_ON_CUDA else None,
            "lacks": lacks(name) if name in WITHOUT_HALF_KERNELS else None,
        }
        found[name] = {key: fact for key, fact in facts.items() if fact is not None}
    return found


def measured_overloads() -> Section:
    """The overloads with an autocast kernel in this release."""
    policies = {name: policy for policy, names in POLICIES.items() for name in names.split()}
    on_cuda, on_cpu = set(registered("AutocastCUDA")), set(registered("AutocastCPU"))
    on_cuda.update(POLICIES["recurrent"].split())
    found: Section = {}
    for name in sorted(on_cuda | on_cpu):
        found[name] = {
            **({"cuda": policies.get(name, UNKNOWN)} if name in on_cuda else {}),
            **({"cpu": True} if name in on_cpu else {}),
        }
    return found


def modules() -> Section:
    """Qualified class name to op name, for the classes of this release."""
    return {
        f"torch.nn.{name}": {"op": op}
        for op, names in sorted(MODULES.items())
        for name in names.split()
        if hasattr(nn, name)
    }


def measure_release() -> dict[str, Section]:
    """The sections of the table, for the installed torch."""
    return {"ops": measured_ops(), "modules": modules(), "overloads": measured_overloads()}


def installed() -> Release:
    """The release of the installed torch."""
    major, minor, *_ = torch.__version__.split(".")
    return int(major), int(minor)


def spelt(release: Release) -> str:
    """ "2.13"."""
    return ".".join(map(str, release))


def rows_by_release(table: Mapping[str, Any]) -> dict[Release, dict[str, Section]]:
    """The sections of each release that the table was measured on."""
    from amplint.amp import ops

    def of(release: Release) -> dict[str, Section]:
        return {
            section: {
                name: {key: fact for key, fact in row.items() if key not in ("since", "until")}
                for name in table[section]
                for row in ops.rows(section, name, (release, release))
            }
            for section in SECTIONS
        }

    return {release: of(release) for release in ops.releases()}


def joined(section: str, by_release: Mapping[Release, dict[str, Section]]) -> dict[str, Any]:
    """A section of the file: of each name what is true of it, and of which releases."""
    releases = sorted(by_release)
    names = sorted({name for sections in by_release.values() for name in sections[section]})
    found: dict[str, Any] = {}
    for name in names:
        spans: list[Facts] = []
        previous: Facts | None = None
        for release in releases:
            facts = by_release[release][section].get(name)
            if facts is not None and facts != previous:
                spans.append({**facts, **({"since": spelt(release)} if release != releases[0] else {})})
            if facts is not None and release != releases[-1]:
                spans[-1]["until"] = spelt(release)
            elif facts is not None:
                spans[-1].pop("until", None)
            previous = facts
        found[name] = spans[0] if len(spans) == 1 else spans
    return found


def tensor_methods(ops: Mapping[str, Facts]) -> list[str]:
    """Methods that autocast casts on CUDA and that nothing but a tensor is likely to have."""
    return sorted(
        name
        for name, facts in ops.items()
        if facts.get("cuda") in ("lower", "float32")
        and not name.startswith("__")
        and hasattr(Tensor, name)
        and not hasattr(numpy.ndarray, name)
        and name not in AMBIGUOUS_METHODS
    )


def sensitive() -> dict[str, str]:
    """Op name to the harm that half precision does to it."""
    return {name: category for category, names in SENSITIVE.items() for name in names.split()}


def build(
    versions: Mapping[Release, str], by_release: Mapping[Release, dict[str, Section]]
) -> dict[str, Any]:
    """The whole table, of releases and what was measured on each. The judgements are those of the newest."""
    newest = max(by_release)
    methods = (
        tensor_methods(by_release[newest]["ops"])
        if newest == installed()
        else json.loads(TABLE.read_text(encoding="utf-8"))["tensor_methods"]
    )
    return {
        "source": SOURCE,
        "releases": {spelt(release): versions[release] for release in sorted(by_release)},
        "ops": joined("ops", by_release),
        "not_measured_on_cuda": {name: why for name, (_, why) in sorted(UNMEASURABLE_ON_CUDA.items())},
        "sensitive": dict(sorted(sensitive().items())),
        "modules": joined("modules", by_release),
        "tensor_methods": methods,
        "overloads": joined("overloads", by_release),
    }


def render(table: dict[str, Any]) -> str:
    """JSON with one op a line, so that a change of torch reads as a diff of lines."""
    sections = []
    for key, value in table.items():
        if isinstance(value, dict):
            rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in value.items())
            sections.append(f"  {json.dumps(key)}: {{\n{rows}\n  }}")
        else:
            sections.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def main() -> int:
    """Writes the table, or compares it with the installed torch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    before = json.loads(TABLE.read_text(encoding="utf-8"))
    by_release = rows_by_release(before)
    row = by_release[installed()] = measure_release()
    unclear = [
        name for section in row.values() for name, facts in section.items() if UNKNOWN in facts.values()
    ]
    if unclear:
        print(f"not written, have a look at {', '.join(unclear)}")
        return 1
    versions = {
        (int(name.split(".")[0]), int(name.split(".")[1])): of for name, of in before["releases"].items()
    }
    versions[installed()] = torch.__version__.partition("+")[0]
    text = render(build(versions, by_release))
    if options.check:
        same = TABLE.read_text(encoding="utf-8") == text
        print("up to date" if same else "differs: run without --check and read the diff")
        return 0 if same else 1
    TABLE.write_text(text, encoding="utf-8", newline="\n")
    print(f"wrote {TABLE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
