"""Two processes that torch.multiprocessing spawns, one model each."""

import torch
import torch.multiprocessing as mp
from torch import nn


def work(rank):
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(4):
        x, y = torch.randn(16, 8, device="cuda"), torch.randn(16, 1, device="cuda")
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
