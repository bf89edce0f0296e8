"""What is exchanged for a deprecated name, and what is left alone: names, scopes, imports, dtypes around."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from goldens import fix_folder

from amplint.check import check
from amplint.config import Settings
from amplint.fixing import fix
from amplint.scope import alone

RULE = "deprecated-amp-api"
CALL = 'torch.amp.autocast("cuda")'
TYPED = 'torch.amp.autocast("cuda", dtype=torch.float16)'
MOVED = "from torch.amp import autocast\n"
SHORT = 'autocast("cuda")'
SHORT_TYPED = 'autocast("cuda", dtype=torch.float16)'


def fixed(folder: Path, source: str, **others: str) -> str:
    """A program after the safe fixes; ``others`` are the files beside it."""
    for name, text in others.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    (folder / "program.py").write_text(source, encoding="utf-8")
    texts, _, problems = fix_folder(folder, RULE, unsafe=False, line_length=200)
    assert problems == []
    return texts["program.py"]


def said(folder: Path, source: str, **others: str) -> str:
    """What is said of the first finding's fix in the program."""
    for name, text in others.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    (folder / "program.py").write_text(source, encoding="utf-8")
    settings = Settings(root=folder, select=(RULE,), torch=((2, 4), None), torch_from="the tests")
    found = check([str(folder)], settings, jobs=1).findings
    first = next(finding for finding in found if finding.path.endswith("program.py"))
    if first.fix is None:
        return f"none: {first.fix_note}"
    return first.fix.applicability + (f": {first.fix.note}" if first.fix.note else "")


_USE = "with autocast():\n    print(torch)\n"
_IN_FUNCTION = "    with autocast():\n        print(torch)\n"


@pytest.mark.parametrize(
    "source",
    [
        f"import torch\nfrom torch.cuda.amp import autocast\ndel torch\n{_USE}",
        f"import torch\nfrom torch.cuda.amp import autocast\ntorch = None\n{_USE}",
        f"import torch\nfrom torch.cuda.amp import autocast\ndef f(torch):\n{_IN_FUNCTION}",
        f"import torch\nfrom torch.cuda.amp import autocast\ndef f(*torch):\n{_IN_FUNCTION}",
        f"from torch.cuda.amp import autocast\nimport torch\ndef g():\n    global torch\n    torch = 1\n{_USE}",
        "import torch\nfrom torch.cuda.amp import autocast\ndef f():\n    for torch in ():\n        autocast()\n",
        "from torch.cuda.amp import autocast\nimport torch\ndef f():\n    def g():\n        global torch\n"
        f"        torch = 1\n    g()\n{_USE}",
        f"import torch\nfrom torch.cuda.amp import autocast\ntry:\n    f()\nexcept OSError as torch:\n    pass\n{_USE}",
        "import torch\nfrom torch.cuda.amp import autocast\nclass A:\n    torch = 1\n    c = autocast()\n",
        "import torch\nfrom torch.cuda.amp import autocast\ndef f():\n    [torch := x for x in ()]\n    autocast()\n",
        "import torch.cuda.amp as torch\nautocast = 1\nwith torch.autocast():\n    pass\n",
    ]
    + [
        f"import torch\nfrom torch.cuda.amp import autocast\ndef f(x):\n    match x:\n        case {pattern}:\n"
        "            with autocast():\n                print(torch)\n"
        for pattern in (
            "torch",
            "[1, *torch]",
            "{'a': 1, **torch}",
            "int() as torch",
            "[int() | str(), torch]",
        )
    ],
)
def test_nothing_is_changed_where_torch_is_something_else(tmp_path: Path, source: str) -> None:
    shared = "from program import autocast\n"
    assert fixed(tmp_path, source, other=shared) == source
    assert said(tmp_path, source, other=shared).startswith("none: `torch` is ")


