"""What a client may set: ``initializationOptions``, and the section ``amplint`` of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from amplint.api import ConfigError

_SETTINGS = ("select", "extend-select", "ignore", "level", "device", "torch-version")
"""Settings that may come from a client, by their names in a configuration file."""
_DELAY = "delay"


@dataclass(frozen=True)
class Options:
    """``settings`` count before those of configuration files; ``delay`` are the seconds without a change after which
    a text is analysed."""

    settings: Mapping[str, object] = field(default_factory=dict)
    delay: float = 0.3


def options_of(given: object) -> Options:
    """The options in what a client has sent. Raises ConfigError."""
    if isinstance(given, Mapping) and "amplint" in given:
        given = given["amplint"] or {}
    if not isinstance(given, Mapping):
        raise ConfigError("the options of the editor have to be an object")
    known = (*_SETTINGS, _DELAY)
    for key in given:
        if key not in known:
            raise ConfigError(f'unknown option "{key}" of the editor; there are {", ".join(known)}')
    delay = given.get(_DELAY, Options.delay * 1000)
    if isinstance(delay, bool) or not isinstance(delay, int | float) or not 0 <= delay <= 60_000:
        raise ConfigError("delay: expected milliseconds from 0 to 60000")
    return Options({key: given[key] for key in _SETTINGS if key in given}, delay / 1000)
