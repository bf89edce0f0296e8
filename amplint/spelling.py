"""What rules about spelling see of a file: slices of its tree, resolved names, and what conditions say about torch."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from amplint.amp.deprecated import STATE_FUNCTIONS
from amplint.amp.reexports import public
from amplint.events import Place
from amplint.findings import Span
from amplint.flow.driver import Driver
from amplint.flow.state.values import FALSE, TRUE
from amplint.lowering.lower import lower_expression
from amplint.source.bindings import ImportBinding
from amplint.source.bodies import Body
from amplint.source.facts import Facts, FileFacts, facts_of
from amplint.source.outline import ClassOutline, FunctionOutline
from amplint.source.project import ProjectFile
from amplint.source.slices import Slice

_PARTS = frozenset({"amp", "fp16_utils", *STATE_FUNCTIONS})
"""Parts of names that rules about spelling look at."""


def pieces(file: ProjectFile) -> Iterable[Slice]:
    """The slices of a file that import or read a name with a part that is about AMP."""
    facts = facts_of(file.outline)
    imported = {name for name, target in file.outline.imports.items() if _is_amp(target)}
    module = file.outline.module
    found: list[tuple[int, int]] = []
    if module is not None and _reads(facts.of(module), imported):
        found += file.outline.chunks
    found += [lines for lines in file.outline.import_lines if _imports(file, lines)]
    scopes: list[FunctionOutline | ClassOutline] = [*facts.functions, *facts.classes]
    for part in scopes:
        if _reads(facts.of(part), imported):
            whole = _outermost(facts, part)
            lines = whole.chunks if isinstance(whole, ClassOutline) else [(whole.line, whole.end_line)]
            found += (_statement_around(file, one) or one for one in lines)
    return [file.slice(first, last) for first, last in sorted(set(found))]


def _outermost(facts: FileFacts, part: FunctionOutline | ClassOutline) -> FunctionOutline | ClassOutline:
    """The outermost function around a definition, which is looked at as a whole; the definition itself if none is."""
    whole, around = part, facts.around(part)
    while isinstance(around, FunctionOutline | ClassOutline):
        if isinstance(around, FunctionOutline):
            whole = around
        around = facts.around(around)
    return whole


def _statement_around(file: ProjectFile, lines: tuple[int, int]) -> tuple[int, int] | None:
    """The statements of the file among which a definition stands that is none of its own: a handler or branch around it
    may be for releases that lack something."""
    return next((each for each in file.outline.chunks if each[0] <= lines[0] and lines[1] <= each[1]), None)


def _reads(facts: Facts, imported: set[str]) -> bool:
    names = imported | {
        binding.name
        for options in facts.bindings.all.values()
        for binding in options
        if isinstance(binding, ImportBinding) and _is_amp(binding.target)
    }
    read = _names_read(facts)
    return any(name.partition(".")[0] in names or _is_about_amp(name) for name in read) or bool(
        names - imported
    )


def _is_amp(target: str) -> bool:
    """Whether an import is about AMP: a part of its name is, or it is apex as a whole."""
    return _is_about_amp(target) or target == "apex"


def _is_about_amp(name: str) -> bool:
    return not _PARTS.isdisjoint(name.split("."))


def _names_read(facts: Facts) -> list[str]:
    """The dotted names that a definition reads or calls, those of its decorators and defaults included."""
    bodies = [*facts.bodies(), Body([decorator.node for decorator in facts.decorators])]
    if isinstance(facts.scope, FunctionOutline) and facts.scope.arguments is not None:
        bodies.append(Body([facts.scope.arguments]))
    names = [name for body in bodies for name in body.loads]
    names += [call.name for body in bodies for call in body.calls if call.name is not None]
    return names


def _imports(file: ProjectFile, lines: tuple[int, int]) -> bool:
    bindings = facts_of(file.outline).bindings
    return any(
        isinstance(binding, ImportBinding)
        and binding.line >= lines[0]
        and binding.end_line <= lines[1]
        and _is_amp(binding.target)
        for options in bindings.all.values()
        for binding in options
    )


class View:
    """A slice of a file, with what names stand for."""

    def __init__(self, driver: Driver, file: ProjectFile, piece: Slice) -> None:
        self.driver = driver
        self.file = file
        self.piece = piece
        self._imports = dict(file.outline.imports)
        self._imports.update(_local_imports(file, piece))

    @property
    def text(self) -> str:
        """The whole text of the file."""
        return self.file.text

    def resolve(self, node: cst.CSTNode) -> str | None:
        """The qualified name of what a name stands for; modules of the project stand for themselves."""
        dotted = _dotted(node)
        if dotted is None:
            return None
        root, _, rest = dotted.partition(".")
        target = self._imports.get(root)
        if target is None:
            # a name that a statement sets is told of there; star imports bind what no statement names
            bound = facts_of(self.file.outline).bindings.all
            return self.driver.outside(self.file, dotted) if root not in bound else None
        name = self.driver.project.absolute(self.file, target)
        return public(f"{name}.{rest}" if rest else name)

    def import_place(self, node: cst.CSTNode) -> Place | None:
        """The statement that imports the root of an expression, if it imports an AMP name from elsewhere."""
        dotted = _dotted(node)
        root = dotted.partition(".")[0] if dotted is not None else ""
        if not _is_about_amp(self._imports.get(root, "")):
            return None
        for binding in facts_of(self.file.outline).bindings.all.get(root, ()):
            if isinstance(binding, ImportBinding):
                first, last = binding.line, binding.end_line
                lines = self.file.lines
                start = len(lines[first - 1]) - len(lines[first - 1].lstrip()) + 1
                span = Span(first, start, last, len(lines[last - 1].rstrip()) + 1)
                text = " ".join("".join(lines[first - 1 : last]).split())
                return _import_at(self.file.display, span, text)
        return None

    def is_read(self, name: str) -> bool:
        """Whether the file reads or calls a dotted name, or an attribute of it."""
        facts = facts_of(self.file.outline)
        module = self.file.outline.module
        scopes: list[FunctionOutline | ClassOutline] = [*facts.functions, *facts.classes]
        scopes += [module] if module is not None else []
        return any(
            read == name or read.startswith(f"{name}.")
            for part in scopes
            for read in _names_read(facts.of(part))
        )

    def place(self, node: cst.CSTNode) -> Place:
        """Where a node stands."""
        piece = self.piece
        return Place(
            self.file.display,
            (self.file.display, id(node)),
            lambda: piece.span(node),
            lambda: piece.code(node),
            named=self.file.line_name,
        )

    def code(self, node: cst.CSTNode) -> str:
        """The text of a node."""
        return self.piece.module.code_for_node(node)

    def guard(self, test: cst.BaseExpression) -> str | None:
        """What a condition says about torch's release: the parts of a conjunction that ask for it are judged."""
        parts = _conjuncts(test)
        told = [self._told(part) for part in parts]
        concerned = [one for one in told if one is not None]
        if not concerned:
            return None
        if "never" in concerned:
            return "never"
        if "depends" in concerned:
            return "depends"
        return "always" if len(concerned) == len(parts) else None

    def _told(self, part: cst.BaseExpression) -> str | None:
        """What one condition says: "always" or "never" for the releases that the project admits, "depends" on them, or
        None if it is about something else."""
        program = lower_expression(self.file, self.piece, part)
        condition, about_torch = self.driver.truth_of(self.file, program)
        if not about_torch:
            return None
        if condition in (TRUE, FALSE):
            return "always" if condition == TRUE else "never"
        return "depends"


def _dotted(node: cst.CSTNode) -> str | None:
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))


def _import_at(path: str, span: Span, text: str) -> Place:
    return Place(path, ("import", span.line), lambda: span, lambda: text)


def _conjuncts(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return [*_conjuncts(test.left), *_conjuncts(test.right)]
    return [test]


def _local_imports(file: ProjectFile, piece: Slice) -> dict[str, str]:
    """What imports inside the functions of a slice bind."""
    facts = facts_of(file.outline)
    first, last = piece.first, piece.last
    return {
        binding.name: binding.target
        for part in facts.functions
        if first <= part.line <= last
        for options in facts.of(part).bindings.all.values()
        for binding in options
        if isinstance(binding, ImportBinding)
    }
