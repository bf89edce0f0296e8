"""Calls: who is called, with what, and what comes back."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import libcst as cst

from amplint.amp.scalers import METHODS
from amplint.amp.wrappers import OBJECTS, Role
from amplint.events import AmpHidden, Captured, GeneratorDecorated, ObjectMade, Place
from amplint.flow import (
    attributes,
    checkpoints,
    contexts,
    functions,
    kinds,
    libraries,
    modules,
    reaching,
    scaling,
    tensors,
    threads,
)
from amplint.flow.budget import OutOfBudget
from amplint.flow.paths import Path, learnt, merge
from amplint.flow.scopes import Scope
from amplint.flow.values import (
    NONE,
    UNKNOWN,
    Autocast,
    BoundMethod,
    ClassValue,
    Constant,
    Context,
    Decorated,
    FunctionValue,
    Gradient,
    Imported,
    Instance,
    Library,
    Mapping,
    Module,
    Optimizer,
    Parameters,
    Partial,
    ScaledGradient,
    ScaledLoss,
    Scaler,
    Scheduler,
    Sequence,
    StateDict,
    Tensor,
    TorchVersion,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from amplint.flow.expressions import Expressions
    from amplint.flow.statements import Walker

MAX_DEPTH = 7
LONG = 25
OFTEN = 3
"""Walks of one function with the same arguments in the same region, after which its latest result stands."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call. ``unclear`` says that a star hides some; ``nodes`` are those of the positional
    ones."""

    positional: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()
    nodes: tuple[cst.CSTNode, ...] = ()
    unclear: bool = False
    keyword_nodes: tuple[tuple[str, cst.CSTNode], ...] = ()

    @classmethod
    def of(cls, *values: Value) -> Arguments:
        """Positional arguments that no text stands for."""
        return cls(values)

    def keyword(self, name: str) -> Value | None:
        """A keyword argument."""
        return next((value for key, value in self.keywords if key == name), None)

    def node_of(self, name: str) -> cst.CSTNode | None:
        """The text of a keyword argument."""
        return next((node for key, node in self.keyword_nodes if key == name), None)

    def after(self, first: Value) -> Arguments:
        """With one more argument in front."""
        return Arguments(
            (first, *self.positional), self.keywords, self.nodes, self.unclear, self.keyword_nodes
        )

    def by_name(self, parameters: tuple[str, ...]) -> dict[str, Value]:
        """Arguments by parameter name."""
        named = dict(zip(parameters, self.positional, strict=False))
        named.update(self.keywords)
        return named

    @property
    def all(self) -> tuple[Value, ...]:
        """All values."""
        return (*self.positional, *(value for _, value in self.keywords))


def arguments(walker: Expressions, node: cst.Call) -> Arguments:
    """Evaluates the arguments of a call, in order."""
    positional: list[Value] = []
    keywords: list[tuple[str, Value]] = []
    nodes: list[cst.CSTNode] = []
    keyword_nodes: list[tuple[str, cst.CSTNode]] = []
    unclear = False
    for argument in node.args:
        value = walker.evaluate(argument.value)
        if argument.star == "*":
            if isinstance(value, Sequence) and value.exact:
                positional.extend(value.items)
                nodes.extend([argument.value] * len(value.items))
            else:
                unclear = True
        elif argument.star == "**":
            if isinstance(value, Mapping):
                keywords.extend((str(key), walker.pin(item)) for key, item in value.items)
                unclear = unclear or bool(value.rest)
            else:
                unclear = True
        elif argument.keyword is not None:
            keywords.append((argument.keyword.value, value))
            keyword_nodes.append((argument.keyword.value, argument.value))
        else:
            positional.append(value)
            nodes.append(argument.value)
    return Arguments(tuple(positional), tuple(keywords), tuple(nodes), unclear, tuple(keyword_nodes))


def evaluate_call(walker: Expressions, node: cst.Call) -> Value:
    """The result of a call expression."""
    function = node.func
    if walker.engine.own_roles:
        role = walker.engine.own_role(walker.scope.file, attributes.dotted_name(function) or "")
        if role is not None:
            return play(walker, role, UNKNOWN, arguments(walker, node), node)
    if type(function) is cst.Attribute:
        name = function.attr.value
        if _is_super(function.value):
            return _call_super(walker, name, arguments(walker, node), node)
        base = walker.evaluate(function.value)
        if isinstance(base, (Imported, Library, Module, ClassValue)):
            value = attributes.read(walker, base, name, function)
            return walker.pin(call_value(walker, value, arguments(walker, node), node))
        return walker.pin(_call_method(walker, base, name, node))
    value = walker.evaluate(function)
    return walker.pin(call_value(walker, value, arguments(walker, node), node))


def _is_super(node: cst.BaseExpression) -> bool:
    return type(node) is cst.Call and type(node.func) is cst.Name and node.func.value == "super"


def _call_super(walker: Expressions, name: str, given: Arguments, node: cst.Call) -> Value:
    scope = walker.scope
    receiver = scope.self_value
    owner = scope.outline.owner if scope.outline is not None else None
    if not isinstance(receiver, Instance) or owner is None:
        return UNKNOWN
    method = walker.engine.find_method(ClassValue(scope.file, owner), name, skip_own=True)
    if method is not None:
        return invoke(walker, method, given.after(receiver), node)
    if name in ("half", "to", "bfloat16", "float"):
        return UNKNOWN
    return receiver if name in ("train", "eval", "cuda", "cpu") else UNKNOWN


def call_value(walker: Expressions, value: Value, given: Arguments, node: cst.Call) -> Value:
    """Calls a value."""
    match value:
        case Library():
            return libraries.call(walker, value.name, given, node)
        case Imported():
            if walker.engine.worth_revealing(walker, value, given):
                return call_value(walker, walker.pin(walker.engine.reveal(value)), given, node)
            return Unknown(walker.fresh(node))
        case FunctionValue():
            return invoke(walker, value, given, node)
        case Decorated():
            # the region's place is the decorator, not the call
            opened, _ = contexts.enter(walker, value.context, cst.Pass())
            result = call_value(walker, value.function, given, node)
            contexts.close(walker, opened, node)
            return result
        case ClassValue():
            return _instantiate(walker, value, given, node)
        case Partial():
            named = {name for name, _ in given.keywords}
            kept = tuple(item for item in value.keywords if item[0] not in named)
            merged = Arguments(
                value.positional + given.positional, kept + given.keywords, given.nodes, given.unclear
            )
            return call_value(walker, value.function, merged, node)
        case BoundMethod():
            return _call_bound(walker, value, given, node)
        case Autocast() | Context():
            # a context used as decorator: autocast(...)(function)
            function = given.positional[0] if given.positional else UNKNOWN
            return contexts.with_context(function, value)
        case Instance():
            return _call_instance(walker, value, given, node)
        case Unknown(kind="module"):
            return modules.call(walker, value, given, node)
        case Unknown(kind="framework"):
            return Unknown(walker.fresh(node))
        case TorchVersion():
            return value
        case Unknown():
            if any(isinstance(item, TorchVersion) for item in given.positional):
                return TorchVersion()
            reaching.called(walker, value, given, node)
            return scaling.out_of_sight(walker, given, node)
    return UNKNOWN


def _call_instance(walker: Expressions, value: Instance, given: Arguments, node: cst.Call) -> Value:
    if modules.is_module(walker, value):
        return modules.call(walker, value, given, node)
    if value.library is not None and value.library in OBJECTS:
        role = OBJECTS[value.library].get("__call__")
        if role is not None:
            return play(walker, role, value, given, node)
    if value.made_of is not None:
        method = walker.engine.find_method(value.made_of, "__call__")
        if method is None:
            # a module whose base class is out of sight
            method = walker.engine.find_method(value.made_of, "forward")
        if method is not None:
            return invoke(walker, method, given.after(value), node)
    return Unknown(walker.fresh(node))


def _instantiate(walker: Expressions, value: ClassValue, given: Arguments, node: cst.Call) -> Value:
    if walker.engine.is_static_function_class(value):
        return UNKNOWN
    instance = Instance(walker.engine.identity_of_new((id(node), walker.scope.chain), value, given), value)
    for item in given.all:
        if isinstance(item, Optimizer):
            walker.path.store(item.identity, "<wrapped>", Constant(True))
    anew = walker.scope.runs_each_round() and walker.engine.is_made_anew(value)
    walker.emit(ObjectMade(walker.place(node), walker.path.regions, instance.identity, anew))
    return instance


def _call_method(walker: Expressions, base: Value, name: str, node: cst.Call) -> Value:
    given = arguments(walker, node)
    if name == "backward":
        return _backward(walker, base, given, node)
    if isinstance(base, Tensor):
        result = tensors.method(walker, node, base, name, given)
        return result if result is not None else UNKNOWN
    if isinstance(base, Instance):
        own = attributes.read(walker, base, name, node.func)  # type: ignore[arg-type]
        if isinstance(own, BoundMethod):
            return _call_bound(walker, own, given, node)
        if not isinstance(own, Unknown) or own.kind is not None:
            return call_value(walker, own, given, node)
        reaching.attribute_called(walker, base, name, own, given, node)
    return _call_bound(walker, BoundMethod(base, name), given, node, own_text=True)


def _call_bound(
    walker: Expressions, bound: BoundMethod, given: Arguments, node: cst.Call, *, own_text: bool = False
) -> Value:
    base, name = bound.receiver, bound.name
    if bound.function is not None:
        if walker.engine.is_static(bound.function):
            return invoke(walker, bound.function, given, node)
        return invoke(walker, bound.function, given.after(base), node)
    match base:
        case Scaler():
            return scaling.scaler_method(walker, base, name, given, node)
        case Optimizer():
            return scaling.optimizer_method(walker, base, name, given, node)
        case ScaledLoss():
            return scaling.loss_method(walker, base, name, given, node)
        case Gradient():
            return scaling.gradient_method(walker, base, name, node)
        case ScaledGradient():
            return scaling.scaled_gradient_method(walker, base, name, given.positional, node)
        case Scheduler():
            return scaling.schedule(walker, base, name, given, node)
        case ClassValue() if name == "apply":
            return functions.apply(walker, base, given, node)
        case Autocast() if name == "__enter__":
            contexts.enter_by_hand(walker, base, node)
            return base
        case Autocast() if name == "__exit__":
            contexts.exit_by_hand(walker, base, node)
            return NONE
        case Context(kind="stack") if name in ("enter_context", "enter_async_context", "push"):
            return contexts.push_on_stack(
                walker, base, given.positional[0] if given.positional else UNKNOWN, node
            )
        case Context(kind="stack") if name in ("close", "aclose", "__exit__", "__aexit__"):
            contexts.close(walker, contexts.Opened(stack=base.identity), node)
            return NONE
        case Context(kind="stack") if name == "pop_all":
            return contexts.moved(walker, base, node)
        case Sequence() if name in ("append", "extend", "add", "insert"):
            return _append(walker, base, name, given, node)
        case Mapping():
            return _mapping(walker, base, name, given, node)
        case Parameters(one=True) if tensors.writes(name):
            modules.written(walker, base.module, f"{name}()", node)
            return base
        case Instance() if base.library is not None and threads.is_thread_class(base.library):
            return threads.method(walker, base, name, given, node)
        case Instance() if threads.start_of(walker, base, name, node):
            return UNKNOWN
        case Parameters() if name in ("requires_grad_",):
            flag = given.positional[0] if given.positional else Constant(True)
            walker.path.store(base.module, "<frozen>", Constant(flag == Constant(False)))
            return base
        case Instance() if base.library is not None and base.library in OBJECTS:
            role = OBJECTS[base.library].get(name)
            return play(walker, role, base, given, node) if role is not None else UNKNOWN
    if modules.is_module(walker, base):
        found = modules.method(walker, base, name, given, node)
        if found is not None:
            return found
    if isinstance(base, Instance) and base.made_of is not None:
        role = walker.engine.inherited_role(base.made_of, name)
        if role is not None:
            return play(walker, role, base, given, node)
    if isinstance(base, Unknown):
        return _unknown_method(walker, base, name, given, node, own_text)
    return UNKNOWN


def _unknown_method(
    walker: Expressions, base: Unknown, name: str, given: Arguments, node: cst.Call, own_text: bool
) -> Value:
    if base.kind == "framework":
        dotted = attributes.dotted_name(node.func.value) if isinstance(node.func, cst.Attribute) else None
        uses = walker.scope.uses(dotted) if dotted is not None else set()
        role = kinds.framework_roles(uses).get(name)
        if role is not None:
            return play(walker, role, base, given, node)
        return UNKNOWN
    if name == "run_in_executor" and threads.elsewhere(walker, name, given, node):
        return Unknown(walker.fresh(node))
    if base.kind == "scaler" and name in METHODS:
        walker.exists(base)
        return scaling.scaler_method(walker, Scaler(base.symbol), name, given, node)
    if base.kind == "optimizer" and name in ("step", "zero_grad", "state_dict"):
        return scaling.optimizer_method(walker, base, name, given, node)
    if name == "zero_grad":
        scaling.zeroed(walker, node, optimizer=base)
        return NONE
    if name == "scale" and len(given.all) == 1:
        # it may be a scaler of which no more is in sight
        return ScaledLoss(None, given.all[0])
    if name == "state_dict" and not given.positional:
        return StateDict("object", base.symbol, walker.place(node))
    if name in ("half", "bfloat16", "float") and not given.positional and own_text:
        return tensors.cast(walker, node, base, tensors.CASTS[name])
    if own_text and isinstance(node.func, cst.Attribute):
        found = tensors.method(walker, node, base, name, given)
        if found is not None:
            return found
    reaching.method_called(walker, name, given, node)
    if given.all or base.symbol is None:
        return scaling.out_of_sight(walker, given, node)
    if name not in ("parameters", "named_parameters"):
        scaling.may_step(walker, node)
    return Unknown((base.symbol, name))


def _append(walker: Expressions, base: Sequence, name: str, given: Arguments, node: cst.Call) -> Value:
    added = given.positional[-1] if given.positional else UNKNOWN
    new = added.items if name == "extend" and isinstance(added, Sequence) else (added,)
    fresh = tuple(item for item in new if item not in base.items)
    simple = name in ("append", "extend") and base.exact and not walker.scope.loops
    items = base.items + (new if simple else fresh)
    if len(items) <= 64 and isinstance(node.func, cst.Attribute):
        walker.assign(node.func.value, Sequence(items, simple), node)
    return NONE


def _mapping(walker: Expressions, base: Mapping, name: str, given: Arguments, node: cst.Call) -> Value:
    if name in ("get", "pop") and given.positional and isinstance(given.positional[0], Constant):
        found = base.get(given.positional[0].value)
        if found is not None:
            return found
        return given.positional[1] if len(given.positional) > 1 and not base.rest else UNKNOWN
    values = tuple(value for _, value in base.items) + base.rest
    if name == "values":
        return Sequence(values, exact=False)
    if name == "items":
        return Sequence(tuple(Sequence((UNKNOWN, value)) for value in values), exact=False)
    if name == "update" and isinstance(node.func, cst.Attribute):
        other = given.positional[0] if given.positional else Mapping(given.keywords)
        if isinstance(other, Mapping):
            walker.assign(
                node.func.value,
                replace(base, items=base.items + other.items, rest=base.rest + other.rest),
                node,
            )
    return UNKNOWN


# the AMP protocol ----------------------------------------------------------------------------------------------


def _backward(walker: Expressions, base: Value, given: Arguments, node: cst.Call) -> Value:
    if isinstance(base, Instance):
        if base.made_of is not None:
            method = walker.engine.find_method(base.made_of, "backward")
            if method is not None:
                return invoke(walker, method, given.after(base), node)
            role = walker.engine.inherited_role(base.made_of, "backward")
            if role is None:
                return UNKNOWN
        elif base.library is None or OBJECTS.get(base.library, {}).get("backward") is None:
            return UNKNOWN
    if isinstance(base, (ClassValue, Library, Module, Constant)):
        return UNKNOWN
    if isinstance(base, Instance) and not walker.silent:
        walker.engine.trained_by_framework = True
    # engine.backward(loss) of a framework, which scales by itself; loss.backward(gradient) is seldom
    scaling.backward(
        walker, base, node, ".backward()", unclear=isinstance(base, Unknown) and bool(given.positional)
    )
    return NONE


def play(walker: Expressions, role: Role, base: Value, given: Arguments, node: cst.Call) -> Value:
    """What a framework's method does."""
    first = given.positional[0] if given.positional else UNKNOWN
    match role:
        case Role.REGION:
            # a context of the project itself takes what it likes
            return contexts.of_framework(walker, given.all if base is not UNKNOWN else (), node)
        case Role.BACKWARD:
            scaling.backward(walker, first, node, ".backward()", unclear=True)
            return NONE
        case Role.SAVE:
            checkpoints.saved(walker, first, node)
            return NONE
        case Role.PREPARE:
            for value in given.positional:
                identity = modules.identity_of(value)
                if identity is not None:
                    walker.path.store(identity, "<float32 out>", Constant(True))
                owner = value.identity if isinstance(value, Optimizer) else identity
                if owner is not None:
                    walker.path.store(owner, "<prepared>", checkpoints.preparer(walker, base))
            return first if len(given.positional) == 1 else Sequence(given.positional, not given.unclear)
        case Role.UNWRAP:
            return first
        case Role.CLIP:
            scaling.unscaled_by_framework(walker, base, node)
            return Unknown(walker.fresh(node))
        case Role.NULL_CONTEXT:
            return Context("null")
        case Role.TRAIN_STEP:
            scaling.backward(walker, first, node, "loss scaler call", unclear=True)
            optimizer = given.positional[1] if len(given.positional) > 1 else given.keyword("optimizer")
            scaling.step(walker, optimizer or UNKNOWN, node, via_scaler=True, framework=True)
            return UNKNOWN
        case Role.OPTIMIZER_STEP:
            scaling.backward(walker, first, node, ".update_params()", unclear=True)
            scaling.step(walker, base, node, via_scaler=True, framework=True)
            return UNKNOWN
    return UNKNOWN


