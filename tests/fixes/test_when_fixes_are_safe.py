"""When a fix is offered, whether it is safe, and what is said where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from goldens import fix_folder

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Finding

_HEAD = """import torch
from torch import nn

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(4, 8), torch.randn(4, 1)
"""


def findings(folder: Path, source: str, rule: str, torch: str = "2.4") -> list[Finding]:
    (folder / "program.py").write_text(source, encoding="utf-8")
    low = tuple(map(int, torch.split(".")))
    settings = Settings(root=folder, select=(rule,), torch=(low, None), torch_from="the tests")  # type: ignore[arg-type]
    return list(check([str(folder)], settings, jobs=1).findings)


def verdict(found: list[Finding]) -> str:
    """What is said of the first finding's fix: "safe", "unsafe: …" or "none: …"."""
    fix = found[0].fix
    if fix is None:
        return f"none: {found[0].fix_note}"
    return fix.applicability + (f": {fix.note}" if fix.note else "")


def after_backward(statements: str) -> str:
    lines = "".join(f"    {line}\n" for line in statements.splitlines())
    return (
        f'{_HEAD}with torch.autocast("cpu", dtype=torch.bfloat16):\n'
        f"    loss = nn.functional.mse_loss(model(x), y)\n    loss.backward()\n{lines}"
    )


@pytest.mark.parametrize(
    "statements",
    [
        "optimizer.step()\noptimizer.zero_grad()",
        "if loss.item() > 0:\n    optimizer.step()",
        "print(float(loss), loss.detach().mean().item())",
        "total = 0.5 * loss.detach() + 1",
        "model.train()",
        "grads = torch.cat([p.grad.view(-1) for p in model.parameters()])",
        "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "losses = []\nlosses.append(loss.item())",
        "torch.manual_seed(0)\nnoise = torch.randn(4, 8).uniform_(0, 1).requires_grad_(True)",
    ],
)
def test_what_follows_a_backward_pass_may_leave_with_it(tmp_path: Path, statements: str) -> None:
    assert verdict(findings(tmp_path, after_backward(statements), "backward-in-autocast")) == "safe"


@pytest.mark.parametrize(
    "statements",
    [
        "z = model(x)",
        "z = x @ x.t()",
        "z = x ** 2",
        "x @= y",
        "z = torch.softmax(x, 0)",
        "state = model.step(x)",
        "optimizer.step(lambda: model(x))",
    ],
)
def test_what_may_need_the_region_keeps_one(tmp_path: Path, statements: str) -> None:
    assert verdict(findings(tmp_path, after_backward(statements), "backward-in-autocast")).startswith(
        "unsafe"
    )


def test_a_backward_pass_in_two_regions_is_explained(tmp_path: Path) -> None:
    source = f"""{_HEAD}with torch.autocast("cpu", dtype=torch.bfloat16):
    print("outer")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        nn.functional.mse_loss(model(x), y).backward()
"""
    assert verdict(findings(tmp_path, source, "backward-in-autocast")).startswith(
        "none: another region is open"
    )


def test_a_context_used_after_the_region_is_a_doubt(tmp_path: Path) -> None:
    source = after_backward("print(region)").replace("bfloat16):", "bfloat16) as region:")
    assert "`region` is used" in verdict(findings(tmp_path, source, "backward-in-autocast"))


def test_backward_and_step_of_one_region_share_a_fix(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(after_backward("optimizer.step()"), encoding="utf-8")
    settings = Settings(
        root=tmp_path,
        select=("backward-in-autocast", "step-in-autocast"),
        torch=((2, 4), None),
        torch_from="the tests",
    )
    found = check([str(tmp_path)], settings, jobs=1).findings
    assert len(found) == 2
    assert found[0].fix is not None
    assert found[0].fix == found[1].fix


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("torch.cuda.amp.autocast(*flags)", "hides which arguments"),
        ("[torch.cuda.amp.autocast]", "handed on without a call"),
    ],
)
def test_deprecated_names_that_are_left_alone(tmp_path: Path, expression: str, reason: str) -> None:
    source = f"import torch\n\nflags = [False]\ncontext = {expression}\n"
    assert reason in verdict(findings(tmp_path, source, "deprecated-amp-api"))


def test_a_name_that_is_bound_twice_is_left_alone(tmp_path: Path) -> None:
    source = """import torch
from torch.cuda.amp import autocast

if not torch.cuda.is_available():
    autocast = torch.no_grad
with autocast():
    pass
"""
    assert "bound to something else" in verdict(findings(tmp_path, source, "deprecated-amp-api"))


