"""Golden fixes: beside a fixture ``bad_x.py`` stands ``bad_x.fixed.py``, what `--fix --unsafe-fixes` makes of it
with the rule of its folder alone, and ``bad_x.safe.py``, what `--fix` makes of it where that is something else
and not nothing. Beside a folder ``bad_x`` with several files stands a folder ``bad_x.fixed`` or ``bad_x.safe`` with
those that change.

    python tests/fixes/goldens.py [RULE...]

writes them anew; read the difference before you commit it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from amplint.catalog import UNUSED_SUPPRESSION
from amplint.check import CheckResult, check_views
from amplint.config import Settings
from amplint.findings import Finding
from amplint.fixing import fix
from amplint.scope import View, alone

FIXTURES = Path(__file__).parents[2] / "fixtures"
RULES = (
    "apex-amp",
    "autocast-bad-dtype",
    "autocast-lost-in-threads",
    "autocast-not-entered",
    "autocast-on-generator",
    "autocast-reentered",
    "autocast-wrong-device",
    "backward-in-autocast",
    "bce-in-autocast",
    "bfloat16-to-numpy",
    "buffer-dtype-mismatch",
    "clip-without-unscale",
    "closure-with-scaler",
    "cuda-graph-with-cache",
    "custom-function-without-cast",
    "deprecated-amp-api",
    "direct-optimizer-step",
    "disabled-region-without-cast",
    "epoch-wide-autocast",
    "half-input",
    "half-model",
    "half-overflow-literal",
    "half-underflow-eps",
    "inplace-op-skips-autocast",
    "misplaced-argument",
    "missing-float",
    "missing-grad-scaler",
    "missing-scaler-update",
    "no-grad-then-grad",
    "scaled-loss-reused",
    "scaler-enabled-mismatch",
    "scaler-in-loop",
    "scaler-not-saved",
    "scaler-with-bfloat16",
    "scheduler-on-skipped-step",
    "sharded-needs-sharded-scaler",
    "stale-weight-cache",
    "step-in-autocast",
    "unpaired-custom-fwd-bwd",
    "unprotected-op-in-half",
    "unscale-misplaced",
    "unscaled-backward",
    "unused-suppression",
    "useless-float",
)
KINDS = (".fixed", ".safe")


def programs(rule: str) -> list[Path]:
    """The bad fixtures of a rule that are run."""
    found = (FIXTURES / rule).glob("bad_*")
    return sorted(path for path in found if not path.name.removesuffix(".py").endswith(KINDS))


def sources(program: Path) -> list[Path]:
    """The files of a fixture."""
    return [program] if program.is_file() else sorted(program.glob("*.py"))


def golden(source: Path, kind: str) -> Path:
    """Where the golden of a file is or would be."""
    folder = source.parent
    if folder.parent.parent == FIXTURES:
        return folder.with_name(folder.name + kind) / source.name
    return source.with_name(source.stem + kind + ".py")


def expected(program: Path, kind: str) -> dict[str, str]:
    """The texts of a fixture's files after fixing, as the goldens have them."""
    texts = {}
    for source in sources(program):
        kept = golden(source, kind)
        texts[source.name] = (kept if kept.exists() else source).read_text(encoding="utf-8")
    if kind == ".safe" and not any(golden(source, kind).exists() for source in sources(program)):
        safe = fixed(program, unsafe=False)[0]
        before = {source.name: source.read_text(encoding="utf-8") for source in sources(program)}
        return safe if safe == expected(program, ".fixed") else before
    return texts


def assembled(program: Path, kind: str, folder: Path) -> Path:
    """The goldens as a program of their own in a folder; the path by which it is run."""
    for name, text in expected(program, kind).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / program.name if program.is_file() else folder


Fixed = tuple[dict[str, str], list[Finding], list[str]]
"""The texts after fixing, what is left of the findings of the rule, and what amplint says of itself."""


def fixed(program: Path, *, unsafe: bool) -> Fixed:
    """What fixing makes of a fixture."""
    return _runs(program)[0 if unsafe else 1]


def fixed_again(program: Path) -> Fixed:
    """What fixing makes of the goldens of a fixture."""
    return _runs(program)[2]


@cache
def _runs(program: Path) -> tuple[Fixed, Fixed, Fixed]:
    rule = rule_of(program)
    with tempfile.TemporaryDirectory() as name, patch("amplint.fixing.check_views", _each_text_once()):
        folder = Path(name)
        for source in sources(program):
            shutil.copy(source, folder)
        every, safe = (fix_folder(folder, rule, unsafe=unsafe, write=False) for unsafe in (True, False))
        assembled(program, ".fixed", folder)
        return every, safe, fix_folder(folder, rule, unsafe=True, write=False)


def _each_text_once() -> Callable[..., CheckResult]:
    """Lints each state of the files of a project once."""
    known: dict[object, CheckResult] = {}

    def check(views: Sequence[View], *, changed: Mapping[str, bytes], **others: Any) -> CheckResult:
        paths = [path for view in views for path in view.project]
        state = tuple((path, changed[path] if path in changed else Path(path).read_bytes()) for path in paths)
        if state not in known:
            known[state] = check_views(views, changed=changed, **others)
        return known[state]

    return check


def fix_folder(folder: Path, rule: str, *, unsafe: bool, line_length: int = 0, write: bool = True) -> Fixed:
    """What fixing makes of the files in a folder, which are changed if that is not kept from them."""
    select = ("ALL",) if rule == UNUSED_SUPPRESSION[1] else (rule,)  # it judges comments for rules that ran
    settings = Settings(
        root=folder,
        select=select,
        fixable=(rule,),
        torch=((2, 4), None),
        torch_from="the tests",
        line_length=line_length,
    )
    fixing = fix([alone([str(folder)], settings)], unsafe=unsafe, jobs=1)
    if write:
        fixing.write()
    problems = [crash.reason for crash in fixing.result.crashes] + list(fixing.skipped.values())
    problems += [finding.fix_note for finding in fixing.unmade]
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}
    texts |= {Path(change.path).name: change.after.decode() for change in fixing.changes}
    return texts, [finding for finding in fixing.result.findings if finding.name == rule], problems


def rule_of(program: Path) -> str:
    """The rule whose fixture a program is."""
    return program.relative_to(FIXTURES).parts[0]


def write(program: Path) -> None:
    """Writes the goldens of a fixture anew."""
    all_fixes, safe_fixes = fixed(program, unsafe=True)[0], fixed(program, unsafe=False)[0]
    before = {source.name: source.read_text(encoding="utf-8") for source in sources(program)}
    differs = safe_fixes not in (all_fixes, before)
    for source in sources(program):
        for kind, texts in zip(KINDS, (all_fixes, safe_fixes), strict=True):
            path = golden(source, kind)
            if texts[source.name] != before[source.name] and (kind == ".fixed" or differs):
                path.parent.mkdir(exist_ok=True)
                path.write_text(texts[source.name], encoding="utf-8")
            else:
                path.unlink(missing_ok=True)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or RULES:
        for fixture in programs(wanted):
            write(fixture)
