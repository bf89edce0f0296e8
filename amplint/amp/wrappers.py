"""What the objects of well-known libraries do to AMP, by qualified class name and method.

Sources: accelerate 1.15, lightning 2.6, timm 1.0, mmengine 0.10, deepspeed 0.19, as installed from the registry.
"""

from __future__ import annotations

import re
from enum import Enum


class Role(Enum):
    """What a method does."""

    REGION = "opens an autocast region that the framework configures"
    BACKWARD = "runs backward on its first argument"
    PREPARE = "gives its arguments back, ready for training"
    UNWRAP = "gives back the module inside"
    SAVE = "writes its first argument as torch.save does"
    NULL_CONTEXT = "a context that leaves autocast alone"
    TRAIN_STEP = "scales, runs backward, steps the optimizer given second and updates"
    OPTIMIZER_STEP = "runs backward and an optimizer step"
    CLIP = "unscales the gradients of everything that was prepared, and may clip some"


_ACCELERATOR = {
    "autocast": Role.REGION,
    "backward": Role.BACKWARD,
    "clip_grad_norm_": Role.CLIP,
    "clip_grad_value_": Role.CLIP,
    "prepare": Role.PREPARE,
    "prepare_model": Role.PREPARE,
    "prepare_optimizer": Role.PREPARE,
    "prepare_data_loader": Role.PREPARE,
    "unwrap_model": Role.UNWRAP,
    "save": Role.SAVE,
    "accumulate": Role.NULL_CONTEXT,
    "no_sync": Role.NULL_CONTEXT,
    "profile": Role.NULL_CONTEXT,
}
_FABRIC = {
    "autocast": Role.REGION,
    "backward": Role.BACKWARD,
    "setup": Role.PREPARE,
    "setup_module": Role.PREPARE,
    "setup_optimizers": Role.PREPARE,
    "setup_dataloaders": Role.PREPARE,
    "no_backward_sync": Role.NULL_CONTEXT,
}
_NATIVE_SCALER = {"__call__": Role.TRAIN_STEP}

OBJECTS: dict[str, dict[str, Role]] = {
    "accelerate.Accelerator": _ACCELERATOR,
    "accelerate.accelerator.Accelerator": _ACCELERATOR,
    "lightning.Fabric": _FABRIC,
    "lightning.fabric.Fabric": _FABRIC,
    "lightning.fabric.fabric.Fabric": _FABRIC,
    "lightning_fabric.Fabric": _FABRIC,
    "lightning.pytorch.LightningModule": {"manual_backward": Role.BACKWARD},
    "lightning.LightningModule": {"manual_backward": Role.BACKWARD},
    "pytorch_lightning.LightningModule": {"manual_backward": Role.BACKWARD},
    "timm.utils.NativeScaler": _NATIVE_SCALER,
    "timm.utils.cuda.NativeScaler": _NATIVE_SCALER,
    "mmengine.optim.AmpOptimWrapper": {"optim_context": Role.REGION, "update_params": Role.OPTIMIZER_STEP},
    "mmengine.optim.OptimWrapper": {
        "optim_context": Role.NULL_CONTEXT,
        "update_params": Role.OPTIMIZER_STEP,
    },
}

SHAPES: tuple[tuple[frozenset[str], dict[str, Role]], ...] = (
    (frozenset({"autocast", "backward"}), _ACCELERATOR),
    (frozenset({"prepare", "backward"}), _ACCELERATOR),
    (frozenset({"setup", "backward"}), _FABRIC),
)
"""Methods which, called on one object whose class is out of sight, tell what the object is."""

ACCELERATORS = frozenset({"accelerate.Accelerator", "accelerate.accelerator.Accelerator"})
"""The class of accelerate that makes a gradient scaler of its own if it runs in float16."""

ACCELERATORS_SCALER = re.compile(rb"\.scaler\b|\.save_state\(")
"""The text of code that saves the scaler of an `Accelerator`, by hand or with all the rest."""

