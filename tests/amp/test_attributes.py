"""What amp.attributes says of torch.nn is asked of the torch that is installed."""

from __future__ import annotations

import pytest

from amplint.amp.attributes import MODULE_ATTRIBUTES, TENSOR_PROPERTIES

torch = pytest.importorskip("torch")


def test_a_module_has_these_attributes() -> None:
    public = {name for name in dir(torch.nn.Module()) if not name.startswith("_")}
    assert public <= MODULE_ATTRIBUTES


def test_a_tensor_has_these_properties() -> None:
    own = {name for name in dir(torch.Tensor) if not name.startswith("_")}
    properties = {name for name in own if not callable(getattr(torch.Tensor, name, None))}
    assert properties <= TENSOR_PROPERTIES
