"""The engine: entry points, names of files and classes, and everything that is kept between walks."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Protocol

import libcst as cst

from amplint.amp.scalers import SCALERS
from amplint.amp.survey import names_that_touch, names_with_effects
from amplint.amp.tokens import HALF_CASTS, REGIONS_AND_SCALERS, TRAINING
from amplint.amp.versions import Bounds, compare, parse, since
from amplint.amp.wrappers import OBJECTS, PARALLEL, Role
from amplint.events import CustomFunction, Event, FunctionEnded, Place, ScalerUsed
from amplint.findings import Span
from amplint.flow import attributes, calls, checkpoints, contexts, kinds, modules, reaching
from amplint.flow.budget import Budget, OutOfBudget
from amplint.flow.expressions import Expressions
from amplint.flow.paths import Facts, Path, bound, join_values, merge
from amplint.flow.scopes import Scope
from amplint.flow.statements import Walker
from amplint.flow.values import (
    UNKNOWN,
    Alternatives,
    Autocast,
    ClassValue,
    Constant,
    FunctionValue,
    Imported,
    Instance,
    Library,
    Mapping,
    Module,
    Optimizer,
    Parameters,
    ScaledLoss,
    Scaler,
    StateDict,
    Tensor,
    Unknown,
    Value,
)
from amplint.reached import Reached
from amplint.source.outline import ClassOutline, FunctionOutline
from amplint.source.project import Project, ProjectFile
from amplint.source.slices import Slice

MAX_STEPS = 2500
"""Statements walked for one entry point, calls included."""

MAX_LAST_STEPS = 500
"""Statements walked after that, in the entry point itself for the most part."""

MAX_ASSUMED_STEPS = 1500
MAX_CONSTRUCTOR_STEPS = 800
MAX_NESTING = 4
_SMALL = 60

_EFFECTS = re.compile(
    r"torch\.save\(|autocast|[sS]caler|backward\(|\.step\(|\.half\(|\.bfloat16\(|float16|HalfTensor|optim\b|AdamW?\b|SGD\b|\.autograd\."
    r"|clip_grad|zero_grad|lr_scheduler\.|get_\w+_schedule"
)
_FILE_EFFECTS = re.compile(
    rb"autocast|GradScaler|backward\(|\.half\(|\.step\(|torch\.optim|clip_grad|zero_grad"
)
_FORWARD = re.compile(rb"def forward\(")
_DISABLING = re.compile(r"enabled\s*=\s*False|autocast\(\s*False|autocast\([^)]*,\s*False")
_FILLS_ITSELF = re.compile(
    r"\b(?:ClassVar|InitVar|KW_ONLY|__post_init__|__new__)\b|\binit\s*=\s*False|setattr"
)
_BUILDS = re.compile(
    r"\bnn\.|return\s+(?:\w+\.)*[A-Z]\w*\(|autocast|[sS]caler|optim\b|\.half\(|partial\(|nullcontext"
)
_MOST_STARS = 8
_SCALING = re.compile(
    rb"(?<![-\w])\w*[sS]caler|scale_loss|loss_scal|LossScal|FP16_Optimizer|accelerat|[lL]ightning|[fF]abric|deepspeed|mmengine|\bapex\b"
    rb"|\.grad(?:\.data)?(?:\s*[*/]=|\.mul_\(|\.div_\()"
)
"""What may scale losses: where one of these words occurs, nobody can say that nothing does."""
_IDLE = re.compile(
    rb'"""(?s:.*?)"""|#[^\n]*'
    rb"|(?m:^[ \t]*(?:from|import)\b[^\n]*\bGradScaler\b[^\n]*$)"
    rb"|[\w.]+\s*(?::[^=\n]+)?=\s*[\w.]*\bGradScaler\((?:[^()\n]|\([^()\n]*\))*\)"
    rb"|[\w.]+\.(?:load_)?state_dict\(|[\"']scaler[\"']"
)
"""What a gradient scaler that scales nothing leaves in a text: it is made, and its state is kept."""
_LOW_PRECISION = re.compile(rb"autocast|float16|\.half\(|half_precision|[mM]ixed_?[pP]recision|fp16")
_HARMLESS_BASES = ("builtins.", "torch.nn.", "abc.", "typing.")
_STORED = re.compile(
    r"\bself\.(\w+)\s*(?::[^=\n]+)?=(?!=)[ \t]*(?:\([ \t]*\n(?:[^\n]*[^\n)]\n){0,3})?[^\n]*(?:autocast|GradScaler)"
)
_SETS_UP = re.compile(r"\bself\.\w*(?:setup|build|init|make|create|configure)\w*\(")
_CAST = re.compile(r"\.float\(|float32|\.double\(|float64|\.to\(dtype|upcast")
_AMP = re.compile(rb"autocast|GradScaler")
_SCALER = re.compile(rb"GradScaler")
_DISABLING_BYTES = re.compile(_DISABLING.pattern.encode())
_SCRIPT = re.compile(rf"{REGIONS_AND_SCALERS}|{HALF_CASTS}|backward\(|\.step\(|\.numpy\(")
_MAY_KEEP = re.compile(r"\s*(?:@(?![\w.]*dataclass|[\w.]*define)|(?:@[^\n]*\n\s*)*class\b[^:]*\bmetaclass\b)")
"""How a class begins that is decorated, but not to get fields, or that has a metaclass: it may keep its object."""
_CACHES = ("cache", "lru_cache", "cached_property")
_CLASS_EFFECTS = re.compile(r"backward|\.step\(|optim|autocast|scaler")


class Listener(Protocol):
    """Whoever wants to know of events. ``machines`` is its own state on one path, handed back with each
    event."""

    def start(self) -> Hashable:
        """The state at an entry point."""

    def hear(self, machines: Hashable, event: Event) -> Hashable:
        """The state after an event."""


class Engine:
    """Walks entry points of a project and tells a listener what happens in them."""

    def __init__(
        self,
        project: Project,
        listener: Listener,
        *,
        device: str = "cuda",
        torch: Bounds = ((2, 0), None),
        contexts: tuple[str, ...] = (),
        backward_functions: tuple[str, ...] = (),
    ) -> None:
        self.project = project
        self.listener = listener
        self.device = device
        self.torch = torch
        self.own_roles: dict[str, list[tuple[str, Role]]] = {}
        """The project's own wrappers from its settings, by the last part of their names."""
        for names, role in ((contexts, Role.REGION), (backward_functions, Role.BACKWARD)):
            for name in names:
                self.own_roles.setdefault(name.rpartition(".")[2], []).append((name, role))
        self.pending: dict[Hashable, calls.Arguments] = {}
        self._globals: dict[tuple[str, str], Value | None] = {}
        self._classes: dict[tuple[str, str], ClassValue] = {}
        self._functions: dict[int, FunctionValue] = {}
        self._bases: dict[int, list[ClassValue | Library]] = {}
        self._decorators: dict[int, tuple[str, ...]] = {}
        self._decorated: dict[int, Value] = {}
        self._class_names: dict[int, dict[str, Value]] = {}
        self._later: dict[tuple[int, str], bool] = {}
        self._filling: dict[int, bool] = {}
        self.base: dict[tuple[Hashable, str], Value] = {}
        self._casting: set[FilePath] = set()
        self._entry: FilePath | None = None
        self.summaries: dict[Hashable, tuple[object, list[tuple[Value, Facts, int]]]] = {}
        self.latest: dict[Hashable, tuple[tuple[object, list[tuple[Value, Facts, int]]] | None, int]] = {}
        self.walks: dict[int, int] = {}
        self._effective: dict[FilePath, set[bytes]] = {}
        self._touching: dict[FilePath, set[bytes]] = {}
        self._held: dict[tuple[FilePath, re.Pattern[bytes]], bool] = {}
        self._templates: set[Hashable] = set()
        self._recipes: dict[
            Hashable, tuple[ClassValue, tuple[Value, ...], tuple[tuple[str, Value], ...], bool]
        ] = {}
        self._made_like: dict[Hashable, Hashable] = {}
        self._building: list[Hashable] = []
        self._effects: dict[int, bool] = {}
        self._busy: set[Hashable] = set()
        self._scaling: dict[FilePath, bool] = {}
        self._inner: dict[int, list[ClassValue]] = {}
        self._kinds_kept: dict[tuple[int, str], str | None] = {}
        self.custom_functions: dict[int, CustomFunction] = {}
        self.absent: dict[tuple[int, str], bool] = {}
        """By class and attribute, whether its objects lack it; see absent.class_lacks."""
        self.set_from_outside: dict[str, list[ClassValue | None]] = {}
        self.budget = Budget(MAX_STEPS)
        self.entered: set[int] = set()
        """The functions that were walked from the present entry point, by their outlines."""
        self.scalers_made: set[Hashable] = set()
        self.stepped: set[Hashable] = set()
        """Scalers that were made, and those that stepped, since the present entry point began."""
        self.unscaled: dict[Hashable, Value] = {}
        """The optimizers that scalers unscaled since then, by their identities."""
        self.unscaled_of_many: set[Hashable] = set()
        """The scalers that unscaled an optimizer of which it is not known which one it is."""
        self.divisions: dict[tuple[Hashable, Instance], list[tuple[ScalerUsed, Value]]] = {}
        """What was unscaled and stepped by each scaler in the methods of an object, in the present file."""
        self.trained_by_framework = False
        """Whether the present entry point had a framework run a backward pass."""
        self._taking: dict[int, bool] = {}
        self._building_parts: dict[int, bool] = {}
        self._restored: dict[FilePath, frozenset[str | None]] = {}
        self.disabling: dict[FilePath, frozenset[str]] = {}
        self.reached: dict[Hashable, Reached] = {}
        """Calls in regions whose callees are out of sight, by the name of the method."""

    # entry points --------------------------------------------------------------------------------------------

    def run_module(self, file: ProjectFile) -> None:
        """Walks the statements of a file as a script does."""
        outline = file.outline.module
        assert outline is not None
        path = self._start(file)
        walker: Walker | None = None
        paths = [path]
        scope: Scope | None = None
        try:
            for first, last in file.outline.chunks:
                piece = file.slice(first, last)
                if walker is None or scope is None:
                    scope = Scope(file, piece, outline)
                    walker = Walker(self, scope, path)
                # names defined so far stay; only the text changes
                scope.slice = piece
                walker.scope = scope = _with_slice(scope, piece)
                paths = walker.run_block(piece.body, paths)
            if walker is not None and scope is not None:
                self._finish(walker, scope, paths)
        except OutOfBudget:
            return

    def run_function(
        self,
        file: ProjectFile,
        outline: FunctionOutline,
        *,
        assumed: bool = False,
        reached: Reached | None = None,
    ) -> None:
        """Walks a function or method with unknown arguments. ``assumed``: inside an enabled region, which
        code that switches autocast off must expect around it. ``reached``: as by that call, in its region."""
        node, piece = self.parsed(file, outline)
        if node is None:
            return
        path = self._start(file)
        calls_before = () if reached is None else (reaching.place_of(reached),)
        scope = Scope(
            file, piece, outline, calls=calls_before, chain=("root", file.display, outline.qualified)
        )
        walker = Walker(self, scope, path)
        if reached is not None:
            self.budget.limit = MAX_ASSUMED_STEPS
            path.enter(reaching.region_of(reached))
        try:
            self._run_root(walker, scope, file, outline, node, path, assumed)
        except OutOfBudget:
            return

    def _run_root(
        self,
        walker: Walker,
        scope: Scope,
        file: ProjectFile,
        outline: FunctionOutline,
        node: cst.FunctionDef,
        path: Path,
        assumed: bool,
    ) -> None:
        given = calls.Arguments(unclear=True)
        if outline.owner is not None and "staticmethod" not in self.decorators(file, outline):
            owner = self.class_value(file, outline.owner)
            # the constructor itself is walked on an object that has no attributes yet
            bare = outline.name == "__init__"
            receiver = Instance(("self", id(outline.owner)) if bare else self.template(owner, None), owner)
            scope.self_value = receiver
            given = given.after(receiver)
        place = walker.place(node.name)
        if assumed:
            self.budget.limit = MAX_ASSUMED_STEPS
            path.enter(contexts.assumed_around(place, self.device))
        walker.active.append(outline)
        calls.bind_parameters(walker, path, node.params, given, scope)
        decorators = node.decorators
        around: list[Value] = []
        if decorators:
            module_scope = Scope(file, scope.slice, None)
            walker.scope = module_scope
            names = path.enter_scope({})
            scripted = False
            for decorator in decorators:
                value = walker.evaluate(decorator.decorator)
                found = self._context_of(walker, value)
                if found is not None:
                    around.append(found)
                    calls.tell_of_decorated(walker, found, node, decorator, scripted=scripted)
                scripted = scripted or value == Library("torch.jit.script")
            path = walker.path
            path.enter_scope(names)
            walker.scope = scope
        opened = [contexts.enter(walker, context, node)[0] for context in around]
        paths = walker.run_suite(node.body, [walker.path if around else path])
        for way in [*paths, *(way for way, _ in scope.returns)] if around else ():
            walker.path = way
            for part in reversed(opened):
                contexts.close(walker, part, node)
        self._finish(walker, scope, paths)

    def _context_of(self, walker: Walker, decorator: Value) -> Value | None:
        """The context that a decorator puts around each call, or None."""
        dummy = FunctionValue(walker.scope.file, None, None, None, undecorated=True)
        made = calls.apply_decorator(walker, decorator, dummy, cst.Decorator(cst.Name("_")))
        from amplint.flow.values import Decorated

        if isinstance(made, Decorated) and made.function == dummy:
            return made.context
        return None

    def _start(self, file: ProjectFile) -> Path:
        self._entry = file.path
        self.budget = Budget(MAX_STEPS, MAX_LAST_STEPS)
        self.latest.clear()
        self.walks.clear()
        self.entered.clear()
        self.scalers_made.clear()
        self.stepped.clear()
        self.unscaled.clear()
        self.unscaled_of_many.clear()
        self.trained_by_framework = False
        path = Path(self.base)
        path.machines = self.listener.start()
        return path

    def _finish(self, walker: Walker, scope: Scope, paths: list[Path]) -> None:
        """Walks the functions that were defined inside and never called, then ends each path."""
        ends = merge([*paths, *(way for way, _ in scope.returns)])
        for function in list(scope.defined.values()):
            start = (ends[0] if ends else walker.path).fork()
            start.regions = ()
            walker.scope = scope
            walker.explore(
                start,
                lambda function=function: calls.invoke(  # type: ignore[misc]
                    walker, _plain(function), calls.Arguments(unclear=True), function.node
                ),
            )
        checkpoints.walk_savers(walker, scope, ends)
        outline = scope.outline
        assert outline is not None
        end = Span(outline.end_line, 1, outline.end_line, 1)
        for way in ends:
            walker.scope = scope
            walker.path = way
            place = Place(scope.file.display, ("end", id(outline)), lambda: end, lambda: "")
            walker.emit(FunctionEnded(place, way.regions))

    # text ----------------------------------------------------------------------------------------------------

    def parsed(self, file: ProjectFile, outline: FunctionOutline) -> tuple[cst.FunctionDef | None, Slice]:
        """A function parsed with LibCST."""
        piece = file.slice(outline.line, outline.end_line)
        node = next((part for part in piece.body if isinstance(part, cst.FunctionDef)), None)
        return node, piece

    def decorators(self, file: ProjectFile, outline: FunctionOutline) -> tuple[str, ...]:
        """The decorators of a function as written, without ``@`` and arguments."""
        if not outline.decorated:
            return ()
        known = self._decorators.get(id(outline))
        if known is None:
            names: list[str] = []
            for line in file.lines[outline.line - 1 : outline.end_line]:
                text = line.strip()
                if text.startswith(("def ", "async def ")):
                    break
                if text.startswith("@"):
                    names.append(text[1:].split("(")[0].split("#")[0].strip())
            known = self._decorators[id(outline)] = tuple(names)
        return known

    def is_property(self, method: FunctionValue) -> bool:
        """Whether a method is read like an attribute."""
        if method.outline is None:
            return False
        names = self.decorators(method.file, method.outline)
        return any(name.rpartition(".")[2] in ("property", "cached_property") for name in names)

    def is_cached(self, function: FunctionValue) -> bool:
        """Whether a function keeps what it returned, and returns it again."""
        if function.outline is None:
            return False
        names = self.decorators(function.file, function.outline)
        return any(name.rpartition(".")[2] in _CACHES for name in names)

    def is_made_anew(self, value: ClassValue) -> bool:
        """Whether a call of a class surely makes another object: nothing in sight may hand out the first one."""
        return not any(
            isinstance(base, ClassValue)
            and ("__new__" in base.outline.methods or _MAY_KEEP.match(base.file.text_of(base.outline)))
            for base in self.bases(value)
        )

    def is_static(self, method: FunctionValue) -> bool:
        """Whether a method takes no ``self``."""
        return method.outline is not None and "staticmethod" in self.decorators(method.file, method.outline)

    def is_class_method(self, method: FunctionValue) -> bool:
        """Whether a method takes the class."""
        return method.outline is not None and "classmethod" in self.decorators(method.file, method.outline)

    def is_read(self, scope: Scope, name: str) -> bool:
        """Whether a name occurs anywhere but where it is set. Names of a module may be read from elsewhere."""
        if scope.outline is None or scope.outline.name == "<module>" or name in scope.globals:
            return True
        return len(re.findall(rf"\b{re.escape(name)}\b", scope.slice.text)) > 1

    def kind_of(self, uses: set[str]) -> str | None:
        """See kinds.kind_of."""
        return kinds.kind_of(uses)

    # names ---------------------------------------------------------------------------------------------------

    def global_value(self, file: ProjectFile, name: str) -> Value | None:
        """What a name of a file stands for, or None if the file does not bind it."""
        key = (file.display, name)
        if key in self._globals:
            return self._globals[key]
        self._globals[key] = UNKNOWN
        found = self._find_global(file, name)
        self._globals[key] = found
        return found

    member = global_value

    def _find_global(self, file: ProjectFile, name: str) -> Value | None:
        outline = file.outline
        options = [
            value
            for first, last in outline.assigned.get(name, [])[:4]
            if (value := self._evaluate_lines(file, first, last, name)) is not None
        ]
        if options and any(not isinstance(value, Unknown) for value in options):
            return join_values([(value, frozenset()) for value in options])
        if name in outline.functions:
            return self.function_value(file, outline.functions[name])
        if name in outline.classes:
            return self.class_value(file, outline.classes[name])
        if name in outline.imports:
            return self.imported(file, outline.imports[name])
        if options:
            return join_values([(value, frozenset()) for value in options])
        if file.is_package:
            inner = self.project.find_module(f"{file.module}.{name}")
            loaded = self.project.load(inner) if inner is not None else None
            if loaded is not None:
                return Module(loaded)
        for star in outline.stars[:_MOST_STARS]:
            value = self._from_star(file, star, name)
            if value is not None:
                return value
        return None

    def _from_star(self, file: ProjectFile, star: str, name: str) -> Value | None:
        target = self.project.find_module(self.project.absolute(file, star), file)
        if target is None or not (
            target.name == "__init__.py" or name.encode() in self.project.bytes_of(target)
        ):
            return None
        loaded = self.project.load(target)
        if loaded is not None and loaded is not file:
            return self.global_value(loaded, name)
        return None

    def _evaluate_lines(self, file: ProjectFile, first: int, last: int, name: str) -> Value | None:
        """Walks one module-level statement, heard by nobody, for the value that it gives a name."""
        if last - first > 120:
            return Unknown((file.display, name))
        outline = file.outline.module
        try:
            piece = file.slice(first, last)
        except cst.ParserSyntaxError:
            return None
        walker = Walker(self, Scope(file, piece, outline), Path(self.base))
        walker.silent = True
        try:
            with self.budget.apart(MAX_CONSTRUCTOR_STEPS):
                ways = walker.run_block(piece.body, [walker.path])
        except OutOfBudget:
            return Unknown((file.display, name))
        values = [(bound(way.names[name]), frozenset(way.facts.items())) for way in ways if name in way.names]
        return join_values(values) if values else None

    def imported(self, file: ProjectFile, target: str) -> Value:
        """What an import binds: a module or a name of the project, or something outside."""
        name = self.project.absolute(file, target)
        path = self.project.find_module(name, file)
        if path is not None:
            loaded = self.project.load(path)
            return Module(loaded) if loaded is not None else Unknown(name)
        parent, _, last = name.rpartition(".")
        if parent:
            path = self.project.find_module(parent, file)
            if path is not None and (path != file.path or target.startswith(".")):
                lazy = Imported(path, last)
                if path.name == "__init__.py":
                    # a package often only hands on what one of its modules defines
                    package = self.project.load(path)
                    onward = package.outline.imports.get(last) if package is not None else None
                    if package is not None and onward is not None and onward != target:
                        return self.imported(package, onward)
                return self.reveal(lazy) if self.project.is_loaded(path) else lazy
        return attributes.library(name)

    def reveal(self, value: Value) -> Value:
        """What an imported name stands for; its file is read and outlined for that."""
        if not isinstance(value, Imported):
            return value
        loaded = self.project.load(value.path)
        if loaded is None:
            return Unknown(value.symbol)
        first, *rest = value.name.split(".")
        found = self.global_value(loaded, first)
        for part in rest:
            match found:
                case Module():
                    found = self.global_value(found.file, part)
                case Library():
                    found = attributes.library(f"{found.name}.{part}")
                case Imported():
                    found = self.reveal(Imported(found.path, f"{found.name}.{part}"))
                case ClassValue():
                    found = self.find_method(found, part) or self.class_attribute(found, part)
                case _:
                    found = None
        if isinstance(found, Imported) and found != value:
            found = self.reveal(found)
        return found if found is not None else Unknown(value.symbol)

    def own_role(self, file: ProjectFile, dotted: str) -> Role | None:
        """What the settings say of a name that is called: ``autocast-contexts`` and ``backward-functions``. A
        name with dots has to be the qualified one; methods are known by the last part."""
        root, _, rest = dotted.partition(".")
        for name, role in self.own_roles.get(dotted.rpartition(".")[2], ()):
            target = file.outline.imports.get(root)
            qualified = self.project.absolute(file, target) if target is not None else f"{file.module}.{root}"
            qualified = f"{qualified}.{rest}" if rest else qualified
            method = target is None and bool(rest)
            if "." not in name or method or qualified == name or qualified.endswith(f".{name}"):
                return role
        return None

    def class_value(self, file: ProjectFile, outline: ClassOutline) -> ClassValue:
        """The value of a class."""
        key = (file.display, outline.qualified)
        if key not in self._classes:
            self._classes[key] = ClassValue(file, outline)
        return self._classes[key]

    def function_value(self, file: ProjectFile, outline: FunctionOutline) -> FunctionValue:
        """The value of a function."""
        known = self._functions.get(id(outline))
        if known is None:
            known = FunctionValue(file, outline, undecorated=not outline.decorated)
            self._functions[id(outline)] = known
        return known

    # classes -------------------------------------------------------------------------------------------------

    def bases(self, value: ClassValue) -> list[ClassValue | Library]:
        """The classes that a class inherits from, itself first, as far as they can be found."""
        known = self._bases.get(id(value.outline))
        if known is not None:
            return known
        found: list[ClassValue | Library] = [value]
        self._bases[id(value.outline)] = found
        for base in value.outline.bases:
            resolved = self.resolve(value.file, base)
            if isinstance(resolved, ClassValue):
                found.extend(part for part in self.bases(resolved) if part not in found)
            elif isinstance(resolved, Library):
                found.append(resolved)
            elif base != "object":
                found.append(Library(f"<unresolved>.{base}"))
        return found

    def resolve(self, file: ProjectFile, dotted: str) -> Value | None:
        """A dotted name as a file means it."""
        first, *rest = dotted.split(".")
        value: Value | None = self.global_value(file, first)
        for part in rest:
            if isinstance(value, Alternatives):
                value = value.options[0][0]
            match value:
                case Imported():
                    value = Imported(value.path, f"{value.name}.{part}")
                case Module():
                    value = self.global_value(value.file, part)
                case Library():
                    value = attributes.library(f"{value.name}.{part}")
                case _:
                    return None
        if isinstance(value, Alternatives):
            value = value.options[0][0]
        return self.reveal(value) if value is not None else None

    def find_method(self, value: ClassValue, name: str, *, skip_own: bool = False) -> FunctionValue | None:
        """A method by the order of bases."""
        if not skip_own and name in value.outline.methods:
            return self.function_value(value.file, value.outline.methods[name])
        for base in self.bases(value)[1 if skip_own else 0 :]:
            if isinstance(base, ClassValue) and name in base.outline.methods:
                return self.function_value(base.file, base.outline.methods[name])
        return None

    def is_module_class(self, value: ClassValue) -> bool:
        """Whether a class is a torch module: it has a forward and inherits from something, or it inherits
        from a class of torch.nn."""
        if self.is_static_function_class(value):
            return False
        if "forward" in value.outline.methods and value.outline.bases:
            return True
        if not value.outline.bases:
            return False
        outside = [base.name for base in self.bases(value) if isinstance(base, Library)]
        if any(name.startswith("torch.nn.") for name in outside):
            return True
        return self.find_method(value, "forward") is not None and bool(outside)

    def is_static_function_class(self, value: ClassValue) -> bool:
        """Whether a class is a torch.autograd.Function."""
        if not any(base.endswith("Function") for base in value.outline.bases):
            return False
        return any(
            isinstance(base, Library)
            and base.name in ("torch.autograd.Function", "torch.autograd.function.Function")
            for base in self.bases(value)
        )

    def inner_functions(self, file: ProjectFile, outline: FunctionOutline) -> list[ClassValue]:
        """The autograd Functions that are defined inside a function."""
        known = self._inner.get(id(outline))
        if known is None:
            values = (self.class_value(file, part) for part in outline.classes())
            known = [value for value in values if self.is_static_function_class(value)]
            self._inner[id(outline)] = known
        return known

    def inherited_role(self, value: ClassValue, name: str) -> Role | None:
        """What a method does that a class has from a known class outside."""
        for base in self.bases(value):
            if isinstance(base, Library) and base.name in OBJECTS:
                role = OBJECTS[base.name].get(name)
                if role is not None:
                    return role
        return None

    def class_attribute(self, value: ClassValue, name: str) -> Value | None:
        """A name bound in the body of a class or its bases."""
        for base in self.bases(value):
            if isinstance(base, ClassValue) and base.outline.chunks:
                names = self._names_of_class(base)
                if name in names:
                    return names[name]
        return None

    def field_value(self, base: Instance, name: str) -> Value | None:
        """What a field of a dataclass, or of another class that is made like one, holds in an object: what it was
        made with, if that is in sight. None for what is no field."""
        assert base.made_of is not None
        parts = [part for part in self.bases(base.made_of) if isinstance(part, ClassValue)]
        if not any(name in part.outline.fields for part in parts):
            return None
        if any("__init__" in part.outline.methods for part in parts):
            return None
        given = self.pending.get(base.identity)
        changed = any(name in part.outline.assignments or self._fills_itself(part) for part in parts)
        if given is None or given.unclear or changed:
            return Unknown((base.identity, name), self.kind_of_attribute(base.made_of, name))
        order = tuple(dict.fromkeys(field for part in reversed(parts) for field in part.outline.fields))
        return given.by_name(order).get(name)

    def _fills_itself(self, value: ClassValue) -> bool:
        """Whether a dataclass takes other arguments than its fields, in their order, or changes what it was given."""
        known = self._filling.get(id(value.outline))
        if known is None:
            text = value.file.text_of(value.outline)
            known = self._filling[id(value.outline)] = _FILLS_ITSELF.search(text) is not None
        return known

    def _names_of_class(self, value: ClassValue) -> dict[str, Value]:
        known = self._class_names.get(id(value.outline))
        if known is not None:
            return known
        names: dict[str, Value] = {}
        self._class_names[id(value.outline)] = names
        for first, last in value.outline.chunks:
            if last - first > 80:
                continue
            piece = value.file.slice(first, last)
            walker = Walker(self, Scope(value.file, piece, None), Path(self.base))
            walker.silent = True
            try:
                for way in walker.run_block(piece.body, [walker.path]):
                    names.update((name, bound(value)) for name, value in way.names.items())
            except OutOfBudget:
                break
        return names

    def attribute_set_elsewhere(self, walker: Expressions, base: Instance, name: str) -> Value | None:
        """An attribute that another method than the constructor sets: the value of that one statement."""
        assert base.made_of is not None
        for part in self.bases(base.made_of):
            if not isinstance(part, ClassValue):
                continue
            places = part.outline.assignments.get(name)
            key = (id(part.outline), name)
            if not places or key in self._busy:
                continue
            self._busy.add(key)
            values: list[tuple[Value, frozenset[tuple[Hashable, bool]]]] = []
            for first, last in places[:3]:
                piece = part.file.slice(first, last)
                inner = Walker(self, Scope(part.file, piece, None, self_value=base), walker.path.fork())
                inner.silent = True
                inner.path.enter_scope({"self": base})
                try:
                    for way in inner.run_block(piece.body, [inner.path]):
                        value = way.load(base.identity, name)
                        if isinstance(value, Scaler) and _is_nested(part, first):
                            # it depends on conditions that nobody follows here
                            value = replace(value, enabled=None, switch=None)
                        if value is not None:
                            values.append((value, frozenset()))
                except OutOfBudget:
                    break
            self._busy.discard(key)
            if values:
                found = join_values(values)
                return found if not isinstance(found, Unknown) else None
        return None

    def kind_kept(self, value: ClassValue, name: str) -> str | None:
        """What an attribute is to which a method sets a local name, judged by what the method does with that."""
        key = (id(value.outline), name)
        if key not in self._kinds_kept:
            found = (
                self._kind_of_local(base.file, method, local)
                for base in self.bases(value)
                if isinstance(base, ClassValue)
                for method, local in base.outline.kept.get(name, ())
            )
            self._kinds_kept[key] = next((kind for kind in found if kind is not None), None)
        return self._kinds_kept[key]

    def kind_passed_on(self, file: ProjectFile, function: FunctionOutline, name: str) -> str | None:
        """What a parameter is, judged by all that the function does with it and by what the methods and functions
        of the file do to which it is handed on."""
        return self.kind_of(self._uses_of(file, function, name, 2))

    def _uses_of(self, file: ProjectFile, function: FunctionOutline, name: str, depth: int) -> set[str]:
        found = set(function.uses.get(name, ()))
        for target, key in function.passed.get(name, ()) if depth else ():
            callee = self._callee(file, function, target)
            if callee is None or callee is function:
                continue
            names = callee.parameters[1:] if target.startswith("self.") else callee.parameters
            if isinstance(key, str):
                taken = key if key in names else None
            else:
                taken = names[key] if key < len(names) else None
            if taken is not None:
                found |= self._uses_of(file, callee, taken, depth - 1)
        return found

    def _callee(self, file: ProjectFile, function: FunctionOutline, target: str) -> FunctionOutline | None:
        if not target.startswith("self."):
            return file.outline.functions.get(target)
        return function.owner.methods.get(target[5:]) if function.owner is not None else None

    def _kind_of_local(self, file: ProjectFile, method: FunctionOutline, name: str) -> str | None:
        kind = kinds.kind_of(method.uses.get(name, set()))
        if kind is None and any(
            isinstance(made, Library) and made.name in PARALLEL
            for made in (self.resolve(file, dotted) for dotted in method.made_by(name))
        ):
            return "module"
        return kind

    def is_of_unknown_age(self, instance: Instance) -> bool:
        """Whether an object is there when a walk begins: what happened to it since it was made is out of sight."""
        return instance.identity in self._recipes and not self._building

    def sets_later(self, value: ClassValue, name: str) -> bool:
        """Whether another method than the constructor sets an attribute to something else than None."""
        key = (id(value.outline), name)
        if key not in self._later:
            self._later[key] = any(
                not part.file.text_between(first, last).rstrip().endswith("= None")
                for part in self.bases(value)
                if isinstance(part, ClassValue)
                for first, last in part.outline.assignments.get(name, ())
            )
        return self._later[key]

    def is_none_at_first(self, value: ClassValue, name: str) -> bool:
        """Whether a constructor, of a class or of its bases, sets an attribute to None."""
        pattern = re.compile(rf"\bself\.{name}\s*(?::[^=\n]+)?=\s*None\b")
        return any(
            pattern.search(base.file.text_of(method)) is not None
            for base in self.bases(value)
            if isinstance(base, ClassValue) and (method := base.outline.methods.get("__init__")) is not None
        )

    def kind_of_attribute(self, value: ClassValue, name: str) -> str | None:
        """What the methods of a class show of an attribute."""
        kind = self.kind_of(value.outline.uses.get(f"self.{name}", set()))
        return kind or self.kind_kept(value, name)

    def template(self, value: ClassValue, given: calls.Arguments | None) -> Hashable:
        """The identity under which the attributes stand that a constructor sets when it is called like this."""
        arguments = given or calls.Arguments(unclear=True)
        positional = tuple(_generic(item) for item in arguments.positional)
        keywords = tuple((name, _generic(item)) for name, item in arguments.keywords)
        key = ("made", id(value.outline), positional, keywords, arguments.unclear)
        self._recipes.setdefault(key, (value, positional, keywords, arguments.unclear))
        return key

    def build(self, key: Hashable) -> None:
        """Walks the constructor of a template, once, heard by nobody; all objects made alike share what it
        leaves."""
        recipe = self._recipes.get(key)
        if recipe is None or key in self._templates:
            return
        value, positional, keywords, unclear = recipe
        self._templates.add(key)
        method = self.find_method(value, "__init__")
        if method is None or method.outline is None or len(self._building) > MAX_NESTING:
            return
        node, piece = self.parsed(method.file, method.outline)
        if node is None:
            return
        instance = Instance(key, value)
        scope = Scope(method.file, piece, method.outline, self_value=instance, chain=key)
        path = Path(self.base)
        walker = Walker(self, scope, path)
        walker.silent = True
        walker.active.append(method.outline)
        self._building.append(key)
        given = calls.Arguments(positional, keywords, unclear=unclear).after(instance)
        try:
            with self.budget.apart(MAX_CONSTRUCTOR_STEPS):
                calls.bind_parameters(walker, path, node.params, given, scope)
                ends = walker.run_suite(node.body, [walker.path])
                ends = merge([*ends, *(way for way, _ in scope.returns)])
                if ends:
                    left = dict(ends[0].heap)
                    if left.pop(modules.CASTS, None) is not None:
                        # of no interest to files that have nothing to do with it
                        self._casting.add(method.file.path)
                    self.base.update(left)
        except OutOfBudget:
            pass
        finally:
            self._building.pop()

    def may_hold_scaler(self, instance: Instance) -> bool:
        """Whether the file of an object's class, or of one that it inherits from, makes a scaler."""
        return instance.made_of is not None and any(
            isinstance(base, ClassValue) and self.holds(base.file.path, _SCALER)
            for base in self.bases(instance.made_of)
        )

    def attributes_of(self, path: Path, instance: Instance) -> dict[str, Value]:
        """The attributes of an object of the project that its constructor or a path has set."""
        template = self.template_for(instance)
        self.build(template)
        found: dict[str, Value] = {}
        for known in (self.base, path.heap):
            for (owner, name), value in known.items():
                if owner == instance.identity:
                    found[name] = value
                elif owner == template:
                    given = self.was_given(template, value)
                    found[name] = value if given else attributes.own(value, instance)
        return found

    def casts_in_constructors(self, file: ProjectFile) -> bool:
        """Whether a constructor casts modules, in this file or in that of the entry point."""
        return file.path in self._casting or self._entry in self._casting

    @property
    def is_building(self) -> bool:
        """Whether a constructor is being walked for a template."""
        return bool(self._building)

    def may_set(self, value: ClassValue, name: str) -> bool:
        """Whether a constructor, of a class or of its bases in files that were read, mentions an attribute."""
        pattern = re.compile(rf"\bself\.{name}\b|[\"']{name}[\"']")
        for base in self.bases(value):
            if isinstance(base, ClassValue):
                method = base.outline.methods.get("__init__")
                if method is not None:
                    text = base.file.text_of(method)
                    if pattern.search(text) or "setattr(" in text or _SETS_UP.search(text):
                        return True
        return False

    def identity_of_new(self, identity: Hashable, value: ClassValue, given: calls.Arguments) -> Hashable:
        """The identity of an object that is made now: its own, where another way makes it with other arguments."""
        known = self.pending.get(identity)
        if known is not None and known != given:
            template = self.template(value, given)
            if self.template(value, known) != template:
                identity = (identity, template)
        self.pending[identity] = given
        return identity

    def template_for(self, instance: Instance) -> Hashable:
        """The template of an object, made if need be."""
        known = self._made_like.get(instance.identity)
        if known is None:
            assert instance.made_of is not None
            known = instance.identity
            if known not in self._recipes:
                known = self.template(instance.made_of, self.pending.get(instance.identity))
            self._made_like[instance.identity] = known
        return known

    def was_given(self, template: Hashable, value: Value) -> bool:
        """Whether the constructor got a value as an argument."""
        _, positional, keywords, _ = self._recipes.get(template, (None, (), (), False))
        return value in positional or any(value == item for _, item in keywords)

    def template_of(self, identity: Hashable) -> Hashable:
        """The template of an object that was made of a class of the project, or the identity itself."""
        return self._made_like.get(identity, identity)

    def call_property(
        self, walker: Expressions, base: Instance, method: FunctionValue, node: cst.CSTNode
    ) -> Value:
        """The value of a property."""
        outline = method.outline
        always = outline is not None and outline.hands_on
        return calls.invoke(walker, method, calls.Arguments.of(base), node, always=always)

    def annotated(self, walker: Expressions, node: cst.BaseExpression, identity: Hashable) -> Value | None:
        """What a parameter's annotation says of it."""
        dotted = attributes.dotted_name(node)
        if dotted is None and isinstance(node, cst.SimpleString):
            dotted = str(node.raw_value)
        if dotted is None or not re.fullmatch(r"[\w.]+", dotted):
            return None
        root = self.global_value(walker.scope.file, dotted.partition(".")[0])
        if isinstance(root, Imported) and not self.file_matters(root.path, forward=True):
            return None
        value = self.resolve(walker.scope.file, dotted)
        match value:
            case ClassValue() if not value.outline.name.startswith("_"):
                return Instance(identity, value)
            case Library() if value.name in ("torch.nn.Module", "torch.nn.parallel.DistributedDataParallel"):
                return Unknown(identity, "module")
            case Library() if value.name in SCALERS:
                return Unknown(identity, "scaler")
            case Library() if value.name.startswith("torch.optim.") and ".lr_scheduler" not in value.name:
                return Unknown(identity, "optimizer")
            case Library() if value.name in OBJECTS:
                return Instance(identity, None, value.name)
        return None

    # functions -----------------------------------------------------------------------------------------------

    def decorated(self, walker: Expressions, function: FunctionValue) -> Value:
        """A function of a file with its decorators applied."""
        outline = function.outline
        if outline is None:
            return function
        known = self._decorated.get(id(outline))
        if known is not None:
            return known
        node, piece = self.parsed(function.file, outline)
        plain = FunctionValue(function.file, outline, undecorated=True)
        if node is None:
            return plain
        self._decorated[id(outline)] = plain
        caller, names = walker.scope, walker.path.names
        walker.scope = Scope(function.file, piece, None)
        walker.path.enter_scope({})
        silent, walker.silent = walker.silent, True
        try:
            value = calls.decorate(walker, plain, node.decorators)
        finally:
            walker.scope, walker.silent = caller, silent
            walker.path.leave_scope(names)
        self._decorated[id(outline)] = value
        return value

    def worth_following(self, walker: Expressions, function: FunctionValue, given: calls.Arguments) -> bool:
        """Whether a call can matter: inside a region, with half-precision operands or AMP objects as arguments,
        or to a function whose text has an effect on AMP."""
        assert function.outline is not None
        depth = len(walker.active)
        if depth > 5:
            return False
        if self._building and depth <= 3:
            return self._builds(function)
        regions = walker.path.regions
        if regions and (depth <= 3 or not regions[0].assumed):
            return True
        if _carries_amp(given) or self.has_effects(function):
            return True
        lines = function.outline.end_line - function.outline.line
        return (
            depth <= 3
            and lines <= _SMALL
            and (self._carries_modules(walker, function, given) or self._takes_state(function))
        )

    def _builds(self, function: FunctionValue) -> bool:
        known = self._building_parts.get(id(function.outline))
        if known is None:
            known = any(_BUILDS.search(text) for text in self._constructors(function))
            self._building_parts[id(function.outline)] = known
        return known

    def _constructors(self, function: FunctionValue) -> Iterator[str]:
        """The text of a function and, if it is a constructor, of those of the base classes, which it may call."""
        outline = function.outline
        assert outline is not None
        yield function.file.text_of(outline)
        if outline.name == "__init__" and outline.owner is not None:
            for base in self.bases(self.class_value(function.file, outline.owner))[1:]:
                if isinstance(base, ClassValue) and "__init__" in base.outline.methods:
                    yield base.file.text_of(base.outline.methods["__init__"])

    def _takes_state(self, function: FunctionValue) -> bool:
        known = self._taking.get(id(function.outline))
        if known is None:
            known = self._taking[id(function.outline)] = checkpoints.takes_state(function)
        return known

    def _carries_modules(self, walker: Expressions, function: FunctionValue, given: calls.Arguments) -> bool:
        assert function.outline is not None
        own = given.positional[1:] if function.outline.owner is not None else given.positional
        return any(
            isinstance(value, Parameters) or modules.is_module(walker, value)
            for value in (*own, *(value for _, value in given.keywords))
        )

    def file_matters(self, path: FilePath, *, forward: bool = False) -> bool:
        """Whether a file that is not loaded yet holds anything that touches AMP, or a forward."""
        if self.project.is_loaded(path):
            return True
        return self.holds(path, _FILE_EFFECTS) or (forward and self.holds(path, _FORWARD))

    def touching(self, path: FilePath) -> set[bytes]:
        """See survey.names_that_touch. The answer is kept."""
        known = self._touching.get(path)
        if known is None:
            known = self._touching[path] = names_that_touch(self.project.bytes_of(path))
        return known

    def kinds_restored(self, file: ProjectFile) -> frozenset[str | None]:
        """See checkpoints.kinds_restored. The answer is kept."""
        known = self._restored.get(file.path)
        if known is None:
            known = self._restored[file.path] = checkpoints.kinds_restored(file)
        return known

    def holds(self, path: FilePath, pattern: re.Pattern[bytes]) -> bool:
        """Whether a pattern occurs in the bytes of a file. The answer is kept."""
        key = (path, pattern)
        known = self._held.get(key)
        if known is None:
            known = self._held[key] = pattern.search(self.project.bytes_of(path)) is not None
        return known

    def scaler_in_reach(self, scope: Scope, *, inside: bool = False) -> bool:
        """Whether the files on the way to a scope mention anything that scales losses, or a class on it inherits
        from one out of sight, which may do so. ``inside``: a region is open all the way, so that what the
        functions on it do is what its author meant for training in half precision."""
        part: Scope | None = scope
        while part is not None:
            if self._scales(part.file.path) and not (inside and self._leaves_losses(part)):
                return True
            owner = part.self_value.made_of if isinstance(part.self_value, Instance) else None
            if owner is not None:
                for base in self.bases(owner):
                    if isinstance(base, Library) and not base.name.startswith(_HARMLESS_BASES):
                        return True
                    if (
                        isinstance(base, ClassValue)
                        and base.file.path != part.file.path
                        and self._scales(base.file.path)
                    ):
                        return True
            part = part.reached_from or part.outer
        return False

    def _scales(self, path: FilePath) -> bool:
        """Whether a file mentions anything that scales losses, but for a gradient scaler that nobody uses."""
        known = self._scaling.get(path)
        if known is None:
            data = self.project.bytes_of(path)
            known = _SCALING.search(data) is not None and _SCALING.search(_IDLE.sub(b"", data)) is not None
            self._scaling[path] = known
        return known

    def _leaves_losses(self, scope: Scope) -> bool:
        """Whether the text of a function mentions nothing that scales losses."""
        outline = scope.outline
        if outline is None or scope.is_module:
            return False
        return _SCALING.search(scope.file.text_of(outline).encode()) is None

    def region_in_reach(self, scope: Scope) -> bool:
        """Whether the files on the way to a scope, or project files that they import, mention autocast or half
        precision, or a class on it inherits from one out of sight."""
        part: Scope | None = scope
        while part is not None:
            owner = part.self_value.made_of if isinstance(part.self_value, Instance) else None
            if owner is not None and any(
                isinstance(base, Library) and not base.name.startswith(_HARMLESS_BASES)
                for base in self.bases(owner)
            ):
                return True
            if self._mentions_half(part.file, 2):
                return True
            part = part.reached_from or part.outer
        return False

    def _mentions_half(self, file: ProjectFile, depth: int) -> bool:
        if self.holds(file.path, _LOW_PRECISION):
            return True
        if not depth:
            return False
        for target in file.outline.imports.values():
            name = self.project.absolute(file, target)
            path = self.project.find_module(name, file)
            if path is None:
                path = self.project.find_module(name.rpartition(".")[0], file)
            if path is None or path == file.path:
                continue
            loaded = self.project.load(path)
            if loaded is not None and self._mentions_half(loaded, depth - 1):
                return True
        return False

    def worth_revealing(self, walker: Expressions, value: Imported, given: calls.Arguments) -> bool:
        """Whether a call to a name of a file that is not loaded yet can matter."""
        if walker.path.regions or _carries_amp(given):
            return True
        if self.project.is_loaded(value.path) or value.path.name == "__init__.py":
            return True
        first = value.name.partition(".")[0]
        if first[:1].isupper() and self.holds(value.path, _FORWARD):
            return True  # it may be the class of a module
        known = self._effective.get(value.path)
        if known is None:
            known = self._effective[value.path] = names_with_effects(self.project.bytes_of(value.path))
        return first.encode() in known

    def has_effects(self, function: FunctionValue, depth: int = 0) -> bool:
        """Whether the text of a function, or of those of its file that it calls, touches AMP."""
        outline = function.outline
        assert outline is not None
        known = self._effects.get(id(outline))
        if known is not None:
            return known
        self._effects[id(outline)] = False
        found = _EFFECTS.search(function.file.text_of(outline)) is not None
        if not found and depth < 3:
            names = function.file.outline
            for name in outline.called:
                inner: FunctionOutline | None = None
                if name.startswith("self.") and outline.owner is not None:
                    inner = outline.owner.methods.get(name[5:])
                elif name in names.functions:
                    inner = names.functions[name]
                elif name in names.classes:
                    inner = names.classes[name].methods.get("__init__")
                if inner is not None and self.has_effects(
                    self.function_value(function.file, inner), depth + 1
                ):
                    found = True
                    break
        self._effects[id(outline)] = found
        return found

    # torch versions ------------------------------------------------------------------------------------------

    def compare_torch(self, sign: str, other: Value) -> bool | None:
        """``torch.__version__ sign other`` where it is the same for all versions that the project allows."""
        version: tuple[int, ...] | None = None
        if isinstance(other, Constant) and isinstance(other.value, str):
            version = parse(other.value)
        return compare(self.torch, sign, version) if version is not None else None

    def torch_has(self, owner: str, name: str) -> bool | None:
        """Whether a torch module has a name in all versions that the project allows."""
        first = since(f"{owner}.{name}")
        return compare(self.torch, ">=", first) if first is not None else None


