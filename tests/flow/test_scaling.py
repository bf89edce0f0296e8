"""What the flow tells of scalers, losses and gradients."""

from __future__ import annotations

from pathlib import Path

import pytest
from listening import Tape, listen

from amplint.events import (
    Backward,
    GradientsRead,
    GradientsZeroed,
    OptimizerMade,
    OptimizerStepped,
    ScaledLossRead,
    ScalerMade,
    ScalerUsed,
    SchedulerStepped,
    StateSaved,
)

HEAD = """\
import torch
from torch import nn
from torch.amp import GradScaler, autocast

"""


@pytest.fixture
def walk(tmp_path: Path):
    """Walks ``main`` of a program."""

    def run(text: str) -> Tape:
        return listen(tmp_path, HEAD + text)

    return run


def test_one_step_names_the_same_scaler_optimizer_and_module_throughout(walk) -> None:
    tape = walk(
        """\
def main(x):
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler()
    optimizer.zero_grad()
    loss = model(x).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
    )
    (made,), (scaler,) = tape.of(OptimizerMade), tape.of(ScalerMade)
    uses = tape.of(ScalerUsed)
    assert [use.act for use in uses] == ["scale", "unscale_", "step", "update"]
    assert {use.scaler for use in uses} == {scaler.scaler}
    assert all(use.enabled for use in uses)
    assert [use.optimizer for use in uses[1:3]] == [made.optimizer] * 2
    (backward,) = tape.of(Backward)
    assert backward.scaled_by == (scaler.scaler,) and not backward.unclear
    (read,) = tape.of(GradientsRead)
    assert read.how == "clip_grad_norm_" and read.limit == 1.0 and read.clips
    assert read.modules == made.modules != frozenset()
    (stepped,) = tape.of(OptimizerStepped)
    assert (stepped.optimizer, stepped.scaler) == (made.optimizer, scaler.scaler)
    assert tape.of(GradientsZeroed)[0].optimizer == made.optimizer


@pytest.mark.parametrize(
    ("loss", "scaled", "unclear"),
    [
        ("loss", False, False),
        ("scaler.scale(loss)", True, False),
        ("scaler.scale(loss / 4)", True, False),
        ("(scaler.scale(loss) / 4)", True, False),
        ("(scaler.scale(loss) / scaler.get_scale())", False, False),
        ("scaler.scale(loss).mean()", True, False),
        ("sum([scaler.scale(loss), scaler.scale(loss)])", True, False),
        ("torch.stack([scaler.scale(loss), scaler.scale(loss)]).sum()", True, False),
        ("wrap(scaler, loss)", False, True),
        ("wrap(scaler.scale(loss))", False, True),
        ("apex.scale(loss)", False, True),
    ],
)
def test_what_a_backward_starts_from(walk, loss: str, scaled: bool, unclear: bool) -> None:
    tape = walk(f"def main(wrap, apex, loss):\n    scaler = GradScaler()\n    {loss}.backward()\n")
    (backward,) = tape.of(Backward)
    assert (backward.scaled, backward.unclear) == (scaled, unclear)


def test_scaler_with_a_flag_is_on_and_the_path_remembers_it(walk) -> None:
    tape = walk(
        """\
def main(loss, optimizer, flag):
    scaler = GradScaler(enabled=flag)
    scaler.scale(loss).backward()
    if flag:
        scaler.step(optimizer)
    else:
        optimizer.step()
"""
    )
    assert [use.enabled for use in tape.of(ScalerUsed)] == [True, True]
    assert [stepped.via_scaler for stepped in tape.of(OptimizerStepped)] == [True]


def test_scaler_that_is_off_leaves_the_loss_alone(walk) -> None:
    tape = walk(
        """\
def main(loss, flag):
    scaler = GradScaler(enabled=flag)
    if not flag:
        scaler.scale(loss).backward()
"""
    )
    (backward,) = tape.of(Backward)
    assert tape.of(ScalerUsed)[0].enabled is False
    assert not backward.scaled


def test_scaler_that_was_used_is_not_none(walk) -> None:
    tape = walk(
        """\
def main(loss, scaler, amp, optimizer):
    if amp:
        scaler.scale(loss).backward()
    else:
        loss.backward()
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
        scaler.update()
"""
    )
    direct = [
        way for way in tape.ways if any(isinstance(e, OptimizerStepped) and not e.via_scaler for e in way)
    ]
    assert direct
    assert not any(isinstance(event, Backward) and event.scaled for way in direct for event in way)


def test_two_tests_of_one_counter_agree(walk) -> None:
    tape = walk(
        """\
def main(losses, optimizer):
    scaler = GradScaler()
    for i, loss in enumerate(losses):
        scaler.scale(loss).backward()
        if (i + 1) % 4 == 0:
            scaler.unscale_(optimizer)
        if (i + 1) % 4 == 0:
            scaler.step(optimizer)
"""
    )
    for way in tape.ways:
        acts = [event.act for event in way if isinstance(event, ScalerUsed)]
        assert acts.count("unscale_") == acts.count("step")


@pytest.mark.parametrize(
    ("read", "how"),
    [
        ("loss.item()", "item"),
        ("float(loss)", "float"),
        ("print(f'loss {loss:.3f}')", "formatted"),
        ("print(loss)", "str"),
        ("loss.detach().cpu().item()", "item"),
        ("loss.mean().item()", "item"),
    ],
)
def test_a_scaled_loss_becomes_a_number(walk, read: str, how: str) -> None:
    tape = walk(f"def main(loss):\n    scaler = GradScaler()\n    loss = scaler.scale(loss)\n    {read}\n")
    assert [event.how for event in tape.of(ScaledLossRead)] == [how]


@pytest.mark.parametrize(
    "zero",
    [
        "optimizer.zero_grad()",
        "model.zero_grad(set_to_none=True)",
        "for p in model.parameters():\n        p.grad = None",
    ],
)
def test_ways_to_drop_gradients(walk, zero: str) -> None:
    tape = walk(
        "def main():\n    model = nn.Linear(2, 1)\n    optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        f"    {zero}\n"
    )
    (made,) = tape.of(OptimizerMade)
    assert {event.modules for event in tape.of(GradientsZeroed)} == {made.modules}


@pytest.mark.parametrize(
    ("op", "how", "clips"),
    [
        ("p.grad.norm(2)", "norm", False),
        ("p.grad.data.norm()", "norm", False),
        ("torch.norm(p.grad)", "norm", False),
        ("p.grad.clamp_(-1, 1)", "clamp_", True),
        ("nn.utils.clip_grad_value_(p, 0.5)", "clip_grad_value_", True),
    ],
)
def test_ways_to_read_gradients(walk, op: str, how: str, clips: bool) -> None:
    tape = walk(f"def main():\n    model = nn.Linear(2, 1)\n    for p in model.parameters():\n        {op}\n")
    assert {(event.how, event.clips, len(event.modules)) for event in tape.of(GradientsRead)} == {
        (how, clips, 1)
    }


def test_scaler_given_to_code_out_of_sight(walk) -> None:
    tape = walk("def main(trainer):\n    scaler = GradScaler()\n    trainer.run(scaler)\n")
    assert [use.act for use in tape.of(ScalerUsed)] == ["given"]


def test_what_a_checkpoint_holds(walk) -> None:
    tape = walk(
        """\
def main(path):
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = GradScaler()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    state["scaler"] = scaler.state_dict()
    torch.save(state, path)
"""
    )
    (saved,), (made,), (scaler,) = tape.of(StateSaved), tape.of(OptimizerMade), tape.of(ScalerMade)
    assert saved.optimizers == (made.optimizer,)
    assert saved.scalers == (scaler.scaler,)
    assert saved.complete


def test_a_loss_in_the_hands_of_apex_may_be_scaled(walk) -> None:
    tape = walk(
        """\
def main(x, model, optimizer):
    from apex import amp

    scaler = GradScaler()
    loss = scaler.scale(model(x).sum())
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    scaler.step(optimizer)
"""
    )
    (backward,) = tape.of(Backward)
    (made,) = tape.of(ScalerMade)
    assert backward.unclear
    assert backward.scaled_by == (made.scaler,)


def test_an_optimizer_of_which_a_flag_chose_the_class_is_one(walk) -> None:
    tape = walk(
        """
def make(model, name):
    if name == "adam":
        return torch.optim.Adam(model.parameters())
    elif name == "rms":
        return torch.optim.RMSprop(model.parameters())
    return torch.optim.SGD(model.parameters(), lr=0.1)


def main(name, loss, path):
    model = nn.Linear(2, 2)
    optimizer = make(model, name)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    GradScaler().step(optimizer)
    schedule.step()
    torch.save(optimizer.state_dict(), path)
"""
    )
    assert len({made.optimizer for made in tape.of(OptimizerMade)}) == 3
    assert len(tape.ways) == 3
    for way in tape.ways:
        (made,), (step,), (schedule,), (saved,) = (
            [event for event in way if isinstance(event, kind)]
            for kind in (OptimizerMade, ScalerUsed, SchedulerStepped, StateSaved)
        )
        assert made.optimizer == step.optimizer == schedule.optimizer
        assert saved.optimizers == (step.optimizer,)


def test_optimizers_that_are_all_there_stay_apart(walk) -> None:
    tape = walk(
        """
def main(loss, generator):
    one = torch.optim.Adam(nn.Linear(2, 2).parameters())
    other = torch.optim.Adam(nn.Linear(2, 2).parameters())
    optimizer = one if generator else other
    optimizer.step()
"""
    )
    assert len({step.optimizer for step in tape.of(OptimizerStepped)}) == 2


def test_a_dict_is_known_whatever_else_is_in_it(walk) -> None:
    choices = "\n".join(f"        n{i}=opt.a{i}() if opt.b{i} else opt.c{i}()," for i in range(4))
    tape = walk(
        f"""
def main(opt, path):
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    state = dict(
{choices}
        optimizer=optimizer.state_dict(),
    )
    torch.save(state, path)
"""
    )
    (made,) = tape.of(OptimizerMade)
    assert {saved.optimizers for saved in tape.of(StateSaved)} == {(made.optimizer,)}


TRAINER = """
class Trainer:
    def __init__(self):
        self.model = nn.Linear(2, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = GradScaler()

    def main(self, x):
        {makes}
        scaler.scale(self.model(x).sum()).backward()
        scaler.step(self.optimizer)
        scaler.update()

    def save(self, path):
        self.optimizer.step()
        torch.save(self.states(), path)

    def states(self):
        return {{"optimizer": self.optimizer.state_dict()}}

    def load(self, path):
        self.{loads}.load_state_dict(torch.load(path))

    def weights(self):
        return list(self.model.parameters())
"""


@pytest.mark.parametrize(
    ("makes", "saved"),
    {
        "scaler = self.scaler": True,
        "scaler = GradScaler()": False,
    }.items(),
)
def test_a_method_saves_what_another_trained(tmp_path: Path, makes: str, saved: bool) -> None:
    program = TRAINER.format(makes=makes, loads="optimizer")
    tape = listen(tmp_path, HEAD + program, start="Trainer.main")
    assert len(tape.of(StateSaved)) == saved
    # of the method that saves only that is told
    assert len(tape.of(OptimizerStepped)) == 1
    used = [event.optimizer for event in tape.of(ScalerUsed) if event.act == "step"]
    assert all(event.optimizers == tuple(used) for event in tape.of(StateSaved))


def test_the_end_of_an_entry_point_is_walked_when_calls_have_used_up_the_budget(
    walk,
) -> None:
    long = "\n".join(f"    x = x + {i}" for i in range(200))
    calls = "\n".join(f"    loss = loss + large{i}(scaler, loss)" for i in range(24))
    functions = "\n".join(f"def large{i}(scaler, x):\n{long}\n    return x\n" for i in range(24))
    tape = walk(
        f"""
{functions}

def main(loss):
    scaler = GradScaler()
{calls}
    scaler.update()
"""
    )
    assert [event.act for event in tape.of(ScalerUsed)][-1] == "update"


@pytest.mark.parametrize(
    ("arguments", "initial"),
    [
        ("", 65536.0),
        ("'cuda', 2**10", 1024.0),
        ("init_scale=128", 128.0),
        ("init_scale=args.scale", None),
        ("*args", None),
        ("growth_interval=100", 65536.0),
    ],
)
def test_the_scale_that_a_scaler_starts_with(walk, arguments: str, initial: float | None) -> None:
    tape = walk(
        f"""\
def main(loss, args):
    GradScaler({arguments}).scale(loss).backward()
"""
    )
    (used,) = tape.of(ScalerUsed)
    assert used.initial == initial


LATER = """\
class Task:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.limit = None
        self.scaler = None

    def set_up(self, limit):
        self.limit = limit
        {setting}

    def step(self, x):
        loss = self.model(x).sum()
        if self.scaler is not None:
            self.scaler.scale(loss).backward()
        else:
            loss.backward()
        if self.limit is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.limit)
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""


@pytest.mark.parametrize(
    ("setting", "acts"),
    [
        ("self.scaler = GradScaler()", {"scale", "step", "update"}),
        ("self.scaler = None", set()),
        ("pass", set()),
    ],
)
def test_an_attribute_that_another_method_sets_is_not_taken_for_none(
    tmp_path: Path, setting: str, acts: set[str]
) -> None:
    tape = listen(tmp_path, HEAD + LATER.format(setting=setting), start="Task.step")
    assert {use.act for use in tape.of(ScalerUsed)} == acts
    assert len(tape.of(GradientsRead)) == 1


def test_what_a_walk_has_seen_since_the_object_was_made_counts(tmp_path: Path) -> None:
    program = (
        LATER.format(setting="self.scaler = GradScaler()")
        + """
def main(x, model, optimizer):
    Task(model, optimizer).step(x)
"""
    )
    tape = listen(tmp_path, HEAD + program)
    assert not tape.of(ScalerUsed)
    assert not tape.of(GradientsRead)


def test_a_scaler_that_a_branch_switches_is_walked_both_on_and_off(walk) -> None:
    tape = walk(
        """
def main(full_precision, loss):
    if full_precision:
        use_amp = False
    else:
        use_amp = True
    scaler = GradScaler("cuda", enabled=use_amp)
    scaler.scale(loss)
"""
    )
    assert [made.enabled for made in tape.of(ScalerMade)] == [False, True]
    assert sorted(bool(used.enabled) for used in tape.of(ScalerUsed)) == [False, True]


def test_a_parameter_is_what_the_methods_that_get_it_take_it_for(tmp_path: Path) -> None:
    program = """
class Trainer:
    def epoch(self, model, optim, scaler, loader):
        for batch in loader:
            losses = {}
            self.forward(model, batch, losses=losses)
            self.backward(scaler, losses=losses)
            self.update(optim, how=scaler)

    def forward(self, model, batch, losses):
        with autocast("cuda"):
            losses["loss"] = model(batch)

    def backward(self, scaler, losses):
        loss = losses["loss"]
        if scaler:
            scaler.scale(loss).backward()
        else:
            loss.backward()

    def update(self, optim, how):
        if how:
            how.step(optim)
            how.update()
        else:
            optim.step()
"""
    tape = listen(tmp_path, HEAD + program, start="Trainer.epoch")
    scalers = {use.scaler for use in tape.of(ScalerUsed)}
    steps = tape.of(OptimizerStepped)
    assert len(scalers) == 1
    assert {step.scaler for step in steps} == {None, *scalers}
    assert {backward.scaled_by for backward in tape.of(Backward)} == {(), tuple(scalers)}


def test_an_optimizer_class_of_the_project_tells_of_a_step_once(walk) -> None:
    tape = walk(
        """\
class Plain(torch.optim.Optimizer):
    def step(self, closure=None):
        return None

class Above(torch.optim.SGD):
    def step(self, closure=None):
        return super().step()

class Around(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})
        self.inner = torch.optim.SGD(params, lr=0.1)

    def step(self, closure=None):
        self.inner.step()

def main():
    model = nn.Linear(8, 1)
    Plain(model.parameters(), {}).step()
    Above(model.parameters(), lr=0.1).step()
    Around(model.parameters()).step()
"""
    )
    plain, above, _, inner = tape.of(OptimizerMade)
    steps = tape.of(OptimizerStepped)
    assert [step.optimizer for step in steps] == [plain.optimizer, above.optimizer, inner.optimizer]
    assert [step.place.text for step in steps][1:] == ["super().step()", "self.inner.step()"]


@pytest.mark.parametrize(
    "step",
    [
        "step(scaler, optimizers, index)",
        "holder.step(index, scaler)",
        "Trainer(holder, scaler).step(index)",
    ],
)
def test_an_optimizer_that_a_helper_picks_by_a_number_is_another_one_each_round(walk, step: str) -> None:
    tape = walk(
        f"""\
def step(scaler, optimizers, index):
    scaler.step(optimizers[index])

class Holder:
    def __init__(self, optimizers):
        self.optimizers = list(optimizers)

    def step(self, index, scaler):
        scaler.step(self.optimizers[index])

class Trainer:
    def __init__(self, holder: Holder, scaler):
        self.holder, self.scaler = holder, scaler

    def step(self, index):
        self.holder.step(index, self.scaler)

def main(optimizers, holder: Holder):
    scaler = GradScaler()
    for index in range(len(optimizers)):
        {step}
"""
    )
    assert len({event.optimizer for event in tape.of(OptimizerStepped)}) == 2
