"""What CUDA refuses and the CPU takes is refused on a device, and where one is simulated."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from amplint.confirm.simulation import SimulatedCuda  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def half(*shape: int, device: str) -> Tensor:
    return torch.ones(shape, dtype=torch.float16, device=device)


def fill_a_mask(target: Tensor, value: Tensor) -> Tensor:
    target[target == 0] = value
    return target


def step(device: str, *, fused: bool) -> None:
    model = nn.Linear(8, 3).to(device).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    scaler = torch.amp.GradScaler(device)
    scaler.scale(model(torch.randn(4, 8, device=device).bfloat16()).float().sum()).backward()
    scaler.step(optimizer)


REFUSED: dict[str, Callable[[str], object]] = {
    "half, and a layer norm in float32": lambda device: nn.LayerNorm(8).to(device)(half(2, 8, device=device)),
    "half, and a group norm in float32": lambda device: nn.GroupNorm(2, 4).to(device)(
        half(2, 4, device=device)
    ),
    "a half element for a mask": lambda device: fill_a_mask(
        torch.zeros(4, device=device), half(device=device)
    ),
    "a scaler and bfloat16": lambda device: step(device, fused=False),
    "a scaler and bfloat16, fused": lambda device: step(device, fused=True),
}
TAKEN: dict[str, Callable[[str], object]] = {
    "a layer norm without weights": lambda device: nn.LayerNorm(8, elementwise_affine=False)(
        half(2, 8, device=device)
    ),
    "a layer norm in half": lambda device: nn.LayerNorm(8).to(device).half()(half(2, 8, device=device)),
    "a batch norm in float32": lambda device: nn.BatchNorm1d(4).to(device)(half(2, 4, device=device)),
    "a half element of the CPU for a mask": lambda device: fill_a_mask(
        torch.zeros(4, device=device), half(device="cpu")
    ),
    "a half element for a row": lambda device: torch.zeros(4, device=device).__setitem__(
        torch.tensor(1, device=device), half(device=device)
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("gradients", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_simulated_cuda_refuses(case: str, gradients: Callable[[], object]) -> None:
    if "scaler" in case and gradients is not torch.enable_grad:
        pytest.skip("trains")
    REFUSED[case]("cpu")
    with SimulatedCuda(), gradients():  # type: ignore[attr-defined]
        with pytest.raises(RuntimeError):
            REFUSED[case]("cuda")
        REFUSED[case]("cpu")


@pytest.mark.parametrize("case", TAKEN)
def test_simulated_cuda_takes(case: str) -> None:
    with SimulatedCuda():
        TAKEN[case]("cuda")


@pytest.mark.cuda
@pytest.mark.parametrize("case", [*REFUSED, *TAKEN])
def test_a_device_does_the_same(case: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    if case in TAKEN:
        TAKEN[case]("cuda")
        return
    with pytest.raises(RuntimeError):
        REFUSED[case]("cuda")


def test_parts_of_an_op_meet_autocast_only_in_a_region() -> None:
    """Under ``inference_mode`` the parts of an op meet autocast, which is off outside regions."""
    with SimulatedCuda(), torch.inference_mode():
        logits, labels = half(2, 3, device="cuda"), torch.zeros(2, dtype=torch.long, device="cuda")
        assert nn.functional.cross_entropy(logits, labels).dtype is torch.float16
        with torch.autocast("cuda"):
            assert nn.functional.cross_entropy(logits, labels).dtype is torch.float32
        with torch.autocast("cuda"), torch.autocast("cuda", enabled=False):
            assert nn.functional.cross_entropy(logits, labels).dtype is torch.float16
