"""What the analysis reaches: regions, casts and values that take the ways which training code takes."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from one_rule import said

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Level


def found(folder: Path, **files: str) -> set[tuple[str, int]]:
    """Names and lines of the findings in a project of these files (``a__b`` is ``a/b.py``)."""
    for name, text in files.items():
        path = folder / (
            name.replace("__init__", "INIT").replace("__", "/").replace("INIT", "__init__") + ".py"
        )
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(text))
    result = check([str(folder)], Settings(root=folder, select=("ALL",)), jobs=1)
    assert result.crashes == ()
    return {(finding.name, finding.span.line) for finding in result.findings}


def test_a_region_stored_in_an_attribute_of_any_name(tmp_path: Path) -> None:
    text = """\
        import torch
        class Trainer:
            def __init__(self):
                self.model = torch.nn.Linear(2, 2)
                self.opt = torch.optim.SGD(self.model.parameters(), lr=.1)
                self.precision = torch.autocast("cuda")
            def train(self, batches):
                with self.precision:
                    for x in batches:
                        self.opt.zero_grad()
                        self.model(x).sum().backward()
                        self.opt.step()
        """
    assert found(tmp_path, main=text) == {
        ("epoch-wide-autocast", 8),
        ("backward-in-autocast", 11),
        ("missing-grad-scaler", 11),
    }


def test_a_region_stored_in_a_name_of_the_module(tmp_path: Path) -> None:
    text = """\
        import torch
        ctx = torch.autocast("cuda", dtype=torch.bfloat16)
        def features(model, x):
            model.eval()
            with ctx:
                y = model(x)
            return y.cpu().numpy()
        """
    assert found(tmp_path, main=text) == {("bfloat16-to-numpy", 7)}


def test_a_class_that_enters_a_region_under_a_neutral_name(tmp_path: Path) -> None:
    text = """\
        import torch
        class Region:
            def __init__(self):
                self.inner = torch.autocast("cuda")
            def __enter__(self):
                return self.inner.__enter__()
            def __exit__(self, *error):
                return self.inner.__exit__(*error)
        def main(loss):
            with Region():
                loss.backward()
            loss.backward()
        """
    assert found(tmp_path, main=text) == {("backward-in-autocast", 11)}


@pytest.mark.parametrize("handed_on", ["from .misc import get_ctx", "from .misc import *"])
def test_a_context_that_a_package_hands_on(tmp_path: Path, handed_on: str) -> None:
    assert found(
        tmp_path,
        parts__misc='import torch\ndef get_ctx():\n    return torch.autocast("cuda")\n',
        parts____init__=handed_on + "\n",
        train="from parts import get_ctx\ndef train(model, x):\n    with get_ctx():\n        model(x).backward()\n",
    ) == {("backward-in-autocast", 4)}


def test_parts_of_a_chunked_tensor_keep_its_type(tmp_path: Path) -> None:
    text = """\
        import torch
        from torch import nn
        class Attention(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.qkv = nn.Linear(width, 3 * width)
            def forward(self, x):
                q, k, v = self.qkv(x).chunk(3, -1)
                with torch.autocast("cuda", enabled=False):
                    return (q @ k.transpose(-2, -1)).softmax(-1) @ v
        """
    assert found(tmp_path, main=text) == {("disabled-region-without-cast", 10)}


def test_every_decorator_of_an_entry_point_counts(tmp_path: Path) -> None:
    text = """\
        import torch
        @torch.autocast("cuda", dtype=torch.bfloat16)
        @torch.no_grad()
        def predict(model, x):
            model.eval()
            return model(x).cpu().numpy()
        """
    assert found(tmp_path, main=text) == {("bfloat16-to-numpy", 6)}


def test_code_that_asks_whether_autocast_is_on_is_believed(tmp_path: Path) -> None:
    text = """\
        import torch
        from contextlib import nullcontext
        class Layer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.out = torch.nn.Linear(2, 2)
            def forward(self, x):
                on = torch.is_autocast_enabled()
                ctx = torch.autocast("cuda", dtype=torch.bfloat16) if on else nullcontext()
                with ctx:
                    y = torch.matmul(x, x)
                return self.out(y)
        """
    assert found(tmp_path, main=text) == set()


def test_a_half_model_of_any_library(tmp_path: Path) -> None:
    text = """\
        import torch
        from diffusers import UNet2DConditionModel
        def main(name, batches):
            unet = UNet2DConditionModel.from_pretrained(name, torch_dtype=torch.float16)
            optimizer = torch.optim.AdamW(unet.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for x in batches:
                scaler.scale(unet(x).mean()).backward()
                scaler.step(optimizer)
                scaler.update()
        """
    assert found(tmp_path, main=text) == {("half-model", 4)}


def test_a_half_layer_that_is_made_half(tmp_path: Path) -> None:
    text = """\
        import torch
        layer = torch.nn.Linear(2, 2, dtype=torch.float16)
        optimizer = torch.optim.SGD(layer.parameters(), lr=.1)
        layer(torch.randn(1, 2).half()).sum().backward()
        optimizer.step()
        """
    assert found(tmp_path, main=text) == {("half-model", 2)}


def test_a_class_chosen_by_name_from_a_table(tmp_path: Path) -> None:
    text = """\
        import torch
        from torch import nn
        import torch.nn.functional as F
        class Small(nn.Module):
            def __init__(self):
                super().__init__()
                self.out = nn.Linear(4, 1)
            def forward(self, x):
                return self.out(x)
        CRITICS = {"small": Small, "none": nn.Identity}
        class Gan(nn.Module):
            def __init__(self, critic):
                super().__init__()
                self.critic = CRITICS[critic]()
            def forward(self, x):
                score = self.critic(x)
                with torch.autocast("cuda", enabled=False):
                    return F.mse_loss(score, score.new_ones(score.size()))
        """
    assert found(tmp_path, main=text) == {("disabled-region-without-cast", 18)}


@pytest.mark.parametrize(
    ("head", "region"),
    [
        ("", "torch.autocast"),
        ("from functools import partial", 'partial(torch.autocast, "cuda")'),
        ("def half(kind):\n    return torch.autocast(kind)", "half"),
        ("", "torch.autocast if flag else suppress"),
    ],
)
def test_a_region_handed_to_a_long_function_in_whose_text_is_nothing_of_it(
    tmp_path: Path, head: str, region: str
) -> None:
    lines = "".join(f"            n{number} = len(batches) + {number}\n" for number in range(20))
    text = (
        "import torch\nfrom contextlib import suppress\n"
        f"{head}\n\n"
        "def evaluate(model, batches, flag):\n"
        f"    validate(model, batches, {region})\n\n"
        "def validate(model, batches, region):\n"
        "    loss = torch.nn.CrossEntropyLoss()\n"
        "    model.eval()\n"
        "    with torch.no_grad():\n"
        "        for x, target in batches:\n"
        f"{lines}"
        '            with region("cuda"):\n'
        "                y = model(x)\n"
        "            print(loss(y, target))\n"
    )
    rules = {name for name, _ in found(tmp_path, main=text)}
    assert "missing-float" in rules


def test_a_method_that_leads_to_a_region_by_an_object_of_two_classes(tmp_path: Path) -> None:
    """Deep below the entry point, where functions are followed for their effects alone."""
    text = """\
        import torch

        class Plain:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer

            def run(self, x):
                self.optimizer.zero_grad()
                self.model(x).sum().backward()
                self.optimizer.step()

        class Mixed(Plain):
            def run(self, x):
                self.optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = self.model(x).sum()
                loss.backward()
                self.optimizer.step()

        class Trainer:
            def __init__(self, model, optimizer, amp):
                self.inner = (Mixed if amp else Plain)(model, optimizer)

            def step(self, x):
                self.inner.run(x)

            def train(self, batches):
                for x in batches:
                    self.step(x)

        def work(model, batches, amp):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            Trainer(model, optimizer, amp).train(batches)

        def launch(model, batches, amp):
            work(model, batches, amp)

        def main(model, batches, amp):
            launch(model, batches, amp)

        main(torch.nn.Linear(2, 2), input(), input())
        """
    assert ("missing-grad-scaler", 17) in found(tmp_path, main=text)


@pytest.mark.parametrize("unscaled", [False, True])
def test_an_optimizer_that_takes_the_scale_is_left_alone_by_step_alone(
    tmp_path: Path, unscaled: bool
) -> None:
    """``unscale_`` does not ask the optimizer, and raises."""
    program = Path(__file__).parents[2] / "fixtures/half-model/good_optimizer_takes_the_scale.py"
    text = program.read_text(encoding="utf-8")
    step = "        scaler.step(optimizer)\n"
    assert step in text
    if unscaled:
        text = text.replace(step, f"        scaler.unscale_(optimizer)\n{step}")
    names = {name for name, _ in found(tmp_path, main=text)}
    assert names == ({"half-model"} if unscaled else set())


def test_a_call_that_python_refuses_reaches_nothing(tmp_path: Path) -> None:
    train = (
        "def train(model, x, epochs=1):\n"
        "    with torch.autocast('cuda'):\n        loss = model(x).mean()\n        loss.backward()\n"
    )
    (tmp_path / "main.py").write_text(
        f"import torch\n\n\n{train}\n\ndef main(model, x):\n    train(model, x, rounds=2)\n"
    )
    found = [finding.name for finding in check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings]
    assert found == ["backward-in-autocast"]


@pytest.mark.parametrize("caller", ["tests__test_lib", "run"])
def test_what_only_tests_call_is_entered_by_itself(tmp_path: Path, caller: str) -> None:
    """Who uses a library is out of sight; a script in sight is its user."""
    lib = """\
        import torch
        def fit(model, loader, optimizer: torch.optim.Optimizer, amp=False):
            model.train()
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", enabled=amp):
                    loss = model(x, y)
                loss.backward()
                optimizer.step()
        """
    calls = """\
        import torch
        from lib import fit
        def test_fit():
            model = torch.nn.Bilinear(2, 2, 1)
            fit(model, [], torch.optim.SGD(model.parameters(), lr=0.1))
        test_fit()
        """
    expected = {("missing-grad-scaler", 8)} if caller.startswith("tests") else set()
    assert found(tmp_path, lib=lib, **{caller: calls}) == expected


@pytest.mark.parametrize(
    ("imports", "annotation", "level"),
    [
        ("", "torch.optim.Optimizer", Level.ERROR),
        ("from typing import Optional as Maybe", "Maybe[torch.optim.Optimizer]", Level.ERROR),
        ("import typing as t", "t.Union[torch.optim.Adam, None]", Level.ERROR),
        ("", "torch.optim.SGD | None", Level.ERROR),
        ("from wrappers import Optional", "Optional[torch.optim.Optimizer]", Level.WARNING),
        ("from wrappers import Optimizer", "Optimizer", Level.WARNING),
    ],
)
def test_an_optimizer_is_what_its_annotation_says(
    tmp_path: Path, imports: str, annotation: str, level: Level
) -> None:
    """One that may be a wrapper from elsewhere may do more than step."""
    text = f"""\
        import torch
        {imports}
        def epoch(model: torch.nn.Module, loader, optimizer: {annotation}):
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(x, y)
                loss.backward()
                optimizer.step()
        """
    (finding,) = said(tmp_path, "missing-grad-scaler", dedent(text))
    assert (finding.span.line, finding.level) == (8, level)
    with_scaler = dedent(text).replace("    for", '    scaler = torch.amp.GradScaler("cuda")\n    for', 1)
    (finding,) = said(tmp_path, "unscaled-backward", with_scaler)
    assert (finding.span.line, finding.level) == (9, level)
