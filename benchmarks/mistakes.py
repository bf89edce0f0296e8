"""The mistakes that benchmarks/mending.py puts into right programs, by rule, and rules whose mistakes do not show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from training_programs import Line, Program, Variant, edited, right, source

Change = str | tuple[int, str] | None
Edits = Mapping[str, Change] | Callable[[Program], Program]


@dataclass(frozen=True)
class Mistake:
    """``right`` makes of the common right program the one that this rule needs, ``broken`` puts the mistake into that.
    ``defined`` and ``defined_wrong`` stand above the model; ``styles`` are those in which it can be written."""

    rule: str
    broken: Edits = field(default_factory=dict)
    right: Edits = field(default_factory=dict)
    defined: str = ""
    defined_wrong: str | None = None
    styles: tuple[str, ...] = ("script", "function", "method")

    def texts(self, variant: Variant) -> tuple[str, str]:
        """The right program and the broken one."""
        if variant.style not in self.styles:
            variant = replace(variant, style=self.styles[0])
        program = _applied(right(variant), self.right)
        wrong = self.defined if self.defined_wrong is None else self.defined_wrong
        return source(variant, program, self.defined), source(variant, _applied(program, self.broken), wrong)


def _applied(program: Program, edits: Edits) -> Program:
    return edits(program) if callable(edits) else edited(program, **edits)


def _around_the_loop(program: Program) -> Program:
    """One region around the whole loop."""
    region = next(line for line in program if line.name == "region")
    at = next(number for number, line in enumerate(program) if line.name == "for")
    rest = [
        replace(line, depth=line.depth + (line.name not in ("forward", "loss")))
        for line in program[at:]
        if line is not region
    ]
    return (*program[:at], replace(region, depth=0), *rest)


def _resumed(program: Program) -> Program:
    """Half of the steps, a checkpoint, and the other half by a run that is resumed from it."""
    setup = [line for line in program if line.name in ("model", "optimizer", "scaler")]
    loop = [line for line in program if line not in setup and line.name != "more"]
    inner = [replace(line, depth=line.depth + 1) for line in (*setup, Line("load", 0, _LOAD), *loop)]
    return (
        Line("more", 0, "losses, seen, files = [], [], []"),
        Line("def", 0, "\ndef train(file):"),
        *edited(tuple(inner), **{"for": "for number in range(25):"}),
        Line("save", 1, _SAVE),
        Line("runs", 0, "\ntrain(None)\ntrain(files[0])"),
    )


_LOAD = """if file is not None:
    states = torch.load(file)
    model.load_state_dict(states["model"])
    optimizer.load_state_dict(states["optimizer"])
    scaler.load_state_dict(states["scaler"])"""
_SAVE = """files.append(io.BytesIO())
states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
torch.save(states, files[-1])
files[-1].seek(0)"""
_NO_CLIP: dict[str, Change] = {"unscale": None, "clip": None}
_TINY: dict[str, Change] = {
    **_NO_CLIP,
    "optimizer": "optimizer = torch.optim.SGD(model.parameters(), lr=1e6)",
    "loss": "loss = criterion(output, y) * 1e-7",
    "keep": "losses.append(loss.item() * 1e7)",
    "scaler": "scaler = torch.amp.GradScaler(device)",
}
"""A loss whose gradients are zero in float16 unless they are scaled."""
_REGION = "with torch.autocast(device, dtype=torch.float16):"
_WIDTH = "width = 1 if batches[0][1].dim() == 2 else 3"
_HEAD: dict[str, Change] = {
    "more": f"{_WIDTH}\nhead = nn.Linear(width, width).to(device).requires_grad_(False)\n{{}}",
}
_OFF = "with torch.autocast(device, enabled=False):"
_FUNCTION = """

class Product(torch.autograd.Function):
    @staticmethod
{fwd}    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
{bwd}    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight.t(), x.t() @ grad

