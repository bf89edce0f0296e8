"""When a loss that nobody scales gets a scaler, what is made of it, and what is said where it gets none."""

from __future__ import annotations

from pathlib import Path

import pytest
from goldens import fix_folder
from test_when_fixes_are_safe import findings, verdict

_PLAIN = """import torch
from torch import nn

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(4, 8), torch.randn(4, 1)
for number in range(4):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_HELPER = """import torch
from torch import nn


def train(model, optimizer, x, y):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()


model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, optimizer, torch.ones(1, 8), torch.ones(1, 1))
"""


def test_training_gets_a_scaler(tmp_path: Path) -> None:
    assert verdict(findings(tmp_path, _PLAIN, "missing-grad-scaler")).startswith("unsafe: training changes")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "optimizer = torch",
            "if model.bias is not None:\n    optimizer = torch",
            "where `optimizer` is made is not known",
        ),
        (
            "optimizer = torch",
            "optimizer = None\noptimizer = torch",
            "where `optimizer` is made is not known",
        ),
        (
            "    optimizer.step()\n",
            "    print(optimizer.step())\n",
            "the step is a part of a larger statement",
        ),
        (
            "    optimizer.step()\n",
            "    optimizer.step(); print(loss)\n",
            "the step is a part of a larger statement",
        ),
        (
            "    optimizer.step()\n",
            "    optimizer.step(lambda: loss)\n    optimizer.step()\n",
            "the step is given arguments",
        ),
        ("loss.backward()", "torch.autograd.backward(loss)", "the loss is no receiver of `backward`"),
        (
            "    optimizer.step()\n",
            "    other.step()\n    optimizer.step()\n",
            "what `other.step()` steps is not known",
        ),
        (
            "    optimizer.step()\n",
            "    if number:\n        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    else:\n"
            "        optimizer.step()\n",
            "the gradients are read under another condition than that of the step",
        ),
    ],
)
def test_training_without_a_scaler_may_have_no_fix(tmp_path: Path, old: str, new: str, reason: str) -> None:
    assert old in _PLAIN
    said = verdict(findings(tmp_path, _PLAIN.replace(old, new), "missing-grad-scaler"))
    assert said.startswith("none: ") and reason in said


@pytest.mark.parametrize(
    ("line", "made", "safe"),
    [
        ("from transformers import get_scheduler", "get_scheduler('linear', optimizer=optimizer)", True),
        ("from diffusers.optimization import get_scheduler", "get_scheduler('linear', optimizer)", True),
        ("from ours import wrapped", "wrapped(optimizer)", False),
    ],
)
def test_a_scheduler_is_no_other_optimizer(tmp_path: Path, line: str, made: str, safe: bool) -> None:
    source = _PLAIN.replace("    optimizer.step()\n", "    optimizer.step()\n    other.step()\n")
    source = source.replace("x, y = ", f"other = {made}\nx, y = ")
    said = verdict(findings(tmp_path, f"{line}\n{source}", "missing-grad-scaler"))
    assert said.startswith("unsafe: " if safe else "none: what `other.step()` steps is not known")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("\ntrain(model, optimizer,", "\ntrain(*[model, optimizer],", "a star hides what `train` is given"),
        ("\ntrain(model, optimizer,", "\ntrain(model, (optimizer),", ""),
        (
            "\ntrain(model, optimizer,",
            "\ntrain(model, torch.optim.SGD(model.parameters(), lr=0.1),",
            "the optimizer that `train` is given has no name",
        ),
        ("optimizer, x, y):", "optimizer=None, x=None, y=None):", "`train` need not be given `optimizer`"),
        ("optimizer, x, y):", "optimizer, /, x, y):", "`train` need not be given `optimizer`"),
        (
            "    loss.backward()\n",
            "    loss.backward()\n    optimizer = optimizer\n",
            "not all callers of `train`",
        ),
        ("\n\nmodel =", "\n\nhandlers = [train]\nmodel =", "not all callers of `train`"),
        ("def train", "@torch.enable_grad()\ndef train", "not all callers of `train`"),
    ],
)
def test_a_helper_gets_the_scaler_if_all_callers_are_in_sight(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    assert old in _HELPER
    said = verdict(findings(tmp_path, _HELPER.replace(old, new), "missing-grad-scaler"))
    assert said.startswith("none: " if reason else "unsafe: ")
    assert reason in said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("optimizer, x, y):", "optimizer, scaler, x, y):"),
        (
            "optimizer: torch.optim.Optimizer, x, y):",
            "optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, x, y):",
        ),
    ],
)
def test_a_parameter_for_the_scaler_is_annotated_like_the_one_beside_it(
    tmp_path: Path, old: str, new: str
) -> None:
    (tmp_path / "program.py").write_text(_HELPER.replace("optimizer, x, y):", old), encoding="utf-8")
    assert new in fix_folder(tmp_path, "missing-grad-scaler", unsafe=True)[0]["program.py"]


def test_a_helper_that_another_file_calls(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("from program import *\nprint(train)\n", encoding="utf-8")
    said = verdict(findings(tmp_path, _HELPER, "missing-grad-scaler"))
    assert said.startswith("none: not all callers of `train`")


def test_two_callers_with_optimizers_of_their_own(tmp_path: Path) -> None:
    source = (
        _HELPER
        + """second = torch.optim.SGD(model.parameters(), lr=0.2)
