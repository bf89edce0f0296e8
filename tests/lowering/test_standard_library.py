"""Lowering held against Python itself, over packages of the standard library."""

from __future__ import annotations

import ast
import email
import re
import symtable
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lowered import all_functions, below, functions_by_line
from shapes import expected_block, expected_function, shape

from amplint.lowering.lower import lower_function, lower_module
from amplint.lowering.program import Node, Program
from amplint.source.project import ProjectFile
from amplint.source.texts import read_source

FILES = sorted(Path(email.__file__).parent.glob("*.py"))
_SHOWS_ITSELF = re.compile(r"=[!:}]")
"""``{x=}`` in an f-string is text for ast, and an opaque part for lowering."""


@pytest.fixture(scope="module", params=FILES, ids=lambda path: path.stem)
def file(request: pytest.FixtureRequest) -> ProjectFile:
    return ProjectFile(read_source(request.param), request.param.stem)


def programs(file: ProjectFile) -> Iterator[Program]:
    for outline in all_functions(file):
        program = lower_function(file, outline)
        assert program is not None
        yield program


def test_functions_say_what_the_text_says(file: ProjectFile) -> None:
    """``shapes.expected`` works the same programs out from ``ast``."""
    by_line = functions_by_line(file.text)
    for program in programs(file):
        if not _SHOWS_ITSELF.search(program_text(file, program)):
            assert shape(program) == expected_function(by_line[program.line])


def test_modules_say_what_the_text_says(file: ProjectFile) -> None:
    statements = [
        node
        for node in ast.parse(file.text).body
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    module = lower_module(file)
    assert module is not None
    assert shape(module.body) == expected_block(statements)


def test_locals_are_those_of_symtable(file: ProjectFile) -> None:
    tables: dict[tuple[str, int], list[set[str]]] = {}
    _collect(symtable.symtable(file.text, "made.py", "exec"), "", tables)
    inlined = _inlined(ast.parse(file.text))
    for outermost in programs(file):
        for program in [part for part in below(outermost) if isinstance(part, Program)]:
            name = "lambda" if program.kind == "lambda" else program.name
            place = (name, program.locate(program.number).line)
            without = inlined.get(place, set())
            assert program.locals - without in [own - without for own in tables[place]]


def test_every_node_has_a_place_in_its_definition(file: ProjectFile) -> None:
    for outermost in programs(file):
        last = file.text.count("\n") + 1
        for node in below(outermost):
            if isinstance(node, Node):
                span = outermost.locate(node.number)
                assert outermost.line <= span.line <= span.end_line <= last
                assert outermost.text_of(node.number)


def program_text(file: ProjectFile, program: Program) -> str:
    span = program.locate(program.number)
    return file.text_between(program.line, span.end_line)


def _collect(table: symtable.SymbolTable, owner: str, into: dict[tuple[str, int], list[set[str]]]) -> None:
    """The local names of functions and lambdas by name and line."""
    for child in table.get_children():
        is_class = child.get_type() == "class"
        _collect(child, child.get_name() if is_class else owner, into)
        if isinstance(child, symtable.Function):
            into.setdefault((child.get_name(), child.get_lineno()), []).append(_own(child, owner))


def _own(table: symtable.SymbolTable, owner: str) -> set[str]:
    mangled = f"_{owner.lstrip('_')}__"
    names = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_local()}
    return {f"__{name[len(mangled) :]}" if owner and name.startswith(mangled) else name for name in names}


def _inlined(tree: ast.Module) -> dict[tuple[str, int], set[str]]:
    """The targets of comprehensions in functions and lambdas: since Python 3.12 these are compiled into them, and
    symtable counts their names among the others."""
    if sys.version_info < (3, 12):
        return {}
    found: dict[tuple[str, int], set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            targets = [part.target for part in ast.walk(node) if isinstance(part, ast.comprehension)]
            names = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
            found.setdefault((getattr(node, "name", "lambda"), node.lineno), set()).update(names)
    return found
