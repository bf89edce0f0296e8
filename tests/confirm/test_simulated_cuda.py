"""Simulated CUDA does what CUDA does to types, weights and scalers, as far as that is known without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from amplint.amp.ops import releases  # noqa: E402
from amplint.confirm.cuda_policy import policy_of  # noqa: E402
from amplint.confirm.release import RELEASE  # noqa: E402
from amplint.confirm.simulation import SimulatedCuda  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    torch.manual_seed(0)
    with SimulatedCuda():
        yield


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).cuda()


def losses(steps: int, **region: object) -> list[float]:
    """The losses of a loop within one region."""
    model, x = mlp(), torch.randn(32, 8, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    seen = []
    with torch.autocast("cuda", **region):
        for _ in range(steps):
            loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
    return seen


def test_one_region_around_the_loop_freezes_the_loss() -> None:
    assert len(set(losses(4))) == 1


def test_without_the_weight_cache_the_loss_falls() -> None:
    seen = losses(4, cache_enabled=False)
    assert seen == sorted(seen, reverse=True) and len(set(seen)) == 4


def test_clearing_the_cache_brings_the_weights_up_to_date() -> None:
    layer = nn.Linear(2, 1, bias=False).cuda()
    x = torch.ones(1, 2, device="cuda")
    with torch.autocast("cuda"):
        first = layer(x).item()
        with torch.no_grad():
            layer.weight.add_(1)
        assert layer(x).item() == first
        torch.clear_autocast_cache()
        assert layer(x).item() == pytest.approx(first + 2, abs=1e-2)


def test_a_scaler_skips_the_step_after_an_overflow() -> None:
    model = nn.Linear(4, 1).cuda()
    before = model.weight.clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**30)
    with torch.autocast("cuda"):
        loss = model(torch.full((1, 4), 300.0, device="cuda")).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(model.weight, before)
    assert scaler.get_scale() == 2.0**29


def test_unscaled_gradients_are_what_they_are_without_a_scaler() -> None:
    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    x = torch.ones(1, 4, device="cuda")
    model(x).sum().backward()
    expected = model.weight.grad.clone()
    model.zero_grad()
    scaler.scale(model(x).sum()).backward()
    assert model.weight.grad[0, 0].item() == 65536
    scaler.unscale_(optimizer)
    assert torch.equal(model.weight.grad, expected)


def test_a_half_model_cannot_be_unscaled() -> None:
    model = nn.Linear(4, 1).cuda().half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler(init_scale=2.0)
    scaler.scale(model(torch.ones(1, 4, device="cuda").half()).sum()).backward()
    with pytest.raises(ValueError, match=r"^Attempting to unscale FP16 gradients\.$"):
        scaler.step(optimizer)


def test_half_tensors_that_leave_a_region_meet_float32_weights() -> None:
    layer = nn.Linear(4, 4).cuda()
    with torch.autocast("cuda"):
        half = layer(torch.ones(1, 4, device="cuda"))
    with pytest.raises(RuntimeError, match="mat1 and mat2 must have the same dtype, but got Half and Float"):
        layer(half)
    with (
        torch.autocast("cuda"),
        torch.autocast(half.device.type, enabled=False),
        pytest.raises(RuntimeError, match="must have the same dtype"),
    ):
        layer(half)


def test_binary_cross_entropy_is_banned_in_the_words_of_torch() -> None:
    probabilities = torch.rand(3, device="cuda")
    with torch.autocast("cuda"), pytest.raises(RuntimeError) as caught:
        nn.BCELoss()(probabilities, probabilities)
    assert str(caught.value).startswith(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    )


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_run_in_half(kind: type[nn.Module]) -> None:
    with torch.autocast("cuda"):
        output, _ = kind(4, 4).cuda()(torch.randn(3, 2, 4, device="cuda"))
    assert output.dtype is torch.float16


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_recompute_in_the_region(reentrant: bool) -> None:
    model = mlp()
    x = torch.randn(4, 8, device="cuda", requires_grad=True)
    with torch.autocast("cuda"):
        output = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=reentrant)
    output.float().sum().backward()
    assert output.dtype is torch.float16
    assert model[0].weight.grad is not None


def test_there_is_one_device_with_bfloat16() -> None:
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.cuda.is_bf16_supported()
    assert torch.get_autocast_dtype("cuda") is torch.float16
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == 0
    assert isinstance(torch.Generator(device="cuda").manual_seed(1), torch.Generator)
    assert torch.zeros(2, device=0).to("cuda:0").cuda().device == torch.device("cuda", 0)


def test_a_region_for_the_device_of_a_tensor_is_one_for_cuda() -> None:
    x = torch.ones(2, 2, device="cuda")
    with torch.autocast(x.device.type):
        assert torch.is_autocast_enabled("cuda")
        assert (x @ x).dtype is torch.float16


def test_a_region_that_is_spelt_for_the_cpu_keeps_the_policy_of_the_cpu() -> None:
    x = torch.ones(2, 2)
    with torch.autocast("cpu"):
        assert not torch.is_autocast_enabled("cuda")
        assert (x @ x).dtype is torch.bfloat16
        assert torch.softmax((x @ x), 0).dtype is torch.bfloat16


def test_a_flag_that_is_none_is_refused_as_torch_does() -> None:
    with pytest.raises(TypeError), torch.autocast("cuda", enabled=torch.float16):
        pass


def test_every_overload_with_a_kernel_on_cuda_has_a_policy() -> None:
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    names = {name.removeprefix("aten::") for name in registered if name.startswith("aten::")}
    without = {name for name in names - {"_cudnn_rnn"} if policy_of(name) is None}
    # of a newer torch, tests/amp/test_op_policies.py tells which they are
    assert without == set() or releases()[-1] < RELEASE


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        (lambda half: torch.softmax(half, 0), torch.float32),
        (lambda half: half.exp(), torch.float32),
        (lambda half: half.sum(), torch.float32),
        (lambda half: half.norm(), torch.float32),
        (lambda half: nn.functional.pairwise_distance(half, half), torch.float32),
        (lambda half: nn.functional.layer_norm(half, (2,)), torch.float32),
        (lambda half: nn.functional.cross_entropy(half, half[0].long()), torch.float32),
        (lambda half: half.float() @ half.float(), torch.float16),
        (lambda half: half.sqrt(), torch.float16),
        (lambda half: half.mvlgamma(1), torch.float32),
        (
            lambda half: nn.functional.affine_grid(half[None].float()[..., [0, 0, 0]], [1, 1, 2, 2]),
            torch.float16,
        ),
        (lambda half: half.softmax(0, dtype=torch.float16), torch.float16),
        (lambda half: half.clone().exp_(), torch.float16),
        (lambda half: half.double() @ half.double(), torch.float64),
    ],
)
def test_types_are_those_of_cuda(op: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype) -> None:
    with torch.autocast("cuda"):
        assert op(torch.ones(2, 2, dtype=torch.float16, device="cuda")).dtype is dtype
