"""Which rules a selection means: names, codes, prefixes of codes, and ALL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

ALL = "ALL"


def codes_of(selector: str, names: Mapping[str, str]) -> frozenset[str]:
    """The codes that a selector stands for; none if it is unknown. ``names`` maps codes to names."""
    return frozenset(code for code, name in names.items() if _weight(selector, code, name))


def selects(selectors: Iterable[str], code: str, name: str) -> bool:
    """Whether one of the selectors stands for the rule."""
    return any(_weight(selector, code, name) for selector in selectors)


def enabled_codes(
    names: Mapping[str, str],
    default: Iterable[str],
    select: Sequence[str],
    extend_select: Sequence[str],
    ignore: Sequence[str],
) -> frozenset[str]:
    """The codes of the rules to run. The more exact selector wins, so ``--select AMP101 --ignore AMP1``
    leaves AMP101 on; of two equally exact ones, the one that ignores. Without ``select`` the default rules
    are on."""
    default = frozenset(default)
    enabled = set()
    for code, name in names.items():
        wanted = _strongest(select, code, name) if select else int(code in default)
        wanted = max(wanted, _strongest(extend_select, code, name))
        if wanted > _strongest(ignore, code, name):
            enabled.add(code)
    return frozenset(enabled)


def suggestion(word: str, known: Iterable[str]) -> str:
    """`` (did you mean "…"?)`` or nothing."""
    import difflib

    candidates = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(word.lower(), candidates, n=1, cutoff=0.6)
    close = close or [candidate for candidate in candidates if word and word.lower() in candidate]
    return f' (did you mean "{candidates[close[0]]}"?)' if close else ""


def _strongest(selectors: Iterable[str], code: str, name: str) -> int:
    return max((_weight(selector, code, name) for selector in selectors), default=0)


@lru_cache(maxsize=4096)
def _weight(selector: str, code: str, name: str) -> int:
    """0 if the selector does not stand for the rule, else the more the more exactly it does: ALL, AMP, AMP1
    …"""
    if selector.upper() == ALL:
        return 1
    if selector.lower() == name:
        return len(code) + 1
    wanted = selector.upper()
    if wanted.startswith("AMP") and code.startswith(wanted):
        return len(wanted) if wanted != code else len(code) + 1
    return 0
