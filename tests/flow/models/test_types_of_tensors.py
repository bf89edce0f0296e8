"""What is known of the type of tensors where modules are cast or out of sight, and where nothing is claimed."""

from __future__ import annotations

from pathlib import Path

import pytest
from walking import events_of, of, types_seen

from amplint.events import Certainty, Converted, Forward, Op, ThreadBegan

REGION = 'with torch.autocast("cuda"):'


@pytest.mark.parametrize(
    "part",
    [
        'out["logits"]',
        "out.logits",
        "out[0]",
        "out[x]",
        "first",
        'out.get("logits")',
        "next(iter(out))",
        "[part for part in out][0]",
    ],
)
def test_a_part_of_what_an_opaque_module_gives_is_anything(tmp_path: Path, part: str) -> None:
    events = events_of(
        tmp_path,
        f"""
        model = torch.hub.load("a", "b")
        {REGION}
            out = model(x)
            first, second = model(x)
        {part}.numpy()
        """,
    )
    assert types_seen(events) in ([], ["unknown"])


@pytest.mark.parametrize(
    "whole",
    ["out", "out[:, 0]", "out[x > 0, 1]", "out.view(-1)", "out.cpu()", "out[None]", "-out", "out[..., 0]"],
)
def test_the_whole_output_of_an_opaque_module_is_likely_half(tmp_path: Path, whole: str) -> None:
    events = events_of(
        tmp_path,
        f"""
        model = torch.hub.load("a", "b")
        {REGION}
            out = model(x)
        ({whole}).numpy()
        """,
    )
    assert types_seen(events) == ["float16"]
    assert {event.operand.certainty for event in of(events, Converted)} == {Certainty.LIKELY}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("cast", "dtype"),
    [
        ("net.half()", "float16"),
        ("net.to(torch.float16)", "float16"),
        ("net.to(dtype=torch.float16)", "float16"),
        ("net.to(x, torch.bfloat16)", "bfloat16"),
        ("net.bfloat16()", "bfloat16"),
        ("net.half().float()", "float32"),
        ("net.double()", "float64"),
        ("net.to(x)", "float32"),
        ("net.cuda()", "float32"),
        ("net.to(dtype=x)", "unknown"),
        ("net.to(x.dtype)", "unknown"),
        ("net.half().to(dtype=x)", "unknown"),
        ("nn.DataParallel(net).half()", "float16"),
        ("nn.parallel.DistributedDataParallel(net).half()", "float16"),
        ("copy.deepcopy(net).half()", "float32"),
        ("net.half() if y else net", "float16 float32"),
    ],
)
@pytest.mark.parametrize("parameter", ["net.scale", "net.fc.weight", "net.mean"])
def test_parameters_and_buffers_are_cast_with_their_module(
    tmp_path: Path, cast: str, dtype: str, parameter: str
) -> None:
    events = events_of(tmp_path, f"net = Net()\n{cast}\n{parameter}.numpy()")
    seen = types_seen(events)
    if " " in dtype:  # on one way this, on the other that
        assert seen in (dtype.split(), dtype.split()[::-1], ["unknown"])
    else:
        assert seen == [dtype]


