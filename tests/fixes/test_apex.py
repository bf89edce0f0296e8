"""Programs that train with apex.amp, migrated: they train like right ones, and as they did under a stub of apex."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from goldens import fix_folder
from test_when_fixes_are_safe import findings, verdict

torch = pytest.importorskip("torch")
if torch.cuda.is_available():
    pytest.skip("CUDA is simulated where there is none", allow_module_level=True)
STUB = Path(__file__).parents[1] / "apex_stub"

_HEAD = """import torch
from apex import amp
from torch import nn

torch.manual_seed(0)
batches = [(torch.randn(16, 8).cuda(), 3 * torch.randn(16, 1).cuda()) for _ in range(2)]
losses = []
"""
_MODEL = """model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
"""
_PLAIN = (
    _HEAD
    + _MODEL
    + """model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for step in range(50):
    x, y = batches[step % 2]
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.5)
    optimizer.step()
    losses.append(loss.item())
"""
)
_RIGHT = (
    _HEAD.replace("from apex import amp\n", "")
    + _MODEL
    + """scaler = torch.amp.GradScaler("cuda")
for step in range(50):
    x, y = batches[step % 2]
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
"""
)
_SEVERAL_LOSSES = (
    _HEAD
    + _MODEL
    + """second = nn.Linear(8, 1).cuda()
other = torch.optim.SGD(second.parameters(), lr=0.05)
[model, second], [optimizer, other] = amp.initialize([model, second], [optimizer, other], num_losses=2)
for step in range(50):
    x, y = batches[step % 2]
    optimizer.zero_grad()
    other.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    more = nn.functional.mse_loss(second(x), y)
    with amp.scale_loss(loss, optimizer, loss_id=0) as scaled_loss:
        scaled_loss.backward()
    with amp.scale_loss(more, other, loss_id=1) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    other.step()
    losses.append(loss.item() + more.item())
"""
)
_ACCUMULATED = (
    _HEAD
    + """

def train(model, optimizer):
    for step in range(50):
        x, y = batches[step % 2]
        loss = nn.functional.mse_loss(model(x), y) / 2
        if step % 2:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        else:
            with amp.scale_loss(loss, optimizer, delay_unscale=True) as scaled_loss:
                scaled_loss.backward()
        losses.append(loss.item())


"""
    + _MODEL
    + """model, optimizer = amp.initialize(model, optimizer)
train(model, optimizer)
"""
)
_RESUMED = (
    _HEAD
    + "import io\n"
    + _MODEL
    + """model, optimizer = amp.initialize(model, optimizer)


def train(model, optimizer):
    for step in range(25):
        x, y = batches[step % 2]
        loss = nn.functional.mse_loss(model(x), y) * 64
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.5)
        optimizer.step()
        losses.append(loss.item() / 64)


train(model, optimizer)
file = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()}, file)
file.seek(0)
states = torch.load(file)
model.load_state_dict(states["model"])
optimizer.load_state_dict(states["optimizer"])
amp.load_state_dict(states["amp"])
train(model, optimizer)
"""
)
_HALF_FUNCTION = _PLAIN.replace(
    "losses = []\n",
    "losses = []\n\n\n@amp.half_function\ndef product(x, weight):\n    return x @ weight\n\n\n",
).replace("model(x), y)", "product(model(x), torch.ones(1, 1).cuda()).float(), y)")
_UNDER_A_FLAG = (
    _HEAD.replace("from apex import amp\n", "")
    + _MODEL
    + """fp16, level = True, "O1"
if fp16:
    try:
        from apex import amp
    except ImportError:
        raise ImportError("install apex")
    model, optimizer = amp.initialize(model, optimizer, opt_level=level)
