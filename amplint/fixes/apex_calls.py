"""What a file does with apex.amp: its imports, its calls, the flags of ``amp.initialize``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from amplint.amp.apex import INITIALIZE, SCALE_LOSS, WITHOUT_EQUAL
from amplint.fixes.dependence import dotted
from amplint.fixes.imports import binding_of, qualified_name, uses_of
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scopes import Binding, bindings
from amplint.fixes.switches import argument

AMP = "apex.amp."
STATES = {"state_dict": "_apex_amp_state_dict", "load_state_dict": "_apex_amp_load_state_dict"}
"""What these calls are named while the file is between the two steps."""
CALLS = frozenset({"initialize", "scale_loss", "master_params", "state_dict", "load_state_dict"})
_DECORATOR = "half_function"


class ApexCalls:
    """What a file does with apex.amp."""

    def __init__(self, file: ParsedFile) -> None:
        """Raises Refusal where some of it has no equal."""
        self.file = file
        self.notes: list[str] = []
        self.uses = list(uses_in(file))
        self.decorators: list[cst.Decorator] = []
        """Those of ``half_function``."""
        self.calls: dict[str, list[cst.Call]] = {name: [] for name in CALLS}
        self.bindings = list(_imports(file))
        for use in self.uses:
            self._take(use)
        if len(self.calls["initialize"]) != 1:
            what = "is not called in this file" if not self.calls["initialize"] else "is called several times"
            raise Refusal(f"`amp.initialize` {what}")

    def _take(self, use: cst.Name | cst.Attribute) -> None:
        name = (qualified_name(self.file, use) or "").removeprefix(AMP)
        around = self.file.parent(use)
        if name in CALLS and isinstance(around, cst.Call) and around.func is use:
            self.calls[name].append(around)
        elif name == _DECORATOR and isinstance(around, cst.Decorator):
            self._decorated(around)
        elif name == AMP[:-1]:
            raise Refusal("the module `apex.amp` itself is handed on")
        else:
            raise Refusal(f"`amp.{name}` has no equal in torch.amp")

    def _decorated(self, decorator: cst.Decorator) -> None:
        """Inside a region the ops of a function cast by themselves."""
        function = self.file.parent(decorator)
        assert isinstance(function, cst.FunctionDef)
        self.decorators.append(decorator)
        self.notes.append(
            f"the ops in `{function.name.value}` cast by themselves, kernels of extensions do not"
        )

    # amp.initialize

    @property
    def initialize(self) -> cst.Call:
        """The call of ``amp.initialize``."""
        return self.calls["initialize"][0]

    def given(self, name: str) -> cst.BaseExpression | None:
        """An argument of ``amp.initialize``."""
        at = argument(self.initialize, INITIALIZE, name)
        return self.initialize.args[at].value if at is not None else None

    @cached_property
    def optimizers(self) -> tuple[str, ...]:
        """The names of the optimizers that apex initialises. Raises Refusal."""
        given = self.given("optimizers")
        if given is None:
            raise Refusal("`amp.initialize` is given no optimizer")
        parts = (
            [part.value for part in given.elements] if isinstance(given, cst.List | cst.Tuple) else [given]
        )
        names = [dotted(part) for part in parts]
        if None in names:
            raise Refusal("an optimizer that `amp.initialize` is given has no name")
        return tuple(name for name in names if name is not None)

    @cached_property
    def flags(self) -> tuple[str, bool]:
        """The arguments of the scaler, and whether a flag or the level may switch it off. Raises Refusal."""
        for name in WITHOUT_EQUAL:
            if self.given(name) is not None:
                raise Refusal(f"`{name}` of `amp.initialize` has no equal in torch.amp")
        level, enabled, loss_scale = map(self.given, ("opt_level", "enabled", "loss_scale"))
        arguments = ['"cuda"']
        if isinstance(loss_scale, cst.Integer | cst.Float):
            arguments.append(f"init_scale={float(loss_scale.evaluated_value)}")
            self.notes.append("the scale begins as it was and moves from there")
        elif loss_scale is not None and not _is_dynamic(loss_scale):
            raise Refusal("`loss_scale` of `amp.initialize` is not known")
        known = level.evaluated_value if isinstance(level, cst.SimpleString) else None if level else "O1"
        if known == "O3":
            raise Refusal("O3 trains float16 weights without float32 copies, which has no equal in torch.amp")
        if known == "O2" or known is None:
            self.notes.append(
                "weights are float32 with casts under autocast, where O2 keeps float16 ones and float32 copies"
            )
        if known is None and level is not None:
            self._refuse_other_uses(level)
        flag = ""
        if known == "O0":
            flag = "False"
        elif known is None and enabled is None and level is not None:
            flag = f'{self.file.code(level)} != "O0"'
        elif enabled is not None:
            flag = self.file.code(enabled)
            if known is None and level is not None and self._levels_in(enabled, level) == {"O0"}:
                flag = self.file.code(enabled.with_changes(lpar=(), rpar=()))
            elif known is None and level is not None:
                first = flag if isinstance(enabled, cst.Name | cst.Attribute | cst.Subscript) else f"({flag})"
                flag = f'{first} and {self.file.code(level)} != "O0"'
        if flag and flag != "True":
            arguments.append(f"enabled={flag}")
            return ", ".join(arguments), True
        return ", ".join(arguments), False

    def _refuse_other_uses(self, level: cst.BaseExpression) -> None:
        """Raises Refusal where the code asks for a level of which the weights are float16: they are not any more."""
        for node in self.file.nodes(cst.Comparison):
            if self._levels_in(node, level) & {"O2", "O3"}:
                raise Refusal(f"`{self.file.code(node)}` counts on float16 weights")

    def _levels_in(self, node: cst.BaseExpression, level: cst.BaseExpression) -> set[object]:
        """The levels that the level is compared with, where that is all that a condition does."""
        if not isinstance(node, cst.Comparison) or self.file.code(node.left) != self.file.code(level):
            return set()
        values = [part.comparator for part in node.comparisons]
        return {value.evaluated_value for value in values if isinstance(value, cst.SimpleString)}

    @cached_property
    def scaler(self) -> str:
        """The name of the scaler where it is made: an attribute beside an attribute. Raises Refusal."""
        taken = {node.value for node in self.file.nodes(cst.Name)}
        name = next((one for one in ("scaler", "grad_scaler") if one not in taken), None)
        if name is None:
            raise Refusal("the name `scaler` is taken")
        return f"self.{name}" if self.optimizers[0].startswith("self.") else name

    # amp.scale_loss

    @cached_property
    def scaled(self) -> list[tuple[str, cst.With]]:
        """The `with` statements that scale a loss, with the names of the optimizers. Raises Refusal."""
        found = []
        for call in self.calls["scale_loss"]:
            item = self.file.parent(call)
            holder = self.file.parent(item) if isinstance(item, cst.WithItem) else None
            if not isinstance(holder, cst.With) or len(holder.items) > 1:
                raise Refusal("`amp.scale_loss` is entered in an unusual way")
            if not isinstance(self.file.parent(holder), cst.IndentedBlock | cst.Module):
                raise Refusal("`amp.scale_loss` stands in no block")
            at = argument(call, SCALE_LOSS, "optimizers")
            given = call.args[at].value if at is not None else None
            parts = [e.value for e in given.elements] if isinstance(given, cst.List | cst.Tuple) else [given]
            for part in parts:
                name = dotted(part) if part is not None else None
                if name is None:
                    raise Refusal("the optimizer of `amp.scale_loss` has no name")
                found.append((name, holder))
        return found


def uses_in(file: ParsedFile) -> Iterator[cst.Name | cst.Attribute]:
    """What names something of apex.amp, as far as it goes, imports left out."""
    roots = {binding.name for binding in bindings(file) if binding.target.partition(".")[0] == "apex"}
    kinds: tuple[type[cst.Name] | type[cst.Attribute], ...] = (cst.Name, cst.Attribute)
    for kind in kinds:
        for node in file.nodes(kind):
            around = file.parent(node)
            if isinstance(around, cst.Attribute) or (dotted(node) or "").partition(".")[0] not in roots:
                continue
            if isinstance(around, cst.Arg) and around.keyword is node:
                continue
            if any(isinstance(outer, cst.Import | cst.ImportFrom) for outer in file.parents(node)):
                continue
            name = qualified_name(file, node)
            if name is None:
                raise Refusal(
                    f"`{file.code(node)}` is bound to something else as well: the code runs without apex, too"
                )
            if name.startswith(AMP) or name == AMP[:-1]:
                yield node


def _imports(file: ParsedFile) -> Iterator[Binding]:
    """The imports of apex.amp, or of what holds it. Raises Refusal where a condition decides."""
    for binding in bindings(file):
        if binding.target in ("apex", AMP[:-1]) or binding.target.startswith(AMP):
            uses = uses_of(file, binding.name)
            if uses and guard(file, binding) is None:
                binding_of(file, uses[0])
            yield binding


def guard(file: ParsedFile, binding: Binding) -> cst.Try | None:
    """The `try` statement around an import that raises where apex is missing. Raises Refusal for any other one."""
    block = file.parent(binding.line)
    holder = file.parent(block) if block is not None else None
    if not isinstance(holder, cst.Try):
        return None
    plain = not holder.orelse and not holder.finalbody
    for handler in holder.handlers:
        last = handler.body.body[-1] if handler.body.body else None
        raises = isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[0], cst.Raise)
        plain = plain and raises
    if not plain:
        raise Refusal("the code runs without apex, too: decide what holds without it")
    return holder


def is_used_besides(file: ParsedFile, binding: Binding) -> bool:
    return any(
        isinstance(file.parent(node), cst.Attribute)
        and not (qualified_name(file, file.parent(node)) or "").startswith(AMP[:-1])  # type: ignore[arg-type]
        for node in file.nodes(cst.Name)
        if node.value == binding.name and not any(isinstance(p, cst.Import) for p in file.parents(node))
    )


def _is_dynamic(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.SimpleString):
        return node.evaluated_value == "dynamic"
    return isinstance(node, cst.Name) and node.value == "None"
