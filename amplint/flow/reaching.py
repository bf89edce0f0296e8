"""Calls inside regions whose callees are out of sight, and the walks of what they may reach."""

from __future__ import annotations

import io
import re
from collections.abc import Hashable
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from amplint.amp.survey import may_raise
from amplint.events import Place, Region, enabled_region
from amplint.flow.values import ClassValue, Constant, Instance, Unknown, Value
from amplint.reached import CALLED, Reached, Spot

if TYPE_CHECKING:
    from amplint.flow.calls import Arguments
    from amplint.flow.engine import Engine
    from amplint.flow.expressions import Expressions
    from amplint.flow.paths import Path
    from amplint.source.outline import FunctionOutline
    from amplint.source.project import ProjectFile

_CUDA = (None, "cuda", "xpu")
_EVERYBODYS = frozenset(
    name for kind in (str, bytes, list, dict, set, int, io.TextIOWrapper) for name in dir(kind)
) | {
    "backward",
    "cpu",
    "cuda",
    "float",
    "half",
    "load_state_dict",
    "log",
    "parameters",
    "state_dict",
    "step",
    "to",
}
"""Methods that objects of all sorts have, so that their name tells nothing of the class."""


def called(walker: Expressions, value: Value, given: Arguments, node: cst.CSTNode) -> None:
    """Notes the call of an unknown value: of an object, or of a method that was kept in a name."""
    if walker.silent or not isinstance(value, Unknown):
        return
    region = _open(walker)
    if region is None:
        return
    for name in _last_names(value.symbol):
        _note(walker, name, given, node, region)
    _note(walker, CALLED, given, node, region, _annotated(walker, node))


def method_called(walker: Expressions, name: str, given: Arguments, node: cst.CSTNode) -> None:
    """Notes the call of a method on an unknown object, or of an object that is kept in an attribute of it."""
    if walker.silent or name.startswith("_") or name in _EVERYBODYS:
        return
    region = _open(walker)
    if region is not None:
        kept = _is_set(walker.scope.file.text, name)
        _note(walker, CALLED if kept else name, given, node, region)


def attribute_called(
    walker: Expressions, base: Instance, name: str, value: Value, given: Arguments, node: cst.CSTNode
) -> None:
    """Notes the call of an unknown object that is kept in an attribute."""
    if walker.silent or base.made_of is None or not walker.path.regions:
        return
    kept = isinstance(value, Unknown) and value.symbol is not None
    if kept or any(
        isinstance(part, ClassValue) and name in part.outline.assignments
        for part in walker.engine.bases(base.made_of)
    ):
        called(walker, value, given, node)


def _open(walker: Expressions) -> Region | None:
    region = enabled_region(walker.path.regions)
    if region is None or region.framework or region.device not in _CUDA:
        return None
    return region if not any(outer.assumed for outer in walker.path.regions) else None


def _last_names(symbol: Hashable) -> list[str]:
    """The attributes that a symbol was read from: ``a.b`` and ``given or a.b`` give ``b``."""
    if not isinstance(symbol, tuple):
        return []
    if len(symbol) == 3 and symbol[0] in ("and", "or"):
        return [*_last_names(symbol[1]), *_last_names(symbol[2])]
    if len(symbol) == 2 and isinstance(symbol[1], str) and symbol[1] not in _EVERYBODYS:
        return [symbol[1]]
    return []


def _annotated(walker: Expressions, node: cst.CSTNode) -> tuple[str, ...]:
    """The classes of the project in the annotations that the file gives to the name of what is called."""
    function = node.func if isinstance(node, cst.Call) else node
    name = function.attr if isinstance(function, cst.Attribute) else function
    if not isinstance(name, cst.Name):
        return ()
    file = walker.scope.file
    values = (walker.engine.resolve(file, part) for part in _in_annotations(file.text, name.value))
    return tuple(sorted({value.outline.name for value in values if isinstance(value, ClassValue)}))


@lru_cache(maxsize=1024)
def _is_set(text: str, name: str) -> bool:
    """Whether a text sets an attribute."""
    return re.search(rf"\.{name}\s*(?::[^=\n]+)?=[^=]", text) is not None


@lru_cache(maxsize=1024)
def _in_annotations(text: str, name: str) -> frozenset[str]:
    """The dotted names in the annotations that a text gives to a name."""
    found = re.findall(rf"\b{name}\s*:\s*([\w.\[\]|, ]+)", text)
    return frozenset(part for annotation in found for part in re.findall(r"[\w.]+", annotation))


