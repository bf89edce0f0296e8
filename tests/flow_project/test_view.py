from __future__ import annotations

import pytest
from drawing import Draw, Tree

from amplint.flow.core.machine import Binding, Lines
from amplint.flow.core.registry import Registry
from amplint.flow.project.choices import Choices
from amplint.flow.project.effects import Effects
from amplint.flow.project.view import View
from amplint.flow.state.values import FunctionValue, Unknown, Value


def view(tree: Tree) -> View:
    return View(Effects(tree.edges(), Registry()))


def told(tree: Tree, binding: Binding | tuple[object, str] | None) -> str | None:
    match binding:
        case Lines(file=file, first=first, last=last, owner=owner):
            place = f"{file.path.relative_to(tree.root)}:{first}-{last}"
            return place if owner is None else f"{place} in {owner.outline.name}"
        case (file, name):
            return f"{file.path.relative_to(tree.root)} {name}"  # type: ignore[attr-defined]
        case Unknown():
            return "unknown"
        case Value():
            return tree.told(binding)  # type: ignore[arg-type]
    return None


@pytest.mark.parametrize(
    ("text", "bindings"),
    [
        ("x = 1", ["a.py:1-1"]),
        ("x = 1\nx = (2,\n3)", ["a.py:2-3"]),
        ("if y:\n  x = 1\nelse:\n  x = 2", ["a.py:1-4"]),
        ("if y:\n  x = 1\nelif z:\n  x = 2", ["a.py:2-2", "a.py:4-4"]),
        ("x = None\nif y:\n  x = 1", ["a.py:1-1", "a.py:3-3"]),
        ("try:\n  x = 1\nexcept E:\n  x = 2", ["a.py:2-2"]),
        ("def x(): ...", ["a.py:x"]),
        ("import torch as x", ["torch"]),
        ("from b import one as x", ["a.py:1-1"]),
        ("from b import *", ["b.py:1-1"]),
        ("from b import x", ["b.py:1-1"]),
        ("from b import gone as x", ["unknown"]),
        ("from b import C as x", ["b.py:C"]),
        ("y = 1", []),
    ],
)
def test_global_bindings(draw: Draw, text: str, bindings: list[str]) -> None:
    tree = draw({"a.py": text, "b.py": "x = 1\none = 1\nclass C: ..."})
    found = view(tree).global_bindings(tree.file("a.py"), "x")
    assert [told(tree, one) for one in found] == bindings


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("torch.amp", "torch.amp"),
        ("b.f", "b.py:f"),
        ("b.x", "b.py x"),
        ("b", "b.py"),
        ("b.gone", "unknown"),
        (".gone", "unknown"),
        ("pack", "pack/"),
        ("b.C", "b.py:C"),
    ],
)
def test_imports(draw: Draw, target: str, found: str) -> None:
    tree = draw({"a.py": "", "b.py": "x = 1\ndef f(): ...\nclass C:\n  def m(self): ...", "pack/c.py": ""})
    assert told(tree, view(tree).imported(tree.file("a.py"), target)) == found


def test_bodies_of_classes_and_fields(draw: Draw) -> None:
    tree = draw(
        {
            "a.py": """\
                from dataclasses import dataclass, field
                @dataclass
                class B:
                    x: int
                    y: int = field(default=1, kw_only=True)
                    z: int = 2
                    def m(self): ...
                class C(B):
                    m2 = 1
                    class Inner: ...
            """
        }
    )
    seen, cls = view(tree), tree.cls("a.py", "C")
    assert told(tree, seen.class_binding(cls, "z")) == "a.py:6-6 in B"
    assert seen.class_binding(cls, "m") is None
    assert told(tree, seen.class_binding(cls, "Inner")) == "a.py:C.Inner"
    fields = seen.fields(cls)
    assert fields is not None
    assert [(name, told(tree, default)) for name, default, _ in fields] == [
        ("x", None),
        ("z", "a.py:6-6 in B"),
        ("y", "a.py:5-5 in B"),
    ]


SELF = """\
    class A:
        def __init__(this, opt):
            this.opt = opt
            this.other = 1
        def train(this):
            this.x = 1
            this.y, this.z = f()
            this.deep()
        def deep(this):
            this.w = 1
            setattr(this, "v", 2)
    class B(A):
        def train(me):
            super().train()
            run(me.opt)
        def deep(me):
            me.u = 1
    def run(given):
        step = given
        step.zero_grad()
        scaler.step(given)
"""


