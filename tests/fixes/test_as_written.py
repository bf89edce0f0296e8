"""Fixes write as the file does: its quotes, its names for torch.amp, its imports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from amplint.check import Stdin
from amplint.config import Settings
from amplint.fixing import fix
from amplint.scope import text_alone

HERE = Settings(root=Path.cwd(), select=("deprecated-amp-api",), torch=((2, 4), None), torch_from="the tests")


def fixed(text: str, line_length: int = 88, rule: str = "AMP501") -> str:
    view = text_alone(Path("program.py"), replace(HERE, line_length=line_length, select=(rule,)))
    fixing = fix([view], unsafe=True, stdin=Stdin(Path("program.py"), text.encode()))
    assert (fixing.unmade, fixing.skipped) == ((), {})
    assert fixing.source is not None
    return fixing.source.decode()


IMPORTS = {
    "behind a backslash, all": (
        "from torch import amp\nfrom torch.cuda.amp import autocast, \\\n    GradScaler\n\nautocast()\n",
        'from torch import amp\n\namp.autocast("cuda")\n',
    ),
    "behind a backslash, the last": (
        "from torch import amp\nfrom torch.cuda.amp import custom_fwd, \\\n    GradScaler\n",
        "from torch import amp\nfrom torch.cuda.amp import custom_fwd\n",
    ),
    "a trailing comma, the first": (
        "from torch import amp\nfrom torch.cuda.amp import (GradScaler, custom_fwd,)\n",
        "from torch import amp\nfrom torch.cuda.amp import (custom_fwd,)\n",
    ),
    "a trailing comma, the last": (
        "from torch import amp\nfrom torch.cuda.amp import (custom_fwd, GradScaler,)\n",
        "from torch import amp\nfrom torch.cuda.amp import (custom_fwd,)\n",
    ),
    "a line each, the last": (
        "from torch import amp\nfrom torch.cuda.amp import (\n    custom_fwd,  # kept\n    GradScaler,\n)\n",
        "from torch import amp\nfrom torch.cuda.amp import (\n    custom_fwd,  # kept\n)\n",
    ),
    "a line each, without a comma at the end": (
        "from torch import amp\nfrom torch.cuda.amp import (\n    custom_fwd,\n    GradScaler\n)\n",
        "from torch import amp\nfrom torch.cuda.amp import (\n    custom_fwd\n)\n",
    ),
    "a comment with no place": (
        "from torch import amp\nfrom torch.cuda.amp import (\n    custom_fwd,  # kept\n    GradScaler\n)\n",
        "from torch import amp\nfrom torch.cuda.amp import (\n    custom_fwd,  # kept\n    GradScaler\n)\n",
    ),
    "the first line of the file": (
        "from torch.cuda.amp import GradScaler\n\nfrom torch import amp\n",
        "from torch import amp\n",
    ),
    "below a comment at the top": (
        "# mine\nfrom torch.cuda.amp import GradScaler\n\nfrom torch import amp\n",
        "# mine\n\nfrom torch import amp\n",
    ),
    "a string that looks like the name": (
        "from torch import amp\nfrom torch.cuda.amp import GradScaler\nwords = ['GradScaler']\n",
        "from torch import amp\nwords = ['GradScaler']\n",
    ),
    "a type in quotes": (
        'from torch import amp\nfrom torch.cuda.amp import GradScaler\ndef f(x: "GradScaler"): pass\n',
        'from torch import amp\nfrom torch.cuda.amp import GradScaler\ndef f(x: "GradScaler"): pass\n',
    ),
    "what the file gives to others": (
        "from torch import amp\nfrom torch.cuda.amp import GradScaler\n__all__ = ['GradScaler']\n",
        "from torch import amp\nfrom torch.cuda.amp import GradScaler\n__all__ = ['GradScaler']\n",
    ),
    "names looked up by strings": (
        "from torch import amp\nfrom torch.cuda.amp import GradScaler\nmade = globals()['GradScaler']\n",
        "from torch import amp\nfrom torch.cuda.amp import GradScaler\nmade = globals()['GradScaler']\n",
    ),
    "beside a star import": (
        "from torch import amp\nfrom torch.nn import *\nfrom torch.cuda.amp import GradScaler\n",
        "from torch import amp\nfrom torch.nn import *\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), IMPORTS.values(), ids=IMPORTS.keys())
def test_an_import_goes_with_its_last_use_and_nothing_else_does(before: str, after: str) -> None:
    quote = "'" if "['" in before else '"'
    use = "scaler = {}\n"
    assert fixed(before + use.format("GradScaler()")) == after + use.format(
        f"amp.GradScaler({quote}cuda{quote})"
    )


def test_an_import_in_a_function_goes_too() -> None:
    text = "from torch import amp\n\n\ndef f():\n    from torch.cuda.amp import GradScaler\n\n    return GradScaler()\n"
    assert fixed(text) == 'from torch import amp\n\n\ndef f():\n    return amp.GradScaler("cuda")\n'


def test_an_import_goes_when_the_last_of_several_uses_goes() -> None:
    """The first ones are decorators, which do not stand on the lines of the function."""
    text = "from torch import amp\nfrom torch.cuda.amp import autocast\n"
    uses = "@{}\ndef f(x):\n    return x\n\n@{}\ndef g(x):\n    with {}:\n        return x.eval('autocast')\n"
    new = "amp.autocast('cuda', enabled=False)"
    before = text + uses.format(*["autocast(False)"] * 3)
    assert fixed(before) == "from torch import amp\n" + uses.format(*[new] * 3)


NAMES = {
    "import torch\nfrom torch import amp": "amp.autocast",
    "import torch\nimport torch.amp as mixed": "mixed.autocast",
    "import torch\nfrom torch.amp import autocast as half": "half",
}


@pytest.mark.parametrize(("imports", "name"), NAMES.items(), ids=NAMES.keys())
def test_the_new_name_is_written_by_what_the_file_imports(imports: str, name: str) -> None:
    text = fixed(f"{imports}\nfrom torch.cuda.amp import autocast\nwith autocast():\n    print()\n")
    assert text == f'{imports}\nwith {name}("cuda"):\n    print()\n'


QUOTES = {
    "print('a', 'b', \"c\", {})": "'cuda'",
    "print('a', \"b\", {})": '"cuda"',
    'print(f"{{{}}}")': "'cuda'",
    "print(f'{{{}}}', 'a', 'b')": '"cuda"',
    'print(f"""{{{}}}""")': '"cuda"',
    "print('a', 'b', \"cuda\", {})": '"cuda"',
}


@pytest.mark.parametrize(("line", "device"), QUOTES.items(), ids=QUOTES.keys())
def test_strings_have_the_quotes_of_the_file_and_not_those_of_an_f_string_around(
    line: str, device: str
) -> None:
    text = fixed("import torch\nfrom torch.cuda.amp import GradScaler\n" + line.format("GradScaler()") + "\n")
    head = "import torch\nfrom torch.amp import GradScaler\n"
    assert text == head + line.format(f"GradScaler({device})") + "\n"


def test_where_f_strings_take_both_quotes_there_is_no_fix() -> None:
    line = "print(f\"{f'{GradScaler()}'}\")\n"
    text = f"import torch\nfrom torch.cuda.amp import GradScaler\n{line}"
    assert fixed(text) == text


LONG = """import torch
from torch.cuda.amp import autocast


