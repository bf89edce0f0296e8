"""What the models of frameworks tell: each program is a few lines of a training script."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from amplint.events import (
    AmpHidden,
    Backward,
    DType,
    Event,
    FrameworkScaled,
    FrameworkUnscaled,
    Op,
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
    ("precision", "scaled", "dtype", "prepared"),
    [
        ('"fp16"', [True], DType.FLOAT16, True),
        ("precision", [False], DType.HALF, True),
        ("None", [False], DType.HALF, False),
        ('"bf16"', [], DType.BFLOAT16, False),
        ('"no"', [], None, False),
    ],
)
def test_an_accelerator_scales_in_float16_alone(
    tmp_path: Path, precision: str, scaled: list[bool], dtype: DType | None, prepared: bool
) -> None:
    events = told(tmp_path, ACCELERATED.format(precision=precision))
    assert [event.float16 for event in events if isinstance(event, FrameworkScaled)] == scaled
    assert [event.float16 for event in events if isinstance(event, FrameworkUnscaled)] == scaled
    regions = [event.regions[-1] for event in events if isinstance(event, RegionEntered)]
    assert [region.dtype for region in regions] == ([] if dtype is None else [dtype])
    assert all(event.framework for event in events if isinstance(event, OptimizerStepped))
    assert all(event.unclear for event in events if isinstance(event, Backward))
    (saved,) = (event for event in events if isinstance(event, StateSaved))
    assert bool(saved.prepared) is prepared


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
