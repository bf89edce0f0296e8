"""Functions of other packages that make modules: ``resnet50()``, ``AutoModel.from_pretrained(…)``."""

from __future__ import annotations

from dataclasses import replace

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.dtypes import dtype_in
from amplint.flow.models.torch.modules import cast_module
from amplint.flow.models.torch.notes import FromPackage, ParametersCast
from amplint.flow.models.torch.values import MODULE
from amplint.flow.models.torch.weights import cast_parameters
from amplint.flow.state.values import FALSE, NONE, Sequence, Unknown, Value
from amplint.lowering.program import Node

models = Registry()

_QUANTIZED = ("quantization_config", "load_in_8bit", "load_in_4bit")
"""Arguments with which most weights are integers."""
_NO_MODELS = ("get_weight", "list_models", "get_model_weights", "get_model_builder")


@models.namespace("torchvision.models.", "timm.models.", "segmentation_models_pytorch.")
@models.call("timm.create_model", "torch.hub.load", "open_clip.create_model", "torchvision.models.get_model")
def _made(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``torchvision.models.resnet50()``."""
    if name.rpartition(".")[2] in _NO_MODELS:
        return None
    return _module(api, name, arguments, node)


@models.call("open_clip.create_model_and_transforms", "open_clip.create_model_from_pretrained")
def _made_with_transforms(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return Sequence((_module(api, name, arguments, node), api.unknown(node)), exact=False, prefix=1)


def _module(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """A module that the function of this name makes; empty where the function is not known."""
    module = Unknown(api.fresh(node), MODULE)
    if name:
        api.set_note(module.symbol, FromPackage(name.partition(".")[0]))
    if any(key in _QUANTIZED and value not in (NONE, FALSE) for key, value in arguments.keywords):
        cast_parameters(api, module, ParametersCast(None))
        return module
    for key in ("torch_dtype", "dtype"):
        dtype = dtype_in(arguments.keyword(key))
        if dtype is not None and dtype.dtype.is_half:
            cast_module(api, module, dtype.dtype, node)
            module = replace(module, apart=True)
    return module


@models.namespace("transformers.", "diffusers.", "peft.")
def _pretrained(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.float16)``: what is loaded with a type of tensors
    is a module."""
    owner, _, method = name.rpartition(".")
    if method not in ("from_pretrained", "from_config"):
        return None
    automatic = owner.rpartition(".")[2].startswith("AutoModel")
    return _module(api, name, arguments, node) if automatic or _half_asked(arguments) else None


@models.method("", "from_pretrained")
def _of_unknown(api: Api, base: Unknown, name: str, arguments: Arguments, node: Node) -> Value | None:
    return _module(api, "", arguments, node) if _half_asked(arguments) else None


def _half_asked(arguments: Arguments) -> bool:
    asked = dtype_in(arguments.keyword("torch_dtype")) or dtype_in(arguments.keyword("dtype"))
    return asked is not None and asked.dtype.is_half
