"""A gradient scaler for a loss that nobody scales: made where the optimizer is made, handed on to where it steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import libcst as cst

from amplint.amp.scalers import CLIPS
from amplint.amp.schedulers import FACTORIES
from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.arguments import keyword, put_after, set_argument
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.dependence import dotted, method_of
from amplint.fixes.imports import function_named, qualified_name, torch_added, torch_name
from amplint.fixes.made import class_around, function_around, is_known, name_given, parameters_of
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scaling import before_step, call_at, receiver_of
from amplint.fixes.scopes import times_bound_in
from amplint.fixes.statements import Exchange, Replacement, Statement, comments_of, preceded
from amplint.fixes.switches import argument, means_the_same
from amplint.fixes.weight_cache import making

_NAMES = ("scaler", "grad_scaler")
_MOST_CALLS = 4
FOLLOWS = frozenset({"scaler-not-saved", "scheduler-on-skipped-step"})
"""What may be said of a scaler that is there."""


@dataclass(frozen=True)
class AddScaler(FixBuilder):
    """Makes a scaler beside the optimizer that steps at ``step``, scales the losses of the function with it, unscales
    where gradients are read, and lets it make the steps. ``region`` is where the region is opened, ``device`` the
    device of it where that is known; ``old`` asks for the scaler of releases before 2.3."""

    step: Place
    region: Place
    device: str | None
    old: bool = False

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: training changes."""
        file = files.parsed(self.step.path)
        step = call_at(file, self.step)
        optimizer, function = receiver_of(step), function_around(file, step)
        plan = Plan(files, "cuda.amp.GradScaler" if self.old else "amp.GradScaler")
        origins = plan.origins(file, function, optimizer, step, _MOST_CALLS)
        scopes = {(one.file.path, function_around(one.file, one.made)): one.made for one in origins}
        if len(scopes) < len({one.made for one in origins}):
            return Refusal("several optimizers are made in one function, and each needs a scaler of its own")
        for hand_on in plan.pending:
            hand_on()
        name = plan.name_for(file, optimizer)
        scale(plan, file, function, {optimizer}, name)
        for origin in origins:
            plan.make(origin, partial(self._call, files))
        note = "training changes: steps with infinite gradients are left out, and small gradients count"
        title = f"Train with a gradient scaler, `{name}`"
        fix = make_fix(title, plan.modules(), plan.claimed, unsafe=note)
        return replace(fix, brings=FOLLOWS)

    def _call(self, files: Files, file: ParsedFile, torch: str, statement: cst.CSTNode) -> str:
        """The call that makes the scaler, for the device and with the flag of the region. Raises Refusal."""
        arguments = []
        device = f'"{self.device}"' if self.device is not None else ""
        try:
            where, region, entry = making(files, self.region)
        except Refusal:
            where = None
        if where is file:
            at = argument(region, entry.parameters, "device_type")
            if at is not None and means_the_same(file, region.args[at].value, region, statement):
                device = file.code(region.args[at].value)
            flag = argument(region, entry.parameters, "enabled")
            if flag is not None and means_the_same(file, region.args[flag].value, region, statement):
                arguments = [f"enabled={file.code(region.args[flag].value)}"]
        if self.old:
            if self.device != "cuda":
                raise Refusal(
                    "the project admits releases of torch before 2.3, whose scaler is for CUDA alone"
                )
            return f"{torch}.cuda.amp.GradScaler({', '.join(arguments)})"
        if not device:
            raise Refusal("the device of the region is not known where the optimizer is made")
        return f"{torch}.amp.GradScaler({', '.join([device, *arguments])})"


@dataclass(frozen=True)
class Origin:
    """The call that makes an optimizer, and what that is called there."""

    file: ParsedFile
    made: cst.BaseExpression
    name: str