@pytest.mark.parametrize(
    ("source", "after"),
    [
        (
            "import torch\nfrom torch.cuda.amp import autocast\ndef f(xs):\n    with autocast():\n"
            "        return [torch for torch in [torch.ones(1)]]\nf(1)\n",
            f"import torch\n{MOVED}def f(xs):\n    with {SHORT}:\n"
            "        return [torch for torch in [torch.ones(1)]]\nf(1)\n",
        ),
        (
            "import torch\nfrom torch.cuda.amp import autocast\nclass A:\n    torch = 3\n    def f(self):\n"
            "        with autocast():\n            pass\n",
            f"import torch\n{MOVED}class A:\n    torch = 3\n    def f(self):\n        with {SHORT_TYPED}:\n"
            "            pass\n",
        ),
        (
            "import torch as th\nfrom torch.cuda.amp import autocast\ntorch = None\ndef f():\n    autocast()\n",
            f'import torch as th\n{MOVED}torch = None\ndef f():\n    autocast("cuda", dtype=th.float16)\n',
        ),
        (
            "from torch.cuda.amp import autocast\ndef f(autocast):\n    with autocast():\n        pass\n"
            "with autocast():\n    pass\n",
            f"{MOVED}def f(autocast):\n    with autocast():\n        pass\nwith {SHORT}:\n    pass\n",
        ),
    ],
    ids=["comprehension", "class", "under another name", "a parameter has the old name"],
)
def test_names_belong_to_their_scopes(tmp_path: Path, source: str, after: str) -> None:
    assert fixed(tmp_path, source) == after


@pytest.mark.parametrize(
    ("source", "after"),
    [
        (
            "from torch.cuda.amp import autocast\ndef f():\n    with autocast():\n        pass\nimport torch\n",
            f"import torch\n{MOVED}def f():\n    with {SHORT_TYPED}:\n        pass\nimport torch\n",
        ),
        (
            "def f():\n    with autocast():\n        pass\nfrom torch.cuda.amp import autocast\nf()\n",
            f"def f():\n    with {SHORT_TYPED}:\n        pass\nimport torch\n{MOVED}f()\n",
        ),
        (
            '"""Doc."""; from torch.cuda.amp import autocast\nwith autocast():\n    pass\n',
            f'"""Doc."""; {MOVED}import torch\nwith {SHORT_TYPED}:\n    pass\n',
        ),
        (
            "from __future__ import annotations; from torch.cuda.amp import autocast\nwith autocast():\n    pass\n",
            f"from __future__ import annotations; {MOVED}import torch\nwith {SHORT_TYPED}:\n    pass\n",
        ),
        (
            '"""Doc."""; from __future__ import annotations; import os\nfrom torch.cuda.amp import autocast\n'
            "with autocast():\n    pass\n",
            '"""Doc."""; from __future__ import annotations; import os\n'
            f"import torch\n{MOVED}with {SHORT_TYPED}:\n    pass\n",
        ),
        (
            "import os; from torch.cuda.amp import autocast; import sys\nwith autocast():\n    pass\n",
            f"import torch\nimport os; {MOVED[:-1]}; import sys\nwith {SHORT_TYPED}:\n    pass\n",
        ),
        (
            "def f():\n    from torch.cuda.amp import autocast\n    with autocast():\n        pass\nf()\n",
            f"def f():\n    import torch\n    {MOVED}    with {SHORT_TYPED}:\n        pass\nf()\n",
        ),
        (
            "import torch\ndef f():\n    from torch.cuda.amp import autocast\n    with autocast():\n        pass\n"
            "def g():\n    from torch.cuda.amp import autocast\n    autocast()\n    autocast()\nf()\ng()\n",
            f"import torch\ndef f():\n    {MOVED}    with {SHORT_TYPED}:\n        pass\n"
            f"def g():\n    {MOVED}    {SHORT_TYPED}\n    {SHORT_TYPED}\nf()\ng()\n",
        ),
    ],
    ids=[
        "torch is imported below",
        "both are imported below",
        "docstring",
        "future",
        "docstring and future",
        "semicolons",
        "in a function",
        "in several functions",
    ],
)
def test_torch_is_imported_before_it_is_used(tmp_path: Path, source: str, after: str) -> None:
    assert fixed(tmp_path, source, other="import program\n") == after


@pytest.mark.parametrize("above", ["", "import torch\n"])
def test_a_name_that_is_used_on_the_line_of_its_import_stays(tmp_path: Path, above: str) -> None:
    source = f"{above}from torch.cuda.amp import autocast; region = autocast()\n"
    assert fixed(tmp_path, source) == source


