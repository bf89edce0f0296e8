"""Backward passes, optimizers and gradient scalers as they are called."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
)

from amplint.confirm.places import Site
from amplint.confirm.provenance import History
from amplint.events import (
    Backward,
    CastParameters,
    OptimizerMade,
    OptimizerStepped,
    ScalerMade,
    ScalerUsed,
)

if TYPE_CHECKING:
    from amplint.confirm.probe import Probe

_TAG = "amplint.scaled_by"
_DEEPEST = 12
"""Nodes that are looked at on the way from a loss back to its scaler."""
_ACTS = ("scale", "unscale_", "step", "update")


def install(probe: Probe) -> None:
    """Watches backward passes, optimizers and scalers."""
    watcher = _Watcher(probe)
    patches = probe.patches
    for owner in (torch.autograd, torch.autograd.graph):
        patches.wrap(owner, "_engine_run_backward", watcher.engine)
    patches.wrap(Optimizer, "__init__", watcher.optimizer_init)
    handle = register_optimizer_step_post_hook(watcher.stepped)
    probe.on_stop(handle.remove)
    scaler = torch.amp.grad_scaler.GradScaler
    patches.wrap(scaler, "__init__", watcher.scaler_init)
    for act in _ACTS:
        patches.wrap(scaler, act, watcher.scaler_method(act))


class _Watcher:
    def __init__(self, probe: Probe) -> None:
        self.probe = probe

    # backward -----------------------------------------------------------------------------------------------

    def engine(self, original: Any) -> Any:
        def _engine_run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            here = self.probe.here
            # a backward pass within another one is torch's own: checkpoints run their part again
            if here.backward == 0 and kwargs.get("accumulate_grad"):
                self.probe.guarded(self._backward, outputs)
            here.backward += 1
            try:
                return original(outputs, *args, **kwargs)
            finally:
                here.backward -= 1

        return _engine_run_backward

    def _backward(self, outputs: Any) -> None:
        site = self.probe.site(3)
        if site is None:
            return
        scaled_by = tuple(dict.fromkeys(name for output in outputs for name in self.scalers_of(output)))
        self.probe.tell(
            Backward(
                site,
                self.probe.here.regions,
                _how(site),
                bool(scaled_by),
                self._iteration(site),
            )
        )

    def _iteration(self, site: Site) -> int:
        """How often the most repeated backward or step inside the outermost region has run."""
        here = self.probe.here
        if not here.regions:
            return 0
        times = here.repeats.get(site.key, 0) + 1
        here.repeats[site.key] = times
        here.iteration = max(here.iteration, times)
        return here.iteration

    def scalers_of(self, output: Any) -> tuple[Hashable, ...]:
        """The scalers that multiplied a tensor, or something that it was computed from."""
        history = self.probe.histories.of(output)
        if history is not None and history.scaled_by:
            return history.scaled_by
        found = []
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
            self.probe.guarded(self._made, optimizer)

        return __init__

    def _made(self, optimizer: Any) -> None:
        site = self.probe.site(3)
        if site is not None:
            name = self.probe.optimizers.of(optimizer)
            self.probe.tell(OptimizerMade(site, self.probe.here.regions, name, self._casts(optimizer)))

    def stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """The hook that every optimizer calls after a step."""
        self.probe.guarded(self._stepped, optimizer)

    def _stepped(self, optimizer: Any) -> None:
        site = self.probe.site(3)
        if site is None:
            return
        here = self.probe.here
        self.probe.tell(
            OptimizerStepped(
                site,
                here.regions,
                self.probe.optimizers.of(optimizer),
                here.scaler is not None,
                self._casts(optimizer),
                self._iteration(site),
            )
        )

    def _casts(self, optimizer: Any) -> tuple[CastParameters, ...]:
        """The casts to half precision that trained parameters of an optimizer went through."""
        from amplint.confirm.probe import DTYPES

        found: dict[CastParameters, None] = {}
        for parameter in parameters_of(optimizer):
            dtype = DTYPES.get(parameter.dtype)
            if dtype is None or not dtype.is_half or not parameter.requires_grad:
                continue
            history = self.probe.histories.of(parameter)
            if history is not None and history.half_by_user is not None:
                found[CastParameters(dtype, history.half_by_user)] = None
        return tuple(found)

    # scalers ------------------------------------------------------------------------------------------------

    def scaler_init(self, original: Any) -> Any:
        def __init__(scaler: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(scaler, *args, **kwargs)
            self.probe.guarded(self._scaler_made, scaler)

        return __init__

    def _scaler_made(self, scaler: Any) -> None:
        site = self.probe.site(3)
        if site is not None:
            name = self.probe.scalers.of(scaler)
            self.probe.tell(ScalerMade(site, self.probe.here.regions, name, bool(scaler._enabled)))

    def scaler_method(self, act: str) -> Any:
        """Wraps one of the four acts of a scaler."""

        def make(original: Any) -> Any:
            def method(scaler: Any, *args: Any, **kwargs: Any) -> Any:
                here = self.probe.here
                before = here.scaler
                if before is not None:
                    # step calls unscale_ by itself
                    return original(scaler, *args, **kwargs)
                self.probe.guarded(self._used, scaler, act, args[0] if args else kwargs.get("optimizer"))
                here.scaler = self.probe.scalers.of(scaler)
                try:
                    result = original(scaler, *args, **kwargs)
                finally:
                    here.scaler = before
                if act == "scale" and scaler._enabled:
                    self.probe.guarded(self._tag, scaler, result)
                return result

            return method

        return make

    def _used(self, scaler: Any, act: str, subject: Any) -> None:
        site = self.probe.site(3)
        if site is None:
            return
        casts: tuple[CastParameters, ...] = ()
        if isinstance(subject, Optimizer) and scaler._enabled and not _takes_half(scaler):
            casts = self._casts(subject)
        self.probe.tell(ScalerUsed(site, self.probe.here.regions, self.probe.scalers.of(scaler), act, casts))

    def _tag(self, scaler: Any, result: Any) -> None:
        name = self.probe.scalers.of(scaler)
        for tensor in _tensors_in(result):
            history = self.probe.histories.of(tensor) or History()
            scaled_by = (*history.scaled_by, name)
            self.probe.histories.note(tensor, History(scaled_by=scaled_by))
            node: Any = tensor.grad_fn
            if node is not None:
                node.metadata[_TAG] = name


def _how(site: Site) -> str:
    return "torch.autograd.backward()" if "autograd" in site.text else ".backward()"


def _takes_half(scaler: Any) -> bool:
    return type(scaler).__name__ == "ShardedGradScaler"


def parameters_of(optimizer: Any) -> Iterator[torch.Tensor]:
    """All parameters of an optimizer."""
    for group in getattr(optimizer, "param_groups", ()):
        for parameter in group["params"]:
            if isinstance(parameter, torch.Tensor):
                yield parameter


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        for part in value:
            yield from _tensors_in(part)
