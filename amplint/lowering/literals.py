"""The values of literals, as Python has them."""

from __future__ import annotations

import ast
import warnings

LARGEST = 2**512
"""Integers beyond it are no values: no float has them, nor twice as much as some of them, and no tensor."""


class NoValue(Exception):  # noqa: N818
    """A literal that has no value here: this interpreter refuses it, or the number is too large."""


def value_of(text: str) -> object:
    """The value of a number, a string or bytes, as written. Raises NoValue."""
    first = text[0]
    if first in "\"'" and "\\" not in text and "\r" not in text:
        return text[3:-3] if text[1:3] == first + first and len(text) > 2 else text[1:-1]
    if text.isascii() and text.isdigit() and len(text) < 20 and first != "0":
        return int(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes: not ours to tell
            value: object = ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise NoValue from error
    if is_too_large(value):
        raise NoValue
    return value


def is_too_large(value: object) -> bool:
    """Whether a value is an integer with which other numbers cannot be worked out."""
    return isinstance(value, int) and abs(value) > LARGEST


def text_between_fields(text: str, start: str) -> str:
    """The value of the text between the fields of an f-string that begins with ``start``, prefix and quotes. Raises
    NoValue."""
    prefix = start.rstrip("\"'")
    quotes = start[len(prefix) :]
    text = text.replace("{{", "{").replace("}}", "}")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\\" not in text or "r" in prefix.lower():
        return text
    if (len(text) - len(text.rstrip("\\"))) % 2:
        text += "\\"  # ``\{x}``: an escape that is none stays as it is
    value = value_of(f"{quotes}{text}{quotes}")
    if not isinstance(value, str):
        raise NoValue
    return value
