"""What a run showed, as data: kept in a file, carried to another machine, judged there.

A recording knows neither torch nor the objects of the run. Places are paths, relative to the directory in which
the run was started, and spans.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from amplint.confirm import trace as traces
from amplint.confirm.trace import Trace
from amplint.findings import Finding, Level, Span, TrailStep

FORMAT = 1
"""Raised when the files of older releases cannot be read any more."""

REAL, SIMULATED, CPU = "cuda", "simulated-cuda", "cpu"
"""What the run took place on."""

FINISHED, STOPPED, TIMED_OUT, RAISED, KILLED = "finished", "stopped", "timed out", "raised", "killed"
"""How a run ended: by itself, after the wanted number of steps, out of time, with an exception or an exit
status of its own, from outside."""


class NoRecording(ValueError):  # noqa: N818
    """A file is no recording that this release can read."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A finding that a rule made of the events of the run."""

    finding: Finding
    count: int = 1
    evidence: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    by_library: bool = False
    """Whether the code of a library did it, which the place calls."""
    told_by_text: bool = False
    """Whether it rests on what only the text tells, too."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Events of one kind at one place. ``inside`` of them took place in an enabled region; ``dtypes`` are the
    types of the operands, as far as events have any."""

    kind: str
    path: str
    span: Span
    count: int
    inside: int = 0
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """How the region at a place was entered."""

    path: str
    span: Span
    device: str | None
    dtype: str | None
    enabled: bool
    count: int


@dataclass(frozen=True, slots=True)
class Hidden:
    """Events of a kind that the run could not show at a place, although they may happen there elsewhere, and why."""

    kind: str
    path: str
    span: Span
    reason: str


