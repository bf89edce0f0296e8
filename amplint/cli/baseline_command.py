"""``amplint baseline``: writes down what a project has now, or takes out what it has no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from amplint.baseline import Baseline, Compared, is_baselined, place_of, read, written
from amplint.check import CheckResult, check_views
from amplint.cli.check_command import cache_dir_option, cache_of, list_option, settings_from, tell_crashes
from amplint.cli.completion import a_file, folders, paths
from amplint.cli.failure import Failure, as_failures
from amplint.cli.progress import ProgressBar
from amplint.config import Settings
from amplint.report.text import baselined, counted, escaped
from amplint.scope import View, views
from amplint.source.decoding import display_name
from amplint.source.writing import Unwritable, put


@click.command("baseline", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, metavar="[PATHS]...", shell_complete=paths)
@click.option("--prune", is_flag=True, help="Take out what is found no more, and add nothing.")
@click.option("--check", "only_check", is_flag=True, help="Exit with 1 if something in it is found no more.")
@click.option(
    "--baseline",
    metavar="FILE",
    shell_complete=a_file,
    help="The file. [default: amplint-baseline.json at the root of the project]",
)
@list_option("select", "Rules to run instead of those that are on by default: names, codes, prefixes, ALL.")
@list_option("extend-select", "Rules to run as well.")
@list_option("ignore", "Rules not to run.")
@click.option("--config", type=click.Path(path_type=Path), help="The configuration file to use.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
@click.option(
    "--project", "project_root", metavar="DIR", shell_complete=folders, help="The project of the paths."
)
@click.option("--no-cache", is_flag=True, help="Neither use nor keep results.")
@cache_dir_option
@click.option("-j", "--jobs", type=click.IntRange(0), default=0, metavar="N", help="Worker processes.")
def baseline_command(paths: tuple[str, ...], **options: Any) -> None:
    """Write down the findings in files and directories (default: the current one), so that from then on only new ones
    are reported.

    What the baseline has of other files and rules stays. A file that cannot be read is no finding for a baseline."""
    if options["prune"] and options["only_check"]:
        raise Failure("--prune and --check exclude each other")
    with as_failures():
        code = _run(list(paths) or ["."], options)
    click.get_current_context().exit(code)


def _run(paths: list[str], options: dict[str, Any]) -> int:
    if "-" in paths:
        raise Failure("a baseline is about files, not about standard input")

    def settings_of(folder: Path) -> Settings:
        return settings_from([str(folder)], options)

    def without(folder: Path) -> Settings:
        return replace(settings_of(folder), with_baseline=False)

    adding = not options["prune"] and not options["only_check"]
    with ProgressBar() as progress:
        progress("listing files", 0, 0)
        given = [_with_baseline(view, needed=not adding) for view in views(paths, without)]
        result = check_views(given, jobs=options["jobs"], progress=progress, cache=cache_of(options))
    if options["only_check"]:
        _tell_stale(result)
    else:
        for compared in result.compared:
            click.echo(_written(compared, adding=adding))
        if adding:
            _tell_unmarked(given)
            _tell_unreadable(result)
    if result.crashes:
        tell_crashes(result)
        return 2
    return 1 if options["only_check"] and result.stale else 0


def _with_baseline(view: View, *, needed: bool) -> View:
    """The view with its baseline, or with an empty one if there is none yet."""
    file = place_of(view.root, view.settings)
    known = read(file, view.root) if needed or file.exists() else Baseline(file, view.root)
    return view._replace(baseline=known)


def _written(compared: Compared, *, adding: bool) -> str:
    """Writes the baseline without what is stale and, where that is wanted, with what was found; says what has
    changed."""
    before = compared.baseline
    new = [entry for entry in compared.found if entry.key not in before.keys] if adding else []
    entries = [*compared.left, *new]
    if adding or compared.stale:
        try:
            put(str(before.file), written(entries))
        except Unwritable as error:
            raise Failure(f"cannot write {before.file}: {error.reason}") from error
    changes = f"{len(new)} new, {len(compared.stale)} taken out"
    return f"{escaped(display_name(before.file))} has {counted(len(entries), 'finding')}: {changes}."


def _tell_stale(result: CheckResult) -> None:
    for compared in result.compared:
        for entry in compared.stale:
            click.echo(f"{escaped(entry.path)}: {escaped(entry.name)}: {escaped(entry.line)}")
    if result.stale:
        click.echo(baselined(result)[-1], err=True)


def _tell_unmarked(given: list[View]) -> None:
    for view in given:
        if not view.is_marked and view.settings.baseline is None:
            root = escaped(str(view.root))
            click.echo(
                f"amplint: nothing says that a project begins at {root}: runs over what is further down do not find "
                "this baseline. An empty amplint.toml beside it says so.",
                err=True,
            )


def _tell_unreadable(result: CheckResult) -> None:
    """What stays to be reported, since no baseline can have it."""
    for path in sorted({finding.path for finding in result.findings if not is_baselined(finding)}):
        text = f"amplint: {escaped(path)} cannot be read, and no baseline hides that: leave it out with `exclude`."
        click.echo(text, err=True)