REGION_SETTINGS = dict.fromkeys(
    (
        "accelerate.AutocastKwargs",
        "accelerate.utils.AutocastKwargs",
        "accelerate.utils.dataclasses.AutocastKwargs",
    ),
    ("enabled", "cache_enabled"),
)
"""Classes whose objects tell a framework's region how to be, with their parameters."""

RESULT_IN_FLOAT32 = ACCELERATORS
"""Classes whose ``prepare`` makes a module return float32 from its forward whatever runs inside
(``convert_outputs_to_fp32``)."""

DATA_PARALLEL = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel.DataParallel",
    }
)
"""The class whose replicas run in threads."""

PARALLEL = DATA_PARALLEL | frozenset(
    {
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.distributed.DistributedDataParallel",
        "apex.parallel.DistributedDataParallel",
    }
)
"""Classes of modules that run the module which they are given, in several processes or threads."""

TRANSPARENT_CALLS = PARALLEL | frozenset(
    {
        "torch.compile",
        "torch.jit.script",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "torch.nn.utils.weight_norm",
        "torch.nn.utils.spectral_norm",
        "torch.nn.utils.parametrizations.weight_norm",
        "torch.nn.utils.parametrizations.spectral_norm",
        "torch.nn.utils.skip_init",
        "torch._dynamo.disable",
        "torch.compiler.disable",
    }
)
"""Calls that give back the module or function which is their first argument, as far as AMP can tell."""

CAPTURES = {
    "torch.jit.trace": "torch.jit.trace",
    "torch.jit.trace_module": "torch.jit.trace_module",
    "torch.jit.script": "torch.jit.script",
    "torch.cuda.graph": "torch.cuda.graph",
    "torch.cuda.graphs.graph": "torch.cuda.graph",
    "torch.cuda.make_graphed_callables": "torch.cuda.make_graphed_callables",
    "torch.cuda.graphs.make_graphed_callables": "torch.cuda.make_graphed_callables",
}
"""Calls that record what a callable does, with the name under which users know them."""

OPTIMIZER_FACTORIES = frozenset(
    {
        "timm.optim.create_optimizer",
        "timm.optim.create_optimizer_v2",
        "transformers.AdamW",
        "transformers.optimization.AdamW",
        "transformers.Adafactor",
        "transformers.optimization.Adafactor",
    }
)
OPTIMIZER_PACKAGES = (
    "torch.optim.",
    "bitsandbytes.optim.",
    "apex.optimizers.",
    "torch_optimizer.",
    "lion_pytorch.",
)
"""A capitalised name below one of these is an optimizer class (``torch.optim.lr_scheduler`` is not)."""

SCHEDULER_FACTORIES = ("torch.optim.lr_scheduler.", "transformers.get_", "transformers.optimization.get_")
"""What is made by a name below one of these sets the learning rate of the optimizer that it is given."""

BY_NAME = {
    "torch.optim": "torch.optim.Optimizer",
    "torch.optim.lr_scheduler": "torch.optim.lr_scheduler.LRScheduler",
}
"""What ``getattr(module, name)`` gives, as far as AMP goes, whichever name a setting holds."""

SHARDING_WRAPPERS = frozenset(
    {
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
        "fairscale.nn.FullyShardedDataParallel",
        "fairscale.nn.data_parallel.FullyShardedDataParallel",
        "fairscale.nn.data_parallel.fully_sharded_data_parallel.FullyShardedDataParallel",
    }
)
"""Classes that split the parameters of a module among processes, so that each sees its own gradients only.
``fully_shard`` (FSDP2) is none of them: its gradients are DTensors, whose infs all processes see."""

MODEL_FACTORIES = (
    "torchvision.models.",
    "timm.create_model",
    "timm.models.",
    "transformers.AutoModel",
    "segmentation_models_pytorch.",
    "torch.hub.load",
    "open_clip.create_model",
)
"""What is made by a name below one of these is a torch module."""
