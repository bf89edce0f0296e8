"""Which settings hold: those of the project, of the editor, and after they have changed."""

from __future__ import annotations

from pathlib import Path

from lsp_client import CAPABILITIES, Client, Serve, codes

BAD = "import torch\nautocast\nBAD\n"
TWO = BAD + "UNTIDY\n"
WATCHING = {**CAPABILITIES, "workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}}


def changed(client: Client, *names: str, kind: int = 2) -> None:
    """Tells the server that files on the disk have changed."""
    events = [{"uri": client.uri(name), "type": kind} for name in names]
    client.notify("workspace/didChangeWatchedFiles", {"changes": events})


def test_options_of_the_editor_count_before_the_settings(serve: Serve, project: Path) -> None:
    (project / "amplint.toml").write_text('ignore = ["AMP101"]\n')
    client = serve()
    client.start(options={"delay": 0})
    client.open("a.py", TWO)
    assert codes(client.published("a.py")) == [(4, "step-in-autocast")]
    version = 1
    for settings, expected in (
        ({"amplint": {"ignore": ["step-in-autocast"], "delay": 0}}, [(3, "backward-in-autocast")]),
        ({"ignore": ["AMP1"], "delay": 0}, []),
        ({"ignore": [], "level": "warning"}, [(3, "backward-in-autocast")]),
        ({"select": ["AMP103"], "ignore": []}, [(4, "step-in-autocast")]),
        ({"amplint": None}, [(4, "step-in-autocast")]),
    ):
        client.notify("workspace/didChangeConfiguration", {"settings": settings})
        client.change("a.py", TWO, version := version + 1)
        assert codes(client.published("a.py", version)) == expected


def test_a_client_that_says_nothing_of_options_keeps_them(serve: Serve) -> None:
    client = serve()
    client.start(options={"ignore": ["AMP101"]})
    for version, settings in enumerate((None, {}, []), 1):
        client.notify("workspace/didChangeConfiguration", {"settings": settings})
        client.open("a.py", TWO, version=version)
        assert codes(client.published("a.py", version)) == [(4, "step-in-autocast")]


def test_a_wrong_option_is_told_and_changes_nothing(serve: Serve) -> None:
    client = serve()
    client.start(options={"selct": ["AMP101"]})
    assert client.told("window/showMessage")["message"].startswith('amplint: unknown option "selct"')
    client.open("a.py", TWO)
    assert len(client.published("a.py")) == 2
    client.notify("workspace/didChangeConfiguration", {"settings": {"ignore": ["AMP999"]}})
    assert 'ignore: unknown rule "AMP999"' in client.told("window/showMessage")["message"]
    client.notify("workspace/didChangeConfiguration", {"settings": {"delay": "soon"}})
    assert "delay: expected milliseconds" in client.told("window/showMessage")["message"]
    client.change("a.py", BAD, 2)
    assert len(client.published("a.py", 2)) == 1


def test_each_folder_has_its_own_settings(serve: Serve, project: Path) -> None:
    for name, ignored in (("one", "AMP101"), ("two", "AMP103")):
        (project / name).mkdir()
        (project / name / "amplint.toml").write_text(f'ignore = ["{ignored}"]\n')
    client = serve()
    client.start(folders=[project / "one", project / "two"])
    client.open("one/a.py", TWO)
    client.open("two/a.py", TWO)
    assert codes(client.published("one/a.py", 1)) == [(4, "step-in-autocast")]
    assert codes(client.published("two/a.py", 1)) == [(3, "backward-in-autocast")]


def test_a_folder_that_comes_is_a_project(serve: Serve, project: Path) -> None:
    inner = project / "work" / "scripts"
    inner.mkdir(parents=True)
    (project / "work" / "twin.py").write_text("TWIN_B\n")
    client = serve(
        before="""
import amplint.workspace
kept = amplint.workspace.check_views
def telling(views, **more):
    sys.stderr.write(f"{[len(view.project) for view in views]}\\n")
    return kept(views, **more)
amplint.workspace.check_views = telling
"""
    )
    client.start(folders=[])
    client.open("work/scripts/a.py", BAD)
    client.published("work/scripts/a.py", 1)
    added = {"uri": (project / "work").as_uri(), "name": "work"}
    client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [added], "removed": []}})
    client.change("work/scripts/a.py", BAD + BAD, 2)
    client.published("work/scripts/a.py", 2)
    assert client.stop() == 0
    assert client.all_errors()[:: len(client.errors) - 1] == ["[1]\n", "[2]\n"]


def test_settings_that_change_on_the_disk_hold_at_once(serve: Serve, project: Path) -> None:
    client = serve()
    client.start(capabilities=WATCHING)
    (registered,) = client.told("client/registerCapability")["registrations"]
    assert registered["method"] == "workspace/didChangeWatchedFiles"
    patterns = {one["globPattern"] for one in registered["registerOptions"]["watchers"]}
    assert any("toml" in pattern and "py" in pattern for pattern in patterns)
    client.open("b.py", "x = 1\n")
    client.open("a.py", TWO)
    assert len(client.published("a.py")) == 2
    (project / "amplint.toml").write_text('ignore = ["AMP101"]\n')
    changed(client, "amplint.toml", kind=1)
    assert codes(client.published("a.py")) == [(4, "step-in-autocast")]
    (project / "amplint.toml").write_text("ignore = [\n")
    changed(client, "amplint.toml")
    assert "amplint.toml is not valid TOML" in client.told("window/showMessage")["message"]
    client.change("a.py", TWO + TWO, 2)
    (project / "amplint.toml").unlink()
    changed(client, "amplint.toml", kind=3)
    assert len(client.published("a.py", 2)) == 4
    (project / "amplint.toml").write_text("ignore = [\n")
    changed(client, "amplint.toml")
    client.told("window/showMessage")
    told = [one for one in client.log if one.get("method") == "window/showMessage"]
    assert len(told) == 2  # once each time, whatever is open


def test_a_file_that_changes_on_the_disk_counts_unless_it_is_open(serve: Serve, project: Path) -> None:
    (project / "twin.py").write_text("TWIN_B\n")
    client = serve()
    client.start()
    client.open("a.py", "autocast\nBAD\nTWIN_A\n")
    assert len(client.published("a.py", 1)) == 2
    client.open("b.py", "x = 1\n")
    assert client.published("b.py", 1) == []
    (project / "amplint.toml").write_text('ignore = ["AMP103"]\n')
    changed(client, "a.py")  # its text is that of the editor
    client.change("b.py", "x = 2\n", 2)
    client.published("b.py", 2)
    changed(client, "twin.py")
    assert codes(client.published("a.py", 1)) == [(2, "backward-in-autocast")]
