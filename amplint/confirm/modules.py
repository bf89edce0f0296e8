"""Modules as they are cast and called."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.nn import Module, Parameter

from amplint.confirm import threads
from amplint.confirm.dtypes import HALF, named
from amplint.confirm.levels import Level
from amplint.confirm.provenance import History
from amplint.confirm.provenance import operand as operand_at
from amplint.confirm.watching import Watch
from amplint.events import DType, Forward, ModuleCast, Op

_CASTS = ("half", "bfloat16", "float", "double", "to", "type")


def install(watch: Watch) -> None:
    """Watches modules."""
    watcher = _Watcher(watch)
    for name in _CASTS:
        watch.patches.wrap(Module, name, watcher.cast)
    watch.patches.wrap(Module, "__call__", watcher.call)
    watch.patches.wrap(torch.nn.RNNBase, "check_input", watcher.rnn)
    watch.patches.wrap(Parameter, "__new__", watcher.made)
    watch.patches.wrap(Parameter, "__deepcopy__", watcher.copied)


class _Watcher:
    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def call(self, original: Any) -> Any:
        here, guarded = self.watch.here, self.watch.guarded

        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if here.forward:
                if here.forward == 1 and here.started is not None:
                    guarded(self._inside, module)
                return original(module, *args, **kwargs)
            guarded(self._forward, module)
            here.forward = 1
            try:
                return original(module, *args, **kwargs)
            finally:
                here.forward = 0

        return __call__

    def _inside(self, module: Module) -> None:
        """The first layer of torch in a module that a thread runs shows in which regions it is."""
        if not self._in_sight(module):
            self.watch.here.forward = 2
            self._forward(module)

    def _in_sight(self, module: Module) -> bool:
        code = getattr(inspect.getattr_static(type(module), "forward", None), "__code__", None)
        return code is not None and self.watch.sites.is_user(code)

    def _forward(self, module: Module) -> None:
        site = self.watch.site(3)
        if site is not None and self.watch.here.backward == 0:
            with torch._C.DisableTorchFunction():
                trains = any(parameter.requires_grad for parameter in module.parameters())
            threads.forward(
                self.watch,
                Forward(
                    site,
                    self.watch.here.regions,
                    self.watch.modules.of(module),
                    trains,
                    torch.is_grad_enabled(),
                    not self._in_sight(module),
                ),
            )

    def cast(self, original: Any) -> Any:
        def cast(module: Any, *args: Any, **kwargs: Any) -> Any:
            before = [parameter.dtype for parameter in module.parameters()]
            result = original(module, *args, **kwargs)
            self.watch.guarded(self._cast, result, before)
            return result

        return cast

    def _cast(self, module: Module, before: list[torch.dtype]) -> None:
        site = self.watch.site(3)
        to: DType | None = None
        for parameter, dtype in zip(module.parameters(), before, strict=False):
            if parameter.dtype == dtype:
                continue
            to = named(parameter.dtype)
            if parameter.dtype in HALF and site is not None:
                self.watch.histories.note(parameter, self.watch.histories.shared(History(half_by_user=site)))
            else:
                self.watch.histories.drop(parameter)
        if to is not None and site is not None:
            self.watch.tell(ModuleCast(site, self.watch.here.regions, self.watch.modules.of(module), to))

    def rnn(self, original: Any) -> Any:
        """Recurrent layers look at the type of their input before they call an op."""

        def check_input(module: Any, given: Any, *args: Any) -> None:
            try:
                original(module, given, *args)
            except Exception:
                self.watch.guarded(self._refused, module, given)
                raise

        return check_input

    def _refused(self, module: Any, given: torch.Tensor) -> None:
        weights = named(next(module.parameters()).dtype)
        site = self.watch.site(3)
        if site is None or self.watch.level is Level.API or named(given.dtype) is weights:
            return
        name = module.mode.partition("_")[0].lower()
        operand = operand_at(site.argument(0), given, self.watch.histories.of(given))
        regions = self.watch.here.regions
        self.watch.tell(
            Op(site, regions, name, (operand,), None, "lower", weights=weights, weights_raise=True)
        )

    def made(self, original: Any) -> Any:
        def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            result = original(cls, *args, **kwargs)
            if result.dtype in HALF:
                self.watch.guarded(self._made_half, result)
            return result

        return __new__

    def _made_half(self, parameter: torch.Tensor) -> None:
        site = self.watch.site(3)
        if site is not None:
            self.watch.histories.note(parameter, self.watch.histories.shared(History(half_by_user=site)))

    def copied(self, original: Any) -> Any:
        """A copy became half where what it is a copy of did."""

        def __deepcopy__(parameter: Any, memo: Any) -> Any:  # noqa: N807
            result = original(parameter, memo)
            if result.dtype in HALF:
                self.watch.guarded(self._copied, parameter, result)
            return result

        return __deepcopy__

    def _copied(self, parameter: torch.Tensor, copy: torch.Tensor) -> None:
        history = self.watch.histories.of(parameter)
        if history is not None:
            self.watch.histories.note(copy, history)
        else:
            self.watch.histories.drop(copy)
