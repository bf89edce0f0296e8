"""Levels that depend on what is done with a value, not on how sure it is."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Level

LOSS = """
    import torch
    import torch.nn.functional as F


    {decorator}
    def run(weight, x, target):
        with torch.autocast("cuda", dtype=torch.float16):
            out = x @ weight
        return {value}
"""


def levels(folder: Path, text: str, code: str = "") -> list[Level]:
    """The levels of the findings in a program, of one rule if ``code`` is given."""
    (folder / "run.py").write_text(dedent(text))
    found = check([folder], Settings(root=folder)).findings
    return [finding.level for finding in found if finding.code.startswith(code)]


@pytest.mark.parametrize(
    ("decorator", "value", "level"),
    [
        ("", "F.cross_entropy(out, target)", Level.WARNING),
        ("@torch.no_grad()", "F.cross_entropy(out, target)", Level.ADVICE),
        # a running mean of targets, say
        ("@torch.no_grad()", "out.mean()", Level.WARNING),
        ("@torch.no_grad()", "F.linear(out, torch.randn(4, 4))", Level.ERROR),
    ],
)
def test_a_loss_without_gradients_is_a_figure_to_look_at(
    decorator: str, value: str, level: Level, tmp_path: Path
) -> None:
    assert levels(tmp_path, LOSS.format(decorator=decorator, value=value)) == [level]


ISLAND = """
    import torch
    import torch.nn.functional as F
    from losses import criterion


    def run(weight, head: torch.nn.Module, x: torch.Tensor, target):
        with torch.autocast("cuda", dtype=torch.float16):
            out = x @ weight
            {gradients}
                {inside}
            (out.sum() + loss).backward()
"""
OFF = 'with torch.autocast("cuda", enabled=False):'


@pytest.mark.parametrize(
    ("gradients", "inside", "level"),
    [
        (OFF, "loss = F.linear(x, weight).mean()", Level.ERROR),
        (OFF, "loss = head(x).mean()", Level.ERROR),
        # nothing that autocast would run in half precision
        (OFF, "loss = (x.float() ** 2).mean()", Level.WARNING),
        (OFF, "loss = criterion(out.float(), target)", Level.WARNING),
        (f"with torch.no_grad(), {OFF[5:]}", "loss = F.linear(x, weight).mean()", Level.WARNING),
        (OFF, "loss = torch.matmul(out.float(), torch.ones(4)).mean()", Level.ERROR),
        # data, or a table of positions, through which no gradients flow
        (OFF, "loss = torch.matmul(x.float(), torch.ones(4)).mean()", Level.WARNING),
        ("if True:", "loss = F.linear(x, weight).mean()", Level.WARNING),
    ],
)
def test_a_backward_pass_in_a_region_changes_products_in_float32(
    gradients: str, inside: str, level: Level, tmp_path: Path
) -> None:
    assert levels(tmp_path, ISLAND.format(gradients=gradients, inside=inside), code="AMP101") == [level]


ROUNDED = """
    import torch
    from torch import nn


    def validate(model, x):
        model.half()
        with torch.no_grad():
            model(x.half())
        model.float()


    def train(make, x):
        model = nn.Sequential(make(), nn.Linear(4, 1))
        average = nn.Sequential(make(), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(9):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            validate({which}, x)
"""


@pytest.mark.parametrize(("which", "level"), [("model", Level.WARNING), ("average", Level.ADVICE)])
def test_rounding_of_what_is_not_trained_does_little(which: str, level: Level, tmp_path: Path) -> None:
    assert levels(tmp_path, ROUNDED.format(which=which), code="AMP201") == [level]


GUARD = """
    import torch


    def run(weight, x, y):
        with torch.autocast("cuda", dtype=torch.float16):
            out = {value}
            return y / (out + 1e-8)
"""


@pytest.mark.parametrize(("value", "level"), [("x @ weight", Level.ERROR), ("x.half()", Level.ADVICE)])
def test_who_casts_by_hand_knows_the_values(value: str, level: Level, tmp_path: Path) -> None:
    assert levels(tmp_path, GUARD.format(value=value), code="AMP403") == [level]


TWO_NETWORKS = """
    import torch
    from torch import nn

    generator, critic = nn.Linear(4, 8), nn.Linear(8, 1)
    opt_g = torch.optim.SGD(generator.parameters(), lr=0.1)
    opt_d = torch.optim.SGD(critic.parameters(), lr=0.1)
    real, noise = torch.randn(4, 8), torch.randn(4, 4)

    {outside}:
        {inside}:
            fake = generator(noise)
            opt_d.zero_grad()
            (critic(fake.detach()) - critic(real)).float().mean().backward()
            opt_d.step()
            opt_g.zero_grad()
            (-critic(fake)).float().mean().backward()
            opt_g.step()
"""


@pytest.mark.parametrize(
    ("outside", "inside", "level"),
    [
        ("with torch.autocast('cpu')", "for _ in range(2)", Level.ERROR),
        ("for _ in range(2)", "with torch.autocast('cpu')", Level.WARNING),
    ],
)
def test_weights_of_one_step_before_are_no_standstill(
    outside: str, inside: str, level: Level, tmp_path: Path
) -> None:
    assert levels(tmp_path, TWO_NETWORKS.format(outside=outside, inside=inside), "AMP102") == [level]
