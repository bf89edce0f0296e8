"""The ways to open an autocast region, and where it ends."""

from __future__ import annotations

from textwrap import dedent

import pytest
from listening import Holds

from amplint.events import DType, RegionDropped, RegionEntered, RegionExited

HEAD = dedent("""
    import contextlib
    import functools
    from contextlib import ExitStack, contextmanager, nullcontext
    import torch
    from torch import autocast as shorthand
    from torch.cuda import amp
    from torch.cuda.amp import autocast as old
""")

WAYS = {
    "with": """
        def main(loss):
            with torch.autocast("cuda"):
                loss.backward()  # in
            loss.backward()  # out
    """,
    "imported under another name": """
        def main(loss):
            with shorthand("cuda"):
                loss.backward()  # in
            loss.backward()  # out
    """,
    "old spelling": """
        def main(loss):
            with old():
                loss.backward()  # in
            loss.backward()  # out
    """,
    "attribute of an imported module": """
        def main(loss):
            with amp.autocast():
                loss.backward()  # in
            loss.backward()  # out
    """,
    "several items": """
        def main(loss):
            with torch.enable_grad(), torch.autocast("cuda"), open("log") as log:
                loss.backward()  # in
            loss.backward()  # out
    """,
    "items in parentheses": """
        def main(loss):
            with (
                torch.enable_grad(),
                torch.autocast("cuda"),
            ):
                loss.backward()  # in
            loss.backward()  # out
    """,
    "with ... as": """
        def main(loss):
            with torch.autocast("cuda") as context:
                loss.backward()  # in
            loss.backward()  # out
    """,
    "stored context": """
        def main(loss):
            context = torch.autocast("cuda")
            loss.backward()  # out
            with context:
                loss.backward()  # in
            loss.backward()  # out
    """,
    "stored context, entered twice": """
        def main(loss):
            context = torch.autocast("cuda")
            with context:
                loss.backward()  # in
            loss.backward()  # out
            with context:
                loss.backward()  # in
            loss.backward()  # out
    """,
    "alias of the class": """
        region = torch.cuda.amp.autocast

        def main(loss):
            with region():
                loss.backward()  # in
            loss.backward()  # out
    """,
    "local alias of the class": """
        def main(loss):
            region = torch.autocast
            with region("cuda"):
                loss.backward()  # in
    """,
    "import in the function": """
        def main(loss):
            from torch.amp import autocast
            with autocast("cuda"):
                loss.backward()  # in
    """,
    "partial": """
        region = functools.partial(torch.autocast, device_type="cuda", dtype=torch.bfloat16)

        def main(loss):
            with region():
                loss.backward()  # in
            loss.backward()  # out
    """,
    "partial made in the function": """
        def main(loss):
            region = functools.partial(torch.autocast, "cuda")
            with region(dtype=torch.float16):
                loss.backward()  # in
    """,
    "lambda": """
        def main(loss):
            region = lambda: torch.autocast("cuda")
            with region():
                loss.backward()  # in
            loss.backward()  # out
    """,
    "context of the module": """
        context = torch.autocast("cuda")

        def main(loss):
            with context:
                loss.backward()  # in
            loss.backward()  # out
    """,
    "decorator": """
        @torch.autocast("cuda")
        def main(loss):
            loss.backward()  # in
    """,
    "decorator of the callee": """
        @torch.autocast("cuda")
        def step(loss):
            loss.backward()  # in

        def main(loss):
            loss.backward()  # out
            step(loss)
            loss.backward()  # out
    """,
    "decorator among others": """
        @functools.wraps(print)
        @old()
        def main(loss):
            loss.backward()  # in
    """,
    "context called with a function": """
        def step(loss):
            loss.backward()  # in

        def main(loss):
            torch.autocast("cuda")(step)(loss)
            loss.backward()  # out
    """,
    "ExitStack": """
        def main(loss):
            with ExitStack() as stack:
                loss.backward()  # out
                stack.enter_context(torch.autocast("cuda"))
                loss.backward()  # in
            loss.backward()  # out
    """,
    "__enter__ and __exit__": """
        def main(loss):
            context = torch.autocast("cuda")
            context.__enter__()
            loss.backward()  # in
            context.__exit__(None, None, None)
            loss.backward()  # out
    """,
    "function that returns one": """
        def region():
            return torch.autocast("cuda")

        def main(loss):
            with region():
                loss.backward()  # in
            loss.backward()  # out
    """,
    "method that returns one": """
        class Trainer:
            def region(self):
                return torch.autocast("cuda", dtype=torch.bfloat16)

            def step(self, loss):
                with self.region():
                    loss.backward()  # in
                loss.backward()  # out

        def main(loss):
            Trainer().step(loss)
    """,
    "property that returns one": """
        class Trainer:
            @property
            def region(self):
                return torch.autocast("cuda")

        def main(loss):
            with Trainer().region:
                loss.backward()  # in
            loss.backward()  # out
    """,
    "contextmanager function": """
        @contextmanager
        def region():
            with torch.autocast("cuda"):
                yield

        def main(loss):
            with region():
                loss.backward()  # in
            loss.backward()  # out
    """,
    "contextlib.contextmanager function with try": """
        @contextlib.contextmanager
        def region():
            try:
                with torch.autocast("cuda"):
                    yield
            finally:
                print("done")

        def main(loss):
            with region():
                loss.backward()  # in
            loss.backward()  # out
    """,
    "contextmanager method": """
        class Trainer:
            @contextmanager
            def region(self):
                with torch.autocast("cuda"):
                    yield self

        def main(loss):
            trainer = Trainer()
            with trainer.region() as same:
                loss.backward()  # in
            loss.backward()  # out
    """,
    "class that delegates": """
        class Region:
            def __init__(self):
                self.autocast = torch.autocast("cuda")

            def __enter__(self):
                return self.autocast.__enter__()

            def __exit__(self, *error):
                return self.autocast.__exit__(*error)

        def main(loss):
            with Region():
                loss.backward()  # in
            loss.backward()  # out
    """,
    "attribute set in the constructor": """
        class Trainer:
            def __init__(self):
                self.context = torch.autocast("cuda")

            def step(self, loss):
                with self.context:
                    loss.backward()  # in
                loss.backward()  # out

        def main(loss):
            Trainer().step(loss)
    """,
    "attribute that holds the class": """
        class Trainer:
            region = torch.autocast

            def __init__(self):
                self.make = functools.partial(torch.autocast, "cuda")

            def step(self, loss):
                with self.make():
                    loss.backward()  # in
                loss.backward()  # out

        def main(loss):
            Trainer().step(loss)
    """,
    "one inside another": """
        def main(loss):
            with torch.autocast("cuda"):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss.backward()  # in
                loss.backward()  # in
            loss.backward()  # out
    """,
    "nullcontext": """
        def main(loss):
            with nullcontext():
                loss.backward()  # out
    """,
    "no region of another library": """
        from transformer_engine.pytorch import fp8_autocast
        import paddle

        def main(loss):
            with fp8_autocast(), paddle.amp.auto_cast():
                loss.backward()  # out
    """,
    "a stranger of the same name": """
        from elsewhere import autocast

        def main(loss):
            with autocast():
                loss.backward()  # out
    """,
}


