"""Which lines the verdicts will ask about: those of the findings and of their trails.

Before Python 3.12 lines are counted at the price of a call for each function that runs, torch's included: nothing is
counted that nobody asks for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from amplint.findings import Finding

FILE = "asked"
"""Where it is kept, in the folder of the recordings."""
Stretch = tuple[int, int]
"""A first and a last line."""


@dataclass(frozen=True, slots=True)
class AskedFile:
    """The stretches of a file, by its path as findings have it. ``digest`` is the SHA-256 of what was linted, if
    that is known."""

    path: str
    digest: str | None
    stretches: tuple[Stretch, ...]

    def is_that(self, path: str, digest: str | None) -> bool:
        """Whether a file that runs is this one: by its path, or by its content, whatever its path."""
        return path == self.path or (digest is not None and digest == self.digest)

    def in_content(self, digest: str | None) -> tuple[Stretch, ...]:
        """The stretches, if the content is what was linted: else the verdict asks no more than whether the file ran."""
        return self.stretches if self.digest in (None, digest) else ()


def asked(findings: Iterable[Finding], digests: Mapping[str, str | None]) -> tuple[AskedFile, ...]:
    """What the verdicts on these findings will ask; ``digests`` as in ``cross_check``."""
    found: dict[str, dict[Stretch, None]] = {}
    for finding in findings:
        places = [(finding.path, finding.span), *((step.path, step.span) for step in finding.trail)]
        for path, span in places:
            found.setdefault(path, {})[span.line, span.end_line] = None
    return tuple(AskedFile(path, digests.get(path), tuple(parts)) for path, parts in found.items())


def write(files: Sequence[AskedFile], folder: Path) -> None:
    """Leaves it in a folder."""
    (folder / FILE).write_text(json.dumps([asdict(file) for file in files]), encoding="utf-8")


def read(folder: Path) -> tuple[AskedFile, ...] | None:
    """What was left in a folder; None where nothing was: then any line may be asked for."""
    try:
        value = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except OSError:
        return None
    return tuple(
        AskedFile(file["path"], file["digest"], tuple((first, last) for first, last in file["stretches"]))
        for file in value
    )
