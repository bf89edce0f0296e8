"""The types of tensors: what autocast makes of them, what casts do, and where nothing is claimed."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest
from listening import Holds

from amplint.events import Certainty, Converted, DType, IndexPut, ModuleCast, Op

HEAD = dedent("""
    import torch
    import torch.nn.functional as F
    from torch import nn
""")


def program(body: str, *, region: str = 'torch.autocast("cuda")', parameters: str = "x, y") -> str:
    """A function whose body runs inside a region; two float32 tensors and a half one are at hand."""
    start = "w = torch.randn(2, 2)\nv = torch.randn(2, 2)\n"
    inside = "h = w @ v\n" + dedent(body).strip() + "\n"
    return (
        HEAD
        + f"def main({parameters}):\n"
        + indent(start, "    ")
        + f"    with {region}:\n"
        + indent(inside, "        ")
    )


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        # matrix products and layers
        ("w @ v", "float16"),
        ("torch.matmul(w, v)", "float16"),
        ("torch.mm(w, v)", "float16"),
        ("w.mm(v)", "float16"),
        ("torch.bmm(w, v)", "float16"),
        ("torch.einsum('ij,jk->ik', w, v)", "float16"),
        ("F.linear(w, v)", "float16"),
        ("nn.Linear(2, 2)(w)", "float16"),
        ("nn.Conv2d(2, 2, 1)(w)", "float16"),
        ("F.scaled_dot_product_attention(w, w, w)", "float16"),
        # what autocast keeps in float32
        ("h.softmax(-1)", "float32"),
        ("torch.softmax(h, -1)", "float32"),
        ("F.log_softmax(h, dim=-1)", "float32"),
        ("h.exp()", "float32"),
        ("h.log()", "float32"),
        ("h.sum()", "float32"),
        ("h.norm()", "float32"),
        ("h ** 2", "float32"),
        ("F.cross_entropy(h, y)", "float32"),
        ("F.mse_loss(h, w)", "float32"),
        ("F.layer_norm(h, (2,))", "float32"),
        ("nn.LayerNorm(2)(h)", "float32"),
        ("nn.CrossEntropyLoss()(h, y)", "float32"),
        # what goes the way of its operands
        ("h + h", "float16"),
        ("h + w", "float32"),
        ("w * h", "float32"),
        ("h * 2", "float16"),
        ("2.0 * h", "float16"),
        ("-h", "float16"),
        ("h.relu()", "float16"),
        ("F.gelu(h)", "float16"),
        ("h.mean()", "float16"),
        ("torch.cat([h, h])", "float16"),
        ("torch.cat([h, w])", "float32"),
        ("torch.stack((h, w))", "float32"),
        ("h.view(-1)", "float16"),
        ("h.transpose(0, 1).contiguous()", "float16"),
        ("h[0]", "float16"),
        ("h[:, None]", "float16"),
        ("h.detach()", "float16"),
        ("h.cpu()", "float16"),
        ("h.unsqueeze(0)", "float16"),
        ("h.T", "float16"),
        ("torch.zeros_like(h)", "float16"),
        ("torch.zeros(2)", "float32"),
        ("h.new_zeros(2)", "float16"),
        ("torch.where(h > 0, h, w)", "float32"),
        # by hand
        ("h.float()", "float32"),
        ("h.to(torch.float32)", "float32"),
        ("h.to(dtype=torch.bfloat16)", "bfloat16"),
        ("h.double()", "float64"),
        ("h.type(torch.float32)", "float32"),
        ("h.type_as(w)", "float32"),
        ("h.to(w)", "float32"),
        ("h.to(w.dtype)", "float32"),
        ("w.half()", "float16"),
        ("h.softmax(-1, dtype=torch.float64)", "float64"),
        ("torch.sum(h, dtype=torch.float32)", "float32"),
        # float64 is never touched
        ("w.double() @ v.double()", "float64"),
        ("h + w.double()", "float64"),
        # no floating type
        ("h.argmax(-1)", "integer"),
        ("h > 0", "integer"),
        ("h.long()", "integer"),
        ("h.to(torch.int64)", "integer"),
        ("h.topk(1)[1]", "integer"),
        ("h.max(-1)[0]", "float16"),
        ("h.topk(1)[0]", "float16"),
        # nothing is claimed
        ("x", "unknown"),
        ("h.item()", "unknown"),
        ("h.tolist()", "unknown"),
        ("h.shape", "unknown"),
        ("h.to(x)", "unknown"),  # x may be a type
        ("h.to(x.dtype)", "unknown"),
        ("x + h", "unknown"),
        ("torch.tensor(x)", "unknown"),
        ("strange(h)", "unknown"),
    ],
)
def test_types_in_a_region_on_cuda(holds: Holds, expression: str, dtype: str) -> None:
    holds(program(f"result = {expression}\nresult.numpy()  # {dtype}"))


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        ("w @ v", "bfloat16"),
        ("h.softmax(-1)", "bfloat16"),
        ("h.exp()", "bfloat16"),
        ("F.layer_norm(h, (2,))", "bfloat16"),
        ("h.sum()", "bfloat16"),
        ("F.mse_loss(h, w)", "float32"),
    ],
)
def test_types_in_a_region_on_the_cpu(holds: Holds, expression: str, dtype: str) -> None:
    holds(program(f"result = {expression}\nresult.numpy()  # {dtype}", region='torch.autocast("cpu")'))


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        ("w @ v", "float32"),
        ("h @ h", "float16"),
        ("h.softmax(-1)", "float16"),
        ("h.sum()", "float16"),
        ("h + w", "float32"),
        ("F.cross_entropy(h, y)", "float16"),
    ],
)
@pytest.mark.parametrize("closed", [True, False], ids=["left", "disabled"])
def test_types_without_autocast(holds: Holds, closed: bool, expression: str, dtype: str) -> None:
    body = f"result = {expression}\nresult.numpy()  # {dtype}\n"
    around = "if True:" if closed else 'with torch.autocast("cuda", enabled=False):'
    text = program("pass") + indent(around + "\n" + indent(body, "    "), "    ")
    holds(text)


def test_the_region_says_which_half(holds: Holds) -> None:
    holds(program("h.numpy()  # bfloat16", region='torch.autocast("cuda", dtype=torch.bfloat16)'))


def test_an_unknown_type_is_half(holds: Holds) -> None:
    holds(program("h.numpy()  # half", region='torch.autocast("cuda", dtype=x)'))


def test_a_conditional_region(holds: Holds) -> None:
    holds(program("h.numpy()  # float16", region='torch.autocast("cuda", enabled=x)'))


def test_an_op_in_place_keeps_the_type(holds: Holds) -> None:
    holds(
        program("""
        h += w
        h.numpy()  # float16
        w.mul_(h)
        w.numpy()  # float32
    """)
    )


def test_branches_keep_both_types(holds: Holds) -> None:
    holds(
        program("""
        if x:
            h = h.float()
        h.numpy()  # float16, float32
    """)
    )


def test_the_branch_tells_the_type(holds: Holds) -> None:
    holds(
        program("""
        if x:
            h = h.float()
        if x:
            h.numpy()  # float32
        else:
            h.numpy()  # float16
    """)
    )


FLOWS = {
    "columns of rows": """
        def main(loader):
            a, rows = torch.randn(2, 2), []
            with torch.autocast("cuda"):
                for _ in loader:
                    rows.append((a @ a, a))
            low, high = zip(*rows)
            torch.cat(low).numpy()  # float16
            torch.cat(high).numpy()  # float32
    """,
    "columns of rows of two lengths": """
        def main(loader):
            a, rows = torch.randn(2, 2), []
            with torch.autocast("cuda"):
                for x in loader:
                    rows.append((a @ a, a) if x else (a,))
            torch.cat(list(zip(*rows))[0]).numpy()  # unknown
    """,
    "fields of fields": """
        from dataclasses import dataclass

        @dataclass
        class Inner:
            factor: float
            other: object

        @dataclass
        class Outer:
            inner: Inner

        def main(settings: Outer):
            a = torch.randn(2, 2)
            with torch.autocast("cuda"):
                low = a @ a
            (low * settings.inner.factor).numpy()  # float16
            (low * settings.inner.other).numpy()  # unknown
    """,
    "what a default makes": """
        def main(make=torch.ones):
            make(2, 2).numpy()  # float32
    """,
    "what the only caller gives instead of a default": """
        def main(x):
            half(lambda *sizes: torch.ones(*sizes).half())

        def half(make=torch.ones):
            make(2, 2).numpy()  # float16
    """,
    "what a function returns": """
        def scores(a, b):
            return a @ b

        def main():
            a = torch.randn(2, 2)
            with torch.autocast("cuda"):
                out = scores(a, a)
            out.numpy()  # float16
    """,
    "a tuple": """
        def pair(a):
            return a @ a, a

        def main():
            a = torch.randn(2, 2)
            with torch.autocast("cuda"):
                low, high = pair(a)
            low.numpy()  # float16
            high.numpy()  # float32
    """,
    "a dict": """
        def named(a):
            return {"low": a @ a, "high": a}

        def main():
            a = torch.randn(2, 2)
            with torch.autocast("cuda"):
                out = named(a)
            out["low"].numpy()  # float16
            out["high"].numpy()  # float32
    """,
    "an attribute": """
        class Holder:
            pass

        def main():
            a = torch.randn(2, 2)
            holder = Holder()
            with torch.autocast("cuda"):
                holder.value = a @ a
            holder.value.numpy()  # float16
    """,
    "what a forward returns": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(2, 2)
                self.norm = nn.LayerNorm(2)

            def forward(self, x):
                return self.norm(self.body(x)), self.body(x)

        def main(x):
            net = Net()
            with torch.autocast("cuda"):
                normed, plain = net(x)
            normed.numpy()  # float32
            plain.numpy()  # float16
    """,
    "Sequential goes by its last layer": """
        def main(x):
            net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
            loss = nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=-1))
            with torch.autocast("cuda"):
                low, high = net(x), loss(x)
            low.numpy()  # float16
            high.numpy()  # float32
    """,
    "a device is equal to one that is written like it": """
        DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

        def main(x, index):
            net = nn.Linear(2, 2)
            with torch.autocast("cuda"):
                h = net(x)
            same = h if DEVICE == torch.device("cuda") else x
            other = h.float() if DEVICE == torch.device("cuda:1") else h
            maybe = h if DEVICE == torch.device(f"cuda:{index}") else h.float()
            same.numpy()  # float16
            other.numpy()  # float16
            maybe.numpy()  # float16, float32
    """,
    "a ModuleDict by its keys": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.heads = nn.ModuleDict({"norm": nn.LayerNorm(2)})
                self.heads["fc"] = nn.Linear(2, 2)
                self.heads.update({"probabilities": nn.Softmax(-1)})

            def forward(self, x):
                found = {name: head(x) for name, head in self.heads.items()}
                if "missing" in self.heads:
                    found["norm"] = found["fc"]
                return found

        def main(x):
            net = Net()
            with torch.autocast("cuda"):
                found = net(x)
            found["norm"].numpy()  # float32
            found["fc"].numpy()  # float16
            found["probabilities"].numpy()  # float32
            for name in net.heads:
                found[name].numpy()  # float16, float32
    """,
    "dropout and activations keep the type": """
        def main(x):
            net = nn.Sequential(nn.Linear(2, 2), nn.GELU(), nn.Dropout(0.1), nn.Flatten())
            with torch.autocast("cuda"):
                out = net(x)
            out.numpy()  # float16
    """,
    "the parts of complex numbers": """
        def main(x):
            with torch.autocast("cuda"):
                h = nn.Linear(2, 2)(x)
            spectrum = torch.stft(h, 64, return_complex=True)
            (spectrum.real * spectrum.real + spectrum.imag * spectrum.imag).numpy()  # float16
            torch.fft.rfft(h).imag.numpy()  # unknown
    """,
    "a half model": """
        def main():
            net = nn.Linear(2, 2).half()
            out = net(torch.randn(2, 2).half())
            out.numpy()  # float16
    """,
    "an embedding has the type of its weights": """
        def main(x):
            net = nn.Embedding(2, 2)
            with torch.autocast("cuda"):
                out = net(x)
            out.numpy()  # float32
    """,
    "two results collected in a list": """
        def main(batches):
            net = nn.Linear(2, 2)
            outs = []
            for batch in batches:
                with torch.autocast("cuda"):
                    outs.append(net(batch))
            torch.cat(outs).numpy()  # float16
    """,
    "a comprehension": """
        def main(batches):
            net = nn.Linear(2, 2)
            with torch.autocast("cuda"):
                outs = [net(batch) for batch in batches]
            torch.cat(outs).numpy()  # float16
    """,
    "a conditional expression": """
        def main(flag):
            a = torch.randn(2, 2)
            with torch.autocast("cuda"):
                out = a @ a if flag else a
            out.numpy()  # float16, float32
    """,
    "an integer factor keeps integers out": """
        def main():
            a = torch.zeros(2, dtype=torch.long)
            with torch.autocast("cuda"):
                (a + 1).numpy()  # integer
    """,
    "no_grad changes no type": """
        @torch.no_grad()
        def main():
            a = torch.randn(2, 2)
            with torch.autocast("cuda"):
                (a @ a).numpy()  # float16
    """,
}


@pytest.mark.parametrize("text", FLOWS.values(), ids=FLOWS)
def test_types_flow(holds: Holds, text: str) -> None:
    holds(HEAD + dedent(text))


def test_what_was_given_as_a_type_is_no_device(holds: Holds) -> None:
    holds(program("torch.zeros(2, dtype=x)\nh.to(x).numpy()  # unknown"))


def test_a_tensor_knows_where_it_became_half(holds: Holds) -> None:
    tape = holds(program("h.view(-1).numpy()  # float16"))
    (left,) = tape.of(Converted)
    assert left.operand.born is not None
    assert left.operand.born.text == "w @ v"


def test_a_model_out_of_sight_gives_probably_half(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
        def main(model, x):
            model.eval()
            with torch.autocast("cuda"):
                out = model(x)
            out.numpy()  # float16
    """)
    )
    assert {left.operand.certainty for left in tape.of(Converted)} == {Certainty.LIKELY}


