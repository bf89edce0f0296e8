"""Gives everything that a program names itself another name, and leaves what others gave their names to.

Variables, parameters, functions and classes are one table of names, attributes and methods another. A name stays if
anything outside may ask for it by that name: as a keyword, in a string, as an attribute of an object of torch.
"""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

Trees = Mapping[str, ast.Module]
"""The files of a program by the names under which they import each other."""

_BY_NAME = frozenset(
    {
        "getattr",
        "setattr",
        "hasattr",
        "globals",
        "locals",
        "vars",
        "eval",
        "exec",
        "import_module",
        "__import__",
    }
)
"""Functions that take names for strings."""
_OVERRIDDEN = frozenset(
    {"forward", "backward", "setup_context", "jvp", "step", "closure", "zero_grad", "state_dict"}
    | {"training_step", "configure_optimizers", "on_before_optimizer_step", "automatic_optimization"}
)
"""What torch and Lightning call or read of classes of the program."""


def renamed(trees: Trees, known: frozenset[str]) -> None:
    """Renames in place. ``known`` are the attributes and methods of objects that are not of the program."""
    names = _Survey(trees, known)
    renamer = _Renamer(names)
    for tree in trees.values():
        renamer.visit(tree)


@dataclass
class _Survey:
    """What is to be renamed, and into what."""

    trees: Trees
    known: frozenset[str]
    plain: dict[str, str] = field(default_factory=dict)
    """Variables, parameters, functions, classes."""
    attributes: dict[str, str] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    """Names that are imported from outside."""
    modules: set[str] = field(default_factory=set)
    """The names that stand for files of the program."""

    def __post_init__(self) -> None:
        nodes = [node for tree in self.trees.values() for node in ast.walk(tree)]
        self.modules = set(self._modules(nodes))
        self.others = self._imported(nodes)
        spared = set(self._strings(nodes)) | self.others
        plain = set(self._bound(nodes)) - set(dir(builtins)) - spared - self._asked_for(nodes) - self.modules
        plain -= {name for tree in self.trees for name in tree.split(".")}
        attributes = set(self._attributes(nodes)) - self.known - spared - _OVERRIDDEN
        fields = self._fields(nodes)
        self.plain = _numbered("n", plain - fields)
        self.attributes = _numbered("m", attributes - fields - self._given(nodes))

    def _modules(self, nodes: Iterable[ast.AST]) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name in self.trees:
                        yield alias.asname or alias.name.partition(".")[0]
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if any(name.rpartition(".")[2] == alias.name for name in self.trees):
                        yield alias.asname or alias.name

    def is_own(self, node: ast.ImportFrom) -> bool:
        """Whether a module of the program is imported from."""
        tail = node.module or ""
        return bool(node.level) or any(name == tail or name.endswith(f".{tail}") for name in self.trees)

    def _imported(self, nodes: Iterable[ast.AST]) -> set[str]:
        """What others have named. Under another name it is the program's own, but rather stays, too."""
        found: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not self.is_own(node)):
                found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        return found

    def _strings(self, nodes: list[ast.AST]) -> Iterator[str]:
        """Names that are asked for by strings."""
        asked = any(
            (isinstance(node, ast.Name) and node.id in _BY_NAME)
            or (isinstance(node, ast.Attribute) and node.attr in (*_BY_NAME, "__dict__", "asdict"))
            or (isinstance(node, ast.keyword) and node.arg is None)
            for node in nodes
        )
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words = node.value.replace("-", "_").replace(".", " ").split()
                if asked and len(words) < 5:
                    yield from words
                elif node.value.startswith("-"):
                    yield node.value.strip("-").replace("-", "_")
            elif isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id in ("__all__", "__slots__")
                for target in node.targets
            ):
                yield from (
                    str(part.value) for part in ast.walk(node.value) if isinstance(part, ast.Constant)
                )

    def _bound(self, nodes: Iterable[ast.AST]) -> Iterator[str]:
        for node in nodes:
            match node:
                case ast.Name(id=name, ctx=ast.Store()):
                    yield name
                case ast.arg(arg=name) | ast.ClassDef(name=name):
                    yield name
                case ast.Module(body=body):
                    yield from (
                        part.name
                        for part in body
                        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))
                    )
                case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body):
                    inner = (part for statement in body for part in ast.walk(statement))
                    classes = {
                        id(part)
                        for one in body
                        for owner in ast.walk(one)
                        if isinstance(owner, ast.ClassDef)
                        for part in owner.body
                    }
                    yield from (
                        part.name
                        for part in inner
                        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))
                        and id(part) not in classes
                    )
                case ast.ExceptHandler(name=str() as name):
                    yield name

    def _attributes(self, nodes: Iterable[ast.AST]) -> Iterator[str]:
        """What is set on ``self``, and the methods and names of classes."""
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                    yield node.attr
            elif isinstance(node, ast.ClassDef) and self._is_free(node):
                for part in node.body:
                    if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        yield part.name
                    elif isinstance(part, ast.Assign):
                        yield from (target.id for target in part.targets if isinstance(target, ast.Name))

    def _is_free(self, node: ast.ClassDef) -> bool:
        """Whether no framework calls methods of a class by their names."""
        return all(
            ast.unparse(base).rpartition(".")[2] in ("Module", "object") or self._is_of_program(base, node)
            for base in node.bases
        )

    def _is_of_program(self, base: ast.expr, of: ast.ClassDef) -> bool:
        """Whether a base of a class is another class of the program: ``class Linear(nn.Linear)`` is none of its own."""
        name = ast.unparse(base).rpartition(".")[2]
        classes = [
            node for tree in self.trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
        ]
        return any(node.name == name and node is not of and self._is_free(node) for node in classes)

    def _fields(self, nodes: Iterable[ast.AST]) -> set[str]:
        """Names and attributes at once: the fields of dataclasses and named tuples, and what the body of a class
        imports."""
        inner = [part for node in nodes if isinstance(node, ast.ClassDef) for part in node.body]
        fields = {
            part.target.id
            for part in inner
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        }
        imports = [part for part in inner if isinstance(part, ast.ImportFrom)]
        return fields | {alias.name for part in imports for alias in part.names}

    def _given(self, nodes: Iterable[ast.AST]) -> set[str]:
        """Attributes that keywords of others' functions make: ``SimpleNamespace(amp=True)``."""
        return {
            part.arg
            for node in nodes
            if isinstance(node, ast.Call) and not self.is_own_call(node)
            for part in node.keywords
            if part.arg is not None
        }

    def _asked_for(self, nodes: list[ast.AST]) -> set[str]:
        """Parameters of own functions that are given by keyword through functions of others, or of which it is not
        known: ``partial(train, amp=True)``."""
        parameters = {node.arg for node in nodes if isinstance(node, ast.arg)}
        found = set()
        for node in nodes:
            if isinstance(node, ast.Call) and not _is_of_torch(node.func):
                own = self._parameters(nodes, node) if self.is_own_call(node) else set()
                found |= {
                    part.arg for part in node.keywords if part.arg in parameters and part.arg not in own
                }
        return found

    def is_own_call(self, node: ast.Call) -> bool:
        """Whether a call can only be one of a function or class of the program."""
        name = _called(node)
        if name not in self._definitions or name in self.others:
            return False
        return not isinstance(node.func, ast.Attribute) or name not in self.known

    def _parameters(self, nodes: list[ast.AST], call: ast.Call) -> set[str]:
        found: set[str] = set()
        for part in self._definitions[_called(call)]:
            arguments = part.args if not isinstance(part, ast.ClassDef) else None
            if isinstance(part, ast.ClassDef):
                found |= {
                    argument.arg
                    for method in part.body
                    if isinstance(method, ast.FunctionDef) and method.name == "__init__"
                    for argument in (*method.args.args, *method.args.kwonlyargs)
                }
            elif arguments is not None:
                found |= {argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)}
        return found

    @property
    def _definitions(self) -> dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
        if not hasattr(self, "_defined"):
            self._defined: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]] = {}
            for tree in self.trees.values():
                for node in ast.walk(tree):
                    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                        self._defined.setdefault(node.name, []).append(node)
        return self._defined


