"""Lightning's Trainer with precision="16-mixed" and gradient clipping."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3)


lightning.seed_everything(0)
loader = DataLoader(TensorDataset(torch.rand(32, 8), torch.randint(0, 2, (32,))), batch_size=8)
trainer = lightning.Trainer(
    max_epochs=2,
    precision="16-mixed",
    accelerator="gpu",
    devices=1,
    gradient_clip_val=1.0,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Model(), loader)
