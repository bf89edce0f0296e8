"""What the statements of a module, class or function bind to names, in order, and which bindings hold at its end.

A body is followed as Python runs it: a later statement replaces what an earlier one bound, ``if`` and loops leave
alternatives, and of ``try`` the body counts, so that the fallback of an ``except ImportError`` does not hide what is
imported where it is there. Nothing is evaluated.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from amplint.source.outline import children

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_TRIES: tuple[type[ast.stmt], ...] = (ast.Try, getattr(ast, "TryStar", ast.Try))
_MOST_ALTERNATIVES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """Something that binds a name. ``order`` counts the bindings of a body; lines count from 1."""

    name: str
    order: int
    line: int
    end_line: int


@dataclass(frozen=True, slots=True, eq=False)
class ImportBinding(Binding):
    """``import a.b as name``, ``from .a import b as name``: ``target`` is ``a.b``, ``.a.b``. ``top`` for ``import
    a.b``, which binds ``a``."""

    target: str = ""
    top: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class FunctionBinding(Binding):
    """``def name``."""

    node: FunctionNode = field(kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class ClassBinding(Binding):
    """``class name``."""

    node: ast.ClassDef = field(kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class StatementBinding(Binding):
    """Any other statement that binds the name. ``value`` is what it is bound to where that is written as an
    expression of its own: ``name = value``."""

    value: ast.expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Star:
    """``from module import *``. ``certain`` unless a condition decides."""

    module: str
    order: int
    line: int
    certain: bool


@dataclass(frozen=True, slots=True)
class _Alternatives:
    """What may hold at the end of a block; ``complete`` if the block replaces what was bound before."""

    options: tuple[Binding, ...]
    complete: bool


_State = dict[str, _Alternatives]


class Bindings:
    """The bindings of one body."""

    __slots__ = ("_order", "_state", "all", "elsewhere", "stars")

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.all: dict[str, list[Binding]] = {}
        """Each name with everything that binds it, in the order of the text."""
        self.stars: list[Star] = []
        self.elsewhere: set[str] = set()
        """The names that it declares ``global`` or ``nonlocal``."""
        self._order = 0
        self._state: _State = {}
        self._block(body, self._state, certain=True)

    def at_end(self, name: str) -> tuple[Binding, ...]:
        """What a name may stand for once the body has run, likeliest first; none if it binds no such name."""
        found = self._state.get(name)
        return found.options if found is not None else ()

    def always(self, name: str) -> bool:
        """Whether the body binds a name whatever conditions hold."""
        found = self._state.get(name)
        return found is not None and found.complete

    def names(self) -> list[str]:
        """The names that the body binds, in order."""
        return list(self.all)

    def _next(self) -> int:
        self._order += 1
        return self._order

    def _bind(self, state: _State, binding: Binding, *, adds: bool = False) -> None:
        self.all.setdefault(binding.name, []).append(binding)
        _put(state, binding.name, _Alternatives((binding,), complete=not adds))

    def _block(self, body: Sequence[ast.stmt], state: _State, *, certain: bool) -> None:
        for node in body:
            self._statement(node, state, certain)

    def _statement(self, node: ast.stmt, state: _State, certain: bool) -> None:
        lines = node.lineno, node.end_lineno or node.lineno
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._bind(state, FunctionBinding(node.name, self._next(), *lines, node=node))
        elif isinstance(node, ast.ClassDef):
            self._bind(state, ClassBinding(node.name, self._next(), *lines, node=node))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, state, certain)
        elif isinstance(node, ast.If):
            self._if(node, state)
        elif isinstance(node, _TRIES):
            self._try(node, state, certain)  # type: ignore[arg-type]
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.elsewhere.update(node.names)
        else:
            for name, value in _targets(node):
                adds = isinstance(node, ast.AugAssign)
                self._bind(state, StatementBinding(name, self._next(), *lines, value), adds=adds)
            if isinstance(node, (ast.With, ast.AsyncWith)):
                self._block(node.body, state, certain=certain)
            elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
                self._block(node.body, state, certain=certain)
                self._block(node.orelse, state, certain=certain)
            elif isinstance(node, ast.Match):
                self._branches([case.body for case in node.cases], state, exhaustive=False)

    def _import(self, node: ast.Import | ast.ImportFrom, state: _State, certain: bool) -> None:
        lines = node.lineno, node.end_lineno or node.lineno
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                top = alias.asname is None
                self._bind(state, ImportBinding(name, self._next(), *lines, alias.name, top))
            return
        source = "." * node.level + (node.module or "")
        joint = "" if source.endswith(".") else "."
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(Star(source, self._next(), node.lineno, certain))
            else:
                target = f"{source}{joint}{alias.name}"
                self._bind(state, ImportBinding(alias.asname or alias.name, self._next(), *lines, target))

    def _if(self, node: ast.If, state: _State) -> None:
        bodies: list[Sequence[ast.stmt]] = []
        rest: Sequence[ast.stmt] = [node]
        while len(rest) == 1 and isinstance(rest[0], ast.If):  # a chain of elif is nested in the tree
            test = rest[0]
            for name, value in _walrus(test.test):
                lines = test.lineno, test.test.end_lineno or test.lineno
                self._bind(state, StatementBinding(name, self._next(), *lines, value))
            bodies.append(test.body)
            rest = test.orelse
        if rest:
            bodies.append(rest)
        self._branches(bodies, state, exhaustive=bool(rest))

    def _branches(self, bodies: Sequence[Sequence[ast.stmt]], state: _State, *, exhaustive: bool) -> None:
        """Blocks of which one is run, or none."""
        deltas: list[_State] = []
        for body in bodies:
            delta: _State = {}
            self._block(body, delta, certain=False)
            deltas.append(delta)
        for name in dict.fromkeys(name for delta in deltas for name in delta):
            parts = [delta.get(name) for delta in deltas]
            complete = exhaustive and all(part is not None and part.complete for part in parts)
            options = tuple(option for part in parts if part is not None for option in part.options)
            _put(state, name, _Alternatives(options, complete))

    def _try(self, node: ast.Try, state: _State, certain: bool) -> None:
        main: _State = {}
        self._block(node.body, main, certain=certain)
        self._block(node.orelse, main, certain=certain)
        for name, alternatives in main.items():
            _put(state, name, alternatives)
        for handler in node.handlers:
            fallback: _State = {}
            if handler.name is not None:
                order, line = self._next(), handler.lineno
                self._bind(fallback, StatementBinding(handler.name, order, line, line))
            self._block(handler.body, fallback, certain=False)
            for name, alternatives in fallback.items():
                if name not in main:
                    _put(state, name, _Alternatives(alternatives.options, complete=False))
        self._block(node.finalbody, state, certain=certain)


def _put(state: _State, name: str, found: _Alternatives) -> None:
    before = state.get(name)
    if before is not None and not found.complete:
        options = tuple(dict.fromkeys([*before.options, *found.options]))[:_MOST_ALTERNATIVES]
        found = _Alternatives(options, before.complete)
    state[name] = found


def _targets(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that a statement binds itself, blocks in it not counted, with the value of a plain assignment."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
            else:
                yield from ((name, None) for name in _stored(target))
        yield from _walrus(node.value)
    elif isinstance(node, ast.AnnAssign):
        if node.value is not None:
            if isinstance(node.target, ast.Name):
                yield node.target.id, node.value
            yield from _walrus(node.value)
    elif isinstance(node, ast.AugAssign):
        yield from ((name, None) for name in _stored(node.target))
        yield from _walrus(node.value)
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield from ((name, None) for name in _stored(node.target))
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            if item.optional_vars is not None:
                yield from ((name, None) for name in _stored(item.optional_vars))
    elif isinstance(node, ast.Match):
        for case in node.cases:
            yield from ((name, None) for name in _captured(case.pattern))
    elif isinstance(node, (ast.Expr, ast.While, ast.Assert)):
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                yield from _walrus(part)
    elif type(node).__name__ == "TypeAlias":
        yield from ((name, None) for name in _stored(node.name))  # type: ignore[attr-defined]


def _stored(target: ast.expr) -> Iterator[str]:
    """The names in the target of an assignment."""
    pending: list[ast.AST] = [target]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, (ast.Tuple, ast.List)):
            pending.extend(reversed(node.elts))
        elif isinstance(node, ast.Starred):
            pending.append(node.value)


def _captured(pattern: ast.pattern) -> Iterator[str]:
    """The names that a pattern of ``case`` binds."""
    for part in ast.walk(pattern):
        name = part.rest if isinstance(part, ast.MatchMapping) else getattr(part, "name", None)
        if name is not None:
            yield name


def _walrus(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """``name := value`` in an expression."""
    pending: list[ast.AST] = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.NamedExpr):
            yield part.target.id, part.value
        if not isinstance(part, ast.Lambda):
            pending.extend(children(part))


def exported(tree: ast.Module) -> tuple[str, ...] | None:
    """``__all__`` if it is put together from literals alone, else None."""
    names: list[str] | None = None
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=value)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
            ):
                names = _strings(value)
                if names is None:
                    return None
            case ast.AugAssign(target=ast.Name(id="__all__"), value=value):
                further = _strings(value)
            case ast.Expr(
                ast.Call(ast.Attribute(ast.Name(id="__all__"), attr="extend" | "append" as how), args=[value])
            ):
                further = _strings(value if how == "extend" else ast.List([value], ast.Load()))
            case _:
                continue
        if not isinstance(node, (ast.Assign, ast.AnnAssign)):
            if names is None or further is None:
                return None
            names = names + further
    return tuple(dict.fromkeys(names)) if names is not None else None


def _strings(node: ast.expr) -> list[str] | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _strings(node.left), _strings(node.right)
        return left + right if left is not None and right is not None else None
    if not isinstance(node, (ast.List, ast.Tuple)):
        return None
    texts = [
        part.value for part in node.elts if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    return texts if len(texts) == len(node.elts) else None
