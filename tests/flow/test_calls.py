"""Calls: across functions, methods, files, objects and modules; and where the walk ends."""

from __future__ import annotations

from textwrap import dedent

import pytest
from listening import Holds

from amplint.events import AmpHidden, Backward, Forward, FunctionEnded
from amplint.flow.core import walks

HEAD = dedent("""
    import functools
    import torch
    from torch import nn
""")

CALLS = {
    "with defaults that have the names of the parameters": """
        half = torch.ones(2, dtype=torch.float16)

        def of_the_file(half=half):
            half.numpy()  # float16

        def main(model, x):
            plain = torch.ones(2)

            def inner(plain=plain, half=torch.ones(2)):
                plain.numpy()  # float32
                half.numpy()  # float32

            of_the_file()
            inner()
            (lambda plain=plain.half(): plain.numpy())()  # float16
    """,
    "methods of objects that are asked of their class": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.heads = nn.ModuleDict({"a": nn.Linear(2, 2)})

        class Options(dict):
            pass

        def main(model: "Net | type[Net]", x):
            net = Net()
            Net.half(net)
            Net.named_children()
            Options.keys()
            for part in Net.children(net):
                part.bias.numpy()  # float16
            net.heads["a"].weight.numpy()  # float16
    """,
    "with what a cached property has made before, if many conditions held": """
        class Trainer:
            @functools.cached_property
            def region(self):
                if self.device == "cpu" and self.dtype != torch.bfloat16:
                    return None
                return torch.autocast("cuda")

            def is_time(self, state):
                if self.often is None:
                    return False
                if self.kind == "a":
                    return state.a > self.most
                if self.kind == "b":
                    return state.b > self.much
                if self.kind == "c":
                    return state.c > self.few
                if self.other == "d":
                    return state.c % self.every == 0
                return self.last == 3

            def run(self, model, state):
                while True:
                    if self.is_time(state):
                        with self.region:
                            print(model)
                    with self.region:
                        model.loss.backward()  # in

        def main(trainer: Trainer, model, state):
            trainer.run(model, state)
    """,
    "with what a cached function has made before, if many conditions held": """
        @functools.cache
        def region():
            return torch.autocast("cuda")

        def is_time(config, state):
            if config.often is None:
                return False
            if config.kind == "a":
                return state.a > config.most
            if config.kind == "b":
                return state.b > config.much
            if config.kind == "c":
                return state.c > config.few
            if config.other == "d":
                return state.c % config.every == 0
            return config.last == 3

        def main(config, model, state):
            while True:
                if is_time(config, state):
                    with region():
                        print(model)
                with region():
                    model.loss.backward()  # in
    """,
    "with options under a key that a condition chooses": """
        def run(loss, *, resume=None, weights=None):
            if resume:
                print(resume)
            if weights:
                print(weights)
            loss.backward()  # in

        def train(loss, checkpoint, resume=False, **options):
            options["resume" if resume else "weights"] = checkpoint
            with torch.autocast("cuda"):
                run(loss, **options)

        def main(loss, args):
            train(loss, args.checkpoint, resume=bool(args.resume))
    """,
    "with an option that is refused where it is given": """
        def run(loss):
            loss.backward()  # in

        def main(loss, args):
            options = {}
            if args.scale:
                options["scale"] = args.scale
            with torch.autocast("cuda"):
                run(loss, **options)
            if args.scale:
                with torch.autocast("cuda"):
                    loss.backward()  # never
    """,
    "after items with several keys": """
        class Table:
            def __getitem__(self, key):
                return key

            def __setitem__(self, key, value):
                print(key, value)

        def main(loss):
            table = Table()
            table[1, 2] = table[3, 4]
            with torch.autocast("cuda"):
                loss.backward()  # in
    """,
    "after a dataclass that is given more than its fields": """
        from dataclasses import InitVar, dataclass

        @dataclass
        class Options:
            size: int
            factor: InitVar[int] = 1

            def __post_init__(self, factor):
                self.size *= factor

        def main(loss):
            print(Options(3).size, Options(3, 4).size)
            with torch.autocast("cuda"):
                loss.backward()  # in
    """,
    "with an argument that is missing": """
        def run(loss, *, scale):
            loss.backward()  # in

        def half(loss, scale):
            loss.backward()  # never

        def main(loss, args):
            options = {}
            if args.scale:
                options["scale"] = args.scale
            with torch.autocast("cuda"):
                run(loss, **options)
                if not args.scale:
                    loss.backward()  # never
                half(loss)
                loss.backward()  # never
    """,
    "that gives something else in each round of a loop": """
        from kernels import criterion

        def judged(x):
            return criterion(x), x

        def main(loader):
            last = False
            for x in loader:
                loss, _ = judged(x)
                if torch.isnan(loss):
                    if last:
                        with torch.autocast("cuda"):
                            loss.backward()  # in
                else:
                    last = True
    """,
    "after constructors that make each other without end": """
        class Outer(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.width = Inner(size + 1).width

        class Inner(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.width = Outer(size + 1).width

        def main(loss):
            with torch.autocast("cuda"):
                (Outer(3).width * loss).backward()  # in
    """,
    "a function of the file": """
        def step(loss):
            loss.backward()  # in

        def main(loss):
            with torch.autocast("cuda"):
                step(loss)
    """,
    "a class method and a property to be overridden": """
        class Trainer:
            @classmethod
            def metric(cls, name):
                raise NotImplementedError("no metrics")

            @property
            def device(self):
                raise NotImplementedError

            def train(self, loss):
                self.metric("accuracy")
                print(self.device)
                loss.backward()  # out

        def main(loss):
            Trainer().train(loss)
    """,
    "a keyword that is given twice": """
        def step(loss, mode, **options):
            loss.backward()  # out

        def pass_on(loss, **options):
            step(loss, mode=True, **options)
            loss.backward()  # out

        def main(loss, settings):
            if settings.first:
                pass_on(loss, clip=1.0)
            elif settings.second:
                pass_on(loss, mode=False, **settings.more)
                loss.backward()  # never
    """,
    "two calls deep": """
        def inner(loss):
            loss.backward()  # in

        def outer(loss):
            inner(loss)

        def main(loss):
            with torch.autocast("cuda"):
                outer(loss)
    """,
    "called in and out of a region": """
        def step(loss):
            loss.backward()  # in, out

        def main(loss):
            step(loss)
            with torch.autocast("cuda"):
                step(loss)
    """,
    "a method": """
        class Trainer:
            def step(self, loss):
                loss.backward()  # in

            def run(self, loss):
                with torch.autocast("cuda"):
                    self.step(loss)

        def main(loss):
            Trainer().run(loss)
    """,
    "a question far down that is asked twice": """
        _special = False

        def initialise():
            global _special
            _special = somewhere.find()

        def special():
            return _special

        def first(loss):
            second(loss)

        def second(loss):
            third(loss)

        def third(loss):
            context = nullcontext() if special() else torch.autocast("cuda")
            with context:
                if not special():
                    loss.backward()  # in

        def main(loss):
            initialise()
            first(loss)
    """,
    "a module that a function far down imports": """
        def load_torch():
            import torch
            return torch

        def region():
            torch = load_torch()
            return torch.autocast("cuda")

        def first(loss):
            second(loss)

        def second(loss):
            third(loss)

        def third(loss):
            with region():
                loss.backward()  # in

        def main(loss):
            first(loss)
    """,
    "arguments that a function does not have": """
        def penalty(loss, weight=1.0):
            return weight * loss

        def main(loss, flag):
            if flag:
                penalty(loss, scale=2.0)
                loss.backward()  # never
            else:
                penalty(loss, 2.0, 3.0)
                loss.backward()  # never
            loss.backward()  # never
    """,
    "arguments that a decorator may take": """
        def main(loss):
            penalty(loss, scale=2.0)
            loss.backward()  # out

        @somewhere.scales
        def penalty(loss, weight=1.0):
            return weight * loss
    """,
    "an inherited method": """
        class Base:
            def run(self, loss):
                with torch.autocast("cuda"):
                    self.step(loss)

            def step(self, loss):
                loss.backward()  # never

        class Trainer(Base):
            def step(self, loss):
                loss.backward()  # in

        def main(loss):
            Trainer().run(loss)
    """,
    "super": """
        class Base:
            def step(self, loss):
                loss.backward()  # in

        class Trainer(Base):
            def step(self, loss):
                with torch.autocast("cuda"):
                    super().step(loss)

        def main(loss):
            Trainer().step(loss)
    """,
    "a static method": """
        class Trainer:
            @staticmethod
            def step(loss):
                loss.backward()  # in

        def main(loss):
            with torch.autocast("cuda"):
                Trainer.step(loss)
    """,
    "a class method": """
        class Trainer:
            @classmethod
            def step(cls, loss):
                loss.backward()  # in

        def main(loss):
            with torch.autocast("cuda"):
                Trainer.step(loss)
    """,
    "an object that is called": """
        class Step:
            def __call__(self, loss):
                loss.backward()  # in

        def main(loss):
            step = Step()
            with torch.autocast("cuda"):
                step(loss)
    """,
    "an object kept in an attribute": """
        class Step:
            def run(self, loss):
                loss.backward()  # in

        class Trainer:
            def __init__(self):
                self.step = Step()

            def run(self, loss):
                with torch.autocast("cuda"):
                    self.step.run(loss)

        def main(loss):
            Trainer().run(loss)
    """,
    "a closure": """
        def main(loss):
            def step():
                loss.backward()  # in
            with torch.autocast("cuda"):
                step()
    """,
    "a closure is bound where it is defined and runs where it is called": """
        def main(loss):
            with torch.autocast("cuda"):
                def step():
                    loss.backward()  # out
            step()
    """,
    "a lambda": """
        def main(loss):
            step = lambda: loss.backward()  # in
            with torch.autocast("cuda"):
                step()
    """,
    "a function given as an argument": """
        def run(step, loss):
            with torch.autocast("cuda"):
                step(loss)

        def step(loss):
            loss.backward()  # in

        def main(loss):
            run(step, loss)
    """,
    "partial": """
        def step(loss, scale):
            loss.backward()  # in

        def main(loss):
            run = functools.partial(step, scale=2)
            with torch.autocast("cuda"):
                run(loss)
    """,
    "a region given as an argument": """
        def step(loss, context):
            with context:
                loss.backward()  # in

        def main(loss):
            step(loss, torch.autocast("cuda"))
    """,
    "a region given by keyword": """
        def step(loss, *, context=None):
            with context:
                loss.backward()  # in

        def main(loss):
            step(loss, context=torch.autocast("cuda", dtype=torch.bfloat16))
    """,
    "the value that a call returns": """
        def contexts():
            return torch.autocast("cuda"), 3

        def main(loss):
            context, number = contexts()
            with context:
                loss.backward()  # in
    """,
    "a call inside another call's arguments": """
        def first(loss):
            loss.backward()  # in
            return loss

        def main(loss, log):
            with torch.autocast("cuda"):
                log(first(loss))
    """,
    "a comprehension": """
        def step(loss):
            loss.backward()  # in

        def main(losses):
            with torch.autocast("cuda"):
                [step(loss) for loss in losses]
    """,
    "a decorated function": """
        def logged(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs)
            return wrapper

        @logged
        def step(loss):
            loss.backward()  # in

        def main(loss):
            with torch.autocast("cuda"):
                step(loss)
    """,
    "arguments behind a star of which nobody knows the number": """
        def step(kind, first, *others):
            first.backward()  # in
            for other in others:
                other.backward()  # in

        def main(losses, loss):
            with torch.autocast("cuda"):
                step("own", loss, *losses, loss)
    """,
    "a module out of sight that is given more than is known": """
        def main(model: torch.nn.Module, batch, loss):
            with torch.autocast("cuda"):
                model(*batch, loss, mask=None)
                loss.backward()  # in
    """,
    "a decorator of one's own that opens a region": """
        def mixed(function):
            def wrapper(*args, **kwargs):
                with torch.autocast("cuda"):
                    return function(*args, **kwargs)
            return wrapper

        @mixed
        def step(loss):
            loss.backward()  # in

        def main(loss):
            step(loss)
            loss.backward()  # out
    """,
    "the backward of a Function class is nobody's call": """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return grad * 2

        def main(x):
            with torch.autocast("cuda"):
                y = Double.apply(x)
            y.sum().backward()  # out
    """,
    "steps of what is no optimizer": """
        def main(loss, env, scheduler):
            with torch.autocast("cuda"):
                env.step(1)
                scheduler.step()
            loss.backward()  # out
    """,
}


@pytest.mark.parametrize("program", CALLS.values(), ids=CALLS)
def test_calls(holds: Holds, program: str) -> None:
    holds(HEAD + dedent(program))


FILES = {
    "from file import function": {
        "main.py": """
            import torch
            from engine import step

            def main(loss):
                with torch.autocast("cuda"):
                    step(loss)
        """,
        "engine.py": """
            def step(loss):
                loss.backward()  # in
        """,
    },
    "import file": {
        "main.py": """
            import torch
            import engine

            def main(loss):
                with torch.autocast("cuda"):
                    engine.step(loss)
        """,
        "engine.py": """
            def step(loss):
                loss.backward()  # in
        """,
    },
    "relative import within a package": {
        "main.py": """
            from package.train import run

            def main(loss):
                run(loss)
        """,
        "package/__init__.py": "",
        "package/train.py": """
            from .regions import region

            def run(loss):
                with region():
                    loss.backward()  # in
        """,
        "package/regions.py": """
            import torch

            def region():
                return torch.autocast("cuda")
        """,
    },
    "a name handed on by a package": {
        "main.py": """
            import torch
            from package import step

            def main(loss):
                with torch.autocast("cuda"):
                    step(loss)
        """,
        "package/__init__.py": "from .engine import *",
        "package/engine.py": """
            def step(loss):
                loss.backward()  # in
        """,
    },
    "a class of another file": {
        "main.py": """
            from engine import Trainer

            def main(loss):
                Trainer(amp=False).run(loss)
        """,
        "engine.py": """
            import torch

            class Trainer:
                def __init__(self, amp=True):
                    self.amp = amp

                def run(self, loss):
                    with torch.autocast("cuda", enabled=self.amp):
                        loss.backward()  # off
        """,
    },
    "a base class of another file": {
        "main.py": """
            from engine import Base

            class Trainer(Base):
                def step(self, loss):
                    loss.backward()  # in

            def main(loss):
                Trainer().run(loss)
        """,
        "engine.py": """
            import torch

            class Base:
                def run(self, loss):
                    with torch.autocast("cuda"):
                        self.step(loss)
        """,
    },
    "a context of another file": {
        "main.py": """
            from settings import context

            def main(loss):
                with context:
                    loss.backward()  # in
        """,
        "settings.py": """
            import torch
            context = torch.autocast("cuda")
        """,
    },
    "files that import each other": {
        "main.py": """
            import torch
            import engine

            def region():
                return torch.autocast("cuda")

            def main(loss):
                engine.run(loss)
        """,
        "engine.py": """
            import main

            def run(loss):
                with main.region():
                    loss.backward()  # in
        """,
    },
    "NativeScaler": {
        "main.py": """
            import torch
            from misc import NativeScaler

            def main(loss, optimizer):
                scaler = NativeScaler()
                with torch.autocast("cuda"):
                    scaler(loss, optimizer)
                scaler(loss, optimizer)
        """,
        "misc.py": """
            import torch

            class NativeScaler:
                def __init__(self):
                    self._scaler = torch.amp.GradScaler()

                def __call__(self, loss, optimizer):
                    self._scaler.scale(loss).backward()  # in, out
                    self._scaler.step(optimizer)
                    self._scaler.update()
        """,
    },
}


@pytest.mark.parametrize("programs", FILES.values(), ids=FILES)
def test_files(holds: Holds, programs: dict[str, str]) -> None:
    holds(programs)


MODULES = {
    "a module's call is its forward": """
        class Net(nn.Module):
            def forward(self, loss):
                loss.backward()  # in

        def main(loss):
            net = Net()
            with torch.autocast("cuda"):
                net(loss)
    """,
    "a module within a module": """
        class Block(nn.Module):
            def forward(self, loss):
                loss.backward()  # in
                return loss

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.block = Block()

            def forward(self, loss):
                return self.block(loss)

        def main(loss):
            net = Net()
            with torch.autocast("cuda"):
                net(loss)
    """,
    "Sequential": """
        class Block(nn.Module):
            def forward(self, loss):
                loss.backward()  # in
                return loss

        def main(loss):
            net = nn.Sequential(Block(), nn.ReLU())
            with torch.autocast("cuda"):
                net(loss)
    """,
    "ModuleList": """
        class Block(nn.Module):
            def forward(self, loss):
                loss.backward()  # in
                return loss

        class Net(nn.Module):
            def __init__(self, depth):
                super().__init__()
                self.blocks = nn.ModuleList([Block() for _ in range(depth)])

            def forward(self, loss):
                for block in self.blocks:
                    loss = block(loss)
                return loss

        def main(loss):
            net = Net(3)
            with torch.autocast("cuda"):
                net(loss)
    """,
    "DistributedDataParallel": """
        class Net(nn.Module):
            def forward(self, loss):
                loss.backward()  # in

        def main(loss):
            net = nn.parallel.DistributedDataParallel(Net().cuda())
            with torch.autocast("cuda"):
                net(loss)
    """,
    "compile": """
        class Net(nn.Module):
            def forward(self, loss):
                loss.backward()  # in

        def main(loss):
            net = torch.compile(Net().to("cuda"))
            with torch.autocast("cuda"):
                net(loss)
    """,
    "a decorated forward": """
        class Net(nn.Module):
            @torch.autocast("cuda", enabled=False)
            def forward(self, loss):
                loss.backward()  # off

        def main(loss):
            net = Net()
            with torch.autocast("cuda"):
                net(loss)
                loss.backward()  # in
    """,
    "a checkpointed block": """
        from torch.utils.checkpoint import checkpoint

        def block(loss):
            loss.backward()  # in
            return loss

        def main(loss):
            with torch.autocast("cuda"):
                checkpoint(block, loss, use_reentrant=False)
    """,
}


@pytest.mark.parametrize("program", MODULES.values(), ids=MODULES)
def test_modules(holds: Holds, program: str) -> None:
    holds(HEAD + dedent(program))


def test_a_call_of_a_module_is_heard(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
        def main(x):
            net = nn.Linear(2, 2)
            with torch.autocast("cuda"):
                net(x)
    """)
    )
    assert len(tape.of(Forward)) == 1


def test_an_event_knows_the_calls_that_led_to_it(holds: Holds) -> None:
    tape = holds(
        dedent("""
        import torch
        def inner(loss):
            loss.backward()
        def outer(loss):
            inner(loss)
        def main(loss):
            with torch.autocast("cuda"):
                outer(loss)
    """).lstrip()
    )
    (backward,) = tape.of(Backward)
    assert backward.place.line == 3
    assert [call.line for call in backward.place.calls] == [8, 5]


def test_the_module_body_is_walked_like_a_script(holds: Holds) -> None:
    holds(
        HEAD
        + dedent("""
            loss = make()

            def step():
                loss.backward()  # in

            with torch.autocast("cuda"):
                step()

            if __name__ == "__main__":
                loss.backward()  # out
        """),
        start=None,
    )


def test_a_method_sees_what_the_constructor_set(holds: Holds) -> None:
    holds(
        HEAD
        + dedent("""
            class Trainer:
                def __init__(self, amp):
                    self.context = torch.autocast("cuda")

                def step(self, loss):
                    with self.context:
                        loss.backward()  # in
        """),
        start="Trainer.step",
    )


def test_a_method_sees_what_another_method_set(holds: Holds) -> None:
    holds(
        HEAD
        + dedent("""
            class Trainer:
                def setup(self):
                    self.context = torch.autocast("cuda")

                def step(self, loss):
                    with self.context:
                        loss.backward()  # in
        """),
        start="Trainer.step",
    )


ENDINGS = {
    "recursion": """
        def main(loss, depth=0):
            with torch.autocast("cuda"):
                loss.backward()  # in
            main(loss, depth + 1)
            loss.backward()  # out
    """,
    "functions that call each other": """
        def other(loss):
            main(loss)
            loss.backward()  # out

        def main(loss):
            other(loss)
            loss.backward()  # out
    """,
    "a class that makes itself": """
        class Tree:
            def __init__(self):
                self.child = Tree()
                self.context = torch.autocast("cuda")

        def main(loss):
            with Tree().context:
                loss.backward()  # in
    """,
    "names that stand for each other": """
        one = other
        other = one

        def main(loss):
            with one():
                loss.backward()  # out
    """,
    "a dict that holds itself": """
        class Run:
            def __init__(self, settings):
                self.scaler = torch.amp.GradScaler()
                self.settings = settings

        def main(loss):
            settings = {}
            settings["own"] = [settings]
            run = Run(settings)
            with torch.autocast("cuda"):
                loss.backward()  # in
    """,
    "a slice of a dict that makes what is asked for": """
        from collections import defaultdict

        class Run:
            def __init__(self):
                self.history = defaultdict(list)

        def main(loss):
            run = Run()
            with torch.autocast("cuda"):
                loss.backward()  # in
            run.history[-3:]
    """,
    "a base that is its own": """
        class Odd(Odd):
            def step(self, loss):
                self.nothing(loss)

        def main(loss):
            Odd().step(loss)
            loss.backward()  # out
    """,
}


@pytest.mark.parametrize("program", ENDINGS.values(), ids=ENDINGS)
def test_the_walk_ends(holds: Holds, program: str) -> None:
    holds(HEAD + dedent(program))


def test_calls_beyond_the_budget_are_not_followed(holds: Holds, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry point itself is walked to its end: what it does is known all the same."""
    monkeypatch.setattr(walks, "MOST_STEPS", 20)
    lines = "".join(f"    x{i} = f({i})\n" for i in range(20))
    program = f"""
def main(f, loss):
    step(loss)
{lines}
    step_again(loss)
    with torch.autocast("cuda"):
        loss.backward()  # in

def step(loss):
    loss.backward()  # out

def step_again(loss):
    loss.backward()  # never
"""
    tape = holds(HEAD + program)
    assert len(tape.of(FunctionEnded)) == len(tape.of(AmpHidden)) == 1


@pytest.mark.parametrize(
    ("asked", "followed"), [("flag", 2), ("flags[{}]", 1)], ids=["one flag", "many flags"]
)
def test_conditions_of_many_nodes_leave_fewer_statements(
    holds: Holds, monkeypatch: pytest.MonkeyPatch, asked: str, followed: int
) -> None:
    """Statements under conditions that grow are dear."""
    monkeypatch.setattr(walks, "DEAR_STEPS", 20)
    monkeypatch.setattr(walks, "MOST_TREES", 60)
    lines = "".join(f"    if {asked.format(i)}:\n        return x\n" for i in range(20))
    program = f"""
def main(f, flag, flags, x, loss):
    step(loss)
{lines}
    step_again(loss)

def step(loss):
    loss.backward()

def step_again(loss):
    loss.backward()
"""
    assert len(holds(HEAD + program).of(Backward)) == followed


def test_data_that_is_taken_apart_by_recursion_is_walked_a_few_levels_deep(holds: Holds) -> None:
    tape = holds("""
        import torch

        def down(x):
            if isinstance(x, list):
                return [down(part) for part in x]
            if isinstance(x, tuple):
                return tuple(down(part) for part in x)
            if isinstance(x, dict):
                return {key: down(part) for key, part in x.items()}
            x.sum().backward()  # in
            return x

        def main(batch):
            with torch.autocast("cuda"):
                down(batch)
    """)
    assert len(tape.of(Backward)) < 50