def test_a_project_with_an_old_torch_is_told_so(tmp_path: Path) -> None:
    source = "import torch\n\nscaler = torch.cuda.amp.GradScaler(enabled=False)\n"
    assert verdict(findings(tmp_path, source, "deprecated-amp-api", "2.3")) == "safe"
    assert verdict(findings(tmp_path, source, "deprecated-amp-api", "2.2")).startswith(
        "none: the project admits torch 2.2"
    )


def test_a_project_that_does_not_say_which_torch_it_wants_gets_what_warns(tmp_path: Path) -> None:
    """The old names warn since 2.4, which has all the new ones."""
    (tmp_path / "program.py").write_text(
        "import torch\n\nscaler = torch.cuda.amp.GradScaler()\nf = torch.cuda.amp.custom_fwd(print)\n"
    )
    settings = Settings(root=tmp_path, select=("deprecated-amp-api",), torch_from="the default")
    found = list(check([str(tmp_path)], settings, jobs=1).findings)
    assert [verdict([finding]) for finding in found] == ["safe", "safe"]


@pytest.mark.parametrize(
    ("name", "lowest"),
    [("autocast", "1.12"), ("GradScaler", "2.3"), ("custom_fwd", "2.4"), ("custom_bwd", "2.4")],
)
def test_a_new_name_is_written_for_the_releases_that_have_it(tmp_path: Path, name: str, lowest: str) -> None:
    """The wheels of 1.10 and 1.11 have no package torch.amp."""
    major, minor = map(int, lowest.split("."))
    source = f"import torch\n\nthing = torch.cuda.amp.{name}(print)\n"
    settings = Settings(
        root=tmp_path,
        select=("deprecated-amp-api",),
        torch=((major, minor), None),
        torch_from="the tests",
    )
    (tmp_path / "program.py").write_text(source)
    assert verdict(list(check([str(tmp_path)], settings, jobs=1).findings)) == "safe"
    settings = replace(settings, torch=((major, minor - 1), None))
    assert verdict(list(check([str(tmp_path)], settings, jobs=1).findings)).startswith(
        f"none: the project admits torch {major}.{minor - 1}"
    )


@pytest.mark.parametrize(
    ("around", "call"),
    [
        ("def f():\n    with autocast():\n        pass\n", 'autocast("cuda", dtype=torch.float16)'),
        ("with autocast():\n    pass\n", 'autocast("cuda")'),
        (
            "def f():\n    with autocast(enabled=False):\n        pass\n",
            'autocast("cuda", enabled=False)',
        ),
        (
            'with torch.autocast("cuda"):\n    with autocast():\n        pass\n',
            'autocast("cuda", dtype=torch.float16)',
        ),
        (
            "@torch.no_grad()\ndef f():\n    with autocast():\n        pass\nf()\n",
            'autocast("cuda")',
        ),
        (
            "@compiled.no_grad\ndef f():\n    with autocast():\n        pass\nf()\n",
            'autocast("cuda", dtype=torch.float16)',
        ),
        (
            "with profiler.no_grad():\n    with autocast():\n        pass\n",
            'autocast("cuda", dtype=torch.float16)',
        ),
        ('with open("log"):\n    with autocast():\n        pass\n', 'autocast("cuda")'),
        (
            'from ours import open\nwith open("log"):\n    with autocast():\n        pass\n',
            'autocast("cuda", dtype=torch.float16)',
        ),
    ],
    ids=[
        "library",
        "program",
        "switched off",
        "nested",
        "torch's no_grad",
        "another no_grad",
        "another context",
        "open",
        "another open",
    ],
)
def test_the_type_is_kept_where_a_region_around_may_change_it(tmp_path: Path, around: str, call: str) -> None:
    source = f"import torch\nfrom torch.cuda.amp import autocast\n\n{around}"
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    texts, left, problems = fix_folder(tmp_path, "deprecated-amp-api", unsafe=False)
    assert (left, problems) == ([], [])
    assert texts["program.py"] == source.replace("torch.cuda.amp import", "torch.amp import").replace(
        around, around.replace("autocast()", call).replace("autocast(enabled=False)", call)
    )