@pytest.mark.parametrize("program", WAYS.values(), ids=WAYS)
def test_ways_to_open_a_region(holds: Holds, program: str) -> None:
    holds(HEAD + dedent(program))


LEAVING = {
    "return": """
        def step(loss):
            with torch.autocast("cuda"):
                return loss

        def main(loss):
            step(loss)
            loss.backward()  # out
    """,
    "break": """
        def main(loss, batches):
            for batch in batches:
                with torch.autocast("cuda"):
                    if batch:
                        break
                    loss.backward()  # in
            loss.backward()  # out
    """,
    "continue": """
        def main(loss, batches):
            for batch in batches:
                loss.backward()  # out
                with torch.autocast("cuda"):
                    if batch:
                        continue
                    loss.backward()  # in
    """,
    "return of another function's value": """
        def step(loss):
            with torch.autocast("cuda"):
                return half(loss)

        def half(loss):
            loss.backward()  # in
            return loss

        def main(loss):
            step(loss).backward()  # out
    """,
    "exception caught outside": """
        def main(loss, model):
            try:
                with torch.autocast("cuda"):
                    loss.backward()  # in
                    model(loss)
            except RuntimeError:
                loss.backward()  # out
            loss.backward()  # out
    """,
    "raise": """
        def main(loss):
            with torch.autocast("cuda"):
                if loss is None:
                    raise ValueError
                loss.backward()  # in
            loss.backward()  # out
    """,
    "finally": """
        def main(loss, model):
            try:
                with torch.autocast("cuda"):
                    model(loss)
            finally:
                loss.backward()  # out
    """,
    "exception caught inside": """
        def main(loss, model):
            with torch.autocast("cuda"):
                try:
                    model(loss)
                except RuntimeError:
                    loss.backward()  # in
                loss.backward()  # in
            loss.backward()  # out
    """,
}


