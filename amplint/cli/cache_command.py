"""``amplint cache``: where results are kept, and taking them away."""

from __future__ import annotations

from pathlib import Path

import click

from amplint.cache import FOLDER, clean
from amplint.cli.check_command import cache_dir_option
from amplint.cli.failure import Failure
from amplint.config import ConfigError, load_settings
from amplint.scope import root_of


@click.group("cache", context_settings={"help_option_names": ["-h", "--help"]})
def cache_command() -> None:
    """The results that are kept from earlier runs."""


@cache_command.command("dir")
@click.argument("directory", default=".", type=click.Path(path_type=Path))
@cache_dir_option
def dir_command(directory: Path, cache_dir: Path | None) -> None:
    """Print where the results of the project of a directory are kept."""
    click.echo(str(_folder(directory, cache_dir)))


@cache_command.command("clean")
@click.argument("directory", default=".", type=click.Path(path_type=Path))
@cache_dir_option
def clean_command(directory: Path, cache_dir: Path | None) -> None:
    """Remove the results of the project of a directory, or all in the directory of --cache-dir."""
    folder = _folder(directory, cache_dir)
    try:
        removed = clean(folder)
    except OSError as error:
        raise Failure(f"cannot remove what is in {folder}: {error.strerror or error}") from error
    click.echo(f"Removed {removed} result{'' if removed == 1 else 's'} from {folder}.")


def _folder(directory: Path, cache_dir: Path | None) -> Path:
    if cache_dir is not None:
        return cache_dir.absolute()
    start = directory if directory.is_dir() else directory.parent
    try:
        return root_of(start, load_settings(start)) / FOLDER
    except ConfigError as error:
        raise Failure(str(error)) from error