for step in range(50):
    x, y = batches[step % 2]
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    if fp16:
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.5)
    else:
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    losses.append(loss.item())
"""
)
PROGRAMS = {
    "under a flag": _UNDER_A_FLAG,
    "under a flag that is off": _UNDER_A_FLAG.replace("= True,", "= False,"),
    "plain": _PLAIN,
    "O0": _PLAIN.replace('"O1"', '"O0"'),
    "O2": _PLAIN.replace('"O1"', '"O2", keep_batchnorm_fp32=True, verbosity=0'),
    "chosen": _PLAIN.replace("losses = []", 'losses = []\nlevel = "O1"').replace(
        'opt_level="O1"', "opt_level=level"
    ),
    "chosen O0": _PLAIN.replace("losses = []", 'losses = []\nlevel = "O0"').replace(
        'opt_level="O1"', "opt_level=level"
    ),
    "switched": _PLAIN.replace("losses = []", "losses = []\nuse = True").replace(
        'opt_level="O1"', "enabled=use"
    ),
    "fixed scale": _PLAIN.replace('opt_level="O1"', "loss_scale=128.0"),
    "several losses": _SEVERAL_LOSSES,
    "accumulated": _ACCUMULATED,
    "resumed": _RESUMED,
    "half function": _HALF_FUNCTION,
    "fused": _PLAIN.replace(
        "from torch import nn", "from apex.optimizers import FusedSGD\nfrom torch import nn"
    ).replace("torch.optim.SGD", "FusedSGD"),
}


@contextlib.contextmanager
def _apex() -> Iterator[None]:
    """The stub of apex can be imported."""
    sys.path.insert(0, str(STUB))
    try:
        yield
    finally:
        sys.path.remove(str(STUB))
        for name in [name for name in sys.modules if name.partition(".")[0] == "apex"]:
            del sys.modules[name]


def losses_of(source: str) -> list[float]:
    from amplint.confirm.simulation import SimulatedCuda

    names: dict[str, object] = {"__name__": "__main__"}
    with warnings.catch_warnings(), _apex(), SimulatedCuda():
        warnings.simplefilter("ignore")
        exec(compile(source, "<program>", "exec"), names)
    return names["losses"]  # type: ignore[return-value]


def migrated(folder: Path, source: str) -> str:
    (folder / "program.py").write_text(source, encoding="utf-8")
    texts, left, problems = fix_folder(folder, "apex-amp", unsafe=True)
    assert [finding.fix_note for finding in left] == []
    assert problems == []
    return texts["program.py"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_migrated_program_trains_as_it_did(name: str, tmp_path: Path) -> None:
    before = losses_of(PROGRAMS[name])
    text = migrated(tmp_path, PROGRAMS[name])
    assert "amp.scale_loss" not in text and "import amp" not in text
    after = losses_of(text)
    assert after == pytest.approx(before, rel=0.05, abs=0.02)
    assert after[-1] < after[0]


def test_a_migrated_program_is_a_right_one(tmp_path: Path) -> None:
    assert losses_of(migrated(tmp_path, _PLAIN)) == losses_of(_RIGHT)


def test_fused_optimizers_are_left_alone(tmp_path: Path) -> None:
    assert "from apex.optimizers import FusedSGD\n" in migrated(tmp_path, PROGRAMS["fused"])


def test_what_differs_is_said(tmp_path: Path) -> None:
    assert "O2 keeps float16 ones" in verdict(findings(tmp_path, PROGRAMS["O2"], "apex-amp"))
    assert "the scale begins as it was" in verdict(findings(tmp_path, PROGRAMS["fixed scale"], "apex-amp"))
    assert "kernels of extensions do not" in verdict(
        findings(tmp_path, PROGRAMS["half function"], "apex-amp")
    )


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"O1"', '"O3"', "O3 trains float16 weights without float32 copies"),
        ('opt_level="O1"', "max_loss_scale=8.0", "`max_loss_scale` of `amp.initialize` has no equal"),
        ('opt_level="O1"', "loss_scale=losses", "`loss_scale` of `amp.initialize` is not known"),
        ('opt_level="O1"', "*losses", "a star hides"),
        (
            'opt_level="O1")\n',
            "opt_level=losses.level)\nif losses.level == 'O2':\n    batches = []\n",
            "`losses.level == 'O2'` counts on float16 weights",
        ),
        (
            "from apex import amp\n",
            "try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n",
            "bound to something else as well",
        ),
        (
            "from apex import amp\n",
            "try:\n    from apex import amp\nexcept ImportError:\n    print('slow')\n",
            "the code runs without apex, too",
        ),
        ("model, optimizer = amp", "if losses == []:\n    model, optimizer = amp", "under a condition"),
        ("model, optimizer = amp", "net, optimizer = amp", "has other names"),
        (
            "    loss = nn.functional.mse_loss(model(x), y)\n    optimizer.zero_grad()\n",
            "    optimizer.zero_grad()\n",
            "the forward does not stand beside the backward pass",
        ),
        (
            "        scaled_loss.backward()\n",
            "        scaled_loss.backward()\n        print(scaled_loss)\n",
            "`scaled_loss` is more or less than the start of the backward pass",
        ),
        ("    optimizer.step()\n", "    print(scaled_loss)\n    optimizer.step()\n", "is used outside"),
        ("    optimizer.step()\n", "", "the optimizer steps in another function"),
        (
            "losses = []\n",
            'losses = []\namp.register_half_function(nn.functional, "linear")\n',
            "`amp.register_half_function` has no equal",
        ),
        ("amp.master_params(optimizer)", "list(map(amp.master_params, [optimizer]))", "has no equal"),
        (
            "    losses.append",
            "    amp.load_state_dict(losses)\n    losses.append",
            "the state of apex is loaded in an unusual way",
        ),
    ],
)
def test_what_has_no_equal_is_left_alone(tmp_path: Path, old: str, new: str, reason: str) -> None:
    assert old in _PLAIN
    said = verdict(findings(tmp_path, _PLAIN.replace(old, new), "apex-amp"))
    assert said.startswith("none: ") and reason in said


def test_a_level_that_a_condition_asks_for_is_the_flag_once(tmp_path: Path) -> None:
    source = _UNDER_A_FLAG.replace("if fp16", "if level != 'O0'")
    assert """torch.amp.GradScaler("cuda", enabled=level != 'O0')""" in migrated(tmp_path, source)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "        loss.backward()\n",
            "        (2 * loss).backward()\n",
            "without apex the code does something else",
        ),
        ("model.parameters(), 0.5)", "model.parameters(), 0.1)", "without apex the code does something else"),
        ("        loss.backward()\n", "        loss.backward()\n        print(1)\n", "does something else"),
        ("    else:\n", "    elif level:\n", "without apex the code does something else"),
        ("if fp16:\n    try", "if fp16():\n    try", "under a condition that is computed"),
        ("    optimizer.zero_grad()\n    if", "    if step < 0:\n        pass\n    elif", "another way"),
    ],
)
def test_what_is_done_without_apex_has_to_be_the_same(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    assert old in _UNDER_A_FLAG
    said = verdict(findings(tmp_path, _UNDER_A_FLAG.replace(old, new), "apex-amp"))
    assert said.startswith("none: ") and reason in said


def test_a_state_under_another_key(tmp_path: Path) -> None:
    source = _RESUMED.replace('"amp": amp.state_dict()', '"apex": amp.state_dict()')
    assert "is not saved under" in verdict(findings(tmp_path, source, "apex-amp"))
    assigned = _RESUMED.replace(', "amp": amp.state_dict()}, file)', "}, io.BytesIO())").replace(
        "file.seek(0)",
        'kept = {"optimizer": optimizer.state_dict()}\nkept["amp"] = amp.state_dict()\nfile.seek(0)',
    )
    assert 'kept["scaler"] = scaler.state_dict()\n' in migrated(tmp_path, assigned)


def test_initialize_in_another_file(tmp_path: Path) -> None:
    source = "from apex import amp\n\n\ndef step(loss, optimizer):\n    with amp.scale_loss(loss, optimizer) as s:\n"
    said = verdict(findings(tmp_path, source + "        s.backward()\n", "apex-amp"))
    assert said == "none: `amp.initialize` is not called in this file"


def test_a_project_with_an_old_torch(tmp_path: Path) -> None:
    assert "before 2.3" in verdict(findings(tmp_path, _PLAIN, "apex-amp", "2.2"))
