"""What ``amplint trace`` shows: its tables, its JSON, and the structure of its page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from traces import FILE, SOURCE, cast, module, op, recording

from amplint.confirm.recording import NoRecording, Recording, digest_of
from amplint.confirm.trace import FORMAT, CastRow, End, ModuleRow, OpRow, PairRow, Timeline, TimeSpan, Trace
from amplint.report import trace_html, trace_table
from amplint.report.text import Style
from amplint.report.trace_model import casts_of, odd_ones, trace_of, tree, unit_of


def table(text: str, title: str) -> list[list[str]]:
    """The rows of a table, each as its cells."""
    lines = text[text.index(title) :].split("\n\n")[0].splitlines()[1:]
    return [re.split(r"\s{2,}", line.strip()) for line in lines]


# what is put together ------------------------------------------------------------------------------------------


def test_the_layer_that_was_kept_in_float32_stands_out_among_48() -> None:
    (odd,) = odd_ones(tree(trace_of(recording())))
    assert (odd.name, odd.odd) == ("Net.layers.17", "float32, where 47 of 48 Linear are float16")


def test_of_modules_in_each_other_the_outermost_stands_out_and_what_differs_from_it() -> None:
    modules = [module("Net", "Net", 7)]
    ops = []
    for number in range(8):
        block, kept = f"Net.blocks.{number}", "float32" if number == 5 else "float16"
        modules.append(module(block, "Block", 4))
        for name, dtype in (
            ("attend", kept),
            ("feed", kept),
            ("norm", "bfloat16" if number == 5 else "float32"),
        ):
            modules.append(module(f"{block}.{name}", name.title(), 4))
            ops.append(op("linear", 4, f"{block}.{name}", dtype))
    found = odd_ones(tree(Trace(modules=tuple(modules), ops=tuple(ops))))
    assert [view.name for view in found] == ["Net.blocks.5", "Net.blocks.5.norm"]


@pytest.mark.parametrize(("kept", "count"), [(-1, 48), (0, 2)])
def test_nothing_stands_out_of_what_is_alike_or_of_two(kept: int, count: int) -> None:
    assert odd_ones(tree(trace_of(recording(kept, count)))) == []


def test_a_module_counts_what_ran_in_those_in_it() -> None:
    net = next(root for root in tree(trace_of(recording())) if root.name == "Net")
    assert dict(net.own.size) == {"float32": 1000}
    assert dict(net.total.size) == {"float32": 2000, "float16": 47_000}
    assert net.total.ops["float16"] == 470
    assert net.casts == 2_000_000 + 4_000_000 + 2_000_000 + 1_000


def test_modules_stand_in_the_order_of_their_numbers() -> None:
    (net, _) = tree(trace_of(recording()))
    assert [view.short for view in net.children[0].children] == [str(number) for number in range(48)]


@pytest.mark.parametrize(
    ("more", "unit"),
    [
        ({}, (10, "step")),
        ({"steps": 0}, (10, "backward pass")),
        ({"steps": 0, "trace": Trace(forwards=4)}, (4, "forward pass")),
        ({"steps": 0, "trace": Trace()}, (1, "run")),
    ],
)
def test_numbers_are_those_of_a_step_or_of_what_comes_next_to_it(
    more: dict[str, object], unit: tuple[int, str]
) -> None:
    assert tuple(unit_of(recording(**more))) == unit  # type: ignore[arg-type]


def test_casts_are_ranked_by_bytes_forward_and_backward() -> None:
    assert [(view.row.what, view.row.by) for view in casts_of(trace_of(recording()))] == [
        ("activation", "autocast"),
        ("weight", "autocast"),
        ("activation", "code"),
        ("activation", "library"),
    ]


def test_both_casts_of_a_pair_say_so_and_weights_say_what_the_cache_saved() -> None:
    notes = {(view.row.op, view.row.what): view.notes for view in casts_of(trace_of(recording()))}
    assert notes["float", "activation"] == ["up, and down again for linear in line 4, 1 op between"]
    assert notes["linear", "activation"] == ["was up since float in line 5, 1 op between"]
    assert notes["linear", "weight"] == ["weight cache: 30 of 40 reused"]


# tables --------------------------------------------------------------------------------------------------------


def test_the_tables_show_modules_casts_and_lines() -> None:
    text = trace_table.render(recording(), Style())
    modules = table(text, "Modules (bytes of results per step)")
    assert modules[0] == ["module", "class", "bytes", "types", "cast", "called at"]
    assert modules[1][:4] == ["Net", "Net", "4.9 kB", "f16 96 %, f32 4 %"]
    casts = table(text, "Casts (per step)")
    assert casts[1] == [
        *("600 kB", "200 kB", "1+1", "f32->f16", "activation", "autocast", "linear"),
        *("Net.layers.0", "train.py:4", casts[1][-1]),
    ]
    lines = table(text, "Lines")
    assert lines[1][:5] == ["train.py:4", "linear", "f32 -> f16", "float16 2", "47"]
    end = text.splitlines()
    assert "Net.layers.17 stands out: float32, where 47 of 48 Linear are float16" in end
    assert "cast up and down again per step: 1 times, 300 B" in end
    assert end[-1].startswith(
        "50 casts read 8.0 MB, 800 kB per step (autocast 100 %, code < 1 %, library < 1 %)"
    )


def test_modules_that_are_alike_are_one_row_and_the_odd_one_is_its_own() -> None:
    modules = table(trace_table.render(recording(), Style()), "Modules")
    assert [row[0] for row in modules[1:]] == [
        "Net",
        "layers",
        "0",
        "1-16 (16 alike)",
        "! 17",
        "18-47 (30 alike)",
        "outside modules",
    ]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_tables_fit_the_terminal(width: int) -> None:
    trace = trace_of(recording())
    long = replace(
        op("cat", 3, "Net." + "inner." * 20 + "last", "float32"), operands=("float32", "float16") * 20
    )
    made = recording(trace=replace(trace, ops=(*trace.ops, long)))
    text = trace_table.render(made, Style(width=width))
    rows = [line for part in text.split("\n\n")[:3] for line in part.splitlines()]
    assert max(map(len, rows)) <= width
    assert any("…" in line for line in rows)


def test_rows_are_limited_and_the_rest_is_counted() -> None:
    assert "... 3 more (--limit 0 shows all)" in trace_table.render(recording(), Style(), limit=1)


def test_only_what_is_searched_for_is_shown() -> None:
    text = trace_table.render(recording(), Style(), text="LAYERS.17")
    assert [row[0] for row in table(text, "Modules")[1:]] == ["Net", "layers", "! 17"]
    assert "Casts (per step)" not in text


@pytest.mark.parametrize(
    ("order", "ops"),
    [
        ("bytes", ["linear", "linear", "float", "to"]),
        ("line", ["linear", "linear", "float", "to"]),
        ("count", ["linear", "linear", "float", "to"]),
    ],
)
def test_casts_have_an_order(order: str, ops: list[str]) -> None:
    assert [view.row.op for view in casts_of(trace_of(recording()), order)] == ops


def test_a_program_without_torch_is_told_in_one_line() -> None:
    made = Recording("cpu", command=("hello.py",))
    expected = "Ran hello.py, which did not import torch: nothing was observed; it finished.\n"
    assert trace_table.render(made, Style()) == expected
    assert expected.strip() in trace_html.render(made)
    assert json.loads(trace_table.render_json(made))["torch"] == ""


def test_a_recording_without_a_trace_is_refused() -> None:
    with pytest.raises(NoRecording, match=r"holds no trace.*amplint trace --record"):
        trace_table.render(Recording("cuda", torch="2.13.0"), Style())


def test_json_has_every_module_op_and_cast() -> None:
    value = json.loads(trace_table.render_json(recording()))
    assert (value["device"], value["steps"], value["format"]) == ("simulated-cuda", 10, 2)
    assert value["per"] == {"number": 10, "unit": "step"}
    modules = {part["name"]: part for part in value["modules"]}
    assert modules["Net.layers.17"]["stands_out"] == "float32, where 47 of 48 Linear are float16"
    assert modules["Net"]["bytes"] == {"float32": 2000, "float16": 47_000}
    assert len(value["ops"]) == 50
    assert (value["casts"][0]["line"], value["casts"][0]["size"]) == (4, 4_000_000)
    assert value["pairs"][0]["down"]["op"] == "linear"
    assert value["timeline"]["number"] == 3


# the page ------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a page holds: elements with their attributes, in their order, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def having(self, tag: str, attribute: str) -> Iterator[dict[str, str]]:
        return (found for name, found in self.elements if name == tag and attribute in found)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / FILE).write_text(SOURCE)
    return tmp_path


def test_the_page_needs_nothing_else(here: Path) -> None:
    text = trace_html.render(recording())
    page = Page(text)
    assert not re.search(r"url\(|@import", text)
    assert not [found for _, found in page.elements if "src" in found]
    assert all(found["href"].startswith("#") for found in page.having("a", "href"))
    assert "default-src 'none'" in next(page.having("meta", "http-equiv"))["content"]


def test_every_link_of_the_page_leads_somewhere(here: Path) -> None:
    page = Page(trace_html.render(recording()))
    anchors = {found["id"] for _, found in page.elements if "id" in found}
    targets = {found["href"][1:] for found in page.having("a", "href")}
    assert targets <= anchors
    assert {"modules", "casts", "timeline", "source"} <= targets
    ids = [found["id"] for _, found in page.elements if "id" in found]
    assert len(ids) == len(set(ids))


def test_a_row_of_the_page_can_be_searched_chosen_and_sorted(here: Path) -> None:
    page = Page(trace_html.render(recording()))
    rows = list(page.having("tr", "data-text"))
    odd = next(row for row in rows if row.get("data-name") == "Net.layers.17")
    assert (odd["class"], odd["data-kind"], odd["data-types"]) == ("stands-out", "Linear", "float32")
    assert odd["data-text"] == "net.layers.17 linear train.py float32"
    assert {(row["data-by"], row["data-what"], row["data-pair"]) for row in rows if "data-by" in row} == {
        ("autocast", "weight", "single"),
        ("autocast", "activation", "pair"),
        ("code", "activation", "pair"),
        ("library", "activation", "single"),
    }
    assert {select["name"] for select in page.having("select", "name")} >= {
        "types",
        "kind",
        "by",
        "what",
        "pair",
    }
    assert len(list(page.having("th", "scope"))) == 8 + 9


def test_a_module_leads_to_the_line_that_calls_it(here: Path) -> None:
    text = trace_html.render(recording())
    assert '<a href="#s0-4">train.py:4</a><code>self.17(x)</code>' in text
    assert re.search(r"<div class='l float16' id=s0-4 ", text)


def test_the_bar_of_a_module_has_its_types(here: Path) -> None:
    text = trace_html.render(recording())
    net = text[text.index('data-name="Net"') :]
    assert "<i class=float16 style='width:95.92%'></i><i class=float32 style='width:4.08%'></i>" in net
    assert "float16 96 % of the bytes, 96 % of the ops" in net


def test_the_timeline_has_a_lane_for_each_type(here: Path) -> None:
    text = trace_html.render(recording())
    lanes = re.findall(r'<div class="lane[^"]*"><span[^>]*>(\w*)</span>', text)
    assert lanes == ["phase", "region", "modules", "float16", "float32", "held"]
    assert '<b class="backward" style="left:70.000%;width:20.000%"' in text
    assert "at most 200 kB" in text


def test_a_file_that_has_changed_since_is_not_shown(here: Path) -> None:
    digest = digest_of(here / FILE)
    assert digest is not None
    text = trace_html.render(recording(files={FILE: digest}))
    assert "<div class=code>" in text
    (here / FILE).write_text("something else")
    text = trace_html.render(recording(files={FILE: digest}))
    assert "The file is not here as it was when the program ran." in text
    assert "something else" not in text


NASTY = "<img src=x onerror=alert(1)>\"'&{}<!--foot-->"


def test_what_comes_from_the_program_is_escaped(here: Path) -> None:
    plain = Page(trace_html.render(recording()))
    trace = trace_of(recording())
    evil = replace(
        trace,
        modules=(*trace.modules, replace(module(f"Net.{NASTY}", NASTY, 4), text=NASTY, path=NASTY)),
        ops=(*trace.ops, replace(op(NASTY, 4, f"Net.{NASTY}", NASTY), path=NASTY, region=NASTY)),
        casts=(
            *trace.casts,
            replace(cast(4, "weight", NASTY, 10, op=NASTY, module=NASTY, text=NASTY), path=NASTY),
        ),
        timeline=replace(
            trace.timeline,
            spans=tuple(replace(span, module=NASTY, path=NASTY) for span in trace.timeline.spans),
        )
        if trace.timeline
        else None,
    )
    made = recording(trace=evil, command=(NASTY,), notes=(NASTY,), device_name=NASTY, ended=NASTY)
    page = Page(trace_html.render(made))
    assert {name for name, _ in page.elements} <= {name for name, _ in plain.elements} | {"br"}
    known = {attribute for _, found in plain.elements for attribute in found} | {"id"}
    assert {attribute for _, found in page.elements for attribute in found} <= known
    assert "".join(page.texts).count("<img") > 8
    assert "<script>alert(1)</script>" in "".join(page.texts)  # in the source, as text


def test_control_characters_do_not_reach_a_terminal() -> None:
    trace = trace_of(recording())
    row = replace(module("Net.\x1b[31mred", "\x1bKind", 4), path="\x1b.py")
    made = recording(trace=replace(trace, modules=(*trace.modules, row)), notes=("\x1bnote",))
    assert "\x1b" not in trace_table.render(made, Style())


# what is written about it --------------------------------------------------------------------------------------


def test_the_format_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "trace.md").read_text()
    written = page[page.index("## The format of a trace") :]
    assert f"`format` is {FORMAT}." in written
    for row in (Trace, ModuleRow, OpRow, CastRow, PairRow, End, Timeline, TimeSpan):
        for part in fields(row):
            assert f"`{part.name}`" in written, f"{row.__name__}.{part.name}"
