"""A loop as in torchvision's reference scripts."""

import io

import torch
import torchvision
from torch import nn


def train_one_epoch(model, criterion, optimizer, data, device, scaler, clip):
    model.train()
    for image, target in data:
        image, target = image.to(device), target.to(device)
        with torch.amp.autocast("cuda", enabled=scaler is not None):
            output = model(image)
            loss = criterion(output, target)
        optimizer.zero_grad()
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), clip)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()


def evaluate(model, data, device):
    model.eval()
    right = 0
    with torch.inference_mode():
        for image, target in data:
            right += (model(image.to(device)).argmax(1) == target.to(device)).sum().item()
    return right


torch.manual_seed(0)
data = [(torch.randn(2, 3, 64, 64), torch.randint(4, (2,))) for _ in range(2)]
model = torchvision.models.squeezenet1_1(num_classes=4).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
scaler = torch.amp.GradScaler("cuda")
for _ in range(2):
    train_one_epoch(model, nn.CrossEntropyLoss(), optimizer, data, "cuda", scaler, 1.0)
    evaluate(model, data, "cuda")
states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
torch.save(states, io.BytesIO())
