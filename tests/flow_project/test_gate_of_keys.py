from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from drawing import Draw, Tree
from keys import registry

from amplint.amp.tokens import BESIDE_HALF, HALF
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.project.effects import Effects
from amplint.flow.project.gate import Leading, tokens, users
from amplint.source.gate import has_words, identifiers, passes


def test_tokens_come_from_registered_names() -> None:
    models = Registry()
    entry = models.call(
        "torch.autocast", "torch.amp.autocast.__init__", "apex.amp.initialize", weight=Weight.ENTRY
    )
    entry(lambda api, name, arguments, node: None)
    models.call("torch.save", weight=Weight.EFFECT)(lambda api, name, arguments, node: None)
    models.about("torch.float16", weight=Weight.ENTRY, tags=(HALF,))
    models.about(".half", weight=Weight.ENTRY)
    models.about(".backward", "torch.optim.", tags=(BESIDE_HALF,))
    assert tokens(models) == (
        (b".half",),
        (b"apex", b"initialize"),
        (b"autocast",),
        (b"float16", b".backward"),
        (b"float16", b"optim."),
    )


@pytest.mark.parametrize(
    ("text", "through"),
    [
        ("with autocast(): ...", True),
        ("x.to(torch.float16)", False),
        ("x.to(torch.float16)\nloss.backward()", True),
        ("loss.backward()", False),
    ],
)
def test_the_gate(text: str, through: bool) -> None:
    assert passes(text.encode(), tokens(registry())) is through


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        ("x.half().float()", True),
        ("x.half().float16", False),
        ("x.half_size.float()", False),
        ("x. half x.half .float", True),
    ],
)
def test_tokens_are_words(text: str, worth: bool) -> None:
    rows = ((b".half", b".float"),)
    assert passes(text.encode(), rows)
    assert has_words(text.encode(), rows) is worth


def test_identifiers() -> None:
    assert identifiers("a.b_c(d1, 'é')\n#x".encode()) == {b"a", b"b_c", b"d1", "é".encode(), b"x"}


def is_test(path: Path) -> bool:
    return path.name.startswith("test_")


def found(tree: Tree, first: str) -> list[str]:
    others = [tree.root / name for name in tree.names_of_files() if name != first]
    return [
        str(path.relative_to(tree.root))
        for path in users(tree.project, registry(), [tree.root / first], others, is_test)
    ]


