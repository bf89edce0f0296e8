from __future__ import annotations

import pytest
from drawing import Draw, Tree
from keys import registry

from amplint.flow.core.registry import Weight
from amplint.flow.project.components import components
from amplint.flow.project.effects import Effects


def effects(tree: Tree) -> Effects:
    return Effects(tree.edges(), registry())


def weight(tree: Tree, qualified: str, file: str = "a.py") -> int:
    found = effects(tree)
    if qualified == "<module>":
        outline = tree.file(file).outline.module
        assert outline is not None
        return found.weight(tree.names.function(tree.file(file), outline))
    return found.weight(tree.function(file, qualified))


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def f(): torch.autocast('cuda')", Weight.ENTRY),
        ("def f(x=torch.float16): ...", Weight.NOTHING),
        ("def f(x): x.to(torch.float16).backward()", Weight.ENTRY),
        ("def f(x): x.update()", Weight.EFFECT),
        ("def f(x, more): x.update(more)", Weight.NOTHING),
        ("def f(x): x.update(a=1)", Weight.NOTHING),
        ("def f(x):\n  g(torch.float16)\ndef g(x): x.numpy()", Weight.ENTRY),
        ("def f(): return torch.float16", Weight.EFFECT),
        ("def f(x): return x.dtype == torch.float16", Weight.NOTHING),
        ("def f(x): return x.dtype in (torch.float32, torch.float16)", Weight.NOTHING),
        ("def f(x):\n  if x.dtype != torch.float16: x = x.to(torch.float16)", Weight.EFFECT),
        ("def f(x): x.half()", Weight.ENTRY),
        ("from lib import Trainer\ndef f(): Trainer().other()", Weight.NOTHING),
        ("class C:\n  def __init__(self): torch.autocast()\ndef f(x): isinstance(x, C)", Weight.NOTHING),
        ("class C:\n  def __init__(self): torch.autocast()\ndef f():\n  class D(C): ...", Weight.ENTRY),
        ("def f(): return 'torch.float16'  # torch.autocast", Weight.NOTHING),
        ("def f(autocast): autocast()", Weight.NOTHING),
        ("def f(torch): torch.autocast()", Weight.NOTHING),
        ("@torch.autocast('cuda')\ndef f(): ...", Weight.ENTRY),
        ("@(torch.autocast)('cuda')\ndef f(): ...", Weight.ENTRY),
        ("def f(): torch.optim.SGD(x)", Weight.EFFECT),
        ("def f(): torch.optim", Weight.NOTHING),
        ("def f(loss): loss.backward()", Weight.EFFECT),
        ("def f(o): o.zero_grad()", Weight.EFFECT),
        ("def f(o): o[0].zero_grad()", Weight.EFFECT),
        ("def f(o): o.unknown()", Weight.NOTHING),
        ("def f():\n  from torch import autocast as c\n  c()", Weight.ENTRY),
        ("def f():\n  def g(): torch.autocast()", Weight.ENTRY),
        ("def f(): return lambda: torch.autocast()", Weight.ENTRY),
        ("def f():\n  class C:\n    x = torch.autocast()", Weight.ENTRY),
        ("cast = torch.autocast\ndef f(): cast()", Weight.ENTRY),
        ("cast = partial(torch.autocast, 'cuda')\ndef f(): cast()", Weight.ENTRY),
        ("scaler = torch.amp.GradScaler()\ndef f(): scaler.step(x)", Weight.ENTRY),
        ("def f(): getattr(torch, 'autocast')()", Weight.ENTRY),
        ("from lib import Trainer\ndef f():\n  t = Trainer()\n  t.fit()", Weight.EFFECT),
    ],
)
def test_what_a_function_meets(draw: Draw, code: str, found: Weight) -> None:
    assert weight(draw({"a.py": f"import torch\n{code}"}), "f") == found


