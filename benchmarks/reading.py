"""A round of reading: every error and warning in projects that nobody has tuned amplint to, judged by a reader.

    python benchmarks/reading.py sheet DIR SHEET [PROJECT...]     lints each project folder of DIR, writes the sheet
    python benchmarks/reading.py summary SHEET...                 counts what readers have written in
    python benchmarks/reading.py recall SHEET LABELS              how much of a blind reading the sheet holds

The sheet is Markdown. Each finding has its message, what it assumes, its trail, the source around it and the calls of
the function that it is in. The reader fills in two lines:

    judgement: true        (or unwanted: true, but a busy reviewer would wave it away; or false)
    reason: ...

Advice is left out unless ``--advice`` is given. LABELS is a JSON list of what somebody found in the same projects
before they were linted: objects with ``project``, ``file`` and ``line``; those of ``"severity": "clean"`` are not.
A label counts as found if the sheet has a finding in its file at most ``--lines`` lines away.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import program, python_files, run, table

AROUND = 8
"""Lines of source shown before and after a finding."""
MOST_CALLS = 8
"""Calls shown of the function around a finding."""
JUDGEMENTS = ("true", "unwanted", "false")
_HEAD = re.compile(r"^## \d+\. (?P<code>AMP\d{3}) (?P<name>\S+), (?P<level>\w+)$")
_FIELD = re.compile(r"^(?P<key>project|place|assumes|judgement): *(?P<value>.*)$")


@dataclass
class Entry:
    """One finding of a filled sheet. ``judgement`` is empty as long as nobody has read it."""

    code: str
    name: str
    level: str
    project: str = ""
    place: str = ""
    assumes: str = ""
    judgement: str = ""


def lint(folder: Path, timeout: float) -> list[dict[str, Any]]:
    """The findings in a project, as amplint's JSON report has them. Ends the program if amplint fails."""
    done = run(
        [program("amplint"), "check", "--isolated", "--no-cache", "--output-format", "json", "."],
        folder,
        timeout,
    )
    if done.timed_out or done.exit_code not in (0, 1):
        sys.exit(f"amplint failed in {folder}: {'timeout' if done.timed_out else done.stderr.strip()[-500:]}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def commit_of(folder: Path) -> str:
    """The commit that is checked out in a folder, if that is the top of a repository; else empty."""
    if not (folder / ".git").exists():
        return ""
    done = subprocess.run(
        ["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def sheet_of(root: Path, names: Iterable[str], *, advice: bool, timeout: float) -> Iterator[str]:
    """The parts of a sheet."""
    number = 0
    yield "# A round of reading\n"
    for name in names:
        folder = root / name
        findings = [finding for finding in lint(folder, timeout) if advice or finding["level"] != "advice"]
        print(f"{name}: {len(findings)}", file=sys.stderr, flush=True)
        for finding in findings:
            number += 1
            yield entry_of(number, folder, finding)


def entry_of(number: int, folder: Path, finding: dict[str, Any]) -> str:
    """One finding, to be filled in."""
    commit = commit_of(folder)
    assumes = ", ".join(dict.fromkeys(one["kind"] for one in finding["assumes"])) or "nothing"
    trail = [f"- {step['path']}:{step['line']}: {step['message']}" for step in finding["trail"]]
    lines = (folder / finding["path"]).read_text("utf-8", "replace").splitlines()
    first, last = max(1, finding["line"] - AROUND), min(len(lines), finding["end_line"] + AROUND)
    source = [
        f"{'>' if finding['line'] <= at <= finding['end_line'] else ' '}{at:5} {lines[at - 1]}"
        for at in range(first, last + 1)
    ]
    return "\n".join(
        [
            f"## {number}. {finding['code']} {finding['name']}, {finding['level']}",
            "",
            f"project: {folder.name}{f' ({commit})' if commit else ''}",
            f"place: {finding['path']}:{finding['line']}",
            f"assumes: {assumes}",
            "judgement:",
            "reason:",
            "",
            finding["message"],
            "",
            *trail,
            "",
            "```python",
            *source,
            "```",
            "",
            *calls_of(folder, finding),
            "",
        ]
    )


def calls_of(folder: Path, finding: dict[str, Any]) -> list[str]:
    """Where the project calls something of the name that the function around a finding has."""
    name = function_at(folder / finding["path"], finding["line"])
    if name is None:
        return ["Not in a function."]
    found = []
    call = re.compile(rf"\b{re.escape(name)}\(")
    for path in python_files(folder):
        for at, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
            if call.search(line) and not line.lstrip().startswith(("def ", "async def ")):
                found.append(f"- {path.relative_to(folder)}:{at}: `{line.strip()[:100]}`")
    more = [f"- and {len(found) - MOST_CALLS} more"] if len(found) > MOST_CALLS else []
    return [f"Calls of `{name}`: {'' if found else 'none'}", *found[:MOST_CALLS], *more]


def function_at(path: Path, line: int) -> str | None:
    """The innermost function around a line."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:
        return None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno).name if around else None


def entries_in(text: str) -> list[Entry]:
    """What a sheet holds. Raises ValueError where a judgement is none of JUDGEMENTS."""
    entries: list[Entry] = []
    for line in text.splitlines():
        if head := _HEAD.match(line):
            entries.append(Entry(**head.groupdict()))
        elif entries and (given := _FIELD.match(line)):
            value = given["value"].strip()
            if given["key"] == "judgement" and value not in ("", *JUDGEMENTS):
                raise ValueError(f'{entries[-1].place}: "{value}" is none of {", ".join(JUDGEMENTS)}')
            setattr(entries[-1], given["key"], value)
    return entries


def summary(entries: Sequence[Entry]) -> str:
    """How often findings were true, by level, by what they assume and by rule."""
    read = [entry for entry in entries if entry.judgement]
    unread = sum(not entry.judgement for entry in entries)
    parts = [
        counted("level", ((entry.level, entry) for entry in read)),
        counted("assumes", ((one, entry) for entry in read for one in entry.assumes.split(", "))),
        counted("rule", ((f"{entry.code} {entry.name}", entry) for entry in read)),
        "Projects: " + ", ".join(sorted({entry.project for entry in read})),
    ]
    if unread:
        parts.append(f"{unread} findings have no judgement yet.")
    return "\n\n".join(parts)


def counted(title: str, entries: Iterable[tuple[str, Entry]]) -> str:
    """A table of judgements."""
    counts: dict[str, Counter[str]] = {}
    for key, entry in entries:
        counts.setdefault(key, Counter())[entry.judgement] += 1
    rows = [
        (key, *(str(count[one]) for one in JUDGEMENTS), f"{count['true'] / count.total():.2f}")
        for key, count in sorted(counts.items())
    ]
    return table((title, *JUDGEMENTS, "true of all"), rows)


def recall(entries: Iterable[Entry], labels: Iterable[dict[str, Any]], lines: int) -> str:
    """How many places of a blind reading a sheet holds, by their severity; and which it lacks."""
    said: dict[tuple[str, str], list[int]] = {}
    for entry in entries:
        path, _, line = entry.place.rpartition(":")
        said.setdefault((entry.project.partition(" ")[0], path), []).append(int(line))
    rows: dict[str, Counter[bool]] = {}
    missed = []
    for label in labels:
        severity = str(label.get("severity", "bug"))
        if severity == "clean":
            continue
        near = said.get((label["project"], label["file"]), [])
        found = any(abs(line - int(label["line"])) <= lines for line in near)
        rows.setdefault(severity, Counter())[found] += 1
        if not found:
            missed.append(f"missed: {severity} {label['project']}/{label['file']}:{label['line']}")
    counts = [(key, str(count[True]), str(count.total())) for key, count in sorted(rows.items())]
    return "\n".join([table(("severity", "found", "of"), counts), "", *missed])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("sheet")
    one.add_argument("root", type=Path)
    one.add_argument("sheet", type=Path)
    one.add_argument("projects", nargs="*")
    one.add_argument("--advice", action="store_true")
    one.add_argument("--timeout", type=float, default=600)
    two = commands.add_parser("summary")
    two.add_argument("sheets", nargs="+", type=Path)
    three = commands.add_parser("recall")
    three.add_argument("sheet", type=Path)
    three.add_argument("labels", type=Path)
    three.add_argument("--lines", type=int, default=3)
    options = parser.parse_args()
    if options.command == "sheet":
        names = options.projects or sorted(path.name for path in options.root.iterdir() if path.is_dir())
        parts = sheet_of(options.root, names, advice=options.advice, timeout=options.timeout)
        options.sheet.write_text("\n".join(parts), encoding="utf-8")
    elif options.command == "summary":
        texts = [sheet.read_text("utf-8") for sheet in options.sheets]
        print(summary([entry for text in texts for entry in entries_in(text)]))
    else:
        labels = json.loads(options.labels.read_text("utf-8"))
        print(recall(entries_in(options.sheet.read_text("utf-8")), labels, options.lines))


if __name__ == "__main__":
    main()