"""
_CUSTOM = {
    "fwd": '    @torch.amp.custom_fwd(device_type="cuda")\n',
    "bwd": '    @torch.amp.custom_bwd(device_type="cuda")\n',
}
_APPLIED: dict[str, Change] = {
    "more": f"{_WIDTH}\nmix = torch.eye(width, device=device).requires_grad_()\n{{}}",
    "forward": "output = Product.apply(model(x), mix)",
    "see": "seen.append(number)",
}
_PREDICT = "{{}}\n\n{decorator}def predict():\n{body}\n"
_OPENED = f"    {_REGION}\n        result = model(x)\n"

MISTAKES = (
    Mistake("autocast-bad-dtype", {"region": 'with torch.autocast(device, dtype="float16"):'}),
    Mistake(
        "autocast-lost-in-threads",
        {"batch": "x, y = batches[number % 2]\n\ndef predict():\n    return model(x)\n"},
        {
            "more": "pool = ThreadPoolExecutor(1)\n{}",
            "batch": _PREDICT.format(decorator="", body=f"    {_REGION}\n        return model(x)"),
            "forward": "output = pool.submit(predict).result()",
        },
    ),
    Mistake(
        "autocast-not-entered",
        {
            "region": "torch.autocast(device, dtype=torch.float16)",
            "forward": (-1, "{}"),
            "loss": (-1, "{}"),
        },
    ),
    Mistake(
        "autocast-on-generator",
        {
            "batch": "x, y = batches[number % 2]\n\n@torch.autocast(device, dtype=torch.float16)\ndef predict():\n"
            "    result = model(x)\n    yield result\n"
        },
        {
            "batch": _PREDICT.format(decorator="", body=f"{_OPENED}    yield result"),
            "region": "for output in predict():",
            "forward": "pass",
        },
    ),
    Mistake(
        "autocast-reentered",
        {"forward": "with context:\n    output = model(x)"},
        {
            "more": "context = torch.autocast(device, dtype=torch.float16)\n{}",
            "region": "with context:",
            "forward": f"{_REGION}\n    output = model(x)",
            "see": 'seen.append(torch.is_autocast_enabled("cuda"))',
        },
        styles=("script",),
    ),
    Mistake(
        "autocast-wrong-device",
        {"region": "with torch.autocast(torch.device(device), dtype=torch.float16):"},
    ),
    Mistake(
        "bce-in-autocast",
        {"loss": "loss = F.binary_cross_entropy(torch.sigmoid(output), y)"},
        {
            "batch": "{}\ny = (x.flatten(1)[:, :1] > 0).float()",
            "forward": "output = model(x)[:, :1]",
            "loss": "loss = F.binary_cross_entropy_with_logits(output, y)",
        },
    ),
    Mistake(
        "bfloat16-to-numpy",
        {"see": "seen.append(output.detach().cpu().numpy().shape)"},
        {
            "region": "with torch.autocast(device, dtype=torch.bfloat16):",
            "scaler": "scaler = torch.amp.GradScaler(device, enabled=False)",
            "see": "seen.append(output.detach().float().cpu().numpy().shape)",
        },
    ),
    Mistake(
        "buffer-dtype-mismatch",
        {"forward": "output = model(x)\nbank[torch.arange(16, device=device)] = output.detach()"},
        {
            "more": f"{_WIDTH}\nbank = torch.zeros(16, width, device=device)\n{{}}",
            "forward": "output = model(x)\nbank[torch.arange(16, device=device)] = output.detach().to(bank.dtype)",
            "see": "seen.append(bank.dtype)",
        },
    ),
    Mistake("clip-without-unscale", {"unscale": None}),
    Mistake(
        "closure-with-scaler",
        {
            "scaler": "scaler = torch.amp.GradScaler(device, init_scale=1024.0)",
            "batch": "x, y = batches[number % 2]\n\ndef closure():\n    optimizer.zero_grad()\n"
            f"    {_REGION}\n        output = model(x)\n        loss = criterion(output, y)\n"
            "    scaler.scale(loss).backward()\n    return loss\n",
        },
        {
            **dict.fromkeys(("region", "forward", "unscale", "clip", "guard", "step", "update", "zero")),
            "scaler": "scaler = torch.amp.GradScaler(device, enabled=False)",
            "optimizer": "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
            "batch": "{}\n\ndef closure():\n    optimizer.zero_grad()\n"
            "    with torch.autocast(device, dtype=torch.bfloat16):\n        output = model(x)\n"
            "        loss = criterion(output, y)\n    scaler.scale(loss).backward()\n    return loss\n",
            "loss": (-1, "loss = optimizer.step(closure)"),
            "share": None,
            "scale": None,
            "see": None,
        },
    ),
    Mistake(
        "custom-function-without-cast",
        {},
        _APPLIED,
        _FUNCTION.format(**_CUSTOM),
        _FUNCTION.format(fwd="", bwd=""),
    ),
    Mistake(
        "deprecated-amp-api",
        {
            "scaler": "scaler = torch.cuda.amp.GradScaler(init_scale=1024.0)",
            "region": "with torch.cuda.amp.autocast():",
        },
    ),
    Mistake("direct-optimizer-step", {"step": "optimizer.step()", "update": None}, _NO_CLIP),
    Mistake(
        "disabled-region-without-cast",
        {"forward": f"output = model(x)\n{_OFF}\n    output = head(output)"},
        {**_HEAD, "forward": f"output = model(x)\n{_OFF}\n    output = head(output.float())"},
    ),
    Mistake("epoch-wide-autocast", _around_the_loop),
    Mistake(
        "half-input",
        {"see": "seen.append(model(x.half()).dtype)"},
        {"see": "seen.append(model(x).dtype)"},
    ),
    Mistake("half-model", {"model": "model = Model().to(device).half()"}),
    Mistake(
        "half-overflow-literal",
        {"forward": "output = model(x)\noutput = output.masked_fill(x.flatten(1)[:, :1] > 2, -1e9)"},
        {
            "forward": "output = model(x)\n"
            "output = output.masked_fill(x.flatten(1)[:, :1] > 2, torch.finfo(output.dtype).min)",
            "loss": "loss = criterion(output.clamp(-8, 8), y)",
        },
    ),
    Mistake(
        "half-underflow-eps",
        {
            "loss": "p = torch.sigmoid(output * 40 - 30)\n"
            "loss = criterion(output, y) - torch.log(p + 1e-8).mean() * 0.01"
        },
        {
            "loss": "p = torch.sigmoid(output * 40 - 30)\n"
            "loss = criterion(output, y) - torch.log(p.float() + 1e-8).mean() * 0.01"
        },
    ),
    Mistake(
        "inplace-op-skips-autocast",
        {"forward": "output = model(x)\nlevel = output.detach().clone()\nlevel.exp_()"},
        {
            "forward": "output = model(x)\nlevel = output.detach().clone()\nlevel = level.exp()",
            "see": "seen.append(level.dtype)",
        },
    ),
    Mistake(
        "misplaced-argument",
        {"region": "with torch.autocast(device, True):"},
        {"region": "with torch.autocast(device):"},
    ),
    Mistake(
        "missing-float",
        {"loss": "loss = F.cross_entropy(logits, torch.zeros(16, dtype=torch.long, device=device))"},
        {
            "forward": "output = model(x)\nlogits = torch.cat([output, -output], 1)",
            "loss": (
                -1,
                "loss = F.cross_entropy(logits.float(), torch.zeros(16, dtype=torch.long, device=device))",
            ),
            "see": "seen.append(loss.dtype)",
        },
    ),
    Mistake(
        "missing-grad-scaler",
        {"scaler": None, "scale": "share.backward()", "step": "optimizer.step()", "update": None},
        _TINY,
    ),
    Mistake("missing-scaler-update", {"update": None}),
    Mistake(
        "scaled-loss-reused",
        {"scale": "loss = scaler.scale(loss)\nloss.backward()"},
        {"scale": "scaled_loss = scaler.scale(loss)\nscaled_loss.backward()"},
    ),
    Mistake(
        "scaler-enabled-mismatch",
        {"scaler": 'scaler = torch.amp.GradScaler(device, enabled=flags["scale"])'},
        _TINY,
        "import json\n\nflags = json.loads('{\"scale\": false}')\n",
    ),
    Mistake(
        "scaler-in-loop",
        {"scaler": None, "batch": "scaler = torch.amp.GradScaler(device)\n{}"},
        {
            "scaler": "scaler = torch.amp.GradScaler(device)",
            "loss": "loss = criterion(output, y) * 64",
            "keep": "losses.append(loss.item() / 64)",
        },
        styles=("script", "function"),
    ),
    Mistake(
        "scaler-not-saved",
        lambda program: edited(
            program,
            save=_SAVE.replace(', "scaler": scaler.state_dict()', ""),
            load=_LOAD.rpartition("\n")[0],
        ),
        lambda program: _resumed(
            edited(
                program,
                scaler="scaler = torch.amp.GradScaler(device, init_scale=2.0**24)",
                see="seen.append(scaler.get_scale())",
            )
        ),
        "import io\n",
        styles=("script", "function"),
    ),
    Mistake(
        "scheduler-on-skipped-step",
        {"update": "scaler.update()\nscheduler.step()"},
        {
            "more": "scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)\n{}",
            "update": "before = scaler.get_scale()\nscaler.update()\n"
            "if scaler.get_scale() >= before:\n    scheduler.step()",
            "scaler": "scaler = torch.amp.GradScaler(device, init_scale=2.0**26)",
            "see": "seen.append(scheduler.get_last_lr())",
        },
    ),
    Mistake(
        "stale-weight-cache",
        lambda program: tuple(
            replace(line, code=line.code.replace(", cache_enabled=False", "")) for line in program
        ),
        {
            "see": "with torch.no_grad(), torch.autocast(device, dtype=torch.float16, cache_enabled=False):\n"
            "    before = model(x)\n    model.layers[0].weight.mul_(2.0)\n    after = model(x)\n"
            "    model.layers[0].weight.div_(2.0)\nseen.append(torch.equal(before, after))"
        },
    ),
    Mistake(
        "unpaired-custom-fwd-bwd",
        {},
        _APPLIED,
        _FUNCTION.format(**_CUSTOM),
        _FUNCTION.format(fwd="", bwd=_CUSTOM["bwd"]),
    ),
    Mistake(
        "unprotected-op-in-half",
        {"forward": "output = model(x)\nh = output.detach() * 900\nlevel = (h * h).mean()"},
        {
            "forward": "output = model(x)\nh = output.detach() * 900\nlevel = (h.float() * h.float()).mean()",
            "see": "seen.append(torch.isfinite(level).item())",
        },
    ),
    Mistake("unscale-misplaced", {"step": "{}\nscaler.unscale_(optimizer)"}, _NO_CLIP),
    Mistake("unscaled-backward", {"scale": "share.backward()"}, _NO_CLIP),
    Mistake(
        "useless-float",
        {"forward": "output = model(x)\noutput = head(output.float())"},
        {**_HEAD, "forward": f"output = model(x)\n{_OFF}\n    output = head(output.float())"},
    ),
)
"""By the name of the rule. The right program is the one without the mistake."""

UNSEEN = {
    "apex-amp": "apex is in no registry: tests/fixes/test_apex.py trains with a stub of it",
    "backward-in-autocast": "a region around an island of float32 rounds its gradients, by less than what float16 does",
    "cuda-graph-with-cache": "a CUDA graph is needed",
    "no-grad-then-grad": "torch has mended it in release 2.11",
    "scaler-with-bfloat16": "advice: nothing is lost but time",
    "sharded-needs-sharded-scaler": "several processes are needed",
    "step-in-autocast": "advice: the step does not depend on the region",
    "unused-suppression": "about comments",
}
"""Why the mistakes of other rules with a fix cannot show in a run on simulated CUDA."""
