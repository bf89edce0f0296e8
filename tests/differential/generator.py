"""Random small AMP training programs: right by default, with a few things turned wrong or odd."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

INDENT = "    "


def indented(lines: list[str], depth: int = 1) -> list[str]:
    """Lines set in by some levels."""
    return [INDENT * depth + line if line else line for line in lines]


@dataclass
class Plan:
    """What one program is made of. Every field is a choice that the seed makes."""

    dtype: str
    scaler: str
    region: str
    opened: str
    span: str
    accumulate: int
    loss: str
    model: str
    head: str
    clip: str
    unscale: str
    step: str
    update: str
    zero: str
    inputs: str
    extra: list[str] = field(default_factory=list)
    helpers: bool = False
    in_class: bool = False
    cache: bool = True
    form: str = "plain"
    """How a class gives its parts: by attributes, properties, or through class and static methods."""
    asks: bool = False
    """Whether functions compute the conditions."""
    renamed: bool = False


def choose(dice: random.Random, usual: str, *others: str, odds: float = 0.25) -> str:
    """The usual thing mostly, else one of the others."""
    return dice.choice(others) if others and dice.random() < odds else usual


EXTRAS = (
    "ema in region",
    "log softmax outside",
    "numpy outside",
    "epsilon outside",
    "epsilon on float32",
    "mask with minus 1e9",
    "mask with finfo",
    "validation in region",
    "write into float32",
    "disabled island",
    "disabled island with cast",
    "scaler state saved",
    "optimizer alone saved",
    "load state in region",
    "scheduler",
    "loss logged",
    "scaled loss logged",
    "context made and not entered",
)


OWN_NAMES = (
    *(
        "amp_context",
        "batches",
        "compute",
        "compute_loss",
        "create",
        "index",
        "is_due",
        "kept",
        "loss",
        "model",
    ),
    *(
        "Network",
        "optimizer",
        "output",
        "scaler",
        "scheduler",
        "stack",
        "target",
        "total",
        "Trainer",
        "USE_AMP",
    ),
    *("uses_amp", "x"),
)
"""The names that the programs choose themselves."""
OTHER_NAMES = (
    *(
        "a",
        "b1",
        "autocast_",
        "cfg",
        "ctx",
        "fp16",
        "gs",
        "half",
        "item",
        "it",
        "k",
        "L",
        "mult",
        "n",
        "net",
        "obj",
    ),
    *("opt", "outcome", "p", "q", "s", "scale_", "step_", "t", "unit", "upcast", "v", "w", "y", "z"),
)


def plan(dice: random.Random) -> Plan:
    """Draws a plan."""
    dtype = choose(dice, "float16", "bfloat16", odds=0.35)
    scaler = "plain" if dtype == "float16" else "none"
    if dice.random() < 0.2:
        scaler = dice.choice(["none", "plain", "enabled flag", "made in loop"])
    scaled = scaler != "none"
    return Plan(
        dtype=dtype,
        scaler=scaler,
        region=choose(
            dice, "with", "variable", "function", "partial", "stack", "choice", "several", odds=0.5
        ),
        opened=choose(dice, "torch.autocast", "torch.amp.autocast", odds=0.3),
        span=choose(
            dice, "forward and loss", "forward", "with backward", "whole step", "epoch", "decorator", odds=0.5
        ),
        accumulate=dice.choice([1, 1, 1, 2]),
        loss=choose(dice, "mse", "cross entropy", "float mse", "bce logits", "bce", "own", odds=0.6),
        model=choose(dice, "plain", "half", "bfloat16", odds=0.12),
        head=choose(dice, "linear", "softmax", "layer norm", "island", "island with cast", odds=0.35),
        clip=choose(dice, "none", "norm", "value", odds=0.5),
        unscale=choose(dice, "before clip", "none", "after clip", "twice", odds=0.3) if scaled else "none",
        step=choose(dice, "scaler", "direct", odds=0.12) if scaled else "direct",
        update=choose(dice, "after step", "none", "every batch", odds=0.15) if scaled else "none",
        zero=choose(dice, "first", "last", odds=0.4),
        inputs=choose(dice, "plain", "half", odds=0.1),
        extra=dice.sample(EXTRAS, dice.choice([0, 0, 1, 1, 2])),
        helpers=dice.random() < 0.4,
        in_class=dice.random() < 0.35,
        cache=dice.random() > 0.06,
        form=choose(dice, "plain", "property", "class method", "static method", odds=0.6),
        asks=dice.random() < 0.3,
        renamed=dice.random() < 0.3,
    )


def context(drawn: Plan) -> str:
    """The expression that makes a region."""
    more = "" if drawn.cache else ", cache_enabled=False"
    return f'{drawn.opened}("cuda", dtype=torch.{drawn.dtype}{more})'


def flag(drawn: Plan) -> str:
    """The expression that switches AMP."""
    return "uses_amp()" if drawn.asks else "USE_AMP"


def entered(drawn: Plan) -> str:
    """What stands behind ``with``."""
    return {
        "with": context(drawn),
        "variable": "amp_context",
        "function": "amp_context()",
        "partial": "amp_context()",
        "choice": "amp_context",
        "several": f"torch.enable_grad(), {context(drawn)}",
        "stack": "",
    }[drawn.region]


def prelude(drawn: Plan) -> list[str]:
    """The definitions at module level."""
    lines = [
        "import functools",
        "from contextlib import ExitStack, nullcontext",
        "",
        "import torch",
        "import torch.nn.functional as F",
        "from torch import nn",
        "",
        "USE_AMP = True",
        'device = torch.device("cuda")',
        "torch.manual_seed(0)",
        "",
        "",
    ]
    if drawn.asks:
        lines += ["def uses_amp():", "    return USE_AMP", "", ""]
        lines += ["def is_due(index):", f"    return (index + 1) % {drawn.accumulate} == 0", "", ""]
    lines += model_class(drawn)
    if drawn.span == "decorator" and not used_elsewhere(drawn):
        return [*lines, "", ""]
    if drawn.region == "variable":
        lines += [f"amp_context = {context(drawn)}"]
    elif drawn.region == "function":
        lines += ["", "def amp_context():", f"    return {context(drawn)}", ""]
    elif drawn.region == "partial":
        more = "" if drawn.cache else ", cache_enabled=False"
        lines += [f'amp_context = functools.partial({drawn.opened}, "cuda", dtype=torch.{drawn.dtype}{more})']
    elif drawn.region == "choice":
        lines += [f"amp_context = {context(drawn)} if {flag(drawn)} else nullcontext()"]
    lines += ["", ""]
    return lines


def used_elsewhere(drawn: Plan) -> bool:
    """Whether something besides the training step opens a region."""
    return any(
        name in drawn.extra for name in ("ema in region", "validation in region", "load state in region")
    )


def model_class(drawn: Plan) -> list[str]:
    """The network."""
    lines = [
        "class Network(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.inner = nn.Linear(6, 8)",
        "        self.outer = nn.Linear(8, 3)",
        "        self.norm = nn.LayerNorm(3)",
        "",
        "    def forward(self, x):",
        "        x = torch.relu(self.inner(x))",
        "        x = self.outer(x)",
    ]
    if drawn.head == "softmax":
        lines += ["        x = x.softmax(-1)"]
    elif drawn.head == "layer norm":
        lines += ["        x = self.norm(x)"]
    elif drawn.head.startswith("island"):
        inner = "x.float()" if drawn.head.endswith("cast") else "x"
        lines += [
            '        with torch.autocast("cuda", enabled=False):',
            f"            x = F.softmax({inner}, dim=-1)",
        ]
    return [*lines, "        return x", "", ""]


def loss_lines(drawn: Plan) -> list[str]:
    """How the loss comes out of ``output`` and ``target``."""
    return {
        "mse": ["loss = F.mse_loss(output, target)"],
        "float mse": ["loss = F.mse_loss(output.float(), target)"],
        "cross entropy": ["loss = F.cross_entropy(output, target.argmax(-1))"],
        "bce logits": ["loss = F.binary_cross_entropy_with_logits(output, target)"],
        "bce": ["loss = F.binary_cross_entropy(torch.sigmoid(output), target)"],
        "own": ["loss = ((output - target) ** 2).mean()"],
    }[drawn.loss]


def forward_lines(drawn: Plan, model: str) -> list[str]:
    """The forward pass and what belongs to it."""
    lines = []
    source = "x"
    if drawn.inputs == "half":
        lines.append(f"x = x.to(torch.{drawn.dtype})")
    lines.append(f"output = {model}({source})")
    if "disabled island" in drawn.extra or "disabled island with cast" in drawn.extra:
        inner = "output.float()" if "disabled island with cast" in drawn.extra else "output"
        lines += [
            'with torch.autocast("cuda", enabled=False):',
            f"    output = F.log_softmax({inner}, dim=-1)",
        ]
    return lines


def inside_lines(drawn: Plan) -> list[str]:
    """What is done within the region after the forward."""
    lines = []
    if "mask with minus 1e9" in drawn.extra:
        lines.append("output = output.masked_fill(output > 100.0, -1e9)")
    if "mask with finfo" in drawn.extra:
        lines.append("output = output.masked_fill(output > 100.0, torch.finfo(output.dtype).min)")
    if "write into float32" in drawn.extra:
        lines += ["kept = torch.zeros(4, 3, device=device)", "kept[x[:, 0] > 0.5] = output[x[:, 0] > 0.5]"]
    return lines


def outside_lines(drawn: Plan) -> list[str]:
    """What is done after the region with what left it."""
    lines = []
    if "log softmax outside" in drawn.extra:
        lines.append("entropy = -(output.softmax(-1) * output.log_softmax(-1)).sum()")
    if "numpy outside" in drawn.extra:
        lines.append("values = output.detach().cpu().numpy()")
    if "epsilon outside" in drawn.extra:
        lines.append("ratio = output.detach() / (output.detach().abs() + 1e-8)")
    if "epsilon on float32" in drawn.extra:
        lines.append("ratio = output.detach().float() / (output.detach().float().abs() + 1e-8)")
    return lines


def within(drawn: Plan, body: list[str], number: int = 0) -> list[str]:
    """The body in a region."""
    if drawn.region == "stack":
        return [
            "with ExitStack() as stack:",
            f"    stack.enter_context({context(drawn)})",
            *indented(body),
        ]
    return [f"with {entered(drawn)}:", *indented(body)]


def update_lines(drawn: Plan, scaler: str, optimizer: str, model: str) -> list[str]:
    """What comes after the backward."""
    lines = []
    scaled = drawn.scaler != "none"
    clip = {
        "none": [],
        "norm": [f"torch.nn.utils.clip_grad_norm_({model}.parameters(), 1.0)"],
        "value": [f"torch.nn.utils.clip_grad_value_({model}.parameters(), 0.5)"],
    }[drawn.clip]
    unscale = [f"{scaler}.unscale_({optimizer})"]
    if scaled and drawn.unscale in ("before clip", "twice") and (clip or drawn.unscale == "twice"):
        lines += unscale * (2 if drawn.unscale == "twice" else 1) + clip
    elif scaled and drawn.unscale == "after clip" and clip:
        lines += clip + unscale
    else:
        lines += clip
    lines.append(
        f"{scaler}.step({optimizer})" if scaled and drawn.step == "scaler" else f"{optimizer}.step()"
    )
    if scaled and drawn.update == "after step":
        lines.append(f"{scaler}.update()")
    if "scheduler" in drawn.extra:
        lines.append("scheduler.step()")
    if drawn.zero == "last":
        lines.append(f"{optimizer}.zero_grad()")
    return lines


def backward_lines(drawn: Plan, scaler: str) -> list[str]:
    """The backward pass."""
    lines = []
    if drawn.accumulate > 1:
        lines.append(f"loss = loss / {drawn.accumulate}")
    if drawn.scaler == "none":
        return [*lines, "loss.backward()"]
    if "scaled loss logged" in drawn.extra:
        return [*lines, f"loss = {scaler}.scale(loss)", "loss.backward()", "total += loss.item()"]
    return [*lines, f"{scaler}.scale(loss).backward()"]


def scaler_line(drawn: Plan, scaler: str) -> list[str]:
    """How the scaler is made."""
    if drawn.scaler == "none":
        return []
    enabled = f", enabled={flag(drawn)}" if drawn.scaler == "enabled flag" else ""
    return [f'{scaler} = torch.amp.GradScaler("cuda"{enabled})']


def is_method(drawn: Plan) -> bool:
    """Whether the function that computes the loss belongs to the class."""
    return drawn.in_class and drawn.form in ("class method", "static method")


def step_lines(drawn: Plan, model: str, scaler: str, optimizer: str) -> list[str]:
    """One batch, from the forward to the update."""
    forward = forward_lines(drawn, model) + inside_lines(drawn)
    loss = loss_lines(drawn)
    if drawn.helpers and drawn.span in ("forward and loss", "with backward", "whole step", "epoch"):
        loss = [f"loss = {'self.' if is_method(drawn) else ''}compute_loss(output, target)"]
    backward = backward_lines(drawn, scaler)
    update = update_lines(drawn, scaler, optimizer, model)
    if drawn.accumulate > 1:
        guard = "if is_due(index):" if drawn.asks else f"if (index + 1) % {drawn.accumulate} == 0:"
        late = [f"{scaler}.update()"] if drawn.update == "every batch" and drawn.scaler != "none" else []
        update = [guard, *indented(update), *late]
    elif drawn.update == "every batch" and drawn.scaler != "none":
        update = [*update, f"{scaler}.update()"]
    first = [f"{optimizer}.zero_grad()"] if drawn.zero == "first" and drawn.accumulate == 1 else []
    if drawn.scaler == "made in loop":
        first = [*scaler_line(drawn, scaler), *first]
    logged = ["total += loss.item()"] if "loss logged" in drawn.extra else []
    outside = outside_lines(drawn)
    if drawn.span == "forward":
        return [*first, *within(drawn, forward), *outside, *loss, *backward, *logged, *update]
    if drawn.span == "forward and loss":
        return [*first, *within(drawn, [*forward, *loss]), *outside, *backward, *logged, *update]
    if drawn.span == "with backward":
        return [*first, *within(drawn, [*forward, *loss, *backward]), *outside, *logged, *update]
    if drawn.span == "whole step":
        return [*within(drawn, [*first, *forward, *loss, *backward, *update]), *outside, *logged]
    if drawn.span == "decorator":
        return [*first, f"output, loss = compute({model}, x, target)", *outside, *backward, *logged, *update]
    return [*first, *forward, *loss, *backward, *logged, *update]


def after_lines(drawn: Plan, model: str) -> list[str]:
    """What is done once an epoch."""
    lines: list[str] = []
    if "validation in region" in drawn.extra:
        lines += [
            "with torch.no_grad():",
            *indented(within(drawn, ["for x, target in batches:", f"    {model}(x)"])),
        ]
    if "ema in region" in drawn.extra:
        lines += within(
            drawn,
            [
                f"{model}(batches[0][0])",
                "with torch.no_grad():",
                f"    for parameter in {model}.parameters():",
                "        parameter.mul_(0.5)",
                f"{model}(batches[0][0])",
            ],
        )
    if "load state in region" in drawn.extra:
        lines += within(
            drawn,
            [
                f"{model}(batches[0][0])",
                f"{model}.load_state_dict(Network().state_dict())",
                f"{model}(batches[0][0])",
            ],
        )
    if "context made and not entered" in drawn.extra:
        lines += [context(drawn), f"{model}(batches[0][0])"]
    return lines


def program(seed: int) -> str:
    """The source text of the program with this seed."""
    dice = random.Random(seed)
    drawn = plan(dice)
    if drawn.loss == "bce" and drawn.head in ("softmax", "island", "island with cast"):
        drawn.loss = "bce logits"
    lines = prelude(drawn)
    helper = ["def compute_loss(output, target):", *indented([*loss_lines(drawn), "return loss"])]
    if drawn.helpers and not is_method(drawn):
        lines += [*helper, "", ""]
    if drawn.span == "decorator":
        body = [*forward_lines(drawn, "model"), *inside_lines(drawn), *loss_lines(drawn)]
        lines += [
            f"@{context(drawn)}",
            "def compute(model, x, target):",
            *indented([*body, "return output, loss"]),
            "",
            "",
        ]
    model, scaler, optimizer = (
        ("self.model", "self.scaler", "self.optimizer")
        if drawn.in_class
        else ("model", "scaler", "optimizer")
    )
    make = {
        "plain": "Network().to(device)",
        "half": "Network().to(device).half()",
        "bfloat16": "Network().to(device).bfloat16()",
    }[drawn.model]
    cast = {"plain": "", "half": ".half()", "bfloat16": ".bfloat16()"}[drawn.model]
    setup = [f"{model} = {make}", f"{optimizer} = torch.optim.SGD({model}.parameters(), lr=0.01)"]
    if drawn.scaler != "made in loop":
        setup += scaler_line(drawn, scaler)
    loop = [
        "total = 0.0",
        "for index, (x, target) in enumerate(batches):",
        *indented(([f"x = x{cast}"] if cast else []) + step_lines(drawn, model, scaler, optimizer)),
    ]
    if "scheduler" in drawn.extra:
        loop.insert(0, f"scheduler = torch.optim.lr_scheduler.StepLR({optimizer}, 10)")
    if drawn.span == "epoch":
        loop = within(drawn, loop)
    loop += after_lines(drawn, model)
    saved = []
    if "scaler state saved" in drawn.extra and drawn.scaler in ("plain", "enabled flag"):
        saved = [f'"optimizer": {optimizer}.state_dict()', f'"scaler": {scaler}.state_dict()']
    elif "optimizer alone saved" in drawn.extra:
        saved = [f'"model": {model}.state_dict()', f'"optimizer": {optimizer}.state_dict()']
    if saved:
        loop += [f"torch.save({{{', '.join(saved)}}}, io.BytesIO())"]
        lines.insert(1, "import io")
    batches = [
        "batches = [",
        "    (torch.rand(4, 6, device=device), torch.rand(4, 3, device=device)) for _ in range(4)",
        "]",
    ]
    if drawn.in_class:
        made = "Trainer.create()" if drawn.form == "class method" else "Trainer()"
        if drawn.form == "property":
            setup = [line.replace("self.", "self._") for line in setup]
        lines += [
            "class Trainer:",
            "    def __init__(self):",
            *indented(setup, 2),
            "",
            *indented(methods(drawn, helper)),
            "    def fit(self, batches):",
            *indented(loop, 2),
            "",
            "",
            *batches,
            f"{made}.fit(batches)",
        ]
    else:
        lines += [
            "def main():",
            *indented([*batches, *setup, *loop]),
            "",
            "",
            'if __name__ == "__main__":',
            "    main()",
        ]
    text = "\n".join(lines) + "\n"
    return renamed(text, dice) if drawn.renamed else text


def methods(drawn: Plan, helper: list[str]) -> list[str]:
    """What the class has besides its constructor and the training."""
    lines = []
    if drawn.form == "property":
        parts = ["model", "optimizer"] + ["scaler"] * (drawn.scaler not in ("none", "made in loop"))
        for part in parts:
            lines += ["@property", f"def {part}(self):", f"    return self._{part}", ""]
    elif drawn.form == "class method":
        lines += ["@classmethod", "def create(cls):", "    return cls()", ""]
    if drawn.helpers and is_method(drawn):
        first, *rest = helper
        if drawn.form == "class method":
            lines += ["@classmethod", first.replace("(", "(cls, "), *rest, ""]
        else:
            lines += ["@staticmethod", first, *rest, ""]
    return lines


def renamed(text: str, dice: random.Random) -> str:
    """The same program with other names of its own."""
    others = dict(zip(OWN_NAMES, dice.sample(OTHER_NAMES, len(OWN_NAMES)), strict=True))
    return re.sub(r"\b(_?)(\w+)\b", lambda found: found[1] + others.get(found[2], found[2]), text)
