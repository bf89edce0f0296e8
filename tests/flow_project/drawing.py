from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import dedent

from amplint.flow.project.classes import Classes
from amplint.flow.project.edges import Edges
from amplint.flow.project.meanings import Assigned, Folder, Meaning, Member
from amplint.flow.project.names import Names
from amplint.flow.state.values import ClassValue, External, FunctionValue, ModuleFile
from amplint.source.facts import Scope, facts_of
from amplint.source.project import Project, ProjectFile


class Tree:
    """A project written to disk, and what its names mean, as short texts."""

    def __init__(self, root: Path, files: Mapping[str, str], knows: Callable[[str], bool]) -> None:
        self.root = root
        self._paths = files
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text), encoding="utf-8")
        self.project = Project([root / name for name in files], root)
        self.names = Names(self.project, knows)
        self.classes = Classes(self.names)

    def edges(self, files: Sequence[str] | None = None) -> Edges:
        chosen = self.files() if files is None else [self.file(name) for name in files]
        return Edges(self.classes, chosen)

    def names_of_files(self) -> list[str]:
        return list(self._paths)

    def files(self) -> list[ProjectFile]:
        return [self.file(name) for name in self._paths]

    def file(self, name: str) -> ProjectFile:
        found = self.project.load(self.root / name)
        assert found is not None
        return found

    def scope(self, name: str, qualified: str) -> Scope:
        facts = facts_of(self.file(name).outline)
        every: list[Scope] = [*facts.functions, *facts.classes]
        return next(part for part in every if part.qualified == qualified)

    def means(self, name: str, dotted: str, scope: str | None = None) -> str | None:
        within = self.scope(name, scope) if scope is not None else None
        return self.told(self.names.resolve(self.file(name), dotted, within))

    def all_meanings(self, name: str, dotted: str) -> list[str | None]:
        return [self.told(one) for one in self.names.meanings(self.file(name), dotted)]

    def cls(self, name: str, dotted: str) -> ClassValue:
        found = self.names.resolve(self.file(name), dotted)
        assert isinstance(found, ClassValue)
        return found

    def function(self, name: str, qualified: str) -> FunctionValue:
        scope = self.scope(name, qualified)
        return self.names.function(self.file(name), scope)  # type: ignore[arg-type]

    def told(self, meaning: Meaning | None) -> str | None:
        match meaning:
            case None:
                return None
            case External(name=name):
                return name
            case Folder(path=path):
                return f"{path.relative_to(self.root)}/"
            case ModuleFile(file=file):
                return self._place(file)
            case ClassValue(file=file, outline=outline):
                return f"{self._place(file)}:{outline.qualified}"
            case FunctionValue(file=file, outline=outline):
                return f"{self._place(file)}:{outline.qualified if outline is not None else '?'}"
            case Assigned(file=file, name=name, rest=rest):
                return f"{self._place(file)}={'.'.join((name, *rest))}"
            case Member(owner=owner, rest=rest):
                return f"{self.told(owner)}::{'.'.join(rest)}"

    def _place(self, file: ProjectFile) -> str:
        return str(file.path.relative_to(self.root))


Draw = Callable[..., Tree]
