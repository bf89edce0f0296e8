from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from amplint.source.outline import Outline, dotted, draw


def outlined(text: str) -> Outline:
    return draw(ast.parse(dedent(text)))


@pytest.mark.parametrize(
    ("statement", "imports"),
    [
        ("import torch", {"torch": "torch"}),
        ("import torch.nn.functional", {"torch": "torch"}),
        ("import torch.nn.functional as F", {"F": "torch.nn.functional"}),
        ("from torch.cuda.amp import autocast", {"autocast": "torch.cuda.amp.autocast"}),
        ("from torch.cuda import amp as mixed", {"mixed": "torch.cuda.amp"}),
        ("from . import engine", {"engine": ".engine"}),
        ("from .engine import train as run", {"run": ".engine.train"}),
        ("from ..tools import a, b", {"a": "..tools.a", "b": "..tools.b"}),
        ("from torch import *", {}),
    ],
)
def test_imports(statement: str, imports: dict[str, str]) -> None:
    assert outlined(statement).imports == imports


def test_stars() -> None:
    assert outlined("from .a import *\nfrom b import *").stars == [".a", "b"]


def test_the_first_import_of_a_name_wins() -> None:
    outline = outlined("""
        try:
            from torch.amp import autocast
        except ImportError:
            from .compat import autocast
    """)
    assert outline.imports == {"autocast": "torch.amp.autocast"}


def test_definitions_have_their_lines_decorators_included() -> None:
    outline = outlined("""\
        @one
        @two(
            3)
        def f():
            return 1

        class C:
            def m(self):
                pass
    """)
    assert [(part.qualified, part.line, part.end_line) for part in outline.definitions()] == [
        ("f", 1, 5),
        ("C.m", 8, 9),
    ]


def test_parameters() -> None:
    function = outlined("def f(a, /, b, *rest, c=1, **more): pass").functions["f"]
    assert function.parameters == ("a", "b", "c")


def test_definitions_under_conditions_count() -> None:
    outline = outlined("""
        if new:
            def f(): pass
        else:
            class C: pass
        try:
            def g(): pass
        finally:
            def h(): pass
    """)
    assert set(outline.functions) == {"f", "g", "h"}
    assert set(outline.classes) == {"C"}


def test_of_two_functions_with_one_name_the_first_counts() -> None:
    assert outlined("def f(): pass\ndef f(): pass").functions["f"].line == 1


def test_functions_inside_functions_do_not_count() -> None:
    assert set(outlined("def f():\n    def g(): pass").functions) == {"f"}


def test_bases_as_written() -> None:
    owner = outlined("class C(nn.Module, Base[int], call(), metaclass=M): pass").classes["C"]
    assert owner.bases == ("nn.Module",)


def test_a_setter_does_not_hide_its_getter() -> None:
    owner = outlined("""\
        class C:
            @property
            def x(self): return 1
            @x.setter
            def x(self, value): pass
    """).classes["C"]
    assert owner.methods["x"].line == 2


def test_chunks_are_what_is_neither_definition_nor_import() -> None:
    outline = outlined("""\
        import torch
        a = 1
        b = 2

        def f(): pass
        c = (
            3)
    """)
    assert outline.chunks == [(2, 3), (6, 7)]


def test_imports_have_lines_of_their_own() -> None:
    outline = outlined("""\
        import a
        import b; x = 1
        if x:
            import c
        from d import (
            e)
    """)
    assert outline.import_lines == [(1, 2), (5, 6)]


def test_chunks_of_a_class() -> None:
    owner = outlined("""\
        class C:
            '''What it is.'''
            x = 1
            def f(self): pass
            y: int = 2
    """).classes["C"]
    assert owner.chunks == [(3, 3), (5, 5)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a = b = 1", {"a", "b"}),
        ("a, (b, *c) = f()", {"a", "b", "c"}),
        ("a: int = 1", {"a"}),
        ("for i in x:\n    a = 1", {"i", "a"}),
        ("with f() as a: pass", {"a"}),
        ("if x:\n    a = 1\nelse:\n    b = 2", {"a", "b"}),
        ("a.b = 1", set()),
        ("a[0] = 1", set()),
        ("f = lambda: (x := 1)", {"f"}),
        ("if x:\n    import a.b\n    from c import d", {"a", "d"}),
        ("if x:\n    def f():\n        inner = 1", {"f"}),
    ],
)
def test_assigned_names(text: str, names: set[str]) -> None:
    assert set(outlined(text).assigned) == names


@pytest.mark.parametrize(
    ("expression", "name"),
    [("a", "a"), ("a.b.c", "a.b.c"), ("a().b", None), ("a[0].b", None), ("1", None)],
)
def test_dotted(expression: str, name: str | None) -> None:
    assert dotted(ast.parse(expression, mode="eval").body) == name
