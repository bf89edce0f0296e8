"""Plain data: what files of settings and the command line give. ``config = yaml.safe_load(file)``.

Nothing in it is a tensor. Assumed: no code out of sight puts one there.
"""

from __future__ import annotations

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.python.numbers import PlainData
from amplint.flow.state.symbols import DATA, Symbol, symbol
from amplint.flow.state.values import Unknown, Value
from amplint.lowering.program import Node

models = Registry()

_LOADERS = (
    "json.load",
    "json.loads",
    "tomllib.load",
    "tomllib.loads",
    "tomli.load",
    "tomli.loads",
    "toml.load",
    "toml.loads",
    "yaml.load",
    "yaml.safe_load",
    "yaml.full_load",
    "omegaconf.OmegaConf.load",
    "omegaconf.OmegaConf.from_cli",
    "omegaconf.OmegaConf.from_dotlist",
    "omegaconf.OmegaConf.create",
    "omegaconf.OmegaConf.merge",
    "hydra.compose",
)
_CLASSES = (
    "argparse.Namespace",
    "omegaconf.DictConfig",
    "omegaconf.ListConfig",
    "omegaconf.dictconfig.DictConfig",
)


@models.call(*_LOADERS)
def _loaded(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``json.load(file)``: nothing is known of it but that."""
    return Unknown(symbol(DATA, api.unknown(node).symbol))


@models.into(models.annotations, *_CLASSES)
def _annotated(api: Api, own: Symbol) -> Value | None:
    """``def main(cfg: DictConfig)``."""
    api.set_note(own, PlainData())
    return None
