"""Lowered programs as nested tuples, and what they should be, made from ``ast`` by other means."""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

from amplint.lowering.program import Expression, Program, Statement

OPERATORS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Not: "not",
    ast.USub: "-",
    ast.UAdd: "+",
    ast.Invert: "~",
    ast.And: "and",
    ast.Or: "or",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_OF_PROGRAM = ("name", "kind", "parameters", "decorators", "returns", "is_generator", "is_coroutine", "body")


def shape(node: Any) -> Any:
    """A node with all that is below it, without numbers."""
    match node:
        case Program():
            return ("Program", *(shape(getattr(node, name)) for name in _OF_PROGRAM))
        case Statement() | Expression():
            fields = [field.name for field in dataclasses.fields(node) if field.name != "number"]
            return (type(node).__name__, *(shape(getattr(node, name)) for name in fields))
        case tuple():
            return tuple(map(shape, node))
        case _ if dataclasses.is_dataclass(node):
            return (
                type(node).__name__,
                *(shape(getattr(node, field.name)) for field in dataclasses.fields(node)),
            )
    return constant(node)


def constant(value: object) -> object:
    """A value that is equal only to itself: 1, 1.0 and True are not."""
    if value is None or isinstance(value, str):
        return value
    return (type(value).__name__, repr(value))


def expected(node: Any) -> Any:
    """The shape of what an expression or a definition should become, from ``ast``."""
    if isinstance(node, list):
        return tuple(map(expected, node))
    if node is None:
        return None
    return _EXPECTED[type(node)](node)


def expected_block(nodes: list[ast.stmt]) -> tuple[Any, ...]:
    """The shape of a block, less what is dropped."""
    found = []
    for node in nodes:
        if isinstance(node, ast.Expr) and expected(node.value)[0] == "LiteralNode":
            continue
        if isinstance(node, ast.Pass) or (isinstance(node, ast.AnnAssign) and node.value is None):
            continue
        found.append(expected(node))
    return tuple(found)


def _call(node: ast.Call, *, assigned: bool) -> Any:
    return ("Call", expected(node.func), _call_arguments(node.args, node.keywords), constant(assigned))


def _assigned(node: ast.expr) -> Any:
    return _call(node, assigned=True) if isinstance(node, ast.Call) else expected(node)


def _literal(value: object) -> Any:
    return ("LiteralNode", constant(value))


def _flag(value: bool) -> Any:
    return constant(value)


def _parts(node: ast.JoinedStr) -> list[Any]:
    parts: list[Any] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            if parts and isinstance(parts[-1], str):
                parts[-1] += part.value
            else:
                parts.append(part.value)
        else:
            parts.append(expected(part))
    return parts


def _joined(node: ast.JoinedStr) -> Any:
    parts = _parts(node)
    if all(isinstance(part, str) for part in parts):
        return _literal("".join(parts))
    return ("Formatted", tuple(parts))


def _field(node: ast.FormattedValue) -> Any:
    if node.conversion == -1 and node.format_spec is None:
        return expected(node.value)
    inner = node.format_spec.values if isinstance(node.format_spec, ast.JoinedStr) else []
    fields = [expected(part) for part in inner if isinstance(part, ast.FormattedValue)]
    value = expected(node.value)
    if node.conversion != -1 or not inner:
        value = ("Formatted", (value,))
    return ("Opaque", (value, *fields))


def _boolean(node: ast.BoolOp) -> Any:
    first, *rest = map(expected, node.values)
    for value in rest:
        first = ("Boolean", OPERATORS[type(node.op)], first, value)
    return first


def _subscript(node: ast.Subscript) -> Any:
    key = node.slice
    # ``ast`` has the same tree for ``x[1, 2]`` and ``x[(1, 2)]``
    keys = key.elts if isinstance(key, ast.Tuple) and len(key.elts) > 1 else [key]
    return ("Subscript", expected(node.value), expected(keys))


def _call_arguments(positional: list[ast.expr], keywords: list[ast.keyword]) -> tuple[Any, ...]:
    places = sorted([*positional, *keywords], key=lambda part: (part.lineno, part.col_offset))
    found: list[Any] = []
    for part in places:
        if isinstance(part, ast.keyword):
            found.append(("Argument", expected(part.value), part.arg, "" if part.arg else "**"))
        elif isinstance(part, ast.Starred):
            found.append(("Argument", expected(part.value), None, "*"))
        else:
            found.append(("Argument", expected(part), None, ""))
    return tuple(found)


