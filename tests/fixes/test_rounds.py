"""Rounds: what lies apart is fixed at once, the rest waits, and what goes wrong is taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from amplint.findings import Claim, Crash, Edit, Finding, Fix, Level, Reworded, Span, digest_of
from amplint.fixes.edits import Move, applied
from amplint.fixes.rounds import MOST_ROUNDS, Outcome, Rounds

Texts = dict[str, str]


@dataclass(frozen=True)
class Said:
    findings: tuple[Finding, ...]
    crashes: tuple[Crash, ...] = ()


def finding(path: str, text: str, line: int, fix: Fix | None = None, name: str = "half-model") -> Finding:
    return Finding("AMP201", name, Level.ERROR, "bad", path, Span(line, 1, line, 2), (), fix)


def fix_of(texts: Texts, *edits: Edit, claims: tuple[Claim, ...], **more: object) -> Fix:
    bases = tuple((path, digest_of(texts[path])) for path in sorted({edit.path for edit in edits}))
    return Fix("safe", "fix it", edits, claims, bases=bases, **more)  # type: ignore[arg-type]


def word(texts: Texts, path: str, number: int, old: str, new: str, *, wide: int = 0) -> Fix:
    """A fix that replaces a word in a line and claims so many more lines below."""
    lines = texts[path].splitlines(keepends=True)
    start = sum(map(len, lines[: number - 1])) + lines[number - 1].index(old)
    return fix_of(
        texts, Edit(path, start, start + len(old), new), claims=(Claim(path, number, number + wide),)
    )


def run(texts: Texts, judge: Callable[[Texts], list[Finding]]) -> Outcome:
    def lint(changed: Mapping[str, str]) -> Said:
        return Said(tuple(judge({**texts, **changed})))

    return Rounds(lint, texts.__getitem__, unsafe=False).run()


def by_word(old: str, new: str, *, wide: int = 0) -> Callable[[Texts], list[Finding]]:
    def judge(texts: Texts) -> list[Finding]:
        return [
            finding(path, text, number, word(texts, path, number, old, new, wide=wide))
            for path, text in texts.items()
            for number, line in enumerate(text.splitlines(), 1)
            if old in line
        ]

    return judge


def test_fixes_apart_are_made_in_one_round() -> None:
    outcome = run({"a.py": "bad\nbad\n", "b.py": "x\nbad\n"}, by_word("bad", "good"))
    assert outcome.texts == {"a.py": "good\ngood\n", "b.py": "x\ngood\n"}
    assert (outcome.rounds, len(outcome.fixed), outcome.failures) == (1, 3, [])


def test_fixes_that_claim_the_same_line_wait_for_each_other() -> None:
    outcome = run({"a.py": "bad\nbad\nbad\n"}, by_word("bad", "good", wide=1))
    assert outcome.texts == {"a.py": "good\ngood\ngood\n"}
    assert outcome.rounds == 2


def test_there_are_at_most_ten_rounds() -> None:
    outcome = run({"a.py": "bad\n" * 30}, by_word("bad", "good", wide=99))
    assert outcome.rounds == MOST_ROUNDS == 10
    assert outcome.texts["a.py"] == "good\n" * 10 + "bad\n" * 20


def test_the_same_edit_of_two_fixes_is_made_once_and_in_one_round() -> None:
    def judge(texts: Texts) -> list[Finding]:
        text = texts["a.py"]
        found = []
        for number, line in enumerate(text.splitlines(), 1):
            if "bad" in line:
                edit = word(texts, "a.py", number, "bad", "good").edits[0]
                imports = Edit("a.py", 0, 0, "import good\n")
                claims = (Claim("a.py", 1, 1), Claim("a.py", number, number))
                found.append(finding("a.py", text, number, fix_of(texts, imports, edit, claims=claims)))
        return found

    outcome = run({"a.py": "import x\nbad\n\nbad\n"}, judge)
    assert outcome.texts["a.py"] == "import good\nimport x\ngood\n\ngood\n"
    assert outcome.rounds == 1


BROKEN = {
    "it does not compile": "((",
    "the finding is still there": "worse",
    "it brings a new finding": "other",
}


@pytest.mark.parametrize("new", BROKEN.values(), ids=BROKEN.keys())
def test_a_bad_fix_is_found_among_many_and_taken_back(new: str) -> None:
    texts = {f"m{number}.py": "bad\nx\nbad\n" for number in range(5)} | {"z.py": "bad\nguilty\nbad\n"}

    def judge(texts: Texts) -> list[Finding]:
        found = by_word("bad", "good")(texts)
        for path, text in texts.items():
            for number, line in enumerate(text.splitlines(), 1):
                if line in ("guilty", "worse"):
                    found.append(finding(path, text, number, word(texts, path, number, line, new)))
                if line == "other":
                    found.append(finding(path, text, number, name="missing-float"))
                    found.append(finding(path, text, number, name="missing-float"))
        return found

    outcome = run(texts, judge)
    assert outcome.texts == {path: text.replace("bad", "good") for path, text in texts.items()}
    assert [(crash.path, crash.rule) for crash in outcome.failures] == [("z.py", "half-model")]


def test_a_finding_that_merely_moved_is_not_new() -> None:
    def judge(texts: Texts) -> list[Finding]:
        text = texts["a.py"]
        found = [finding("a.py", text, n) for n, line in enumerate(text.splitlines(), 1) if line == "stays"]
        if text.startswith("bad"):
            edit = Edit("a.py", 0, 4, "one\ntwo\nthree\n")
            found.append(finding("a.py", text, 1, fix_of(texts, edit, claims=(Claim("a.py", 1, 1),))))
        return found

    outcome = run({"a.py": "bad\nstays\n\nstays\n"}, judge)
    assert (outcome.texts["a.py"], outcome.failures) == ("one\ntwo\nthree\nstays\n\nstays\n", [])


def test_a_lost_comment_is_no_fix() -> None:
    outcome = run({"a.py": "bad  # why\n"}, by_word("bad  # why", "good"))
    assert outcome.texts == {}
    assert "has lost the comment '# why'" in outcome.failures[0].reason


def test_a_file_that_changed_since_it_was_linted_is_skipped() -> None:
    judge = by_word("bad", "good")
    rounds = Rounds(
        lambda changed: Said(tuple(judge({"a.py": "bad\n", "b.py": "bad\n"} | dict(changed)))),
        {"a.py": "bad\n# new\n", "b.py": "bad\n"}.__getitem__,
        unsafe=False,
    )
    outcome = rounds.run()
    assert outcome.texts == {"b.py": "good\n"}
    assert outcome.skipped == {"a.py": "it has changed on the disk since it was read"}


def test_without_unsafe_fixes_the_safe_minimum_is_made() -> None:
    def judge(texts: Texts) -> list[Finding]:
        if "bad" not in texts["a.py"]:
            return []
        minimum = word(texts, "a.py", 1, "bad", "fair")
        best = word(texts, "a.py", 1, "bad", "good")
        fix = Fix("unsafe", "fix it", best.edits, best.claims, "look", minimum, best.bases)
        return [finding("a.py", texts["a.py"], 1, fix)]

    def lint(changed: Mapping[str, str]) -> Said:
        return Said(tuple(judge({"a.py": "bad\n", **changed})))

    read = {"a.py": "bad\n"}.__getitem__
    assert Rounds(lint, read, unsafe=False).run().texts == {"a.py": "fair\n"}
    assert Rounds(lint, read, unsafe=True).run().texts == {"a.py": "good\n"}


def test_places_after_edits() -> None:
    text = "a\nbb\nccc\n"
    edits = [Edit("a.py", 0, 0, "x\n"), Edit("a.py", 2, 3, "y\ny")]
    assert applied(text, edits) == "x\na\ny\nyb\nccc\n"
    move = Move(text, edits)
    assert [move.line(1), move.line(2, 2), move.line(3)] == [2, 4, 5]


def test_a_comment_may_go_only_where_the_fix_is_about_it() -> None:
    def judge(texts: Texts) -> list[Finding]:
        text = texts["a.py"]
        found = []
        for comment in ("# one", "# two"):
            if comment in text:
                start = text.index(comment)
                line = text.count("\n", 0, start) + 1
                gone = Reworded("a.py", "# one", "")
                edits = [Edit("a.py", start, start + len(comment), "")]
                fix = fix_of(texts, *edits, claims=(Claim("a.py", line, line),), comments=(gone,))
                found.append(finding("a.py", text, line, fix))
        return found

    outcome = run({"a.py": "x  # one\ny  # two\n"}, judge)
    assert outcome.texts == {"a.py": "x  \ny  # two\n"}
    assert ["has lost the comment '# two'" in crash.reason for crash in outcome.failures] == [True]


@pytest.mark.parametrize(("left", "reasons"), [("", 0), ("# unused", 1)])
def test_a_suppression_that_is_still_unused_after_its_fix_is_told(left: str, reasons: int) -> None:
    """But not another one in the place of what was fixed."""

    def judge(texts: Texts) -> list[Finding]:
        text = texts["a.py"]
        if "#" not in text:
            return []
        start = text.index("#")
        message = "bad" if "unused" in text else "another"
        span = Span(1, start + 1, 1, start + 2)
        edit = Edit("a.py", start, len(text) - 1, left if "!" in text else "")
        old = text[start:-1]
        fix = fix_of(texts, edit, claims=(Claim("a.py", 1, 1),), comments=(Reworded("a.py", old, edit.text),))
        wanted = fix if "!" in text else None
        return [Finding("AMP901", "unused-suppression", Level.ADVICE, message, "a.py", span, (), wanted)]

    outcome = run({"a.py": "x  # unused!\n"}, judge)
    assert len(outcome.failures) == reasons
    assert all("the finding is still there" in crash.reason for crash in outcome.failures)


@pytest.mark.parametrize(("brings", "made"), [(frozenset({"old-name"}), True), (frozenset(), False)])
def test_a_fix_may_bring_a_finding_that_it_announces(brings: frozenset[str], made: bool) -> None:
    def judge(texts: Texts) -> list[Finding]:
        if "old" in texts["a.py"]:
            return [replace(finding("a.py", texts["a.py"], 1, name="old-name"), code="AMP501")]
        fix = fix_of(texts, Edit("a.py", 0, 3, "old"), claims=(Claim("a.py", 1, 1),), brings=brings)
        return [finding("a.py", texts["a.py"], 1, fix)]

    outcome = run({"a.py": "bad\n"}, judge)
    assert outcome.texts == ({"a.py": "old\n"} if made else {})
    assert len(outcome.failures) == (not made)
