"""Finds models that are cast to half precision and then trained.

## What it does

Follows a model that was cast with `.half()`, `.bfloat16()`, `.to(torch.float16)`, `.to(dtype=...)` or
loaded with `torch_dtype=torch.float16`, parameters that are made in half, as in
`nn.Parameter(torch.zeros(8, dtype=torch.float16))`, and those whose data is exchanged for its cast,
`p.data = p.data.half()`, in a loop or in a function for `model.apply`. It reports the place where they become half if

* the parameters go to an optimizer that a `GradScaler` steps, in float16 or bfloat16 (error); also that of accelerate,
  Fabric or transformers' `Trainer`, where the code tells them to train in float16,
* the parameters are float16 and stepped without a scaler (warning),
* the model runs in half, without gradients alone, and is then cast back with `.float()`: casts of modules work in
  place, and what was rounded stays rounded. It is a warning if the model is trained after that, advice if not: a moving
  average that is evaluated so is rounded once for each evaluation, and mostly saved in half precision anyway.

Silent: half models that only run inference and stay half, that are frozen (`requires_grad_(False)`), whose
optimizer keeps float32 copies (apex's `FP16_Optimizer`, DeepSpeed), copies for export, tensors that are cast (labels,
masks, inputs), and training in pure bfloat16 without a scaler, which is a legitimate choice. And
mixed precision by hand, where `p.data = p.data.float()` makes the parameters float32 before the optimizer steps, all
of them or those that take gradients.

## Why is this bad

Autocast wants float32 parameters. It casts them for the ops that gain from it, and the optimizer keeps
adding its small updates to the float32 originals. A model in float16 has no originals: an update that is
smaller than a four-thousandth of the weight is rounded away, and a gradient below 3e-8 is zero. Autocast
has nothing left to do but to hide the dtype errors that would otherwise show the mistake. `GradScaler`
refuses to unscale float16 gradients, and one half-precision layer in a float32 model is enough to trigger
that.

## What torch does at run time

Measured with torch 2.13.0 on the CPU:

| parameters | optimizer | result with an enabled GradScaler |
|---|---|---|
| float16 | SGD, Adam | `ValueError: Attempting to unscale FP16 gradients.` from `unscale_` or `step` |
| float16 | with `fused=True` | no error: trains float16 weights, silently |
| one `nn.PReLU().half()` in a float32 model | SGD | the same `ValueError` |
| bfloat16, on CUDA | SGD, Adam | `NotImplementedError` from `unscale_` or `step`, see below |
| bfloat16, on the CPU | SGD, Adam | no error, and no use: bfloat16 has the range of float32 |

With CUDA's scaler bfloat16 ends in `"_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for 'BFloat16'`:
seen on a device with torch 2.11, and torch 2.14.1 has no such kernel either.

* A float16 or bfloat16 parameter of 1.0 that gets a thousand SGD updates of 1e-4 is still 1.0. In float32
  it is 0.9.
* One step of Adam on float16 parameters, with a gradient of 1e-4 in one element and 0 in the others, gave
  `-inf` and three `nan`: the square of the gradient and the default `eps=1e-8` are both zero in float16.
* `p.data = p.data.half()` changes the parameter itself, with the same two results.
* `model.half()` before an evaluation and `model.float()` after it leave weights with three digits: 0.1 has
  become 0.0999755859375. A moving average of weights that is evaluated so loses what each epoch added.
* Outside a region a half model with float32 input raises `RuntimeError: mat1 and mat2 must have the same
  dtype, but got Float and Half`. Inside a region it runs.

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device).half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)
x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)

with torch.autocast(device, dtype=torch.float16):
    loss = nn.functional.mse_loss(model(x), y)
scaler.scale(loss).backward()
scaler.step(optimizer)  # raises ValueError: Attempting to unscale FP16 gradients.
scaler.update()
```

## Use instead

Leave the parameters in float32; autocast is what makes them half where it helps.

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)
x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)

with torch.autocast(device, dtype=torch.float16):
    loss = nn.functional.mse_loss(model(x), y)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

To evaluate a model in half while it is trained, run it under autocast, or cast a copy:
`copy.deepcopy(model).half()`.

When memory forces the weights into 16 bits, train in pure bfloat16: `model.bfloat16()`, no autocast, no
scaler. With adapters (LoRA) freeze the half base model and keep the adapters in float32.

## Fix safety

The fix takes the cast away and keeps what else the call does, such as the move to a device; a statement that
only casts goes, its comments stay. It is always unsafe: it doubles the memory of the weights and their
gradients. There is no fix where the file makes other values half as well, because inputs that were cast for
this model raise when they meet float32 weights outside a region. A checkpoint of half weights still loads:
`load_state_dict` casts to the dtype of the parameters.

## References

* [torch.amp: autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting)
* [pytorch#74739](https://github.com/pytorch/pytorch/issues/74739): why the scaler refuses float16 gradients
* [Micikevicius et al., Mixed Precision Training](https://arxiv.org/abs/1710.03740): why master weights are
  float32
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from amplint.events import (
    CastParameters,
    DType,
    Forward,
    FunctionEnded,
    ModuleCast,
    ObjectGone,
    OptimizerStepped,
    Place,
    ScalerUsed,
)
from amplint.findings import Assumed, Assumption, Level
from amplint.fixes.base import NoFix
from amplint.fixes.casts import RemoveCast
from amplint.rules.base import FlowRule, Report
from amplint.rules.ledger import Assumptions, of_scaler
from amplint.rules.wording import line_of


@dataclass(frozen=True, slots=True)
class State:
    """What is known on one path."""

    waiting: frozenset[tuple[CastParameters, str, CastParameters]] = frozenset()
    """Casts whose parameters an optimizer got, until a scaler meets them, what would scale the loss, and the first of
    those of one optimizer."""
    halved: frozenset[tuple[Hashable, Place, bool]] = frozenset()
    """Modules that were cast to half, where, and whether they have run since; none that has run with gradients."""
    restored: frozenset[Hashable] = frozenset()
    """Modules that were cast to float32: they may have been half before."""
    rounded: frozenset[tuple[Hashable, Place, Place]] = frozenset()
    """Those of them that had run in half, where that began, and where it ended."""


class HalfModel(FlowRule):
    """See State."""

    level = Level.ERROR
    shown_by = (ModuleCast,)
    raises = (
        r"Attempting to unscale FP16|"
        r"_amp_foreach_non_finite_check_and_unscale_cuda\W* not implemented for 'BFloat16'"
    )

    def start(self) -> Hashable:
        return State()

    def on_optimizer_stepped(self, state: State, event: OptimizerStepped, report: Report) -> Hashable:
        if event.via_scaler:
            return state
        if event.owner is not None and event.scales:
            setting = event.owner.setting
            assumes = (Assumption(Assumed.FLAG, f"with `{setting}`"),) if event.chosen else ()
            for cast in event.casts:
                scaler = f"the gradient scaler that `{setting}` makes"
                step = (event.place, "the optimizer is stepped here")
                self._tell(report, cast, _first(event.casts), scaler, step, assumes)
            return state
        setting = f"`{event.owner.setting}`" if event.owner is not None else ""
        scales = setting or ("the framework's mixed precision" if event.framework else "")
        return self._waiting(state, event.casts, scales)

    def _waiting(self, state: State, casts: Sequence[CastParameters], scales: str) -> Hashable:
        # training all in bfloat16 is a choice: it has the range of float32 and needs no scaler
        halves = [cast for cast in casts if cast.to is DType.FLOAT16]
        more = frozenset((cast, scales, _first(halves)) for cast in halves)
        return replace(state, waiting=state.waiting | more) if more - state.waiting else state

    def on_module_cast(self, state: State, event: ModuleCast, report: Report) -> Hashable:
        module = event.module
        if event.to.is_half:
            if module in state.restored or any(module == other for other, _, _ in state.halved):
                return state
            return replace(state, halved=state.halved | {(module, event.place, False)})
        # a choice of the two in one line is made anew in each call
        rounded = {
            (module, place, event.place)
            for other, place, ran in state.halved
            if other == module and ran and place.line != event.place.line
        }
        halved = frozenset(item for item in state.halved if item[0] != module)
        return State(state.waiting, halved, state.restored | {module}, state.rounded | rounded)

    def _tell_of_untrained(self, rounded: Iterable[tuple[Hashable, Place, Place]], report: Report) -> None:
        for _, place, back in rounded:
            self._tell_of_rounding(place, back, Level.ADVICE, report)

    def _tell_of_rounding(self, place: Place, back: Place, level: Level, report: Report) -> None:
        where = line_of(back, place)
        report.add(
            self,
            place,
            f"the model is cast to half precision in place, runs, and is cast back on {where}",
            why="Its weights stay rounded to three digits.",
            help="Run it under autocast, or cast a copy of it.",
            level=level,
            trail=((back, "cast back here"),),
            builder=NoFix("a copy of the model or a region around the evaluation takes more than one edit"),
        )

    def on_object_gone(self, state: State, event: ObjectGone, report: Report) -> Hashable:
        halved = frozenset(item for item in state.halved if item[0] != event.name)
        gone = frozenset(item for item in state.rounded if item[0] == event.name)
        self._tell_of_untrained(gone, report)
        return State(state.waiting, halved, state.restored - {event.name}, state.rounded - gone)

    def on_forward(self, state: State, event: Forward, report: Report) -> Hashable:
        if event.gradients:
            for module, place, back in state.rounded:
                if module == event.module:
                    self._tell_of_rounding(place, back, Level.WARNING, report)
            # what trains in half is judged by its optimizer, and what is frozen beside it loses nothing
            halved = frozenset(item for item in state.halved if item[0] != event.module)
            rounded = frozenset(item for item in state.rounded if item[0] != event.module)
            same = halved == state.halved and rounded == state.rounded
            return state if same else replace(state, halved=halved, rounded=rounded)
        if not any(module == event.module and not ran for module, _, ran in state.halved):
            return state
        halved = frozenset(
            (module, place, ran or module == event.module) for module, place, ran in state.halved
        )
        return replace(state, halved=halved)

    def on_scaler_used(self, state: State, event: ScalerUsed, report: Report) -> Hashable:
        if not event.casts or event.enabled is False:
            return state
        told: set[Place] = set()
        for cast in sorted(event.casts, key=lambda cast: cast.to is not DType.FLOAT16):
            if event.act not in ("unscale_", "step") or cast.place in told:
                continue
            told.add(cast.place)
            scaler = f"the gradient scaler used on {line_of(event.place, cast.place)}"
            step = (event.place, "a gradient scaler works on these parameters")
            self._tell(report, cast, _first(event.casts), scaler, step, of_scaler(event))
        met = set(event.casts)
        return replace(state, waiting=frozenset(item for item in state.waiting if item[0] not in met))

    def _tell(
        self,
        report: Report,
        cast: CastParameters,
        first: CastParameters,
        scaler: str,
        step: tuple[Place, str],
        assumes: Assumptions,
    ) -> None:
        """``first``: of all casts of the parameters of one optimizer, which are one finding."""
        if cast.to is DType.FLOAT16:
            dtype = "float16"
            why = (
                "`unscale_` and `step` raise `ValueError: Attempting to unscale FP16 gradients.` A fused optimizer "
                "trains the float16 weights and raises nothing."
            )
            advice = "Keep the parameters in float32; autocast chooses the half-precision ops."
        else:
            dtype = "bfloat16"
            why = (
                "On CUDA `unscale_` and `step` raise `NotImplementedError`: a scaler cannot unscale bfloat16 "
                "gradients. They need no scaling."
            )
            advice = "Keep the parameters in float32 under autocast, or drop the scaler."
        report.add(
            self,
            cast.place,
            f"the parameters become {dtype} here and are trained with {scaler}",
            why=why,
            help=advice,
            trail=(step,),
            builder=RemoveCast(cast.place),
            assumes=assumes,
            cause=_cause(first),
        )

    def on_function_ended(self, state: State, event: FunctionEnded, report: Report) -> Hashable:
        self._tell_of_untrained(state.rounded, report)
        for cast, scales, first in state.waiting:
            advice = (
                f"Keep the parameters in float32 and train with {scales}, which scales the loss."
                if scales
                else "Keep the parameters in float32 and run the forward under autocast with a GradScaler."
            )
            report.add(
                self,
                cast.place,
                "the parameters become float16 here and are then trained",
                why="An update below 1/4096 of its weight is always lost, and small gradients become zero.",
                help=advice,
                level=Level.WARNING,
                builder=RemoveCast(cast.place),
                cause=_cause(first),
            )
        return State()


def _first(casts: Sequence[CastParameters]) -> CastParameters:
    return min(casts, key=lambda cast: (cast.place.path, cast.place.line, cast.to.value))


def _cause(first: CastParameters) -> Hashable:
    return first.to, first.place.extent
