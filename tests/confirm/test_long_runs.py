"""What the probe and its listener keep depends on the program, not on the length of its run."""

from __future__ import annotations

import copy
import gc
import io
import types
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from amplint.confirm.observer import Observer  # noqa: E402
from amplint.confirm.probe import Level, Probe  # noqa: E402
from amplint.confirm.session_hooks import losses_told  # noqa: E402
from amplint.confirm.simulation import SimulatedCuda  # noqa: E402
from amplint.confirm.tracer import Tracer  # noqa: E402
from amplint.rules import rule_classes  # noqa: E402
from amplint.rules.base import FlowRule  # noqa: E402

CONTAINERS = (dict, list, set, frozenset, tuple, deque)


def inside(thing: Any) -> Iterator[Any]:
    """What an object of amplint's, a container or a function holds."""
    if isinstance(thing, dict):
        yield from thing.keys()
        yield from thing.values()
    elif isinstance(thing, CONTAINERS):
        yield from thing
    elif isinstance(thing, types.MethodType):
        yield thing.__self__
    elif isinstance(thing, types.FunctionType):
        yield from (cell.cell_contents for cell in thing.__closure__ or () if cell != types.CellType())
    elif type(thing).__module__.startswith("amplint.") and not isinstance(thing, type):
        yield getattr(thing, "__dict__", None)
        for kind in type(thing).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            yield from (
                getattr(thing, name, None) for name in ((slots,) if isinstance(slots, str) else slots)
            )


def kept(probe: Probe, observer: Observer) -> Counter[str]:
    """How many objects of each type are held, the elements of containers counted by the type that has them."""
    gc.collect()
    wrapped = [getattr(owner, name, None) for owner, name, _ in probe.patches._undo]
    seen: dict[int, Any] = {}
    found: Counter[str] = Counter()
    pending: list[Any] = [probe, observer, vars(probe.here), wrapped]
    while pending:
        thing = pending.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing
        if isinstance(thing, CONTAINERS):
            found["elements"] += len(thing)
        elif isinstance(thing, torch.Tensor):
            found["tensors"] += 1
        pending.extend(inside(thing))
    return found


def program() -> Callable[[int], None]:
    """Trains for a number of steps, in ways that lead to findings and in ways that keep objects."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0)
    x = torch.ones(2, 4).cuda()

    def train(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).exp().mean()
                loss.float()
                scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            # copies in half precision are new tensors with a history each
            half = copy.deepcopy(model).half()
            with torch.no_grad():
                half(x.half()).float()
                half(torch.nn.Parameter(x.half()))
            torch.amp.GradScaler("cuda", enabled=False)
            optimizer.state_dict()
            torch.save({"optimizer": optimizer.state_dict()}, io.BytesIO())
            other = torch.optim.SGD(half[0].float().parameters(), lr=0.1)
            torch.optim.lr_scheduler.StepLR(other, 1)
            half[0](x).sum().backward()
            other.step()
            region = torch.autocast("cuda")
            with region, region:
                half[0].weight.data.mul_(0.5)
                half[0](x)
            eval(compile("x + 1", "<made>", "eval"), {"x": x.half()})
            exec(compile("def f(x):\n    return x.half() + 1\nf(x)", __file__, "exec"), {"x": x})

    return train


@pytest.mark.parametrize("level", [Level.FUNCTIONS, Level.CASTS], ids=lambda level: level.name)
@pytest.mark.filterwarnings("ignore")
def test_a_longer_run_keeps_no_more(level: Level) -> None:
    rules = [rule() for rule in rule_classes() if issubclass(rule, FlowRule)]
    observer = Tracer() if level is Level.CASTS else Observer(rules)
    with SimulatedCuda():
        probe = Probe(observer, is_user_file=__file__.__eq__, root=Path(__file__).parent, level=level)
        observer.ask(probe.context)
        with probe, losses_told(observer.loss):
            train, held = program(), []
            for steps in (40, 80):
                train(steps)
                held.append(kept(probe, observer))
    assert not probe.errors
    assert held[1] == held[0]


@pytest.mark.filterwarnings("ignore")
def test_the_state_of_an_optimizer_is_not_kept_alive() -> None:
    rules = [rule() for rule in rule_classes() if issubclass(rule, FlowRule)]
    observer = Observer(rules)
    probe = Probe(observer, is_user_file=__file__.__eq__, root=Path(__file__).parent)
    with probe, losses_told(observer.loss):
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        state = optimizer.state_dict()
        moment = weakref.ref(next(iter(state["state"].values()))["exp_avg"])
        del model, optimizer, state
        gc.collect()
        assert moment() is None
