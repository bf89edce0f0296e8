"""video-diffusion-pytorch's Trainer with amp=True on sixteen small animations."""

import tempfile
from pathlib import Path

import torch
from PIL import Image
from video_diffusion_pytorch import GaussianDiffusion, Trainer, Unet3D

torch.manual_seed(0)
folder = Path(tempfile.mkdtemp())
(folder / "gifs").mkdir()
for index in range(8):
    frames = [
        Image.frombytes("RGB", (16, 16), bytes((index * 7 + k * (3 + t)) % 256 for k in range(16 * 16 * 3)))
        for t in range(4)
    ]
    frames[0].save(folder / "gifs" / f"{index}.gif", save_all=True, append_images=frames[1:])
model = Unet3D(dim=8, dim_mults=(1, 2))
diffusion = GaussianDiffusion(model, image_size=16, num_frames=4, timesteps=10, loss_type="l1")
if torch.cuda.is_available():
    diffusion = diffusion.cuda()
trainer = Trainer(
    diffusion,
    str(folder / "gifs"),
    num_frames=4,
    train_batch_size=2,
    train_num_steps=3,
    gradient_accumulate_every=2,
    save_and_sample_every=1000,
    amp=True,
    max_grad_norm=1.0,
    results_folder=str(folder / "results"),
)
trainer.train()
