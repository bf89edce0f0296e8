"""The report of a cross-check: each finding with what the run says of it, then what the run saw besides."""

from __future__ import annotations

import json
from typing import Any

from amplint.check import CheckResult
from amplint.confirm.recording import CPU, SIMULATED, Recording
from amplint.confirm.verdicts import CrossCheck, Status, Verdict
from amplint.report.full import Shown, block
from amplint.report.github import command
from amplint.report.json import as_object
from amplint.report.sources import Sources
from amplint.report.text import (
    Style,
    counted,
    escaped,
    kind_of,
    painted_kind,
    place_of,
    wrapped,
)

_COLORS = {
    Status.CONFIRMED: "red",
    Status.MISSED: "red",
    Status.INCONCLUSIVE: "yellow",
    Status.REFUTED: "green",
    Status.NOT_REACHED: "dim",
    Status.NOT_OBSERVABLE: "dim",
}
"""In the order in which verdicts are listed."""

_WITH_SOURCE = (Status.CONFIRMED, Status.MISSED)


def render(result: CheckResult, crossed: CrossCheck, style: Style) -> str:
    """The report for reading: what is true with its source lines and evidence, the rest in two lines each."""
    sources = Sources(result)
    shown: Shown = set()
    blocks = []
    for status in _COLORS:
        for verdict in crossed.with_status(status):
            lines = (
                _in_full(verdict, sources, style, shown)
                if status in _WITH_SOURCE
                else _in_short(verdict, sources, style)
            )
            blocks.append("\n".join([_headline(verdict, style), *lines]) + "\n")
    return "\n".join([*blocks, *_last_lines(crossed, style)]) + "\n"


def render_json(result: CheckResult, crossed: CrossCheck, style: Style) -> str:
    """One object: device, torch, steps, how the run ended, the findings and what was missed."""
    sources = Sources(result)
    recording = crossed.recording
    value = {
        "device": recording.device,
        "device_name": recording.device_name,
        "torch": recording.torch,
        "op_table": recording.op_table,
        "command": list(recording.command),
        "steps": recording.steps,
        "skipped": recording.skipped,
        "ended": recording.ended,
        "status": recording.status,
        "is_cut": recording.is_cut,
        "ranks": list(recording.ranks),
        "notes": list(recording.notes),
        "findings": [_object(verdict, sources) for verdict in crossed.findings],
        "missed": [_object(verdict, sources) for verdict in crossed.missed],
        "in_libraries": len(crossed.in_libraries),
    }
    return json.dumps(value, indent=2) + "\n"


def render_github(result: CheckResult, crossed: CrossCheck, style: Style) -> str:
    """Annotations for what the run confirmed and for what it saw besides; the rest is counted."""
    told = sorted(
        crossed.with_status(*_WITH_SOURCE),
        key=lambda verdict: (verdict.finding.level.rank, verdict.finding.order),
    )
    sources = Sources(result)
    lines = [
        command(
            verdict.finding, sources, [_summed_up(verdict), *(f"seen: {piece}" for piece in verdict.evidence)]
        )
        for verdict in told
    ]
    return "\n".join([*lines, *_last_lines(crossed, Style())]) + "\n"


def _object(verdict: Verdict, sources: Sources) -> dict[str, Any]:
    return {
        **as_object(verdict.finding, sources),
        "verdict": verdict.status.value,
        "count": verdict.count,
        "evidence": list(verdict.evidence),
        "reason": verdict.reason,
        "ranks": list(verdict.ranks),
    }


def _headline(verdict: Verdict, style: Style) -> str:
    return style.paint(_summed_up(verdict), _COLORS[verdict.status])


