"""Whether somebody goes on from a checkpoint: what code loads again of what was saved.

A state is loaded by ``load_state_dict``, and whose it is shows in what else is called on the same object, and in the
key under which it stood: ``net.load_state_dict(saved["model"])`` loads nothing that was saved under ``"optimizer"``.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from amplint.events import StateLoaded, StateSaved
from amplint.flow.core.registry import Kind
from amplint.flow.project.stack import Stacks, scopes_in
from amplint.flow.project.view import View
from amplint.flow.state.values import ClassValue, FunctionValue
from amplint.source.bodies import Body
from amplint.source.facts import facts_of
from amplint.source.outline import FunctionOutline
from amplint.source.project import ProjectFile

_RESUMED = "load_state_dict"
_MODULE, _SCALER = "module", "scaler"
_MODULES = "torch.nn."


class _Load(NamedTuple):
    """A state that is loaded: the kind of the object that gets it, and the key under which it stood, None where the
    code does not show them."""

    kind: str | None
    key: str | None

    def resumes(self, keys: Sequence[str | None]) -> bool:
        """Whether it may be the state of an optimizer that was saved under one of some keys, None for one that is not
        known, or that of a scaler."""
        if self.kind in (_MODULE, _SCALER):
            return self.kind == _SCALER
        return self.key is None or not keys or None in keys or self.key in keys


class Resuming:
    """Answers about the checkpoints of a project."""

    def __init__(self, view: View, stacks: Stacks, kinds: Sequence[Kind]) -> None:
        self._view = view
        self._stacks = stacks
        self._kinds = kinds
        self._loads: dict[FunctionOutline, tuple[_Load, ...]] = {}

    def may_be(self, event: StateSaved, *, foreign: bool) -> bool:
        """Whether the state of an optimizer that is saved may be loaded by code on the way or, where that does not load
        models alone, by other code of the project. Where nobody loads anything, whoever does is out of sight.
        ``foreign``: objects on the way inherit methods that are out of sight, which may load it where the code on the
        way loads nothing."""
        stack = self._stacks.at(event.place)
        parts = {(file, part) for file in self._stacks.files(stack) for part in scopes_in(file)}
        for led_to in self._stacks.reached(self._stacks.definitions(stack)):
            if isinstance(led_to, FunctionValue) and led_to.outline is not None:
                parts.add((led_to.file, led_to.outline))
        loads = {load for file, part in parts for load in self._loads_in(file, part)}
        if loads and all(load.kind == _MODULE for load in loads):
            return False
        if (foreign and not loads) or any(load.resumes(event.optimizer_keys) for load in loads):
            return True
        loads = self._everywhere
        return not loads or any(load.resumes(event.optimizer_keys) for load in loads)

    def is_looked_up(self, event: StateLoaded, key: str) -> bool:
        """Whether the text of a key stands in a file on the way, anywhere but where something is put under it."""
        stack = self._stacks.at(event.place)
        parts = self._stacks.reached(self._stacks.definitions(stack))
        files = {
            *self._stacks.files(stack),
            *(part.file for part in parts if isinstance(part, FunctionValue)),
        }
        return any(_reads(file.outline.tree, key) for file in files)

    @cached_property
    def _everywhere(self) -> set[_Load]:
        """All that is loaded in the project."""
        files = self._view.edges.names.project.files_mentioning(_RESUMED)
        return {load for file in files for part in scopes_in(file) for load in self._loads_in(file, part)}

    def _loads_in(self, file: ProjectFile, part: FunctionOutline) -> tuple[_Load, ...]:
        known = self._loads.get(part)
        if known is None:
            body = facts_of(file.outline).of(part).body
            known = self._loads[part] = tuple(
                _Load(self._kind(file, part, call.name), _key_of(call.node, body))
                for call in body.calls
                if call.method == _RESUMED
            )
        return known

    def _kind(self, file: ProjectFile, function: FunctionOutline, method: str | None) -> str | None:
        """What an object is of which a method is called, judged by its class, where that is the one around, or by all
        that is called on it."""
        base, dot, _ = (method or "").rpartition(".")
        if not dot:
            return None
        owner = function.owner
        if owner is not None and [base] == list(function.parameters[:1]):
            own = ClassValue(file, owner)
            return _MODULE if self._stacks.classes.derives_from(own, _MODULES) else None
        uses = self._view.uses(FunctionValue(file, function), base)
        return next((kind.name for kind in self._kinds if kind.fits(uses)), None)


def _key_of(call: ast.Call, body: Body) -> str | None:
    """The key of what is loaded: ``saved["model"]``, ``saved.get("model")``, or a name for it."""
    value = call.args[0] if call.args else None
    if isinstance(value, ast.Name):
        stores = body.stores.get(value.id, [])
        value = stores[0].value if len(stores) == 1 else None
    match value:
        case ast.Subscript(slice=ast.Constant(value=str() as key)):
            return key
        case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[ast.Constant(value=str() as key), *_]):
            return key
    return None


def _reads(tree: ast.Module, text: str) -> bool:
    """Whether a text stands somewhere that it is not merely a key under which something is put."""
    written: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            written.update(id(key) for key in node.keys)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            written.add(id(node.slice))
    return any(
        isinstance(node, ast.Constant) and node.value == text and id(node) not in written
        for node in ast.walk(tree)
    )
