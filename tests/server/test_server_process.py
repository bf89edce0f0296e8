"""How the server begins and ends."""

from __future__ import annotations

from pathlib import Path

from lsp_client import WAIT, Client, Serve


def test_it_ends_as_the_protocol_has_it(serve: Serve) -> None:
    client = serve()
    assert client.start()["textDocumentSync"]["change"] == 1
    assert client.stop() == 0


def test_a_client_that_goes_without_a_word_is_no_success(serve: Serve) -> None:
    client = serve()
    client.start()
    client.notify("exit")
    assert client.process.wait(timeout=WAIT) == 1
    client = serve()
    client.start()
    assert client.process.stdin is not None
    client.process.stdin.close()
    assert client.process.wait(timeout=WAIT) == 1


def test_without_the_extra_it_says_how_to_get_it(project: Path) -> None:
    client = Client(project, before="sys.modules['pygls'] = None\n")
    assert client.process.wait(timeout=WAIT) == 2
    assert client.all_errors() == [
        "amplint: error: the language server needs pygls: pip install 'amplint[lsp]'\n"
    ]


def test_results_are_kept_for_texts_that_are_on_the_disk(serve: Serve, project: Path) -> None:
    (project / ".git").mkdir()
    (project / "a.py").write_text("autocast\nBAD\n")
    client = serve()
    client.start()
    client.open("a.py", "autocast\nBAD\nBAD\n")
    assert len(client.published("a.py", 1)) == 2
    assert not (project / ".amplint_cache").exists()
    client.change("a.py", "autocast\nBAD\n", 2)
    assert len(client.published("a.py", 2)) == 1
    assert client.stop() == 0
    assert list((project / ".amplint_cache").glob("*.json"))