class Plan:
    """What is to be changed, file by file: nodes that are exchanged, and lines before and after statements. ``kind`` is
    what the class of the scaler is called below torch."""

    def __init__(self, files: Files, kind: str = "amp.GradScaler") -> None:
        self.files = files
        self._kind = kind
        self.nodes: dict[ParsedFile, dict[cst.CSTNode, Replacement]] = {}
        self.before: dict[ParsedFile, dict[cst.CSTNode, list[str]]] = {}
        self.after: dict[ParsedFile, dict[cst.CSTNode, list[str]]] = {}
        self.claimed: list[tuple[ParsedFile, cst.CSTNode]] = []
        self.pending: list[partial[None]] = []
        """What hands the scaler on, once all files are known in which it needs a name."""
        self._made: set[cst.CSTNode] = set()
        self._plain = ""

    # what the scaler is called

    def name_for(self, file: ParsedFile, optimizer: str) -> str:
        """What the scaler beside an optimizer is called: an attribute beside an attribute. Raises Refusal."""
        if not self._plain:
            taken = {node.value for one in (file, *self.nodes) for node in one.nodes(cst.Name)}
            taken |= {node.attr.value for one in (file, *self.nodes) for node in one.nodes(cst.Attribute)}
            free = [name for name in _NAMES if name not in taken]
            if not free:
                raise Refusal(f"the name `{_NAMES[0]}` is taken")
            self._plain = free[0]
        return f"self.{self._plain}" if optimizer.startswith("self.") else self._plain

    # where the optimizer is made

    def origins(
        self,
        file: ParsedFile,
        function: cst.FunctionDef | cst.Module,
        name: str,
        at: cst.CSTNode,
        depth: int,
    ) -> list[Origin]:
        """Where an optimizer is made that has a name at a node; functions on the way get a parameter more. Raises
        Refusal."""
        self.nodes.setdefault(file, {})
        if "." not in name and isinstance(function, cst.FunctionDef):
            given = next((part for part in parameters_of(function) if part.name.value == name), None)
            if given is not None:
                return self._handed_in(file, function, given, depth)
        return [self.origin(file, name, at)]

    def origin(self, file: ParsedFile, name: str, at: cst.CSTNode) -> Origin:
        """Where an optimizer is made that has a name of its own at a node. Raises Refusal."""
        return Origin(file, _making(file, name, at), name)

    def _handed_in(
        self, file: ParsedFile, function: cst.FunctionDef, parameter: cst.Param, depth: int
    ) -> list[Origin]:
        """Where the optimizer is made that a parameter gets. Raises Refusal."""
        called, name = function.name.value, parameter.name.value
        sites = None
        if function_named(file, called) is function and times_bound_in(function)[name] == 1 and depth:
            sites = self.files.call_sites(file.path, called)
        if not sites:
            raise Refusal(f"not all callers of `{called}`, which is given the optimizer, are in sight")
        if parameter.default is not None or parameter in function.params.posonly_params:
            raise Refusal(f"`{called}` need not be given `{name}`")
        found: list[Origin] = []
        for path, span in sites:
            caller = self.files.parsed(path)
            call = caller.find(cst.Call, span)
            if call is None or any(arg.star for arg in call.args):
                raise Refusal(f"a star hides what `{called}` is given")
            number = argument(call, [part.name.value for part in function.params.params], name)
            value = dotted(call.args[number].value) if number is not None else None
            if number is None or value is None:
                raise Refusal(f"the optimizer that `{called}` is given has no name")
            found += self.origins(caller, function_around(caller, call), value, call, depth - 1)
            self.pending.append(partial(self._give, caller, call, number, value))
        self.pending.append(partial(self._take, file, function, parameter))
        return found

    def _give(self, file: ParsedFile, call: cst.Call, number: int, optimizer: str) -> None:
        """Hands the scaler on beside the optimizer."""
        beside = call.args[number]
        new = cst.Arg(cst.parse_expression(self.name_for(file, optimizer)))
        if beside.keyword is not None:
            new = keyword(self._plain, new.value)
        if number + 1 == len(call.args):
            self._exchange(file, call, set_argument(call, len(call.args), new))
        else:
            self._exchange(file, call, call.with_changes(args=put_after(call.args, number, new)))

    def _take(self, file: ParsedFile, function: cst.FunctionDef, parameter: cst.Param) -> None:
        """Gives a function a parameter for the scaler, beside that of the optimizer."""
        params = function.params
        annotation = self._annotation(file, function) if parameter.annotation is not None else None
        new = cst.Param(name=cst.Name(self.name_for(file, "")), annotation=annotation)
        for kind in ("params", "kwonly_params"):
            known = list(getattr(params, kind))
            if parameter in known:
                changed = params.with_changes(**{kind: put_after(known, known.index(parameter), new)})
                self._exchange(file, params, changed)

    def _annotation(self, file: ParsedFile, function: cst.FunctionDef) -> cst.Annotation | None:
        """The class of the scaler, if the file has a name for torch above a function."""
        try:
            torch = torch_name(file, function)
        except Refusal:
            return None
        return cst.Annotation(cst.parse_expression(f"{torch}.{self._kind}")) if torch is not None else None

    # the scaler

    def make(self, origin: Origin, call: Callable[[ParsedFile, str, cst.CSTNode], str]) -> None:
        """Makes a scaler after an optimizer; ``call`` gives the code for it. Raises Refusal."""
        file, statement = origin.file, origin.file.statement(origin.made)
        if origin.made in self._made:
            return
        self._made.add(origin.made)
        torch = torch_name(file, statement)
        if torch is None:
            self.nodes[file].update(torch_added(file, statement))
        name = self.name_for(file, origin.name)
        self.after.setdefault(file, {})[statement] = [f"{name} = {call(file, torch or 'torch', statement)}"]
        self.claimed.append((file, statement))

    # the changed files

    def modules(self) -> dict[ParsedFile, cst.Module]:
        """The changed modules."""
        found: dict[ParsedFile, cst.Module] = {}
        for file in dict.fromkeys(chain(self.nodes, self.before, self.after)):
            inner = _Changes(self.nodes.get(file, {}), self.before.get(file, {}), self.after.get(file, {}))
            module = file.module.visit(inner)
            assert isinstance(module, cst.Module)
            lost = comments_of(file.module) - comments_of(module)
            if lost:
                raise Refusal(f"the comment `{next(iter(lost))}` would be lost")
            found[file] = module
        return found

    def _exchange(self, file: ParsedFile, old: cst.CSTNode, new: cst.CSTNode) -> None:
        if old in self.nodes.setdefault(file, {}):
            raise Refusal("one call hands several optimizers on")
        self.nodes[file][old] = new