@pytest.mark.parametrize(
    "code",
    [
        "def f(): g()\ndef g(): h()\ndef h(): torch.autocast()",
        "def f(): g()\ndef g():\n  f()\n  torch.autocast()",
        "def f(): run(g)\ndef g(): torch.autocast()",
        "def f(): C()\nclass C:\n  def __init__(self): torch.autocast()",
        "def f(): C()\nclass B:\n  def __init__(self): torch.autocast()\nclass C(B): ...",
        "def f(): C().go()\nclass C:\n  def go(self): torch.autocast()",
        "def f():\n  c = C()\n  c.go()\nclass C:\n  def go(self): torch.autocast()",
        "def f():\n  c = C()\n  c(1)\nclass C:\n  def forward(self): torch.autocast()",
        "def f(c): c.go()\nclass C:\n  def go(self): torch.autocast()",
        "def f(c): c(1)\nclass C:\n  def forward(self, x): torch.autocast()",
        "def f(c): c(*x)\nclass C:\n  def forward(self): torch.autocast()",
        "def f(c): c(1, y=2)\nclass C:\n  def forward(self, *args, **words): torch.autocast()",
        "def f(c): c(1)\nclass C:\n  @g\n  def forward(self): torch.autocast()",
        "def f(c): y = c(1)\nclass C:\n  async def forward(self, x): torch.autocast()",
        "def f(c): y = c(1)\nclass C:\n  def forward(self, x): return torch.autocast()",
        "def f(): C.go()\nclass C:\n  @staticmethod\n  def go(): torch.autocast()",
        "def f(): g.go()\ng = C()\nclass C:\n  def go(self): torch.autocast()",
        "@g\ndef f(): ...\ndef g(x): torch.autocast()",
    ],
)
def test_what_a_function_leads_to(draw: Draw, code: str) -> None:
    tree = draw({"a.py": f"import torch\n{code}"})
    assert weight(tree, "f") == Weight.ENTRY
    assert "opens" in effects(tree).tags(tree.function("a.py", "f"))


@pytest.mark.parametrize(
    "code",
    [
        "def f(c): c(1)\nclass C:\n  def forward(self): torch.autocast()",
        "def f(c): c()\nclass C:\n  def forward(self, x): torch.autocast()",
        "def f(c): c(1, y=2)\nclass C:\n  def forward(self, x): torch.autocast()",
        "def f(c): c.go(1)\nclass C:\n  def go(self, x, y): torch.autocast()",
        "def f(c): y = c(1)\nclass C:\n  def forward(self, x): torch.autocast()",
    ],
)
def test_a_call_leads_to_no_method_that_cannot_take_it_or_give_its_result(draw: Draw, code: str) -> None:
    tree = draw({"a.py": f"import torch\n{code}"})
    assert "opens" not in effects(tree).tags(tree.function("a.py", "f"))


@pytest.mark.parametrize(
    "code",
    [
        "class C:\n  def f(self): self.g()\n  def g(self): torch.autocast()",
        "class C:\n  def f(this): this.g()\n  def g(self): torch.autocast()",
        "class C:\n  def f(self): return self.g\n  @property\n  def g(self): torch.autocast()",
        "class C:\n  def f(self): self.g()\n  def g(self): ...\nclass D(C):\n  def g(self): torch.autocast()",
        "class B:\n  def g(self): torch.autocast()\nclass C(B):\n  def f(self): super().g()",
        "class B:\n  def f(self): torch.autocast()\nclass C(B):\n  def f(self): super().f()",
        "class B:\n  def g(self): torch.autocast()\nclass C:\n  def __init__(self): self.b = B()\n"
        "  def f(self): self.b.g()",
        "class B:\n  def forward(self): torch.autocast()\nclass C:\n  def __init__(self): self.b = B()\n"
        "  def f(self): self.b(1)",
    ],
)
def test_what_a_method_leads_to(draw: Draw, code: str) -> None:
    assert weight(draw({"a.py": f"import torch\n{code}"}), "C.f") == Weight.ENTRY


