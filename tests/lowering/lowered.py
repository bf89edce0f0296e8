"""Files made up for a test, and the programs in them."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import libcst as cst

from amplint.findings import Span
from amplint.lowering.lower import lower_function
from amplint.lowering.program import Node, Program, Statement
from amplint.source.facts import facts_of
from amplint.source.outline import FunctionOutline
from amplint.source.project import ProjectFile
from amplint.source.texts import SourceFile


def file_of(text: str) -> ProjectFile:
    """A file with this text, of which reports speak as ``made.py``."""
    return ProjectFile(SourceFile(Path("/made.py"), "made.py", dedent(text)), "made")


def function(text: str, name: str = "f") -> Program:
    """The program of a function, or method, of a text."""
    file = file_of(text)
    found = next(outline for outline in file.outline.definitions() if outline.name == name)
    program = lower_function(file, found)
    assert program is not None
    return program


def body(text: str) -> tuple[Statement, ...]:
    """What some statements become in a function."""
    lines = dedent(text).strip().splitlines()
    return function("\n".join(["def f():", *(f"    {line}" for line in lines)])).body


def below(part: Any) -> Iterator[Any]:
    """Nodes and programs, with all that is below them, in the order of their fields."""
    pending = [part]
    while pending:
        match found := pending.pop():
            case tuple():
                pending += reversed(found)
                continue
            case Program():
                pending += [found.body, found.returns, found.parameters, found.head, found.decorators]
            case _ if dataclasses.is_dataclass(found):
                pending += [getattr(found, field.name) for field in reversed(dataclasses.fields(found))]
        if isinstance(found, Node | Program):
            yield found


def all_functions(file: ProjectFile) -> list[FunctionOutline]:
    """The functions of a file, methods and nested ones, too."""
    return facts_of(file.outline).functions


def functions_by_line(text: str) -> dict[int, Any]:
    """What ``ast`` makes of each function, by its first line, decorators included."""
    return {
        min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]): node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


class Nodes:
    """Places of trees that stand in no file."""

    def __init__(self) -> None:
        self.nodes: list[cst.CSTNode] = []

    def locate(self, number: int) -> Span:
        return Span(1, 1, 1, 1)

    def text_of(self, number: int) -> str:
        return ""
