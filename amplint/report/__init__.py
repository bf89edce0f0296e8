"""One module for each output format: findings in, text out."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from amplint.check import CheckResult
from amplint.report.text import Style

Renderer = Callable[[CheckResult, Style], str]


def renderer(output_format: str) -> Renderer:
    """The function that renders a result in this format: ``render`` of the module of its name, ``json_lines`` for
    "json-lines"."""
    render: Renderer = import_module(f"amplint.report.{output_format.replace('-', '_')}").render
    return render
