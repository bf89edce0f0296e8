"""Uses of torch.cuda.amp and torch.cpu.amp written in the names and signatures of torch.amp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile

import libcst as cst

from amplint.amp.deprecated import DEPRECATED, GONE, OLD_MODULES, Replacement
from amplint.events import Place
from amplint.findings import Claim, Fix
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.deprecated_uses import Names, changed_use
from amplint.fixes.imports import (
    binding_of,
    is_exported,
    qualified_name,
    removed,
    root_of,
    torch_added,
    torch_name,
    uses_of,
    written_name,
)
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.quotes import quoted
from amplint.fixes.scopes import Binding, bindings, scopes_of
from amplint.fixes.statements import Replacement as Exchange
from amplint.fixes.statements import Statement, comments_of, exchanged, preceded, replaced
from amplint.source.project import module_of

_Node = cst.Name | cst.Attribute


@dataclass(frozen=True)
class ReplaceDeprecated(FixBuilder):
    """Replaces one use of a deprecated name. Where the file imports the name itself, and not torch, and all its uses
    can be changed, they are, and the name is imported from torch.amp: that is one fix for all of them. Else the use
    gets the long name, and the import goes once nothing else uses it; the arms of a conditional expression are
    replaced together.

    ``changeable`` has all uses of deprecated names in the file that may be changed, this one among them; ``missing``
    the old names whose new ones some torch that the project asks for has not. ``assumed``: nothing says which torch
    that is.
    """

    use: Place
    changeable: tuple[Place, ...] = field(default=(), compare=False)
    missing: frozenset[str] = frozenset()
    assumed: bool = False

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe where the new call does what the old one did."""
        if self.assumed and files.project.needs(GONE):
            return Refusal(
                f"the project imports `{GONE}`: it runs with torch before 2.0, which does not warn"
            )
        file = files.parsed(self.use.path)
        node = _found(file, self.use)
        if node is None:
            return Refusal("the name is not found again")
        moved = self._moved(files, file, node)
        if moved is not None:
            return moved
        new = DEPRECATED.get(qualified_name(file, node) or "")
        if new is None:
            return Refusal("the name stands for something else here")
        change = _Change(files, file)
        for use in _together(file, node, new.new):
            change.use(use)
        fix = change.fix(f'Write `{new.new}` for the device type "{new.device}"')
        return replace(fix, claims=(*fix.claims, *change.claims))

    def _moved(self, files: Files, file: ParsedFile, node: _Node) -> Fix | None:
        """The fix that changes the import with all uses of its names, None if this one has to stay."""
        binding = binding_of(file, root_of(node))
        if binding.target == "torch":
            return None

        def move() -> tuple[frozenset[str], Fix]:
            changeable = [_found(file, place) for place in self.changeable]
            return _moved(files, file, binding.statement, changeable, self.missing)

        try:
            names, fix = files.once(("import", file, binding.statement), move)
        except Refusal:
            return None
        return fix if binding.name in names else None


def _found(file: ParsedFile, place: Place) -> _Node | None:
    return file.find(cst.Name, place.span) or file.find(cst.Attribute, place.span)


def _moved(
    files: Files,
    file: ParsedFile,
    statement: cst.Import | cst.ImportFrom,
    changeable: Sequence[_Node | None],
    missing: frozenset[str],
) -> tuple[frozenset[str], Fix]:
    """The names of an import that may come from torch.amp, and the fix that has them come from there. Raises
    Refusal."""
    change = _Change(files, file)
    going: list[Binding] = []
    for binding in bindings(file):
        if (
            binding.statement is statement
            and binding.target not in missing
            and _new_source(binding) is not None
        ):
            uses = _Change(files, file)
            try:
                uses.uses_of(binding, changeable)
            except Refusal:
                continue
            change.take_in(uses)
            going.append(binding)
    if not going:
        raise Refusal("no name of the import can come from another module")
    if any(outer in change.changes for node in change.changes for outer in file.parents(node)):
        raise Refusal("one use is an argument of the other")
    change.import_from_new(going)
    names = " and ".join(f"`{binding.alias.evaluated_name}`" for binding in going)
    source = _new_source(going[0])
    title = f"Import {names} from `{source}`" if source else f"Import `torch.amp` as `{going[0].name}`"
    return frozenset(binding.name for binding in going), change.fix(title)


