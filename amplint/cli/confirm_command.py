"""``amplint confirm``: what the static pass says, and what a run of the program says of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from amplint.baseline import Baseline, baseline_of
from amplint.check import CheckResult, check
from amplint.cli.check_command import list_option, settings_from, tell_crashes
from amplint.cli.completion import paths
from amplint.cli.failure import Failure, as_failures
from amplint.cli.output import style_for, write
from amplint.config import Settings
from amplint.confirm import recording as recordings
from amplint.confirm.asked import AskedFile, asked
from amplint.confirm.recording import NoRecording, Recording
from amplint.confirm.verdicts import CrossCheck, Status, cross_check
from amplint.findings import Finding
from amplint.report.sources import Sources
from amplint.requirements import bounds_of_setting
from amplint.scope import root_of

FORMATS = ("full", "json", "github")
DEVICES = ("auto", "cuda", "simulated-cuda", "cpu")
FAIL_ON = {
    "findings": (
        Status.CONFIRMED,
        Status.NOT_REACHED,
        Status.NOT_OBSERVABLE,
        Status.INCONCLUSIVE,
        Status.MISSED,
    ),
    "confirmed": (Status.CONFIRMED, Status.MISSED),
    "never": (),
}
"""Verdicts that make the exit status 1."""


class WithProgram(click.Command):
    """A command whose arguments from the first ``--`` on are a program and its arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keeps the program out of click's hands."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta["program"] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Shows where the program goes."""
        return [*super().collect_usage_pieces(ctx), "--", "PROGRAM..."]


def device_option(command: Any) -> Any:
    """``--device``."""
    return click.option(
        "--device",
        type=click.Choice(DEVICES),
        default="auto",
        help="What the run takes place on; auto: CUDA if there is some, else CUDA simulated on the CPU.",
    )(command)


def run_options(command: Any) -> Any:
    """``--steps`` and ``--timeout``."""
    command = click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help="Stop the program after this time.",
    )(command)
    return click.option(
        "--steps",
        type=click.IntRange(1),
        metavar="N",
        help="Stop the program after so many optimizer steps, when the next one begins.",
    )(command)


