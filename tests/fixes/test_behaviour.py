"""What the fixed programs do when they run, and the broken ones do not."""

from __future__ import annotations

import contextlib
import io
import runpy
import warnings
from pathlib import Path

import pytest
from goldens import FIXTURES, fix_folder

torch = pytest.importorskip("torch")

_DATA = """
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 8), 3 * torch.randn(64, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
losses = []
"""
_RIGHT = """
for _ in range(20):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
_AROUND_THE_LOOP = """
with torch.autocast("cpu", dtype=torch.bfloat16):
    for _ in range(20):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""
_DECORATED = """

@torch.autocast("cpu", dtype=torch.bfloat16)
def train():
    for _ in range(20):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


train()
"""
_IN_EACH_STEP = """
for _ in range(20):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    losses.append(loss.item())
"""
_ISLAND = """
head = nn.Linear(8, 1)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(20):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.autocast("cpu", enabled=False):
            loss = nn.functional.mse_loss(head(x), y)
"""
_ISLAND_BROKEN = (
    _ISLAND
    + """        optimizer.zero_grad()
        loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
)
_ISLAND_RIGHT = (
    _ISLAND
    + """    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
)


def run(source: str) -> dict[str, object]:
    """The names that a program leaves behind."""
    names: dict[str, object] = {"__name__": "__main__"}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        exec(compile(source, "<program>", "exec"), names)
    return names


def mended(folder: Path, source: str, rule: str, *, unsafe: bool = True) -> str:
    (folder / "program.py").write_text(source, encoding="utf-8")
    texts, left, problems = fix_folder(folder, rule, unsafe=unsafe)
    assert left == []
    assert problems == []
    return texts["program.py"]


@pytest.mark.parametrize("unsafe", [True, False])
@pytest.mark.parametrize("loop", [_AROUND_THE_LOOP, _DECORATED], ids=["with", "decorator"])
def test_a_region_around_the_loop_trains_after_the_fix(tmp_path: Path, loop: str, unsafe: bool) -> None:
    right = run(_DATA + _RIGHT)["losses"]
    assert len(set(run(_DATA + loop)["losses"])) == 1  # type: ignore[arg-type]
    assert run(mended(tmp_path, _DATA + loop, "epoch-wide-autocast", unsafe=unsafe))["losses"] == right


@pytest.mark.parametrize("rule", ["backward-in-autocast", "step-in-autocast"])
def test_a_step_that_leaves_the_region_trains_to_the_same_loss(tmp_path: Path, rule: str) -> None:
    fixed = mended(tmp_path, _DATA + _IN_EACH_STEP, rule, unsafe=False)
    assert fixed != _DATA + _IN_EACH_STEP
    assert run(fixed)["losses"] == run(_DATA + _RIGHT)["losses"]


def test_the_gradients_of_a_float32_island_are_right_after_the_fix(tmp_path: Path) -> None:
    right = run(_DATA + _ISLAND_RIGHT)["losses"]
    assert run(_DATA + _ISLAND_BROKEN)["losses"] != right
    fixed = mended(tmp_path, _DATA + _ISLAND_BROKEN, "backward-in-autocast", unsafe=False)
    assert run(fixed)["losses"] == right


@pytest.mark.parametrize(
    ("program", "before", "after"),
    [
        ("autocast-not-entered/bad_joined_with_and", "torch.float32", "torch.bfloat16"),
        ("autocast-not-entered/bad_statement", "torch.float32", "torch.bfloat16"),
        ("autocast-not-entered/bad_unused_name", "torch.float32", "torch.bfloat16"),
        ("epoch-wide-autocast/bad_decorated_train", "different losses: 1", "different losses: 4"),
        ("epoch-wide-autocast/bad_disabled_outside", "different losses: 1", "different losses: 4"),
        ("missing-float/bad_cross_entropy", "torch.bfloat16", "torch.float32"),
        ("missing-float/bad_running_total", "torch.bfloat16", "torch.float32"),
        ("disabled-region-without-cast/bad_loss_outside", "torch.bfloat16", "torch.float32"),
        ("half-underflow-eps/bad_clamp", "True", "False"),
        ("half-underflow-eps/bad_division", "True", "False"),
        ("half-underflow-eps/bad_logarithm_of_sigmoid", "True", "False"),
        ("half-underflow-eps/bad_square_root", "True", "False"),
        ("half-underflow-eps/bad_targets_cast_by_hand", "True", "False"),
        ("unprotected-op-in-half/bad_mean_of_squares", "True", "False"),
        ("useless-float/bad_linear_head", "torch.bfloat16", "torch.float32"),
        ("useless-float/bad_einsum", "torch.bfloat16 torch.bfloat16", "torch.float32 torch.float32"),
    ],
)
def test_a_program_says_something_else_after_the_fix(program: str, before: str, after: str) -> None:
    def last_line(kind: str) -> str:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            runpy.run_path(str(FIXTURES / f"{program}{kind}"), run_name="__main__")
        return output.getvalue().splitlines()[-1]

    assert last_line(".py") == before
    assert last_line(".fixed.py") == after


