"""Backward passes, optimizers and gradient scalers as they are called, and what is done to gradients."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.amp.grad_scaler import GradScaler
from torch.nn.utils import clip_grad
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from amplint.amp.scalers import CLIPS, READS, TAKES_SCALE
from amplint.confirm import arguments
from amplint.confirm.dtypes import HALF, named
from amplint.confirm.places import Site
from amplint.confirm.provenance import Penalty, Scaled, operand
from amplint.confirm.watching import Watch
from amplint.events import (
    BY_SCALE,
    INITIAL_SCALE,
    Backward,
    CastParameters,
    Converted,
    GradientsRead,
    GradientsZeroed,
    OptimizerMade,
    OptimizerStepped,
    Place,
    ScaledLossRead,
    ScalerAtHand,
    ScalerMade,
    ScalerUsed,
    SchedulerStepped,
    StateSaved,
)

_TAG = "amplint.scaled_by"
_DEEPEST = 8
"""Nodes that are looked at on the way from a loss back to its scaler."""
_DEEPEST_PART = 8
"""So deep the parts of a checkpoint are looked at."""
_PLAIN = (torch.Tensor, int, float, str, bytes, type(None))
_PICKLING = ("__reduce__", "__reduce_ex__", "__getstate__")
_ACTS = ("scale", "unscale_", "step", "update", "get_scale", "state_dict", "load_state_dict")


def install(watch: Watch) -> None:
    """Watches backward passes, optimizers and scalers."""
    watcher = _Watcher(watch)
    wrap = watch.patches.wrap
    for module in (torch.autograd, torch.autograd.graph):
        wrap(module, "_engine_run_backward", watcher.engine)
    wrap(torch.autograd, "grad", watcher.grad)
    wrap(Optimizer, "__init__", watcher.optimizer_init)
    wrap(Optimizer, "zero_grad", watcher.zero_grad)
    wrap(Optimizer, "state_dict", watcher.optimizer_state)
    wrap(torch.nn.Module, "zero_grad", watcher.zero_grad)
    wrap(LRScheduler, "step", watcher.scheduler)
    for kind in _subclasses(Optimizer):
        watcher.leave_alone(kind)
    handle = register_optimizer_step_post_hook(watcher.stepped)
    watch.hooked(handle)
    scaler = torch.amp.grad_scaler.GradScaler
    wrap(scaler, "__init__", watcher.scaler_init)
    for owner in (scaler, torch.cuda.amp.GradScaler, torch.cpu.amp.grad_scaler.GradScaler):
        wrap(owner, "__init__", partial(arguments.watched, watch, owner))
    for act in _ACTS:
        wrap(scaler, act, partial(watcher.scaler_method, act))
    wrap(scaler, "_unscale_grads_", watcher.unscaled)
    for name in sorted(CLIPS):
        for module in (clip_grad, torch.nn.utils):
            wrap(module, name, partial(watcher.clip, name))
    for name in sorted(READS | {"__int__", "__array__"}):
        wrap(torch.Tensor, name, partial(watcher.read, name))
    for module in (torch, torch.serialization):
        wrap(module, "save", watcher.save)


class _Applied(NamedTuple):
    """A parameter and its gradient that a scaler's step has applied, to stand for the others of the optimizer. The
    version is that of the gradient then, or None once it was told that the next backward pass adds to it."""

    parameter: weakref.ref[torch.Tensor]
    gradient: weakref.ref[torch.Tensor]
    version: int | None
    modules: frozenset[Hashable]


class _Watcher:
    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self._scalers_made: dict[Hashable, Site] = {}
        self._unobserved: set[type] = set()
        self._optimizers_made: set[Hashable] = set()
        self._states: dict[int, tuple[Any, str, Hashable, Place | None]] = {}
        self._has_tagged = False
        """Whether any loss was scaled."""

    # backward -----------------------------------------------------------------------------------------------

    def engine(self, original: Any) -> Any:
        here, guarded, tell = self.watch.here, self.watch.guarded, self._backward

        def _engine_run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            self.watch.wake()
            # a backward pass within another one is torch's own: checkpoints run their part again; in the forward of a
            # Function it is a part of that of the Function
            if here.backward == 0 and here.functions == 0 and kwargs.get("accumulate_grad"):
                guarded(tell, outputs, bool(len(args) > 3 and args[3]))
            here.backward += 1
            try:
                return original(outputs, *args, **kwargs)
            finally:
                here.backward -= 1

        return _engine_run_backward

    def _backward(self, outputs: Any, inputs_given: bool) -> None:
        site = self.watch.site(3)
        if site is None:
            return
        scaled_by = tuple(dict.fromkeys(name for output in outputs for name in self.scalers_of(output)))
        kept = self._kept(site) if self.watch.applied else frozenset()
        direct = self.watch.sites.direct(sys._getframe(0)) is not None
        multiplied = _multiplied(outputs)
        by_hand = not self._scalers_made and multiplied
        plain = direct and not scaled_by and not multiplied
        event = Backward(
            site,
            self.watch.here.regions,
            _how(site),
            bool(scaled_by),
            scaled_by=scaled_by,
            loss=self._loss(outputs),
            unclear=not scaled_by and (not direct or by_hand),
            partial=inputs_given,
            kept=kept,
        )
        at_hand = self._at_hand() if plain and self._scalers_made else None
        if at_hand is not None:
            self.watch.context.note_at_hand(event, at_hand)
        self.watch.tell(event)

    def _kept(self, site: Site) -> frozenset[Hashable]:
        """The optimizers whose gradients a scaler's step has applied and nobody has touched since. Of others it tells
        that they were dropped, which code can do without a call."""
        kept: set[Hashable] = set()
        for name, (parameter, gradient, version, modules) in list(self.watch.applied.items()):
            here, then = parameter(), gradient()
            # what was written into a gradient is taken for zeros: to look would be to wait for the device
            written = then is not None and version not in (None, then._version)
            if here is None or then is None or here.grad is not then or written:
                del self.watch.applied[name]
                self.watch.tell(GradientsZeroed(site, self.watch.here.regions, name, modules))
            elif version is not None:
                kept.add(name)
                self.watch.applied[name] = _Applied(parameter, gradient, None, modules)
        return frozenset(kept)

    def _at_hand(self) -> ScalerAtHand | None:
        """A scaler among the local names of the function, or among the attributes of the object whose method it is."""
        frame = self.watch.sites.frame(4)
        if frame is None:
            return None
        names = frame.f_locals
        found = [*names.items()]
        if frame.f_code.co_argcount:
            receiver = names.get(frame.f_code.co_varnames[0])
            held = getattr(receiver, "__dict__", None)
            found += [(f"self.{name}", value) for name, value in held.items()] if type(held) is dict else []
        for name, value in found:
            if issubclass(type(value), GradScaler) and value._enabled:
                made = self._scalers_made.get(self.watch.scalers.of(value))
                if made is not None:
                    return ScalerAtHand(name, made)
        return None

    def grad(self, original: Any) -> Any:
        def grad(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(outputs, *args, **kwargs)
            if kwargs.get("create_graph") or (len(args) > 3 and args[3]):
                self.watch.guarded(self._differentiated, outputs, result)
            return result

        return grad

    def _differentiated(self, outputs: Any, result: Any) -> None:
        """With create_graph gradients become part of a loss."""
        scaled_by = [name for output in _tensors_in(outputs) for name in self.scalers_of(output)]
        site = self.watch.site(3)
        if not scaled_by or site is None:
            return
        for gradient in result:
            if isinstance(gradient, torch.Tensor):
                self.watch.penalties.note(gradient, Penalty(scaled_by[0], site))

    def _loss(self, outputs: Any) -> Hashable:
        """The name of what a backward pass starts from, before it was scaled."""
        if len(outputs) != 1 or not isinstance(outputs[0], torch.Tensor):
            return None
        scaled = self.watch.scaled.of(outputs[0])
        if scaled is not None:
            return scaled.loss
        return self.watch.losses.of(outputs[0])

    def scalers_of(self, output: Any) -> tuple[Hashable, ...]:
        """The scalers that multiplied a tensor, or something that it was computed from."""
        scaled = self.watch.scaled.of(output)
        if scaled is not None:
            return scaled.by
        if not self._has_tagged:
            return ()
        found: list[Hashable] = []
        queue: list[Any] = [getattr(output, "grad_fn", None)]
        for _ in range(_DEEPEST):
            if not queue or queue[0] is None:
                break
            node = queue.pop(0)
            tagged = node.metadata.get(_TAG)
            if tagged is not None:
                found.append(tagged)
            queue.extend(following for following, _ in node.next_functions if following is not None)
        return tuple(found)

    # optimizers ---------------------------------------------------------------------------------------------

    def optimizer_init(self, original: Any) -> Any:
        def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(optimizer, *args, **kwargs)
            self.watch.wake()
            self.watch.guarded(self._made, optimizer)
            self.leave_alone(type(optimizer))

        return __init__

    def leave_alone(self, kind: type) -> None:
        """Has the steps of a class of optimizers left out of sight, once torch has added its hooks to them."""
        if kind not in self._unobserved and getattr(kind.step, "hooked", False):  # type: ignore[attr-defined]
            self._unobserved.add(kind)
            self.watch.patches.wrap(kind, "step", self.unobserved)

    def unobserved(self, original: Any) -> Any:
        """A method whose own ops, of which there are many, are no matter of the user's code."""
        watch = self.watch

        def method(owner: Any, *args: Any, **kwargs: Any) -> Any:
            # a closure is the user's code
            if any(callable(value) for value in (*args, *kwargs.values())) or not watch.suspend():
                return original(owner, *args, **kwargs)
            try:
                return original(owner, *args, **kwargs)
            finally:
                watch.resume()

        vars(method).update(vars(original))
        return method

    def _made(self, optimizer: Any) -> None:
        site = self.watch.site(3)
        owners = self.watch.owners
        name = owners.add(optimizer)
        if site is not None:
            self._optimizers_made &= owners.names()
            self._optimizers_made.add(name)
            modules = owners.of_optimizer(optimizer)
            self.watch.tell(OptimizerMade(site, self.watch.here.regions, name, modules))

    def stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """The hook that every optimizer calls after a step."""
        self._states.clear()  # a checkpoint is written before training goes on; their tensors are not kept for it
        closure = (args[1] if len(args) == 2 else kwargs.get("closure")) is not None
        self.watch.guarded(self._stepped, optimizer, closure)

    def _stepped(self, optimizer: Any, closure: bool) -> None:
        site = self.watch.site(3)
        if site is None:
            return
        here = self.watch.here
        framework = self.watch.sites.direct(sys._getframe(0)) is None
        name = self.watch.owners.add(optimizer)
        self.watch.numbers.optimizer(name, optimizer)
        self.watch.tell(
            OptimizerStepped(
                site,
                here.regions,
                name,
                here.scaler is not None,
                self._casts(optimizer),
                scaler=here.scaler,
                modules=self.watch.owners.of_optimizer(optimizer),
                framework=framework,
                in_sight=name in self._optimizers_made,
                closure=closure,
            )
        )

    def _casts(self, optimizer: Any) -> tuple[CastParameters, ...]:
        """The casts to half precision that trained parameters of an optimizer went through."""
        found: dict[CastParameters, None] = {}
        if not self.watch.histories:
            return ()
        for parameter in parameters_of(optimizer):
            dtype = named(parameter.dtype)
            if dtype is None or not dtype.is_half or not parameter.requires_grad:
                continue
            history = self.watch.histories.of(parameter)
            if history is not None and history.half_by_user is not None:
                found[CastParameters(dtype, history.half_by_user)] = None
        return tuple(found)

    def scheduler(self, original: Any) -> Any:
        def step(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            if not args and not kwargs:
                self.watch.guarded(self._scheduled, scheduler)
            return original(scheduler, *args, **kwargs)

        return step

    def _scheduled(self, scheduler: Any) -> None:
        frame = sys._getframe(1)
        while frame is not None and not self.watch.sites.is_user(frame.f_code):
            if frame.f_code.co_name == "_initial_step":
                return  # its constructor sets the first rate
            frame = frame.f_back  # type: ignore[assignment]
        site = self.watch.site(3)
        if site is not None:
            optimizer = self.watch.owners.add(scheduler.optimizer)
            name = self.watch.schedulers.of(scheduler)
            self.watch.tell(SchedulerStepped(site, self.watch.here.regions, name, optimizer))

    # gradients ----------------------------------------------------------------------------------------------

    def zero_grad(self, original: Any) -> Any:
        unobserved = self.unobserved(original)

        def zero_grad(owner: Any, *args: Any, **kwargs: Any) -> Any:
            self.watch.guarded(self._zeroed, owner)
            return unobserved(owner, *args, **kwargs)

        return zero_grad

    def _zeroed(self, owner: Any) -> None:
        site = self.watch.site(3)
        if site is None:
            return
        owners, regions = self.watch.owners, self.watch.here.regions
        if isinstance(owner, Optimizer):
            event = GradientsZeroed(site, regions, owners.add(owner), owners.of_optimizer(owner))
        else:
            event = GradientsZeroed(site, regions, None, owners.of(owner.parameters()))
        for name in event.modules:
            self.watch.applied.pop(name, None)
        self.watch.tell(event)

    def clip(self, name: str, original: Any) -> Any:
        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(parameters, torch.Tensor):
                parameters = list(parameters)
            limit = args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value"))
            here = self.watch.here
            if here.quiet == 0:
                self.watch.guarded(self._clips, name, parameters, limit)
            here.quiet += 1
            try:
                result = original(parameters, *args, **kwargs)
            finally:
                here.quiet -= 1
            if here.quiet == 0 and "norm" in name:
                self.watch.guarded(self._clipped, result, limit)
            return result

        return clip

    def _clips(self, name: str, parameters: Any, limit: Any) -> None:
        site = self.watch.site(3)
        if site is None:
            return
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else parameters
        whose = self.watch.owners.of(parameters)
        self.watch.tell(
            GradientsRead(site, self.watch.here.regions, name, whose, True, _number(limit), whole=True)
        )
        if "value" in name and self._scalers_made:
            self.watch.numbers.largest(site, parameters, _number(limit))

    def _clipped(self, norm: Any, limit: Any) -> None:
        site = self.watch.site(3)
        if site is not None:
            self.watch.numbers.norm(site, norm, _number(limit))

    # scalers ------------------------------------------------------------------------------------------------

    def scaler_init(self, original: Any) -> Any:
        def __init__(scaler: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(scaler, *args, **kwargs)
            self.watch.wake()
            self.watch.guarded(self._scaler_made, scaler)

        return __init__

    def _scaler_made(self, scaler: Any) -> None:
        frame = self.watch.sites.frame(3)
        if frame is not None:
            # one that is made anew at the same place takes the place of the one before
            name = self.watch.scalers.give(scaler, self.watch.sites.chain(frame))
            site = self.watch.sites.at(frame)
            self._scalers_made[name] = self.watch.sites.now(frame)
            self.watch.numbers.scaler(name, scaler)
            self.watch.tell(ScalerMade(site, self.watch.here.regions, name, bool(scaler._enabled)))

    def scaler_method(self, act: str, original: Any) -> Any:
        """Wraps a method of a scaler."""

        def method(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            here = self.watch.here
            before = here.scaler
            if before is not None:
                # step calls unscale_ by itself
                return original(scaler, *args, **kwargs)
            self.watch.guarded(self._used, scaler, act, args, kwargs)
            here.scaler = self.watch.scalers.of(scaler)
            suspended = act in ("unscale_", "update") and self.watch.suspend()
            try:
                result = original(scaler, *args, **kwargs)
            except Exception:
                if act == "step":
                    self.watch.guarded(self.watch.refused)
                raise
            finally:
                here.scaler = before
                if suspended:
                    self.watch.resume()
            self.watch.guarded(self._after, scaler, act, args, kwargs, result)
            return result

        return method

    def _used(self, scaler: Any, act: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        site = self.watch.site(3)
        if site is None:
            return
        casts: tuple[CastParameters, ...] = ()
        optimizer: Hashable = None
        loss: Hashable = None
        record: Hashable = None
        closure = ""
        modules: frozenset[Hashable] = frozenset()
        scaled_by: tuple[Hashable, ...] = ()
        if act in ("unscale_", "step"):
            around = args[0] if args else kwargs.get("optimizer")
            given = _innermost(around)
            record = id(around) if given is not around else None
            if act == "step":
                by_place = len(args) == 2 and args[1] is not None  # torch's optimizers take one closure
                closure = "positional" if by_place else "keyword" if kwargs.get("closure") is not None else ""
            if isinstance(given, Optimizer):
                optimizer = self.watch.owners.add(given)
                self.watch.numbers.optimizer(optimizer, given)
                modules = self.watch.owners.of_optimizer(given)
                takes_scale = act == "step" and _takes_scale(given)
                if scaler._enabled and not _takes_half(scaler) and not takes_scale:
                    casts = self._casts(given)
        elif act == "scale":
            given = args[0] if args else kwargs.get("outputs")
            if isinstance(given, torch.Tensor):
                loss = self.watch.losses.of(given)
                before = self.watch.scaled.of(given)
                scaled_by = before.by if before is not None else ()
        if act not in ("state_dict", "load_state_dict"):
            self.watch.context.scaling = True
        name = self.watch.scalers.of(scaler)
        self.watch.numbers.scaler(name, scaler)
        self.watch.tell(
            ScalerUsed(
                site,
                self.watch.here.regions,
                name,
                act,
                casts,
                bool(scaler._enabled),
                optimizer,
                modules,
                loss,
                scaled_by,
                act == "update" and bool(args or kwargs.get("new_scale") is not None),
                made=self._scalers_made.get(name),
                closure=closure,
                initial=float(getattr(scaler, "_init_scale", INITIAL_SCALE)),
                given=record,
            )
        )
        if act == "get_scale":  # a run does not see what becomes of the number
            self.watch.tell(ScalerUsed(site, self.watch.here.regions, name, BY_SCALE))

    def _after(
        self, scaler: Any, act: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        if act == "scale" and scaler._enabled:
            given = args[0] if args else kwargs.get("outputs")
            for loss, scaled in zip(_tensors_in(given), _tensors_in(result), strict=False):
                self._tag(scaler, loss, scaled)
        elif act == "step" and scaler._enabled:
            self._keep_gradient(_innermost(args[0] if args else kwargs.get("optimizer")))
        elif act == "get_scale":
            self.watch.scales[self.watch.scalers.of(scaler)] = result
        elif act == "state_dict":
            self._keep_state("scaler", self.watch.scalers.of(scaler), result, None)

    def unscaled(self, original: Any) -> Any:
        """The division of gradients, which looks at each of them several times: they are noted once. Those in half
        precision are ops of their own."""
        watch = self.watch

        def _unscale_grads_(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if _has_half(optimizer) or not watch.suspend():
                return original(scaler, optimizer, *args, **kwargs)
            try:
                return original(scaler, optimizer, *args, **kwargs)
            finally:
                watch.guarded(self._note_gradients, optimizer)
                watch.resume()

        return _unscale_grads_

    def _note_gradients(self, optimizer: Any) -> None:
        """Notes whose gradients they are, as where the code asks a parameter for its own."""
        for parameter in parameters_of(optimizer):
            gradient = parameter.grad
            if gradient is not None:
                self.watch.gradients.note(gradient, self.watch.owners.of((parameter,)))

    def _keep_gradient(self, optimizer: Any) -> None:
        parameter = next((part for part in parameters_of(optimizer) if part.grad is not None), None)
        if parameter is None or not isinstance(optimizer, Optimizer):
            return
        gradient = parameter.grad
        assert gradient is not None
        owners = self.watch.owners
        self.watch.applied[owners.add(optimizer)] = _Applied(
            weakref.ref(parameter), weakref.ref(gradient), gradient._version, owners.of_optimizer(optimizer)
        )

    def _tag(self, scaler: Any, loss: torch.Tensor, scaled: torch.Tensor) -> None:
        name = self.watch.scalers.of(scaler)
        before = self.watch.scaled.of(loss)
        self.watch.scaled.note(
            scaled, Scaled((name, *(before.by if before else ())), self.watch.losses.of(loss))
        )
        node: Any = scaled.grad_fn
        if node is not None:
            node.metadata[_TAG] = name
            self._has_tagged = True

    def read(self, name: str, original: Any) -> Any:
        """Wraps a method that makes a number, text or array of a tensor."""
        scaled, here = self.watch.scaled, self.watch.here

        def method(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if here.quiet or here.scaler is not None:
                return original(tensor, *args, **kwargs)
            known = scaled.of(tensor)
            if known is not None:
                self.watch.guarded(self._read, known.by[0], name)
            if name in ("numpy", "__array__"):
                self.watch.guarded(self._converted, tensor)
            here.quiet += 1
            try:
                return original(tensor, *args, **kwargs)
            finally:
                here.quiet -= 1

        return method

    def _read(self, scaler: Hashable, how: str) -> None:
        site = self.watch.site(3)
        if site is not None:
            self.watch.tell(ScaledLossRead(site, self.watch.here.regions, scaler, how))

    def _converted(self, tensor: torch.Tensor) -> None:
        """Tells that a tensor becomes an array of numpy."""
        site = self.watch.site(3)
        if site is not None:
            converted = operand(site.argument(0, "numpy"), tensor, self.watch.histories.of(tensor))
            self.watch.tell(Converted(site, self.watch.here.regions, converted, "numpy"))

    # checkpoints --------------------------------------------------------------------------------------------

    def optimizer_state(self, original: Any) -> Any:
        def state_dict(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            state = original(optimizer, *args, **kwargs)
            self.watch.guarded(self._keep_optimizer_state, optimizer, state)
            return state

        return state_dict

    def _keep_optimizer_state(self, optimizer: Any, state: Any) -> None:
        self._keep_state("optimizer", self.watch.owners.add(optimizer), state, self.watch.site(3))

    def _keep_state(self, kind: str, name: Hashable, state: Any, taken: Place | None) -> None:
        # dictionaries take no weak references, and what is in them must not be kept alive: a state is known by its
        # groups, which hold no tensors of the size of parameters, or is as small as a scaler's
        mark = _mark(state)
        while len(self._states) > 16:
            del self._states[next(iter(self._states))]
        self._states[id(mark)] = (mark, kind, name, taken)

    def save(self, original: Any) -> Any:
        def save(thing: Any, *args: Any, **kwargs: Any) -> Any:
            self.watch.guarded(self._saved, thing)
            return original(thing, *args, **kwargs)

        return save

    def _saved(self, thing: Any) -> None:
        site = self.watch.site(3)
        if site is None:
            return
        found: dict[str, list[tuple[Hashable, Place | None]]] = {"optimizer": [], "scaler": []}
        complete = self._collect(thing, found)
        self._states.clear()
        self.watch.tell(
            StateSaved(
                site,
                self.watch.here.regions,
                tuple(name for name, _ in found["optimizer"]),
                tuple(name for name, _ in found["scaler"]),
                complete,
                tuple(taken for _, taken in found["optimizer"]),
            )
        )

    def _collect(self, whole: Any, found: dict[str, list[tuple[Hashable, Place | None]]]) -> bool:
        """Looks for states in a checkpoint; whether all of its parts are plain data. Objects refer to each other, in
        circles too: each is looked at once, at its least depth."""
        seen: set[int] = set()
        complete, depth, parts = True, 0, [whole]
        while parts:
            inner: list[Any] = []
            for part in parts:
                kept = self._states.get(id(_mark(part)))
                if kept is not None:
                    found[kept[1]].append(kept[2:])
                elif isinstance(part, GradScaler):
                    found["scaler"].append((self.watch.scalers.of(part), None))
                elif id(part) not in seen and not isinstance(part, _PLAIN):
                    seen.add(id(part))
                    pickled = _pickled_parts(part) if depth < _DEEPEST_PART else None
                    complete = complete and pickled is not None
                    inner += pickled or ()
            depth, parts = depth + 1, inner
        return complete


def _mark(state: Any) -> Any:
    """What a state is known by."""
    return state.get("param_groups", state) if isinstance(state, dict) else state


def _pickled_parts(thing: Any) -> tuple[Any, ...] | None:
    """What pickle takes from an object besides its type; None where the type has its own way."""
    if isinstance(thing, dict):
        return tuple(thing.values())
    if isinstance(thing, (list, tuple)):
        return tuple(thing)
    kind = type(thing)
    usual = all(getattr(kind, name, None) is getattr(object, name, None) for name in _PICKLING)
    return tuple(vars(thing).values()) if usual and hasattr(thing, "__dict__") else None


def _innermost(optimizer: Any) -> Any:
    """The optimizer in a wrapper of one, such as those of accelerate: an attribute of it that has its parameters."""
    mine: set[int] = set()
    for _ in range(_DEEPEST):
        held = [part for part in getattr(optimizer, "__dict__", {}).values() if isinstance(part, Optimizer)]
        if held and not mine:
            mine = {id(parameter) for parameter in parameters_of(optimizer)}
        inner = next((part for part in held if not mine.isdisjoint(map(id, parameters_of(part)))), None)
        if inner is None:
            break
        optimizer = inner
    return optimizer


def _subclasses(kind: type) -> Iterator[type]:
    found: list[type] = kind.__subclasses__()
    for part in found:
        yield part
        yield from _subclasses(part)


def _multiplied(outputs: Any) -> bool:
    """Whether a backward pass starts from a product, which may be a loss that is scaled by hand."""
    return any(type(getattr(output, "grad_fn", None)).__name__ == "MulBackward0" for output in outputs)


def _how(site: Site) -> str:
    return "torch.autograd.backward()" if "autograd" in site.text else ".backward()"


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _takes_scale(optimizer: Optimizer) -> bool:
    """Whether an optimizer of the user's unscales the gradients in its own step; torch's fused ones do so, too, and
    train half parameters as they are."""
    asks = getattr(optimizer, TAKES_SCALE, False)
    return bool(asks) and not type(optimizer).__module__.startswith("torch.optim.")


def _takes_half(scaler: Any) -> bool:
    return type(scaler).__name__ == "ShardedGradScaler"


def parameters_of(optimizer: Any) -> Iterator[torch.Tensor]:
    """All parameters of an optimizer."""
    for group in getattr(optimizer, "param_groups", ()):
        for parameter in group["params"]:
            if isinstance(parameter, torch.Tensor):
                yield parameter


def _has_half(optimizer: Any) -> bool:
    """Whether a parameter of an optimizer or its gradient is in half precision."""
    with torch._C.DisableTorchFunction():
        return any(
            part.dtype in HALF or (part.grad is not None and part.grad.dtype in HALF)
            for part in parameters_of(optimizer)
        )


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        for part in value:
            yield from _tensors_in(part)