def test_imports_go_where_they_belong(tmp_path: Path) -> None:
    source = '''"""What it does."""

from __future__ import annotations

import os

# training
from torch.cuda.amp import (
    GradScaler,  # scales
    autocast,
)

print(os.name)
scaler = GradScaler(enabled=False)
with autocast(False):
    pass
'''
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    texts, left, problems = fix_folder(tmp_path, "deprecated-amp-api", unsafe=False)
    assert (left, problems) == ([], [])
    fixed = texts["program.py"]
    assert "import os\n\n# training\nfrom torch.amp import (\n    GradScaler,  # scales\n" in fixed
    assert '\nwith autocast("cuda", enabled=False)' in fixed


def test_half_inputs_keep_a_half_model(tmp_path: Path) -> None:
    source = f"""{_HEAD}critic = nn.Linear(8, 1).half()
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
loss = critic(x.half()).float().sum()
loss.backward()
optimizer.step()
"""
    assert "makes another value half" in verdict(findings(tmp_path, source, "half-model"))


_OUTPUTS = """import torch
import torch.nn.functional as F


def train(model, x, y):
    model.train()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        {output} = model(x)
    {use}
"""


@pytest.mark.parametrize(
    ("use", "fixed"),
    [
        ("F.cross_entropy(out, y)", "F.cross_entropy(out.float(), y)"),
        ("F.cross_entropy(target=y, input=out)", "F.cross_entropy(target=y, input=out.float())"),
    ],
)
def test_an_output_is_cast_where_a_loss_takes_it(tmp_path: Path, use: str, fixed: str) -> None:
    source = _OUTPUTS.format(output="out", use=use)
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    texts, left, problems = fix_folder(tmp_path, "missing-float", unsafe=False)
    assert (left, problems) == ([], [])
    assert texts["program.py"] == source.replace(use, fixed)


@pytest.mark.parametrize(
    ("output", "use"),
    [
        ("out", 'F.mse_loss(out["x"], out["y"])'),
        ("a, b", "F.cross_entropy(a, y) + F.cross_entropy(b, y)"),
        ("out", "sum(F.cross_entropy(part, y) for part in out.values())"),
        ("out", "F.cross_entropy(out.logits, y) + F.cross_entropy(out.aux[0], y)"),
    ],
)
def test_nothing_is_said_of_parts_of_an_output_out_of_sight(tmp_path: Path, output: str, use: str) -> None:
    """Only the whole output is likely to come from the last layer of a model."""
    source = _OUTPUTS.format(output=output, use=use)
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    texts, left, problems = fix_folder(tmp_path, "missing-float", unsafe=False)
    assert (left, problems) == ([], [])
    assert texts["program.py"] == source


def test_elements_that_a_star_hands_over_are_explained(tmp_path: Path) -> None:
    source = f"""{_HEAD}with torch.autocast("cuda", dtype=torch.float16):
    pair = model(x), model(x)
nn.functional.mse_loss(*pair)
"""
    assert verdict(findings(tmp_path, source, "missing-float")) == (
        "none: the values in `pair` would have to be cast one by one"
    )


def test_nothing_is_said_of_parts_of_an_output_for_numpy(tmp_path: Path) -> None:
    source = _OUTPUTS.format(output="out", use='return out["labels"].numpy()')
    assert findings(tmp_path, source, "bfloat16-to-numpy") == []


_ACCUMULATION = """scaler = torch.amp.GradScaler("cpu")
max_norm = 1.0
for i in range(4):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
"""
_GUARDED_STEP = "if i % 2:\n    scaler.step(optimizer)\n    scaler.update()\n    optimizer.zero_grad()"
_CLIP = "nn.utils.clip_grad_norm_(model.parameters(), max_norm)"


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (f"scaler.unscale_(optimizer)\n{_CLIP}\n{_GUARDED_STEP}", "unsafe: it runs once for each step then"),
        (
            f"if max_norm:\n    scaler.unscale_(optimizer)\n    {_CLIP}\n{_GUARDED_STEP}",
            "unsafe: it runs once",
        ),
        (f"scaler.unscale_(optimizer)\nnorm = {_CLIP}\nprint(norm)\n{_GUARDED_STEP}", "none: `norm` is used"),
        (
            f"scaler.unscale_(optimizer)\n{_CLIP}\nmax_norm = 2.0\n{_GUARDED_STEP}",
            "none: `max_norm` changes before the step",
        ),
        (
            f"scaler.unscale_(optimizer)\nprint(model.weight.grad.norm())\n{_GUARDED_STEP}",
            "none: the gradients are read on line 14, before the step",
        ),
        (
            f"if i < 9:\n    scaler.unscale_(optimizer)\n    print(i)\n{_GUARDED_STEP}",
            "none: `unscale_` stands under another condition than the step",
        ),
        (
            "scaler.step(optimizer)\nscaler.unscale_(optimizer)\nscaler.update()",
            "unsafe: what is done to the gradients after the step",
        ),
        (
            f"scaler.step(optimizer)\nscaler.unscale_(optimizer)\n{_CLIP}\nscaler.update()",
            "none: the clip on line 15 comes after the step, too",
        ),
    ],
)
def test_a_misplaced_unscale_moves_where_nothing_is_in_the_way(tmp_path: Path, rest: str, said: str) -> None:
    lines = "".join(f"    {line}\n" for line in rest.splitlines())
    found = findings(tmp_path, _HEAD + _ACCUMULATION + lines, "unscale-misplaced")
    assert verdict(found).startswith(said)


