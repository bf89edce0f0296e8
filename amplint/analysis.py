"""Files through flow and rules: the findings of one group of files."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import libcst as cst

from amplint.config import Settings, fixable_codes
from amplint.events import Place
from amplint.findings import Crash, Finding, Fix, Level, Span
from amplint.fixes.base import Files, Mend, Refusal, offered
from amplint.flow import reaching
from amplint.flow.attributes import dotted_name
from amplint.flow.discarded import tell_of_discarded
from amplint.flow.engine import Engine, entry_points
from amplint.flow.functions import tell_of_definitions
from amplint.flow.optimizers import tell_of_classes
from amplint.flow.paths import Path as Way
from amplint.flow.scopes import Scope
from amplint.flow.statements import Walker
from amplint.reached import CALLED, Reached
from amplint.rules import rule_classes
from amplint.rules.base import Draft, FlowRule, Report, Setting, SyntaxRule
from amplint.rules.catalog import SYNTAX_ERROR
from amplint.rules.jury import Jury, finding_of, remaining
from amplint.source.decoding import SourceFile
from amplint.source.outline import collect_import
from amplint.source.project import Project, ProjectFile, Unparsable
from amplint.source.slices import Slice

_VERSION = re.compile(r"version|(?:has|get)attr\(\s*torch", re.IGNORECASE)
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")
_NAMES_TORCH = re.compile(r"torch(\w*)", re.IGNORECASE)


@dataclass
class Session:
    """What groups of files that are judged in one process have in common: files read, constructors walked."""

    engine: Engine
    report: Report
    flow_rules: list[FlowRule]
    syntax_rules: list[SyntaxRule]


@lru_cache(maxsize=1)
def _session(project_files: tuple[Path, ...], settings: Settings, codes: frozenset[str] | None) -> Session:
    setting = Setting(settings.torch, settings.device, settings.torch_from not in ("", "the default"))
    rules = [
        made for made in (rule(setting) for rule in rule_classes()) if codes is None or made.code in codes
    ]
    flow_rules = [rule for rule in rules if isinstance(rule, FlowRule)]
    report = Report()
    engine = Engine(
        Project(project_files),
        Jury(flow_rules, report),
        device=settings.device,
        torch=settings.torch,
        contexts=settings.autocast_contexts,
        backward_functions=settings.backward_functions,
    )
    return Session(engine, report, flow_rules, [rule for rule in rules if isinstance(rule, SyntaxRule)])


def forget() -> None:
    """Drops what earlier runs in this process have read."""
    _session.cache_clear()


def judge(
    files: Sequence[SourceFile],
    project_files: Sequence[Path],
    settings: Settings,
    codes: frozenset[str] | None = None,
    keep: Callable[[Finding], bool] = lambda finding: True,
    changed: Mapping[str, bytes] = {},
    reached: Mapping[Path, Sequence[Reached]] = {},
) -> tuple[list[Finding], list[Crash]]:
    """The findings in these files that are to be kept, in any order, with their fixes, and the mends that
    failed. ``project_files`` are all files that may be read to follow calls; ``codes`` names the rules to
    run, None for all; ``changed`` holds bytes that count instead of those on the disk; ``reached`` says by
    which calls the files are reached, where only that is to be judged."""
    session = _session(tuple(project_files), settings, codes)
    engine, report = session.engine, session.report
    engine.project.changed = changed
    report.drafts.clear()
    report.withdrawn.clear()
    engine.project.extend([file.path for file in files])
    flow_rules, syntax_rules = session.flow_rules, session.syntax_rules
    findings: list[Finding] = []
    # syntax trees are no cycles: looking for some among their nodes takes a third of the time
    collecting = gc.isenabled()
    gc.disable()
    try:
        if reached:
            _judge_reached(engine, files, reached, report)
        else:
            _judge_files(engine, files, flow_rules, syntax_rules, report, findings)
    finally:
        if collecting:
            # what was made meanwhile stays until the end; the collector need not look at it
            gc.freeze()
            gc.enable()
    drafted, crashes = _mended(
        remaining(report.standing),
        Files(engine.project.text_of, engine.project.is_imported, engine.project.origin),
        keep,
        fixable_codes(settings),
    )
    return [finding for finding in findings if keep(finding)] + drafted, crashes


def out_of_sight(
    project_files: Sequence[Path], settings: Settings, codes: frozenset[str] | None = None
) -> tuple[Reached, ...]:
    """The calls in regions whose callees were not found in the files that were judged last."""
    reached = _session(tuple(project_files), settings, codes).engine.reached
    found = tuple(reached.values())
    reached.clear()
    return found


def _judge_reached(
    engine: Engine, files: Sequence[SourceFile], reached: Mapping[Path, Sequence[Reached]], report: Report
) -> None:
    """Walks what the calls may reach in the files. Only such rules are heard whose findings hold for any caller
    in a region, and they say by which call."""
    for source in files:
        loaded = engine.project.load(source.path)
        if loaded is None:
            continue
        for one in reached.get(source.path, ()):
            before = len(report.drafts)
            reaching.walk(engine, loaded, one)
            drafts = report.drafts[before:]
            del report.drafts[before:]
            report.drafts += [_by_call(draft, one) for draft in drafts if _holds_for_any_caller(draft)]
    engine.reached.clear()


def _holds_for_any_caller(draft: Draft) -> bool:
    return isinstance(draft.rule, FlowRule) and draft.rule.holds_for_any_caller


def _by_call(draft: Draft, one: Reached) -> Draft:
    call = f"`{one.call.text}` on line {one.call.span.line} of {one.call.path}"
    if one.name == CALLED:
        said = f"{call} calls what it is given there, and this may be it."
    else:
        said = f"It is reached by {call}, as far as the name tells."
    level = max(draft.level, Level.WARNING, key=lambda level: level.rank)
    return replace(draft, message=f"{draft.message} {said}", level=level)


def _judge_files(
    engine: Engine,
    files: Sequence[SourceFile],
    flow_rules: Sequence[FlowRule],
    syntax_rules: Sequence[SyntaxRule],
    report: Report,
    findings: list[Finding],
) -> None:
    for source in files:
        try:
            file = engine.project.add(source)
            _judge_file(engine, file, flow_rules, syntax_rules, report)
        except Unparsable as error:
            findings.append(_syntax_error(source, error.message, error.line, error.column))
        except cst.ParserSyntaxError as error:
            findings.append(
                _syntax_error(source, "LibCST cannot parse this file", error.raw_line, error.raw_column + 1)
            )


def _syntax_error(source: SourceFile, message: str, line: int, column: int) -> Finding:
    code, name = SYNTAX_ERROR
    column = max(column, 1)
    return Finding(code, name, Level.ERROR, message, source.display, Span(line, column, line, column))


def _judge_file(
    engine: Engine,
    file: ProjectFile,
    flow_rules: Sequence[FlowRule],
    syntax_rules: Sequence[SyntaxRule],
    report: Report,
) -> None:
    for rule in syntax_rules:
        if rule.wants(file.outline.imports, file.text):
            for piece in _pieces(file, rule):
                view = View(engine, file, piece)
                piece.module.visit(rule.visitor(view, report))
    if not flow_rules:
        return
    tell_of_definitions(engine, file)
    tell_of_discarded(engine, file)
    for outline, assumed in entry_points(engine, file):
        if outline is file.outline.module:
            engine.run_module(file)
        else:
            engine.run_function(file, outline, assumed=assumed)
    tell_of_classes(engine)


def _pieces(file: ProjectFile, rule: SyntaxRule) -> Iterable[Slice]:
    """The slices of a file that can hold what a syntax rule looks for."""
    names = {name for name, target in file.outline.imports.items() if "amp" in target}
    pattern = re.compile(r"\bamp\b" + "".join(rf"|\b{re.escape(name)}\b" for name in sorted(names)))

    def wanted(first: int, last: int) -> bool:
        return pattern.search(file.text_between(first, last)) is not None

    places = [(part.line, part.end_line) for part in file.outline.definitions()]
    places += file.outline.chunks
    for owner in file.outline.classes.values():
        places += owner.chunks
    return [file.slice(first, last) for first, last in sorted(set(places)) if wanted(first, last)]


class View:
    """What a syntax rule sees of a file."""

    def __init__(self, engine: Engine, file: ProjectFile, piece: Slice) -> None:
        self.engine = engine
        self.file = file
        self.piece = piece
        self._imports = dict(file.outline.imports)
        self._imports.update(_local_imports(piece))

    @property
    def text(self) -> str:
        """The whole text of the file."""
        return self.file.text

    def resolve(self, node: cst.CSTNode) -> str | None:
        """The qualified name of what a name stands for; project modules stand for themselves."""
        dotted = dotted_name(node)
        if dotted is None:
            return None
        root, _, rest = dotted.partition(".")
        target = self._imports.get(root)
        if target is None:
            return None
        name = self.engine.project.absolute(self.file, target)
        return f"{name}.{rest}" if rest else name

    def import_place(self, node: cst.CSTNode) -> Place | None:
        """The line that imports the root of an expression, if it imports an AMP name from elsewhere."""
        dotted = dotted_name(node)
        root = dotted.partition(".")[0] if dotted is not None else ""
        if ".amp" not in self._imports.get(root, ""):
            return None
        pattern = re.compile(rf"^\s*(from\s+\S+\s+)?import\b.*\b{re.escape(root)}\b")
        for number, line in enumerate(self.file.lines, 1):
            if pattern.search(line):
                start = len(line) - len(line.lstrip()) + 1
                return _import_at(
                    self.file.display, Span(number, start, number, len(line.rstrip()) + 1), line
                )
        return None

    def place(self, node: cst.CSTNode) -> Place:
        """Where a node stands."""
        piece = self.piece
        return Place(
            self.file.display,
            (self.file.display, id(node)),
            lambda: piece.span(node),
            lambda: piece.code(node),
        )

    def code(self, node: cst.CSTNode) -> str:
        """The text of a node."""
        return self.piece.module.code_for_node(node)

    def guard(self, test: cst.BaseExpression) -> str | None:
        """What a condition says about torch's version."""
        parts = _conjuncts(test)
        concerned = [part for part in parts if _is_about_version(self._spelt_out(part))]
        if not concerned:
            return None
        walker = Walker(self.engine, Scope(self.file, self.piece, None), Way(self.engine.base))
        walker.silent = True
        for part in concerned:
            outcomes = {truth for _, truth in walker.explore(walker.path, partial(walker.test, part))}
            if len(outcomes) != 1:
                return "depends"
            if not outcomes.pop():
                return "never"
        return "always" if len(concerned) == len(parts) else None

    def _spelt_out(self, test: cst.BaseExpression) -> str:
        """A condition with the module-level assignments of its names."""
        text = self.code(test)
        for name in _NAME.findall(text):
            for first, last in self.file.outline.assigned.get(name, [])[:2]:
                text += "".join(self.file.lines[first - 1 : min(last, first + 3)])
            text += "".join(_assignments(self.piece.text, name)[:2])
        return text


