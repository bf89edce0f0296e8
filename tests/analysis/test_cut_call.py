"""A call that is not followed, since that would be too much to walk, takes nothing back that is known without
it. An error asks for more."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Level
from amplint.flow.core import walks
from amplint.flow.state import conditions
from amplint.lowering.program import Program

PROGRAM = """
import torch


def train(model, optimizer, scaler, batches):
    for x in batches:
        with torch.autocast("cuda"):
            loss = model(x).sum()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


class Trainer:
    def __init__(self, model, batches):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.batches = batches
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1)
        self.note = None

    def describe(self):
        self.note = f"{self.model}"
        self.model = self.model.module if hasattr(self.model, "module") else self.model

    def fit(self):
        scaler = torch.amp.GradScaler("cuda")
        train(self.model, self.optimizer, scaler, self.batches)
        self.describe()
        train(self.model, self.optimizer, scaler, self.batches)
        states = {
            "note": self.note,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        torch.save(states, "last.pt")


Trainer(torch.nn.Linear(2, 2), [torch.randn(2, 2)]).fit()
"""


@pytest.mark.parametrize("most", [1, 2, 64])
def test_what_is_said_of_a_checkpoint_stays(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "MOST_WALKS", most)

    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    found = check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings
    assert [finding.code for finding in found] == ["AMP308"]


LONG = """
import torch


def prepare(names):
    found = []
    for name in names:
        if name.endswith("a"):
            found.append(name)
        elif name.endswith("b"):
            found.insert(0, name)
        else:
            found.extend(name)
    return found


class Trainer:
    def __init__(self, model, loader):
        self.model = model
        self.loader = loader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def train(self, epochs):
        for epoch in range(epochs):
            self.train_epoch()
            self.save()

    def train_epoch(self):
        for x in self.loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.model(x).sum()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def save(self):
        states = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(states, "last.pt")


def main(names, loader):
    prepare(names)
    prepare(names[1:])
    trainer = Trainer(torch.nn.Linear(2, 2), loader)
    trainer.train(3)


main(input(), input())
"""


@pytest.mark.parametrize("most", [20, 30, 40, 8_000])
def test_what_is_around_a_call_that_was_not_followed_is_judged_by_itself(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``main`` uses its statements up before the trainer has saved anything."""
    monkeypatch.setattr(walks, "MOST_STEPS", most)
    (tmp_path / "main.py").write_text(LONG)
    result = check([str(tmp_path)], Settings(root=tmp_path, select=("ALL",)), jobs=1)
    assert [finding.name for finding in result.findings] == ["scaler-not-saved"]


ERROR = """
import torch


def prepare(names):
    return [name for name in names if name.endswith("a")]


def train(model, batches, names, fast):
    if fast:
        if names:
            prepare(names)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for batch in batches:
        with torch.autocast("cuda"):
            loss = model(batch).sum()
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


OBJECT = """
import torch


def prepare(names):
    return [name for name in names if name.endswith("a")]


class Trainer:
    def __init__(self, model):
        self.model = torch.nn.Linear(2, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def fit(self, batches, names):
        prepare(names)
        for batch in batches:
            with torch.autocast("cuda"):
                loss = self.model(batch).sum()
            self.scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def save(self, path):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save({**state, "scaler": self.scaler.state_dict()}, path)
"""


PREPARED = """
import torch


def prepare():
    torch.manual_seed(0)


def set_up():
    prepare()
"""
TRAINED = """

def {}(model, batch):
    set_up()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(model(batch).sum()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
TWICE = PREPARED + TRAINED.format("once") + TRAINED.format("again")


def levels(folder: Path, program: str) -> set[Level]:
    (folder / "train.py").write_text(program)
    result = check([str(folder)], Settings(root=folder, select=("clip-without-unscale",)), jobs=1)
    assert len(result.findings) == 2
    return {finding.level for finding in result.findings}


def level_of(folder: Path, program: str = ERROR) -> tuple[Level, list[str], bool]:
    (folder / "train.py").write_text(program)
    [found] = check([str(folder)], Settings(root=folder, select=("clip-without-unscale",)), jobs=1).findings
    kinds = [assumption.kind.value for assumption in found.assumes]
    return found.level, kinds, "Not all that leads here could be followed." in found.why


def test_what_was_followed_from_beginning_to_end_is_an_error(tmp_path: Path) -> None:
    assert level_of(tmp_path) == (Level.ERROR, [], False)


def test_behind_a_call_that_was_not_followed_an_error_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "MOST_WALKS", 0)
    assert level_of(tmp_path) == (Level.WARNING, ["cut"], True)


@pytest.fixture
def prepare_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    left = walks.Walks.budget_left

    def but_for_prepare(self: walks.Walks, program: Program) -> bool:
        if program.name == "prepare":
            monkeypatch.setattr(self, "_most", 0)
        return left(self, program)

    monkeypatch.setattr(walks.Walks, "budget_left", but_for_prepare)


@pytest.mark.usefixtures("prepare_is_cut")
def test_what_other_methods_save_is_walked_behind_it(tmp_path: Path) -> None:
    assert level_of(tmp_path, OBJECT) == (Level.WARNING, ["cut"], True)


@pytest.mark.usefixtures("prepare_is_cut")
def test_what_is_known_of_a_call_tells_whether_it_was_followed(tmp_path: Path) -> None:
    assert levels(tmp_path, TWICE) == {Level.WARNING}


def test_two_entry_points_that_are_followed_make_errors(tmp_path: Path) -> None:
    assert levels(tmp_path, TWICE) == {Level.ERROR}


def test_where_a_condition_was_forgotten_an_error_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "_asks_few", lambda condition, most: len(condition.atoms) <= 1)
    assert level_of(tmp_path) == (Level.WARNING, ["cut"], True)


CASTS = """
import torch
from torch import nn


def to_half(layer):
    if isinstance(layer, nn.Conv2d):
        layer.half()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Conv2d(3, 3, 3), nn.Conv2d(3, 3, 3), nn.Conv2d(3, 3, 3)

    def forward(self, x):
        return self.third(self.second(self.first(x)))


net = Net().cuda()
{cast}
net(torch.zeros(1, 3, 8, 8, device="cuda").half())
"""


@pytest.mark.parametrize("most", [1, 2, 64])
@pytest.mark.parametrize(
    ("cast", "raises"),
    [("net.apply(to_half)", False), ("net.second.half()", True), ("net.float(); net.apply(print)", True)],
)
def test_what_is_not_followed_may_have_cast_the_weights(
    most: int, cast: str, raises: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "MOST_WALKS", most)

    (tmp_path / "run.py").write_text(CASTS.replace("{cast}", cast), encoding="utf-8")
    found = check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings
    assert [finding.code for finding in found if finding.code == "AMP202"] == ["AMP202"] * raises