@pytest.mark.parametrize(
    ("files", "more"),
    [
        ({"b.py": "from a import region\nregion()"}, ["b.py"]),
        ({"b.py": "import a\ndef f(): a.region()"}, ["b.py"]),
        ({"b.py": "from a import *\ndef f(): region()"}, ["b.py"]),
        ({"b.py": "from a import region as r", "c.py": "from b import r\nr()"}, ["b.py", "c.py"]),
        ({"b.py": "import a\ndef f(): a.region()", "c.py": "from b import f\nf()"}, ["b.py", "c.py"]),
        ({"b.py": "from a import region", "c.py": "from b import region\nregion()"}, ["b.py", "c.py"]),
        ({"b.py": "from a import kept\nkept.step()"}, ["b.py"]),
        ({"b.py": "from a import plain\nplain()"}, []),
        ({"b.py": "from a import Base\nclass C(Base): ..."}, []),
        ({"b.py": "from a import Base\nclass KindOfBase(Base): ..."}, []),
        ({"b.py": "from a import Base\nx.fitted(Base)\nprint(fit)"}, []),
        ({"b.py": "from a import Base\nx.fitted()\nBase.fit(x)"}, ["b.py"]),
        ({"b.py": "from c import *\nfrom a import plain\nplain()"}, []),
        ({"b.py": "from .a import *"}, ["b.py"]),
        ({"b.py": "from a \\\n import *"}, ["b.py"]),
        (
            {"b.py": "from a import *", "c.py": "from b import *", "d.py": "from c import *"},
            ["b.py", "c.py", "d.py"],
        ),
        ({"b.py": "from a import Base\nBase().fit()"}, ["b.py"]),
        ({"b.py": "from a import Inherits\nInherits().fit()"}, ["b.py"]),
        ({"b.py": "from a import Base\nisinstance(x, Base)"}, []),
        ({"b.py": "from a import Base\ngo(Base())"}, ["b.py"]),
        ({"b.py": "from a import *\ngo(Base())"}, ["b.py"]),
        ({"b.py": "from a import Scales\nclass C(Scales): ..."}, ["b.py"]),
        (
            {
                "b.py": "from a import Scales\nclass C(Scales): ...",
                "c.py": "from b import C\nclass D(C): ...",
            },
            ["b.py", "c.py"],
        ),
        ({"b.py": "from a import Scales\nisinstance(x, Scales)"}, []),
        ({"b.py": "from a import Net\nNet().plain()"}, []),
        ({"b.py": "from a import Net\nNet().forward()"}, []),
        ({"b.py": "from a import Net\nNet()._own()"}, []),
        ({"b.py": "from a import KINDS\nKINDS[x]()"}, ["b.py"]),
        ({"b.py": "from a import NETS\nNETS[x]()"}, []),
        ({"b.py": "from a import BUILT\nBUILT.build(x)"}, ["b.py"]),
        ({"b.py": "from c import Other\nOther().fit()", "c.py": "class Other:\n  def fit(self): ..."}, []),
        ({"b.py": "def go(kept): kept.fit()"}, ["b.py"]),
        ({"b.py": "def go(kept): kept.fit()", "c.py": "from b import go\ngo(x)"}, ["b.py", "c.py"]),
        ({"b.py": "class Run:\n  def all(self): self.kept.fit()", "c.py": "x.all()"}, ["b.py", "c.py"]),
        ({"b.py": "class Run:\n  def append(self): self.kept.fit()", "c.py": "x.append()"}, ["b.py"]),
        ({"b.py": "def go(kept): kept.plain()"}, []),
        ({"b.py": "from a import searched\nsearched(x, y)"}, []),
        ({"b.py": "from a import Quantized\nQuantized()"}, []),
        ({"test_b.py": "def go(kept): kept.fit()"}, []),
        ({"test_b.py": "from a import Scales\nclass C(Scales): ..."}, []),
        ({"test_b.py": "from a import Base\nBase().fit()"}, ["test_b.py"]),
        ({"b.py": "def go(kept): kept.fit()", "test_c.py": "from b import go\ngo(x)"}, ["b.py"]),
        ({"b.py": "from a import Builds\nBuilds().run()"}, ["b.py"]),
        ({"b.py": "from a import Builds\nBuilds()"}, ["b.py"]),
        ({"b.py": "from c import Builds\nBuilds()"}, []),
        ({"b.py": "from a import Derives\nDerives(1).train()"}, ["b.py"]),
        ({"b.py": "region()"}, []),
        ({"b.py": "from a import region\nprint 'region'"}, []),
    ],
)
def test_files_that_use_what_others_define(draw: Draw, files: Mapping[str, str], more: list[str]) -> None:
    text = """
        import torch
        def region(): torch.autocast()
        def plain(): ...
        kept = torch.amp.GradScaler()
        class Base:
            def fit(self): torch.autocast()
            def plain(self): ...
        class Net:
            def plain(self): ...
            def forward(self): torch.autocast()
            def _own(self): torch.autocast()
        class Scales:
            def fit(self, loss): torch.amp.scale(loss)
        KINDS = {"fit": Base}
        NETS = {"net": Net}
        class Registry:
            def register(self, key): return lambda cls: cls
            def build(self, key): ...
        BUILT = Registry()
        @BUILT.register("kept")
        class Kept:
            def fit(self): torch.autocast()
        class Inherits(Base): ...
        class Builds:
            def __init__(self): self.scaler = torch.amp.GradScaler()
            def run(self): ...
        class Derives(torch.amp.GradScaler): ...
        class Span:
            def end(self): torch.autocast()
        def searched(pattern, text): return pattern.match(text).end()
        class Quantized(torch.nn.Module):
            def half(self): return super().half()
    """
    assert found(draw({"a.py": text, **files}), "a.py") == more