# functions of the project ---------------------------------------------------------------------------------------


def tell_of_decorated(
    walker: Expressions,
    context: Value,
    node: cst.FunctionDef,
    decorator: cst.Decorator,
    *,
    scripted: bool = False,
) -> None:
    """Tells of an autocast context around a function whose body does not run during the call, and around one
    that is compiled by torch.jit.script."""
    if not isinstance(context, Autocast):
        return
    if scripted:
        walker.emit(
            Captured(
                walker.place(node.name), walker.path.regions, "torch.jit.script", decorated=context.place
            )
        )
    kind = _kind_of_body(node)
    if kind is not None:
        place = walker.place(decorator.decorator)
        walker.emit(GeneratorDecorated(place, walker.path.regions, node.name.value, kind))


class _Yields(cst.CSTVisitor):
    """Looks for ``yield`` in a function, not in those inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def visit_Yield(self, node: cst.Yield) -> bool:
        self.found = True
        return False

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False


def _kind_of_body(node: cst.FunctionDef) -> str | None:
    """ "generator", "coroutine" or "context manager" for a function that only returns one of these."""
    yields = _Yields()
    node.body.visit(yields)
    if yields.found:
        names = [attributes.dotted_name(decorator.decorator) or "" for decorator in node.decorators]
        managed = any(name.endswith("contextmanager") for name in names)
        return "context manager" if managed else "generator"
    return "coroutine" if node.asynchronous is not None else None


def decorate(walker: Expressions, function: FunctionValue, decorators: Items[cst.Decorator]) -> Value:
    """A function with its decorators applied, the lowest first."""
    value: Value = function
    for decorator in reversed(decorators):
        made = walker.evaluate(decorator.decorator)
        if function.node is not None and isinstance(function.node, cst.FunctionDef):
            tell_of_decorated(walker, made, function.node, decorator)
        value = apply_decorator(walker, made, value, decorator)
    return value


def apply_decorator(walker: Expressions, decorator: Value, value: Value, node: cst.Decorator) -> Value:
    """``decorator(function)``. A decorator out of sight is taken to leave the function as it is."""
    decorator = walker.pin(walker.engine.reveal(decorator))
    match decorator:
        case Autocast() | Context(kind="grad off" | "grad on" | "regions"):
            return Decorated(value, decorator)
        case FunctionValue() | Partial() | Decorated():
            call = decorator.function if isinstance(decorator, Partial) else decorator
            if call == Library("torch.compile"):
                return libraries.compiled(walker, value, node)
            if isinstance(call, Library):
                return value
            text = cst.Call(cst.Name("decorator"))
            result = call_value(walker, decorator, Arguments.of(value), text)
            return result if isinstance(result, (FunctionValue, Decorated, Partial)) else value
        case Library() if decorator.name == "contextlib.contextmanager" and isinstance(value, FunctionValue):
            return replace(value, undecorated=True, context_manager=True)
        case Library("torch.compile"):
            return libraries.compiled(walker, value, node)
        case Library() if contexts.is_entry(walker, decorator):
            return value
    if isinstance(decorator, Library) and libraries.grad_mode(decorator.name) is not None:
        return Decorated(value, Context(libraries.grad_mode(decorator.name) or "null"))
    return value


def invoke(
    walker: Expressions, function: FunctionValue, given: Arguments, node: cst.CSTNode, *, always: bool = False
) -> Value:
    """Walks a function of the project with these arguments, ``always`` or if it can matter."""
    key: object = function.outline if function.outline is not None else function.node
    if any(key is other for other in walker.active):
        _enter_again(walker, function, node)
        return scaling.not_followed(walker, function, given, node)
    if len(walker.active) >= MAX_DEPTH:
        return scaling.not_followed(walker, function, given, node)
    if function.outline is not None and function.outline.abstract:
        # another class has the method that runs
        walker.emit(AmpHidden(walker.place(node), walker.path.regions))
        return scaling.out_of_sight(walker, given, node)
    if (
        not always
        and function.outline is not None
        and not walker.engine.worth_following(walker, function, given)
    ):
        return scaling.not_followed(walker, function, given, node)
    if not function.undecorated:
        value = walker.engine.decorated(walker, function)
        if isinstance(value, (Decorated, Partial)) or (
            isinstance(value, FunctionValue) and value.node is not function.node
        ):
            call = node if isinstance(node, cst.Call) else cst.Call(cst.Name("function"))
            return call_value(walker, value, given, call)
        cached = walker.engine.is_cached(function) and not given.unclear
        function = value if isinstance(value, FunctionValue) else function
        if cached:
            return _call_cached(walker, function, given, node)
    return walker.choose_exit(lambda: summarised(walker, function, given, node))  # type: ignore[arg-type]


def _call_cached(walker: Expressions, function: FunctionValue, given: Arguments, node: cst.CSTNode) -> Value:
    """The result of a function that keeps it: what the first call with these arguments returned."""
    owner = (attributes.CACHED, id(function.outline), given.positional, given.keywords)
    known = walker.path.load(owner, "<result>")
    if known is not None:
        return known
    result: Value = walker.choose_exit(lambda: summarised(walker, function, given, node))  # type: ignore[arg-type]
    if not walker.engine.is_building:
        walker.path.store(owner, "<result>", result)
    elif isinstance(result, Scaler):
        # a constructor is walked for all objects made alike, and the scaler is that of others as well
        return replace(result, identity=owner)
    return result


def _enter_again(walker: Expressions, function: FunctionValue, node: cst.CSTNode) -> None:
    """A function that calls itself enters the contexts that decorate it once more."""
    value: Value = function if function.undecorated else walker.engine.decorated(walker, function)
    while isinstance(value, Decorated):
        opened, _ = contexts.enter(walker, value.context, cst.Pass())
        contexts.close(walker, opened, node)
        value = value.function


def summarised(
    walker: Walker, function: FunctionValue, given: Arguments, node: cst.CSTNode
) -> list[tuple[Path, Value]]:
    """The ways out of a call, from the summary of an earlier one that saw the same and changed nothing."""
    path = walker.path
    summaries = walker.engine.summaries
    loose = _situation(walker, function, given)
    key = (loose, id(path.heap), frozenset(path.facts.items()), path.cases, path.machines)
    known = summaries.get(key) if loose is not None else None
    if known is None and loose is not None:
        # the same call again and again on paths that differ in something else
        latest, times = walker.engine.latest.get(loose, (None, 0))
        walker.engine.latest[loose] = (latest, times + 1)
        known = latest if times >= OFTEN else None
    if known is None and _too_often(walker, function):
        return [(path, scaling.not_followed(walker, function, given, node))]
    if known is not None:
        ways = []
        for value, facts, done in known[1]:
            if path.agrees(facts):
                way = path.fork()
                way.did(done)
                for symbol, truth in facts:
                    way.learn(symbol, truth)
                ways.append((way, value))
        if ways:
            return ways
    heap, machines, regions, before = path.heap, path.machines, path.regions, path.facts
    done, round_ = path.done, path.round
    path.done = path.round = 0
    start, scope, active, silent = path.fork(), walker.scope, len(walker.active), walker.silent
    try:
        with walker.engine.budget.share(_part(walker, function, given)):
            ways = _walk(walker, function, given, node)
    except OutOfBudget:
        if walker.engine.budget.exhausted():
            raise
        # too large for its share: the caller goes on without knowing the result
        del walker.active[active:]
        walker.scope, walker.silent = scope, silent
        walker.path = start
        scaling.not_followed(walker, function, given, node)
        ways = []
    if not ways and not _only_raises(function):
        # no way out was found; runs do get out, so something was misjudged on the way
        ways = [(start, Unknown(walker.fresh(node)))]
    if loose is not None and all(
        way.heap is heap and way.machines == machines and way.regions == regions for way, _ in ways
    ):
        kept = [(value, learnt(before, way.facts), way.done) for way, value in ways]
        summary = (heap, kept)
        summaries[key] = summary
        walker.engine.latest[loose] = (summary, walker.engine.latest.get(loose, (None, 0))[1])
    for way, _ in ways:
        way.done, way.round = done | way.done, round_ | way.done
    return ways


def _part(walker: Expressions, function: FunctionValue, given: Arguments) -> float:
    """How much of what is left of the budget a call may use: most, if it is the base class's part of a constructor
    that is being walked."""
    outline = function.outline
    receiver = given.positional[0] if given.positional else UNKNOWN
    base = outline is not None and outline.name == "__init__" and receiver == walker.scope.self_value
    return 3 / 4 if base and walker.engine.is_building else 1 / 3


def _only_raises(function: FunctionValue) -> bool:
    outline = function.outline
    return outline is not None and bool(outline.body) and isinstance(outline.body[-1], ast.Raise)


def _too_often(walker: Expressions, function: FunctionValue) -> bool:
    """Whether a long function was walked so many times in this entry point that it would eat up the budget."""
    outline = function.outline
    if outline is None or outline.end_line - outline.line < LONG:
        return False
    walks = walker.engine.walks
    walks[id(outline)] = walks.get(id(outline), 0) + 1
    return walks[id(outline)] > 2 * OFTEN


def _situation(walker: Expressions, function: FunctionValue, given: Arguments) -> Hashable:
    """All that a call of a function of a file can depend on, or None for functions with a scope of their
    own."""
    if function.outline is None:
        return None
    path = walker.path
    region = path.regions[-1] if path.regions else None
    return (
        id(function.outline),
        function.context_manager,
        given.unclear,
        region,
        len(path.regions),
        path.gradients,
        walker.silent,
        walker.told,
        tuple(_shape(value) for value in given.positional),
        tuple((name, _shape(value)) for name, value in given.keywords),
    )


def _shape(value: Value) -> Hashable:
    if isinstance(value, Unknown):
        return value.kind
    return value


def _walk(
    walker: Walker, function: FunctionValue, given: Arguments, node: cst.CSTNode
) -> list[tuple[Path, Value]]:
    caller = walker.scope
    place = walker.place(node)
    scope, body, parameters = open_function(
        walker, function, (*caller.calls, place), (caller.chain, id(node))
    )
    if scope is None:
        return [(walker.path, Unknown(walker.fresh(node)))]
    scope.is_context_manager = function.context_manager
    scope.reached_from = caller
    silent = walker.silent
    # what a context manager opens is told when its block is entered
    walker.silent = silent or function.context_manager
    path = walker.path
    names = path.enter_scope({})
    regions, gradients = path.regions, path.gradients
    walker.scope = scope
    walker.active.append(function.outline if function.outline is not None else function.node)
    walker.engine.entered.add(id(function.outline))
    if isinstance(function.node, cst.FunctionDef):
        caller.defined.pop(function.node, None)
        if caller.outer is not None:
            caller.outer.defined.pop(function.node, None)
    depth = walker.depth
    walker.depth += 1
    try:
        bind_parameters(walker, path, parameters, given, scope)
        if isinstance(body, cst.BaseExpression):
            scope.returns = list(walker.explore(path, lambda: walker.evaluate(body)))
        else:
            for way in walker.run_suite(body, [path]):
                scope.returns.append((way, NONE))
    finally:
        walker.scope = caller
        walker.silent = silent
        walker.active.pop()
        walker.depth = depth
    ways = scope.yields if scope.is_context_manager else scope.returns
    results: dict[Value, list[Path]] = {}
    for way, value in ways:
        if scope.is_context_manager:
            opened = way.regions[len(regions) :]
            value = (
                Context("regions", opened)
                if opened
                else Context("grad off" if gradients and not way.gradients else "null")
            )
            way.regions = regions
        way.gradients = gradients
        way.leave_scope(names)
        results.setdefault(value, []).append(way)
    return _few(results)


def _few(results: dict[Value, list[Path]]) -> list[tuple[Path, Value]]:
    """The ways out, those with the same value joined. Unknown values count as the same."""
    unknown: list[Path] = []
    ways: list[tuple[Path, Value]] = []
    for value, paths in results.items():
        if isinstance(value, Unknown) and value.kind is None and len(results) > 1:
            unknown.extend(paths)
        else:
            ways.extend((path, value) for path in merge(paths))
    if unknown:
        ways.extend((path, UNKNOWN) for path in merge(unknown))
    return ways[:8]


def open_function(
    walker: Expressions, function: FunctionValue, calls: tuple[Place, ...], chain: object
) -> tuple[Scope | None, cst.BaseSuite | cst.BaseExpression, cst.Parameters]:
    """The scope of a call, with the body to walk and its parameters."""
    if function.node is not None:
        outer = function.scope
        assert outer is not None
        scope = Scope(
            outer.file,
            outer.slice,
            outer.outline,
            outer.outer,
            outer.outer_names,
            outer.self_value,
            calls,
            chain,
        )
        return scope, function.node.body, function.node.params
    assert function.outline is not None
    node, piece = walker.engine.parsed(function.file, function.outline)
    if node is None:
        return None, cst.IndentedBlock([]), cst.Parameters()
    scope = Scope(function.file, piece, function.outline, calls=calls, chain=chain)
    return scope, node.body, node.params


def bind_parameters(
    walker: Expressions, path: Path, parameters: cst.Parameters, given: Arguments, scope: Scope
) -> None:
    """Gives each parameter its argument, its default, or something unknown."""
    positional = [*parameters.posonly_params, *parameters.params]
    named = dict(given.keywords)
    walker.path = path
    for index, parameter in enumerate(positional):
        name = parameter.name.value
        if index < len(given.positional):
            value = given.positional[index]
        elif name in named:
            value = named.pop(name)
        else:
            value = _default(walker, parameter, given, scope)
        _bind(walker, path, name, value, parameter, scope)
        if index == 0 and isinstance(value, Instance) and scope.outline is not None and scope.outline.owner:
            scope.self_value = value
    for parameter in parameters.kwonly_params:
        name = parameter.name.value
        value = named.pop(name) if name in named else _default(walker, parameter, given, scope)
        _bind(walker, path, name, value, parameter, scope)
    if isinstance(parameters.star_arg, cst.Param):
        rest = given.positional[len(positional) :]
        path.bind(parameters.star_arg.name.value, Sequence(rest, not given.unclear))
    if parameters.star_kwarg is not None:
        items = tuple((key, value) for key, value in named.items())
        path.bind(parameters.star_kwarg.name.value, Mapping(items, (UNKNOWN,) if given.unclear else ()))


def _default(walker: Expressions, parameter: cst.Param, given: Arguments, scope: Scope) -> Value:
    if given.unclear or parameter.default is None:
        return UNKNOWN
    if not scope.calls and not (walker.engine.is_building and isinstance(parameter.default, cst.Float)):
        return UNKNOWN
    return walker.evaluate(parameter.default)


def _bind(
    walker: Expressions, path: Path, name: str, value: Value, parameter: cst.Param, scope: Scope
) -> None:
    if isinstance(value, Unknown) and (value.kind is None or value.symbol is None):
        kind = value.kind or walker.kind(name)
        if kind is None and parameter.annotation is not None:
            typed = walker.engine.annotated(walker, parameter.annotation.annotation, (scope.chain, name))
            if typed is not None:
                path.bind(name, typed)
                return
        if kind is None and scope.outline is not None and not scope.calls:
            kind = walker.engine.kind_passed_on(scope.file, scope.outline, name)
        value = Unknown(value.symbol if value.symbol is not None else (scope.chain, id(parameter)), kind)
    path.bind(name, value)
