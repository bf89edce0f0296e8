"""Public names of what torch defines in inner modules: ``torch.optim.sgd.SGD`` is ``torch.optim.SGD``.

The table is data: ``reexports.json`` beside this file, read from torch 2.14 by ``tests/amp/generate_reexports.py``.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path


def public(name: str) -> str:
    """The name under which a package hands on a class or function of one of its modules, for example
    ``public("torch.nn.parameter.Parameter")``; any other name as it is."""
    return _inner_names().get(name, name) if name.startswith("torch.") else name


def inner_modules() -> list[str]:
    """The modules that have such classes and functions: ``["torch.amp.autocast_mode", …]``."""
    return sorted({name.rpartition(".")[0] for name in _inner_names()})


@lru_cache(maxsize=1)
def _inner_names() -> dict[str, str]:
    table: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("reexports.json").read_bytes())
    return {
        f"{module}.{name}": f"{package}.{name}"
        for module, packages in table.items()
        for package, names in packages.items()
        for name in names.split()
    }
