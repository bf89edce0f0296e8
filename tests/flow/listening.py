"""Programs that say what the flow is to see in them, on the lines themselves.

``loss.backward()  # in`` means: on every path that gets here an enabled autocast region is open. ``out``: none
is open; ``off``: the innermost one is disabled; ``in, out``: some paths this way, some that; ``never``: no path
gets here. ``x.numpy()  # half`` means: ``x`` is a tensor of that type here; ``unknown``: nothing is claimed.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from amplint.amp.versions import Bounds
from amplint.events import Backward, Converted, Event, FunctionEnded, Place, Regions, innermost
from amplint.flow.core.api import Settings
from amplint.flow.driver import Driver
from amplint.flow.state.conditions import Condition, both
from amplint.flow.state.graph import Graph, Happens, Run
from amplint.flow.state.values import FALSE, TRUE, FunctionValue
from amplint.lowering.lower import lower_module
from amplint.source.project import Project

_MARK = re.compile(r"\.(?:backward|numpy)\([^#]*#\s*(?P<words>[\w, ]+)$")


class Tape:
    """What happens in a program: ``events`` are all that can happen, ``ways`` those of each path that comes to its
    end and that a rule could tell from the others, in order."""

    def __init__(self, graph: Graph) -> None:
        self.events = list(_reachable(graph, TRUE))
        run = Run(graph.kinds, _kept)
        self.ways = [way[:-1] for way in run.over(graph, ()) if way and isinstance(way[-1], FunctionEnded)]
        self.cut = run.cut

    def of(self, kind: type[Event]) -> list[Event]:
        """All events of a kind, each once for every call and situation in which it happens."""
        return [event for event in self.events if isinstance(event, kind)]

    def lines(self, kind: type[Event]) -> set[int]:
        """The lines of all events of a kind."""
        return {event.place.line for event in self.of(kind)}


def _kept(way: tuple[Event, ...], event: Event) -> tuple[Event, ...]:
    """The state of a path is what happened on it."""
    return (*way, event)


def _reachable(graph: Graph, where: Condition, calls: tuple[Place, ...] = ()) -> Iterator[Event]:
    """The events whose conditions can hold together with those of the calls that lead to them."""
    for item in graph.items:
        condition = both(where, item.condition)
        if condition == FALSE:
            continue
        if isinstance(item, Happens):
            yield replace(item.event, place=item.event.place.reached_by(calls)) if calls else item.event
        else:
            yield from _reachable(item.graph, condition, (*calls, item.place))


Holds = Callable[..., Tape]
"""The fixture ``holds``."""


def listen(
    folder: Path,
    programs: str | dict[str, str],
    *,
    start: str | None = "main",
    device: str = "cuda",
    torch: Bounds = ((2, 0), None),
) -> Tape:
    """Walks ``start`` of main.py, a function or a method, as an entry point with unknown arguments, or the whole
    module body where it is None."""
    files = {"main.py": programs} if isinstance(programs, str) else programs
    paths = []
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        paths.append(path)
    project = Project(paths)
    loaded = [file for path in paths if (file := project.load(path)) is not None]
    driver = Driver(project, loaded, Settings(torch, device))
    file = next(file for file in loaded if file.path == folder / "main.py")
    if start is None:
        program = lower_module(file)
        assert program is not None
        return Tape(driver.interpreter.walk_module(file, program))
    owner, _, name = start.rpartition(".")
    functions = file.outline.classes[owner].methods if owner else file.outline.functions
    entry = FunctionValue(file, functions[name])
    walk = driver.walk_of(
        entry,
        driver.interpreter.budget(entry, new=True, passing=False, scales=False),
        driver.receiver(driver.interpreter, entry),
    )
    assert walk is not None
    return Tape(walk.graph)


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
