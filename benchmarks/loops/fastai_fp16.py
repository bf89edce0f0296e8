"""fastai's Learner.to_fp16() on a random table of numbers."""

import fastai.callback.fp16  # noqa: F401
import torch
from fastai.basics import DataLoader, DataLoaders, Learner
from torch import nn

torch.manual_seed(0)
rows = [(torch.rand(8), torch.rand(1)) for _ in range(64)]
loaders = DataLoaders(DataLoader(rows, bs=8), DataLoader(rows, bs=8))
if torch.cuda.is_available():
    loaders = loaders.cuda()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
learner = Learner(loaders, model, loss_func=nn.functional.mse_loss, lr=1e-3).to_fp16()
with learner.no_bar(), learner.no_logging():
    learner.fit(1)
