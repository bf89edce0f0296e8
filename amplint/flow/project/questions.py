"""What rules may ask of a project, about the code around an event: see Context in amplint.rules.context.

Answers come from facts: the registered keys that the code on the way to an event meets, by resolved names and methods,
and the statements in which its objects are made. Where something there is out of sight, the answer is the one that
keeps a rule silent.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Iterator, Sequence

from amplint.amp.packages import PLAIN
from amplint.amp.scalers import SCALERS
from amplint.amp.tokens import HALF
from amplint.events import (
    Backward,
    Event,
    Place,
    Rounds,
    ScalerAtHand,
    ScalerUsed,
    StateLoaded,
    StateSaved,
    enabled_region,
)
from amplint.findings import Span
from amplint.flow.core.registry import About, Kind, Weight
from amplint.flow.project import settings
from amplint.flow.project.callsites import Site, call_sites
from amplint.flow.project.counting import rounds_of
from amplint.flow.project.edges import Definition
from amplint.flow.project.lifetimes import is_anew_in_each_round, is_for_one_step
from amplint.flow.project.meanings import UNSEEN
from amplint.flow.project.resuming import Resuming
from amplint.flow.project.stack import StackFrame, Stacks, column, node_at, scopes_in
from amplint.flow.project.view import View
from amplint.flow.state.symbols import AT, COMPUTED, Symbol, made_from
from amplint.flow.state.values import ClassValue, External, FunctionValue
from amplint.source.bodies import Body, Call, Store
from amplint.source.facts import facts_of
from amplint.source.outline import FunctionOutline, dotted
from amplint.source.project import ProjectFile

SCALES = "scales losses"
"""The tag of keys that may scale a loss, or make an object that may: ``scaler.scale``, ``accelerate.Accelerator``."""
UNSCALES = "unscales gradients"
"""The tag of keys that divide gradients by the scale: ``scaler.unscale_``."""
_HARMLESS = (
    "torch.nn.",
    "torch.utils.data.",
    "builtins.",
    "abc.",
    "typing.",
    "enum.",
    "dataclasses.",
    "collections.",
)
"""Classes outside that scale nothing and run nothing in half precision, and neither does what derives from them."""
_GRADIENTS = (".grad", ".grad.data")
_SCALED = frozenset({"mul_", "div_", "copy_"})
"""Methods by which code changes a gradient by hand."""


class Questions:
    """Answers from the facts of a project."""

    def __init__(self, view: View, kinds: Sequence[Kind]) -> None:
        self._view = view
        self._effects = view.effects
        self._stacks = Stacks(view.edges)
        self._edges = view.edges
        self._resuming = Resuming(view, self._stacks, kinds)
        self._by_hand: dict[Definition, bool] = {}
        self._scalers: dict[tuple[ProjectFile, FunctionOutline], list[ScalerAtHand]] = {}

    # what may scale, unscale and run in half precision

    def scaler_may_exist(self, event: Event) -> bool:
        """Whether code on the way may scale losses. Inside a region what the functions that are being run do themselves
        is what their author meant for training in half precision."""
        stack = self._stacks.at(event.place)
        if not stack:
            return True
        parts: tuple[Definition, ...] = self._stacks.definitions(stack)
        if enabled_region(event.regions) is None:
            parts = (*parts, *self._stacks.reached(self._stacks.definitions(stack[:1])))
        return any(SCALES in self._effects.own(part).tags or self._scales_by_hand(part) for part in parts)

    def half_may_exist(self, event: Event) -> bool:
        """Whether code on the way may run in half precision. What an entry point is given may, and what is made by
        packages of which nothing is known."""
        stack = self._stacks.at(event.place)
        if not stack or self._is_foreign(stack) or self._takes_from_outside(stack[-1]):
            return True
        return any(self._may_be_half(part) for part in self._stacks.reached(self._stacks.with_objects(stack)))

    def may_be_unscaled(self, event: ScalerUsed) -> bool:
        """Whether code on the way unscales gradients, of whichever optimizer."""
        if event.act == "unscale_":
            return False
        own = self._stacks.reached(self._stacks.definitions(self._stacks.at(event.place)))
        return any(UNSCALES in self._effects.own(part).tags for part in own)

    def may_be_scaled(self, event: Backward) -> bool:
        """Whether the loss is a parameter of what is entered, of which no caller is in sight."""
        outermost = next(iter(event.place.calls), event.place)
        return _is_given(event.loss, outermost)

    def _is_foreign(self, stack: Iterable[StackFrame]) -> bool:
        """Whether an object on the stack inherits methods that are out of sight."""
        return any(not name.startswith(_HARMLESS) for name in self._stacks.outside_bases(stack))

    def _scales_by_hand(self, part: Definition) -> bool:
        """Whether a function multiplies gradients itself: ``p.grad /= scale``."""
        known = self._by_hand.get(part)
        if known is None:
            known = isinstance(part, FunctionValue) and any(map(_changes_gradients, _bodies(part)))
            self._by_hand[part] = known
        return known

    def _takes_from_outside(self, frame: StackFrame) -> bool:
        """Whether an entry point is given anything: a parameter, or an object that was made with something."""
        outermost = frame.functions[-1]
        own = outermost.parameters
        if outermost.owner is None:
            return bool(own)
        owner = ClassValue(frame.file, outermost.owner)
        constructor = self._edges.classes.find_method(owner, "__init__")
        outline = constructor.outline if constructor is not None else None
        return len(own) > 1 or (outline is not None and len(outline.parameters) > 1)

    def _may_be_half(self, part: Definition) -> bool:
        steps = self._edges.of(part)
        keys = self._effects.keys
        for name in steps.outside:
            if name.startswith(UNSEEN) or name.partition(".")[0] not in PLAIN:
                return True
            scaler = any(name == one or name.startswith(f"{one}.") for one in SCALERS)
            if not scaler and _is_half(keys.of_name(name)):
                return True
        return any(_is_half(keys.of_method(name)) for name in steps.methods)

    # the scaler that is there

    def scaler_at_hand(self, event: Backward) -> ScalerAtHand | None:
        """A scaler in a name of the function or of the object whose method it is, where nothing else may scale."""
        stack = self._stacks.at(event.place)
        if not stack or self.scaler_may_exist(event):
            return None
        return self._at_hand(stack)

    def _at_hand(self, stack: tuple[StackFrame, ...]) -> ScalerAtHand | None:
        frame = stack[0]
        for part in (*frame.functions, frame.file.outline.module):
            if part is None:
                continue
            for found in self._scalers_in(frame.file, part):
                if "." not in found.name or part is frame.function:
                    return found
        return self._held(frame) or self._handed_in(stack)

    def _scalers_in(self, file: ProjectFile, scope: FunctionOutline) -> list[ScalerAtHand]:
        """The scalers that a definition gives names to."""
        known = self._scalers.get((file, scope))
        if known is None:
            stores = facts_of(file.outline).of(scope).body.stores
            made = ((name, self._scaler_made(file, scope, stored)) for name, stored in stores.items())
            known = [ScalerAtHand(name, place) for name, place in made if place is not None]
            self._scalers[file, scope] = known
        return known

    def _scaler_made(
        self, file: ProjectFile, scope: FunctionOutline, stores: Iterable[Store]
    ) -> Place | None:
        """Where a scaler is made that is not off, if that is what is stored."""
        for store in stores:
            value = store.value
            if not isinstance(value, ast.Call):
                continue
            made = self._edges.made_by(file, value, scope)
            if isinstance(made, External) and made.name in SCALERS and not _is_off(value):
                return _place(file, value)
        return None

    def _held(self, frame: StackFrame) -> ScalerAtHand | None:
        """A scaler among the attributes of the object whose method is run: ``self.scaler``."""
        for part in frame.functions:
            if part.owner is None or not part.parameters:
                continue
            for base in self._edges.classes.bases(ClassValue(frame.file, part.owner)):
                if isinstance(base, ClassValue):
                    found = self._kept_by(base, part.parameters[0])
                    if found is not None:
                        return found
        return None

    def _kept_by(self, value: ClassValue, own: str) -> ScalerAtHand | None:
        for method in self._edges.classes.methods(value).values():
            outline = method.outline
            if outline is None or not outline.parameters:
                continue
            first = f"{outline.parameters[0]}."
            for name, stores in facts_of(method.file.outline).of(outline).body.stores.items():
                made = self._scaler_made(method.file, outline, stores) if name.startswith(first) else None
                if made is not None:
                    return ScalerAtHand(f"{own}.{name[len(first) :]}", made)
        return None

    def _handed_in(self, stack: tuple[StackFrame, ...]) -> ScalerAtHand | None:
        """A scaler that the caller hands in: ``train(model, scaler)``."""
        if len(stack) < 2:
            return None
        caller, function = stack[1], stack[0].function
        call = next(
            (
                node
                for node in node_at(caller.file, caller.function, caller.place)[::-1]
                if isinstance(node, ast.Call)
            ),
            None,
        )
        if call is None:
            return None
        offset = int(function.owner is not None and not _is_static(function))
        for key, name in _given(call):
            parameter = _parameter(function, key, offset)
            found = self._named(caller, name) if parameter is not None else None
            if parameter is not None and found is not None:
                return ScalerAtHand(parameter, found)
        return None

    def _named(self, frame: StackFrame, name: str) -> Place | None:
        """Where the scaler is made that a name of a function holds."""
        for part in (*frame.functions, frame.file.outline.module):
            stores = (
                facts_of(frame.file.outline).of(part).body.stores.get(name, ()) if part is not None else ()
            )
            made = self._scaler_made(frame.file, part, stores) if part is not None else None
            if made is not None:
                return made
        held = self._held(frame)
        return held.made if held is not None and held.name == name else None

    def is_optional(self, event: ScalerUsed) -> bool:
        """Whether the scaler is made under a condition: ``GradScaler() if fp16 else None``."""
        frame = self._stacks.frame(event.made) if event.made is not None else None
        if frame is None:
            return False
        around = node_at(frame.file, frame.function, frame.place)
        return any(isinstance(node, (ast.If, ast.IfExp, ast.BoolOp, ast.Match)) for node in around)

    def is_decided(self, event: ScalerUsed) -> bool:
        """Whether a condition on the path has asked for the flag: the path tells."""
        return event.decided

    def is_for_one_step(self, event: ScalerUsed) -> bool:
        """See lifetimes."""
        return is_for_one_step(self._view, self._stacks, event)

    # checkpoints

    def only_offers_state(self, event: ScalerUsed) -> bool:
        """Whether the walk began in the method of that name of an object: then nobody in sight calls it."""
        stack = self._stacks.at(event.place)
        first = stack[-1].function if stack else None
        return first is not None and first.owner is not None and first.name == event.act

    def may_be_resumed(self, event: StateSaved) -> bool:
        """See Resuming."""
        return self._resuming.may_be(event, foreign=self._is_foreign(self._stacks.at(event.place)))

    def is_looked_up(self, event: StateLoaded, key: str) -> bool:
        """See Resuming."""
        return self._resuming.is_looked_up(event, key)

    def framework_saves_scaler(self, event: StateSaved) -> bool:
        """Whether code on the way reads the scaler of an object, which may be the framework's."""
        for file in self._stacks.files(self._stacks.at(event.place)):
            for part in scopes_in(file):
                for name, read in facts_of(file.outline).of(part).reads.items():
                    if "scaler" in read and name not in part.parameters[:1]:
                        return True
        return False

    # loops

    def rounds(self, event: ScalerUsed) -> Rounds:
        """In which rounds of the innermost loop around it, that of a caller included, an event happens."""
        for frame in self._stacks.at(event.place):
            found = rounds_of(node_at(frame.file, frame.function, frame.place))
            if found is not None:
                return found
        return Rounds.ANY

    # what fixes ask

    def call_sites(self, display: str, name: str) -> tuple[Site, ...] | None:
        """See callsites."""
        return call_sites(self._edges, display, name)

    # names of unknowns

    def is_anew_in_each_round(self, made: Place, used: Place, other: Place) -> bool:
        """See lifetimes."""
        return is_anew_in_each_round(self._stacks, made, used, other)

    def is_flag(self, switch: Hashable) -> bool:
        """See settings."""
        return settings.is_flag(switch)

    def are_of_one(self, switch: Hashable, other: Hashable) -> bool:
        """See settings."""
        return settings.are_of_one(switch, other)

    def belongs(self, part: Hashable, whole: Hashable) -> bool:
        """See settings."""
        return settings.belongs(part, whole)

    def is_of_call(self, thing: Hashable, call: Hashable) -> bool:
        """See settings."""
        return settings.is_of_call(thing, call)

    def came_before(self, value: Hashable, thing: Hashable) -> bool:
        """See settings."""
        return settings.came_before(value, thing)

    def may_share(self, module: Hashable, others: frozenset[Hashable]) -> bool:
        """Whether a module is one of some others, or one was made from another."""
        return (
            module in others
            or bool(others & made_from(module))
            or any(module in made_from(one) for one in others)
        )


