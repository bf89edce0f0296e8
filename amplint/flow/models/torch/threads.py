"""What runs in other threads: they begin with autocast off, whatever the thread that starts them has on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from amplint.events import DType, Regions, ThreadBegan, ThreadEnded, enabled_region
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.values import InThread, OpenRegions
from amplint.flow.state.values import (
    NONE,
    BoundMethod,
    External,
    Instance,
    Mapping,
    Note,
    Partial,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

THREAD = "threading.Thread"
TIMER = "threading.Timer"
POOLS = (
    "concurrent.futures.ThreadPoolExecutor",
    "concurrent.futures.thread.ThreadPoolExecutor",
    "multiprocessing.pool.ThreadPool",
    "multiprocessing.dummy.Pool",
)
_FUNCTIONS = {"submit": "fn", "apply": "func", "apply_async": "func"}
"""Methods of pools that run a function once, with the name of the parameter for it."""
_EACH = ("map", "imap", "imap_unordered", "map_async", "starmap", "starmap_async")


@dataclass(frozen=True, slots=True)
class Target(Note):
    """What a thread is to run: a Partial, or a Choice of them."""

    call: Value


# made and started ------------------------------------------------------------------------------------------------


@models.call(THREAD, TIMER, f"{THREAD}.__init__", f"{TIMER}.__init__")
def _thread(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``Thread(target=run, args=(x,))``, ``Timer(interval, run)``."""
    is_timer = name.startswith(TIMER)
    parameters = (
        ("interval", "function", "args", "kwargs")
        if is_timer
        else ("group", "target", "name", "args", "kwargs")
    )
    named = arguments.by_name(parameters)
    made = arguments.receiver
    if not isinstance(made, Instance):
        made = Instance(api.fresh(node), None, TIMER if is_timer else THREAD)
    target = named.get("function" if is_timer else "target")
    if target is not None and target != NONE:
        given = named.get("args")
        positional = given.items if isinstance(given, Sequence) and given.exact else ()
        by_name = named.get("kwargs")
        keywords = (
            tuple((str(key), value) for key, value in by_name.items) if isinstance(by_name, Mapping) else ()
        )
        api.set_note(made.identity, Target(Partial(target, positional, keywords)))
    return made


@models.call(f"{THREAD}.start", f"{TIMER}.start")
def _start(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    thread = arguments.receiver
    if not isinstance(thread, Instance):
        return NONE
    method = api.find_method(thread.made_of, "run") if thread.made_of is not None else None
    if method is not None:
        run(api, "thread", BoundMethod(thread, "run", method), Arguments(), node)
        return NONE
    target = api.note(thread.identity, Target)
    if target is not None:
        run(api, "thread", target.call, Arguments(), node)
    return NONE


@models.call(*POOLS)
def _pool(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return Instance(api.fresh(node), None, name)


@models.call(*(f"{pool}.{name}" for pool in POOLS for name in _FUNCTIONS))
def _run_once(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    method = name.rpartition(".")[2]
    function = arguments.get(0, _FUNCTIONS[method])
    if function is None:
        return api.unknown(node)
    if method == "submit":
        given = arguments.rest(1)
    else:
        handed = arguments.get(1, "args")
        items = handed.items if isinstance(handed, Sequence) and handed.exact else ()
        given = Arguments(items, (), (node,) * len(items), unclear=not isinstance(handed, Sequence))
    run(api, "thread", function, given, node)
    return api.unknown(node)


@models.call(*(f"{pool}.{name}" for pool in POOLS for name in _EACH))
def _run_each(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if arguments.positional:
        items = tuple(api.iterate(items, node) for items in arguments.positional[1:])
        given = Arguments(items, (), (node,) * len(items), unclear=True)
        run(api, "thread", arguments.positional[0], given, node)
    return api.unknown(node)


@models.call("asyncio.to_thread")
def _to_thread(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if arguments.positional:
        run(api, "thread", arguments.positional[0], arguments.rest(1), node)
    return api.unknown(node)


@models.method("", "run_in_executor")
def _in_executor(api: Api, loop: Unknown, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``loop.run_in_executor(None, function, …)``, or with a pool of threads."""
    executor = arguments.get(0, "executor")
    pool = isinstance(executor, Instance) and executor.external in POOLS
    if len(arguments.positional) < 2 or not (pool or executor == NONE):
        return None
    run(api, "thread", arguments.positional[1], arguments.rest(2), node)
    return api.unknown(node)


# run -------------------------------------------------------------------------------------------------------------


def run(api: Api, how: str, function: Value, arguments: Arguments, node: Node, inside: Regions = ()) -> Value:
    """Calls a function as another thread runs it; ``inside`` are the regions of the new thread. It is told where
    the present one has a region open."""
    if isinstance(function, External):
        return api.unknown(node)
    return in_thread(api, how, lambda: api.call(function, arguments, node), node, inside)


def in_thread(api: Api, how: str, action: Callable[[], Value], node: Node, inside: Regions) -> Value:
    """Does something as another thread does it."""
    outside, thread = regions(api), api.ambient(InThread)
    is_told = enabled_region(outside) is not None and not outside[0].assumed
    api.surround(OpenRegions(inside))
    api.surround(InThread(True))
    if is_told:
        api.emit(ThreadBegan(api.place(node), inside, how, outside))
    result = action()
    api.surround(OpenRegions(inside))
    if is_told:
        api.emit(ThreadEnded(api.place(node), inside))
    api.surround(OpenRegions(outside))
    api.surround(thread)
    return result


def replicated(api: Api) -> Regions | None:
    """The regions in which nn.DataParallel runs its replicas, if they differ from those around it: it keeps
    whether autocast is on, and not the type (torch/nn/parallel/parallel_apply.py of torch 2.13.0). On the CPU there are
    no replicas."""
    region = enabled_region(regions(api))
    if region is None or region.framework or region.assumed or region.dtype is not DType.BFLOAT16:
        return None
    if region.device == "cpu":
        return None
    return (replace(region, dtype=DType.FLOAT16, identity=("replica", region.identity)),)
