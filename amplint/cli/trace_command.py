"""``amplint trace``: a log of the casts and op types of a run."""

from __future__ import annotations

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

ORDERS = ("bytes", "count", "line")


@click.command("trace", cls=WithProgram, context_settings={"help_option_names": ["-h", "--help"]})
@run_options
@device_option
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object instead of a table.")
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the source with the precision that each line ran in, as one file for a browser.",
)
@click.option(
    "--sort",
    type=click.Choice(ORDERS),
    default="bytes",
    help="What comes first in the table: what autocast cast most for, what ran most often, or the first line.",
)
@click.option("--limit", type=click.IntRange(0), default=40, metavar="N", help="Rows of the table; 0: all.")
@click.option("--output-file", type=click.Path(path_type=Path, dir_okay=False), help="Where to write to.")
def trace_command(**options: Any) -> None:
    """Run a program and show in which precision each line ran.

    The program stands after -- with its arguments, as for `amplint confirm`. For each line it shows the ops,
    the types of their operands and results, the autocast region, how often they ran, and how many bytes autocast cast
    for them. A run under the log of casts is two to four times slower.

    The exit status is that of the program.
    """
    program = click.get_current_context().meta["program"]
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
        # only the page for a browser says how often a line ran
        lines = None if options["html"] is not None else ()
        done = run(order, program, output_to_stderr=options["as_json"], lines=lines)
    except NotRun as error:
        raise Failure(str(error)) from error
    from amplint.report import trace_html, trace_table

    if options["html"] is not None:
        write(trace_html.render(done.recording), options["html"])
    style = style_for(options["output_file"])
    if options["as_json"]:
        write(trace_table.render_json(done.recording), options["output_file"])
    else:
        text = trace_table.render(done.recording, style, options["sort"], options["limit"])
        write(text, options["output_file"])
    click.get_current_context().exit(exit_status(done.recording, done.status))