@dataclass(frozen=True, slots=True)
class Raised:
    """The exception that ended the run. ``stack`` holds the lines of the user's code, the innermost last."""

    type: str
    text: str
    stack: tuple[tuple[str, int], ...]
    rank: int = 0
    not_simulated: bool = False
    """Whether it came of something that simulated CUDA does not have: what would have followed is not known."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One run, or one process of it. ``ended`` is one of FINISHED … KILLED, ``status`` the exit status."""

    device: str
    device_name: str = ""
    torch: str = ""
    op_table: str = ""
    """Which measured policies the run was read with, and simulated by: "op table of torch 2.13"."""
    command: tuple[str, ...] = ()
    exact: bool = True
    """Whether places are exact; before Python 3.11 they are lines."""
    told: tuple[str, ...] = ()
    """The kinds of events that the probe tells of: a rule that listens to others cannot be refuted by it."""
    steps: int = 0
    skipped: int = 0
    """Steps that a scaler left out because a gradient was inf or nan; they are among ``steps``."""
    ended: str = FINISHED
    status: int = 0
    is_cut: bool = False
    """Whether a process was gone before it could write the end of its record: what follows is not known."""
    ranks: tuple[int, ...] = (0,)
    is_worker: bool = False
    """Whether another process that was observed started it."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path -> SHA-256 of the content of each of the user's files that ran."""
    seen: tuple[Seen, ...] = ()
    reached: tuple[Reached, ...] = ()
    opened: tuple[Opened, ...] = ()
    raised: tuple[Raised, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    unobserved: str = ""
    """Why a part of the run was not observed; empty if all of it was."""
    elsewhere: str = ""
    """A Python program that the run has started and that was not observed; empty if there was none."""
    lines: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Path -> line -> how often it ran, as far as lines were counted."""
    notes: tuple[str, ...] = ()
    trace: Trace | None = None
    """The precision of the run, where it was traced."""

    @property
    def is_whole(self) -> bool:
        """Whether the run came to an end that rules about endings may judge."""
        return self.ended in (FINISHED, STOPPED)


def as_text(recording: Recording) -> str:
    """A recording as JSON."""
    return json.dumps({"format": FORMAT, **asdict(recording)}, indent=1)


def from_text(text: str, source: object = "this") -> Recording:
    """The recording in a text, which comes from ``source``. Raises NoRecording."""
    try:
        value = json.loads(text)
        if value.get("format") != FORMAT:
            raise NoRecording(f"{source} was written by another release of amplint")
        return _recording(value)
    except NoRecording:
        raise
    except traces.OtherFormat as error:
        raise NoRecording(
            f"the trace in {source} was written by another release of amplint: {error}; record it anew"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoRecording(f"{source} is no recording of a run") from error


def write(recording: Recording, target: Path) -> None:
    """Writes the file at once, so that a reader never sees a part of it."""
    beside = target.with_name(f"{target.name}.{os.getpid()}.part")
    beside.write_text(as_text(recording), encoding="utf-8")
    beside.replace(target)


def read(source: Path) -> Recording:
    """The recording in a file. Raises NoRecording or OSError."""
    try:
        text = source.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise NoRecording(f"{source} is no recording of a run") from error
    return from_text(text, source)


def displayed(file: str, root: Path) -> str:
    """A path as it is shown: relative to the root, if it lies below it."""
    path = Path(file).resolve()
    try:
        return path.relative_to(root).as_posix()
    except ValueError:
        return path.as_posix()


def digest_of(path: Path) -> str | None:
    """The SHA-256 of a file, or None if it cannot be read."""
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def with_files(recording: Recording, digests: Mapping[str, str | None]) -> Recording:
    """The recording with the content hashes of the files that could be read."""
    return replace(recording, files={path: digest for path, digest in digests.items() if digest is not None})


def merged(recordings: Sequence[Recording]) -> Recording:
    """The recording of several processes of one run, which ends as those end that were not started by others."""
    if len(recordings) == 1:
        return recordings[0]
    recordings = sorted(recordings, key=lambda recording: recording.is_worker)
    first = recordings[0]
    leading = [recording for recording in recordings if recording.is_worker == first.is_worker]
    # one that never imported torch has nothing to say of it
    on = next((recording for recording in recordings if recording.torch), first)
    files: dict[str, str] = {}
    for recording in recordings:
        files.update(recording.files)
    order = (FINISHED, STOPPED, TIMED_OUT, RAISED, KILLED)
    return replace(
        first,
        device=on.device,
        device_name=on.device_name,
        torch=on.torch,
        op_table=on.op_table,
        told=on.told,
        steps=max(recording.steps for recording in recordings),
        skipped=max(recording.skipped for recording in recordings),
        ended=max((recording.ended for recording in leading), key=order.index),
        status=next((recording.status for recording in leading if recording.status), 0),
        is_cut=any(recording.is_cut for recording in recordings),
        ranks=tuple(sorted({rank for recording in recordings for rank in recording.ranks})),
        files=files,
        seen=_merged_seen(recordings),
        reached=_merged_reached(recording.reached for recording in recordings),
        opened=_merged_opened(recording.opened for recording in recordings),
        # what a worker raises is what its parent then raises something of
        raised=tuple(
            raised for recording in (*recordings[len(leading) :], *leading) for raised in recording.raised
        ),
        hidden=tuple(dict.fromkeys(part for recording in recordings for part in recording.hidden)),
        unobserved=next((recording.unobserved for recording in recordings if recording.unobserved), ""),
        elsewhere=next((recording.elsewhere for recording in recordings if recording.elsewhere), ""),
        lines=_merged_lines(recording.lines for recording in recordings),
        trace=traces.merged(recording.trace for recording in recordings if recording.trace is not None),
        notes=tuple(dict.fromkeys(note for recording in recordings for note in recording.notes)),
    )


def _merged_seen(recordings: Sequence[Recording]) -> tuple[Seen, ...]:
    found: dict[tuple[str, str, Span, str], Seen] = {}
    for recording in recordings:
        for seen in recording.seen:
            finding = seen.finding
            key = (finding.code, finding.path, finding.span, finding.text)
            known = found.get(key)
            seen = replace(seen, ranks=seen.ranks or recording.ranks)
            if known is not None:
                seen = replace(
                    known,
                    count=known.count + seen.count,
                    evidence=tuple(dict.fromkeys((*known.evidence, *seen.evidence))),
                    ranks=tuple(sorted({*known.ranks, *seen.ranks})),
                    by_library=known.by_library and seen.by_library,
                )
            found[key] = seen
    return tuple(found.values())


def _merged_reached(parts: Iterable[Iterable[Reached]]) -> tuple[Reached, ...]:
    found: dict[tuple[str, str, Span], Reached] = {}
    for part in parts:
        for reached in part:
            key = (reached.kind, reached.path, reached.span)
            known = found.get(key)
            if known is not None:
                reached = replace(
                    known,
                    count=known.count + reached.count,
                    inside=known.inside + reached.inside,
                    dtypes=tuple(dict.fromkeys((*known.dtypes, *reached.dtypes))),
                )
            found[key] = reached
    return tuple(found.values())


def _merged_opened(parts: Iterable[Iterable[Opened]]) -> tuple[Opened, ...]:
    found: dict[Opened, int] = {}
    for part in parts:
        for opened in part:
            key = replace(opened, count=0)
            found[key] = found.get(key, 0) + opened.count
    return tuple(replace(opened, count=count) for opened, count in found.items())


def _merged_lines(parts: Iterable[Mapping[str, Mapping[int, int]]]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for part in parts:
        for path, lines in part.items():
            total = found.setdefault(path, {})
            for line, count in lines.items():
                total[line] = total.get(line, 0) + count
    return found


def _recording(value: Mapping[str, Any]) -> Recording:
    return Recording(
        device=str(value["device"]),
        device_name=str(value["device_name"]),
        torch=str(value["torch"]),
        op_table=str(value.get("op_table", "")),
        command=tuple(map(str, value["command"])),
        exact=bool(value["exact"]),
        told=tuple(map(str, value["told"])),
        steps=int(value["steps"]),
        skipped=int(value["skipped"]),
        ended=str(value["ended"]),
        status=int(value["status"]),
        is_cut=bool(value.get("is_cut")),
        ranks=tuple(map(int, value["ranks"])),
        is_worker=bool(value.get("is_worker")),
        files={str(path): str(digest) for path, digest in value["files"].items()},
        seen=tuple(map(_seen, value["seen"])),
        reached=tuple(
            Reached(**{**part, "span": Span(**part["span"]), "dtypes": tuple(part["dtypes"])})
            for part in value["reached"]
        ),
        opened=tuple(Opened(**{**part, "span": Span(**part["span"])}) for part in value["opened"]),
        raised=tuple(
            Raised(**{**part, "stack": tuple((str(path), int(line)) for path, line in part["stack"])})
            for part in value["raised"]
        ),
        hidden=tuple(Hidden(**{**part, "span": Span(**part["span"])}) for part in value.get("hidden", ())),
        unobserved=str(value.get("unobserved", "")),
        elsewhere=str(value.get("elsewhere", "")),
        lines={
            str(path): {int(line): int(count) for line, count in lines.items()}
            for path, lines in value["lines"].items()
        },
        notes=tuple(map(str, value["notes"])),
        trace=traces.from_value(value["trace"]) if value.get("trace") is not None else None,
    )


def _seen(value: Mapping[str, Any]) -> Seen:
    made = value["finding"]
    trail = tuple(TrailStep(step["path"], Span(**step["span"]), step["message"]) for step in made["trail"])
    finding = Finding(
        made["code"],
        made["name"],
        Level(made["level"]),
        made["message"],
        made["path"],
        Span(**made["span"]),
        trail,
        why=made.get("why", ""),
        help=made.get("help", ""),
    )
    return Seen(
        finding,
        int(value["count"]),
        tuple(value["evidence"]),
        tuple(value["ranks"]),
        bool(value.get("by_library")),
        bool(value.get("told_by_text")),
    )
