"""Gradient modes, questions and switches of autocast, classes that inherit from it, stacks, and recorded code."""

from __future__ import annotations

from textwrap import dedent

import pytest
from listening import Holds, Tape

from amplint.events import (
    CacheCleared,
    Captured,
    CompiledBegan,
    CompiledEnded,
    DType,
    Forward,
    FunctionApplied,
    GeneratorDecorated,
    RegionEntered,
    RegionExited,
    ThreadBegan,
    ThreadEnded,
)

HEAD = dedent("""
    import functools, threading
    from contextlib import AsyncExitStack, ExitStack, contextmanager, nullcontext
    import torch
    from torch import nn
""")


def _gradients(tape: Tape) -> list[bool]:
    return [event.gradients for event in tape.of(Forward) if isinstance(event, Forward)]


GRADIENTS = {
    "outside": ("model(x)", [True]),
    "no_grad": ("with torch.no_grad(): model(x)\nmodel(x)", [False, True]),
    "inference_mode": ("with torch.inference_mode(): model(x)", [False]),
    "inference_mode that is off": (
        "with torch.no_grad():\n    with torch.inference_mode(False): model(x)",
        [True],
    ),
    "enable_grad inside": (
        "with torch.no_grad():\n    with torch.enable_grad(): model(x)\n    model(x)",
        [True, False],
    ),
    "set_grad_enabled as a context": (
        "with torch.set_grad_enabled(False): model(x)\nmodel(x)",
        [False, True],
    ),
    "set_grad_enabled as a statement": ("torch.set_grad_enabled(False)\nmodel(x)", [False]),
    "a decorator": (
        "@torch.no_grad()\ndef run(): model(x)\nrun()\nmodel(x)",
        [False, True],
    ),
    "a decorator without a call": ("@torch.inference_mode\ndef run(): model(x)\nrun()", [False]),
    "set_grad_enabled as a decorator": (
        "@torch.set_grad_enabled(False)\ndef run(): model(x)\nmodel(x)\nrun()",
        [True, False],
    ),
    "by hand": ("off = torch.no_grad()\noff.__enter__()\nmodel(x)\noff.__exit__(None, None, None)", [False]),
    "left by an exception that is caught": (
        "try:\n    with torch.no_grad():\n        model(x)\n        raise ValueError\n"
        "except ValueError:\n    pass\nmodel(x)",
        [False, True],
    ),
    "asked for": (
        "with torch.no_grad():\n    if torch.is_grad_enabled(): model(x)\n    else: model(x)",
        [False],
    ),
}


@pytest.mark.parametrize(("body", "gradients"), GRADIENTS.values(), ids=GRADIENTS)
def test_gradients(holds: Holds, body: str, gradients: list[bool]) -> None:
    inside = "\n".join(f"    {line}" for line in body.splitlines())
    tape = holds(f"{HEAD}\ndef main(x):\n    model = nn.Linear(2, 2)\n{inside}\n")
    assert _gradients(tape) == gradients