def _called(node: ast.Call) -> str:
    function = node.func
    return (
        function.id
        if isinstance(function, ast.Name)
        else function.attr
        if isinstance(function, ast.Attribute)
        else ""
    )


def _is_of_torch(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text.startswith(("torch.", "nn.", "F.", "functional."))


def _numbered(prefix: str, names: set[str]) -> dict[str, str]:
    """Other names, of which none says anything. Their order is another one, too."""
    wanted = sorted(
        name for name in names if not name.startswith("__") and not keyword.iskeyword(name) and name != "_"
    )
    return {name: f"{prefix}{len(wanted) - index}" for index, name in enumerate(wanted)}


class _Renamer(ast.NodeTransformer):
    def __init__(self, names: _Survey) -> None:
        self.names = names
        self.in_class: list[frozenset[str]] = [frozenset()]

    def _plain(self, name: str) -> str:
        return self.names.plain.get(name, name)

    def _attribute(self, name: str) -> str:
        return self.names.attributes.get(name, name)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._attribute(node.id) if node.id in self.in_class[-1] else self._plain(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        self.generic_visit(node)
        node.arg = self._plain(node.arg)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        of_module = isinstance(node.value, ast.Name) and node.value.id in self.names.modules
        self.generic_visit(node)
        node.attr = self._plain(node.attr) if of_module else self._attribute(node.attr)
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        own = self.names.is_own_call(node)
        self.generic_visit(node)
        for part in node.keywords:
            if own and part.arg is not None:
                part.arg = self._plain(part.arg)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        method = self._is_method(node)
        node.name = self._attribute(node.name) if method else self._plain(node.name)
        node.decorator_list = [self.visit(part) for part in node.decorator_list]
        self._arguments(node.args)
        if node.returns is not None:
            node.returns = self.visit(node.returns)
        self.in_class.append(frozenset())
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.arg = self._plain(argument.arg)
        node.body = [self.visit(part) for part in node.body]
        self.in_class.pop()
        return node

    def _arguments(self, node: ast.arguments) -> None:
        node.defaults = [self.visit(part) for part in node.defaults]
        node.kw_defaults = [part if part is None else self.visit(part) for part in node.kw_defaults]
        for argument in ast.walk(node):
            if isinstance(argument, ast.arg) and argument.annotation is not None:
                argument.annotation = self.visit(argument.annotation)

    def _is_method(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        return node.name in self.in_class[-1]

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._arguments(node.args)
        self.in_class.append(frozenset())
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.arg = self._plain(argument.arg)
        node.body = self.visit(node.body)
        self.in_class.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._plain(node.name)
        node.decorator_list = [self.visit(part) for part in node.decorator_list]
        node.bases = [self.visit(part) for part in node.bases]
        node.keywords = [self.visit(part) for part in node.keywords]
        bound = {part.name for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))}
        for part in node.body:
            targets = (
                part.targets
                if isinstance(part, ast.Assign)
                else [part.target]
                if isinstance(part, ast.AnnAssign)
                else []
            )
            bound |= {target.id for target in targets if isinstance(target, ast.Name)}
        self.in_class.append(frozenset(bound))
        node.body = [self.visit(part) for part in node.body]
        self.in_class.pop()
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        if node.name is not None:
            node.name = self._plain(node.name)
        self.generic_visit(node)
        return node

    def visit_Global(self, node: ast.Global) -> ast.AST:
        node.names = [self._plain(name) for name in node.names]
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        node.names = [self._plain(name) for name in node.names]
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if self.names.is_own(node):
            for alias in node.names:
                if (alias.asname or alias.name) not in self.names.modules:
                    alias.name = self._plain(alias.name)
                    alias.asname = self._plain(alias.asname) if alias.asname is not None else None
        return node

    def visit_MatchAs(self, node: ast.MatchAs) -> ast.AST:
        if node.name is not None:
            node.name = self._plain(node.name)
        self.generic_visit(node)
        return node
