"""The user's source, each line in the colour of the precision that it ran in: one HTML file that needs nothing else."""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from amplint.confirm.recording import SIMULATED, Opened, Recording
from amplint.report.text import counted
from amplint.report.trace_table import Line, amount, brief, lines_of
from amplint.source.decoding import Unreadable, read_source
from amplint.source.decoding import lines_of as split_lines

_PRECISIONS = ("float16", "bfloat16", "float32", "float64")
_SOFT = (tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER)


def render(recording: Recording) -> str:
    """The page."""
    lines = lines_of(recording)
    paths = sorted({line.op.path for line in lines} | {opened.path for opened in recording.opened})
    parts = []
    for number, path in enumerate(paths):
        here = [line for line in lines if line.op.path == path]
        regions = [opened for opened in recording.opened if opened.path == path]
        parts.append(_file(path, here, regions, recording, number))
    page = files("amplint.report").joinpath("trace.html").read_text(encoding="utf-8")
    values = {
        "title": escape(" ".join(recording.command)),
        "facts": _facts(recording),
        "legend": _legend(lines),
        "files": "\n".join(f'<a href="#f{number}">{escape(path)}</a>' for number, path in enumerate(paths)),
        "body": "\n".join(parts) or "<p>No tensor op ran in the user's code.</p>",
    }
    for name, value in values.items():
        page = page.replace(f"<!--{name}-->", value)
    return page


def _facts(recording: Recording) -> str:
    device = "CUDA simulated on CPU" if recording.device == SIMULATED else recording.device_name or "CPU"
    size = sum(cast.size for cast in recording.casts)
    facts = {
        "device": device,
        "torch": f"{recording.torch}, {recording.op_table}" if recording.op_table else recording.torch,
        "steps": str(recording.steps),
        "end": recording.ended,
        "cast by autocast": f"{amount(size)} in {counted(sum(c.count for c in recording.casts), 'cast')}",
    }
    rows = [f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items() if value]
    notes = [f"<p class=note>{escape(note)}</p>" for note in recording.notes]
    return f"<dl>{''.join(rows)}</dl>{''.join(notes)}"


def _legend(lines: Sequence[Line]) -> str:
    count: dict[str, int] = {}
    for line in lines:
        if line.op.region:
            count[line.op.result] = count.get(line.op.result, 0) + line.op.count
    total = sum(count.get(name, 0) for name in _PRECISIONS)
    chips = [
        f"<span class='chip {name}'>{name} <b>{_share(count.get(name, 0), total)}</b></span>"
        for name in _PRECISIONS
        if any(line.op.result == name for line in lines)
    ]
    return "".join(chips)


def _share(part: int, whole: int) -> str:
    """That of the ops in regions."""
    if not part or not whole:
        return ""
    return f"{100 * part / whole:.0f} %" if 200 * part >= whole else "< 1 %"


def _file(
    path: str, lines: Sequence[Line], regions: Sequence[Opened], recording: Recording, number: int
) -> str:
    try:
        text = read_source(path).text
    except Unreadable:
        text = ""
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
        _row(at, code, by_line.get(at, []), extents, counts.get(at), depth)
        for at, code in enumerate(source, 1)
    ]
    size = sum(line.size for line in lines)
    cast = f" <small>{amount(size)} cast</small>" if size else ""
    return (
        f"<section id=f{number}><h2>{escape(path)}{cast}</h2><div class=code>{''.join(rows)}</div></section>"
    )


def _row(
    at: int,
    code: str,
    lines: Sequence[Line],
    extents: Sequence[tuple[int, int, Opened]],
    ran: int | None,
    depth: int,
) -> str:
    inside = [(first, last, opened) for first, last, opened in extents if first <= at <= last]
    bars = [
        f"<i class='bar {_kind(opened)}{' top' if at == first else ''}{' end' if at == last else ''}'"
        f" title='{escape(_said(opened), quote=True)}'></i>"
        for first, last, opened in inside
    ]
    bars += ["<i class='bar none'></i>"] * (depth - len(bars))
    kinds = _precisions(lines)
    kind = kinds[0] if kinds else ""
    dots = "".join(f"<i class='dot {name}'></i>" for name in kinds) if len(kinds) > 1 else ""
    size = sum(line.size for line in lines)
    badge = f"<span class=cast>{amount(size)}</span>" if size else ""
    ran = next((opened.count for first, _, opened in inside if first == at), ran)
    tip = _tip(lines) if lines else ""
    focus = " tabindex=0" if lines else ""
    times = f"{ran} x" if ran else ""
    return (
        f"<div class='l {kind}'{focus}><span class=bars>{''.join(bars)}</span><span class=n>{at}</span>"
        f"<span class=t>{times}</span><code>{code or ' '}</code>{dots}{badge}{tip}</div>"
    )


def _precisions(lines: Iterable[Line]) -> list[str]:
    """Those of the results, the most frequent first."""
    count: dict[str, int] = {}
    for line in lines:
        count[line.op.result] = count.get(line.op.result, 0) + line.op.count
    return sorted((name for name in _PRECISIONS if name in count), key=lambda name: -count[name])


def _tip(lines: Sequence[Line]) -> str:
    rows = []
    for line in sorted(lines, key=lambda line: (line.op.span, -line.op.count)):
        op = line.op
        casts = "<br>".join(
            f"{escape(cast.source)} → {escape(cast.to)}: {amount(cast.size)} in {cast.count}"
            for cast in line.casts
        )
        region = f"{op.region_type}, {op.region}" if op.region else "none"
        operands = ", ".join(brief(part) for part in op.operands)
        rows.append(
            f"<tr><td>{escape(op.op)}</td><td>{escape(operands)} → <b class='{escape(op.result)}'>"
            f"{escape(brief(op.result))}</b></td><td>{op.count or ''}</td><td>{escape(region)}</td>"
            f"<td>{casts}</td></tr>"
        )
    head = "<tr><th>op</th><th>operands → result</th><th>times</th><th>region</th><th>cast</th></tr>"
    return f"<div class=tip><table>{head}{''.join(rows)}</table></div>"


def _kind(opened: Opened) -> str:
    if not opened.enabled:
        return "off"
    return opened.dtype if opened.dtype in _PRECISIONS else "float16"


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