def test_what_methods_store(draw: Draw) -> None:
    tree = draw({"a.py": SELF})
    seen = view(tree)
    assert seen.stored_by(tree.function("a.py", "A.train")) == {"x", "y", "z", "w", "v", "u"}
    assert seen.stored_by(tree.function("a.py", "B.deep")) == {"u"}
    assert [told(tree, one) for one in seen.attribute_stores(tree.cls("a.py", "B"), "x")] == ["a.py:6-6"]
    assert [told(tree, one) for one in seen.attribute_stores(tree.cls("a.py", "A"), "opt")] == []


def test_what_is_done_with_names(draw: Draw) -> None:
    tree = draw({"a.py": SELF})
    seen = view(tree)
    assert seen.uses(tree.function("a.py", "run"), "given") == {"zero_grad", "<stepped>"}
    assert seen.uses_of_attribute(tree.cls("a.py", "B"), "opt") == {"zero_grad", "<stepped>"}
    assert seen.uses(tree.function("a.py", "B.train"), "me.opt") == {"zero_grad", "<stepped>"}
    assert seen.uses_of_attribute(tree.cls("a.py", "B"), "other") == frozenset()


def test_methods_of_other_files(draw: Draw) -> None:
    step = """
class Other:
    def step(self):
        self.part = 1
        def inner():
            self.opt.zero_grad()
        inner()
"""
    tree = draw({"a.py": "from b import Other\nclass A:\n    step = Other.step\n", "b.py": step})
    seen = view(tree)
    assert seen.uses_of_attribute(tree.cls("a.py", "A"), "opt") == {"zero_grad"}
    assert [told(tree, one) for one in seen.attribute_stores(tree.cls("a.py", "A"), "part")] == ["b.py:4-4"]


@pytest.mark.parametrize(
    ("code", "uses"),
    [
        ("def f(x):\n  x.a()\n  x()", {"a", "__call__"}),
        ("def f(x): g(1, x)\ndef g(a, b): b.m()", {"m"}),
        ("def f(x): g(b=x)\ndef g(a, b): b.m(); a.n()", {"m"}),
        ("def f(x): f2(x); x.a()\ndef f2(y): f(y); y.b()", {"a", "b"}),
        ("def f(x): C(x)\nclass C:\n  def __init__(self, x): self.x = x\n  def m(self): self.x.b()", {"b"}),
        ("def f(x):\n  def g(): x.a()", {"a"}),
        ("def f():\n  x.a()\ndef g():\n  x.b()\ndef h(x): x.c()\nx = 1\nx.d()", {"a", "b", "d"}),
        ("def f(x): x.grad; x.shape", {"grad"}),
        ("def f(x):\n  y = x\n  y = 2\n  y.a()", set()),
        ("def f(x):\n  for y in x: y.a()", set()),
    ],
)
def test_names_are_followed(draw: Draw, code: str, uses: set[str]) -> None:
    tree = draw({"a.py": code})
    assert view(tree).uses(tree.function("a.py", "f"), "x") == uses


@pytest.mark.parametrize(
    ("code", "uses"),
    [
        ("x.train()\nx(1)", {"train", "__call__"}),
        ("def f():\n    x.train()\nf()", {"train"}),
        ("def f(x):\n    x.train()\nf(3)", set()),
        ("def f(a):\n    a.train()\nf(x)", {"train"}),
        ("def f(b, a):\n    a.train()\nf(1, a=x)", {"train"}),
        ("def f(a):\n    a.train()\ndef g(x):\n    f(x)", set()),
        ("y = x\ny.train()", {"train"}),
        ("y = x\ny = 3\ny.train()", set()),
        ("def f():\n    y = x\n    return y\ny.train()", set()),
    ],
)
def test_names_of_modules_are_followed(draw: Draw, code: str, uses: set[str]) -> None:
    tree = draw({"a.py": "x = make()\n" + code})
    assert view(tree).uses_of_global(tree.file("a.py"), "x") == uses


@pytest.mark.parametrize(
    ("code", "loads", "only_called"),
    [
        ("def f(x): x.a()", True, True),
        ("def f(x): x.a(); x.b()", True, False),
        ("def f(x): x.a(); g(x)", True, False),
        ("def f(x): x.a(); x.b = 1", True, False),
        ("def f(x): x = 1", False, True),
        ("def f(x):\n  @x\n  def g(): ...", True, False),
        ("def f(x):\n  def g(): x.a()", True, True),
    ],
)
def test_how_names_are_read(draw: Draw, code: str, loads: bool, only_called: bool) -> None:
    tree = draw({"a.py": code})
    seen, function = view(tree), tree.function("a.py", "f")
    assert seen.loads(function, "x") is loads
    assert seen.loads_only_calls(function, "x", frozenset({"a"})) is only_called


