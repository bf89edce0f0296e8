"""The op table is true of the installed torch, and a wrong row in it is caught."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest

from amplint.amp import ops
from amplint.amp.ops import Policy

torch = pytest.importorskip("torch")

import generate_op_policies as measuring  # noqa: E402

RELEASE = ".".join(torch.__version__.split(".")[:2])
only_on_the_measured_release = pytest.mark.skipif(
    not ops.table()["torch"].startswith(f"{RELEASE}."),
    reason=f"the table is of torch {ops.table()['torch']}, here is {torch.__version__}",
)
pytestmark = pytest.mark.filterwarnings("ignore")

INTERNAL = {
    "_scaled_dot_product_flash_attention",
    "_thnn_fused_gru_cell",
    "_thnn_fused_lstm_cell",
    "convolution",
    "cudnn_convolution",
    "cudnn_convolution_transpose",
    "frobenius_norm",
    "nuclear_norm",
    "native_layer_norm",
    "nll_loss2d",
    "rnn_relu_cell",
    "rnn_tanh_cell",
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "mkldnn_rnn_layer",
}
"""Registered, but reached through other public names, as upsample_* is through interpolate."""


@pytest.fixture(scope="module", params=["cuda", "cpu"])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def measured(device: str) -> dict[str, str]:
    """What the installed torch does, op by op, as far as it can be seen without a GPU."""
    by_hand = measuring.UNMEASURABLE_ON_CUDA if device == "cuda" else {}
    names = [name for name in measuring.measured_names() if name not in by_hand]
    return measuring.measure_all(device, names)


def disagreements(table: dict[str, Any], measured: dict[str, str], device: str) -> list[str]:
    """The rows of a table that are not what was measured."""
    return [
        f"{name} on {device}: the table says {table['ops'].get(name, {}).get(device)}, torch does {policy}"
        for name, policy in measured.items()
        if table["ops"].get(name, {}).get(device) != policy
    ]


def test_torch_does_what_the_table_says(measured: dict[str, str], device: str) -> None:
    assert len(measured) > 450 or ops.table()["torch"] != torch.__version__.partition("+")[0]
    assert disagreements(ops.table(), measured, device) == []


@pytest.mark.parametrize(
    ("op", "wrong"),
    [
        ("softmax", "lower"),
        ("matmul", "float32"),
        ("sqrt", "float32"),
        ("relu", "view"),
        ("argmax", "untouched"),
    ],
)
def test_a_wrong_row_is_caught(measured: dict[str, str], device: str, op: str, wrong: str) -> None:
    table = copy.deepcopy(ops.table())
    table["ops"][op][device] = wrong
    assert [line.split()[0] for line in disagreements(table, measured, device)] == [op]


def test_a_missing_row_is_caught(measured: dict[str, str], device: str) -> None:
    table = copy.deepcopy(ops.table())
    del table["ops"]["linear"]
    assert [line.split()[0] for line in disagreements(table, measured, device)] == ["linear"]


@only_on_the_measured_release
@pytest.mark.parametrize("key", ["AutocastCUDA", "AutocastCPU"])
def test_torch_registers_the_same_overloads(key: str) -> None:
    assert measuring.registered(key) == ops.table()["registered"][key]


@pytest.mark.parametrize("key", ["AutocastCUDA", "AutocastCPU"])
def test_every_registered_public_op_has_a_row(key: str) -> None:
    bases = {overload.partition(".")[0] for overload in ops.table()["registered"][key]}
    public = {
        ops.plain_name(name)
        for name in bases - INTERNAL
        if not name.startswith(("_", "upsample_")) and list(measuring.spellings(ops.plain_name(name)))
    }
    assert sorted(name for name in public if ops.policy_of(name) is None) == []


@pytest.mark.parametrize("name", sorted(measuring.MOVES))
def test_an_op_that_is_said_to_move_data_computes_nothing(name: str) -> None:
    assert measuring.moves_elements(name)


@pytest.mark.parametrize("name", ["sqrt", "softmax", "mean", "gelu", "matmul", "add"])
def test_an_op_that_computes_is_seen_to_compute(name: str) -> None:
    assert not measuring.moves_elements(name)


@only_on_the_measured_release
def test_every_module_of_torch_nn_has_an_op_or_is_a_container() -> None:
    public = {
        name
        for name, value in vars(torch.nn).items()
        if isinstance(value, type) and issubclass(value, torch.nn.Module)
    }
    named = {name.removeprefix("torch.nn.") for name in ops.MODULES}
    assert public == named | measuring.NOT_ONE_OP
    assert not named & measuring.NOT_ONE_OP


def test_every_module_is_an_op_of_the_table() -> None:
    assert sorted(op for op in ops.MODULES.values() if ops.policy_of(op) is None) == []


@pytest.mark.parametrize("name", sorted(ops.KINDS_OF_WEIGHTS))
def test_weights_meet_a_half_operand_as_the_table_says(name: str) -> None:
    assert measuring.weights_meet_half(name) == ops.KINDS_OF_WEIGHTS[name]


def test_sensitive_ops_are_in_the_table() -> None:
    assert sorted(name for name in ops.SENSITIVE if ops.policy_of(name) is None) == []


def test_what_torch_protects_is_sensitive_resampling_or_composite() -> None:
    resampling = {"interpolate", "upsample", "upsample_nearest", "upsample_bilinear"}
    trigonometric = {"acos", "arccos", "arcsin", "asin"}
    transformers = {"transformer", "transformer_encoder_layer", "transformer_decoder_layer"}
    in_float32 = {name for name in ops.table()["ops"] if ops.policy_of(name) is Policy.FLOAT32}
    assert in_float32 - ops.SENSITIVE == resampling | trigonometric | transformers | {"ldexp"}


@pytest.mark.parametrize(
    ("op", "device", "policy"),
    [
        ("torch.nn.functional.softmax", "cuda", Policy.FLOAT32),
        ("torch.softmax", "xpu", Policy.FLOAT32),
        ("softmax", "cpu", Policy.UNTOUCHED),
        ("torch.Tensor.matmul", "cuda", Policy.LOWER),
        ("__rmatmul__", "cpu", Policy.LOWER),
        ("__rtruediv__", "cuda", Policy.FLOAT32),
        ("__truediv__", "cuda", Policy.PROMOTE),
        ("linalg_inv", "cpu", Policy.FLOAT32),
        ("torch.linalg.inv", "cuda", Policy.UNTOUCHED),
        ("binary_cross_entropy", "cuda", Policy.BANNED),
        ("binary_cross_entropy", "cpu", Policy.FLOAT32),
        ("transpose", "cuda", Policy.VIEW),
        ("sqrt", "cuda", Policy.UNTOUCHED),
        ("ge", "cuda", Policy.INTEGER),
        ("zeros", "cuda", Policy.FACTORY),
    ],
)
def test_names_are_understood_as_people_write_them(op: str, device: str, policy: Policy) -> None:
    assert ops.policy_of(op, device) is policy


@pytest.mark.parametrize("op", ["exp_", "addmm_", "pow_", "__imatmul__", "__iadd__", "__ipow__"])
@pytest.mark.parametrize("device_type", ["cuda", "cpu"])
def test_in_place_ops_are_never_cast(op: str, device_type: str) -> None:
    assert ops.policy_of(op, device_type) is Policy.UNTOUCHED


@pytest.mark.parametrize("op", ["exp_", "pow_", "log_"])
def test_torch_leaves_in_place_ops_alone(op: str) -> None:
    with torch.no_grad(), measuring.cuda_tensors():
        half = torch.empty(4, dtype=torch.float16, device="cuda")
        with torch.autocast("cuda:0", dtype=torch.float16):
            result = getattr(half, op)(*([2] if op == "pow_" else []))
    assert result.dtype is torch.float16


@pytest.mark.parametrize("op", ["no_such_op", "__init__", "", "_"])
def test_what_is_not_known_is_none(op: str) -> None:
    assert ops.policy_of(op) is None
    assert ops.sensitivity_of(op) is None


def test_another_device_is_not_known() -> None:
    assert ops.policy_of("matmul", "mps") is None


def test_reading_the_table_does_not_import_torch() -> None:
    program = (
        "import sys; from amplint.amp import ops; "
        "assert ops.policy_of('matmul') and ops.MODULES; assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_file_is_what_the_generator_writes() -> None:
    text = measuring.TABLE.read_text(encoding="utf-8")
    assert text == measuring.render(ops.table())
