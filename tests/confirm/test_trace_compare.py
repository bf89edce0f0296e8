"""``amplint trace --compare``: two traces, before and after a fix."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from traces import cast, recording

from amplint.confirm.recording import NoRecording, Recording
from amplint.report import trace_compare
from amplint.report.text import Style
from amplint.report.trace_compare import Comparison, compare
from amplint.report.trace_model import trace_of


@pytest.fixture
def fixed() -> Comparison:
    """The layer that was kept in float32 is in half precision now, and the code's own cast is gone; it ran longer."""
    before = recording()
    trace = trace_of(recording(kept=-1))
    casts = tuple(row for row in trace.casts if row.by != "code")
    twice = tuple(replace(row, size=2 * row.size, backward_size=2 * row.backward_size) for row in casts)
    new = cast(4, "weight", "autocast", 8_000, module="Net.layers.17")
    after = recording(steps=20, trace=replace(trace, casts=(*twice, new), pairs=()))
    return compare(before, after)


def test_figures_are_those_of_a_step(fixed: Comparison) -> None:
    figures = {figure.name: (figure.before, figure.after) for figure in fixed.figures}
    assert figures["bytes cast by code"] == (100, 0)
    assert figures["bytes cast by library"] == (50, 50)
    assert figures["bytes cast by autocast"] == (800_000, 800_400)
    assert figures["up and down again"] == (1, 0)


def test_modules_whose_types_differ_are_told(fixed: Comparison) -> None:
    (module,) = fixed.modules
    assert (module.name, module.kind) == ("Net.layers.17", "Linear")
    assert (dict(module.before), dict(module.after)) == ({"float32": 1000}, {"float16": 1000})


def test_casts_that_differ_come_with_the_largest_change_first(fixed: Comparison) -> None:
    assert [(row.module, row.by, row.before, row.after) for row in fixed.casts] == [
        ("Net.layers.17", "autocast", 0, 400),
        ("Net", "code", 100, 0),
    ]


def test_casts_are_matched_whatever_line_they_are_on() -> None:
    trace = trace_of(recording())
    moved = tuple(
        replace(row, span=replace(row.span, line=row.span.line + 7), path="other.py") for row in trace.casts
    )
    compared = compare(recording(), recording(trace=replace(trace, casts=moved)))
    assert (compared.casts, compared.modules) == ((), ())
    assert "The same casts in the same modules." in trace_compare.render(compared, Style())


def test_a_module_that_is_gone_did_not_run() -> None:
    before = recording(kept=-1, count=3)
    after = recording(kept=-1, count=2)
    assert "Net.layers.2 (Linear): f16 100 % -> did not run" in trace_compare.render(
        compare(before, after), Style()
    )


def test_the_text_has_both_numbers_and_the_change(fixed: Comparison) -> None:
    lines = trace_compare.render(fixed, Style()).splitlines()
    assert lines[0].split() == ["before", "after", "change"]
    assert lines[1].split() == ["bytes", "cast", "800", "kB", "800", "kB", "+300", "B"]
    assert "  Net.layers.17 (Linear): f32 100 % -> f16 100 %" in lines
    assert any(line.split()[:2] == ["-100", "B"] and "float16" not in line for line in lines)
    assert lines[-1] == "Figures are those of one step."


def test_rows_of_the_text_are_limited(fixed: Comparison) -> None:
    assert "... 1 more (--limit 0 shows all)" in trace_compare.render(fixed, Style(), limit=1)


def test_different_units_are_told() -> None:
    trace = trace_of(recording())
    compared = compare(recording(), recording(steps=0, trace=trace))
    assert trace_compare.render(compared, Style()).endswith(
        "Figures are those of one step before, one backward pass after.\n"
    )


def test_json_has_all_of_it(fixed: Comparison) -> None:
    value = json.loads(trace_compare.render_json(fixed))
    assert value["units"] == ["step", "step"]
    assert [part["change"] for part in value["figures"] if part["name"] == "up and down again"] == [-1]
    assert value["modules"][0]["after"] == {"float16": 1000}
    assert value["casts"][1]["change"] == -100


def test_the_page_has_all_of_it_and_escapes_names(fixed: Comparison) -> None:
    page = trace_compare.render_html(fixed, "<b>.json", "b.json")
    assert "<b>.json" not in page
    assert "&lt;b&gt;.json" in page
    assert page.count("<tr data-text=") == len(fixed.figures) + 1 + 2
    assert '<td class="num less" data-v="-100">-100 B</td>' in page


def test_what_holds_no_trace_is_refused() -> None:
    with pytest.raises(NoRecording):
        compare(recording(), Recording("cuda", torch="2.13.0"))
