"""From text back to bytes, and onto the disk: each file is the old one or the new one at any moment.

The new bytes go into a file without a name (``O_TMPFILE``), which gets one beside the target and is renamed
over it. Between these two system calls a second name exists. So that not even SIGKILL can leave it there, they
are made by a process of its own, which does nothing else and finishes what it has begun when its parent is
gone; should that one die too, the next run takes the leftover away. Where the system lacks any of this, the
file has a name from the start and only an ordinary end of the process is provided for.

Before that it looks once more whether the target holds what was read. Two processes that do so at once cannot undo
each other's work: each locks the directories that it writes in. An editor that takes no lock is overwritten only if it
saves between that look and the renaming, which follows at once.
"""

# paths are strings here, as the reading side has them:
# ruff: noqa: PTH100, PTH105, PTH108, PTH112, PTH116, PTH118, PTH120

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType

from amplint.source.cells import is_notebook
from amplint.source.decoding import Unreadable, decode, encoding_of, read_bytes

_MARK = b"\xef\xbb\xbf"
_PREFIX, _SUFFIX = ".amplint-", ".tmp"
_ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_PATIENCE = 10.0
"""Seconds to wait for another process that writes in the same directory."""


class Unwritable(Exception):  # noqa: N818
    """A file is left as it is, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Replacement:
    """A file, the bytes that it held when it was read, and those that it is to hold."""

    path: str
    before: bytes
    after: bytes


def encoded(text: str, like: bytes, path: str = "") -> bytes:
    """The bytes of a text in the encoding of the file that it comes from, with its byte order mark; of a notebook, as
    ``path`` tells, with all that is no code. Raises Unwritable where they would not be read back, or where the encoding
    does not keep the bytes that stay."""
    if is_notebook(path):
        return _encoded_in_cells(text, like)
    encoding = encoding_of(like)
    try:
        mark = _MARK if like.startswith(_MARK) else b""
        if mark + decode(like).encode(encoding) != like:
            raise Unwritable(f"the encoding {encoding} does not give back the bytes of the file")
        data = mark + text.encode(encoding)
        if decode(data) == text:
            return data
    except UnicodeEncodeError as error:
        raise Unwritable(f"{error.object[error.start]!r} does not exist in {encoding}") from error
    except (Unreadable, ValueError, LookupError) as error:
        raise Unwritable(f"the file cannot be encoded as {encoding}: {error}") from error
    raise Unwritable(f"the text would not be read back as {encoding}")


def _encoded_in_cells(text: str, like: bytes) -> bytes:
    from amplint.source.notebooks import Unchangeable, written

    try:
        return written(text, like)
    except Unchangeable as error:
        raise Unwritable(error.reason) from error
    except Unreadable as error:
        raise Unwritable(error.message) from error


def obstacle(path: str, root: str | os.PathLike[str] | None = None) -> str:
    """Why a file is not to be replaced, although it could be read: that it is write-protected (for root, too), that it
    has other names, which would keep the old text, or that it is a link out of the directory ``root``. Else empty.
    Raises OSError where it cannot be looked at."""
    real = os.path.realpath(path)
    is_link = real != os.path.abspath(path)
    if root is not None and is_link and not _is_within(real, os.path.realpath(root)):
        return "it is a link to a file outside of the project"
    status = os.stat(real)
    if not status.st_mode & _ANY_WRITE or not os.access(real, os.W_OK):
        return "it is write-protected"
    if status.st_nlink > 1:
        return "it has several names (hard links), and the others would keep the old text"
    return ""


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(os.path.join(root, ""))


def replace_all(replacements: Sequence[Replacement]) -> str:
    """Replaces all of these files, or none; gives the reason for none, else "". Only a file that changes
    while this is at work can be left out of step with the others, and then it is said."""
    folders = {os.path.dirname(os.path.realpath(replacement.path)) for replacement in replacements}
    with contextlib.ExitStack() as stack:
        for folder in sorted(folders):
            if not stack.enter_context(_FolderLock(folder)):
                return "another process is writing in its directory"
        return _replaced(replacements)


def put(path: str, data: bytes) -> None:
    """Writes a file that may not be there yet, whole; nothing is done if it holds these bytes. Raises Unwritable."""
    try:
        if os.path.lexists(path):
            before = read_bytes(path)
            reason = replace_all([Replacement(path, before, data)]) if before != data else ""
            if reason:
                raise Unwritable(reason)
            return
        folder = os.path.dirname(os.path.abspath(path))
        remove_leftovers([folder])
        name = _unused_name(folder)
        try:
            with open(name, "xb") as file:  # noqa: PTH123
                _lock(file.fileno())
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(name)
    except (OSError, Unreadable) as error:
        raise Unwritable(_reason(error)) from error


def _replaced(replacements: Sequence[Replacement]) -> str:
    targets: list[_Target] = []
    done: list[_Target] = []
    try:
        for replacement in replacements:
            targets.append(_Target(replacement))
        for target in targets:
            target.exchange()
            done.append(target)
    except (OSError, Unreadable, Unwritable) as error:
        for target in reversed(done):
            with contextlib.suppress(OSError, Unreadable, Unwritable):
                back = _Target(Replacement(target.path, target.after, target.before))
                back.exchange()
        return _reason(error)
    finally:
        for target in targets:
            target.close()
    return ""


class _Target:
    """The file behind a path, links followed, with its new contents ready beside it."""

    def __init__(self, replacement: Replacement) -> None:
        self.path = os.path.realpath(replacement.path)
        self.before, self.after = replacement.before, replacement.after
        self._folder = os.path.dirname(self.path)
        self._name = ""
        self._descriptor = -1
        if read_bytes(self.path) != self.before:
            raise Unwritable("it has changed on the disk since it was read")
        reason = obstacle(self.path)
        if reason:
            raise Unwritable(reason)
        self._status = os.stat(self.path)
        self._prepare(named=False)

    def exchange(self) -> None:
        """Makes the new file the file."""
        if read_bytes(self.path) != self.before:
            raise Unwritable("it has changed on the disk since it was read")
        if not self._name:
            self._give_name()
        os.replace(self._name, self.path)
        self._name = ""
        _sync_folder(self._folder)

    def close(self) -> None:
        """Takes away what was not needed."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._name:
            with contextlib.suppress(OSError):
                os.unlink(self._name)
            self._name = ""

    def _give_name(self) -> None:
        """Gives the new file a name beside the target; where that cannot be, makes it anew with one."""
        name = _unused_name(self._folder)
        try:
            # only with a directory does Python call linkat, which can follow the link in /proc
            os.link(f"/proc/self/fd/{self._descriptor}", name, src_dir_fd=self._descriptor)
        except (OSError, NotImplementedError):
            self.close()
            self._prepare(named=True)
        else:
            self._name = name

    def _prepare(self, *, named: bool) -> None:
        try:
            self._open(named=named)
            self._fill()
        except BaseException:
            self.close()
            raise

    def _open(self, *, named: bool) -> None:
        if not named and hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
            try:
                self._descriptor = os.open(self._folder, os.O_TMPFILE | os.O_RDWR, 0o600)
            except OSError:
                pass  # a file system without such files
            else:
                _lock(self._descriptor)
                return
        self._descriptor, self._name = tempfile.mkstemp(_SUFFIX, _PREFIX, self._folder)
        _lock(self._descriptor)

    def _fill(self) -> None:
        view = memoryview(self.after)
        while view:
            view = view[os.write(self._descriptor, view) :]
        if hasattr(os, "fchown") and os.fstat(self._descriptor).st_uid != self._status.st_uid:
            with contextlib.suppress(OSError):  # only root may give files away
                os.fchown(self._descriptor, self._status.st_uid, self._status.st_gid)
        if hasattr(os, "listxattr"):
            with contextlib.suppress(OSError):
                for name in os.listxattr(self.path):
                    os.setxattr(self._descriptor, name, os.getxattr(self.path, name))
        if hasattr(os, "fchmod"):
            os.fchmod(self._descriptor, stat.S_IMODE(self._status.st_mode))
        os.fsync(self._descriptor)
        if self._name and sys.platform == "win32":
            os.close(self._descriptor)  # an open file cannot be renamed there
            self._descriptor = -1


