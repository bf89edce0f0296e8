"""What an editor is told of findings while somebody types."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from lsp_client import CAPABILITIES, EVERYWHERE, Serve, codes

REGION = """import torch

from model import Net

net = Net()
with torch.autocast("cuda", dtype=torch.float16):
    loss = net(torch.randn(3, 4, device="cuda")).mean()
    loss.backward()
"""
MODEL = """import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.log(torch.sigmoid(nn.functional.linear(x, x)) + 1e-8)
"""
OLD = "import torch\n\nregion = torch.cuda.amp.autocast()\n"
BAD = "import torch\nautocast\nBAD\n"
GOOD = "import torch\nautocast\n"


def test_a_diagnostic_says_what_a_finding_says(serve: Serve, project: Path) -> None:
    client = serve(fake=False)
    client.start()
    model = REGION.replace("from model import Net\n\nnet = Net()", "net = torch.nn.Linear(4, 4)")
    client.open("train.py", model + "print(net.weight.grad.norm())\n")
    (found,) = client.published("train.py", 1)
    assert found["range"] == {"start": {"line": 5, "character": 4}, "end": {"line": 5, "character": 19}}
    assert (found["source"], found["code"], found["severity"]) == ("amplint", "backward-in-autocast", 2)
    first, more = found["message"].split("\n")
    assert first == "`loss.backward()` runs inside the autocast region that opens on line 4"
    assert more.startswith("Torch advises against it") and more.endswith("Leave the region before backward.")
    (related,) = found["relatedInformation"]
    assert related["message"] == "autocast is enabled here"
    assert related["location"] == {
        "uri": client.uri("train.py"),
        "range": {"start": {"line": 3, "character": 5}, "end": {"line": 3, "character": 48}},
    }
    page = Path(found["codeDescription"]["href"].removeprefix("file://")).read_text("utf-8")
    assert page.startswith('"""Finds backward passes')
    assert "tags" not in found


def test_a_deprecated_name_is_struck_out_and_a_useless_comment_faded(serve: Serve) -> None:
    client = serve(fake=False)
    client.start()
    client.open("old.py", OLD + "x = 1  # amplint: ignore[half-model]\n")
    old, comment = client.published("old.py", 1)
    assert (old["code"], old["severity"], old["tags"]) == ("deprecated-amp-api", 3, [2])
    assert (comment["code"], comment["tags"]) == ("unused-suppression", [1])


def test_all_open_texts_count_and_all_open_files_are_told(serve: Serve, project: Path) -> None:
    (project / "train.py").write_text(REGION)
    (project / "model.py").write_text(MODEL)
    client = serve(fake=False)
    client.start()
    client.open("model.py", MODEL)
    assert codes(client.published("model.py", 1)) == [(7, "half-underflow-eps")]
    client.open("train.py", REGION)
    assert codes(client.published("train.py", 1)) == [(8, "backward-in-autocast")]
    client.change("train.py", "import torch\n", 2)  # nothing calls the model in a region any more
    assert client.published("train.py", 2) == []
    assert client.published("model.py", 1) == []
    client.close("train.py")  # the disk counts again
    assert client.published("train.py") == []
    assert codes(client.published("model.py", 1)) == [(7, "half-underflow-eps")]


def test_a_notebook_counts_and_a_place_in_it_is_its_beginning(serve: Serve, project: Path) -> None:
    cell = {"cell_type": "code", "source": REGION.splitlines(keepends=True), "metadata": {}, "outputs": []}
    metadata = {"language_info": {"name": "python"}}
    notebook = {"cells": [cell], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    (project / "train.ipynb").write_text(json.dumps(notebook))
    client = serve(fake=False)
    client.start()
    client.open("model.py", MODEL)
    (found,) = client.published("model.py", 1)
    assert found["code"] == "half-underflow-eps"
    related = [one["location"] for one in found["relatedInformation"]]
    beginning = {"line": 0, "character": 0}
    assert {
        "uri": client.uri("train.ipynb"),
        "range": {"start": beginning, "end": beginning},
    } in related


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 12), ("utf-16", 10), ("utf-32", 9)])
def test_columns_are_those_of_the_agreed_encoding(serve: Serve, encoding: str, column: int) -> None:
    client = serve()
    general = {"general": {"positionEncodings": [encoding]}}
    assert client.start(capabilities={**CAPABILITIES, **general})["positionEncoding"] == encoding
    client.open("a.py", 'import torch\r\nautocast\r\nx = "\N{FIRE}", BAD, "\N{FIRE}"\r\n')
    (found,) = client.published("a.py", 1)
    assert found["range"] == {
        "start": {"line": 2, "character": column},
        "end": {"line": 2, "character": column + 3},
    }
    assert found["relatedInformation"][0]["location"]["range"]["start"] == {"line": 1, "character": 0}


def test_without_an_agreement_columns_count_utf_16(serve: Serve) -> None:
    client = serve()
    client.start(capabilities={})
    client.open("a.py", 'import torch\nautocast\nx = "\N{FIRE}", BAD\n')
    (found,) = client.published("a.py", 1)
    assert found["range"]["start"]["character"] == 10


