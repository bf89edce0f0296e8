"""Branches, loops, exceptions, and the flags that go with them."""

from __future__ import annotations

from textwrap import dedent

import pytest
from listening import Holds

from amplint.events import Backward, LoopIterated, OptimizerStepped, ScalerUsed
from amplint.flow.state.graph import MOST_PATHS

HEAD = dedent("""
    import torch
    from contextlib import nullcontext
""")

CORRELATED = {
    "a loop each of whose rounds raises": """
        def refuse(name):
            raise ValueError(name)

        def main(names, loss):
            for name in names:
                refuse(name)
                loss.backward()  # never
            loss.backward()  # out
    """,
    "a loop each of whose rounds returns": """
        def main(names, loss):
            for name in names:
                return name
            loss.backward()  # never
    """,
    "a flag tested twice takes the same side": """
        def main(loss, use_amp):
            if use_amp:
                context = torch.autocast("cuda")
                context.__enter__()
            if use_amp:
                loss.backward()  # in
                context.__exit__(None, None, None)
            else:
                loss.backward()  # out
            loss.backward()  # out
    """,
    "not": """
        def main(loss, use_amp):
            context = torch.autocast("cuda") if use_amp else nullcontext()
            with context:
                if not use_amp:
                    loss.backward()  # out
    """,
    "is not None": """
        def main(loss, scaler):
            context = torch.autocast("cuda") if scaler is not None else nullcontext()
            with context:
                if scaler is None:
                    loss.backward()  # out
                else:
                    loss.backward()  # in
    """,
    "two conditions asked for twice": """
        def main(loss, args):
            context = nullcontext()
            if args.amp and args.scaler is not None:
                context = torch.autocast("cuda")
            else:
                print("full precision")
            with context:
                if args.amp and args.scaler is not None:
                    loss.backward()  # in
                else:
                    loss.backward()  # out
    """,
    "a value that comes about in several ways": """
        class Trainer:
            def __init__(self, args):
                self.context = None
                if args.amp:
                    if args.kind == "half":
                        self.context = torch.autocast("cuda")

            def train(self, loss):
                context = self.context
                if context:
                    with context:
                        loss.backward()  # in
                        self.again(loss)
                else:
                    self.again(loss)

            def again(self, loss):
                context = self.context
                if context:
                    loss.backward()  # in
                else:
                    loss.backward()  # out

        def main(loss, args):
            Trainer(args).train(loss)
    """,
    "a field of a dataclass": """
        from dataclasses import dataclass

        @dataclass
        class Settings:
            epochs: int
            amp: bool = False
            device: str = "cuda"

        def main(loss, settings: Settings):
            with torch.autocast("cuda", enabled=settings.amp):
                loss.backward()  # in
            settings = Settings(3, amp=True)
            with torch.autocast("cuda", enabled=settings.amp):
                loss.backward()  # in
            with torch.autocast("cuda", enabled=Settings(3, False).amp):
                loss.backward()  # off
            with torch.autocast("cuda", enabled=Settings(3).amp):
                loss.backward()  # off
    """,
    "a method that others have": """
        class Base:
            def loss(self, batch):
                raise NotImplementedError("for subclasses")

            def train(self, batch):
                with torch.autocast("cuda"):
                    loss = self.loss(batch)
                    loss.backward()  # in

        def main(base: Base, batch):
            base.train(batch)
    """,
    "one of two conditions": """
        def main(loss, a, b):
            context = nullcontext()
            if a or b:
                context = torch.autocast("cuda")
            with context:
                if a or b:
                    loss.backward()  # in
                elif a:
                    loss.backward()  # never
                else:
                    loss.backward()  # out
    """,
    "the first of two conditions says nothing of the second": """
        def main(loss, a, b):
            context = nullcontext()
            if a or b:
                context = torch.autocast("cuda")
            with context:
                if a:
                    loss.backward()  # in
                elif b:
                    loss.backward()  # in
                else:
                    loss.backward()  # out
                if b:
                    loss.backward()  # in
    """,
    "an attribute": """
        def main(loss, args):
            context = torch.autocast("cuda") if args.amp else nullcontext()
            with context:
                if args.amp:
                    loss.backward()  # in
                else:
                    loss.backward()  # out
    """,
    "a copy of the flag": """
        def main(loss, args):
            use_amp = args.amp
            context = torch.autocast("cuda") if use_amp else nullcontext()
            with context:
                if args.amp:
                    loss.backward()  # in
                else:
                    loss.backward()  # out
    """,
    "an attribute that one side sets": """
        def main(loss, args, on_gpu):
            if not on_gpu:
                args.amp = False
            context = torch.autocast("cuda") if args.amp else nullcontext()
            with context:
                if args.amp:
                    loss.backward()  # in
                else:
                    loss.backward()  # out
    """,
    "enabled= of a flag that was tested": """
        def main(loss, use_amp):
            if use_amp:
                loss = loss * 2
            else:
                with torch.autocast("cuda", enabled=use_amp):
                    loss.backward()  # off
    """,
    "a test after the region": """
        def main(loss, use_amp):
            with torch.autocast("cuda", enabled=use_amp):
                if use_amp:
                    loss.backward()  # in
    """,
    "and": """
        def main(loss, use_amp, last):
            context = torch.autocast("cuda") if use_amp else nullcontext()
            with context:
                if use_amp and last:
                    loss.backward()  # in
                elif not use_amp:
                    loss.backward()  # out
    """,
    "elif": """
        def main(loss, mode):
            if mode == "amp":
                with torch.autocast("cuda"):
                    loss.backward()  # in
            elif mode == "full":
                loss.backward()  # out
            else:
                loss.backward()  # out
    """,
    "a constant": """
        def main(loss):
            if False:
                loss.backward()  # never
            if not None:
                loss.backward()  # out
    """,
    "a type of device that torch does not have": """
        def main(loss, kind):
            if kind:
                device = torch.device("gpu:0")
                loss.backward()  # never
            loss.backward()  # out
    """,
    "early return": """
        def main(loss, use_amp):
            if use_amp:
                return
            with torch.autocast("cuda", enabled=use_amp):
                loss.backward()  # off
    """,
    "what a loop takes out of a collection is there": """
        def step(loss, optimizer=None):
            if optimizer is None:
                loss.backward()  # never

        def main(loss, optimizers):
            for optimizer in optimizers:
                step(loss, optimizer)
    """,
    "what the code expects to be None may be": """
        def main(loss, optimizers):
            first, = optimizers
            if first is None:
                loss.backward()  # out
    """,
    "TYPE_CHECKING apart, unknown names go both ways": """
        def main(loss, flag):
            context = torch.autocast("cuda") if flag else nullcontext()
            with context:
                loss.backward()  # in, out
    """,
    "two flags are two": """
        def main(loss, one, other):
            context = torch.autocast("cuda") if one else nullcontext()
            with context:
                if other:
                    loss.backward()  # in, out
    """,
    "a flag set anew is another": """
        def main(loss, flag, read):
            context = torch.autocast("cuda") if flag else nullcontext()
            flag = read()
            with context:
                if flag:
                    loss.backward()  # in, out
    """,
    "assert": """
        def main(loss, flag):
            context = torch.autocast("cuda") if flag else nullcontext()
            assert flag
            with context:
                loss.backward()  # in
    """,
}


