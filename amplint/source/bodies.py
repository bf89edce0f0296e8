"""What the statements of one body do to names: calls, stores, loads. The raw material of facts.

A body is that of a module, class or function. What stands in functions and classes inside it is theirs, and told by
bodies of their own; defaults are run here. Decorators, bases and the classes that ``isinstance`` asks for are read, but
nothing is done with them here: they are kept apart. Lambdas and comprehensions belong to the body.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from amplint.source.bindings import FunctionNode
from amplint.source.outline import children, dotted

_COMPUTING = frozenset(
    {"getattr", "setattr", "delattr", "hasattr", "vars", "globals", "locals", "exec", "eval", "__import__"}
)
_COMPARING = frozenset({"isinstance", "issubclass"})
_BY_NAME = frozenset({"getattr", "setattr", "hasattr", "delattr"})


class Call(NamedTuple):
    """A call. ``name`` is what is called as written, ``scaler.step``, or None if no name begins it; ``method`` its
    last part; ``receiver`` says what a method is called on: "name", "call", "item", "super" or "other"; it is ""
    for functions."""

    name: str | None
    method: str
    receiver: str
    node: ast.Call

    @property
    def keywords(self) -> tuple[str, ...]:
        """The names of its keyword arguments."""
        return tuple(keyword.arg for keyword in self.node.keywords if keyword.arg is not None)

    @property
    def positional(self) -> int:
        """The number of positional arguments that are written out."""
        return sum(not isinstance(argument, ast.Starred) for argument in self.node.args)


class Store(NamedTuple):
    """An assignment of a name or of an attribute of one. ``value`` is what is assigned where that is an expression of
    its own. ``simple`` if the statement is one on its own rather than the head of a block or part of an expression."""

    line: int
    end_line: int
    value: ast.expr | None
    simple: bool


class Body:
    """What one body does."""

    __slots__ = (
        "calls",
        "classes",
        "compared",
        "computed",
        "elsewhere",
        "functions",
        "heads",
        "hidden",
        "imports",
        "is_generator",
        "keyed",
        "loads",
        "multiplies",
        "picking",
        "puts",
        "returned",
        "stores",
    )

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        self.calls: list[Call] = []
        self.stores: dict[str, list[Store]] = {}
        """By name, ``x``, or attribute, ``self.model.x``."""
        self.loads: set[str] = set()
        """Names and attributes that are read, as long as they are written: ``a.b.c`` is no ``a.b``. What is called is
        in ``calls`` alone."""
        self.compared: set[str] = set()
        """Those of them that are only compared with: ``x.dtype == torch.float16`` makes nothing half."""
        self.keyed: set[str] = set()
        """Those in which something is looked up by a text: ``settings["amp"]``."""
        self.picking: set[str] = set()
        """Those by which something is looked up: ``optimizers[index]``."""
        self.puts: set[tuple[str, object]] = set()
        """Names and attributes in which something is put under a key, and the key; None if that is no constant:
        ``self.done["model"] = True``."""
        self.functions: list[FunctionNode] = []
        self.classes: list[ast.ClassDef] = []
        self.heads: list[ast.expr] = []
        """Decorators and bases of the definitions in it, and classes that are only compared with."""
        self.hidden: set[str] = set()
        """The names of lambdas' parameters and of comprehensions."""
        self.elsewhere: set[str] = set()
        """The names that are declared ``global`` or ``nonlocal``."""
        self.computed: set[str] = set()
        """Builtins that reach names which nobody can read off: ``getattr`` with a name that is no constant, ``exec``,
        ``__dict__``."""
        self.returned: list[ast.expr] = []
        """What its return statements give, None left out."""
        self.imports = False
        """Whether it has an import statement."""
        self.is_generator = False
        self.multiplies = False
        """Whether it has a matrix product: ``a @ b``."""
        self._walk(list(nodes))
        self.compared -= self.loads
        self.loads |= self.compared

    def _walk(self, pending: list[ast.AST]) -> None:
        # one loop with the commonest nodes first: a method for each kind of node takes twice the time
        loads = self.loads
        while pending:
            node = pending.pop()
            kind = type(node)
            if kind is ast.Name:
                loads.add(node.id)  # type: ignore[attr-defined]
            elif kind is ast.Constant:
                pass
            elif kind is ast.Attribute:
                self._attribute(node, pending)  # type: ignore[arg-type]
            elif kind is ast.Call:
                self._call(node, pending)  # type: ignore[arg-type]
            elif kind is ast.Expr:
                pending.append(node.value)  # type: ignore[attr-defined]
            elif kind is ast.Assign:
                self._assign(node, pending)  # type: ignore[arg-type]
            else:
                special = _SPECIAL.get(kind)
                if special is None:
                    pending += children(node)
                else:
                    special(self, node, pending)

    def _attribute(self, node: ast.Attribute, pending: list[ast.AST]) -> None:
        name = dotted(node)
        if name is not None:
            self.loads.add(name)
        else:
            inner: ast.expr = node
            while isinstance(inner, ast.Attribute):
                inner = inner.value
            pending.append(inner)
        if node.attr == "__dict__" or (name is not None and ".__dict__." in name):
            self.computed.add("__dict__")

    def _call(self, node: ast.Call, pending: list[ast.AST]) -> None:
        function = node.func
        if type(function) is ast.Name:
            name = function.id
            self.calls.append(Call(name, name, "", node))
            if name in _COMPUTING:
                self._compute(node, name)
            elif name in _COMPARING:
                self.heads += node.args[1:]
                pending += node.args[:1]
                return
        elif type(function) is ast.Attribute:
            written = dotted(function)
            if written is not None:
                self.calls.append(Call(written, function.attr, "name", node))
                if ".__dict__." in written:
                    self.computed.add("__dict__")
            else:
                self.calls.append(Call(None, function.attr, _receiver(function.value), node))
                pending.append(function.value)
        else:
            self.calls.append(Call(None, "", "", node))
            pending.append(function)
        pending += node.args
        for keyword in node.keywords:
            pending.append(keyword.value)

    def _compare(self, node: ast.Compare, pending: list[ast.AST]) -> None:
        for side in (node.left, *node.comparators):
            for part in side.elts if isinstance(side, (ast.Tuple, ast.List, ast.Set)) else (side,):
                name = dotted(part) if isinstance(part, ast.Attribute) else None
                if name is not None and "__dict__" not in name:
                    self.compared.add(name)
                else:
                    pending.append(part)

    def _compute(self, node: ast.Call, name: str) -> None:
        """``getattr(x, "y")`` reads ``x.y``, and so on."""
        if name not in _BY_NAME:
            self.computed.add(name)
            return
        match node.args:
            case [owner, ast.Constant(value=str(attribute)), *rest]:
                base = dotted(owner)
                if base is not None and name == "setattr":
                    value = rest[0] if rest else None
                    self._put(f"{base}.{attribute}", value, node, simple=False)
                elif base is not None:
                    self.loads.add(f"{base}.{attribute}")
            case _:
                self.computed.add(name)

    def _assign(self, node: ast.Assign, pending: list[ast.AST]) -> None:
        for target in node.targets:
            self._store(target, node.value, node, pending, simple=True)
        pending.append(node.value)

    def _store(
        self,
        target: ast.expr,
        value: ast.expr | None,
        node: ast.AST,
        pending: list[ast.AST],
        *,
        simple: bool = False,
    ) -> None:
        """An assignment to a target; what is read for it is left to be walked."""
        kind = type(target)
        if kind is ast.Name:
            self._put(target.id, value, node, simple=simple)  # type: ignore[attr-defined]
        elif kind is ast.Attribute:
            name = dotted(target)
            if name is not None:
                self._put(name, value, node, simple=simple)
            pending.append(target.value)  # type: ignore[attr-defined]
        elif isinstance(target, (ast.Tuple, ast.List)):
            values: list[ast.expr | None] = [None] * len(target.elts)
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                values = list(value.elts)
            for part, one in zip(target.elts, values, strict=True):
                self._store(part, one, node, pending, simple=simple)
        elif isinstance(target, ast.Starred):
            self._store(target.value, None, node, pending, simple=simple)
        else:
            self._note_key(target)
            pending += children(target)

    def _note_key(self, target: ast.expr) -> None:
        name = dotted(target.value) if isinstance(target, ast.Subscript) else None
        if name is not None and isinstance(target, ast.Subscript):
            key = target.slice.value if isinstance(target.slice, ast.Constant) else None
            self.puts.add((name, key))

    def _put(self, name: str, value: ast.expr | None, node: ast.AST, *, simple: bool) -> None:
        first: int = node.lineno  # type: ignore[attr-defined]
        last: int = node.end_lineno if simple else first  # type: ignore[attr-defined]
        self.stores.setdefault(name, []).append(Store(first, last, value, simple))

    # kinds of nodes that are no mere expressions

    def _annotated(self, node: ast.AnnAssign, pending: list[ast.AST]) -> None:
        if node.value is not None:
            self._store(node.target, node.value, node, pending, simple=True)
            pending.append(node.value)

    def _binary(self, node: ast.BinOp, pending: list[ast.AST]) -> None:
        self.multiplies |= isinstance(node.op, ast.MatMult)
        pending += [node.left, node.right]

    def _subscript(self, node: ast.Subscript, pending: list[ast.AST]) -> None:
        name = dotted(node.value) if isinstance(node.slice, ast.Constant) else None
        if name is not None and isinstance(node.slice.value, str):  # type: ignore[attr-defined]
            self.keyed.add(name)
        picking = dotted(node.slice)
        if picking is not None:
            self.picking.add(picking)
        pending += [node.value, node.slice]

    def _augmented(self, node: ast.AugAssign, pending: list[ast.AST]) -> None:
        self.multiplies |= isinstance(node.op, ast.MatMult)
        self._store(node.target, None, node, pending, simple=True)
        pending += [node.target, node.value]

    def _for(self, node: ast.For, pending: list[ast.AST]) -> None:
        self._store(node.target, None, node, pending)
        pending += [node.iter, *node.body, *node.orelse]

    def _with(self, node: ast.With, pending: list[ast.AST]) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                self._store(item.optional_vars, None, node, pending)
            pending.append(item.context_expr)
        pending += node.body

    def _walrus(self, node: ast.NamedExpr, pending: list[ast.AST]) -> None:
        self._store(node.target, node.value, node, pending)
        pending.append(node.value)

    def _return(self, node: ast.Return, pending: list[ast.AST]) -> None:
        if node.value is not None:
            self.returned.append(node.value)
            pending.append(node.value)

    def _yield(self, node: ast.Yield | ast.YieldFrom, pending: list[ast.AST]) -> None:
        self.is_generator = True
        if node.value is not None:
            pending.append(node.value)

    def _function(self, node: FunctionNode, pending: list[ast.AST]) -> None:
        self.functions.append(node)
        self.heads += node.decorator_list
        self._defaults(node.args, pending)

    def _defaults(self, node: ast.arguments, pending: list[ast.AST]) -> None:
        pending += node.defaults
        pending += [default for default in node.kw_defaults if default is not None]

    def _lambda(self, node: ast.Lambda, pending: list[ast.AST]) -> None:
        self._defaults(node.args, pending)
        self.hidden.update(parameters_of(node.args))
        pending.append(node.body)

    def _class(self, node: ast.ClassDef, pending: list[ast.AST]) -> None:
        self.classes.append(node)
        self.heads += [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]

    def _comprehension(self, node: ast.comprehension, pending: list[ast.AST]) -> None:
        for part in ast.walk(node.target):
            if isinstance(part, ast.Name):
                self.hidden.add(part.id)
        pending += [node.iter, *node.ifs]

    def _handler(self, node: ast.ExceptHandler, pending: list[ast.AST]) -> None:
        if node.name is not None:
            self._put(node.name, None, node, simple=False)
        if node.type is not None:
            pending.append(node.type)
        pending += node.body

    def _case(self, node: ast.match_case, pending: list[ast.AST]) -> None:
        for part in ast.walk(node.pattern):
            name = part.rest if isinstance(part, ast.MatchMapping) else getattr(part, "name", None)
            if name is not None:
                self._put(name, None, node.pattern, simple=False)
            if isinstance(part, (ast.MatchValue, ast.MatchClass)):
                pending.append(part.value if isinstance(part, ast.MatchValue) else part.cls)
        if node.guard is not None:
            pending.append(node.guard)
        pending += node.body

    def _global(self, node: ast.Global | ast.Nonlocal, pending: list[ast.AST]) -> None:
        self.elsewhere.update(node.names)

    def _import(self, node: ast.Import | ast.ImportFrom, pending: list[ast.AST]) -> None:
        self.imports = True

    def _delete(self, node: ast.Delete, pending: list[ast.AST]) -> None:
        """What is deleted is not read."""


