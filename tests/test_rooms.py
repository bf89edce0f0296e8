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

Rooms = tuple[tuple[str, ...], ...]

ROOMS: Rooms = (
    ("cli", "__main__"),
    ("report",),
    ("check", "fixing", "gating", "groups", "parallel", "silence"),
    ("analysis", "spelling"),
    ("confirm",),
    ("rules",),
    ("fixes",),
    ("flow.driver",),
    ("flow.models",),
    ("flow.project",),
    ("flow.core",),
    ("flow.state",),
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
        "requirements",
        "selectors",
        "toml",
        "unreadable",
    ),
)
"""From the top of the house to the bottom: packages and modules below ``amplint``, with all that is in them and not
named by itself; "" is ``amplint``."""

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


def floor_of(module: str, rooms: Rooms) -> int | None:
    """How far down a module is; None if it is in no room."""
    floors = {name: number for number, room in enumerate(rooms) for name in room}
    inside = module.partition(".")[2]
    while inside and inside not in floors:
        inside = inside.rpartition(".")[0]
    return floors.get(inside) if inside or "." not in module else None


def upward(arrows: Arrows, rooms: Rooms) -> list[str]:
    """The imports of a room from one above it, in words."""
    floors = {module: floor_of(module, rooms) or 0 for module in arrows}
    return [
        f"{module} imports {other}"
        for module in sorted(arrows)
        for other in sorted(arrows[module])
        if floors[other] < floors[module]
    ]


MODULES = modules_of(PACKAGE)
ARROWS = arrows_of(MODULES)


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert [sorted(circle) for circle in circles_in(ARROWS)] == []


def test_every_module_is_in_a_room() -> None:
    known = [name for room in ROOMS for name in room]
    assert len(known) == len(set(known))
    assert [module for module in ARROWS if floor_of(module, ROOMS) is None] == []


def test_a_room_imports_only_from_rooms_below() -> None:
    assert upward(ARROWS, ROOMS) == []


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
