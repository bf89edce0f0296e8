"""The frame of a page about a trace, and its parts: one HTML file that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files

from amplint.report.trace_model import PRECISIONS, amount, percent, shares

_SLOT = re.compile("<!--([a-z]+)-->")


def page(
    title: str, heading: str, head: str, sections: Sequence[tuple[str, str, str]], foot: str = ""
) -> str:
    """The page. ``title`` is text; all else is HTML: ``sections`` are an identifier, a name and the content of each."""
    shown = [part for part in sections if part[2]]
    parts = {
        "title": escape(title),
        "style": _file("trace.css"),
        "script": _file("trace.js"),
        "heading": heading,
        "head": head,
        "nav": "".join(f'<a href="#{key}">{escape(name)}</a>' for key, name, _ in shown),
        "body": "\n".join(f'<section id="{key}">{content}</section>' for key, _, content in shown),
        "foot": foot,
    }
    return _SLOT.sub(lambda slot: parts[slot[1]], _file("trace.html"))


def _file(name: str) -> str:
    return files("amplint.report").joinpath(name).read_text(encoding="utf-8")


def facts(values: Mapping[str, str]) -> str:
    """Names with their values, which are text."""
    rows = [
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in values.items()
        if value
    ]
    return f"<dl>{''.join(rows)}</dl>"


def color(dtype: str) -> str:
    """The class that gives a type its colour."""
    return dtype if dtype in PRECISIONS else "off" if dtype == "off" else "other"


def bar(sizes: Mapping[str, int], ops: Mapping[str, int]) -> str:
    """A bar of the types' shares of the bytes, and these as text."""
    parts = shares(sizes)
    counts = dict(shares(ops))
    said = ", ".join(
        f"{name} {percent(share)} of the bytes, {percent(counts.get(name, 0))} of the ops"
        for name, share in parts
    )
    cells = "".join(f"<i class={color(name)} style='width:{100 * share:.2f}%'></i>" for name, share in parts)
    text = " ".join(f"{escape(name)} {percent(share)}" for name, share in parts)
    picture = f'<div class="mix" role="img" title="{escape(said)}" aria-label="{escape(said)}">{cells}</div>'
    return f"{picture}<small>{text}</small>"


def cast(source: str, to: str) -> str:
    """Two types and an arrow."""
    return f"<b class={color(source)}>{escape(source)}</b> → <b class={color(to)}>{escape(to)}</b>"


def number(value: float, text: str) -> str:
    """A cell with a number that is sorted by its value."""
    return f'<td class="num" data-v="{value:g}">{escape(text)}</td>'


def size(value: float) -> str:
    """A cell with a number of bytes."""
    return number(value, amount(value) if value else "")


def table(heads: Sequence[tuple[str, bool]], rows: Iterable[str], order: int | None = None) -> str:
    """A table whose columns can be sorted: names, and whether they hold numbers. ``order`` is the column by which the
    rows are sorted already."""
    cells = []
    for index, (name, is_number) in enumerate(heads):
        sort = f' aria-sort="{"descending" if is_number else "ascending"}"' if index == order else ""
        kind = ' class="num"' if is_number else ""
        cells.append(f'<th scope="col"{kind}{sort}><button type="button">{escape(name)}</button></th>')
    return (
        f'<div class="wide"><table class="rows"><thead><tr>{"".join(cells)}</tr></thead>'
        f'<tbody>{"".join(rows)}</tbody></table><p class="none" hidden>Nothing matches.</p></div>'
    )


def row(cells: Iterable[str], data: Mapping[str, str], *, kind: str = "", anchor: str = "") -> str:
    """A row; ``data`` is what the search ("text", in small letters), selections and the tree ("name") ask for."""
    attributes = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
    named = f' id="{anchor}"' if anchor else ""
    return f"<tr{named}{f' class={kind}' if kind else ''}{attributes}>{''.join(cells)}</tr>"


def choice(name: str, label: str, values: Iterable[str]) -> str:
    """A selection among values, or none where there is nothing to choose."""
    options = sorted(set(values))
    if len(options) < 2:
        return ""
    listed = "".join(f'<option value="{escape(value)}">{escape(value)}</option>' for value in options)
    return (
        f'<label>{escape(label)} <select name="{name}"><option value="">all</option>{listed}</select></label>'
    )


class Links:
    """Leads to the lines of the files that are in the page."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._numbers = {path: number for number, path in enumerate(paths)}

    def anchor(self, path: str, line: int) -> str:
        """The identifier of a line, or "" if the file is not in the page."""
        return f"s{self._numbers[path]}-{line}" if path in self._numbers else ""

    def to(self, path: str, line: int, text: str = "") -> str:
        """A link to a line, with the text that stands there."""
        anchor = self.anchor(path, line)
        shown = f"{escape(path)}:{line}"
        linked = f'<a href="#{anchor}">{shown}</a>' if anchor else shown
        return linked + (f"<code>{escape(text)}</code>" if text else "")
