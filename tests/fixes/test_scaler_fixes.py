"""When the fixes of scalers, their states and their flags are offered, and what is said where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from goldens import fix_folder
from test_when_fixes_are_safe import findings, verdict

_MODEL = """import torch
from torch import nn

model = nn.Linear(8, 1)
"""
_TRAINED = """    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
_SAVED = _MODEL + (
    """

def main(x, y, path, amp):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    states = torch.load(path)
    optimizer.load_state_dict(states["optimizer"])
"""
    + _TRAINED
    + """    torch.save({"optimizer": optimizer.state_dict()}, path)
"""
)


def test_the_state_of_the_scaler_is_saved_and_loaded(tmp_path: Path) -> None:
    assert verdict(findings(tmp_path, _SAVED, "scaler-not-saved")).startswith("unsafe: a resumed run goes on")


@pytest.mark.parametrize(
    ("old", "key"),
    [("optimizer_state_dict", "scaler_state_dict"), ("state of optimizer", "scaler"), ("optim", "scaler")],
)
def test_the_key_is_named_as_that_of_the_optimizer(tmp_path: Path, old: str, key: str) -> None:
    (tmp_path / "program.py").write_text(_SAVED.replace('"optimizer"', f'"{old}"'), encoding="utf-8")
    texts, _, _ = fix_folder(tmp_path, "scaler-not-saved", unsafe=True)
    assert f'"{key}": scaler.state_dict()}}' in texts["program.py"]
    assert f'    scaler.load_state_dict(states["{key}"])\n' in texts["program.py"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            '    optimizer.load_state_dict(states["optimizer"])\n',
            "",
            "the code that loads the checkpoint is not in this file",
        ),
        ('states["optimizer"]', 'torch.load(path)["optimizer"]', "the checkpoint that is loaded on line 11"),
        (
            '    optimizer.load_state_dict(states["optimizer"])\n',
            '    print(optimizer.load_state_dict(states["optimizer"]))\n',
            "the optimizer is loaded in a larger statement on line 11",
        ),
        (
            '    scaler = torch.amp.GradScaler("cuda")\n    states = torch.load(path)\n'
            '    optimizer.load_state_dict(states["optimizer"])\n',
            '    states = torch.load(path)\n    optimizer.load_state_dict(states["optimizer"])\n'
            '    scaler = torch.amp.GradScaler("cuda")\n',
            "the scaler is not known where the optimizer is loaded, on line 10",
        ),
        (
            '{"optimizer": optimizer.state_dict()}',
            '{"optimizer": optimizer.state_dict(), "scaler": 1.0}',
            'the checkpoint has something else under "scaler"',
        ),
        (
            '{"optimizer": optimizer.state_dict()}',
            '{"optimizer": [optimizer.state_dict()]}',
            "the state of the optimizer is no value of a dict",
        ),
        (
            '    scaler = torch.amp.GradScaler("cuda")\n',
            '    if amp:\n        scaler = torch.amp.GradScaler("cuda")\n',
            '`torch.amp.GradScaler("cuda")` is made under a condition',
        ),
        (
            '    scaler = torch.amp.GradScaler("cuda")\n',
            '    scaler, names = torch.amp.GradScaler("cuda"), []\n',
            "gets no name where it is made",
        ),
        (
            "    scaler.update()\n",
            "    scaler.update()\n    scaler = None\n",
            "the scaler is not known where the checkpoint is put together",
        ),
    ],
)
def test_a_scaler_that_is_not_saved_may_have_no_fix(tmp_path: Path, old: str, new: str, reason: str) -> None:
    assert old in _SAVED
    said = verdict(findings(tmp_path, _SAVED.replace(old, new), "scaler-not-saved"))
    assert said.startswith("none: ") and reason in said


def test_a_checkpoint_put_together_where_the_scaler_is_a_parameter(tmp_path: Path) -> None:
    source = _MODEL + (
        """

def train(x, y, optimizer, grad_scaler, path):
"""
        + _TRAINED.replace("scaler", "grad_scaler")
        + """    torch.save({"optimizer": optimizer.state_dict()}, path)


optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
states = torch.load("last.pt")
optimizer.load_state_dict(states["optimizer"])
train(torch.ones(1, 8), torch.ones(1, 1), optimizer, scaler, "last.pt")
"""
    )
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    texts, left, problems = fix_folder(tmp_path, "scaler-not-saved", unsafe=True)
    assert (left, problems) == ([], [])
    assert '"scaler": grad_scaler.state_dict()}' in texts["program.py"]
    assert '    scaler.load_state_dict(states["scaler"])\n' in texts["program.py"]


_CONTEXT = _MODEL + (
    """optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(4, 8), torch.randn(4, 1)
{context}
loss = nn.functional.mse_loss(model(x), y)
optimizer.zero_grad()
loss.backward()
optimizer.step()
"""
)


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ('torch.autocast("cuda", dtype=torch.bfloat16)', "unsafe: "),
        ('torch.autocast("cuda")', "none: the region runs in float16, and nothing scales the loss"),
        ('torch.autocast(device_type="cuda", dtype=torch.float16)', "none: the region runs in float16"),
        ('x = torch.ones(4, 8); torch.autocast("cuda")', "none: the context is made in a larger statement"),
        (
            'torch.autocast("cuda", dtype=torch.bfloat16)\ndef forward():\n    return model(x)\nforward()',
            "none: `forward` is defined in between",
        ),
        (
            'torch.autocast("cuda", dtype=torch.bfloat16)\nloss = model(x).sum()\nloss.backward()\nx = x + 1',
            "unsafe: ",
        ),
        (
            'torch.autocast("cuda", enabled=x is not None, dtype=torch.bfloat16)\nx = model.half_of(x)',
            "none: what follows binds a name that the context is made with",
        ),
    ],
)
def test_when_a_context_is_entered(tmp_path: Path, context: str, said: str) -> None:
    assert verdict(findings(tmp_path, _CONTEXT.format(context=context), "autocast-not-entered")).startswith(
        said
    )


