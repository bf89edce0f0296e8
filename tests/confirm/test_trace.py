"""``amplint trace``: its collector under the probe, its table, its JSON and its page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from probing import Done, Probed

from amplint.confirm.recording import CastRow, OpRow, Recording, merged, read, write
from amplint.findings import Span
from amplint.report import trace_html, trace_table
from amplint.report.text import Style

PROGRAM = """
import torch
from torch import nn

layer = nn.Linear(4, 8).cuda()
x = torch.ones(2, 4, device="cuda")
for _ in range(3):
    with torch.autocast("cuda", dtype=torch.float16):
        y = layer(x)
        z = y.softmax(-1)
    total = x.sum()
"""


@pytest.fixture
def traced(probed: Probed) -> Done:
    return probed(PROGRAM, trace=True)


def test_ops_have_types_regions_and_counts(traced: Done) -> None:
    assert traced.status == 0, traced.stderr
    ops = {(op.op, op.span.line): op for op in traced.recording.ops}
    linear = ops["linear", 9]
    assert (linear.operands, linear.result, linear.count) == (("float32", "weight float32"), "float16", 3)
    assert (linear.region, linear.region_type) == ("train.py:8", "float16")
    softmax = ops["softmax", 10]
    assert (softmax.operands, softmax.result) == (("float16",), "float32")
    assert (ops["sum", 11].region, ops["sum", 11].result) == ("", "float32")


def test_casts_are_those_of_autocast_and_none_of_the_simulation(traced: Done) -> None:
    casts = {(cast.op, cast.source, cast.to): (cast.count, cast.size) for cast in traced.recording.casts}
    # in each of three regions: the weight of 32 elements, the bias of 8 and the input of 8, four bytes each
    assert casts["linear", "float32", "float16"] == (9, 3 * 4 * (32 + 8 + 8))
    assert casts["softmax", "float16", "float32"] == (3, 3 * 2 * 16)
    assert len(casts) == 2


def test_a_trace_survives_its_file_and_is_merged(traced: Done, tmp_path: Path) -> None:
    write(traced.recording, tmp_path / "trace.json")
    assert read(tmp_path / "trace.json") == traced.recording
    twice = merged([traced.recording, traced.recording])
    assert sum(op.count for op in twice.ops) == 2 * sum(op.count for op in traced.recording.ops)
    assert sum(cast.size for cast in twice.casts) == 2 * sum(cast.size for cast in traced.recording.casts)


HERE = Span(3, 5, 3, 20)
LINEAR = OpRow(
    "train.py", HERE, "linear", ("float32", "weight float32"), "bfloat16", "train.py:2", "bfloat16", 7
)
MADE = Recording(
    "simulated-cuda",
    torch="2.13.0",
    command=("train.py",),
    steps=7,
    ops=(LINEAR, OpRow("train.py", Span(9, 1, 9, 2), "add", ("float32",), "float32", "", "", 99)),
    casts=(
        CastRow("train.py", HERE, "linear", "float32", "bfloat16", "train.py:2", "bfloat16", 14, 2_500_000),
    ),
)


def test_the_table_begins_with_what_was_cast_most() -> None:
    lines = trace_table.render(MADE, Style()).splitlines()
    assert lines[0].split() == ["line", "op", "operands", "->", "result", "region", "times", "cast"]
    assert lines[1].split() == (
        [
            "train.py:3",
            "linear",
            "f32,",
            "weight",
            "f32",
            "->",
            "bf16",
            "bfloat16",
            "2",
            "7",
            "2.5",
            "MB",
            "x14",
        ]
    )
    assert lines[2].split() == ["train.py:9", "add", "f32", "->", "f32", "99"]
    assert lines[-1] == "autocast cast 2.5 MB in 14 casts."
    assert "CUDA simulated on CPU" in lines[-2]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_fits_the_terminal(width: int) -> None:
    long = OpRow("train.py", HERE, "cat", ("float32", "float16") * 20, "float32", "train.py:2", "float16", 7)
    made = Recording("cuda", ops=(long,))
    rows = trace_table.render(made, Style(width=width)).splitlines()[:2]
    assert max(map(len, rows)) <= width
    assert "…" in rows[1]


def test_rows_are_limited_and_the_rest_is_counted() -> None:
    text = trace_table.render(MADE, Style(), "line", 1)
    assert "... 1 more (--limit 0 shows all)" in text


def test_json_has_every_op_and_cast() -> None:
    value = json.loads(trace_table.render_json(MADE))
    assert [(op["line"], op["op"], op["count"]) for op in value["ops"]] == [(3, "linear", 7), (9, "add", 99)]
    assert value["casts"][0]["size"] == 2_500_000
    assert (value["device"], value["steps"]) == ("simulated-cuda", 7)


def test_the_page_is_one_file_with_the_source_in_colours(
    traced: Done, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = trace_html.render(traced.recording)
    assert not re.search(r"(?:src|href)=[\"'][^#]|url\(|@import|<script", page), "it needs nothing else"
    rows = re.findall(r"<div class='l (\w*)'.*?<span class=n>(\d+)</span>", page)
    kinds = {int(line): kind for kind, line in rows}
    assert (kinds[9], kinds[10], kinds[8]) == ("float16", "float32", "")
    assert "<i class='bar float16 top'" in page
    assert "float32 → float16" in page


def test_the_page_escapes_what_the_source_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("'<script>alert(1)</script>' & b\n\nx = 1  # <b>\n")
    page = trace_html.render(MADE)
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
