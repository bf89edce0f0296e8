"""What the flow knows of Python's builtins and standard library.

A call of ``backward`` that no run reaches is marked ``never``, one that every run reaches ``out``.
"""

from __future__ import annotations

from textwrap import dedent

import pytest
from listening import Holds

from amplint.events import Backward

HEAD = dedent("""
    import collections, contextlib, copy, dataclasses, functools, importlib, itertools, json, os, sys, typing
    import torch
    from collections import OrderedDict, defaultdict, deque
    from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
    from tqdm import tqdm
""")

DECIDED = {
    "the items of a tuple whose class names them": """
        class Out(typing.NamedTuple):
            logits: int
            aux: int = 2
        out = Out(aux=3, logits=1)
        first, second = out
        yes(first == 1 and out[0] == 1)
        yes(second == 3 and out[-1] == 3)
        yes(Out(4)[1] == 2)
        no(out.logits == 3)
    """,
    "length of a list that grew": """
        items = [1, 2]
        items.append(3)
        items += [4]
        items.extend((5, 6))
        yes(len(items) == 6)
    """,
    "a comprehension over a dict": """
        sizes = {"a": 1, "b": 2}
        doubled = {name: 2 * sizes[name] for name in sizes}
        yes(doubled["b"] == 4)
        no("c" in doubled)
    """,
    "a text that is made of None": """
        value = None
        print(f"{value}", f"{value!r}", f"{value=}", f"{value!s:>5}", f"{value:}")
        yes(value is None)
        print(f"{value:.2f}")
        never()
    """,
    "what a tuple, a list and arguments in surplus are": """
        def pair():
            return 1, None
        def rest(*args):
            return args
        yes(isinstance(pair(), tuple))
        yes(isinstance(pair(), (list, tuple)))
        no(isinstance(pair(), list))
        yes(isinstance(rest(1), tuple))
        yes(isinstance([1], list))
        no(isinstance([1], tuple))
        yes(isinstance({1}, set))
        no(isinstance(pair(), Child))
    """,
    "a generic class with arguments": """
        yes(Generic[int]().mode() == "generic")
    """,
    "an object that is a dict": """
        table = Table(a=1)
        table["b"] = 2
        yes(table["a"] + table["b"] == 3)
        yes("b" in table)
        no("c" in table)
        yes(table.get("c") is None)
        yes(len([name for name in table.items()]) == 2)
        table.update(c=3)
        yes(table.get("c") == 3)
    """,
    "an object that is a dict, with methods of its own": """
        doubled = Doubled()
        doubled["a"] = 1
        yes(doubled["a"] == 2)
        yes(doubled.get("a") == 3)
    """,
    "what is under a new key of a defaultdict": """
        found = defaultdict(list)
        found["a"].append(1)
        yes(found["a"])
        no(found["b"])
    """,
    "objects by their ids": """
        one, other = Child(), Child()
        names = {id(one): "one", id(other): "other"}
        yes(names[id(one)] == "one")
        yes(id(one) == id(one))
        no(id(one) == id(other))
    """,
    "names of functions and classes": """
        class Net:
            ...

        def build():
            ...

        yes(Net.__name__ == "Net" and build.__name__ == "build")
    """,
    "length of a list that shrank": """
        items = [1, 2, 3]
        last = items.pop()
        first = items.pop(0)
        yes(len(items) == 1 and last == 3 and first == 1)
        items.clear()
        no(items)
    """,
    "a list that two names share": """
        items = []
        same = items
        same.append("a")
        yes(items)
        yes("a" in items)
    """,
    "a copy of a list": """
        items = [1]
        other = list(items)
        third = items.copy()
        other.append(2)
        yes(len(items) == 1 and len(other) == 2 and len(third) == 1)
    """,
    "insert, reverse and index": """
        items = [2, 3]
        items.insert(0, 1)
        items.reverse()
        yes(items[0] == 3 and items[-1] == 1)
    """,
    "a dict by its keys": """
        options = {"amp": True}
        options["dtype"] = "bf16"
        options.update(scale=False, **{"more": 1})
        yes(options["amp"] and options.get("dtype") == "bf16")
        no(options.get("scale"))
        no(options.get("other"))
        yes(options.get("other", 3) == 3)
        yes("more" in options and "less" not in options)
        yes(len(options) == 4)
    """,
    "whether a dict has a key that one path lacks": """
        options = {"a": 1}
        if flag:
            options["amp"] = True
        if "amp" in options:
            yes(flag)
        else:
            no(flag)
        yes(len([name for name in options]) == (2 if flag else 1))
    """,
    "a dict that loses keys": """
        options = dict(amp=True, dtype="fp16")
        yes(options.pop("amp"))
        no("amp" in options)
        yes(options.setdefault("amp", 5) == 5)
        yes(options.pop("nothing", None) is None)
    """,
    "dicts of pairs": """
        yes(dict([("a", 1), ("b", 2)])["b"] == 2)
        yes(dict(zip(("a", "b"), (1, 2)))["a"] == 1)
        yes(OrderedDict(a=1)["a"] == 1)
    """,
    "views of a dict": """
        for key, value in {"a": 1, "b": 2}.items():
            yes(key == "a" and value == 1 or key == "b" and value == 2)
        yes("a" in {"a": 1}.keys() and "b" not in list({"a": 1}))
        for value in {"a": True}.values():
            yes(value)
    """,
    "a key that one path lacks": """
        options = {}
        if flag:
            options["amp"] = True
        if options.get("amp", False):
            yes(flag)
        else:
            no(flag)
    """,
    "numbers": """
        yes(int("3") == 3 and float("0.5") == 0.5 and abs(-2) == 2 and round(1.2) == 1)
        yes(max(1, 3) == 3 and min([4, 2]) == 2 and sum([1, 2, 3]) == 6 and sum([]) == 0)
        yes(str(3) == "3" and bool([1]))
        no(bool(""))
        yes(pow(2, 3) == 8)
    """,
    "the same number of the same unknown": """
        if len(flag) > 2:
            yes(len(flag) > 2)
        if int(flag) == 3:
            no(int(flag) == 4)
    """,
    "strings": """
        yes("cuda:0".split(":")[0] == "cuda")
        yes("BF16".lower().startswith("bf"))
        yes("-".join(["a", "b"]) == "a-b")
        yes("{}:{}".format("cuda", 1) == "cuda:1")
        yes(f"cuda:{flag}".startswith("cuda"))
        yes(f"cuda:{flag}".split(":")[0] == "cuda")
        no("fp16".endswith("32"))
    """,
    "the same question to the same string": """
        if flag.startswith("bf"):
            yes(flag.startswith("bf"))
        if flag.lower() == "fp16":
            no(flag.lower() == "bf16")
    """,
    "any and all": """
        yes(any([False, True]) and all([True, 1]))
        no(any([]))
        if all([flag, True]):
            yes(flag)
        if not any([flag]):
            no(flag)
    """,
    "ranges": """
        done = False
        for index in range(1):
            yes(index == 0)
            no(done)
            done = True
        for index in range(0):
            never()
        yes(len(range(7)) == 7)
        yes(len(range(7, 0, -3)) == 3)
        for index in range(5, 0):
            never()
        for index in range(100, 1, -98):
            yes(index in (100, 2))
        yes(len(range(10 ** 30)) == 10 ** 30)
    """,
    "enumerate and zip": """
        for index, (name, on) in enumerate(zip(("a", "b"), (True, True))):
            yes(on and (index == 0) == (name == "a"))
        for index, item in enumerate(["x"], 1):
            yes(index == 1 and item == "x")
    """,
    "map, filter, sorted, reversed": """
        yes(list(map(lambda value: value + 1, [1]))[0] == 2)
        yes(1 in sorted([1]))
        for value in reversed([1]):
            yes(value == 1)
    """,
    "itertools": """
        for value in itertools.chain([1], (2,)):
            yes(value < 3)
        yes(len(list(itertools.chain([1], (2,)))) == 2)
    """,
    "a progress bar": """
        done = False
        bar = tqdm([1])
        for value in bar:
            yes(value == 1)
            no(done)
            done = True
            bar.set_postfix(loss=1)
        with tqdm(total=3) as other:
            other.update(1)
            yes(True)
    """,
    "isinstance of what is known": """
        yes(isinstance(1, int) and isinstance("a", (int, str)) and isinstance([1], list))
        no(isinstance("a", int) or isinstance({}, list) or isinstance(None, dict))
        yes(isinstance({}, collections.abc.Mapping))
        yes(isinstance(Child(), Parent) and issubclass(Child, Parent))
        no(isinstance(Parent(), Child))
        no(isinstance(Parent(), str))
        yes(type(Child()) is Child)
    """,
    "isinstance of an unknown, asked again": """
        if isinstance(flag, str):
            yes(isinstance(flag, str))
        if not isinstance(flag, (str, int)):
            no(isinstance(flag, str))
    """,
    "attributes by name": """
        child = Child()
        setattr(child, "amp", True)
        yes(child.amp and getattr(child, "amp") and hasattr(child, "amp"))
        yes(hasattr(child, "run") and hasattr("a", "split") and not hasattr(3, "split"))
        yes(getattr(None, "missing", 4) == 4)
        if getattr(flag, "amp", False):
            yes(flag.amp)
        if hasattr(flag, "module"):
            yes(hasattr(flag, "module"))
    """,
    "callables": """
        yes(callable(helper) and callable(len) and callable(Child))
        no(callable(3))
    """,
    "partial and wraps": """
        add = functools.partial(helper, 1, other=2)
        yes(add() == 3)
        yes(functools.partial(add, other=4)() == 5)
        yes(wrapped(1) == 2)
        yes(functools.reduce(lambda one, two: one + two, [1, 2, 3]) == 6)
    """,
    "a result that is kept": """
        yes(kept() is kept())
    """,
    "contexts": """
        with nullcontext(3) as three:
            yes(three == 3)
        with nullcontext() as nothing:
            yes(nothing is None)
        with closing(Child()) as child:
            yes(isinstance(child, Child))
        yes(child.closed)
        with suppress(ValueError):
            yes(True)
        with managed(5) as five:
            yes(five == 5)
    """,
    "stacks": """
        child = Child()
        with ExitStack() as stack:
            stack.callback(child.close)
            no(child.closed)
        yes(child.closed)
        with ExitStack() as stack:
            yes(stack.enter_context(nullcontext(2)) == 2)
            stack.enter_context(closing(Other()))
            rest = stack.pop_all()
        rest.close()
    """,
    "dataclasses": """
        settings = Settings(amp=True)
        yes(settings.amp and settings.dtype == "fp16" and len(settings.names) == 0)
        changed = dataclasses.replace(settings, dtype="bf16")
        yes(changed.amp and changed.dtype == "bf16" and settings.dtype == "fp16")
        yes(dataclasses.asdict(settings)["dtype"] == "fp16")
    """,
    "typing": """
        yes(typing.cast(int, 3) == 3)
        no(typing.TYPE_CHECKING)
    """,
    "the environment, asked twice": """
        if os.environ.get("AMP"):
            yes(os.environ.get("AMP"))
            yes(os.getenv("AMP"))
    """,
    "a program that gives up": """
        if flag:
            sys.exit("no")
        no(flag)
    """,
    "modules by name": """
        yes(importlib.import_module("torch").float16 == torch.float16)
    """,
    "super with arguments": """
        yes(Child().named() == "parent")
    """,
    "deques and defaults": """
        queue = deque([1, 2], maxlen=4)
        queue.append(3)
        yes(queue.popleft() == 1 and len(queue) == 2)
        groups = defaultdict(list)
        groups["a"].append(1)
        yes(groups is not None)
    """,
}