def test_a_form_feed_ends_no_line(serve: Serve) -> None:
    client = serve()
    client.start()
    client.open("a.py", "import torch\n\f\nautocast\n")
    assert client.published("a.py", 1) == []
    client.change("a.py", "import torch\n\f\nautocast\nBAD\n", 2)
    assert codes(client.published("a.py", 2)) == [(4, "backward-in-autocast")]


def test_what_is_saved_is_not_told_again_and_what_is_closed_is_cleared(serve: Serve, project: Path) -> None:
    client = serve()
    client.start()
    client.open("a.py", BAD)
    assert codes(client.published("a.py", 1)) == [(3, "backward-in-autocast")]
    (project / "a.py").write_text(BAD)
    client.notify("textDocument/didSave", {"textDocument": {"uri": client.uri("a.py")}})
    client.open("b.py", BAD)
    client.published("b.py", 1)
    client.close("a.py")
    assert client.published("a.py") == []
    a, b = client.uri("a.py"), client.uri("b.py")
    assert client.publications == [(a, 1), (b, 1), (a, None)]


def test_excluded_files_and_other_languages_give_nothing(serve: Serve, project: Path) -> None:
    (project / "amplint.toml").write_text('exclude = ["generated"]\n')
    (project / "generated").mkdir()
    client = serve()
    client.start()
    client.open("a.txt", BAD, language="plaintext")
    client.open("git:/a.py", BAD)
    client.open("generated/a.py", BAD)
    assert client.published("generated/a.py", 1) == []
    assert client.publications == [(client.uri("generated/a.py"), 1)]
    client.change("generated/a.py", BAD + BAD, 2)
    assert client.published("generated/a.py", 2) == []
    assert client.actions("generated/a.py", EVERYWHERE) == []


TELLS_WHAT_IS_ASKED = """
from amplint.server.schedule import Schedule
def ask(self, key, *arguments, **more):
    sys.stderr.write(f"asked {key}\\n")
    kept(self, key, *arguments, **more)
kept, Schedule.ask = Schedule.ask, ask
"""


def test_only_what_may_have_changed_is_analysed(serve: Serve, project: Path) -> None:
    client = serve(before=TELLS_WHAT_IS_ASKED)
    client.start()
    client.open("a.txt", BAD, language="plaintext")
    client.open("git:/a.py", BAD)
    client.open("a.py", BAD)
    of_open_text = {"uri": client.uri("a.py"), "type": 2}
    client.notify("workspace/didChangeWatchedFiles", {"changes": [of_open_text]})
    assert client.stop() == 0
    assert client.all_errors() == [f"asked {project}\n"]


def test_an_installed_package_is_excluded_wherever_it_is(serve: Serve, project: Path) -> None:
    package = project / "env" / "site-packages" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    other = project / "work"
    other.mkdir()
    client = serve()
    client.start(folders=[other])
    client.open("env/site-packages/torch/__init__.py", BAD)
    assert client.published("env/site-packages/torch/__init__.py", 1) == []


def test_a_text_in_no_file_is_judged_alone(serve: Serve, project: Path) -> None:
    (project / "amplint.toml").write_text('ignore = ["AMP103"]\n')
    client = serve()
    client.start()
    client.open("untitled:Untitled-1", BAD + "autocast\nUNTIDY\n")
    assert codes(client.published("untitled:Untitled-1", 1)) == [(3, "backward-in-autocast")]
    client.change("untitled:Untitled-1", GOOD, 2)
    assert client.published("untitled:Untitled-1", 2) == []


def test_bad_syntax_is_told_where_amp_is_used_and_ends_nothing(serve: Serve) -> None:
    client = serve(fake=False)
    client.start()
    client.open("a.py", "import torch\nwith torch.autocast('cuda'\n")
    assert codes(client.published("a.py", 1)) == [(2, "syntax-error")]
    client.change("a.py", "def f(:\n", 2)
    assert client.published("a.py", 2) == []
    client.change("a.py", "# coding: nonsense\nimport torch\ntorch.autocast\n", 3)
    assert codes(client.published("a.py", 3)) == [(1, "syntax-error")]
    client.change("a.py", "# coding: latin-1\nimport torch\ntorch.autocast('\N{SNOWMAN}')\n", 4)
    assert codes(client.published("a.py", 4)) == [(1, "syntax-error")]
    client.change("a.py", "import torch\n\0torch.autocast\n", 5)
    assert codes(client.published("a.py", 5)) == [(2, "syntax-error")]
    client.change("a.py", OLD, 6)
    assert codes(client.published("a.py", 6)) == [(3, "deprecated-amp-api")]


def test_an_error_of_the_analysis_is_logged_and_the_server_goes_on(serve: Serve) -> None:
    client = serve()
    client.start()
    client.open("a.py", "autocast CRASH\n")
    logged = client.told("window/logMessage")
    assert logged["type"] == 1
    assert logged["message"].startswith(
        "amplint: internal error: a.py: ZeroDivisionError: by zero\nTraceback"
    )
    assert client.published("a.py", 1) == []
    client.change("a.py", BAD, 2)
    assert codes(client.published("a.py", 2)) == [(3, "backward-in-autocast")]


