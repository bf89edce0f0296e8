"""Autograd Functions of the user's code as they are defined and applied."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import torch
from torch.autograd.function import Function, FunctionMeta

from amplint.amp.functions import by_name, hands_on, is_attribute_of, minds_types, multiplies
from amplint.amp.regions import ENTRIES
from amplint.confirm import dtypes
from amplint.confirm.arguments import NAMES
from amplint.confirm.places import Source, origin_of, source_of
from amplint.confirm.watching import Watch
from amplint.events import CustomFunction, FunctionApplied, FunctionDefined, Place


def install(watch: Watch) -> None:
    """Watches Functions."""
    watcher = _Watcher(watch)
    watch.patches.wrap(FunctionMeta, "__init__", watcher.init)
    held = vars(Function)["apply"]  # a class method, in newer releases one of C

    def apply(kind: type, *args: Any, **kwargs: Any) -> Any:
        return held.__get__(None, kind)(*args, **kwargs)

    watch.patches.set(Function, "apply", classmethod(watcher.apply(apply)))


@dataclass(frozen=True)
class Method:
    """A method of a Function as the user wrote it, below its decorators."""

    code: CodeType
    scope: dict[str, Any]
    source: Source
    node: ast.FunctionDef
    decorators: dict[str, dict[str, Any]]
    """By the names of torch's wrappers, what they were given."""

    @property
    def context(self) -> str:
        """The name of the first parameter."""
        return self.code.co_varnames[0] if self.code.co_argcount else ""

    @property
    def body(self) -> Sequence[ast.stmt]:
        """Its statements."""
        return self.node.body


class _Watcher:
    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.known: weakref.WeakKeyDictionary[type, CustomFunction | None] = weakref.WeakKeyDictionary()

    def init(self, original: Any) -> Any:
        def __init__(made: Any, name: str, bases: Any, attributes: Any, **others: Any) -> None:  # noqa: N807
            original(made, name, bases, attributes, **others)
            self.watch.guarded(self._defined, made)

        return __init__

    def apply(self, original: Any) -> Any:
        def apply(kind: Any, *args: Any, **kwargs: Any) -> Any:
            self.watch.guarded(self._applied, kind, args)
            here = self.watch.here
            here.functions += 1
            try:
                return original(kind, *args, **kwargs)
            finally:
                here.functions -= 1

        return apply

    def _defined(self, kind: type) -> None:
        function = self._describe(kind)
        if function is not None and function.backward is not None:
            self.watch.tell(FunctionDefined(function.backward, (), function))

    def _applied(self, kind: type, args: tuple[Any, ...]) -> None:
        function = self._describe(kind)
        site = self.watch.site(3)
        if function is not None and site is not None:
            wide = any(isinstance(value, torch.Tensor) and value.dtype is torch.float32 for value in args)
            self.watch.tell(FunctionApplied(site, self.watch.here.regions, function, wide))

    def _describe(self, kind: type) -> CustomFunction | None:
        if kind not in self.known:
            self.known[kind] = self._look(kind)
        return self.known[kind]

    def _look(self, kind: type) -> CustomFunction | None:
        forward, backward = self._method(kind, "forward"), self._method(kind, "backward")
        if forward is None or backward is None:
            return None
        given, given_back = forward.decorators.get("decorate_fwd"), backward.decorators.get("decorate_bwd")
        return CustomFunction(
            kind.__name__,
            self._place(forward),
            self._place(backward),
            given is not None,
            given_back is not None,
            given["device_type"] if given else None,
            given_back["device_type"] if given_back else None,
            bool(given and given["cast_inputs"] is not None),
            dtypes.named(given["cast_inputs"]) if given else None,
            getattr(kind, "setup_context", None) is not getattr(Function, "setup_context", None),
            hands_on(forward.body, forward.context),
            any(minds_types([*part.node.decorator_list, *part.body]) for part in (forward, backward)),
            multiplies(forward.body) and multiplies(backward.body),
            self._restored(backward),
        )

    def _method(self, kind: type, name: str) -> Method | None:
        function = getattr(kind, name, None)
        decorators: dict[str, dict[str, Any]] = {}
        while isinstance(function, FunctionType) and not self.watch.sites.is_user(function.__code__):
            code = function.__code__
            if origin_of(code.co_filename) == "torch":
                cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
                decorators[code.co_name] = {variable: cell.cell_contents for variable, cell in cells}
            function = getattr(function, "__wrapped__", None)
        if not isinstance(function, FunctionType):
            return None
        code = function.__code__
        source = source_of(code.co_filename)
        node = source.definition(code) if source is not None else None
        if source is None or node is None:
            return None
        return Method(code, function.__globals__, source, node, decorators)

    def _place(self, method: Method) -> Place:
        """That of the name after ``def``."""
        source, node = method.source, method.node
        path = self.watch.sites.display(method.code.co_filename)
        return Place(path, (id(method.code), "def"), lambda: source.name_of(node), lambda: node.name)

    def _restored(self, backward: Method) -> Place | None:
        """See CustomFunction.restored."""
        for statement in backward.body:
            for node in ast.walk(statement):
                if not isinstance(node, ast.Call):
                    continue
                name = NAMES.get(_resolved(node.func, backward.scope))
                if name is None or name not in ENTRIES:
                    continue
                named = by_name(ENTRIES[name].parameters, node)
                flag = named.get("enabled")
                if (
                    flag is None
                    or not is_attribute_of(backward.context, flag)
                    or named.keys() & {"dtype", "**"}
                ):
                    continue
                return self._at(backward, node)
        return None

    def _at(self, method: Method, node: ast.expr) -> Place:
        path = self.watch.sites.display(method.code.co_filename)
        key = (id(method.code), node.lineno, node.col_offset)
        return Place(path, key, lambda: method.source.span_of(node), lambda: method.source.text_of(node))


def _resolved(node: ast.expr, scope: dict[str, Any]) -> Any:
    """What a dotted name stands for, or None."""
    match node:
        case ast.Name(id=name):
            return scope.get(name)
        case ast.Attribute(value=owner, attr=name):
            return getattr(_resolved(owner, scope), name, None)
    return None
