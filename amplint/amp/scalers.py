"""GradScaler by its names, and the parts of its protocol that the flow needs."""

from __future__ import annotations

SCALERS = frozenset(
    {
        "torch.GradScaler",
        "torch.amp.GradScaler",
        "torch.amp.grad_scaler.GradScaler",
        "torch.cuda.amp.GradScaler",
        "torch.cuda.amp.grad_scaler.GradScaler",
        "torch.cpu.amp.GradScaler",
        "torch.cpu.amp.grad_scaler.GradScaler",
        "torch.npu.amp.GradScaler",
        "torch_npu.npu.amp.GradScaler",
        "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
        "fairscale.optim.grad_scaler.ShardedGradScaler",
        "fairscale.optim.grad_scaler.GradScaler",
        "torch.xpu.amp.GradScaler",
    }
)
"""Classes that scale losses. ShardedGradScaler takes float16 parameters; see TAKES_HALF_PARAMETERS."""

TAKES_HALF_PARAMETERS = frozenset(
    {
        "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
        "fairscale.optim.grad_scaler.ShardedGradScaler",
        "fairscale.optim.grad_scaler.GradScaler",
    }
)

METHODS = frozenset({"scale", "unscale_", "step", "update"})
"""The protocol. An object out of sight on which ``scale`` and ``update`` are called is taken for a scaler."""
