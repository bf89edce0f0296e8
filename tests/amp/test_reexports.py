"""Names of inner modules are those of torch's packages."""

import importlib

import pytest

from amplint.amp.reexports import _inner_names, public


def _found(name: str) -> object:
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def test_a_name_and_its_public_one_are_the_same_object() -> None:
    """Of those that the installed release has, which are nearly all."""
    compared = 0
    for inner, outer in _inner_names().items():
        try:
            found = _found(inner)
        except (ImportError, AttributeError):
            continue
        assert found is _found(outer), inner
        compared += 1
    assert compared > 200


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch.optim.optimizer.Optimizer", "torch.optim.Optimizer"),
        ("torch.nn.modules.loss.BCELoss", "torch.nn.BCELoss"),
        ("torch.optim.adam.adam", "torch.optim.adam.adam"),
        ("torch.nn.modules.batchnorm._BatchNorm", "torch.nn.modules.batchnorm._BatchNorm"),
        ("torch.amp.GradScaler", "torch.amp.GradScaler"),
        ("timm.optim.sgd.SGD", "timm.optim.sgd.SGD"),
    ],
)
def test_only_what_a_package_hands_on_has_another_name(name: str, expected: str) -> None:
    """The function ``torch.optim.adam.adam`` is not the module ``torch.optim.adam``."""
    assert public(name) == expected
