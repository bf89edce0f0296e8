"""The op table is true of the installed torch, and a wrong row in it is caught."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings

import pytest

from amplint.amp import ops
from amplint.amp.ops import Policy
from amplint.amp.versions import Bounds

torch = pytest.importorskip("torch")

import generate_op_policies as measuring  # noqa: E402
import op_samples as samples  # noqa: E402

HERE = ops.of_release(torch.__version__)
RELEASE = HERE[0]
NEWEST = ops.releases()[-1]
quietly = pytest.mark.filterwarnings("ignore")

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
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "mkldnn_rnn_layer",
}
"""Registered, but reached through other public names, as upsample_* is through interpolate."""


@pytest.fixture(scope="module")
def measured() -> dict[str, measuring.Section]:
    """What the installed torch does, as far as it can be seen without a GPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return measuring.measure_release()


def disagreements(row: dict[str, measuring.Section], measured: dict[str, measuring.Section]) -> list[str]:
    """What the table says of a release and torch does not do, and what torch does and the table does not say."""
    return [
        f"{name}: the table says {row[section].get(name)}, torch does {measured[section].get(name)}"
        for section in measuring.SECTIONS
        for name in sorted({*row[section], *measured[section]})
        if row[section].get(name) != measured[section].get(name)
    ]


def row_of(release: tuple[int, int]) -> dict[str, measuring.Section]:
    """What the table says of a release that it was measured on, or else of the one before."""
    by_release = measuring.rows_by_release(ops.table())
    return by_release[ops.measured((release, release))[0]]


def judged(found: list[str], release: tuple[int, int]) -> None:
    """Fails where torch contradicts the table, or warns where the table does not know this torch yet."""
    if release <= NEWEST:
        assert found == []
        return
    said = "; ".join(found) or "none: all rows hold"
    warnings.warn(
        f"torch {measuring.spelt(release)} is newer than the op table, which ends with torch "
        f"{measuring.spelt(NEWEST)}. Rows that are not true of it: {said}. "
        "tests/amp/generate_op_policies.py measures it.",
        stacklevel=1,
    )


def test_torch_does_what_the_table_says(measured: dict[str, measuring.Section]) -> None:
    assert len(measured["ops"]) > 530
    judged(disagreements(row_of(RELEASE), measured), RELEASE)


def test_a_torch_that_the_table_does_not_know_is_a_warning() -> None:
    newer = (NEWEST[0], NEWEST[1] + 1)
    with pytest.warns(
        UserWarning, match=rf"torch {measuring.spelt(newer)} is newer .* not true of it: softmax: "
    ):
        judged(["softmax: the table says this, torch does that"], newer)
    with pytest.raises(AssertionError):
        judged(["softmax: the table says this, torch does that"], NEWEST)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
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
def test_a_wrong_row_is_caught(
    measured: dict[str, measuring.Section], device: str, op: str, wrong: str
) -> None:
    row = copy.deepcopy(measured)
    row["ops"][op][device] = wrong
    assert [line.split(":")[0] for line in disagreements(row, measured)] == [op]


@pytest.mark.parametrize(
    ("section", "name"), [("ops", "linear"), ("modules", "torch.nn.Linear"), ("overloads", "softmax.int")]
)
def test_a_missing_row_is_caught(measured: dict[str, measuring.Section], section: str, name: str) -> None:
    row = copy.deepcopy(measured)
    del row[section][name]
    assert [line.split(":")[0] for line in disagreements(row, measured)] == [name]


def test_torch_is_seen_to_lose_an_op(measured: dict[str, measuring.Section]) -> None:
    row = copy.deepcopy(measured)
    row["ops"]["torch_has_no_such_op"] = {"cuda": "lower"}
    assert [line.split(":")[0] for line in disagreements(row, measured)] == ["torch_has_no_such_op"]


def test_every_registered_public_op_has_a_row() -> None:
    bases = {overload.partition(".")[0] for overload in ops.table()["overloads"]}
    public = {
        ops.plain_name(name)
        for name in bases - INTERNAL
        if not name.startswith(("_", "upsample_")) and list(measuring.spellings(ops.plain_name(name)))
    }
    assert sorted(name for name in public if not ops.rows("ops", name)) == []


@quietly
@pytest.mark.parametrize("name", sorted(samples.MOVES))
def test_an_op_that_is_said_to_move_data_computes_nothing(name: str) -> None:
    assert measuring.moves_elements(name)


@quietly
@pytest.mark.parametrize("name", ["sqrt", "softmax", "mean", "gelu", "matmul", "add"])
def test_an_op_that_computes_is_seen_to_compute(name: str) -> None:
    assert not measuring.moves_elements(name)


