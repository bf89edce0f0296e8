"""What the tests of the flow share."""

from __future__ import annotations

from pathlib import Path

import pytest
from listening import Holds, Tape, differences, listen


@pytest.fixture
def holds(tmp_path: Path) -> Holds:
    """Walks a program and checks its marks; see listening.py."""

    def check(programs: str | dict[str, str], **options: object) -> Tape:
        tape = listen(tmp_path, programs, **options)  # type: ignore[arg-type]
        assert differences(tmp_path, tape) == []
        return tape

    return check
