"""The compiler: switched off while a run is observed, or left on and what it compiled unobserved."""

from __future__ import annotations

import functools
from typing import Any

import torch

from amplint.confirm.watching import Watch

_OFF = "torch.compile is off while the run is observed: what it would compile runs eagerly"
_ON = "torch.compile was on: what ran inside compiled code, forward and backward, was not observed"


def install(watch: Watch) -> None:
    """Switches the compiler off, or has compiled code run as it would without a probe: it would trace the probe
    otherwise."""
    wrap = watch.patches.wrap
    if not watch.keeps_compile:
        wrap(torch, "compile", lambda original: _compile(watch))
        wrap(torch.nn.Module, "compile", lambda original: _compile_in_place(watch))
        return
    wrap(torch, "compile", lambda original: _kept(watch, original))


def _compile(watch: Watch) -> Any:
    def compile(model: Any = None, **settings: Any) -> Any:
        watch.note(_OFF)
        if model is None:
            return _uncompiled
        return _uncompiled(model)

    return compile


def _uncompiled(model: Any) -> Any:
    """What the program gets for something compiled: a module with ``_orig_mod``, which stands in the names of
    parameters, or the function itself."""
    if not isinstance(model, torch.nn.Module):
        return model
    from torch._dynamo.eval_frame import DisableContext, OptimizedModule

    return OptimizedModule(model, DisableContext())


def _compile_in_place(watch: Watch) -> Any:
    def compile(module: Any, *args: Any, **settings: Any) -> None:
        watch.note(_OFF)

    return compile


def _kept(watch: Watch, original: Any) -> Any:
    def compile(model: Any = None, **settings: Any) -> Any:
        compiled = original(model, **settings)
        if model is None or compiled is model:
            return compiled  # a decorator, which comes by here again; or the compiler is disabled
        if not isinstance(compiled, torch.nn.Module):
            return _unobserved(watch, compiled)
        compiled.forward = _unobserved(watch, compiled.forward)
        return compiled

    return compile


def _unobserved(watch: Watch, function: Any) -> Any:
    """A compiled function that runs as without a probe."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not watch.running:
            return function(*args, **kwargs)
        watch.note(_ON)
        watch.unobserved = _ON
        with watch.aside():
            return function(*args, **kwargs)

    return run
