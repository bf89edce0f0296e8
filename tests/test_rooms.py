"""The house: a room imports only from the rooms below it, and nowhere do modules import each other in a circle.

Every import counts as an arrow: at the top of a module, inside a function, under ``TYPE_CHECKING``, and by
``import_module``. What is hidden in a function is a circle all the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "amplint"

ROOMS: tuple[tuple[str, ...], ...] = (
    ("cli", "__main__"),
    ("report",),
    ("server",),
    ("api",),
    (
        "baseline",
        "cache",
        "check",
        "fixing",
        "gating",
        "groups",
        "kept",
        "memory",
        "parallel",
        "scope",
        "silence",
        "workspace",
    ),
    ("analysis", "spelling"),
    ("confirm",),
    ("rules",),
    ("fixes",),
    ("flow",),
    ("lowering",),
    ("amp",),
    ("source",),
    (
        "",
        "bounds",
        "catalog",
        "config",
        "events",
        "findings",
        "identity",
        "installed",
        "instructions",
        "laps",
        "line_length",
        "patterns",
        "requirements",
        "selectors",
        "stopping",
        "toml",
        "unreadable",
    ),
)
"""From the top of the house to the bottom: packages and modules right below ``amplint``; "" is ``amplint`` itself."""

FLOW = (("driver", ""), ("models",), ("project",), ("core",), ("state",))
"""The rooms inside ``amplint.flow``, from top to bottom; models and project do not know of each other."""

AMP_WORDS = frozenset(
    [
        "torch",
        "amp",
        "autocast",
        "autocasts",
        "scaler",
        "scalers",
        "scale",
        "scaled",
        "unscale",
        "gradscaler",
        "half",
        "fp16",
        "bf16",
        "fp32",
        "float16",
        "bfloat16",
        "float32",
        "cuda",
        "gpu",
        "tensor",
        "tensors",
        "dtype",
        "dtypes",
        "optimizer",
        "optimizers",
        "optim",
        "loss",
        "losses",
        "backward",
        "grad",
        "gradient",
        "gradients",
        "apex",
        "accelerate",
        "lightning",
        "deepspeed",
    ]
)
"""Words of which no identifier in the core of the flow may be made."""

Arrows = Mapping[str, frozenset[str]]
"""For each module those that it imports."""


@dataclass(frozen=True)
class Module:
    """A module of a package that is read and not imported."""

    name: str
    is_package: bool
    tree: ast.Module

    def imports(self) -> Iterator[str]:
        """The dotted names that it imports: modules, or things in them. One that ends in ``.*`` stands for all
        modules whose names begin so."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Import(names=names):
                    yield from (alias.name for alias in names)
                case ast.ImportFrom(module=module, names=names, level=level):
                    start = ".".join(filter(None, (self._above(level), module)))
                    yield from (f"{start}.{alias.name}" for alias in names)
                case ast.Call(func=ast.Name(id="import_module" | "__import__"), args=[given, *_]):
                    yield from _computed(given)
                case ast.Call(func=ast.Attribute(attr="import_module"), args=[given, *_]):
                    yield from _computed(given)

    def _above(self, level: int) -> str:
        """The package that the dots of a relative import mean."""
        if not level:
            return ""
        parts = self.name.split(".")
        return ".".join(parts[: len(parts) - level + self.is_package])


def _computed(given: ast.expr) -> Iterator[str]:
    """What a call imports whose argument is a text, or begins as one."""
    match given:
        case ast.Constant(value=str(name)):
            yield name
        case ast.JoinedStr(values=[ast.Constant(value=str(beginning)), *_]):
            yield f"{beginning}*"


