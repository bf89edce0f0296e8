"""vector-quantize-pytorch's ResidualLFQ inside an autocast region."""

import torch
from torch import nn
from vector_quantize_pytorch import ResidualLFQ

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
encoder = nn.Linear(16, 16).to(device)
quantizer = ResidualLFQ(dim=16, codebook_size=16, num_quantizers=2).to(device)
decoder = nn.Linear(16, 16).to(device)
parameters = [*encoder.parameters(), *quantizer.parameters(), *decoder.parameters()]
optimizer = torch.optim.Adam(parameters, 1e-3)
scaler = torch.amp.GradScaler("cuda")
for _ in range(4):
    x = torch.rand(2, 32, 16, device=device)
    with torch.autocast("cuda", dtype=torch.float16):
        quantized, indices, commitment = quantizer(encoder(x))
        loss = nn.functional.mse_loss(decoder(quantized), x) + commitment.mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(float(loss))