class _Changes(Exchange):
    """Exchanges nodes, and puts lines before and after statements that may hold them."""

    def __init__(
        self,
        nodes: dict[cst.CSTNode, Replacement],
        before: dict[cst.CSTNode, list[str]],
        after: dict[cst.CSTNode, list[str]],
    ) -> None:
        super().__init__(nodes)
        self.before = before
        self.after = after

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Replacement:  # type: ignore[override]
        new = super().on_leave(original_node, updated_node)
        first, last = self.before.get(original_node, []), self.after.get(original_node, [])
        if not first and not last:
            return new
        assert isinstance(new, cst.SimpleStatementLine | cst.BaseCompoundStatement)
        lines: list[Statement] = [*map(_line, first), new, *map(_line, last)]
        if first:
            lines[len(first)] = new.with_changes(leading_lines=())
            lines[0] = preceded(lines[0], new.leading_lines)
        return cst.FlattenSentinel(lines)


def scale(
    plan: Plan,
    file: ParsedFile,
    function: cst.FunctionDef | cst.Module,
    optimizers: Collection[str],
    scaler: str,
) -> None:
    """Scales the losses of a function, unscales what is read, and steps through the scaler. Raises Refusal."""
    nodes = plan.nodes.setdefault(file, {})
    calls = [
        call for call in file.inside(cst.Call, file.span(function)) if function_around(file, call) is function
    ]
    backwards = [call for call in calls if method_of(call) == "backward"]
    steps = [call for call in calls if method_of(call) == "step" and not call.args]
    for other in steps:
        if _receiver(other) not in optimizers and not _is_scheduler(plan, file, function, other):
            raise Refusal(f"what `{file.code(other)}` steps is not known: it may be another optimizer")
    own = [call for call in steps if _receiver(call) in optimizers]
    if any(method_of(call) == "step" and call.args and _receiver(call) in optimizers for call in calls):
        raise Refusal("the step is given arguments, which a scaler hands on in another way")
    if not backwards:
        raise Refusal("the backward pass is in another function")
    for call in backwards:
        func = call.func
        assert isinstance(func, cst.Attribute)
        if (qualified_name(file, func) or "").startswith("torch."):
            raise Refusal("the loss is no receiver of `backward`")
        loss = func.value.with_changes(lpar=(), rpar=()) if func.value.lpar else func.value
        if "\n" in file.code(func.value):
            raise Refusal("the loss is written over several lines")
        nodes[func.value] = cst.Call(cst.parse_expression(f"{scaler}.scale"), [cst.Arg(loss)])
        plan.claimed.append((file, file.statement(call)))
    for call in own:
        statement = file.statement(call)
        if (
            not isinstance(statement, cst.SimpleStatementLine)
            or len(statement.body) > 1
            or not isinstance(file.parent(call), cst.Expr)
            or not isinstance(file.parent(statement), cst.IndentedBlock | cst.Module)
        ):
            raise Refusal("the step is a part of a larger statement")
        optimizer = receiver_of(call)
        nodes[call] = cst.parse_expression(f"{scaler}.step({optimizer})")
        if not _is_followed(file, statement, own, backwards):
            plan.after.setdefault(file, {})[statement] = [f"{scaler}.update()"]
        plan.claimed.append((file, statement))
        read = _first_read(file, function, backwards, call)
        if read is not None:
            at = before_step(file, read, call)
            lines = plan.before.setdefault(file, {}).setdefault(at, [])
            lines += [line for line in (f"{scaler}.unscale_({optimizer})",) if line not in lines]
            plan.claimed.append((file, at))


