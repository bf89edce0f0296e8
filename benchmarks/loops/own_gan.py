"""Two models, two optimizers and one scaler."""

import torch
from torch import nn

torch.manual_seed(0)
device = "cuda"
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)).to(device)
critic = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)).to(device)
optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-4)
optimizer_d = torch.optim.Adam(critic.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler(device)
judge = nn.BCEWithLogitsLoss()
for _ in range(4):
    real, noise = torch.randn(16, 8, device=device), torch.randn(16, 4, device=device)
    ones, zeros = torch.ones(16, 1, device=device), torch.zeros(16, 1, device=device)
    optimizer_d.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        fake = generator(noise)
        loss_d = judge(critic(real), ones) + judge(critic(fake.detach()), zeros)
    scaler.scale(loss_d).backward()
    scaler.step(optimizer_d)
    optimizer_g.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        loss_g = judge(critic(fake), ones)
    scaler.scale(loss_g).backward()
    scaler.step(optimizer_g)
    scaler.update()
