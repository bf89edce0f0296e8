"""What a program is called and how it is written changes no finding, nor does how amplint is run.

Each fixture is linted once more with everything at once: own names renamed, definitions in another order, another
layout, and every word that a model knows in comments and in a string. If that finds something else, each of them is
tried by itself, to say which it was.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
import torch
from renaming import renamed
from rewriting import Lines, laid_out, shuffled, with_words

from amplint.amp.attributes import MODULE_ATTRIBUTES
from amplint.bounds import TORCH_DEFAULT
from amplint.check import check
from amplint.config import Settings
from amplint.flow.driver import registry

FIXTURES = Path(__file__).parents[2] / "fixtures"
SETTINGS = Settings(root=FIXTURES, select=("ALL",), torch=TORCH_DEFAULT, torch_from="the tests")
ABOUT_COMMENTS = frozenset({"unused-suppression"})
"""Rules whose fixtures are about comments, which another layout loses."""

_MARK = re.compile(r"#\s*expect:\s*(?P<names>[\w-]+(?:\s*,\s*[\w-]+)*)")

Place = tuple[Path, int, str]
"""File, line, rule."""
Change = Callable[["Program"], None]


class Program:
    """A fixture that is being rewritten."""

    def __init__(self, program: Path) -> None:
        self.root = program if program.is_dir() else program.parent
        self.paths = [program] if program.is_file() else sorted(program.rglob("*.py"))
        self.trees = {path: ast.parse(path.read_bytes()) for path in self.paths}
        self.texts: dict[Path, str] = {}

    @property
    def modules(self) -> dict[str, ast.Module]:
        """The trees by the names under which they import each other."""
        return {self.module(path): tree for path, tree in self.trees.items()}

    def module(self, path: Path) -> str:
        """The name of a file as a module."""
        parts = path.relative_to(self.root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or path.parent.name

    def write(self, layout: Callable[[ast.Module], str]) -> None:
        """Writes the trees out."""
        for path, tree in self.trees.items():
            self.texts[path] = layout(tree)


def rename(program: Program) -> None:
    """Other names."""
    renamed(program.modules, outside())


def shuffle(program: Program) -> None:
    """Another order."""
    for tree in program.trees.values():
        shuffled(tree)


def lay_out(program: Program) -> None:
    """Another layout."""
    program.write(laid_out)


def add_words(program: Program) -> None:
    """Words in comments and strings."""
    for path, text in program.texts.items():
        program.texts[path] = with_words(text, words())


CHANGES: dict[str, Change] = {
    "renamed": rename,
    "shuffled": shuffle,
    "laid out": lay_out,
    "with words": add_words,
}


@cache
def words() -> tuple[str, ...]:
    """Every word by which a model knows something, and some that only look like one."""
    known = registry()
    keys = [*known.calls, *known.namespaces, *known.externals, *known.abouts]
    keys += [method for _, method in known.methods if method is not None]
    found = {part for key in keys for part in str(key).split(".")} - {""}
    others = "fp16 bf16 upcast scaler StandardScaler loss_scale ctx half amp float16 enabled=False GradScaler() .half()"
    return (*others.split(), *sorted(found))


@cache
def outside() -> frozenset[str]:
    """Attributes and methods that objects have which are not the program's."""
    kinds = [
        torch.Tensor,
        torch.optim.Optimizer,
        torch.optim.SGD,
        torch.optim.lr_scheduler.StepLR,
        torch.amp.GradScaler,
        torch.autograd.Function,
        torch.utils.data.Dataset,
        torch.device,
        torch.dtype,
        torch.nn.Linear,
        torch.nn.Conv2d,
        torch.nn.MultiheadAttention,
        torch.nn.ModuleList,
        torch.nn.DataParallel,
        torch,
        torch.nn,
        list,
        dict,
        str,
        set,
        object,
    ]
    return (
        frozenset(name for kind in kinds for name in dir(kind))
        | MODULE_ATTRIBUTES
        | {"param_groups", *words()}
    )


def found(program: Path, texts: dict[Path, str] | None = None) -> list[tuple[Path, int, int, str]]:
    """File, line, column and rule of all findings, with other texts in place of the files."""
    changed = {str(path): text.encode() for path, text in (texts or {}).items()}
    result = check([str(program)], SETTINGS, jobs=1, changed=changed)
    assert result.crashes == ()
    return [(Path(one.path).absolute(), one.span.line, one.span.column, one.name) for one in result.findings]