def _is_nested(owner: ClassValue, line: int) -> bool:
    """Whether a statement of a method stands in a block of it."""
    for method in owner.outline.methods.values():
        if method.line <= line <= method.end_line and method.body:
            text = owner.file.lines[line - 1]
            return len(text) - len(text.lstrip()) > method.body[0].col_offset
    return False


def _carries_amp(given: calls.Arguments) -> bool:
    return any(
        (isinstance(value, Tensor) and value.is_half)
        or isinstance(value, (Autocast, Scaler, Optimizer, ScaledLoss, FunctionValue, StateDict))
        or (isinstance(value, Mapping) and any(isinstance(item, StateDict) for _, item in value.items))
        for value in given.all
    )


def _generic(value: Value) -> Value:
    """An argument as far as a constructor's template goes: unknown ones are all alike."""
    return Unknown(None, value.kind) if isinstance(value, Unknown) else value


def _plain(function: FunctionValue) -> FunctionValue:
    return FunctionValue(function.file, function.outline, function.node, function.scope, undecorated=True)


def _with_slice(scope: Scope, piece: Slice) -> Scope:
    made = Scope(scope.file, piece, scope.outline, chain=scope.chain)
    made.returns, made.defined, made.globals = scope.returns, scope.defined, scope.globals
    return made


