"""The documentation is generated, its examples run, and amplint says of them what they claim."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest

from amplint.bounds import TORCH_DEFAULT
from amplint.check import check
from amplint.config import KEYS as SETTINGS
from amplint.config import Settings, load_settings
from amplint.rules.base import Rule

REPOSITORY = Path(__file__).resolve().parent.parent
HEADINGS = [
    "What it does",
    "Why is this bad",
    "What torch does at run time",
    "Example",
    "Use instead",
    "Fix safety",
    "References",
]


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", REPOSITORY / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = module  # dataclasses look their module up by name
    sys.path.insert(0, str(REPOSITORY / "docs"))  # as for a script
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(REPOSITORY / "docs"))
    return module


generate = load_generator()
RULES = list(generate.RULES)


def blocks(body: str, section: str = "") -> list[str]:
    """The Python code of a page, or of one of its sections."""
    text = body.partition(f"## {section}\n")[2].partition("\n## ")[0] if section else body
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


PROGRAMS = [
    pytest.param(code, id=f"{rule.name}-{number}")
    for rule in RULES
    for number, code in enumerate(blocks(rule.page))
]


def test_generated_documentation_is_up_to_date() -> None:
    assert generate.stale(generate.wanted()) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_page_has_the_fixed_headings(rule: Rule) -> None:
    assert re.findall(r"^## (.*)$", rule.page, re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("code", PROGRAMS)
def test_code_of_a_page_runs_as_the_page_says(code: str) -> None:
    pytest.importorskip("torch")
    promised = re.search(r"# raises (\w+): (.*)$", code, re.MULTILINE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if promised is None:
            exec(compile(code, "<page>", "exec"), {"__name__": "page"})
            return
        with pytest.raises(Exception, match=re.escape(promised[2])) as raised:
            exec(compile(code, "<page>", "exec"), {"__name__": "page"})
    assert type(raised.value).__name__ == promised[1]


# The flow does not know yet that the else of `t.float() if t.is_floating_point() else t` is no float.
@pytest.mark.parametrize("rule", [pytest.param(r, id=r.name) for r in RULES])
def test_rule_speaks_on_its_example_and_not_on_what_to_use_instead(rule: Rule, tmp_path: Path) -> None:
    for code in blocks(rule.page, "Example"):
        assert rule.name in found(code, tmp_path)
    for code in blocks(rule.page, "Use instead"):
        assert found(code, tmp_path) == []


def found(code: str, folder: Path) -> list[str]:
    """The names of the rules that speak on a program."""
    program = folder / "program.py"
    program.write_text(code, encoding="utf-8")
    settings = Settings(root=folder, select=("ALL",), torch=TORCH_DEFAULT, torch_from="the tests")
    result = check([program], settings, jobs=1)
    assert result.crashes == ()
    return [finding.name for finding in result.findings]


def test_rooms_import_only_what_stands_below_them_in_the_architecture() -> None:
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = [
        re.findall(r"`(\w+)(?:/|\.py)`", row) for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    ]
    floor = {room: number for number, row in enumerate(rooms) for room in row}
    sources = sorted((REPOSITORY / "amplint").rglob("*.py"))
    assert {room_of(path) for path in sources} - {"__init__"} == set(floor)
    for path in sources:
        upwards = [room for room in imported_rooms(path) if floor[room] < floor.get(room_of(path), 0)]
        assert upwards == [], f"{path} imports from above"


def room_of(path: Path) -> str:
    return path.relative_to(REPOSITORY / "amplint").with_suffix("").parts[0]


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a module imports from, imports inside functions included."""
    nodes = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
    ]
    modules = [node.module.split(".") for node in nodes if node.module and node.module.startswith("amplint.")]
    return {module[1] for module in modules}


def test_readme_has_the_command_that_ci_runs_as_its_test_command() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    part = readme.partition("<!-- test command -->\n")[2].partition("<!-- end -->")[0]
    assert part.startswith("```sh\npython3 -m venv .venv && ")
    assert part.endswith(" && .venv/bin/pytest -n auto\n```\n")


def test_settings_in_the_readme_are_all_and_valid(tmp_path: Path) -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (sample,) = re.findall(r"^```toml\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(sample, encoding="utf-8")
    assert load_settings(tmp_path).source == tmp_path / "pyproject.toml"
    documented = set(re.findall(r"^#? ?([a-z-]+) = ", sample, re.MULTILINE)) | {"per-file-ignores"}
    assert documented == set(SETTINGS)


def test_each_place_that_was_found_has_a_program_with_its_finding() -> None:
    rule, rows = "", 0
    for line in (REPOSITORY / "docs" / "found.md").read_text(encoding="utf-8").splitlines():
        heading = re.match(r"\[([\w-]+)\]\(rules/\1\.md\)", line)
        rule = heading.group(1) if heading else rule
        program = re.search(r"\| `(fixtures/[^`]+)` \|$", line)
        if program is None:
            continue
        rows += 1
        path = REPOSITORY / program.group(1)
        sources = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        marks = [
            mark for source in sources for mark in re.findall(r"# expect: (.*)", source.read_text("utf-8"))
        ]
        assert any(rule in mark.split(", ") for mark in marks), (rule, path)
    assert rows >= 30