_CLIP = """    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
"""
_SCALED = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu")
for _ in range(20):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
"""


def test_clipping_limits_the_gradients_themselves_after_the_fix(tmp_path: Path) -> None:
    right = run(_DATA + _SCALED)["losses"]
    broken = _DATA + _SCALED.replace("    scaler.unscale_(optimizer)\n", "")
    assert len(set(run(broken)["losses"])) == 1  # type: ignore[arg-type]
    fixed = mended(tmp_path, broken, "clip-without-unscale", unsafe=False)
    assert run(fixed)["losses"] == right
    assert len(set(right)) > 10  # type: ignore[arg-type]


def test_a_program_without_update_trains_after_the_fix(tmp_path: Path) -> None:
    plain = _SCALED.replace(
        "    scaler.unscale_(optimizer)\n    nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n", ""
    )
    broken = _DATA + plain.replace("    scaler.update()\n", "")
    with pytest.raises(RuntimeError, match="since the last update"):
        run(broken)
    fixed = mended(tmp_path, broken, "missing-scaler-update", unsafe=False)
    assert run(fixed)["losses"] == run(_DATA + plain)["losses"]


def test_a_loss_with_its_own_name_is_logged_as_it_is_after_the_fix(tmp_path: Path) -> None:
    broken = _DATA + _SCALED.replace(
        "scaler.scale(loss).backward()", "loss = scaler.scale(loss)\n    loss.backward()"
    )
    right = run(_DATA + _SCALED)["losses"]
    assert run(broken)["losses"][0] == 65536 * right[0]  # type: ignore[index]
    assert run(mended(tmp_path, broken, "scaled-loss-reused", unsafe=False))["losses"] == right


def test_a_scaled_loss_and_a_step_of_the_scaler_train_after_the_fix(tmp_path: Path) -> None:
    plain = _SCALED.replace(
        "    scaler.unscale_(optimizer)\n    nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n", ""
    )
    right = run(_DATA + plain)["losses"]
    direct = plain.replace("scaler.step(optimizer)\n    scaler.update()", "optimizer.step()")
    assert run(_DATA + direct)["losses"] != right
    assert run(mended(tmp_path, _DATA + direct, "direct-optimizer-step"))["losses"] == right
    unscaled = plain.replace("scaler.scale(loss).backward()", "loss.backward()")
    with pytest.raises(AssertionError, match="_scale is None"):
        run(_DATA + unscaled)
    assert run(mended(tmp_path, _DATA + unscaled, "unscaled-backward"))["losses"] == right


def entered(monkeypatch: pytest.MonkeyPatch, source: str) -> list[tuple[str, bool, object]]:
    """Device, ``enabled`` and dtype of each region that a program enters, as it asks for them: without a GPU
    torch switches CUDA regions off when they are made."""
    seen: list[tuple[str, bool, object]] = []
    make = torch.amp.autocast.__init__

    def init(
        self: object,
        device_type: str,
        dtype: object = None,
        enabled: bool = True,
        cache_enabled: object = None,
    ) -> None:
        assert dtype is None or isinstance(dtype, torch.dtype)
        assert isinstance(enabled, bool)
        make(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)
        seen.append((device_type, enabled, dtype))

    monkeypatch.setattr(torch.amp.autocast, "__init__", init)
    run(source)
    return seen


@pytest.mark.parametrize(
    ("source", "regions"),
    [
        ("import torch\nwith torch.cuda.amp.autocast(True):\n    pass\n", [("cuda", True, None)]),
        ("import torch\nwith torch.cuda.amp.autocast(False):\n    pass\n", [("cuda", False, None)]),
        (
            "import torch\nwith torch.cuda.amp.autocast(True, torch.bfloat16):\n    pass\n",
            [("cuda", True, torch.bfloat16)],
        ),
        (
            "import torch.cuda.amp as amp\n\nwith amp.autocast():\n    pass\nscaler = amp.GradScaler(enabled=False)\n",
            [("cuda", True, None)],
        ),
        (
            "from torch.cuda.amp import autocast\n\nwith autocast():\n    with autocast(False):\n        pass\n",
            [("cuda", True, None), ("cuda", False, None)],
        ),
        (
            "from torch.cuda.amp import autocast\n\n\n@autocast()\ndef f():\n    pass\n\n\nf()\n",
            [("cuda", True, None)],
        ),
    ],
    ids=[
        "positional enabled",
        "switched off",
        "positional dtype",
        "module alias",
        "no import of torch",
        "decorator",
    ],
)
def test_deprecated_calls_run_after_the_fix_and_ask_for_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, regions: list[tuple[str, bool, object]]
) -> None:
    fixed = mended(tmp_path, source, "deprecated-amp-api", unsafe=False)
    assert "cuda.amp" not in fixed
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        assert entered(monkeypatch, fixed) == regions


def test_a_decorator_without_a_call_is_explained(tmp_path: Path) -> None:
    source = "import torch\n\n\n@torch.cuda.amp.autocast\ndef f():\n    pass\n"
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    texts, left, _ = fix_folder(tmp_path, "deprecated-amp-api", unsafe=True)
    assert texts["program.py"] == source
    assert "without being called" in left[0].fix_note


def test_an_import_that_another_file_uses_stays(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("from program import autocast\n", encoding="utf-8")
    source = "import torch\nfrom torch.cuda.amp import autocast\n\nwith autocast():\n    pass\n"
    fixed = mended(tmp_path, source, "deprecated-amp-api", unsafe=False)
    assert fixed == source.replace("with autocast()", 'with torch.amp.autocast("cuda", dtype=torch.float16)')


def test_many_uses_of_one_import_are_done_at_once(tmp_path: Path) -> None:
    uses = "".join(f"    scalers.append(GradScaler(enabled={n % 2 == 0}))\n" for n in range(30))
    source = f"from torch.cuda.amp import GradScaler, autocast\n\nscalers = []\nwith autocast():\n{uses}"
    fixed = mended(tmp_path, source, "deprecated-amp-api", unsafe=False)
    assert fixed.count('(GradScaler("cuda", enabled=') == 30
    assert fixed.startswith("from torch.amp import GradScaler, autocast\n\nscalers = []\nwith autocast(")
