"""The documentation site: every page has its place, and it is built without a warning."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amplint.toml import loads

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"
SITE = loads((REPOSITORY / "zensical.toml").read_text(encoding="utf-8"))["project"]


def places(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        for target in entry.values():
            yield from places(target) if isinstance(target, list) else [target]


def test_each_page_has_one_place_in_the_navigation() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    rules = {page for page in pages if page.startswith("rules/")} - {"rules/index.md"}
    assert sorted(places(SITE["nav"])) == sorted(pages - rules)


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("zensical")
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(REPOSITORY / "zensical.toml", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr or "Warning" not in done.stdout + done.stderr
    for page in places(SITE["nav"]):
        built = Path(page).with_suffix("")
        folder = built.parent if built.name == "index" else built
        assert (tmp_path / "site" / folder / "index.html").is_file(), page
