"""The classes of the project: what they inherit, their methods, attributes and fields, by resolved names.

* ``classes.bases(value)``: the class and all it inherits from, in the order in which Python looks for methods
  (C3; where the bases allow no such order, depth first). Unresolved bases are External with a leading ``?``.
* ``classes.find_method(value, name)``: a method, inherited ones included; ``after=cls`` begins behind that class.
* ``classes.attribute(value, name)``: where the body of a class binds a name that is no method.
* ``classes.member(member)``: what ``Trainer.fit`` is.
* ``classes.fields(value)``: the parameters of the constructor of a dataclass, in order; None for other classes.
* ``classes.kind(function)``: ``"property"``, ``"cached_property"``, ``"classmethod"``, ``"staticmethod"`` or
  ``"method"``; ``"function"`` for what is no method. ``classes.is_abstract(function)``.
* ``classes.decorators(function)``: the qualified names of its decorators.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from amplint.flow.project.meanings import UNSEEN, Assigned, Meaning, Member
from amplint.flow.project.names import Names
from amplint.flow.state.values import ClassValue, External, FunctionValue
from amplint.source.bindings import Bindings, ClassBinding, FunctionBinding, ImportBinding, StatementBinding
from amplint.source.facts import facts_of
from amplint.source.outline import dotted

Base = ClassValue | External

_PROPERTIES = frozenset({"builtins.property", "abc.abstractproperty"})
_CACHED = frozenset({"functools.cached_property", "django.utils.functional.cached_property"})
_KINDS = {
    "builtins.classmethod": "classmethod",
    "abc.abstractclassmethod": "classmethod",
    "builtins.staticmethod": "staticmethod",
    "abc.abstractstaticmethod": "staticmethod",
    **dict.fromkeys(_PROPERTIES, "property"),
    **dict.fromkeys(_CACHED, "cached_property"),
}
_ABSTRACT = frozenset(
    {
        "abc.abstractmethod",
        "abc.abstractproperty",
        "abc.abstractclassmethod",
        "abc.abstractstaticmethod",
    }
)
_OVERLOADS = frozenset({"typing.overload", "typing_extensions.overload"})
_ACCESSORS = frozenset({"setter", "deleter", "getter"})
_DATACLASSES = frozenset(
    {
        "dataclasses.dataclass",
        "pydantic.dataclasses.dataclass",
        "attr.s",
        "attr.attrs",
        "attr.define",
        "attr.mutable",
        "attr.frozen",
        "attr.dataclass",
        "attrs.define",
        "attrs.mutable",
        "attrs.frozen",
        "flax.struct.dataclass",
        "chex.dataclass",
    }
)
_FIELD_MAKERS = frozenset({"dataclasses.field", "attr.ib", "attr.attrib", "attr.field", "attrs.field"})
_FILLED_BY_BASE = frozenset({"typing.NamedTuple", "pydantic.BaseModel", "pydantic.main.BaseModel"})


@dataclass(frozen=True, slots=True)
class ClassAttribute:
    """What binds a name in the body of a class: the lines of the statement and, for ``name = value``, the value."""

    owner: ClassValue
    name: str
    line: int
    end_line: int
    value: ast.expr | None


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter of the constructor of a dataclass. ``default`` says whether it may be left out; the lines are
    those of the statement ``name: type = default`` in the body of ``owner``, and ``kind`` is the type, if that
    is a class. ``initialized`` is False for ``field(init=False)``."""

    name: str
    owner: ClassValue
    line: int
    end_line: int
    default: bool
    kind: Base | None = None
    keyword_only: bool = False
    initialized: bool = True