def _comprehension(kind: str) -> Any:
    def made(node: Any) -> Any:
        clauses = tuple(
            ("Clause", expected(part.target), expected(part.iter), expected(part.ifs))
            for part in node.generators
        )
        key = expected(node.key) if kind == "dict" else None
        element = expected(node.value if kind == "dict" else node.elt)
        return ("Comprehension", kind, key, element, clauses)

    return made


def _parameters(node: ast.arguments) -> tuple[Any, ...]:
    plain = [*node.posonlyargs, *node.args]
    defaults = [None] * (len(plain) - len(node.defaults)) + node.defaults
    kinds = ["positional"] * len(node.posonlyargs) + ["normal"] * len(node.args)
    rows = list(zip(plain, kinds, defaults, strict=True))
    rows += [(node.vararg, "*", None)] if node.vararg else []
    rows += [
        (part, "keyword", default) for part, default in zip(node.kwonlyargs, node.kw_defaults, strict=True)
    ]
    rows += [(node.kwarg, "**", None)] if node.kwarg else []
    return tuple(
        ("Parameter", part.arg, kind, expected(default), expected(part.annotation))
        for part, kind, default in rows
    )


def _yields(body: list[Any]) -> bool:
    pending = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            around = node.args
            pending += [*node.decorator_list, *around.defaults, *filter(None, around.kw_defaults)]
        elif isinstance(node, ast.Lambda):
            pending += [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        elif isinstance(node, ast.ClassDef):
            pending += [*node.decorator_list, *node.bases, *node.keywords]
        else:
            pending += ast.iter_child_nodes(node)
    return False


def _program(node: Any, name: str, kind: str, decorators: list[ast.expr], body: Any) -> Any:
    statements = node.body if isinstance(node.body, list) else [node.body]
    return (
        "Program",
        name,
        kind,
        _parameters(node.args),
        tuple(("Decorator", expected(part)) for part in decorators),
        expected(getattr(node, "returns", None)),
        _flag(_yields(statements)),
        _flag(isinstance(node, ast.AsyncFunctionDef)),
        body,
    )


def expected_function(node: Any) -> Any:
    """The shape of a function."""
    return _program(node, node.name, "function", node.decorator_list, expected_block(node.body))


def _lambda(node: ast.Lambda) -> Any:
    return ("Lambda", _program(node, "<lambda>", "lambda", [], (("Return", expected(node.body)),)))


def _class(node: ast.ClassDef) -> Any:
    line = min([node.lineno, *(part.lineno for part in node.decorator_list)])
    decorators = tuple(("Decorator", expected(part)) for part in node.decorator_list)
    arguments = _call_arguments(node.bases, node.keywords)
    return ("DefineClass", node.name, constant(line), arguments, decorators)


def _import(node: ast.Import) -> Any:
    bound = [
        (part.asname, part.name) if part.asname else (part.name.split(".")[0],) * 2 for part in node.names
    ]
    return ("Import", tuple(bound), ())


def _import_from(node: ast.ImportFrom) -> Any:
    module = "." * node.level + (node.module or "")
    if node.names[0].name == "*":
        return ("Import", (), (module,))
    before = module if module.endswith(".") else module + "."
    return ("Import", tuple((part.asname or part.name, before + part.name) for part in node.names), ())


def _try(node: Any) -> Any:
    handlers = tuple(
        ("Handler", expected(part.type), part.name, expected_block(part.body)) for part in node.handlers
    )
    return (
        "Try",
        expected_block(node.body),
        handlers,
        expected_block(node.orelse),
        expected_block(node.finalbody),
    )


def _case(node: ast.match_case) -> Any:
    constants, anything = _asked(node.pattern)
    body = expected_block(node.body)
    return (
        "Case",
        constants,
        tuple(dict.fromkeys(_captured(node.pattern))),
        expected(node.guard),
        body,
        _flag(anything),
    )


def _captured(node: ast.AST) -> list[str]:
    below = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.pattern)]
    names = [name for child in below for name in _captured(child)]
    name = getattr(node, "rest", None) or getattr(node, "name", None)
    return [*names, name] if name else names


def _asked(node: ast.pattern) -> tuple[Any, bool]:
    match node:
        case ast.MatchValue(value=value):
            return (expected(value),), False
        case ast.MatchSingleton(value=value):
            return (_literal(value),), False
        case ast.MatchAs(pattern=None):
            return None, True
        case ast.MatchAs(pattern=inner):
            return _asked(inner)
        case ast.MatchOr(patterns=patterns):
            parts = [_asked(part) for part in patterns]
            known = all(part is not None for part, _ in parts)
            every = sum((part for part, _ in parts), ()) if known else None
            return every, any(anything for _, anything in parts)
    return None, False


