"""Finds comments that silence findings which are not there.

## What it does

Reports `# amplint: ignore[name]`, `# amplint: ignore-file[name]` and `# noqa: AMP101` where the rule finds
nothing that the comment could silence, and names in them that are no rules.

Only rules that ran are judged. With `--select missing-float` a comment for backward-in-autocast is left
alone, and `# amplint: ignore` without a list, which stands for all rules, is judged only by `--select ALL`.
Bare `# noqa` and the codes of other linters are theirs. A file that lacks every sign of AMP is read for this
rule only if it contains `amplint:`.

A comment may be for a finding that another file leads to, such as a caller that opens the region. Let the
run see the whole project before you believe that the comment is unused.

## Why is this bad

The comment outlives the code that it was written for. It hides the next mistake that somebody makes in this
place, and until then it tells every reader that something is wrong here. One with a misspelt name never hid
anything.

## What torch does at run time

Nothing: comments are amplint's matter alone.

## Example

```python
import torch

layer = torch.nn.Linear(2, 2)
with torch.autocast("cpu"):
    loss = layer(torch.ones(2, 2)).sum()
loss.backward()  # amplint: ignore[backward-in-autocast]
```

## Use instead

```python
import torch

layer = torch.nn.Linear(2, 2)
with torch.autocast("cpu"):
    loss = layer(torch.ones(2, 2)).sum()
loss.backward()
```

A comment that has to stay although nothing is found, for example in code that is generated, is kept with
`# amplint: ignore[unused-suppression]` on the same statement.

## Fix safety

The fix removes the word, and with the last word the comment with its reason. Comments of other tools on the line
and other codes of a `# noqa` stay. It is safe: a comment changes nothing that runs. It knows what the run has seen;
fix with the whole project in sight where comments are for findings that other files lead to. There is no fix for
a name that looks misspelt: write the right one.

## References

* [ruff: unused-noqa](https://docs.astral.sh/ruff/rules/unused-noqa/), the model of this rule
"""

from __future__ import annotations

from amplint.findings import Level
from amplint.rules.base import Rule


class UnusedSuppression(Rule):
    """Hears no events. It is decided when all findings are there, in amplint/silence.py."""

    level = Level.ADVICE
    tag = "unnecessary"
    kind = "syntax"
