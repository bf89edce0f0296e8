"""Writes what the documentation says about rules from the rules themselves.

    python docs/generate.py            # writes docs/rules/*.md and the table in README.md
    python docs/generate.py --check    # changes nothing; exit status 1 and a list if something is stale

The page of a rule is the docstring of its module.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
README = REPOSITORY / "README.md"
PAGES = REPOSITORY / "docs" / "rules"
RULES = REPOSITORY / "amplint" / "rules"
START, END = "<!-- rules -->", "<!-- end -->"


@dataclass(frozen=True)
class Page:
    """What a rule's module says about itself."""

    code: str
    name: str
    summary: str
    body: str

    @property
    def markdown(self) -> str:
        """The page: a heading, the summary, the sections."""
        return f"# {self.name} ({self.code})\n\n{self.summary}\n\n{self.body}\n"


def pages() -> Iterator[Page]:
    """The pages of all rules, in the order of their codes."""
    for path in sorted(RULES.glob("amp[0-9]*_*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        summary, _, body = docstring.partition("\n\n")
        code, _, name = path.stem.partition("_")
        yield Page(code.upper(), name.replace("_", "-"), summary, body.strip())


def rules_table() -> str:
    """The table of the README."""
    rows = [f"| {p.code} | [{p.name}](docs/rules/{p.name}.md) | {p.summary} |" for p in pages()]
    return "\n".join(("| code | name | what it finds |", "|---|---|---|", *rows))


def with_table(readme: str) -> str:
    """The README with the table between its markers."""
    before, start, rest = readme.partition(f"{START}\n")
    _, end, after = rest.partition(END)
    if not start or not end:
        sys.exit(f"README.md lacks the markers {START} and {END}")
    return f"{before}{start}{rules_table()}\n{end}{after}"


def wanted() -> dict[Path, str]:
    """Every generated file and what it has to hold."""
    texts = {PAGES / f"{page.name}.md": page.markdown for page in pages()}
    return texts | {README: with_table(README.read_text(encoding="utf-8"))}


def stale(texts: dict[Path, str]) -> list[Path]:
    """The files that hold something else, are missing, or belong to no rule any more."""
    present = {path: path.read_text(encoding="utf-8") for path in (*PAGES.glob("*.md"), README)}
    return sorted(path for path in texts.keys() | present.keys() if texts.get(path) != present.get(path))


def write(texts: dict[Path, str]) -> None:
    """Brings every stale file up to date."""
    PAGES.mkdir(exist_ok=True)
    for path in stale(texts):
        if path in texts:
            path.write_text(texts[path], encoding="utf-8")
        else:
            path.unlink()
        print(path.relative_to(REPOSITORY))


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__)
        return 2
    texts = wanted()
    if not arguments:
        write(texts)
        return 0
    for path in stale(texts):
        print(f"stale: {path.relative_to(REPOSITORY)}; run python docs/generate.py")
    return 1 if stale(texts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