AROUND = dedent("""
    class Parent:
        def __init__(self):
            self.closed = False

        def name(self):
            return "parent"

        def close(self):
            self.closed = True

    class Child(Parent):
        def run(self):
            return None

        def named(self):
            return super(Child, self).name()

    class Other:
        def close(self):
            return None

    @dataclasses.dataclass
    class Settings:
        amp: bool
        dtype: str = "fp16"
        names: list = dataclasses.field(default_factory=list)

    def helper(first=0, other=0):
        return first + other

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args) + 1
        return wrapper

    @decorate
    def wrapped(value):
        return value

    @functools.lru_cache(maxsize=None)
    def kept():
        return Child()

    class Table(dict):
        ...


    class Generic(torch.nn.Module, typing.Generic[typing.TypeVar("T")]):
        def mode(self):
            return "generic"

    class Plain(torch.nn.Module):
        ...


    class Doubled(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key, 2 * value)

        def get(self, key):
            return self[key] + 1


    class Lacking(dict):
        def __missing__(self, key):
            return True


    class Wide(dict):
        def __contains__(self, key):
            return True

        def __iter__(self):
            yield from loss.names


    @contextmanager
    def managed(value):
        yield value
""")


def _marked(body: str) -> str:
    """A program in which ``yes(condition)`` is a branch that is always taken, ``no(condition)`` one that never is."""
    lines: list[str] = []
    for line in dedent(body).strip().splitlines():
        margin = line[: len(line) - len(line.lstrip())]
        word, _, rest = line.strip().partition("(")
        if word == "yes":
            lines += [
                f"{margin}if {rest[:-1]}:",
                f"{margin}    loss.backward()  # out",
                f"{margin}else:",
                f"{margin}    loss.backward()  # never",
            ]
        elif word == "no":
            lines += [f"{margin}if {rest[:-1]}:", f"{margin}    loss.backward()  # never"]
        elif word == "never":
            lines.append(f"{margin}loss.backward()  # never")
        else:
            lines.append(line)
    inside = "\n".join(f"    {line}" for line in lines)
    return f"{HEAD}{AROUND}\ndef main(loss, flag):\n{inside}\n"