def test_a_name_in_an_f_string_gets_the_quotes_that_are_left(tmp_path: Path) -> None:
    source = 'import torch\nprint(f"{torch.cuda.amp.autocast()}")\n'
    assert fixed(tmp_path, source) == "import torch\nprint(f\"{torch.amp.autocast('cuda')}\")\n"


def test_an_argument_that_needs_brackets_gets_them(tmp_path: Path) -> None:
    source = "import torch\nwith torch.cuda.amp.autocast(flag := True):\n    pass\n"
    assert "enabled=(flag := True)" in fixed(tmp_path, source)


_BASE = (
    "import torch\nfrom torch.cuda.amp import autocast\n\n\ndef f():\n    with autocast():\n        pass\n"
)
_CHANGED = _BASE.replace("from torch.cuda.amp import autocast\n", MOVED).replace("autocast()", SHORT_TYPED)


@pytest.mark.parametrize(
    "other",
    [
        "import program\n\nprogram.autocast()\n",
        "import program as p\n\np.autocast()\n",
        "from package import program\n\nprogram.autocast()\n",
        "from package.program import autocast\n",
        "from program import *\n\nautocast()\n",
        'import program\n\ngetattr(program, "autocast")()\n',
        'import importlib\n\nimportlib.import_module("program").autocast()\n',
        'import importlib\n\nm = importlib.import_module("package.program")\nm.autocast()\n',
    ],
)
def test_an_import_that_others_use_stays(tmp_path: Path, other: str) -> None:
    assert fixed(tmp_path, _BASE, other=other) == _BASE.replace("autocast():", f"{TYPED}:")


@pytest.mark.parametrize(
    "other",
    [
        "import program\n\nprogram.f()\n",
        "import program\nimport torch\n\nprogram.f()\ntorch.cuda.amp.autocast(*[])\n",
        "import program\nfrom torch.cuda.amp import autocast\n\nwith autocast(*[]):\n    program.f()\n",
        "import program\n\n# program.autocast\n",
        "from program import *\n\nf()\n",
    ],
)
def test_an_import_that_nobody_uses_is_of_the_new_name(tmp_path: Path, other: str) -> None:
    assert fixed(tmp_path, _BASE, other=other) == _CHANGED


@pytest.mark.parametrize(("user", "stays"), [("other.autocast()", True), ("other.f()", False)])
def test_an_import_that_others_use_by_way_of_a_star(tmp_path: Path, user: str, stays: bool) -> None:
    (tmp_path / "user.py").write_text(f"import other\n\n{user}\n", encoding="utf-8")
    after = _BASE.replace("autocast():", f"{TYPED}:") if stays else _CHANGED
    assert fixed(tmp_path, _BASE, other="from program import *\n") == after


@pytest.mark.parametrize(
    "other",
    [
        'from unittest import mock\n\nwith mock.patch("program.autocast"):\n    pass\n',
        'from unittest.mock import patch\nimport program\n\npatch.object(program, "autocast")\n',
        'import program\n\n\ndef test(monkeypatch):\n    monkeypatch.setattr(program, "autocast", print)\n',
        "import program\n\nprogram.autocast = print\n",
        "import torch\n\ntorch.cuda.amp.autocast = print\n",
        'from unittest import mock\n\nmock.patch("torch.cuda.amp.autocast")\n',
    ],
)
def test_a_name_that_others_replace_is_not_changed_unseen(tmp_path: Path, other: str) -> None:
    assert said(tmp_path, _BASE, other=other) == (
        "unsafe: some file puts something else in the place of `autocast`"
    )


def test_a_class_that_another_file_asks_for_is_not_changed_unseen(tmp_path: Path) -> None:
    source = "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"
    other = (
        "from torch.cuda.amp import GradScaler\n\n\ndef f(s):\n    return isinstance(s, (int, GradScaler))\n"
    )
    assert said(tmp_path, source, other=other).startswith("unsafe: another file asks for the old class")
    other = other.replace("torch.cuda.amp", "torch.amp")
    assert said(tmp_path, source, other=other) == "safe"


