"""Errors that end a command with exit code 2."""

from __future__ import annotations

import click


class Failure(click.ClickException):
    """Wrong use or an internal error, with a message for the user."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        """Write the message to standard error."""
        from amplint.report.text import escaped

        lines = (escaped(line) for line in self.message.splitlines())
        click.echo("amplint: error: " + "\n".join(lines), err=True)
