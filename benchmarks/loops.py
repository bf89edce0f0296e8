"""Runs training loops of packages from the registry under ``amplint confirm`` and prints the verdicts as a table.

    pip install -e . torch denoising-diffusion-pytorch video-diffusion-pytorch x-transformers \
        vector-quantize-pytorch monai pytorch-ignite lightning accelerate fastai transformers
    python benchmarks/loops.py [--own] [--on-cuda]

Each program of ``benchmarks/loops`` only makes data and calls the package's trainer. The package is linted, and
its findings are judged by two steps of the run. The programs `own_*.py` are right loops of one's own, with a framework
or without: each is run as it is, and with mistakes put into it by one edit each. There the program is linted, not the
package, and what counts is whether the run says the mistake's rule, and nothing of the right program. `--own`: these
alone. `--on-cuda`: on the CUDA device that is there, instead of a simulated one.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
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
SEEN = ("confirmed", "missed")
ON_CUDA = "--on-cuda" in sys.argv
MISTAKES = {
    "own_accelerate": [
        ("accelerator.clip_grad_norm_(", "torch.nn.utils.clip_grad_norm_(", "clip-without-unscale"),
        ("accelerator.backward(loss)", "loss.backward()", "unscaled-backward"),
    ],
    "own_trainer": [
        ("model = Net()", "model = Net().half()", "half-model"),
        (
            "nn.functional.mse_loss(out.float(), labels)",
            "nn.functional.binary_cross_entropy(out.sigmoid(), labels.sigmoid())",
            "bce-in-autocast",
        ),
    ],
    "own_lightning": [("self.manual_backward(loss)", "loss.backward()", "unscaled-backward")],
    "own_timm": [
        (
            "loss_scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())",
            "loss.backward(); optimizer.step()",
            "missing-grad-scaler",
        )
    ],
    "own_torchvision": [("            scaler.unscale_(optimizer)\n", "", "clip-without-unscale")],
    "own_gan": [
        ("scaler.step(optimizer_d)", "optimizer_d.step()", "direct-optimizer-step"),
        ("scaler.scale(loss_g).backward()", "loss_g.backward()", "unscaled-backward"),
    ],
    "own_accumulation": [
        (
            "    if (step + 1) % every == 0:\n        scaler.unscale_(optimizer)\n",
            "    scaler.unscale_(optimizer)\n    if (step + 1) % every == 0:\n",
            "unscale-misplaced",
        )
    ],
    "own_ddp": [("scaler.scale(loss).backward()", "loss.backward()", "unscaled-backward")],
    "own_compile": [("scaler.step(optimizer)", "optimizer.step()", "direct-optimizer-step")],
    "own_checkpointing": [("    scaler.unscale_(optimizer)\n", "", "clip-without-unscale")],
    "own_spawn": [("scaler.scale(loss).backward()", "loss.backward()", "unscaled-backward")],
    "own_pytest": [
        (
            "        loss = nn.functional.mse_loss(model(x), y)\n    scaler",
            "        loss = nn.functional.mse_loss(model(x), y)\n        scaler",
            "backward-in-autocast",
        )
    ],
}
"""What is written instead of what, and the rule that speaks of it."""
NEEDS = {
    "own_accelerate": "accelerate",
    "own_trainer": "transformers",
    "own_lightning": "lightning",
    "own_timm": "timm",
    "own_torchvision": "torchvision",
    "own_pytest": "pytest",
}
STARTED_BY = {
    "own_ddp": ("torchrun", "--nproc-per-node", "2"),
    "own_pytest": ("-m", "pytest", "-q", "-p", "no:cacheprovider"),
}
"""What stands in front of the program."""


def verdicts(loop: str, package: str) -> dict[str, object]:
    """What ``amplint confirm`` says of a package's loop, as JSON."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations, f"{package} is not installed"
    return confirmed(spec.submodule_search_locations[0], LOOPS / f"{loop}.py")


def confirmed(linted: str | Path, program: Path, *before: str) -> dict[str, object]:
    """What ``amplint confirm`` says, as JSON."""
    command = [sys.executable, "-W", "ignore", "-m", "amplint", "confirm", "--output-format", "json"]
    steps = [] if linted == program else ["--steps", "2"]
    command += [
        "--device",
        "cuda" if ON_CUDA else "simulated-cuda",
        str(linted),
        *steps,
        "--",
        *before,
        str(program),
    ]
    finished = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    return dict(json.loads(finished.stdout))


def own() -> None:
    """The table of the loops of one's own."""
    print("| loop | written | seen by the run | right |")
    print("| --- | --- | --- | --- |")
    for loop, mistakes in MISTAKES.items():
        needed = NEEDS.get(loop, "torch")
        if importlib.util.find_spec(needed) is None:
            print(f"| {loop} | | skipped: {needed} is not installed | |", flush=True)
            continue
        text = (LOOPS / f"{loop}.py").read_text(encoding="utf-8")
        for old, new, rule in [("", "", ""), *mistakes]:
            assert old in text
            with tempfile.TemporaryDirectory() as folder:
                program = Path(folder) / "train.py"
                program.write_text(text.replace(old, new, 1) if old else text, encoding="utf-8")
                told = confirmed(program, program, *STARTED_BY.get(loop, ()))
            findings: list[dict[str, str]] = [*told["findings"], *told["missed"]]  # type: ignore[misc]
            seen = sorted({part["name"] for part in findings if part["verdict"] in SEEN})
            right = rule in seen if rule else not seen and told["steps"] != 0
            what = f"{' '.join(new.split()) or 'without ' + ' '.join(old.split())}" if rule else "as it is"
            print(f"| {loop} | {what} | {', '.join(seen) or '-'} | {'yes' if right else 'no'} |", flush=True)


def main() -> None:
    """Prints the tables."""
    own()
    if "--own" in sys.argv:
        return
    print("\n| loop | package | torch | device | steps | findings | verdicts | missed |")
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