@pytest.mark.parametrize(
    "kept",
    ['__all__ = ["autocast"]\n', 'globals()["autocast"]\n', 'exec("""\nwith autocast():\n    pass\n""")\n'],
)
def test_an_import_that_a_string_names_stays(tmp_path: Path, kept: str) -> None:
    source = f"import torch\nfrom torch.cuda.amp import autocast\n{kept}with autocast():\n    pass\n"
    assert "from torch.cuda.amp import autocast" in fixed(tmp_path, source)


def test_a_docstring_keeps_an_import_if_it_is_a_test(tmp_path: Path) -> None:
    source = '"""{}"""\nimport torch\nfrom torch.cuda.amp import autocast\nwith autocast():\n    pass\n'
    assert "cuda.amp import" not in fixed(tmp_path, source.format("Uses autocast."))
    assert "cuda.amp import" in fixed(tmp_path, source.format(">>> with autocast(): pass"))


_BFLOAT16 = 'torch.autocast("cuda", dtype=torch.bfloat16)'
_FUNCTION = "import torch\n\n\ndef f():\n    with torch.cuda.amp.autocast():\n        pass\n\n\n"


@pytest.mark.parametrize(
    "source",
    [
        f"{_FUNCTION}f()\n",
        f'{_FUNCTION}if __name__ == "__main__":\n    f()\n',
        f"{_FUNCTION}def main():\n    for _ in range(2):\n        with torch.no_grad():\n            f()\n\n\nmain()\n",
        f"{_FUNCTION}def again(n):\n    f()\n    if n:\n        again(n - 1)\n\n\nagain(3)\n",
        "import torch\n\nregion = torch.cuda.amp.autocast()\n",
        f"import torch\n\nwith torch.cuda.amp.autocast(), {_BFLOAT16}:\n    pass\n",
    ],
)
def test_a_program_that_has_no_region_around_needs_no_dtype(tmp_path: Path, source: str) -> None:
    assert CALL in fixed(tmp_path, source)


@pytest.mark.parametrize(
    "source",
    [
        _FUNCTION,
        f'{_FUNCTION}print("loaded")\n',
        f"{_FUNCTION}with {_BFLOAT16}:\n    f()\n",
        f"{_FUNCTION}region = {_BFLOAT16}\nwith region:\n    f()\n",
        f"{_FUNCTION}@{_BFLOAT16}\ndef main():\n    f()\n\n\nmain()\n",
        f"{_FUNCTION}with {_BFLOAT16}:\n    list(map(lambda _: f(), [1]))\n",
        f"{_FUNCTION}import threading\nthreading.Thread(target=f)\n",
        f"{_FUNCTION}f()\ntorch.set_autocast_gpu_dtype(torch.bfloat16)\n",
        f"{_FUNCTION}{_BFLOAT16}.__enter__()\nf()\n",
        f"import torch\n\nwith {_BFLOAT16}, torch.cuda.amp.autocast():\n    pass\n",
        f"import torch\n\nmake = lambda: torch.cuda.amp.autocast()\nwith {_BFLOAT16}, make():\n    pass\n",
        "import torch\n\n\ndef f():\n    with torch.cuda.amp.autocast():\n        yield\n\n\nlist(f())\n",
        "import torch\n\n\nasync def f():\n    with torch.cuda.amp.autocast():\n        pass\n\n\nf()\n",
        "import torch\n\n\nclass A:\n    def f(self):\n        with torch.cuda.amp.autocast():\n            x = 1\n",
        "import torch\n\n\nclass A:\n    def f(self=0):\n        return torch.cuda.amp.autocast()\n\n    f()\n",
    ],
)
def test_the_dtype_is_written_where_a_region_may_be_around(tmp_path: Path, source: str) -> None:
    assert TYPED in fixed(tmp_path, source)


@pytest.mark.parametrize(
    "other",
    [
        "import torch\nimport program\n\nprogram.f()\n",
        "import torch\n\ntorch.set_autocast_dtype('cuda', torch.bfloat16)\n",
    ],
)
def test_other_files_may_change_the_dtype(tmp_path: Path, other: str) -> None:
    source = f'{_FUNCTION}if __name__ == "__main__":\n    f()\n'
    assert TYPED in fixed(tmp_path, source, other=other)


def test_what_runs_when_a_file_is_imported_may_run_in_a_region(tmp_path: Path) -> None:
    source = "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n"
    assert CALL in fixed(tmp_path, source)
    assert TYPED in fixed(tmp_path, source, other="import program\n")


