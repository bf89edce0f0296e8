"""The reference of the settings: their page and their JSON Schema, both written by docs/generate.py."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from amplint.catalog import rule_names
from amplint.config import DEFAULT_ERRORS_ONLY, DEFAULT_EXCLUDE, DEVICES, LEVELS, OUTPUT_FORMATS, Settings

_NAME = r"[^\W\d]\w*"


class Key(NamedTuple):
    """One key: what it is for, what it may hold, as JSON Schema, and an example in TOML."""

    text: str
    schema: dict[str, Any]
    example: str


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


SELECTOR = {"$ref": "#/$defs/selector"}
TEXT = {"type": "string"}
DOTTED_NAME = {"type": "string", "pattern": rf"^{_NAME}(\.{_NAME})*$"}
KEYS: dict[str, Key] = {
    "extend": Key(
        "Another file with settings, relative to this one, that is read first; `~` is the home directory. What this "
        "file says replaces what that one says; `extend-select` and `extend-exclude` add to it. Patterns are "
        "relative to this file, `project-root` to the file that sets it.",
        TEXT,
        '"../shared/amplint.toml"',
    ),
    "select": Key(
        "The rules to run, instead of those that are on by default: names, codes, beginnings of codes, `ALL`. Of "
        "`select` and `ignore`, the more exact selector wins.",
        _list(SELECTOR),
        '["AMP1", "half-model"]',
    ),
    "extend-select": Key(
        "Rules to run in addition to them.", _list(SELECTOR), '["scheduler-on-skipped-step"]'
    ),
    "ignore": Key("Rules that are not run.", _list(SELECTOR), '["deprecated-amp-api"]'),
    "per-file-ignores": Key(
        "A table: a pattern, and the rules of which nothing is reported in the files that it matches.",
        {"type": "object", "additionalProperties": _list(SELECTOR)},
        '{ "examples/*" = ["step-in-autocast"] }',
    ),
    "errors-only": Key(
        "Files in which errors alone are reported, as of what only they do to other files. The default is tests, "
        "benchmarks and profiling code, by the names that pytest, asv and most projects give them. Patterns see paths "
        "from this file on; without such a file, from where the project begins, wherever amplint runs.",
        _list(TEXT),
        '["tests/", "bench_*.py"]',
    ),
    "level": Key("The mildest level that is reported.", {"enum": list(LEVELS)}, '"warning"'),
    "fixable": Key(
        "Rules whose findings may be fixed; absent, those of all rules.", _list(SELECTOR), '["AMP5"]'
    ),
    "unfixable": Key("Rules whose findings may not be fixed.", _list(SELECTOR), '["half-model"]'),
    "exclude": Key(
        "Files and directories to leave out, instead of the default: build, .venv, site-packages and the like. "
        "Patterns are those of .gitignore. What .gitignore excludes is left out in any case.",
        _list(TEXT),
        '["third_party"]',
    ),
    "extend-exclude": Key(
        "Files and directories to leave out in addition to them.", _list(TEXT), '["examples/old"]'
    ),
    "force-exclude": Key(
        "Whether to leave excluded files out even if they are named on the command line, as pre-commit does.",
        {"type": "boolean"},
        "true",
    ),
    "project-root": Key(
        "The directory that is read to judge a file; absent, that of the settings, else that of the repository, else "
        "that of the outermost package.",
        TEXT,
        '"."',
    ),
    "torch-version": Key(
        "The torch that the code runs with, as a release or as bounds; absent, what the project asks for (its "
        "dependencies, then its lock file), else 2.0 and later.",
        TEXT,
        '">=2.3,<2.9"',
    ),
    "device": Key(
        "The device whose op tables count where the code leaves it open.", {"enum": list(DEVICES)}, '"cuda"'
    ),
    "autocast-contexts": Key(
        "Functions or classes of your own that open an autocast region, where amplint cannot see it: by dotted name.",
        _list(DOTTED_NAME),
        '["my_project.amp.autocast"]',
    ),
    "backward-functions": Key(
        "Functions of your own that run a backward pass, where amplint cannot see it: by dotted name.",
        _list(DOTTED_NAME),
        '["my_project.amp.backward"]',
    ),
    "baseline": Key(
        "The file of findings that are not reported, which `amplint baseline` writes; absent, `amplint-baseline.json` "
        "at the root of the project, if it is there. Relative to the file that sets it.",
        TEXT,
        '"ci/known.json"',
    ),
    "output-format": Key("How findings are written.", {"enum": list(OUTPUT_FORMATS)}, '"concise"'),
}


def schema() -> str:
    """The JSON Schema of ``amplint.toml`` and of ``[tool.amplint]``."""
    codes = rule_names()
    beginnings = {code[:end] for code in codes for end in range(3, len(code) + 1)}
    names = sorted({*codes.values(), *beginnings, "ALL"})
    document = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "amplint/settings-1",
        "title": "Settings of amplint: amplint.toml, .amplint.toml, or [tool.amplint] of pyproject.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            key: {
                **one.schema,
                "description": one.text.replace("`", ""),
                **({"default": _default(key)} if key in DEFAULTS else {}),
            }
            for key, one in KEYS.items()
        },
        "definitions": {"selector": {"enum": names}},
    }
    return json.dumps(document, indent=2).replace("#/$defs/", "#/definitions/") + "\n"


DEFAULTS = ("errors-only", "level", "exclude", "force-exclude", "device", "output-format")
"""Keys whose default is a value of their own."""


def _default(key: str) -> object:
    lists = {"errors-only": DEFAULT_ERRORS_ONLY, "exclude": DEFAULT_EXCLUDE}
    if key in lists:
        return list(lists[key])
    return Settings.__dataclass_fields__[key.replace("-", "_")].default


def page() -> str:
    """The page of the reference."""
    lines = [
        "# Settings",
        "",
        "In `pyproject.toml` under `[tool.amplint]`, or in `amplint.toml` or `.amplint.toml` without that heading. "
        "For each file the",
        "nearest one upwards counts, alone: a directory with settings of its own is a project of its own. "
        "`--config FILE` names one,",
        "`--isolated` ignores all, and options of the command line go before any. An unknown key or a bad value is "
        "an error that says",
        "what is right. `amplint --show-settings PATH` prints the settings in effect for a path, each with where it "
        "comes from.",
        "",
        "Editors complete and check the keys with [a JSON Schema](schemas/settings-1.json): in `amplint.toml` by a "
        "first line",
        "`#:schema` with its address or path, as taplo and Even Better TOML read it.",
        "",
    ]
    for key, one in KEYS.items():
        lines += [f"## {key}", "", one.text, "", "```toml", f"{key} = {one.example}", "```", ""]
        if key in DEFAULTS:
            lines += [f"Default: `{json.dumps(_default(key))}`", ""]
    return "\n".join(lines).rstrip() + "\n"
