"""Finds names of the AMP API that torch has deprecated, such as torch.cuda.amp.autocast.

## What it does

Reports uses of `torch.cuda.amp.autocast`, `torch.cpu.amp.autocast`, `torch.cuda.amp.GradScaler`,
`torch.cpu.amp.GradScaler`, `torch.cuda.amp.custom_fwd` and `torch.cuda.amp.custom_bwd`, and of functions that ask for
the state of autocast on one device or set it, such as `torch.get_autocast_gpu_dtype`, under whatever name they were
imported.

Silent where the old name is there on purpose: in an `except ImportError` ladder, behind a test of torch's
version or a `hasattr`, and where the project's own requirements admit a torch that lacks the new name. So is the
class that a decorator is only given to look at, as in `@delegates(GradScaler)`.

## Why is this bad

Each use warns with a `FutureWarning` or `DeprecationWarning` since torch 2.4, and the names may go. The rewrite that
the warning proposes is only right when there are no positional arguments: the old and the new signature order them
differently, so following the advice to the letter breaks code that worked.

## What torch does at run time

Measured with torch 2.13.0:

| signature | parameters |
|---|---|
| `torch.cuda.amp.autocast` | `enabled=True, dtype=torch.float16, cache_enabled=True` |
| `torch.cpu.amp.autocast` | `enabled=True, dtype=torch.bfloat16, cache_enabled=True` |
| `torch.amp.autocast` | `device_type, dtype=None, enabled=True, cache_enabled=None` |
| `torch.cuda.amp.GradScaler` | `init_scale=65536.0, growth_factor=2.0, ...` |
| `torch.amp.GradScaler` | `device='cuda', init_scale=65536.0, growth_factor=2.0, ...` |

* `torch.amp.autocast("cuda", True)`, the proposed rewrite of `torch.cuda.amp.autocast(True)`, raises when
  it is entered: `TypeError: set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not
  bool`. So does `False`.
* The old `autocast()` always sets its own dtype; the new one without `dtype` takes that of the region
  around it. Nested in a float16 region on the CPU, the old one gives bfloat16 and the new one float16. The
  cache flag is inherited in the same way.
* `isinstance(scaler, torch.cuda.amp.GradScaler)` is False for a `torch.amp.GradScaler`, of which it is a
  subclass.

The new names came with different releases: `torch.amp` with `torch.amp.autocast` in 1.12 (torch 1.10 and 1.11 have
`torch.autocast` alone), `torch.amp.GradScaler` in 2.3, `torch.amp.custom_fwd`, `torch.amp.custom_bwd`,
`torch.get_autocast_dtype` and its like in 2.4 (read from the wheels of 1.9.1, 1.10.2, 1.11.0, 1.12.1, 2.2.2, 2.3.1 and
2.4.1).

## Example

```python
import torch
from torch.cuda.amp import GradScaler, autocast

use_amp = torch.cuda.is_available()
scaler = GradScaler(enabled=use_amp)
with autocast(use_amp):
    y = torch.ones(2, 2) @ torch.ones(2, 2)
```

## Use instead

```python
import torch

use_amp = torch.cuda.is_available()
scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
with torch.autocast("cuda", enabled=use_amp):
    y = torch.ones(2, 2) @ torch.ones(2, 2)
```

`@torch.cuda.amp.custom_fwd` becomes `@torch.amp.custom_fwd(device_type="cuda")`, with `cast_inputs` kept,
and `@torch.cuda.amp.custom_bwd` becomes `@torch.amp.custom_bwd(device_type="cuda")`. `torch.get_autocast_gpu_dtype()`
becomes `torch.get_autocast_dtype("cuda")`, and `torch.set_autocast_cpu_enabled(flag)` becomes
`torch.set_autocast_enabled("cpu", flag)`.

## Fix safety

The fix writes the new name with its device and maps the arguments by the signatures. Where the file imports the old
name itself, the import is changed to one from `torch.amp`, with all uses of its names, in one fix; annotations and
`isinstance` checks mean the new class then, of which the old one is a subclass. Where a use has to stay, where the
import is under a name that says the device, or where others may use it (`__init__.py`, names in `__all__`, in strings
or in other files of the project, such as `base.autocast`, `getattr(base, "autocast")`, `mock.patch("base.autocast")`,
imports marked `noqa`), a use gets the long name, with `import torch` where that is missing, and the old import goes
once nothing uses it. Unless all that leads to the call is in sight and has no region open (the file is run, nobody
imports it, and its functions are called by their names), the fix adds `dtype=torch.float16`, or `torch.bfloat16` for
the CPU, since the old call always set its own type. The flag of the cache is not kept in that way.

The fix is safe if the project asks for a torch that has the new name. Where neither the settings nor the project say
which torch is asked for, 2.4 is assumed, the first release in which the old names warn. It is unsafe for a `partial`
that may be called with positional arguments, where `**` may hide the dtype, and where some file puts something else in
the place of the old name. There is no fix where the project admits a torch without the new name, or its instructions
(README, `docs/`, Dockerfiles) install one; where nothing says which torch it asks for, and the code stands under a
condition that is for older ones or some file needs `torch._six`, which is gone since 2.0; where the
name is handed on without a call, where `*args` hides the positions, where the name is bound by a ladder of
imports or under a condition, and where a name of torch is needed and `torch` is the name of something else. Where the
import stays, so do `isinstance` checks and annotations; a `GradScaler` for which the file asks by the old class even
so, or another file does, is changed by an unsafe fix only.

## References

* [torch.amp: deprecated names](https://docs.pytorch.org/docs/stable/amp.html)
* [pytorch/tutorials#3331](https://github.com/pytorch/tutorials/issues/3331) and
  [detectron2#5486](https://github.com/facebookresearch/detectron2/pull/5486): the warning in the field
* [torchfix#87](https://github.com/meta-pytorch/torchfix/pull/87): an automatic rewrite that keeps the
  positions
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst

from amplint.amp.deprecated import DEPRECATED, Replacement
from amplint.amp.versions import compare
from amplint.bounds import WARNS_SINCE
from amplint.events import Place
from amplint.findings import Level
from amplint.fixes.base import FixBuilder, NoFix
from amplint.fixes.deprecated_names import ReplaceDeprecated
from amplint.rules.base import Report, Setting, SourceView, SyntaxRule

_MODERN = re.compile(
    r"torch\.amp\.|torch\.autocast|torch\.[gs]et_autocast_dtype|torch\.GradScaler|"
    r"from torch\.amp|from torch import (?:autocast|GradScaler)"
)
_LOOKS_ONLY = frozenset({"isinstance", "issubclass", "hasattr", "getattr", "setattr", "delattr"})


def _words(name: str) -> Iterator[bytes]:
    """What a file that uses a deprecated name has in it, however it was imported."""
    module, _, last = name.rpartition(".")
    if "amp" in module.split("."):
        yield b"amp"
    yield last.encode()


class DeprecatedAmpApi(SyntaxRule):
    """Looks at each use of a deprecated name: calls, decorators, arguments, aliases."""

    level = Level.ADVICE
    tag = "deprecated"
    gate = tuple(sorted({tuple(_words(name)) for name in DEPRECATED}))

    def wants(self, imports: dict[str, str], text: str) -> bool:
        return ("amp" in text or "autocast_" in text) and compare(
            self.setting.torch, "<", WARNS_SINCE
        ) is not True

    def __init__(self, setting: Setting | None = None) -> None:
        super().__init__(setting)
        self.found: dict[str, list[_Use]] = {}
        """The uses in the slices of a file that were visited so far."""

    def visitor(self, view: SourceView, report: Report) -> cst.CSTVisitor:
        return _Uses(self, view)

    def finish(self, path: str, report: Report) -> None:
        uses = self.found.pop(path, ())
        changeable = tuple(use.place for use in uses if isinstance(use.builder, ReplaceDeprecated))
        missing = frozenset(old for old, new in DEPRECATED.items() if not self.has(new))
        for use in uses:
            builder = use.builder
            if isinstance(builder, ReplaceDeprecated):
                assumed = not self.setting.torch_stated
                builder = replace(builder, changeable=changeable, missing=missing, assumed=assumed)
            report.add(
                self,
                use.place,
                f"`{use.name}` is deprecated",
                why=f"Torch prints a {DEPRECATED[use.name].warning} since 2.4.",
                help=f"{self._advice(DEPRECATED[use.name])}.",
                trail=((use.imported, "it is imported here"),) if use.imported is not None else (),
                builder=builder,
            )

    def has(self, new: Replacement) -> bool:
        """Whether all releases of torch that the project asks for have a new name."""
        return not self.setting.torch_stated or compare(self.setting.torch, ">=", new.since) is True

    def _advice(self, new: Replacement) -> str:
        call = f'{new.new}("{new.device}", …)'
        if new.new.endswith(("custom_fwd", "custom_bwd")):
            call = f'{new.new}(device_type="{new.device}")'
        elif not new.old_parameters:
            call = f'{new.new}("{new.device}")'
        advice = f"Write `{call}`"
        if new.old_parameters and new.new.endswith(".autocast"):
            advice += ", and give `enabled` and `dtype` by keyword: their positions have changed"
        if compare(self.setting.torch, ">=", new.since) is not True:
            advice += f" (from torch {new.since[0]}.{new.since[1]} on)"
        return advice


@dataclass(frozen=True)
class _Use:
    """A use of a deprecated name, where that is imported, and what would change it."""

    place: Place
    imported: Place | None
    name: str
    builder: FixBuilder


class _Uses(cst.CSTVisitor):
    """Passes over annotations, imports and type tests, and over branches made for old torch releases."""

    def __init__(self, rule: DeprecatedAmpApi, view: SourceView) -> None:
        super().__init__()
        self.rule = rule
        self.view = view
        self._guards: list[cst.If | cst.IfExp] = []

    def visit_Annotation(self, node: cst.Annotation) -> bool:
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Comparison(self, node: cst.Comparison) -> bool:
        return False

    def visit_ExceptHandler(self, node: cst.ExceptHandler) -> bool:
        # what stands here is for releases that lack the newer name
        return False

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> bool:
        for statement in node.body:
            statement.visit(self)
            if (
                isinstance(statement, cst.If)
                and self.view.guard(statement.test) in ("depends", "always")
                and _ends(statement.body)
            ):
                # the rest of the block is for the other releases
                break
        return False

    def visit_If(self, node: cst.If) -> bool:
        self._branches(node)
        return False

    def visit_IfExp(self, node: cst.IfExp) -> bool:
        self._branches(node)
        return False

    def _branches(self, node: cst.If | cst.IfExp) -> None:
        node.test.visit(self)
        guard = self.view.guard(node.test)
        other = node.orelse
        flag = not isinstance(node.test, (cst.Comparison, cst.BooleanOperation))
        if guard in (None, "always") and not (
            other is not None and guard is None and flag and self._modern(other)
        ):
            if guard == "always":
                self._guards.append(node)
            node.body.visit(self)
            if guard == "always":
                self._guards.pop()
        if (
            other is not None
            and guard in (None, "never")
            and not (guard is None and flag and self._modern(node.body))
        ):
            other.visit(self)

    def _modern(self, branch: cst.CSTNode) -> bool:
        """Whether a branch uses the new names: then the other one is for releases without them."""
        return _MODERN.search(self.view.code(branch)) is not None

    def visit_Call(self, node: cst.Call) -> bool:
        return not (isinstance(node.func, cst.Name) and node.func.value in _LOOKS_ONLY)

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        if not self._look(node):
            node.value.visit(self)
        return False

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        for part in (*node.decorators, node.params, node.body):
            part.visit(self)
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        for part in (*node.decorators, *node.bases, node.body):
            part.visit(self)
        return False

    def visit_Decorator(self, node: cst.Decorator) -> bool:
        decorator = node.decorator
        if not isinstance(decorator, cst.Call):
            return True
        decorator.func.visit(self)
        for argument in decorator.args:
            # a class that is only named here tells the decorator about the function
            if not isinstance(argument.value, (cst.Name, cst.Attribute)):
                argument.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False

    def visit_Param(self, node: cst.Param) -> bool:
        if node.default is not None:
            node.default.visit(self)
        return False

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
        return False

    def visit_Name(self, node: cst.Name) -> bool:
        self._look(node)
        return False

    def _look(self, node: cst.Name | cst.Attribute) -> bool:
        """Tells of a name if it is deprecated. True if there is nothing more to see below it."""
        name = self.view.resolve(node)
        replacement = DEPRECATED.get(name or "")
        if name is not None and replacement is not None:
            place = self.view.place(node)
            builder = self._builder(place, replacement)
            self.rule.found.setdefault(place.path, []).append(
                _Use(place, self.view.import_place(node), name, builder)
            )
        return name is not None

    def _builder(self, place: Place, new: Replacement) -> FixBuilder:
        setting = self.rule.setting
        if self._guards and not setting.torch_stated:
            where = self.view.place(self._guards[-1].test).line_name
            return NoFix(f"the condition on {where} is for older releases of torch, which lack the new name")
        if self.rule.has(new):
            return ReplaceDeprecated(place)
        since = ".".join(map(str, new.since))
        low = ".".join(map(str, setting.torch[0]))
        return NoFix(f"the project admits torch {low}, and `{new.new}` is there since torch {since}")


def _ends(suite: cst.BaseSuite) -> bool:
    """Whether control leaves at the end of a block."""
    last = suite.body[-1] if suite.body else None
    parts = last.body if isinstance(last, cst.SimpleStatementLine) else [last]
    return bool(parts) and isinstance(parts[-1], (cst.Return, cst.Raise))
