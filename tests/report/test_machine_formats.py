"""The formats that other programs read, against what their specifications ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator

from amplint.check import CheckResult, check
from amplint.config import Settings
from amplint.findings import Crash, Edit, Finding, Fix, Level, Span, TrailStep
from amplint.report import renderer
from amplint.report.json import finding_from
from amplint.report.statistics import render_statistics
from amplint.report.text import Style

REPOSITORY = Path(__file__).parents[2]
FORMATS = ("json", "json-lines", "sarif", "gitlab", "junit", "rdjson", "pylint")

SOURCE = """import torch

scaler = torch.amp.GradScaler("cuda")


def train(model, optimizer, xs):
    for x in xs:
        with torch.autocast("cuda", dtype=torch.float16):
            größe = "ä𝄞"; loss = model(x).square().mean()
            scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def result(tmp_path: Path) -> CheckResult:
    (tmp_path / "my models").mkdir()
    (tmp_path / "my models" / "train.py").write_text(SOURCE, encoding="utf-8")
    return check(["."], Settings(root=tmp_path, select=("ALL",)), jobs=1)


def shown(result: CheckResult, output_format: str) -> str:
    return renderer(output_format)(result, Style())


def test_all_formats_have_all_findings(result: CheckResult) -> None:
    assert len(result.findings) > 1
    places = {(finding.code, finding.span.line) for finding in result.findings}

    def of_lines(text: str) -> set[tuple[str, int]]:
        return {(code, int(line)) for line, code in re.findall(r"^[^:\n]+:(\d+): \[(AMP\d+)", text, re.M)}

    def of_sarif(text: str) -> set[tuple[str, int]]:
        found = json.loads(text)["runs"][0]["results"]
        return {
            (one["ruleId"], one["locations"][0]["physicalLocation"]["region"]["startLine"]) for one in found
        }

    def of_junit(text: str) -> set[tuple[str, int]]:
        cases = ElementTree.fromstring(text.encode()).iter("testcase")
        return {(case.attrib["name"].split("(")[1][:-1], int(case.attrib["line"])) for case in cases}

    def of_rdjson(text: str) -> set[tuple[str, int]]:
        found = json.loads(text)["diagnostics"]
        return {
            (one["code"]["value"].split("(")[1][:-1], one["location"]["range"]["start"]["line"])
            for one in found
        }

    readers: dict[str, Callable[[str], set[tuple[str, int]]]] = {
        "json": lambda text: {(one["code"], one["line"]) for one in json.loads(text)},
        "json-lines": lambda text: {(one["code"], one["line"]) for one in map(json.loads, text.splitlines())},
        "sarif": of_sarif,
        "gitlab": lambda text: {
            (one["check_name"], one["location"]["positions"]["begin"]["line"]) for one in json.loads(text)
        },
        "junit": of_junit,
        "rdjson": of_rdjson,
        "pylint": of_lines,
    }
    assert set(readers) == set(FORMATS)
    for output_format, read in readers.items():
        assert read(shown(result, output_format)) == places, output_format


def test_who_has_room_for_one_text_gets_message_why_and_help() -> None:
    said = {"why": "It raises.", "help": "Write y.", "fix_note": "nobody knows where"}
    finding = Finding("AMP101", "name", Level.ERROR, "it is wrong", "a.py", Span(1, 1, 1, 2), **said)  # type: ignore[arg-type]
    result = CheckResult((finding,), 1)
    whole = "it is wrong. It raises. Write y."
    assert json.loads(shown(result, "sarif"))["runs"][0]["results"][0]["message"] == {"text": whole}
    assert json.loads(shown(result, "rdjson"))["diagnostics"][0]["message"] == whole
    assert json.loads(shown(result, "gitlab"))[0]["description"] == f"name (AMP101): {whole}"
    [failure] = ElementTree.fromstring(shown(result, "junit").encode()).iter("failure")
    assert failure.get("message") == "it is wrong"
    assert (failure.text or "").splitlines() == [
        "a.py:1:1: it is wrong",
        "why: It raises.",
        "help: Write y.",
        "no fix: nobody knows where",
    ]
    assert shown(result, "pylint") == "a.py:1: [AMP101(name), ] it is wrong\n"
    assert shown(result, "concise").splitlines()[0] == "a.py:1:1: error[name] AMP101 it is wrong"