@pytest.mark.parametrize("program", LEAVING.values(), ids=LEAVING)
def test_ways_to_leave_a_region(holds: Holds, program: str) -> None:
    holds(HEAD + dedent(program))


SWITCHES = {
    "on": """
        def main(loss):
            with torch.autocast("cuda", enabled=True):
                loss.backward()  # in
    """,
    "off": """
        def main(loss):
            with torch.autocast("cuda", enabled=False):
                loss.backward()  # off
            loss.backward()  # out
    """,
    "off, by position of the old spelling": """
        def main(loss):
            with old(False):
                loss.backward()  # off
    """,
    "off inside": """
        def main(loss):
            with torch.autocast("cuda"):
                with torch.autocast("cuda", enabled=False):
                    loss.backward()  # off
                loss.backward()  # in
    """,
    "a constant of the module": """
        USE_AMP = False

        def main(loss):
            with torch.autocast("cuda", enabled=USE_AMP):
                loss.backward()  # off
    """,
    "a flag is taken to be on": """
        def main(loss, use_amp):
            with torch.autocast("cuda", enabled=use_amp):
                loss.backward()  # in
    """,
    "a default is no promise": """
        def main(loss, use_amp=False):
            with torch.autocast("cuda", enabled=use_amp):
                loss.backward()  # in
    """,
    "a keyword given by the caller": """
        def step(loss, use_amp):
            with torch.autocast("cuda", enabled=use_amp):
                loss.backward()  # off

        def main(loss):
            step(loss, use_amp=False)
    """,
    "a default that the caller leaves": """
        def step(loss, use_amp=False):
            with torch.autocast("cuda", enabled=use_amp):
                loss.backward()  # off

        def main(loss):
            step(loss)
    """,
    "not of a constant": """
        def main(loss):
            disabled = True
            with torch.autocast("cuda", enabled=not disabled):
                loss.backward()  # off
    """,
    "float32 on the CPU switches off": """
        def main(loss):
            with torch.autocast("cpu", dtype=torch.float32):
                loss.backward()  # off
    """,
}


@pytest.mark.parametrize("program", SWITCHES.values(), ids=SWITCHES)
def test_enabled(holds: Holds, program: str) -> None:
    holds(HEAD + dedent(program))


CHOICES = {
    "conditional expression with nullcontext": """
        def main(loss, use_amp):
            context = torch.autocast("cuda") if use_amp else nullcontext()
            with context:
                loss.backward()  # in, out
            loss.backward()  # out
    """,
    "the same flag tested again": """
        def main(loss, use_amp):
            context = torch.autocast("cuda") if use_amp else nullcontext()
            with context:
                if use_amp:
                    loss.backward()  # in
                else:
                    loss.backward()  # out
    """,
    "a context chosen by a statement": """
        def main(loss, use_amp):
            if use_amp:
                context = torch.autocast("cuda")
            else:
                context = nullcontext()
            with context:
                if not use_amp:
                    loss.backward()  # out
    """,
    "function that chooses": """
        def region(use_amp):
            if use_amp:
                return torch.autocast("cuda")
            return nullcontext()

        def main(loss, use_amp):
            with region(use_amp):
                loss.backward()  # in, out
            with region(False):
                loss.backward()  # out
            with region(True):
                loss.backward()  # in
    """,
    "method that chooses by an attribute": """
        class Trainer:
            def __init__(self, amp):
                self.amp = amp

            def region(self):
                return torch.autocast("cuda") if self.amp else nullcontext()

            def step(self, loss):
                with self.region():
                    if self.amp:
                        loss.backward()  # in
                    else:
                        loss.backward()  # out

        def main(loss, amp):
            Trainer(amp).step(loss)
    """,
    "contextmanager that chooses": """
        @contextmanager
        def region(use_amp):
            if use_amp:
                with torch.autocast("cuda"):
                    yield
            else:
                yield

        def main(loss, use_amp):
            with region(use_amp):
                loss.backward()  # in, out
            loss.backward()  # out
    """,
    "ExitStack that chooses": """
        def main(loss, use_amp):
            with ExitStack() as stack:
                if use_amp:
                    stack.enter_context(torch.autocast("cuda"))
                loss.backward()  # in, out
            loss.backward()  # out
    """,
    "known flag": """
        def main(loss):
            use_amp = False
            context = torch.autocast("cuda") if use_amp else nullcontext()
            with context:
                loss.backward()  # out
    """,
    "module-level choice by a constant": """
        device_type = "cpu"
        context = nullcontext() if device_type == "cpu" else torch.autocast(device_type)

        def main(loss):
            with context:
                loss.backward()  # out
    """,
}


