"""Telling the editor that an analysis takes its time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import PurePath
from uuid import uuid4

from lsprotocol.types import WorkDoneProgressBegin, WorkDoneProgressEnd
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

PATIENCE = 1.0
"""Seconds that an analysis may take before anything is said."""


class Telling:
    """Shows progress in a client that can show it."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server

    def begin(self, what: str) -> Callable[[], object]:
        """Something begins, such as the analysis of a folder; gives what to call at its end."""
        window = self._server.client_capabilities.window
        if window is None or not window.work_done_progress:
            return lambda: None
        return asyncio.get_running_loop().create_task(self._tell(PurePath(what).name)).cancel

    async def _tell(self, what: str) -> None:
        await asyncio.sleep(PATIENCE)
        progress, token = self._server.work_done_progress, str(uuid4())
        with contextlib.suppress(JsonRpcException):
            await asyncio.shield(progress.create_async(token))
            progress.begin(token, WorkDoneProgressBegin("amplint", message=f"checking {what}"))
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                progress.end(token, WorkDoneProgressEnd())
                progress.tokens.pop(token, None)
