"""What amp.attributes says of torch.nn is asked of the torch that is installed."""

from __future__ import annotations

import inspect
import re

import pytest

from amplint.amp.attributes import MODULE_ATTRIBUTES, NO_LAYER_HAS

torch = pytest.importorskip("torch")
LAYERS = sorted(
    name
    for name, value in vars(torch.nn).items()
    if isinstance(value, type) and issubclass(value, torch.nn.Module) and name != "DataParallel"
)


def test_a_module_has_these_attributes_and_no_others() -> None:
    public = {name for name in dir(torch.nn.Module()) if not name.startswith("_")}
    assert public <= MODULE_ATTRIBUTES


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_has_none_of_these(name: str) -> None:
    layer = getattr(torch.nn, name)
    own = [part for part in layer.__mro__ if part.__module__.startswith("torch.")]
    assert own
    for attribute in NO_LAYER_HAS:
        assert not hasattr(layer, attribute)
        assert not any(re.search(rf"self\.{attribute}\s*[:=]", inspect.getsource(part)) for part in own)


@pytest.mark.parametrize("attribute", sorted(NO_LAYER_HAS))
def test_reading_it_raises(attribute: str) -> None:
    with pytest.raises(AttributeError, match=f"object has no attribute '{attribute}'"):
        getattr(torch.nn.Linear(1, 1), attribute)
