"""What a rule says on a path that may not be one: neither a claim nor the end of one."""

from __future__ import annotations

from amplint.events import Place
from amplint.findings import Span
from amplint.rules import rule_classes
from amplint.rules.base import Report

PLACE = Place("a.py", ("a.py", 1), lambda: Span(1, 1, 1, 2), lambda: "")
RULE = rule_classes()[0]()


def test_a_muted_report_does_not_accuse() -> None:
    report = Report()
    report.mute(True)
    report.add(RULE, PLACE, "perhaps")
    report.mute(False)
    assert not report.standing
    report.add(RULE, PLACE, "surely")
    assert [draft.message for draft in report.standing] == ["surely"]


def test_a_muted_report_does_not_withdraw() -> None:
    report = Report()
    report.add(RULE, PLACE, "surely", subject="loss")
    report.mute(True)
    report.withdraw(RULE, "loss")
    report.mute(False)
    assert len(report.standing) == 1
    report.withdraw(RULE, "loss")
    assert not report.standing