def _note(
    walker: Expressions,
    name: str,
    given: Arguments,
    node: cst.CSTNode,
    region: Region,
    kinds: tuple[str, ...] = (),
) -> None:
    if name == CALLED and (given.unclear or not walker.path.gradients):
        return  # a call that hides its arguments fits every class
    keywords = tuple(sorted({keyword for keyword, _ in given.keywords}))
    positional = None if given.unclear else len(given.positional)
    key = (name, positional, keywords, kinds)
    reached = walker.engine.reached
    if key not in reached:
        call, opened = _spot(walker.place(node)), _spot(region.place)
        reached[key] = Reached(
            name,
            positional,
            keywords,
            call,
            opened,
            region.device,
            region.dtype,
            region.conditional,
            kinds,
            settings=_settings(walker.path),
        )


def _settings(path: Path) -> tuple[tuple[str, str], ...]:
    """What a path has found the attributes of objects not to be."""
    known = [*path.facts.items(), *(fact for case in path.cases for way in case for fact in way)]
    found = set()
    for symbol, truth in known:
        match symbol:
            case ("==", (_, str() as attribute), Constant(value=str() as text)) if not truth:
                found.add((attribute, text))
    return tuple(sorted(found))


def _asks(text: str, setting: tuple[str, str]) -> bool:
    """Whether code compares an attribute of that name with that string."""
    attribute, value = map(re.escape, setting)
    return re.search(rf"\b{attribute}\s*[!=]=\s*[\"']{value}[\"']", text) is not None


def _spot(place: Place) -> Spot:
    return Spot(place.path, place.span, place.text)


def _place(spot: Spot) -> Place:
    return Place(spot.path, spot, lambda: spot.span, lambda: spot.text)


def region_of(reached: Reached) -> Region:
    """The region around a call, for a walk of what it may reach."""
    opened = _place(reached.opened)
    return Region(opened, ("reached", opened), reached.device, reached.dtype, conditional=reached.conditional)


def place_of(reached: Reached) -> Place:
    """Where the call stands."""
    return _place(reached.call)


def walk(engine: Engine, file: ProjectFile, reached: Reached) -> None:
    """Walks the methods of a file that a call may reach, inside its region. An object that is called may be of
    any class of modules that the project never makes itself, and so leaves to its users and their settings."""
    for owner in list(file.outline.classes.values()):
        method = owner.methods.get(reached.name)
        if method is None:
            continue
        value = engine.class_value(file, owner)
        if not engine.is_module_class(value):
            continue
        if any(_asks(file.text_of(owner), setting) for setting in reached.settings):
            continue  # it minds a setting under which the region is not there
        if reached.name == CALLED:
            text = file.text_of(owner)
            possible = may_raise(text.encode()) and not engine.project.is_made(owner.name)
            possible = possible and (not reached.kinds or _is_any_of(engine, value, reached.kinds))
        else:
            possible = reached.alone or _declared(engine, value, reached.name)
        if possible and _takes(engine, file, method, reached):
            engine.run_function(file, method, reached=reached)


def _is_any_of(engine: Engine, value: ClassValue, kinds: tuple[str, ...]) -> bool:
    return any(isinstance(base, ClassValue) and base.outline.name in kinds for base in engine.bases(value))


def _declared(engine: Engine, value: ClassValue, name: str) -> bool:
    """Whether a base class in the project has the method, so that callers can rely on it."""
    return any(
        isinstance(base, ClassValue) and name in base.outline.methods for base in engine.bases(value)[1:]
    )


def _takes(engine: Engine, file: ProjectFile, method: FunctionOutline, reached: Reached) -> bool:
    """Whether a method can be called with so many arguments of these names."""
    node, _ = engine.parsed(file, method)
    if node is None:
        return False
    taken = [*node.params.posonly_params, *node.params.params][1:]
    named = [*taken, *node.params.kwonly_params]
    given = reached.positional
    if given is None:
        return True
    if given > len(taken) and not isinstance(node.params.star_arg, cst.Param):
        return False
    known = {parameter.name.value for parameter in named[given:]}
    if not known.issuperset(reached.keywords) and node.params.star_kwarg is None:
        return False
    needed = {parameter.name.value for parameter in named[given:] if parameter.default is None}
    return needed <= set(reached.keywords)
