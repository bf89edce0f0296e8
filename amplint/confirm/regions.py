"""Autocast contexts as they are made, entered, left, and forgotten."""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
import weakref
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache, partial
from types import FrameType
from typing import Any

import torch

from amplint.confirm import arguments
from amplint.confirm.dtypes import named
from amplint.confirm.places import Site, origin_of, source_of
from amplint.confirm.watching import Watch
from amplint.events import (
    AutocastSwitched,
    CacheCleared,
    Captured,
    GeneratorDecorated,
    Place,
    Region,
    RegionAbandoned,
    RegionDropped,
    RegionEntered,
    RegionExited,
    Regions,
)

_CONTEXTS = ("amp/autocast_mode.py", "amp\\autocast_mode.py")


_SWITCHES = ("set_autocast_enabled", "set_autocast_gpu_enabled", "set_autocast_cpu_enabled")


@dataclass
class Made:
    """A context that was made. ``framework``: not by the user's code itself."""

    site: Site | None
    framework: bool
    reference: weakref.ref[Any]
    entered: bool = False


def install(watch: Watch) -> None:
    """Watches contexts."""
    _Watcher(watch).install()


class _Watcher:
    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.made: dict[int, Made] = {}
        self.opened: dict[Hashable, Region] = {}
        self.stacks: dict[tuple[int, ...], Regions] = {}

    def install(self) -> None:
        autocast, patches = torch.amp.autocast_mode.autocast, self.watch.patches
        patches.wrap(autocast, "__init__", self._init)
        for owner in (autocast, torch.cuda.amp.autocast, torch.cpu.amp.autocast_mode.autocast):
            patches.wrap(owner, "__init__", partial(arguments.watched, self.watch, owner))
        # subclasses call these of their base
        patches.wrap(autocast, "__enter__", self._enter)
        patches.wrap(autocast, "__exit__", self._exit)
        patches.wrap(autocast, "__call__", self._call)
        patches.wrap(torch, "clear_autocast_cache", self._clear)
        for name in _SWITCHES:
            patches.wrap(torch, name, self._switch)
        for name in ("trace", "trace_module", "script"):
            patches.wrap(torch.jit, name, partial(self._capture, f"torch.jit.{name}"))
        for module in (torch.cuda, torch.cuda.graphs):
            how = "torch.cuda.make_graphed_callables"
            patches.wrap(module, "make_graphed_callables", partial(self._capture, how))
        patches.wrap(torch.cuda.graphs.graph, "__enter__", self._graph)
        self.watch.at_end(self._look_for_forgotten)

    def _init(self, original: Any) -> Any:
        def __init__(context: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(context, *args, **kwargs)
            self.watch.guarded(self._remember, context)

        return __init__

    def _enter(self, original: Any) -> Any:
        def __enter__(context: Any) -> Any:  # noqa: N807
            self.watch.wake()
            result = original(context)
            self.watch.guarded(self._entered, context)
            return result

        return __enter__

    def _exit(self, original: Any) -> Any:
        def __exit__(context: Any, *details: Any) -> Any:  # noqa: N807
            try:
                return original(context, *details)
            finally:
                self.watch.guarded(self._left, context)

        return __exit__

    def _call(self, original: Any) -> Any:
        def __call__(context: Any, function: Any) -> Any:  # noqa: N807
            self.watch.guarded(self._decorates, context, function)
            return original(context, function)

        return __call__

    def _decorates(self, context: Any, function: Any) -> None:
        kind = _kind_of_body(function)
        frame = self.watch.sites.direct(sys._getframe(1))
        if kind is not None and frame is not None:
            site = self.watch.sites.at(frame)
            self.watch.tell(GeneratorDecorated(site, self.watch.here.regions, function.__name__, kind))

    def _switch(self, original: Any) -> Any:
        def set_autocast_enabled(*args: Any, **kwargs: Any) -> None:
            original(*args, **kwargs)
            # contexts call it, too
            if self.watch.sites.is_user(sys._getframe(1).f_code):
                self.watch.guarded(self._switched, bool(args[-1] if args else kwargs.get("enabled")))

        return set_autocast_enabled

    def _switched(self, enabled: bool) -> None:
        site = self.watch.site(3)
        if site is not None:
            self.watch.tell(AutocastSwitched(site, self.watch.here.regions, enabled))

    def _capture(self, how: str, original: Any) -> Any:
        def capture(captured: Any, *args: Any, **kwargs: Any) -> Any:
            again = kwargs.get("check_trace", args[2] if len(args) > 2 else True) if "trace" in how else True
            self.watch.guarded(self._captured, how, captured, bool(again))
            if how == "torch.jit.script" and len(args) < 2:
                # names are looked up in the frame of the caller
                kwargs["_frames_up"] = kwargs.get("_frames_up", 0) + 1
            return original(captured, *args, **kwargs)

        return capture

    def _captured(self, how: str, captured: Any, again: bool = True) -> None:
        frame = self.watch.sites.direct(sys._getframe(1))
        if frame is None:
            return
        trains = isinstance(captured, torch.nn.Module) and any(
            parameter.requires_grad for parameter in captured.parameters()
        )
        code = getattr(captured, "__code__", None)
        decorated: Place | None = None
        if code is not None and code.co_name == "decorate_autocast":
            cells = dict(zip(code.co_freevars, captured.__closure__, strict=True))
            made = self.made.get(id(cells["autocast_instance"].cell_contents))
            decorated = made.site if made is not None else None
        place = self.watch.sites.at(frame)
        self.watch.tell(Captured(place, self.watch.here.regions, how, trains, decorated, again))

    def _graph(self, original: Any) -> Any:
        def __enter__(graph: Any) -> Any:  # noqa: N807
            self.watch.guarded(self._captured, "torch.cuda.graph", None)
            return original(graph)

        return __enter__

    def _clear(self, original: Any) -> Any:
        def clear_autocast_cache() -> None:
            original()
            self.watch.guarded(self._cleared)

        return clear_autocast_cache

    def _remember(self, context: Any) -> None:
        key = id(context)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and _makes_contexts(frame):
            frame = frame.f_back
        site = self.watch.sites.here(3)
        direct = frame is not None and self.watch.sites.is_user(frame.f_code)
        self.made[key] = Made(site, not direct, weakref.ref(context, partial(self._gone, key)))

    def _entered(self, context: Any) -> None:
        here = self.watch.here
        made = self.made.get(id(context))
        frame = self.watch.sites.frame(3)
        key = (
            frame and self.watch.sites.key_of(frame),
            made and made.site and made.site.key,
            made is None or made.framework,
            context.device,
            context.fast_dtype,
            context._enabled,
            context._cache_enabled,
            id(here.regions),
        )
        region = self.opened.get(key)
        if region is None:
            region = self.opened[key] = self._region(context, made)
        if made is not None:
            made.entered = True
        if not here.regions:
            here.cache = object()
        here.entered.append((id(context), region))
        here.regions = self._shared((*here.regions, region))
        instance, gradients = self.watch.contexts.of(context), torch.is_grad_enabled()
        self.watch.tell(RegionEntered(region.place, here.regions, instance, None, gradients))

    def _region(self, context: Any, made: Made | None) -> Region:
        place = self._place_of(made)
        return Region(
            place,
            (place.key, len(self.watch.here.regions)),
            str(context.device).partition(":")[0],
            named(context.fast_dtype),
            bool(context._enabled),
            False,
            bool(context._cache_enabled),
            framework=made is None or made.framework,
        )

    def _place_of(self, made: Made | None) -> Place:
        """Where a region opens: the line that enters it; for a decorator, the decorator."""
        frame: FrameType | None = sys._getframe(1)
        decorated = False
        while frame is not None and origin_of(frame.f_code.co_filename) in ("torch", "python", "probe"):
            if self.watch.sites.is_user(frame.f_code):
                break
            decorated = decorated or frame.f_code.co_name == "decorate_autocast"
            frame = frame.f_back
        if decorated and made is not None and made.site is not None:
            return made.site
        site = self.watch.sites.here(4)
        if site is not None:
            return site
        if made is not None and made.site is not None:
            return made.site
        return self.watch.sites.at(frame if frame is not None else sys._getframe(0))

    def _left(self, context: Any) -> None:
        here = self.watch.here
        for index in range(len(here.entered) - 1, -1, -1):
            key, region = here.entered[index]
            if key == id(context):
                del here.entered[index]
                here.regions = self._shared(tuple(region for _, region in here.entered))
                self.watch.tell(RegionExited(region.place, here.regions, region))
                return

    def _shared(self, regions: Regions) -> Regions:
        """Equal stacks are one object, which stays."""
        key = tuple(map(id, regions))  # regions of the same place and kind are one object
        return self.stacks.setdefault(key, regions)

    def _cleared(self) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and origin_of(frame.f_code.co_filename) == "probe":
            frame = frame.f_back
        if frame is not None and _makes_contexts(frame):
            return  # the outermost exit
        self.watch.here.cache = object()
        site = self.watch.site(3)
        if site is not None:
            self.watch.tell(CacheCleared(site, self.watch.here.regions))

    def _gone(self, key: int, _: object) -> None:
        made = self.made.pop(key, None)
        if made is None:
            return
        if not made.entered:
            self.watch.guarded(self._dropped, made)
            return
        for entered, region in self.watch.here.entered:
            if entered == key and not region.framework:
                self.watch.guarded(self._abandoned, region)

    def _abandoned(self, region: Region) -> None:
        node = region.place.node if isinstance(region.place, Site) else None
        match node:
            case ast.Call(func=ast.Attribute(value=context, attr="__enter__")):
                name = ast.unparse(context)
                self.watch.tell(RegionAbandoned(region.place, self.watch.here.regions, region, name))

    def _look_for_forgotten(self) -> None:
        for made in list(self.made.values()):
            if not made.entered:
                self._dropped(made)

    def _dropped(self, made: Made) -> None:
        if made.site is None or made.framework:
            return
        how, name = _fate(made.site)
        if how is not None:
            self.watch.tell(RegionDropped(made.site, self.watch.here.regions, how, name))


def _kind_of_body(function: Any) -> str | None:
    """What a call of a function gives if its body runs only later, else None."""
    if inspect.iscoroutinefunction(function):
        return "coroutine"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "generator"
    code = getattr(function, "__code__", None)
    if code is not None and code.co_filename == contextlib.__file__:
        return "context manager"
    return None


def _makes_contexts(frame: FrameType) -> bool:
    """Whether a frame is the probe's, or a method of autocast or of a class that torch derives from it."""
    code = frame.f_code
    if origin_of(code.co_filename) == "probe" or code.co_filename.endswith("typing_extensions.py"):
        return True
    return code.co_filename.endswith(_CONTEXTS) and code.co_name in ("__init__", "__enter__", "__exit__")


@lru_cache(maxsize=1024)
def _fate_of(file: str, key: object, statement: ast.stmt, call: ast.AST) -> tuple[str | None, str]:
    match statement:
        case ast.Expr(value=value) if value is call:
            return "statement", ""
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is call:
            return ("unused name", name) if not _is_read(file, statement, name) else (None, "")
        case ast.With() | ast.AsyncWith():
            joined = [
                item.context_expr for item in statement.items if isinstance(item.context_expr, ast.BoolOp)
            ]
            if any(call in part.values for part in joined):
                return "boolean", ""
    return None, ""


def _fate(site: Site) -> tuple[str | None, str]:
    """How a context that nobody entered was thrown away, if the text shows that nobody can have meant to
    enter it later; and the name that it got."""
    statement, node = site.statement, site.node
    if statement is None or node is None:
        return None, ""
    return _fate_of(site.file, site.key, statement, node)


def _is_read(file: str, statement: ast.stmt, name: str) -> bool:
    source = source_of(file)
    if source is None:
        return True
    scopes = [
        part
        for part in ast.walk(source.tree)
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))
        and part.lineno <= statement.lineno <= (part.end_lineno or 0)
    ]
    scope: ast.AST = max(scopes, key=lambda part: part.lineno, default=source.tree)
    return any(
        isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load)
        for part in ast.walk(scope)
    )
