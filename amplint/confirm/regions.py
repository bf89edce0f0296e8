"""Autocast contexts as they are made, entered, left, and forgotten."""

from __future__ import annotations

import ast
import sys
import sysconfig
import weakref
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from amplint.confirm.places import Site
from amplint.events import (
    CacheCleared,
    Place,
    Region,
    RegionDropped,
    RegionEntered,
    RegionExited,
)

if TYPE_CHECKING:
    from amplint.confirm.probe import Probe

_TORCH = str(Path(torch.__file__).parent)
_PYTHON = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_OWN = str(Path(__file__).parent)
_CONTEXTS = ("amp/autocast_mode.py", "amp\\autocast_mode.py")


@dataclass
class Made:
    """A context that was made. ``framework``: not by the user's code itself."""

    site: Site | None
    framework: bool
    reference: weakref.ref[Any]
    entered: bool = False


@lru_cache(maxsize=4096)
def origin_of(file: str) -> str:
    """Whose code a file is: "probe", "torch", "python" (the standard library), or "library"."""
    if file.startswith(_OWN):
        return "probe"
    if file.startswith(_TORCH):
        return "torch"
    if file.startswith("<frozen") or (file.startswith(_PYTHON) and "-packages" not in file):
        return "python"
    return "library"


def install(probe: Probe) -> None:
    """Watches contexts."""
    _Watcher(probe).install()


class _Watcher:
    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.made: dict[int, Made] = {}
        self.regions: dict[Region, Region] = {}

    def install(self) -> None:
        autocast, patches = torch.amp.autocast_mode.autocast, self.probe.patches
        patches.wrap(autocast, "__init__", self._init)
        # subclasses call these of their base
        patches.wrap(autocast, "__enter__", self._enter)
        patches.wrap(autocast, "__exit__", self._exit)
        patches.wrap(torch, "clear_autocast_cache", self._clear)
        self.probe.at_end(self._look_for_forgotten)

    def _init(self, original: Any) -> Any:
        def __init__(context: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(context, *args, **kwargs)
            self.probe.guarded(self._remember, context)

        return __init__

    def _enter(self, original: Any) -> Any:
        def __enter__(context: Any) -> Any:  # noqa: N807
            result = original(context)
            self.probe.guarded(self._entered, context)
            return result

        return __enter__

    def _exit(self, original: Any) -> Any:
        def __exit__(context: Any, *details: Any) -> Any:  # noqa: N807
            try:
                return original(context, *details)
            finally:
                self.probe.guarded(self._left, context)

        return __exit__

    def _clear(self, original: Any) -> Any:
        def clear_autocast_cache() -> None:
            original()
            self.probe.guarded(self._cleared)

        return clear_autocast_cache

    def _remember(self, context: Any) -> None:
        key = id(context)
        frame: FrameType | None = sys._getframe(3)
        while frame is not None and _makes_contexts(frame):
            frame = frame.f_back
        site = self.probe.sites.here(3)
        direct = frame is not None and self.probe.sites.is_user(frame.f_code)
        self.made[key] = Made(site, not direct, weakref.ref(context, partial(self._gone, key)))

    def _entered(self, context: Any) -> None:
        here = self.probe.here
        made = self.made.get(id(context))
        place = self._place_of(made)
        dtype = _dtype(context.fast_dtype)
        region = Region(
            place,
            (place.key, len(here.regions)),
            str(context.device).partition(":")[0],
            dtype,
            bool(context._enabled),
            False,
            bool(context._cache_enabled),
            framework=made is None or made.framework,
        )
        region = self.regions.setdefault(region, region)
        if made is not None:
            made.entered = True
        if not here.regions:
            here.repeats.clear()
            here.iteration = 0
        here.entered.append((id(context), region))
        here.regions = (*here.regions, region)
        self.probe.tell(RegionEntered(place, here.regions))

    def _place_of(self, made: Made | None) -> Place:
        """Where a region opens: the line that enters it; for a decorator, the decorator."""
        frame: FrameType | None = sys._getframe(4)
        decorated = False
        while frame is not None and origin_of(frame.f_code.co_filename) in ("torch", "python", "probe"):
            if self.probe.sites.is_user(frame.f_code):
                break
            decorated = decorated or frame.f_code.co_name == "decorate_autocast"
            frame = frame.f_back
        if decorated and made is not None and made.site is not None:
            return made.site
        site = self.probe.sites.here(4)
        if site is not None:
            return site
        if made is not None and made.site is not None:
            return made.site
        return self.probe.sites.at(frame if frame is not None else sys._getframe(0))

    def _left(self, context: Any) -> None:
        here = self.probe.here
        for index in range(len(here.entered) - 1, -1, -1):
            key, region = here.entered[index]
            if key == id(context):
                del here.entered[index]
                here.regions = tuple(region for _, region in here.entered)
                self.probe.tell(RegionExited(region.place, here.regions, region))
                return

    def _cleared(self) -> None:
        frame: FrameType | None = sys._getframe(3)
        if frame is not None and _makes_contexts(frame):
            return  # the outermost exit
        site = self.probe.site(3)
        if site is not None:
            self.probe.tell(CacheCleared(site, self.probe.here.regions))

    def _gone(self, key: int, _: object) -> None:
        made = self.made.pop(key, None)
        if made is not None and not made.entered:
            self.probe.guarded(self._dropped, made)

    def _look_for_forgotten(self) -> None:
        for made in list(self.made.values()):
            if not made.entered:
                self._dropped(made)

    def _dropped(self, made: Made) -> None:
        if made.site is None or made.framework:
            return
        how, name = _fate(made.site)
        if how is not None:
            self.probe.tell(RegionDropped(made.site, self.probe.here.regions, how, name))


def _makes_contexts(frame: FrameType) -> bool:
    """Whether a frame is a method of autocast or of a class that torch derives from it."""
    code = frame.f_code
    return code.co_filename.endswith(_CONTEXTS) and code.co_name in ("__init__", "__enter__", "__exit__")


def _dtype(dtype: Any) -> Any:
    from amplint.confirm.probe import DTYPES

    return DTYPES.get(dtype)


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
    from amplint.confirm.places import source_of

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
