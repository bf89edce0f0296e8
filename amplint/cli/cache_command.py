"""``amplint cache``: where results are kept, and taking them away."""

from __future__ import annotations

from pathlib import Path

import click

from amplint.cache import FOLDER, clean
from amplint.cli.check_command import cache_dir_option
from amplint.cli.failure import Failure, as_failures
from amplint.config import load_settings, with_option
from amplint.scope import is_marked, root_of

_project_option = click.option(
    "--project", "project_root", metavar="DIR", help="The project, where it is not to be found out."
)


@click.group("cache", context_settings={"help_option_names": ["-h", "--help"]})
def cache_command() -> None:
    """The results that are kept from earlier runs."""


@cache_command.command("dir")
@click.argument("directory", default=".", type=click.Path(path_type=Path))
@_project_option
@cache_dir_option
def dir_command(directory: Path, project_root: str | None, cache_dir: str | None) -> None:
    """Print where the results of the project of a directory are kept."""
    click.echo(str(_folder(directory, project_root, cache_dir)))


@cache_command.command("clean")
@click.argument("directory", default=".", type=click.Path(path_type=Path))
@_project_option
@cache_dir_option
def clean_command(directory: Path, project_root: str | None, cache_dir: str | None) -> None:
    """Remove the results of the project of a directory, or all in the directory of --cache-dir."""
    folder = _folder(directory, project_root, cache_dir)
    try:
        removed = clean(folder)
    except OSError as error:
        raise Failure(f"cannot remove what is in {folder}: {error.strerror or error}") from error
    click.echo(f"Removed {removed} result{'' if removed == 1 else 's'} from {folder}.")


def _folder(directory: Path, project_root: str | None, cache_dir: str | None) -> Path:
    if cache_dir:
        return Path(cache_dir).absolute()
    start = directory if directory.is_dir() else directory.parent
    with as_failures():
        settings = load_settings(start)
        if project_root is not None:
            settings = with_option(settings, "project-root", project_root, "--project")
        root = root_of(start, settings)
    if not is_marked(root, settings):
        raise Failure(f"{root} belongs to no project: nothing is kept for it")
    return root / FOLDER
