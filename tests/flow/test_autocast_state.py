"""What the flow tells of arguments, threads, caches and custom Functions."""

from __future__ import annotations

from textwrap import dedent

import pytest
from listening import Holds

from amplint.events import (
    AutocastSwitched,
    Constructed,
    DType,
    Forward,
    FunctionApplied,
    GeneratorDecorated,
    ParameterWritten,
    RegionEntered,
    ThreadBegan,
    WeightCast,
)

HEAD = dedent("""
    import asyncio, threading
    from concurrent.futures import ThreadPoolExecutor
    import torch
    from torch import nn
""")


@pytest.mark.parametrize(
    ("argument", "kind", "value"),
    [
        ('"cuda"', "str", "cuda"),
        ('f"cuda:{rank}"', "str", "cuda:…"),
        ('torch.device("cuda:1")', "torch.device", "cuda:1"),
        ('str(torch.device("cuda:1"))', "str", "cuda:1"),
        ('torch.device("cuda:1").type', "str", "cuda"),
        ("torch.zeros(2).device", "torch.device", None),
        ("rank", "unknown", None),
        ("rank is None", "bool", None),
        ("True", "bool", True),
    ],
)
def test_types_of_arguments(holds: Holds, argument: str, kind: str, value: object) -> None:
    tape = holds(f"{HEAD}\ndef main(rank):\n    torch.autocast({argument})\n")
    made = next(event for event in tape.of(Constructed) if isinstance(event, Constructed))
    given = made.given("device_type")
    assert given is not None
    assert (given.kind, given.value) == (kind, value)


@pytest.mark.parametrize(
    "start",
    [
        "threading.Thread(target=run, args=(model, x)).start()",
        "ThreadPoolExecutor(1).submit(run, model, x)",
        "asyncio.to_thread(run, model, x)",
        "loop.run_in_executor(None, run, model, x)",
    ],
)
def test_a_thread_begins_outside_every_region(holds: Holds, start: str) -> None:
    tape = holds(
        HEAD
        + dedent(f"""
            def run(model, x):
                loss = model.forward_all(x)
                loss.backward()  # out

            def main(model, x, loop, loss):
                with torch.autocast("cuda"):
                    {start}
                    loss.backward()  # in
        """)
    )
    assert {event.how for event in tape.of(ThreadBegan) if isinstance(event, ThreadBegan)} == {"thread"}


def test_finally_runs_on_the_way_out(holds: Holds) -> None:
    holds(
        HEAD
        + dedent("""
            def run(model, loss, quick):
                amp = torch.autocast("cuda")
                amp.__enter__()
                try:
                    if quick:
                        return model(loss)
                    loss.backward()  # in
                finally:
                    amp.__exit__(None, None, None)

            def main(model, loss, quick):
                run(model, loss, quick)
                loss.backward()  # out
        """)
    )


@pytest.mark.parametrize(
    ("write", "told"),
    [
        ("model.load_state_dict(state)", True),
        ("model.load_state_dict(state, assign=True)", False),
        ("next(model.parameters()).data.copy_(x)", True),
        ("next(model.parameters()).requires_grad_(False)", False),
        ("nn.init.zeros_(model.weight)", True),
    ],
)
def test_writes_to_parameters(holds: Holds, write: str, told: bool) -> None:
    tape = holds(
        HEAD
        + dedent(f"""
            def main(state, x):
                model = nn.Linear(2, 2)
                with torch.autocast("cuda"):
                    model(x)
                    {write}
        """)
    )
    assert bool(tape.of(ParameterWritten)) is told
    assert {event.opaque for event in tape.of(Forward) if isinstance(event, Forward)} == {True}


def test_a_leaf_is_cast_and_written(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
            def main(weight):
                latent = torch.randn(2, 2, requires_grad=True)
                with torch.autocast("cuda"):
                    torch.mm(latent, weight)
                    latent.data.add_(1)
        """)
    )
    cast, written = tape.of(WeightCast)[0], tape.of(ParameterWritten)[0]
    assert isinstance(cast, WeightCast)
    assert isinstance(written, ParameterWritten)
    assert cast.owner == written.owner


def test_a_kept_context_is_one_object(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
            amp = torch.autocast("cuda")

            def inner():
                with amp:
                    pass

            def main():
                with amp:
                    inner()
                with torch.autocast("cuda"):
                    pass
        """)
    )
    entered = [event.instance for event in tape.of(RegionEntered) if isinstance(event, RegionEntered)]
    assert None in entered
    assert len({instance for instance in entered if instance is not None}) == 1


def test_an_applied_function(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
            class Product(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x, weight):
                    return x @ weight

                @staticmethod
                def backward(ctx, gradient):
                    return gradient @ gradient

            def main(x):
                with torch.autocast("cuda"):
                    Product.apply(x, torch.zeros(2, 2))
        """)
    )
    applied = tape.of(FunctionApplied)[0]
    assert isinstance(applied, FunctionApplied)
    assert applied.float32
    assert applied.function.products
    assert applied.function.custom_fwd is False


@pytest.mark.parametrize(
    ("asked", "dtype"),
    [
        ("torch.float32", DType.FLOAT32),
        ("torch.half", DType.FLOAT16),
        ("None", None),
        ("wanted()", None),
    ],
)
def test_the_type_that_inputs_are_cast_to(holds: Holds, asked: str, dtype: DType | None) -> None:
    tape = holds(
        HEAD
        + dedent(f"""
            class Product(torch.autograd.Function):
                @staticmethod
                @torch.amp.custom_fwd(device_type="cuda", cast_inputs={asked})
                def forward(ctx, x, weight):
                    return x @ weight

                @staticmethod
                def backward(ctx, gradient):
                    return gradient @ gradient

            def main(x):
                with torch.autocast("cuda"):
                    Product.apply(x, torch.zeros(2, 2))
        """)
    )
    function = tape.of(FunctionApplied)[0].function  # type: ignore[attr-defined]
    assert (function.inputs_dtype, function.cast_inputs) == (dtype, asked != "None")


def test_decorated_generators_and_switches(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
            def main():
                @torch.autocast("cuda")
                def numbers():
                    yield 1

                torch.set_autocast_enabled("cuda", True)
        """)
    )
    kinds = {event.kind for event in tape.of(GeneratorDecorated) if isinstance(event, GeneratorDecorated)}
    switched = {event.enabled for event in tape.of(AutocastSwitched) if isinstance(event, AutocastSwitched)}
    assert (kinds, switched) == ({"generator"}, {True})
