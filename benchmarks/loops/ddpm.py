"""denoising-diffusion-pytorch's own Trainer on a dozen small pictures, float16."""

import sys
import tempfile
from pathlib import Path

import torch
from denoising_diffusion_pytorch import GaussianDiffusion, Trainer, Unet
from PIL import Image

torch.manual_seed(0)
folder = Path(tempfile.mkdtemp())
(folder / "images").mkdir()
for index in range(120):
    data = bytes((index * 7 + k * 13) % 256 for k in range(16 * 16 * 3))
    Image.frombytes("RGB", (16, 16), data).save(folder / "images" / f"{index}.png")

model = Unet(dim=8, dim_mults=(1, 2), flash_attn=False)
diffusion = GaussianDiffusion(model, image_size=16, timesteps=10, sampling_timesteps=2)
trainer = Trainer(
    diffusion,
    str(folder / "images"),
    train_batch_size=8,
    train_num_steps=int(sys.argv[1]) if len(sys.argv) > 1 else 4,
    gradient_accumulate_every=2,
    save_and_sample_every=1000,
    num_samples=4,
    results_folder=str(folder / "results"),
    amp=True,
    mixed_precision_type="fp16",
    calculate_fid=False,
)
trainer.train()