def test_a_flag_switches_gradients_on_its_paths(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
            def main(x, train, loss):
                model = nn.Linear(2, 2)
                with torch.set_grad_enabled(train == "train"):
                    if train == "train":
                        model(x)
        """)
    )
    assert _gradients(tape) == [True]


QUESTIONS = {
    "in a region": """
        def main(loss):
            with torch.autocast("cuda"):
                if torch.is_autocast_enabled("cuda"):
                    loss.backward()  # in
                else:
                    loss.backward()  # never
    """,
    "in a region that is off": """
        def main(loss):
            with torch.autocast("cuda", enabled=False):
                if torch.is_autocast_enabled():
                    loss.backward()  # never
                loss.backward()  # off
    """,
    "about another device": """
        def main(loss):
            with torch.autocast("cuda"):
                if torch.is_autocast_cpu_enabled():
                    loss.backward()  # in
                else:
                    loss.backward()  # in
    """,
    "outside, asked twice": """
        def main(loss):
            if torch.is_autocast_enabled("cuda"):
                loss.backward()  # out
                if not torch.is_autocast_enabled("cuda"):
                    loss.backward()  # never
            else:
                loss.backward()  # out
    """,
    "for the cache": """
        def main(loss):
            with torch.autocast("cuda", cache_enabled=False):
                if torch.is_autocast_cache_enabled():
                    loss.backward()  # never
                torch.set_autocast_cache_enabled(True)
                if torch.is_autocast_cache_enabled():
                    loss.backward()  # in
            loss.backward()  # out
    """,
}


@pytest.mark.parametrize("program", QUESTIONS.values(), ids=QUESTIONS)
def test_questions(holds: Holds, program: str) -> None:
    holds(HEAD + dedent(program))


INHERITING = {
    "with a constructor": """
        class Mixed(torch.autocast):
            def __init__(self, dtype=torch.bfloat16):
                super().__init__("cuda", dtype=dtype)

        def main(loss):
            with Mixed():
                loss.backward()  # in
            loss.backward()  # out
    """,
    "without one": """
        class Mixed(torch.autocast):
            pass

        def main(loss):
            with Mixed("cuda", dtype=torch.bfloat16):
                loss.backward()  # in
            loss.backward()  # out
    """,
    "with its own way in and out": """
        class Mixed(torch.autocast):
            def __init__(self):
                super().__init__("cuda", dtype=torch.bfloat16)

            def __enter__(self):
                print("in")
                return super().__enter__()

            def __exit__(self, *error):
                return super().__exit__(*error)

        def main(loss):
            with Mixed():
                loss.backward()  # in
            loss.backward()  # out
    """,
    "around a function": """
        class Mixed(torch.autocast):
            def __init__(self):
                super().__init__("cuda", dtype=torch.bfloat16)

        @Mixed()
        def step(loss):
            loss.backward()  # in

        def main(loss):
            step(loss)
            loss.backward()  # out
    """,
}


@pytest.mark.parametrize("program", INHERITING.values(), ids=INHERITING)
def test_classes_that_inherit_from_autocast(holds: Holds, program: str) -> None:
    tape = holds(HEAD + dedent(program))
    assert {event.regions[-1].dtype for event in tape.of(RegionEntered)} == {DType.BFLOAT16}


STACKS = {
    "left in the end": """
        def main(loss):
            with ExitStack() as stack:
                stack.enter_context(torch.autocast("cuda"))
                stack.enter_context(torch.autocast("cuda", enabled=False))
                loss.backward()  # off
            loss.backward()  # out
    """,
    "handed on": """
        def main(loss):
            with ExitStack() as stack:
                stack.enter_context(torch.autocast("cuda"))
                rest = stack.pop_all()
            loss.backward()  # in
            rest.close()
            loss.backward()  # out
    """,
    "a region inside one that a flag opens": """
        def main(loss, flag):
            with ExitStack() as stack:
                if flag:
                    stack.enter_context(torch.autocast("cuda"))
                with torch.autocast("cuda", enabled=False):
                    loss.backward()  # off
                if flag:
                    loss.backward()  # in
                else:
                    loss.backward()  # out
            loss.backward()  # out
    """,
    "entered by somebody else": """
        def main(loss):
            amp = torch.autocast("cuda")
            amp.__enter__()
            with ExitStack() as stack:
                stack.push(amp)
                loss.backward()  # in
            loss.backward()  # out
    """,
}


@pytest.mark.parametrize("program", STACKS.values(), ids=STACKS)
def test_stacks(holds: Holds, program: str) -> None:
    tape = holds(HEAD + dedent(program))
    assert len(tape.of(RegionEntered)) == len(tape.of(RegionExited))


def test_a_default_type_is_set(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
            def main():
                torch.set_autocast_dtype("cuda", torch.bfloat16)
                with torch.autocast("cuda"):
                    pass
                with torch.cuda.amp.autocast():
                    pass
        """)
    )
    dtypes = [event.regions[-1].dtype for event in tape.of(RegionEntered)]
    assert dtypes == [DType.BFLOAT16, DType.FLOAT16]


def test_a_region_takes_the_type_of_its_own_device(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
            def main():
                with torch.autocast("cuda", dtype=torch.float16):
                    with torch.autocast("cpu"):
                        pass
        """)
    )
    assert [event.regions[-1].dtype for event in tape.of(RegionEntered)] == [DType.FLOAT16, DType.BFLOAT16]


def test_the_cache_is_cleared(holds: Holds) -> None:
    tape = holds(
        HEAD + "\ndef main():\n    with torch.autocast('cuda'):\n        torch.clear_autocast_cache()\n"
    )
    assert [len(event.regions) for event in tape.of(CacheCleared)] == [1]


@pytest.mark.parametrize(
    ("rest", "name"),
    [
        ("amp.__exit__(None, None, None)", "amp"),
        ("if loss:\n    amp.__exit__(None, None, None)", "amp"),
        ("kept.append(amp)", None),
        ("return amp", None),
    ],
)
def test_a_name_that_is_entered_by_hand(holds: Holds, rest: str, name: str | None) -> None:
    inside = "\n".join(f"    {line}" for line in rest.splitlines())
    program = (
        f"{HEAD}\ndef main(loss, kept):\n    amp = torch.autocast('cuda')\n    amp.__enter__()\n{inside}\n"
    )
    tape = holds(program)
    assert {event.by_hand for event in tape.of(RegionEntered) if isinstance(event, RegionEntered)} == {name}


@pytest.mark.parametrize(
    ("decorators", "head", "kind"),
    [
        ("@torch.autocast('cuda')", "def inner():", None),
        ("@torch.autocast('cuda')", "async def inner():", "coroutine"),
        ("@torch.autocast('cuda')\n    @torch.no_grad()", "async def inner():", "coroutine"),
        ("@contextmanager\n    @torch.autocast('cuda')", "def inner():\n        yield", "context manager"),
        ("@torch.autocast('cuda')\n    @contextmanager", "def inner():\n        yield", "context manager"),
    ],
)
def test_functions_whose_body_runs_later(holds: Holds, decorators: str, head: str, kind: str | None) -> None:
    tape = holds(f"{HEAD}\ndef main():\n    {decorators}\n    {head}\n        return None\n    inner()\n")
    told = [event.kind for event in tape.of(GeneratorDecorated) if isinstance(event, GeneratorDecorated)]
    assert told == ([kind] if kind is not None else [])
    assert bool(tape.of(RegionEntered)) is (kind is None)


@pytest.mark.parametrize(
    ("line", "how", "trains"),
    [
        ("torch.jit.trace(model, x)", "torch.jit.trace", True),
        ("torch.jit.script(model)", "torch.jit.script", True),
        ("torch.jit.trace(model.requires_grad_(False), x)", "torch.jit.trace", False),
        ("torch.cuda.make_graphed_callables(model, (x,))", "torch.cuda.make_graphed_callables", True),
    ],
)
def test_what_is_recorded(holds: Holds, line: str, how: str, trains: bool) -> None:
    tape = holds(f"{HEAD}\ndef main(x):\n    model = nn.Linear(2, 2)\n    {line}\n")
    recorded = [event for event in tape.of(Captured) if isinstance(event, Captured)]
    assert [(event.how, event.trains) for event in recorded] == [(how, trains)]


def test_a_decorated_function_is_scripted(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
            @torch.autocast("cuda")
            def product(x):
                return x @ x

            def main():
                torch.jit.script(product)
        """)
    )
    (recorded,) = tape.of(Captured)
    assert isinstance(recorded, Captured)
    assert recorded.decorated is not None