@pytest.mark.parametrize("body", DECIDED.values(), ids=DECIDED)
def test_what_is_decided(holds: Holds, body: str) -> None:
    holds(_marked(body))


UNDECIDED = {
    "a dict into which the user puts what nobody knows": """
        settings = {"amp": False, "kind": "a", "parts": {"amp": False}}
        for item in sys.argv[1:]:
            key, _, text = item.partition("=")
            settings[key] = text
        if settings["amp"]:
            loss.backward()  # out
        if settings["kind"] == "b":
            loss.backward()  # out
        if settings["parts"]["amp"]:
            loss.backward()  # never
    """,
    "a dict that is updated from a file": """
        settings = dict(amp=False)
        settings.update(json.load(open(flag)))
        if settings["amp"]:
            loss.backward()  # out
    """,
    "a dict with a part that is put under a key which nobody knows": """
        parts = {"amp": False}
        parts[flag] = Child()
        if parts["amp"]:
            loss.backward()  # never
    """,
    "a dict with a key that one path lacks is shown, saved and copied": """
        parts = {"a": loss}
        if flag:
            parts["b"] = loss
        report(parts)
        report([parts])
        report(**parts)
        other = copy.deepcopy(parts)
        for name in parts:
            report(name, parts[name])
        if "b" in parts:
            report(parts["b"])
        report({name: parts[name] for name in parts})
        if not flag:
            loss.backward()  # out
        else:
            loss.backward()  # out
    """,
    "whether what is cut off something is a tuple or a list": """
        if isinstance(sorted((1, 2))[:1], tuple):
            loss.backward()  # out
        else:
            loss.backward()  # out
    """,
    "what a class that derives from one of torch gives for a key, and in a loop": """
        Plain[0] = 1
        for item in Plain:
            if item == Plain[0]:
                loss.backward()  # out
            else:
                loss.backward()  # out
    """,
    "a list that grows in a loop": """
        items = []
        for one in flag:
            items.append(one)
        if len(items) == 2:
            loss.backward()  # out
        if items:
            loss.backward()  # out
    """,
    "isinstance of an unknown": """
        if isinstance(flag, Child):
            loss.backward()  # out
        else:
            loss.backward()  # out
    """,
    "an attribute that an unknown may lack": """
        if getattr(flag, "amp", True):
            loss.backward()  # out
        else:
            loss.backward()  # out
    """,
    "a dict under an unknown key": """
        if {"a": True, "b": False}[flag]:
            loss.backward()  # out
        else:
            loss.backward()  # out
        if {"a": 1}.get(flag):
            loss.backward()  # out
    """,
    "what a dict holds whose keys depend on the path": """
        parts = {}
        if flag.mixed:
            parts["a"] = 1
        else:
            parts["b"] = 2
        total = sum(parts.values())
        if flag.mixed:
            loss.backward()  # out
        else:
            loss.backward()  # out
    """,
    "a comprehension over a dict whose keys depend on the path": """
        parts = {}
        if flag.mixed:
            parts["a"] = 1
        if [name for name in parts]:
            loss.backward()  # out
        else:
            loss.backward()  # out
    """,
    "a comprehension over a dict with more keys than are known": """
        if len([name for name in {"a": 1, **flag}]) == 1:
            loss.backward()  # out
        else:
            loss.backward()  # out
    """,
    "an object that is a dict and was there before": """
        def ask(self: Table):
            if "a" in self:
                loss.backward()  # out
            else:
                loss.backward()  # out
        ask(flag)
    """,
    "an object that is a dict and makes what it lacks": """
        lacking = Lacking()
        lacking["a"] = False
        if lacking[flag]:
            loss.backward()  # out
        else:
            loss.backward()  # out
    """,
    "an object that is a dict and says itself what is in it": """
        wide = Wide()
        if "a" in wide:
            loss.backward()  # out
        else:
            loss.backward()  # out
    """,
    "an object that is a dict and says itself what it goes through": """
        wide = Wide()
        wide["a"] = 1
        for name in wide:
            if name == "a":
                loss.backward()  # out
            else:
                loss.backward()  # out
    """,
    "an object that is a dict in other hands": """
        table = Table()
        flag.fill(table)
        if "a" in table:
            loss.backward()  # out
        else:
            loss.backward()  # out
    """,
    "a repeated list of None that code out of sight fills": """
        kept = [None] * flag
        flag.gather(kept, loss)
        if kept[0] is None:
            loss.backward()  # out
        else:
            loss.backward()  # out
    """,
    "a number that was read": """
        if int(flag) > 1:
            loss.backward()  # out
        else:
            loss.backward()  # out
    """,
}