@pytest.mark.parametrize("program", CHOICES.values(), ids=CHOICES)
def test_choices(holds: Holds, program: str) -> None:
    holds(HEAD + dedent(program))


@pytest.mark.parametrize(
    ("call", "dtype"),
    [
        ("torch.autocast('cuda', dtype=torch.bfloat16)", DType.BFLOAT16),
        ("torch.autocast('cuda', torch.float16)", DType.FLOAT16),
        ("torch.autocast('cuda')", DType.FLOAT16),
        ("torch.autocast('cpu')", DType.BFLOAT16),
        ("torch.autocast('cuda', dtype=chosen)", DType.HALF),
        ("old()", DType.FLOAT16),
        ("old(dtype=torch.bfloat16)", DType.BFLOAT16),
        ("torch.cpu.amp.autocast()", DType.BFLOAT16),
        ("torch.autocast('cuda', dtype=torch.float32)", DType.FLOAT32),
    ],
)
def test_type_of_a_region(holds: Holds, call: str, dtype: DType) -> None:
    tape = holds(HEAD + f"def main(chosen):\n    with {call}:\n        pass\n")
    (entered,) = tape.of(RegionEntered)
    assert entered.regions[-1].dtype is dtype


def test_a_region_inherits_the_type_around_it(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
        def main():
            with torch.autocast("cuda", dtype=torch.bfloat16):
                with torch.autocast("cuda"):
                    pass
    """)
    )
    assert [entered.regions[-1].dtype for entered in tape.of(RegionEntered)] == [DType.BFLOAT16] * 2


def test_the_old_spelling_does_not_inherit(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
        def main():
            with torch.autocast("cuda", dtype=torch.bfloat16):
                with old():
                    pass
    """)
    )
    assert [entered.regions[-1].dtype for entered in tape.of(RegionEntered)] == [
        DType.BFLOAT16,
        DType.FLOAT16,
    ]


def test_cache_enabled(holds: Holds) -> None:
    tape = holds(HEAD + "def main():\n    with torch.autocast('cuda', cache_enabled=False):\n        pass\n")
    assert [entered.regions[-1].cache_enabled for entered in tape.of(RegionEntered)] == [False]


def test_a_flag_makes_a_region_conditional(holds: Holds) -> None:
    tape = holds(HEAD + "def main(flag):\n    with torch.autocast('cuda', enabled=flag):\n        pass\n")
    assert [entered.regions[-1].conditional for entered in tape.of(RegionEntered)] == [True]


def test_regions_are_left_in_the_order_of_their_nesting(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
        def main():
            with torch.autocast("cuda"), torch.autocast("cpu"):
                pass
    """)
    )
    assert [exited.region.device for exited in tape.of(RegionExited)] == ["cpu", "cuda"]


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("torch.autocast('cuda')", "statement"),
        ("context = torch.autocast('cuda')", "unused name"),
        ("with torch.autocast: pass", "class"),
    ],
)
def test_contexts_that_are_never_entered(holds: Holds, line: str, how: str) -> None:
    tape = holds(HEAD + f"def main():\n    {line}\n")
    assert [dropped.how for dropped in tape.of(RegionDropped)] == [how]


@pytest.mark.parametrize(
    "line",
    [
        "return torch.autocast('cuda')",
        "self.context = torch.autocast('cuda')",
        "run(torch.autocast('cuda'))",
        "contexts = [torch.autocast('cuda')]",
    ],
)
def test_contexts_that_go_elsewhere_are_not_dropped(holds: Holds, line: str) -> None:
    tape = holds(HEAD + f"def main(self, run):\n    {line}\n")
    assert tape.of(RegionDropped) == []
