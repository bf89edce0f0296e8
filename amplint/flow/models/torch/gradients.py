"""Gradients: ``p.grad`` and what is done to it, functions that clip, and gradients that are still scaled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeGuard

from amplint.amp import scalers as known
from amplint.events import (
    AmpHidden,
    GradientsNormalized,
    GradientsRead,
    GradientsZeroed,
    Place,
    ScaledGradientMixed,
)
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.identities import identity_of
from amplint.flow.models.torch.losses import MAYBE_SCALED, UnitScale, scaled_by
from amplint.flow.models.torch.parameters import parameters_in
from amplint.flow.models.torch.values import MODULE, Gradient, Parameters, Scale, ScaledGradient, Tensor
from amplint.flow.models.torch.weights import is_module, modules_below
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import NONE, TRUE, Constant, Instance, Note, Number, Sequence, Unknown, Value
from amplint.lowering.program import Node

models = Registry()

_FACTORS = frozenset({"*=", "/=", "mul_", "div_"})
"""What changes gradients in place by a factor, which may be a scale."""
_METHODS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow", "neg": "abs", "pos": "abs"}
"""The methods that operators stand for, as far as scaled gradients go."""
_COMPARISONS = frozenset({"<", "<=", ">", ">="})
_NORM = "norm of gradients"
"""The kind of an unknown that is the norm of gradients, or that with a number added."""


@dataclass(frozen=True, slots=True)
class _Measured(Note):
    """Where a norm of gradients was measured."""

    place: Place


def zeroed(
    api: Api, node: Node, *, optimizer: Value | None = None, of: frozenset[Symbol] = frozenset()
) -> None:
    """Tells that gradients are dropped: those of an optimizer, of modules, or of who knows which."""
    api.emit(GradientsZeroed(api.place(node), regions(api), identity_of(optimizer), of))


# p.grad ----------------------------------------------------------------------------------------------------------


models.about(".grad.", weight=Weight.EFFECT)


@models.into(models.attributes, Parameters)
def _of_parameter(api: Api, parameter: Parameters, name: str, node: Node) -> Value | None:
    """``p.grad``, of one parameter."""
    if not parameter.one or parameter.named:
        return None
    return Gradient(parameter.module) if name == "grad" else parameter if name == "data" else None


@models.into(models.attributes, Gradient)
def _of_gradient(api: Api, gradient: Gradient, name: str, node: Node) -> Value | None:
    """``p.grad.data``."""
    return gradient if name == "data" else None


@models.into(models.stores, Parameters, Tensor, "")
def _set(api: Api, base: Value, name: str, value: Value, node: Node) -> bool:
    """``p.grad = None``. Gradients that are replaced may be anything."""
    if name != "grad" or (isinstance(base, Unknown) and value != NONE):
        return False
    if value == NONE:
        zeroed(api, node, of=_owner(base))
    elif not isinstance(value, Gradient):
        api.emit(AmpHidden(api.place(node), regions(api)))
    return True


def _owner(value: Value) -> frozenset[Symbol]:
    module = value.module if isinstance(value, (Parameters, Gradient)) else None
    if isinstance(value, Tensor):
        module = value.parameter_of
    return frozenset() if module is None else frozenset({module})


@models.method(Gradient)
def _gradient_method(api: Api, gradient: Gradient, name: str, arguments: Arguments, node: Node) -> Value:
    """A method of ``p.grad``, or a function of torch that is given it."""
    clips = name in known.LIMITS
    measures = name in known.NORMS or name in known.SIZES.get(gradient.size or "", ())
    size = known.size_of(name, _number(arguments.get(0, "exponent")))
    if measures or (clips and not gradient.copied):
        api.emit(GradientsRead(api.place(node), regions(api), name, _owner(gradient), clips))
        if measures:
            norm = api.unknown(node, _NORM)
            api.set_note(norm.symbol, _Measured(api.place(node)))
            return norm
    elif size is not None and gradient.size is None:
        return replace(gradient, copied=True, size=size)
    elif name == "zero_":
        if not gradient.copied:
            zeroed(api, node, of=_owner(gradient))
    elif name in _FACTORS:
        api.emit(AmpHidden(api.place(node), regions(api)))
    elif name in known.KEEPS:
        return replace(gradient, copied=gradient.copied or name in known.COPIES)
    elif name in known.JOINS:  # whatever it is joined with
        return replace(gradient, copied=True)
    elif name in known.COMBINES | known.MULTIPLIES:
        return api.unknown(node, MAYBE_SCALED)  # ``torch.dot(y, x.grad)``: the gradients of a surrogate loss
    return gradient if name.endswith("_") else api.unknown(node)


@models.into(models.operators, Gradient)
def _gradient_operator(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``p.grad *= 2``: gradients that are multiplied by hand may be unscaled by that."""
    if operator == "/" and right is not None and _is_norm(right):
        return _normalized(api, right, node)
    squares = (operator == "**" and _number(right) == 2) or (operator == "*" and left == right)
    if squares and isinstance(left, Gradient) and left.size is None:
        return replace(left, copied=True, size="square")
    if not operator.endswith("=") and operator in _METHODS:
        return api.unknown(node, MAYBE_SCALED)
    if not isinstance(left, Gradient) or not operator.endswith("=") or operator in ("==", "<=", ">=", "!="):
        return None
    if operator in _FACTORS:
        api.emit(AmpHidden(api.place(node), regions(api)))
    return left


