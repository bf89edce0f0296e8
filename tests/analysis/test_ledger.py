"""What findings say that they rest on, and the level that follows from it."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from amplint.check import CheckResult, check
from amplint.config import Settings
from amplint.findings import Assumed, Assumption, Finding, Level
from amplint.report.json import finding_from, render
from amplint.report.text import Style
from amplint.rules.ledger import weighed

GUESSES = [kind for kind in Assumed if kind.is_guess]
UNSURE = [kind for kind in Assumed if not kind.is_sure]
ADVISED = (Assumed.VALUES, Assumed.CALLER)
FLAG = Assumption(Assumed.FLAG, "if the flag of the region on line 3 is set")
TORCH = Assumption(Assumed.TORCH, "before torch 2.11")


def test_settings_and_releases_cost_nothing() -> None:
    assert weighed(Level.ERROR, ()) is Level.ERROR
    assert weighed(Level.ERROR, (FLAG, TORCH, FLAG)) is Level.ERROR
    assert {*Assumed} - {*UNSURE} == {Assumed.FLAG, Assumed.TORCH}


@pytest.mark.parametrize("kind", UNSURE)
def test_one_guess_makes_at_most_a_warning(kind: Assumed) -> None:
    guess = Assumption(kind, "if it is so")
    level = Level.ADVICE if kind in ADVISED else Level.WARNING
    assert weighed(Level.ERROR, (FLAG, guess)) is level
    assert weighed(Level.ERROR, (guess, guess)) is level
    assert weighed(Level.ADVICE, (guess,)) is Level.ADVICE


@pytest.mark.parametrize("kind", GUESSES)
def test_two_guesses_make_nothing(kind: Assumed) -> None:
    other = next(one for one in GUESSES if one is not kind)
    for first, second in ((kind, other), (kind, kind)):
        guesses = (Assumption(first, "if it is so"), Assumption(second, "if that is so, too"))
        assert weighed(Level.ERROR, guesses) is None


def test_code_that_says_who_calls_it_is_believed_beside_a_guess() -> None:
    caller = Assumption(Assumed.CALLER, "when the caller runs under autocast")
    assert weighed(Level.ERROR, (caller, Assumption(Assumed.LIKELY, "if it is so"))) is Level.ADVICE


PROGRAMS = {
    Assumed.FLAG: """
        import torch
        def train(model, args, data):
            with torch.autocast("cuda", enabled=args.amp):
                model(data).sum().backward()
        """,
    Assumed.LIKELY: """
        import torch
        import torch.nn.functional as F
        def train(model: torch.nn.Module, data, target):
            with torch.autocast("cuda", dtype=torch.float16):
                out = model(data)
            return F.cross_entropy(out, target)
        """,
    Assumed.TYPE: """
        import torch
        def train(weight, args, data):
            with torch.autocast("cuda", dtype=args.dtype):
                out = data @ weight
                return out.masked_fill(data > 0, -1e9)
        """,
    Assumed.VALUES: """
        import torch
        def train(weight, data):
            with torch.autocast("cuda"):
                out = data @ weight
                return (out * out).mean()
        """,
    Assumed.CALLER: """
        import torch
        from torch import nn
        class Head(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)
            def forward(self, x):
                x = self.linear(x)
                with torch.autocast("cuda", enabled=False):
                    return x.exp()
        """,
    Assumed.REACHES: """
        import torch
        from torch import nn
        class Classifier(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
                self.criterion = nn.BCELoss()
            def batch_loss(self, data, target):
                return self.criterion(self.head(data), target)
        def train(model, data, target):
            with torch.autocast("cuda"):
                return model.batch_loss(data, target)
        """,
    Assumed.TORCH: """
        import torch
        def train(data, weight):
            with torch.autocast("cuda:0"):
                return data @ weight
        """,
}


def linted(folder: Path, program: str) -> CheckResult:
    (folder / "main.py").write_text(dedent(program), encoding="utf-8")
    return check([str(folder)], Settings(root=folder, select=("ALL",)), jobs=1)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_finding_tells_what_it_assumes(kind: Assumed, tmp_path: Path) -> None:
    [finding] = linted(tmp_path, PROGRAMS[kind]).findings
    assert [one.kind for one in finding.assumes] == [kind]
    if not kind.is_sure:
        assert finding.level is not Level.ERROR
        assert finding.assumes[0].text in finding.message


@pytest.mark.parametrize(
    ("dtype", "why"), [("float16", "It overflows"), ("bfloat16", "Half precision has two or three digits.")]
)
def test_why_says_what_the_type_does(tmp_path: Path, dtype: str, why: str) -> None:
    """bfloat16 has the range of float32."""
    program = f"""
        import torch
        def train(weight, data):
            with torch.autocast("cuda", dtype=torch.{dtype}):
                out = data @ weight
            return out.exp()
        """
    [finding] = linted(tmp_path, program).findings
    assert finding.why.startswith(why)


def test_the_json_report_keeps_it(tmp_path: Path) -> None:
    result = linted(tmp_path, PROGRAMS[Assumed.FLAG])
    [made] = json.loads(render(result, Style()))
    assert made["assumes"] == [{"kind": "flag", "text": "if the flag of the region on line 4 is set"}]
    read: Finding = finding_from(made)
    assert read.assumes == result.findings[0].assumes
    del made["assumes"]
    assert finding_from(made).assumes == ()


def test_a_flag_counts_where_the_path_knows_it(tmp_path: Path) -> None:
    """The second region on the path of one flag rests on it as the first one does."""
    program = """
        import torch
        def train(layer: torch.nn.Linear, x, amp):
            with torch.autocast("cuda", enabled=amp, dtype=torch.float16):
                layer(x)
            if amp:
                with torch.autocast("cuda", enabled=amp, dtype=torch.float16):
                    torch.zeros(4, 8, device="cuda")[x > 0] = layer(x)[x > 0]
        train(torch.nn.Linear(8, 8).cuda(), torch.ones(4, 8, device="cuda"), make_flag())
        """
    [finding] = linted(tmp_path, program).findings
    assert finding.name == "buffer-dtype-mismatch"
    assert [one.text for one in finding.assumes] == ["if the flag of the region on line 7 is set"]
