"""Classes that may be parts of themselves, since what a name picks may be any of them."""

from __future__ import annotations

from pathlib import Path

from listening import listen

from amplint.events import Backward, Forward

NET = """
import torch
from torch import nn


class Plain(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.linear = nn.Linear(4, 4)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.inner = KINDS[config.kind](config)


class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))


KINDS = {"plain": Plain, "net": Net}


def main(config, x):
    net = Net(config)
    net.eval()
    x.sum().backward()
"""


def test_what_holds_itself_is_not_looked_into_for_ever(tmp_path: Path) -> None:
    assert len(listen(tmp_path, NET).lines(Backward)) == 1


def test_an_object_in_one_of_its_kind_is_looked_into(tmp_path: Path) -> None:
    told = listen(
        tmp_path,
        """
import torch
from torch import nn


class Tree(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.head = nn.Linear(4, 4)
        self.inner = Tree(False) if inner else None


def main(x):
    tree = Tree(True)
    with torch.autocast("cuda"):
        tree.inner.head(x)
""",
    )
    assert told.lines(Forward)