@pytest.mark.parametrize(
    "made",
    ["torch.compile(run)", "torch.compile(backend='eager')(run)", "torch.compile(model=run)"],
)
def test_compiled_functions(holds: Holds, made: str) -> None:
    tape = holds(
        HEAD
        + dedent(f"""
            def run(loss):
                loss.backward()  # out

            def main(loss):
                compiled = {made}
                compiled(loss)
                with torch.no_grad():
                    compiled(loss)
        """)
    )
    assert (len(tape.of(CompiledBegan)), len(tape.of(CompiledEnded))) == (1, 1)


THREADS = {
    "a class that is a thread": """
        class Worker(threading.Thread):
            def __init__(self, loss):
                super().__init__()
                self.loss = loss

            def run(self):
                self.loss.backward()  # out

        def main(loss):
            with torch.autocast("cuda"):
                Worker(loss).start()
                loss.backward()  # in
    """,
    "keywords of a target": """
        def run(loss, other):
            loss.backward()  # out

        def main(loss):
            thread = threading.Thread(target=run, args=[loss], kwargs={"other": 1})
            with torch.autocast("cuda"):
                thread.start()
    """,
    "a timer": """
        def run(loss):
            loss.backward()  # out

        def main(loss):
            with torch.autocast("cuda"):
                threading.Timer(3, run, [loss]).start()
                loss.backward()  # in
    """,
}


@pytest.mark.parametrize("program", THREADS.values(), ids=THREADS)
def test_threads(holds: Holds, program: str) -> None:
    tape = holds(HEAD + dedent(program))
    assert (len(tape.of(ThreadBegan)), len(tape.of(ThreadEnded))) == (1, 1)


def test_a_thread_outside_every_region_is_not_told_of(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
            def run(loss):
                loss.backward()  # out

            def main(loss):
                threading.Thread(target=run, args=(loss,)).start()
        """)
    )
    assert tape.of(ThreadBegan) == []


FUNCTION = """
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            {forward}

        @staticmethod
        def backward(ctx, gradient):
            {backward}

    def main(x):
        Product.apply(x, torch.zeros(2, 2))
"""


@pytest.mark.parametrize(
    ("forward", "backward", "products", "by_hand", "hands_on"),
    [
        ("return x @ weight", "return torch.mm(gradient, gradient)", True, False, False),
        ("return x * weight", "return gradient @ gradient", False, False, False),
        ("return x @ weight", "return gradient.to(ctx.kind) @ gradient", True, True, False),
        ("return helper(ctx, x)", "return gradient", False, False, True),
        ("ctx.on = torch.is_autocast_enabled(); return x", "return gradient", False, True, False),
        ("ctx.kind = x.dtype; return x", "return gradient", False, True, False),
    ],
)
def test_what_the_methods_of_a_function_do(
    holds: Holds, forward: str, backward: str, products: bool, by_hand: bool, hands_on: bool
) -> None:
    tape = holds(HEAD + dedent(FUNCTION).format(forward=forward, backward=backward))
    (applied,) = tape.of(FunctionApplied)
    assert isinstance(applied, FunctionApplied)
    found = applied.function
    assert (found.products, found.by_hand, found.hands_on) == (products, by_hand, hands_on)


def test_words_in_comments_and_strings_say_nothing_of_a_function(holds: Holds) -> None:
    forward = "'autocast dtype float16'  # x.to(dtype) in autocast\n        return x @ weight"
    tape = holds(HEAD + dedent(FUNCTION).format(forward=forward, backward="return gradient @ gradient"))
    (applied,) = tape.of(FunctionApplied)
    assert isinstance(applied, FunctionApplied)
    assert not applied.function.by_hand
