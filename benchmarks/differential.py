"""Lints random training programs, runs each with CUDA simulated, and counts where the two agree, by rule.

    python benchmarks/differential.py --count 10000

Ends with status 1 if there is a disagreement; ``--keep DIR`` keeps the programs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "differential"))

BATCH = 25
AGREE = ("confirmed",)
DISAGREE = ("refuted", "missed")

Row = tuple[int, str, str, int, str]


def compare_batch(order: tuple[int, int, str]) -> list[Row]:
    """(seed, rule, verdict, line, message) for each verdict on the programs of these seeds."""
    import torch
    from comparing import compare

    torch.set_num_threads(1)
    first, last, folder = order
    return [
        (
            compared.seed,
            verdict.finding.name,
            verdict.status.value,
            verdict.finding.span.line,
            verdict.finding.message,
        )
        for compared in compare(range(first, last), Path(folder))
        for verdict in compared.verdicts
    ]


def rows(first: int, count: int, folder: str, jobs: int) -> Iterator[Row]:
    """All verdicts, batch by batch in several processes."""
    orders = [
        (start, min(start + BATCH, first + count), folder) for start in range(first, first + count, BATCH)
    ]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for found in pool.imap(compare_batch, orders):
            yield from found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=10_000, help="number of programs")
    parser.add_argument("--keep", type=Path, help="where to put the programs")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = str(options.keep or scratch)
        counts: Counter[tuple[str, str]] = Counter()
        wrong: list[Row] = []
        for row in rows(options.first, options.count, folder, options.jobs):
            counts[row[1], row[2]] += 1
            if row[2] in DISAGREE:
                wrong.append(row)
    print(f"{options.count} programs, seeds from {options.first}")
    statuses = ["confirmed", "refuted", "missed", "not reached", "inconclusive", "not observable here"]
    print("| rule | " + " | ".join(statuses) + " | agreement |")
    print("| --- |" + " ---: |" * (len(statuses) + 1))
    for rule in sorted({name for name, _ in counts}):
        agree = sum(counts[rule, status] for status in AGREE)
        differ = sum(counts[rule, status] for status in DISAGREE)
        share = f"{agree / (agree + differ):.1%}" if agree + differ else "-"
        print(f"| {rule} | " + " | ".join(str(counts[rule, status]) for status in statuses) + f" | {share} |")
    for seed, rule, verdict, line, message in wrong[:40]:
        print(f"seed {seed} line {line}: {rule} {verdict}: {message}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
