"""Attributes that an object surely does not have, so that reading them raises."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import libcst as cst

from amplint.amp.attributes import MODULE_ATTRIBUTES, NO_LAYER_HAS
from amplint.flow import modules
from amplint.flow.values import ClassValue, Instance, Library, Value
from amplint.source.outline import dotted
from amplint.source.project import ProjectFile

if TYPE_CHECKING:
    from amplint.flow.engine import Engine
    from amplint.flow.expressions import Expressions

_PLAIN_BASES = frozenset({"torch.nn.Module", "abc.ABC"})
_LAYER = re.compile(r"torch\.nn\.(?!Module$|DataParallel$)[A-Z]\w*")
_GUARDED = re.compile(r"except\s*(?:[^:\n]*\b(?:AttributeError|Exception|BaseException)\b|:)|\bsuppress\(")
_MADE_UP = frozenset(
    {"__getattr__", "__getattribute__", "__dict__", "__setattr__", "vars", "exec", "locals", "store_attr"}
)
"""Names whose presence in a class says that its attributes are not to be seen in the text."""
_BY_COMPUTED_NAMES = re.compile(
    r"\bsetattr\(\s*[^,()]+(?:\([^()]*\))?\s*,\s*(?![\"'])|__dict__|\bvars\(|\bnamespace\s*="
)
_SETTERS = frozenset(
    {"__setattr__", "register_buffer", "register_parameter", "register_module", "add_module"}
)
_KEEP_NOTHING = frozenset(
    {
        "super",
        "isinstance",
        "hasattr",
        "getattr",
        "callable",
        "type",
        "id",
        "len",
        "iter",
        "repr",
        "str",
        "print",
    }
)
"""Functions that give what they are handed no attributes."""
_ABSTRACT = re.compile(r"\babstractmethod\b|\bNotImplementedError\b")


def attribute_read_in(walker: Expressions, node: cst.CSTNode) -> str | None:
    """The first attribute that the evaluation of an expression reads from an object which does not have it, with
    the name of the object's class: ``Net.device``."""
    for read in _reads(node):
        name = read.attr.value
        found = _object(walker, read.value)
        if isinstance(found, Instance) and _lacks(walker, found, name):
            if _GUARDED.search(walker.scope.slice.text) or _mentions(walker.scope.slice.text, name):
                return None
            owner = found.made_of.outline.name if found.made_of is not None else str(found.library)
            return f"{owner.rpartition('.')[2]}.{name}"
    return None


def _mentions(text: str, name: str) -> bool:
    """Whether a text holds a name as a string, as in ``hasattr(model, "device")``."""
    return re.search(rf"[\"']{name}[\"']", text) is not None


def _reads(node: cst.CSTNode) -> Iterator[cst.Attribute]:
    """The attributes that are read whenever an expression is evaluated, in this order."""
    match node:
        case cst.Attribute():
            yield from _reads(node.value)
            yield node
        case cst.Call():
            yield from _reads(node.func)
            for argument in node.args:
                yield from _reads(argument.value)
        case cst.Subscript():
            yield from _reads(node.value)
        case cst.Comparison() | cst.BooleanOperation():
            yield from _reads(node.left)
        case cst.IfExp():
            yield from _reads(node.test)


def _object(walker: Expressions, node: cst.BaseExpression) -> Value | None:
    """The object that a name or a chain of attributes stands for, as far as it is there without evaluating it."""
    if isinstance(node, cst.Name):
        return walker.path.names.get(node.value) or walker.scope.outer_names.get(node.value)
    if isinstance(node, cst.Attribute):
        owner = _object(walker, node.value)
        if isinstance(owner, Instance):
            name = node.attr.value
            return walker.path.load(owner.identity, name) or modules.constructed(walker, owner, name)
    return None


def _lacks(walker: Expressions, found: Instance, name: str) -> bool:
    if name.startswith("_") or walker.path.load(found.identity, name) is not None:
        return False
    engine = walker.engine
    if found.made_of is not None:
        return class_lacks(engine, found.made_of, name)
    if found.library is None or _LAYER.fullmatch(found.library) is None or name not in NO_LAYER_HAS:
        return False
    return not _set_from_outside(engine, name)


def class_lacks(engine: Engine, value: ClassValue, name: str) -> bool:
    """Whether no object of a class, or of one that inherits from it in the project, has an attribute, whoever sets
    it. The answer is kept."""
    key = (id(value.outline), name)
    known = engine.absent.get(key)
    if known is None:
        known = engine.absent[key] = (
            _is_made(engine, value)
            and not _is_open(engine, value)
            and _family_lacks(engine, value, name)
            and _subclasses_lack(engine, value, name)
            and all(
                other is not None and value not in engine.bases(other) and other not in engine.bases(value)
                for other in _set_from_outside(engine, name)
            )
        )
    return known


