"""Where walks begin, what a walk assumes of what happened before it, and how often a budget lets it go on."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from amplint.check import CheckResult, check
from amplint.config import Settings
from amplint.flow import driver
from amplint.flow.core import walks
from amplint.flow.driver import Driver, Walk
from amplint.flow.project import edges, view
from amplint.flow.state.values import FunctionValue, Value
from amplint.lowering.program import Program
from amplint.source.outline import FunctionOutline
from amplint.source.project import ProjectFile


def checked(folder: Path, **files: str) -> CheckResult:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(dedent(text), encoding="utf-8")
    result = check([str(folder)], Settings(root=folder, select=("ALL",), ignore=("AMP5",)), jobs=1)
    assert result.crashes == ()
    return result


def lines(result: CheckResult) -> set[tuple[str, int]]:
    return {(finding.name, finding.span.line) for finding in result.findings}


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The entry points in the order in which they are walked."""
    names: list[str] = []
    walk_of = Driver.walk_of

    def noted(self: Driver, entry: FunctionValue, most: int, receiver: Value | None) -> Walk | None:
        assert entry.outline is not None
        names.append(f"{entry.file.path.stem}.{entry.outline.qualified}")
        return walk_of(self, entry, most, receiver)

    monkeypatch.setattr(Driver, "walk_of", noted)
    return names


TRAINING = """
    import torch


    def train(model, optimizer, batches):
        for x in batches:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(x).sum()
            loss.backward()
            optimizer.step()
"""
SCRIPT = """
    from settings import parse
    from training import train

    {more}
    train(*parse())
"""


def test_a_second_script_that_only_calls_the_same_is_not_walked(tmp_path: Path, walked: list[str]) -> None:
    checked(tmp_path, training=TRAINING, first=SCRIPT.format(more=""), second=SCRIPT.format(more=""))
    assert walked == ["first.<module>"]


def test_one_that_uses_torch_itself_is_walked(tmp_path: Path, walked: list[str]) -> None:
    more = "import torch; torch.manual_seed(0)"
    checked(tmp_path, training=TRAINING, first=SCRIPT.format(more=""), second=SCRIPT.format(more=more))
    assert walked == ["first.<module>", "second.<module>"]


NORM = """
    import torch
    from torch import nn


    class Norm(nn.Module):
        def forward(self, y):
            with torch.autocast("cuda", enabled={enabled}):
                return y.pow(2).mean()


    class Net(nn.Module):
        def __init__(self, count, switch=False):
            super().__init__()
            self.switch = switch
            self.conv = nn.Conv1d(1, 1, 3)
            self.norms = nn.ModuleList()
            for _ in range(count):
                self.norms += [Norm()]

        def forward(self, x):
            x = self.conv(x)
            for norm in self.norms:
                x = norm(x)
            {end}
            return x
"""


def test_where_autocast_is_switched_off_a_caller_has_it_on(tmp_path: Path) -> None:
    result = checked(tmp_path, net=NORM.format(enabled="False", end=""))
    assert lines(result) == {("disabled-region-without-cast", 9)}


@pytest.mark.parametrize(
    ("enabled", "end"),
    [
        # a flag that may switch it on expects nothing of a caller
        ("torch.cuda.is_available()", ""),
        # nobody opens a region around what runs its own backward pass
        ("False", "x.sum().backward()"),
    ],
)
def test_no_caller_is_assumed_where_none_is_needed(enabled: str, end: str, tmp_path: Path) -> None:
    assert not lines(checked(tmp_path, net=NORM.format(enabled=enabled, end=end)))


def test_methods_of_a_frequent_name_are_told_by_the_classes_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edges, "MOST_METHODS", 1)
    result = checked(tmp_path, net=NORM.format(enabled="False", end=""))
    assert lines(result) == {("disabled-region-without-cast", 9)}


