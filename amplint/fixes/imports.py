"""Import statements at the top of a file: found for a name, added, and taken away when nothing uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from amplint.fixes.dependence import dotted
from amplint.fixes.names import imported_from, names_in
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scopes import Binding, Scope, bindings, rebound, scopes_of
from amplint.fixes.statements import Replacement, Statement, comments_of, preceded

_TORCH = "torch"


_CONDITIONS = (cst.Try, cst.TryStar, cst.If, cst.With, cst.For, cst.While, cst.Match)
_LADDERS = (cst.Try, cst.TryStar)
"""In these an import tells the releases of a library apart. In others what stands beside it has it."""


def binding_of(file: ParsedFile, root: cst.Name) -> Binding:
    """The one import that binds a name where it is read. Raises Refusal where there are several, where it is not
    always executed, or where the name is bound by other means as well."""
    name = root.value
    scope = scopes_of(file).found(name, root)
    if scope is None:
        raise Refusal(f"the import of `{name}` is not in this file")
    if name in scope.others:
        raise Refusal(_how_else(file, scope.others[name]))
    found = scope.imports.get(name, [])
    if len({id(binding.statement) for binding in found}) > 1 and not (
        isinstance(found[0].statement, cst.Import) and len({binding.target for binding in found}) == 1
    ):
        raise Refusal(f"`{name}` is imported in several places")
    top = [binding for binding in found if binding.at_top(file)]
    binding = (top or found)[0]
    around = set(file.parents(root))
    for node in file.parents(binding.line):
        if node is scope.node:
            break
        if isinstance(node, _CONDITIONS) and (
            isinstance(node, _LADDERS) or file.parent(binding.line) not in around
        ):
            raise Refusal(f"`{name}` is imported under a condition")
    return binding


def _how_else(file: ParsedFile, places: Sequence[cst.Name]) -> str:
    """Why a name does not stand for its import alone."""
    name = places[0].value
    if any(isinstance(node, cst.Del) for place in places for node in file.parents(place)):
        return f"`{name}` is deleted somewhere"
    return f"`{name}` is bound to something else as well"


def root_of(node: cst.CSTNode) -> cst.Name:
    """The name at the beginning of ``a.b.c``. Raises Refusal where there is none."""
    while isinstance(node, cst.Attribute):
        node = node.value
    if not isinstance(node, cst.Name):
        raise Refusal("the code begins with no name")
    return node


def function_named(file: ParsedFile, name: str) -> cst.FunctionDef | None:
    """The plain function at the top of a file that a name stands for everywhere in it, or None."""
    if any(binding.name == name for binding in bindings(file)) or rebound(file)[name] != 1:
        return None
    return next(
        (
            statement
            for statement in file.module.body
            if isinstance(statement, cst.FunctionDef)
            and statement.name.value == name
            and not statement.decorators
            and statement.asynchronous is None
        ),
        None,
    )


def uses_of(file: ParsedFile, name: str, scope: Scope | None = None) -> list[cst.Name]:
    """The places that look a name up or bind it, in the order of the text, imports excepted; those that read the name
    of one scope, if that is given."""
    found = _looked_up(file).get(name, [])
    if scope is None:
        return found
    known = _READ.get(file)
    if known is None:
        _READ.clear()
        known = _READ[file] = {}
    key = (name, scope.node)
    if key not in known:
        known[key] = [node for node in found if _reads(file, node, scope)]
    return known[key]


def _reads(file: ParsedFile, node: cst.Name, scope: Scope) -> bool:
    scopes = scopes_of(file)
    return node not in scopes.bound and scopes.found(node.value, node) is scope


def _looked_up(file: ParsedFile) -> dict[str, list[cst.Name]]:
    known = _LOOKED_UP.get(file)
    if known is None:
        _LOOKED_UP.clear()
        known = _LOOKED_UP[file] = {}
        for node in file.nodes(cst.Name):
            if _is_looked_up(file, node):
                known.setdefault(node.value, []).append(node)
    return known


_LOOKED_UP: dict[ParsedFile, dict[str, list[cst.Name]]] = {}
_READ: dict[ParsedFile, dict[tuple[str, cst.CSTNode], list[cst.Name]]] = {}


def _is_looked_up(file: ParsedFile, node: cst.Name) -> bool:
    around = file.parent(node)
    if isinstance(around, cst.Attribute) and around.attr is node:
        return False
    if isinstance(around, cst.Arg) and around.keyword is node:
        return False
    while isinstance(around, cst.Attribute | cst.AsName | cst.ImportAlias):
        around = file.parent(around)
    return not isinstance(around, cst.Import | cst.ImportFrom)


def torch_name(file: ParsedFile, place: cst.CSTNode, old: Binding | None = None) -> str | None:
    """The name under which `import torch` binds torch where code at a place runs, or None; ``old`` is an import that
    the code needs in any case. Raises Refusal where another thing has the name."""
    scopes = scopes_of(file)
    latest = max(_top(file, place), _top(file, old.statement) if old is not None else 0)
    for name, found in scopes.module.imports.items():
        torch = [part for part in found if _is_torch(part) and part.at_top(file)]
        if not torch:
            continue
        if name in scopes.module.others:
            raise Refusal(_how_else(file, scopes.module.others[name]))
        if any(part.target != _TORCH for part in found) or scopes.found(name, place) is not scopes.module:
            raise Refusal(f"`{name}` is bound to something else as well")
        if any(_top(file, part.statement) < latest for part in torch):
            return name
    around = scopes.found(_TORCH, place)
    if around is not None and (
        _TORCH in around.others or not all(map(_is_torch, around.imports.get(_TORCH, ())))
    ):
        raise Refusal("`torch` is the name of something else here")
    return None


def torch_at(file: ParsedFile, place: cst.CSTNode, changes: dict[cst.CSTNode, Replacement]) -> str:
    """The name of torch where code at a place runs. Adds what to exchange where it is not imported yet. Raises
    Refusal."""
    name = torch_name(file, place)
    if name is None:
        changes.update(torch_added(file, place))
    return name or _TORCH


def written_name(
    file: ParsedFile, qualified: str, place: cst.CSTNode, old: Binding | None = None
) -> str | None:
    """How a file writes a name such as ``torch.amp.autocast`` where code at a place runs: ``autocast`` where it
    imports that at its top, ``amp.autocast`` where it imports the module, else by way of `import torch`; None where it
    has none of these. ``old`` as in ``torch_name``. Raises Refusal where another thing has the name of torch."""
    known = {
        binding.target: binding
        for found in scopes_of(file).module.imports.values()
        for binding in found
        if binding.at_top(file)
    }
    head, tail = qualified, ""
    while head != _TORCH:
        binding = known.get(head)
        if binding is not None and _is_known(file, binding, place, old):
            return binding.name + tail
        head, _, last = head.rpartition(".")
        tail = f".{last}{tail}"
    torch = torch_name(file, place, old)
    return None if torch is None else torch + tail


def written_at(
    file: ParsedFile, qualified: str, place: cst.CSTNode, changes: dict[cst.CSTNode, Replacement]
) -> str:
    """``written_name``. Adds what to exchange where torch is not imported yet. Raises Refusal."""
    name = written_name(file, qualified, place)
    if name is None:
        changes.update(torch_added(file, place))
    return name or qualified


def _is_known(file: ParsedFile, binding: Binding, place: cst.CSTNode, old: Binding | None) -> bool:
    """Whether the name that an import binds is bound to nothing else, and means it where code at a place runs."""
    scopes = scopes_of(file)
    found = scopes.module.imports[binding.name]
    latest = max(_top(file, place), _top(file, old.statement) if old is not None else 0)
    return (
        binding.name not in scopes.module.others
        and len({part.target for part in found}) == 1
        and scopes.found(binding.name, place) is scopes.module
        and _top(file, binding.statement) < latest
    )


def _is_torch(binding: Binding) -> bool:
    return isinstance(binding.statement, cst.Import) and binding.target == _TORCH


def _top(file: ParsedFile, node: cst.CSTNode) -> int:
    """The number of the statement at the top of the file that holds a node."""
    for outer in (node, *file.parents(node)):
        if file.parent(outer) is file.module:
            return file.module.body.index(outer)
    return len(file.module.body)


def torch_added(file: ParsedFile, place: cst.CSTNode) -> dict[cst.CSTNode, Replacement]:
    """What to exchange for `import torch` to stand above a place: before the first import of something in torch, or
    after the other imports, the docstring and what has to come first. Raises Refusal."""
    line = cst.SimpleStatementLine(body=[cst.Import(names=[cst.ImportAlias(name=cst.Name(_TORCH))])])
    own = None if isinstance(place, cst.Import | cst.ImportFrom) else file.statement(place)
    above = file.module.body[: _top(file, place) + 1]
    torch = next((part for part in above if _imports(part, _TORCH)), None)
    others = [part for part in above if _imports(part, "")]
    if torch is not None and torch is not own and not _comes_first(file, torch):
        assert isinstance(torch, cst.SimpleStatementLine)
        if any(empty.comment is not None for empty in torch.leading_lines):
            return {torch: cst.FlattenSentinel([line, torch])}
        first = preceded(line, torch.leading_lines)
        return {torch: cst.FlattenSentinel([first, torch.with_changes(leading_lines=())])}
    after = torch or (others[-1] if others else None)
    if after is not None and after is own:
        raise Refusal("the code stands on the line of an import")
    if after is None:
        after = next(iter(file.module.body), None)
        if after is None or file.module.get_docstring(clean=False) is None:
            raise Refusal("the file imports nothing at its top")
        line = line.with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    assert isinstance(after, cst.SimpleStatementLine)
    return {after: cst.FlattenSentinel([after, line])}


def _comes_first(file: ParsedFile, line: cst.CSTNode) -> bool:
    """Whether nothing may stand above a line: it has the docstring or an import from ``__future__``."""
    has_docstring = line is file.module.body[0] and file.module.get_docstring(clean=False) is not None
    return has_docstring or _imports(line, "__future__")


def _imports(statement: cst.CSTNode, root: str) -> bool:
    """Whether a statement imports something from a package; any, if the name is empty."""
    return any(
        not root or any(name.partition(".")[0] == root for name in names)
        for _, names in imports_in(statement)
    )


def imports_in(statement: cst.CSTNode) -> Iterator[tuple[cst.Import | cst.ImportFrom, list[str]]]:
    """The imports on a line, each with the modules that it takes something from."""
    if isinstance(statement, cst.SimpleStatementLine):
        for part in statement.body:
            if isinstance(part, cst.Import):
                yield part, [alias.evaluated_name for alias in part.names]
            elif isinstance(part, cst.ImportFrom):
                yield part, [imported_from(part)]


def is_exported(file: ParsedFile, binding: Binding) -> bool:
    """Whether others may use a name of this file, or strings mean it: `__init__.py`, `__all__`, a type in quotes, code
    that looks names up by strings, an import that is marked as meant."""
    if "noqa" in "".join(comments_of(binding.line)):
        return True
    at_top = scopes_of(file).around(binding.statement).around is None
    if at_top and file.path.rpartition("/")[2].startswith("__init__."):
        return True
    strings = _strings_with(file, binding.name)
    if any(">>>" in text.value and isinstance(file.parent(text), cst.Expr) for text in strings):
        return True
    if strings and any(uses_of(file, name) for name in _BY_STRING):
        return True
    return any(_means_a_name(file, text) for text in strings)


_BY_STRING = ("globals", "locals", "vars", "eval", "exec", "get_ipython")
"""Functions by which code may come to a name that only a string tells; magics of notebooks are among them."""


def _means_a_name(file: ParsedFile, text: cst.SimpleString) -> bool:
    """Whether a string stands in `__all__` or in the place of a type."""
    for node in file.parents(text):
        if isinstance(node, cst.Annotation):
            return True
        if isinstance(node, cst.Call) and qualified_name(file, node.func) == "typing.cast":
            return True
        if isinstance(node, cst.SimpleStatementLine):
            return "__all__" in names_in(node)
    return False


def is_named_in_text(file: ParsedFile, name: str) -> bool:
    """Whether a string has a name in it; one that is a statement, such as a docstring, only if it is run as a test."""
    return any(
        not isinstance(file.parent(text), cst.Expr) or ">>>" in text.value
        for text in _strings_with(file, name)
    )


def _strings_with(file: ParsedFile, name: str) -> list[cst.SimpleString]:
    word = re.compile(rf"\b{re.escape(name)}\b")
    return [text for text in file.nodes(cst.SimpleString) if word.search(text.value)]


def removed(file: ParsedFile, binding: Binding) -> Statement | cst.RemovalSentinel | None:
    """What takes the place of the line with an import when it does without one name. None where a comment
    would be lost."""
    line, statement = binding.line, binding.statement
    assert not isinstance(statement.names, cst.ImportStar)
    rest = [alias for alias in statement.names if alias is not binding.alias]
    if rest:
        if comments_of(binding.alias):
            return None
        if statement.names[-1] is binding.alias:
            comma = _last_comma(rest[-1].comma, binding.alias.comma)
            if comma is None:
                return None
            rest[-1] = rest[-1].with_changes(comma=comma)
        changed = statement.with_changes(names=rest)
        return line.with_changes(body=[changed if part is statement else part for part in line.body])
    if len(line.body) > 1:
        others = [part for part in line.body if part is not statement]
        others[-1] = others[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        return line.with_changes(body=others)
    if comments_of(line):
        return None
    return cst.RemoveFromParent()


_Comma = cst.Comma | cst.MaybeSentinel


def _last_comma(between: _Comma, last: _Comma) -> _Comma | None:
    """What follows the name that is the last one now: what followed the one that was, and the comment of its own. None
    where that has no place."""
    if not isinstance(between, cst.Comma) or not comments_of(between):
        return last
    space, end = between.whitespace_after, last.whitespace_after if isinstance(last, cst.Comma) else None
    if not isinstance(space, cst.ParenthesizedWhitespace) or not isinstance(end, cst.ParenthesizedWhitespace):
        return None
    return between.with_changes(
        whitespace_after=space.with_changes(indent=end.indent, last_line=end.last_line)
    )


def qualified_name(file: ParsedFile, node: cst.CSTNode) -> str | None:
    """The dotted name that a name or attribute stands for by the imports of its file, or None."""
    text = dotted(node)
    if text is None:
        return None
    root, _, rest = text.partition(".")
    scope = scopes_of(file).found(root, root_of(node))
    targets = {binding.target for binding in scope.imports.get(root, ())} if scope is not None else set()
    if scope is None or len(targets) != 1 or root in scope.others:
        return None
    return f"{targets.pop()}.{rest}".rstrip(".")
