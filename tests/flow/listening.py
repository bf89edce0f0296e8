"""Programs that say what the flow is to see in them, on the lines themselves.

``loss.backward()  # in`` means: on every path that gets here an enabled autocast region is open. ``out``: none
is open; ``off``: the innermost one is disabled; ``in, out``: some paths this way, some that; ``never``: no path
gets here. ``x.numpy()  # half`` means: ``x`` is a tensor of that type here; ``unknown``: nothing is claimed.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Hashable
from pathlib import Path

from amplint.amp.versions import Bounds
from amplint.events import Backward, Converted, Event, FunctionEnded, Place, Regions, innermost
from amplint.flow.engine import Engine
from amplint.source.decoding import read_source
from amplint.source.project import Project

_MARK = re.compile(r"\.(?:backward|numpy)\([^#]*#\s*(?P<words>[\w, ]+)$")


class Tape:
    """A listener that keeps every event, and for each path the events on it in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ways: list[tuple[Event, ...]] = []

    def start(self) -> Hashable:
        """No event yet."""
        return ()

    def hear(self, machines: Hashable, event: Event) -> Hashable:
        """The state of a path is what was heard on it."""
        assert isinstance(machines, tuple)
        self.events.append(event)
        if isinstance(event, FunctionEnded):
            self.ways.append(machines)
        return (*machines, event)

    def of(self, kind: type[Event]) -> list[Event]:
        """All events of a kind, each once for every time that it was heard."""
        return [event for event in self.events if isinstance(event, kind)]

    def lines(self, kind: type[Event]) -> set[int]:
        """The lines of all events of a kind."""
        return {event.place.line for event in self.of(kind)}


class Forgetful(Tape):
    """A tape of which all paths look alike, so that they are joined wherever they meet."""

    def hear(self, machines: Hashable, event: Event) -> Hashable:
        """The state stays the same."""
        self.events.append(event)
        return machines


Holds = Callable[..., Tape]
"""The fixture ``holds``."""


def listen(
    folder: Path,
    programs: str | dict[str, str],
    *,
    start: str | None = "main",
    device: str = "cuda",
    torch: Bounds = ((2, 0), None),
    tape: Tape | None = None,
) -> Tape:
    """Walks ``start`` of main.py, a function or a method, or the whole module body where it is None."""
    files = {"main.py": programs} if isinstance(programs, str) else programs
    paths = []
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        paths.append(path)
    project = Project(paths)
    tape = tape or Tape()
    engine = Engine(project, tape, device=device, torch=torch)
    file = project.add(read_source(folder / "main.py"))
    if start is None:
        engine.run_module(file)
        return tape
    owner, _, name = start.rpartition(".")
    functions = file.outline.classes[owner].methods if owner else file.outline.functions
    engine.run_function(file, functions[name])
    return tape


def seen(tape: Tape) -> dict[tuple[str, int], set[str]]:
    """What the marks should have said: (file name, line) -> words."""
    words: dict[tuple[str, int], set[str]] = {}
    for event in tape.events:
        if isinstance(event, Backward):
            words.setdefault(_where(event.place), set()).add(_state(event.regions))
        elif isinstance(event, Converted):
            dtype = event.operand.dtype
            words.setdefault(_where(event.place), set()).add(dtype.value if dtype is not None else "unknown")
    return words


def _where(place: Place) -> tuple[str, int]:
    return Path(place.path).name, place.line


def _state(regions: Regions) -> str:
    region = innermost(regions)
    return "out" if region is None else "in" if region.enabled else "off"


def differences(folder: Path, tape: Tape) -> list[str]:
    """The marked lines at which something else was seen."""
    found = seen(tape)
    wrong = []
    for path in sorted(folder.rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            mark = _MARK.search(line)
            if mark is None:
                continue
            wanted = {word.strip() for word in mark["words"].split(",")}
            given = found.get((path.name, number)) or {"unknown" if ".numpy(" in line else "never"}
            if given != wanted:
                wrong.append(f"{path.name}:{number}: {line.strip()}  (seen: {', '.join(sorted(given))})")
    return wrong