_SHARDED = """import torch
from torch.amp import GradScaler
from torch.distributed.fsdp import FullyShardedDataParallel

options = {{}}
model = FullyShardedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = {scaler}
{more}
scaler.scale(model(torch.ones(1, 8)).sum()).backward()
scaler.step(optimizer)
scaler.update()
"""


@pytest.mark.parametrize(
    ("scaler", "more", "said"),
    [
        ('GradScaler("cuda")', "", "unsafe: it wants `process_group`"),
        ('GradScaler("cuda", **options)', "", "none: a star hides"),
        ('GradScaler("cuda")', "class ShardedGradScaler: ...", "none: `ShardedGradScaler` is the name of"),
    ],
)
def test_a_plain_scaler_becomes_a_sharded_one(tmp_path: Path, scaler: str, more: str, said: str) -> None:
    found = findings(tmp_path, _SHARDED.format(scaler=scaler, more=more), "sharded-needs-sharded-scaler")
    assert verdict(found).startswith(said)


def test_a_word_that_looks_misspelt_stays(tmp_path: Path) -> None:
    found = findings(tmp_path, "x = 1  # amplint: ignore[half-modle]\n", "unused-suppression")
    assert verdict(found) == "none: the name may be misspelt"
    found = findings(tmp_path, "x = 1  # amplint: ignore[qqqqqqqqqq]\n", "unused-suppression")
    assert verdict(found) == "safe"


_HELPER = """import torch
from torch import nn

model = nn.Linear(8, 8)


def norm(t):
    return nn.functional.normalize(t, dim=-1)


with torch.autocast("cpu", dtype=torch.bfloat16):
    out = model(torch.randn(4, 8))
    with torch.autocast("cpu", enabled=False):
        out = norm(out)
"""


def test_a_cast_in_a_helper_is_safe_where_only_the_region_calls_it(tmp_path: Path) -> None:
    assert verdict(findings(tmp_path, _HELPER, "disabled-region-without-cast")) == "safe"


def test_a_cast_in_a_helper_that_others_call_or_import_is_unsafe(tmp_path: Path) -> None:
    expected = "unsafe: every caller of `norm` gets the value in float32 then, outside the region too"
    again = _HELPER + "print(norm(torch.randn(4, 8, dtype=torch.bfloat16)).dtype)\n"
    assert verdict(findings(tmp_path, again, "disabled-region-without-cast")) == expected
    (tmp_path / "other.py").write_text("import torch.amp\nfrom program import norm\n", encoding="utf-8")
    found = [
        finding
        for finding in findings(tmp_path, _HELPER, "disabled-region-without-cast")
        if finding.path.endswith("program.py")
    ]
    assert verdict(found) == expected


def test_a_cast_in_the_function_that_switches_autocast_off_is_safe(tmp_path: Path) -> None:
    decorated = _HELPER.replace("def norm", '@torch.autocast("cpu", enabled=False)\ndef norm').replace(
        '    with torch.autocast("cpu", enabled=False):\n        out = norm(out)\n', "    out = norm(out)\n"
    )
    again = decorated + "print(norm(torch.randn(4, 8, dtype=torch.bfloat16)).dtype)\n"
    assert verdict(findings(tmp_path, again, "disabled-region-without-cast")) == "safe"