@pytest.mark.parametrize("program", CORRELATED.values(), ids=CORRELATED)
def test_flags(holds: Holds, program: str) -> None:
    holds(HEAD + dedent(program))


def test_an_attribute_that_one_side_of_the_constructor_sets(holds: Holds) -> None:
    program = """
        class Trainer:
            def __init__(self, args, on_gpu):
                self.args = args
                if not on_gpu:
                    self.args.amp = False

            def main(self, loss):
                args = self.args
                context = torch.autocast("cuda") if args.amp else nullcontext()
                with context:
                    if args.amp:
                        loss.backward()  # in
                    else:
                        loss.backward()  # out
    """
    holds(HEAD + dedent(program), start="Trainer.main")


LOOPS = {
    "what the first iteration left holds in the second": """
        def main(loss, batches):
            context = nullcontext()
            for batch in batches:
                with context:
                    loss.backward()  # in, out
                context = torch.autocast("cuda")
    """,
    "while": """
        def main(loss, more):
            context = nullcontext()
            while more():
                with context:
                    loss.backward()  # in, out
                context = torch.autocast("cuda")
    """,
    "a while loop in which something happens has a first round": """
        def main(loss, step, most):
            context = nullcontext()
            while step < most:
                context = torch.autocast("cuda")
                loss.backward()  # out
                step += 1
            with context:
                loss.backward()  # in
    """,
    "one in which nothing happens may have none": """
        def main(loss, busy):
            waited = False
            while busy():
                waited = True
            with torch.autocast("cuda", enabled=waited):
                loss.backward()  # in, off
    """,
    "a while loop whose only round returns": """
        def main(loss, resumed):
            while resumed:
                loss.backward()  # out
                return
            loss.backward()  # out
    """,
    "a while loop that is never entered": """
        def main(loss):
            while 1 > 2:
                loss.backward()  # never
            loss.backward()  # out
    """,
    "a loop may have no second iteration": """
        def main(loss, batches):
            context = nullcontext()
            for batch in batches:
                context = torch.autocast("cuda")
                break
            with context:
                loss.backward()  # in
    """,
    "constant items one by one": """
        def main(loss):
            for enabled in (True, False):
                with torch.autocast("cuda", enabled=enabled):
                    loss.backward()  # in, off
    """,
    "else of a loop": """
        def main(loss, batches):
            for batch in batches:
                pass
            else:
                loss.backward()  # out
    """,
    "while True ends with break": """
        def main(loss, more):
            while True:
                if not more():
                    break
                with torch.autocast("cuda"):
                    loss.backward()  # in
            loss.backward()  # out
    """,
    "loops in loops": """
        def main(loss, epochs, batches):
            with torch.autocast("cuda"):
                for epoch in range(epochs):
                    for batch in batches:
                        loss.backward()  # in
            loss.backward()  # out
    """,
}


