from __future__ import annotations

import pytest
from drawing import Draw, Tree
from keys import registry

from amplint.flow.project.callgraph import CallGraph
from amplint.flow.project.effects import Effects
from amplint.flow.state.values import FunctionValue


def graph(tree: Tree) -> CallGraph:
    return CallGraph(Effects(tree.edges(), registry()), tree.files())


def told(tree: Tree, found: list[FunctionValue]) -> list[str | None]:
    return [tree.told(one) for one in found]


AMP = "import torch\ndef region(): torch.autocast('cuda')\n"


def test_callers(draw: Draw) -> None:
    tree = draw(
        {
            "a.py": AMP
            + "def one(): region()\nclass C:\n  def __init__(self): region()\n  def go(self): ...\n"
            + "def two(): C()\ndef three(c): c.go()\nkept = region()\n",
            "b.py": "from a import region\nregion()",
        }
    )
    found = graph(tree)
    assert told(tree, found.callers(tree.function("a.py", "region"))) == [
        "a.py:<module>",
        "b.py:<module>",
        "a.py:one",
        "a.py:C.__init__",
    ]
    assert told(tree, found.callers(tree.function("a.py", "C.__init__"))) == ["a.py:two"]
    assert found.callers(tree.function("a.py", "C.go")) == []
    assert told(tree, found.callers(tree.function("a.py", "C.go"), possible=True)) == ["a.py:three"]


@pytest.mark.parametrize(
    ("made", "fits"),
    [
        ("@classmethod\n  def of(cls): return cls()", ["C"]),
        ("@classmethod\n  def of(cls):\n    made = cls()\n    made.x = 1\n    return made", ["C"]),
        ("@classmethod\n  def of(cls, x):\n    if x: return cls()\n    return cls(x)", ["C"]),
        ("@classmethod\n  def of(cls, x): return x", []),
        ("@classmethod\n  def of(cls, x):\n    made = cls()\n    made = x\n    return made", []),
        ("@classmethod\n  def of(cls): made = cls()", []),
        ("@staticmethod\n  def of(cls): return cls()", []),
    ],
)
def test_what_class_methods_give(made: str, fits: list[str], draw: Draw) -> None:
    both = f"class B:\n  {made}\nclass C(B):\n  def fit(self): ...\nclass Other:\n  def fit(self): ...\n"
    tree = draw({"a.py": both + "def run(): C.of().fit()\ndef keep():\n  c = C.of()\n  c.fit()\n"})
    found = graph(tree)
    for name in ("C", "Other"):
        callers = told(tree, found.callers(tree.function("a.py", f"{name}.fit")))
        assert callers == (["a.py:run", "a.py:keep"] if name in fits else [])


@pytest.mark.parametrize(
    ("code", "roots"),
    [
        ("", ["a.py:region"]),
        ("def f(): region()", ["a.py:f"]),
        ("def f(): region()\nif __name__ == '__main__': f()", ["a.py:<module>"]),
        ("def f(): g()\ndef g():\n  f()\n  region()", ["a.py:f"]),
        ("def g():\n  f()\n  region()\ndef f(): g()\ndef h(): g()", ["a.py:h"]),
        ("def f(): region()\ndef g(): region()", ["a.py:f", "a.py:g"]),
        ("class C:\n  def fit(self): region()\ndef f(c): c.fit()", ["a.py:C.fit"]),
        ("class C:\n  def fit(self): region()\ndef f(c): c.fit()\ndef g(): f(C())", ["a.py:g"]),
        (
            "class C:\n  def fit(self): region()\nclass D(C): pass\ndef f(c): c.fit()\ndef g(): f(D())",
            ["a.py:g"],
        ),
        ("class C:\n  def __init__(self): region()\ndef f(): C()", ["a.py:f"]),
        ("def f():\n  def g(): region()\n  return g", ["a.py:f"]),
        ("kept = lambda: region()\ndef f(): kept()", ["a.py:<module>", "a.py:f"]),
        ("def f(): print()", ["a.py:region"]),
    ],
)
def test_roots(draw: Draw, code: str, roots: list[str]) -> None:
    tree = draw({"a.py": AMP + code})
    assert told(tree, graph(tree).roots()) == roots


def test_roots_of_several_files(draw: Draw) -> None:
    tree = draw(
        {
            "z.py": "from a import region\ndef main(): region()\nmain()",
            "b.py": "from a import region\ndef other(): region()",
            "a.py": AMP,
        }
    )
    assert told(tree, graph(tree).roots()) == ["z.py:<module>", "b.py:other"]


def test_what_no_walk_reached_comes_next(draw: Draw) -> None:
    code = "class C:\n  def fit(self): self.step()\n  def step(self): region()\ndef f(c): c.fit()"
    tree = draw({"a.py": AMP + code})
    found = graph(tree)
    reached = {id(tree.function("a.py", "f").outline)}
    assert told(tree, found.rest(reached)) == ["a.py:C.fit"]
    reached |= {id(tree.function("a.py", name).outline) for name in ("C.fit", "C.step", "region")}
    assert found.rest(reached) == []