@pytest.mark.parametrize(
    "other",
    [
        "def scaler_of(state) -> torch.cuda.amp.GradScaler:\n    return state.scaler\n",
        "print(isinstance(scaler, torch.cuda.amp.GradScaler))\n",
    ],
)
def test_a_scaler_is_not_changed_unseen_where_its_old_class_is_asked_for(tmp_path: Path, other: str) -> None:
    source = "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"
    assert verdict(findings(tmp_path, source, "deprecated-amp-api")) == "safe"
    told = "unsafe: line 4 names the old class, and the new one is no subclass of it"
    assert verdict(findings(tmp_path, source + other, "deprecated-amp-api")) == told


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ('device != "mps" and torch.is_autocast_enabled(device)', ""),
        ("model(x).isnan().any()", "    if model(x).isnan().any():\n        pass\n"),
    ],
)
def test_casts_that_are_all_of_a_branch_go_one_after_the_other(
    tmp_path: Path, condition: str, left: str
) -> None:
    source = f"""{_HEAD}device = x.device.type
with torch.autocast(device, dtype=torch.bfloat16):
    if {condition}:
        x = x.bfloat16()
        y = y.bfloat16()
    print(nn.functional.linear(x, model.weight), nn.functional.linear(y.t(), model.weight[:, :4]))
"""
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    texts, found, problems = fix_folder(tmp_path, "half-input", unsafe=True)
    assert (found, problems) == ([], [])
    branch = f"    if {condition}:\n        x = x.bfloat16()\n        y = y.bfloat16()\n"
    assert texts["program.py"] == source.replace(branch, left)


_STACK = f"""from contextlib import ExitStack

{_HEAD}region = torch.autocast("cpu", dtype=torch.bfloat16)
with ExitStack() as stack:
    HELD
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
"""


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ("stack.enter_context(region)", "safe"),
        (
            "stack.enter_context(region)\n    stack.callback(print)",
            "none: `stack` holds the region open until",
        ),
        ("if x.any():\n        stack.enter_context(region)", "none: `stack` holds the region open until"),
        ("entered = stack.enter_context(region)", "none: `stack` holds the region open until"),
        ("other = ExitStack()\n    other.enter_context(region)", "none: `other` holds the region open until"),
        ("region.__enter__()", "none: `region.__enter__()` opens the region by hand"),
    ],
)
def test_a_region_on_a_stack_becomes_a_block_where_nothing_else_is_on_top(
    tmp_path: Path, held: str, said: str
) -> None:
    assert verdict(findings(tmp_path, _STACK.replace("HELD", held), "backward-in-autocast")).startswith(said)


def test_a_comment_that_a_region_leaves_behind_is_told(tmp_path: Path) -> None:
    step = """import torch


def step(model, optimizer, x, y):
    loss = (model(x) - y).square().mean()
    loss.backward()
"""
    (tmp_path / "steps.py").write_text(step, encoding="utf-8")
    source = f"""{_HEAD}from steps import step

with torch.autocast("cpu", dtype=torch.bfloat16):  # half the memory
    step(model, optimizer, x, y)
"""
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    told = "`# half the memory` stays where the region was"
    assert told in verdict(findings(tmp_path, source, "backward-in-autocast"))
    above = source.replace(":  # half the memory", ":").replace("with torch", "# half the memory\nwith torch")
    told = "the comment above the region stays where it was"
    assert told in verdict(findings(tmp_path, above, "backward-in-autocast"))
    texts, left, problems = fix_folder(tmp_path, "backward-in-autocast", unsafe=True)
    assert (left, problems) == ([], [])
    forward = '    with torch.autocast("cpu", dtype=torch.bfloat16):\n        loss = '
    assert texts["steps.py"] == step.replace("    loss = ", forward)


_LOSSES = 'LOSSES = {"bce": nn.BCELoss, "ce": nn.CrossEntropyLoss}\n'


@pytest.mark.parametrize(
    ("made", "safe"),
    [
        ("loss_of = nn.BCELoss()", True),
        ("loss_of = nn.functional.binary_cross_entropy", False),
        ("loss_of = nn.BCELoss()\nif len(x) > 9:\n    loss_of = nn.CrossEntropyLoss()", False),
        (f"{_LOSSES}loss_of = LOSSES[input()]()", False),
    ],
)
def test_a_loss_that_may_be_another_one_is_not_cast_blindly(tmp_path: Path, made: str, safe: bool) -> None:
    source = (
        f'{_HEAD}{made}\nwith torch.autocast("cuda"):\n    p = model(x).sigmoid()\n    loss = loss_of(p, y)\n'
    )
    said = verdict(findings(tmp_path, source, "bce-in-autocast"))
    assert said == (
        "safe" if safe else "unsafe: `loss_of` may be another loss, too; a half target has to be float32"
    )
    texts, _, _ = fix_folder(tmp_path, "bce-in-autocast", unsafe=True)
    assert f"loss_of(p.float(), {'y.float()' if safe else 'y'})" in texts["program.py"]


