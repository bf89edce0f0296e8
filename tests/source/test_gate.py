from __future__ import annotations

import pytest

from amplint.amp.gate import GATE
from amplint.source.gate import passes, widened


@pytest.mark.parametrize(
    "data",
    [b"", b"import torch\nloss.backward()\n", b"model.halves()\n", b"auto cast", b"x = torch.float16"],
)
def test_files_without_amp_are_kept_out(data: bytes) -> None:
    assert not passes(data, widened(GATE, ()))


@pytest.mark.parametrize(
    "data",
    [b"with autocast():", b"s = GradScaler()", b"model.half()", "autocast".encode("utf-16")],
)
def test_files_with_amp_pass(data: bytes) -> None:
    assert passes(data, widened(GATE, ()))


def test_all_tokens_of_a_row_are_needed() -> None:
    assert not passes(b"one", [(b"one", b"two")])
    assert passes(b"two one", [(b"one", b"two")])


def test_wrappers_are_known_by_the_last_part_of_their_name() -> None:
    gate = widened([(b"x", b"y")], ("my.project.region", "region", "backward_pass"))
    assert passes(b"with project.region():", gate)
    assert passes(b"backward_pass(loss)", gate)
    assert not passes(b"my.project", gate)
