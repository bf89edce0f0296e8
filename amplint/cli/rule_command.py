"""``amplint rule``: the documentation of the rules."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import click

from amplint.catalog import rule_names
from amplint.cli.completion import rules_left
from amplint.cli.failure import Failure
from amplint.cli.output import style_for, write
from amplint.report.text import LEVEL_COLORS, Style
from amplint.selectors import codes_of, suggestion
from amplint.unreadable import UnreadableFile

_LINK = re.compile(r"\[([^\[\]]+)\]\(([^\s()]+)\)")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")
_CODE = re.compile(r"`([^`]+)`")

if TYPE_CHECKING:
    from amplint.rules.base import Rule


@click.command("rule", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("selectors", nargs=-1, metavar="[NAME|CODE]...", shell_complete=rules_left)
@click.option("--all", "every", is_flag=True, help="Show the pages of all rules.")
@click.option(
    "--output-format", type=click.Choice(["text", "json"]), default="text", help="How to show them."
)
def rule_command(selectors: tuple[str, ...], every: bool, output_format: str) -> None:
    """Show the page of a rule; without a rule, list them all."""
    wanted = _codes(selectors)
    from amplint.rules import all_rules

    known: list[Rule | UnreadableFile] = [*all_rules(), UnreadableFile()]
    rules = [rule for rule in known if every or not selectors or rule.code in wanted]
    style = style_for(None)
    if output_format == "json":
        write(json.dumps([_object(rule) for rule in rules], indent=2) + "\n")
    elif selectors or every:
        write("\n".join(_readable(rule.page.strip() + "\n", style) for rule in rules))
    else:
        write(_table(rules, style))


def _codes(selectors: tuple[str, ...]) -> frozenset[str]:
    names = rule_names()
    wanted: set[str] = set()
    for selector in selectors:
        codes = codes_of(selector, names)
        if not codes:
            raise Failure(f'unknown rule "{selector}"{suggestion(selector, (*names, *names.values()))}')
        wanted |= codes
    return frozenset(wanted)


def _object(rule: Rule | UnreadableFile) -> dict[str, object]:
    return {
        "code": rule.code,
        "name": rule.name,
        "level": rule.level.value,
        "default": rule.default,
        "summary": rule.summary,
        "page": rule.page,
    }


def _table(rules: list[Rule | UnreadableFile], style: Style) -> str:
    width = max((len(rule.name) for rule in rules), default=0)
    rows = [
        f"{rule.code}  {style.paint(f'{rule.name:<{width}}', 'bold')}  "
        f"{style.paint(f'{rule.level.value:<7}', LEVEL_COLORS[rule.level.value])}  {rule.summary}\n"
        for rule in rules
    ]
    return "".join(rows)


def _readable(page: str, style: Style) -> str:
    """Markdown as it is for a pipe; for a terminal with coloured headings, code and lists."""
    if not style.color:
        return page
    lines, in_code = [], False
    for line in page.splitlines():
        if line.startswith("```"):
            in_code = not in_code
        elif in_code:
            lines.append("    " + style.paint(line, "cyan"))
        elif line.startswith("#"):
            lines.append(style.paint(line.lstrip("# "), "green" if line.startswith("## ") else "bold"))
        else:
            lines.append(_inline(line, style))
    return "\n".join(lines) + "\n"


def _inline(line: str, style: Style) -> str:
    line = _LINK.sub(lambda link: f"{link[1]} <{link[2]}>", line)
    line = _STRONG.sub(lambda strong: style.paint(strong[1], "bold"), line)
    return _CODE.sub(lambda code: style.paint(code[1], "cyan"), line)
