"""Writes ``amplint/amp/reexports.json``: the public names of torch's classes and functions that stand in inner modules.

    python tests/amp/generate_reexports.py

For each inner module it lists the package around it that hands on what the module has, and the names.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch

TABLE = Path(__file__).parents[2] / "amplint" / "amp" / "reexports.json"
PACKAGES = (
    "torch.amp",
    "torch.autograd",
    "torch.cpu.amp",
    "torch.cuda.amp",
    "torch.cuda.graphs",
    "torch.distributed.fsdp",
    "torch.functional",
    "torch.nn",
    "torch.optim",
    "torch.serialization",
    "torch.utils.data.dataloader",
    "torch.utils.data.dataset",
    "torch.utils.data.distributed",
    "torch.utils.data.sampler",
)
"""Where what linting knows of is defined."""
HANDED_ON_WHOLE = "torch.nn.modules"
"""A package that torch.nn hands on; the others are public themselves."""


def measured() -> dict[str, dict[str, list[str]]]:
    """For each module with inner names: the package that hands them on, and the names."""
    found: dict[str, dict[str, list[str]]] = {}
    for module in _modules():
        if hasattr(module, "__path__") and module.__name__ != HANDED_ON_WHOLE:
            continue
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            home = value.__module__ or ""
            if home != module.__name__ and not home.startswith(f"{module.__name__}."):
                continue
            package = _nearest(module.__name__, name, value)
            if package is not None:
                found.setdefault(module.__name__, {}).setdefault(package, []).append(name)
    return found


def _modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        module = importlib.import_module(package)
        yield module
        for info in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{package}."):
            if not any(part.startswith("_") for part in info.name.split(".")):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        yield importlib.import_module(info.name)
                    except ImportError:
                        continue


def _nearest(module: str, name: str, value: object) -> str | None:
    """The nearest package around a module that has an object under the same name."""
    package = module.rpartition(".")[0]
    while package:
        if package != HANDED_ON_WHOLE and getattr(importlib.import_module(package), name, None) is value:
            return package
        package = package.rpartition(".")[0]
    return None


if __name__ == "__main__":
    print(torch.__version__)
    rows = (
        f' "{module}": {{"{package}": "{" ".join(names)}"}}'
        for module, packages in sorted(measured().items())
        for package, names in packages.items()
    )
    TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n")