@pytest.mark.parametrize("body", UNDECIDED.values(), ids=UNDECIDED)
def test_what_is_not_decided(holds: Holds, body: str) -> None:
    inside = "\n".join(f"    {line}" for line in dedent(body).strip().splitlines())
    holds(f"{HEAD}{AROUND}\ndef main(loss, flag):\n{inside}\n")


@pytest.mark.parametrize(
    ("loop", "rounds"),
    [("range(1)", 1), ("range(2)", 2), ("range(100)", 2), ("[1, 2, 3]", 3), ("enumerate('ab')", 2)],
)
def test_rounds_of_loops(holds: Holds, loop: str, rounds: int) -> None:
    tape = holds(f"{HEAD}\ndef main(loss):\n    for one in {loop}:\n        loss.backward()  # out\n")
    assert len(tape.of(Backward)) == rounds


@pytest.mark.parametrize(
    "chosen",
    [
        'exec(open("settings.py").read())',
        'exec(open("settings.py").read(), globals())',
        "for name, value in pairs: globals()[name] = value",
        "globals().update(pairs)",
    ],
)
def test_names_of_a_script_that_the_user_may_set(holds: Holds, chosen: str) -> None:
    holds(
        HEAD
        + dedent(f"""
            watch = False
            loss = torch.ones(2, requires_grad=True)
            pairs = sys.argv[1:]
            {chosen}
            after = False
            def ask():
                if watch:
                    loss.backward()  # out
                if after:
                    loss.backward()  # never
            ask()
        """),
        start=None,
    )


def test_a_text_that_is_known_sets_no_name(holds: Holds) -> None:
    holds(
        HEAD
        + dedent("""
            watch = False
            loss = torch.ones(2, requires_grad=True)
            exec("print(1)")
            exec(open("settings.py").read(), {})
            globals()["loss"] = loss
            if watch:
                loss.backward()  # never
        """),
        start=None,
    )
