"""Autograd Functions of the project: their decorators, and what their methods do."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from collections.abc import Sequence as Items
from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from amplint.amp.functions import by_name, hands_on, is_attribute_of, minds_types, multiplies
from amplint.amp.regions import CUSTOM_BWD, CUSTOM_FWD, ENTRIES
from amplint.events import CustomFunction, DType, FunctionApplied, FunctionDefined, Place
from amplint.findings import Span
from amplint.flow import scaling
from amplint.flow.paths import Path
from amplint.flow.scopes import Scope
from amplint.flow.values import (
    NONE,
    ClassValue,
    Constant,
    DTypeValue,
    FunctionValue,
    Library,
    Partial,
    Tensor,
    Value,
)
from amplint.source.project import ProjectFile

if TYPE_CHECKING:
    from amplint.flow.calls import Arguments
    from amplint.flow.engine import Engine
    from amplint.flow.expressions import Expressions

MAX_WRAPPERS = 2
_DEFINES = re.compile(r"\bclass \w+\([\w.]*Function\)")
_MINDS_AUTOCAST = re.compile(r"custom_fwd|custom_bwd|autocast")


def tell_of_definitions(engine: Engine, file: ProjectFile) -> None:
    """Tells of the Functions of a file that mind autocast."""
    values = [engine.class_value(file, outline) for outline in file.outline.classes.values()]
    for part in file.outline.definitions():
        if _DEFINES.search(file.text_of(part)) is not None:
            values += engine.inner_functions(file, part)
    for value in values:
        if _MINDS_AUTOCAST.search(file.text_of(value.outline)) is None:
            continue
        if not engine.is_static_function_class(value):
            continue
        found = describe(engine, value)
        place = found.backward or found.forward
        if place is not None:
            engine.listener.hear(engine.listener.start(), FunctionDefined(place, (), found))


def apply(walker: Expressions, value: ClassValue, given: Arguments, node: cst.Call) -> Value:
    """``Function.apply(…)``."""
    wide = any(isinstance(item, Tensor) and item.dtype is DType.FLOAT32 for item in given.all)
    walker.emit(
        FunctionApplied(walker.place(node), walker.path.regions, describe(walker.engine, value), wide)
    )
    return scaling.out_of_sight(walker, given, node)


def describe(engine: Engine, value: ClassValue) -> CustomFunction:
    """What a Function does about autocast. The answer is kept."""
    known = engine.custom_functions.get(id(value.outline))
    if known is None:
        known = engine.custom_functions[id(value.outline)] = _describe(engine, value)
    return known


def _describe(engine: Engine, value: ClassValue) -> CustomFunction:
    forward = engine.find_method(value, "forward")
    backward = engine.find_method(value, "backward")
    if forward is None or backward is None:
        return CustomFunction(value.outline.name, None, None, None, None)
    place, marked, device, asked = _decorators(engine, forward, CUSTOM_FWD)
    back, back_marked, back_device, _ = _decorators(engine, backward, CUSTOM_BWD)
    texts = [part.file.text_of(part.outline) for part in (forward, backward) if part.outline is not None]
    return CustomFunction(
        value.outline.name,
        place,
        back,
        marked,
        back_marked,
        device,
        back_device,
        asked is not None,
        asked.dtype if isinstance(asked, DTypeValue) else None,
        engine.find_method(value, "setup_context") is not None,
        hands_on(_body(forward), _first_parameter(forward)),
        any(map(minds_types, texts)),
        multiplies(_body(forward)) and multiplies(_body(backward)),
        _restored(engine, backward),
    )


def _decorators(
    engine: Engine, method: FunctionValue, wanted: frozenset[str]
) -> tuple[Place | None, bool | None, str | None, Value | None]:
    """Where a method stands; whether it has one of the wanted decorators, for which device, and to what that
    casts the inputs, if it does."""
    from amplint.flow.statements import Walker

    assert method.outline is not None
    node, piece = engine.parsed(method.file, method.outline)
    if node is None:
        return None, None, None, None
    walker = Walker(engine, Scope(method.file, piece, None), Path(engine.base))
    walker.silent = True
    found, unknown = False, False
    device: str | None = None
    asked: Value | None = None
    for decorator in node.decorators:
        value = walker.pin(engine.reveal(walker.evaluate(decorator.decorator)))
        keywords = dict(value.keywords) if isinstance(value, Partial) else {}
        function = value.function if isinstance(value, Partial) else value
        if not isinstance(function, Library):
            unknown = True
        elif function.name in wanted:
            found = True
            given = keywords.get("device_type")
            device = given.value if isinstance(given, Constant) and isinstance(given.value, str) else None
            if function.name.startswith("torch.cuda."):
                device = "cuda"
            asked = keywords.get("cast_inputs")
            asked = None if asked == NONE else asked
    return walker.place(node.name), True if found else None if unknown else False, device, asked


def _first_parameter(method: FunctionValue) -> str:
    assert method.outline is not None
    return method.outline.parameters[0] if method.outline.parameters else ""


def _body(method: FunctionValue) -> Items[ast.stmt]:
    return method.outline.body if method.outline is not None else []


def _restored(engine: Engine, backward: FunctionValue) -> Place | None:
    """See CustomFunction.restored."""
    saved = partial(is_attribute_of, _first_parameter(backward))
    node = _switched_by(engine, backward, saved)
    return place_of(backward.file, node) if node is not None else None


def _switched_by(
    engine: Engine, function: FunctionValue, is_flag: Callable[[ast.expr], bool], depth: int = 0
) -> ast.Call | None:
    """The call that makes an autocast context from a flag and from no type, in a function or, through its
    parameters, in one that it calls."""
    for statement in _body(function):
        for node in ast.walk(statement):
            if not isinstance(node, ast.Call) or any(isinstance(part, ast.Starred) for part in node.args):
                continue
            given = [*node.args, *(part.value for part in node.keywords)]
            dotted = ast.unparse(node.func)
            if not any(is_flag(part) for part in given) or not re.fullmatch(r"[\w.]+", dotted):
                continue
            value = engine.resolve(function.file, dotted)
            if isinstance(value, Library) and value.name in ENTRIES:
                named = by_name(ENTRIES[value.name].parameters, node)
                if "enabled" in named and is_flag(named["enabled"]) and not named.keys() & {"dtype", "**"}:
                    return node
            elif isinstance(value, FunctionValue) and value.outline is not None and depth < MAX_WRAPPERS:
                named = by_name(value.outline.parameters, node)
                flags = {name for name, part in named.items() if is_flag(part)}
                inner = _switched_by(engine, value, partial(_is_name, flags), depth + 1)
                if inner is not None:
                    return node
    return None


def _is_name(names: set[str], part: ast.expr) -> bool:
    return isinstance(part, ast.Name) and part.id in names


def place_of(file: ProjectFile, node: ast.expr | ast.stmt) -> Place:
    """Where a node of the outline stands."""
    first, last = node.lineno, node.end_lineno or node.lineno

    def column(line: int, offset: int) -> int:
        return len(file.lines[line - 1].encode()[:offset].decode(errors="replace")) + 1

    span = Span(first, column(first, node.col_offset), last, column(last, node.end_col_offset or 0))
    return Place(
        file.display, (file.display, "ast", first, node.col_offset), lambda: span, lambda: ast.unparse(node)
    )
