"""An import of deprecated names gives way to one of the new names with all uses, wherever these stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from goldens import fix_folder

SOURCE = """import torch
from torch.cuda.amp import custom_bwd, custom_fwd


class Doubled(torch.autograd.Function):
    @staticmethod
    @custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, x):
        return 2 * x


class Exp(torch.autograd.Function):
    @staticmethod
    @custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.exp(x)

    @staticmethod
    @custom_bwd
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * torch.exp(x)
"""


def test_decorators_of_several_functions(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SOURCE, encoding="utf-8")
    texts, _, problems = fix_folder(tmp_path, "deprecated-amp-api", unsafe=False)
    assert problems == []
    assert "torch.cuda.amp" not in texts["program.py"]
    assert "from torch.amp import custom_bwd, custom_fwd\n" in texts["program.py"]
    assert texts["program.py"].count('(device_type="cuda"') == 3


_USE = "\n\ndef scaled():\n    return GradScaler()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.autograd torch.cuda.amp", "torch.amp torch.autograd"),
        (
            "numpy torch.autograd torch.cuda torch.cuda.amp torch.nn",
            "numpy torch.amp torch.autograd torch.cuda torch.nn",
        ),
        ("torch.autograd . torch.cuda.amp", "torch.autograd . torch.amp"),
        ("torch.optim torch.autograd torch.cuda.amp", "torch.optim torch.autograd torch.amp"),
        ("torch.autograd # torch.cuda.amp", "torch.autograd # torch.amp"),
        ("# torch.autograd torch.cuda.amp", "# torch.autograd torch.amp"),
        ("os torch torch.cuda.amp", "os torch torch.amp"),
    ],
)
def test_sorted_imports_stay_sorted(tmp_path: Path, before: str, after: str) -> None:
    """A dot stands for an empty line, # for a comment."""

    def source(modules: str) -> str:
        lines = {".": "", "#": "# a comment"}
        names = {"torch.cuda.amp": "GradScaler", "torch.amp": "GradScaler"}
        return "\n".join(
            lines.get(module, f"from {module} import {names.get(module, 'something')}")
            for module in modules.split()
        )

    (tmp_path / "program.py").write_text(f"import json\n\n{source(before)}\n{_USE}", encoding="utf-8")
    texts, _, problems = fix_folder(tmp_path, "deprecated-amp-api", unsafe=False)
    assert problems == []
    use = _USE.replace("GradScaler()", 'GradScaler("cuda")')
    assert texts["program.py"] == f"import json\n\n{source(after)}\n{use}"
