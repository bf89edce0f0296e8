"""Writes what the documentation says about rules, what the README shows of a run, and the byte gate, from amplint
itself.

    python docs/generate.py            # writes docs/rules/*.md, docs/settings.md, docs/changelog.md, the marked parts
                                       # of README.md and docs/index.md, docs/schemas/settings-1.json, the byte gate
    python docs/generate.py --check    # changes nothing; exit status 1 and a list if something is stale

The page of a rule is the docstring of its module, with a heading above it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

import settings_reference

from amplint.flow.driver import registry
from amplint.flow.project.gate import tokens
from amplint.rules import all_rules
from amplint.rules.base import SyntaxRule
from amplint.unreadable import UnreadableFile

REPOSITORY = Path(__file__).resolve().parent.parent
README = REPOSITORY / "README.md"
PAGES = REPOSITORY / "docs" / "rules"
START = REPOSITORY / "docs" / "index.md"
CHANGES = REPOSITORY / "CHANGELOG.md"
SETTINGS = REPOSITORY / "docs" / "settings.md"
SETTINGS_SCHEMA = REPOSITORY / "docs" / "schemas" / "settings-1.json"
GATE = REPOSITORY / "amplint" / "amp" / "gate.py"
RULES = (*all_rules(), UnreadableFile())
DEMONSTRATION = "fixtures/epoch-wide-autocast/bad_region_around_loop.py"


def rules_table(folder: str) -> str:
    """The table of the rules, whose pages lie in a folder."""
    rows = [f"| {r.code} | [{r.name}]({folder}{r.name}.md) | {r.level.value} | {r.summary} |" for r in RULES]
    return "\n".join(("| code | name | level | |", "|---|---|---|---|", *rows))


def rules_page() -> str:
    """The page that lists the rules."""
    head = (
        "# Rules",
        "An **error** raises at run time or gives wrong numbers without a word; a **warning** is wrong under a\n"
        "condition that its message names; **advice** is about cost, style or deprecation. "
        "[What a level is worth](../levels.md).",
    )
    return "\n\n".join((*head, rules_table(""))) + "\n"


@cache
def demonstration() -> str:
    """A run of amplint as a reader would see it, without colour: in a project of that one program."""
    command = [sys.executable, "-c", "from amplint.cli.main import main; main()", "--isolated", DEMONSTRATION]
    with TemporaryDirectory() as folder:
        program = Path(folder, DEMONSTRATION)
        program.parent.mkdir(parents=True)
        copyfile(REPOSITORY / DEMONSTRATION, program)
        around = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        done = subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True)
    if done.returncode != 1:
        sys.exit(f"the demonstration ended with {done.returncode}: {done.stderr}")
    return f"```console\n$ amplint {DEMONSTRATION}\n{done.stdout.rstrip()}\n```"


def replaced(text: str, part: str, content: str) -> str:
    """The text with the part between ``<!-- part -->`` and the next ``<!-- end -->`` replaced."""
    before, start, rest = text.partition(f"<!-- {part} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not start or not end:
        sys.exit(f"there is no part <!-- {part} --> ... <!-- end -->")
    return f"{before}{start}{content}\n{end}{after}"


def gate() -> str:
    """The module with the rows of the byte gate."""
    rows = {row for rule in RULES if isinstance(rule, SyntaxRule) for row in rule.gate} | {
        *tokens(registry())
    }
    needed = sorted(row for row in rows if not any(_says_less(other, row) for other in rows - {row}))
    lines = [
        f"    ({', '.join(_in_quotes(token) for token in row)},),".replace(
            ",)", ")" if len(row) > 1 else ",)"
        )
        for row in needed
    ]
    return "\n".join(
        (
            '"""The byte strings without which a file has no AMP in it. Written by docs/generate.py."""',
            "",
            "from __future__ import annotations",
            "",
            "GATE: tuple[tuple[bytes, ...], ...] = (",
            *lines,
            ")",
            '"""A file is looked at if all tokens of one row occur in it."""',
            "",
        )
    )


def _says_less(row: tuple[bytes, ...], other: tuple[bytes, ...]) -> bool:
    """Whether all that passes by the other row passes by this one."""
    return all(token in other or b"." + token in other for token in row)


def _in_quotes(token: bytes) -> str:
    return f'b"{token.decode()}"'


def wanted() -> dict[Path, str]:
    """Every generated file and what it has to hold."""
    texts = {PAGES / f"{rule.name}.md": rule.page for rule in RULES}
    readme = replaced(README.read_text(encoding="utf-8"), "rules", rules_table("docs/rules/"))
    return texts | {
        README: replaced(readme, "demonstration", demonstration()),
        GATE: gate(),
        START: replaced(START.read_text(encoding="utf-8"), "demonstration", demonstration()),
        PAGES / "index.md": rules_page(),
        PAGES.parent / "changelog.md": CHANGES.read_text(encoding="utf-8"),
        SETTINGS: settings_reference.page(),
        SETTINGS_SCHEMA: settings_reference.schema(),
    }


def stale(texts: dict[Path, str]) -> list[Path]:
    """The files that hold something else, are missing, or belong to no rule any more."""
    written = [path for path in texts if path.parent != PAGES and path.exists()]
    present = {path: path.read_text(encoding="utf-8") for path in (*PAGES.glob("*.md"), *written)}
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