def test_json_keeps_message_why_and_help_apart() -> None:
    said = {"why": "It raises.", "help": "Write y."}
    finding = Finding("AMP101", "name", Level.ERROR, "it is wrong", "a.py", Span(1, 1, 1, 2), **said)  # type: ignore[arg-type]
    [value] = json.loads(shown(CheckResult((finding,), 1), "json"))
    assert (value["message"], value["why"], value["help"]) == ("it is wrong", "It raises.", "Write y.")
    assert finding_from(value) == finding
    assert finding_from({key: part for key, part in value.items() if key not in said}).why == ""


def test_a_quiet_report_has_no_summary() -> None:
    finding = Finding("AMP101", "name", Level.ERROR, "it is wrong", "a.py", Span(1, 1, 1, 2))
    quiet = Style(quiet=True)
    render = renderer("concise")
    assert render(CheckResult((), 3), quiet) == ""
    assert render(CheckResult((finding,), 3), quiet) == "a.py:1:1: error[name] AMP101 it is wrong\n"
    counts = render_statistics(CheckResult((finding,), 3, entries=4, cut=2), quiet, as_json=False)
    assert counts == "1  AMP101  error    name\n"


@pytest.mark.parametrize("output_format", FORMATS)
def test_nothing_to_say(output_format: str) -> None:
    text = shown(CheckResult((), 3), output_format)
    if output_format in ("json-lines", "pylint"):
        assert text == ""
    elif output_format == "junit":
        root = ElementTree.fromstring(text.encode())
        assert (root.get("tests"), root.get("failures")) == ("1", "0")
        assert [case.get("name") for case in root.iter("testcase")] == ["checked 3 files"]
    else:
        value = json.loads(text)
        found = value if isinstance(value, list) else value.get("diagnostics")
        assert found == [] or value["runs"][0]["results"] == []


