"""JUnit's XML, which most CI services show: a suite for each file, a failed test for each finding."""

from __future__ import annotations

from itertools import groupby

from amplint.check import CheckResult
from amplint.findings import Finding
from amplint.report.sources import Sources
from amplint.report.text import Style, counted, escaped, place_of, reasons, remedies


def render(result: CheckResult, style: Style) -> str:
    """The report. Where there are no findings it has one test that passed: a report without tests is an error to
    some services."""
    from xml.etree import ElementTree

    sources = Sources(result)
    number = len(result.findings)
    totals = {"tests": str(number or 1), "failures": str(number), "errors": "0"}
    root = ElementTree.Element("testsuites", {"name": "amplint", **totals})
    if not number:
        suite = ElementTree.SubElement(root, "testsuite", {"name": "amplint", **totals})
        name = f"checked {counted(result.checked, 'file')}"
        ElementTree.SubElement(suite, "testcase", {"name": name, "classname": "amplint"})
    for path, group in groupby(result.findings, key=lambda finding: finding.path):
        findings = list(group)
        count = str(len(findings))
        counts = {"tests": count, "failures": count, "errors": "0"}
        suite = ElementTree.SubElement(root, "testsuite", {"name": escaped(path), **counts})
        for finding in findings:
            attributes = {
                "name": f"{finding.name} ({finding.code})",
                "classname": escaped(path),
                "file": escaped(path),
                "line": str(sources.on_disk(path, finding.span).line),
            }
            case = ElementTree.SubElement(suite, "testcase", attributes)
            message = sources.preface(path, finding.span) + escaped(finding.message)
            failure = {"message": message, "type": finding.level.value}
            ElementTree.SubElement(case, "failure", failure).text = _text(sources.in_cell(finding))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _text(finding: Finding) -> str:
    trail = [f"{escaped(step.path)}:{step.span.line}: {escaped(step.message)}" for step in finding.trail]
    said = [f"{place_of(finding)}: {escaped(finding.message)}", *map(escaped, reasons(finding))]
    return "\n".join([*said, *trail, *map(escaped, remedies(finding))])
