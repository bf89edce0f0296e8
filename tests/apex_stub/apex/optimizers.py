"""Fused optimizers compute what those of torch compute."""

from torch import optim

FusedSGD, FusedAdam = optim.SGD, optim.AdamW
