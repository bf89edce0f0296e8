from __future__ import annotations

from pathlib import Path

import pytest


def lines(text: str) -> dict[str, str]:
    return dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line)


def test_settings_are_shown_with_where_they_come_from(amplint, project: Path) -> None:
    (project / "amplint.toml").write_text('select = ["AMP1"]\ndevice = "cpu"\n')
    (project / "requirements.txt").write_text("torch>=2.3,<2.9\n")
    (project / "a.py").write_text("import torch\n")
    done = amplint("--show-settings", "a.py", "--device", "cuda")
    assert done.returncode == 0
    shown = lines(done.stdout)
    assert shown["device"] == '"cuda"  # --device'
    assert shown["select"] == f'["AMP1"]  # {project / "amplint.toml"}'
    assert shown["torch-version"] == f'">=2.3,<=2.8"  # {project / "requirements.txt"}'
    assert shown["force-exclude"] == "false  # the default"
    assert done.stdout == amplint("--show-settings", "a.py", "--device", "cuda").stdout


def test_what_is_assumed_is_said(amplint, project: Path) -> None:
    (project / "a.py").write_text("import torch\n")
    shown = lines(amplint("--show-settings", "--isolated", "a.py").stdout)
    assert shown["torch-version"].startswith('">=2.0"  # nothing says which torch:')
    assert "2.4" in shown["torch-version"]


def test_each_path_has_its_own(amplint, project: Path) -> None:
    (project / "inner").mkdir()
    (project / "inner" / "amplint.toml").write_text('torch-version = "2.5"\n')
    (project / "amplint.toml").write_text("force-exclude = true\n")
    first, second = amplint("--show-settings", ".", "inner").stdout.split("\n\n")
    assert lines(first)["force-exclude"].startswith("true")
    assert lines(second)["torch-version"].startswith('"2.5"  # ')
    assert lines(second)["force-exclude"] == "false  # the default"


def test_what_another_file_says_is_shown_as_its_own(amplint, project: Path) -> None:
    (project / "shared.toml").write_text('device = "cpu"\nlevel = "error"\n')
    (project / "amplint.toml").write_text('extend = "shared.toml"\nlevel = "warning"\n')
    shown = lines(amplint("--show-settings", ".").stdout)
    assert shown["device"] == f'"cpu"  # {project / "shared.toml"}'
    assert shown["level"] == f'"warning"  # {project / "amplint.toml"}'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.py",), "no such file or directory: missing.py"),
        (("--fix", "."), "--show-settings shows settings"),
        (("--device", "tpu", "."), "is none of"),
    ],
)
def test_what_cannot_be_shown(amplint, project: Path, arguments: tuple[str, ...], message: str) -> None:
    done = amplint("--show-settings", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