@pytest.mark.parametrize("program", LOOPS.values(), ids=LOOPS)
def test_loops(holds: Holds, program: str) -> None:
    holds(HEAD + dedent(program))


def test_a_loop_is_walked_twice(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
        def main(model, batches):
            for batch in batches:
                model(batch).sum().backward()
    """)
    )
    assert [event.number for event in tape.of(LoopIterated)] == [0, 1]


TRIES = {
    "the handler may run": """
        def main(loss, model):
            context = torch.autocast("cuda")
            try:
                model(loss)
            except RuntimeError:
                context = nullcontext()
            with context:
                loss.backward()  # in, out
    """,
    "else runs after the body": """
        def main(loss, model):
            context = nullcontext()
            try:
                context = torch.autocast("cuda")
            except RuntimeError:
                return
            else:
                with context:
                    loss.backward()  # in
    """,
    "a handler that raises ends there": """
        def main(loss, model):
            context = torch.autocast("cuda")
            try:
                model(loss)
            except RuntimeError:
                context = nullcontext()
                raise
            with context:
                loss.backward()  # in
    """,
    "several handlers": """
        def main(loss, model):
            try:
                model(loss)
            except (RuntimeError, ValueError) as error:
                loss.backward()  # out
            except KeyError:
                with torch.autocast("cuda"):
                    loss.backward()  # in
    """,
    "an import from torch works": """
        try:
            from torch.cuda.amp import autocast
        except ImportError:
            from contextlib import nullcontext as autocast

        def main(loss):
            with autocast():
                loss.backward()  # in
    """,
    "the import is what is meant, not the fallback": """
        try:
            from torch.cuda.amp import autocast
        except ImportError:
            class autocast:
                def __enter__(self):
                    pass
                def __exit__(self, *error):
                    pass

        def main(loss):
            with autocast():
                loss.backward()  # in
    """,
    "match goes every way": """
        def main(loss, mode):
            match mode:
                case "amp":
                    with torch.autocast("cuda"):
                        loss.backward()  # in
                case _:
                    loss.backward()  # out
    """,
}


@pytest.mark.parametrize("program", TRIES.values(), ids=TRIES)
def test_exceptions_and_matches(holds: Holds, program: str) -> None:
    holds(HEAD + dedent(program))


VERSIONS = {
    "always so": (
        ((2, 4), None),
        """
        def main(loss):
            if torch.__version__ >= "2.0":
                loss.backward()  # out
            else:
                loss.backward()  # never
    """,
    ),
    "some releases so": (
        ((1, 12), None),
        """
        def main(loss):
            if torch.__version__ >= "2.0":
                loss.backward()  # out
            else:
                loss.backward()  # out
    """,
    ),
    "never so": (
        ((1, 12), (1, 13)),
        """
        def main(loss):
            if torch.__version__ >= "2.0":
                loss.backward()  # never
    """,
    ),
    "parsed": (
        ((2, 4), None),
        """
        from packaging import version

        def main(loss):
            if version.parse(torch.__version__) < version.parse("1.6"):
                loss.backward()  # never
            else:
                loss.backward()  # out
    """,
    ),
    "a constant of the module": (
        ((2, 4), None),
        """
        from packaging.version import Version
        NEW = Version(torch.__version__) >= Version("2.4")

        def main(loss):
            if not NEW:
                loss.backward()  # never
    """,
    ),
    "hasattr": (
        ((2, 0), None),
        """
        def main(loss):
            if hasattr(torch, "autocast"):
                loss.backward()  # out
            else:
                loss.backward()  # never
    """,
    ),
    "hasattr of what is newer": (
        ((2, 0), None),
        """
        def main(loss):
            if hasattr(torch.amp, "GradScaler"):
                loss.backward()  # out
            else:
                loss.backward()  # out
    """,
    ),
}


@pytest.mark.parametrize(("bounds", "program"), VERSIONS.values(), ids=VERSIONS)
def test_torch_versions(holds: Holds, bounds: object, program: str) -> None:
    holds(HEAD + dedent(program), torch=bounds)


def test_with_or_without_a_scaler(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
        def main(loss, optimizer, scaler):
            if scaler is not None:
                scaler.scale(loss).backward()
            else:
                loss.backward()
            if scaler is not None:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
    """)
    )
    kinds = {
        tuple(type(event).__name__ for event in way if isinstance(event, (Backward, OptimizerStepped)))
        for way in tape.ways
    }
    assert kinds == {("Backward", "OptimizerStepped")}
    for way in tape.ways:
        scaled = [event.scaled for event in way if isinstance(event, Backward)]
        stepped = [event.via_scaler for event in way if isinstance(event, OptimizerStepped)]
        assert scaled == stepped


def test_order_of_what_a_scaler_does(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
        def main(model, loss):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
    """)
    )
    (way,) = tape.ways
    assert [event.act for event in way if isinstance(event, ScalerUsed)] == [
        "scale",
        "unscale_",
        "step",
        "update",
    ]


def test_paths_are_bounded(holds: Holds) -> None:
    flags = "\n".join(f"    if a.f{i}: loss.backward()" for i in range(10))
    tape = holds(HEAD + f"def main(a, loss):\n{flags}\n")
    assert len(tape.ways) <= MOST_PATHS
