"""What the probe sees in the parts of a checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from amplint.confirm import training


class Part:
    """An object that others refer to, and that refers to others."""


class OwnWay:
    def __reduce__(self) -> str:
        return "OwnWay"


def collected(thing: Any) -> tuple[bool, list[Any]]:
    """Whether all parts are plain data, and the states of optimizers among them."""
    watcher = training._Watcher.__new__(training._Watcher)
    state = {"state": {}}
    watcher._states = {id(state): (state, "optimizer", "sgd", None)}
    found: dict[str, list[Any]] = {"optimizer": [], "scaler": []}
    complete = watcher._collect(thing(state), found)
    return complete, [name for name, _ in found["optimizer"]]


def linked(state: Any) -> Part:
    """Objects that all refer to all of them: a walk along each way would not end."""
    parts = [Part() for _ in range(40)]
    for part in parts:
        vars(part).update({f"to_{number}": other for number, other in enumerate(parts)})
    vars(parts[-1])["optimizer"] = state
    return parts[0]


@pytest.mark.parametrize(
    ("thing", "complete", "states"),
    [
        (lambda state: {"epoch": 1, "optimizer": state, "note": ["best", None]}, True, ["sgd"]),
        (linked, True, ["sgd"]),
        (lambda state: [state, OwnWay()], False, ["sgd"]),
        (lambda state: [[[[[[[[[state]]]]]]]]], False, []),
    ],
    ids=["data", "objects that refer to each other", "an object with a way of its own", "too deep"],
)
def test_parts_are_looked_at_once(thing: Any, complete: bool, states: list[str]) -> None:
    assert collected(thing) == (complete, states)