def test_every_module_of_torch_nn_has_an_op_or_is_a_container() -> None:
    public = {
        name
        for name, value in vars(torch.nn).items()
        if isinstance(value, type) and issubclass(value, torch.nn.Module)
    }
    named = {name.removeprefix("torch.nn.") for name in ops.MODULES}
    # a newer torch may have more
    assert RELEASE > NEWEST or public <= named | samples.NOT_ONE_OP
    assert not named & samples.NOT_ONE_OP


@pytest.mark.parametrize("release", ops.releases(), ids=measuring.spelt)
def test_every_module_is_an_op_of_the_table(release: tuple[int, int]) -> None:
    row = row_of(release)
    assert sorted(facts["op"] for facts in row["modules"].values() if facts["op"] not in row["ops"]) == []


def test_sensitive_ops_are_in_the_table() -> None:
    assert sorted(name for name in ops.SENSITIVE if not ops.rows("ops", name)) == []


def test_what_torch_protects_is_sensitive_resampling_or_composite() -> None:
    resampling = {"interpolate", "upsample", "upsample_nearest", "upsample_bilinear"}
    trigonometric = {"acos", "arccos", "arcsin", "asin"}
    transformers = {"transformer", "transformer_encoder_layer", "transformer_decoder_layer"}
    newest = (NEWEST, NEWEST)
    in_float32 = {
        name for name in ops.table()["ops"] if ops.policy_of(name, "cuda", newest) is Policy.FLOAT32
    }
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


@quietly
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


def test_what_is_the_same_in_consecutive_releases_is_written_once() -> None:
    by_release = measuring.rows_by_release(ops.table())
    assert {section: measuring.joined(section, by_release) for section in measuring.SECTIONS} == {
        section: ops.table()[section] for section in measuring.SECTIONS
    }


@pytest.mark.parametrize(
    ("op", "device", "release", "policy"),
    [
        ("rms_norm", "cuda", "2.6", Policy.PROMOTE),
        ("rms_norm", "cuda", "2.11", Policy.UNTOUCHED),
        ("rms_norm", "cuda", "2.13.0+cu130", Policy.FLOAT32),
        ("tensordot", "cpu", "2.7", Policy.LOWER),
        ("tensordot", "cpu", "2.8", Policy.UNTOUCHED),
        ("qr", "cpu", "2.13", Policy.FLOAT32),
        ("qr", "cpu", "2.14", None),
        ("matmul", "cuda", "1.13", Policy.LOWER),
        ("matmul", "cuda", "99.0", Policy.LOWER),
    ],
)
def test_a_release_has_its_own_policies(op: str, device: str, release: str, policy: Policy | None) -> None:
    assert ops.policy_of(op, device, ops.of_release(release)) is policy


def test_a_policy_holds_for_all_releases_that_a_project_admits() -> None:
    assert ops.policy_of("rms_norm", "cuda", ((2, 12), None)) is Policy.FLOAT32
    assert ops.policy_of("rms_norm", "cuda", ((2, 7), (2, 11))) is Policy.UNTOUCHED
    assert ops.policy_of("rms_norm", "cuda", ((2, 7), (2, 12))) is None
    assert ops.policy_of("rms_norm") is None
    # the releases without the op run no program that calls it
    assert ops.policy_of("linear_cross_entropy") is Policy.FLOAT32
    assert ops.policy_of("qr", "cuda", ((2, 6), None)) is Policy.UNTOUCHED


def test_weights_meet_half_operands_as_in_the_release() -> None:
    assert ops.weights_meet_half("linear") == "raises"
    assert ops.weights_meet_half("rms_norm", ((2, 6), (2, 6))) == "promotes"
    assert ops.weights_meet_half("rms_norm", ((2, 7), None)) == "accepts"
    assert ops.weights_meet_half("rms_norm") is None
    assert ops.weights_meet_half("relu") is None


@pytest.mark.parametrize(
    ("bounds", "name"),
    [
        (((2, 13), (2, 13)), "op table of torch 2.13"),
        (((2, 6), None), "op tables of torch 2.6 to {newest}"),
        (((2, 0), (2, 10)), "op tables of torch {oldest} to 2.10"),
        (((1, 8), (1, 13)), "op table of torch {oldest}"),
        (((99, 0), None), "op table of torch {newest}"),
    ],
)
def test_tables_are_named_by_their_releases(bounds: Bounds, name: str) -> None:
    wanted = name.format(newest=measuring.spelt(NEWEST), oldest=measuring.spelt(ops.releases()[0]))
    assert ops.name_of_table(bounds) == wanted


def test_a_release_that_was_not_measured_has_the_rows_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ops, "releases", lambda: ((2, 6), (2, 10), (2, 15)))
    measured = ops.measured.__wrapped__
    assert measured(((2, 7), (2, 7))) == ((2, 6),)
    assert measured(((2, 7), (2, 12))) == ((2, 6), (2, 10))
    assert measured(((2, 10), None)) == ((2, 10), (2, 15))