def test_json_follows_its_schema(result: CheckResult) -> None:
    schema = json.loads((REPOSITORY / "docs" / "schemas" / "findings-1.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    validator.validate(json.loads(shown(result, "json")))
    value = json.loads(shown(result, "json"))
    assert not validator.is_valid([{**value[0], "more": 1}])
    assert not validator.is_valid([{**value[0], "level": "bad"}])


# SARIF


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": {**required, **optional},
    }


TEXT = {"type": "string", "minLength": 1}
NUMBER = {"type": "integer", "minimum": 1}
MESSAGE = _object({"text": TEXT})
LEVEL = {"enum": ["error", "warning", "note"]}
REGION = _object(dict.fromkeys(("startLine", "startColumn", "endLine", "endColumn"), NUMBER))
ARTIFACT = _object({"uri": {"type": "string", "pattern": r"^[A-Za-z0-9_.\-/%~]+$|^file:///"}}, uriBaseId=TEXT)
PLACE = _object(
    {"physicalLocation": _object({"artifactLocation": ARTIFACT}, region=REGION)}, message=MESSAGE, id=NUMBER
)
REPLACEMENT = _object({"deletedRegion": REGION, "insertedContent": _object({"text": {"type": "string"}})})
CHANGE = _object({"artifactLocation": ARTIFACT, "replacements": {"type": "array", "items": REPLACEMENT}})
RESULT = _object(
    {
        "ruleId": TEXT,
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": MESSAGE,
        "locations": {"type": "array", "items": PLACE, "minItems": 1, "maxItems": 1},
        "partialFingerprints": {"type": "object", "additionalProperties": TEXT},
    },
    relatedLocations={"type": "array", "items": PLACE, "uniqueItems": True},
    codeFlows={
        "type": "array",
        "items": _object(
            {
                "threadFlows": {
                    "type": "array",
                    "items": _object({"locations": {"type": "array", "items": _object({"location": PLACE})}}),
                }
            }
        ),
    },
    fixes={
        "type": "array",
        "items": _object({"artifactChanges": {"type": "array", "items": CHANGE}}, description=MESSAGE),
    },
    properties={"type": "object"},
)
RULE = _object(
    {
        "id": TEXT,
        "name": TEXT,
        "shortDescription": MESSAGE,
        "fullDescription": MESSAGE,
        "help": _object({"text": TEXT}, markdown=TEXT),
        "defaultConfiguration": _object({"enabled": {"type": "boolean"}, "level": LEVEL}),
        "properties": _object(
            {
                "tags": {"type": "array", "items": TEXT, "maxItems": 10},
                "precision": {"enum": ["very-high", "high", "medium", "low"]},
                "problem.severity": {"enum": ["error", "warning", "recommendation"]},
            }
        ),
    }
)
NOTIFICATION = _object({"message": MESSAGE}, level=LEVEL, locations={"type": "array", "items": PLACE})
RUN = _object(
    {
        "tool": _object(
            {
                "driver": _object(
                    {"name": TEXT, "semanticVersion": TEXT, "rules": {"type": "array", "items": RULE}}
                )
            }
        ),
        "columnKind": {"const": "unicodeCodePoints"},
        "invocations": {
            "type": "array",
            "items": _object(
                {"executionSuccessful": {"type": "boolean"}},
                toolExecutionNotifications={"type": "array", "items": NOTIFICATION},
            ),
        },
        "results": {"type": "array", "items": RESULT},
    }
)
SARIF = _object(
    {
        "$schema": TEXT,
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "items": RUN, "minItems": 1, "maxItems": 1},
    }
)
"""The parts of SARIF 2.1.0 that the report uses, written down from the specification; the schema of OASIS lets pass
what these let pass."""


def test_sarif_follows_the_specification(result: CheckResult) -> None:
    Draft202012Validator.check_schema(SARIF)
    crashed = result._replace(
        crashes=(Crash("a b.py", "AMP101", "KeyError: 1"),), skipped={"my models/train.py": "it has changed"}
    )
    for one in (result, crashed, CheckResult((), 0)):
        Draft202012Validator(SARIF).validate(json.loads(shown(one, "sarif")))
    run = json.loads(shown(crashed, "sarif"))["runs"][0]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert [one["message"]["text"] for one in run["invocations"][0]["toolExecutionNotifications"]] == [
        "not fixed: it has changed",
        "KeyError: 1",
    ]


