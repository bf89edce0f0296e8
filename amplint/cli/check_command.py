"""``amplint check``: options in, report and exit code out."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from amplint.baseline import place_of
from amplint.cache import Cache, stamp_of
from amplint.check import CheckResult, Stdin, check_stdin, check_views
from amplint.cli import fixes
from amplint.cli.completion import a_file, folders, list_of_rules, one_of, paths
from amplint.cli.failure import Failure, as_failures
from amplint.cli.output import style_for, write
from amplint.cli.progress import ProgressBar
from amplint.config import (
    DEVICES,
    LEVELS,
    OUTPUT_FORMATS,
    ConfigError,
    Settings,
    load_settings,
    with_option,
)
from amplint.laps import Laps
from amplint.scope import View, text_alone, views
from amplint.source.decoding import display_name
from amplint.source.discovery import MissingPathError

_RULES = ("select", "extend-select", "ignore", "fixable", "unfixable")
_LISTS = (
    *_RULES, "errors-only", "exclude", "extend-exclude",
)  # fmt: skip
_VALUES = ("force-exclude", "project-root", "torch-version", "device", "level", "baseline", "output-format")
_WITH_SUMMARY = ("full", "concise", "github", "sarif")
"""Formats that have room for what there is to say of the baseline."""

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def list_option(name: str, help: str) -> Callable[[Decorated], Decorated]:
    """An option that may be given several times, each with a list."""
    return click.option(
        f"--{name}",
        multiple=True,
        metavar="LIST",
        help=help + " Separated by commas.",
        shell_complete=list_of_rules if name in _RULES else None,
    )


cache_dir_option = click.option(
    "--cache-dir",
    type=click.Path(file_okay=False),
    envvar="AMPLINT_CACHE_DIR",
    show_envvar=True,
    help="Where results are kept. [default: .amplint_cache in the project]",
)


class _CheckCommand(click.Command):
    """``--add-ignore`` takes its value only behind an equals sign: the next word is a path."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = args[: args.index("--")] if "--" in args else args
        given = [f"{option}=" if option == "--add-ignore" else option for option in options]
        return super().parse_args(ctx, given + args[len(options) :])


@click.command("check", cls=_CheckCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, metavar="[PATHS]...", shell_complete=paths)
@list_option("select", "Rules to run instead of those that are on by default: names, codes, prefixes, ALL.")
@list_option("extend-select", "Rules to run as well.")
@list_option("ignore", "Rules not to run.")
@click.option(
    "--output-format",
    metavar="|".join(OUTPUT_FORMATS),
    help="How to report. [default: full]",
    shell_complete=one_of(OUTPUT_FORMATS),
)
@click.option("--output-file", type=click.Path(path_type=Path, dir_okay=False), help="Where to report to.")
@click.option("--fix", is_flag=True, help="Make the safe fixes.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: the unsafe fixes as well.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and write nothing.")
@click.option("--fix-only", is_flag=True, help="Make fixes and report nothing that is left.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 if anything was fixed.")
@click.option(
    "--add-ignore",
    metavar="[=REASON]",
    help="Put a comment that silences it on each finding.",
)
@list_option("fixable", "Rules whose findings may be fixed. [default: ALL]")
@list_option("unfixable", "Rules whose findings are not to be fixed.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("--config", type=click.Path(path_type=Path), help="The configuration file to use.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
@click.option(
    "--project",
    "project_root",
    metavar="DIR",
    shell_complete=folders,
    help="The project of the paths, which is read as a whole; what lies in the paths is reported. [default: where "
    "the nearest settings are, or the repository, or the package]",
)
@list_option(
    "errors-only", "Patterns of files where only errors are reported, instead of tests and the like."
)
@list_option("exclude", "Patterns of files and directories to leave out instead of the usual ones.")
@list_option("extend-exclude", "Patterns of files and directories to leave out as well.")
@click.option("--force-exclude/--no-force-exclude", default=None, help="Exclude given paths, too.")
@click.option(
    "--torch-version", metavar="VERSION", help='The torch that the code runs with: "2.4", ">=2.3,<2.9".'
)
@click.option(
    "--device",
    metavar="|".join(DEVICES),
    help="The device that the code runs on. [default: cuda]",
    shell_complete=one_of(DEVICES),
)
@click.option(
    "--level",
    metavar="|".join(LEVELS),
    help="Report findings of this level and worse ones. [default: advice]",
    shell_complete=one_of(LEVELS),
)
@click.option(
    "--baseline",
    metavar="FILE",
    shell_complete=a_file,
    help="The findings that are not reported. [default: amplint-baseline.json at the root of the project]",
)
@click.option("--no-baseline", is_flag=True, help="Report what is in the baseline, too.")
@click.option("--no-cache", is_flag=True, help="Neither use nor keep results.")
@cache_dir_option
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Worker processes; 0: as many as processors.",
)
@click.option("-q", "--quiet", is_flag=True, help="Report findings and nothing else.")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Say which projects, settings and files were read, and how long it took.",
)
@click.option("--show-fixes", is_flag=True, help="Show what each fix changes, not only short ones.")
@click.option("--statistics", is_flag=True, help="Show the number of findings for each rule instead of them.")
@click.option("--show-files", is_flag=True, help="Show the files that would be checked, and exit.")
@click.option(
    "--show-settings",
    is_flag=True,
    help="Show the settings for the paths and where each comes from, and exit.",
)
@click.option(
    "--watch", is_flag=True, help="Check again whenever a file of the project changes, until Ctrl-C."
)
@click.option(
    "--stdin-filename",
    metavar="FILE",
    shell_complete=a_file,
    help="The name of the text from standard input (PATHS is -).",
)
def check_command(paths: tuple[str, ...], **options: Any) -> None:
    """Check Python files and directories (default: the current one); - reads standard input."""
    with as_failures():
        code = _run(list(paths) or ["."], options)
    click.get_current_context().exit(code)


