"""The state of a gradient scaler put beside that of its optimizer, where checkpoints are written and read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from amplint.amp.scalers import SCALERS
from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.arguments import keyword, set_argument
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.dependence import dotted
from amplint.fixes.imports import qualified_name
from amplint.fixes.made import function_around, is_known, name_given, parameters_of
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scaling import call_at, receiver_of
from amplint.fixes.scopes import rebound
from amplint.fixes.statements import Replacement, comments_of, exchanged, spliced

_OPTIMIZER, _SCALER = "optimizer", "scaler"
"""The word in the key of the optimizer's state, and what stands for it in that of the scaler's."""
_NOTE = (
    "a resumed run goes on with the scale of its checkpoint then, and whatever else reads the checkpoint finds "
    "a key more in it"
)


@dataclass(frozen=True)
class SaveScaler(FixBuilder):
    """Puts the state of the scaler made at ``made`` beside that of the optimizer, which a checkpoint takes at
    ``taken``, and loads it where that of the optimizer is loaded, if the checkpoint has one. ``step`` is where the
    scaler steps the optimizer."""

    taken: Place | None
    made: Place
    step: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: a resumed run goes another way."""
        if self.taken is None or self.taken.path != self.made.path:
            return Refusal("the checkpoint is not put together in the file in which the scaler is made")
        file = files.parsed(self.taken.path)
        taken, made = call_at(file, self.taken), call_at(file, self.made)
        if qualified_name(file, made.func) not in SCALERS:
            return Refusal("the scaler is made by other code, whose state may be another")
        name = name_given(file, made)
        scaler = self._name_at(file, name, made, taken)
        part = _part(file, taken)
        loads = list(_loads(file, part.key))
        own = [(call, key) for call, key in _scaler_loads(file) if self._is_it(file, name, made, call)]
        keys = {key for _, key in own}
        if len(keys) > 1:
            return Refusal(f"`{scaler}` is loaded from several keys")
        key = keys.pop() if keys else _key_beside(part.key)
        if key in part.keys:
            return Refusal(f'the checkpoint has something else under "{key}"')
        if not own and not loads:
            return Refusal(
                "the code that loads the checkpoint is not in this file, and has to load it as well"
            )
        changes = part.with_state(file, key, scaler)
        for other in _others(file, taken, part):
            changes |= _part(file, other).with_state(file, key, self._name_at(file, name, made, other))
        if not own:
            for load, checkpoint in loads:
                changes |= self._loaded(file, name, made, load, checkpoint, key)
        title = f"Save the state of `{scaler}`" + ("" if own else " and load it")
        claimed = [(file, file.statement(node)) for node in changes]
        return make_fix(title, {file: exchanged(file, changes)}, claimed, unsafe=_NOTE)

    def _name_at(self, file: ParsedFile, name: str, made: cst.Call, taken: cst.Call) -> str:
        """What the scaler is called where the checkpoint is put together. Raises Refusal."""
        if self.step.path == file.path:
            step, function = call_at(file, self.step), function_around(file, taken)
            if isinstance(function, cst.FunctionDef) and function_around(file, step) is function:
                receiver = receiver_of(step)
                given = {part.name.value for part in parameters_of(function) if part.default is None}
                if receiver in given:
                    return receiver
        if is_known(file, name, made, taken):
            return name
        raise Refusal("the scaler is not known where the checkpoint is put together")

    def _is_it(self, file: ParsedFile, name: str, made: cst.Call, load: cst.Call) -> bool:
        return receiver_of(load) == name and is_known(file, name, made, load)

    def _loaded(
        self, file: ParsedFile, name: str, made: cst.Call, load: cst.Call, checkpoint: str, key: str
    ) -> dict[cst.CSTNode, Replacement]:
        """What to exchange for the scaler to be loaded after the optimizer. Raises Refusal."""
        statement, line = file.statement(load), file.line_name(load)
        if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(file.parent(load), cst.Expr):
            raise Refusal(f"the optimizer is loaded in a larger statement on {line}")
        if not is_known(file, name, made, load):
            raise Refusal(f"the scaler is not known where the optimizer is loaded, on {line}")
        # a scaler that is off saves an empty state, which one that is on refuses
        code = f'if {checkpoint}.get("{key}"):\n    {name}.load_state_dict({checkpoint}["{key}"])\n'
        new = cst.parse_statement(code, config=file.module.config_for_parsing)
        assert isinstance(new, cst.If)
        return spliced(file, statement, [statement, new])


@dataclass(frozen=True)
class _Part:
    """Where the state of an optimizer stands in a checkpoint: an element of a dict, an argument of ``dict(…)``, or a
    value that is stored under a key. ``keys`` are the other keys in sight."""

    node: cst.CSTNode
    holder: cst.Dict | cst.Call | cst.SimpleStatementLine
    key: str
    keys: frozenset[str]

    def with_state(self, file: ParsedFile, key: str, scaler: str) -> dict[cst.CSTNode, Replacement]:
        """What to exchange for the holder to have the state of a scaler as well."""
        value = cst.parse_expression(f"{scaler}.state_dict()")
        match self.holder:
            case cst.Dict():
                quote = _quote_of(self.node)
                new = cst.DictElement(cst.SimpleString(f"{quote}{key}{quote}"), value)
                at = list(self.holder.elements).index(self.node)  # type: ignore[arg-type]
                return {self.holder: _with_element(self.holder, at, new)}
            case cst.Call():
                return {self.holder: set_argument(self.holder, len(self.holder.args), keyword(key, value))}
            case cst.SimpleStatementLine():
                target = self.node
                assert isinstance(target, cst.Subscript)
                quote = _quote_of(target)
                code = f"{file.code(target.value)}[{quote}{key}{quote}] = {file.code(value)}"
                line = cst.parse_statement(code)
                assert isinstance(line, cst.SimpleStatementLine)
                return spliced(file, self.holder, [self.holder, line])


