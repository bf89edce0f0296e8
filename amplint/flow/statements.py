"""The walk over statements: order, branches, loops, ``with`` and assignments."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import replace
from functools import partial, reduce
from operator import or_

import libcst as cst

from amplint.events import (
    IndexPut,
    LoopEnded,
    LoopIterated,
    RegionDropped,
    Rounds,
)
from amplint.flow import attributes, calls, contexts, modules, scaling, tensors
from amplint.flow.expressions import Expressions, Leave
from amplint.flow.paths import OUTSIDE, Path, merge, split
from amplint.flow.values import (
    NONE,
    ONE_OF_MANY,
    UNKNOWN,
    Autocast,
    Constant,
    FunctionValue,
    Instance,
    Library,
    Mapping,
    Number,
    Optimizer,
    Parameters,
    Scaler,
    Sequence,
    Tensor,
    Unknown,
    Value,
)

_DEEP = 3
_BELOW = (cst.LessThan, cst.LessThanEqual)
_ABOVE = (cst.GreaterThan, cst.GreaterThanEqual)
_RELIABLE_IMPORTS = ("torch",)


class Walker(Expressions):
    """Walks the statements of one entry point and of the functions that it calls."""

    after: list[Path]
    entry: Path

    # blocks ------------------------------------------------------------------------------------------------

    def run_suite(self, suite: cst.BaseSuite, paths: list[Path]) -> list[Path]:
        """Runs the body of a compound statement on each path; gives the paths that fall out at its end."""
        if isinstance(suite, cst.IndentedBlock):
            return self.run_block(suite.body, paths)
        assert isinstance(suite, cst.SimpleStatementSuite)
        return self._run_small(suite.body, paths)

    def run_block(self, statements: Items[cst.BaseStatement], paths: list[Path]) -> list[Path]:
        """Runs statements in order."""
        for statement in statements:
            if not paths:
                break
            after: list[Path] = []
            for path in paths:
                after.extend(self.run_statement(statement, path))
            paths = merge(after)
        return paths

    def run_statement(self, node: cst.BaseStatement, path: Path) -> list[Path]:
        """Runs one statement on one path."""
        self.engine.budget.spend()
        self.entry = path
        self.after = [path]
        self.walk(node)
        return self.after

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> bool:
        self.after = self._run_small(node.body, [self.entry])
        return False

    def _run_small(self, parts: Items[cst.BaseSmallStatement], paths: list[Path]) -> list[Path]:
        for part in parts:
            if type(part) is cst.Pass:
                continue
            after: list[Path] = []
            for path in paths:
                after.extend(way for way, _ in self.explore(path, partial(self.walk, part)))
            paths = after if len(after) == 1 else merge(after)
        return paths

    # small statements --------------------------------------------------------------------------------------

    def visit_Expr(self, node: cst.Expr) -> bool:
        if type(node.value) is cst.SimpleString:
            return False
        value = self.evaluate(node.value)
        made_here = isinstance(value, Autocast) and value.place == self.place(node.value)
        if isinstance(value, Autocast) and made_here:
            self.emit(RegionDropped(value.place, self.path.regions, "statement"))
        return False

    def visit_Assign(self, node: cst.Assign) -> bool:
        value = self.evaluate(node.value)
        for target in node.targets:
            self.assign(target.target, value, node)
        counters = self.scope.counters
        if counters and type(node.value) is cst.Comparison and _asks(node.value, counters):
            names = [part.target.value for part in node.targets if isinstance(part.target, cst.Name)]
            self.scope.counters = tuple(dict.fromkeys((*counters, *names)))
        return False

    def visit_AnnAssign(self, node: cst.AnnAssign) -> bool:
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value), node)
        return False

    def visit_AugAssign(self, node: cst.AugAssign) -> bool:
        target = self.evaluate(node.target)
        value = self.evaluate(node.value)
        if isinstance(node.operator, cst.BitAndAssign) and target == Constant(False):
            return False  # a flag that is off stays off
        self.assign(node.target, tensors.augmented(self, node, target, value), node)
        return False

    def assign(self, target: cst.CSTNode, value: Value, node: cst.CSTNode) -> None:
        match target:
            case cst.Name():
                if isinstance(value, Unknown) and value.kind is None:
                    kind = self.kind(target.value)
                    if kind is not None or value.symbol is None:
                        value = Unknown(value.symbol or self.fresh(target), kind)
                if isinstance(value, Scaler) and self.path.names.get(target.value) == NONE:
                    value = replace(value, optional=True)
                if isinstance(value, Autocast) and not self.engine.is_read(self.scope, target.value):
                    self.emit(RegionDropped(value.place, self.path.regions, "unused name", target.value))
                self.path.bind(target.value, value)
            case cst.Attribute():
                self._set_attribute(target, value)
            case cst.Tuple() | cst.List():
                self._unpack(target, value, node)
            case cst.Subscript():
                self._set_item(target, value)
            case cst.StarredElement():
                self.assign(target.value, UNKNOWN, node)

    def _unpack(self, target: cst.Tuple | cst.List, value: Value, node: cst.CSTNode) -> None:
        elements = target.elements
        starred = any(isinstance(element, cst.StarredElement) for element in elements)
        items: list[Value]
        if isinstance(value, Sequence) and value.exact and not starred and len(value.items) == len(elements):
            items = [self.pin(item) for item in value.items]
        elif isinstance(value, Parameters) and value.named and len(elements) == 2:
            items = [UNKNOWN, Parameters(value.module, one=True)]
        elif isinstance(value, Sequence) and not value.exact and len(value.items) == 1 and not starred:
            items = [value.items[0]] * len(elements)
        elif isinstance(value, Tensor):
            items = [value.part(n) if value.whole_output else value for n in range(len(elements))]
        else:
            items = [Unknown(self.fresh(element)) for element in elements]
        for element, item in zip(elements, items, strict=True):
            self.assign(element.value, UNKNOWN if isinstance(element, cst.StarredElement) else item, node)

    def _set_attribute(self, target: cst.Attribute, value: Value) -> None:
        base = self.evaluate(target.value)
        name = target.attr.value
        if isinstance(base, Instance):
            if isinstance(value, Unknown) and value.symbol is None:
                value = Unknown((base.identity, name, id(target)), value.kind)
            if isinstance(value, Scaler) and self.path.load(base.identity, name) == NONE:
                value = replace(value, optional=True)
            self.path.store(base.identity, name, value)
        elif name == "grad" and value == NONE:
            of = frozenset({base.module}) if isinstance(base, Parameters) else frozenset()
            scaling.zeroed(self, target, of=of)
        elif isinstance(base, Unknown) and base.symbol is not None:
            self.path.store(base.symbol, name, value)
            self.path.store(base.symbol, OUTSIDE, NONE)
            if name == "requires_grad" and base.kind == "module" and value == Constant(False):
                self.path.store(base.symbol, "<frozen>", value)
        elif name == "data":
            tensors.write(self, base, ".data =", target)
        elif isinstance(base, Parameters) and name == "requires_grad":
            self.path.store(base.module, "<frozen>", Constant(value == Constant(False)))

    def _set_item(self, target: cst.Subscript, value: Value) -> None:
        base = self.evaluate(target.value)
        indices = [part.slice.value for part in target.slice if isinstance(part.slice, cst.Index)]
        keys = [self.evaluate(index) for index in indices]
        if isinstance(base, Tensor):
            tensors.write(self, base, "[…] =", target)
        if isinstance(base, Tensor) and isinstance(value, Tensor):
            self.emit(
                IndexPut(
                    self.place(target),
                    self.path.regions,
                    tensors.operand(self, base, target.value),
                    tensors.operand(self, value, target),
                    "index_put_" if _is_put(keys, indices) and value.trait != "scalar" else "copy_",
                )
            )
        elif isinstance(base, Mapping):
            if len(target.slice) == 1 and keys:
                key = keys[0]
                changed = (
                    replace(base, items=(*base.items, (key.value, value)))
                    if isinstance(key, Constant)
                    else replace(base, rest=(*base.rest, value))
                )
                self.assign(target.value, changed, target)
        elif isinstance(base, Instance):
            attributes_items = self.path.load(base.identity, "<items>")
            if isinstance(attributes_items, Sequence):
                self.path.store(
                    base.identity, "<items>", Sequence((*attributes_items.items, value), exact=False)
                )

    def visit_Return(self, node: cst.Return) -> bool:
        raise Leave("return", self.evaluate(node.value) if node.value is not None else Constant(None))

    def visit_Break(self, node: cst.Break) -> bool:
        raise Leave("break")

    def visit_Continue(self, node: cst.Continue) -> bool:
        raise Leave("continue")

    def visit_Raise(self, node: cst.Raise) -> bool:
        if node.exc is not None:
            self.evaluate(node.exc)
        raise Leave("raise")

    def visit_Assert(self, node: cst.Assert) -> bool:
        if not self.test(node.test):
            raise Leave("raise")
        self._narrow(node.test)
        return False

    def _narrow(self, test: cst.BaseExpression) -> None:
        """After ``assert isinstance(name, Class)`` a name is an object of the class."""
        if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
            self._narrow(test.left)
            self._narrow(test.right)
        if not isinstance(test, cst.Call) or len(test.args) != 2:
            return
        name, kind = (argument.value for argument in test.args)
        if not isinstance(name, cst.Name) or attributes.dotted_name(test.func) != "isinstance":
            return
        value = self.path.names.get(name.value)
        if isinstance(value, Unknown):
            symbol = value.symbol if value.symbol is not None else self.fresh(name)
            made = self.engine.annotated(self, kind, symbol)
            if made is not None:
                self.path.bind(name.value, made)

    def visit_Del(self, node: cst.Del) -> bool:
        return False

    def visit_Global(self, node: cst.Global) -> bool:
        self.scope.globals.update(item.name.value for item in node.names)
        return False

    def visit_Nonlocal(self, node: cst.Nonlocal) -> bool:
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        for alias in node.names:
            dotted = attributes.dotted_name(alias.name) or ""
            if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                self.path.bind(alias.asname.name.value, self.engine.imported(self.scope.file, dotted))
            else:
                root = dotted.split(".")[0]
                self.path.bind(root, self.engine.imported(self.scope.file, root))
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        if isinstance(node.names, cst.ImportStar):
            return False
        source = "." * len(node.relative) + (attributes.dotted_name(node.module) or "" if node.module else "")
        for alias in node.names:
            if not isinstance(alias.name, cst.Name):
                continue
            local = alias.name.value
            if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                local = alias.asname.name.value
            joint = "" if source.endswith(".") else "."
            self.path.bind(local, self.engine.imported(self.scope.file, f"{source}{joint}{alias.name.value}"))
        return False

    # compound statements -----------------------------------------------------------------------------------

    def visit_If(self, node: cst.If) -> bool:
        outcomes = self.explore(self.entry, lambda: self.test(node.test))
        taken = merge(split(self.entry, [path for path, truth in outcomes if truth]))
        other = merge(split(self.entry, [path for path, truth in outcomes if not truth]))
        scope = self.scope
        scope.branches += 1
        counts = _asks(node.test, scope.counters) if scope.counters else Rounds.ANY
        scope.counted += counts
        going_on = len(scope.continues)
        after = self.run_suite(node.body, taken) if taken else []
        others = Rounds.ONE if counts else Rounds.ANY
        scope.counted += others - counts
        if type(node.orelse) is cst.If:
            following: list[Path] = []
            for path in other:
                following.extend(self.run_statement(node.orelse, path))
            other = following
        elif type(node.orelse) is cst.Else and other:
            other = self.run_suite(node.orelse.body, other)
        scope.branches -= 1
        if len(scope.continues) == going_on:
            scope.counted -= others
        self.after = merge(after + other)
        return False

    def visit_For(self, node: cst.For) -> bool:
        after: list[Path] = []
        for path, source in self.explore(self.entry, lambda: self.evaluate(node.iter)):
            after.extend(self._loop(node, path, source))
        if node.orelse is not None:
            after = self.run_suite(node.orelse.body, merge(after))
        self.after = merge(after)
        return False

    def visit_While(self, node: cst.While) -> bool:
        self.after = merge(self._loop(node, self.entry, None))
        return False

    def _loop(self, node: cst.For | cst.While, path: Path, source: Value | None) -> list[Path]:
        scope = self.scope
        saved = scope.breaks, scope.continues
        scope.breaks, scope.continues = [], []
        branches, counted = scope.branches, (scope.counters, scope.counted)
        scope.counters, scope.counted = _counters(node), 0
        if not scope.loops:
            scope.branches = 0
        scope.loops += 1
        paths = [path]
        exits: list[Path] = []
        items: list[Value] | None = None
        if isinstance(source, Instance):
            source = modules.items_of(self, source) or source
        if isinstance(source, Sequence) and source.exact and len(source.items) <= 8:
            items = [self.pin(item) for item in source.items]
        endless = isinstance(node, cst.While) and _endless(node)
        rounds = len(items) if items is not None else (2 if scope.loops < _DEEP or endless else 1)
        before = path
        entered, seen = path.round, 0
        for number in range(rounds):
            starting: list[Path] = []
            for start in paths:
                way = start.fork()
                if number:
                    way.iteration += 1
                way.round = 0
                self.path = way
                self.emit(LoopIterated(self.place(node), way.regions, id(node), number))
                if isinstance(node, cst.For):
                    item = items[number] if items is not None else None
                    starting.extend(
                        done
                        for done, _ in self.explore(way, lambda item=item: self._next(node, source, item))  # type: ignore[misc]
                    )
                else:
                    for done, truth in self.explore(way, lambda: self.test(node.test)):
                        (starting if truth else exits).append(done)
            paths = self.run_suite(node.body, merge(starting)) if starting else []
            ends = [way.round for way in paths + scope.continues]
            seen = reduce(or_, ends, seen)
            paths = merge(paths + scope.continues)
            scope.continues = []
            if not paths or (items is None and number == 0 and _unchanged(before, paths)):
                break
        scope.loops -= 1
        scope.branches = branches
        scope.counters, scope.counted = counted
        exits += scope.breaks
        if isinstance(node, cst.While) and not exits:
            exits = paths
        elif not endless:
            exits = paths + exits
        if not exits and items is not None and not rounds:
            exits = [path]
        scope.breaks, scope.continues = saved
        for way in exits:
            way.round |= entered | seen
        if items is None:
            for way in exits:
                self.path = way
                self.emit(LoopEnded(self.place(node), way.regions, id(node)))
        return exits

    def _next(self, node: cst.For, source: Value | None, item: Value | None) -> None:
        if item is None:
            item = self._another(modules.element(self, source if source is not None else UNKNOWN), node)
        elif isinstance(item, Number):
            item = Number(self.fresh(node))
        self.assign(node.target, item, node)

    def _another(self, item: Value, node: cst.CSTNode) -> Value:
        """One item of those that an iteration gives: what is not known is another one in each round."""
        match item:
            case Number():
                return Number(self.fresh(node))
            case Unknown():
                return Unknown((ONE_OF_MANY, self.fresh(node)), item.kind)
            case Optimizer():
                return replace(item, identity=(ONE_OF_MANY, item.identity))
            case Sequence() if item.exact:
                return Sequence(tuple(self._another(part, node) for part in item.items))
        return item

    def visit_With(self, node: cst.With) -> bool:
        after: list[Path] = []
        marks = self._marks()
        for path, opened in self.explore(self.entry, lambda: [self._enter(item) for item in node.items]):
            inside = self.run_suite(node.body, [path])
            after.extend(self._close(way, opened, node) for way in inside)
            self._close_leaving(marks, opened, node)
            marks = self._marks()
        self.after = merge(after)
        return False

    def _marks(self) -> tuple[int, int, int]:
        scope = self.scope
        return len(scope.returns), len(scope.breaks), len(scope.continues)

    def _close_leaving(
        self, marks: tuple[int, int, int], opened: list[contexts.Opened], node: cst.With
    ) -> None:
        scope = self.scope
        for way, _ in scope.returns[marks[0] :]:
            self._close(way, opened, node)
        for way in scope.breaks[marks[1] :] + scope.continues[marks[2] :]:
            self._close(way, opened, node)

    def _enter(self, item: cst.WithItem) -> contexts.Opened:
        value = self.evaluate(item.item)
        place = value.place if isinstance(value, Autocast) else self.place(item.item)
        if isinstance(value, Library) and contexts.is_entry(self, value):
            self.emit(RegionDropped(place, self.path.regions, "class"))
            raise Leave("raise")
        opened, bound = contexts.enter(self, value, item.item)
        if item.asname is not None:
            self.assign(item.asname.name, bound, item)
        return opened

    def _close(self, path: Path, opened: list[contexts.Opened], node: cst.CSTNode) -> Path:
        self.path = path
        for part in reversed(opened):
            contexts.close(self, part, node)
        return self.path

    def visit_Try(self, node: cst.Try) -> bool:
        self._try(node)
        return False

    def visit_TryStar(self, node: cst.TryStar) -> bool:
        self._try(node)
        return False

    def _try(self, node: cst.Try | cst.TryStar) -> None:
        entry = self.entry
        begun = entry.fork()
        marks = self._marks()
        ladder = isinstance(node.body, cst.IndentedBlock) and any(
            isinstance(part, (cst.Import, cst.ImportFrom))
            for line in node.body.body
            if isinstance(line, cst.SimpleStatementLine)
            for part in line.body
        )
        if ladder:
            # what an import ladder binds belongs together
            begun.learn(("imported", id(node)), True)
        body = self.run_suite(node.body, [begun])
        handled: list[Path] = []
        if not self._import_that_works(node):
            self.scope.branches += 1
            for handler in node.handlers:
                start = entry.fork()
                if ladder:
                    start.learn(("imported", id(node)), False)
                if handler.name is not None and isinstance(handler.name.name, cst.Name):
                    start.bind(handler.name.name.value, UNKNOWN)
                handled.extend(self.run_suite(handler.body, [start]))
            self.scope.branches -= 1
        if node.orelse is not None and body:
            body = self.run_suite(node.orelse.body, body)
        after = merge(body + handled)
        if node.finalbody is not None:
            if after:
                after = self.run_suite(node.finalbody.body, after)
            self._run_last(node.finalbody.body, marks)
        self.after = after

    def _run_last(self, suite: cst.BaseSuite, marks: tuple[int, int, int]) -> None:
        """Runs what stands under ``finally`` on the paths that leave the block early."""
        scope = self.scope
        for paths, mark in ((scope.breaks, marks[1]), (scope.continues, marks[2])):
            leaving = paths[mark:]
            del paths[mark:]
            paths += self.run_suite(suite, leaving) if leaving else []
        returning = scope.returns[marks[0] :]
        del scope.returns[marks[0] :]
        for way, value in returning:
            scope.returns += [(done, value) for done in self.run_suite(suite, [way])]

    def _import_that_works(self, node: cst.Try | cst.TryStar) -> bool:
        """Whether the body only imports what torch and the project surely have, so that no handler runs."""
        if not isinstance(node.body, cst.IndentedBlock):
            return False
        for line in node.body.body:
            if not isinstance(line, cst.SimpleStatementLine):
                return False
            for part in line.body:
                if not isinstance(part, (cst.Import, cst.ImportFrom)):
                    return False
                if isinstance(part, cst.ImportFrom):
                    root = attributes.dotted_name(part.module) if part.module else ""
                    if not part.relative and (root or "").split(".")[0] not in _RELIABLE_IMPORTS:
                        return False
                elif any(
                    (attributes.dotted_name(alias.name) or "").split(".")[0] not in _RELIABLE_IMPORTS
                    for alias in part.names
                ):
                    return False
        return True

    def visit_Match(self, node: cst.Match) -> bool:
        after: list[Path] = []
        for path, _ in self.explore(self.entry, lambda: self.evaluate(node.subject)):
            after.append(path)
            self.scope.branches += 1
            for case in node.cases:
                after.extend(self.run_suite(case.body, [path.fork()]))
            self.scope.branches -= 1
        self.after = merge(after)
        return False

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        for path, _ in self.explore(self.entry, lambda: self._define(node)):
            self.after = [path]
        return False

    def _define(self, node: cst.FunctionDef) -> None:
        made = FunctionValue(self.scope.file, None, node, self.scope_here(), undecorated=not node.decorators)
        self.scope.defined[node] = made
        value: Value = made
        if node.decorators:
            value = calls.decorate(self, made, node.decorators)
        self.path.bind(node.name.value, value)

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        path = self.entry.fork()
        path.bind(node.name.value, self._class_of(node))
        self.after = [path]
        return False

    def _class_of(self, node: cst.ClassDef) -> Value:
        """The class of a statement: one of the file, or an autograd Function inside a function."""
        outline, file = self.scope.outline, self.scope.file
        if outline is None:
            return UNKNOWN
        if outline.name == "<module>":
            known = file.outline.classes.get(node.name.value)
            return self.engine.class_value(file, known) if known is not None else UNKNOWN
        if not any(isinstance(base.value, (cst.Name, cst.Attribute)) for base in node.bases):
            return UNKNOWN
        inner = self.engine.inner_functions(file, outline)
        same = [value for value in inner if value.outline.name == node.name.value]
        return same[0] if len(same) == 1 else UNKNOWN


def _is_put(keys: list[Value], indices: list[cst.BaseExpression]) -> bool:
    """Whether an index has a mask, a tensor or a list in it; numbers and slices make torch copy."""
    return any(isinstance(key, Tensor) and key.trait != "scalar" for key in keys) or any(
        isinstance(index, cst.List) or _makes_mask(index) for index in indices
    )


def _makes_mask(node: cst.BaseExpression) -> bool:
    """Whether a comparison is one of arrays, because a part of it is cut along one of several dimensions."""
    if not isinstance(node, cst.Comparison):
        return False
    sides = [node.left, *(target.comparator for target in node.comparisons)]
    return any(
        isinstance(side, cst.Subscript)
        and len(side.slice) > 1
        and any(isinstance(part.slice, cst.Slice) for part in side.slice)
        for side in sides
    )


def _counters(node: cst.For | cst.While) -> tuple[str, ...]:
    """The name that a loop sets, or the first one, which is the number for ``enumerate``."""
    target: cst.CSTNode | None = node.target if isinstance(node, cst.For) else None
    if isinstance(target, cst.Tuple) and target.elements:
        target = target.elements[0].value
    return (target.value,) if isinstance(target, cst.Name) else ()


def _asks(test: cst.BaseExpression, counters: tuple[str, ...]) -> Rounds:
    """For which rounds a condition asks that compares the first of these names, alone or with something added, or is
    the outcome of that. A remainder comes again in later rounds."""
    match test:
        case cst.BooleanOperation():
            return max(_asks(test.left, counters), _asks(test.right, counters))
        case cst.UnaryOperation():
            return Rounds.ONE if _asks(test.expression, counters) else Rounds.ANY
        case cst.Name():
            return Rounds.ONE if test.value in counters[1:] else Rounds.ANY
        case cst.Comparison():
            sides = (test.left, *(part.comparator for part in test.comparisons))
            if not any(_is_counted(side, counters[0]) for side in sides):
                return Rounds.ANY
            how = test.comparisons[0].operator
            on_left = _is_counted(test.left, counters[0])
            below = isinstance(how, _BELOW if on_left else _ABOVE)
            zero = any(isinstance(side, cst.Integer) and side.value == "0" for side in sides)
            is_first = below or (isinstance(how, cst.Equal) and zero)
            return Rounds.FIRST if is_first and len(sides) == 2 else Rounds.ONE
    return Rounds.ANY


def _is_counted(node: cst.BaseExpression, counter: str) -> bool:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Add, cst.Subtract)):
        return _is_counted(node.left, counter) or _is_counted(node.right, counter)
    return isinstance(node, cst.Name) and node.value == counter


def _endless(node: cst.While) -> bool:
    return isinstance(node.test, cst.Name) and node.test.value == "True"


def _unchanged(before: Path, paths: list[Path]) -> bool:
    """Whether a further iteration would see just what the first one saw."""
    return (
        len(paths) == 1
        and paths[0].machines == before.machines
        and paths[0].heap is before.heap
        and all(before.names.get(name) == value for name, value in paths[0].names.items())
    )
