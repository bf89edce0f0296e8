"""What an optimizer is known to step in half: parameters that are made so, and those whose data is replaced."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from listening import Holds
from walking import events_of, of, types_seen

from amplint.events import DType, ModuleCast, OptimizerStepped, ParameterWritten

MADE = """
left = nn.Parameter(torch.randn(2, 2))
model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
"""
HALF = "for p in model.parameters(): p.data = p.data.half()"


def stepped_in(folder: Path, body: str, parameters: str = "model.parameters()") -> list[str]:
    """The types of the casts that the optimizer of ``parameters`` is told to step."""
    body = textwrap.dedent(MADE) + textwrap.dedent(body)
    events = events_of(folder, f"{body}\noptimizer = torch.optim.SGD({parameters})\noptimizer.step()\n")
    casts = {cast for event in of(events, OptimizerStepped) for cast in event.casts}  # type: ignore[attr-defined]
    return sorted(cast.to.value for cast in casts)


@pytest.mark.parametrize(
    "data",
    [
        "torch.randn(2, 2)",
        "x",
        "torch.empty(2, dtype=x.dtype)",
        "torch.zeros(2, dtype=torch.float16).float()",
        "torch.zeros(2).half().to(x.dtype)",
        "torch.zeros(2, dtype=torch.int8)",
        "torch.tensor(0.5, dtype=torch.float32)",
        "torch.tensor(0.5, dtype=x.dtype)",
        'torch.zeros(2, dtype=torch.get_autocast_dtype("cuda"))',
    ],
)
def test_a_parameter_of_data_that_is_not_known_to_be_half(tmp_path: Path, data: str) -> None:
    assert stepped_in(tmp_path, f"own = nn.Parameter({data})", "[own]") == []


def test_a_parameter_of_what_a_region_may_have_made_half(tmp_path: Path) -> None:
    body = """
    with torch.autocast("cuda", dtype=torch.float16, enabled=flag):
        own = nn.Parameter(model(x))
    """
    assert stepped_in(tmp_path, body, "[own]") == []


def test_a_parameter_of_a_half_type_that_is_not_known(tmp_path: Path) -> None:
    body = """
    with torch.autocast("cuda", dtype=y):
        out = model[0](x)
    own = nn.Parameter(torch.zeros(2, dtype=out.dtype))
    """
    assert stepped_in(tmp_path, body, "[own]") == []


def test_a_parameter_of_what_is_likely_half(tmp_path: Path) -> None:
    body = """
    with torch.autocast("cuda"):
        own = nn.Parameter(torch.hub.load("a", "b")(x))
    """
    assert stepped_in(tmp_path, body, "[own]") == []


@pytest.mark.parametrize(
    "data",
    [
        "torch.randn(2, 2, dtype=torch.float16)",
        "torch.randn(2, 2).half()",
        "torch.randn(2, 2).to('cuda', torch.float16)",
        "torch.zeros_like(torch.ones(2, dtype=torch.half))",
        "torch.tensor(x, dtype=torch.float16)",
        "torch.randn(2, dtype={'a': torch.float16, 'b': torch.float32}.get(flag, torch.float32))",
    ],
)
def test_a_parameter_that_is_made_in_float16(tmp_path: Path, data: str) -> None:
    assert stepped_in(tmp_path, f"own = nn.Parameter({data})", "[own]") == [DType.FLOAT16.value]


def test_a_long_function_that_is_given_a_half_type_is_followed(holds: Holds) -> None:
    lines = "\n".join(f"    y = x + {number}" for number in range(200))
    tape = holds(
        f"""
import torch

def make(x, dtype):
{lines}
    return torch.nn.Parameter(torch.zeros(2, dtype=dtype))

def main(x):
    own = make(x, torch.float16)
    optimizer = torch.optim.SGD([own])
    own.sum().backward()
    optimizer.step()