class Classes:
    """The classes of one project."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._bases: dict[ClassValue, list[Base]] = {}
        self._direct: dict[ClassValue, list[Base]] = {}
        self._methods: dict[ClassValue, dict[str, FunctionValue]] = {}
        self._decorators: dict[FunctionValue, tuple[str, ...]] = {}

    # inheritance

    def bases(self, value: ClassValue) -> list[Base]:
        """The class itself and all that it inherits from."""
        known = self._bases.get(value)
        if known is None:
            known = self._bases[value] = self._linear(value, ())
        return known

    def direct_bases(self, value: ClassValue) -> list[Base]:
        """The bases that the class statement names."""
        known = self._direct.get(value)
        if known is None:
            nodes = value.outline.node.bases if value.outline.node is not None else []
            found = [self._base(value, node) for node in nodes]
            known = self._direct[value] = [
                base for base in found if base is not None and base != External("builtins.object")
            ]
        return known

    def derives_from(self, value: ClassValue, name: str) -> bool:
        """Whether a class inherits from one outside; a name that ends in a dot stands for all below it."""
        return any(
            base.name == name or (name.endswith(".") and base.name.startswith(name))
            for base in self.bases(value)
            if isinstance(base, External)
        )

    def metaclass(self, value: ClassValue) -> Meaning | None:
        """The metaclass that the class statement names."""
        node = value.outline.node
        for keyword in node.keywords if node is not None else ():
            if keyword.arg == "metaclass":
                return self._resolved(value, keyword.value)
        return None

    def _linear(self, value: ClassValue, below: tuple[ClassValue, ...]) -> list[Base]:
        """The order of a class, given that those of ``below`` are being worked out: a class that inherits from
        itself does so in vain."""
        direct = [base for base in self.direct_bases(value) if base != value and base not in below]
        orders = [
            self._bases.get(base) or self._linear(base, (*below, value))
            if isinstance(base, ClassValue)
            else [base]
            for base in direct
        ]
        merged = (
            _merge([*orders, direct]) if len(orders) > 1 else [base for order in orders for base in order]
        )
        if merged is None:
            merged = list(dict.fromkeys(base for order in orders for base in order))
        return [value, *(base for base in merged if base != value)]

    def _base(self, value: ClassValue, node: ast.expr) -> Base | None:
        while isinstance(node, ast.Subscript):
            node = node.value
        found = self._resolved(value, node)
        if isinstance(found, (ClassValue, External)):
            return found
        return External(UNSEEN + (dotted(node) or "an expression"))

    def _resolved(self, value: ClassValue, node: ast.expr) -> Meaning | None:
        """What an expression in the head of a class means."""
        name = dotted(node)
        if name is None:
            return None
        facts = facts_of(value.file.outline)
        scope = facts.around(value.outline)
        found = self.names.resolve(value.file, name, scope)
        if isinstance(found, Assigned):
            found = self.names.followed(found)
        return self.member(found) if isinstance(found, Member) else found

    # methods and attributes

    def find_method(
        self, value: ClassValue, name: str, *, after: ClassValue | None = None
    ) -> FunctionValue | None:
        """A method. ``@dataclass`` writes a constructor into its class, whatever that inherits: it is none of these."""
        order = self.bases(value)
        if after is not None:
            order = order[order.index(after) + 1 :] if after in order else []
        for base in order:
            if isinstance(base, ClassValue):
                found = self.own_method(base, name)
                if found is not None:
                    return found
                if name == "__init__" and self._is_decorated_dataclass(base):
                    return None
        return None

    def own_method(self, value: ClassValue, name: str) -> FunctionValue | None:
        """A method that the class itself defines. Of several definitions the last counts, but for overloads and
        for the setter of a property, which stands for its getter."""
        return self.methods(value).get(name)

    def _chosen(self, value: ClassValue, bindings: Bindings, name: str) -> FunctionValue | None:
        facts = facts_of(value.file.outline)
        options = [
            self.names.function(value.file, facts.function_of(binding.node))
            for binding in bindings.at_end(name)
            if isinstance(binding, FunctionBinding)
        ]
        if len(options) == 1 and not (options[0].outline and options[0].outline.decorated):
            return options[0]
        every = self._all_definitions(value, name)
        plain = [one for one in every if self._is_definition(one, name)]
        options = [one for one in options if one in plain]
        if options:
            return options[0]
        return plain[-1] if plain else (every[-1] if every else None)

    def methods(self, value: ClassValue) -> dict[str, FunctionValue]:
        """The methods that the class itself defines."""
        known = self._methods.get(value)
        if known is None:
            bindings = facts_of(value.file.outline).bindings_of(value.outline)
            found = {name: self._chosen(value, bindings, name) for name in bindings.all}
            known = {name: method for name, method in found.items() if method is not None}
            self._methods[value] = known
            for name in sorted(bindings.all.keys() - known.keys()):
                method = self._made_method(value, name, bindings)
                if method is not None:
                    known[name] = method
        return known

    def all_methods(self, value: ClassValue) -> Iterator[FunctionValue]:
        """The methods of a class and then those of its bases, overridden ones, too."""
        for base in self.bases(value):
            if isinstance(base, ClassValue):
                yield from self.methods(base).values()

    def _made_method(self, value: ClassValue, name: str, bindings: Bindings) -> FunctionValue | None:
        """A function that becomes a method by its name in the body of a class: ``forward = _forward``,
        ``from .steps import train_step``."""
        found: Meaning | None = None
        match bindings.at_end(name):
            case [StatementBinding(value=ast.Name(id=other))] if other in self._methods[value]:
                return self._methods[value][other]
            case [ImportBinding(target=target, top=False)]:
                found = self.names.imported(value.file, target)
            case [StatementBinding(value=ast.Name() | ast.Attribute() as node)] if (
                name not in value.outline.fields
            ):
                found = self._resolved(value, node)
        return found if isinstance(found, FunctionValue) else None

    def accessor(self, value: ClassValue, name: str, kind: str) -> FunctionValue | None:
        """The ``setter`` or ``deleter`` of a property, inherited ones included."""
        for base in self.bases(value):
            if isinstance(base, ClassValue):
                for one in reversed(self._all_definitions(base, name)):
                    if f"{UNSEEN}{name}.{kind}" in self.decorators(one):
                        return one
        return None

    def nested_class(self, value: ClassValue, name: str) -> ClassValue | None:
        """A class in the body of a class, inherited ones included."""
        for base in self.bases(value):
            if isinstance(base, ClassValue):
                facts = facts_of(base.file.outline)
                for binding in facts.bindings_of(base.outline).at_end(name):
                    if isinstance(binding, ClassBinding):
                        return ClassValue(base.file, facts.class_of(binding.node))
        return None

    def attribute(self, value: ClassValue, name: str) -> ClassAttribute | None:
        """Where the body of a class, or of one that it inherits from, binds a name that is no method."""
        for base in self.bases(value):
            if isinstance(base, ClassValue):
                bindings = facts_of(base.file.outline).bindings_of(base.outline).at_end(name)
                if bindings:
                    one = bindings[0]
                    if not isinstance(one, StatementBinding):
                        return None
                    return ClassAttribute(base, name, one.line, one.end_line, one.value)
        return None

    def member(self, member: Member) -> Meaning | None:
        """What attributes of a class mean: a method, a nested class, what an attribute is set to; or None."""
        value: Meaning | None = member.owner
        for index, part in enumerate(member.rest):
            if isinstance(value, ClassValue):
                inner = self.nested_class(value, part) or self.find_method(value, part)
                value = inner if inner is not None else self._set_to(value, part)
            elif value is not None:
                value = self.names.attribute(value, part)
            if isinstance(value, Member):
                return self.member(Member(value.owner, (*value.rest, *member.rest[index + 1 :])))
        return value

    def _set_to(self, value: ClassValue, name: str) -> Meaning | None:
        """What an attribute of a class is set to, if that is a plain name."""
        found = self.attribute(value, name)
        written = dotted(found.value) if found is not None and found.value is not None else None
        if found is None or written is None or written.partition(".")[0] == name:
            return None
        after = self.names.resolve(found.owner.file, written, found.owner.outline)
        return self.names.followed(after) if after is not None else None

    def _all_definitions(self, value: ClassValue, name: str) -> list[FunctionValue]:
        facts = facts_of(value.file.outline)
        return [
            self.names.function(value.file, facts.function_of(binding.node))
            for binding in facts.bindings_of(value.outline).all.get(name, ())
            if isinstance(binding, FunctionBinding)
        ]

    def _is_definition(self, function: FunctionValue, name: str) -> bool:
        decorators = self.decorators(function)
        return not any(
            one in _OVERLOADS or one in {f"{UNSEEN}{name}.{accessor}" for accessor in _ACCESSORS}
            for one in decorators
        )

    # decorators

    def decorators(self, function: FunctionValue) -> tuple[str, ...]:
        """The qualified names of decorators, outermost first; a call counts as what is called. Those of the project
        are ``?`` and their name as written."""
        known = self._decorators.get(function)
        if known is None:
            known = self._decorators[function] = tuple(self._decorated(function))
        return known

    def _decorated(self, function: FunctionValue) -> Iterator[str]:
        outline = function.outline
        if outline is None or outline.node is None:
            return
        scope = facts_of(function.file.outline).around(outline)
        for node in outline.node.decorator_list:
            name = dotted(node.func if isinstance(node, ast.Call) else node)
            found = self.names.resolve(function.file, name, scope) if name is not None else None
            if isinstance(found, Assigned):
                found = self.names.followed(found)
            yield found.name if isinstance(found, External) else UNSEEN + (name or "an expression")

    def kind(self, function: FunctionValue) -> str:
        """What kind of function it is."""
        outline = function.outline
        if outline is None or outline.owner is None:
            return "function"
        for name in self.decorators(function):
            if name in _KINDS:
                return _KINDS[name]
            if name.startswith(UNSEEN) and name.rpartition(".")[2] in _ACCESSORS:
                return "property"
        if outline.name == "__new__":
            return "staticmethod"
        return "classmethod" if outline.name in ("__init_subclass__", "__class_getitem__") else "method"

    def is_abstract(self, function: FunctionValue) -> bool:
        """Whether it is decorated as abstract, or does nothing but raise NotImplementedError."""
        outline = function.outline
        return not _ABSTRACT.isdisjoint(self.decorators(function)) or (
            outline is not None and outline.abstract
        )

    # dataclasses

    def fields(self, value: ClassValue) -> tuple[Field, ...] | None:
        """The parameters of the constructor that a dataclass gets, inherited fields first; None if the class, or one
        that it inherits from, has a constructor that is written."""
        maker: ClassValue | None = None
        for base in self.bases(value):
            if isinstance(base, ClassValue) and maker is None:
                if self.own_method(base, "__init__") is not None:
                    return None
                maker = base if self.is_dataclass(base) else None
        return self._fields_of(maker) if maker is not None else None

    def _fields_of(self, value: ClassValue) -> tuple[Field, ...]:
        found: dict[str, Field] = {}
        for base in reversed(self.bases(value)):
            if isinstance(base, ClassValue) and (base == value or self.is_dataclass(base)):
                for one in self._own_fields(base):
                    found[one.name] = one
        return tuple(found.values())

    def is_dataclass(self, value: ClassValue) -> bool:
        """Whether a decorator or a base fills the constructor from the annotations in the body."""
        if self._is_decorated_dataclass(value):
            return True
        outside = {base.name for base in self.bases(value) if isinstance(base, External)}
        return not _FILLED_BY_BASE.isdisjoint(outside)

    def _is_decorated_dataclass(self, value: ClassValue) -> bool:
        return not _DATACLASSES.isdisjoint(self._class_decorators(value))

    def _class_decorators(self, value: ClassValue) -> list[str]:
        nodes = value.outline.node.decorator_list if value.outline.node is not None else []
        found = (self._resolved(value, node.func if isinstance(node, ast.Call) else node) for node in nodes)
        return [one.name for one in found if isinstance(one, External)]

    def _own_fields(self, value: ClassValue) -> Iterator[Field]:
        keyword_only = self._all_keyword_only(value)
        for node in value.outline.node.body if value.outline.node is not None else ():
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            kind = self._annotation(value, node.annotation)
            if kind == External("dataclasses.KW_ONLY"):
                keyword_only = True
            elif kind != External("typing.ClassVar"):
                default, initialized, only = self._options(value, node.value)
                lines = node.lineno, node.end_lineno or node.lineno
                written = kind if not isinstance(node.annotation, ast.Subscript) else None
                only = keyword_only or only
                yield Field(node.target.id, value, *lines, default, written, only, initialized)

    def _annotation(self, value: ClassValue, node: ast.expr) -> Base | None:
        while isinstance(node, ast.Subscript):
            node = node.value
        name = dotted(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition("[")[0].strip()
        parts = (name or "").split(".")
        if name is None or not all(part.isidentifier() for part in parts):
            return None
        found = self.names.resolve(value.file, name, value.outline)
        return found if isinstance(found, (ClassValue, External)) else None

    def _all_keyword_only(self, value: ClassValue) -> bool:
        nodes = value.outline.node.decorator_list if value.outline.node is not None else []
        return any(
            keyword.arg == "kw_only" and isinstance(keyword.value, ast.Constant) and bool(keyword.value.value)
            for node in nodes
            if isinstance(node, ast.Call)
            for keyword in node.keywords
        )

    def _options(self, value: ClassValue, node: ast.expr | None) -> tuple[bool, bool, bool]:
        """Whether a field has a default, is a parameter, and by keyword alone."""
        if not isinstance(node, ast.Call):
            return node is not None, True, False
        name = dotted(node.func)
        found = self.names.resolve(value.file, name, value.outline) if name is not None else None
        if not isinstance(found, External) or found.name not in _FIELD_MAKERS:
            return True, True, False
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        defaults = not given.keys().isdisjoint({"default", "default_factory", "factory"})
        return defaults, _flag(given.get("init"), True), _flag(given.get("kw_only"), False)


def _flag(node: ast.expr | None, absent: bool) -> bool:
    return bool(node.value) if isinstance(node, ast.Constant) else absent


def _merge(orders: Sequence[Sequence[Base]]) -> list[Base] | None:
    """C3: each class before those it inherits from, and in the order of each list; None if there is no such order."""
    rest = [list(reversed(order)) for order in orders if order]
    behind = Counter(base for order in rest for base in order[:-1])
    merged: list[Base] = []
    while rest:
        head = next((order[-1] for order in rest if not behind[order[-1]]), None)
        if head is None:
            return None
        merged.append(head)
        for order in rest:
            if order[-1] == head:
                order.pop()
                if order:
                    behind[order[-1]] -= 1
        rest = [order for order in rest if order]
    return merged