def _key_beside(key: str) -> str:
    """The key for a scaler's state: "scaler_state_dict" beside "optimizer_state_dict"."""
    return key.replace(_OPTIMIZER, _SCALER, 1) if _OPTIMIZER in key and key.isidentifier() else _SCALER


def _part(file: ParsedFile, taken: cst.Call) -> _Part:
    """The part of a checkpoint that a state becomes. Raises Refusal."""
    node = file.parent(taken)
    if isinstance(node, cst.DictElement):
        around = file.parent(node)
        key = _text(node.key)
        if isinstance(around, cst.Dict) and key is not None:
            keys = {_text(part.key) for part in around.elements if isinstance(part, cst.DictElement)}
            return _Part(node, around, key, frozenset(one for one in keys if one))
    if isinstance(node, cst.Arg) and node.keyword is not None:
        around = file.parent(node)
        if isinstance(around, cst.Call) and _is_dict(file, around.func):
            names = {arg.keyword.value for arg in around.args if arg.keyword is not None}
            return _Part(node, around, node.keyword.value, frozenset(names))
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        target, statement = node.targets[0].target, file.statement(taken)
        key = _key_of(target)
        if (
            key is not None
            and isinstance(target, cst.Subscript)
            and dotted(target.value) is not None
            and isinstance(statement, cst.SimpleStatementLine)
        ):
            return _Part(target, statement, key, frozenset())
    raise Refusal(
        "the state of the optimizer is no value of a dict beside which that of the scaler could stand"
    )


def _others(file: ParsedFile, taken: cst.Call, part: _Part) -> Iterator[cst.Call]:
    """The other calls that take the state of the same optimizer for the same key: those of the best checkpoint, and of
    the last."""
    for call in file.nodes(cst.Call):
        if call is taken or dotted(call.func) != dotted(taken.func) or call.args:
            continue
        node = file.parent(call)
        key = _text(node.key) if isinstance(node, cst.DictElement) else None
        if isinstance(node, cst.Arg) and node.keyword is not None:
            key = node.keyword.value
        if key == part.key:
            yield call


def _is_dict(file: ParsedFile, func: cst.BaseExpression) -> bool:
    return isinstance(func, cst.Name) and func.value == "dict" and "dict" not in rebound(file)


def _loads(file: ParsedFile, key: str) -> Iterator[tuple[cst.Call, str]]:
    """The calls that load what a checkpoint has under a key, with the name of the checkpoint. Raises Refusal where it
    has none."""
    for call, source in _loading(file):
        if _key_of(source) == key:
            assert isinstance(source, cst.Subscript)
            checkpoint = dotted(source.value)
            if checkpoint is None:
                raise Refusal(f"the checkpoint that is loaded on {file.line_name(call)} has no name")
            yield call, checkpoint


def _scaler_loads(file: ParsedFile) -> Iterator[tuple[cst.Call, str]]:
    """The calls that load something from a key of a checkpoint, with the key."""
    for call, source in _loading(file):
        key = _key_of(source)
        if key is not None and dotted(call.func) is not None:
            yield call, key


def _loading(file: ParsedFile) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
    for call in file.nodes(cst.Call):
        is_load = isinstance(call.func, cst.Attribute) and call.func.attr.value == "load_state_dict"
        if is_load and call.args and not call.args[0].star:
            yield call, call.args[0].value


def _key_of(node: cst.CSTNode) -> str | None:
    """The key in ``checkpoint["optimizer"]``."""
    match node:
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=value))]):
            return _text(value)
    return None


def _text(node: cst.CSTNode) -> str | None:
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    return value if isinstance(value, str) else None


def _quote_of(node: cst.CSTNode) -> str:
    """The quotation mark around the key of an element."""
    key = node.key if isinstance(node, cst.DictElement) else None
    if isinstance(node, cst.Subscript):
        index = node.slice[0].slice
        key = index.value if isinstance(index, cst.Index) else None
    return key.quote if isinstance(key, cst.SimpleString) and len(key.quote) == 1 else '"'


def _with_element(node: cst.Dict, at: int, new: cst.DictElement) -> cst.Dict:
    """A dict with one element more behind another one, or before it where a comment stands behind that."""
    elements: Sequence[cst.BaseDictElement] = node.elements
    old = elements[at]
    between = elements[0].comma if len(elements) > 1 else None
    spacing = between.whitespace_after if isinstance(between, cst.Comma) else node.lbrace.whitespace_after
    comma = cst.Comma(whitespace_after=_plain(spacing))
    is_last = at == len(elements) - 1
    if is_last and isinstance(old.comma, cst.Comma) and comments_of(node.rbrace):
        added = [*elements[:at], new.with_changes(comma=comma), old]
    elif is_last:
        added = [*elements[:at], old.with_changes(comma=comma), new.with_changes(comma=old.comma)]
    else:
        added = [*elements[: at + 1], new.with_changes(comma=comma), *elements[at + 1 :]]
    return node.with_changes(elements=added)


def _plain(space: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    """The space between two elements, without a comment."""
    if isinstance(space, cst.ParenthesizedWhitespace):
        return cst.ParenthesizedWhitespace(indent=space.indent, last_line=space.last_line)
    return space if not space.empty else cst.SimpleWhitespace(" ")
