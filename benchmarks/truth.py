"""Scores amplint's findings against hand-made labels of real code, for the rules that this version has.

    python benchmarks/truth.py --corpus DIR --root DIR [--show fp,fn]

CORPUS holds labels.json and score.py; ROOT holds the labelled packages, unpacked (breadth.py --fetch-only
makes it). Two scores are printed: the first counts only labels that a rule of this version could match, the
second all labels. A label whose rule is missing, but which a neighbouring rule may match, is left out of the
recall of the first score, and a finding on it counts neither as true nor as false.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from measure import PACKAGES, REPOSITORY, describe_machine, program

CORPUS = Path(os.environ.get("AMPLINT_CORPUS", REPOSITORY.parent / "shared" / "corpus"))

REPLAY = '''\
"""Runs the command once in each folder, and repeats its output from then on."""
import pathlib, subprocess, sys
saved = pathlib.Path(sys.argv[1]) / (pathlib.Path.cwd().name + ".json")
if not saved.exists():
    done = subprocess.run(sys.argv[2:], stdout=subprocess.PIPE)
    if not done.stdout:
        sys.exit(done.returncode)
    saved.write_bytes(done.stdout)
sys.stdout.buffer.write(saved.read_bytes())
'''


def built_rules() -> set[str]:
    """Names of the rules of this version: each is a file of its own."""
    files = (REPOSITORY / "amplint" / "rules").glob("amp[0-9]*.py")
    return {path.stem.partition("_")[2].replace("_", "-") for path in files}


def load_score(path: Path) -> Any:
    """score.py as a module."""
    spec = importlib.util.spec_from_file_location("score", path)
    if spec is None or spec.loader is None:
        sys.exit(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def restrict(labels: list[dict[str, Any]], score: Any, built: set[str]) -> list[dict[str, Any]]:
    """The labels that this version's rules are answerable for."""
    kept = []
    for label in labels:
        rules = score.rules_of(label["category"])
        own = {label["category"]} if label["category"] in rules else rules
        if own & built:
            kept.append(label)
        elif rules & built and label["verdict"] == "bug":
            kept.append(label | {"verdict": "unclear"})
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="or $AMPLINT_CORPUS (%(default)s)")
    parser.add_argument("--labels", type=Path, help="labels.json of the corpus, unless given")
    parser.add_argument("--score", type=Path, help="score.py of the corpus, unless given")
    parser.add_argument(
        "--root", type=Path, default=PACKAGES, help="folder of unpacked packages (%(default)s)"
    )
    parser.add_argument("--amplint", default=str(program("amplint")), help="command to run (%(default)s)")
    parser.add_argument("--show", default="fp,fn", help="what to list: fp, fn, both or '' (%(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures of the first score here")
    options = parser.parse_args()
    labels_path = options.labels or options.corpus / "labels.json"
    score_path = options.score or options.corpus / "score.py"
    for path in (labels_path, score_path, options.root):
        if not path.exists():
            sys.exit(f"{path} does not exist; see --help")
    data = json.loads(labels_path.read_text())
    built = built_rules()
    reduced = restrict(data["labels"], load_score(score_path), built)
    left_out = Counter(row["category"] for row in data["labels"]) - Counter(
        row["category"] for row in reduced
    )
    print(describe_machine(), flush=True)
    print(f"rules: {', '.join(sorted(built))}")
    print(f"labels: {len(reduced)} of {len(data['labels'])}; without a rule so far: ", end="")
    print(", ".join(f"{category} {number}" for category, number in sorted(left_out.items())) or "none")
    with tempfile.TemporaryDirectory() as scratch:
        replay = Path(scratch) / "replay.py"
        replay.write_text(REPLAY)
        results = Path(scratch) / "results"
        results.mkdir()
        reduced_path = Path(scratch) / "labels.json"
        reduced_path.write_text(json.dumps(data | {"labels": reduced}))
        amplint = shlex.join([sys.executable, str(replay), str(results), *shlex.split(options.amplint)])
        for title, path, show in (
            ("the rules of this version", reduced_path, options.show),
            ("all labels", labels_path, ""),
        ):
            print(f"\n== {title}", flush=True)
            command = [sys.executable, score_path, "--labels", path, "--root", options.root]
            command += ["--amplint", amplint, "--show", show]
            if path is reduced_path and options.json:
                command += ["--json", options.json]
            done = subprocess.run([str(word) for word in command])
            if done.returncode:
                sys.exit(done.returncode)


if __name__ == "__main__":
    main()
