"""amplint for other programs, such as a server for an editor: open a project, say what its files hold now, ask for the
findings.

    project = Project("path/to/project")
    project.set_text("train.py", "import torch\\n…")     # as it stands in the editor, saved or not
    for finding in project.check("train.py").findings:
        print(finding.span.line, finding.name, finding.message)

Whatever is asked for, the whole project is read, so that a file gets the findings that a run over everything has for
it. Nothing of the project is run or imported, and nothing is written.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from amplint.cache import Cache
from amplint.catalog import catalog
from amplint.check import CheckResult, check_views
from amplint.config import ConfigError, Settings, load_settings
from amplint.findings import Crash, Edit, Finding, Fix, Level, Span, TrailStep, digest_of
from amplint.fixes.edits import applied
from amplint.rules import all_rules
from amplint.rules.base import Rule
from amplint.scope import views
from amplint.source.cells import is_notebook
from amplint.source.decoding import display_name, split_lines
from amplint.source.discovery import MissingPathError
from amplint.source.writing import Unwritable, encoded
from amplint.stopping import Stopped
from amplint.unreadable import UnreadableFile
from amplint.workspace import AnyPath, Workspace, silencing

__all__ = (
    "AnyPath",
    "Cache",
    "CheckResult",
    "ConfigError",
    "Crash",
    "Edit",
    "Finding",
    "Fix",
    "Level",
    "MissingPathError",
    "Project",
    "Rule",
    "Settings",
    "Span",
    "Stopped",
    "TrailStep",
    "UnreadableFile",
    "Unwritable",
    "Workspace",
    "applied",
    "digest_of",
    "rule_file",
    "rule_of",
    "silencing",
    "split_lines",
)


def rule_of(finding: Finding) -> Rule | UnreadableFile:
    """The rule that a finding comes from: its ``page`` is Markdown."""
    return next((rule for rule in all_rules() if rule.code == finding.code), None) or UnreadableFile()


def rule_file(finding: Finding) -> Path:
    """The file of the rule that a finding comes from, which begins with its page."""
    package = Path(__file__).parent
    modules = {row.code: package / "rules" / f"{row.module}.py" for row in catalog()}
    return modules.get(finding.code, package / "unreadable.py")


class Project:
    """A project and the texts that its files have now: ``Project("src")``. Paths are absolute, or relative to the root
    of the project; findings name files as the command line does, relative to the working directory."""

    def __init__(self, root: AnyPath, settings: Settings | None = None) -> None:
        """``settings`` hold for all files; if None, each file has those of the nearest configuration file. Raises
        ConfigError for those of the root."""
        self.root = Path(root).absolute()
        self._settings = settings
        self._texts: dict[str, bytes] = {}
        self._settings_of(self.root)

    def set_text(self, path: AnyPath, text: str | None) -> None:
        """Says what a file holds, which need not exist: ``project.set_text("a.py", "x = 1")``. None: what is on the
        disk. Of a notebook it is the JSON. Raises Unwritable for a text that its own coding comment cannot express."""
        name = self._absolute(path)
        if text is None:
            self._texts.pop(name, None)
        else:
            data = text.encode("utf-8", "surrogatepass")
            self._texts[name] = data if is_notebook(name) else encoded(text, data)

    def check(self, *paths: AnyPath) -> CheckResult:
        """The findings at and below paths, or in all of the project: ``project.check("train.py")``; those in its
        baseline are not among ``findings``, but in ``known``. Their fixes are in ``finding.fix``: ``applied(text,
        fix.edits)`` gives the text with one. Raises MissingPathError and ConfigError."""
        wanted = [self._absolute(path) for path in paths] or [str(self.root)]
        return check_views(views(wanted, self._settings_of, self._texts), jobs=1, changed=self._texts)

    def display(self, path: AnyPath) -> str:
        """What findings call a file: ``finding.path == project.display("train.py")``."""
        return display_name(self._absolute(path))

    def _absolute(self, path: AnyPath) -> str:
        return os.path.normpath(self.root / path)

    def _settings_of(self, folder: Path) -> Settings:
        settings = self._settings or load_settings(folder)
        return settings if settings.project_root else replace(settings, project_root=self.root)
