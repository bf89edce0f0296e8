"""Wrappers of modules and functions of torch and apex, by qualified name: what they give back, and how it runs.

Source: torch 2.13 and apex, by their public names and the modules that define them.
"""

from __future__ import annotations

DATA_PARALLEL = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
    }
)
"""The class whose replicas run in threads."""

PARALLEL = DATA_PARALLEL | frozenset(
    {
        "torch.nn.parallel.DistributedDataParallel",
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
    "torch.cuda.make_graphed_callables": "torch.cuda.make_graphed_callables",
}
"""Calls that record what a callable does, with the name under which users know them."""
