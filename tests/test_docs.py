"""The documentation is generated, its examples run, and amplint says of them what they claim."""

from __future__ import annotations

import importlib.util
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest

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
    spec.loader.exec_module(module)
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
