"""Scalers that a function is given and has no use for, where it would build one if it were given none."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from amplint.amp.scalers import SCALERS
from amplint.events import Place, ScalerDiscarded
from amplint.flow.functions import place_of
from amplint.flow.values import ClassValue, Library
from amplint.source.outline import FunctionOutline, collect_import, dotted
from amplint.source.project import ProjectFile

if TYPE_CHECKING:
    from amplint.flow.engine import Engine

MAX_WAYS = 64
_BUILDS = re.compile(r"caler\w*\(")
_NAME = "Scaler"
"""All classes of scalers have it in their names."""
_READ_ALL = frozenset({"locals", "vars", "eval", "exec"})
"""Functions that get at an argument without its name. So does this method of Lightning's modules:"""
_SAVE_ALL = "save_hyperparameters"
_ASK = frozenset({"isinstance", "hasattr", "callable", "type"})
_QUIET = (ast.Assign, ast.AnnAssign, ast.Raise, ast.Pass, ast.Assert, ast.If)


@dataclass(frozen=True)
class Stored:
    """What a statement left in a place: "None", "built" for a new scaler, or "other"."""

    what: str
    node: ast.stmt


Way = frozenset[tuple[str, Stored]]
"""One way through a function: what stands in which place."""


def tell_of_discarded(engine: Engine, file: ProjectFile) -> None:
    """Tells of the scalers that functions of a file are given and do not keep."""
    if _NAME not in file.text:
        return
    for part in file.outline.definitions():
        text = file.text_of(part)
        if "None" not in text or _BUILDS.search(text) is None:
            continue
        for parameter, certain in _parameters(engine, file, part):
            if re.search(rf"\b{parameter} is\b|\b(?:if|not)\b[^\n]*\b{parameter}\b", text) is None:
                continue
            for place, target in _discarded(engine, file, part, parameter, certain):
                engine.listener.hear(engine.listener.start(), ScalerDiscarded(place, (), parameter, target))


def _parameters(engine: Engine, file: ProjectFile, part: FunctionOutline) -> Iterator[tuple[str, bool]]:
    """The parameters that may be scalers, and whether an annotation says so. One without an annotation may be
    if it is None by default."""
    given = part.arguments
    assert given is not None
    positional = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(positional) - len(given.defaults)), *given.defaults, *given.kw_defaults]
    for argument, default in zip([*positional, *given.kwonlyargs], defaults, strict=True):
        if argument.annotation is not None:
            if _is_scaler(partial(_class_of, engine, file, part), argument.annotation):
                yield argument.arg, True
        elif isinstance(default, ast.Constant) and default.value is None:
            yield argument.arg, False


def _is_scaler(is_class: Callable[[ast.expr], bool], annotation: ast.expr) -> bool:
    """Whether an annotation admits scalers and, but for None, nothing else."""
    found = list(_alternatives(annotation))
    return bool(found) and all(part is not None and is_class(part) for part in found)


def _alternatives(annotation: ast.expr) -> Iterator[ast.expr | None]:
    """The types that an annotation admits beside None; None for what cannot be read."""
    match annotation:
        case ast.Constant(value=None):
            return
        case ast.Constant(value=str(text)):
            try:
                yield from _alternatives(ast.parse(text, mode="eval").body)
            except SyntaxError:
                yield None
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from _alternatives(left)
            yield from _alternatives(right)
        case ast.Subscript(value=outer, slice=inner):
            name = (dotted(outer) or "").rpartition(".")[2]
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            if name not in ("Optional", "Union"):
                yield None
                return
            for part in parts:
                yield from _alternatives(part)
        case ast.Name() | ast.Attribute():
            yield annotation
        case _:
            yield None


def _class_of(engine: Engine, file: ProjectFile, part: FunctionOutline, node: ast.expr) -> bool:
    """Whether an expression stands for a class of scalers."""
    name = dotted(node)
    if name is None:
        return False
    root, _, rest = name.partition(".")
    imports = file.outline.imports
    if _NAME not in name and _NAME not in imports.get(root, ""):
        return False  # most names: no file has to be read for them
    value = engine.resolve(file, name)
    if not isinstance(value, (Library, ClassValue)):
        target = _imports_in(part).get(root)
        if target is None:
            return False
        value = engine.reveal(engine.imported(file, f"{target}.{rest}" if rest else target))
    if isinstance(value, Library):
        return value.name in SCALERS
    return isinstance(value, ClassValue) and any(
        isinstance(base, Library) and base.name in SCALERS for base in engine.bases(value)
    )


