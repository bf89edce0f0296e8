"""After a run torch is as it was: no attribute is replaced, no mode is on, no kernel is left."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from amplint.confirm.probe import Level, Probe  # noqa: E402
from amplint.confirm.simulation import SimulatedCuda  # noqa: E402
from amplint.events import Event  # noqa: E402


class Deaf:
    """Hears nothing."""

    def hear(self, event: Event) -> None:
        """Does nothing."""


def a_probe(level: Level) -> Probe:
    return Probe(Deaf(), is_user_file=lambda name: name == __file__, root=Path(__file__).parent, level=level)


def owners() -> Iterator[Any]:
    """The modules and classes of torch in which something may be replaced."""
    for name in (
        "", ".amp", ".amp.autocast_mode", ".amp.grad_scaler", ".autograd", ".autograd.function", ".autograd.graph",
        ".cuda",
        ".cuda.amp", ".cuda.amp.autocast_mode", ".cuda.amp.common", ".cuda.graphs", ".cuda.memory", ".cuda.random",
        ".distributed", ".fft", ".jit", ".nn", ".nn.functional", ".nn.modules.module", ".nn.utils",
        ".nn.utils.clip_grad", ".optim", ".optim.optimizer", ".serialization", ".utils._device",
        ".accelerator",
    ):  # fmt: skip
        owner: Any = importlib.import_module("torch" + name)
        yield owner
        yield from (value for value in vars(owner).values() if inspect.isclass(value))
    import concurrent.futures
    import multiprocessing.pool
    import threading

    yield from (threading.Thread, concurrent.futures.ThreadPoolExecutor, multiprocessing.pool.Pool)


def snapshot() -> dict[tuple[str, str], int]:
    """What is called, by identity. Counters may change."""
    return {
        (repr(owner), name): id(value)
        for owner in owners()
        for name, value in list(vars(owner).items())
        if callable(value) or isinstance(value, (staticmethod, classmethod, property))
    }


def torchs_hooks() -> list[int]:
    from torch.nn.modules import module
    from torch.optim import optimizer

    return [
        len(hooks)
        for hooks in (
            module._global_parameter_registration_hooks,
            module._global_forward_pre_hooks,
            optimizer._global_optimizer_post_hooks,
            optimizer._global_optimizer_pre_hooks,
        )
    ]


def train() -> None:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda"):
        loss = model(torch.randn(3, 4)).float().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


@pytest.mark.parametrize("simulated", [False, True], ids=["plain", "simulated"])
@pytest.mark.parametrize("level", list(Level), ids=lambda level: level.name)
@pytest.mark.filterwarnings("ignore")
def test_attributes_and_hooks_are_put_back(level: Level, simulated: bool) -> None:
    # the first run makes torch import parts of itself
    with SimulatedCuda(), a_probe(level):
        train()
    before, hooks = snapshot(), torchs_hooks()
    with ExitStack() as stack:
        if simulated:
            stack.enter_context(SimulatedCuda())
        stack.enter_context(a_probe(level))
        train()
    after = snapshot()
    assert {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} == set()
    assert torchs_hooks() == hooks
    assert torch.overrides._get_current_function_mode_stack() == []
    assert torch.utils._python_dispatch._get_current_dispatch_mode_stack() == []


def test_the_policy_of_the_cpu_is_back() -> None:
    def half_softmax() -> torch.dtype:
        with torch.autocast("cpu", dtype=torch.float16):
            return torch.softmax(torch.randn(4, dtype=torch.float16), 0).dtype

    assert half_softmax() is torch.float16
    with SimulatedCuda(), torch.autocast("cuda"):
        assert torch.softmax(torch.randn(4, dtype=torch.float16, device="cuda"), 0).dtype is torch.float32
    assert half_softmax() is torch.float16
    assert not torch.cuda.is_available()


def test_a_program_that_raises_leaves_nothing_either() -> None:
    before = snapshot()
    with pytest.raises(ZeroDivisionError), SimulatedCuda(), a_probe(Level.FUNCTIONS), torch.autocast("cuda"):
        raise ZeroDivisionError
    assert snapshot() == before
    assert not torch.is_autocast_enabled("cuda")
