"""What an editor can do about findings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from lsp_client import CAPABILITIES, EVERYWHERE, Message, Serve, codes, edited

OLD = "import torch\n\nregion = torch.cuda.amp.autocast()\n"
STEP = """import torch

net = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
with torch.autocast("cuda", dtype=torch.bfloat16):
    for x in torch.randn(3, 4, 2, device="cuda"):
        loss = net(x).mean()
        loss.backward()
        optimizer.step()
"""


def titles(actions: list[Message]) -> list[str]:
    return [action["title"] for action in actions]


def texts_after(action: Message, texts: dict[str, str]) -> dict[str, str]:
    """The texts, by URI, after an action has been applied."""
    changes = {one["textDocument"]["uri"]: one["edits"] for one in action["edit"]["documentChanges"]}
    return {uri: edited(text, changes.get(uri, [])) for uri, text in texts.items()}


def test_a_safe_fix_is_preferred_and_gives_the_mended_text(serve: Serve) -> None:
    client = serve(fake=False)
    client.start()
    text = OLD.replace("region", 'x = "\N{FIRE}"; region').replace("\n", "\r\n")
    client.open("old.py", text, version=7)
    (found,) = client.published("old.py", 7)
    action, comment = client.actions("old.py", found["range"], ["quickfix"])
    assert action["title"] == 'Write `torch.amp.autocast` for the device type "cuda"'
    assert (action["kind"], action["isPreferred"]) == ("quickfix", True)
    assert action["diagnostics"] == [found]
    (change,) = action["edit"]["documentChanges"]
    assert change["textDocument"] == {"uri": client.uri("old.py"), "version": 7}
    mended = edited(text, change["edits"])
    assert mended == text.replace("torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")')
    assert "isPreferred" not in comment
    client.change("old.py", mended, 8)
    assert client.published("old.py", 8) == []


def test_an_unsafe_fix_says_so_and_the_safe_one_stands_beside_it(serve: Serve) -> None:
    client = serve(fake=False)
    client.start()
    client.open("train.py", STEP)
    found = next(one for one in client.published("train.py", 1) if one["code"] == "epoch-wide-autocast")
    unsafe, safe, comment = [one for one in client.actions("train.py", found["range"]) if one.get("edit")]
    assert unsafe["title"].endswith(" (unsafe)") and "isPreferred" not in unsafe
    assert "(unsafe)" not in safe["title"] and safe["isPreferred"] is True
    assert comment["title"] == "Ignore epoch-wide-autocast here with a comment"


def test_nothing_is_offered_elsewhere_or_for_a_text_that_has_changed_since(serve: Serve) -> None:
    client = serve()
    client.start(options={"delay": 60_000})
    client.open("a.py", "import torch\nautocast\nUNTIDY\n")
    client.published("a.py", 1)
    first = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 5}}
    assert client.actions("a.py", first, ["quickfix"]) == []
    assert titles(client.actions("a.py", EVERYWHERE, ["refactor"])) == []
    assert len(client.actions("a.py", EVERYWHERE, ["quickfix"])) == 2
    client.change("a.py", "\nimport torch\nautocast\nUNTIDY\n", 2)
    assert client.actions("a.py", EVERYWHERE, ["quickfix"]) == []


def test_a_fix_that_is_about_another_text_on_the_disk_is_not_offered(serve: Serve, project: Path) -> None:
    (project / "twin.py").write_text("TWIN_B\n")
    client = serve()
    client.start()
    client.open("a.py", "autocast\nTWIN_A\n")
    client.published("a.py", 1)
    fix, comment = client.actions("a.py", EVERYWHERE, ["quickfix"])
    after = texts_after(fix, {client.uri("a.py"): "autocast\nTWIN_A\n", client.uri("twin.py"): "TWIN_B\n"})
    assert after == {client.uri("a.py"): "autocast\nTIDY\n", client.uri("twin.py"): "TIDY\n"}
    versions = {
        one["textDocument"]["uri"]: one["textDocument"]["version"] for one in fix["edit"]["documentChanges"]
    }
    assert versions == {client.uri("a.py"): 1, client.uri("twin.py"): None}
    (project / "twin.py").write_text("\nTWIN_B\n")
    assert client.actions("a.py", EVERYWHERE, ["quickfix"]) == [comment]


def test_a_comment_silences_a_finding(serve: Serve) -> None:
    client = serve(fake=False)
    client.start()
    client.open("old.py", OLD)
    (found,) = client.published("old.py", 1)
    comment = client.actions("old.py", found["range"])[1]
    assert comment["title"] == "Ignore deprecated-amp-api here with a comment"
    after = texts_after(comment, {client.uri("old.py"): OLD})[client.uri("old.py")]
    assert after == OLD.replace("()\n", "()  # amplint: ignore[deprecated-amp-api]\n")
    client.change("old.py", after, 2)
    assert client.published("old.py", 2) == []


MIXED = "autocast\nUNTIDY\nRISKY\nUNTIDY\n"


@pytest.mark.parametrize("only", ["source.fixAll.amplint", "source.fixAll", "source"])
def test_all_safe_fixes_are_made_at_once(serve: Serve, only: str) -> None:
    client = serve()
    client.start()
    client.open("a.py", MIXED)
    client.published("a.py", 1)
    (action,) = client.actions("a.py", EVERYWHERE, [only])
    assert action["kind"] == "source.fixAll.amplint"
    after = texts_after(action, {client.uri("a.py"): MIXED})
    assert after == {client.uri("a.py"): "autocast\nTIDY\nRISKY\nTIDY\n"}


def test_they_are_worked_out_when_they_are_chosen_from_a_menu(serve: Serve) -> None:
    client = serve()
    client.start()
    client.open("a.py", MIXED)
    client.published("a.py", 1)
    action = client.actions("a.py", EVERYWHERE)[-1]
    assert action["kind"] == "source.fixAll.amplint" and "edit" not in action
    after = texts_after(client.request("codeAction/resolve", action), {client.uri("a.py"): MIXED})
    assert after == {client.uri("a.py"): "autocast\nTIDY\nRISKY\nTIDY\n"}


def test_a_client_that_cannot_ask_back_gets_them_only_when_it_asks_for_them(serve: Serve) -> None:
    client = serve()
    client.start(capabilities={})
    client.open("a.py", MIXED)
    client.published("a.py", 1)
    assert {action["kind"] for action in client.actions("a.py", EVERYWHERE)} == {"quickfix"}
    (action,) = client.actions("a.py", EVERYWHERE, ["source.fixAll"])
    assert list(action["edit"]) == ["changes"]  # nor does it know of versions
    assert edited(MIXED, action["edit"]["changes"][client.uri("a.py")]) == "autocast\nTIDY\nRISKY\nTIDY\n"


def test_of_all_fixes_one_that_breaks_something_is_left_out_and_other_files_change_with_it(
    serve: Serve, project: Path
) -> None:
    (project / "twin.py").write_text("TWIN_B\n")
    client = serve()
    client.start()
    text = "autocast\nBROKEN\nTWIN_A\nEATEN  # eaten\n"
    client.open("a.py", text)
    client.published("a.py", 1)
    (action,) = client.actions("a.py", EVERYWHERE, ["source.fixAll"])
    after = texts_after(action, {client.uri("a.py"): text, client.uri("twin.py"): "TWIN_B\n"})
    assert after[client.uri("a.py")] == "autocast\nBROKEN\nTIDY\nEATEN  # eaten\n"
    assert after[client.uri("twin.py")] == "TIDY\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFOs there")
def test_no_fixes_are_made_of_a_text_that_changes_before_they_are_there(serve: Serve, project: Path) -> None:
    os.mkfifo(project / "fifo")
    for name in ("one", "two"):
        (project / name).mkdir()
        (project / name / "amplint.toml").write_text("")
    client = serve()
    client.start()
    client.open("one/a.py", MIXED)
    client.published("one/a.py", 1)
    client.open("two/b.py", f"autocast\n# WAIT {project}/fifo\n")
    with (project / "fifo").open("w"):
        number = client.ask_for_actions("one/a.py", EVERYWHERE, ["source.fixAll"])
        client.change("one/a.py", "\n" + MIXED, 2)
        assert client.actions("one/a.py", EVERYWHERE, ["quickfix"]) == []
    assert client.answer(number) == []


def test_without_a_safe_fix_there_is_no_such_action(serve: Serve) -> None:
    client = serve()
    client.start()
    client.open("a.py", "autocast\nRISKY\n")
    client.published("a.py", 1)
    assert client.actions("a.py", EVERYWHERE, ["source.fixAll"]) == []
    assert "source.fixAll.amplint" not in {one["kind"] for one in client.actions("a.py", EVERYWHERE)}


def test_hover_shows_the_page_of_the_rule(serve: Serve) -> None:
    client = serve()
    client.start(capabilities=CAPABILITIES)
    client.open("a.py", "import torch\nautocast\nBAD\n")
    (found,) = client.published("a.py", 1)

    def hover(line: int, character: int) -> Message | None:
        position = {"line": line, "character": character}
        answer: Message | None = client.request(
            "textDocument/hover", {"textDocument": {"uri": client.uri("a.py")}, "position": position}
        )
        return answer

    shown = hover(2, 1)
    assert shown is not None
    assert shown["range"] == found["range"]
    assert shown["contents"]["kind"] == "markdown"
    assert shown["contents"]["value"].startswith("# backward-in-autocast (AMP101)\n")
    assert "## Use instead" in shown["contents"]["value"]
    assert hover(1, 1) is None
    assert codes([found]) == [(3, "backward-in-autocast")]