def _is_given(value: Hashable, outermost: Place) -> bool:
    """Whether something is a parameter of the function that is entered, in which the outermost call stands, or what an
    operator makes of one and of settings: ``loss / self.steps``."""
    match value:
        case Symbol(parts=("parameter", path, *root, 0, _)):
            match outermost.key:
                case (own_path, own_root, _):
                    return (path, tuple(root)) == (own_path, own_root)
        case Symbol(parts=(kind, *operands)) if kind == COMPUTED:
            parts = [part for part in operands if isinstance(part, Symbol)]
            given = any(_is_given(part, outermost) for part in parts)
            return given and not any(part.parts[0] == AT for part in parts)
    return False


def _bodies(part: FunctionValue) -> Iterator[Body]:
    if part.outline is not None:
        yield facts_of(part.file.outline).of(part.outline).body


def _changes_gradients(body: Body) -> bool:
    """Whether a body computes what it stores as a gradient, or changes one in place. One that is None is dropped."""
    for name, stores in body.stores.items():
        if name.endswith(_GRADIENTS) and any(not _is_none(store.value) for store in stores):
            return True
    return any(_changes_gradient(call) for call in body.calls)


def _changes_gradient(call: Call) -> bool:
    base = call.name.rpartition(".")[0] if call.name is not None else ""
    return call.method in _SCALED and base.endswith(_GRADIENTS)


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_off(call: ast.Call) -> bool:
    """``GradScaler(enabled=False)``."""
    return any(
        keyword.arg == "enabled" and isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        for keyword in call.keywords
    )