def f(model, flag_of_the_settings, x):
    with autocast(enabled=flag_of_the_settings, cache_enabled=False):
        return model(x)
"""
AS_LONG_AS_IT_IS = (
    '    with autocast("cuda", dtype=torch.float16, enabled=flag_of_the_settings, cache_enabled=False):'
)


def with_region(text: str) -> str:
    return LONG.replace("torch.cuda.amp import", "torch.amp import").replace(LONG.splitlines()[5], text)


WIDTHS = {
    110: AS_LONG_AS_IT_IS,
    88: """    with autocast(
        "cuda", dtype=torch.float16, enabled=flag_of_the_settings, cache_enabled=False
    ):""",
    72: """    with autocast(
        "cuda",
        dtype=torch.float16,
        enabled=flag_of_the_settings,
        cache_enabled=False,
    ):""",
    60: AS_LONG_AS_IT_IS,  # the line was too long before
}


@pytest.mark.parametrize(("length", "region"), WIDTHS.items())
def test_a_line_that_becomes_too_long_is_broken(length: int, region: str) -> None:
    assert fixed(LONG, length) == with_region(region)


BUFFER = """import torch


def f(weight, tokens, index_of_items):
    with torch.autocast("cuda", torch.float16):
        logits = tokens @ weight
        found = torch.zeros_like(logits)
        found.scatter_add_(dim=2, index=index_of_items, src=torch.softmax(logits, -1))
    return found
