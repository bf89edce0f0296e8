"""Tells syntax of a newer Python from what no Python can parse.

LibCST's parser does not depend on the Python that runs it: it knows ``type X = int`` of 3.12 under 3.10, too. It also
takes what no Python does, but that is hardly what a file fails for.
"""

from __future__ import annotations

import io
import tokenize

import libcst as cst

from amplint.source.nesting import LIMIT


def is_for_a_newer_python(text: str) -> bool:
    """Whether code that the Python which runs amplint cannot parse may be for a newer one:
    ``is_for_a_newer_python("type X = int\\n")`` under Python 3.11."""
    if not _is_flat(text):
        return False
    try:
        cst.parse_module(text)
    except (cst.ParserSyntaxError, cst.CSTValidationError, RecursionError):
        return False
    return True


def _is_flat(text: str) -> bool:
    """Whether code is surely nested no more deeply than LibCST can parse: each level takes two tokens of a line, or an
    ``elif``. Blocks are no matter, Python allows 100 of them in each other."""
    tokens = branches = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            tokens = 0 if token.type == tokenize.NEWLINE else tokens + 1
            branches += token.string == "elif"
            if tokens > 2 * LIMIT or branches > LIMIT:
                return False
    except (tokenize.TokenError, SyntaxError):
        return False
    return True
