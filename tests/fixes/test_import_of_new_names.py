"""An import of deprecated names gives way to one of the new names with all uses, wherever these stand."""

from __future__ import annotations

from pathlib import Path

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
