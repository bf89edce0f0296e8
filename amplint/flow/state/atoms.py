"""Atoms: what conditions ask about unknowns, and which answers follow from each other."""

from __future__ import annotations

from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import NONE, ClassValue, Constant, External, Unknown, Value


def is_true(of: Symbol) -> Symbol:
    """The atom "it is true", for ``if x``."""
    return symbol("is true", of)


OF_DATA = "of data"
"""How the names begin of data of which nothing is known, such as whether two shapes are the same."""


def is_about_data(atom: Symbol) -> bool:
    """Whether an atom is one of ``Machine.truth_of_data``, which nobody asks for again."""
    of = atom.parts[-1]
    return atom.parts[0] == "is true" and isinstance(of, Symbol) and of.parts[0] == OF_DATA


def is_none(of: Symbol) -> Symbol:
    """The atom "it is None", for ``x is None``."""
    return symbol("is None", of)


def equals(of: Symbol, constant: Value) -> Symbol:
    """The atom "it equals this constant", for ``x == "fp16"``."""
    return is_none(of) if constant == NONE else symbol("equals", of, constant)


def is_instance(of: Symbol, kind: Value) -> Unknown:
    """What ``isinstance(x, kind)`` gives where nothing is known of ``x``."""
    match kind:
        case ClassValue(file=file, outline=outline):
            return Unknown(symbol("isinstance", of, file.display, outline.qualified, outline.line))
        case External(name=name):
            return Unknown(symbol("isinstance", of, symbol("external", name)))
    return Unknown(symbol("isinstance", of, type(kind).__name__))


def subject_of(atom: Symbol) -> Symbol:
    """What an atom asks for: the answers to questions about the same unknown may follow from each other."""
    return atom.about or atom


def follows(atom: Symbol, other: Symbol, truth: bool) -> bool | None:
    """The outcome of an atom where another one about the same unknown came out as ``truth``, or None: what equals "a"
    does not equal "b", is not None, and is true."""
    kind = atom.parts[0]
    match other.parts[0], truth:
        case "equals", True:
            constant = other.parts[2]
            if kind != "is true":
                return False
            return bool(constant.value) if isinstance(constant, Constant) else None
        case "is None", True:
            return False
        case "is true", True:
            if kind == "is None":
                return False
            constant = atom.parts[2] if kind == "equals" else None
            return False if isinstance(constant, Constant) and not constant.value else None
        case "is true", False:
            constant = atom.parts[2] if kind == "equals" else None
            return False if isinstance(constant, Constant) and constant.value else None
    return None
