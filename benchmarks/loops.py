"""Runs training loops of packages from the registry under ``amplint confirm`` and prints the verdicts as a table.

    pip install -e . torch denoising-diffusion-pytorch video-diffusion-pytorch x-transformers \
        vector-quantize-pytorch monai pytorch-ignite lightning accelerate fastai
    python benchmarks/loops.py

Each program of ``benchmarks/loops`` only makes data and calls the package's trainer. The package is linted, and
its findings are judged by two steps of the run.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

LOOPS = Path(__file__).with_name("loops")
PACKAGES = {
    "accelerate_fp16": "accelerate",
    "ddpm": "denoising_diffusion_pytorch",
    "fabric_16": "lightning",
    "fastai_fp16": "fastai",
    "lightning_16": "lightning",
    "monai_unet": "monai",
    "residual_lfq": "vector_quantize_pytorch",
    "video_diffusion": "video_diffusion_pytorch",
    "x_transformer_mos": "x_transformers",
}


def verdicts(loop: str, package: str) -> dict[str, object]:
    """What ``amplint confirm`` says, as JSON."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations, f"{package} is not installed"
    command = [sys.executable, "-W", "ignore", "-m", "amplint", "confirm", "--output-format", "json"]
    command += [spec.submodule_search_locations[0], "--steps", "2", "--", str(LOOPS / f"{loop}.py")]
    finished = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    return dict(json.loads(finished.stdout))


def main() -> None:
    print("| loop | package | torch | device | steps | findings | verdicts | missed |")
    print("| --- | --- | --- | --- | ---: | ---: | --- | ---: |")
    for loop, package in PACKAGES.items():
        told = verdicts(loop, package)
        findings: list[dict[str, object]] = told["findings"]  # type: ignore[assignment]
        missed: list[object] = told["missed"]  # type: ignore[assignment]
        by_rule = Counter(f"{finding['name']} {finding['verdict']}" for finding in findings)
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(by_rule.items())) or "-"
        print(
            f"| {loop} | {package} | {told['torch']} | {told['device']} | {told['steps']} | {len(findings)} "
            f"| {listed} | {len(missed)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
