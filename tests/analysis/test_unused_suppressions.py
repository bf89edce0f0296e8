from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Span
from amplint.rules.amp101_backward_in_autocast import BackwardInAutocast

CLEAN = "import torch\n\ntorch.autocast('cpu')(print)()\nx = 1  {}\n"
REGION = "import torch\n\nwith torch.autocast('cuda'):\n    loss.backward()  {}\n"


def found(folder: Path, text: str, **changes: object) -> list[tuple[str, int]]:
    """Name and line of what is found in a file."""
    (folder / "program.py").write_text(text, encoding="utf-8")
    settings = replace(Settings(root=folder), **changes)  # type: ignore[arg-type]
    result = check([str(folder)], settings, jobs=1)
    return [(finding.name, finding.span.line) for finding in result.findings]


@pytest.mark.parametrize(
    ("comment", "select"),
    [
        ("# amplint: ignore[backward-in-autocast]", ("missing-float", "AMP901")),
        ("# amplint: ignore[AMP10]", ("AMP101", "AMP901")),
        ("# amplint: ignore", ("AMP101", "AMP901")),
        ("# amplint: ignore[ALL]", ("AMP1", "AMP2", "AMP901")),
        ("# amplint: ignore[backward-in-autocast]", ("AMP101",)),
        ("# amplint: ignore[]", ("ALL",)),
        ("# noqa", ("ALL",)),
        ("# noqa: E501", ("ALL",)),
    ],
)
def test_what_did_not_run_is_not_judged(tmp_path: Path, comment: str, select: tuple[str, ...]) -> None:
    assert found(tmp_path, CLEAN.format(comment), select=select) == []


@pytest.mark.parametrize(
    ("comment", "select"),
    [
        ("# amplint: ignore[backward-in-autocast]", ()),
        ("# amplint: ignore[backward-in-autocast]", ("AMP101", "AMP901")),
        ("# amplint: ignore[AMP1]", ("AMP1", "AMP9")),
        ("# amplint: ignore", ("ALL",)),
        ("# noqa: AMP101", ()),
        ("# amplint: ignore-file[AMP101]", ()),
        ("# amplint: ignore[backward-in-autocats]", ("AMP901",)),
    ],
)
def test_what_silences_nothing_is_told(tmp_path: Path, comment: str, select: tuple[str, ...]) -> None:
    assert found(tmp_path, CLEAN.format(comment), select=select) == [("unused-suppression", 4)]


def test_a_misspelt_name_comes_with_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(CLEAN.format("# amplint: ignore[backward-in-autocats]"))
    (finding,) = check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings
    assert 'did you mean "backward-in-autocast"?' in finding.message


def test_the_place_is_the_word(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        REGION.format("# amplint: ignore[AMP101, missing-float] why"), encoding="utf-8"
    )
    (finding,) = check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings
    column = REGION.splitlines()[3].index("{}") + len("# amplint: ignore[AMP101, ") + 1
    assert finding.span == Span(4, column, 4, column + len("missing-float"))


def test_a_file_without_amp_is_judged_only_while_the_rule_runs(tmp_path: Path) -> None:
    text = "x = 1  # amplint: ignore[AMP101]\n"
    assert found(tmp_path, text) == [("unused-suppression", 1)]
    assert found(tmp_path, text, ignore=("AMP901",)) == []


def test_rules_that_are_ignored_for_a_file_have_run(tmp_path: Path) -> None:
    ignores = (("program.py", ("AMP101",)),)
    text = REGION.format("# amplint: ignore[AMP101]")
    assert found(tmp_path, text, per_file_ignores=ignores) == []
    ignores = (("program.py", ("unused-suppression",)),)
    assert found(tmp_path, CLEAN.format("# amplint: ignore[AMP101]"), per_file_ignores=ignores) == []


def test_a_file_with_a_syntax_error_is_not_judged(tmp_path: Path) -> None:
    assert found(tmp_path, "x = 1  # amplint: ignore[AMP101]\nautocast(\n") == [("syntax-error", 2)]


def test_a_file_that_a_rule_crashed_on_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*arguments: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(BackwardInAutocast, "on_backward", crash)
    (tmp_path / "program.py").write_text(REGION.format("# amplint: ignore[AMP101, AMP203]"))
    result = check([str(tmp_path)], Settings(root=tmp_path), jobs=1)
    assert [crash.path for crash in result.crashes] != [] and result.findings == ()


def test_a_comment_that_needs_itself_to_be_hidden_is_told(tmp_path: Path) -> None:
    assert found(tmp_path, CLEAN.format("# amplint: ignore[unused-suppression]")) == [
        ("unused-suppression", 4)
    ]


def test_a_comment_for_what_another_file_leads_to_is_used(tmp_path: Path) -> None:
    """The region is opened in main.py, the backward pass runs in steps.py."""
    (tmp_path / "steps.py").write_text("def run(loss):\n    loss.backward()  # amplint: ignore[AMP101]\n")
    (tmp_path / "main.py").write_text(
        "import torch\nfrom steps import run\n\nwith torch.autocast('cuda'):\n    run(loss)\n"
    )
    assert check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings == ()