def marked(program: Path) -> list[Place]:
    """The findings that the comments of a fixture expect."""
    return sorted(
        (path, number, name.strip())
        for path in Program(program).paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (mark := _MARK.search(line))
        for name in mark["names"].split(",")
    )


def difference(program: Path, before: list[Place], *changes: str) -> list[str]:
    """What is found in the changed program beside what was found ``before``, and what is no longer found."""
    made = Program(program)
    for name in changes:
        CHANGES[name](made)
    if not made.texts:
        made.write(ast.unparse)
    lines = {path: Lines(made.trees[path], text) for path, text in made.texts.items()}
    after = [
        (path, sorted(lines[path].of(line, column)), rule)
        for path, line, column, rule in found(program, made.texts)
    ]
    left, said = list(before), []
    for path, options, rule in sorted(after, key=lambda one: (len(one[1]), one)):
        same = next((one for one in left if one[0] == path and one[1] in options and one[2] == rule), None)
        if same is None:
            said.append(f"too much  {path.name}:{options}: {rule}")
        else:
            left.remove(same)
    return said + [f"missing   {path.name}:{line}: {rule}" for path, line, rule in left]


def programs() -> Iterator[Path]:
    """The fixtures that can be rewritten."""
    for folder in sorted(FIXTURES.iterdir()):
        if folder.name in ABOUT_COMMENTS:
            continue
        for path in sorted([*folder.glob("*_*"), *folder.glob("static/*_*")]):
            is_golden = path.name.removesuffix(".py").endswith((".fixed", ".safe"))
            if (path.is_dir() or path.suffix == ".py") and not is_golden and _is_readable(path):
                yield path


def _is_readable(program: Path) -> bool:
    try:
        Program(program)
    except (SyntaxError, ValueError):
        return False
    return True


@pytest.mark.parametrize("program", list(programs()), ids=lambda path: path.relative_to(FIXTURES).as_posix())
def test_how_a_program_is_written_changes_nothing(program: Path) -> None:
    said = difference(program, marked(program), *CHANGES)
    if not said:
        return
    before = sorted((path, line, rule) for path, line, _, rule in found(program))
    each = {
        "renamed": difference(program, before, "renamed"),
        "shuffled": difference(program, before, "shuffled"),
        "laid out": difference(program, before, "laid out"),
        "with words": difference(program, before, "laid out", "with words"),
    }
    assert not any(each.values()), "\n".join(f"{name}: {what}" for name, what in each.items() if what)
    assert not difference(program, before, *CHANGES)


# how amplint is run ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def some_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a program of each rule."""
    chosen: dict[str, Path] = {}
    for program in programs():
        chosen.setdefault(program.relative_to(FIXTURES).parts[0], program)
    project = tmp_path_factory.mktemp("some_programs")
    for rule, program in chosen.items():
        (project / rule).mkdir()
        if program.is_dir():
            shutil.copytree(program, project / rule, dirs_exist_ok=True)
        else:
            shutil.copy(program, project / rule)
    return project


def report(project: Path, paths: Sequence[str] = (), seed: int = 0, jobs: int = 1) -> str:
    """The findings as JSON of a process of its own, which knows nothing of others."""
    command = [sys.executable, "-m", "amplint", "check", "--isolated", "--no-cache", "--project", "."]
    command += ["--output-format", "json", "--select", "ALL", f"--jobs={jobs}"]
    done = subprocess.run(
        [*command, *paths],
        env={**os.environ, "PYTHONPATH": str(FIXTURES.parent), "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        cwd=project,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def reference(some_programs: Path) -> str:
    """What is found with the first seed, by one worker."""
    found = report(some_programs)
    assert len(json.loads(found)) >= len(list(some_programs.iterdir())) // 2
    return found


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_the_hash_seed_changes_nothing(some_programs: Path, reference: str, seed: int) -> None:
    assert report(some_programs, seed=seed) == reference


def test_workers_and_the_order_of_paths_change_nothing(some_programs: Path, reference: str) -> None:
    paths = sorted((path.name for path in some_programs.iterdir()), reverse=True)
    assert report(some_programs, paths, jobs=3) == reference
