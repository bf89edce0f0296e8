"""amplint finds misuse of PyTorch automatic mixed precision in training code."""

__version__ = "0.1.0"
