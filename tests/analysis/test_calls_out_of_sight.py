"""Calls inside regions whose callees nobody can find in the text: what they may reach is judged in the region."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from amplint.check import CheckResult, check
from amplint.config import Settings

TRAINER = """\
    import torch
    class Trainer:
        def __init__(self, model, criterion):
            self.model = model
            self.criterion = criterion
            self.amp = True
        def step(self, batch, target):
            loss_function = self.model.calculate_loss
            with torch.autocast("cuda", enabled=self.amp):
                loss = loss_function(batch)
                loss = loss + self.criterion(batch, target)
            loss.backward()
    """
BASE = """\
    from torch import nn
    class Recommender(nn.Module):
        def calculate_loss(self, batch):
            raise NotImplementedError
    """
MODEL = """\
    from torch import nn
    from base import Recommender
    class Ranker(Recommender):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 1)
            self.loss = nn.BCELoss()
        def forward(self, batch):
            return self.linear(batch).sigmoid()
        def calculate_loss(self, batch):
            return self.loss(self(batch), batch)
    """
LOSS = """\
    from torch import nn
    class Adversarial(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.BCELoss()
        def forward(self, guess, target):
            return self.inner(guess.sigmoid(), target)
    """


def run(folder: Path, jobs: int = 1, /, **files: str) -> CheckResult:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(dedent(text))
    result = check([str(folder)], Settings(root=folder, select=("AMP4",)), jobs=jobs)
    assert result.crashes == ()
    return result


def found(folder: Path, **files: str) -> set[tuple[str, str, int]]:
    findings = run(folder, 1, **files).findings
    return {(Path(finding.path).stem, finding.name, finding.span.line) for finding in findings}


def test_a_method_that_a_base_class_declares(tmp_path: Path) -> None:
    result = run(tmp_path, 1, trainer=TRAINER, base=BASE, model=MODEL)
    (finding,) = result.findings
    assert (Path(finding.path).stem, finding.name, finding.span.line) == ("model", "bce-in-autocast", 11)
    assert "`loss_function(batch)` on line 10 of" in finding.message
    assert [(Path(step.path).stem, step.span.line) for step in finding.trail] == [
        ("trainer", 9),
        ("trainer", 10),
    ]
    assert Path(result.sources[finding.path]) == tmp_path / "model.py"


def test_worker_processes_find_the_same(tmp_path: Path) -> None:
    others = {f"other{number}": "from torch import autocast\n" for number in range(14)}
    alone = run(tmp_path, 1, trainer=TRAINER, base=BASE, model=MODEL, loss=LOSS, **others)
    assert len(alone.findings) == 2
    assert run(tmp_path, 2).findings == alone.findings


def test_numbers_that_the_methods_own_half_tensors_cannot_hold(tmp_path: Path) -> None:
    model = MODEL.replace(
        "return self.loss(self(batch), batch)", "return self.linear(batch).masked_fill(batch > 0, -1e9)"
    )
    assert found(tmp_path, trainer=TRAINER, base=BASE, model=model) == {
        ("model", "half-overflow-literal", 11)
    }


def test_an_object_that_only_users_make(tmp_path: Path) -> None:
    assert found(tmp_path, trainer=TRAINER, loss=LOSS) == {("loss", "bce-in-autocast", 7)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.criterion(batch, target)", "self.criterion(batch)"),
        ("self.criterion(batch, target)", "self.criterion(batch, target, 1)"),
        ("self.criterion(batch, target)", "self.criterion(batch, mask=target)"),
        ("with torch.autocast", "with torch.no_grad(), torch.autocast"),
        ('torch.autocast("cuda"', 'torch.autocast("cpu"'),
        ("enabled=self.amp", "enabled=False"),
    ],
)
def test_an_object_that_cannot_be_the_one(tmp_path: Path, old: str, new: str) -> None:
    assert found(tmp_path, trainer=TRAINER.replace(old, new), loss=LOSS) == set()


def test_an_object_that_the_project_makes_itself(tmp_path: Path) -> None:
    use = """\
        from loss import Adversarial
        def train(model, x, target):
            return Adversarial()(model(x), target)
        """
    assert found(tmp_path, trainer=TRAINER, loss=LOSS, use=use) == set()


def test_a_method_of_the_same_name_that_no_base_declares(tmp_path: Path) -> None:
    lonely = MODEL.replace("from base import Recommender", "").replace("Recommender", "nn.Module")
    other = lonely.replace("Ranker", "Other")
    assert found(tmp_path, trainer=TRAINER, model=lonely, other=other) == set()
    (tmp_path / "other.py").unlink()
    assert found(tmp_path) == {("model", "bce-in-autocast", 11)}


def test_a_region_that_the_method_switches_off(tmp_path: Path) -> None:
    model = MODEL.replace("from torch import nn", "import torch\n    from torch import nn").replace(
        "return self.loss(self(batch), batch)",
        'with torch.autocast("cuda", enabled=False):\n                return self.loss(self(batch).float(), batch)',
    )
    assert found(tmp_path, trainer=TRAINER, base=BASE, model=model) == set()


def test_a_finding_that_is_silenced(tmp_path: Path) -> None:
    model = MODEL.replace("self(batch), batch)", "self(batch), batch)  # amplint: ignore[bce-in-autocast]")
    for name, text in {"trainer": TRAINER, "base": BASE, "model": model}.items():
        (tmp_path / f"{name}.py").write_text(dedent(text))
    result = check([str(tmp_path)], Settings(root=tmp_path, select=("AMP4", "AMP901")), jobs=1)
    assert result.findings == ()
