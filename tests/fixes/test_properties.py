"""Programs put together from the fixtures, nested, commented and spelled at random: whatever is fixed in them
compiles, keeps its comments, stays within what the fixes claim, and needs no second run."""

from __future__ import annotations

import io
import os
import textwrap
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import amplint.fixing
from amplint.bounds import TORCH_DEFAULT
from amplint.check import Stdin
from amplint.config import Settings
from amplint.findings import Fix
from amplint.fixes import rounds
from amplint.fixes.edits import comments_of
from amplint.fixes.rounds import MOST_ROUNDS
from amplint.scope import text_alone

FIXTURES = Path(__file__).parents[2] / "fixtures"
EXAMPLES = int(os.environ.get("AMPLINT_EXAMPLES", "400"))
PARTS = 8
"""That many tests share the examples, each with a seed of its own."""
LONGEST = 30
"""Lines of a fixture that is used: many small programs find more than few large ones."""

NESTS = (
    "",
    "def build():\n",
    "if __name__:\n",
    "class Trainer:\n    def run(self):\n",
    "with open(__file__) as file:\n",
    "try:\n",
    "for epoch in range(2):\n",
)
HERE = Settings(root=FIXTURES, select=("ALL",), torch=TORCH_DEFAULT, torch_from="the tests")
VIEW = text_alone(Path("program.py"), HERE)


@cache
def pieces() -> list[str]:
    """The texts of the short fixtures; of those that are several files, none."""
    paths = sorted(FIXTURES.glob("*/bad_*.py")) + sorted(FIXTURES.glob("*/good_*.py"))
    texts = [path.read_text("utf-8") for path in paths if not path.name.endswith((".fixed.py", ".safe.py"))]
    return [text for text in texts if text.count("\n") <= LONGEST and "import *" not in text]


@st.composite
def programs(draw: st.DrawFn) -> bytes:
    text = draw(st.sampled_from(pieces()))
    nest = draw(st.sampled_from(NESTS))
    if nest and "__future__" not in text:
        text = nest + textwrap.indent(text, "    " * nest.count("\n"))
        text += "finally:\n    pass\n" if nest == "try:\n" else ""
    text = commented(text, draw(st.lists(st.integers(0, 60), max_size=6)))
    if draw(st.booleans()):
        text = tabbed(text)
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


def commented(text: str, places: list[int]) -> str:
    """The text with a comment of its own at the end of some lines that may have one."""
    lines = text.split("\n")
    ends = [
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type in (tokenize.NEWLINE, tokenize.NL) and token.start[0] <= len(lines)
    ]
    for number, place in enumerate(places):
        line = ends[place % len(ends)] - 1
        indent = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
        lines[line] += f"  # remark {number}" if lines[line].strip() else f"{indent}# remark {number}"
    return "\n".join(lines)


def tabbed(text: str) -> str:
    """The text with tabs for indentation, where no string begins a line with spaces."""
    lines = []
    for line in text.split("\n"):
        body = line.lstrip(" ")
        indent = len(line) - len(body)
        lines.append("\t" * (indent // 4) + " " * (indent % 4) + body)
    return "\n".join(lines)


@pytest.mark.parametrize("part", range(PARTS))
def test_fixes_keep_what_they_are_not_about(part: int) -> None:
    @seed(part)
    @settings(
        max_examples=EXAMPLES // PARTS,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(), st.booleans())
    def check(data: bytes, unsafe: bool) -> None:
        compile(data.decode("utf-8-sig"), "before", "exec")
        for _ in range(MOST_ROUNDS + 1):
            fixing = amplint.fixing.fix([VIEW], unsafe=unsafe, stdin=Stdin(Path("program.py"), data))
            assert fixing.result.crashes == ()
            assert fixing.skipped == {}
            assert fixing.unmade == ()
            assert fixing.source is not None
            if not fixing.changes:
                assert fixing.source == data
                return
            offered = {finding.fix for finding in fixing.fixed if finding.fix is not None}
            made = [fix for offer in offered if (fix := offer.chosen(unsafe)) is not None]
            check_one_round(data, fixing.source, made)
            data = fixing.source
        raise AssertionError("there is always something to fix")

    with patch.object(rounds, "MOST_ROUNDS", 1):  # claims then speak of the text that went in
        check()


def check_one_round(old: bytes, new: bytes, fixes: list[Fix]) -> None:
    assert new.startswith(b"\xef\xbb\xbf") is old.startswith(b"\xef\xbb\xbf")
    before, after = old.decode("utf-8-sig"), new.decode("utf-8-sig")
    compile(after, "after", "exec")
    assert comments_of(after) == kept_comments(before, fixes)
    assert ("\r\n" in after) is ("\r\n" in before)
    assert "\n" not in after.replace("\r\n", "") or "\r\n" not in after
    assert after.endswith("\n") is before.endswith("\n")
    gone = Counter(lines_of(before)) - Counter(lines_of(after))
    assert gone.keys() <= claimed_lines(before, fixes)


def kept_comments(before: str, fixes: list[Fix]) -> Counter[str]:
    """The comments of the text, but for those that fixes are about."""
    comments = comments_of(before)
    for made in fixes:
        for reworded in made.comments:
            comments[reworded.before] -= 1
            comments[reworded.after] += bool(reworded.after)
    return Counter({comment: count for comment, count in comments.items() if count})


def lines_of(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n")


def claimed_lines(before: str, fixes: list[Fix]) -> set[str]:
    """The lines of the text that fixes claim."""
    lines = lines_of(before)
    return {line for made in fixes for claim in made.claims for line in lines[claim.first - 1 : claim.last]}
