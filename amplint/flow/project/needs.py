"""Which settings decide whether something happens: ``loss == "bce"`` where that one of several losses is called."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable

from amplint.flow.project.settings import is_flag
from amplint.flow.state.conditions import Condition, asked, atoms, both, negation
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import FALSE, Constant

MOST = 3
"""So many are told."""

_Question = tuple[int, str, str]
"""How little it tells, the setting, and how code asks for it."""


def needed(conditions: Iterable[Condition]) -> tuple[str, ...]:
    """The answers about settings without which none of some conditions holds, as code would ask for them: those that
    choose one of several things first. Settings of different callers are the same if they have the same name; of two
    objects whose settings have one name and come out differently, neither is named."""
    questions = [_needed(condition) for condition in dict.fromkeys(conditions)]
    found = set[_Question].intersection(*questions) if questions else set()
    answers = Counter((rank, setting) for rank, setting, _ in found)
    plain = sorted((rank, text) for rank, setting, text in found if answers[rank, setting] == 1)
    return tuple(text for _, text in plain[:MOST])


def _needed(condition: Condition) -> set[_Question]:
    found: set[_Question] = set()
    for atom in atoms(condition):
        holds = asked(atom)
        for answer, otherwise in ((True, negation(holds)), (False, holds)):
            question = _question(atom, answer) if both(condition, otherwise) == FALSE else None
            if question is not None:
                found.add(question)
    return found


def _question(atom: Symbol, answer: bool) -> _Question | None:
    """How code asks an atom that comes out so, if it is about a setting."""
    setting = _name(atom.about) if atom.about is not None and is_flag(atom.about) else None
    if setting is None:
        return None
    match atom.parts[0], atom.parts[-1]:
        case "equals", Constant(value=value) if answer:
            return 0, setting, f"{setting} == {json.dumps(value) if isinstance(value, str) else repr(value)}"
        case "is true", _:
            return 1, setting, setting if answer else f"not {setting}"
        case "is None", _:
            return 2, setting, f"{setting} is {'None' if answer else 'not None'}"
    return None


def _name(of: Hashable) -> str | None:
    """What code calls a setting; None where it has no name of its own."""
    match of.parts if isinstance(of, Symbol) else ():
        case "self", *_:
            return "self"
        case (("parameter" | "global" | "member"), *_, str(name)):
            return name
        case "attribute", owner, str(name), *_:
            whole = _name(owner)
            return f"{whole}.{name}" if whole is not None else name
        case "item", owner, Constant(value=str(key)):
            whole = _name(owner)
            return f"{whole}[{json.dumps(key)}]" if whole is not None else None
        case "environment", str(name):
            return f"os.environ[{json.dumps(name)}]"
    return None
