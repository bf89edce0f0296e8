"""Findings say which settings of the code decide that they happen."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from amplint.check import check
from amplint.config import Settings

LOSS = """
    import torch
    from torch import nn


    def chosen(name):
        if name == "bce":
            return nn.BCELoss()
        return nn.MSELoss()


    def train(model, x, y, args, loss=None):
        {criterion}
        with torch.autocast("cuda"):
            {call}
"""


def condition(tmp_path: Path, program: str) -> str | None:
    """What the one finding in a program says of when it happens."""
    (tmp_path / "program.py").write_text(dedent(program))
    (finding,) = check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings
    found = re.search(r"It happens if (.*)\.$", finding.why)
    return found[1] if found is not None else None


@pytest.mark.parametrize(
    ("criterion", "call", "happens"),
    [
        ("criterion = nn.BCELoss()", "criterion(model(x), y)", None),
        ("criterion = chosen(args.loss)", "criterion(model(x), y)", '`args.loss == "bce"`'),
        ('criterion = chosen(args["loss"])', "criterion(model(x), y)", '`args["loss"] == "bce"`'),
        ("criterion = chosen(loss)", "criterion(model(x), y)", '`loss == "bce"`'),
        ("criterion = chosen(args.losses[x])", "criterion(model(x), y)", None),
        ("criterion = nn.BCELoss()", "criterion(model(x), y) if args.full else None", "`args.full`"),
        ("criterion = nn.BCELoss()", "criterion(model(x), y) if not args.full else None", "`not args.full`"),
        ("criterion = nn.BCELoss()", "criterion(model(x), y) if loss is None else None", "`loss is None`"),
        (
            "criterion = nn.BCELoss()",
            "criterion(model(x), y) if loss is not None else None",
            "`loss is not None`",
        ),
        ("criterion = nn.BCELoss()", "criterion(model(x), y) if args.full or loss else None", None),
        ("criterion = nn.BCELoss()", "criterion(model(x), y) if len(x) else None", None),
        (
            "criterion = nn.BCELoss()",
            "criterion(model(x), y) if x.one().full and not x.two().full and args.a else None",
            "`args.a`",
        ),
        (
            "criterion = chosen(args.loss)",
            "criterion(model(x), y) if loss is None and args.b and args.a else None",
            '`args.loss == "bce"`, `args.a` and `args.b`',
        ),
    ],
)
def test_what_decides_is_named(criterion: str, call: str, happens: str | None, tmp_path: Path) -> None:
    assert condition(tmp_path, LOSS.format(criterion=criterion, call=call)) == happens


@pytest.mark.parametrize(("other", "happens"), [("a", "`args.a`"), ("b", None)])
def test_what_decides_on_one_of_two_ways_alone_is_not_named(
    other: str, happens: str | None, tmp_path: Path
) -> None:
    program = """
        import torch
        from torch import nn


        def run(model, x, y, full):
            if full:
                nn.BCELoss()(model(x), y)


        def one(model, x, y, args):
            with torch.autocast("cuda"):
                run(model, x, y, args.a)
                run(model, y, x, args.{other})
    """
    assert condition(tmp_path, program.format(other=other)) == happens


def test_an_attribute_of_what_has_no_name_is_named_alone(tmp_path: Path) -> None:
    program = LOSS.format(criterion="criterion = chosen(load(args).loss)", call="criterion(model(x), y)")
    assert condition(
        tmp_path, program.replace("def chosen", "from settings import load\n\n\n    def chosen")
    ) == ('`loss == "bce"`')


@pytest.mark.parametrize(
    ("left_out", "happens"),
    [("args.own", "`args.own`"), ("own is not None", "`own is not None`"), ("len(loader)", None)],
)
def test_what_has_decided_before_is_named(left_out: str, happens: str | None, tmp_path: Path) -> None:
    """The step itself is under no condition, and nothing asks again."""
    program = f"""
        import torch


        def run(model, optimizer, scaler, loader, args, own=None):
            for batch in loader:
                with torch.autocast("cuda"):
                    loss = model(batch).sum()
                if not {left_out}:
                    scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()


        def train(model, optimizer, loader, args, own):
            run(model, optimizer, torch.amp.GradScaler("cuda"), loader, args, own)
    """
    assert condition(tmp_path, program) == happens


def test_what_decides_an_earlier_event_is_named_among_many_settings(tmp_path: Path) -> None:
    """Too many for paths to remember, and the step itself asks for none of them."""
    others = "".join(
        f"                if args.part{n}: scaler.scale(model(batch).sum()).backward()\n" for n in range(12)
    )
    program = f"""
        import torch


        def train(loader, args):
            model = torch.nn.Linear(4, 4).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            if args.use_half:
                model.half()
            for batch in loader:
{others}
                scaler.step(optimizer)
                scaler.update()
    """
    settings = Settings(root=tmp_path, select=("half-model",))
    (tmp_path / "program.py").write_text(dedent(program))
    (finding,) = check([str(tmp_path)], settings, jobs=1).findings
    assert finding.why.endswith("It happens if `args.use_half`.")
