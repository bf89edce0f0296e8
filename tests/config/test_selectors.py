from __future__ import annotations

import pytest

from amplint.selectors import codes_of, enabled_codes, selects, suggestion

NAMES = {
    "AMP101": "backward-in-autocast",
    "AMP102": "epoch-wide-autocast",
    "AMP201": "half-model",
    "AMP312": "x",
}
DEFAULT = ("AMP101", "AMP102", "AMP201")


@pytest.mark.parametrize(
    ("selector", "codes"),
    [
        ("AMP101", {"AMP101"}),
        ("amp101", {"AMP101"}),
        ("half-model", {"AMP201"}),
        ("AMP1", {"AMP101", "AMP102"}),
        ("AMP", set(NAMES)),
        ("ALL", set(NAMES)),
        ("A", set()),
        ("AMP1011", set()),
        ("half", set()),
        ("", set()),
        ("E501", set()),
    ],
)
def test_what_a_selector_means(selector: str, codes: set[str]) -> None:
    assert codes_of(selector, NAMES) == codes


@pytest.mark.parametrize(
    ("select", "extend", "ignore", "enabled"),
    [
        ([], [], [], DEFAULT),
        ([], ["AMP312"], [], NAMES),
        ([], ["ALL"], ["AMP1"], ["AMP201", "AMP312"]),
        ([], [], ["AMP1"], ["AMP201"]),
        ([], [], ["ALL"], []),
        (["AMP2"], [], [], ["AMP201"]),
        (["AMP2"], ["AMP101"], [], ["AMP101", "AMP201"]),
        (["AMP101"], [], ["AMP1"], ["AMP101"]),
        (["AMP1"], [], ["AMP101"], ["AMP102"]),
        (["ALL"], [], ["epoch-wide-autocast"], ["AMP101", "AMP201", "AMP312"]),
        (["AMP101"], [], ["backward-in-autocast"], []),
        (["AMP1", "AMP102"], [], ["AMP10"], ["AMP102"]),
    ],
)
def test_the_more_exact_selector_wins(
    select: list[str], extend: list[str], ignore: list[str], enabled: list[str]
) -> None:
    assert enabled_codes(NAMES, DEFAULT, select, extend, ignore) == set(enabled)


def test_selects_and_suggests() -> None:
    assert selects(["AMP2", "AMP10"], "AMP101", "backward-in-autocast")
    assert not selects([], "AMP101", "backward-in-autocast")
    assert suggestion("BACKWARD-IN-AUTOCATS", NAMES.values()) == ' (did you mean "backward-in-autocast"?)'
    assert suggestion("quite-else", NAMES.values()) == ""