def test_methods_of_a_common_name_are_not_reached_by_it(draw: Draw) -> None:
    many = "".join(f"class C{i}:\n  def go(self): torch.autocast()\n" for i in range(9))
    assert weight(draw({"a.py": f"import torch\n{many}def f(c): c.go()"}), "f") == Weight.NOTHING


def test_self_is_no_object_out_of_sight(draw: Draw) -> None:
    code = (
        "class A:\n  def f(self): self.go()\n  def go(self): ...\nclass B:\n  def go(self): torch.autocast()"
    )
    assert weight(draw({"a.py": f"import torch\n{code}"}), "A.f") == Weight.NOTHING


def test_files_are_followed_by_their_imports(draw: Draw) -> None:
    tree = draw(
        {
            "a.py": "from b import go\ndef f(): go()",
            "b.py": "import c\ndef go(): c.last()",
            "c.py": "import torch\ndef last(): torch.save(x)",
        }
    )
    assert weight(tree, "f") == Weight.EFFECT


def test_a_module_does_not_do_what_its_functions_do(draw: Draw) -> None:
    code = "class A(B): ...\nclass B:\n  def __init__(self): f()\n"
    code += "import torch\n@torch.autocast('cuda')\ndef f(): torch.autocast()\nclass C:\n  def m(self): f()\n"
    assert weight(draw({"a.py": code}), "<module>") == Weight.NOTHING
    assert (
        weight(draw({"a.py": f"{code}table = {{'f': f, 'C': C}}\nclass D:\n  kind = B"}), "<module>")
        == Weight.NOTHING
    )
    assert weight(draw({"a.py": f"{code}run(f)"}), "<module>") == Weight.ENTRY
    assert weight(draw({"a.py": f"{code}table = {{'f': f}}\ndef g(x): table[x]()"}), "g") == Weight.ENTRY
    assert weight(draw({"a.py": f"{code}if __name__ == '__main__':\n  f()"}), "<module>") == Weight.ENTRY


def test_the_order_of_questions_does_not_matter(draw: Draw) -> None:
    code = "import torch\n" + "".join(f"def f{i}(): f{(i + 1) % 5}(); f{(i * 2) % 5}()\n" for i in range(5))
    tree = draw({"a.py": f"{code}\ndef f5(): f0()\ndef f6(): torch.save(f2)"})
    for order in (range(7), reversed(range(7))):
        found = effects(tree)
        weights = {i: found.weight(tree.function("a.py", f"f{i}")) for i in order}
        assert weights == {0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 1}


METHODS = "".join(f"class C{i}:\n  def go(self): torch.autocast()\n" for i in range(9))
RELATED = f"""
import torch
{METHODS}
class B:
  def go(self): ...
class D:
  def run(self, c): c.go()
  def other(self): ...
def maker(): return C3()
def runner(c): c.go()
def both(): runner(maker())
def neither(): runner(B())
def around(): D().run(maker())
def beside(): D().run(B())
def circle(c):
  c.go()
  beside()
  circle(c)
def over(c): circle(c); both()
"""


def test_a_method_of_a_common_name_is_met_where_its_class_is_named(draw: Draw) -> None:
    tree = draw({"a.py": RELATED})
    names = ["maker", "runner", "both", "neither", "around", "beside", "circle", "over", "D.run", "D.other"]
    alone = {name: effects(tree).enters(tree.function("a.py", name)) for name in names}
    assert {name for name, found in alone.items() if found} == {"both", "around", "over"}
    for order in (names, names[::-1], names[5:] + names[:5]):
        found = effects(tree)  # what one question has found is used for the next one
        assert {name: found.enters(tree.function("a.py", name)) for name in order} == alone


