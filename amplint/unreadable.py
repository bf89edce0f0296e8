"""Reports files that cannot be read or parsed.

## What it does

Reports a file that looks as if it used automatic mixed precision but cannot be read: it has a syntax error, is
written for Python 2 or a newer Python than the one that runs amplint, is not in the encoding it claims,
contains null bytes, is nested too deeply, is no regular file, or may not be opened. Of a notebook each cell
that cannot be parsed is reported as a warning, since the others are read. A warning, too, is a file in the
syntax of a newer Python, such as `type X = int` of 3.12 under 3.11, and one that is too large to be analysed,
unless it imports nothing, as a table of data does. Files without a trace of AMP are not parsed, so nothing is said
about their syntax.

## Why is this bad

The other rules cannot look into the file. A run that passed over it in silence would seem to say that all is
well.

## What torch does at run time

Nothing: Python stops before it gets there.

## Example

    with torch.autocast("cuda")
        loss = model(batch)

## Use instead

    with torch.autocast("cuda"):
        loss = model(batch)

For a file that is not meant to be Python, `exclude` in the settings.

## Fix safety

There is no fix.

## References

* [PEP 263: defining Python source code encodings](https://peps.python.org/pep-0263/)
"""

from __future__ import annotations

from dataclasses import dataclass

from amplint.findings import Level

_PAGE = __doc__ or ""


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """AMP902 as the other rules show themselves. It has no detector: whoever fails to read a file reports
    it."""

    code: str = "AMP902"
    name: str = "syntax-error"
    level: Level = Level.ERROR
    default: bool = True
    summary: str = _PAGE.partition("\n")[0]
    tag: str = ""
    page: str = f"# syntax-error (AMP902)\n\n{_PAGE}"
