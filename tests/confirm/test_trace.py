"""``amplint trace``: what it takes down of a run: modules, ops, casts, the timeline of a step."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from probing import Done, Probed
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from amplint.confirm.levels import Level
from amplint.confirm.probe import Probe
from amplint.confirm.recording import NoRecording, as_text, from_text, merged, read, write
from amplint.confirm.trace import CastRow, Trace
from amplint.confirm.tracer import Tracer

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

TRAINING = """
import torch
from torch import nn


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        with torch.autocast("cuda", enabled=False):
            return self.inner(x.float())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8), Kept(), nn.Linear(8, 8)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
scaler = torch.amp.GradScaler("cuda")
for _ in range(4):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = net(torch.ones(2, 8, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""


def trace_of(done: Done) -> Trace:
    assert done.status == 0, done.stderr
    recording = done.recording
    assert not any("internal error" in note for note in recording.notes), recording.notes
    assert recording.trace is not None
    return recording.trace


def cast(trace: Trace, op: str, what: str, module: str | None = None) -> CastRow:
    found = [
        row
        for row in trace.casts
        if (row.op, row.what) == (op, what) and (module is None or row.module == module)
    ]
    assert len(found) == 1, found
    return found[0]


def ops_named(trace: Trace) -> set[str]:
    return {op.op for op in trace.ops}


# what ran ------------------------------------------------------------------------------------------------------


def test_ops_have_types_regions_modules_and_sizes(probed: Probed) -> None:
    ops = {(op.op, op.span.line): op for op in trace_of(probed(PROGRAM, trace=True)).ops}
    linear = ops["linear", 9]
    assert (linear.operands, linear.result) == (
        ("float32", "weight float32", "weight float32"),
        "float16",
    )
    assert (linear.count, linear.size, linear.module) == (3, 3 * 2 * 16, "Linear")
    assert (linear.region, linear.region_type) == ("train.py:8", "float16")
    assert (ops["softmax", 10].operands, ops["softmax", 10].result) == (("float16",), "float32")
    assert (ops["sum", 11].region, ops["sum", 11].result, ops["sum", 11].module) == ("", "float32", "")


def test_what_computes_nothing_is_left_out(probed: Probed) -> None:
    trace = trace_of(
        probed(
            """
            import torch
            x = torch.ones(4, 4, device="cuda")
            rows, count = x.unbind(0), torch.ones(3, dtype=torch.int64)
            count = count + 1
            x.requires_grad_(), x.data, x.T, x.shape, x.view(16), x.reshape(2, 8), x[0], x.cuda(), x.detach()
            torch.nn.init.zeros_(torch.empty(3))
            y = x.exp()
            """,
            trace=True,
        )
    )
    assert ops_named(trace) == {"exp"}


def test_what_torch_does_for_itself_outside_modules_is_left_out(probed: Probed) -> None:
    trace = trace_of(probed(TRAINING, trace=True))
    assert {op.result for op in trace.ops} == {"float16", "float32"}  # a scaler computes in float64
    assert "reciprocal" not in ops_named(trace)


# modules -------------------------------------------------------------------------------------------------------


def test_modules_have_the_names_of_named_modules(probed: Probed) -> None:
    rows = {row.name: row for row in trace_of(probed(TRAINING, trace=True)).modules}
    assert list(rows) == [
        "Net",
        "Net.layers.0",
        "Net.layers.1",
        "Net.layers.2",
        "Net.layers.2.inner",
        "Net.layers.3",
    ]
    inner = rows["Net.layers.2.inner"]
    assert (inner.kind, inner.calls, inner.text) == ("Linear", 4, "self.inner(x.float())")
    assert inner.span.line == 13
    assert inner.weights == (("float32", 4 * (64 + 8)),)


def test_ops_belong_to_the_innermost_module(probed: Probed) -> None:
    trace = trace_of(probed(TRAINING, trace=True))
    results = {op.module: op.result for op in trace.ops if op.op == "linear"}
    assert results == {
        "Net.layers.0": "float16",
        "Net.layers.1": "float16",
        "Net.layers.2.inner": "float32",
        "Net.layers.3": "float16",
    }


def test_a_part_that_ran_before_the_whole_is_told_as_a_part(probed: Probed) -> None:
    trace = trace_of(
        probed(
            """
            import torch
            from torch import nn
            net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
            net[0](torch.ones(1, 2))
            net(torch.ones(1, 2))
            net[0](torch.ones(1, 2))
            """,
            trace=True,
        )
    )
    assert {row.name: row.calls for row in trace.modules} == {
        "Sequential": 1,
        "Sequential.0": 3,
        "Sequential.1": 1,
    }
    assert sum(op.count for op in trace.ops if op.module == "Sequential.0") == 3


def test_two_models_of_a_class_are_two_and_one_made_anew_is_one(probed: Probed) -> None:
    trace = trace_of(
        probed(
            """
            import torch
            from torch import nn
            one, other = nn.Linear(2, 2), nn.Linear(2, 2)
            for _ in range(5):
                x = other(one(torch.ones(1, 2)))
                nn.MSELoss()(x, torch.zeros(1, 2))
            """,
            trace=True,
        )
    )
    assert {row.name: row.calls for row in trace.modules} == {"Linear": 5, "Linear (2)": 5, "MSELoss": 5}


def test_modules_of_a_checkpointed_part_run_again_in_the_backward_pass(probed: Probed) -> None:
    trace = trace_of(
        probed(
            """
            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))

                def forward(self, x):
                    return checkpoint(self.layers, x, use_reentrant=False)

            net = Net().cuda()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = net(torch.ones(1, 2, device="cuda")).sum()
            loss.backward()
            """,
            trace=True,
        )
    )
    ran = [(op.phase, op.module, op.result, op.count) for op in trace.ops if op.op == "linear"]
    assert ("forward", "Net.layers.0", "float16", 1) in ran
    assert ("backward", "Net.layers.0", "float16", 1) in ran


# casts ---------------------------------------------------------------------------------------------------------


def test_casts_are_those_of_autocast_and_none_of_the_simulation(probed: Probed) -> None:
    trace = trace_of(probed(PROGRAM, trace=True))
    weight, x = cast(trace, "linear", "weight"), cast(trace, "linear", "activation")
    # in each of three regions: the weight of 32 elements and the bias of 8
    assert (weight.count, weight.size, weight.written) == (6, 3 * 4 * 40, 3 * 2 * 40)
    assert (x.count, x.size, x.source, x.to, x.by) == (3, 3 * 4 * 8, "float32", "float16", "autocast")
    softmax = cast(trace, "softmax", "activation")
    assert (softmax.count, softmax.size, softmax.source, softmax.to) == (3, 3 * 2 * 16, "float16", "float32")
    assert len(trace.casts) == 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_backward_pass_casts_each_gradient_back(probed: Probed, dtype: str) -> None:
    trace = trace_of(probed(TRAINING.replace("float16", dtype), trace=True))
    weight = cast(trace, "linear", "weight", "Net.layers.1")
    # the gradients of weight and bias come in half precision and go to the parameters in float32
    assert (weight.count, weight.backward, weight.backward_size) == (8, 8, 4 * 2 * 72)
    assert not [row for row in trace.casts if row.what == "gradient"]


def test_a_gradient_that_torch_casts_for_two_types_is_told_of_its_forward_op(probed: Probed) -> None:
    trace = trace_of(
        probed(
            """
            import torch
            from torch import nn

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(2, 2)

                def forward(self, x):
                    return x + self.layer(x)

            net = Net().cuda()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = net(torch.ones(3, 2, device="cuda")).sum()
            loss.backward()
            """,
            trace=True,
        )
    )
    row = cast(trace, "add", "gradient", "Net")
    assert (row.span.line, row.by, row.phase) == (11, "torch", "backward")
    assert (row.source, row.to, row.count, row.size) == ("float32", "float16", 1, 4 * 6)


def test_the_codes_own_casts_are_told_from_those_of_autocast(probed: Probed) -> None:
    trace = trace_of(probed(TRAINING, trace=True))
    own = cast(trace, "float", "activation", "Net.layers.2")
    assert (own.by, own.text, own.span.line, own.count) == ("code", "x.float()", 13, 4)
    assert {row.by for row in trace.casts if row.op == "linear"} == {"autocast"}


def test_casts_of_modules_and_into_tensors_are_the_codes(probed: Probed) -> None:
    trace = trace_of(
        probed(
            """
            import torch
            from torch import nn
            net = nn.Linear(2, 2, bias=False).half()
            target = torch.zeros(4)
            target.copy_(torch.ones(4, dtype=torch.float16))
            torch.ones(4).softmax(-1, dtype=torch.float64)
            torch.ones(4, dtype=torch.int64).float()
            """,
            trace=True,
        )
    )
    rows = {(row.op, row.what, row.source, row.to): (row.by, row.count, row.size) for row in trace.casts}
    assert rows["half", "weight", "float32", "float16"] == ("code", 1, 16)
    assert rows["copy", "activation", "float16", "float32"] == ("code", 1, 8)
    assert rows["softmax", "activation", "float32", "float64"] == ("code", 1, 16)
    assert len(rows) == 3  # integers have no precision to lose


def test_a_librarys_casts_are_told_from_those_of_the_code(probed: Probed, tmp_path: Path) -> None:
    library = tmp_path.parent / f"{tmp_path.name}-library"
    library.mkdir()
    (library / "somelibrary.py").write_text("def cast(x):\n    return x.half()\n")
    trace = trace_of(
        probed(
            f"""
            import sys
            sys.path.append({str(library)!r})
            import somelibrary
            import torch
            somelibrary.cast(torch.ones(3))
            torch.ones(5).half()
            """,
            trace=True,
        )
    )
    assert {(row.by, row.span.line, row.size) for row in trace.casts} == {("library", 6, 12), ("code", 7, 20)}


def test_a_tensor_that_was_cast_up_and_down_again_is_a_pair(probed: Probed) -> None:
    trace = trace_of(probed(TRAINING, trace=True))
    (pair,) = trace.pairs
    assert (pair.up.op, pair.up.module, pair.up.line) == ("float", "Net.layers.2", 13)
    assert (pair.down.op, pair.down.module) == ("linear", "Net.layers.3")
    assert (pair.low, pair.high, pair.count) == ("float16", "float32", 4)
    assert pair.between == 1  # the layer that was kept in float32
    assert pair.size == 4 * (2 * 8 * 2 + 2 * 8 * 4)


def test_a_tensor_that_met_others_in_float32_is_no_pair(probed: Probed) -> None:
    trace = trace_of(
        probed(
            """
            import torch
            half, wide = torch.ones(3, dtype=torch.float16), torch.ones(3)
            (half.float() + wide).half(), (wide + half.float()).half()
            wide.half().float()
            """,
            trace=True,
        )
    )
    assert trace.pairs == ()


@pytest.mark.parametrize(("cache", "hits", "count"), [("True", 6, 2), ("False", 0, 8)])
def test_the_weight_cache_is_seen_at_work(probed: Probed, cache: str, hits: int, count: int) -> None:
    trace = trace_of(
        probed(
            f"""
            import torch
            from torch import nn
            layer = nn.Linear(4, 4).cuda()
            with torch.autocast("cuda", dtype=torch.float16, cache_enabled={cache}):
                x = torch.ones(2, 4, device="cuda")
                for _ in range(4):
                    x = layer(x)
            """,
            trace=True,
        )
    )
    rows = [row for row in trace.casts if row.what == "weight"]
    assert (sum(row.hits for row in rows), sum(row.count for row in rows)) == (hits, count)
    assert sum(row.hit_size for row in rows) == hits // 2 * 4 * (16 + 4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_results_that_the_backward_pass_waits_for_are_held(probed: Probed, dtype: str) -> None:
    program = f"""
        import torch
        from torch import nn
        layer = nn.Linear(4, 8, bias=False).cuda()
        x = torch.ones(2, 4, device="cuda")
        for _ in range(3):
            with torch.autocast("cuda", dtype=torch.{dtype}):
                loss = layer(x).float().sum()
            loss.backward()
        """
    trace = trace_of(probed(program, trace=True))
    # the input, for the gradient of the weight; nobody wants that of the input
    assert cast(trace, "linear", "activation").held == 2 * 8
    assert cast(trace, "float", "activation").held == 0


def test_a_program_that_is_captured_stays_as_it_is(probed: Probed) -> None:
    program = """
        import torch
        from torch import nn

        class Net(nn.Module):
            def forward(self, x):
                return x.half().float().exp()

        print(torch.jit.trace(Net(), torch.ones(2)).graph)
        """
    done = probed(program, trace=True)
    trace_of(done)
    assert "aten::exp" in done.stdout
    assert "aten::numel" not in done.stdout
    assert "aten::size" not in done.stdout


def test_sparse_nested_and_mapped_tensors_are_no_errors(probed: Probed) -> None:
    trace = trace_of(
        probed(
            """
            import torch
            from torch import nn
            torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.ones(2), (2,)).half().float()
            torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).half()
            torch.vmap(lambda x: x.half().float().sum())(torch.ones(3, 3))
            torch.func.grad(lambda x: (x * x).half().float().sum())(torch.ones(3))
            lazy = nn.LazyLinear(2)
            lazy(torch.ones(1, 3))
            """,
            trace=True,
        )
    )
    assert {row.op for row in trace.casts} == {"half", "float"}


def test_inference_mode_has_casts_too(probed: Probed) -> None:
    trace = trace_of(
        probed(
            """
            import torch
            from torch import nn
            layer = nn.Linear(4, 8).cuda()
            with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
                layer(torch.ones(2, 4, device="cuda"))
            """,
            trace=True,
        )
    )
    assert cast(trace, "linear", "activation").size == 32
    assert (trace.forwards, trace.backwards) == (1, 0)


# the timeline --------------------------------------------------------------------------------------------------


def test_the_timeline_is_that_of_the_third_step(probed: Probed) -> None:
    timeline = trace_of(probed(TRAINING, trace=True)).timeline
    assert timeline is not None
    assert timeline.number == 3
    phases = sorted((span for span in timeline.spans if span.lane == "phase"), key=lambda span: span.start)
    assert [span.name for span in phases] == ["forward", "loss", "backward", "step"]
    for before, after in pairwise(phases):
        assert before.start + before.length <= after.start + 1  # rounded to microseconds
    regions = {(span.dtype, span.depth) for span in timeline.spans if span.lane == "region"}
    assert regions == {("float16", 0), ("off", 1)}
    inner = [span for span in timeline.spans if (span.lane, span.module) == ("module", "Net.layers.2.inner")]
    assert [span.depth for span in inner] == [2]


def test_ops_of_the_backward_pass_stand_in_the_lane_of_their_forward_op(probed: Probed) -> None:
    timeline = trace_of(probed(TRAINING, trace=True)).timeline
    assert timeline is not None
    backward = next(span for span in timeline.spans if (span.lane, span.name) == ("phase", "backward"))
    ops = [span for span in timeline.spans if span.lane == "op" and span.start >= backward.start]
    kinds = {(span.module, span.dtype) for span in ops if span.name == "linear"}
    assert ("Net.layers.2.inner", "float32") in kinds
    assert ("Net.layers.0", "float16") in kinds


def test_the_timeline_tells_what_casts_hold(probed: Probed) -> None:
    timeline = trace_of(probed(TRAINING, trace=True)).timeline
    assert timeline is not None
    sizes = [size for _, size in timeline.memory]
    assert max(sizes) > 0
    assert sizes[-1] == 0  # after the step all is gone


# files ---------------------------------------------------------------------------------------------------------


def test_a_trace_survives_its_file_and_is_merged(probed: Probed, tmp_path: Path) -> None:
    done = probed(TRAINING, trace=True)
    trace = trace_of(done)
    write(done.recording, tmp_path / "trace.json")
    assert read(tmp_path / "trace.json") == done.recording
    twice = merged([done.recording, done.recording]).trace
    assert twice is not None
    assert sum(op.count for op in twice.ops) == 2 * sum(op.count for op in trace.ops)
    assert sum(row.size for row in twice.casts) == 2 * sum(row.size for row in trace.casts)
    assert len(twice.modules) == len(trace.modules)
    assert [pair.between for pair in twice.pairs] == [pair.between for pair in trace.pairs]


def test_a_trace_of_another_format_is_refused(probed: Probed) -> None:
    value = json.loads(as_text(probed(PROGRAM, trace=True).recording))
    value["trace"]["format"] = 1
    with pytest.raises(
        NoRecording, match=r"old\.json was written by another release.*format 1.*reads format 2"
    ):
        from_text(json.dumps(value), "old.json")


# cost ----------------------------------------------------------------------------------------------------------


class _Waits(TorchDispatchMode):
    """Counts what would wait for a device: values of tensors that Python asks for, and copies to the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name()
        self.count += name in (
            "aten::_local_scalar_dense",
            "aten::is_nonzero",
            "aten::equal",
            "aten::nonzero",
        )
        return func(*args, **(kwargs or {}))


def _steps(count: int) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(count):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = net(torch.ones(3, 4)).float().softmax(-1).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


def _waits(level: Level) -> int:
    # the first optimizer imports torch._dynamo, whose import asks tensors for their values (torch 2.6)
    _steps(1)
    with _Waits() as waits:
        probe = Probe(Tracer(), is_user_file=lambda name: name == __file__, root=Path.cwd(), level=level)
        with probe:
            _steps(5)
    assert probe.errors == []
    return waits.count


def test_no_device_is_waited_for() -> None:
    assert _waits(Level.CASTS) == _waits(Level.API)


def test_the_account_grows_with_the_program_and_not_with_its_run() -> None:
    def rows(count: int) -> tuple[int, ...]:
        tracer = Tracer()
        with Probe(tracer, is_user_file=lambda name: name == __file__, root=Path.cwd(), level=Level.CASTS):
            _steps(count)
        ledger = tracer.ledger
        trace = ledger.trace()
        return len(ledger.ops), len(ledger.casts), len(ledger.pairs), len(trace.modules)

    assert rows(4) == rows(40)
