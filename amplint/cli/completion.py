"""What a shell may put in the place of a word that is being typed. No rule is imported for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from amplint.catalog import rule_names
from amplint.selectors import ALL

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

BY_DEFAULT = "amplint.by_default"
"""Is set in a context's ``meta`` where nobody has named the subcommand: what is typed may be the name of one."""


def one_of(values: Iterable[str]) -> Completion:
    """Completes one of some words."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(value) for value in values if value.startswith(incomplete)]

    return complete


def rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the name of a rule, or its code where the word begins like one."""
    names = rule_names()
    found = [CompletionItem(name, help=code) for code, name in names.items() if name.startswith(incomplete)]
    if incomplete and incomplete == incomplete.upper():
        found += [
            CompletionItem(code, help=name) for code, name in names.items() if code.startswith(incomplete)
        ]
        found += [CompletionItem(ALL)] if ALL.startswith(incomplete) else []
    return found


def list_of_rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the last part of a list: ``half-model,miss``."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [
        CompletionItem(before + comma + item.value, help=item.help)
        for item in rules(ctx, param, last)
        if item.value not in given
    ]


def rules_left(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes a rule that is not among those before it."""
    given = ctx.params.get(param.name or "") or ()
    return [item for item in rules(ctx, param, incomplete) if item.value not in given]


def a_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leaves files to the shell."""
    return [CompletionItem(incomplete, type="file")]


def paths(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leaves files and directories to the shell; where no subcommand is named, these come as well."""
    found = a_file(ctx, param, incomplete)
    group = ctx.parent.command if ctx.parent is not None else None
    is_first = ctx.meta.get(BY_DEFAULT) and not ctx.params.get(param.name or "")
    if is_first and ctx.parent is not None and isinstance(group, click.Group):
        names = group.list_commands(ctx.parent)
        found += [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return found


def folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leaves directories to the shell."""
    return [CompletionItem(incomplete, type="dir")]
