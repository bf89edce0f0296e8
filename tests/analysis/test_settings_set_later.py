"""A setting that the constructor leaves at its default may have been set by another method since."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

PROGRAM = """
import torch
from torch import nn


class Trainer:
{fields}
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())
{made}
{methods}
    def train(self, loader):
        for x, y in loader:
            with torch.autocast("cuda", enabled=self.amp):
                loss = nn.functional.mse_loss(self.model(x), y)
            if self.amp:
                self.scaler.scale(loss).backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                loss.backward()
                self.optimizer.step()
            self.optimizer.zero_grad()
"""
MADE = """
        self.amp = False
        self.scaler = None
"""
FIELDS = """
    amp = False
    scaler = None
"""
SET = {
    "given": """
    def setup(self, amp=False):
        self.amp = amp
        self.scaler = torch.amp.GradScaler("cuda")
""",
    "switched on": """
    def use_amp(self):
        self.amp = True
        self.scaler = torch.amp.GradScaler("cuda")
""",
    "computed": """
    def setup(self, amp):
        self.amp = amp and torch.cuda.is_available()
        self.scaler = torch.amp.GradScaler("cuda")
""",
}


@pytest.mark.parametrize("methods", SET.values(), ids=SET.keys())
@pytest.mark.parametrize(("fields", "made"), [("", MADE), (FIELDS, "")], ids=["constructor", "class"])
def test_another_method_may_have_set_it(fields: str, made: str, methods: str, tmp_path: Path) -> None:
    assert said(tmp_path, "AMP305", PROGRAM.format(fields=fields, made=made, methods=methods))


def test_what_no_other_method_sets_stays_as_it_was_made(tmp_path: Path) -> None:
    methods = """
    def setup(self):
        self.scaler = torch.amp.GradScaler("cuda")
"""
    assert not said(tmp_path, "AMP305", PROGRAM.format(fields="", made=MADE, methods=methods))


def test_an_object_that_is_made_in_sight_is_as_it_was_made(tmp_path: Path) -> None:
    program = PROGRAM.format(fields="", made=MADE, methods=SET["given"])
    assert not said(
        tmp_path, "AMP305", program + "\n\ndef main(model, loader):\n    Trainer(model).train(loader)\n"
    )


REMEMBERED = """
    def unscale(self):
        if not self.unscaled:
            self.scaler.unscale_(self.optimizer)
        self.unscaled = True

    def step(self):
        self.unscale()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.unscaled = False

    def fit(self, loader):
        for x, y in loader:
            with torch.autocast("cuda"):
                loss = nn.functional.mse_loss(self.model(x), y)
            self.scaler.scale(loss).backward()
            self.step()
"""


def test_what_several_statements_set_tells_what_has_happened(tmp_path: Path) -> None:
    made = """
        self.amp = self.unscaled = False
        self.scaler = torch.amp.GradScaler("cuda")
"""
    assert not said(tmp_path, "AMP305", PROGRAM.format(fields="", made=made, methods=REMEMBERED))


CHOSEN = """
import contextlib
import torch
from torch import nn


class Trainer:
    def __init__(self, model, config):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.kind = "cuda" if config.device.startswith("cuda") else "cpu"
        self.dtype = torch.bfloat16 if config.dtype == "bf16" else torch.float16
        self.amp = bool(config.amp) and self.kind in ("cuda", "cpu")
        scales = self.amp and self.kind == "cuda" and self.dtype == torch.float16
        self.scaler = torch.amp.GradScaler("cuda", enabled=scales)

    def context(self):
        if self.amp:
            return torch.autocast(self.kind, dtype=self.dtype)
        return contextlib.nullcontext()

    def train(self, loader):
        for x, y in loader:
            with self.context():
                loss = nn.functional.mse_loss(self.model(x), y)
            if self.scaler.is_enabled():
                self.scaler.scale(loss).backward()
            else:
                loss.backward()
            if self.scaler.is_enabled():
                self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            if self.scaler.is_enabled():
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                self.optimizer.step()
            self.optimizer.zero_grad()
"""


@pytest.mark.parametrize("rule", ["AMP301", "AMP302", "AMP303", "AMP305", "AMP316"])
def test_what_the_constructor_alone_chooses_stays_chosen(rule: str, tmp_path: Path) -> None:
    assert not said(tmp_path, rule, CHOSEN)


SWITCHED = """
import torch
from torch import nn


class Predictor:
    def __init__(self, config):
        self.config = config
        self.kind = "bf16" if config.half else "fp32"
        self.model = nn.Linear(4, 1).cuda()

    def predict(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.kind == "bf16"):
            y = self.model(x)
        if self.config.half:
            y = y.float()
        return y.cpu().numpy()
"""


def test_one_setting_of_the_constructor_decides_for_both(tmp_path: Path) -> None:
    assert not said(tmp_path, "AMP207", SWITCHED)
    assert said(tmp_path, "AMP207", SWITCHED.replace("y = y.float()", "pass"))