def test_files_in_the_package_that_hands_a_name_on(draw: Draw) -> None:
    tree = draw(
        {
            "pack/__init__.py": "from .amp import region",
            "pack/amp.py": "import torch\ndef region(): torch.autocast()",
            "pack/train.py": "from . import region\nregion()",
            "pack/other.py": "from . import something",
        }
    )
    assert found(tree, "pack/amp.py") == ["pack/__init__.py", "pack/train.py"]


def test_files_that_make_an_object_of_a_class_that_a_package_hands_on(draw: Draw) -> None:
    tree = draw(
        {
            "pack/__init__.py": "from .amp import Amp",
            "pack/amp.py": "import torch\nclass Amp:\n  def region(self): torch.autocast()",
            "train.py": "from pack import Amp\ngo(Amp())",
            "other.py": "from pack import Amp\ndef go(amp: Amp): ...",
        }
    )
    assert found(tree, "pack/amp.py") == ["train.py"]


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("from amp import Amp\nKINDS = {'amp': Amp, 'other': 1}", True),
        ('from amp import Amp\nKINDS = {"amp": Amp}', True),
        ("from amp import Amp\nKINDS = {'amp' :  Amp}", True),
        ("from amp import Amp\ndef go(kind=Amp): ...", True),
        ("from amp import Amp\nkind = Amp\n", True),
        ("from amp import Amp\ndef kind(): return Amp", True),
        ("from amp import Amp\nKINDS = {'amp': Ampere}\nkind = Ampere", False),
        ("from amp import Amp\ndef go(amp: Amp): ...", False),
    ],
)
def test_files_that_hand_a_class_on_as_a_value(draw: Draw, text: str, more: bool) -> None:
    files = {"amp.py": "import torch\nclass Amp:\n  def region(self): torch.autocast()", "kinds.py": text}
    assert found(draw(files), "amp.py") == (["kinds.py"] if more else [])


def test_files_that_cannot_matter_are_not_parsed(draw: Draw) -> None:
    tree = draw(
        {
            "a.py": "import torch, c, d\ndef region(): torch.autocast(); c.f()",
            "b.py": "from a import region\nregion()",
            "c.py": "def f(): ...",
            "d.py": "def f(",
        }
    )
    assert found(tree, "a.py") == ["b.py"]
    assert not tree.project.is_loaded(tree.root / "c.py")


def test_names_that_lead_to_amp(draw: Draw) -> None:
    tree = draw(
        {
            "a.py": "import torch\nfrom torch import autocast\nfrom b import *\ndef f(): autocast()\ndef g(): ...",
            "b.py": "import torch\ndef h(): torch.autocast()",
        }
    )
    effects = Effects(tree.edges(), registry())
    assert Leading(effects).names(tree.file("a.py")) == {"autocast", "f", "h"}


def test_names_that_stars_give(draw: Draw) -> None:
    opens = "import torch\ndef h(): torch.autocast()\n_h = l = h\ndef k(): ..."
    tree = draw(
        {
            "a.py": "from b import *\nfrom d import *",
            "b.py": "from c import *\nfrom a import *",
            "c.py": opens,
            "d.py": f"{opens}\ndef m(): h()\n__all__ = ['m', '_h']",
        }
    )
    effects = Effects(tree.edges(), registry())
    assert Leading(effects).names(tree.file("a.py")) == {"h", "l", "m", "_h"}
    assert Leading(effects).names(tree.file("d.py")) == {"h", "l", "m", "_h"}