ONCE = """
    import torch
    from torch import nn

    MADE = False


    def once():
        global MADE
        assert not MADE
        MADE = True


    class {name}:
        def __init__(self, model):
            once()
            self.model = model
            self.criterion = nn.BCELoss()
            self.scaler = torch.amp.GradScaler("cuda")

        def step(self, x, y):
            with torch.autocast("cuda", dtype=torch.float16):
                return self.criterion(self.model(x), y)
"""


def test_what_one_constructor_says_by_global_is_not_said_to_the_next(tmp_path: Path) -> None:
    first = dedent(ONCE.format(name="First"))
    second = (
        first[first.index("class First") :].replace("First", "Second").replace("once()", "assert not MADE")
    )
    result = checked(tmp_path, trainers=f"{first}\n\n{second}")
    assert [finding.name for finding in result.findings] == ["bce-in-autocast"] * 2


def test_a_constructor_that_is_walked_by_itself_does_not_meet_its_own_flag(tmp_path: Path) -> None:
    module = dedent(ONCE.format(name="First")).replace("class First:", "class First(nn.Module):")
    read = "once()\n        self.register_buffer('steps', torch.zeros(1))"
    result = checked(tmp_path, trainer=module.replace("once()\n        self", f"{read}\n        self"))
    assert [finding.name for finding in result.findings] == ["bce-in-autocast"]


OFTEN = """
    import torch


    def half(x, kind):
        if kind == "last":
            with torch.autocast("cuda", dtype=torch.float16):
                y = x @ x
            return y.pow(2).sum()
        return x


    def judge(model, x):
        a = half(x, "first")
        b = half(x, "second")
        c = half(x, "last")
        return a + b + c
"""


@pytest.mark.parametrize(("most", "cut"), [(2, True), (3, False)])
def test_one_function_is_walked_so_often_and_the_cut_is_told(
    most: int, cut: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "MOST_WALKS", most)
    result = checked(tmp_path, often=OFTEN)
    assert bool(result.cut) is cut
    assert ("missing-float" in {finding.name for finding in result.findings}) is not cut


DECORATED = """
    import torch


    def registered(function):
        {work}
        return function


    @registered
    def judge(model, x):
        with torch.autocast("cuda", dtype=torch.float16):
            y = model(x) @ x
        return y.pow(2).sum()
"""


def test_a_decorator_that_does_much_leaves_the_budget_of_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "MOST_STEPS", 60)
    monkeypatch.setattr(walks, "IN_DECORATORS", 20)
    work = "\n        ".join(f"torch.zeros({number})" for number in range(80))
    assert "missing-float" in {
        finding.name for finding in checked(tmp_path, made=DECORATED.format(work=work)).findings
    }


def test_what_comes_after_plenty_gets_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "FEWER", 3)
    judge = """
        import torch


        def half(x):
            with torch.autocast("cuda", dtype=torch.float16):
                y = x @ x
            return y.pow(2).sum()


        def {name}(x):
            a = 1
            b = 2
            c = 3
            return half(x)
    """
    files = {name: judge.format(name=name) for name in ("first", "second")}
    everything = checked(tmp_path, **files)
    assert not everything.cut and len(everything.findings) == 2
    monkeypatch.setattr(walks, "PLENTY", 1)
    some = checked(tmp_path, **files)
    assert some.cut == 1
    assert lines(some) == lines(everything)  # what a cut has left out is walked by itself


BLOCK = """
    import torch
    from torch import nn


    def scale(x):
        with torch.autocast("cuda"):
            return x.float().pow(2)


    class Block(nn.Module):
        def __init__(self, x):
            super().__init__()
            self.start = nn.Parameter(scale(x))
            {more}

        def forward(self, x):
            return scale(x) @ self.start
"""


@pytest.mark.parametrize(
    ("more", "entries"),
    [
        ("self.norm = nn.LayerNorm(8)", ["net.Block.forward"]),
        ("self.norm = nn.LayerNorm(8).half()", ["net.Block.forward", "net.Block.__init__"]),
    ],
)
def test_a_constructor_is_walked_for_what_it_does_about_precision_alone(
    more: str, entries: list[str], tmp_path: Path, walked: list[str]
) -> None:
    checked(tmp_path, net=BLOCK.format(more=more))
    assert walked == entries


