"""A model of one's own with the Trainer of transformers in float16."""

import tempfile

import torch
from torch import nn
from transformers import Trainer, TrainingArguments


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 1)

    def forward(self, x, labels):
        out = self.body(x).squeeze(-1)
        return {"loss": nn.functional.mse_loss(out.float(), labels), "logits": out}


data = [{"x": torch.randn(8), "labels": torch.randn(())} for _ in range(64)]
model = Net()
arguments = TrainingArguments(
    tempfile.mkdtemp(), fp16=True, max_steps=3, report_to=[], save_strategy="no", disable_tqdm=True
)
Trainer(model, arguments, train_dataset=data).train()