REGISTRIES = """
import logging
import torch
class Registry:
  def register(self, key):
    def deco(cls): return cls
    return deco
  def build(self, key): ...
KINDS = Registry()
OTHERS = Registry()
TABLE = {}
logger = logging.getLogger()
def register(key):
  def deco(cls):
    TABLE[key] = cls
    logger.info(key)
    return cls
  return deco
@KINDS.register("one")
class One:
  def __init__(self): torch.autocast()
@KINDS.register("plain")
class Plain: ...
@register("two")
class Two:
  def go(self): torch.autocast()
class Three:
  def go(self): torch.autocast()
OTHERS["three"] = Three
def by_decorator(key): return KINDS.build(key)
def by_function(key): TABLE[key]().go()
def by_item(key): OTHERS.build(key).go()
def directly(): return Plain()
def logs(x):
  logger.info(x)
  x.go()
NEEDED = {"cuda": str}
def add(table, key, cls): table[key] = cls
def needs(*names):
  def deco(cls):
    for name in names:
      if name not in NEEDED or not NEEDED[name](): raise ValueError(len(NEEDED))
    return cls
  return deco
@needs("cuda")
class Four:
  def __init__(self): torch.autocast()
def only_asks(name): return NEEDED[name]()
HANDED, PICKED = {}, {"all": {}}
def hands_on(cls):
  add(HANDED, "a", cls)
  return cls
def picks(cls):
  table = PICKED["all"]
  table["a"] = cls
  return cls
@hands_on
@picks
class Five:
  def __init__(self): torch.autocast()
where = {}
def holds(cls, where=None):
  where["a"] = cls
  return cls
@holds
class Six:
  def __init__(self): torch.autocast()
def by_parameter(key): return where[key]()
def by_helper(key): return HANDED[key]()
def by_local_name(key): return PICKED["all"][key]()
"""


def test_what_a_registry_holds_is_met_where_it_is_used(draw: Draw) -> None:
    tree = draw({"a.py": REGISTRIES})
    names = ["by_decorator", "by_function", "by_item", "directly", "register", "logs", "only_asks"]
    names += ["by_helper", "by_local_name", "by_parameter"]
    found = {name for name in names if effects(tree).enters(tree.function("a.py", name))}
    assert found == {"by_decorator", "by_function", "by_item", "by_helper", "by_local_name"}


@pytest.mark.parametrize(
    ("method", "enters"),
    [
        ("def prepare(self): self.net = self.net.half()", True),
        ("def setup(self):\n    super().setup()\n    self.net = self.net.half()", True),
        ("def half(self): self.net = self.net.half()", True),
        ("def half(self): return super().half()", False),
    ],
)
def test_training_beside_a_cast_of_the_object_itself(draw: Draw, method: str, enters: bool) -> None:
    text = f"class Trainer:\n  {method}\n  def train(self, loss): loss.backward()"
    tree = draw({"a.py": text})
    assert effects(tree).enters(tree.function("a.py", "Trainer.train")) is enters


def test_components_come_after_what_they_lead_to() -> None:
    steps = {1: [2], 2: [3], 3: [1, 4], 4: [5], 5: [4, 6], 6: [], 7: [1]}
    found = components([7, 1], steps.__getitem__)
    assert [sorted(part) for part in found] == [[6], [4, 5], [1, 2, 3], [7]]


def test_a_long_chain_needs_no_recursion() -> None:
    assert len(components([0], lambda n: [n + 1] if n < 50_000 else [])) == 50_001


@pytest.mark.parametrize(
    ("code", "computes"),
    [
        ("def f(x): return x.strip()", False),
        ("import json\ndef f(x): return json.dumps(x)", False),
        ("def f(x): return torch.relu(x)", True),
        ("def f(x): return g(x)\ndef g(x): return x @ x", True),
        ("def f(x): return x.mm(x)", True),
        ("def f(x): return x.half()", True),
        ("def f(net, x): return net(x)", True),
        ("import einops\ndef f(x): return einops.reduce(x)", True),
        ("def f(optimizer): optimizer.zero_grad()", True),
    ],
)
def test_what_a_region_may_make_a_difference_to(draw: Draw, code: str, computes: bool) -> None:
    tree = draw({"a.py": f"import torch\n{code}"})
    assert effects(tree).computes(tree.function("a.py", "f")) is computes
