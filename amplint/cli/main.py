"""The entry point: what may go wrong around a command, and the exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def main() -> None:
    """Run the command line and leave with its exit code, without taking down millions of syntax nodes."""
    gc.disable()
    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            code = 2
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """The exit code: 0 nothing found, 1 findings, 2 wrong use or an internal error, 130 after Ctrl-C."""
    try:
        import warnings

        from click import Abort, ClickException

        from amplint.cli.group import group

        warnings.simplefilter("ignore")  # those that Python has about linted code are not ours to show
        try:
            code = group.main(list(arguments), prog_name="amplint", standalone_mode=False)
        except ClickException as error:
            error.show()
            return 2
        except Abort:
            return _interrupted()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return _interrupted()
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    """Says in a line what nobody expected; with AMPLINT_DEBUG=1 also where."""
    from amplint.report.text import escaped

    if sys.stderr is None:
        return 2
    if os.environ.get("AMPLINT_DEBUG"):
        import traceback

        sys.stderr.write(traceback.format_exc())
    lines = str(error).splitlines() or [""]
    sys.stderr.write(
        f"amplint: internal error: {type(error).__name__}: {escaped(lines[0][:300])}\n"
        "This is a bug in amplint; with AMPLINT_DEBUG=1 it shows the traceback.\n"
    )
    return 2


def _interrupted() -> int:
    sys.stderr.write("\nInterrupted.\n")
    return INTERRUPTED
