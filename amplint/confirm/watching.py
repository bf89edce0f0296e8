"""What the watchers of a probe share: whom they tell, where the user's code is, and what is known of its tensors.

A watcher replaces a part of torch by what tells of it: one module each, which knows a ``Watch`` and not the probe that
installs it.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import torch
from torch.utils.hooks import RemovableHandle

from amplint.confirm.answers import RunContext
from amplint.confirm.levels import Level
from amplint.confirm.numbers import Numbers
from amplint.confirm.patches import Patches
from amplint.confirm.places import Site, Sites
from amplint.confirm.provenance import History, Names, Notes, Owners, Penalty, Scaled
from amplint.events import Event, ObjectGone, Place, Region, Regions


class Listener(Protocol):
    """Hears events, in the order in which they happen; from several threads, but never two at a time. An op
    that meets the same operands at the same place again is told by the same object."""

    def hear(self, event: Event) -> None:
        """What to do about an event."""


@dataclass(frozen=True)
class Started:
    """Where a thread got what it runs, and the regions there and in the thread."""

    site: Site
    outside: Regions
    inside: Regions


class Mode(Protocol):
    """A mode of torch: while it is entered, ops of the thread pass through it."""

    def __enter__(self) -> object: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> object: ...


class ThreadState(threading.local):
    """What is going on in a thread."""

    def __init__(self) -> None:
        super().__init__()
        self.entered: list[tuple[int, Region]] = []
        self.regions: Regions = ()
        self.backward = 0
        self.functions = 0
        self.forward = 0
        self.scaler: Hashable = None
        self.quiet = 0
        self.modes: list[Any] = []
        self.cache: object = None
        """Stands for what the weight cache holds."""
        self.started: Started | None = None


class Watch:
    """What is told, by whom it is heard, and what the watchers keep in mind for each other.

    ``is_user_file`` says of a file name, as code objects have it, whether it is the user's code; displayed
    paths are relative to ``root``; ``device`` is the device that the run is on, or is taken to be on, as a
    rule "cuda". ``notes`` says in words what the probe changed or could not do; ``errors`` are tracebacks of
    what a listener or the probe itself raised, which never reaches the user's code. ``context`` knows what rules may
    ask.
    """

    def __init__(
        self,
        listener: Listener,
        *,
        is_user_file: Callable[[str], bool],
        root: Path,
        device: str = "cuda",
        level: Level = Level.FUNCTIONS,
        keeps_compile: bool = False,
    ) -> None:
        self.listener = listener
        self.context = RunContext()
        self.device = device
        self.level = level
        self.keeps_compile = keeps_compile
        self.sites = Sites(is_user_file, root)
        self.histories: Notes[History] = Notes()
        self.scaled: Notes[Scaled] = Notes()
        self.gradients: Notes[frozenset[Hashable]] = Notes()
        self.copies: Notes[bool] = Notes()
        """Tensors of their own that were made of gradients; ``gradients`` has them, too."""
        self.sizes: Notes[str] = Notes()
        """The squares and the magnitudes of gradients: "square", "abs"."""
        self.norms: Notes[Place] = Notes()
        """Norms of gradients, and these with something added, with the place where they were measured."""
        self.penalties: Notes[Penalty] = Notes()
        self.scales: dict[Hashable, float] = {}
        self.applied: dict[Hashable, Any] = {}
        """Gradients that a scaler's step has applied, by optimizer, until somebody drops them."""
        self.numbers = Numbers()
        self.patches = Patches()
        self.here = ThreadState()
        self._gone: deque[Hashable] = deque()
        self.owners = Owners(self._gone.append)
        self.losses = Names("loss")
        self.schedulers = Names("scheduler")
        self.contexts = Names("context")
        self.scalers = Names("scaler")
        self.modules = Names("module", self._gone.append)
        self.notes: list[str] = []
        self.errors: list[str] = []
        self.hidden: dict[tuple[str, Site], str] = {}
        """Kinds of events that a run cannot show at a place, and why: "ThreadBegan" where there was one device."""
        self.unobserved = ""
        """Why a part of the run was not observed; empty if all of it was."""
        self.running = False
        self.waker: Callable[[], None] | None = None
        self.refused: Callable[[], None] = lambda: None
        """Called where the step that a scaler was asked for, and that was told of, ended in an exception."""
        self._forked = False
        self._lock = threading.RLock()
        self._ends: list[Callable[[], None]] = []
        self._hooks: list[RemovableHandle] = []
        self._aside = 0
        self._returns = ExitStack()
        self._modes: list[Callable[[], Mode]] = []
        self._last: Event | None = None

    def at_end(self, what: Callable[[], None]) -> None:
        """Has something done when the probe stops, while it can still tell events."""
        self._ends.append(what)

    def hooked(self, handle: RemovableHandle) -> None:
        """Has a hook removed when the probe stops."""
        self._hooks.append(handle)

    def on_thread(self, make: Callable[[], Mode]) -> None:
        """Has each thread that is observed run under a mode; of several the first is the outermost."""
        self._modes.append(make)

    def push_modes(self) -> None:
        """Puts this thread's ops under observation."""
        for make in self._modes:
            mode = make()
            mode.__enter__()
            self.here.modes.append(mode)

    def pop_modes(self) -> None:
        """Undoes ``push_modes``."""
        while self.here.modes:
            self.here.modes.pop().__exit__(None, None, None)

    def suspend(self) -> bool:
        """Takes this thread's ops out of observation, if nobody else observes them more closely."""
        modes = self.here.modes
        if not modes or torch.overrides._get_current_function_mode() is not modes[0]:
            return False
        torch.overrides._pop_mode()
        return True

    def resume(self) -> None:
        """Undoes ``suspend``."""
        torch.overrides._push_mode(self.here.modes[0])

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Torch is as it would be without a probe, for a while: in this thread nothing is observed, and in others only
        ops."""
        others = self._take_modes()
        for mode in others:
            if mode not in self.here.modes:
                torch.overrides._push_mode(mode)
        with self._lock:
            if not self._aside:
                self._returns.enter_context(self.patches.put_back())
                for handle in self._hooks:
                    self._returns.enter_context(_without(handle))
            self._aside += 1
        try:
            yield
        finally:
            with self._lock:
                self._aside -= 1
                if not self._aside:
                    self._returns.close()
            self._take_modes()
            for mode in others:
                torch.overrides._push_mode(mode)

    def _take_modes(self) -> list[Any]:
        """Leaves all function modes of this thread, its own and the program's; the outermost first."""
        taken = [torch.overrides._pop_mode() for _ in range(torch._C._len_torch_function_stack())]
        return taken[::-1]

    def abandon(self) -> None:
        """Stops telling, without a last word: for a process that was forked off."""
        self._forked, self.running = self.running, False

    def go_on(self) -> None:
        """Tells again, in a process that was forked off."""
        self._forked, self.running = False, True
        self._lock = threading.RLock()
        self.errors.clear()
        self.notes.clear()
        self.hidden.clear()
        self.unobserved = ""
        self.numbers.forget()

    def wake(self) -> None:
        """Called where training begins."""
        if self._forked:
            self._forked = False
            if self.waker is not None:
                self.waker()

    def tell(self, event: Event) -> None:
        """Tells the listener."""
        if not self.running:
            return
        with self._lock:
            self._last = event
            try:
                while self._gone:
                    self.listener.hear(ObjectGone(event.place, event.regions, self._gone.popleft()))
                self.listener.hear(event)
            except Exception:
                self.complain()

    def tell_together(self, *events: Event) -> None:
        """Tells of several events, between which no other thread tells of any."""
        with self._lock:
            for event in events:
                self.tell(event)

    def guarded(self, what: Callable[..., None], *arguments: Any) -> None:
        """Does something of the probe's own, which must not disturb the user's code."""
        if not self.running:
            return
        try:
            what(*arguments)
        except Exception:
            self.complain()

    def complain(self) -> None:
        """Keeps the traceback of the error that is being handled."""
        if len(self.errors) < 20:
            self.errors.append(traceback.format_exc())

    def note(self, text: str) -> None:
        """Says something once."""
        if text not in self.notes:
            self.notes.append(text)

    def hides(self, kind: type[Event], why: str, depth: int = 2) -> None:
        """Says that where the user's code is such events would happen elsewhere, and here do not."""
        site = self.sites.here(depth + 1)
        if site is not None:
            self.hidden[kind.__name__, site] = why

    def site(self, depth: int = 2) -> Site | None:
        """Where the user's code is."""
        return self.sites.here(depth + 1)


@contextmanager
def _without(handle: RemovableHandle) -> Iterator[None]:
    """A hook is not called, for a while."""
    hooks = handle.hooks_dict_ref()
    hook = hooks.pop(handle.id) if hooks is not None and handle.id in hooks else None
    try:
        yield
    finally:
        if hooks is not None and hook is not None:
            hooks[handle.id] = hook
