"""A compiled model, and a compiled loss."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).cuda()
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda")


@torch.compile
def loss_of(x, y):
    return nn.functional.mse_loss(compiled(x).float(), y)


for _ in range(4):
    x, y = torch.randn(16, 8, device="cuda"), torch.randn(16, 1, device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = loss_of(x, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
