"""Errors that end a command with exit code 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from amplint.config import ConfigError
from amplint.selectors import suggestion
from amplint.source.discovery import MissingPathError


class Failure(click.ClickException):
    """Wrong use or an internal error, with a message for the user."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        """Write the message to standard error."""
        from amplint.report.text import escaped

        lines = (escaped(line) for line in self.message.splitlines())
        click.echo("amplint: error: " + "\n".join(lines), err=True)


@contextmanager
def as_failures() -> Iterator[None]:
    """Ends the command for settings that are wrong and paths that are not there: ``with as_failures(): ...``."""
    try:
        yield
    except ConfigError as error:
        raise Failure(str(error)) from error
    except MissingPathError as error:
        raise Failure(_missing(error.path)) from error


def _missing(path: str) -> str:
    """That there is nothing at a path, and what the user may have meant."""
    if Path(path).is_symlink():
        return f"{path} is a link to {Path(path).readlink()}, which does not exist"
    return f"no such file or directory: {path}{_similar(path)}"


def _similar(path: str) -> str:
    parent = Path(path).parent
    try:
        names = [str(neighbour) for neighbour in parent.iterdir()]
    except (OSError, ValueError):
        return ""
    return suggestion(str(Path(path)), names)