def test_hidden_arguments_are_a_doubt_where_the_dtype_counts(tmp_path: Path) -> None:
    source = "import torch\n\n\ndef f(**options):\n    return torch.cuda.amp.autocast(**options)\n"
    assert said(tmp_path, source).startswith("unsafe: `**` hides whether the dtype is given")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "autocast() if x else nullcontext()",
            'torch.amp.autocast("cuda") if x else nullcontext()',
        ),
        (
            "GradScaler() if x else torch.cuda.amp.GradScaler(enabled=False)",
            'torch.amp.GradScaler("cuda") if x else torch.amp.GradScaler("cuda", enabled=False)',
        ),
        (
            "autocast(True) if x else autocast(False) if y else nullcontext()",
            'torch.amp.autocast("cuda", enabled=True) if x else torch.amp.autocast("cuda", enabled=False) if y '
            "else nullcontext()",
        ),
    ],
)
def test_both_arms_of_a_conditional_expression_change(tmp_path: Path, before: str, after: str) -> None:
    head = "from contextlib import nullcontext\n\nimport torch\n"
    source = f"{head}from torch.cuda.amp import GradScaler, autocast\n\nx = y = True\nmade = {before}\n"
    long = fixed(tmp_path, source, other="from program import GradScaler, autocast\n")
    typed = re.sub(r'autocast\("cuda"(?!, enabled=False)', 'autocast("cuda", dtype=torch.float16', after)
    assert long == source.replace(before, typed)
    (tmp_path / "other.py").unlink()
    short = after.replace("torch.amp.", "")
    assert fixed(tmp_path, source) == source.replace("torch.cuda.amp import", "torch.amp import").replace(
        before, short
    )


@pytest.mark.parametrize(
    ("source", "after"),
    [
        (
            "from torch.cuda.amp import GradScaler as S\ndef f(s: S):\n    return isinstance(s, (S, int))\nS()\n",
            "from torch.amp import GradScaler as S\ndef f(s: S):\n    return isinstance(s, (S, int))\n"
            'S("cuda")\n',
        ),
        (
            "from torch.cuda.amp.grad_scaler import (\n    GradScaler,  # scales\n)\nGradScaler(2.0)\n",
            'from torch.amp import (\n    GradScaler,  # scales\n)\nGradScaler("cuda", 2.0)\n',
        ),
        (
            "from torch.cuda import amp\nscaler = amp.GradScaler()\nwith amp.autocast():\n    pass\n",
            'from torch import amp\nscaler = amp.GradScaler("cuda")\nwith amp.autocast("cuda"):\n    pass\n',
        ),
        (
            "import torch.cuda.amp as amp\nwith amp.autocast():\n    pass\n",
            'import torch.amp as amp\nwith amp.autocast("cuda"):\n    pass\n',
        ),
        (
            "from torch.cuda.amp import autocast, GradScaler\nkinds = [GradScaler]\nwith autocast():\n    pass\n",
            f"{MOVED}from torch.cuda.amp import GradScaler\nkinds = [GradScaler]\nwith {SHORT}:\n    pass\n",
        ),
        (
            "from torch.cuda.amp import autocast, common\nprint(common)\nwith autocast():\n    pass\n",
            f"{MOVED}from torch.cuda.amp import common\nprint(common)\nwith {SHORT}:\n    pass\n",
        ),
        (
            "from torch.cuda.amp import custom_bwd, custom_fwd\nclass F:\n    @custom_fwd\n    def f(c):\n"
            "        pass\n    @custom_bwd\n    def b(c):\n        pass\n",
            "from torch.amp import custom_bwd, custom_fwd\nclass F:\n"
            '    @custom_fwd(device_type="cuda")\n    def f(c):\n        pass\n'
            '    @custom_bwd(device_type="cuda")\n    def b(c):\n        pass\n',
        ),
        (
            "from torch import amp\nfrom torch.cuda.amp import autocast\nprint(amp)\nwith autocast():\n    pass\n",
            'from torch import amp\nprint(amp)\nwith amp.autocast("cuda"):\n    pass\n',
        ),
        (
            "from torch.cuda.amp import autocast\nwith autocast(enabled=bool(autocast())):\n    pass\n",
            f'import torch\n{MOVED}with torch.amp.autocast("cuda", enabled=bool({SHORT})):\n    pass\n',
        ),
        (
            "from torch import nn, no_grad\nfrom torch.cuda import amp\nwith amp.autocast():\n    pass\n",
            'from torch import amp, nn, no_grad\nwith amp.autocast("cuda"):\n    pass\n',
        ),
        (
            "from torch.amp import autocast\n\nfrom torch.cuda.amp import GradScaler, common\nGradScaler(common)\n",
            "from torch.amp import GradScaler, autocast\n\nfrom torch.cuda.amp import common\n"
            'GradScaler("cuda", common)\n',
        ),
        (
            "from torch.cuda.amp import autocast as cuda_autocast\nwith cuda_autocast():\n    pass\n",
            'import torch\nwith torch.amp.autocast("cuda"):\n    pass\n',
        ),
    ],
    ids=[
        "types",
        "comment",
        "module",
        "module under a name",
        "handed on",
        "another name",
        "decorators",
        "new module is there",
        "one in the other",
        "from torch already",
        "from torch.amp already",
        "a name that says the device",
    ],
)
def test_names_are_imported_from_torch_amp(tmp_path: Path, source: str, after: str) -> None:
    assert fixed(tmp_path, source) == after


