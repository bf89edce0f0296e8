"""The user's source in a page about a trace, each line in the colour of the precision that it ran in."""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from amplint.confirm.recording import Opened, Recording, digest_of
from amplint.confirm.trace import Trace
from amplint.report.trace_model import PRECISIONS, Line, Unit, amount, brief, lines_of, moved, times
from amplint.report.trace_page import Links, color
from amplint.source.decoding import Unreadable
from amplint.source.decoding import lines_of as split_lines
from amplint.source.texts import read_source

_MOST_IN_TIP = 6


def paths_of(recording: Recording, trace: Trace) -> list[str]:
    """The files that a page shows."""
    paths = {op.path for op in trace.ops} | {cast.path for cast in trace.casts}
    paths |= {module.path for module in trace.modules} | {opened.path for opened in recording.opened}
    return sorted(paths)


def render(recording: Recording, trace: Trace, paths: Sequence[str], links: Links, unit: Unit) -> str:
    """The files as HTML."""
    lines = lines_of(trace)
    parts = []
    for path in paths:
        here = [line for line in lines if line.op.path == path]
        regions = [opened for opened in recording.opened if opened.path == path]
        parts.append(_file(path, here, regions, recording, links, unit))
    return "".join(parts)


def _text_of(path: str, recording: Recording) -> str | None:
    """The file as it was in the run, or None."""
    if path in recording.files and digest_of(Path(path)) != recording.files[path]:
        return None
    try:
        return read_source(path).text
    except Unreadable:
        return None


def _file(
    path: str,
    lines: Sequence[Line],
    regions: Sequence[Opened],
    recording: Recording,
    links: Links,
    unit: Unit,
) -> str:
    text = _text_of(path, recording)
    if text is None:
        return (
            f"<h3>{escape(path)}</h3><p class=note>The file is not here as it was when the program ran.</p>"
        )
    source = _highlighted(text)
    extents = _extents(text, regions)
    by_line: dict[int, list[Line]] = {}
    for line in lines:
        by_line.setdefault(line.op.span.line, []).append(line)
    counts = recording.lines.get(path, {})
    depth = max(
        (sum(first <= at <= last for first, last, _ in extents) for at in range(1, len(source) + 1)),
        default=0,
    )
    rows = [
        _row(links.anchor(path, at), at, code, by_line.get(at, []), extents, counts.get(at), depth, unit)
        for at, code in enumerate(source, 1)
    ]
    size = sum(line.size for line in lines)
    cast = f" <small>{amount(size / unit.number)} cast per {unit.word}</small>" if size else ""
    return f"<h3>{escape(path)}{cast}</h3><div class=code>{''.join(rows)}</div>"


def _row(
    anchor: str,
    at: int,
    code: str,
    lines: Sequence[Line],
    extents: Sequence[tuple[int, int, Opened]],
    ran: int | None,
    depth: int,
    unit: Unit,
) -> str:
    inside = [(first, last, opened) for first, last, opened in extents if first <= at <= last]
    bars = [
        f"<i class='bar {_kind(opened)}{' top' if at == first else ''}{' end' if at == last else ''}'"
        f" title='{escape(_said(opened), quote=True)}'></i>"
        for first, last, opened in inside
    ]
    bars += ["<i class='bar gap'></i>"] * (depth - len(bars))
    kinds = _precisions(lines)
    kind = kinds[0] if kinds else ""
    dots = "".join(f"<i class='dot {name}'></i>" for name in kinds) if len(kinds) > 1 else ""
    size = sum(line.size for line in lines)
    badge = f"<span class=cast>{amount(size / unit.number)}</span>" if size else ""
    ran = next((opened.count for first, _, opened in inside if first == at), ran)
    tip = _tip(lines, unit) if lines else ""
    focus = " tabindex=0" if lines else ""
    how_often = f"{ran} x" if ran else ""
    return (
        f"<div class='l {kind}' id={anchor}{focus}><span class=bars>{''.join(bars)}</span><span class=n>{at}</span>"
        f"<span class=t>{how_often}</span><code>{code or ' '}</code>{dots}{badge}{tip}</div>"
    )


