"""Names: what they stand for, in functions and modules, and what the code does with them.

A list or dict that a module or constructor leaves empty, or that code out of sight is given, may have been filled
since: nothing rests on its being empty.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Set
from dataclasses import replace
from functools import partial

from amplint.flow.core.answers import Answers
from amplint.flow.core.api import Arguments, Dead
from amplint.flow.core.chosen import chosen, overlaid
from amplint.flow.core.machine import Binding, Frame, Lines, ProjectView
from amplint.flow.core.registry import DiscardModel, Registry
from amplint.flow.state.conditions import apply, asked, leaves, within
from amplint.flow.state.store import Key, State, join_values, with_kind
from amplint.flow.state.symbols import Symbol, made_from, symbol
from amplint.flow.state.values import (
    NONE,
    TO_BE_FILLED,
    UNBOUND,
    Choice,
    ClassValue,
    Closure,
    Constant,
    External,
    Instance,
    Mapping,
    ModuleFile,
    Sequence,
    Unknown,
    Value,
    to_be_filled,
)
from amplint.lowering import program as ir
from amplint.source.project import ProjectFile

BUILTINS = frozenset(dir(builtins))
MOST_CHOSEN = 4
"""So many of the names that a setting may choose among are looked at."""
_MODULE = "module"
"""What the names of modules as objects begin with."""


class Names(Answers):
    """What names stand for. The part of the interpreter that knows the project."""

    def __init__(self, registry: Registry, project: ProjectView) -> None:
        super().__init__(registry)
        self.project = project
        self._globals: dict[tuple[str, str, int | None], Value | None] = {}
        self._filled: set[tuple[str, str]] = set()
        """Names of files that decorators and statements have filled."""
        self.holders: set[Symbol] = set()
        """The objects among what these names stand for, and those that hold a function which has effects: calls of
        their methods are followed."""
        self._settling: dict[tuple[str, str], int] = {}
        """Names of files of which a statement is walked now, with its first line."""

    # names -------------------------------------------------------------------------------------------------------

    def lookup(self, name: str, node: ir.Node) -> Value:
        """What a name stands for."""
        frame = self.frame
        if name in frame.globals or name in frame.program.global_names:
            return self._global(frame.file, name)
        if frame.closure is not None and (frame.outside or name in frame.program.nonlocal_names):
            return self._free(name, frame.closure)
        if frame.outside:
            return self._global(frame.file, name)
        shared = self.read((frame.context, name)) if frame.scope is not None else None
        value = shared if shared is not None else self.state.names.get(name)
        if value is not None:
            return self._bound(name, self._decorated_into(name, value))
        if frame.program.kind in ("function", "lambda"):
            if name in frame.program.locals:
                raise Dead
            if frame.closure is not None:
                return self._free(name, frame.closure)
        return self._global(frame.file, name)

    def _decorated_into(self, name: str, value: Value) -> Value:
        """A name that a module uses itself, as decorators fill it: ``LOSSES.build(kind)`` below the losses."""
        frame = self.frame
        if frame.program.kind != "module" or frame.function is not None or not _may_hold(value):
            return value
        parts = self.project.registrations(frame.file, name)
        if not parts or any(isinstance(part, Lines) for part in parts):
            return value
        found = self._global_at_end(frame.file, name)
        return found if found is not None else value

    def _bound(self, name: str, value: Value) -> Value:
        if not isinstance(value, Choice):
            if value is UNBOUND:
                raise Dead
            return value
        value = within(value, self.state.condition)
        if value is UNBOUND:
            raise Dead
        return self.each(value, lambda one: one) if _may_be_unbound(value) else value

    def _free(self, name: str, closure: Closure | None) -> Value:
        """A name of one of the scopes around a nested function."""
        file = self.frame.file
        while closure is not None:
            value = self.read((closure.identity, name))
            if value is None:
                value = closure.names().get(name)
            if value is not None:
                return self._bound(name, value)
            closure = closure.outer
        return self._global(file, name)

    def _global(self, file: ProjectFile, name: str) -> Value:
        found = self.global_value(file, name)
        if found is not None:
            return self._bound(name, found)
        if name in BUILTINS:
            return External(f"builtins.{name}")
        return Unknown(symbol("global", file.display, name))

    def set_name(self, target: ir.Name, value: Value) -> None:
        """Binds a local name, or one that the function declares to be of elsewhere."""
        name, frame = target.id, self.frame
        if name in frame.globals or name in frame.program.global_names:
            self.state.store((self.identity_of_file(frame.file), name), value)
            return
        if name in frame.program.nonlocal_names:
            closure = frame.closure
            while closure is not None and name not in closure.names():
                closure = closure.outer
            if closure is not None:
                self.state.store((closure.identity, name), value)
                return
        value = with_kind(value, lambda: self.kind_of(target))
        value = apply(lambda leaf: leaf.bound(lambda: self.unknown(target).symbol), value)
        dropped = any(type(leaf) in self.registry.discards for leaf in leaves(value))
        if dropped and frame.program.kind == "function" and not self._is_read(name):
            self.discard(value, "unused name", name, target)
        self.state.bind(name, value)

    def set_names(self) -> None:
        """Binds names of the script that is walked, nobody knows which: ``exec(text)`` for what the user has chosen.
        What it has set to a constant may be anything since."""
        frame = self.frame
        if frame.program.kind != "module" or frame.function is not None:
            return
        for name, held in list(self.state.names.items()):
            if not name.startswith("__"):
                self.state.bind(name, chosen(self.machine, symbol("global", frame.file.display, name), held))

    def overlaid(self, held: Mapping, values: Iterable[Value]) -> Mapping:
        """A dict after values were put into it under keys that nobody knows."""
        return overlaid(self.machine, held, values)

    def _is_read(self, name: str) -> bool:
        function = self.frame.function
        return function is None or function.outline is None or self.project.loads(function, name)

    def unbind(self, name: str) -> None:
        """``del name``."""
        self.state.forget(name)

    def discard(self, value: Value, how: str, name: str, node: ir.Node) -> None:
        """Tells models of a value that is thrown away."""
        if isinstance(value, Choice):
            if any(type(leaf) in self.registry.discards for leaf in leaves(value)):
                self.each(value, partial(self._discard_one, how, name, node))
            return
        model = self.registry.discards.get(type(value))
        if model is not None:
            self.resolved(Arguments(), lambda _: self._discarded(model, value, how, name, node))

    def _discard_one(self, how: str, name: str, node: ir.Node, value: Value) -> Value:
        self.discard(value, how, name, node)
        return NONE

    def is_kept(self, value: Value) -> bool:
        """Whether an attribute of some object is a value."""
        return any(value is leaf for held in self.state.heap.values() for leaf in leaves(held))

    def _discarded(self, model: DiscardModel, value: Value, how: str, name: str, node: ir.Node) -> Value:
        model(self.machine, value, how, name, node)
        return NONE

    def scope(self) -> Closure:
        """This frame as functions that are defined here see it."""
        frame = self.frame
        if frame.scope is None:
            frame.scope = Closure(frame.context, lambda: self._names_of(frame), frame.closure)
        return frame.scope

    def _names_of(self, frame: Frame) -> dict[str, Value]:
        return self.state.names if frame is self.frame else frame.names or {}

    # modules -----------------------------------------------------------------------------------------------------

    def identity_of_file(self, file: ProjectFile) -> Symbol:
        """What names a module as an object."""
        return symbol(_MODULE, file.display)

    def identity_of_class(self, value: ClassValue) -> Symbol:
        """What names a class as an object."""
        return symbol("class", value.file.display, value.outline.qualified)

    def member(self, base: ModuleFile, name: str) -> Value | None:
        """``module.name``."""
        found = self.global_value(base.file, name)
        if found is not None:
            return found
        inner = self.project.imported(base.file, f"{'.' if base.file.is_package else '..'}{name}")
        return inner if isinstance(inner, ModuleFile) else None

    def choices(self, module: ModuleFile) -> dict[str, Value]:
        """What a name that is not known may be in a module: ``getattr(models, args.arch)``. Not all of it."""
        names = self.project.choices(module.file, MOST_CHOSEN)
        found = ((name, self.member(module, name)) for name in names)
        return {name: value for name, value in found if value is not None}

    def global_value(self, file: ProjectFile, name: str) -> Value | None:
        """What a name of a file stands for, or None if the file does not bind it."""
        stored = self.read((self.identity_of_file(file), name))
        if stored is not None:
            return stored
        frame: Frame | None = self.frame
        while frame is not None:
            if frame.program.kind == "module" and frame.file is file and frame.function is None:
                names = self._names_of(frame)
                if name in names:
                    filled = frame is not self.frame and self.project.registrations(file, name)
                    return self._global_at_end(file, name) if filled else names[name]
            frame = frame.caller
        return self._global_at_end(file, name)

    def _global_at_end(self, file: ProjectFile, name: str) -> Value | None:
        line = self._settling.get((file.display, name))
        if line is not None:  # the statement that binds it last asks for what it was before
            return self._global_above(file, name, line) or Unknown(symbol("global", file.display, name))
        function = self.frame.function
        if function is not None and function.file is file and function.outline is not None:
            line = self.project.bound_beside(file, name, function.outline.line)
        return self._global_above(file, name, line)

    def _global_above(self, file: ProjectFile, name: str, line: int | None) -> Value | None:
        """A name of a file once the statements above a line have run, or all."""
        key = (file.display, name, line)
        if key in self._globals:
            return self._globals[key]
        self._globals[key] = Unknown(symbol("global", file.display, name))
        found: Value | None = None
        bindings = self.project.global_bindings(file, name, line)
        for index, binding in enumerate(reversed(bindings)):
            value = self._settled(binding, file, name)
            if value is None:
                continue
            atom = symbol("binding", file.display, name, index)
            found = value if found is None else join_values(asked(atom), value, found)
        self._globals[key] = found
        if line is None and found is not None and any(map(_may_hold, leaves(found))):
            for part in dict.fromkeys(one.file for one in bindings if isinstance(one, Lines)):
                self._fill_once(part, name, found)
        return found

    def _fill_once(self, file: ProjectFile, name: str, found: Value) -> None:
        if (file.display, name) not in self._filled and self.project.registrations(file, name):
            self._filled.add((file.display, name))
            self.holders |= {leaf.identity for leaf in leaves(found) if isinstance(leaf, Instance)}
            self.fill(file, name)

    def _settled(self, binding: Binding, file: ProjectFile, name: str) -> Value | None:
        found = self._settled_value(binding, file, name)
        return to_be_filled(found) if found is not None else None

    def _settled_value(self, binding: Binding, file: ProjectFile, name: str) -> Value | None:
        if not isinstance(binding, Lines) or binding.file is not file:
            return self._value_of(binding, name)
        key = (file.display, name)
        outer = self._settling.get(key)
        self._settling[key] = binding.first
        try:
            return self._value_of(binding, name)
        finally:
            if outer is None:
                del self._settling[key]
            else:
                self._settling[key] = outer

    def _value_of(self, binding: Binding, name: str) -> Value | None:
        if not isinstance(binding, Lines):
            return binding
        program = self.project.lines(binding)
        owner = binding.owner
        context = symbol("lines", program.path, *program.root)
        return self.apart(program, binding.file, context, lambda: self._bound_by(program, name), owner)

    def _bound_by(self, program: ir.Program, name: str) -> Value | None:
        self.run(program.body)
        return self.state.names.get(name) if not self.dead() else None

    def apart(
        self,
        program: ir.Program,
        file: ProjectFile,
        context: Symbol,
        action: Callable[[], Value | None],
        owner: ClassValue | None = None,
        receiver: Value | None = None,
        names: dict[str, Value] | None = None,
        *,
        filling: bool = False,
    ) -> Value | None:
        """Walks something heard by nobody, outside of the present path; what it leaves of objects is there from then
        on. Not what it says by ``global``: when it ran nobody knows, nor whether anything else did since. ``filling``:
        all that is put into dicts, lists and objects is put there now."""
        kept = self.state, self.frame, self.silent, self.active
        frame = Frame(program, file, context, None, receiver=receiver)
        self.state = State(self.state.attributes)
        self.state.ambient = {type(value): value for value in self.registry.ambients}
        self.state.names = dict(names or {})
        self.frame, self.silent, self.active = frame, True, {}
        result: Value | None = None
        try:
            result = action()
        except Dead:
            pass
        finally:
            frame.names = self.state.names
            left = self.state.heap
            self.state, self.frame, self.silent, self.active = kept
        put = self._put_later(left)
        for key, value in left.items():
            if key[0].parts[0] == _MODULE:
                continue
            if isinstance(value, Mapping) and value.identity in put:
                now: Value = _unknown_under(put[value.identity], value)
            else:
                now = to_be_filled(value)
            if filling:
                self.base[key] = _filled(value)
            elif key in self.base and context in made_from(key[0]):
                # made here, looked at, and then changed: ``self.config = Config()``, ``self.config.clip = clip``
                self.base[key] = now
            else:
                self.base.setdefault(key, now)
        return result

    def _put_later(self, left: dict[Key, Value]) -> dict[Symbol | None, Set[object]]:
        """The dicts that a constructor leaves in attributes, with the keys under which methods put something else."""
        found: dict[Symbol | None, Set[object]] = {}
        for (_, name), value in left.items():
            keys = self.project.keys_put(name) if isinstance(name, str) else ()
            if keys and isinstance(value, Mapping) and value.items and value.identity is not None:
                found[value.identity] = keys
        return found

    def imported(self, target: str) -> Value:
        """What an import in the present file binds."""
        return self._imported(self.frame.file, target)

    def _imported(self, file: ProjectFile, target: str) -> Value:
        found = self.project.imported(file, target)
        if isinstance(found, tuple):
            value = self._global_at_end(*found)
            return value if value is not None else Unknown(symbol("global", found[0].display, found[1]))
        if isinstance(found, External):
            return self.external(found.name)
        return found

    # kinds -------------------------------------------------------------------------------------------------------

    def kind_of(self, node: ir.Node) -> str | None:
        """What the code does with the name or attribute that an expression is."""
        dotted, function = dotted_name(node), self.frame.function
        if dotted is None:
            return None
        if function is not None:
            return self.kind_of_uses(self.project.uses(function, dotted))
        if self.frame.program.kind == "module":
            return self.kind_of_uses(self.project.uses_of_global(self.frame.file, dotted))
        return None

    def kind_of_uses(self, uses: frozenset[str]) -> str | None:
        """The first kind that fits what is called on an object."""
        if not uses:
            return None
        return next((kind.name for kind in self.registry.kinds if kind.fits(uses)), None)

    def kind_of_attribute(self, value: ClassValue, name: str) -> str | None:
        """What the methods of a class show of an attribute."""
        return self.kind_of_uses(self.project.uses_of_attribute(value, name))

    def kind_of_parameter(self, program: ir.Program, name: str) -> str | None:
        """What a function does with a parameter."""
        function = self.frame.function
        return self.kind_of_uses(self.project.uses(function, name)) if function is not None else None

    def is_only_called(self, node: ir.Node, methods: frozenset[str]) -> bool:
        """Whether a local name is read for nothing but calls of these methods."""
        function = self.frame.function
        if not isinstance(node, ir.Name) or function is None or node.id not in self.frame.program.locals:
            return False
        return self.project.loads_only_calls(function, node.id, methods)

    # provided by the interpreter

    def run(self, block: ir.Block) -> None:
        """Runs statements."""
        raise NotImplementedError

    def external(self, name: str) -> Value:
        """A qualified name outside the project."""
        raise NotImplementedError

    def fill(self, file: ProjectFile, name: str) -> None:
        """Lets decorators and statements fill what a module binds to a name."""
        raise NotImplementedError

    active: dict[object, tuple[object, ...]]


def dotted_name(node: ir.Node) -> str | None:
    """``a.b.c`` for a chain of attributes that starts with a name."""
    parts: list[str] = []
    while isinstance(node, ir.Attribute):
        parts.append(node.name)
        node = node.value
    if not isinstance(node, ir.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))


def _may_hold(value: Value) -> bool:
    if isinstance(value, Instance):
        return value.made_of is not None
    return isinstance(value, (Mapping, Sequence))


def _filled(value: Value) -> Value:
    """A dict or list that has got all that it will get."""
    match value:
        case Mapping(items=(_, *_)):
            return replace(value, rest=tuple(one for one in value.rest if not _is_to_be_filled(one)))
    return to_be_filled(value)


def _unknown_under(keys: Set[object], value: Mapping) -> Mapping:
    """A dict in which flags, and what is None, may have been replaced: ``self.done = {"model": False}``."""

    def read(key: object, leaf: Value) -> Value:
        flag = isinstance(leaf, Constant) and (leaf.value is None or isinstance(leaf.value, bool))
        return Unknown(symbol("item", value.identity, Constant(key))) if flag else leaf

    items = tuple(
        (key, apply(partial(read, key), one) if key in keys or None in keys else one)
        for key, one in value.items
    )
    return replace(value, items=items)


def _is_to_be_filled(value: Value) -> bool:
    return isinstance(value, Unknown) and value.symbol.parts[0] == TO_BE_FILLED


def _may_be_unbound(value: Value) -> bool:
    return isinstance(value, Choice) and (
        value.then is UNBOUND
        or value.other is UNBOUND
        or _may_be_unbound(value.then)
        or _may_be_unbound(value.other)
    )
