from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from drawing import Draw, Tree


@pytest.fixture
def draw(tmp_path: Path) -> Draw:
    def drawn(files: Mapping[str, str], knows: Callable[[str], bool] = lambda name: False) -> Tree:
        return Tree(tmp_path, files, knows)

    return drawn