def test_a_loss_that_an_object_sets_once_is_known(tmp_path: Path) -> None:
    source = """import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model
        self.loss = nn.BCELoss()
{more}
    def step(self, x, y):
        with torch.autocast("cuda"):
            p = self.model(x).sigmoid()
            return self.loss(p, y)


Trainer(nn.Linear(8, 1)).step(torch.ones(1, 8), torch.ones(1, 1))
"""
    assert verdict(findings(tmp_path, source.format(more=""), "bce-in-autocast")) == "safe"
    other = "    def use(self, loss):\n        self.loss = loss\n"
    assert verdict(findings(tmp_path, source.format(more=other), "bce-in-autocast")).startswith("unsafe")


@pytest.mark.parametrize(
    ("before", "written"),
    [
        ("", "device.type"),
        ("for device in []:\n    pass", "torch.device(device).type"),
        (
            "def other():\n    global device\n    match x:\n        case [device]:\n            pass",
            "torch.device(device).type",
        ),
        ("def other(device):\n    return device", "device.type"),
        ("def other():\n    device = 'cuda'\n    return device", "device.type"),
        ("def other():\n    global device\n    device = 'cuda'", "torch.device(device).type"),
        ("device, y = x.device, y", "torch.device(device).type"),
    ],
)
def test_a_device_is_known_by_all_that_its_name_is_bound_to(
    tmp_path: Path, before: str, written: str
) -> None:
    source = f'{_HEAD}device = torch.device("cpu")\n{before}\nwith torch.autocast(device):\n    model(x)\n'
    (fix,) = (finding.fix for finding in findings(tmp_path, source, "autocast-wrong-device"))
    assert fix is not None
    assert (fix.applicability, fix.title) == ("safe", f"Write `{written}`")


def test_the_import_of_a_scaler_that_others_use_stays(tmp_path: Path) -> None:
    source = _SHARDED.format(scaler='GradScaler("cuda")', more="")
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    assert "from torch.amp import" not in fix_folder(tmp_path, _SHARDED_RULE, unsafe=True)[0]["program.py"]
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    (tmp_path / "other.py").write_text("import program\n\nprogram.GradScaler()\n", encoding="utf-8")
    assert "from torch.amp import" in fix_folder(tmp_path, _SHARDED_RULE, unsafe=True)[0]["program.py"]


_SHARDED_RULE = "sharded-needs-sharded-scaler"


@pytest.mark.parametrize("between", ["step", "other"])
def test_a_region_does_not_go_into_a_function_that_calls_itself(tmp_path: Path, between: str) -> None:
    source = f"""\
        import torch

        def other(model, x, depth):
            step(model, x, depth)

        def step(model, x, depth):
            loss = model(x).sum()
            if depth:
                {between}(model, x, depth - 1)
            loss.backward()

        def train(model, x):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                step(model, x, 3)
        """
    found = findings(tmp_path, dedent(source), "backward-in-autocast")
    assert verdict(found) == "none: `step` calls itself in the region"


def test_a_list_of_casts_becomes_a_list(tmp_path: Path) -> None:
    source = f"""{_HEAD}batch = [x.half() for x in (x, y)]
with torch.autocast("cuda", dtype=torch.float16):
    model(batch[0])
"""
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    texts, _, _ = fix_folder(tmp_path, "half-input", unsafe=True)
    assert "batch = list((x, y))\n" in texts["program.py"]


ONE_PATH = """
import torch


def train(model, optimizer, scaler, batches, args):
    for x, y in batches:
        with torch.autocast("cuda"):
            loss = model(x, y)
        if args.skip:
            print(loss.item())
        else:
            {backward}
        scaler.step(optimizer)
        scaler.update()


def main(model, batches, args):
    train(model, torch.optim.SGD(model.parameters()), torch.amp.GradScaler("cuda"), batches, args)
"""


def test_a_loss_is_not_scaled_twice(tmp_path: Path) -> None:
    """The path without a backward pass has no fix."""
    source = ONE_PATH.format(backward="scaler.scale(loss).backward()")
    (found,) = findings(tmp_path, source, "unscaled-backward")
    assert found.fix is None and found.fix_note == "a loss is scaled on another path"
