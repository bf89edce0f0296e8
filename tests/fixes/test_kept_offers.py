"""Programs whose fixes once were taken back, or written so that a reviewer would have asked for another wording."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.check import Stdin
from amplint.config import Settings
from amplint.fixing import fix
from amplint.scope import text_alone

HERE = Settings(root=Path.cwd(), select=("ALL",), torch=((2, 4), None), torch_from="the tests")

TRAINING = """import torch
from torch import nn

model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
scaler = torch.amp.GradScaler("cuda")

for x in torch.randn(100, 4, 8, device="cuda"):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x).square().mean()
    scaler.scale(loss).backward()
    optimizer.step()
    scaler.update()
    scheduler.step()
"""

TWICE = """import torch

def f(x, y):
    with torch.autocast("cuda", dtype=torch.float16):
        h = torch.mm(x, y)
    a = torch.linalg.inv(h)
    return a, torch.linalg.inv(h) + torch.linalg.inv(h)
"""

BY_INDEX = """import torch

def f(x, y, i):
    with torch.autocast("cuda", dtype=torch.float16):
        h = torch.mm(x, y)
        inside = torch.zeros(10, 8, device="cuda")
        inside.index_add_(0, i, h, alpha=2)
        inside.index_copy_(0, i, source=h)
    z = torch.zeros(10, 8, device="cuda")
    z.index_add_(0, i, h)
    z.index_copy_(0, index=i, source=h)
    return torch.index_add(z, 0, i, h)
"""

REPLICAS = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        # first
        with torch.autocast("cuda", dtype=torch.bfloat16):  # half
            x = self.linear(x)
        return self.linear(x)


net = nn.DataParallel(Net().to("cuda"))
with torch.autocast("cuda", dtype=torch.bfloat16):
    net(torch.randn(4, 8, device="cuda"))
"""

NEIGHBOURS = """import torch

def train(model, loader, criterion, optimizer, scaler):
    with torch.autocast("cuda", dtype=torch.float16):
        for x, y in loader:
            out = model(x)
            # of the batch
            scaler.scale(criterion(out, y)).backward()
            scaler.step(optimizer)
            scaler.update()
"""

EXAMPLES = {
    "a scheduler beside a direct step": (
        TRAINING,
        {
            "    optimizer.step()\n": "    scaler.step(optimizer)\n    scale_before_update = scaler.get_scale()\n",
            "    scheduler.step()": "    if scaler.get_scale() >= scale_before_update:\n        scheduler.step()",
        },
    ),
    "a half value used again, on the same line too": (TWICE, {"inv(h)": "inv(h.float())"}),
    "written by index": (
        BY_INDEX,
        {
            "inside.index_add_(0, i, h,": "inside.index_add_(0, i, h.to(inside.dtype),",
            "inside.index_copy_(0, i, source=h)": "inside.index_copy_(0, i, source=h.to(inside.dtype))",
            "z.index_add_(0, i, h)": "z.index_add_(0, i, h.float())",
            "z.index_copy_(0, index=i, source=h)": "z.index_copy_(0, index=i, source=h.float())",
            "torch.index_add(z, 0, i, h)": "torch.index_add(z, 0, i, h.float())",
        },
    ),
    "replicas whose forward opens the region in part": (
        REPLICAS,
        {
            """        # first
        with torch.autocast("cuda", dtype=torch.bfloat16):  # half
            x = self.linear(x)
        return self.linear(x)
""": """        # first
        # half
        with torch.autocast("cuda", dtype=torch.bfloat16):
            x = self.linear(x)
            return self.linear(x)
"""
        },
    ),
    "one region for forward and loss": (
        NEIGHBOURS,
        {
            NEIGHBOURS.partition("scaler):\n")[2]: """    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            out = model(x)
            # of the batch
            loss = criterion(out, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
        },
    ),
}


@pytest.mark.parametrize(("before", "exchanged"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_the_fixes_are_made_and_stay(before: str, exchanged: dict[str, str]) -> None:
    after = before
    for old, new in exchanged.items():
        assert old in after
        after = after.replace(old, new)
    view = text_alone(Path("program.py"), HERE)
    fixing = fix([view], unsafe=True, stdin=Stdin(Path("program.py"), before.encode()))
    assert (fixing.unmade, fixing.result.crashes) == ((), ())
    assert fixing.source is not None
    assert fixing.source.decode() == after