@models.into(models.operators, Unknown)
def _norm_operator(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``epsilon * p.grad / norm``, ``norm + 1e-12``. Who compares a norm with something else than 0 minds the scale."""
    if operator in _COMPARISONS and Constant(0) not in (left, right):
        for one in filter(_is_norm, (left, right)):
            api.drop_note(one.symbol, _Measured)
    if operator == "/" and isinstance(left, Unknown) and left.kind == MAYBE_SCALED and _is_norm(right):
        return _normalized(api, right, node)
    return left if operator == "+" and _is_norm(left) and isinstance(right, (Constant, Number)) else None


def _is_norm(value: Value | None) -> TypeGuard[Unknown]:
    return isinstance(value, Unknown) and value.kind == _NORM


def _normalized(api: Api, norm: Unknown, node: Node) -> Value:
    """What gradients give that are divided by their norm: no scale is left in it."""
    for note in api.notes(norm.symbol, _Measured):
        api.emit(GradientsNormalized(api.place(node), regions(api), note.place))
    return api.unknown(node)


# functions that clip ---------------------------------------------------------------------------------------------


@models.call(*known.GRADIENT_OPS, weight=Weight.EFFECT)
def _clip(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``torch.nn.utils.clip_grad_norm_(parameters, max_norm)`` and its like."""
    op = known.GRADIENT_OPS[name]
    named = arguments.by_name(op.parameters)
    limit = named.get(op.parameters[1]) if len(op.parameters) > 1 else None
    given = named.get(op.parameters[0], NONE)
    of, whole = parameters_in(api, given), isinstance(given, Parameters) and not given.one
    if isinstance(given, Parameters) and whole:
        of |= modules_below(api, given.module)
    return _limited(api, name.rpartition(".")[2], of, limit, node, clips=op.clips, whole=whole)


@models.method(MODULE, "clip_grad_norm_", weight=Weight.EFFECT)
@models.method(Instance, "clip_grad_norm_", weight=Weight.EFFECT)
def _clip_split(api: Api, module: Value, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``module.clip_grad_norm_(max_norm)``, which modules have whose parameters are split among processes."""
    identity = api.identity_of(module) if is_module(api, module) else None
    if identity is None:
        return None
    of = modules_below(api, identity)
    return _limited(api, name, of, arguments.get(0, "max_norm"), node, clips=True, whole=True)


def _limited(
    api: Api,
    how: str,
    of: frozenset[Symbol],
    limit: Value | None,
    node: Node,
    *,
    clips: bool,
    whole: bool,
) -> Value:
    if not isinstance(limit, Scale):  # a limit in proportion to the scale fits the gradients
        api.emit(GradientsRead(api.place(node), regions(api), how, of, clips, _number(limit), whole))
    return api.unknown(node)


def _number(value: Value | None) -> float | None:
    if isinstance(value, Constant) and isinstance(value.value, (int, float)):
        return float(value.value)
    return None


# scaled gradients ------------------------------------------------------------------------------------------------


@models.call("torch.autograd.grad", weight=Weight.EFFECT)
def _grad(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``torch.autograd.grad(outputs, …)``. With create_graph the result becomes part of a loss."""
    scalers, unclear = scaled_by(arguments.get(0, "outputs"))
    if scalers and not unclear and arguments.keyword("create_graph") == TRUE:
        return Sequence((ScaledGradient(scalers[0], api.place(node)),), exact=False)
    return api.unknown(node)


@models.method(ScaledGradient)
def _scaled_method(api: Api, gradient: ScaledGradient, name: str, arguments: Arguments, node: Node) -> Value:
    """A method of a gradient that is still scaled, or a function of torch that is given it."""
    return _computed(api, gradient, name, arguments.positional, node)


@models.into(models.operators, ScaledGradient)
def _scaled_operator(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``gradient.norm() - 1``."""
    name = _METHODS.get(operator if operator in _METHODS else operator.removesuffix("="))
    if name is None:
        return None
    gradient, other = (left, right) if isinstance(left, ScaledGradient) else (right, left)
    assert isinstance(gradient, ScaledGradient)
    if isinstance(right, ScaledGradient) and operator in ("/", "**"):
        return api.unknown(node)
    return _computed(api, gradient, name, () if other is None else (other,), node)


@models.into(models.attributes, ScaledGradient)
def _scaled_attribute(api: Api, gradient: ScaledGradient, name: str, node: Node) -> Value | None:
    return gradient if name == "data" else None


@models.into(models.items, ScaledGradient)
def _scaled_item(api: Api, gradient: ScaledGradient, keys: tuple[Value, ...], node: Node) -> Value:
    return gradient


def _computed(api: Api, gradient: ScaledGradient, name: str, others: tuple[Value, ...], node: Node) -> Value:
    """What becomes of a gradient that is still scaled."""
    name = name.strip("_")
    if name in ("div", "mul", "truediv"):
        kept = bool(others) and all(isinstance(value, Constant) or api.is_setting(value) for value in others)
        return gradient if kept else api.unknown(node)
    if name in known.PROPORTIONAL:
        return gradient
    if name not in ("add", "sub"):
        return api.unknown(node)
    if all(isinstance(value, ScaledGradient) or value == Constant(0) for value in others):
        return gradient
    mixed = all(isinstance(value, (Constant, Number, Tensor)) for value in others)
    if mixed and api.note(gradient.scaler, UnitScale) is None:
        scaler, born = gradient.scaler, gradient.born
        api.emit(ScaledGradientMixed(api.place(node), regions(api), scaler, born, name))
    return api.unknown(node)