def test_so_is_one_around_the_analysis(serve: Serve) -> None:
    before = """
import amplint.workspace
def failing(*arguments, **more):
    amplint.workspace.check_views = kept
    raise ZeroDivisionError("by zero")
kept, amplint.workspace.check_views = amplint.workspace.check_views, failing
"""
    client = serve(before=before)
    client.start()
    client.open("a.py", BAD)
    assert "internal error: ZeroDivisionError: by zero" in client.told("window/logMessage")["message"]
    client.change("a.py", BAD + BAD, 2)
    assert len(client.published("a.py", 2)) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFOs there")
def test_a_result_that_is_overtaken_is_not_told_and_the_server_answers_meanwhile(
    serve: Serve, project: Path
) -> None:
    os.mkfifo(project / "fifo")
    client = serve()
    client.start()
    client.open("a.py", f"autocast\nBAD\n# WAIT {project}/fifo\n")
    with (project / "fifo").open("w"):  # opens once the analysis reads
        client.change("a.py", BAD, 2)
        at = {"textDocument": {"uri": client.uri("a.py")}, "position": {"line": 0, "character": 0}}
        assert client.request("textDocument/hover", at) is None
    assert codes(client.published("a.py")) == [(3, "backward-in-autocast")]
    assert client.publications == [(client.uri("a.py"), 2)]


TRUSTS_STAMPS = "import amplint.cache\namplint.cache._GRAIN = -(10**12)\n"
"""A file that was written a moment ago counts as one that was written long ago: the fake analysis does not say what it
has read, and so nothing is known of it but its stamp."""


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFOs there")
def test_what_is_opened_or_saved_while_its_project_is_read_waits_for_the_same_result(
    serve: Serve, project: Path
) -> None:
    os.mkfifo(project / "fifo")
    (project / "a.py").write_text(f"autocast\nBAD\n# WAIT {project}/fifo\n")
    (project / "b.py").write_text(BAD)
    client = serve(before=TRUSTS_STAMPS)
    client.start()
    client.open("a.py", f"autocast\nBAD\n# WAIT {project}/fifo\n")
    with (project / "fifo").open("w"):
        client.open("b.py", BAD)
        client.notify("textDocument/didSave", {"textDocument": {"uri": client.uri("a.py")}})
        changes = [{"uri": client.uri("a.py"), "type": 2}]
        client.notify("workspace/didChangeWatchedFiles", {"changes": changes})
        client.sync()
    assert codes(client.published("a.py", 1)) == [(2, "backward-in-autocast")]
    assert codes(client.published("b.py", 1)) == [(3, "backward-in-autocast")]


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFOs there")
def test_what_is_closed_while_its_project_is_read_is_not_told(serve: Serve, project: Path) -> None:
    os.mkfifo(project / "fifo")
    (project / "a.py").write_text(f"autocast\nBAD\n# WAIT {project}/fifo\n")
    (project / "b.py").write_text(BAD)
    client = serve(before=TRUSTS_STAMPS)
    client.start(options={"delay": 60_000})
    client.open("b.py", BAD)
    with (project / "fifo").open("w"):
        client.open("a.py", f"autocast\nBAD\n# WAIT {project}/fifo\n")
        client.close("b.py")
        client.sync()
    assert codes(client.published("a.py", 1)) == [(2, "backward-in-autocast")]
    client.stop()
    assert client.publications == [(client.uri("a.py"), 1)]


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFOs there")
def test_what_takes_long_is_told(serve: Serve, project: Path) -> None:
    os.mkfifo(project / "fifo")
    client = serve(before="import amplint.server.progress\namplint.server.progress.PATIENCE = 0.0\n")
    client.start(capabilities={**CAPABILITIES, "window": {"workDoneProgress": True}})
    client.open("a.py", f"autocast\nBAD\n# WAIT {project}/fifo\n")
    token = client.told("window/workDoneProgress/create")["token"]
    begun = client.told("$/progress")
    assert begun["token"] == token
    assert begun["value"]["kind"] == "begin" and begun["value"]["message"] == f"checking {project.name}"
    (project / "fifo").write_text("")
    ended = client.told("$/progress")
    assert (ended["token"], ended["value"]["kind"]) == (token, "end")


def test_what_is_printed_does_not_reach_the_client(serve: Serve) -> None:
    before = """
import gc
import os
import amplint.workspace
def printing(*arguments, **more):
    print("printed", gc.isenabled())
    os.write(1, b"written")
    return kept(*arguments, **more)
kept, amplint.workspace.check_views = amplint.workspace.check_views, printing
"""
    client = serve(before=before)
    client.start()
    client.open("a.py", BAD)
    assert len(client.published("a.py", 1)) == 1
    assert client.stop() == 0
    assert client.stray == []
    errors = "".join(client.all_errors())
    assert "written" in errors
    assert "printed True" in errors  # a process that goes on for days needs its garbage collector
