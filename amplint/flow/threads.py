"""What runs in other threads: they begin with autocast off, whatever the thread that starts them has on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from amplint.events import DType, Regions, ThreadBegan, ThreadEnded, enabled_region
from amplint.flow import calls, modules
from amplint.flow.values import (
    UNKNOWN,
    BoundMethod,
    Constant,
    FunctionValue,
    Instance,
    Library,
    Mapping,
    Partial,
    Sequence,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from amplint.flow.expressions import Expressions

_THREADS = frozenset({"threading.Thread", "threading.Timer"})
POOLS = frozenset(
    {
        "concurrent.futures.ThreadPoolExecutor",
        "concurrent.futures.thread.ThreadPoolExecutor",
        "multiprocessing.pool.ThreadPool",
        "multiprocessing.dummy.Pool",
    }
)
_ONE = frozenset({"submit", "apply", "apply_async"})
_EACH = frozenset({"map", "imap", "imap_unordered", "map_async", "starmap"})


def is_thread_class(name: str) -> bool:
    """Whether calling this makes a thread or a pool of threads."""
    return name in _THREADS or name in POOLS


def made(walker: Expressions, name: str, given: calls.Arguments, node: cst.Call) -> Instance:
    """``Thread(target=…)``, ``ThreadPoolExecutor()``."""
    instance = Instance((id(node), walker.scope.chain), None, name)
    target = given.keyword("target") or given.keyword("function")
    if target is None and len(given.positional) > 1 and name in _THREADS:
        target = given.positional[1]
    if target is not None:
        arguments = given.keyword("args") or (given.positional[3] if len(given.positional) > 3 else None)
        positional = arguments.items if isinstance(arguments, Sequence) and arguments.exact else ()
        named = given.keyword("kwargs")
        keywords = tuple((str(k), v) for k, v in named.items) if isinstance(named, Mapping) else ()
        walker.path.store(instance.identity, "<target>", Partial(target, positional, keywords))
    return instance


def method(walker: Expressions, base: Instance, name: str, given: calls.Arguments, node: cst.Call) -> Value:
    """A method of a thread or a pool."""
    if base.library in POOLS:
        if given.positional and name in _ONE | _EACH:
            run(walker, "thread", given.positional[0], _handed_on(name, given), node)
        return Unknown(walker.fresh(node))
    if name == "start":
        target = walker.path.load(base.identity, "<target>")
        if isinstance(target, Partial):
            run(walker, "thread", target, calls.Arguments(), node)
    return Unknown(walker.fresh(node))


def _handed_on(name: str, given: calls.Arguments) -> calls.Arguments:
    if name == "submit":
        return calls.Arguments(given.positional[1:], given.keywords, given.nodes[1:], given.unclear)
    if name in ("apply", "apply_async"):
        arguments = given.positional[1] if len(given.positional) > 1 else given.keyword("args")
        return calls.Arguments(arguments.items if isinstance(arguments, Sequence) else (), unclear=True)
    return calls.Arguments(tuple(UNKNOWN for _ in given.positional[1:]), unclear=True)


def run(
    walker: Expressions,
    how: str,
    function: Value,
    given: calls.Arguments,
    node: cst.Call,
    inside: Regions = (),
) -> Value:
    """Walks a function as another thread runs it, if this one has a region open."""
    outside = walker.path.regions
    if enabled_region(outside) is None or outside[0].assumed:
        return UNKNOWN
    walker.path.regions = inside
    walker.emit(ThreadBegan(walker.place(node), inside, how, outside))
    result = _call(walker, function, given, node)
    walker.path.regions = inside
    walker.emit(ThreadEnded(walker.place(node), inside))
    walker.path.regions = outside
    return result


def _call(walker: Expressions, function: Value, given: calls.Arguments, node: cst.Call) -> Value:
    if isinstance(function, Partial):
        given = calls.Arguments(
            (*function.positional, *given.positional),
            (*function.keywords, *given.keywords),
            unclear=given.unclear,
        )
        function = function.function
    if function == Library("<replica>"):
        replica, *positional = given.positional
        rest = calls.Arguments(tuple(positional), given.keywords, unclear=given.unclear)
        return modules.run(walker, replica, rest, node)
    function = walker.pin(walker.engine.reveal(function))
    if isinstance(function, BoundMethod) and function.function is not None:
        given = given.after(function.receiver)
        function = function.function
    if isinstance(function, FunctionValue):
        return calls.invoke(walker, function, given, node, always=True)
    if isinstance(function, Library):
        return UNKNOWN
    return calls.call_value(walker, function, given, node)


def replicated(walker: Expressions) -> Regions | None:
    """The regions in which nn.DataParallel runs its replicas, if they differ from those around it: it keeps
    whether autocast is on, and not the type (torch/nn/parallel/parallel_apply.py of torch 2.13.0)."""
    region = enabled_region(walker.path.regions)
    if region is None or region.framework or region.assumed or region.dtype is not DType.BFLOAT16:
        return None
    return (replace(region, dtype=DType.FLOAT16, identity=("replica", region.identity)),)


def start_of(walker: Expressions, base: Instance, name: str, node: cst.Call) -> bool:
    """``start()`` of a class of the project that is a thread: its ``run`` begins."""
    if name != "start" or base.made_of is None:
        return False
    outside = (part.name for part in walker.engine.bases(base.made_of) if isinstance(part, Library))
    method = walker.engine.find_method(base.made_of, "run")
    if method is None or not any(part in _THREADS for part in outside):
        return False
    run(walker, "thread", method, calls.Arguments.of(base), node)
    return True


def elsewhere(walker: Expressions, name: str, given: calls.Arguments, node: cst.Call) -> bool:
    """``loop.run_in_executor(None, function)``, ``asyncio.to_thread(function)``."""
    rest = given.positional
    if name == "run_in_executor" and len(rest) > 1 and (rest[0] == Constant(None) or _is_pool(rest[0])):
        rest = rest[1:]
    elif name != "asyncio.to_thread" or not rest:
        return False
    run(walker, "thread", rest[0], calls.Arguments(rest[1:], given.keywords), node)
    return True


def _is_pool(value: Value) -> bool:
    return isinstance(value, Instance) and value.library in POOLS