def test_an_import_of_a_global_name_stays_for_uses_elsewhere(tmp_path: Path) -> None:
    source = (
        "import torch\n\n\ndef load():\n    global autocast\n    from torch.cuda.amp import autocast\n\n\n"
        "def f():\n    with autocast():\n        print(torch)\n\n\ndef g():\n    return [autocast]\n"
    )
    assert fixed(tmp_path, source) == source


def test_a_class_that_is_asked_for_by_its_long_name_is_not_changed_unseen(tmp_path: Path) -> None:
    source = (
        "import torch\nfrom torch.cuda.amp import GradScaler\n\ns = GradScaler()\n"
        "print(isinstance(s, torch.cuda.amp.GradScaler))\n"
    )
    assert said(tmp_path, source).startswith("unsafe: the file asks for the old class")


@pytest.mark.parametrize(
    "test",
    [
        "not torch.distributed.is_available()",
        "torch.distributed.get_rank() != 0",
        "torch.cuda.device_count() > 1",
        "torch.backends.mps.is_available()",
    ],
)
def test_what_torch_answers_at_run_time_is_no_question_about_its_release(tmp_path: Path, test: str) -> None:
    source = f"import torch\n\n\ndef f():\n    if {test}:\n        return None\n    return torch.cuda.amp.autocast()\n"
    assert fixed(tmp_path, source) == source.replace("torch.cuda.amp.autocast()", TYPED)


_IN_A_BLOCK = (
    "import torch\n\n\ndef f(scaler=None):\n    {}:\n        from torch.cuda.amp import GradScaler\n\n"
    "        scaler = GradScaler()\n    {}return scaler\n"
)


def test_an_import_under_a_condition_is_there_for_what_stands_beside_it(tmp_path: Path) -> None:
    source = _IN_A_BLOCK.format("if scaler is None", "")
    after = source.replace("torch.cuda.amp import", "torch.amp import").replace(
        "GradScaler()", 'GradScaler("cuda")'
    )
    assert fixed(tmp_path, source) == after
    beside = source.replace("return scaler", "return GradScaler()")
    assert fixed(tmp_path, beside) == beside.replace(" = GradScaler()", ' = torch.amp.GradScaler("cuda")')
    ladder = _IN_A_BLOCK.format("try", "except ImportError:\n        pass\n    ")
    assert said(tmp_path, ladder) == "none: `GradScaler` is imported under a condition"


_SIX = "the project imports `torch._six`"


