"""Who may give an object the attribute that a region reads, in the class or anywhere else in the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.bounds import TORCH_DEFAULT
from amplint.check import check
from amplint.config import Settings

NET = """import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            return x @ x
"""
CONFIG = "class Config:\n    device = None\n\n\n"
SILENT = {
    "a name that nothing is known of": "def place(net, device):\n    net.device = device\n",
    "a name that is bound twice": CONFIG
    + "def place(device, net):\n    other = Config()\n    other = net\n    other.device = device\n",
    "an object of the class": "from net import Net\n\n\ndef place(net: Net, device):\n    net.device = device\n",
    "an attribute of an object": "class Trainer:\n    def place(self, device):\n        self.net.device = device\n",
    "by name": "def place(net, device):\n    setattr(net, 'device', device)\n",
    "asked for with care": (
        "def place(net, device):\n    if not hasattr(net, 'device'):\n        net.device = device\n"
    ),
    "patched into the class": "from net import Net\n\nNet.device = property(lambda net: net.weight.device)\n",
    "the class by another name": "from net import Net as Base\n\n\nclass Other(Base):\n    device = 'cpu'\n",
    "a subclass out of sight in part": "from net import Net\nfrom x import Y\n\n\nclass Other(Net, Y):\n    pass\n",
    "a subclass of a subclass": (
        "from net import Net\n\n\nclass A(Net):\n    pass\n\n\nclass B(A):\n    device = 'cpu'\n"
    ),
    "names that are worked out": (
        "from net import Net\n\n\ndef made(values):\n    net = Net()\n    for name in values:\n"
        "        setattr(net, name, values[name])\n    return net\n"
    ),
    "all at once": "from net import Net\n\n\ndef place(net: Net, values):\n    vars(net).update(values)\n",
    "as the object itself would": (
        "def place(net, device):\n    object.__setattr__(net, 'device', device)\n"
    ),
    "as a buffer": "def place(net, device):\n    net.register_buffer('device', device)\n",
    "the class kept in a name": "from net import Net\n\nBase = Net\n\n\nclass A(Base):\n    device = 'cpu'\n",
    "a class made by a call": "from net import Net\n\nA = type('A', (Net,), {'device': 'cpu'})\n",
}
TOLD = {
    "nobody": "",
    "another class for itself": "class Trainer:\n    def __init__(self, device):\n        self.device = device\n",
    "an object of another class": CONFIG
    + "def place(device):\n    config = Config()\n    config.device = device\n    return config\n",
    "a parameter of another class": CONFIG
    + "def place(config: Config, device):\n    config.device = device\n",
    "an object that has one already": (
        "def place(config, device):\n    if config.device is None:\n        config.device = device\n"
    ),
    "a comparison": "def same(net, device):\n    return net.device == device\n",
    "a subclass without": "from net import Net\n\n\nclass Other(Net):\n    width = 8\n",
}


def lines(folder: Path, other: str) -> list[int]:
    """Where the region's device is found to be missing, with another file beside the module's."""
    (folder / "net.py").write_text(NET)
    (folder / "other.py").write_text(other)
    settings = Settings(root=folder, select=("AMP105",), torch=TORCH_DEFAULT, torch_from="the tests")
    result = check([str(folder)], settings, jobs=1)
    assert result.crashes == ()
    return [finding.span.line for finding in result.findings]


@pytest.mark.parametrize("other", SILENT.values(), ids=SILENT)
def test_what_may_have_it_is_let_be(tmp_path: Path, other: str) -> None:
    assert lines(tmp_path, other) == []


@pytest.mark.parametrize("other", TOLD.values(), ids=TOLD)
def test_what_cannot_have_it_is_told(tmp_path: Path, other: str) -> None:
    assert lines(tmp_path, other) == [7]


def test_a_file_alone_does_not_tell_who_completes_its_classes(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    settings = Settings(root=tmp_path, select=("AMP105",), torch=TORCH_DEFAULT, torch_from="the tests")
    assert len(check([str(tmp_path / "net.py")], settings, jobs=1).findings) == 1
    (tmp_path / "made.py").write_text("from net import Net\n\nnet = Net()\n")
    assert check([str(tmp_path / "net.py")], settings, jobs=1).findings == ()
    assert len(check([str(tmp_path)], settings, jobs=1).findings) == 1


def test_a_class_that_takes_the_name_of_its_base(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("from models import Net\n" + NET.replace("nn.Module", "Net"))
    settings = Settings(root=tmp_path, select=("AMP105",), torch=TORCH_DEFAULT, torch_from="the tests")
    result = check([str(tmp_path)], settings, jobs=1)
    assert (result.crashes, result.findings) == ((), ())
