"""``amplint server``: the language server."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import click

from amplint.cli.check_command import cache_dir_option, cache_of
from amplint.cli.failure import Failure


@click.command("server", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--stdio", is_flag=True, expose_value=False, help="Talk by standard input and output, as always."
)
@click.option("--no-cache", is_flag=True, help="Neither use nor keep results on the disk.")
@cache_dir_option
def server_command(**options: Any) -> int:
    """Serve an editor by the Language Server Protocol.

    The editor starts it; docs/editors.md says how for some of them. It needs pygls: pip install 'amplint[lsp]'."""
    if find_spec("pygls") is None:
        raise Failure("the language server needs pygls: pip install 'amplint[lsp]'")
    from amplint.server.features import serve

    return serve(cache_of(options))