def _is_made(engine: Engine, value: ClassValue) -> bool:
    """Whether objects are made of a class, and not only of those that inherit from it out of sight."""
    if _ABSTRACT.search(value.file.text_of(value.outline)) is not None:
        return False
    whole = engine.is_module_class(value) and engine.find_method(value, "forward") is not None
    return whole or engine.project.is_made(value.outline.name)


def _is_open(engine: Engine, value: ClassValue) -> bool:
    """Whether code that knows a class sets attributes by names that it works out, or lies beside the class's file and
    is not looked at."""
    name = value.outline.name
    word = re.compile(rf"\b{re.escape(name)}\b".encode())
    if engine.project.is_known_beside(value.file.path, word):
        return True
    for path in engine.project.files_with(word):
        file = engine.project.load(path)
        if file is None:
            return True
        text = file.text
        if file is value.file:
            text = text.replace(file.text_of(value.outline), "")
        if word.search(text.encode()) and _BY_COMPUTED_NAMES.search(text):
            return True
    return False


def _family_lacks(
    engine: Engine, value: ClassValue, name: str, below: frozenset[ClassValue] = frozenset()
) -> bool:
    """Whether neither a class nor one of its bases, all of which are known, gives its objects an attribute."""
    node = _class_node(value)
    if node is None or node.decorator_list or node.keywords or _gives(node, name) or value in below:
        return False
    return all(_base_lacks(engine, value.file, base, name, below | {value}) for base in node.bases)


def _base_lacks(
    engine: Engine, file: ProjectFile, base: ast.expr, name: str, below: frozenset[ClassValue]
) -> bool:
    text = dotted(base)
    if text is None or text.partition(".")[0] in file.outline.assigned:
        return False
    if text == "object":
        return True
    resolved = engine.resolve(file, text)
    if isinstance(resolved, Library):
        return resolved.name in _PLAIN_BASES and name not in MODULE_ATTRIBUTES
    if not isinstance(resolved, ClassValue) or not _is_imported_once(file, text.partition(".")[0]):
        return False
    return _family_lacks(engine, resolved, name, below)


def _is_imported_once(file: ProjectFile, name: str) -> bool:
    """Whether no second import may bind a name to something else, as after ``except ImportError:``."""
    return len(re.findall(rf"^[ \t]*(?:from|import)\b.*\b{name}\b", file.text, re.MULTILINE)) <= 1


def _class_node(value: ClassValue) -> ast.ClassDef | None:
    name, file = value.outline.name, value.file
    defined = re.findall(rf"^[ \t]*class[ \t]+{name}\b", file.text, re.MULTILINE)
    if len(defined) != 1 or name in file.outline.assigned:
        return None
    return next(
        (node for node in _parsed(value.file.text_of(value.outline)) if isinstance(node, ast.ClassDef)), None
    )


