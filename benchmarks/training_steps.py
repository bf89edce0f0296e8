"""Trains a small model in turns and writes the processor's milliseconds of a step.

    python benchmarks/training_steps.py MODEL DEVICE STEPS TURNS TOLD

DEVICE is "cuda", with a region in float16, or "cpu", with one in bfloat16. Each line of TURNS is a turn of STEPS steps;
the mean over them is a line of TOLD.
"""

import sys
import time
from pathlib import Path

import torch
from torch import nn


def mlp(width):
    """Eight layers."""
    layers = [part for _ in range(8) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, 10)), torch.randn(16, width), torch.randint(10, (16,))


def cnn():
    """Four convolutions on 32 x 32."""
    layers = [
        part
        for first, last in ((3, 16), (16, 16), (16, 32), (32, 32))
        for part in (nn.Conv2d(first, last, 3, padding=1), nn.BatchNorm2d(last), nn.ReLU())
    ]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    return model, torch.randn(8, 3, 32, 32), torch.randint(10, (8,))


class Block(nn.Module):
    """Attention and two layers, written out as in nanoGPT."""

    def __init__(self, width):
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads, self.back = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        """A residual block."""
        batch, length, width = x.shape
        q, k, v = self.heads(self.before(x)).split(width, dim=2)
        q, k, v = (part.view(batch, length, 4, width // 4).transpose(1, 2) for part in (q, k, v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.back(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(nn.functional.gelu(self.wide(self.between(x))))


class Transformer(nn.Module):
    """Four blocks; one class for each sequence."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 128)
        self.blocks = nn.ModuleList(Block(128) for _ in range(4))
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        """Logits."""
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def transformer():
    """Eight sequences of 64."""
    return Transformer(), torch.randint(100, (8, 64)), torch.randint(10, (8,))


MODELS = {
    "MLP 8x64": lambda: mlp(64),
    "MLP 8x256": lambda: mlp(256),
    "CNN": cnn,
    "transformer": transformer,
}


def main():
    """Trains as long as there are turns."""
    name, device, steps, turns, told = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, x, y = MODELS[name]()
    model, x, y = model.to(device), x.to(device), y.to(device)
    dtype = torch.float16 if device == "cuda" else torch.bfloat16
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler(device, init_scale=256.0, enabled=dtype == torch.float16)
    with Path(told).open("w") as figures, Path(turns).open() as lines:
        for _ in lines:
            start = time.process_time()
            for _ in range(int(steps)):
                optimizer.zero_grad()
                with torch.autocast(device, dtype=dtype):
                    loss = nn.functional.cross_entropy(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            figures.write(f"{1000 * (time.process_time() - start) / int(steps)}\n")
            figures.flush()


if __name__ == "__main__":
    main()
