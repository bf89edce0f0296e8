from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from amplint.source.facts import Facts, facts_of
from amplint.source.outline import draw


def facts(text: str, qualified: str = "f") -> Facts:
    found = facts_of(draw(ast.parse(dedent(text))))
    every = [*found.functions, *found.classes]
    return found.of(next(part for part in every if part.qualified == qualified))


def module(text: str) -> Facts:
    outline = draw(ast.parse(dedent(text)))
    assert outline.module is not None
    return facts_of(outline).of(outline.module)


@pytest.mark.parametrize(
    ("statement", "stored"),
    [
        ("x = 1", {"x"}),
        ("x, (self.y, *z) = v", {"x", "self.y", "z"}),
        ("with a() as x, b() as (y, z): ...", {"x", "y", "z"}),
        ("for x, self.y in v: ...", {"x", "self.y"}),
        ("g(x := 1)", {"x"}),
        ("setattr(self, 'x', 1)", {"self.x"}),
        ("x += 1", {"x"}),
        ("x: int = 1", {"x"}),
        ("x: int", set()),
        ("self.a.b = 1", {"self.a.b"}),
        ("x[0] = 1", set()),
        ("try: ...\nexcept E as x: ...", {"x"}),
        ("match v:\n  case [x, {'k': y, **z}]: ...", {"x", "y", "z"}),
        ("[x for x in v]", set()),
    ],
)
def test_stores(statement: str, stored: set[str]) -> None:
    assert set(module(statement).body.stores) == stored


@pytest.mark.parametrize(
    ("statement", "loaded"),
    [
        ("x = a.b.c", {"a.b.c"}),
        ("f(a, k=b.c)", {"a", "b.c"}),
        ("a.f()", set()),
        ("a[b].c", {"a", "b"}),
        ("getattr(a.b, 'c')", {"a.b", "a.b.c"}),
        ("x += y", {"x", "y"}),
        ("a.x = y", {"a", "y"}),
        ("# a comment\n'a string'", set()),
        ("f'{a.b}'", {"a.b"}),
        ("lambda x=d: x + y", {"d", "x", "y"}),
        ("def g(x=d): return e", {"d"}),
        ("class C(B, metaclass=M): x = e", set()),
        ("isinstance(x, C)", {"x"}),
        ("del a", set()),
    ],
)
def test_loads(statement: str, loaded: set[str]) -> None:
    assert module(statement).body.loads == loaded


@pytest.mark.parametrize(
    ("call", "name", "method", "receiver"),
    [
        ("f(1, *a, k=2)", "f", "f", ""),
        ("a.b.f()", "a.b.f", "f", "name"),
        ("f().g()", None, "g", "call"),
        ("a[0].g()", None, "g", "item"),
        ("super().g()", None, "g", "super"),
        ("(a or b).g()", None, "g", "other"),
        ("f()()", None, "", ""),
    ],
)
def test_calls(call: str, name: str | None, method: str, receiver: str) -> None:
    calls = module(call).body.calls
    assert (calls[0].name, calls[0].method, calls[0].receiver) == (name, method, receiver)


def test_arguments_of_calls() -> None:
    (call,) = module("f(1, x, *a, k=2, **rest)").body.calls
    assert (call.positional, call.keywords) == (2, ("k",))


@pytest.mark.parametrize(
    ("expression", "computed"),
    [
        ("getattr(x, name)", {"getattr"}),
        ("getattr(x, 'name')", set()),
        ("vars(x)[k]", {"vars"}),
        ("x.__dict__.update(y)", {"__dict__"}),
        ("globals()[k]", {"globals"}),
        ("exec(code)", {"exec"}),
    ],
)
def test_computed_names(expression: str, computed: set[str]) -> None:
    assert module(expression).body.computed == computed


def test_decorators_are_expressions() -> None:
    found = facts("@a.b\n@(c)\n@d(1)\n@e[0]\ndef f(): ...")
    assert [(one.name, one.called) for one in found.decorators] == [
        ("a.b", False),
        ("c", False),
        ("d", True),
        (None, False),
    ]


def test_nested_functions_are_listed_and_counted_in() -> None:
    found = facts(
        """
        def f(scaler):
            def g():
                scaler.step(optimizer)
            class C:
                def m(self):
                    scaler.update()
            return g
        """
    )
    assert found.uses["scaler"] == {"step", "update"}
    assert [part.qualified for part in found.functions] == ["f.<locals>.g"]
    assert [part.qualified for part in found.classes] == ["f.<locals>.C"]
    assert not found.body.calls
    assert found.passed["optimizer"] == {("scaler.step", 0)}


@pytest.mark.parametrize(
    ("name", "local"),
    [
        ("a", True),
        ("b", True),
        ("c", True),
        ("d", False),
        ("e", True),
        ("x", True),
        ("h", True),
        ("o", False),
    ],
)
def test_local_names(name: str, local: bool) -> None:
    found = facts(
        """
        def f(a, *b):
            global d
            d = 1
            import c
            [e for e in b]
            x = o
            def h(): ...
        """
    )
    assert found.is_local(name) is local


def test_generators() -> None:
    text = "def f(): return 1\ndef g(): yield 1\ndef h():\n    def i(): yield 1"
    assert [facts(text, name).body.is_generator for name in "fgh"] == [False, True, False]


def test_functions_of_a_name_are_told_apart_by_their_lines() -> None:
    outline = draw(ast.parse("if x:\n    def f(): ...\nelse:\n    def f(a): ...\nclass C:\n    class D: ..."))
    found = facts_of(outline)
    first, second = found.functions
    assert (first.parameters, second.parameters) == ((), ("a",))
    assert outline.functions["f"] is first
    inner = found.class_at(6, "D")
    assert inner is not None and inner.qualified == "C.D"
