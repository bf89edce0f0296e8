"""Finds uses of apex.amp, which torch.amp has replaced.

## What it does

Reports the import of `apex.amp` in a file that uses it: `amp.initialize`, `amp.scale_loss`, `amp.master_params`
and the like. Silent for an import that only looks whether apex is there, for one in a branch that torch's version
decides, and for other parts of apex, such as its fused optimizers and layers.

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

There is no automatic fix: the opt levels differ from autocast in where they cast, `O2` and `O3` keep half-precision
weights, and checkpoints hold `amp.state_dict()`, which a `GradScaler` does not read.

## References

* [apex.amp](https://nvidia.github.io/apex/amp.html): the notice of its deprecation
* [torch.amp examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
"""

from __future__ import annotations

import libcst as cst

from amplint.findings import Level
from amplint.rules.base import Report, SourceView, SyntaxRule


class ApexAmp(SyntaxRule):
    """Looks at imports."""

    level = Level.ADVICE
    gate = ((b"apex", b"amp"),)

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
                whole = source == "apex" and name == "amp"
                if whole or source == "apex.amp" or source.startswith("apex.amp."):
                    bound = _bound(alias) or name
                    self._look(node, bound)
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        for alias in node.names:
            name = self.view.code(alias.name)
            if name == "apex.amp" or (name == "apex" and _bound(alias) is None):
                self._look(node, _bound(alias) or "apex.amp")
        return False

    def _look(self, node: cst.Import | cst.ImportFrom, name: str) -> None:
        if not self.view.is_read(name):
            return
        message = (
            "`apex.amp` is deprecated and no longer kept up. Use `torch.autocast` around the forward and "
            "`torch.amp.GradScaler` for float16."
        )
        self.report.add(self.rule, self.view.place(node), message)


def _bound(alias: cst.ImportAlias) -> str | None:
    """The name after ``as``."""
    name = alias.asname.name if alias.asname is not None else None
    return name.value if isinstance(name, cst.Name) else None
