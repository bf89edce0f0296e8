"""What the models of frameworks tell: each program is a few lines of a training script."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from amplint.events import (
    AmpHidden,
    Backward,
    Converted,
    DType,
    Event,
    FrameworkScaled,
    FrameworkUnscaled,
    Op,
    OptimizerMade,
    OptimizerStepped,
    RegionEntered,
    ScalerUsed,
    SchedulerStepped,
    StateSaved,
)
from amplint.flow.core.api import Settings
from amplint.flow.driver import Driver
from amplint.source.project import Project

HEAD = """
import torch
from torch import nn
"""
ACCELERATED = """
from accelerate import Accelerator

def train(loader, precision, prepared=True):
    accelerator = Accelerator(mixed_precision={precision})
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    with accelerator.autocast():
        loss = model(torch.zeros(4, 8)).mean()
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    torch.save({{"optimizer": optimizer.state_dict()}}, "last.pt")
"""
FABRIC = """
from lightning.fabric import Fabric

def train(loader):
    fabric = Fabric(precision={precision})
    with fabric.autocast():
        pass
    fabric.backward(torch.zeros(1))
"""


def told(tmp_path: Path, text: str) -> list[Event]:
    """The events of a script and its functions."""
    path = tmp_path / "script.py"
    path.write_text(HEAD + dedent(text), encoding="utf-8")
    project = Project([path])
    file = project.load(path)
    assert file is not None
    walks = Driver(project, [file], Settings(((2, 0), None), "cuda")).walks()
    return [event for walk in walks for event in walk.graph.events()]


def only(events: list[Event], kind: type[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize(
    ("precision", "scaled", "regions", "prepared"),
    [
        ('"fp16"', [True], [DType.FLOAT16] * 2, True),
        ("precision", [False], [DType.HALF], True),
        ("None", [False], [DType.HALF], False),
        ('"bf16"', [], [DType.BFLOAT16] * 2, False),
        ('"no"', [], [], False),
    ],
)
def test_an_accelerator_scales_in_float16_alone(
    tmp_path: Path, precision: str, scaled: list[bool], regions: list[DType], prepared: bool
) -> None:
    """Where it is known, the forward of a prepared model runs in a region of its own."""
    events = told(tmp_path, ACCELERATED.format(precision=precision))
    assert [event.float16 for event in events if isinstance(event, FrameworkScaled)] == scaled
    assert [event.float16 for event in events if isinstance(event, FrameworkUnscaled)] == scaled
    assert [event.regions[-1].dtype for event in only(events, RegionEntered)] == regions
    assert all(event.framework for event in events if isinstance(event, OptimizerStepped))
    assert all(event.unclear for event in events if isinstance(event, Backward))
    (saved,) = (event for event in events if isinstance(event, StateSaved))
    assert bool(saved.prepared) is prepared


def test_what_stands_before_a_star_keeps_its_place(tmp_path: Path) -> None:
    """What ``prepare`` gives back of loaders of which nobody knows how many there are comes behind the optimizer."""
    given = ACCELERATED.replace("model, optimizer = ", "model, optimizer, *loader = ")
    given = given.replace("(model, optimizer)", "(model, optimizer, *loader)")
    events = told(tmp_path, given.format(precision='"fp16"'))
    made = {event.optimizer for event in events if isinstance(event, OptimizerMade)}
    assert {event.optimizer for event in events if isinstance(event, OptimizerStepped)} == made


def test_a_precision_that_was_asked_for_is_known(tmp_path: Path) -> None:
    events = told(
        tmp_path,
        """
        from accelerate import Accelerator

        def train(args, loss):
            accelerator = Accelerator(mixed_precision=args.precision)
            if args.precision == "bf16":
                accelerator.backward(loss)
        """,
    )
    assert only(events, Backward)
    assert not only(events, FrameworkScaled)


NET = """
from accelerate import Accelerator
from accelerate.utils import AutocastKwargs, GradScalerKwargs
from transformers import Trainer, TrainingArguments

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        return torch.relu(self.fc(x))
"""


@pytest.mark.parametrize(
    ("given", "opened"),
    [
        ('mixed_precision="fp16"', [("cuda", DType.FLOAT16, True)]),
        ('mixed_precision="bf16"', [("cuda", DType.BFLOAT16, True)]),
        ('mixed_precision="bf16", cpu=True', [("cpu", DType.BFLOAT16, True)]),
        ('mixed_precision="fp16", cpu=True', []),
        ('mixed_precision="fp16", cpu=options.cpu', []),
        ('mixed_precision="fp8"', []),
        ('mixed_precision="no"', []),
        ("mixed_precision=options.precision", []),
        ('mixed_precision="fp16", deepspeed_plugin=options.plugin', []),
        ('mixed_precision="fp16", kwargs_handlers=[AutocastKwargs(False)]', [("cuda", DType.FLOAT16, False)]),
        (
            'mixed_precision="fp16", kwargs_handlers=[AutocastKwargs(cache_enabled=False), GradScalerKwargs()]',
            [("cuda", DType.FLOAT16, True)],
        ),
        ('mixed_precision="fp16", kwargs_handlers=[options.handler]', []),
        ('mixed_precision="fp16", kwargs_handlers=options.handlers', []),
        ('mixed_precision="fp16", kwargs_handlers=[AutocastKwargs() for _ in options]', []),
    ],
)
def test_a_prepared_forward_runs_in_the_region_that_is_asked_for(
    tmp_path: Path, given: str, opened: list[tuple[str, DType, bool]]
) -> None:
    body = f"""
        def run(options, x):
            model = Accelerator({given}).prepare(Net())
            return model(x)
        """
    regions = [event.regions[-1] for event in only(told(tmp_path, NET + dedent(body)), RegionEntered)]
    assert list(dict.fromkeys((region.device, region.dtype, region.enabled) for region in regions)) == opened
    assert not any(region.conditional or region.framework for region in regions)
    assert all(region.place.text.startswith("Accelerator(") for region in regions)


def test_modules_that_are_prepared_together_have_contexts_of_their_own(tmp_path: Path) -> None:
    body = """
        class Outer(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                return self.inner(x)

        def run(x):
            inner = Net()
            inner, outer = Accelerator(mixed_precision="fp16").prepare(inner, Outer(inner))
            return outer(x)
        """
    entered = [event for event in only(told(tmp_path, NET + dedent(body)), RegionEntered) if event.regions]
    assert len({event.instance for event in entered}) == 2
    assert max(len(event.regions) for event in entered) == 2


@pytest.mark.parametrize("call", ["model(x)", "accelerator.unwrap_model(model)(x)"])
def test_the_outputs_of_a_prepared_layer_are_float32(tmp_path: Path, call: str) -> None:
    body = f"""
        def run(x):
            accelerator = Accelerator(mixed_precision="fp16")
            model = accelerator.prepare(nn.Linear(2, 2))
            {call}.numpy()
        """
    (converted,) = only(told(tmp_path, NET + dedent(body)), Converted)
    assert converted.operand.dtype is DType.FLOAT32


@pytest.mark.parametrize(("kept", "regions"), [("True", 1), ("False", 0), ("kept", 0)])
def test_an_unwrapped_model_keeps_its_region_unless_it_is_taken_away(
    tmp_path: Path, kept: str, regions: int
) -> None:
    body = f"""
        def run(x, kept):
            accelerator = Accelerator(mixed_precision="fp16")
            model = accelerator.prepare(Net())
            accelerator.unwrap_model(model, keep_fp32_wrapper={kept})
            return model(x)
        """
    assert len(only(told(tmp_path, NET + dedent(body)), RegionEntered)) == regions


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ('mixed_precision="fp16"', [(True, False, 1)]),
        ('mixed_precision="bf16"', [(False, True, 1)]),
        ("mixed_precision=precision", [(True, True, 1), (False, True, 1)]),
        ("", [(False, True, 1)]),
        ('mixed_precision="fp16", fsdp_plugin=precision', [(True, False, 0)]),
        ('mixed_precision="fp16", deepspeed_plugin=precision', [(False, True, 0)]),
        ('mixed_precision="fp16", kwargs_handlers=[GradScalerKwargs(enabled=False)]', [(False, True, 1)]),
        ('mixed_precision="fp16", kwargs_handlers=[GradScalerKwargs(growth_interval=9)]', [(True, False, 1)]),
    ],
)
def test_the_step_of_a_half_model_tells_whether_the_framework_scales(
    tmp_path: Path, given: str, steps: list[tuple[bool, bool, int]]
) -> None:
    """Whether it does, whether a setting has decided that, and how many casts the parameters went through."""
    body = f"""
        def run(precision):
            model = Net().half()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            optimizer = Accelerator({given}).prepare(optimizer)
            optimizer.step()
        """
    stepped = only(told(tmp_path, NET + dedent(body)), OptimizerStepped)
    assert [(event.scales, event.chosen, len(event.casts)) for event in stepped] == steps


def test_a_step_is_told_once_where_no_parameters_were_cast(tmp_path: Path) -> None:
    body = """
        def run(precision):
            optimizer = torch.optim.SGD(Net().parameters(), lr=0.1)
            Accelerator(mixed_precision=precision).prepare(optimizer).step()
        """
    assert len(only(told(tmp_path, NET + dedent(body)), OptimizerStepped)) == 1


@pytest.mark.parametrize(
    ("given", "dtypes", "scales"),
    [
        ('args=TrainingArguments("o", fp16=True)', [DType.FLOAT16], [True]),
        ('args=TrainingArguments("o", bf16=True)', [DType.BFLOAT16], [False]),
        ('args=TrainingArguments("o")', [], [False]),
        ('args=TrainingArguments("o", False, fp16=True)', [], []),
        ('args=TrainingArguments("o", fp16=True, deepspeed=None)', [DType.FLOAT16], [True]),
        ('args=TrainingArguments("o", fp16=True, deepspeed="zero.json")', [], []),
        ('args=TrainingArguments("o", fp16=True, fsdp="full_shard")', [], []),
        ('args=TrainingArguments("o", fp16=True, half_precision_backend="apex")', [], []),
        ('args=TrainingArguments("o", fp16=True, **options)', [], []),
        ("args=options", [], []),
        ('args=TrainingArguments("o", fp16=True), optimizers=options', [DType.FLOAT16], []),
    ],
)
def test_a_trainer_trains_in_the_precision_that_it_is_told(
    tmp_path: Path, given: str, dtypes: list[DType], scales: list[bool]
) -> None:
    program = f"{NET}\ndef run(options):\n    Trainer(model=Net().half(), {given}).train()\n"
    events = told(tmp_path, program)
    assert [event.regions[-1].dtype for event in only(events, RegionEntered)] == dtypes
    assert [event.scales for event in only(events, OptimizerStepped)] == scales


def test_a_region_around_the_training_hides_what_is_meant(tmp_path: Path) -> None:
    body = """
        def run():
            trainer = Trainer(model=Net(), args=TrainingArguments("o", fp16=True))
            with torch.autocast("cuda"):
                trainer.train()
        """
    events = told(tmp_path, NET + dedent(body))
    assert len(only(events, RegionEntered)) == 1
    assert not only(events, Backward)


@pytest.mark.parametrize(
    "method", ["create_optimizer", "create_optimizer_and_scheduler", "get_optimizer_cls_and_kwargs"]
)
def test_a_trainer_that_makes_its_own_optimizer_may_train_anything(tmp_path: Path, method: str) -> None:
    body = f"""
        class Own(Trainer):
            def {method}(self, *args):
                return make(self)

        Own(model=Net().half(), args=TrainingArguments("o", fp16=True)).train()
        """
    events = told(tmp_path, NET + dedent(body))
    assert [event.regions[-1].dtype for event in only(events, RegionEntered)] == [DType.FLOAT16]
    assert not only(events, OptimizerStepped)


def test_the_accelerator_of_a_trainer_has_its_precision(tmp_path: Path) -> None:
    body = """
        def run():
            trainer = Trainer(model=Net(), args=TrainingArguments("o", fp16=True))
            trainer.train()
            with trainer.accelerator.autocast():
                pass
        """
    assert [event.regions[-1].dtype for event in only(told(tmp_path, NET + dedent(body)), RegionEntered)] == [
        DType.FLOAT16,
        DType.FLOAT16,
    ]


def test_the_scaler_of_an_accelerator_is_none_in_bfloat16(tmp_path: Path) -> None:
    events = told(
        tmp_path,
        """
        from accelerate import Accelerator

        def save(accelerator):
            for precision in ("bf16", "fp16"):
                scaler = Accelerator(mixed_precision=precision).scaler
                if scaler is not None:
                    torch.save({"scaler": scaler.state_dict()}, precision)
        """,
    )
    assert [event.act for event in events if isinstance(event, ScalerUsed)] == ["state_dict"]


@pytest.mark.parametrize(
    ("precision", "scaled", "regions"),
    [
        ('"16-mixed"', [True], 1),
        ("16", [True], 1),
        ('"bf16-mixed"', [], 1),
        ('"32-true"', [], 0),
    ],
)
def test_fabric_scales_in_mixed_float16_alone(
    tmp_path: Path, precision: str, scaled: list[bool], regions: int
) -> None:
    events = told(tmp_path, FABRIC.format(precision=precision))
    assert [event.float16 for event in events if isinstance(event, FrameworkScaled)] == scaled
    assert len(only(events, RegionEntered)) == regions


@pytest.mark.parametrize(
    ("given", "regions", "casts"),
    [
        ('precision="16-mixed"', [(DType.FLOAT16, False)], 1),
        ('precision="16-mixed", accelerator="cuda", strategy="ddp"', [(DType.FLOAT16, False)], 1),
        ('precision="16-mixed", accelerator="cpu"', [], 0),
        ('precision="16-mixed", strategy="fsdp"', [], 0),
        ('precision="16-mixed", plugins=[1]', [], 0),
        ('precision="16-true"', [], 1),
    ],
)
def test_what_fabric_sets_up_runs_in_its_region(
    tmp_path: Path, given: str, regions: list[tuple[DType, bool]], casts: int
) -> None:
    body = f"""
        from lightning.fabric import Fabric

        def run(x):
            fabric = Fabric({given})
            model = Net().half()
            model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
            fabric.backward(model(x).sum())
            optimizer.step()
        """
    events = told(tmp_path, NET + dedent(body))
    opened = [event.regions[-1] for event in only(events, RegionEntered)]
    assert [(region.dtype, region.framework) for region in opened] == regions
    (stepped,) = {(event.place, event.casts) for event in only(events, OptimizerStepped)}
    assert len(stepped[1]) == casts


def test_objects_are_known_by_what_is_called_on_them(tmp_path: Path) -> None:
    events = told(
        tmp_path,
        """
        def train(first, second, batch):
            with first.autocast():
                first.backward(batch)
            second.backward(second(batch))
            second.step()
        """,
    )
    assert [event.unclear for event in events if isinstance(event, Backward)] == [True, True]
    assert [event.framework for event in events if isinstance(event, OptimizerStepped)] == [True]
    assert len(only(events, RegionEntered)) == 1


@pytest.mark.parametrize(
    "step",
    [
        "second.advance()",
        "second(optimizer)",
    ],
)
def test_code_out_of_sight_may_apply_what_accelerate_has_unscaled(tmp_path: Path, step: str) -> None:
    events = told(
        tmp_path,
        f"""
        from accelerate import Accelerator

        def train(first, second, optimizer):
            accelerator = Accelerator()
            accelerator.clip_grad_norm_(first, 1.0)
            {step}
            accelerator.clip_grad_norm_(first, 1.0)
        """,
    )
    kinds = [type(event) for event in events if isinstance(event, (AmpHidden, FrameworkUnscaled))]
    assert kinds == [FrameworkUnscaled, AmpHidden, FrameworkUnscaled]


def test_nothing_is_known_of_the_types_of_a_model_that_apex_has_initialised(tmp_path: Path) -> None:
    events = told(
        tmp_path,
        """
        from apex import amp

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(8, 1)

            def forward(self, x):
                return self.layer(x)

        def train(loader):
            model = Net()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
            for x in loader:
                with amp.scale_loss(model(x.half()).mean(), optimizer) as scaled:
                    scaled.backward()
                optimizer.step()
            torch.save({"optimizer": optimizer.state_dict(), "amp": amp.state_dict()}, "last.pt")
        """,
    )
    assert all(event.unclear for event in events if isinstance(event, Backward))
    assert all(event.framework for event in events if isinstance(event, OptimizerStepped))
    assert all(event.scalers for event in events if isinstance(event, StateSaved))
    assert (
        [event.weights for event in events if isinstance(event, Op)] == [None] * len(only(events, Op)) != []
    )


def test_an_optimizer_wrapper_that_scales_writes_its_scaler(tmp_path: Path) -> None:
    events = told(
        tmp_path,
        """
        from mmengine.optim import AmpOptimWrapper, OptimWrapper

        def save(model):
            for kind in (AmpOptimWrapper, OptimWrapper):
                wrapper = kind(optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
                with wrapper.optim_context(model):
                    pass
                torch.save(wrapper.state_dict(), "last.pt")
        """,
    )
    assert [len(event.scalers) for event in events if isinstance(event, StateSaved)] == [1, 0]
    assert len(only(events, RegionEntered)) == 1


def test_schedulers_of_transformers_count_steps(tmp_path: Path) -> None:
    events = told(
        tmp_path,
        """
        from transformers import AdamW, get_linear_schedule_with_warmup, get_scheduler

        def train(model):
            optimizer = AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            get_linear_schedule_with_warmup(optimizer, 1, 2).step()
            get_scheduler("linear", optimizer).step()
        """,
    )
    steps = [event for event in events if isinstance(event, SchedulerStepped)]
    assert len(steps) == 2
    assert None not in {event.optimizer for event in steps}


def test_the_step_of_a_trainer_of_transformers_computes_the_loss_of_its_class(tmp_path: Path) -> None:
    events = told(
        tmp_path,
        """
        from transformers import Trainer

        class Own(Trainer):
            def compute_loss(self, model, inputs):
                with torch.autocast("cuda"):
                    return model(**inputs).loss

            def training_step(self, model, inputs):
                with self.compute_loss_context_manager():
                    return super().training_step(model, inputs)

        scaler = torch.amp.GradScaler("cuda")
        Own().training_step(nn.Linear(8, 1), {})
        """,
    )
    kinds = [type(event) for event in events if isinstance(event, (RegionEntered, Backward))]
    assert kinds[:2] == [RegionEntered, Backward]


def test_ultralytics_takes_a_type_for_a_flag(tmp_path: Path) -> None:
    events = told(
        tmp_path,
        """
        from ultralytics.utils.torch_utils import autocast

        def train(amp):
            with autocast(torch.bfloat16):
                pass
            with autocast(amp):
                pass
        """,
    )
    regions = [event.regions[-1] for event in events if isinstance(event, RegionEntered)]
    assert [(region.dtype, region.conditional) for region in regions] == [
        (DType.BFLOAT16, False),
        (DType.HALF, True),
    ]


def test_a_booster_scales_if_it_is_told_so(tmp_path: Path) -> None:
    events = told(
        tmp_path,
        """
        from colossalai.booster import Booster

        def train(loss, optimizer, plugin):
            Booster(mixed_precision="fp16").backward(loss, optimizer)
            Booster().backward(loss=loss, optimizer=optimizer)
            Booster(plugin=plugin).backward(loss, optimizer)
        """,
    )
    assert [event.float16 for event in events if isinstance(event, FrameworkScaled)] == [True, False]
