"""What concerns all tests."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Thousands of tests and what they import stay until the end: Python need not look at them in each collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)  # amplint itself runs without collections
