"""What the op table says of CUDA is true of a CUDA device with its kernels: `pytest -m cuda`. The table itself is
measured on fake tensors, and on the CPU for want of kernels."""

from __future__ import annotations

import pytest

from amplint.amp import ops

torch = pytest.importorskip("torch")

import generate_op_policies as measuring  # noqa: E402
import op_samples as samples  # noqa: E402
from half_kernels import WITHOUT_HALF_KERNELS  # noqa: E402

pytestmark = [pytest.mark.cuda, pytest.mark.filterwarnings("ignore")]
HERE = ops.of_release(torch.__version__)
RAISES_IN_HALF = {"adaptive_log_softmax_with_loss"}
"""Whose results do not tell the policy: in a region they raise on half, for they write float32 into half."""
ROW = measuring.rows_by_release(ops.table())[ops.measured(HERE)[0]]["ops"]


@pytest.fixture(autouse=True)
def device() -> None:
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")


def test_policies_are_those_of_the_device() -> None:
    found = measuring.measure_all("cuda", measuring.measured_names(), real=True)
    for name in sorted(set(measuring.weighted_modules()) - set(found)):
        found[name] = measuring.module_policy(name, "cuda")
    assert len(found) > 530
    assert set(samples.UNMEASURABLE_ON_CUDA) & set(ROW) <= set(found)
    wrong = {
        name: f"the table says {ROW[name].get('cuda')}, the device does {policy}"
        for name, policy in found.items()
        if name in ROW and name not in RAISES_IN_HALF and ROW[name].get("cuda") != policy
    }
    assert wrong == {}


def test_modules_take_half_as_the_table_says() -> None:
    said = {
        name: ROW[name].get("weights_on_cuda", ROW[name]["weights"]) for name in measuring.weighted_modules()
    }
    found = {name: measuring.weights_meet_half(name, "cuda") for name in said}
    assert found == said


def test_the_kernels_that_the_cpu_lacks_are_those_that_the_device_lacks() -> None:
    wrong = {
        name: f"the table says {ROW[name].get('lacks')}, the device lacks {found}"
        for name in sorted(WITHOUT_HALF_KERNELS & set(ROW))
        if (found := measuring.lacks(name, "cuda")) != ROW[name].get("lacks")
    }
    assert wrong == {}
