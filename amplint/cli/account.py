"""``amplint check --verbose``: which projects, settings and files, whether results were kept, how long it took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from amplint.check import Account, CheckResult
from amplint.report.text import counted, escaped


def tell(result: CheckResult, seconds: Mapping[str, float]) -> None:
    """Writes it to standard error. ``seconds``: of the phases of the whole run, by name."""
    for account in result.accounts:
        for line in _lines(account):
            click.echo(f"amplint: {line}", err=True)
    for one in result.compared:
        held = f"{counted(len(one.known), 'finding')} in it, {len(one.stale)} found no more"
        click.echo(f"amplint: baseline {escaped(str(one.baseline.file))}: {held}", err=True)
    click.echo(f"amplint: in all: {_spent(seconds)}", err=True)


def _lines(account: Account) -> Iterator[str]:
    yield f"project {escaped(str(account.root))}"
    yield f"  settings: {escaped(str(account.settings)) if account.settings is not None else 'none'}"
    yield f"  torch releases from: {escaped(account.torch)}"
    yield f"  results of an earlier run: {account.cache}"
    yield f"  {counted(account.files, 'file')}, {len(account.read)} of them read for AMP:"
    for name in account.read:
        yield f"    {escaped(name)}"
    yield f"  {_spent(account.seconds)}"


def _spent(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{phase} {spent:.2f} s" for phase, spent in seconds.items())
