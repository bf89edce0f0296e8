"""What a trace knows of a thread: the modules and the op that run in it, and the casts that were made for the op."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from amplint.confirm.ledger import Ledger
from amplint.confirm.trace import FORWARD
from amplint.confirm.watching import Watch

if TYPE_CHECKING:
    from amplint.confirm.module_names import Node
    from amplint.confirm.places import Site

TAG = "amplint.cast"
"""Under this name a node of the autograd graph says which cast it reverses."""
EMULATED = "emulated"
"""The tag of a cast that only the simulation makes."""
OP_TAG = "amplint.op"
"""Under this name a node says which op it belongs to."""

_numbers: Any = torch.autograd


def next_number() -> int:
    """The number that the next node of the autograd graph gets which this thread makes."""
    number: int = _numbers._get_sequence_nr()
    return number


def is_captured() -> bool:
    """Whether torch.jit.trace takes down what runs: a question for a size would become a part of the program."""
    return torch._C._get_tracing_state() is not None


def current_node() -> Any:
    """The node whose gradients are being computed, or None."""
    return torch._C._current_autograd_node()


@dataclass(slots=True)
class MadeCast:
    """A cast as it was executed. ``number`` is that of its node in the autograd graph, if it has one."""

    source: Tensor
    result: Tensor
    number: int
    emulated: bool


@dataclass(slots=True)
class Call:
    """A function of torch as it runs. ``number`` is that of the first node that it can have made."""

    number: int
    casts: list[MadeCast] = field(default_factory=list)


@dataclass(slots=True)
class ThreadTrace:
    """One thread. The thread of a device, which runs backward passes, has that of the thread which asked for one."""

    watch: Watch
    ledger: Ledger
    call: Call | None = None
    phase: str = FORWARD
    mode: Any = None
    """Its TorchFunctionMode."""
    modules: list[Node] = field(default_factory=list)
    site: Site | None = None
    """Where the backward pass or the optimizer's step was asked for that runs."""