@click.command("confirm", cls=WithProgram, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, metavar="[PATHS]...", shell_complete=paths)
@run_options
@device_option
@click.option(
    "--keep-compile",
    is_flag=True,
    help="Leave torch.compile on. What runs inside compiled code is not observed then.",
)
@click.option("--output-format", type=click.Choice(FORMATS), default="full", help="How to report.")
@click.option("--output-file", type=click.Path(path_type=Path, dir_okay=False), help="Where to report to.")
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    default="findings",
    help="What makes the exit status 1: any finding that is not refuted, those that the run saw, or nothing.",
)
@click.option(
    "--libraries", is_flag=True, help="Tell of what the run saw libraries do, too, not only how often."
)
@click.option(
    "--findings",
    "findings_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Check the findings of an earlier `amplint --output-format json` instead of linting now.",
)
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep what the run showed in a file.",
)
@click.option(
    "--replay",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Take what a run showed from a file instead of running anything.",
)
@list_option("select", "Rules to run instead of those that are on by default: names, codes, prefixes, ALL.")
@list_option("extend-select", "Rules to run as well.")
@list_option("ignore", "Rules not to run.")
@click.option("--config", type=click.Path(path_type=Path), help="The configuration file to use.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
def confirm_command(paths: tuple[str, ...], **options: Any) -> None:
    """Run a program and say which findings are true.

    Checks PATHS (default: the current directory), runs the program that stands after -- with its arguments, such as
    `-- train.py --epochs 1`, `-- -m package.train`, `-- torchrun --nproc-per-node 2 train.py` or `-- accelerate
    launch train.py`, and gives
    each finding a verdict: confirmed, refuted, not reached, not observable here, inconclusive. Without a CUDA device
    the program runs on the CPU under a simulation of CUDA's autocast.

    The exit status is that of the program if it fails, else 1 if there is what --fail-on says, else 0.
    """
    with as_failures():
        code = _confirm(list(paths) or ["."], click.get_current_context().meta["program"], options)
    click.get_current_context().exit(code)


def _confirm(paths: list[str], program: Sequence[str], options: dict[str, Any]) -> int:
    replay: Path | None = options["replay"]
    if replay is not None and program:
        raise Failure("--replay takes the place of a run: there is nothing to do for the program after --")
    if replay is not None and options["keep_compile"]:
        raise Failure("--keep-compile is about a run, and --replay takes the place of one")
    settings = settings_from(paths, {**options, "device": None, "output_format": None})
    baseline = _baseline_of(paths, settings) if options["findings_file"] is not None else None
    settings = settings.of_a_run
    if replay is None:
        refuse_without_torch(program)
    result, digests = _linted(paths, settings, options["findings_file"])
    # a recording that is kept may be judged by other findings
    lines = asked(result.findings, digests) if options["record"] is None else None
    recording, status = _recording(replay, paths, program, options, lines)
    if options["record"] is not None:
        try:
            recordings.write(recording, options["record"])
        except OSError as error:
            raise Failure(f"cannot write {options['record']}: {error.strerror or error}") from error
    crossed = judged(result, recording, settings, digests, libraries=options["libraries"], baseline=baseline)
    _report(result, crossed, options["output_format"], options["output_file"])
    if result.crashes:
        tell_crashes(result)
        return 2
    return status or (1 if crossed.with_status(*FAIL_ON[options["fail_on"]]) else 0)


def _baseline_of(paths: list[str], settings: Settings) -> Baseline | None:
    """What the run that made given findings has kept back. Raises ConfigError."""
    start = Path(paths[0]).absolute()
    return baseline_of(root_of(start if start.is_dir() else start.parent, settings), settings)


def judged(
    result: CheckResult,
    recording: Recording,
    settings: Settings,
    digests: dict[str, str | None],
    *,
    libraries: bool = False,
    baseline: Baseline | None = None,
) -> CrossCheck:
    """The verdicts on the findings of a result, and what the run saw besides, unless the project does not want to
    hear of it, or has it in the baseline. ``libraries`` as in ``cross_check``."""
    from amplint.groups import Job, Wanted
    from amplint.rules import all_rules

    is_asked_for = Wanted(Job(settings, ()), {})
    sources = Sources(result)

    def wanted(finding: Finding) -> bool:
        return is_asked_for(finding) and not (
            baseline is not None
            and baseline.has_like(finding, str(Path(finding.path).absolute()), sources.lines(finding.path))
        )

    return cross_check(
        result.findings,
        recording,
        all_rules(),
        digests,
        wanted,
        libraries=libraries,
        at_release=_at_release(result, recording, settings),
    )


def _at_release(result: CheckResult, recording: Recording, settings: Settings) -> Sequence[Finding] | None:
    """What linting says of the files concerned if the project asks for the very torch that ran; None if it does so
    anyway."""
    from dataclasses import replace

    bounds = bounds_of_setting(".".join(recording.torch.split(".")[:2]))
    if bounds is None or bounds == settings.torch:
        return None
    told = (*result.findings, *(seen.finding for seen in recording.seen))
    paths = dict.fromkeys(result.sources.get(finding.path, finding.path) for finding in told)
    there = [path for path in paths if Path(path).is_file()]
    return check(there, replace(settings, torch=bounds)).findings if there else None


def digests_of(result: CheckResult) -> dict[str, str | None]:
    """The content hashes of the files that findings name."""
    named = {finding.path for finding in result.findings}
    return {path: recordings.digest_of(Path(result.sources.get(path, path))) for path in named}


def refuse_without_torch(program: Sequence[str]) -> None:
    """Fails if there is nothing to run, or nothing to run it with."""
    from amplint.confirm.runner import NotRun, has_torch, prepared

    try:
        prepared(program)
    except NotRun as error:
        raise Failure(str(error)) from error
    if not has_torch():
        raise Failure(
            "to run a program takes torch, which is not installed beside amplint: pip install 'amplint[torch]', or "
            "install amplint where the program's torch is"
        )


def _linted(
    paths: list[str], settings: Settings, findings_file: Path | None
) -> tuple[CheckResult, dict[str, str | None]]:
    if findings_file is None:
        result = check(paths, settings)
        return result, digests_of(result)
    findings = _findings_in(findings_file)
    result = CheckResult(tuple(findings), len({finding.path for finding in findings}))
    digests = digests_of(result)
    return result, {path: "changed" if _has_changed(result, path) else digests[path] for path in digests}


def _findings_in(file: Path) -> list[Finding]:
    from amplint.report.json import finding_from

    try:
        return [finding_from(value) for value in json.loads(file.read_text(encoding="utf-8"))]
    except OSError as error:
        raise Failure(f"cannot read {file}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failure(f"{file} does not hold what `amplint --output-format json` writes") from error


def _has_changed(result: CheckResult, path: str) -> bool:
    """Whether a file does not have the lines any more on which its findings were made."""
    from amplint.identity import code_of_line, fingerprint

    lines = Sources(result).lines(path)
    found = [finding for finding in result.findings if finding.path == path]
    for finding in found:
        number = finding.span.line
        line = code_of_line(lines[number - 1]) if number <= len(lines) else ""
        if not finding.fingerprint:
            continue
        if all(
            fingerprint(finding.code, path, line, nth) != finding.fingerprint for nth in range(len(found))
        ):
            return True
    return False


def _recording(
    replay: Path | None,
    paths: list[str],
    program: Sequence[str],
    options: dict[str, Any],
    lines: Sequence[AskedFile] | None,
) -> tuple[Recording, int]:
    if replay is not None:
        try:
            return recordings.read(replay), 0
        except (OSError, NoRecording) as error:
            raise Failure(f"cannot replay {replay}: {error}") from error
    from amplint.confirm.order import Order
    from amplint.confirm.runner import NotRun, run

    order = Order(
        folder="",
        root=str(Path.cwd()),
        device=options["device"],
        steps=options["steps"],
        timeout=options["timeout"],
        paths=tuple(str(Path(path).absolute()) for path in paths),
        keeps_compile=options["keep_compile"],
    )
    try:
        done = run(order, program, output_to_stderr=_is_in_the_way(options), lines=lines)
    except NotRun as error:
        raise Failure(str(error)) from error
    return done.recording, exit_status(done.recording, done.status)


def _is_in_the_way(options: dict[str, Any]) -> bool:
    """Whether what the program prints would stand in the middle of a report for machines."""
    return options["output_format"] != "full" and options["output_file"] is None


def exit_status(recording: Recording, status: int) -> int:
    """That of the program, as shells have it; 0 if it was amplint that ended it."""
    if recording.ended in (recordings.STOPPED, recordings.TIMED_OUT):
        return 0
    return 128 - status if status < 0 else status


def _report(result: CheckResult, crossed: CrossCheck, output_format: str, output_file: Path | None) -> None:
    from amplint.report import verdicts

    render = {"full": verdicts.render, "json": verdicts.render_json, "github": verdicts.render_github}
    write(render[output_format](result, crossed, style_for(output_file)), output_file)