def _imports_in(part: FunctionOutline) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement in part.body:
        for node in ast.walk(statement):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                collect_import(node, found, [])
    return found


def _discarded(
    engine: Engine, file: ProjectFile, part: FunctionOutline, parameter: str, certain: bool
) -> Iterator[tuple[Place, str]]:
    """The statements that leave None in a place where a scaler is given, with the place."""
    builds = partial(_class_of, engine, file, part)
    given = Reading(parameter, True, certain, builds)
    ends = given.ends_of(part.body)
    if not ends:
        return
    without = Reading(parameter, False, certain, builds).ends_of(part.body)
    own = f"{part.parameters[0]}." if part.parameters else ""
    for target in sorted({place for way in ends for place, _ in way}):
        if not certain and target.rpartition(".")[2] != parameter:
            continue
        if target != parameter and not (own and target.startswith(own)):
            continue
        left = [stored for way in ends for place, stored in way if place == target]
        instead = [stored for way in without for place, stored in way if place == target]
        if any(stored.what != "None" for stored in left) or all(one.what != "built" for one in instead):
            continue
        nodes = {stored.node for stored in left}
        either = nodes & {stored.node for stored in instead if stored.what == "built"}
        only = nodes - {stored.node for stored in instead}
        node = min(either or only or nodes, key=lambda node: node.lineno)
        yield place_of(file, node), target


