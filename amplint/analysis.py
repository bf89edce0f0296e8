"""Files through flow and rules: the findings of a project."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import libcst as cst

from amplint.config import Settings, fixable_codes
from amplint.findings import Crash, Finding, Fix, Level, Span
from amplint.fixes.base import Files, FixBuilder, Refusal, offered
from amplint.flow.core.api import Settings as FlowSettings
from amplint.flow.driver import Driver, Walk
from amplint.flow.project.needs import needed
from amplint.flow.project.settings import is_flag
from amplint.flow.state import conditions
from amplint.flow.state.graph import Graph, Run
from amplint.line_length import DEFAULT
from amplint.rules import rule_classes
from amplint.rules.base import Draft, FlowRule, Report, Setting, SyntaxRule
from amplint.rules.catalog import SYNTAX_ERROR
from amplint.rules.dispatcher import Dispatcher, finding_of, remaining
from amplint.source.cells import SUFFIX
from amplint.source.project import Project, ProjectFile, TooLarge, Unparsable
from amplint.source.texts import SourceFile
from amplint.spelling import View, pieces
from amplint.stopping import stop_if_asked


@dataclass
class Judged:
    """What an analysis gives. ``entries`` counts entry points, ``cut`` those that met a budget."""

    findings: list[Finding]
    crashes: list[Crash]
    entries: int = 0
    cut: int = 0


class Analysis:
    """The analysis of some files of a project."""

    def __init__(
        self,
        files: Sequence[SourceFile],
        project: Project,
        settings: Settings,
        codes: frozenset[str] | None = None,
    ) -> None:
        """``project`` holds all files that may be read to follow calls; ``codes`` names the rules to run, None for
        all."""
        self.settings = settings
        setting = Setting(settings.torch, settings.device, settings.torch_from not in ("", "the default"))
        rules = [
            made for made in (rule(setting) for rule in rule_classes()) if codes is None or made.code in codes
        ]
        self.flow_rules = [rule for rule in rules if isinstance(rule, FlowRule)]
        self.syntax_rules = [rule for rule in rules if isinstance(rule, SyntaxRule)]
        self.project = project
        self.project.extend([file.path for file in files])
        self.report = Report()
        self.findings: list[Finding] = []
        self.crashes: list[Crash] = []
        self.entries = self.cut = 0
        self.files = [loaded for source in files if (loaded := self._loaded(source)) is not None]
        self.driver = Driver(
            self.project,
            self.files,
            FlowSettings(settings.torch, settings.device),
            contexts=settings.autocast_contexts,
            backward_functions=settings.backward_functions,
            in_passing=settings.where_errors_only(),
        )
        self._errors_only = settings.where_errors_only()
        self.dispatcher = Dispatcher(self.flow_rules, self.report, self.driver.questions)
        self.driver.is_silent = self._is_silent
        self.driver.flags_to_switch_off = self._flags_to_switch_off

    def _loaded(self, source: SourceFile) -> ProjectFile | None:
        try:
            known = self.project.load(source.path) if self.project.is_loaded(source.path) else None
            return known or self.project.add(source)
        except Unparsable as error:
            if not isinstance(error, TooLarge) or _imports(source.text):
                self.findings.append(_syntax_error(source.display, error))
        return None

    def run(
        self,
        keep: Callable[[Finding], bool] = lambda finding: True,
        told: Callable[[str, int, int], None] = lambda phase, done, total: None,
    ) -> Judged:
        """The findings that are to be kept, in any order, with their fixes. ``told`` hears what this is at, how much of
        it is done and how much there is, 0 where nobody knows."""
        try:
            with _without_collector():
                for number, file in enumerate(self.files):
                    told("reading files", number, len(self.files))
                    self._guarded(file.display, partial(self._spelling, file))
                if self.flow_rules:
                    for walk in self.driver.walks():
                        self._hear(walk)
                        told(f"judging files ({len(self.files)}): entry points", self.entries, 0)
            self.crashes += [Crash.of(path, "", error) for path, error in self.driver.failed]
            told("looking for fixes", 0, 0)
            drafted = self._drafted(keep)
        finally:
            conditions.start_over()  # what is left of them would hold all files in memory
        kept = [finding for finding in self.findings if keep(finding)] + drafted
        return Judged(kept, self.crashes, self.entries, self.cut)

    def _guarded(self, display: str, action: Callable[[], None]) -> None:
        stop_if_asked()
        try:
            action()
        except cst.ParserSyntaxError as error:
            said = Unparsable("LibCST cannot parse this file", error.raw_line, error.raw_column + 1)
            self.findings.append(_syntax_error(display, said))
        except Exception as error:
            self.crashes.append(Crash.of(display, "", error))

    def _spelling(self, file: ProjectFile) -> None:
        for rule in self.syntax_rules:
            if rule.wants(file.outline.imports, file.text):
                for piece in pieces(file):
                    piece.module.visit(rule.visitor(View(self.driver, file, piece), self.report))
                rule.finish(file.display, self.report)

    def _hear(self, walk: Walk) -> None:
        self.entries += 1
        cut = walk.cut
        self.report.whole = walk.whole
        self.report.script = walk.graph.kinds if _is_script(walk) else None
        for listener in self.dispatcher.listeners():
            if walk.off and (listener.rule is None or not listener.rule.hears_switched_off):
                continue
            stop_if_asked()
            before = len(self.report.drafts)
            try:
                for run in listener.runs(walk.graph, self.report.happens):
                    self._over(walk.graph, run, listener.start)
                    cut = cut or run.cut
            except Exception as error:
                del self.report.drafts[before:]
                self.crashes.append(Crash.of(walk.entry.file.display, listener.name, error))
        self.cut += cut

    def _over(self, graph: Graph, run: Run[Hashable], start: Hashable) -> None:
        """Runs a rule. If it says something, once more, to learn from which settings that follows."""
        drafts = self.report.drafts
        before = len(drafts)
        self.report.met.clear()
        run.over(graph, start)
        if len(drafts) == before:
            return
        said = drafts[before:]
        del drafts[before:]
        again = run.keeping(is_flag, graph)
        self.report.met.clear()
        again.over(graph, start)
        if again.cut:
            drafts[before:] = said

    def _is_silent(self, graph: Graph) -> bool:
        """Whether no rule says anything of some events. What they say is not kept."""
        before, withdrawn = len(self.report.drafts), set(self.report.withdrawn)
        left = dict(self.report.left)
        for listener in self.dispatcher.listeners():
            for run in listener.runs(graph):
                run.over(graph, listener.start)
        silent = len(self.report.drafts) == before
        del self.report.drafts[before:]
        self.report.withdrawn = withdrawn
        self.report.left = left
        return silent

    def _flags_to_switch_off(self, graph: Graph) -> frozenset[Hashable]:
        """Without which flags rules want to hear of an entry point once more."""
        return frozenset(flag for rule in self.flow_rules for flag in rule.switched_off(graph))

    def _is_of_a_test(self, draft: Draft) -> bool:
        """Whether a test or the like does what makes it so, such as a cast, and it is no error: nobody trains so."""
        return draft.level is not Level.ERROR and any(
            self._errors_only(place.path) for place, _ in draft.trail
        )

    def _drafted(self, keep: Callable[[Finding], bool]) -> list[Finding]:
        """The findings to keep, with the fixes that their builders offer. One that fails costs the fix alone."""
        files = Files(
            self.project,
            self.driver.interpreter.odd,
            self.driver.questions.call_sites,
            line_length=self.settings.line_length or DEFAULT,
        )
        fixable = fixable_codes(self.settings)
        findings: list[Finding] = []
        known: dict[FixBuilder, Fix | Refusal] = {}
        for draft in remaining([draft for draft in self.report.standing if not self._is_of_a_test(draft)]):
            finding = finding_of(draft, needed(draft.under))
            if not keep(finding):
                continue
            builder = self.report.builder_of(draft)
            if builder is not None and finding.code in fixable:
                offer = self._offer(builder, finding, files, known)
                for other in draft.others if isinstance(offer, Refusal) else ():
                    also = self._offer(other, finding, files, known)
                    if isinstance(also, Fix):
                        offer = also
                        break
                finding = (
                    replace(finding, fix=offer)
                    if isinstance(offer, Fix)
                    else replace(finding, fix_note=offer.reason)
                )
            findings.append(finding)
        return findings

    def _offer(
        self, builder: FixBuilder, finding: Finding, files: Files, known: dict[FixBuilder, Fix | Refusal]
    ) -> Fix | Refusal:
        if builder not in known:
            stop_if_asked()
            try:
                known[builder] = offered(builder, files)
            except Exception as error:
                known[builder] = Refusal("an error in amplint")
                self.crashes.append(Crash.of(finding.path, finding.name, error))
        return known[builder]


@contextmanager
def _without_collector() -> Iterator[None]:
    """Syntax trees are no cycles: looking for some among their nodes takes a third of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _is_script(walk: Walk) -> bool:
    """Whether a script was followed to its end. Whoever runs the cells of a notebook may type more of them."""
    file = walk.entry.file
    return walk.whole and walk.entry.outline is file.outline.module and file.path.suffix != SUFFIX


def _imports(text: str) -> bool:
    """Whether some line begins as an import does. A large table of a package's data has none, and no AMP."""
    return any(line.lstrip().startswith(("import ", "from ")) for line in text.splitlines())


def _syntax_error(display: str, error: Unparsable) -> Finding:
    """What a file is told of that cannot be parsed: a warning where a newer Python may see nothing wrong, or where only
    its size is the reason."""
    code, name = SYNTAX_ERROR
    column = max(error.column, 1)
    level = Level.WARNING if error.newer or isinstance(error, TooLarge) else Level.ERROR
    place = Span(error.line, column, error.line, column)
    return Finding(code, name, level, error.message, display, place, help=error.help)