def _new_source(binding: Binding) -> str | None:
    """The module from which the new name or module is imported that an imported one stands for: "torch.amp" or
    "torch"; empty for ``import torch.cuda.amp as amp``, None if there is no new one of the same name, or if the name
    that it is given says the device."""
    old = binding.target
    if binding.alias.asname is not None and any(
        device in binding.name.lower() for device in ("cuda", "gpu", "cpu")
    ):
        return None
    if old in OLD_MODULES:
        return "torch" if isinstance(binding.statement, cst.ImportFrom) else ""
    new = DEPRECATED[old].new if old in DEPRECATED else ""
    module, _, name = new.rpartition(".")
    return module if module == "torch.amp" and name == old.rpartition(".")[2] else None


def _together(file: ParsedFile, node: _Node, new: str) -> list[_Node]:
    """The uses of old names for the same new one in the conditional expression around one of them, that one included:
    with one arm in the new spelling, the other one looks as if it was there for older releases."""
    outermost = next((part for part in reversed([*file.parents(node)]) if isinstance(part, cst.IfExp)), None)
    if outermost is None:
        return [node]
    parts: list[_Node] = [
        *file.inside(cst.Name, file.span(outermost)),
        *file.inside(cst.Attribute, file.span(outermost)),
    ]
    found = []
    for part in parts:
        around = file.parent(part)
        old = DEPRECATED.get(qualified_name(file, part) or "")
        if old is not None and old.new == new and isinstance(around, cst.Call) and around.func is part:
            found.append(part)
    return found if node in found else [node]