def _with(node: Any) -> Any:
    items = tuple(
        ("WithItem", expected(part.context_expr), expected(part.optional_vars)) for part in node.items
    )
    return ("With", items, expected_block(node.body))


def _delete(node: ast.Delete) -> Any:
    first = node.targets[0]
    flat = first.elts if len(node.targets) == 1 and isinstance(first, ast.Tuple | ast.List) else node.targets
    return ("Delete", expected(flat))


def _for(node: Any) -> Any:
    blocks = expected_block(node.body), expected_block(node.orelse)
    return ("For", expected(node.target), expected(node.iter), *blocks)


def _branches(kind: str) -> Any:
    return lambda node: (kind, expected(node.test), expected_block(node.body), expected_block(node.orelse))


_EXPECTED: dict[type[ast.AST], Any] = {
    ast.Constant: lambda node: _literal(node.value),
    ast.Name: lambda node: ("Name", node.id),
    ast.Attribute: lambda node: ("Attribute", expected(node.value), node.attr),
    ast.Slice: lambda node: ("SliceKey", expected(node.lower), expected(node.upper), expected(node.step)),
    ast.Subscript: _subscript,
    ast.Call: lambda node: _call(node, assigned=False),
    ast.BinOp: lambda node: ("Binary", OPERATORS[type(node.op)], expected(node.left), expected(node.right)),
    ast.UnaryOp: lambda node: ("Unary", OPERATORS[type(node.op)], expected(node.operand)),
    ast.Compare: lambda node: (
        "Compare",
        expected(node.left),
        tuple(OPERATORS[type(part)] for part in node.ops),
        expected(node.comparators),
    ),
    ast.BoolOp: _boolean,
    ast.IfExp: lambda node: ("Conditional", expected(node.test), expected(node.body), expected(node.orelse)),
    ast.Starred: lambda node: ("Starred", expected(node.value)),
    ast.Tuple: lambda node: ("Display", "tuple", expected(node.elts)),
    ast.List: lambda node: ("Display", "list", expected(node.elts)),
    ast.Set: lambda node: ("Display", "set", expected(node.elts)),
    ast.Dict: lambda node: (
        "DictDisplay",
        tuple(zip(expected(node.keys), expected(node.values), strict=True)),
    ),
    ast.JoinedStr: _joined,
    ast.FormattedValue: _field,
    ast.Lambda: _lambda,
    ast.ListComp: _comprehension("list"),
    ast.SetComp: _comprehension("set"),
    ast.GeneratorExp: _comprehension("generator"),
    ast.DictComp: _comprehension("dict"),
    ast.NamedExpr: lambda node: ("Walrus", expected(node.target), expected(node.value)),
    ast.Await: lambda node: ("Await", expected(node.value)),
    ast.Yield: lambda node: ("Yield", expected(node.value), _flag(False)),
    ast.YieldFrom: lambda node: ("Yield", expected(node.value), _flag(True)),
    ast.Expr: lambda node: ("Evaluate", expected(node.value)),
    ast.Assign: lambda node: ("Assign", expected(node.targets), _assigned(node.value), None),
    ast.AnnAssign: lambda node: (
        "Assign",
        (expected(node.target),),
        _assigned(node.value),
        expected(node.annotation),
    ),
    ast.AugAssign: lambda node: (
        "AugmentedAssign",
        OPERATORS[type(node.op)],
        expected(node.target),
        expected(node.value),
    ),
    ast.Delete: _delete,
    ast.Return: lambda node: ("Return", expected(node.value)),
    ast.Raise: lambda node: ("Raise", expected(node.exc), expected(node.cause)),
    ast.Break: lambda node: ("Break",),
    ast.Continue: lambda node: ("Continue",),
    ast.Assert: lambda node: ("Assert", expected(node.test), expected(node.msg)),
    ast.If: _branches("If"),
    ast.While: _branches("While"),
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.Match: lambda node: ("Match", expected(node.subject), tuple(map(_case, node.cases))),
    ast.FunctionDef: lambda node: ("Define", expected_function(node)),
    ast.AsyncFunctionDef: lambda node: ("Define", expected_function(node)),
    ast.ClassDef: _class,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Global: lambda node: ("Global", tuple(node.names), _flag(False)),
    ast.Nonlocal: lambda node: ("Global", tuple(node.names), _flag(True)),
}
if hasattr(ast, "TryStar"):
    _EXPECTED[ast.TryStar] = _try
if hasattr(ast, "TypeAlias"):
    _EXPECTED[ast.TypeAlias] = lambda node: ("Assign", (expected(node.name),), ("Opaque", ()), None)