@pytest.mark.parametrize(
    ("source", "stated", "refused"),
    [
        ("from torch._six import inf\n", False, True),
        ("import torch._six\n", False, True),
        ("from torch._six import inf\n", True, False),
        (
            "try:\n    from torch._six import inf\nexcept ImportError:\n    from torch import inf\n",
            False,
            False,
        ),
        ("from ._six import inf\n", False, False),
        ("# torch._six\n", False, False),
    ],
)
@pytest.mark.parametrize("old", ["GradScaler", "autocast"])
def test_code_that_runs_with_older_torch_alone(
    tmp_path: Path, source: str, stated: bool, refused: bool, old: str
) -> None:
    (tmp_path / "other.py").write_text(source, encoding="utf-8")
    (tmp_path / "program.py").write_text(f"import torch\n\ns = torch.cuda.amp.{old}()\n", encoding="utf-8")
    settings = Settings(
        root=tmp_path, select=(RULE,), torch=((2, 4), None), torch_from="x" if stated else "the default"
    )
    finding = next(iter(check([str(tmp_path)], settings, jobs=1).findings))
    assert (finding.fix is None) is refused
    assert str(finding.fix_note).startswith(_SIX) is refused


def test_names_that_some_torch_has_not_stay_where_they_are(tmp_path: Path) -> None:
    source = "from torch.cuda.amp import GradScaler, autocast\n\nwith autocast():\n    pass\n"
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    settings = Settings(root=tmp_path, select=(RULE,), torch=((2, 0), None), torch_from="the tests")
    fixing = fix([alone([str(tmp_path)], settings)], unsafe=False, jobs=1)
    fixing.write()
    assert (tmp_path / "program.py").read_text(encoding="utf-8") == (
        f"{MOVED}from torch.cuda.amp import GradScaler\n\nwith {SHORT}:\n    pass\n"
    )


@pytest.mark.parametrize(
    ("partial", "calls", "verdict"),
    [
        ("partial(torch.cuda.amp.autocast, True)", "AC()\nAC(dtype=torch.bfloat16)\n", "safe"),
        ("partial(torch.cuda.amp.autocast)", "AC(False)\n", "unsafe: where the partial is called with"),
        ("partial(torch.cuda.amp.autocast)", "print(AC)\n", "unsafe: where the partial is called with"),
        ("partial(torch.cuda.amp.autocast)", "AC(*[])\n", "unsafe: where the partial is called with"),
        ("partial(torch.cuda.amp.GradScaler, 4.0)", "AC()\n", "safe"),
        ("torch.cuda.amp.autocast", "AC()\n", "none: the name is handed on without a call"),
    ],
)
def test_what_is_called_later_is_safe_where_all_calls_are_known(
    tmp_path: Path, partial: str, calls: str, verdict: str
) -> None:
    source = f"import torch\nfrom functools import partial\n\nAC = {partial}\n{calls}"
    assert said(tmp_path, source).startswith(verdict)


def test_a_partial_gets_the_dtype(tmp_path: Path) -> None:
    source = (
        "import torch\nfrom functools import partial\n\nAC = partial(torch.cuda.amp.autocast, True)\nAC()\n"
    )
    after = 'AC = partial(torch.amp.autocast, "cuda", dtype=torch.float16, enabled=True)\n'
    assert after in fixed(tmp_path, source)


def test_a_fallback_behind_a_return_is_left_alone(tmp_path: Path) -> None:
    source = (
        "import torch\n\n\ndef make():\n    if hasattr(torch.amp, 'GradScaler'):\n"
        '        return torch.amp.GradScaler("cuda")\n    return torch.cuda.amp.GradScaler()\n'
    )
    assert fixed(tmp_path, source) == source


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    if torch.__version__ >= "1.6":\n        with torch.cuda.amp.autocast():\n            pass\n',
        'if hasattr(torch, "autocast"):\n    region = torch.cuda.amp.autocast()\n',
        'NEW = torch.__version__ >= "1.6"\nregion = torch.cuda.amp.autocast() if NEW else None\n',
    ],
)
@pytest.mark.parametrize("stated", [True, False])
def test_code_that_is_for_older_releases_stays_unless_the_project_says_more(
    tmp_path: Path, source: str, stated: bool
) -> None:
    (tmp_path / "program.py").write_text(f"import torch\n\n{source}", encoding="utf-8")
    settings = Settings(root=tmp_path, select=(RULE,))
    if stated:
        settings = Settings(root=tmp_path, select=(RULE,), torch=((2, 4), None), torch_from="the tests")
    (found,) = check([str(tmp_path)], settings, jobs=1).findings
    assert (found.fix is not None) is stated
    assert stated or found.fix_note.endswith("is for older releases of torch, which lack the new name")
