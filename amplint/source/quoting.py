"""How code is quoted: on one line, without comments, not too long."""

from __future__ import annotations

import io
import tokenize

_LONGEST = 60


def on_one_line(code: str) -> str:
    """Code of one or more lines as messages quote it: ``on_one_line("f(  # why\\n    x)")`` is ``"f( x)"``."""
    if "#" in code and "\n" in code:
        code = _without_comments(code)
    text = " ".join(code.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _without_comments(code: str) -> str:
    lines = code.splitlines()
    try:
        # in parentheses line ends and indents mean nothing
        for token in tokenize.generate_tokens(io.StringIO(f"({code}\n)").readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][: column - (row == 1)]
    except (tokenize.TokenError, SyntaxError, IndexError):
        return code
    return "\n".join(lines)
