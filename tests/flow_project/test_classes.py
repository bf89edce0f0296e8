from __future__ import annotations

import pytest
from drawing import Draw, Tree

from amplint.flow.state.values import ClassValue


def order(tree: Tree, file: str, name: str) -> list[str]:
    found = tree.classes.bases(tree.cls(file, name))
    return [base.outline.name if isinstance(base, ClassValue) else base.name for base in found]


def method(tree: Tree, file: str, name: str, wanted: str) -> str | None:
    return tree.told(tree.classes.find_method(tree.cls(file, name), wanted))


def test_methods_are_looked_for_in_the_order_of_python(draw: Draw) -> None:
    tree = draw(
        {
            "a.py": """
                import torch
                class Base(torch.nn.Module):
                    def f(self): ...
                class Left(Base): ...
                class Right(Base):
                    def f(self): ...
                class Both(Left, Right): ...
            """
        }
    )
    assert order(tree, "a.py", "Both") == ["Both", "Left", "Right", "Base", "torch.nn.Module"]
    assert method(tree, "a.py", "Both", "f") == "a.py:Right.f"
    after = tree.classes.find_method(tree.cls("a.py", "Both"), "f", after=tree.cls("a.py", "Right"))
    assert tree.told(after) == "a.py:Base.f"


def test_bases_that_allow_no_order_are_taken_depth_first(draw: Draw) -> None:
    tree = draw({"a.py": "class A: ...\nclass B(A): ...\nclass C(A, B): ..."})
    assert order(tree, "a.py", "C") == ["C", "A", "B"]


@pytest.mark.parametrize(
    ("bases", "found"),
    [
        ("nn.Module", ["torch.nn.Module"]),
        ("Alias", ["torch.nn.Module"]),
        ("Generic[T]", ["typing.Generic"]),
        ("object", []),
        ("missing.Base", ["?missing.Base"]),
        ("made()", ["?an expression"]),
        ("Chosen", ["?Chosen"]),
        ("Outer.Inner", ["Inner"]),
        ("Outer.Set", ["torch.nn.Linear"]),
        ("C", []),
        ("nn.Module, metaclass=Meta", ["torch.nn.Module"]),
    ],
)
def test_bases(draw: Draw, bases: str, found: list[str]) -> None:
    tree = draw(
        {
            "a.py": f"""
                from torch import nn
                from typing import Generic
                Alias = nn.Module
                Chosen = nn.Module if x else object
                class Outer:
                    class Inner: ...
                    Set = nn.Linear
                class C({bases}): ...
            """
        }
    )
    assert order(tree, "a.py", "C")[1:] == found


def test_classes_that_inherit_in_a_circle(draw: Draw) -> None:
    tree = draw(
        {
            "a.py": "from b import B\nclass A(B): ...",
            "b.py": "from a import A\nclass B(A):\n    def f(self): ...",
        }
    )
    assert order(tree, "a.py", "A") == ["A", "B"]
    assert order(tree, "b.py", "B") == ["B", "A"]
    assert method(tree, "a.py", "A", "f") == "b.py:B.f"


def test_a_local_name_hides_a_base_of_the_module(draw: Draw) -> None:
    tree = draw(
        {
            "a.py": """
                class Base: ...
                def f(Base):
                    class C(Base): ...
                def g():
                    class Base:
                        def m(self): ...
                    class C(Base): ...
            """
        }
    )
    inner = {
        name: ClassValue(tree.file("a.py"), tree.scope("a.py", f"{name}.<locals>.C"))  # type: ignore[arg-type]
        for name in ("f", "g")
    }
    assert [getattr(base, "name", "") for base in tree.classes.bases(inner["f"])[1:]] == ["?Base"]
    assert tree.told(tree.classes.find_method(inner["g"], "m")) == "a.py:g.<locals>.Base.m"


