"""A probed process from its start to its end: the probe with its listener, and the file that is written whatever way
the process ends.

It is also written before: when the first region is entered, at the first backward pass, after the steps 1, 2, 4 and
so on, and now and then. Such a record is *cut* if it is the last word of the process. Nothing here starts CUDA.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from amplint.confirm import asked
from amplint.confirm import recording as recordings
from amplint.confirm.imported import imported
from amplint.confirm.lines import LineCounts
from amplint.confirm.order import PATIENCE, UNUSABLE, Order, Unusable, chosen_device
from amplint.confirm.own_frames import tracebacks_cleaned, warnings_placed
from amplint.confirm.processes import observe_processes
from amplint.confirm.recording import (
    KILLED,
    RAISED,
    REAL,
    SIMULATED,
    STOPPED,
    TIMED_OUT,
    Hidden,
    Raised,
    Recording,
)

OUT_OF_TIME = 124
"""Exit status of a process that did not unwind, as that of timeout(1)."""
_MOST_RAISED = 100
_ROUND = 0.1
"""Seconds between two looks at a run."""
_FIRST_FLUSH, _SLOWEST_FLUSH = 2.0, 60.0


def user_files(paths: Sequence[str]) -> Callable[[str], bool]:
    """Says of a file name whether it is the user's code: it lies below one of the paths and not, nearer, below
    Python's or amplint's own directories or those of installed packages."""
    installed = {sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    installed |= {part for part in sys.path if Path(part).name in ("site-packages", "dist-packages")}
    installed.add(str(Path(__file__).parents[1]))
    others = {Path(part).resolve() for part in installed}
    own = {Path(part).resolve() for part in paths}

    def is_user_file(name: str) -> bool:
        if name.startswith("<"):
            return False
        path = Path(name).resolve()
        nearest = next((part for part in (path, *path.parents) if part in own or part in others), None)
        return nearest in own

    return is_user_file


class Session:
    """One probed process. ``Session.current`` is the one of this process."""

    current: Session | None = None

    def __init__(self, order: Order, script: str | None = None, *, is_worker: bool = False) -> None:
        self.order = order
        self.script = Path(script) if script else None
        self.is_worker = is_worker
        self.root = Path(order.root)
        inside = [order.root, *order.paths, *([str(self.script.parent)] if self.script else [])]
        self.is_user_file = user_files(inside)
        self.device, self.torch, self.op_table = order.device, "", ""
        wanted = asked.read(Path(order.folder)) if order.folder else None
        self.lines = LineCounts(self.is_user_file, wanted, self._displayed)
        self.process = os.getpid()
        self.ended = recordings.FINISHED
        self.status = 0
        self.raised: list[Raised] = []
        self._open = self._closing = self._begun = self._waiting = False
        self._signal: int | None = None
        self._lock = threading.RLock()
        self._stop = contextlib.ExitStack()
        self._rank: int | None = None
        self._leave: Callable[[int], Any] | None = None
        self._deadline: float | None = None
        self._rounds: Iterator[None] | None = None
        self._watcher: threading.Thread | None = None
        self._held = threading.Event()
        self.elsewhere = ""
        self._written: Path | None = None

    def start_with_torch(self) -> None:
        """Puts the process under the probe as soon as the program imports torch: what it sets in the environment before
        that counts. Its lines and its processes are observed at once."""
        if "torch" in sys.modules:
            self.start()
        else:
            self._begin()
            self._waiting = True
            Session.current = self
            self._stop.enter_context(imported("torch", self._start_now, self.lines.paused))
        self.release()

    def _start_now(self) -> None:
        if os.getpid() != self.process:
            self.go_on()
        try:
            with self.lines.paused():
                self.start()
        except Unusable as error:
            self._waiting = False  # there is nothing to record
            sys.stderr.write(f"amplint: error: {error}\n")
            sys.exit(UNUSABLE)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self.lines.start()
            self._stop.enter_context(observe_processes(self, begin, join))
            self._stop.enter_context(tracebacks_cleaned())

    def start(self) -> None:
        """Puts the process under the probe. Raises Unusable."""
        import torch

        from amplint.amp.ops import name_of_table
        from amplint.confirm.observer import Observer
        from amplint.confirm.probe import Level, Probe
        from amplint.confirm.release import TORCH
        from amplint.confirm.session_hooks import compile_told, losses_told, rank_kept
        from amplint.confirm.tracer import Tracer
        from amplint.rules import rule_classes
        from amplint.rules.base import FlowRule, Setting

        self.device = chosen_device(self.order)
        self._begin()
        self.torch, self.op_table = torch.__version__, name_of_table(TORCH)
        setting = Setting(TORCH, torch_stated=True)
        rules = [rule(setting) for rule in rule_classes() if issubclass(rule, FlowRule)]
        steps = self.order.steps
        self.observer = (
            Tracer(steps)
            if self.order.trace
            else Observer(
                rules,
                steps=steps,
                within_library=lambda: self.probe.sites.is_within_library(),
                measure=lambda kinds, event, place: self.probe.numbers.measured(kinds, event, place),
            )
        )
        if self.device == SIMULATED:
            from amplint.confirm.simulation import SimulatedCuda

            self._stop.enter_context(SimulatedCuda())
        level = Level.CASTS if self.order.trace else Level.FUNCTIONS
        self.probe = Probe(
            self.observer,
            is_user_file=self.is_user_file,
            root=self.root,
            device="cpu" if self.device == recordings.CPU else "cuda",
            level=level,
            keeps_compile=self.order.keeps_compile,
        )
        self.observer.ask(self.probe.context)
        self.observer.save = self.save
        self.probe.refused = self.observer.refused
        self.probe.start()
        self.probe.waker = self._wake
        self._stop.enter_context(rank_kept(lambda: self.rank))
        if self.order.keeps_compile:  # else the probe says that it is off
            self._stop.enter_context(compile_told(self.note))
        self._stop.enter_context(warnings_placed())
        self._stop.enter_context(losses_told(self.observer.loss))
        self._open, self._waiting = True, False
        Session.current = self

    def guard(self) -> None:
        """Makes sure that the recording is written, however the process ends, and that it ends in time."""
        atexit.register(self.close)
        self._leave = leave = os._exit

        def _exit(status: int) -> Any:
            if os.getpid() == self.process:
                self.status = status
                if status:
                    self.ended = RAISED
                self.close(cut_off=True)
            leave(status)

        os._exit = _exit
        if threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._terminated)
            if self.order.timeout is not None and hasattr(signal, "SIGALRM"):
                signal.signal(signal.SIGALRM, self._interrupted)
        if self.order.timeout is not None:
            self._deadline = time.monotonic() + self.order.timeout
        self._begin_watch()

    def go_on(self) -> None:
        """Goes on in a process that was forked off, with a recording of its own."""
        self._lock = threading.RLock()
        self.process, self.is_worker = os.getpid(), True
        self.ended, self.status, self.raised = recordings.FINISHED, 0, []
        self._rank = self._watcher = self._written = None
        self._held = threading.Event()
        self.lines.forget()
        if self._open:
            self.observer.forget()
            self.probe.go_on()
        if self._leave is not None:
            self._begin_watch()

    def _wake(self) -> None:
        """A process that was forked off does something that is worth observing."""
        if not self._open:
            return
        self.go_on()
        if self._leave is None:
            # nothing says when this process ends
            self.observer.note("what a process did that was forked off was not observed")
            self._open = False
            self.probe.abandon()
            if self.order.folder:
                self.write()

    def _begin_watch(self) -> None:
        self._rounds = self._watch()
        self.release()

    def hold(self) -> None:
        """Takes the session's thread away while a process is forked off: Python warns of forks with threads, and what
        a thread holds would stay locked in the child."""
        if self._watcher is not None and self._watcher is not threading.current_thread():
            self._held.set()
            self._watcher.join(PATIENCE)
            # Python counts the threads of the system, which lets go of this one a moment later
            task = Path(f"/proc/self/task/{self._watcher.native_id}")
            over = time.monotonic() + _ROUND
            while task.exists() and time.monotonic() < over:
                time.sleep(0)

    def release(self) -> None:
        """Undoes ``hold``."""
        if self._rounds is None or self._is_over or (self._watcher is not None and self._watcher.is_alive()):
            return
        self._held.clear()
        self._watcher = threading.Thread(target=self._go_round, daemon=True, name="amplint")
        self._watcher.start()

    def _go_round(self) -> None:
        assert self._rounds is not None
        for _ in self._rounds:
            if self._held.wait(_ROUND):
                return

    @property
    def _is_over(self) -> bool:
        return not (self._open or self._waiting)

    def close(self, *, cut_off: bool = False) -> None:
        """Ends the observation and writes the recording; once, and only in the process that began it.
        ``cut_off``: the process is about to be gone, and torch may stay as it is."""
        with self._lock:
            if self._is_over or os.getpid() != self.process:
                return
            self._open = False
        self._closing = True
        try:
            self._finish(cut_off)
        finally:
            self._closing = False
        if self._signal is not None:
            self._obey(self._signal)

    def give_way(self) -> None:
        """As ``close``, where another program takes over the process: it writes a recording of its own."""
        self.close(cut_off=True)
        written = self._target()
        if written.exists():
            others = len(list(written.parent.glob(f"{written.stem}*")))
            written.rename(written.with_name(f"{written.stem}-{others}.json"))

    def _finish(self, cut_off: bool) -> None:
        self.lines.stop()
        if self._waiting:
            if self.order.folder:
                self.write()
            self._waiting = False
            self._stop.close()
            Session.current = None
            return
        if self.observer.stopping and self.ended == recordings.FINISHED:
            self.ended = STOPPED
        self.observer.end(KILLED if cut_off else self.ended)
        if not cut_off:
            self.probe.stop()
        if self.order.folder:
            self.write()
        if not cut_off:
            self._stop.close()
        Session.current = None

    def write(self, *, is_cut: bool = False) -> None:
        """Writes what is known so far; ``is_cut`` while the process goes on, which may be gone the next moment."""
        target = self._target()
        recordings.write(self.recording(is_cut=is_cut), target)
        if self._written is not None and self._written != target:
            self._written.unlink(missing_ok=True)  # the process has come to know its rank
        self._written = target

    def _target(self) -> Path:
        return Path(self.order.folder) / f"{self.rank:05}-{self.process}.json"

    def save(self) -> None:
        """Writes what there is, in case that the process is killed; nothing that happens here concerns the program."""
        with contextlib.suppress(Exception), self._lock:
            if self._open and self.order.folder:
                self.write(is_cut=True)

    @property
    def rank(self) -> int:
        """The rank of this process in its group, 0 if there is none."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            self._rank = int(distributed.get_rank())
        if self._rank is not None:
            return self._rank
        rank = os.environ.get("RANK", "")
        return int(rank) if rank.isdigit() else 0

    def recording(self, *, is_cut: bool = False) -> Recording:
        """What was seen so far."""
        counted = self.lines.counts()
        made = Recording(
            device=recordings.CPU if self._waiting else self.device,
            device_name="" if self._waiting or is_cut else self._device_name(),
            torch=self.torch,
            op_table=self.op_table,
            command=self.order.command,
            exact=sys.version_info >= (3, 11),
            told=() if self._waiting else events_told(),
            ended=self.ended,
            status=self.status,
            is_cut=is_cut,
            elsewhere=self.elsewhere,
            ranks=(self.rank,),
            is_worker=self.is_worker,
            raised=tuple(self.raised),
            lines={self._displayed(file): lines for file, lines in counted.items()},
        )
        seen = made if self._waiting else self._seen(made, is_cut)
        names = {*made.lines, *(part.path for part in seen.reached)}
        digests = {name: recordings.digest_of(self.root / name) for name in sorted(names)}
        return recordings.with_files(seen, digests)

    def _seen(self, made: Recording, is_cut: bool) -> Recording:
        """The recording with what the probe and its listener know."""
        hidden = tuple(
            Hidden(kind, site.path, site.span, why) for (kind, site), why in list(self.probe.hidden.items())
        )
        notes = (*self.probe.notes, *map(_internal, self.probe.errors))
        # to look at numbers on a device is to wait for it, or to break what it is capturing
        alone = threading.current_thread() is threading.main_thread()
        numbers = (alone and not is_cut) or self.device != recordings.REAL
        made = replace(made, hidden=hidden, notes=notes, unobserved=self.probe.unobserved)
        try:
            return self.observer.recording(made, numbers=numbers)
        except RuntimeError as error:
            if not numbers:
                raise
            first = (f"{error}".splitlines() or [""])[0]
            made = replace(
                made, notes=(*notes, f"what was measured could not be read from the device: {first}")
            )
            return self.observer.recording(made, numbers=False)

    def _device_name(self) -> str:
        """What the device is called, asked where the program has started CUDA by itself."""
        import torch

        if self.device == REAL and torch.cuda.is_initialized():
            with contextlib.suppress(RuntimeError):  # a device that has failed answers nothing
                return torch.cuda.get_device_name()
        return ""

    def _displayed(self, file: str) -> str:
        return recordings.displayed(file, self.root.resolve())

    def note(self, text: str) -> None:
        """Says something of the run once."""
        if self._open:
            self.observer.note(text)

    def started(self, program: str) -> None:
        """The process has started another program of Python, which is not observed."""
        self.elsewhere = self.elsewhere or program

    def failed(self, error: BaseException) -> None:
        """The program ended with an exception."""
        self.ended, self.status = RAISED, 1
        self.keep(error)

    def keep(self, error: BaseException) -> None:
        """Keeps an exception as evidence."""
        frames = traceback.extract_tb(error.__traceback__)
        stack = tuple(
            (self._displayed(frame.filename), frame.lineno or 0)
            for frame in frames
            if self.is_user_file(frame.filename)
        )
        text = f"{error}".strip().splitlines() or [""]
        if len(self.raised) < _MOST_RAISED:
            self.raised.append(
                Raised(type(error).__name__, text[0][:300], stack, self.rank, self._not_simulated(error))
            )

    def _not_simulated(self, error: BaseException) -> bool:
        if self.device != SIMULATED or self._waiting:
            return False
        from amplint.confirm.simulated_ops import is_not_simulated

        return is_not_simulated(error)

    def _watch(self) -> Iterator[None]:
        """Writes now and then, and ends a run that is out of time or does not unwind."""
        now = time.monotonic()
        pause, written = _FIRST_FLUSH, now
        deadline = self._deadline
        told: float | None = None
        interrupted = False
        while not self._is_over and os.getpid() == self.process:
            yield
            now = time.monotonic()
            if not self._open:
                if deadline is not None and now > deadline:
                    self.ended = TIMED_OUT
                    self._end_now()
                continue
            if told is None and self.observer.stopping:
                told = now
            if told is None and deadline is not None and now > deadline:
                told, self.ended = now, TIMED_OUT
                self.observer.stop_soon()
            if (
                told is not None
                and now > told + self.order.patience
                and not interrupted
                and not self.observer.stopping
            ):
                interrupted = True
                _interrupt()
            if told is not None and now > told + self.order.grace:
                self._end_now()
            if now > written + pause:
                self.save()
                written, pause = now, min(2 * pause, _SLOWEST_FLUSH)

    def _end_now(self) -> None:
        """Ends a process that does not unwind."""
        try:
            self.close(cut_off=True)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        finally:
            assert self._leave is not None
            self._leave(OUT_OF_TIME if self.ended == TIMED_OUT else 0)

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        if self._closing:
            # in the middle of writing; a pool ends workers that are about to leave by themselves
            self._signal = number
            return
        self.ended, self.status = KILLED, 128 + number
        self.close(cut_off=True)
        self._obey(number)

    def _obey(self, number: int) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        from amplint.confirm.observer import Stopped

        self.observer.stopping = True
        raise Stopped(0)