def modules_of(folder: Path) -> list[Module]:
    """The modules of the package in a folder."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(Module(name, is_package, ast.parse(path.read_bytes())))
    return found


def arrows_of(modules: Iterable[Module]) -> Arrows:
    """What each module imports of the others."""
    modules = list(modules)
    names = {module.name for module in modules}
    return {module.name: frozenset(_meant(module.imports(), names)) - {module.name} for module in modules}


def _meant(imported: Iterable[str], names: set[str]) -> Iterator[str]:
    for dotted in imported:
        if dotted.endswith("*") and dotted[:-1] not in names:
            start = dotted[:-1]
            yield from (name for name in names if name.startswith(start))
            start = start.rstrip(".")
            if start in names:
                yield start
            continue
        while dotted and dotted not in names:
            dotted = dotted.rpartition(".")[0]  # a class or function: the module that it is in
        if dotted:
            yield dotted


def circles_in(arrows: Arrows) -> list[frozenset[str]]:
    """The strongly connected components of more than one module."""
    after = {name: _reachable(arrows, name) for name in arrows}
    return sorted(
        {
            frozenset(other for other in after[name] if name in after[other])
            for name in arrows
            if name in after[name]
        },
        key=sorted,
    )


def _reachable(arrows: Arrows, start: str) -> frozenset[str]:
    """What can be reached by one arrow or more."""
    found: set[str] = set()
    pending = [start]
    while pending:
        for name in arrows[pending.pop()]:
            if name not in found:
                found.add(name)
                pending.append(name)
    return frozenset(found)


def room_of(module: str) -> str:
    """The package or module right below the whole package that a module is, or lies in."""
    return f"{module}.".split(".")[1]


def upward(arrows: Arrows, rooms: tuple[tuple[str, ...], ...]) -> list[str]:
    """The imports of a room from one above it, in words."""
    floors = {name: number for number, room in enumerate(rooms) for name in room}
    return [
        f"{module} imports {other}"
        for module in sorted(arrows)
        for other in sorted(arrows[module])
        if floors[room_of(other)] < floors[room_of(module)]
    ]


MODULES = modules_of(PACKAGE)
ARROWS = arrows_of(MODULES)


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert [sorted(circle) for circle in circles_in(ARROWS)] == []


def test_every_module_is_in_a_room() -> None:
    known = [name for room in ROOMS for name in room]
    assert len(known) == len(set(known))
    assert {room_of(module) for module in ARROWS} <= set(known)


def test_a_room_imports_only_from_rooms_below() -> None:
    assert upward(ARROWS, ROOMS) == []


def _inside(room: str) -> Arrows:
    """The arrows between the modules of a room, by their names inside it."""
    start = f"amplint.{room}"
    return {
        name.removeprefix("amplint."): frozenset(
            other.removeprefix("amplint.") for other in others if f"{other}.".startswith(f"{start}.")
        )
        for name, others in ARROWS.items()
        if f"{name}.".startswith(f"{start}.")
    }


def test_the_rooms_of_the_flow_are_a_house_of_their_own() -> None:
    arrows = _inside("flow")
    assert {room_of(name) for name in arrows} == {name for room in FLOW for name in room}
    assert upward(arrows, FLOW) == []
    crossing = [
        f"{name} imports {other}"
        for name in arrows
        for other in arrows[name]
        if (room_of(name), room_of(other)) == ("models", "project")
    ]
    assert crossing == []


def test_a_model_sees_the_interface_of_the_interpreter_alone() -> None:
    seen = {
        other
        for name, others in _inside("flow").items()
        for other in others
        if room_of(name) == "models" and room_of(other) == "core"
    }
    assert seen == {"flow.core.api", "flow.core.registry"}


def test_only_the_driver_knows_models() -> None:
    knowing = {
        name
        for name, others in ARROWS.items()
        for other in others
        if f"{other}.".startswith("amplint.flow.models.") and not name.startswith("amplint.flow.models")
    }
    assert knowing == {"amplint.flow.driver"}


def identifiers(tree: ast.Module) -> Iterator[str]:
    """The names in a module: of what it defines, reads, sets, passes and imports; and its strings that are names."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.keyword(arg=str(name)) | ast.ImportFrom(module=str(name)):
                yield name
            case ast.Constant(value=str(text)) if re.fullmatch(r"[\w.?]+", text):
                yield text


def words_of(name: str) -> set[str]:
    """``GradScaler.unscale_`` -> grad, scaler, unscale."""
    parts = re.findall(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*", name)
    return {part.lower() for part in parts} - {"amplint"}


@pytest.mark.parametrize("room", ["core", "state"])
def test_the_core_of_the_flow_has_no_word_of_amp(room: str) -> None:
    told = [
        f"{module.name}: {name}"
        for module in MODULES
        if module.name.startswith(f"amplint.flow.{room}.")
        for name in identifiers(module.tree)
        if words_of(name) & AMP_WORDS
    ]
    assert told == []


@pytest.mark.parametrize(
    "text",
    [
        "import torch",
        "from torch.amp import autocast",
        "def in_autocast(): ...",
        "class GradScaler: ...",
        "f(scaler=1)",
        "x.use_amp",
        "name = 'torch.amp'",
        "f'{x}'.half()",
    ],
)
def test_a_word_of_amp_is_found_in_any_identifier(text: str) -> None:
    assert any(words_of(name) & AMP_WORDS for name in identifiers(ast.parse(text)))


def _package(folder: Path, files: Mapping[str, str]) -> Arrows:
    """The arrows of a small package."""
    package = folder / "house"
    for name, text in {"__init__.py": "", **files}.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return arrows_of(modules_of(package))


@pytest.mark.parametrize(
    "text",
    [
        "import house.cellar\n",
        "from house import cellar\n",
        "from house.cellar import wine\n",
        "from .cellar import wine\n",
        "from . import cellar\n",
        "def fetch():\n    from house.cellar import wine\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.cellar import Wine\n",
        "import importlib\nimportlib.import_module('house.cellar')\n",
        "from importlib import import_module\nimport_module(f'house.{name}')\n",
    ],
)
def test_an_import_is_seen_wherever_it_stands(tmp_path: Path, text: str) -> None:
    arrows = _package(tmp_path, {"kitchen.py": text, "cellar.py": "from house.kitchen import cook\n"})
    assert circles_in(arrows) == [frozenset({"house.kitchen", "house.cellar"})]


def test_a_circle_by_way_of_packages_is_seen(tmp_path: Path) -> None:
    files = {
        "attic/__init__.py": "from house.attic.trunk import lid\n",
        "attic/trunk.py": "def lid():\n    from ..hall import door\n",
        "hall.py": "from house import attic\n",
        "garden.py": "import house.hall\n",
    }
    circle = frozenset({"house.attic", "house.attic.trunk", "house.hall"})
    assert circles_in(_package(tmp_path, files)) == [circle]


def test_an_import_from_above_is_seen(tmp_path: Path) -> None:
    files = {"attic.py": "import house.cellar\n", "cellar.py": "def up():\n    import house.attic\n"}
    rooms = (("attic",), ("cellar", ""))
    assert upward(_package(tmp_path, files), rooms) == ["house.cellar imports house.attic"]


def test_no_text_that_is_run_elsewhere_imports_a_module() -> None:
    """A command for another process would be an arrow that nobody sees."""
    commands = [
        f"{module.name}: {node.value}"
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value
        if re.search(r"\b(?:from|import)\s+amplint\b", node.value)
    ]
    assert commands == []
