"""The command ``amplint``: what is no name of a subcommand belongs to ``check``."""

from __future__ import annotations

import click

from amplint import __version__
from amplint.cli.check_command import check_command
from amplint.cli.completion import BY_DEFAULT


class DefaultCheck(click.Group):
    """A group whose default subcommand is ``check``; the others are imported only when they are asked for."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``check`` before anything but a subcommand or one of the group's own options."""
        if not args or args[0] not in (*self.list_commands(ctx), "--help", "-h", "--version", "-V"):
            ctx.meta[BY_DEFAULT] = True
            args = ["check", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The subcommands."""
        return ["baseline", "cache", "check", "confirm", "rule", "server", "trace"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of them."""
        if cmd_name == "check":
            return check_command
        if cmd_name == "baseline":
            from amplint.cli.baseline_command import baseline_command

            return baseline_command
        if cmd_name == "cache":
            from amplint.cli.cache_command import cache_command

            return cache_command
        if cmd_name == "confirm":
            from amplint.cli.confirm_command import confirm_command

            return confirm_command
        if cmd_name == "trace":
            from amplint.cli.trace_command import trace_command

            return trace_command
        if cmd_name == "server":
            from amplint.cli.server_command import server_command

            return server_command
        if cmd_name == "rule":
            from amplint.cli.rule_command import rule_command

            return rule_command
        return None


group = DefaultCheck(
    name="amplint",
    help="""Find misuse of PyTorch automatic mixed precision (AMP) in training code.

    `amplint [PATHS]` is short for `amplint check [PATHS]`; `amplint check --help` lists its options.""",
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[
        click.Option(
            ["--version", "-V"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            help="Show the version and exit.",
            callback=lambda ctx, option, value: _show_version(ctx, value),
        )
    ],
)


def _show_version(ctx: click.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"amplint {__version__}")
        ctx.exit()