def entry_points(engine: Engine, file: ProjectFile) -> Iterator[tuple[FunctionOutline, bool]]:
    """The functions of a file that are walked on their own, and whether inside an assumed region. The module
    body comes first, if it has to do with AMP."""
    outline = file.outline
    tokens = re.compile(REGIONS_AND_SCALERS)
    casts = re.compile(HALF_CASTS)
    if not casts.search(file.text) or not re.search(TRAINING, file.text):
        casts = re.compile(r"(?!)")
    named = {name for name, value in outline.imports.items() if tokens.search(value)}
    named |= {name for name, value in outline.imports.items() if _imports_amp(engine, file, value)}
    named |= engine.own_roles.keys()
    named |= {
        name
        for name, places in outline.assigned.items()
        if any(tokens.search(file.text_between(first, last)) for first, last in places)
    }
    stored = set(_STORED.findall(file.text))
    mentions = re.compile(
        r"\b(?:"
        + "|".join(sorted(map(re.escape, named)) or ["(?!)"])
        + rf")\b|{REGIONS_AND_SCALERS}"
        + "".join(rf"|\bself\.{name}\b" for name in sorted(stored))
    )

    def bears(part: FunctionOutline) -> bool:
        text = file.text_of(part)
        return bool(mentions.search(text) or casts.search(text))

    bearing = [part for part in outline.definitions() if bears(part)]
    chosen = {id(part) for part in bearing}
    names = {part.name for part in bearing if part.owner is None}
    names |= {
        part.owner.name
        for part in bearing
        if part.owner is not None and part.name in ("__init__", "__enter__")
    }
    calling = re.compile(r"(?<![.\w])(?:" + "|".join(sorted(names) or ["(?!)"]) + r")\(")
    methods: dict[int, list[str]] = {}
    for part in bearing:
        if part.owner is not None:
            is_read = part.decorated and "property" in engine.decorators(file, part)
            call = f"self.{part.name}." if is_read else f"self.{part.name}("
            methods.setdefault(id(part.owner), []).append(call)
    casting = {
        id(part.owner) for part in bearing if part.owner is not None and casts.search(file.text_of(part))
    }
    if outline.module is not None and outline.chunks:
        text = "".join(file.text_between(first, last) for first, last in outline.chunks)
        if _SCRIPT.search(text) or mentions.search(text) or calling.search(text):
            yield outline.module, False
    for part in outline.definitions():
        text = file.text_of(part)
        if (
            id(part) in chosen
            or calling.search(text)
            or any(call in text for call in methods.get(id(part.owner), ()))
            or (id(part.owner) in casting and _CLASS_EFFECTS.search(text))
        ):
            yield part, False
    for part in _around_disabled(engine, file):
        yield part, True


