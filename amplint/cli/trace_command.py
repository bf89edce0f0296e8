"""``amplint trace``: in which precision the modules and lines of a run worked, and what was cast."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from amplint.cli.confirm_command import (
    WithProgram,
    device_option,
    exit_status,
    refuse_without_torch,
    run_options,
)
from amplint.cli.failure import Failure
from amplint.cli.output import style_for, write
from amplint.confirm import recording as recordings
from amplint.confirm.recording import NoRecording, Recording

ORDERS = ("bytes", "count", "line")
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("trace", cls=WithProgram, context_settings={"help_option_names": ["-h", "--help"]})
@run_options
@device_option
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object instead of tables.")
@click.option("--html", type=_FILE, metavar="FILE", help="Write a page for a browser, as one file.")
@click.option(
    "--sort",
    type=click.Choice(ORDERS),
    default="bytes",
    help="What comes first in the tables of casts and lines: what most bytes were cast for, what ran most often, or "
    "the first line.",
)
@click.option(
    "--search", default="", metavar="TEXT", help="Only modules, ops, files and types that TEXT is part of."
)
@click.option("--limit", type=click.IntRange(0), default=40, metavar="N", help="Rows of a table; 0: all.")
@click.option("--output-file", type=_FILE, help="Where to write to.")
@click.option("--record", type=_FILE, metavar="FILE", help="Keep the trace in a file.")
@click.option(
    "--replay", type=_FILE, metavar="FILE", help="Show a trace that was kept instead of running anything."
)
@click.option(
    "--compare",
    type=_FILE,
    nargs=2,
    metavar="A B",
    help="Show what two traces that were kept differ in, as before and after a fix.",
)
def trace_command(**options: Any) -> None:
    """Run a program and show in which precision each module and line ran.

    The program stands after -- with its arguments, as for `amplint confirm`. It shows the types in which the ops of
    each module worked, what was cast, by whom, how many bytes of it and how often, and the same for each line; as a
    page also the timeline of a step and the source. A traced run is slower.

    The exit status is that of the program.
    """
    program = click.get_current_context().meta["program"]
    try:
        status = _trace(program, options)
    except NoRecording as error:
        raise Failure(str(error)) from error
    click.get_current_context().exit(status)


def _trace(program: Sequence[str], options: dict[str, Any]) -> int:
    if (options["replay"] or options["compare"]) and program:
        raise Failure(
            "--replay and --compare take the place of a run: there is nothing to do for the program after --"
        )
    if options["compare"]:
        before, after = options["compare"]
        _compare(before, after, options)
        return 0
    if options["replay"]:
        recording, status = _read(options["replay"]), 0
    else:
        recording, status = _run(program, options)
    if options["record"] is not None:
        try:
            recordings.write(recording, options["record"])
        except OSError as error:
            raise Failure(f"cannot write {options['record']}: {error.strerror or error}") from error
    _show(recording, options)
    return status


def _run(program: Sequence[str], options: dict[str, Any]) -> tuple[Recording, int]:
    refuse_without_torch(program)
    from amplint.confirm.order import Order
    from amplint.confirm.runner import NotRun, run

    order = Order(
        folder="",
        root=str(Path.cwd()),
        device=options["device"],
        steps=options["steps"],
        timeout=options["timeout"],
        trace=True,
    )
    try:
        to_stderr = options["as_json"] and options["output_file"] is None
        # only the page says how often a line ran
        is_page = options["html"] is not None or options["record"] is not None
        done = run(order, program, output_to_stderr=to_stderr, lines=None if is_page else ())
    except NotRun as error:
        raise Failure(str(error)) from error
    return done.recording, exit_status(done.recording, done.status)


def _read(source: Path) -> Recording:
    try:
        recording = recordings.read(source)
    except OSError as error:
        raise Failure(f"cannot read {source}: {error.strerror or error}") from error
    from amplint.report.trace_model import trace_of

    if recording.torch:
        trace_of(recording, source)
    return recording


def _show(recording: Recording, options: dict[str, Any]) -> None:
    from amplint.report import trace_html, trace_table

    if options["html"] is not None:
        write(trace_html.render(recording), options["html"])
    if options["as_json"]:
        write(trace_table.render_json(recording), options["output_file"])
    else:
        style = style_for(options["output_file"])
        text = trace_table.render(recording, style, options["sort"], options["limit"], options["search"])
        write(text, options["output_file"])


def _compare(before: Path, after: Path, options: dict[str, Any]) -> None:
    from amplint.report import trace_compare

    comparison = trace_compare.compare(_read(before), _read(after))
    if options["html"] is not None:
        write(trace_compare.render_html(comparison, str(before), str(after)), options["html"])
    if options["as_json"]:
        write(trace_compare.render_json(comparison), options["output_file"])
    else:
        style = style_for(options["output_file"])
        write(trace_compare.render(comparison, style, options["limit"]), options["output_file"])