def _run(paths: list[str], options: dict[str, Any]) -> int:
    stdin_name = options["stdin_filename"]
    if stdin_name is not None and paths != ["-"]:
        raise Failure("--stdin-filename needs the path - (standard input)")
    if "-" in paths and len(paths) > 1:
        raise Failure("the path - (standard input) cannot be combined with other paths")
    if options["quiet"] and options["verbose"]:
        raise Failure("--quiet and --verbose exclude each other")
    fixes.refuse_contradictions(options)
    if options["watch"]:
        return _watch(paths, options)
    if options["show_settings"]:
        return _show_settings(paths, options)
    laps = Laps()
    settings = settings_from(paths, options)
    stdin = _stdin(stdin_name) if paths == ["-"] and not options["show_files"] else None
    with ProgressBar(not options["quiet"]) as progress:
        progress("listing files", 0, 0)
        given = _views(paths, settings, options, stdin)
    if options["show_files"]:
        return _show_files(given)
    if not options["quiet"]:
        _warn_of_nothing(given, paths)
    laps.end("settings and list of files")
    with ProgressBar(not options["quiet"]) as progress:
        if fixes.is_wanted(options):
            result, code = _fix(given, settings, options, stdin, progress)
        else:
            result, code = _check(given, settings, options, stdin, progress)
    laps.end("checking and report")
    if options["verbose"]:
        from amplint.cli import account

        account.tell(result, laps.seconds)
    if result.crashes:
        tell_crashes(result)
        return 2
    return code


def _warn_of_nothing(given: list[View], paths: list[str]) -> None:
    """Says where there is nothing to check: nobody shall take that for a clean result."""
    if any(view.files or view.obstacles for view in given):
        return
    from amplint.report.text import escaped

    names = ", ".join(escaped(path) for path in paths)
    click.echo(f"amplint: warning: there are no Python files to check in {names}", err=True)


def _check(
    given: list[View],
    settings: Settings,
    options: dict[str, Any],
    stdin: Stdin | None,
    progress: ProgressBar,
) -> tuple[CheckResult, int]:
    """Checks and reports."""
    try:
        if stdin is not None:
            result = check_stdin(given[0], stdin)
        else:
            result = check_views(given, jobs=options["jobs"], progress=progress, cache=cache_of(options))
    finally:
        progress.clear()
    result = result._replace(unsafe_fixes=options["unsafe_fixes"])
    _report(result, settings.output_format, options)
    return result, 1 if result.findings and not options["exit_zero"] else 0


def _views(paths: list[str], settings: Settings, options: dict[str, Any], stdin: Stdin | None) -> list[View]:
    """The projects of the paths, and what of them is reported."""
    fixed = options["config"] is not None or options["isolated"]

    def settings_of(folder: Path) -> Settings:
        return settings if fixed else settings_from([str(folder)], options)

    if stdin is None:
        return views(paths, settings_of) if paths != ["-"] else []
    if options["stdin_filename"] is None:
        return [text_alone(stdin.path, settings)]
    name = str(stdin.path.absolute())
    return views([name], settings_of, [name])


def _watch(paths: list[str], options: dict[str, Any]) -> int:
    """Checks again and again; the exit code is that of the last time."""
    from amplint.cli.watch import changes

    for name in ("output_file", "show_files", "show_settings", "fix", "fix_only", "diff", "add_ignore"):
        if options[name] not in (None, False):
            raise Failure(f"--watch cannot be combined with --{name.replace('_', '-')}")
    if paths == ["-"]:
        raise Failure("--watch needs files: standard input does not change")

    interrupted = False

    def interrupt(number: int, frame: object) -> None:
        # the exception is lost where a finalizer runs
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    def look() -> dict[str, Any]:
        if interrupted:
            raise KeyboardInterrupt
        try:
            given = _views(paths, settings_from(paths, options), options, None)
        except (ConfigError, MissingPathError) as error:
            return {"": str(error)}
        sources = [str(view.settings.source) for view in given if view.settings.source is not None]
        sources += [str(place_of(view.root, view.settings)) for view in given]
        return {
            file: stamp_of(file) for file in [*sources, *(file for view in given for file in view.project)]
        }

    code = 0
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        for _ in changes(look):
            gc.collect()  # main switches it off, for a run that ends soon
            click.clear()
            try:
                with as_failures():
                    code = _run(paths, {**options, "watch": False})
            except Failure as error:
                code = error.exit_code
                error.show()
            click.echo("Watching for changes; Ctrl-C ends it.", err=True)
    except KeyboardInterrupt:
        click.echo(err=True)
    finally:
        signal.signal(signal.SIGINT, before)
    return code


