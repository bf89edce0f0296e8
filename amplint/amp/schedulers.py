"""What makes learning-rate schedulers, by the beginnings of names."""

from __future__ import annotations

OWN = "torch.optim.lr_scheduler."
FACTORIES = (OWN, "transformers.get_", "transformers.optimization.get_", "diffusers.optimization.get_")
"""What is made by a name below one of these sets the learning rate of the optimizer that it is given."""