class _Change:
    """What has to be exchanged in a file for some uses, why somebody has to look at it, and what else is claimed."""

    def __init__(self, files: Files, file: ParsedFile) -> None:
        self.files = files
        self.file = file
        self.doubts: list[str] = []
        self.changes: dict[cst.CSTNode, Exchange] = {}
        self.claims: list[Claim] = []
        self._done: set[cst.Name] = set()

    def fix(self, title: str) -> Fix:
        """What all this makes. Raises Refusal."""
        module = exchanged(self.file, self.changes)
        return make_fix(title, {self.file: module}, unsafe="; ".join(dict.fromkeys(self.doubts)))

    def take_in(self, other: _Change) -> None:
        """Makes the changes of another one besides, with its doubts."""
        self.doubts += other.doubts
        self.changes.update(other.changes)

    def uses_of(self, binding: Binding, changeable: Sequence[_Node | None]) -> None:
        """Takes in all uses of a name that is to be imported from elsewhere and stays as it is written. Raises Refusal
        where one of them is not ``changeable``, or where others may mean the old name by it."""
        file = self.file
        scope = scopes_of(file).found(binding.name, binding.statement)
        shared = scope is scopes_of(file).module and self.files.project.is_used(file.path, binding.name)
        if shared or is_exported(file, binding):
            raise Refusal("others may import the name")
        for root in uses_of(file, binding.name, scope):
            if binding_of(file, root) != binding:
                raise Refusal("the name is imported in several places")
            node = _whole(file, root)
            if any(node is one for one in changeable):
                self._keep_name(node, binding)
            elif not _is_type(file, node):
                raise Refusal("a use of the name has to stay")

    def _keep_name(self, node: _Node, binding: Binding) -> None:
        file, old = self.file, qualified_name(self.file, node)
        if old not in DEPRECATED or file.statement(node) is binding.line:
            raise Refusal("the name stands for something else here, or is used on the line that imports it")
        new = DEPRECATED[old]
        if isinstance(node, cst.Attribute) and file.code(node.value) != binding.name:
            raise Refusal("the new module has no such part")
        try:
            short = written_name(file, new.new, node, binding)
            has_new = short is not None and short.partition(".")[0] != torch_name(file, node, binding)
        except Refusal:  # the name of torch is not needed
            has_new = False
        if has_new:
            raise Refusal("the file imports the new name")
        if self.files.once(("asked", file, old, binding), lambda: _is_asked_for(file, old, binding)):
            self.doubts.append("the file asks for the old class, and the new one is no subclass of it")
        self._doubt_others(node, old, binding, besides=file.path)
        self._change(node, new, lambda name: node if name == new.new else self.written(name, node, binding))

    def import_from_new(self, going: Sequence[Binding]) -> None:
        """Has names of one import come from torch.amp. Raises Refusal."""
        statement, line = going[0].statement, going[0].line
        gone = [binding.alias for binding in going]
        assert not isinstance(statement.names, cst.ImportStar)
        if isinstance(statement, cst.Import):
            new = _name("torch.amp")
            names = [alias.with_changes(name=new) if alias in gone else alias for alias in statement.names]
            self._put(line, [_with(line, statement, statement.with_changes(names=names))])
            return
        source = _new_source(going[0]) or ""
        staying = [alias for alias in statement.names if alias not in gone]
        rest = [_with(line, statement, _flat(statement, staying))] if staying else []
        is_simple = len(line.body) == 1 and not comments_of(line)
        other = _importing(self.file, source, line) if is_simple else None
        if other is not None:
            self._put(other[0], [_with(*other, _flat(other[1], _merged(other[1].names, gone)))])
            if not rest and line not in self.changes:
                self._hand_on_lines(self.file.parent(line), line)
            self._put(line, rest)
        elif not staying:
            here = _with(line, statement, statement.with_changes(module=_name(source)))
            below = _sorted_above(self.file, line, source) if is_simple else None
            if below is None or below in self.changes or line in self.changes:
                self._put(line, [here])
            else:
                moved = here.with_changes(leading_lines=below.leading_lines)
                self._put(below, [moved, below.with_changes(leading_lines=())])
                self._put(line, [])
        elif is_simple:
            above = _with(line, statement, _flat(statement, gone).with_changes(module=_name(source)))
            self._put(line, [above, *(part.with_changes(leading_lines=()) for part in rest)])
        else:
            raise Refusal("the line of the import has more on it")

    def use(self, node: _Node) -> None:
        """Takes in one use. Raises Refusal."""
        file, root = self.file, root_of(node)
        old = qualified_name(file, node)
        binding = binding_of(file, root)
        if old not in DEPRECATED:
            raise Refusal("the name stands for something else here")
        if binding.target != "torch" and file.statement(node) is binding.line:
            raise Refusal("the name is used on the line that imports it")
        is_doubted = old.endswith(".GradScaler") and self._doubt_class(node)
        self._doubt_others(node, old, binding, besides=None if is_doubted else "")
        self._change(node, DEPRECATED[old], lambda name: self.written(name, node, binding))
        self._done.add(root)
        if binding.target != "torch":
            self._leave_import(root, binding)

    def _change(self, node: _Node, new: Replacement, written: Callable[[str], cst.BaseExpression]) -> None:
        names = Names(quoted(self.file, node, new.device), written)
        self.changes.update(changed_use(self.files, self.file, node, names, new, self.doubts))

    def _leave_import(self, root: cst.Name, binding: Binding) -> None:
        """Takes the import along with its last use. The last one of several goes when the others are gone."""
        file = self.file
        scope = scopes_of(file).found(root.value, root)
        uses = uses_of(file, root.value, scope)
        if self._done.issuperset(uses):
            local = scope is not scopes_of(file).module
            if local or not self.files.project.is_used(file.path, root.value):
                self._without_import(binding)
        elif uses[-1] in self._done:
            self.claims += [file.claim(file.statement(use)) for use in uses]
            self.claims.append(file.claim(binding.line))

    def _doubt_others(self, node: _Node, old: str, binding: Binding, besides: str | None) -> None:
        """Doubts that the new name will do where code puts something else in the place of the old one, or asks for its
        class: in a file ``besides`` this one, or anywhere if that is empty. None: that is doubted already."""
        module, _, name = old.rpartition(".")
        project, module = self.files.project, module.partition(".")[2]
        own: frozenset[str] = frozenset()
        if (
            binding.target != "torch"
            and scopes_of(self.file).found(binding.name, node) is scopes_of(self.file).module
        ):
            own = project.uses(module_of(self.file.path), binding.name, self.file.path)
        if "replaces" in own | project.uses(module, name):
            self.doubts.append(f"some file puts something else in the place of `{name}`")
        if (
            name == "GradScaler"
            and besides is not None
            and "asks" in own | project.uses(module, name, besides)
        ):
            self.doubts.append("another file asks for the old class, and the new one is no subclass of it")

    def _doubt_class(self, node: _Node) -> bool:
        """Doubts that an object of the new class will do where the file asks for the old one, which is a subclass."""
        file, root = self.file, root_of(node)
        text = file.code(node)
        for use in uses_of(file, root.value, scopes_of(file).found(root.value, root)):
            whole: cst.CSTNode = use
            around = file.parent(whole)
            while isinstance(around, cst.Attribute):
                whole, around = around, file.parent(around)
            is_made = isinstance(around, cst.Call) and around.func is whole
            if whole is not node and not is_made and file.code(whole) == text:
                line = file.line_name(whole)
                self.doubts.append(f"{line} names the old class, and the new one is no subclass of it")
                return True
        return False

    def written(self, qualified: str, node: _Node, binding: Binding) -> cst.BaseExpression:
        """How the file writes a name of torch at one use; torch is imported if need be. Raises Refusal."""
        file, changes = self.file, self.changes
        name = written_name(file, qualified, node, None if binding.target == "torch" else binding)
        if name is not None:
            return cst.parse_expression(name)
        if binding.at_top(file):
            below = file.span(binding.statement).line > file.span(node).line
            added = torch_added(file, binding.statement if below else node)
        else:
            added = _added_beside(file, binding)
        if not added.keys() & changes.keys():
            changes.update(added)
        return cst.parse_expression(qualified)

    def _without_import(self, binding: Binding) -> None:
        """Takes the import away that nothing uses any more."""
        file, changes, line = self.file, self.changes, binding.line
        if is_exported(file, binding):
            return
        rest = removed(file, binding)
        if rest is None:
            return
        gone = isinstance(rest, cst.RemovalSentinel)
        if gone and line not in changes:
            around = file.parent(line)
            if not isinstance(around, cst.Module | cst.IndentedBlock) or len(around.body) == 1:
                return
            self._hand_on_lines(around, line)
        self._put(line, [] if isinstance(rest, cst.RemovalSentinel) else [rest])

    def _put(self, line: cst.SimpleStatementLine, parts: Sequence[Statement]) -> None:
        """Puts statements in the place of a line, above which another one may have been added."""
        added = self.changes.get(line)
        if added is not None:
            assert isinstance(added, cst.FlattenSentinel)
            self.changes[line] = cst.FlattenSentinel(_with_parts(line, list(added), parts))
        elif len(parts) == 1:
            self.changes[line] = parts[0]
        else:
            self.changes[line] = cst.FlattenSentinel(parts) if parts else cst.RemoveFromParent()

    def _hand_on_lines(self, around: cst.CSTNode | None, line: cst.SimpleStatementLine) -> None:
        """Gives the blank lines above a line that goes to the import below it, if that has none; a file or
        block does not begin with those that were below its first line."""
        file, changes = self.file, self.changes
        assert isinstance(around, cst.Module | cst.IndentedBlock)
        at = list(around.body).index(line)
        following = around.body[at + 1] if at + 1 < len(around.body) else None
        if not isinstance(following, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            return
        lines: Sequence[cst.EmptyLine] = following.leading_lines
        if at == 0 and not (around is file.module and file.module.header):
            lines = list(dropwhile(lambda empty: empty.comment is None, lines))
        elif isinstance(following, cst.SimpleStatementLine) and not lines:
            lines = line.leading_lines
        if following in changes or len(lines) == len(following.leading_lines):
            return
        inside = {node: new for node, new in changes.items() if following in file.parents(node)}
        for node in inside:
            del changes[node]
        changes[following] = replaced(following, inside).with_changes(leading_lines=lines)


def _with_parts(
    line: cst.SimpleStatementLine, around: list[Statement], parts: Sequence[Statement]
) -> list[Statement]:
    """Lines one of which is an import that gives way to others, if there are any."""
    at = next(number for number, part in enumerate(around) if part.body is line.body)
    old = around.pop(at)
    if parts:
        around[at:at] = [parts[0].with_changes(leading_lines=old.leading_lines), *parts[1:]]
    elif not around[0].leading_lines:
        around[0] = around[0].with_changes(leading_lines=line.leading_lines)
    return around


def _name(dotted: str) -> cst.Name | cst.Attribute:
    made = cst.parse_expression(dotted)
    assert isinstance(made, cst.Name | cst.Attribute)
    return made


def _with(
    line: cst.SimpleStatementLine, old: cst.BaseSmallStatement, new: cst.BaseSmallStatement
) -> cst.SimpleStatementLine:
    return line.with_changes(body=[new if part is old else part for part in line.body])


def _importing(
    file: ParsedFile, source: str, line: cst.SimpleStatementLine
) -> tuple[cst.SimpleStatementLine, cst.ImportFrom] | None:
    """The line above another one, in the same block, that imports names from a module, and nothing else."""
    around = file.parent(line)
    for above in getattr(around, "body", ()):
        if above is line:
            break
        if (
            isinstance(above, cst.SimpleStatementLine)
            and len(above.body) == 1
            and not comments_of(above.body[0])
        ):
            match above.body[0]:
                case cst.ImportFrom(module=cst.CSTNode() as module, names=[*_], lpar=None) as found:
                    if not found.relative and file.code(module) == source:
                        return above, found
    return None


def _sorted_above(
    file: ParsedFile, line: cst.SimpleStatementLine, source: str
) -> cst.SimpleStatementLine | None:
    """The import below which another one no longer stands in order, once it imports from ``source``: the imports
    right above it are sorted by their modules. None if they are not, or if it may stay where it is."""
    around = getattr(file.parent(line), "body", ())
    above: list[tuple[str, cst.SimpleStatementLine]] = []
    for part in reversed(around[: list(around).index(line) + 1]):
        match part:
            case cst.SimpleStatementLine(body=[cst.ImportFrom(module=cst.CSTNode() as module, relative=[])]):
                above.insert(0, (file.code(module).lower(), part))
            case _:
                break
        if part.leading_lines:
            break
    modules = [module for module, _ in above]
    if modules != sorted(modules) or any(comments_of(part) for _, part in above):
        return None
    return next((part for module, part in above[:-1] if module > source), None)


def _merged(
    names: Sequence[cst.ImportAlias] | cst.ImportStar, others: Sequence[cst.ImportAlias]
) -> list[cst.ImportAlias]:
    """The names of an import with others: in their order where they have one, else at the end."""
    assert not isinstance(names, cst.ImportStar)
    merged = [*names, *others]
    keys: list[Callable[[cst.ImportAlias], str]] = [
        lambda alias: alias.evaluated_name,
        lambda alias: alias.evaluated_name.lower(),
    ]
    for key in keys:
        if [*names] == sorted(names, key=key):
            return sorted(merged, key=key)
    return merged


def _flat(statement: cst.ImportFrom, names: Sequence[cst.ImportAlias]) -> cst.ImportFrom:
    """An import of some of the names, on one line."""
    alone = [name.with_changes(comma=cst.MaybeSentinel.DEFAULT) for name in names]
    return statement.with_changes(names=alone, lpar=None, rpar=None)


def _whole(file: ParsedFile, root: cst.Name) -> _Node:
    """The deprecated name that begins with a name, or all that is written of it."""
    whole: _Node = root
    around = file.parent(whole)
    while isinstance(around, cst.Attribute) and qualified_name(file, whole) not in DEPRECATED:
        whole, around = around, file.parent(around)
    return whole


def _is_type(file: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether a class is named as a type: in an annotation, or as what ``isinstance`` asks for."""
    inner = node
    for around in file.parents(node):
        if isinstance(around, cst.Annotation):
            return True
        if isinstance(around, cst.Call):
            asks = isinstance(around.func, cst.Name) and around.func.value in ("isinstance", "issubclass")
            return asks and len(around.args) == 2 and inner is around.args[1]
        if isinstance(around, cst.BaseStatement):
            return False
        inner = around
    return False


def _is_asked_for(file: ParsedFile, old: str, binding: Binding) -> bool:
    """Whether the file names a class otherwise than by one import of it, and not to make an object."""
    nodes: list[_Node] = [*file.nodes(cst.Name), *file.nodes(cst.Attribute)]
    return old.endswith(".GradScaler") and any(
        qualified_name(file, node) == old and root_of(node).value != binding.name and _is_type(file, node)
        for node in nodes
        if file.code(node).endswith("GradScaler")
    )


def _added_beside(file: ParsedFile, binding: Binding) -> dict[cst.CSTNode, Exchange]:
    """What to exchange for `import torch` to stand above an import inside a function. Raises Refusal."""
    scope = scopes_of(file).around(binding.statement)
    if any(scopes_of(file).around(use) is scope for use in uses_of(file, "torch")):
        raise Refusal("`torch` is used in the same function, and not imported at the top of the file")
    line = cst.SimpleStatementLine(body=[cst.Import(names=[cst.ImportAlias(name=cst.Name("torch"))])])
    first = preceded(line, binding.line.leading_lines)
    return {binding.line: cst.FlattenSentinel([first, binding.line.with_changes(leading_lines=())])}
