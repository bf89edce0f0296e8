"""Stands for apex where it is not installed: what its documentation says of `apex.amp`, in a few lines."""

from apex import amp, optimizers

__all__ = ["amp", "optimizers"]
