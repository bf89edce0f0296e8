"""A client over standard input and output that knows nothing of the server but the protocol."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from queue import Empty, Queue
from typing import Any

ROOT = Path(__file__).parents[2]
WAIT = 60
"""Seconds: so long nothing takes, however busy the machine is."""

Message = dict[str, Any]

_SCRIPT = """
import sys
sys.path[:0] = [{root!r}, {here!r}]
{before}
from amplint.cli.main import main
main()
"""

CAPABILITIES: Message = {
    "general": {"positionEncodings": ["utf-16"]},
    "textDocument": {"codeAction": {"resolveSupport": {"properties": ["edit"]}}},
    "workspace": {"workspaceEdit": {"documentChanges": True}},
}

_START: Message = {"line": 0, "character": 0}
EVERYWHERE: Message = {"start": _START, "end": {"line": 1000, "character": 0}}


class Client:
    """``amplint server`` and what it has said. ``before`` is Python that its process runs first."""

    def __init__(self, folder: Path, *, before: str = "", **environment: str) -> None:
        script = _SCRIPT.format(root=str(ROOT), here=str(Path(__file__).parent), before=before)
        unwanted = ("AMPLINT_DEBUG", "AMPLINT_CACHE_DIR")
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, "server", "--stdio"],
            cwd=folder,
            env={key: value for key, value in os.environ.items() if key not in unwanted} | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.folder = folder
        self.stray: list[bytes] = []
        """What came by standard output and is not of the protocol."""
        self.errors: list[str] = []
        self.log: list[Message] = []
        """All that was taken from the server so far."""
        self._came: Queue[Message | None] = Queue()
        self._waiting: list[Message] = []
        self._numbers = itertools.count(1)
        self._threads = [
            threading.Thread(target=target, daemon=True) for target in (self._read, self._read_errors)
        ]
        for thread in self._threads:
            thread.start()

    # the wire ------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while line := stream.readline():
            name, _, value = line.partition(b":")
            if name != b"Content-Length":
                self.stray.append(line)
                continue
            while stream.readline().strip():
                pass
            self._came.put(json.loads(stream.read(int(value))))
        self._came.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors += [line.decode() for line in self.process.stderr]

    def all_errors(self) -> list[str]:
        """The lines of standard error of a server that has ended."""
        for thread in self._threads:
            thread.join(WAIT)
        return self.errors

    def _send(self, message: Message) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.process.stdin.flush()

    def next(self, wanted: Callable[[Message], bool]) -> Message:
        """The next message like this. Requests of the server are answered on the way."""
        for message in self._waiting:
            if wanted(message):
                self._waiting.remove(message)
                return message
        while True:
            try:
                message = self._came.get(timeout=WAIT)
            except Empty:
                raise AssertionError(f"nothing came; before that: {self.log[-3:]}, {self.errors}") from None
            if message is None:
                raise AssertionError(f"the server has ended: {self.errors}")
            self.log.append(message)
            if "id" in message and "method" in message:
                self._send({"id": message["id"], "result": None})
            if wanted(message):
                return message
            self._waiting.append(message)

    def notify(self, method: str, params: object = None) -> None:
        """Tells the server something."""
        self._send({"method": method, **({} if params is None else {"params": params})})

    def ask(self, method: str, params: object = None) -> int:
        """Sends a request; gives its number."""
        number = next(self._numbers)
        self._send({"id": number, "method": method, **({} if params is None else {"params": params})})
        return number

    def request(self, method: str, params: object = None) -> Any:
        """What the server answers."""
        return self.answer(self.ask(method, params))

    def answer(self, number: int) -> Any:
        """What the server answers to a request."""
        answer = self.next(lambda message: message.get("id") == number and "method" not in message)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def sync(self) -> None:
        """Returns once the server has heard all that it was told."""
        self.request("textDocument/hover", {"textDocument": {"uri": "x:"}, "position": _START})

    def told(self, method: str) -> Any:
        """The parameters of the next message of the server with this method."""
        return self.next(lambda message: message.get("method") == method)["params"]

    # the protocol --------------------------------------------------------------------------------------------

    def start(
        self,
        options: object = None,
        folders: Iterable[Path] | None = None,
        capabilities: Mapping[str, Any] = CAPABILITIES,
    ) -> Message:
        """Shakes hands, and gives what the server can."""
        folders = [self.folder] if folders is None else folders
        result = self.request(
            "initialize",
            {
                "processId": None,
                "rootUri": None,
                "capabilities": capabilities,
                "initializationOptions": {"delay": 0} if options is None else options,
                "workspaceFolders": [{"uri": one.as_uri(), "name": one.name} for one in folders],
            },
        )
        self.notify("initialized", {})
        return result["capabilities"]

    def stop(self) -> int:
        """Ends the server as the protocol has it, and gives its exit status."""
        self.request("shutdown")
        self.notify("exit")
        return self.process.wait(timeout=WAIT)

    def uri(self, name: str) -> str:
        """``train.py`` in the folder, or a URI as it is."""
        return name if ":" in name else (self.folder / name).as_uri()

    def open(self, name: str, text: str, *, version: int = 1, language: str = "python") -> None:
        """Opens a document."""
        item = {"uri": self.uri(name), "languageId": language, "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def change(self, name: str, text: str, version: int) -> None:
        """Changes its text."""
        document = {"uri": self.uri(name), "version": version}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})

    def close(self, name: str) -> None:
        """Closes it."""
        self.notify("textDocument/didClose", {"textDocument": {"uri": self.uri(name)}})

    def published(self, name: str, version: int | None = None) -> list[Message]:
        """The next diagnostics of a document; ``version``: those of this version."""
        uri = self.uri(name)

        def wanted(message: Message) -> bool:
            params = message.get("params")
            return (
                message.get("method") == "textDocument/publishDiagnostics"
                and params["uri"] == uri
                and version in (None, params.get("version"))
            )

        diagnostics: list[Message] = self.next(wanted)["params"]["diagnostics"]
        return diagnostics

    @property
    def publications(self) -> list[tuple[str, int | None]]:
        """The URI and version of all diagnostics that were taken so far, in their order."""
        params = [one["params"] for one in self.log if one.get("method") == "textDocument/publishDiagnostics"]
        return [(one["uri"], one.get("version")) for one in params]

    def actions(self, name: str, place: Message, only: list[str] | None = None) -> list[Message]:
        """The code actions for a stretch of a document."""
        found: list[Message] = self.answer(self.ask_for_actions(name, place, only))
        return found

    def ask_for_actions(self, name: str, place: Message, only: list[str] | None = None) -> int:
        """Asks for them; gives the number of the request."""
        context = {"diagnostics": [], **({} if only is None else {"only": only})}
        document = {"uri": self.uri(name)}
        params = {"textDocument": document, "range": place, "context": context}
        return self.ask("textDocument/codeAction", params)


def codes(diagnostics: Iterable[Message]) -> list[tuple[int, str]]:
    """Line, from 1, and rule of each diagnostic."""
    return [(one["range"]["start"]["line"] + 1, one["code"]) for one in diagnostics]


def edited(text: str, edits: Iterable[Message]) -> str:
    """A text with the edits made as a client makes them, which counts lines and units of UTF-16."""
    lines = re.split("(?<=\n)", text)
    starts = list(itertools.accumulate(map(len, lines), initial=0))

    def offset(position: Message) -> int:
        line = position["line"]
        units = lines[line].encode("utf-16-le")[: position["character"] * 2]
        return starts[line] + len(units.decode("utf-16-le"))

    for edit in sorted(edits, key=lambda one: offset(one["range"]["start"]), reverse=True):
        start, end = (offset(edit["range"][key]) for key in ("start", "end"))
        text = text[:start] + edit["newText"] + text[end:]
    return text


Serve = Callable[..., Client]
"""Starts a server."""
