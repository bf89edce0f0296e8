"""Who scaled a loss, and which names stand for one object."""

from __future__ import annotations

import pytest

from amplint.flow.models.torch.identities import identity_of
from amplint.flow.models.torch.losses import MAYBE_SCALED, scaled, scaled_by
from amplint.flow.models.torch.values import Optimizer, ScaledLoss
from amplint.flow.state.atoms import is_true
from amplint.flow.state.conditions import choice
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import Sequence, Unknown, Value

LOSS = Unknown(symbol("loss"))
ONE, OTHER = symbol("one scaler"), symbol("another scaler")
FLAG = is_true(symbol("flag"))


@pytest.mark.parametrize(
    ("value", "by", "unclear"),
    [
        (None, (), False),
        (LOSS, (), False),
        (Unknown(symbol("wrapped"), MAYBE_SCALED), (), True),
        (ScaledLoss(ONE, LOSS), (ONE,), False),
        (ScaledLoss(ONE, ScaledLoss(OTHER, LOSS)), (ONE, OTHER), False),
        (ScaledLoss(None, ScaledLoss(ONE, LOSS)), (ONE,), True),
        (Sequence((ScaledLoss(ONE, LOSS), LOSS)), (ONE,), False),
        (Sequence((ScaledLoss(ONE, LOSS),), exact=False), (ONE,), True),
        (choice(FLAG, ScaledLoss(ONE, LOSS), ScaledLoss(OTHER, LOSS)), (ONE, OTHER), False),
    ],
)
def test_who_scaled_a_loss(value: Value | None, by: tuple[object, ...], unclear: bool) -> None:
    scalers, hidden = scaled_by(value)
    assert (set(scalers), hidden) == (set(by), unclear)


def test_each_loss_of_a_list_is_scaled_whichever_it_is() -> None:
    found = scaled(ONE, Sequence((LOSS, choice(FLAG, LOSS, Unknown(symbol("penalty"))))))
    assert isinstance(found, Sequence)
    assert found.items[0] == ScaledLoss(ONE, LOSS)
    assert found.items[1] == choice(FLAG, ScaledLoss(ONE, LOSS), ScaledLoss(ONE, Unknown(symbol("penalty"))))


def test_an_optimizer_out_of_an_unknown_collection_has_no_name() -> None:
    optimizer = Optimizer(symbol("made", "here"))
    assert identity_of(optimizer) is optimizer.identity
    assert identity_of(optimizer.another()) is None
    assert identity_of(Unknown(symbol("attribute", symbol("one of many", symbol("at")), "inner"))) is None
    assert identity_of(None) is None
