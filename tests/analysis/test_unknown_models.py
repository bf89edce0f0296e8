"""Models of which the text does not say what they are: built by a factory, a registry, ``getattr``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Finding, Level

TRAIN = """\
import torch
from models import build

def train(args, loader):
    model = build(args.model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
NET = """\
import torch
from torch import nn

class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return torch.linalg.inv(self.layer(x))  # BAD

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = Head()

    def forward(self, x):
        return self.head(x)
"""
REGISTRY = """\
from . import net
from .registry import MODELS

def build(name):
    return MODELS[name]()
"""
TABLE = "from plugins import MODELS, register\n"
NAMED = "import importlib\nfrom . import net\n\ndef build(name):\n    return importlib.import_module(name).make()\n"
NAMES = f"{NAMED}\ndef default():\n    return net.Net()\n"


def findings(folder: Path, **files: str) -> list[Finding]:
    """What is said of a project with these files in its package ``models``, beside a script that trains."""
    (folder / "models").mkdir()
    for name, text in files.items():
        path = folder / f"{name}.py" if name == "train" else folder / "models" / f"{name}.py"
        path.write_text(text)
    result = check([str(folder)], Settings(root=folder), jobs=1)
    assert result.crashes == ()
    return list(result.findings)


def registered(net: str) -> dict[str, str]:
    """A project whose models are in a table of another package, which a decorator fills."""
    net = "from .registry import register\n" + net.replace("class Net", "@register\nclass Net")
    return {"train": TRAIN, "__init__": REGISTRY, "registry": TABLE, "net": net}


def test_a_model_from_a_registry(tmp_path: Path) -> None:
    [finding] = findings(tmp_path, **registered(NET))
    assert (finding.name, finding.level) == ("unprotected-op-in-half", Level.WARNING)
    assert Path(finding.path).name == "net.py"
    assert re.search(r"if the model that is called on line 11 of \S*train\.py is this one", finding.message)


def test_a_model_by_its_name(tmp_path: Path) -> None:
    [finding] = findings(tmp_path, train=TRAIN, __init__=NAMES, net=NET)
    assert finding.name == "unprotected-op-in-half"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("with torch.autocast", "with torch.no_grad(), torch.autocast"),
        ("model(x), y", "model(x, y), y"),
        ("model(x), y", "model(x, mask=y), y"),
        ("from models import build", "from elsewhere import build"),
        ('with torch.autocast("cuda"):', "if args:"),
    ],
    ids=["no gradients", "another arity", "another keyword", "not imported", "no region"],
)
def test_what_a_model_cannot_be(tmp_path: Path, before: str, after: str) -> None:
    files = registered(NET)
    assert before in files["train"]
    files["train"] = files["train"].replace(before, after)
    assert [finding.name for finding in findings(tmp_path, **files) if "net" in finding.path] == []


MANY = 14
"""More models than are told apart."""


def _table(text: str) -> dict[str, str]:
    """A project whose models stand in a table in one file each, all of which but one do no harm."""
    names = [f"net{number}" for number in range(MANY)]
    right = NET.replace("torch.linalg.inv(self.layer(x))", "self.layer(x)")
    nets = dict.fromkeys(names, right) | {"net7": NET}
    entries = ", ".join(f'"{name}": {{}}'.format(name + text) for name in names)
    imports = "".join(f"from . import {name}\n" for name in names)
    return nets | {"train": TRAIN, "__init__": f"{imports}\nTABLE = {{{entries}}}\n"}


@pytest.mark.parametrize(
    ("held", "made"),
    [
        (".Net", "TABLE[name]()"),
        (".Net", "TABLE[name]().float()"),
        ("", "TABLE[name].Net()"),
        ("", "TABLE[name].Net().float()"),
        ("", "dict(TABLE)[name].Net().to('cuda').float()"),
    ],
)
def test_one_of_many_in_a_table(tmp_path: Path, held: str, made: str) -> None:
    files = _table(held)
    files["__init__"] += f"\n\ndef build(name):\n    return {made}\n"
    [finding] = findings(tmp_path, **files)
    assert (finding.name, finding.level) == ("unprotected-op-in-half", Level.WARNING)
    assert finding.path.endswith("net7.py")


def test_a_table_of_files_of_which_nobody_calls_such_a_class(tmp_path: Path) -> None:
    files = _table("")
    files["__init__"] += "\n\ndef build(name):\n    return TABLE[name].make()\n"
    assert not findings(tmp_path, **files)


def test_a_class_that_names_itself_is_no_part(tmp_path: Path) -> None:
    net = NET.replace("super()", "super(Net, self)").replace("super(Net, self)", "super(Head, self)", 1)
    files = {"train": TRAIN, "__init__": NAMES, "net": net}
    [finding] = findings(tmp_path, **files)
    assert finding.name == "unprotected-op-in-half"


@pytest.mark.parametrize(("parameters", "count"), [("", 1), (", exact=True", 1), (", exact=False", 0)])
def test_a_guessed_model_is_made_as_it_is_by_default(tmp_path: Path, parameters: str, count: int) -> None:
    """That it is this one is a guess; that somebody sets an option of it would be another."""
    net = NET.replace("def __init__(self):", f"def __init__(self{parameters}):").replace(
        "return self.head(x)", "return self.head(x) if self.exact else x"
    )
    kept = "exact" if parameters else "True"
    before, found, after = net.rpartition("super().__init__()\n")
    net = f"{before}{found}        self.exact = {kept}\n{after}"
    assert len(findings(tmp_path, **registered(net))) == count