train(model, x=torch.ones(1, 8), y=torch.ones(1, 1), optimizer=second)
train(model, optimizer, torch.ones(1, 8), torch.ones(1, 1))
"""
    )
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    texts, left, problems = fix_folder(tmp_path, "missing-grad-scaler", unsafe=True)
    assert (texts["program.py"], problems) == (source, [])
    assert "several optimizers" in left[0].fix_note


def test_the_flag_of_the_region_switches_the_scaler_where_it_is_known(tmp_path: Path) -> None:
    source = _PLAIN.replace(
        "optimizer = torch", "amp = torch.cuda.is_available()\noptimizer = torch"
    ).replace("torch.float16)", "torch.float16, enabled=amp)")
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    fixed = fix_folder(tmp_path, "missing-grad-scaler", unsafe=True)[0]["program.py"]
    assert 'scaler = torch.amp.GradScaler("cuda", enabled=amp)\n' in fixed


def test_a_flag_that_is_known_later_leaves_the_scaler_on(tmp_path: Path) -> None:
    source = _PLAIN.replace("x, y =", "amp = torch.cuda.is_available()\nx, y =").replace(
        "torch.float16)", "torch.float16, enabled=amp)"
    )
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    fixed = fix_folder(tmp_path, "missing-grad-scaler", unsafe=True)[0]["program.py"]
    assert 'scaler = torch.amp.GradScaler("cuda")\n' in fixed


def test_a_project_with_an_old_torch_gets_the_old_scaler(tmp_path: Path) -> None:
    fix = findings(tmp_path, _PLAIN, "missing-grad-scaler", "2.2")[0].fix
    assert fix is not None
    assert any("torch.cuda.amp.GradScaler()" in edit.text for edit in fix.edits)
    other = _PLAIN.replace('"cuda"', '"xpu"')
    assert "before 2.3" in verdict(findings(tmp_path, other, "missing-grad-scaler", "2.2"))


def test_a_checkpoint_is_told_of_afterwards(tmp_path: Path) -> None:
    source = _PLAIN.replace(
        "x, y =", 'states = torch.load("a.pt")\noptimizer.load_state_dict(states["opt"])\nx, y ='
    )
    source += 'torch.save({"opt": optimizer.state_dict()}, "a.pt")\n'
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    from amplint.config import Settings
    from amplint.fixing import fix
    from amplint.scope import alone

    rules = ("missing-grad-scaler", "scaler-not-saved")
    settings = Settings(root=tmp_path, select=rules, torch=((2, 4), None), torch_from="the tests")
    fixing = fix([alone([str(tmp_path)], settings)], unsafe=True, jobs=1)
    assert (fixing.result.findings, fixing.result.crashes) == ((), ())
    assert '"scaler": scaler.state_dict()' in fixing.changes[0].texts[1]
