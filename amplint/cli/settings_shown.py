"""``amplint check --show-settings``: the settings in effect for a path, each with where it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amplint.baseline import place_of
from amplint.bounds import TORCH_DEFAULT, WARNS_SINCE, TorchBounds
from amplint.config import KEYS, Settings, with_project_torch
from amplint.report.text import escaped
from amplint.scope import files_around, root_of

_DEFAULT = "the default"
_ASSUMED = (
    f"nothing says which torch: findings are about {TORCH_DEFAULT[0][0]}.{TORCH_DEFAULT[0][1]} and later, safe "
    f"fixes of deprecated names for {WARNS_SINCE[0]}.{WARNS_SINCE[1]} and later, which warns of them"
)


def shown(path: str, settings: Settings, options: Mapping[str, Any]) -> str:
    """The settings for a path as lines in the order of the alphabet; ``options`` are those of the command line."""
    start = Path.cwd() if path == "-" else Path(path).absolute()
    root = root_of(start if start.is_dir() else start.parent, settings)
    settings = with_project_torch(settings, root, files_around(root, settings))
    origins = dict(settings.origins)
    lines = [f"# {escaped(path)}", f"project = {_text(str(root))}"]
    for key in sorted(KEYS):
        option = options.get(key.replace("-", "_"))
        given = option is not None and option != ()
        source = f"--{key}" if given else escaped(str(origins[key])) if key in origins else _DEFAULT
        value: object = getattr(settings, key.replace("-", "_"), None)
        if key == "baseline" and source == _DEFAULT and settings.with_baseline:
            value = place_of(root, settings)
            source = "found" if value.exists() else "where it would be"
        if key == "torch-version":
            value = _version(settings.torch)
            if source == _DEFAULT:
                source = _ASSUMED if settings.torch_from == _DEFAULT else escaped(settings.torch_from)
        lines.append(f"{key} = {_text(value)}  # {source}")
    return "\n".join(lines) + "\n"


def _version(bounds: TorchBounds) -> str:
    """Bounds as ``torch-version`` would have them: ">=2.3,<=2.8"."""
    low, high = (f"{bound[0]}.{bound[1]}" if bound is not None else "" for bound in bounds)
    if bounds[1] is not None and bounds[1][1] >= 99:
        return f">={low},<{bounds[1][0] + 1}"
    return low if low == high else f">={low},<={high}" if high else f">={low}"


def _text(value: object) -> str:
    """A value as TOML would have it; "" where nothing is set."""
    if isinstance(value, tuple):
        if value and isinstance(value[0], tuple):
            return "{" + ", ".join(f"{_text(key)} = {_text(part)}" for key, part in value) + "}"
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(escaped(str(value)) if value is not None else "")
