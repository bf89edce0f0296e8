"""Whether statements depend on the autocast region around them, judged by the calls and operators in them."""

from __future__ import annotations

import sys
from collections.abc import Collection

import libcst as cst

from amplint.amp.ops import Policy, policy_of
from amplint.amp.scalers import CLIPS
from amplint.fixes.parsed import ParsedFile

ACTS = CLIPS | frozenset(
    {
        "backward",
        "manual_backward",
        "step",
        "unscale_",
        "unscale_gradients",
        "clip_gradients",
    }
)
"""Calls that belong after the region: the backward pass, and what is done to gradients and parameters."""

_METHODS = (ACTS - {"step"}) | {
    # scalers and optimizers
    "zero_grad",
    "scale",
    "get_scale",
    "state_dict",
    "get_last_lr",
    "parameters",
    "named_parameters",
    "train",
    "eval",
    # tensors; those that join them take the widest type, in a region or not
    "cat",
    "stack",
    "item",
    "tolist",
    "detach",
    "clone",
    "cpu",
    "cuda",
    "to",
    "float",
    "numpy",
    "size",
    "dim",
    "numel",
    "requires_grad_",
    # tensors made and filled, which no region makes half
    "manual_seed",
    "rand",
    "randn",
    "randint",
    "zeros",
    "ones",
    "full",
    "arange",
    "zeros_like",
    "ones_like",
    "uniform_",
    "normal_",
    # contexts that leave autocast as it is
    "no_grad",
    "enable_grad",
    "inference_mode",
    "record_function",
    "no_sync",
    "set_detect_anomaly",
    # lists, dictionaries, strings, progress bars, writers
    "append",
    "extend",
    "keys",
    "values",
    "items",
    "get",
    "format",
    "join",
    "set_postfix",
    "set_postfix_str",
    "set_description",
    "add_scalar",
    "add_scalars",
    "log",
    "log_dict",
    "info",
    "debug",
    "warning",
    "flush",
    "write",
    # the device and its processes
    "synchronize",
    "empty_cache",
    "barrier",
    "all_reduce",
    "memory_allocated",
    "max_memory_allocated",
}
_FUNCTIONS = frozenset(
    {
        "print",
        "len",
        "range",
        "enumerate",
        "zip",
        "isinstance",
        "getattr",
        "hasattr",
        "float",
        "int",
        "bool",
        "str",
        "repr",
        "round",
        "min",
        "max",
        "sum",
        "list",
        "tuple",
        "dict",
        "set",
        "sorted",
        "reversed",
        # of torch.nn.utils, imported by name; a function called `step` is somebody's own
        *CLIPS,
    }
)
_UNCONCERNED = frozenset({Policy.UNTOUCHED, Policy.VIEW, Policy.INTEGER})


def dotted(node: cst.CSTNode) -> str | None:
    """``a.b.c`` for a chain of attributes that starts with a name, else None."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    return ".".join([node.value, *reversed(parts)])


def needs_region(
    node: cst.CSTNode, known: Collection[cst.CSTNode] = (), *, powers: bool = True
) -> cst.CSTNode | None:
    """The first part of a node that a region may make a difference to, or None. ``known`` are calls to which
    it makes none, whatever their names; ``powers`` says whether ``**`` counts."""
    visitor = _Needs(known, powers)
    node.visit(visitor)
    return visitor.found


class _Needs(cst.CSTVisitor):
    def __init__(self, known: Collection[cst.CSTNode], powers: bool) -> None:
        super().__init__()
        self.known = known
        self.powers = powers
        self.steps: set[cst.Call] = set()
        self.found: cst.CSTNode | None = None

    def on_visit(self, node: cst.CSTNode) -> bool:
        return self.found is None and super().on_visit(node)

    def visit_Expr(self, node: cst.Expr) -> None:
        # what gives nothing back is no forward pass: `scaler.step(optimizer)`, not `state = env.step(action)`
        if isinstance(node.value, cst.Call) and method_of(node.value) == "step":
            self.steps.add(node.value)

    def visit_Call(self, node: cst.Call) -> None:
        if node in self.known or node in self.steps or _is_unconcerned(node):
            return
        self.found = node

    def visit_BinaryOperation(self, node: cst.BinaryOperation) -> None:
        power = self.powers and isinstance(node.operator, cst.Power)
        if power or isinstance(node.operator, cst.MatrixMultiply):
            self.found = node

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        if isinstance(node.operator, (cst.MatrixMultiplyAssign, cst.PowerAssign)):
            self.found = node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.found = node

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.found = node

    def visit_Lambda(self, node: cst.Lambda) -> None:
        self.found = node

    def visit_Yield(self, node: cst.Yield) -> None:
        self.found = node


def _is_unconcerned(node: cst.Call) -> bool:
    if isinstance(node.func, cst.Name):
        return node.func.value in _FUNCTIONS
    method = method_of(node)
    if method in _METHODS:
        return True
    if method in ("step", "update"):
        # those of optimizers, schedulers, scalers, and of meters that take numbers
        return not node.args or (method == "update" and isinstance(node.args[0].value, cst.Call))
    if not method:
        return False
    name = dotted(node.func)
    if name is not None and name.partition(".")[0] in sys.stdlib_module_names:
        return True
    policies = {policy_of(method, device) for device in ("cuda", "cpu")}
    return policies <= _UNCONCERNED


def method_of(node: cst.Call) -> str:
    """The last part of the name that is called as an attribute, or ""."""
    return node.func.attr.value if isinstance(node.func, cst.Attribute) else ""


def acts_in(node: cst.CSTNode, known: Collection[cst.CSTNode] = ()) -> bool:
    """Whether a node calls what belongs after the region, or holds one of the ``known`` calls."""
    visitor = _Acts(known)
    node.visit(visitor)
    return visitor.found


def is_act(file: ParsedFile, node: cst.CSTNode | None) -> bool:
    """Whether a call is one of those by its name, wherever its function is walked from."""
    if not isinstance(node, cst.Call) or method_of(node) not in ACTS:
        return False
    return method_of(node) != "step" or not node.args or isinstance(file.parent(node), cst.Expr)


class _Acts(cst.CSTVisitor):
    def __init__(self, known: Collection[cst.CSTNode]) -> None:
        super().__init__()
        self.known = known
        self.steps: set[cst.Call] = set()
        self.found = False

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False

    def visit_Expr(self, node: cst.Expr) -> None:
        if isinstance(node.value, cst.Call):
            self.steps.add(node.value)

    def visit_Call(self, node: cst.Call) -> None:
        name = method_of(node)
        is_act = name in ACTS and (name != "step" or not node.args or node in self.steps)
        self.found = self.found or is_act or node in self.known