def _is_about_version(text: str) -> bool:
    """Whether a condition may be about the version of torch, as ``IS_TORCH_2`` may."""
    if _VERSION.search(text) is not None:
        return True
    rests = _NAMES_TORCH.findall(text)
    return any(character.isdecimal() for rest in rests for character in rest)


@lru_cache(maxsize=1024)
def _assignments(text: str, name: str) -> list[str]:
    """The lines that set a name."""
    return re.findall(rf"^[ \t]*{name}\s*=[^=\n]*$", text, re.MULTILINE)


def _import_at(path: str, span: Span, line: str) -> Place:
    return Place(path, ("import", span.line), lambda: span, line.strip)


def _conjuncts(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return [*_conjuncts(test.left), *_conjuncts(test.right)]
    return [test]


def _local_imports(piece: Slice) -> dict[str, str]:
    """What imports inside a function bind."""
    if "import" not in piece.text:
        return {}
    import ast
    import textwrap

    found: dict[str, str] = {}
    try:
        tree = ast.parse(textwrap.dedent(piece.text))
    except SyntaxError:
        return {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            collect_import(node, found, [])
    return found


def _mended(
    drafts: Iterable[Draft], files: Files, keep: Callable[[Finding], bool], fixable: frozenset[str]
) -> tuple[list[Finding], list[Crash]]:
    """The findings to keep, with the fixes that their mends offer. A mend that fails costs the fix alone."""
    findings: list[Finding] = []
    crashes: list[Crash] = []
    known: dict[Mend, Fix | Refusal] = {}
    for draft in drafts:
        finding = finding_of(draft)
        if not keep(finding):
            continue
        mend = draft.mend
        if mend is not None and finding.code in fixable:
            try:
                if mend not in known:
                    known[mend] = offered(mend, files)
                offer = known[mend]
            except Exception as error:
                offer = Refusal("an error in amplint")
                known[mend] = offer
                crashes.append(Crash.of(finding.path, finding.name, error))
            finding = (
                replace(finding, fix=offer)
                if isinstance(offer, Fix)
                else replace(finding, fix_note=offer.reason)
            )
        findings.append(finding)
    return findings, crashes