def _is_followed(
    file: ParsedFile, statement: cst.SimpleStatementLine, steps: list[cst.Call], backwards: list[cst.Call]
) -> bool:
    """Whether another optimizer steps further down in the block, without a backward pass in between."""
    block = file.parent(statement)
    assert isinstance(block, cst.IndentedBlock | cst.Module)
    marked = {file.statement(call): True for call in steps}
    around = {part for call in backwards for part in (file.statement(call), *file.parents(call))}
    for later in block.body[block.body.index(statement) + 1 :]:
        if later in around:
            return False
        if later in marked:
            return True
    return False


def _first_read(
    file: ParsedFile, function: cst.FunctionDef | cst.Module, backwards: list[cst.Call], step: cst.Call
) -> cst.CSTNode | None:
    """What first clips or reads gradients between the last backward pass before a step and the step."""
    end = file.span(step)
    earlier = [file.span(call) for call in backwards if file.span(call) < end]
    if not earlier:
        raise Refusal("the step comes before the backward pass")
    start = max(earlier)
    reads: Iterator[cst.CSTNode] = (
        node
        for kind in (cst.Call, cst.Attribute)
        for node in file.inside(kind, file.span(function))
        if _reads(node)
    )
    found = [node for node in reads if start < file.span(node) < end]
    return min(found, key=file.span, default=None)


def _reads(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Attribute):
        return node.attr.value == "grad"
    return isinstance(node, cst.Call) and (dotted(node.func) or "").rpartition(".")[2] in CLIPS


def _is_scheduler(
    plan: Plan, file: ParsedFile, function: cst.FunctionDef | cst.Module, call: cst.Call
) -> bool:
    """Whether a step is that of a learning-rate scheduler, wherever it was made."""
    name = dotted(call.func.value) if isinstance(call.func, cst.Attribute) else None
    if name is None:
        return False
    looking = Plan(plan.files)
    try:
        origins = looking.origins(file, function, name, call, _MOST_CALLS)
    except Refusal:
        return False
    return all(_makes_scheduler(origin) for origin in origins)


def _makes_scheduler(origin: Origin) -> bool:
    made = origin.made
    name = qualified_name(origin.file, made.func) if isinstance(made, cst.Call) else None
    return name is not None and name.startswith(FACTORIES)


def _making(file: ParsedFile, name: str, at: cst.CSTNode) -> cst.BaseExpression:
    """What an object with a name is assigned, once, whatever the way to a node. Raises Refusal."""
    owner = class_around(file, at) if "." in name else None
    found = []
    for assign in file.nodes(cst.Assign):
        is_it = len(assign.targets) == 1 and dotted(assign.targets[0].target) == name
        if is_it and owner in (None, class_around(file, assign)):
            found.append(assign.value)
    found = [value for value in found if is_known(file, name, value, at)]
    if len(found) != 1:
        raise Refusal(f"where `{name}` is made is not known")
    name_given(file, found[0])
    statement = file.statement(found[0])
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) > 1:
        raise Refusal(f"`{name}` is made in a larger statement")
    return found[0]


def _line(code: str) -> cst.SimpleStatementLine:
    line = cst.parse_statement(code)
    assert isinstance(line, cst.SimpleStatementLine)
    return line


def _receiver(call: cst.Call) -> str:
    return (dotted(call.func.value) or "") if isinstance(call.func, cst.Attribute) else ""
