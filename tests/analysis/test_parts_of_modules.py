"""The ways in which a module holds its parts and runs them: what is wrong in a part is said whichever it is."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from amplint.check import check
from amplint.config import Settings

PROGRAM = """\
import collections, copy
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        x = self.layer(x)
        return x.masked_fill(x > 0, -1e9)

class Net(nn.Module):
    def __init__(self, depth):
        super().__init__()
{made}

    def forward(self, x):
{run}

def main(depth, loader):
    net = Net(depth).cuda()
    for x in loader:
        with torch.autocast("cuda"):
            loss = net(x).float().mean()
        loss.backward()
"""
LIST = "self.blocks = nn.ModuleList([Block() for _ in range(depth)])"
LOOP = "for block in self.blocks:\n    x = block(x)\nreturn x"
CALL = "return self.blocks(x)"
WAYS = {
    "loop": (LIST, LOOP),
    "slice": (LIST, LOOP.replace("self.blocks", "self.blocks[1:]")),
    "index": (LIST, "for i in range(len(self.blocks)):\n    x = self.blocks[i](x)\nreturn x"),
    "names and children": (LIST, "for _, block in self.blocks.named_children():\n    x = block(x)\nreturn x"),
    "own children": ("self.block = Block()", "for block in self.children():\n    x = block(x)\nreturn x"),
    "module under a computed name": (
        'for i in range(depth):\n    self.add_module(f"block{i}", Block())',
        'for i in range(9):\n    x = getattr(self, f"block{i}")(x)\nreturn x',
    ),
    "attribute under a computed name": (
        'for i in range(depth):\n    setattr(self, f"block{i}", Block())',
        'return getattr(self, f"block{len(x)}")(x)',
    ),
    "sequential of a comprehension": ("self.blocks = nn.Sequential(*[Block() for _ in range(depth)])", CALL),
    "sequential of a list that a loop fills": (
        "blocks = []\nfor _ in range(depth):\n    blocks.append(Block())\nself.blocks = nn.Sequential(*blocks)",
        CALL,
    ),
    "sequential of a dict that a loop fills": (
        "blocks = collections.OrderedDict()\nfor i in range(depth):\n    blocks[str(i)] = Block()\n"
        "self.blocks = nn.Sequential(blocks)",
        CALL,
    ),
    "sequential of a repeated list": ("self.blocks = nn.Sequential(*([Block()] * depth))", CALL),
    "copies": (
        "block = Block()\nself.blocks = nn.ModuleList([copy.deepcopy(block) for _ in range(depth)])",
        LOOP,
    ),
}


def said(folder: Path, text: str) -> list[str]:
    (folder / "main.py").write_text(text)
    result = check([str(folder)], Settings(root=folder), jobs=1)
    assert result.crashes == ()
    return [finding.name for finding in result.findings]


@pytest.mark.parametrize(("made", "run"), WAYS.values(), ids=WAYS)
def test_a_part_is_run(tmp_path: Path, made: str, run: str) -> None:
    text = PROGRAM.format(made=indent(made, " " * 8), run=indent(run, " " * 8))
    assert "half-overflow-literal" in said(tmp_path, text)


def test_a_method_under_a_second_name(tmp_path: Path) -> None:
    text = PROGRAM.format(made="        self.blocks = Block()", run=indent(CALL, " " * 8))
    text = text.replace(
        "def forward(self, x):\n        return self.blocks", "def run(self, x):\n        return self.blocks"
    )
    assert "half-overflow-literal" in said(
        tmp_path, text.replace("\ndef main", "    forward = run\n\ndef main")
    )
