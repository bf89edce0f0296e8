"""Finds checkpoints that hold an optimizer but not its gradient scaler.

## What it does

Reports `torch.save(...)` of an object that holds the `state_dict()` of an optimizer which a `GradScaler`
steps, where nobody asks the scaler for its state. Where a helper saves what it is given, it reports the call of the
helper. All checkpoints that forget one scaler are one finding, with the other places in its trail.

Reports `optimizer.load_state_dict(saved["optimizer"])` where the checkpoint holds the state of the scaler that steps
the optimizer, nobody loads that, and no code on the way looks up the key under which it was saved.

The method that saves need not be called by the one that trains: they share the object that holds optimizer
and scaler. Where that object hands itself to a callback of which nothing is known, `callback.on_end(self)`, any method
of that name may save what it holds: the finding names the call.

An `Accelerator` of accelerate has a scaler of its own if it runs in fp16. A checkpoint that the code writes
itself, with `torch.save` or `accelerator.save`, does not hold it either, while `accelerator.save_state` does. The
rule speaks where the `Accelerator` is made with `mixed_precision="fp16"`, or with arguments that are not known,
no file on the way mentions `.scaler` or `save_state`, and the code opens no bfloat16 region of its own to train in. It
is silent for a `Fabric` of Lightning, which hands its scaler out nowhere.

Silent: checkpoints without an optimizer, which are not for resuming, and those of projects that load the weights of
models and never the state of an optimizer, as the object that gets it and the key of what it gets show; a scaler whose
`state_dict()` is called anywhere in the files that are looked at together, or that is given to code out of sight, by
itself or in a list or dict; scalers that are disabled, come from out of sight, scale losses of bfloat16 regions alone,
which need no scale, or are made anew in each round of the loop that saves, or by each call of the method that trains;
objects with parts that may hold the scaler's state, such as `**self.extra_state()` or `**kwargs` beside the
optimizer's. A dict of its own under a key, `"results": {...}`, is taken for what its key says.

## Why is this bad

The scaler's state is its scale and the count of good steps since the scale last changed. A run that is
resumed without it starts at 65536 again: the first steps are skipped until the scale has come down, or, if
it had grown, gradients underflow until it has grown back, at one doubling each 2000 steps. Momentum and the
learning-rate schedule go on meanwhile. That is the jump in the loss after each resume.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, float16, a small network whose gradients fit below a scale of 4096:
the first twenty steps of the run skip four. The next twenty skip none. After a resume without the scaler's
state they skip four again.

`load_state_dict({})` on an enabled scaler raises `RuntimeError: The source state dict is empty, possibly
because it was saved from a disabled instance of GradScaler.`

## Example

```python
import io

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
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, io.BytesIO())
```

## Use instead

```python
import io

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
states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
torch.save(states, io.BytesIO())
```

Load it with `scaler.load_state_dict(states["scaler"])`, after `update()` and never between `step()` and
`update()`.

## Fix safety

The fix is unsafe. It puts `"scaler": scaler.state_dict()` beside the state of the optimizer, wherever the file takes
that for a checkpoint, and loads it after the optimizer, under `if states.get("scaler"):`.

Old checkpoints go on being loaded, and so do those of a scaler that was off, whose state is empty. A resumed run goes
on with the scale of its checkpoint then, and whatever else reads the checkpoint finds a key more in it.

There is none where the checkpoint is loaded by code in another file, or by none that is in sight; where the scaler has
no name at one of these places or is made under a condition; and where the state of the optimizer is saved by itself.

## References

* [Saving and resuming](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html#saving-resuming)
* [transformers#11663](https://github.com/huggingface/transformers/issues/11663),
  [co-tracker#101](https://github.com/facebookresearch/co-tracker/issues/101) (with plots of the loss) and
  [vision#4923](https://github.com/pytorch/vision/issues/4923): the mistake in the field
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from amplint.events import (
    DType,
    ObjectMade,
    OptimizerMade,
    Place,
    RegionEntered,
    ScalerMade,
    ScalerUsed,
    StateLoaded,
    StateSaved,
    innermost,
)
from amplint.findings import Level
from amplint.fixes.base import NoFix
from amplint.fixes.checkpoints import SaveScaler
from amplint.rules.base import FlowRule, Report
from amplint.rules.wording import line_of

MOST = 4
_RESUMED = "resumed"


@dataclass(frozen=True)
class Stepped:
    """An optimizer that a scaler steps, where the scaler was made, and the first of the steps."""

    optimizer: Hashable
    scaler: Hashable
    made: Place
    step: Place = field(compare=False)


class State(NamedTuple):
    """What scalers have stepped, and the optimizers whose states were loaded."""

    stepped: tuple[Stepped, ...] = ()
    loaded: tuple[StateLoaded, ...] = ()
    made: tuple[tuple[Hashable, Place], ...] = ()
    """Where optimizers and scalers were made."""
    bfloat16: bool = False
    """Whether a region in bfloat16 was entered, and none that may be in float16."""
    float16: bool = False
    idle: frozenset[Hashable] = frozenset()
    """The scalers whose latest loss was scaled after regions in bfloat16 alone: it needs no scale."""

    def where(self, thing: Hashable) -> Place | None:
        """Where one of them was made, if that is known."""
        return next((place for known, place in reversed(self.made) if known == thing), None)

    def with_made(self, thing: Hashable, place: Place) -> State:
        """The same after one more was made."""
        made = (thing, place)
        return self if made in self.made else self._replace(made=(*self.made, made)[-MOST:])


class ScalerNotSaved(FlowRule):
    """A checkpoint that a run cannot go on from as if nothing had happened."""

    shown_by = (StateSaved,)
    told_by_text = True  # whether anybody resumes
    level = Level.WARNING

    def start(self) -> Hashable:
        return State()

    def on_scaler_made(self, state: State, event: ScalerMade, report: Report) -> Hashable:
        left = [part for part in state.stepped if not self.context.is_of_call(part.optimizer, event.once_in)]
        for known in left:
            if known.scaler == event.scaler:
                # it would not last until the end of the run either: scaler-in-loop
                self._withdraw(known.made, report)
        return state._replace(stepped=tuple(left)).with_made(event.scaler, event.place)

    def on_optimizer_made(self, state: State, event: OptimizerMade, report: Report) -> Hashable:
        # another run begins, which may have any scaler
        return state._replace(stepped=(), loaded=()).with_made(event.optimizer, event.place)

    def on_object_made(self, state: State, event: ObjectMade, report: Report) -> Hashable:
        left = [known for known in state.stepped if not self.context.belongs(known.optimizer, event.identity)]
        return state._replace(stepped=tuple(left))

    def on_state_loaded(self, state: State, event: StateLoaded, report: Report) -> Hashable:
        return state if event in state.loaded else state._replace(loaded=(*state.loaded, event)[-MOST:])

    def on_region_entered(self, state: State, event: RegionEntered, report: Report) -> Hashable:
        region = innermost(event.regions)
        if region is None or not region.enabled or state.float16 or not event.gradients:
            return state  # no loss that is scaled comes from a validation
        bfloat16 = region.dtype is DType.BFLOAT16
        return state._replace(bfloat16=bfloat16, float16=not bfloat16)

    def on_scaler_used(self, state: State, event: ScalerUsed, report: Report) -> Hashable:
        if event.act == "scale":
            others = state.idle - {event.scaler}
            state = state._replace(idle=others | {event.scaler} if state.bfloat16 else others)
        if event.made is None:
            return state
        offered = event.act in ("state_dict", "load_state_dict") and self.context.only_offers_state(event)
        if event.act in ("given", "state_dict") and not offered:
            self._withdraw(event.made, report)
        if event.act in ("given", "load_state_dict") and not offered:
            self._withdraw(event.made, report, _RESUMED)
        if event.act != "step" or event.optimizer is None or event.enabled is False:
            return state
        if any(known.optimizer == event.optimizer for known in state.stepped):
            return state
        stepped = Stepped(event.optimizer, event.scaler, event.made, event.place)
        return state._replace(stepped=(*state.stepped, stepped)[-MOST:])

    def _withdraw(self, made: Place, report: Report, *about: str) -> None:
        """Takes back what is said of a scaler. Where it is not known which call of a function made it, ``self.scaler =
        make_scaler()``, it may be any that was made on that line."""
        call = _call(made)
        report.withdraw(self, (made.extent, *about) if call is None else (made.extent, *about, call))
        report.withdraw(self, (made.extent, *about, None))

    def on_state_saved(self, state: State, event: StateSaved, report: Report) -> Hashable:
        whole = event.complete and not event.hidden
        mixed = not state.bfloat16  # who opens such a region does not run in fp16
        if event.prepared and mixed and whole and not event.scalers and self._is_resumed_without(event):
            for made, taken in zip(event.prepared, event.taken, strict=False):
                if made is not None:
                    self._tell_of_accelerator(made, taken, event, report)
        for known in state.stepped:
            if known.scaler in state.idle or self._is_gone_by_then(known, state, event):
                continue
            self._judge(known, event, report)
            self._judge_resumed(known, state.loaded, event, report)
        return state

    def _is_gone_by_then(self, known: Stepped, state: State, event: StateSaved) -> bool:
        """Whether each round of a loop makes a scaler and saves, and the optimizer was there before: it would not last
        until the end of the run either."""
        scaler, optimizer = state.where(known.scaler), state.where(known.optimizer)
        if scaler is None or optimizer is None:
            return False
        return self.context.is_anew_in_each_round(scaler, event.place, optimizer)

    def _is_resumed_without(self, event: StateSaved) -> bool:
        """Whether somebody may go on from a checkpoint, and nobody minds the scaler of the framework."""
        return self.context.may_be_resumed(event) and not self.context.framework_saves_scaler(event)

    def _tell_of_accelerator(
        self, made: Place, taken: Place | None, event: StateSaved, report: Report
    ) -> None:
        where = line_of(made, _place_of(event))
        message = (
            "this checkpoint has the optimizer's state but not that of the gradient scaler which the Accelerator made "
            f"on {where} has in fp16"
        )
        advice = (
            'Add `"scaler": accelerator.scaler.state_dict()` where `accelerator.scaler` is not None and load it where '
            "the optimizer is loaded, or write the checkpoint with `accelerator.save_state()`."
        )
        trail = ((made, "the Accelerator is made here"), *_parts(event, taken))
        builder = NoFix("the scaler is the framework's: choose one of the two ways by hand")
        report.add(
            self,
            _place_of(event),
            message,
            why='With mixed_precision="fp16" a run that is resumed starts at a scale of 65536 again, and skips steps '
            "or loses small gradients until the scale has found its place.",
            help=advice,
            trail=trail,
            subject=made,
            cause=made,
            builder=builder,
        )

    def _judge(self, known: Stepped, event: StateSaved, report: Report) -> None:
        if known.optimizer not in event.optimizers or not event.complete:
            return
        if known.scaler in event.scalers:
            self._withdraw(known.made, report)
            return
        if not all(self.context.came_before(part, known.scaler) for part in event.hidden):
            return
        taken = event.taken[event.optimizers.index(known.optimizer)] if event.taken else None
        if not self.context.may_be_resumed(event):
            return
        where = line_of(known.made, _place_of(event))
        trail = ((known.made, "the scaler is made here"), *_parts(event, taken))
        report.add(
            self,
            _place_of(event),
            f"this checkpoint has the optimizer's state but not that of the gradient scaler made on {where}",
            why="A resumed run starts at the initial scale again, and skips steps or loses small gradients until the "
            "scale has found its place.",
            help='Add `"scaler": scaler.state_dict()`, and load it where the optimizer is loaded.',
            trail=trail,
            subject=(known.made.extent, _call(known.made)),
            part_of=(known.made.extent,),
            # the last, the best and the regular checkpoint forget one scaler
            cause=(known.made.extent, _call(known.made)),
            builder=SaveScaler(taken, known.made, known.step),
        )

    def _judge_resumed(
        self, known: Stepped, loaded: tuple[StateLoaded, ...], event: StateSaved, report: Report
    ) -> None:
        """What is saved of the scaler and never loaded, where the optimizer is."""
        load = next((one for one in loaded if one.optimizer == known.optimizer), None)
        key = dict(zip(event.scalers, event.keys, strict=False)).get(known.scaler)
        if load is None or key is None or self.context.is_looked_up(load, key):
            return
        trail = ((known.made, "the scaler is made here"), (event.place, "its state is saved here"))
        report.add(
            self,
            load.place,
            f"the optimizer's state is loaded, and that of its gradient scaler, saved under {key!r}, is not",
            why="The resumed run starts at the initial scale again, and skips steps or loses small gradients until the "
            "scale has found its place.",
            help=f"Call `scaler.load_state_dict(…[{key!r}])` beside it.",
            trail=trail,
            subject=(known.made.extent, _RESUMED, _call(known.made)),
            part_of=(known.made.extent, _RESUMED),
            cause=(known.made.extent, _call(known.made)),
            builder=NoFix("what is to happen with checkpoints without that key is for its author to say"),
        )


def _call(made: Place) -> Hashable:
    """The call of the function that made a scaler, which tells apart those of one line."""
    return made.calls[-1].extent if made.calls else None


def _place_of(event: StateSaved) -> Place:
    """Where something is forgotten: the call that saves, or the call of a helper that saves what it is given: of one in
    another file, or with the dict itself as an argument."""
    written, calls = event.written, event.place.calls
    if written is None or not calls or (written.path == event.place.path and not _holds(calls[-1], written)):
        return event.place
    return calls[-1].reached_by(calls[:-1])


def _holds(call: Place, part: Place) -> bool:
    return call.path == part.path and call.span.holds(part.span)


def _parts(event: StateSaved, taken: Place | None) -> tuple[tuple[Place, str], ...]:
    """The steps of the trail that tell what the checkpoint is made of."""
    steps = (
        (event.written, "the checkpoint is put together here"),
        (taken, "the optimizer's state is taken here"),
    )
    return tuple((place, text) for place, text in steps if place is not None)