def test_a_cast_by_hand_is_remembered(holds: Holds) -> None:
    tape = holds(program("h.float().numpy()  # float32"))
    (left,) = tape.of(Converted)
    assert left.operand.raised is not None


def test_an_op_is_heard_with_its_operands(holds: Holds) -> None:
    tape = holds(program("out = h + w"))
    (op,) = [event for event in tape.of(Op) if event.name == "__add__"]
    assert [operand.dtype for operand in op.operands] == [DType.FLOAT16, DType.FLOAT32]
    assert op.result is DType.FLOAT32


@pytest.mark.parametrize(
    ("norm", "weights", "raises"),
    [
        ("nn.LayerNorm(2)(h)", DType.FLOAT32, True),
        ("nn.GroupNorm(1, 2)(h)", DType.FLOAT32, True),
        ("nn.LayerNorm(2, elementwise_affine=False)(h)", None, True),
        ("nn.GroupNorm(1, 2, 1e-5, False)(h)", None, True),
        ("F.layer_norm(h, (2,), nn.LayerNorm(2).weight)", DType.FLOAT32, True),
        ("F.layer_norm(h, (2,))", None, False),
    ],
)
def test_norms_outside_a_region_have_weights_that_raise_on_cuda(
    holds: Holds, norm: str, weights: DType | None, raises: bool
) -> None:
    for device in ("cuda", "cpu"):
        text = program("pass", region=f'torch.autocast("{device}", dtype=torch.float16)') + f"    {norm}\n"
        (op,) = [event for event in holds(text).of(Op) if event.name.endswith("_norm")]
        assert op.weights is weights
        assert op.weights_raise is (raises and device == "cuda")