@dataclass
class Reading:
    """A function read as it runs with a scaler for a parameter, or with None. ``certain`` says that the parameter
    is nothing else, so that its truth tells the two apart as well."""

    parameter: str
    given: bool
    certain: bool
    builds: Callable[[ast.expr], bool]
    used: bool = False
    """Whether the parameter is used for anything but to ask whether it is there."""
    lost: bool = False
    """Whether there were too many ways to follow."""
    ended: set[Way] = field(default_factory=set)
    left_loop: set[Way] = field(default_factory=set)

    def ends_of(self, body: list[ast.stmt]) -> set[Way]:
        """What stands where when the function is over, on each way that raises nothing; nothing where it is used
        or there are too many ways."""
        ends = self._block(body, {frozenset()}) | self.ended
        return ends if not self._is_settled(ends) else set()

    def _block(self, body: list[ast.stmt], ways: set[Way]) -> set[Way]:
        for statement in body:
            ways = {after for way in ways for after in self._statement(statement, way)}
            if self._is_settled(ways):
                break
        return ways

    def _is_settled(self, ways: set[Way]) -> bool:
        self.lost = self.lost or len(ways) > MAX_WAYS
        return self.lost or (self.given and self.used)

    def _statement(self, node: ast.stmt, way: Way) -> Iterable[Way]:
        match node:
            case ast.Assign(targets=targets, value=value):
                return self._assign(node, targets, value, way)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return self._assign(node, [target], value, way)
            case ast.AnnAssign(value=None) | ast.Import() | ast.ImportFrom():
                return [way]
            case ast.If(test=test, body=body, orelse=orelse):
                truth = self._test(test, way)
                if self.given and self._is_about(test, way):
                    self._look_for_acts(body if truth is not False else [])
                    self._look_for_acts(orelse if truth is not True else [])
                taken = self._block(body, {way}) if truth is not False else set()
                return taken | (self._block(orelse, {way}) if truth is not True else set())
            case ast.Assert(test=test):
                return [] if self._test(test, way) is False else [way]
            case ast.Raise():
                return []
            case ast.Return(value=value):
                if value is not None:
                    self._look(value, way)
                    if any(self._names(value)):
                        self.used = True
                self.ended.add(way)
                return []
            case ast.Break() | ast.Continue():
                self.left_loop.add(way)
                return []
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(node, way)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    self._look(item.context_expr, way)
                return self._block(body, {self._overwritten(items, node, way)})
            case ast.Try():
                return self._try(node, way)
            case ast.Match(subject=subject, cases=cases):
                self._look(subject, way)
                return {way}.union(*(self._block(case.body, {way}) for case in cases))
        self._look(node, way)
        return [self._overwritten([node], node, way)]

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, way: Way) -> set[Way]:
        outer, self.left_loop = self.left_loop, set()
        start = way
        if isinstance(node, ast.While):
            self._test(node.test, way)
        else:
            self._look(node.iter, way)
            start = self._overwritten([node.target], node, way)
        around = self._block(node.body, {start}) | {way}
        after = self._block(node.orelse, around) | self.left_loop
        self.left_loop = outer
        return after

    def _try(self, node: ast.Try, way: Way) -> set[Way]:
        tried = self._block(node.body, {way})
        ways = self._block(node.orelse, tried)
        for handler in node.handlers:
            ways |= self._block(handler.body, tried | {way})
        return self._block(node.finalbody, ways)

    def _assign(
        self, node: ast.Assign | ast.AnnAssign, targets: list[ast.expr], value: ast.expr, way: Way
    ) -> set[Way]:
        ways: set[Way] = set()
        for stored in self._values(value, node, way):
            after = way
            for target in targets:
                place = dotted(target)
                if place is None:
                    self._look(target, way)
                    after = self._overwritten([target], node, after)
                else:
                    after = _with(after, place, stored)
            ways.add(after)
        return ways

    def _values(self, value: ast.expr, node: ast.stmt, way: Way) -> list[Stored]:
        match value:
            case ast.Constant(value=None):
                return [Stored("None", node)]
            case ast.IfExp(test=test, body=body, orelse=orelse):
                truth = self._test(test, way)
                found = self._values(body, node, way) if truth is not False else []
                found += self._values(orelse, node, way) if truth is not True else []
                if self._is_about(test, way) and any(stored.what == "other" for stored in found):
                    self.used = True
                return found
            case ast.Call(func=func) if self.builds(func):
                self._look(value, way)
                return [Stored("built", node)]
            case ast.Name() | ast.Attribute() if (place := dotted(value)) is not None:
                known = dict(way).get(place)
                if known is not None:
                    return [known]
                if place == self.parameter and not self.given:
                    return [Stored("None", node)]
        self._look(value, way)
        return [Stored("other", node)]

    def _test(self, test: ast.expr, way: Way) -> bool | None:
        """How a condition comes out, None where the parameter does not decide it."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._test(operand, way)
                return None if inner is None else not inner
            case ast.BoolOp(op=op, values=parts):
                decides = isinstance(op, ast.Or)
                truths = [self._test(part, way) for part in parts]
                if decides in truths:
                    return decides
                return None if None in truths else not decides
            case ast.Compare(left=left, ops=[op], comparators=[right]) if self._is_it(left, way):
                if isinstance(right, ast.Constant) and right.value is None:
                    if isinstance(op, (ast.Is, ast.Eq)):
                        return not self.given
                    if isinstance(op, (ast.IsNot, ast.NotEq)):
                        return self.given
                self._look(right, way)
                return None
            case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _ASK and self._is_it(
                first, way
            ):
                return None
            case ast.Name() if self.certain and self._is_it(test, way):
                return self.given
        self._look(test, way)
        return None

    def _look(self, node: ast.AST, way: Way) -> None:
        """Looks for uses of the parameter."""
        if self.parameter not in dict(way) and any(self._names(node)):
            self.used = True
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in _READ_ALL:
                self.used = True
            if isinstance(part, ast.Attribute) and part.attr == _SAVE_ALL:
                self.used = True

    def _look_for_acts(self, body: list[ast.stmt]) -> None:
        """Whoever does something else where a scaler is given knows what becomes of it."""
        if any(not isinstance(part, _QUIET) for part in body):
            self.used = True

    def _is_it(self, node: ast.expr, way: Way) -> bool:
        return isinstance(node, ast.Name) and node.id == self.parameter and node.id not in dict(way)

    def _is_about(self, test: ast.expr, way: Way) -> bool:
        return self.parameter not in dict(way) and any(self._names(test))

    def _names(self, node: ast.AST) -> Iterator[ast.Name]:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id == self.parameter and isinstance(part.ctx, ast.Load):
                yield part

    def _overwritten(self, nodes: Iterable[ast.AST], statement: ast.stmt, way: Way) -> Way:
        for node in nodes:
            for part in ast.walk(node):
                if isinstance(part, (ast.Name, ast.Attribute)) and isinstance(part.ctx, ast.Store):
                    place = dotted(part)
                    if place is not None:
                        way = _with(way, place, Stored("other", statement))
        return way


def _with(way: Way, place: str, stored: Stored) -> Way:
    return frozenset({*((known, other) for known, other in way if known != place), (place, stored)})