def _imports_amp(engine: Engine, file: ProjectFile, target: str) -> bool:
    """Whether an import binds a function of the project that touches AMP."""
    parent, _, name = engine.project.absolute(file, target).rpartition(".")
    path = engine.project.find_module(parent, file) if parent else None
    if path is None or path == file.path:
        return False
    if path.name == "__init__.py":
        loaded = engine.project.load(path)
        if loaded is None:
            return False
        stars = loaded.outline.stars[:_MOST_STARS]
        handed_on = [loaded.outline.imports.get(name), *(f"{star}.{name}" for star in stars)]
        return any(
            _imports_amp(engine, loaded, onward) for onward in handed_on if onward not in (None, target)
        )
    return name.encode() in engine.touching(path)


def _around_disabled(engine: Engine, file: ProjectFile) -> Iterator[FunctionOutline]:
    """The forwards of modules that switch autocast off, and of those built of such modules."""
    outline = file.outline
    makers = _disabling(engine, file)
    for local, target in outline.imports.items():
        parent, _, name = engine.project.absolute(file, target).rpartition(".")
        path = engine.project.find_module(parent, file) if parent else None
        if path is None or path == file.path or not _switches_off(engine, path):
            continue
        loaded = engine.project.load(path)
        if loaded is not None and name in _disabling(engine, loaded):
            makers = makers | {local}
    if not makers and not _DISABLING.search(file.text):
        return
    for owner in outline.classes.values():
        forward = owner.methods.get("forward")
        if forward is None:
            continue
        built = owner.methods.get("__init__")
        parts = built.called if built is not None else frozenset()
        own = _DISABLING.search(file.text_of(owner)) is not None
        if own or owner.name in makers or parts & makers or forward.called & makers:
            yield forward


def _switches_off(engine: Engine, path: FilePath) -> bool:
    return engine.holds(path, _AMP) and engine.holds(path, _DISABLING_BYTES)


def _disabling(engine: Engine, file: ProjectFile) -> frozenset[str]:
    """The classes and functions of a file that switch autocast off without casting right there, and the
    functions that build such classes."""
    known = engine.disabling.get(file.path)
    if known is None:
        outline = file.outline
        found: set[str] = set()
        if _DISABLING.search(file.text):
            found |= {owner.name for owner in outline.classes.values() if _leaves_types(file.text_of(owner))}
            found |= {part.name for part in outline.functions.values() if _leaves_types(file.text_of(part))}
            if found:
                calling = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(found))) + r")\(")
                found |= {
                    name for name, part in outline.functions.items() if calling.search(file.text_of(part))
                }
        known = engine.disabling[file.path] = frozenset(found)
    return known


def _leaves_types(text: str) -> bool:
    """Whether a text switches autocast off somewhere with no cast in the lines below."""
    for found in _DISABLING.finditer(text):
        below = "\n".join(text[found.end() :].split("\n", 9)[:9])
        if not _CAST.search(below):
            return True
    return False