_Special = Callable[[Body, Any, list[ast.AST]], None]
_SPECIAL: dict[type[ast.AST], _Special] = {
    ast.AnnAssign: Body._annotated,
    ast.AugAssign: Body._augmented,
    ast.BinOp: Body._binary,
    ast.Compare: Body._compare,
    ast.Subscript: Body._subscript,
    ast.For: Body._for,
    ast.AsyncFor: Body._for,
    ast.With: Body._with,
    ast.AsyncWith: Body._with,
    ast.NamedExpr: Body._walrus,
    ast.Return: Body._return,
    ast.Yield: Body._yield,
    ast.YieldFrom: Body._yield,
    ast.FunctionDef: Body._function,
    ast.AsyncFunctionDef: Body._function,
    ast.Lambda: Body._lambda,
    ast.ClassDef: Body._class,
    ast.comprehension: Body._comprehension,
    ast.ExceptHandler: Body._handler,
    ast.match_case: Body._case,
    ast.Global: Body._global,
    ast.Nonlocal: Body._global,
    ast.Import: Body._import,
    ast.ImportFrom: Body._import,
    ast.Delete: Body._delete,
}


def parameters_of(arguments: ast.arguments) -> list[str]:
    """The names of all parameters, in order."""
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        arguments.vararg,
        *arguments.kwonlyargs,
        arguments.kwarg,
    ]
    return [part.arg for part in every if part is not None]


def _receiver(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        called = node.func
        return "super" if isinstance(called, ast.Name) and called.id == "super" else "call"
    return "item" if isinstance(node, ast.Subscript) else "other"