def test_a_generator_keeps_its_region_to_itself(tmp_path: Path) -> None:
    source = f"""{_MODEL}
def outputs(batches):
    torch.autocast("cuda", dtype=torch.bfloat16)
    for x in batches:
        yield model(x)
"""
    said = verdict(findings(tmp_path, source, "autocast-not-entered"))
    assert said.startswith("none: what follows is suspended in between")


def test_two_contexts_joined_by_or_are_left_alone(tmp_path: Path) -> None:
    source = f'{_MODEL}with torch.no_grad() or torch.autocast("cuda"):\n    model(torch.ones(1, 8))\n'
    found = findings(tmp_path, source, "autocast-not-entered")
    assert not found or "it is not clear which of the contexts" in verdict(found)


_FLAGS = """import torch
from torch import nn


def train(model, optimizer, args, scale, x, y):
    scaler = torch.amp.GradScaler("cuda", enabled=scale)
    with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("args.amp", "args.amp", "unsafe: the flag that switched the scaler"),
        ("    with torch", "    args = args.inner\n    with torch", "none: `args.amp` is not known where"),
    ],
)
def test_when_a_scaler_gets_the_flag_of_the_region(tmp_path: Path, old: str, new: str, said: str) -> None:
    source = _FLAGS.replace(old, new)
    assert verdict(findings(tmp_path, source, "scaler-enabled-mismatch")).startswith(said)


_HELD = """import torch
from torch import nn


class Trainer:
    def __init__(self, model, engine, scale):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda", enabled=scale)
        self.engine = engine

    def step(self, x, y):
        with torch.autocast("cuda", dtype=torch.float16, enabled=self.engine.half):
            loss = nn.functional.mse_loss(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""


def test_an_attribute_that_is_set_after_the_scaler_is_made(tmp_path: Path) -> None:
    late = verdict(findings(tmp_path, _HELD, "scaler-enabled-mismatch"))
    assert late == "none: `self.engine.half` is not known where the scaler is made"
    line = "        self.engine = engine\n"
    early = _HELD.replace(line, "").replace("        self.model =", f"{line}        self.model =")
    assert verdict(findings(tmp_path, early, "scaler-enabled-mismatch")).startswith("unsafe")
    twice = early.replace("    def step(self, x, y):\n", f"    def step(self, x, y, engine):\n{line}")
    assert verdict(findings(tmp_path, twice, "scaler-enabled-mismatch")).startswith(
        "none: `self.engine.half`"
    )


_SCHEDULED = _MODEL + (
    """optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
scaler = torch.amp.GradScaler("cuda")
x, y = torch.randn(4, 8), torch.randn(4, 1)
for number in range(4):
"""
    + _TRAINED
    + "    scheduler.step()\n"
)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", "unsafe: the schedule waits"),
        ("    scheduler.step()", "    if number:\n        scheduler.step()", "none: the step, the update"),
        (
            "    scaler.update()\n    scheduler.step()\n",
            "    scheduler.step()\n    print(number)\n    scaler.update()\n",
            "none: the scheduler goes on before the update, and something stands between",
        ),
        ("scheduler.step()", "rate = scheduler.step()", "none: `scheduler.step()` is a part of a larger"),
        ("scaler.update()\n", "scaler.update(2.0)\n", "none: `scaler.update()` is not called once"),
        ("number", "scale_before_update", "none: the name `scale_before_update` is taken"),
        (
            'GradScaler("cuda")',
            'GradScaler("cuda") if sys.argv else Plain()',
            'none: `torch.amp.GradScaler("cuda")` is made under a condition',
        ),
    ],
)
def test_when_a_scheduler_waits(tmp_path: Path, old: str, new: str, said: str) -> None:
    source = _SCHEDULED.replace(old, new) if old else _SCHEDULED
    assert verdict(findings(tmp_path, source, "scheduler-on-skipped-step")).startswith(said)


def test_scales_of_which_nobody_knows_the_later_one(tmp_path: Path) -> None:
    source = _SCHEDULED.replace(
        "    scaler.update()\n    scheduler.step()\n",
        "    before = scaler.get_scale()\n    scaler.update()\n    after = scaler.get_scale()\n"
        "    if before == after:\n        scheduler.step()\n",
    )
    assert verdict(findings(tmp_path, source, "scheduler-on-skipped-step")).startswith(
        "none: it is not clear which of the two scales is the later one"
    )


_CLOSURE = _MODEL + (
    """optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
x, y = torch.randn(4, 8), torch.randn(4, 1)


def closure():
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    return loss


closure()
scaler.step(optimizer, closure)
"""
)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", "unsafe: bfloat16 has fewer digits"),
        ("dtype=torch.float16):", "*[]):", "none: a star hides"),
        ("closure()\nscaler", "closure()\nscaler.step(other)\nscaler", "none: the scaler steps another"),
        (
            '    with torch.autocast("cuda", dtype=torch.float16):\n        loss',
            "    loss",
            "none: the scaler or the region",
        ),
    ],
)
def test_when_a_closure_trains_in_bfloat16(tmp_path: Path, old: str, new: str, said: str) -> None:
    source = _CLOSURE.replace(old, new) if old else _CLOSURE
    assert verdict(findings(tmp_path, source, "closure-with-scaler")).startswith(said)