def remove_leftovers(folders: Iterable[str]) -> None:
    """Takes away what a process that was killed has left in these folders, and nothing of one at work."""
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            names = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
            for name in names:
                if name.endswith(_SUFFIX):
                    _remove_unlocked(name)


def _remove_unlocked(name: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(name, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            if _lock(descriptor):
                os.unlink(name)
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Takes the lock that a file or directory has while somebody writes it; whether nobody else had it."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class _FolderLock:
    """Keeps other processes of amplint from writing in a directory, waiting for one that does; as a context it says
    whether it may go on: ``with _FolderLock("src") as mine: …``. The lock is on the directory itself, so that nothing
    is left behind; where a system has no such locks, as Windows and some network file systems, it goes on without
    one."""

    def __init__(self, folder: str, patience: float | None = None) -> None:
        """``patience``: seconds to wait."""
        self._folder = folder
        self._patience = _PATIENCE if patience is None else patience
        self._descriptor = -1

    def __enter__(self) -> bool:
        try:
            import fcntl

            self._descriptor = os.open(self._folder, os.O_RDONLY)
        except (ImportError, OSError):
            return True
        until = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    return False
                time.sleep(0.01)
            except OSError:
                return True
            else:
                return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _unused_name(folder: str) -> str:
    while True:
        name = os.path.join(folder, f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}")
        if not os.path.lexists(name):
            return name


def _sync_folder(folder: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _reason(error: Exception) -> str:
    if isinstance(error, Unwritable):
        return error.reason
    return getattr(error, "strerror", None) or str(error)


class Writer:
    """Replaces files by way of a process of its own, where the system can fork; else in this one."""

    def __init__(self) -> None:
        self._child = 0
        self._orders = self._answers = -1

    def __enter__(self) -> Writer:
        if hasattr(os, "fork") and hasattr(os, "setsid"):
            with contextlib.suppress(OSError):
                self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child:
            os.close(self._orders)
            os.close(self._answers)
            os.waitpid(self._child, 0)
            self._child = 0

    def replace_all(self, replacements: Sequence[Replacement]) -> str:
        """As ``replace_all``; what was begun is finished even if this process is killed meanwhile."""
        if not self._child:
            return replace_all(replacements)
        try:
            _send(self._orders, replacements)
            return str(_receive(self._answers))
        except (OSError, EOFError):
            return "the process that writes files has died"

    def _start(self) -> None:
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._child = os.fork()
        if not self._child:
            os.close(self._orders)
            os.close(self._answers)
            _serve(orders, answers)
        os.close(orders)
        os.close(answers)


def _serve(orders: int, answers: int) -> None:
    """The life of the writing process: it ends when its parent has closed the pipe or is gone."""
    try:
        os.setsid()  # signals to the group of the parent do not concern it
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):  # whoever reads the output does not wait for this process
            os.dup2(nothing, standard)
        while True:
            replacements = _receive(orders)
            reason = replace_all(replacements)
            _send(answers, reason)
    except BaseException:
        os._exit(0)


def _send(pipe: int, message: object) -> None:
    data = pickle.dumps(message)
    view = memoryview(len(data).to_bytes(8, "big") + data)
    while view:
        view = view[os.write(pipe, view) :]


def _receive(pipe: int) -> Sequence[Replacement]:
    size = int.from_bytes(_read(pipe, 8), "big")
    message: Sequence[Replacement] = pickle.loads(_read(pipe, size))
    return message


def _read(pipe: int, size: int) -> bytes:
    pieces = []
    while size:
        piece = os.read(pipe, min(size, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