METHODS = """
    import abc, functools, typing
    from functools import cached_property as kept
    class C:
        @property
        def p(self): ...
        @p.setter
        def p(self, value): ...
        @(property)
        def q(self): ...
        @typing.overload
        def o(self, x: int): ...
        @typing.overload
        def o(self, x: str): ...
        def o(self, x): ...
        @kept
        def k(self): ...
        @classmethod
        def c(cls): ...
        @staticmethod
        def s():
            return 1
        @functools.lru_cache(maxsize=None)
        def m(self):
            return 1
        @abc.abstractmethod
        def a(self): ...
        if x:
            def t(self): ...
        else:
            def t(self, y): ...
        def r(self):
            raise NotImplementedError
    class D(C):
        @C.p.setter
        def p(self, value): ...
    def f(): ...
"""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("p", "property"),
        ("q", "property"),
        ("k", "cached_property"),
        ("c", "classmethod"),
        ("s", "staticmethod"),
        ("m", "method"),
        ("o", "method"),
    ],
)
def test_kinds_of_methods(draw: Draw, name: str, kind: str) -> None:
    tree = draw({"a.py": METHODS})
    found = tree.classes.find_method(tree.cls("a.py", "C"), name)
    assert found is not None
    assert tree.classes.kind(found) == kind


def test_a_function_is_no_method(draw: Draw) -> None:
    tree = draw({"a.py": METHODS})
    assert tree.classes.kind(tree.function("a.py", "f")) == "function"


def test_of_several_definitions_the_right_one_is_found(draw: Draw) -> None:
    tree = draw({"a.py": METHODS})
    cls = tree.cls("a.py", "C")
    lines = {
        name: found.outline.parameters
        for name in ("p", "o", "t")
        if (found := tree.classes.find_method(cls, name)) is not None and found.outline is not None
    }
    assert lines == {"p": ("self",), "o": ("self", "x"), "t": ("self",)}
    setter = tree.classes.accessor(cls, "p", "setter")
    assert setter is not None and setter.outline is not None
    assert setter.outline.parameters == ("self", "value")


def test_abstract_methods(draw: Draw) -> None:
    tree = draw({"a.py": METHODS})
    methods = tree.classes.methods(tree.cls("a.py", "C"))
    assert {name for name, one in methods.items() if tree.classes.is_abstract(one)} >= {"a", "r"}
    assert not {name for name, one in methods.items() if tree.classes.is_abstract(one)} & {"m", "s", "t"}


def test_a_shadowed_decorator_is_none(draw: Draw) -> None:
    tree = draw({"a.py": "from x import property\nclass C:\n    @property\n    def p(self): ..."})
    assert tree.classes.kind(tree.function("a.py", "C.p")) == "method"


def test_attributes_of_classes(draw: Draw) -> None:
    tree = draw({"a.py": "class A:\n    x = 1\n    def y(self): ...\nclass B(A):\n    z: int"})
    cls = tree.cls("a.py", "B")
    found = tree.classes.attribute(cls, "x")
    assert found is not None and (found.owner.outline.name, found.line) == ("A", 2)
    assert tree.classes.attribute(cls, "y") is None
    assert tree.classes.attribute(cls, "z") is None


def test_members(draw: Draw) -> None:
    tree = draw(
        {
            "a.py": """
                class A:
                    class Inner:
                        def f(self): ...
                    def g(self): ...
            """,
            "main.py": "from a import A\nimport a",
        }
    )
    for name, meaning in (("A.g", "a.py:A.g"), ("a.A.Inner.f", "a.py:A.Inner.f"), ("A.none", None)):
        member = tree.names.resolve(tree.file("main.py"), name)
        assert tree.told(tree.classes.member(member)) == meaning  # type: ignore[arg-type]


FIELDS = """
    import dataclasses
    from dataclasses import dataclass, field
    from typing import ClassVar, NamedTuple
    @dataclass
    class Base:
        a: int
        b: int = 1
        shared: ClassVar[int] = 0
        plain = 2
    @(dataclasses.dataclass(frozen=True))
    class Derived(Base):
        c: list = field(default_factory=list)
        d: int = field(init=False)
        a: float = 2.0
        _: dataclasses.KW_ONLY
        e: int
    class Inherits(Derived): ...
    class Written(Derived):
        def __init__(self): ...
    class Point(NamedTuple):
        x: int
    class Plain:
        x: int
"""


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Base", ["a", "b="]),
        ("Derived", ["a=", "b=", "c=", "d-", "*e"]),
        ("Inherits", ["a=", "b=", "c=", "d-", "*e"]),
        ("Written", None),
        ("Point", ["x"]),
        ("Plain", None),
    ],
)
def test_fields_of_dataclasses(draw: Draw, name: str, fields: list[str] | None) -> None:
    tree = draw({"a.py": FIELDS})
    found = tree.classes.fields(tree.cls("a.py", name))
    told = found and [
        "*" * one.keyword_only + one.name + ("-" if not one.initialized else "=" * one.default)
        for one in found
    ]
    assert told == fields
