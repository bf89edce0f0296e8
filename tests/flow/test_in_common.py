"""Values of too many alternatives: what all of them have in common stays known."""

from __future__ import annotations

from dataclasses import replace

from amplint.events import Certainty, DType, Place
from amplint.findings import Span
from amplint.flow.models.torch.values import Tensor
from amplint.flow.state.atoms import is_true
from amplint.flow.state.conditions import asked, select
from amplint.flow.state.store import generalised
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
