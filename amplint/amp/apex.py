"""The signatures of apex.amp: ``amp.initialize``, ``amp.scale_loss``.

Source: ``apex/amp/frontend.py`` and ``apex/amp/handle.py`` of apex (2019 to 2024).
"""

from __future__ import annotations

INITIALIZE = (
    "models",
    "optimizers",
    "enabled",
    "opt_level",
    "cast_model_type",
    "patch_torch_functions",
    "keep_batchnorm_fp32",
    "master_weights",
    "loss_scale",
    "cast_model_outputs",
    "num_losses",
    "verbosity",
    "min_loss_scale",
    "max_loss_scale",
)
"""The parameters of ``amp.initialize``, in order."""

WITHOUT_EQUAL = ("cast_model_type", "cast_model_outputs", "min_loss_scale", "max_loss_scale")
"""Those of them for which torch.amp has nothing."""

SCALE_LOSS = ("loss", "optimizers", "loss_id", "model", "delay_unscale", "delay_overflow_check")
"""The parameters of ``amp.scale_loss``, in order."""
