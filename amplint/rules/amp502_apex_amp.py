"""Finds uses of apex.amp, which torch.amp has replaced.

## What it does

Reports the import of `apex.amp` in a file that uses it: `amp.initialize`, `amp.scale_loss`, `amp.master_params`
and the like, and that of `apex.fp16_utils`, which came before it: `FP16_Optimizer`, `network_to_half`. Silent for an
import that only looks whether apex is there, for one in a branch that torch's version decides, and for other parts of
apex, such as its fused optimizers and layers.

## Why is this bad

`apex.amp` is deprecated: its own documentation says so, and sends its users to `torch.amp`. It is built
against one release of torch at a time, patches functions of torch in place, and its `O2` mode keeps the model in
float16. Options of scripts that offer both are seldom tested on the apex side.

## What torch does at run time

Nothing: apex is a package of its own. In the words of torch.amp, `amp.initialize(…, opt_level="O1")` with
`amp.scale_loss` is `torch.autocast` around the forward with a `torch.amp.GradScaler`.

## Example

```python
try:
    from apex import amp
except ImportError:
    amp = None


def step(loss, optimizer):
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
```

## Use instead

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)

with torch.autocast(device, dtype=torch.float16):
    loss = model(torch.randn(4, 8, device=device)).mean()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

## Fix safety

The fix is unsafe: the opt levels differ from autocast in where they cast. It migrates the file that calls
`amp.initialize`, with all that it does with `apex.amp`:

| apex.amp | torch.amp |
|---|---|
| `amp.initialize(model, optimizer)` | `scaler = torch.amp.GradScaler("cuda")`, handed on with the optimizer |
| the forward and the loss before `amp.scale_loss` | stand in `torch.autocast("cuda", dtype=torch.float16)` |
| `with amp.scale_loss(loss, optimizer) as scaled_loss` | `scaler.scale(loss).backward()`; one scale for all losses |
| `amp.master_params(optimizer)` | the parameters in `optimizer.param_groups`; `unscale_` before they are read |
| `optimizer.step()` | `scaler.step(optimizer)` and `scaler.update()` |
| `amp.state_dict()` under the key "amp" | `scaler.state_dict()` under "scaler"; checkpoints without it are loaded |
| `@amp.half_function` | goes: the ops inside cast by themselves, but kernels of extensions do not |

Fused optimizers of apex stay. Where all this stands under a flag, `if args.fp16:`, and the other branches do the same
without apex, the flag switches region and scaler.

What the levels become: `O1` is autocast, and so is `O2`, whose weights are float32 then, with casts in place of float16
weights and float32 copies; `O0` is a region and a scaler that are off; a level that is chosen elsewhere switches both
off if it is `O0`. A scale that is fixed is where the scaler begins. Forwards that no backward pass follows, such as
those of an evaluation, run in float32.

There is none for `O3`, which trains float16 weights without float32 copies and has no equal; for code that does
something else without apex (`amp = None`, an `else` of its own), since what holds then is to be decided; for
`register_half_function` and its like, `float_function`, `promote_function`, casts and limits of the scale that
`initialize` is given; where `amp.initialize` is called in another file than `amp.scale_loss`; and where the forward or
the step does not stand in the function of the backward pass.

## References

* [apex.amp](https://nvidia.github.io/apex/amp.html): the notice of its deprecation
* [torch.amp examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
"""

from __future__ import annotations

import libcst as cst

from amplint.amp.versions import compare
from amplint.findings import Level
from amplint.fixes.apex import MigrateApex
from amplint.fixes.base import FixBuilder, NoFix
from amplint.rules.base import Report, SourceView, SyntaxRule

_OLD = ("apex.amp", "apex.fp16_utils")


class ApexAmp(SyntaxRule):
    """Looks at imports."""

    level = Level.ADVICE
    tag = "deprecated"
    gate = ((b"apex", b"amp"), (b"apex", b"fp16_utils"))

    def wants(self, imports: dict[str, str], text: str) -> bool:
        return "apex" in text

    def visitor(self, view: SourceView, report: Report) -> cst.CSTVisitor:
        return _Imports(self, view, report)


class _Imports(cst.CSTVisitor):
    """Finds the imports that the text of the file then uses."""

    def __init__(self, rule: ApexAmp, view: SourceView, report: Report) -> None:
        super().__init__()
        self.rule = rule
        self.view = view
        self.report = report

    def visit_If(self, node: cst.If) -> bool:
        """A branch that only a torch without autocast takes has no other choice."""
        guard = self.view.guard(node.test)
        if guard not in ("never", "depends"):
            node.body.visit(self)
        if node.orelse is not None and guard not in ("always", "depends"):
            node.orelse.visit(self)
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        source = self.view.code(node.module) if node.module is not None and not node.relative else ""
        if source and not isinstance(node.names, cst.ImportStar):
            for alias in node.names:
                name = str(alias.name.value)
                old = next((part for part in _OLD if f"{source}.{name}.".startswith(f"{part}.")), None)
                if old is not None:
                    self._look(node, _bound(alias) or name, old)
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        for alias in node.names:
            name = self.view.code(alias.name)
            for old in _OLD:
                if name == old or (name == "apex" and _bound(alias) is None):
                    self._look(node, _bound(alias) or old, old)
        return False

    def _look(self, node: cst.Import | cst.ImportFrom, name: str, old: str) -> None:
        if not self.view.is_read(name):
            return
        place, setting = self.view.place(node), self.rule.setting
        builder: FixBuilder = MigrateApex(place.path)
        if setting.torch_stated and compare(setting.torch, ">=", (2, 3)) is not True:
            builder = NoFix(
                "the project admits releases of torch before 2.3, which lack torch.amp.GradScaler"
            )
        if old != "apex.amp":
            builder = NoFix("it keeps float32 copies of the weights by itself, where autocast casts them")
        self.report.add(
            self.rule,
            place,
            f"`{old}` is deprecated and no longer kept up",
            help="Use `torch.autocast` around the forward and `torch.amp.GradScaler` for float16.",
            builder=builder,
        )


def _bound(alias: cst.ImportAlias) -> str | None:
    """The name after ``as``."""
    name = alias.asname.name if alias.asname is not None else None
    return name.value if isinstance(name, cst.Name) else None
