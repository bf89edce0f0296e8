"""Rounds: what lies apart is fixed at once, the rest waits, and what goes wrong is taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from amplint.findings import Claim, Crash, Edit, Finding, Fix, Level, Reworded, Span, TrailStep, digest_of
from amplint.fixes.edits import Move, applied
from amplint.fixes.rounds import MOST_ROUNDS, Outcome, Rounds

Texts = dict[str, str]


@dataclass(frozen=True)
class Said:
    findings: tuple[Finding, ...]
    crashes: tuple[Crash, ...] = ()
    known: tuple[Finding, ...] = ()


def finding(path: str, text: str, line: int, fix: Fix | None = None, name: str = "half-model") -> Finding:
    code = "AMP201" if name == "half-model" else "AMP203"
    return Finding(code, name, Level.ERROR, "bad", path, Span(line, 1, line, 2), (), fix)


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
    assert (outcome.rounds, len(outcome.fixed), outcome.refused) == (1, 3, [])


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


def bad_or_guilty(new: str) -> Callable[[Texts], list[Finding]]:
    """What is bad becomes good; what is guilty becomes something new, which may be other and bring findings."""

    def judge(texts: Texts) -> list[Finding]:
        found = by_word("bad", "good")(texts)
        for path, text in texts.items():
            for number, line in enumerate(text.splitlines(), 1):
                if line in ("guilty", "worse"):
                    found.append(finding(path, text, number, word(texts, path, number, line, new)))
                if line == "other":
                    found.append(finding(path, text, number, name="missing-float"))
                    found.append(finding(path, text, number, name="missing-float"))
                if line == "far":
                    found.append(finding("m8.py", texts["m8.py"], 1, name="missing-float"))
        return found

    return judge


class Counted:
    """Lints and counts how often; ``meanwhile`` is called after each time with that number."""

    def __init__(
        self,
        texts: Texts,
        judge: Callable[[Texts], list[Finding]],
        meanwhile: Callable[[int], None] = lambda lints: None,
    ) -> None:
        self.texts = texts
        self.judge = judge
        self.meanwhile = meanwhile
        self.lints = 0

    def __call__(self, changed: Mapping[str, str]) -> Said:
        self.lints += 1
        said = Said(tuple(self.judge({**self.texts, **changed})))
        self.meanwhile(self.lints)
        return said


BROKEN = {
    "it does not compile": "((",
    "the finding is still there": "worse",
    "it brings a new finding": "other",
}


@pytest.mark.parametrize("new", BROKEN.values(), ids=BROKEN.keys())
def test_a_bad_fix_is_found_among_many_and_taken_back(new: str) -> None:
    texts = {f"m{number}.py": "bad\nx\nbad\n" for number in range(5)} | {"z.py": "bad\nguilty\nbad\n"}
    outcome = run(texts, bad_or_guilty(new))
    assert outcome.texts == {path: text.replace("bad", "good") for path, text in texts.items()}
    assert [(found.path, found.name) for found, _ in outcome.refused] == [("z.py", "half-model")]


@pytest.mark.parametrize("new", BROKEN.values(), ids=BROKEN.keys())
def test_a_bad_fix_costs_at_most_one_lint_more(new: str) -> None:
    texts = {f"m{number}.py": "bad\nx\nbad\n" for number in range(300)} | {"z.py": "bad\nguilty\nbad\n"}
    counted = Counted(texts, bad_or_guilty(new))
    outcome = Rounds(counted, texts.__getitem__, unsafe=False).run()
    assert len(outcome.refused) == 1
    assert len(outcome.fixed) == 602
    assert counted.lints <= 3  # the first, one round, and that round without the guilty one


def test_new_advice_is_no_reason_to_take_a_fix_back() -> None:
    def judge(texts: Texts) -> list[Finding]:
        brought = replace(finding("a.py", texts["a.py"], 1, name="missing-float"), level=Level.ADVICE)
        return by_word("bad", "good")(texts) + [brought] * (texts["a.py"] == "good\n")

    outcome = run({"a.py": "bad\n"}, judge)
    assert (outcome.texts, outcome.refused) == ({"a.py": "good\n"}, [])
    assert [one.level for one in outcome.last.findings] == [Level.ADVICE]


@pytest.mark.parametrize(
    ("column", "trail", "made"),
    [(10, (), True), (1, (), False), (10, (Span(1, 1, 1, 5),), False)],
    ids=["uncovered beside it", "where it was", "led there by what was fixed"],
)
def test_what_a_rule_says_next_is_uncovered_unless_the_fix_wrote_it(
    column: int, trail: tuple[Span, ...], made: bool
) -> None:
    def judge(texts: Texts) -> list[Finding]:
        found = by_word("bad", "good")(texts)
        if not found and texts["a.py"] == "good     use\n":
            steps = tuple(TrailStep("a.py", span, "made here") for span in trail)
            place = Span(1, column, 1, column + 3)
            found.append(replace(finding("a.py", texts["a.py"], 1), span=place, trail=steps))
        return found

    outcome = run({"a.py": "bad     use\n"}, judge)
    assert bool(outcome.texts) is made
    assert len(outcome.refused) == (not made)


def test_a_fix_is_to_blame_for_what_its_lines_lead_to_in_another_file() -> None:
    texts = {"a.py": "bad\n", "b.py": "bad\nbad\n", "c.py": "x\n"}

    def judge(texts: Texts) -> list[Finding]:
        found = by_word("bad", "good")(texts)
        if texts["b.py"].startswith("good\n"):
            steps = (TrailStep("b.py", Span(1, 1, 1, 5), "made here"),)
            found.append(replace(finding("c.py", "", 1, name="missing-float"), trail=steps))
        return found

    outcome = run(texts, judge)
    assert outcome.texts == {"a.py": "good\n", "b.py": "bad\ngood\n"}
    assert [(found.path, found.span.line) for found, _ in outcome.refused] == [("b.py", 1)]
    assert [note.partition(" was not made: ")[0] for note in outcome.notes.values()] == ['"fix it"']


@pytest.mark.parametrize("when", [1, 2], ids=["while it is read", "while the fixes are linted"])
@pytest.mark.parametrize("new", ["bad\nbad\nother\n", "other\nother\n", "far\n", ""])
def test_a_file_that_changes_meanwhile_costs_at_most_as_many_lints_again(new: str, when: int) -> None:
    """And is left out and named; all others are fixed."""
    texts = {f"m{number}.py": "bad\n" for number in range(300)}
    smooth = Counted(texts, bad_or_guilty("good"))
    Rounds(smooth, texts.__getitem__, unsafe=False).run()
    now = dict(texts)

    def meanwhile(lints: int) -> None:
        if lints == when:
            now["m7.py"] = new

    counted = Counted(now, bad_or_guilty("good"), meanwhile)
    read = texts if when > 1 else now
    outcome = Rounds(
        counted,
        read.__getitem__,
        unsafe=False,
        unsteady=lambda: {path: "changed" for path in texts if now[path] != texts[path]},
    ).run()
    assert counted.lints <= 2 * smooth.lints
    assert outcome.refused == []
    assert outcome.skipped.keys() == {"m7.py"}
    assert outcome.texts == {path: "good\n" for path in texts if path != "m7.py"}


def test_a_finding_that_merely_moved_is_not_new() -> None:
    def judge(texts: Texts) -> list[Finding]:
        text = texts["a.py"]
        found = [finding("a.py", text, n) for n, line in enumerate(text.splitlines(), 1) if line == "stays"]
        if text.startswith("bad"):
            edit = Edit("a.py", 0, 4, "one\ntwo\nthree\n")
            found.append(finding("a.py", text, 1, fix_of(texts, edit, claims=(Claim("a.py", 1, 1),))))
        return found

    outcome = run({"a.py": "bad\nstays\n\nstays\n"}, judge)
    assert (outcome.texts["a.py"], outcome.refused) == ("one\ntwo\nthree\nstays\n\nstays\n", [])


def test_a_lost_comment_is_no_fix() -> None:
    outcome = run({"a.py": "bad  # why\n"}, by_word("bad  # why", "good"))
    assert outcome.texts == {}
    assert "has lost the comment '# why'" in outcome.refused[0][1]


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
    assert ["has lost the comment '# two'" in reason for _, reason in outcome.refused] == [True]


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
    assert len(outcome.refused) == reasons
    assert all("the finding is still there" in reason for _, reason in outcome.refused)


@pytest.mark.parametrize(("brings", "made"), [(frozenset({"old-name"}), True), (frozenset(), False)])
def test_a_fix_may_bring_a_finding_that_it_announces(brings: frozenset[str], made: bool) -> None:
    def judge(texts: Texts) -> list[Finding]:
        if "old" in texts["a.py"]:
            return [replace(finding("a.py", texts["a.py"], 1, name="old-name"), code="AMP501")]
        fix = fix_of(texts, Edit("a.py", 0, 3, "old"), claims=(Claim("a.py", 1, 1),), brings=brings)
        return [finding("a.py", texts["a.py"], 1, fix)]

    outcome = run({"a.py": "bad\n"}, judge)
    assert outcome.texts == ({"a.py": "old\n"} if made else {})
    assert len(outcome.refused) == (not made)
