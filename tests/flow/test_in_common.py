"""Values of too many alternatives: what all of them have in common stays known."""

from __future__ import annotations

from dataclasses import replace

from amplint.events import Certainty, DType, Place
from amplint.findings import Span
from amplint.flow.models.torch.losses import scaled_by
from amplint.flow.models.torch.values import ScaledLoss, Tensor
from amplint.flow.state.atoms import is_true
from amplint.flow.state.conditions import asked, leaves, select
from amplint.flow.state.store import generalised, merged
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import Unknown, Value

PLACE = Place("a.py", ("a.py", 1), lambda: Span(1, 1, 1, 2), lambda: "")
HALF = Tensor(DType.BFLOAT16, trait="product")


def one_for(*values: Value) -> Value:
    """One value in place of several, each of which a flag chooses."""
    found = values[0]
    for index, value in enumerate(values[1:]):
        found = select(asked(is_true(symbol("in common", index))), value, found)
    return generalised(found)


ALIKE = [replace(HALF, element=(index,)) for index in range(4)]


def test_tensors_of_one_type_stay_one() -> None:
    assert one_for(*ALIKE) == HALF


def test_they_are_as_sure_as_the_least_sure() -> None:
    for likely in (replace(HALF, certainty=Certainty.LIKELY), replace(ALIKE[2], certainty=Certainty.LIKELY)):
        for order in ([likely, *ALIKE], [*ALIKE, likely]):
            assert one_for(*order) == replace(HALF, certainty=Certainty.LIKELY)


def test_with_another_type_nothing_is_known() -> None:
    for other in (Tensor(DType.FLOAT32), Unknown(symbol("in common", "x")), replace(HALF, raised=PLACE)):
        assert isinstance(one_for(other, *ALIKE), Unknown)
        assert isinstance(one_for(*ALIKE, other), Unknown)


SCALER, OTHER = symbol("in common", "scaler"), symbol("in common", "another")


def test_losses_that_one_scaler_scaled_are_scaled_by_it() -> None:
    assert one_for(ScaledLoss(SCALER, HALF), *(ScaledLoss(SCALER, one) for one in ALIKE)) == ScaledLoss(
        SCALER, HALF
    )
    unlike = one_for(ScaledLoss(SCALER, HALF), ScaledLoss(SCALER, Unknown(symbol("in common", "x"))))
    assert scaled_by(unlike) == ((SCALER,), False)


def test_losses_of_two_scalers_or_of_none_may_be_scaled() -> None:
    for other in (ScaledLoss(OTHER, HALF), HALF, Unknown(symbol("in common", "x"))):
        lost = one_for(ScaledLoss(SCALER, HALF), other)
        assert scaled_by(lost) == ((), True)
        assert isinstance(lost, Unknown)
        assert scaled_by(Unknown(symbol("computed", "/", lost.symbol, symbol("in common", "y")))) == (
            (),
            True,
        )


def test_alternatives_that_are_alike_are_one() -> None:
    data = [Unknown(symbol("in common", name)) for name in "xyz"]
    scaled = [ScaledLoss(SCALER, one) for one in data]
    found = data[0]
    for index, value in enumerate([*scaled, *data[1:]]):
        found = select(asked(is_true(symbol("in common", index))), value, found)
    kept = set(leaves(merged(found)))
    assert len(kept) == 2
    assert {scaled_by(one) for one in kept} == {((SCALER,), False), ((), False)}