def _fix(
    given: list[View],
    settings: Settings,
    options: dict[str, Any],
    stdin: Stdin | None,
    progress: ProgressBar,
) -> tuple[CheckResult, int]:
    """Fixes or silences, and reports what is left."""
    output_format, output_file = settings.output_format, options["output_file"]

    def report(result: CheckResult, done: str) -> None:
        if fixes.has_room_for_summary(output_format, output_file, options["statistics"]):
            result = result._replace(done=done)
        elif done and not options["quiet"]:
            click.echo(done, err=True)
        if output_format == "json":
            fixes.tell_left_alone(result)
        _report(result, output_format, options, err=stdin is not None)

    return fixes.run(given, options, stdin, progress, cache_of(options), report)


def cache_of(options: dict[str, Any]) -> Cache | None:
    """The cache that ``--no-cache`` and ``--cache-dir`` ask for; None for none."""
    folder = options["cache_dir"]
    return None if options["no_cache"] else Cache(Path(folder).absolute() if folder else None)


def settings_from(paths: list[str], options: dict[str, Any]) -> Settings:
    """The settings of the configuration file that belongs to the paths, with what the command line says."""
    config, isolated = options["config"], options["isolated"]
    if config is not None and isolated:
        raise Failure("--config and --isolated exclude each other")
    start = Path() if paths[0] == "-" else Path(paths[0])
    settings = load_settings(start, config, isolated=isolated)
    for key in _LISTS:
        given = options.get(key.replace("-", "_"))
        if given:
            values = [part.strip() for value in given for part in value.split(",")]
            settings = with_option(settings, key, [value for value in values if value], f"--{key}")
    for key in _VALUES:
        given = options.get(key.replace("-", "_"))
        if given is not None:
            settings = with_option(settings, key, given, f"--{key}")
    if options.get("no_baseline"):
        if options["baseline"] is not None:
            raise Failure("--baseline and --no-baseline exclude each other")
        settings = replace(settings, baseline=None, with_baseline=False)
    return settings


def _stdin(name: str | None) -> Stdin:
    return Stdin(Path(name or "stdin.py"), sys.stdin.buffer.read())


def _show_files(given: list[View]) -> int:
    from amplint.report.text import escaped

    names = sorted(escaped(display_name(path)) for view in given for path in view.files)
    write("".join(f"{name}\n" for name in names))
    return 0


def _show_settings(paths: list[str], options: dict[str, Any]) -> int:
    from amplint.cli.settings_shown import shown

    for path in paths:
        if path != "-" and not Path(path).exists():
            raise MissingPathError(path)
    write("\n".join(shown(path, settings_from([path], options), options) for path in paths))
    return 0


def _report(result: CheckResult, output_format: str, options: dict[str, Any], *, err: bool = False) -> None:
    """Writes the report; ``err``: to standard error, where standard output has the fixed source."""
    output_file: Path | None = options["output_file"]
    style = style_for(output_file, err=err)
    style = style._replace(quiet=options["quiet"], all_fixes=options["show_fixes"])
    if options["statistics"]:
        from amplint.report.statistics import render_statistics

        write(render_statistics(result, style, as_json=output_format == "json"), output_file, err=err)
        if output_format == "json" and not options["quiet"]:
            tell_baselined(result)
        return
    from amplint.report import renderer

    write(renderer(output_format)(result, style), output_file, err=err)
    if output_format not in _WITH_SUMMARY and not options["quiet"]:
        tell_baselined(result)
    step_summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if output_format == "github" and step_summary:
        from amplint.report.github import write_step_summary

        write_step_summary(result, Path(step_summary))


def tell_baselined(result: CheckResult) -> None:
    """Writes to standard error what there is to say of the baseline, where the report has no room for it."""
    from amplint.report.text import baselined

    for line in baselined(result):
        click.echo(f"amplint: {line}", err=True)


def tell_crashes(result: CheckResult) -> None:
    """Writes what went wrong inside amplint to standard error."""
    from amplint.report.text import escaped

    with_traceback = bool(os.environ.get("AMPLINT_DEBUG"))
    for crash in result.crashes:
        rule = f" in the rule {crash.rule}" if crash.rule else ""
        click.echo(f"amplint: internal error{rule}: {escaped(crash.path)}: {escaped(crash.reason)}", err=True)
        if with_traceback and crash.traceback:
            click.echo("\n".join(escaped(line) for line in crash.traceback.splitlines()), err=True)
    if not with_traceback:
        click.echo("This is a bug in amplint; with AMPLINT_DEBUG=1 it shows the traceback.", err=True)
