"""Arguments by names that the class does not take."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

from amplint.findings import Fix

IMPORTS = "import torch\nfrom torch.cuda import amp\n\n\n"
REGION = f'{IMPORTS}def step(x, w):\n    with amp.autocast(device_type="cuda"):\n        return x @ w\n'
TRIED = (
    "{imports}def make():\n    try:\n        return amp.GradScaler(device='cuda')\n"
    "    except {error}:\n        return amp.GradScaler()\n"
)
FALLBACK = """import torch
try:
    from torch.amp import autocast
except ImportError:
    from torch.cuda.amp import autocast


def step(x, w):
    with autocast(device_type="cuda"):
        return x @ w
"""


def test_a_region_of_the_old_class_takes_no_device(tmp_path: Path) -> None:
    (finding,) = said(tmp_path, "misplaced-argument", REGION)
    assert finding.message == "`device_type` is no argument of `torch.cuda.amp.autocast`"
    assert isinstance(finding.fix, Fix)
    assert finding.fix.title == "Leave the device out"
    assert finding.fix.applicability == "safe"


def test_another_device_is_left_out_by_somebody_who_knows(tmp_path: Path) -> None:
    (finding,) = said(tmp_path, "misplaced-argument", REGION.replace('"cuda"', '"mps"'))
    assert isinstance(finding.fix, Fix)
    assert finding.fix.applicability == "unsafe"


def test_the_new_name_is_not_given_the_device_twice(tmp_path: Path) -> None:
    (finding,) = said(tmp_path, "deprecated-amp-api", REGION)
    assert finding.fix is None
    assert "`device_type`" in finding.fix_note


@pytest.mark.parametrize(
    ("error", "findings"),
    [("TypeError", 0), ("(ValueError, TypeError)", 0), ("ValueError", 1), ("Exception", 1)],
)
def test_who_tries_whether_the_class_takes_it_minds(tmp_path: Path, error: str, findings: int) -> None:
    assert len(said(tmp_path, "misplaced-argument", TRIED.format(imports=IMPORTS, error=error))) == findings


def test_the_old_class_is_there_for_releases_without_the_new_one(tmp_path: Path) -> None:
    assert said(tmp_path, "misplaced-argument", FALLBACK) == ()


def test_a_wrapper_of_the_project_has_arguments_of_its_own(tmp_path: Path) -> None:
    text = f"{IMPORTS}class autocast(amp.autocast):\n    def __init__(self, device_type):\n        super().__init__()\n"
    assert said(tmp_path, "misplaced-argument", f'{text}\n\nautocast(device_type="cuda")\n') == ()
