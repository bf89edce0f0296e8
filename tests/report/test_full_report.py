from __future__ import annotations

import re

from amplint.check import CheckResult
from amplint.findings import Claim, Edit, Finding, Fix, Level, Span, TrailStep
from amplint.report.full import FEW, SHORT, render
from amplint.report.text import Style, escaped, summary, width_of

PLAIN = Style()


def finding(span: Span, *trail: TrailStep, message: str = "it is wrong", **more: object) -> Finding:
    path = str(more.pop("path", "a.py"))
    return Finding("AMP101", "backward-in-autocast", Level.ERROR, message, path, span, trail, **more)  # type: ignore[arg-type]


def report(text: str, *findings: Finding, style: Style = PLAIN, **texts: str) -> list[str]:
    """The report without its last line."""
    named = {"a.py": text} | {name.replace("_", "."): other for name, other in texts.items()}
    contents = {name: other.encode() for name, other in named.items()}
    return render(CheckResult(findings, 1, contents=contents), style).splitlines()[:-2]


def test_a_finding_with_its_line() -> None:
    assert report("x = 1\nloss.backward()\n", finding(Span(2, 1, 2, 16))) == [
        "a.py:2:1: error[backward-in-autocast] AMP101 it is wrong",
        "  |",
        "2 | loss.backward()",
        "  | ^^^^^^^^^^^^^^^",
        "  |",
    ]


def test_the_trail_in_the_same_and_in_other_files() -> None:
    text = "with autocast():\n" + "    f()\n" * 9 + "    g()\n"
    trail = (
        TrailStep("a.py", Span(1, 6, 1, 16), "the region opens here"),
        TrailStep("a.py", Span(9, 5, 9, 8), "called from here"),
        TrailStep("b.py", Span(2, 1, 2, 4), "and here"),
        TrailStep("gone.py", Span(7, 1, 7, 4), "somewhere"),
    )
    assert report(text, finding(Span(11, 5, 11, 8), *trail), b_py="\nh()\n")[1:] == [
        "   |",
        " 1 | with autocast():",
        "   |      ---------- 1. the region opens here",
        "...",
        " 9 |     f()",
        "   |     --- 2. called from here",
        "10 |     f()",
        "11 |     g()",
        "   |     ^^^",
        "   |",
        "   ::: b.py:2:1",
        "   |",
        " 2 | h()",
        "   | --- 3. and here",
        "   |",
        "   ::: gone.py:7:1",
        "   = 4. somewhere",
    ]


def test_a_fix_is_offered() -> None:
    safe = report("x\n", finding(Span(1, 1, 1, 2), fix=Fix("safe", "leave it")))
    unsafe = report("x\n", finding(Span(1, 1, 1, 2), fix=Fix("unsafe", "leave it")))
    assert (safe[-1], unsafe[-1]) == ("  = fix: leave it", "  = unsafe fix: leave it")


def test_why_and_help_stand_apart_and_the_fix_is_the_help_where_there_is_one() -> None:
    said = {"why": "It raises.", "help": "Write y."}
    alone = report("x\n", finding(Span(1, 1, 1, 2), **said, fix_note="nobody knows where"))
    assert alone[0].endswith("AMP101 it is wrong")
    assert alone[-3:] == ["  = why: It raises.", "  = help: Write y.", "  = no fix: nobody knows where"]
    fixed = report("x\n", finding(Span(1, 1, 1, 2), **said, fix=Fix("safe", "Put y")))
    assert fixed[-2:] == ["  = why: It raises.", "  = fix: Put y"]


def lines_added(count: int) -> Fix:
    text = "".join(f"{number}\n" for number in range(count))
    return Fix("safe", "Add lines", (Edit("a.py", 2, 2, text),), (Claim("a.py", 1, 1),))


def test_a_long_change_is_shown_if_it_is_asked_for() -> None:
    short, long = (finding(Span(1, 1, 1, 2), fix=lines_added(count)) for count in (SHORT, SHORT + 1))
    assert sum(line.startswith("  + ") for line in report("x\n", short)) == SHORT
    told = f"  = fix: Add lines; {SHORT + 1} lines change, which `--show-fixes` shows"
    assert told in report("x\n", long)
    shown = report("x\n", long, style=Style(all_fixes=True))
    assert sum(line.startswith("  + ") for line in shown) == SHORT + 1


def test_a_change_that_is_the_fix_of_several_findings_is_shown_once() -> None:
    one, other = (finding(Span(1, column, 1, 2), fix=lines_added(1)) for column in (1, 2))
    lines = report("x\n", one, other)
    assert sum(line.startswith("  + ") for line in lines) == 1
    assert [line for line in lines if "= fix" in line] == [
        "  = fix: Add lines",
        "  = fix: Add lines; shown above",
    ]


def many(count: int) -> CheckResult:
    found = (
        finding(Span(1, 1, 1, 2), path=f"{'abcd'[number % 4 if number > 3 else 0]}.py")
        for number in range(count)
    )
    return CheckResult(tuple(found), 4)


def test_many_findings_are_counted_by_rule_and_file() -> None:
    assert "  AMP101  error" not in render(many(FEW), PLAIN)
    assert render(many(FEW + 1), PLAIN).splitlines()[-4:] == [
        "11  AMP101  error    backward-in-autocast",
        "Most are in a.py (6), b.py (2) and c.py (2).",
        "",
        "Found 11 findings (11 errors) in 4 files; checked 4 files.",
    ]