@pytest.mark.parametrize("norm", ["nn.GroupNorm(1, 2, 1e-5, x)", "nn.LayerNorm(2, elementwise_affine=x)"])
def test_a_norm_that_may_have_weights_is_not_taken_to_run_in_half_on_cuda(holds: Holds, norm: str) -> None:
    for device, heard in (("cuda", 0), ("cpu", 1)):
        text = program("pass", region=f'torch.autocast("{device}", dtype=torch.float16)') + f"    {norm}(h)\n"
        assert len([event for event in holds(text).of(Op) if event.name.endswith("_norm")]) == heard


def test_writing_into_a_tensor_is_heard(holds: Holds) -> None:
    tape = holds(program("w[x > 0] = h"))
    assert [(put.target.dtype, put.value.dtype) for put in tape.of(IndexPut)] == [
        (DType.FLOAT32, DType.FLOAT16)
    ]


def test_a_cast_of_a_model_is_heard(holds: Holds) -> None:
    tape = holds(
        HEAD + "def main():\n    net = nn.Linear(2, 2)\n    net.half()\n    net.to(torch.bfloat16)\n"
    )
    assert [cast.to for cast in tape.of(ModuleCast)] == [DType.FLOAT16, DType.BFLOAT16]


def test_an_object_of_an_earlier_round_keeps_its_type_where_a_later_one_makes_none(holds: Holds) -> None:
    tape = holds(
        HEAD
        + dedent("""
        def main(loader, x):
            later = False
            for batch in loader:
                if batch.any():
                    net = nn.Linear(2, 2)
                    if later:
                        net.half()
                later = True
            with torch.autocast("cuda"):
                h = torch.ones(2, 2) @ torch.ones(2, 2)
            net(h)
    """)
    )
    assert {op.weights for op in tape.of(Op) if op.name == "linear"} == {None}
