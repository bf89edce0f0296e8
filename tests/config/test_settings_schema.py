"""The schema of the settings allows what the settings allow, and nothing else that a schema can tell."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from amplint.config import KEYS, ConfigError, load_settings
from amplint.toml import loads

REPOSITORY = Path(__file__).resolve().parents[2]
SCHEMA: dict[str, Any] = json.loads((REPOSITORY / "docs/schemas/settings-1.json").read_bytes())


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.syspath_prepend(str(REPOSITORY / "docs"))
    import settings_reference

    sys.modules.pop("settings_reference")
    return {key: one.example for key, one in settings_reference.KEYS.items()}


def accepts(table: dict[str, Any]) -> bool:
    return jsonschema.Draft7Validator(SCHEMA).is_valid(table)


def test_it_has_every_key_and_no_other() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert set(SCHEMA["properties"]) == {"extend", *KEYS}


def test_the_examples_are_valid(examples: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/amplint.toml").write_text("")
    (tmp_path / "lint").mkdir()
    for key, example in examples.items():
        (tmp_path / "lint/amplint.toml").write_text(f"{key} = {example}\n", encoding="utf-8")
        assert load_settings(tmp_path / "lint").source is not None, key
        assert accepts(loads(f"{key} = {example}")), key


def test_the_defaults_are_values_of_their_keys() -> None:
    for key, part in SCHEMA["properties"].items():
        if "default" in part:
            assert accepts({key: part["default"]}), key


@pytest.mark.parametrize(
    "text",
    [
        "ignroe = []",
        "select = 'AMP1'",
        "select = [1]",
        "select = ['AMP9999']",
        "ignore = ['missing-flaot']",
        "force-exclude = 'yes'",
        "device = 'cdua'",
        "level = 3",
        "output-format = 'xml'",
        "autocast-contexts = ['my region']",
        "backward-functions = ['a..b']",
        "per-file-ignores = []",
        "per-file-ignores = { 'a.py' = ['AMP9999'] }",
        "extend = ['a.toml']",
    ],
)
def test_what_is_wrong_is_wrong_for_both(tmp_path: Path, text: str) -> None:
    (tmp_path / "amplint.toml").write_text(text)
    with pytest.raises(ConfigError):
        load_settings(tmp_path)
    assert not accepts(loads(text))
