"""Each output format is a module of its name, and the README names them all."""

from __future__ import annotations

import re
from importlib import import_module
from inspect import signature
from pathlib import Path
from pkgutil import iter_modules

from amplint import report
from amplint.config import OUTPUT_FORMATS
from amplint.report import Renderer, renderer

REPOSITORY = Path(__file__).parents[2]


def test_each_module_that_renders_findings_is_a_format() -> None:
    found = {
        part.name.replace("_", "-"): import_module(f"amplint.report.{part.name}")
        for part in iter_modules(report.__path__)
    }
    rendering = {
        name
        for name, module in found.items()
        if hasattr(module, "render") and list(signature(module.render).parameters) == ["result", "style"]
    }
    assert rendering == set(OUTPUT_FORMATS)
    made: list[Renderer] = [renderer(name) for name in OUTPUT_FORMATS]
    assert len(set(made)) == len(OUTPUT_FORMATS)


def test_the_readme_names_the_formats() -> None:
    line = re.search(r"--output-format (.*)# or (.*)", (REPOSITORY / "README.md").read_text(encoding="utf-8"))
    assert line is not None
    assert {line[1].strip(), *line[2].split(", ")} == set(OUTPUT_FORMATS)
