"""Whether a checkpoint without the scaler is a loss: who loads it, and whether the scaler would have lasted."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.flow.core import walks

TRAINING = """
import torch


def train(model, data):
    net = torch.nn.Sequential(model)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in data:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(x).abs().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
"""
SERVING = """
import torch


def serve(builder, path):
    saved = torch.load(path)
    net = builder()
    net.load_state_dict(saved["model"])
    return net
"""
RESUMING = """
def resume(thing, saved):
    thing.load_state_dict({saved})
"""
FOREIGN = """
from fvcore.common.checkpoint import Checkpointer


class Keeper(Checkpointer):
    def run(self, model, data):
        train(model, data)
"""


def said(folder: Path, **files: str) -> bool:
    """Whether amplint says anything of a project's checkpoints."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    found = check([str(folder)], Settings(root=folder), jobs=1).findings
    return "scaler-not-saved" in {finding.name for finding in found}


def test_nobody_in_sight_loads_anything(tmp_path: Path) -> None:
    assert said(tmp_path, training=TRAINING)


def test_another_file_loads_the_model_alone(tmp_path: Path) -> None:
    assert not said(tmp_path, training=TRAINING, serving=SERVING)


@pytest.mark.parametrize(
    ("saved", "resumed"),
    [
        ('saved["optimizer"]', True),
        ('saved.get("optimizer")', True),
        ("saved[name]", True),
        ("saved", True),
        ('saved["model"]', False),
        ('saved["generator"]', False),
    ],
)
def test_another_file_loads_what_may_be_the_optimizer(saved: str, resumed: bool, tmp_path: Path) -> None:
    files = {"training": TRAINING, "serving": SERVING, "resuming": RESUMING.format(saved=saved)}
    assert said(tmp_path, **files) is resumed


def test_the_key_of_what_a_name_stands_for(tmp_path: Path) -> None:
    text = "def resume(thing, saved):\n    state = saved[{key!r}]\n    thing.load_state_dict(state)\n"
    assert not said(tmp_path, training=TRAINING, resuming=text.format(key="model"))
    assert said(tmp_path, training=TRAINING, resuming=text.format(key="optimizer"))


@pytest.mark.parametrize(("base", "resumed"), [("torch.nn.Module", False), ("Saves", True)])
def test_an_object_loads_its_own_state(base: str, resumed: bool, tmp_path: Path) -> None:
    text = f"import torch\nfrom saving import Saves\n\nclass Net({base}):\n"
    text += "    def load(self, path):\n        self.load_state_dict(torch.load(path))\n"
    assert said(tmp_path, training=TRAINING, serving=text) is resumed


def test_another_file_loads_a_scaler(tmp_path: Path) -> None:
    text = 'def resume(scaler, loss, saved):\n    scaler.load_state_dict(saved["scaler"])\n    scaler.unscale_(loss)\n'
    assert said(tmp_path, training=TRAINING, serving=SERVING, resuming=text)


def test_what_is_inherited_from_out_of_sight_may_load_it(tmp_path: Path) -> None:
    assert said(tmp_path, training=TRAINING + FOREIGN, serving=SERVING)


def test_what_loads_something_else_itself_leaves_nothing_to_what_is_inherited(tmp_path: Path) -> None:
    loads = "\n    def load(self, thing, saved):\n        thing.load_state_dict(saved['best'])\n"
    assert not said(tmp_path, training=TRAINING + FOREIGN + loads, serving=SERVING)


EPOCHS = """
import torch


def train_epoch(model, optimizer, data, amp):
    {made}
    for x in data:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).abs().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def main(model, data, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in {rounds}:
        {anew}
        {each}
        torch.save({{"optimizer": optimizer.state_dict()}}, "last.pt")
"""
LOCAL = "scaler = torch.amp.GradScaler('cuda')"
ARMS = """
    if amp:
        scaler = torch.amp.GradScaler("cuda")
    else:
        scaler = torch.amp.GradScaler("cuda", 1024.0)
"""
KEPT = """
    if not hasattr(model, "scaler"):
        model.scaler = torch.amp.GradScaler("cuda")
    scaler = model.scaler
"""
GIVEN = """
    model.scaler = torch.amp.GradScaler("cuda")
    scaler = model.scaler
"""
CHECKED = """
    if not data:
        raise ValueError
    model.scaler = torch.amp.GradScaler("cuda")
    scaler = model.scaler
"""
EARLIER = """
    if hasattr(model, "scaler"):
        return train_with(model, model.scaler, data)
    model.scaler = torch.amp.GradScaler("cuda")
    scaler = model.scaler
"""
ANEW = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"


TRAIN = "train_epoch(model, optimizer, data, epochs)"
ONCE = f"[{TRAIN}, model, data]"


@pytest.mark.parametrize(
    ("made", "rounds", "anew", "each", "expected"),
    [
        (LOCAL, "range(epochs)", "pass", TRAIN, False),
        (ARMS, "range(epochs)", "pass", TRAIN, False),
        # it lasts from the first epoch on
        (KEPT, "range(epochs)", "pass", TRAIN, True),
        (EARLIER, "range(epochs)", "pass", TRAIN, True),
        # the rounds that are left out save nothing
        (GIVEN, "range(epochs)", "if epoch in model.done: break", TRAIN, False),
        # after an exception there are no more rounds
        (CHECKED, "range(epochs)", "pass", TRAIN, False),
        # each round is a run of its own
        (LOCAL, "range(epochs)", ANEW, TRAIN, True),
        # it is made before the first round
        (LOCAL, ONCE, "pass", "pass", True),
    ],
    ids=["local", "arms", "kept", "kept earlier", "left out", "checked", "anew", "before"],
)
def test_a_scaler_of_one_epoch_would_not_last(
    made: str,
    rounds: str,
    anew: str,
    each: str,
    expected: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether the walk sees the second epoch or is cut before that."""
    (tmp_path / "main.py").write_text(
        EPOCHS.format(made=made, rounds=rounds, anew=anew, each=each), encoding="utf-8"
    )
    monkeypatch.setattr(walks, "PLENTY", 0)
    found = set()
    for most in range(10, 90, 5):
        monkeypatch.setattr(walks, "FEWER", most)
        findings = check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings
        found.add("scaler-not-saved" in {finding.name for finding in findings})
    assert (True in found) is expected
