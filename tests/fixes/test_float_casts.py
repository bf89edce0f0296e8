"""When a cast to float32 is safe: all that comes to its place on some path counts, and what the result meets."""

from __future__ import annotations

from pathlib import Path

import pytest
from goldens import fix_folder

from amplint.check import check
from amplint.config import Settings

_HEAD = """import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(8, 4).cuda()
x, t = torch.randn(3, 8).cuda(), torch.randn(3, 4).cuda()
y = torch.tensor([0, 1, 2]).cuda()
"""
_REGION = '    with torch.autocast("cuda", dtype=torch.{dtype}):\n        a = model(x)\n'


def said(folder: Path, source: str, rule: str) -> list[str]:
    """What is said of the fix of each finding."""
    (folder / "program.py").write_text(source, encoding="utf-8")
    settings = Settings(root=folder, select=(rule,), torch=((2, 4), None), torch_from="the tests")
    found = check([str(folder)], settings, jobs=1).findings
    fixes = [finding.fix for finding in found]
    assert all(fix is not None for fix in fixes)
    return [f"{fix.applicability}: {fix.note}" for fix in fixes if fix is not None]


def program(body: str, dtype: str = "float16") -> str:
    """A function of a flag that computes in a region and goes on after it, called with both values."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{_HEAD}\n\ndef run(flag):\n{_REGION.format(dtype=dtype)}{lines}\n\nrun(True)\nrun(False)\n"


@pytest.mark.parametrize(
    ("value", "use", "rule", "odd"),
    [
        ("a > 0", "m.sum()", "missing-float", "a tensor of integers or booleans"),
        ("a.argmax(1)", "m.exp()", "missing-float", "a tensor of integers or booleans"),
        ("t.double()", "F.cross_entropy(m, y)", "missing-float", "float64"),
        ("t.double()", "torch.softmax(m, -1).log()", "missing-float", "float64"),
        ("(a, a)", "F.cross_entropy(m, y)", "missing-float", "a tuple or list"),
        ("None", "F.cross_entropy(m, y)", "missing-float", "None"),
        ("0.0", "m.sum() + 1", "missing-float", "a number"),
        ("t.double()", "m.softmax(-1).log()", "missing-float", "float64"),
        ("1.0", "buffer = torch.zeros(3, 4).cuda()\nbuffer[y] = m", "missing-float", "a number"),
        ("a > 0", "a.new_zeros(1) + (m + 1e-8).sum()", "missing-float", "a tensor of integers or booleans"),
        ("t.double()", "s = 0.0\nfor _ in range(3):\n    s += m", "missing-float", "float64"),
        ("t.double()", "s = 0.0\nfor _ in range(3):\n    s += m.mean()", "missing-float", "float64"),
        ("a > 0", "(1e-8 + m).sum()", "missing-float", "a tensor of integers or booleans"),
        ("a > 0", "m.cpu().numpy()", "bfloat16-to-numpy", "a tensor of integers or booleans"),
    ],
)
def test_another_kind_of_value_on_another_path_is_a_doubt(
    tmp_path: Path, value: str, use: str, rule: str, odd: str
) -> None:
    dtype = "bfloat16" if rule == "bfloat16-to-numpy" else "float16"
    told = f"unsafe: on another path the value is {odd}"
    assert said(tmp_path, program(f"m = a if flag else {value}\n{use}", dtype), rule) == [told]


@pytest.mark.parametrize(
    ("value", "use"),
    [
        ("None", "F.cross_entropy(m, y) if m is not None else 0"),
        ("None", "if m is not None:\n    m.exp()"),
        ("a > 0", "if flag:\n    m.exp()"),
        ("(a, a)", "if flag:\n    torch.softmax(m, -1).log()"),
        ("None", "model.kept = m\nif model.kept is not None:\n    model.kept.exp()"),
        ("t", "F.cross_entropy(m, y)"),
    ],
)
def test_a_path_that_does_not_come_there_is_none(tmp_path: Path, value: str, use: str) -> None:
    assert said(tmp_path, program(f"m = a if flag else {value}\n{use}"), "missing-float") == ["safe: "]


@pytest.mark.parametrize(
    ("call", "odd"),
    [
        ("total(y)", "a tensor of integers or booleans"),
        ("total(t.double())", "float64"),
        ("total(None)", "None"),
    ],
)
def test_what_another_caller_hands_over_counts(tmp_path: Path, call: str, odd: str) -> None:
    helper = "\n\ndef total(v):\n    return v.sum()\n"
    source = program("total(a)").replace("\n\ndef run", f"{helper}\n\ndef run")
    assert said(tmp_path, source, "missing-float") == ["safe: "]
    assert said(tmp_path, f"{source}{call}\n", "missing-float") == [
        f"unsafe: on another path the value is {odd}"
    ]


def test_a_disabled_region_counts_all_paths(tmp_path: Path) -> None:
    nested = (
        '    m = a if flag else {}\n    with torch.autocast("cuda", enabled=False):\n'
        "        torch.softmax(m, -1).log()"
    )
    for value, verdict in (("t", "safe: "), ("t.double()", "unsafe: on another path the value is float64")):
        source = program(nested.format(value))
        assert said(tmp_path, source, "disabled-region-without-cast") == [verdict]


def test_a_value_that_several_ops_take_is_cast_for_each(tmp_path: Path) -> None:
    source = program("F.cross_entropy(a, y)\nF.cross_entropy(a, y, reduction='sum')\na.exp()")
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    texts, left, problems = fix_folder(tmp_path, "missing-float", unsafe=False)
    assert (left, problems) == ([], [])
    assert texts["program.py"].count("(a.float(), y") == 2
    assert "    a.float().exp()\n" in texts["program.py"]


def test_a_result_that_may_be_wanted_in_half_is_a_doubt(tmp_path: Path) -> None:
    source = program("p = a.exp()\nhalf(p)").replace(
        "\n\ndef run", "half = nn.Linear(4, 4).cuda().half()\n\n\ndef run"
    )
    (verdict,) = said(tmp_path, source, "missing-float")
    assert verdict.startswith("unsafe: `nn.Linear(4, 4).cuda().half()` on line 8 makes something half")


@pytest.mark.parametrize(
    ("target", "loss"),
    [
        ("a.sigmoid()", "binary_cross_entropy_with_logits(a.float(), target.float())"),
        ("t.sigmoid()", ""),
    ],
)
def test_logits_and_a_half_target_are_cast_together(tmp_path: Path, target: str, loss: str) -> None:
    """With torch 2.13 the loss is in the type of its target: a cast of the logits alone would change nothing."""
    source = program(f"target = {target}\nF.binary_cross_entropy_with_logits(a, target)")
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    texts, left, problems = fix_folder(tmp_path, "missing-float", unsafe=False)
    assert (left, problems) == ([], [])
    assert loss in texts["program.py"] if loss else texts["program.py"] == source


def test_the_loss_is_in_the_type_of_its_target() -> None:
    torch = pytest.importorskip("torch")
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    half = torch.rand(4, dtype=torch.float16)
    assert loss(half.float(), half).dtype == torch.float16
    assert loss(half, half.float()).dtype == torch.float32


def test_a_call_is_broken_where_a_cast_makes_its_line_too_long(tmp_path: Path) -> None:
    call = "F.cross_entropy({}, labels, weight=class_weight, ignore_index=ignore_index)"
    head = (
        "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
        "def train(x, labels, class_weight, ignore_index):\n"
        '    with torch.autocast("cuda", dtype=torch.float16):\n        pred = nn.Linear(8, 8)(x)\n    loss = '
    )
    source = head + call.format("pred") + "\n    loss.backward()\n"
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    texts, _, problems = fix_folder(tmp_path, "missing-float", unsafe=False, line_length=88)
    broken = call.format("pred.float()").replace("(pred", "(\n        pred").removesuffix(")") + "\n    )"
    assert (texts["program.py"], problems) == (head + broken + "\n    loss.backward()\n", [])