SHARED = """
    import torch


    def half(x):
        with torch.autocast("cuda", dtype=torch.float16):
            y = x @ x
        return y
"""
CALLING = """
    import torch
    from shared import half


    def {name}(x):
        a = torch.zeros(1)
        b = a + 1
        c = b + 1
        return half(x).pow(2).sum()
"""


@pytest.mark.parametrize(("most", "cut"), [(100, 0), (30, 1)])
def test_the_classes_of_an_entry_point_share_a_budget(
    most: int, cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "MOST_STEPS", most)
    monkeypatch.setattr(driver, "FEWER", 5)
    base = """
        import torch


        class Base:
            def run(self, model, x):
                {work}
                with torch.autocast("cuda", dtype=torch.float16):
                    y = model(x) @ x
                return self.loss(y)
    """
    below = "".join(
        f"""
        class Loss{number}(Base):
            def loss(self, y):
                return y.pow({number}).sum()
    """
        for number in (2, 3, 4)
    )
    work = "\n                ".join(f"a{number} = {number}" for number in range(20))
    result = checked(tmp_path, made=dedent(base.format(work=work)) + dedent(below))
    assert result.cut == cut
    assert len(result.findings) == 3 - cut


@pytest.mark.parametrize(("fewest", "cut"), [(250, 0), (3, 1)])
def test_where_no_new_region_may_be_met_the_budget_is_smallest(
    fewest: int, cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "PLENTY", 1)
    monkeypatch.setattr(walks, "FEWEST", fewest)
    files = {name: CALLING.format(name=name) for name in ("first", "second")}
    result = checked(tmp_path, shared=SHARED, **files)
    assert result.cut == cut
    assert len(result.findings) == 2 - cut


@pytest.mark.parametrize(("plenty", "cut"), [(1_000, 0), (8, 0), (4, 1)])
def test_in_a_huge_project_all_further_entry_points_get_the_smallest_budget(
    plenty: int, cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "PLENTY", plenty)
    monkeypatch.setattr(walks, "FEWEST", 3)
    own = CALLING.replace("return half(x)", "with torch.autocast('cuda'):\n            return half(x)")
    files = {name: own.format(name=name) for name in ("first", "second")}
    assert checked(tmp_path, shared=SHARED, **files).cut == cut


