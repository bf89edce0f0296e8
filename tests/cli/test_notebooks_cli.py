"""Notebooks on the command line: found, judged as one program, fixed in their cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MODEL = "import torch\n\nmodel = torch.nn.Linear(2, 2)\n\n\ndef loss_of(x):\n    return model(x).mean()\n"
REGION = "with torch.autocast('cuda'):\n    loss = loss_of(x)\n    loss.backward()"


def write(path: Path, *sources: str, **more: Any) -> bytes:
    """A notebook with these code cells, as Jupyter writes it; returns its bytes."""
    cells = [
        {"cell_type": "code", "execution_count": 1, "id": str(number), "metadata": {}, "outputs": ["é", source],
         "source": source.splitlines(keepends=True)}
        for number, source in enumerate(sources)
    ]  # fmt: skip
    document = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path.read_bytes()


def places(amplint, *arguments: str, **options: Any) -> list[str]:
    """Where something is found, with the rule."""
    done = amplint("--output-format=concise", "-q", *arguments, fake=False, **options)
    assert done.stderr == ""
    return [" ".join(line.split()[:-1][:3]).partition(" AMP")[0] for line in done.stdout.splitlines()]


def test_cells_are_one_program_with_the_modules_beside_them(amplint, project: Path) -> None:
    (project / "model.py").write_text(MODEL)
    write(
        project / "a.ipynb", "%pip install torch\nfrom model import *", "%%bash\nls", "import torch", REGION
    )
    expected = ["a.ipynb:cell 4:3:5: warning[backward-in-autocast]"]
    assert places(amplint, ".") == expected
    assert places(amplint, "a.ipynb") == expected
    assert places(amplint, "model.py") == []


def test_what_a_notebook_does_with_a_module_is_told_in_the_module(amplint, project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.amplint]\n")
    (project / "steps.py").write_text("def step(loss):\n    loss.backward()\n")
    write(
        project / "notebooks" / "a.ipynb",
        "import torch\nfrom steps import step\nmodel = torch.nn.Linear(2, 2)",
        "with torch.autocast('cuda'):\n    step(model(x).mean())",
    )
    done = amplint("steps.py", fake=False)
    assert "steps.py:2:5: warning[backward-in-autocast]" in done.stdout
    assert "autocast region that opens on line 1 of cell 2 of notebooks/a.ipynb" in done.stdout
    assert "::: notebooks/a.ipynb:cell 2:1:6" in done.stdout


def test_nothing_imports_a_notebook(amplint, project: Path) -> None:
    """It is never the module of its name, neither for code that calls it nor for fixes."""
    write(project / "pkg" / "steps.ipynb", "def step(loss):\n    loss.backward()")
    (project / "pkg" / "__init__.py").write_text("")
    (project / "a.py").write_text(
        "import torch\nfrom pkg.steps import step\nwith torch.autocast('cuda'):\n    step(torch.nn.Linear(2, 2)(x))\n"
    )
    assert places(amplint, ".") == []


def test_what_is_no_notebook_of_python(amplint, project: Path) -> None:
    write(project / "r.ipynb", "autocast <- 1", metadata={"kernelspec": {"language": "R"}})
    write(project / ".ipynb_checkpoints" / "a.ipynb", "autocast (")
    (project / "none.ipynb").write_text("no AMP {")
    (project / "old.ipynb").write_text('{"nbformat": 3, "worksheets": [{"cells": ["autocast"]}]}')
    (project / "broken.ipynb").write_text('{"cells": ["autocast"\n}')
    done = amplint("--output-format=concise", fake=False)
    assert done.stdout.splitlines()[:2] == [
        "broken.ipynb:2:1: error[syntax-error] AMP902 the notebook is no JSON: Expecting ',' delimiter",
        "old.ipynb:1:1: error[syntax-error] AMP902 the notebook has the format of version 3, which is not read; "
        "`jupyter nbconvert --to notebook --inplace` converts it",
    ]
    assert done.stdout.splitlines()[2].startswith("Found 2 findings")


def test_what_is_wrong_with_a_cell_names_no_line_of_its_own(amplint, project: Path) -> None:
    """The line of a text that is open to its end is that of the finding."""
    write(project / "a.ipynb", REGION, "path = 'model.pt\n")
    done = amplint("--output-format=concise", "-q", "a.ipynb", fake=False).stdout
    assert "this cell is not read: unterminated string literal" in done
    assert "detected at" not in done


def test_an_unfinished_cell_costs_no_other_one(amplint, project: Path) -> None:
    write(project / "a.ipynb", "import torch\nfrom model import loss_of", "x = \nfor y in", REGION)
    assert places(amplint, "a.ipynb")[0] == "a.ipynb:cell 2:1:5: warning[syntax-error]"
    assert places(amplint, "a.ipynb")[1:] == ["a.ipynb:cell 3:3:5: warning[backward-in-autocast]"]
    assert places(amplint, "a.ipynb", "--ignore=syntax-error") == [
        "a.ipynb:cell 3:3:5: warning[backward-in-autocast]"
    ]


def test_fixes_change_the_lines_of_cells_and_no_other_byte(amplint, project: Path) -> None:
    before = write(
        project / "a.ipynb",
        "!pip install \\\n  torch\nimport torch\nfrom model import loss_of",
        "%%time\n" + REGION + "\nfiles = !ls é\n",
        "# é autocast\nloss_of?",
    )
    done = amplint("--fix", "a.ipynb", fake=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "All good: no findings; checked 1 file.")
    old, new = b'    "    loss.backward()\\n",\n', b'    "loss.backward()\\n",\n'
    assert before.count(old) == 1
    assert (project / "a.ipynb").read_bytes() == before.replace(old, new)


def test_an_import_comes_to_those_that_are_there(amplint, project: Path) -> None:
    write(
        project / "a.ipynb",
        "%matplotlib inline",
        "%%bash\nls",
        "from __future__ import annotations\nimport os",
        "from torch.cuda.amp import autocast",
        "def f():\n    with autocast():\n        pass",
    )
    amplint("--fix", "a.ipynb", fake=False)
    document = json.loads((project / "a.ipynb").read_text(encoding="utf-8"))
    assert ["".join(cell["source"]) for cell in document["cells"]] == [
        "%matplotlib inline",
        "%%bash\nls",
        "from __future__ import annotations\nimport os",
        "import torch\nfrom torch.amp import autocast",
        'def f():\n    with autocast("cuda", dtype=torch.float16):\n        pass',
    ]


def test_a_name_that_a_magic_mentions_keeps_its_import(amplint, project: Path) -> None:
    write(
        project / "a.ipynb",
        "import torch\nfrom torch.cuda.amp import autocast",
        "with autocast():\n    pass",
        "%timeit autocast()",
    )
    amplint("--fix", "a.ipynb", fake=False)
    assert b"from torch.cuda.amp import autocast" in (project / "a.ipynb").read_bytes()


def test_a_fix_that_would_reach_into_another_cell_is_refused(amplint, project: Path) -> None:
    before = write(
        project / "a.ipynb",
        "import torch\nmodel = torch.nn.Linear(2, 2)\ntorch.autocast('cuda')",
        "loss = model(x).mean()",
    )
    done = amplint("--fix", "--unsafe-fixes", "a.ipynb", fake=False)
    assert "= no fix: it would reach from one cell into another" in done.stdout
    assert (project / "a.ipynb").read_bytes() == before


def test_diff_shows_cells(amplint, project: Path) -> None:
    before = write(project / "a.ipynb", "import torch\nfrom model import loss_of", "!ls\n" + REGION)
    done = amplint("--diff", "a.ipynb", fake=False)
    assert done.stdout == (
        "--- a/a.ipynb:cell 2\n+++ b/a.ipynb:cell 2\n@@ -1,4 +1,4 @@\n !ls\n with torch.autocast('cuda'):\n"
        "     loss = loss_of(x)\n-    loss.backward()\n+loss.backward()\n"
    )
    assert (project / "a.ipynb").read_bytes() == before


def test_comments_silence_in_cells(amplint, project: Path) -> None:
    setup = "import torch\nfrom model import loss_of"
    write(project / "a.ipynb", setup, REGION + "  # amplint: ignore[backward-in-autocast] known")
    write(project / "b.ipynb", setup, REGION, "# amplint: ignore-file[AMP101]")
    write(project / "c.ipynb", setup, "x = 1  # amplint: ignore[AMP101]", "!ls  # amplint: ignore[AMP101]")
    write(project / "d" / "e.ipynb", setup, REGION)
    (project / "amplint.toml").write_text('[per-file-ignores]\n"d/*.ipynb" = ["AMP101"]\n')
    assert places(amplint, ".") == ["c.ipynb:cell 2:1:26: advice[unused-suppression]"]


def test_comments_are_added_in_cells(amplint, project: Path) -> None:
    before = write(
        project / "a.ipynb", "import torch\nfrom model import loss_of", "!ls\n" + REGION, "for x in autocast"
    )
    done = amplint("--add-ignore=known", "a.ipynb", fake=False)
    assert "Silenced 1 finding" in done.stdout
    line = b'"    loss.backward()'
    comment = b"  # amplint: ignore[backward-in-autocast] known"
    assert (project / "a.ipynb").read_bytes() == before.replace(line, line + comment)
    assert places(amplint, "a.ipynb") == ["a.ipynb:cell 3:1:18: warning[syntax-error]"]


def test_standard_input(amplint, project: Path) -> None:
    (project / "model.py").write_text(MODEL)
    data = write(project / "a.ipynb", "from model import *\nimport torch", REGION)
    (project / "a.ipynb").unlink()
    arguments = ("--stdin-filename", "a.ipynb", "-")
    assert places(amplint, *arguments, stdin=data) == ["a.ipynb:cell 2:3:5: warning[backward-in-autocast]"]
    fixed = amplint("--fix", *arguments, stdin=data, fake=False)
    assert fixed.stdout.encode() == data.replace(b'"    loss.backward()', b'"loss.backward()')
    line = data.decode().splitlines().index('    "    loss.backward()"') + 1
    told = amplint("--output-format=pylint", *arguments, stdin=data, fake=False)
    assert told.stdout.startswith(f"a.ipynb:{line}: [AMP101")


def test_results_are_kept(amplint, project: Path) -> None:
    (project / "amplint.toml").write_text("")
    (project / "model.py").write_text(MODEL)
    write(project / "a.ipynb", "from model import *\nimport torch", REGION)
    first = amplint(".", fake=False)
    assert list((project / ".amplint_cache").glob("amplint-*.json"))
    again = amplint(".", "-v", fake=False)
    assert again.stdout == first.stdout
    assert "used" in again.stderr
    write(project / "a.ipynb", "from model import *\nimport torch", REGION.replace("backward", "item"))
    assert places(amplint, ".") == []


def test_a_wrapper_that_json_spells_otherwise(amplint, project: Path) -> None:
    """The bytes of a notebook need not have the bytes of the name."""
    (project / "amplint.toml").write_text('autocast-contexts = ["steps.région"]\n', encoding="utf-8")
    document = {
        "cells": [
            {
                "cell_type": "code",
                "source": "import steps\nfrom model import loss_of\nwith steps.région():\n    loss_of(x).backward()",
            }
        ],
        "nbformat": 4,
    }
    (project / "a.ipynb").write_text(json.dumps(document))
    assert "\\u00e9" in (project / "a.ipynb").read_text()
    assert places(amplint, "a.ipynb") == ["a.ipynb:cell 1:4:5: warning[backward-in-autocast]"]


def test_names_behind_line_ends_that_json_spells(amplint, project: Path) -> None:
    r"""``\nautocast`` is no word ``nautocast``; and what stands in outputs is no code."""
    document = {
        "cells": [
            {
                "cell_type": "code",
                "source": "from torch.cuda.amp import (\nautocast)\nautocast()",
                "outputs": [],
            },
            {"cell_type": "markdown", "source": "GradScaler"},
        ],
        "nbformat": 4,
    }
    (project / "a.ipynb").write_text(json.dumps(document))
    document["cells"][0]["source"], document["cells"][0]["outputs"] = "x = (", ["autocast"]
    (project / "b.ipynb").write_text(json.dumps(document))
    assert [place.partition(":cell")[0] for place in places(amplint, ".")] == ["a.ipynb", "a.ipynb"]


def test_a_notebook_is_not_run(amplint, project: Path) -> None:
    write(project / "my file.ipynb", "import torch")
    for command in ("confirm", "trace"):
        done = amplint(command, "--", "my file.ipynb", fake=False)
        assert done.returncode == 2
        assert (
            "my file.ipynb is a notebook, which is not run; convert it first: "
            "jupyter nbconvert --to script 'my file.ipynb'" in " ".join(done.stderr.split())
        )
