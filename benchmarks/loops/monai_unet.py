"""monai's SupervisedTrainer with amp=True on random volumes."""

import torch
from monai.engines import SupervisedTrainer
from monai.losses import DiceLoss
from monai.networks.nets import UNet
from torch.utils.data import DataLoader

torch.manual_seed(0)
data = [{"image": torch.rand(1, 16, 16), "label": (torch.rand(1, 16, 16) > 0.5).float()} for _ in range(8)]
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = UNet(spatial_dims=2, in_channels=1, out_channels=1, channels=(4, 8), strides=(2,)).to(device)
trainer = SupervisedTrainer(
    device=device,
    max_epochs=2,
    train_data_loader=DataLoader(data, batch_size=2),
    network=net,
    optimizer=torch.optim.Adam(net.parameters(), 1e-3),
    loss_function=DiceLoss(sigmoid=True),
    amp=True,
)
trainer.run()
print("loss", trainer.state.output)