"""
    )
    (event,) = tape.of(OptimizerStepped)
    assert [cast.to for cast in event.casts] == [DType.FLOAT16]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "body",
    [
        "for p in model.parameters(): p.data = p.data.to('cuda')",
        "for p in model.parameters(): p.data = x",
        "for p in model.parameters(): p.data = p.data.to(x.dtype)",
        "for p in model.parameters(): p.grad = x.half()",
        "model.apply(print)",
        "for p in model.parameters(): x = p.half()",
        f"{HALF}\nfor p in model.parameters(): p.data = p.data.float()",
        f"{HALF}\nfor p in model.parameters(): p.data = p.data.to(x.dtype)",
        f"{HALF}\nfor p in model.parameters(): p.data = x",
        f"{HALF}\nfor p in model.parameters():\n    if p.ndim > 1: p.data = p.data.float()",
        f"{HALF}\nmodel.float()",
        f"{HALF}\nmodel.requires_grad_(False)",
        "model.apply(lambda m: m.half())\nfor p in model.parameters(): p.data = p.data.float()",
        "model[0].half()\nfor p in model.parameters(): p.data = p.data.float()",
    ],
)
def test_parameters_whose_data_is_float32_or_not_known(tmp_path: Path, body: str) -> None:
    assert stepped_in(tmp_path, body) == []


@pytest.mark.parametrize(
    "body",
    [
        HALF,
        "for p in model.parameters(): p.data = p.half()",
        "for p in model.parameters(): p.data = p.data.type(torch.float16)",
        "for n, p in model.named_parameters():\n    if p.ndim > 1: p.data = p.data.to(torch.float16)",
        f"{HALF}\nfor p in model.parameters(): p.data = p.data.cuda()",
        f"{HALF}\nfor p in model.parameters(): p.data = p.data.to('cuda')",
        f"model.half()\nfor p in model.parameters(): p.data = p.data.float()\n{HALF}",
        f"model.half()\n{HALF}",
        "model[0].weight.data = model[0].weight.data.half()",
        "model.apply(lambda m: m.half() if isinstance(m, nn.Linear) else m)",
    ],
)
def test_parameters_whose_data_is_float16(tmp_path: Path, body: str) -> None:
    assert stepped_in(tmp_path, body) == [DType.FLOAT16.value]


def test_a_parameter_that_gets_the_data_of_one_that_was_cast(tmp_path: Path) -> None:
    body = """
    net = Net()
    net.half()
    left.data = net.scale.data
    """
    assert stepped_in(tmp_path, body, "[left]") == [DType.FLOAT16.value]


def test_a_function_for_apply_meets_the_parts_first(tmp_path: Path) -> None:
    body = "model.apply(lambda m: m.float() if isinstance(m, nn.LayerNorm) else m.half())"
    assert stepped_in(tmp_path, body, "model[1].parameters()") == [DType.FLOAT16.value]


def test_what_apply_does_to_a_module_out_of_sight_is_not_known(tmp_path: Path) -> None:
    body = """
    y.half()
    y.apply(lambda m: m.float() if isinstance(m, nn.LayerNorm) else m)
    z = y.parameters()
    """
    assert [event.to for event in of(events_of(tmp_path, body), ModuleCast)] == [DType.FLOAT16]  # type: ignore[attr-defined]


def test_the_name_of_the_type_of_a_parameter_is_no_tensor(tmp_path: Path) -> None:
    assert types_seen(events_of(tmp_path, "for p in y.parameters(): p.type().numpy()")) == []


def test_each_place_and_type_that_data_got_is_told(tmp_path: Path) -> None:
    body = """
    for layer in model:
        layer.weight.data = layer.weight.data.half()
        layer.bias.data = layer.bias.data.half()
    """
    assert stepped_in(tmp_path, body) == [DType.FLOAT16.value] * 2
    body = "for p in model.parameters(): p.data = p.data.half() if flag else p.data.bfloat16()"
    assert stepped_in(tmp_path, body) == [DType.BFLOAT16.value, DType.FLOAT16.value]
    body = f"{HALF}\nfor p in model.parameters(): p.data = p.data.bfloat16()"
    assert stepped_in(tmp_path, body) == [DType.BFLOAT16.value]


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("model[0].weight.numpy()", "float32"),
        ("for p in model.parameters(): p.data = x\nmodel[0].weight.numpy()", "float32"),
        (f"{HALF}\nmodel[0].weight.numpy()", "unknown"),
        ("table = nn.Embedding(2, 2)\ntable(x).numpy()", "float32"),
        (
            "table = nn.Embedding(2, 2)\nfor p in table.parameters(): p.data = p.data.half()\ntable(x).numpy()",
            "unknown",
        ),
        ("left.data = left.data.half()\nleft.numpy()", "unknown"),
        ("model[0].half()\nfor p in model.parameters(): p.data = x\nmodel[0].weight.numpy()", "unknown"),
        ("for p in y.parameters(): p.data = p.data.half()\nmodel[0].weight.numpy()", "unknown"),
        ("for p in y.parameters(): p.data = p.data.float()\nmodel[0].weight.numpy()", "float32"),
    ],
)
def test_of_which_type_one_of_several_parameters_is(tmp_path: Path, body: str, seen: str) -> None:
    assert types_seen(events_of(tmp_path, textwrap.dedent(MADE) + body)) == [seen]


@pytest.mark.parametrize(
    "more",
    [
        "trained = trained + list(model.parameters())",
        "trained = list(model.parameters()) + trained",
        "trained += list(model.parameters())",
        "trained += model.parameters()",
        "trained += [p for p in model.parameters() if p.requires_grad]",
        "trained = [*trained, *model.parameters()]",
    ],
)
@pytest.mark.parametrize("first", ["[left]", "[]", "list(other.parameters())"])
def test_one_list_of_the_parameters_of_several_modules(tmp_path: Path, first: str, more: str) -> None:
    body = f"other = nn.Linear(2, 2)\nmodel.half()\ntrained = {first}\n{more}"
    assert stepped_in(tmp_path, body, "trained") == [DType.FLOAT16.value]
    assert stepped_in(tmp_path, body.replace("model.half()", "pass"), "trained") == []


def test_parameters_that_are_put_into_one_list_are_not_written_to(tmp_path: Path) -> None:
    body = """
    other = nn.Linear(2, 2)
    trained = list(other.parameters())
    with torch.autocast("cuda"):
        other(x)
        trained += list(other.parameters())
    """
    written = body.replace("trained += list(other.parameters())", "other.weight += 1")
    assert list(of(events_of(tmp_path, body), ParameterWritten)) == []
    assert len(list(of(events_of(tmp_path, written), ParameterWritten))) == 1


@pytest.mark.parametrize("more", ["trained += [*model.parameters()]", "trained.extend(model.parameters())"])
def test_a_list_that_a_flag_fills(tmp_path: Path, more: str) -> None:
    """What is in it where the flag is not set is not in it on other paths."""
    body = f"trained = [left]\nif x:\n    {more}\nif not x:\n    model.half()"
    assert stepped_in(tmp_path, body, "trained") == []
    assert stepped_in(tmp_path, body.replace("if not x", "if x"), "trained") == [DType.FLOAT16.value]
