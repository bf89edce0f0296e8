"""Where a finding in a notebook is, in each format: people are told cell and line, services the line of the JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator

from amplint.check import CheckResult, check
from amplint.config import Settings
from amplint.report import renderer
from amplint.report.sources import Sources
from amplint.report.text import Style
from amplint.source.decoding import split_lines

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "findings-1.json"
CELLS = [
    "# autocast",
    "!pip install torch \\\n  numpy\nimport torch\nfrom torch.cuda.amp import autocast",
    '%%time\nfor größe, x in loader:\n    with autocast():\n        files = !ls *\n        loss = loss_of("ä", x)\n'
    "        loss.backward()",
]


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    cells: list[dict[str, Any]] = [
        {"cell_type": "code" if number else "markdown", "source": source.splitlines(True)}
        for number, source in enumerate(CELLS)
    ]
    path = tmp_path / "a.ipynb"
    path.write_text(
        json.dumps({"cells": cells, "nbformat": 4}, indent=1, ensure_ascii=False), encoding="utf-8"
    )
    return path


@pytest.fixture
def result(notebook: Path) -> CheckResult:
    return check(["."], Settings(root=notebook.parent), jobs=1)


def shown(result: CheckResult, output_format: str) -> str:
    return renderer(output_format)(result, Style())


def line_of(notebook: Path, text: str) -> int:
    lines = notebook.read_text(encoding="utf-8").split("\n")
    (number,) = (number for number, line in enumerate(lines, 1) if text in line)
    return number


def applied(notebook: Path, changes: list[tuple[tuple[int, int], tuple[int, int], str]]) -> list[str]:
    """The code cells after replacements in the JSON, by lines and columns, the last one first."""
    raw = notebook.read_text(encoding="utf-8")
    lines = split_lines(raw)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    for start, end, text in sorted(changes, reverse=True):
        first, last = (starts[line - 1] + column - 1 for line, column in (start, end))
        raw = raw[:first] + text + raw[last:]
    return ["".join(cell["source"]) for cell in json.loads(raw)["cells"]][1:]


def test_concise_and_the_lines_of_messages(result: CheckResult) -> None:
    assert [line.partition(" AMP")[0] for line in shown(result, "concise").splitlines()[:2]] == [
        "a.ipynb:cell 3:3:10: advice[deprecated-amp-api]",
        "a.ipynb:cell 3:6:9: warning[backward-in-autocast]",
    ]
    assert result.findings[1].message.endswith("the autocast region that opens on line 3 of cell 3")


def test_full_shows_cells_as_they_are(result: CheckResult) -> None:
    first, second = shown(result, "full").split("\n\n")[:2]
    assert "a.ipynb:cell 3:3:10: advice" in first
    assert "3 |     with autocast():" in first
    assert "::: a.ipynb:cell 2:4:1" in first
    assert "4 | from torch.cuda.amp import autocast" in first
    assert "4 - from torch.cuda.amp import autocast" in first
    assert "4 |         files = !ls *" in first
    assert "get_ipython" not in first + second
    assert "6 -         loss.backward()" in second


@pytest.mark.parametrize("output_format", ["json", "json-lines"])
def test_json_counts_the_lines_of_the_cell(result: CheckResult, output_format: str) -> None:
    text = shown(result, output_format)
    found = json.loads(text) if output_format == "json" else [json.loads(line) for line in text.splitlines()]
    Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(found)
    names = ("path", "cell", "line", "column", "end_line", "end_column")
    assert [found[0][name] for name in names] == ["a.ipynb", 3, 3, 10, 3, 18]
    assert [found[0]["trail"][0][name] for name in names[:4]] == ["a.ipynb", 2, 4, 1]
    edits = [[edit[name] for name in names] for edit in found[0]["fix"]["edits"]]
    assert edits == [["a.ipynb", 2, 4, 12, 4, 17], ["a.ipynb", 3, 3, 19, 3, 19]]


def test_files_that_are_no_notebooks_have_no_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text(
        "\n\n".join(CELLS[1:2]).replace("!", "#").replace("  numpy", "") + "\nautocast()\n"
    )
    result = check(["."], Settings(root=tmp_path), jobs=1)
    assert result.findings
    assert "cell" not in shown(result, "json")


def test_services_have_the_lines_of_the_json(result: CheckResult, notebook: Path) -> None:
    line, backward = line_of(notebook, "with autocast()"), line_of(notebook, "loss.backward()")
    column = notebook.read_text(encoding="utf-8").split("\n")[line - 1].index("autocast()") + 1
    at = f"file=a.ipynb,line={line},endLine={line},col={column},endColumn={column + 8},"
    assert any(at in row and "::a.ipynb:cell 3:3:10: " in row for row in shown(result, "github").splitlines())
    assert [row.split(": ")[0] for row in shown(result, "pylint").splitlines()] == [
        f"a.ipynb:{line}",
        f"a.ipynb:{backward}",
    ]
    assert "] cell 3, line 3: `torch.cuda.amp.autocast`" in shown(result, "pylint")
    issue = json.loads(shown(result, "gitlab"))[0]
    assert issue["location"]["positions"]["begin"] == {"line": line, "column": column}
    assert "(AMP501): cell 3, line 3: " in issue["description"]
    case = next(ElementTree.fromstring(shown(result, "junit").encode()).iter("testcase"))
    assert (case.get("file"), case.get("line")) == ("a.ipynb", str(line))
    assert (case[0].get("message") or "").startswith("cell 3, line 3: ")
    assert (case[0].text or "").startswith("a.ipynb:cell 3:3:10: ")


def test_sarif(result: CheckResult, notebook: Path) -> None:
    found = json.loads(shown(result, "sarif"))["runs"][0]["results"]
    region = found[0]["locations"][0]["physicalLocation"]["region"]
    assert region["startLine"] == line_of(notebook, "with autocast()")
    assert found[0]["message"]["text"].startswith("cell 3, line 3: ")
    related = found[0]["relatedLocations"][0]
    assert related["physicalLocation"]["region"]["startLine"] == line_of(notebook, "import autocast")
    assert related["message"]["text"].startswith("cell 2, line 4: ")
    (change,) = found[0]["fixes"][0]["artifactChanges"]
    changes = [
        (
            (made["deletedRegion"]["startLine"], made["deletedRegion"]["startColumn"]),
            (made["deletedRegion"]["endLine"], made["deletedRegion"]["endColumn"]),
            made["insertedContent"]["text"],
        )
        for made in change["replacements"]
    ]
    assert applied(notebook, changes) == [
        CELLS[1].replace("torch.cuda.amp import", "torch.amp import"),
        CELLS[2].replace("autocast()", 'autocast("cuda")'),
    ]


def test_rdjson_offers_what_lies_in_one_cell(result: CheckResult, notebook: Path) -> None:
    first, second = json.loads(shown(result, "rdjson"))["diagnostics"]
    line = notebook.read_text(encoding="utf-8").split("\n")[first["location"]["range"]["start"]["line"] - 1]
    start = first["location"]["range"]["start"]["column"] - 1
    assert line.encode()[start : start + 8] == b"autocast"
    assert first["message"].startswith("cell 3, line 3: ")
    assert "suggestions" not in first  # it is in two cells
    (made,) = second["suggestions"]
    places = [(made["range"][name]["line"], made["range"][name]["column"]) for name in ("start", "end")]
    changed = applied(notebook, [(places[0], places[1], made["text"])])
    assert changed == [CELLS[1], CELLS[2].replace("        loss.backward()", "    loss.backward()")]


def test_what_is_gone_is_told_without_its_cells(result: CheckResult, notebook: Path) -> None:
    notebook.unlink()
    for output_format in (
        "full",
        "concise",
        "json",
        "github",
        "gitlab",
        "sarif",
        "junit",
        "rdjson",
        "pylint",
    ):
        assert "a.ipynb" in shown(result, output_format)
    assert Sources(result).cell("a.ipynb", 3) == 0