def test_sarif_points_at_its_rules_and_tells_the_trail(result: CheckResult) -> None:
    run = json.loads(shown(result, "sarif"))["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert len({one["partialFingerprints"]["amplint/v1"] for one in run["results"]}) == len(run["results"])
    by_code = {finding.code: finding for finding in result.findings}
    for one in run["results"]:
        assert rules[one["ruleIndex"]]["id"] == one["ruleId"]
        finding = by_code[one["ruleId"]]
        related = [
            (r["physicalLocation"]["region"]["startLine"], r["message"]["text"])
            for r in one["relatedLocations"]
        ]
        assert related == [(step.span.line, step.message) for step in finding.trail]
        flow = one["codeFlows"][0]["threadFlows"][0]["locations"]
        assert len(flow) == len(finding.trail) + 1
        place = one["locations"][0]["physicalLocation"]["artifactLocation"]
        assert place == {"uri": "my%20models/train.py", "uriBaseId": "%SRCROOT%"}


def test_sarif_has_the_fixes(result: CheckResult) -> None:
    run = json.loads(shown(result, "sarif"))["runs"][0]
    for one in run["results"]:
        for fix in one.get("fixes", ()):
            [change] = fix["artifactChanges"]
            lines = SOURCE.splitlines(keepends=True)
            starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
            text = SOURCE
            for part in reversed(change["replacements"]):
                region = part["deletedRegion"]
                start = starts[region["startLine"] - 1] + region["startColumn"] - 1
                end = starts[region["endLine"] - 1] + region["endColumn"] - 1
                text = text[:start] + part["insertedContent"]["text"] + text[end:]
            compile(text, "train.py", "exec")
            assert text != SOURCE
    assert any("fixes" in one for one in run["results"])


def test_paths_are_seen_from_the_repository(
    result: CheckResult, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CI_PROJECT_DIR", str(tmp_path.parent))
    inside = f"{tmp_path.name}/my models/train.py"
    assert {one["location"]["path"] for one in json.loads(shown(result, "gitlab"))} == {inside}
    diagnostics = json.loads(shown(result, "rdjson"))["diagnostics"]
    assert {one["location"]["path"] for one in diagnostics} == {inside}
    found = json.loads(shown(result, "sarif"))["runs"][0]["results"]
    addresses = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in found}
    assert {unquote(address) for address in addresses} == {inside}


def test_a_path_out_of_the_project_is_an_absolute_uri() -> None:
    finding = Finding("AMP101", "backward-in-autocast", Level.ERROR, "m", "/a b/c#d.py", Span(1, 1, 1, 2))
    value = json.loads(shown(CheckResult((finding,), 1), "sarif"))
    place = value["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "file:///a%20b/c%23d.py"}


def test_rdjson_counts_bytes_and_suggests_the_whole_fix(tmp_path: Path) -> None:
    text = 'größe = "𝄞"; a = 1\nb = 2\n'
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    at = text.index("a = 1")
    edits = (Edit("m.py", at, at + 1, "x"), Edit("m.py", text.index("b"), text.index("b") + 1, "y"))
    step = TrailStep("m.py", Span(2, 1, 2, 2), "here")
    span = Span(1, at + 1, 1, at + 2)

    def diagnostic(fix: Fix) -> dict[str, Any]:
        finding = Finding("AMP101", "name", Level.ADVICE, "m", "m.py", span, (step,), fix)
        value = json.loads(shown(CheckResult((finding,), 1, sources={"m.py": "m.py"}), "rdjson"))
        found: dict[str, Any] = value["diagnostics"][0]
        return found

    found = diagnostic(Fix("safe", "rename", edits))
    column = len(text[:at].encode()) + 1
    assert found["location"]["range"]["start"] == {"line": 1, "column": column}
    assert found["severity"] == "INFO"
    assert found["relatedLocations"][0]["location"]["range"]["start"] == {"line": 2, "column": 1}
    assert found["suggestions"] == [
        {
            "range": {"start": {"line": 1, "column": column}, "end": {"line": 2, "column": 2}},
            "text": "x = 1\ny",
        }
    ]
    assert "suggestions" not in diagnostic(Fix("unsafe", "rename", edits)), "it would not be made"
    other = (*edits, Edit("other.py", 0, 1, ""))
    assert "suggestions" not in diagnostic(Fix("safe", "rename", other)), "a part of it breaks the code"


def test_gitlab_gets_unique_fingerprints_and_its_severities(result: CheckResult) -> None:
    issues = json.loads(shown(result, "gitlab"))
    assert len({one["fingerprint"] for one in issues}) == len(issues)
    assert {one["severity"] for one in issues} <= {"info", "minor", "major"}
    assert all(
        one["description"].startswith(f"{f.name} ({f.code}): ")
        for one, f in zip(issues, result.findings, strict=True)
    )


def test_junit_survives_what_xml_cannot_have() -> None:
    finding = Finding("AMP101", "name", Level.ERROR, "a\x00b<&\x1b", "\x01.py", Span(1, 1, 1, 2))
    root = ElementTree.fromstring(shown(CheckResult((finding,), 1), "junit").encode())
    [failure] = root.iter("failure")
    assert failure.get("message") == "a\\x00b<&\\x1b"
    assert (root.get("failures"), failure.get("type")) == ("1", "error")
