from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lsp_client import Client, Serve

FAKE = f"""
sys.path.insert(0, {str(Path(__file__).parents[1] / "cli")!r})
import fake_analysis
sys.modules["amplint.analysis"] = fake_analysis
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def serve(project: Path) -> Iterator[Serve]:
    """Starts ``amplint server`` in the project; ``fake``: with the analysis of tests/cli/fake_analysis.py."""
    pytest.importorskip("pygls", reason="the language server needs the extra lsp")
    clients: list[Client] = []

    def started(*, fake: bool = True, before: str = "", **environment: str) -> Client:
        clients.append(Client(project, before=(FAKE if fake else "") + before, **environment))
        return clients[-1]

    yield started
    for client in clients:
        client.process.kill()
        client.process.wait()
