"""On objects of which classes methods are walked that nobody in sight calls."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.flow.driver import Driver, Walk
from amplint.flow.state.values import FunctionValue, Instance, Value

BASE = """
    import torch
    from torch import nn


    class Base:
        def __init__(self, model, optimizer):
            self.model, self.optimizer = model, optimizer
            self.scaler = torch.amp.GradScaler("cuda")

        def before_step(self):
            pass

        def fit(self, batches):
            for batch in batches:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = self.model(batch).float().mean()
                self.scaler.scale(loss).backward()
                self.before_step()
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()
"""
CLIPS = """
    import torch
    from base import Base


    class Clips{number}(Base):
        def before_step(self):
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
"""
UNSCALES = """
    import torch
    from base import Base


    class Unscales(Base):
        def before_step(self):
            self.scaler.unscale_(self.optimizer)
            with torch.autocast("cuda"):
                self.scaler.unscale_(self.optimizer)
"""
PLAIN = """
    from base import Base


    class Plain(Base):
        def before_step(self):
            print(self.model)
"""
MAIN = """
    import torch
    from base import Base

    model = torch.nn.Linear(2, 2).cuda()
    Base(model, torch.optim.SGD(model.parameters(), lr=0.1)).fit([torch.ones(2, 2)])
"""


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods that are walked, each with the class of its object."""
    names: list[str] = []
    walk_of = Driver.walk_of

    def noted(self: Driver, entry: FunctionValue, most: int, receiver: Value | None) -> Walk | None:
        assert entry.outline is not None
        if (
            isinstance(receiver, Instance)
            and receiver.made_of is not None
            and entry.outline.name != "__init__"
        ):
            names.append(f"{entry.outline.name} of {receiver.made_of.outline.name}")
        return walk_of(self, entry, most, receiver)

    monkeypatch.setattr(Driver, "walk_of", noted)
    return names


def found(folder: Path, **files: str) -> set[tuple[str, str, int]]:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    result = check([str(folder)], Settings(root=folder), jobs=1)
    assert result.crashes == ()
    return {(finding.path, finding.name, finding.span.line) for finding in result.findings}


def test_what_a_subclass_adds_to_what_it_inherits(tmp_path: Path, walked: list[str]) -> None:
    names = {name for _, name, _ in found(tmp_path, base=BASE, clips=CLIPS.format(number=""), plain=PLAIN)}
    assert names == {"clip-without-unscale"}
    assert walked == ["fit of Base", "fit of Clips"]


def test_so_many_subclasses_are_taken(tmp_path: Path, walked: list[str]) -> None:
    more = {f"clips{number}": CLIPS.format(number=number) for number in range(5)}
    assert len(found(tmp_path, base=BASE, **more)) == 3
    assert walked == ["fit of Base", *(f"fit of Clips{number}" for number in range(3))]


def test_subclasses_of_tests_are_not(tmp_path: Path, walked: list[str]) -> None:
    assert found(tmp_path, base=BASE, tests__test_clips=CLIPS.format(number="")) == set()
    assert "fit of Clips" not in walked


def test_a_subclass_of_which_an_object_is_made_is_known(tmp_path: Path, walked: list[str]) -> None:
    main = MAIN.replace("from base import Base", "from clips import Clips as Base")
    assert len(found(tmp_path, base=BASE, clips=CLIPS.format(number=""), main=main)) == 1
    assert walked == []


def test_a_method_is_walked_where_the_methods_around_it_call_it(tmp_path: Path, walked: list[str]) -> None:
    ((_, name, _),) = found(tmp_path, base=BASE, unscales=UNSCALES, main=MAIN)
    assert name == "unscale-misplaced"
    assert walked == ["fit of Unscales"]
