"""What a name may stand for as far as the text of the project tells. Beside values of the interpreter these are the
folders of packages, and names and attributes of which only evaluation tells what they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from amplint.flow.state.values import ClassValue, External, FunctionValue, ModuleFile, Value
from amplint.source.project import ProjectFile


@dataclass(frozen=True, slots=True)
class Folder(Value):
    """A package without ``__init__.py``, by the name under which it is imported."""

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class Assigned(Value):
    """What the statements of a module bind to a name by other means than import and definition; then attributes of
    it: ``scaler.update`` for ``scaler = GradScaler()``."""

    file: ProjectFile
    name: str
    rest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Member(Value):
    """Attributes of a class: ``Trainer.fit``. See Classes.member."""

    owner: ClassValue
    rest: tuple[str, ...]


Meaning = ClassValue | FunctionValue | ModuleFile | Folder | External | Assigned | Member
UNSEEN = "?"
"""With this begins the name of an External of which nothing is known: an import that leads to a file of the project
which cannot be read, or to a name that is not there."""