@pytest.mark.parametrize(("loss", "cut"), [("scaler.scale(y)", 0), ("y", 1)])
def test_what_scales_losses_itself_keeps_its_budget_longer(
    loss: str, cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``fit`` comes after what may call it, and is not reached from there."""
    monkeypatch.setattr(walks, "PLENTY", 4)
    monkeypatch.setattr(walks, "FEWER", 1)
    monkeypatch.setattr(walks, "FEWEST", 1)
    trainer = f"""
        import torch


        class Trainer:
            def fit(self, x, scaler):
                with torch.autocast("cuda", dtype=torch.float16):
                    y = half(x)
                {loss}.backward()


        def half(x):
            a = 1
            return (x @ x).sum()
    """
    main = """
        import torch


        def main(x, trainer, scaler):
            with torch.autocast("cuda"):
                a = x @ x
                b = a + 1
                c = b + 1
            trainer.fit(x, scaler)
    """
    assert checked(tmp_path, main=main, trainer=trainer).cut == cut


def test_files_that_name_a_region_themselves_come_first(tmp_path: Path, walked: list[str]) -> None:
    own = """
        import torch


        def own(x):
            with torch.autocast("cuda"):
                return x @ x
    """
    checked(tmp_path, shared=SHARED, first=CALLING.format(name="first"), own=own)
    assert walked == ["own.own", "first.first"]


ISLAND = """
    import torch
    from torch import nn


    def off(enabled):
        return torch.autocast("cuda", enabled=enabled)


    class Rotary(nn.Module):
        def forward(self, x, positions, *, scale=None):
            with {context}:
                {body}


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rotary = Rotary()
            self.layer = nn.Linear(8, 8)

        def forward(self, x, positions):
            return self.rotary(self.layer(x), positions)
"""
FORWARDS = {"net.Net.forward", "net.Rotary.forward"}
OFF = 'torch.autocast("cuda", enabled=False)'
SAFE = "return torch.outer(positions.float(), positions.float()).exp() @ x.float()"


@pytest.mark.parametrize("context", [OFF, "off(False)"], ids=["itself", "by a helper"])
def test_what_leads_to_a_float32_island_is_not_walked(
    context: str, tmp_path: Path, walked: list[str]
) -> None:
    assert checked(tmp_path, net=ISLAND.format(context=context, body=SAFE)).findings == ()
    assert not FORWARDS & set(walked)


@pytest.mark.parametrize(
    ("context", "body"),
    [
        (OFF, "return x.exp()"),
        (OFF, "return x.float() if scale is None else scale.exp()"),
        ('torch.autocast("cuda", enabled=positions is None)', SAFE),
        (f"{OFF}, torch.autocast('cuda')", SAFE),
        (OFF, "self.half(); return x.float()"),
    ],
    ids=["computes in half", "of what may be given", "a flag", "on inside", "casts a model"],
)
def test_what_is_no_island(context: str, body: str, tmp_path: Path, walked: list[str]) -> None:
    checked(tmp_path, net=ISLAND.format(context=context, body=body))
    assert FORWARDS & set(walked)


def test_what_is_cut_off_is_no_island(
    tmp_path: Path, walked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = f"y = off(False); {SAFE}"
    monkeypatch.setattr(walks, "MOST_WALKS", 0)
    checked(tmp_path, net=ISLAND.format(context=OFF, body=body))
    assert FORWARDS & set(walked)


def test_a_caller_of_what_is_no_island_is_believed(tmp_path: Path) -> None:
    """The layer gives half, if the caller runs under autocast, as the region that is off says."""
    [finding] = checked(tmp_path, net=ISLAND.format(context=OFF, body="return x.exp()")).findings
    assert finding.name == "disabled-region-without-cast"


@pytest.mark.parametrize(
    ("decorator", "lowered"),
    [
        ("@property", False),
        ("@functools.lru_cache(maxsize=None)", False),
        ("@package.register('name')", False),
        ("@own", False),
        ("@torch.autocast('cuda')", True),
        ("@package.register(torch.autocast('cuda'))", True),
        ("@opening", True),
    ],
)
def test_a_function_is_lowered_for_a_decorator_only_if_that_may_do_something(
    decorator: str, lowered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    lower = view.lower_function

    def noted(file: ProjectFile, outline: FunctionOutline) -> Program | None:
        names.append(outline.name)
        return lower(file, outline)

    monkeypatch.setattr(view, "lower_function", noted)
    monkeypatch.setattr(Driver, "walk_of", lambda *_, **__: None)
    monkeypatch.setattr(Driver, "_islands", lambda _: iter(()))
    text = f"""
        import functools

        import package
        import torch


        def own(function):
            return function


        def opening(function):
            return torch.autocast("cuda")(function)


        {decorator}
        def decorated(x):
            return x
    """
    checked(tmp_path, program=text)
    assert ("decorated" in names) is lowered


def test_what_a_test_does_not_get_to_has_a_walk_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "FEWER", 20)
    steps = "\n                ".join(f"self.log({number})" for number in range(60))
    trainer = f"""
        import torch


        def half(x):
            with torch.autocast("cuda", dtype=torch.float16):
                return x @ x


        class Trainer:
            def log(self, number):
                torch.zeros(number)

            def train(self, x):
                {steps}
                y = half(x)
                return y.pow(2).sum()
    """
    start = """
        from trainer import Trainer


        def main():
            raise SystemExit
            Trainer().train(None)
    """
    test = """
        from trainer import Trainer


        def test_training():
            Trainer().train([])
    """
    assert lines(checked(tmp_path, trainer=trainer, start=start, test_trainer=test)) == {
        ("missing-float", 76)
    }