def test_kinds_of_methods(draw: Draw) -> None:
    tree = draw(
        {
            "a.py": """
                import functools, abc
                class C:
                    @property
                    def p(self): ...
                    @functools.cached_property
                    def q(self): ...
                    @staticmethod
                    def s(): ...
                    @abc.abstractmethod
                    def t(self): ...
                    @functools.cache
                    def u(self): return 1
                    @classmethod
                    def v(cls): raise NotImplementedError
            """
        }
    )
    seen = view(tree)
    methods = {name: tree.function("a.py", f"C.{name}") for name in "pqstuv"}
    kinds = ["property", "cached property", "static method", "", "", "class method"]
    assert [seen.kind_of_method(method) for method in methods.values()] == kinds
    assert [name for name, method in methods.items() if seen.is_abstract(method)] == list("pqstv")
    assert seen.is_cached(tree.function("a.py", "C.u"))
    assert not seen.is_cached(tree.function("a.py", "C.t"))


@pytest.mark.parametrize(
    ("name", "concrete"),
    [
        ("Plain", ["Plain"]),
        ("Base", ["One", "Two", "Three"]),
        ("Half", ["Three"]),
        ("Alone", ["Alone"]),
        ("Open", ["Last"]),
        ("Calls", ["Fills"]),
        ("Asks", ["Asks"]),
        ("Sets", ["Sets"]),
        ("Derived", ["Derived"]),
        ("Anything", ["Anything"]),
    ],
)
def test_classes_that_fill_in_an_abstract_one(draw: Draw, name: str, concrete: list[str]) -> None:
    tree = draw(
        {
            "a.py": """
            import abc, lib
            class Plain: ...
            class Kind(Plain): ...
            class Base:
                @abc.abstractmethod
                def step(self): ...
                def loss(self): raise NotImplementedError
            class One(Base):
                def step(self): ...
                def loss(self): ...
            class Half(Base):
                def step(self): ...
            class Alone:
                def step(self): raise NotImplementedError
            class Open:
                def step(self): raise NotImplementedError
            class Next(Open): ...
            class Last(Next): ...
            class Calls(abc.ABC):
                def run(self): return self.loss()
            class Fills(Calls):
                def loss(self): ...
            class Asks:
                def run(self): return self.loss() if hasattr(self, "loss") else None
            class Answers(Asks):
                def loss(self): ...
            class Sets:
                def __init__(self, loss): self.loss = loss
                def run(self): return self.loss()
            class SetsAgain(Sets):
                def loss(self): ...
            class Derived(lib.Trainer):
                def run(self): return self.loss()
            class DerivedAgain(Derived):
                def loss(self): ...
            class Anything:
                def __getattr__(self, name): ...
                def run(self): return self.loss()
            class More(Anything):
                def loss(self): ...
            """,
            "b.py": """
            from a import Base, Half, One
            class Two(One): ...
            class Three(Half):
                def loss(self): ...
            """,
            "tests/c.py": """
            from a import Alone, One
            class Four(One): ...
            class Double(Alone):
                def step(self): ...
            """,
        }
    )
    found = View(Effects(tree.edges(), Registry()), lambda path: "tests" in path.parts)
    (value,) = (one for one in found.classes_in(tree.file("a.py")) if one.outline.name == name)
    assert [one.outline.name for one in found.concrete(value)] == concrete


def test_nested_functions_are_known_by_their_programs(draw: Draw) -> None:
    tree = draw({"a.py": "def f(x):\n  def g(y):\n    y.a()\n  return g\n"})
    seen = view(tree)
    outer = seen.program(tree.function("a.py", "f"))
    assert outer is not None
    inner = next(node.program for node in outer.body if hasattr(node, "program"))
    assert seen.uses(FunctionValue(tree.file("a.py"), program=inner), "y") == {"a"}


def test_statements_are_lowered_once(draw: Draw) -> None:
    tree = draw({"a.py": "if y: x = 1\nelse: x = 2\ntry: z = 1\nexcept E: pass\n"})
    seen = view(tree)
    for name in "xz":
        (lines,) = seen.global_bindings(tree.file("a.py"), name)
        assert isinstance(lines, Lines)
        assert seen.lines(lines).body
        assert seen.lines(lines) is seen.lines(lines)


def test_no_more_is_read_than_is_chosen_among(draw: Draw) -> None:
    files = {f"models/m{number}.py": f"class Net{number}: ..." for number in range(9)}
    stars = "".join(f"from .m{number} import *\n" for number in range(9))
    tree = draw({"models/__init__.py": stars, **files})
    package = tree.file("models/__init__.py")
    assert Choices(tree.names).of(package, 3) == ["Net0", "Net1", "Net2"]
    assert [name for name in files if tree.project.is_loaded(tree.root / name)] == [*files][:3]
