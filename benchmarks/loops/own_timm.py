"""A loop as in timm's training script, with its scaler."""

import timm
import torch
from timm.utils import NativeScaler
from torch import nn

torch.manual_seed(0)
model = timm.create_model("test_resnet", num_classes=4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_scaler = NativeScaler()
images, labels = torch.randn(4, 3, 64, 64), torch.randint(4, (4,))
for _ in range(3):
    x, y = images.cuda(), labels.cuda()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss_scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