def test_what_nobody_names_is_no_candidate(tmp_path: Path) -> None:
    assert findings(tmp_path, train=TRAIN, __init__=NAMED, net=NET) == []


@pytest.mark.parametrize(
    ("decorator", "made", "said"),
    [
        ("register_model", "timm.create_model(args.model)", True),
        ("register_model", "timm.create_model(args.model).backbone", True),
        ("register_model", "torchvision.models.vgg16()", False),
        ("register_model", "torchvision.models.vgg16().features", False),
        ("register_model", "AutoModel.from_pretrained(args.model)", False),
        ("register_model", "build(args.model)", True),
        ("dataclass", "build(args.model)", False),
        ("torch.jit.script", "build(args.model)", False),
        ("elsewhere.register('net')", "build(args.model)", True),
        ("elsewhere.register('net')", "timm.create_model(args.model)", False),
    ],
)
def test_a_package_makes_what_was_registered_there(
    tmp_path: Path, decorator: str, made: str, said: bool
) -> None:
    head = "import timm, torchvision\nfrom transformers import AutoModel\n"
    train = head + TRAIN.replace("build(args.model)", made)
    net = NET.replace("class Net", f"@{decorator}\nclass Net")
    net = (
        "import elsewhere\nfrom dataclasses import dataclass\nfrom timm.models import register_model\n" + net
    )
    found = findings(tmp_path, train=train, __init__=NAMED, net=net)
    assert [finding.name for finding in found] == ["unprotected-op-in-half"] * said


@pytest.mark.parametrize(
    ("decorator", "made", "said"),
    [
        ("register_model", "timm.create_model(args.model)", True),
        ("register_model", "torchvision.models.vgg16()", False),
        ("elsewhere.register('net')", "timm.create_model(args.model)", False),
        ("functools.cache", "timm.create_model(args.model)", False),
    ],
)
def test_a_function_that_was_registered_makes_it(
    tmp_path: Path, decorator: str, made: str, said: bool
) -> None:
    """``@register_model def net(pretrained=False): return _net()``, as vision models are written."""
    head = "import timm, torchvision\n"
    train = head + TRAIN.replace("build(args.model)", made)
    net = "import elsewhere, functools\nfrom timm.models import register_model\n" + NET
    net += f"\n\ndef _net():\n    return Net()\n\n\n@{decorator}\ndef net(pretrained=False):\n    return _net()\n"
    found = findings(tmp_path, train=train, __init__=NAMED, net=net)
    assert [finding.name for finding in found] == ["unprotected-op-in-half"] * said


def test_a_part_is_judged_as_part_of_its_model_alone(tmp_path: Path) -> None:
    """The head is named by the model, which gives it float32."""
    net = NET.replace("self.head(x)", "self.calm(x)") + (
        "\n    @torch.autocast('cuda', enabled=False)\n    def calm(self, x):\n        return self.head(x.float())\n"
    )
    assert findings(tmp_path, **registered(net)) == []


def test_what_a_function_makes_for_a_model_is_a_part_of_it(tmp_path: Path) -> None:
    """The head is made by a function, which the model calls."""
    made = NET.replace("self.head = Head()", "self.head = make_head()").replace(
        "self.head(x)", "self.calm(x)"
    )
    made += (
        "\n    @torch.autocast('cuda', enabled=False)\n    def calm(self, x):\n        return self.head(x.float())\n"
        "\n\ndef make_head():\n    return Head()\n"
    )
    assert findings(tmp_path, **registered(made)) == []


def test_a_model_that_is_known_is_no_candidate_for_another_one(tmp_path: Path) -> None:
    """The walk that goes through a model inside a region has judged it."""
    files = registered(NET)
    files["train"] += (
        "\nfrom models.net import Net\n\ndef also(x):\n    with torch.autocast('cuda'):\n        Net()(x)\n"
    )
    [finding] = findings(tmp_path, **files)
    assert finding.level is Level.ERROR


@pytest.mark.parametrize("act", ["nn.GELU() if smooth else nn.ReLU()", "pick(smooth)"])
def test_what_is_in_a_sequential_may_differ_by_path(tmp_path: Path, act: str) -> None:
    text = f"""\
import torch
from torch import nn

def pick(smooth):
    if smooth == "gelu":
        return nn.GELU()
    return nn.ELU()

def train(x, smooth):
    net = nn.Sequential(nn.Linear(8, 8), {act}, nn.Linear(8, 8))
    with torch.autocast("cuda"):
        return torch.linalg.inv(net(x))
"""
    (tmp_path / "main.py").write_text(text)
    result = check([str(tmp_path)], Settings(root=tmp_path), jobs=1)
    assert [(finding.name, finding.span.line) for finding in result.findings] == [
        ("unprotected-op-in-half", 12)
    ]


@pytest.mark.parametrize("handed", ["x", "x, invert=y"])
def test_what_the_call_leaves_out_has_its_default(tmp_path: Path, handed: str) -> None:
    """``model(x)`` of ``def forward(self, x, invert=None)``."""
    net = NET.replace(
        "def forward(self, x):\n        return self.head(x)",
        "def forward(self, x, invert=None):\n"
        "        return self.layer(x) if invert is None else self.head(x)",
    )
    assert net != NET
    train = TRAIN.replace("model(x)", f"model({handed})")
    found = findings(tmp_path, train=train, __init__=NAMES, net=net)
    assert bool(found) is ("invert" in handed)
