"""Lightning Fabric's own precision plugin and scaler in a plain loop."""

import torch
from lightning.fabric import Fabric
from torch import nn

torch.manual_seed(0)
fabric = Fabric(accelerator="cuda", devices=1, precision="16-mixed")
fabric.launch()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
model, optimizer = fabric.setup(model, optimizer)
for _ in range(6):
    x = torch.rand(4, 8, device=fabric.device)
    loss = nn.functional.mse_loss(model(x), x.mean(1, keepdim=True))
    optimizer.zero_grad()
    fabric.backward(loss)
    fabric.clip_gradients(model, optimizer, max_norm=1.0, error_if_nonfinite=False)
    optimizer.step()
print(float(loss))
