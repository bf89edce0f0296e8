"""Where the output goes: a terminal, a pipe that may be closed, or a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from amplint.cli.failure import Failure
from amplint.report.text import Style

_LINKING_PROGRAMS = ("vscode", "iTerm.app", "WezTerm", "Hyper", "ghostty", "Tabby", "rio", "zed")
_LINKING_TERMINALS = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm", "contour")


def style_for(output_file: Path | None, *, err: bool = False) -> Style:
    """Colours and wrapping for a terminal. NO_COLOR and FORCE_COLOR (https://no-color.org,
    https://force-color.org) decide about colours; a file never gets any."""
    if output_file is not None:
        return Style()
    stream = sys.stderr if err else sys.stdout
    terminal = stream is not None and stream.isatty()
    color = terminal and os.environ.get("TERM") != "dumb"
    if os.environ.get("FORCE_COLOR"):
        color = True
    if os.environ.get("NO_COLOR"):
        color = False
    return Style(color, _width() if terminal else 0, rules=_rules() if color and _has_links(terminal) else "")


def _has_links(terminal: bool) -> bool:
    """Whether a terminal shows hyperlinks; FORCE_HYPERLINK (0 or 1) decides."""
    forced = os.environ.get("FORCE_HYPERLINK")
    if forced:
        return forced != "0"
    version = os.environ.get("VTE_VERSION", "")
    return terminal and (
        os.environ.get("TERM_PROGRAM") in _LINKING_PROGRAMS
        or os.environ.get("TERM", "").startswith(_LINKING_TERMINALS)
        or any(name in os.environ for name in ("WT_SESSION", "KONSOLE_VERSION", "DOMTERM"))
        or (version.isdigit() and int(version) >= 5000)
    )


def _rules() -> str:
    return (Path(__file__).resolve().parents[1] / "rules").as_uri()


def write(text: str, output_file: Path | None = None, *, err: bool = False) -> None:
    """Write to the file, else to standard output or standard error. A reader that has closed the pipe is no error."""
    if output_file is not None:
        try:
            output_file.write_bytes(text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise Failure(f"cannot write {output_file}: {error.strerror or error}") from error
        return
    stream = sys.stderr if err else sys.stdout
    if stream is None:
        raise Failure("cannot write the report: the output is closed")
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # Python flushes again when it exits; see the note on SIGPIPE in the documentation of ``signal``.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise Failure(f"cannot write the report: {error.strerror or error}") from error


def _width() -> int:
    import shutil

    return min(shutil.get_terminal_size().columns, 120)
