"""x-transformers with a mixture of softmaxes and its AutoregressiveWrapper, float16."""

import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = AutoregressiveWrapper(
    TransformerWrapper(
        num_tokens=64, max_seq_len=32, mixture_of_softmax=True, attn_layers=Decoder(dim=32, depth=1, heads=2)
    )
).to(device)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cuda")
for _ in range(4):
    tokens = torch.randint(0, 64, (2, 17), device=device)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(tokens)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
print(float(loss))
