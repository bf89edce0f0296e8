"""Mutants of Python source: what a slip of the keyboard, a bad merge or a foreign editor may make of a file, and what
keeps it a program with another meaning. Each is a function of a random generator and of texts alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from random import Random

_TOKEN = re.compile(
    r"""[^\W\d]\w* | \d[\w.]* | '''(?:.|\n)*?''' | \"\"\"(?:.|\n)*?\"\"\" | '[^'\n]*' | "[^"\n]*" | \#[^\n]* |
    \n | [ \t\f]+ | [-+*/%@&|^<>=!:]=? | .""",
    re.VERBOSE,
)
_NAME = re.compile(r"[^\W\d]\w*")
_STRING = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")
_NAMES = ("größe", "𝔩𝔬𝔰𝔰", "ﬁt", "名前", "x̂", "ªº", "ʰalf", "Ⅷ", "_", "__class__", "ı", "ſcaler")  # noqa: RUF001
"""Identifiers that are not ASCII, some of which Python reads as other ones (NFKC)."""
_ODD = (
    "\u202e", "\x00", "\x0c", "\x85", "\u2028", "\ufeff", "\U0001f600", "\\N{DIGIT ONE}", "\\x", "\\u12", "\\\n", "{",
    "}", "{x!r:>{y}}", "\x1b[31m", "\ud800", "%s", "\\", "\t", "é", "e\u0301", "\r", "# amplint: ignore[", "\x7f",
)  # fmt: skip
_TOKENS = (
    "await", "yield", "lambda", ":=", "->", "*", "**", "...", "async", "else", "elif", "finally", "match", "case _:",
    "global loss", "nonlocal scaler", "return", "del", "(", ")", "[", "]", "{", "}", ",", ":", ";", "@", "not", "None",
    "autocast", "GradScaler()", "torch", "self", "super()", "f'{", "b''", "0", "1e999", "1_0", "0x", "type", "import *",
)  # fmt: skip

Mutation = Callable[[Random, str, str], str]
"""From a generator, the text and the text of another file to a changed text."""


def mutant(random: Random, text: str, other: str) -> tuple[bytes, list[str]]:
    """The bytes of a mutant, and the names of the mutations, in their order."""
    made = []
    for _ in range(random.choice((1, 1, 1, 1, 2, 2, 3))):
        mutation = random.choice(_MUTATIONS)
        try:
            text = mutation(random, text, other)
        except (SyntaxError, ValueError, RecursionError):
            continue  # what asks for a tree, of a text that has none any more
        made.append(mutation.__name__)
    data = text.encode("utf-8", "surrogatepass")
    if random.random() < 0.15:
        change = random.choice(_OF_BYTES)
        data = change(random, data)
        made.append(change.__name__)
    return data, made


def delete_token(random: Random, text: str, other: str) -> str:
    """Without one token."""
    return _at_token(random, text, lambda token: "")


def double_token(random: Random, text: str, other: str) -> str:
    """With one token twice."""
    return _at_token(random, text, lambda token: token + " " + token)


def replace_token(random: Random, text: str, other: str) -> str:
    """With another token in the place of one."""
    return _at_token(random, text, lambda token: random.choice(_TOKENS))


def swap_tokens(random: Random, text: str, other: str) -> str:
    """With two tokens that stand near each other the other way round."""
    tokens = _TOKEN.findall(text)
    solid = [place for place, token in enumerate(tokens) if not token.isspace()]
    if len(solid) < 2:
        return text
    nth = random.randrange(len(solid) - 1)
    one, two = solid[nth], solid[min(nth + random.randint(1, 6), len(solid) - 1)]
    tokens[one], tokens[two] = tokens[two], tokens[one]
    return "".join(tokens)


def replace_name(random: Random, text: str, other: str) -> str:
    """With another name of the file in the place of one: mostly still a program."""
    names = list(_NAME.finditer(text))
    if not names:
        return text
    place = random.choice(names)
    return text[: place.start()] + random.choice(names).group() + text[place.end() :]


def rename(random: Random, text: str, other: str) -> str:
    """With one name, or all its occurrences, in other scripts."""
    names = list(_NAME.finditer(text))
    if not names:
        return text
    place, new = random.choice(names), random.choice(_NAMES)
    if random.random() < 0.7:
        return re.sub(rf"\b{re.escape(place.group())}\b", new, text)
    return text[: place.start()] + new + text[place.end() :]


def odd_string(random: Random, text: str, other: str) -> str:
    """With an odd character in a string, or anywhere."""
    strings = list(_STRING.finditer(text))
    if strings and random.random() < 0.8:
        found = random.choice(strings)
        place = random.randint(found.start() + 1, found.end() - 1)
    else:
        place = random.randint(0, len(text))
    return text[:place] + random.choice(_ODD) + text[place:]


def delete_lines(random: Random, text: str, other: str) -> str:
    """Without some lines."""
    lines = text.splitlines(keepends=True)
    first, last = _stretch(random, lines)
    return "".join(lines[:first] + lines[last:])


def double_lines(random: Random, text: str, other: str) -> str:
    """With some lines twice."""
    lines = text.splitlines(keepends=True)
    first, last = _stretch(random, lines)
    return "".join(lines[:last] + lines[first:])


def move_lines(random: Random, text: str, other: str) -> str:
    """With some lines elsewhere."""
    lines = text.splitlines(keepends=True)
    first, last = _stretch(random, lines)
    rest = lines[:first] + lines[last:]
    place = random.randint(0, len(rest))
    return "".join(rest[:place] + lines[first:last] + rest[place:])


def indent_lines(random: Random, text: str, other: str) -> str:
    """With some lines further in or out."""
    lines = text.splitlines(keepends=True)
    first, last = _stretch(random, lines)
    by = random.choice((4, 4, -4, -4, 1, -1, 8))
    for number in range(first, last):
        line = lines[number]
        lines[number] = " " * by + line if by > 0 else line[min(-by, len(line) - len(line.lstrip(" "))) :]
    return "".join(lines)


def delete_statement(random: Random, text: str, other: str) -> str:
    """With ``pass`` in the place of a statement: still a program."""
    return _at_statement(random, text, lambda lines, indent: [f"{indent}pass\n"])


def double_statement(random: Random, text: str, other: str) -> str:
    """With a statement twice."""
    return _at_statement(random, text, lambda lines, indent: [*lines, *lines])


def wrap_statement(random: Random, text: str, other: str) -> str:
    """With a statement in a block: a region, a loop, a handler, a function."""
    heads = (
        "with torch.autocast('cuda'):", "while True:", "for _ in range(3):", "if flag:", "with scaler as x, y:",
        "def inner():", "async def inner():", "class Inner:", "match x:\n{}    case [1, *rest]:",
        "with torch.autocast('cuda', enabled=False), open(f) as g:", "with torch.cuda.amp.autocast(True):",
    )  # fmt: skip
    head = random.choice(heads)

    def wrapped(lines: list[str], indent: str) -> list[str]:
        deeper = "    " * (2 if "match" in head else 1)
        return [f"{indent}{head.format(indent)}\n", *(deeper + line for line in lines)]

    return _at_statement(random, text, wrapped)


def swap_expressions(random: Random, text: str, other: str) -> str:
    """With another expression of the file in the place of one: still a program."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr)]
    lines = text.splitlines(keepends=True)
    if len(found) < 2:
        return text
    one, two = random.choice(found), random.choice(found)
    new = ast.get_source_segment(text, two)
    if new is None or one.end_lineno is None or one.end_col_offset is None or not text.isascii():
        return text
    before = "".join(lines[: one.lineno - 1]) + lines[one.lineno - 1][: one.col_offset]
    after = lines[one.end_lineno - 1][one.end_col_offset :] + "".join(lines[one.end_lineno :])
    return f"{before}({new}){after}"


def splice(random: Random, text: str, other: str) -> str:
    """With a block of another file."""
    lines, foreign = text.splitlines(keepends=True), other.splitlines(keepends=True)
    first, last = _stretch(random, foreign, most=40)
    place = random.randint(0, len(lines))
    block = foreign[first:last]
    if place < len(lines) and random.random() < 0.7:
        block = _indented(block, lines[place][: len(lines[place]) - len(lines[place].lstrip())])
    return "".join(lines[:place] + block + lines[place:])


def truncate(random: Random, text: str, other: str) -> str:
    """The beginning of the text, or its end."""
    place = random.randint(0, len(text))
    return text[place:] if random.random() < 0.2 else text[:place]


def repeat(random: Random, text: str, other: str) -> str:
    """With one token very often."""
    many = random.choice((3, 30, 300))
    return _at_token(random, text, lambda token: token * many)


def windows_lines(random: Random, data: bytes) -> bytes:
    r"""With ``\r\n``."""
    return data.replace(b"\n", b"\r\n")


def old_mac_lines(random: Random, data: bytes) -> bytes:
    r"""With ``\r``."""
    return data.replace(b"\n", b"\r")


def mixed_lines(random: Random, data: bytes) -> bytes:
    """With all kinds of line ends."""
    return b"".join(
        line + random.choice((b"\n", b"\r\n", b"\r", b"\n", b"\n\x0c")) for line in data.split(b"\n")
    )


def tabs(random: Random, data: bytes) -> bytes:
    """With tabs for blanks, everywhere or here and there."""
    often = random.choice((1.0, 0.1))
    return b"\n".join(
        line.replace(b"    ", b"\t") if random.random() < often else line for line in data.split(b"\n")
    )


def marked(random: Random, data: bytes) -> bytes:
    """With a byte order mark, a form feed or both before it."""
    return (
        random.choice((b"\xef\xbb\xbf", b"\x0c", b"\xef\xbb\xbf\x0c", b"\xff\xfe", b"\xef\xbb\xbf" * 2))
        + data
    )


def declared(random: Random, data: bytes) -> bytes:
    """With a coding line, true or not."""
    coding = random.choice(
        (b"latin-1", b"utf-8", b"ascii", b"utf-16", b"cp1252", b"utf-7", b"rot13", b"shift_jis")
    )
    return b"# -*- coding: " + coding + b" -*-\n" + data


def flipped(random: Random, data: bytes) -> bytes:
    """With a few bytes changed."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _at_token(random: Random, text: str, change: Callable[[str], str]) -> str:
    places = [found for found in _TOKEN.finditer(text) if not found.group().isspace()]
    if not places:
        return text
    place = random.choice(places)
    return text[: place.start()] + change(place.group()) + text[place.end() :]


def _at_statement(random: Random, text: str, change: Callable[[list[str], str], list[str]]) -> str:
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    lines = text.splitlines(keepends=True)
    if not found or text.count("\n") < len(lines) - 1:
        return text  # lines that ast does not count as such
    node = random.choice(found)
    first, last = node.lineno - 1, node.end_lineno or node.lineno
    if not lines[last - 1].endswith("\n"):
        lines[last - 1] += "\n"
    return "".join(lines[:first] + change(lines[first:last], " " * node.col_offset) + lines[last:])


def _stretch(random: Random, lines: Sequence[str], most: int = 8) -> tuple[int, int]:
    first = random.randint(0, max(len(lines) - 1, 0))
    return first, min(first + random.randint(1, most), len(lines))


def _indented(block: list[str], indent: str) -> list[str]:
    solid = [len(line) - len(line.lstrip()) for line in block if line.strip()]
    least = min(solid, default=0)
    return [indent + line[least:] if line.strip() else line for line in block]


_MUTATIONS: tuple[Mutation, ...] = (
    delete_token, double_token, replace_token, swap_tokens, repeat, rename, rename, odd_string, odd_string,
    delete_lines, double_lines, move_lines, indent_lines, indent_lines, splice, splice, truncate, replace_name,
    replace_name, replace_name, delete_statement, delete_statement, double_statement, wrap_statement, wrap_statement,
    swap_expressions, swap_expressions, swap_expressions,
)  # fmt: skip
"""Those that leave a program stand here more often: what does not compile is done at once."""
_OF_BYTES = (windows_lines, windows_lines, old_mac_lines, mixed_lines, tabs, marked, declared, flipped)