def _parsed(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(textwrap.dedent(text)).body
    except (SyntaxError, ValueError):
        return []


def _gives(node: ast.ClassDef, name: str) -> bool:
    """Whether a class may give its objects an attribute: it defines or declares it, sets it, names it in a string,
    or makes up attributes on the way."""
    if any(name in _bound_by(statement) for statement in node.body):
        return True
    for part in ast.walk(node):
        match part:
            case ast.Attribute(attr=attr, ctx=context):
                if attr in _MADE_UP or (attr == name and not isinstance(context, ast.Load)):
                    return True
            case ast.Name(id=word) if word in _MADE_UP:
                return True
            case ast.FunctionDef(name=word) if word in _MADE_UP:
                return True
            case ast.Constant(value=str(text)) if text == name:
                return True
            case ast.Call(func=ast.Name(id="setattr"), args=[_, key, _]) if not isinstance(key, ast.Constant):
                return True
            case ast.Call() if _hands_on(part):
                return True
    return False


def _hands_on(call: ast.Call) -> bool:
    """Whether a call hands the object itself to a function, which may give it attributes."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    handed = any(isinstance(value, ast.Name) and value.id == "self" for value in given)
    by = (dotted(call.func) or "").rpartition(".")[2]
    return handed and by not in _KEEP_NOTHING and by != "__init__"


def _bound_by(statement: ast.stmt) -> set[str]:
    """The names that a statement of a class body binds or declares."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    found: set[str] = set()
    for part in ast.iter_child_nodes(statement):
        if isinstance(part, ast.stmt):
            found |= _bound_by(part)
        elif isinstance(part, ast.alias):
            found.add(part.asname or part.name)
        else:
            found |= {
                inner.id
                for inner in ast.walk(part)
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
            }
    return found


def _subclasses_lack(
    engine: Engine, value: ClassValue, name: str, seen: frozenset[ClassValue] = frozenset()
) -> bool:
    """Whether no class of the project that may inherit from a class gives its objects an attribute, and none has a
    base that is not known. What is patched into the class, or known by another name, may be anything."""
    own = re.escape(value.outline.name)
    inherits = rf"\bclass\s+\w+\s*\([^)]*\b{own}\b"
    lost = rf"\b{own} as \w|\b{own}\.\w+\s*=[^=]|=\s*{own}[ \t]*(?:#|$)|\btype\([^\n]*,[^\n]*\b{own}\b"
    for path in engine.project.files_with(re.compile(f"{inherits}|{lost}".encode(), re.MULTILINE)):
        file = engine.project.load(path)
        if file is None or re.search(lost, file.text, re.MULTILINE):
            return False
        for node in ast.walk(ast.Module(_parsed(file.text), [])):
            if not isinstance(node, ast.ClassDef) or own not in map(_last_name, node.bases):
                continue
            outline = file.outline.classes.get(node.name)
            if outline is None or not outline.line <= node.lineno <= outline.end_line:
                return False
            below = engine.class_value(file, outline)
            if below == value or below in seen:
                continue
            if not _family_lacks(engine, below, name):
                return False
            if not _subclasses_lack(engine, below, name, seen | {value}):
                return False
    return True


def _last_name(node: ast.expr) -> str:
    return (dotted(node) or "").rpartition(".")[2]


@dataclass(frozen=True)
class _Store:
    """Where an attribute is set: the class and function around, the conditions, and the object that gets it."""

    owner: ast.ClassDef | None = None
    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    tests: tuple[ast.expr, ...] = ()
    target: ast.expr | None = None


def _set_from_outside(engine: Engine, name: str) -> list[ClassValue | None]:
    """The classes of the objects that get an attribute from the outside, anywhere in the project; None for an
    object of which that is not known. What methods set on their own object is not meant."""
    known = engine.set_from_outside.get(name)
    if known is None:
        known = engine.set_from_outside[name] = []
        word = re.escape(name)
        pattern = re.compile(
            rf"\.{word}\s*(?::[^=\n]+)?=(?!=)|\.{word}\s*,[^\n(]*=(?!=)|"
            rf"(?:setattr(?:__)?|register_\w+|add_module)\([^\n]*[\"']{word}[\"']".encode()
        )
        for path in engine.project.files_with(pattern):
            file = engine.project.load(path)
            if file is None:
                known.append(None)
                continue
            for store in _stores(ast.Module(_parsed(file.text), []), name, _Store()):
                if not _is_own(store) and not _had_before(store, name):
                    known.append(_class_of(engine, file, store))
    return known


def _stores(node: ast.AST, name: str, around: _Store) -> Iterator[_Store]:
    match node:
        case ast.ClassDef():
            around = _Store(node)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            around = _Store(around.owner if around.function is None else None, node)
        case ast.If(test=test):
            around = replace(around, tests=(*around.tests, test))
        case ast.Attribute(attr=attr, value=value, ctx=ast.Store()) if attr == name:
            yield replace(around, target=value)
        case ast.Call(
            func=ast.Name(id="setattr") | ast.Attribute(value=ast.Name(id="object"), attr="__setattr__"),
            args=[value, ast.Constant(value=key), _],
        ) if key == name:
            yield replace(around, target=value)
        case ast.Call(func=ast.Attribute(value=value, attr=method), args=[ast.Constant(value=key), *_]) if (
            key == name and method in _SETTERS
        ):
            yield replace(around, target=value)
    for part in ast.iter_child_nodes(node):
        yield from _stores(part, name, around)


def _is_own(store: _Store) -> bool:
    """Whether a method sets an attribute of its own object."""
    if store.owner is None or store.function is None or not isinstance(store.target, ast.Name):
        return False
    arguments = store.function.args.args
    return bool(arguments) and arguments[0].arg == store.target.id


def _had_before(store: _Store, name: str) -> bool:
    """Whether a condition for setting the attribute reads it, which would raise: ``if x.device is None:``."""
    assert store.target is not None
    read = f"{ast.unparse(store.target)}.{name}"
    return any(
        isinstance(part, ast.Attribute) and ast.unparse(part) == read
        for test in store.tests
        for part in ast.walk(test)
    )


def _class_of(engine: Engine, file: ProjectFile, store: _Store) -> ClassValue | None:
    """The class of a local name, by its annotation or by what is called to make it."""
    if store.function is None or not isinstance(store.target, ast.Name):
        return None
    name, function = store.target.id, store.function
    nodes = list(ast.walk(function))
    bound = [part for part in nodes if isinstance(part, ast.Name) and part.id == name]
    bound = [part for part in bound if isinstance(part.ctx, ast.Store)]
    made = [part.annotation for part in nodes if isinstance(part, ast.arg) and part.arg == name]
    if not made and len(bound) == 1:
        made = [
            part.value.func
            for part in nodes
            if isinstance(part, ast.Assign) and part.targets == bound and isinstance(part.value, ast.Call)
        ]
    elif bound:
        return None
    text = dotted(made[0]) if len(made) == 1 and made[0] is not None else None
    found = engine.resolve(file, text) if text is not None else None
    return found if isinstance(found, ClassValue) else None