def _is_static(function: FunctionOutline) -> bool:
    decorators = function.node.decorator_list if function.node is not None else []
    return any(dotted(decorator) == "staticmethod" for decorator in decorators)


def _given(call: ast.Call) -> Iterator[tuple[int | str, str]]:
    """The names that a call is given, with their positions or keywords."""
    for index, argument in enumerate(call.args):
        name = dotted(argument)
        if name is not None:
            yield index, name
    for keyword in call.keywords:
        name = dotted(keyword.value)
        if name is not None and keyword.arg is not None:
            yield keyword.arg, name


def _parameter(function: FunctionOutline, key: int | str, offset: int) -> str | None:
    """The parameter that an argument goes to."""
    if isinstance(key, str):
        return key if key in function.parameters else None
    return function.parameters[key + offset] if key + offset < len(function.parameters) else None


def _place(file: ProjectFile, node: ast.expr) -> Place:
    """Where an expression stands."""
    last, end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    span = Span(
        node.lineno,
        column(file, node.lineno, node.col_offset) + 1,
        last,
        column(file, last, end) + 1,
    )
    return Place(file.display, ("made", span), lambda: span, lambda: ast.unparse(node), named=file.line_name)


def _is_half(about: About) -> bool:
    """Whether a key may bring half precision about: an entry, or a type, which is one beside training alone."""
    return about.weight is Weight.ENTRY or HALF in about.tags