@pytest.mark.parametrize(
    ("program", "dtype"),
    [
        ("outer = Outer().half()\nouter.inner.scale.numpy()", "float16"),
        ("outer = Outer().half()\nouter.stack[0].scale.numpy()", "float16"),
        ("outer = Outer().half()\nouter.stack[1].weight.numpy()", "float16"),
        ("outer = Outer()\nouter.inner.half()\nouter.stack[0].scale.numpy()", "float32"),
        ("net = Net()\nscale = net.scale\nnet.half()\nscale.numpy()", "float16"),
        ("net = Net().half()\nnet.scale = nn.Parameter(torch.ones(2))\nnet.scale.numpy()", "float32"),
        ("net = Net().half()\nnet.head = nn.Linear(2, 2)\nnet.head.weight.numpy()", "float32"),
        ("net = Net().half()\ncopy.deepcopy(net).scale.numpy()", "float16"),
        ("net = Net()\nother = copy.deepcopy(net).half()\nother.fc.weight.numpy()", "float16"),
        ("nets = copy.deepcopy([Net()])\nnets[0].half()\nnets[0].scale.numpy()", "float16"),
        ("nn.Linear(2, 2, dtype=torch.bfloat16).weight.numpy()", "bfloat16"),
        ("nn.Linear(2, 2, dtype=x).weight.numpy()", "unknown"),
        ("nn.Parameter(w.half()).numpy()", "float16"),
    ],
)
def test_which_parameters_a_cast_reaches(tmp_path: Path, program: str, dtype: str) -> None:
    assert types_seen(events_of(tmp_path, program)) == [dtype]


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        # one unknown argument may be a type for what is computed, unless something shows it to be a device
        ("h.to(y)", "unknown"),
        ("h.to(y, non_blocking=True)", "float16"),
        ("h.to(y.device)", "float16"),
        ("h.to(w.device)", "float16"),
        ('h.to("cuda")', "float16"),
        ("h.to(0)", "float16"),
        ("h.to(torch.device(y))", "float16"),
        ("h.to(device=y)", "float16"),
        ("h.to(y.dtype)", "unknown"),
        ("h.to(dtype=y)", "unknown"),
        ("h.to(x, y)", "unknown"),
        ("h.to(getattr(torch, y))", "unknown"),
        ("h.to(*y)", "unknown"),
        ("torch.zeros(2, dtype=y).to(h).to(y)", "unknown"),
        ("h.type(torch.cuda.FloatTensor)", "float32"),
        ("h.type('torch.FloatTensor')", "float32"),
        # numbers keep the type
        ("h / (len(y) - 1)", "float16"),
        ("h / torch.finfo(y).eps", "float16"),
        ("h * h.shape[0]", "float16"),
        ("h / float(y)", "float16"),
        ("h / y", "unknown"),
        ("(h.half() + y).half()", "float16"),
        # a float32 tensor without dimensions does not widen one that has some
        ("h * torch.tensor(0.5)", "unknown"),
        ("torch.tensor(0.5) * 2", "float32"),
        ("torch.tensor([1, 2])", "integer"),
        ("torch.full((2,), 0.5)", "float32"),
        ("h + h.to(torch.complex64)", "complex"),
        ("torch.FloatTensor(2)", "float32"),
        ("nn.LSTM(2, 2)(h)[0]", "float16"),
        ("nn.LSTM(2, 2)(h)[1][0]", "float16"),
        ("nn.GRU(2, 2)(h)[1]", "float16"),
        ("torch.utils.checkpoint.checkpoint(Net(), x, use_reentrant=False)", "float16"),
        ("torch.cat([h, h if y else w])", "float16 float32"),
    ],
)
def test_types_in_a_region(tmp_path: Path, expression: str, dtype: str) -> None:
    body = f"{REGION}\n    h = w @ w\n    ({expression}).numpy()"
    assert sorted(types_seen(events_of(tmp_path, body))) in (sorted(dtype.split()), _nothing(dtype))


def _nothing(dtype: str) -> list[str]:
    return [] if dtype == "unknown" else [dtype]


def test_new_tensors_have_the_default_type(tmp_path: Path) -> None:
    events = events_of(tmp_path, "torch.set_default_dtype(torch.float16)\ntorch.zeros(2).numpy()")
    assert types_seen(events) == ["float16"]


def test_an_op_in_place_is_told_of_as_such(tmp_path: Path) -> None:
    events = events_of(tmp_path, f"{REGION}\n    h = w @ w\n    h.pow_(2)")
    assert [(event.in_place, event.policy) for event in of(events, Op) if event.name == "pow"] == [  # type: ignore[attr-defined]
        (True, "float32")
    ]


def test_replicas_run_in_threads_and_their_module_does_not(tmp_path: Path) -> None:
    region = 'with torch.autocast("cuda", dtype=torch.bfloat16):'
    replicas = events_of(tmp_path, f"model = nn.DataParallel(Net())\n{region}\n    model(w).numpy()")
    assert types_seen(replicas) == ["float16"]
    assert list(of(replicas, ThreadBegan))
    module = events_of(tmp_path, f"model = nn.DataParallel(Net())\n{region}\n    model.module(w).numpy()")
    assert types_seen(module) == ["bfloat16"]
    assert not list(of(module, ThreadBegan))


def test_frozen_modules_do_not_train(tmp_path: Path) -> None:
    events = events_of(
        tmp_path,
        """
        outer = Outer()
        outer.inner.requires_grad_(False)
        for p in outer.stack.parameters():
            p.requires_grad = False
        outer.inner(x), outer.stack[0](x), nn.Linear(2, 2)(x)
        """,
    )
    assert [event.trains for event in of(events, Forward)] == [False, False, False, False, True]  # type: ignore[attr-defined]
