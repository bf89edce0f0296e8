"""The pages of the frameworks: what amplint reports of their programs, and that no framework is without one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from amplint.check import check
from amplint.config import Settings

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = sorted((REPOSITORY / "docs" / "frameworks").glob("*.md"))
MODELS = REPOSITORY / "amplint" / "flow" / "models" / "frameworks"
HELPERS = {"roles", "scales", "training", "__init__"}

PROGRAMS = [
    pytest.param(code, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
]


@pytest.mark.parametrize("code", PROGRAMS)
def test_a_program_has_the_findings_of_its_lines(code: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(code, encoding="utf-8")
    promised = [
        (number, name)
        for number, line in enumerate(code.splitlines(), 1)
        for name in line.partition("# expect: ")[2].split()
    ]
    assert promised
    result = check([path], Settings(root=tmp_path))
    assert [(finding.span.line, finding.name) for finding in result.findings] == promised


@pytest.mark.parametrize("model", sorted({path.stem for path in MODELS.glob("*.py")} - HELPERS))
def test_each_framework_has_a_page_that_names_the_release(model: str) -> None:
    docstring = ast.get_docstring(ast.parse((MODELS / f"{model}.py").read_text(encoding="utf-8")))
    assert docstring is not None
    source = " ".join(docstring.partition("Source: ")[2].partition("\n\n")[0].split())
    releases = re.findall(r"([a-z][\w-]*) \(?(\d+(?:\.\d+)*)", source.partition(". ")[0])
    assert releases, source
    said = " ".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name, release in releases:
        assert re.search(rf"{name},? {re.escape(release)}", " ".join(said.split())), (name, release)