"""


def test_what_is_given_to_a_call_does_not_make_its_line_too_long() -> None:
    written = """        found.scatter_add_(
            dim=2, index=index_of_items, src=torch.softmax(logits, -1).to(found.dtype)
        )
"""
    assert written in fixed(BUFFER, rule="AMP208")


@pytest.mark.parametrize(
    "line",
    [
        "    with {}(enabled=flag_of_the_settings):  # a long remark on why this is so and not so\n",
        "    use(model,\n        {}(enabled=flag_of_the_settings, cache_enabled=False), model, x)\n",
    ],
    ids=["for a comment", "in the middle of a statement"],
)
def test_a_line_is_not_broken(line: str) -> None:
    text = f"import torch\n\n\ndef f(model, flag_of_the_settings, x):\n{line}"
    if "with" in line:
        text += "        return model(x)\n"
    before = text.format("torch.cuda.amp.autocast")
    after = before.replace("torch.cuda.amp.autocast(", 'torch.amp.autocast("cuda", dtype=torch.float16, ')
    assert fixed(before) == after


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("enabled=on", "enabled=on,"),
        ("enabled=on, cache_enabled=on", "enabled=on,\n        cache_enabled=on,"),
        ("enabled=on,\n        cache_enabled=on", "enabled=on,\n        cache_enabled=on"),
        ("enabled=on,", "enabled=on,"),
    ],
)
def test_arguments_between_brackets_get_a_line_each(given: str, written: str) -> None:
    text = "import torch\n\ndef f(on):\n    return {}(\n        {}\n    )\n"
    region = '"cuda",\n        dtype=torch.float16,\n        '
    after = text.format("torch.amp.autocast", region + written)
    assert fixed(text.format("torch.cuda.amp.autocast", given)) == after


def test_keywords_are_spaced_as_those_beside_them() -> None:
    text = (
        "import torch\nfrom torch.cuda.amp import autocast\n\ndef f(on):\n    return autocast(enabled = on)\n"
    )
    assert "dtype = torch.float16, enabled = on" in fixed(text)


def test_an_f_string_is_not_broken() -> None:
    line = f"print(f'{'x' * 60}{{GradScaler()}}')\n"
    text = f"import torch\nfrom torch.cuda.amp import GradScaler\n{line}"
    assert "\n".join(fixed(text).splitlines()[2:]) + "\n" == line.replace(
        "GradScaler()", 'GradScaler("cuda")'
    )


def test_a_narrowed_region_leaves_progress_bars_outside() -> None:
    text = """\
import torch
from tqdm import tqdm as progress

model = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
batches = [torch.randn(4, 2, device="cuda")] * 3
with torch.autocast("cuda", dtype=torch.float16):
    for epoch in range(2):
        model.train()
        bar = progress(batches)
        for x in bar:
            optimizer.zero_grad()
            loss = model(x).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        print(torch.exp(loss))
"""
    settings = replace(HERE, select=("epoch-wide-autocast", "backward-in-autocast"))
    fixing = fix(
        [text_alone(Path("program.py"), settings)],
        unsafe=True,
        stdin=Stdin(Path("program.py"), text.encode()),
    )
    assert fixing.source is not None
    after = fixing.source.decode().partition("for epoch")[2]
    assert (
        "\n    bar = progress(batches)\n    for x in bar:\n        optimizer.zero_grad()\n        with "
        in after
    )
