"""A probe that leaves the compiler on: code is compiled as without one, and nothing in it is observed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from amplint.confirm.probe import Probe  # noqa: E402
from amplint.events import Backward, Event, Forward, Op, OptimizerStepped  # noqa: E402


class Notebook:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def hear(self, event: Event) -> None:
        self.events.append(event)

    def count(self, kind: type[Event]) -> int:
        return sum(isinstance(event, kind) for event in self.events)


def observe() -> tuple[Notebook, Probe]:
    notebook = Notebook()
    here = Path(__file__)
    probe = Probe(notebook, is_user_file=__file__.__eq__, root=here.parent, device="cpu", keeps_compile=True)
    return notebook, probe


@pytest.fixture(autouse=True)
def _compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import torch._dynamo

    monkeypatch.delenv("TORCHDYNAMO_DISABLE", raising=False)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.layers(x))


class Backend:
    """Counts what it gets to compile, and leaves it as it is."""

    def __init__(self, ahead_of_time: bool = False) -> None:
        self.graphs = 0
        self.ahead_of_time = ahead_of_time

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        if not self.ahead_of_time:
            return graph.forward
        from functorch.compile import make_boxed_func
        from torch._dynamo.backends.common import aot_autograd

        return aot_autograd(fw_compiler=lambda inner, _: make_boxed_func(inner.forward))(graph, inputs)


def module(backend: Backend) -> Callable[[Net], Any]:
    return lambda model: torch.compile(model, backend=backend, fullgraph=True)


def in_place(backend: Backend) -> Callable[[Net], Any]:
    def compiled(model: Net) -> Any:
        model.compile(backend=backend, fullgraph=True)
        return model

    return compiled


def function(backend: Backend) -> Callable[[Net], Any]:
    def compiled(model: Net) -> Any:
        @torch.compile(backend=backend, fullgraph=True)
        def run(x: torch.Tensor) -> torch.Tensor:
            return model(x)

        return run

    return compiled


def trained(compiled: Callable[[Net], Any]) -> list[float]:
    torch.manual_seed(0)
    model = Net()
    run = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = run(torch.ones(2, 4))
        loss = out.float().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("ahead_of_time", [False, True], ids=["forward alone", "backward, too"])
@pytest.mark.parametrize("way", [module, in_place, function])
def test_it_is_compiled_as_without_a_probe(
    way: Callable[[Backend], Callable[[Net], Any]], ahead_of_time: bool
) -> None:
    plain = Backend(ahead_of_time)
    expected = trained(way(plain))
    torch._dynamo.reset()
    backend = Backend(ahead_of_time)
    notebook, probe = observe()
    with probe:
        assert trained(way(backend)) == expected
    assert backend.graphs == plain.graphs == 1
    assert probe.errors == []
    assert notebook.count(Backward) == notebook.count(OptimizerStepped) == 3


def test_nothing_inside_is_observed_and_the_probe_says_so() -> None:
    notebook, probe = observe()
    with probe:
        trained(lambda model: model)
        assert notebook.count(Op) and not probe.unobserved
        notebook.events.clear()
        trained(module(Backend()))
    assert notebook.count(Forward) == 3
    assert {event.name for event in notebook.events if isinstance(event, Op)} <= {"sum", "float", "to"}
    assert probe.unobserved and probe.notes == [probe.unobserved]


def test_what_the_program_took_from_torch_meanwhile_is_compiled_as_torch_has_it() -> None:
    backend = Backend()
    _, probe = observe()
    with probe:
        call, layer = nn.Module.__call__, nn.Linear(2, 2)

        @torch.compile(backend=backend, fullgraph=True)
        def run(x: torch.Tensor) -> torch.Tensor:
            return call(layer, x)

        assert run(torch.ones(1, 2)).shape == (1, 2)
    assert backend.graphs == 1


def test_an_optimizer_is_compiled_as_without_a_probe() -> None:
    def compiled() -> int:
        weight = nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight], lr=0.5)
        backend = Backend()

        @torch.compile(backend=backend)
        def step() -> None:
            optimizer.step()

        for _ in range(2):
            weight.grad = torch.ones(2)
            step()
        assert weight.tolist() == [0.0, 0.0]
        return backend.graphs

    expected = compiled()
    torch._dynamo.reset()
    notebook, probe = observe()
    with probe:
        assert compiled() == expected
    assert not notebook.count(OptimizerStepped)


def test_what_is_compiled_may_call_what_is_compiled() -> None:
    backend = Backend()
    _, probe = observe()
    with probe:

        @torch.compile(backend=backend, fullgraph=True)
        def inner(x: torch.Tensor) -> torch.Tensor:
            return x + 1

        @torch.compile(backend=backend, fullgraph=True)
        def outer(x: torch.Tensor) -> torch.Tensor:
            return inner(x) * 2

        assert outer(torch.ones(1)).item() == 4
    assert backend.graphs == 1


def test_the_modes_of_the_program_stay() -> None:
    _, probe = observe()
    with probe, torch.device("cpu"):
        before = torch.overrides._get_current_function_mode_stack()
        inside: list[Any] = []
        with probe.aside():
            inside += torch.overrides._get_current_function_mode_stack()
        assert torch.overrides._get_current_function_mode_stack() == before
    assert len(before) == 2 and inside == before[1:]


def test_torch_is_as_it_was_until_the_last_one_is_back() -> None:
    plain = nn.Module.__call__
    _, probe = observe()
    with probe:
        replaced = nn.Module.__call__
        assert replaced is not plain
        with probe.aside():
            with probe.aside():
                assert nn.Module.__call__ is plain
            assert nn.Module.__call__ is plain
        assert nn.Module.__call__ is replaced
    assert nn.Module.__call__ is plain