def begin(order: str, observed: bool) -> None:
    """The first thing that a spawned process does, before it imports the program. Without being ``observed`` it
    has simulated CUDA where its parent has."""
    first = sys.path.pop(0) if sys.path[:1] == [""] else None
    try:
        if observed:
            join(order)
        elif Order.read(order).device == SIMULATED:
            from amplint.confirm.simulation import SimulatedCuda

            SimulatedCuda().__enter__()
    finally:
        if first is not None:
            sys.path.insert(0, first)


def join(order: str) -> Session | None:
    """The session of a process that the program has started, whatever way: the one that it has, the one that it
    goes on with after it was forked off, or a new one. None if the wanted device is not to be had."""
    session = Session.current
    if session is None:
        session = Session(Order.read(order), is_worker=True)
        try:
            session.start()
        except Unusable:
            return None
        session.guard()
    elif session.process != os.getpid():
        session.go_on()
    session.save()  # a process that is killed before its first region was there
    return session


def _before_fork() -> None:
    if Session.current is not None and Session.current.process == os.getpid():
        Session.current.hold()


def _after_fork() -> None:
    if Session.current is not None and Session.current.process == os.getpid():
        Session.current.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)


def _interrupt() -> None:
    """Raises Stopped in the main thread, wherever it is in Python code."""
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "SIGALRM"):
        signal.pthread_kill(main, signal.SIGALRM)


_TELL = """
arguments custom_functions functions modules probe regions threads training watching weights
"""
"""The modules of the probe that make events, which are loaded with it."""


def events_told() -> tuple[str, ...]:
    """The kinds of events that some part of the probe makes."""
    from amplint import events
    from amplint.confirm import probe

    parts = [sys.modules[f"{probe.__package__}.{name}"] for name in _TELL.split()]
    kinds = {
        name
        for part in parts
        for name, value in vars(part).items()
        if isinstance(value, type) and issubclass(value, events.Event) and value is not events.Event
    }
    return tuple(sorted(kinds))


def _internal(trace: str) -> str:
    return "internal error in amplint: " + (trace.strip().splitlines() or ["?"])[-1]