def test_where_all_are_in_one_file_it_is_not_named_again() -> None:
    same = CheckResult((finding(Span(1, 1, 1, 2)),) * (FEW + 1), 1)
    assert "Most are" not in render(same, PLAIN)


def test_a_quiet_report_is_the_findings_alone() -> None:
    quiet = Style(width=100, quiet=True)
    assert render(CheckResult((), 3, done="Fixed 1 finding."), quiet) == ""
    text = render(many(FEW + 1), quiet)
    assert "Found" not in text
    assert "Most are" not in text
    assert "amplint rule" not in text
    assert text.count("error[backward-in-autocast]") == FEW + 1
    assert "gone.py is left" in render(CheckResult((), 3, skipped={"gone.py": "it is gone"}), quiet)


def test_a_terminal_is_told_where_to_read_more() -> None:
    result = CheckResult((finding(Span(1, 1, 1, 2)),), 1)
    assert render(result, Style(width=100)).endswith("`amplint rule backward-in-autocast` explains a rule.\n")
    assert "amplint rule" not in render(result, PLAIN)
    assert "amplint rule" not in render(CheckResult((), 1), Style(width=100))


def test_a_finding_over_several_lines() -> None:
    lines = report("f(\n  a,\n)  # end\n", finding(Span(1, 1, 3, 2)))[1:]
    assert lines == ["  |", "1 | f(", "  | ^^", "2 |   a,", "  |   ^^", "3 | )  # end", "  | ^", "  |"]


def test_a_long_stretch_is_marked_on_its_first_line() -> None:
    step = TrailStep("a.py", Span(1, 1, 30, 2), "region")
    lines = report("with a:\n" + "    b\n" * 30, finding(Span(30, 5, 30, 6), step))
    assert "   | ------- region (to line 30)" in lines


def test_carets_stand_below_wide_and_combining_characters_and_tabs() -> None:
    text = "\tx = '日本e\u0301'; bad\n"
    column = text.index("bad") + 1
    lines = report(text, finding(Span(1, column, 1, column + 3)))
    assert lines[2] == "1 |     x = '日本e\u0301'; bad"
    shown = sum(width_of(character) for character in lines[2][: lines[2].index("bad")])
    assert lines[3].index("^^^") == shown
    assert lines[3].endswith("^^^")


def test_escapes_are_as_wide_as_they_look() -> None:
    text = "'\x1b[2J\u202e'; bad\n"
    column = text.index("bad") + 1
    lines = report(text, finding(Span(1, column, 1, column + 3)))
    assert lines[2] == "1 | '\\x1b[2J\\u202e'; bad"
    assert lines[3].index("^^^") == lines[2].index("bad")


def test_long_lines_are_cut_around_the_mark() -> None:
    text = "x" * 500 + "BAD" + "y" * 500 + "\n"
    lines = report(text, finding(Span(1, 501, 1, 504)), style=Style(width=80))
    assert all(len(line) <= 80 for line in lines)
    assert "xBADy" in lines[2]
    assert lines[3].index("^^^") == lines[2].index("BAD")
    assert lines[2][4] == lines[2][-1] == "…"


def test_places_that_do_not_exist_do_no_harm() -> None:
    assert report("x\n", finding(Span(9, 1, 9, 2))) == [
        "a.py:9:1: error[backward-in-autocast] AMP101 it is wrong"
    ]
    assert report("x\n", finding(Span(1, 40, 1, 50)))[3].endswith("^")
    assert report("", finding(Span(1, 1, 1, 1)))[2:4] == ["1 |", "  | ^"]


def test_messages_are_wrapped_for_a_terminal_only() -> None:
    long = finding(Span(1, 1, 1, 2), message="word " * 40)
    assert len(report("x\n", long)[0]) > 200
    wrapped = report("x\n", long, style=Style(width=60))
    assert all(len(line) <= 60 for line in wrapped)
    assert wrapped[1].startswith("    word")


def test_colours_do_not_change_the_text() -> None:
    wrong = finding(Span(1, 1, 1, 2), TrailStep("a.py", Span(1, 1, 1, 2), "here"), fix=Fix("safe", "leave"))
    colored = "\n".join(report("x\n", wrong, style=Style(color=True)))
    assert re.sub("\x1b\\[[0-9;]*m", "", colored).splitlines() == report("x\n", wrong)
    assert "\x1b[1;31merror[backward-in-autocast]\x1b[0m" in colored


def test_what_is_shown_as_an_escape() -> None:
    assert escaped("plain é 日本") == "plain é 日本"
    assert escaped("\x1b\x00\x9b\n\r\t\u202e\u2066\u2028\ufeff\udce9") == (
        "\\x1b\\x00\\x9b\\n\\r\\t\\u202e\\u2066\\u2028\\ufeff\\udce9"
    )


def test_the_summary_counts() -> None:
    one = finding(Span(1, 1, 1, 2))
    assert summary(CheckResult((), 2)) == "All good: no findings; checked 2 files."
    assert summary(CheckResult((), 0)) == "Nothing to check: no Python files."
    assert (
        summary(CheckResult((one, one), 120)) == "Found 2 findings (2 errors) in 1 file; checked 120 files."
    )