def _precisions(lines: Iterable[Line]) -> list[str]:
    """Those of the results, the most frequent first."""
    count: dict[str, int] = {}
    for line in lines:
        count[line.op.result] = count.get(line.op.result, 0) + line.op.count
    return sorted((name for name in PRECISIONS if name in count), key=lambda name: -count[name])


def _tip(lines: Sequence[Line], unit: Unit) -> str:
    rows = []
    for line in sorted(lines, key=lambda line: (line.op.span, -line.op.count)):
        op = line.op
        casts = "<br>".join(
            f"{escape(cast.source)} → {escape(cast.to)} {escape(cast.what)}, {escape(cast.by)}:"
            f" {amount(moved(cast) / unit.number)}"
            for cast in line.casts[:_MOST_IN_TIP]
        )
        region = f"{op.region_type}, {op.region}" if op.region else "none"
        operands = ", ".join(brief(part) for part in op.operands)
        shown = (
            f"{escape(operands)} → <b class={color(op.result)}>{escape(brief(op.result))}</b>"
            if operands
            else ""
        )
        rows.append(
            f"<tr><td>{escape(op.op)}</td><td>{shown}</td><td>{times(op.count, unit) if op.count else ''}</td>"
            f"<td>{escape(region)}</td><td>{casts}</td></tr>"
        )
    head = "<tr><th>op</th><th>operands → result</th><th>times</th><th>region</th><th>cast</th></tr>"
    return f"<div class=tip><table>{head}{''.join(rows)}</table></div>"


def _kind(opened: Opened) -> str:
    if not opened.enabled:
        return "off"
    return opened.dtype if opened.dtype in PRECISIONS else "float16"


def _said(opened: Opened) -> str:
    state = opened.dtype or "half" if opened.enabled else "off"
    return f"autocast {state} on {opened.device or 'the device'}, entered {opened.count} times"


def _extents(text: str, regions: Sequence[Opened]) -> list[tuple[int, int, Opened]]:
    """First and last line of the code that stands in each region."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    holders = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.With, ast.AsyncWith, ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    found: dict[tuple[int, int, str], Opened] = {}
    for opened in regions:
        line = opened.span.line
        for node in holders:
            first = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))])
            if first <= line < node.body[0].lineno:
                found.setdefault((first, node.end_lineno or first, _kind(opened)), opened)
    return [
        (first, last, opened) for (first, last, _), opened in sorted(found.items(), key=lambda item: item[0])
    ]


def _highlighted(text: str) -> list[str]:
    """The lines as HTML, with keywords, strings, numbers and comments marked."""
    lines = split_lines(text)
    marks: dict[int, list[tuple[int, int, str]]] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            kind = _kind_of(token)
            if kind:
                for line in range(token.start[0], token.end[0] + 1):
                    first = token.start[1] if line == token.start[0] else 0
                    last = token.end[1] if line == token.end[0] else len(lines[line - 1])
                    marks.setdefault(line, []).append((first, last, kind))
    except (tokenize.TokenError, SyntaxError, IndexError):
        pass  # what was read so far is marked
    return [_marked(line, marks.get(number, [])) for number, line in enumerate(lines, 1)]


def _kind_of(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME:
        return "k" if keyword.iskeyword(token.string) else ""
    if token.type == tokenize.COMMENT:
        return "c"
    if token.type == tokenize.STRING or tokenize.tok_name[token.type].startswith("FSTRING"):
        return "s"
    return "m" if token.type == tokenize.NUMBER else ""


def _marked(line: str, marks: Sequence[tuple[int, int, str]]) -> str:
    html, at = "", 0
    for first, last, kind in marks:
        html += escape(line[at:first]) + f"<span class={kind}>{escape(line[first:last])}</span>"
        at = last
    return html + escape(line[at:])
