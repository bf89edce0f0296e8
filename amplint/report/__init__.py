"""One module for each output format: findings in, text out."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from amplint.check import CheckResult
from amplint.report.text import Style

Renderer = Callable[[CheckResult, Style], str]

_MODULES = {"full": "full", "concise": "concise", "json": "json_array", "github": "github"}


def renderer(output_format: str) -> Renderer:
    """The function that renders a result in this format."""
    render: Renderer = import_module(f"amplint.report.{_MODULES[output_format]}").render
    return render