def _summed_up(verdict: Verdict) -> str:
    """ "confirmed 12 times (CUDA simulated on CPU)"."""
    times = "once" if verdict.count == 1 else f"{verdict.count} times"
    match verdict.status:
        case Status.CONFIRMED:
            text = f"confirmed {times}"
        case Status.MISSED:
            text = f"missed by the static pass, seen {times}"
        case Status.REFUTED:
            text = f"refuted in this run: its line ran {times} and it was false each time"
        case _:
            return f"{verdict.status.value}: {verdict.reason}"
    if len(verdict.ranks) > 1:
        text += f" by ranks {', '.join(map(str, verdict.ranks))}"
    elif verdict.ranks:
        text += f" by rank {verdict.ranks[0]}"
    return text + (f" ({verdict.reason})" if verdict.reason else "")


def _in_full(verdict: Verdict, sources: Sources, style: Style, shown: Shown) -> list[str]:
    lines = block(verdict.finding, sources, style, shown)
    margin = " " * (len(str(verdict.finding.span.end_line)) + 1)
    return [*lines, *_evidence(verdict, margin, style)]


def _in_short(verdict: Verdict, sources: Sources, style: Style) -> list[str]:
    finding = sources.in_cell(verdict.finding)
    kind = kind_of(finding)
    text = f"{place_of(finding)}: {kind} {finding.code} {escaped(finding.message)}"
    first, *rest = wrapped(text, style, "    ")
    first = first.replace(kind, painted_kind(finding, style), 1)
    return [first, *rest, *_evidence(verdict, "  ", style)]


def _evidence(verdict: Verdict, margin: str, style: Style) -> list[str]:
    return [
        line
        for piece in verdict.evidence
        for line in wrapped(f"{margin}= seen: {escaped(piece)}", style, margin + "        ")
    ]


def _last_lines(crossed: CrossCheck, style: Style) -> list[str]:
    recording = crossed.recording
    counts = []
    for status in _COLORS:
        number = sum(verdict.status is status for verdict in crossed.findings)
        if number:
            counts.append(style.paint(f"{number} {status.value}", _COLORS[status]))
    text = f"{counted(len(crossed.findings), 'finding')}"
    if counts:
        text += f": {', '.join(counts)}"
    if crossed.missed:
        text += f"; the run saw {len(crossed.missed)} more"
    if crossed.in_libraries:
        text += f"; {len(crossed.in_libraries)} more in libraries (`amplint confirm --libraries` shows them)"
    notes = [style.paint(f"note: {escaped(note)}", "yellow") for note in recording.notes]
    return [*notes, described_run(recording), style.paint(text, "bold") if not style.color else text + "."]


def described_run(recording: Recording) -> str:
    """What was run on what, and how it ended."""
    place = {SIMULATED: "CUDA simulated on CPU", CPU: "the CPU"}.get(
        recording.device, recording.device_name or "CUDA"
    )
    table = f", {recording.op_table}" if recording.op_table else ""
    ranks = f", {len(recording.ranks)} ranks" if len(recording.ranks) > 1 else ""
    end = {
        "finished": f"it exited with {recording.status}" if recording.status > 0 else "it finished",
        "stopped": "stopped after as many as wanted",
        "timed out": "stopped when its time was over",
        "raised": f"it failed with status {recording.status}",
        "killed": "it was killed" + (f" by signal {-recording.status}" if recording.status < 0 else ""),
    }.get(recording.ended, recording.ended)
    for raised in recording.raised[:1]:
        who = "the simulation ended the run:" if raised.not_simulated else "it raised"
        end = f"{who} {raised.type}: {raised.text}".rstrip(".")
    command = escaped(" ".join(recording.command))
    skipped = f", {recording.skipped} of them skipped by the scaler" if recording.skipped else ""
    steps = counted(recording.steps, "optimizer step") + skipped
    if recording.is_cut:
        steps = f"at least {steps}" if recording.steps else "no optimizer step was recorded"
    if not recording.torch:
        other = f", and started `{escaped(recording.elsewhere)}`" if recording.elsewhere else ""
        return f"Ran {command}, which did not import torch{other}: nothing was observed; {escaped(end)}."
    return f"Ran {command} on {place} (torch {recording.torch}{table}{ranks}): {steps}; {escaped(end)}."
