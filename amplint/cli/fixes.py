"""What the command line does with fixes: write them, show them as a diff, or silence findings instead."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amplint.cli.failure import Failure
from amplint.cli.output import style_for, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amplint.cache import Cache
    from amplint.check import CheckResult, Stdin
    from amplint.cli.progress import ProgressBar
    from amplint.findings import Finding
    from amplint.fixing import Fixing
    from amplint.scope import View

_TEXT_FORMATS = ("full", "concise")
"""Formats whose summary has room for what was fixed."""


def is_wanted(options: dict[str, Any]) -> bool:
    """Whether anything is to be fixed, shown as a diff or silenced."""
    return bool(options["fix"] or options["fix_only"] or options["diff"] or options["add_ignore"] is not None)


def refuse_contradictions(options: dict[str, Any]) -> None:
    """Raises Failure for options that make no sense together."""
    fixing = options["fix"] or options["fix_only"] or options["diff"]
    ignoring = options["add_ignore"] is not None
    if ignoring:
        for name in ("fix", "fix_only", "unsafe_fixes", "exit_non_zero_on_fix", "statistics"):
            if options[name]:
                raise Failure(f"--add-ignore silences findings; it cannot be combined with {_option(name)}")
        _refuse_bad_reason(options["add_ignore"])
    elif options["exit_non_zero_on_fix"] and not fixing:
        raise Failure("--exit-non-zero-on-fix needs --fix, --fix-only or --diff")
    if options["statistics"] and (options["diff"] or options["fix_only"]):
        name = "diff" if options["diff"] else "fix_only"
        raise Failure(f"--statistics and {_option(name)} exclude each other: nothing is counted then")
    for name in ("files", "settings"):
        if options[f"show_{name}"] and (fixing or ignoring):
            raise Failure(f"--show-{name} shows {name}; it cannot be combined with options that change files")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _refuse_bad_reason(reason: str) -> None:
    from amplint.source.suppressions import NONE, read_suppressions

    if not reason.isprintable():
        raise Failure("the reason given with --add-ignore has to be a single line of printable characters")
    if read_suppressions(f"pass  # {reason}\n") != NONE or "[" in reason[:1]:
        raise Failure("the reason given with --add-ignore would be read as a suppression of its own")


def run(
    views: Sequence[View],
    options: dict[str, Any],
    stdin: Stdin | None,
    progress: ProgressBar,
    cache: Cache | None,
    report: Callable[[CheckResult, str], None],
) -> tuple[CheckResult, int]:
    """Does what is wanted, reports what is left with ``report``, which takes a first line for people, and
    gives the exit code, crashes aside."""
    from amplint.fixing import fix, ignore
    from amplint.report.text import baselined

    ignoring = options["add_ignore"] is not None
    try:
        if ignoring:
            fixing = ignore(
                views,
                options["add_ignore"],
                jobs=options["jobs"],
                stdin=stdin,
                progress=progress,
                cache=cache,
            )
        else:
            fixing = fix(
                views,
                unsafe=options["unsafe_fixes"],
                jobs=options["jobs"],
                stdin=stdin,
                progress=progress,
                cache=cache,
            )
    finally:
        progress.clear()
    if options["diff"]:
        return fixing.result, _show_diff(fixing, options, ignoring)
    if stdin is not None:
        _write_source(fixing)
    else:
        fixing.write()
    done = summary_of(fixing.written, "Silenced" if ignoring else "Fixed")
    result = fixing.result
    if options["fix_only"]:
        _tell_what_is_left(fixing)
        for line in [*([done] if done else []), *baselined(result)] if not options["quiet"] else []:
            click.echo(line, err=True)
        is_left = bool(fixing.skipped or fixing.unmade)
    else:
        report(result, done)
        is_left = bool(result.findings or fixing.skipped)
    if options["exit_non_zero_on_fix"] and fixing.written:
        return result, 1
    return result, 1 if is_left and not options["exit_zero"] else 0


def _show_diff(fixing: Fixing, options: dict[str, Any], ignoring: bool) -> int:
    from amplint.report.patch import unified_diff
    from amplint.report.text import baselined

    style = style_for(options["output_file"])
    write(
        "".join(
            unified_diff(name, before, after, style)
            for change in fixing.changes
            if change.name not in fixing.skipped
            for name, before, after in change.parts
        ),
        options["output_file"],
    )
    _tell_what_is_left(fixing)
    done = summary_of(fixing.written, "Would silence" if ignoring else "Would fix")
    if not options["quiet"]:
        click.echo(done or f"Nothing to {'silence' if ignoring else 'fix'}.", err=True)
        for line in baselined(fixing.result):
            click.echo(line, err=True)
    is_left = bool(fixing.changes or fixing.skipped or fixing.unmade)
    return 1 if is_left and not options["exit_zero"] else 0


def _write_source(fixing: Fixing) -> None:
    """The source from standard input, fixed, in its own encoding."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(fixing.source or b"")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        write("")


def _tell_what_is_left(fixing: Fixing) -> None:
    """What could be fixed and is not, where no report says so."""
    from amplint.report.text import escaped, place_of

    tell_left_alone(fixing.result)
    for finding in fixing.unmade:
        click.echo(f"amplint: {place_of(finding)}: {escaped(finding.fix_note)}", err=True)


def tell_left_alone(result: CheckResult) -> None:
    """The files that are left as they are, where the report has no room for them."""
    from amplint.report.text import left_alone

    for line in left_alone(result):
        click.echo(f"amplint: {line}", err=True)


def summary_of(findings: tuple[Finding, ...], act: str) -> str:
    """ "Fixed 3 findings in 2 files: 2 half-model, 1 missing-float." Empty if there are none."""
    from collections import Counter

    from amplint.report.text import counted

    if not findings:
        return ""
    rules = Counter(finding.name for finding in findings)
    files = len({finding.path for finding in findings})
    listed = ", ".join(f"{number} {name}" for name, number in rules.most_common())
    return f"{act} {counted(len(findings), 'finding')} in {counted(files, 'file')}: {listed}."


def has_room_for_summary(output_format: str, output_file: Path | None, statistics: bool) -> bool:
    """Whether a line for people may stand in the report."""
    is_text = output_format in _TEXT_FORMATS or (statistics and output_format != "json")
    return output_file is None and is_text
