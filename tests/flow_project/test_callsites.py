from __future__ import annotations

import pytest
from drawing import Draw

from amplint.flow.project.callsites import call_sites

_TRAIN = "def train(optimizer): ...\n"


def sites(draw: Draw, files: dict[str, str], judged: list[str] | None = None) -> list[tuple[str, int]] | None:
    tree = draw(files)
    file = tree.file("engine.py")
    for name in judged or files:
        tree.file(name)
    found = call_sites(tree.edges(judged), file.display, "train")
    return None if found is None else [(path.rpartition("/")[2], span.line) for path, span in found]


def test_the_calls_in_all_files(draw: Draw) -> None:
    files = {
        "engine.py": _TRAIN + "def fit(optimizer):\n    return train(optimizer)\n",
        "main.py": "from engine import train as run\nimport engine\nrun(1)\nengine.train(2)\n",
        "other.py": "def train(x): ...\ntrain(3)\n",
    }
    assert sites(draw, files) == [("engine.py", 3), ("main.py", 3), ("main.py", 4)]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("main.py", "from engine import train\nrun = train\nrun(1)\n"),
        ("main.py", "from engine import train\nprint(train)\n"),
        ("main.py", "from engine import train\ndef step(): return [train]\n"),
        ("main.py", "import engine\nclass Runner:\n    run = engine.train\n"),
        ("main.py", "from engine import train\n\n@train\ndef step(): ...\n"),
    ],
)
def test_a_function_that_is_handed_on_has_callers_out_of_sight(draw: Draw, name: str, code: str) -> None:
    assert sites(draw, {"engine.py": _TRAIN, name: code}) is None


def test_a_decorated_function_is_called_by_what_decorates_it(draw: Draw) -> None:
    assert sites(draw, {"engine.py": "import hydra\n\n@hydra.main()\n" + _TRAIN + "train(1)\n"}) is None


def test_a_file_that_was_not_read_may_call_it(draw: Draw) -> None:
    files = {"engine.py": _TRAIN + "train(1)\n", "main.py": "from engine import train\ntrain(2)\n"}
    assert sites(draw, files, ["engine.py"]) is None
    assert sites(draw, files) == [("engine.py", 2), ("main.py", 2)]


def test_a_parameter_of_the_same_name_is_another_function(draw: Draw) -> None:
    assert sites(draw, {"engine.py": _TRAIN + "def run(train): train(1)\n"}) == []


def test_a_nested_function_and_a_method_are_not_found_by_name(draw: Draw) -> None:
    nested = "def around():\n    def train(optimizer): ...\n    train(1)\n"
    assert sites(draw, {"engine.py": nested}) is None
    assert sites(draw, {"engine.py": "class Trainer:\n    def train(self): ...\n"}) is None
