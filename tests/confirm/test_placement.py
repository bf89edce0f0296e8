"""Under simulated CUDA a tensor is where the program has put it, and says so."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from amplint.confirm import placement  # noqa: E402
from amplint.confirm.probe import Probe  # noqa: E402
from amplint.confirm.simulation import SimulatedCuda  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    torch.manual_seed(0)
    with SimulatedCuda():
        yield


def cuda(*shape: int) -> Any:
    return torch.ones(*shape or (2, 2), device="cuda")


def cpu(*shape: int) -> Any:
    return torch.ones(*shape or (2, 2))


def test_a_tensor_says_where_it_is() -> None:
    x, y = cuda(), cpu()
    assert (x.device, x.is_cuda, x.is_cpu, x.get_device()) == (CUDA, True, False, 0)
    assert (y.device, y.is_cuda, y.is_cpu, y.get_device()) == (CPU, False, True, -1)
    assert (x.type(), y.type()) == ("torch.cuda.FloatTensor", "torch.FloatTensor")
    assert "device='cuda:0'" in repr(x) and "device" not in repr(y)
    assert torch.empty(2, device="meta").device.type == "meta"


MADE: dict[str, Callable[[], Any]] = {
    "a name": lambda: torch.zeros(2, device="cuda"),
    "a number": lambda: torch.zeros(2, device=0),
    "a device": lambda: torch.tensor([1.0], device=torch.device("cuda")),
    "like another": lambda: torch.zeros_like(cuda()),
    "like one of the CPU": lambda: torch.ones_like(cpu(), device="cuda"),
    "new": lambda: cpu().new_zeros(2, device="cuda"),
    "new, from one": lambda: cuda().new_tensor([1.0]),
    "as_tensor of one of the CPU": lambda: torch.as_tensor(cpu(), device="cuda"),
    "moved": lambda: cpu().to("cuda"),
    "moved by a number": lambda: cpu().to(0),
    "moved with a type": lambda: cpu().to(torch.device("cuda"), torch.float16),
    "moved to another": lambda: cpu().to(cuda()),
    "cuda()": lambda: cpu().cuda(),
    "moved by the name of a type": lambda: cpu().type("torch.cuda.HalfTensor"),
    "an op": lambda: cuda() @ cuda() + 1,
    "with a number of the CPU": lambda: torch.tensor(2.0) * cuda(),
    "a view": lambda: cuda().view(4)[1:].detach(),
    "a parameter": lambda: nn.Parameter(cuda()).data,
    "padded": lambda: nn.utils.rnn.pad_sequence([cuda(2), cuda(3)]),
    "one hot": lambda: nn.functional.one_hot(cuda(2).long()),
    "indexed from the CPU": lambda: cuda()[torch.tensor([0])],
    "sparse": lambda: cuda().to_sparse() * 2,
    "of a class of its own": lambda: torch.nested.nested_tensor([cuda(2), cuda(3)], layout=torch.jagged) * 2,
    "packed": lambda: nn.utils.rnn.pack_padded_sequence(cuda(3, 2, 2), [3, 2]).data,
    "a copy": lambda: copy.deepcopy([cuda()])[0],
    "pickled": lambda: pickle.loads(pickle.dumps(cuda())),
    "sent to a process": lambda: pickle.loads(ForkingPickler.dumps(cuda())),
    "under vmap": lambda: torch.vmap(lambda x: x.to(x.device) * 2)(cuda()),
    "a result of inference": lambda: torch.inference_mode()(lambda: nn.functional.cross_entropy(cuda(), cuda()))(),
    "several, and a number of the CPU": lambda: torch._foreach_add([cuda()], torch.tensor(1.0))[0],
    "of a layer": lambda: nn.LSTM(2, 2).cuda()(cuda(3, 1, 2))[0],
    "of a lazy layer": lambda: nn.LazyLinear(2).to("cuda")(cuda()),
}  # fmt: skip


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_what_is_made_of_cuda_tensors_or_for_cuda_is_on_cuda(make: Callable[[], Any]) -> None:
    assert make().device == CUDA


NOT_MADE: dict[str, Callable[[], Any]] = {
    "nothing said": lambda: torch.zeros(2),
    "like one of CUDA": lambda: torch.zeros_like(cuda(), device="cpu"),
    "moved": lambda: cuda().cpu(),
    "moved to another": lambda: cuda().to(cpu()),
    "moved by the name of a type": lambda: cuda().type("torch.FloatTensor"),
    "an op": lambda: cpu() @ cpu(),
    "indexed from CUDA": lambda: cpu()[cuda(1).long()],
    "written into": lambda: cpu().copy_(cuda()),
    "lengths of sequences": lambda: nn.utils.rnn.pack_padded_sequence(cuda(3, 2, 2), [3, 2]).batch_sizes,
    "of another library": lambda: torch.from_numpy(pytest.importorskip("numpy").ones(2)),
}


@pytest.mark.parametrize("make", NOT_MADE.values(), ids=NOT_MADE)
def test_what_is_made_for_the_cpu_is_on_the_cpu(make: Callable[[], Any]) -> None:
    assert make().device == CPU


def test_default_devices_are_asked_for() -> None:
    with torch.device("cuda"):
        assert torch.zeros(2).device == nn.Linear(2, 2).weight.device == CUDA
        assert torch.zeros(2, device="cpu").device == CPU
    torch.set_default_device("cuda")
    try:
        assert torch.tensor([1.0]).device == torch.get_default_device() == CUDA
    finally:
        torch.set_default_device(None)
    assert torch.zeros(2).device == CPU
    with torch.cuda.device(1):
        assert cuda().device == torch.device("cuda", torch.cuda.current_device()) == torch.device("cuda", 1)
    assert torch.Generator("cuda").device.type == "cuda" and torch.Generator().device == CPU


def test_a_move_is_a_copy_and_its_gradient_comes_back() -> None:
    x = torch.ones(2, requires_grad=True)
    moved = x.cuda()
    with torch.no_grad():
        moved.add_(1)
    assert x.tolist() == [1, 1] and moved.cuda() is moved and x.cpu() is x
    (moved * cuda(2)).sum().backward()
    assert x.grad.device == CPU and x.grad.tolist() == [1, 1]


MIXED: dict[str, Callable[[], Any]] = {
    "product": lambda: cuda() @ cpu(),
    "sum": lambda: cpu() + cuda(),
    "number of CUDA": lambda: cpu() + torch.tensor(1.0, device="cuda"),
    "weights": lambda: nn.Linear(2, 2)(cuda()),
    "indices": lambda: nn.Embedding(2, 2).cuda()(torch.tensor([0])),
    "targets": lambda: nn.functional.cross_entropy(cuda(), torch.tensor([0, 1])),
    "joined": lambda: torch.cat([cuda(), cpu()]),
}


@pytest.mark.skipif(not placement._Mismatch, reason="fake tensors of this torch do not tell mismatches apart")
@pytest.mark.parametrize("mix", MIXED.values(), ids=MIXED)
def test_tensors_on_both_devices_do_not_meet(mix: Callable[[], Any]) -> None:
    for region in (False, True):
        with torch.autocast("cuda", enabled=region), pytest.raises(RuntimeError, match="on the same device"):
            mix()


def test_tensors_of_cuda_are_no_arrays() -> None:
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        cuda().numpy()
    assert cuda().cpu().numpy().sum() == 4


def test_memory_of_which_nothing_is_known_is_in_nobodys_way() -> None:
    unknown = torch.Tensor(2, 2).fill_(1)
    assert placement.asked(unknown) is None
    assert (unknown @ cuda()).device == CUDA
    assert (unknown + cpu()).device == CPU and placement.asked(unknown + cpu()) is None
    unknown = torch.Tensor(2, 2)
    torch.add(cuda(), 1, out=unknown)
    assert unknown.device == CUDA


def trained(**settings: Any) -> tuple[nn.Module, Any]:
    model = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1)).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), **settings)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0)
    for _ in range(2):
        with torch.autocast("cuda"):
            loss = model(cuda()).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return model, optimizer


@pytest.mark.parametrize("settings", [{}, {"foreach": False}, {"fused": True}], ids=str)
def test_a_step_leaves_all_where_it_is_on_cuda(settings: dict[str, bool]) -> None:
    model, optimizer = trained(**settings)
    assert all(part.is_cuda and part.grad.is_cuda for part in model.parameters())
    for state in optimizer.state.values():
        assert state["exp_avg"].is_cuda and state["step"].is_cuda is bool(settings.get("fused"))


MAPPED = [
    (None, CUDA),
    ("cpu", CPU),
    (torch.device("cuda"), CUDA),
    ({"cuda:0": "cpu"}, CPU),
    (lambda storage, location: storage, CPU),
    (lambda storage, location: storage.cuda(), CUDA),
    (lambda storage, location: None, CUDA),
]


@pytest.mark.skipif(
    not placement._Mismatch, reason="torch 2.6 may lose what is kept with memory that is loaded"
)
@pytest.mark.parametrize(("where", "device"), MAPPED)
@pytest.mark.parametrize("zipped", [True, False])
def test_a_checkpoint_is_loaded_where_it_is_wanted(where: Any, device: Any, zipped: bool) -> None:
    model, optimizer = trained()
    file = io.BytesIO()
    states = [model.state_dict(), optimizer.state_dict(), cpu()]
    torch.save(states, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    weights, state, other = torch.load(file, map_location=where)
    assert all(part.device == device for part in weights.values())
    model.load_state_dict(weights)
    optimizer.load_state_dict(state)
    assert all(part["exp_avg"].is_cuda for part in optimizer.state.values())
    assert other.device == (CUDA if isinstance(where, torch.device) else other.device)


def test_a_region_for_the_cpu_leaves_tensors_on_cuda_alone() -> None:
    x, y = cuda(), cpu()
    with torch.autocast("cpu"):
        assert ((x @ x).dtype, (y @ y).dtype) == (torch.float32, torch.bfloat16)
        assert nn.functional.mse_loss(x.half(), x.half()).dtype is torch.float16
        with torch.autocast(x.device.type):
            assert ((x @ x).dtype, (y @ y).dtype) == (torch.float16, torch.bfloat16)
    with torch.autocast("cuda"):
        assert ((x @ x).dtype, (y @ y).dtype) == (torch.float16, torch.float32)
        assert nn.functional.binary_cross_entropy(y, y).dtype is torch.float32


def test_threads_know_devices_as_well() -> None:
    found: list[Any] = []
    x = cuda()

    def work() -> None:
        with torch.autocast("cuda"):
            found.append(
                ((x @ x).is_cuda, (x @ x).dtype, torch.stft(x.view(4).half(), 4, return_complex=True).is_cuda)
            )

    class Worker(threading.Thread):
        def run(self) -> None:
            work()

    for thread in (threading.Thread(target=work), Worker()):
        thread.start()
        thread.join()
    assert found == [(True, torch.float16, True)] * 2


def test_fourier_transforms_in_half_are_those_of_cufft() -> None:
    assert torch.stft(cuda(8).half(), 8, return_complex=True).dtype is torch.complex32
    with pytest.raises(RuntimeError, match="powers of two"):
        torch.stft(cuda(8).half(), 6, return_complex=True)


def test_groups_of_tensors_are_those_of_their_devices() -> None:
    from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype as grouped

    lists = [[cuda(), cpu(), cuda()], [cuda(1), cpu(1), cuda(1)]]
    found = grouped(lists, with_indices=True)
    assert {device: indices for (device, _), (_, indices) in found.items()} == {CUDA: [0, 2], CPU: [1]}
    assert [len(part) for part in found[CUDA, torch.float32][0]] == [2, 2]


def test_a_tensor_that_is_there_is_not_copied_under_a_probe() -> None:
    class Deaf:
        def hear(self, event: object) -> None:
            """Nothing."""

    with Probe(Deaf(), is_user_file=__file__.__eq__, root=Path(__file__).parent):
        x = cuda()
        assert x.cuda() is x and x.to("cuda").device == CUDA
        assert cpu().cuda().device == CUDA


@pytest.mark.parametrize("other", ["cpu", "cuda"])
def test_what_a_generator_makes_is_on_its_own_device(other: str) -> None:
    device = "cuda" if other == "cpu" else "cpu"
    right, wrong = torch.Generator(device), torch.Generator(other)
    makers: list[Callable[[torch.Generator], torch.Tensor]] = [
        lambda generator: torch.randn(4, device=device, generator=generator),
        lambda generator: torch.randint(3, (4,), device=device, generator=generator),
        lambda generator: torch.randperm(4, device=torch.device(device), generator=generator),
        lambda generator: torch.normal(0.0, 1.0, (4,), device=device, generator=generator),
    ]
    said = f"Expected a '{device}' device type for generator but found '{other}'"
    for make in makers:
        assert make(right).device.type == device
        with pytest.raises(RuntimeError, match=said):
            make(wrong)
    with torch.device(device):
        assert torch.randn(4, generator=right).device.type == device


def test_a_tensor_of_another_ones_type_is_where_that_is() -> None:
    noise = cpu().type_as(cuda().half())
    assert (noise.device, noise.dtype) == (CUDA, torch.float16)
    assert cuda().type_as(cpu()).device == CPU


def test_the_classes_of_tensors_on_cuda_make_and_know_them() -> None:
    kind = torch.cuda.FloatTensor
    made = kind(2, 3).fill_(1.0)
    assert (made.device, made.dtype, tuple(made.shape)) == (CUDA, torch.float32, (2, 3))
    assert torch.cuda.LongTensor([1, 2]).tolist() == [1, 2]
    assert cpu().type(torch.cuda.HalfTensor).device == CUDA
    assert [isinstance(x, kind) for x in (made, made.half(), cpu(), 1)] == [True, False, False, False]
    assert (str(kind), kind.dtype) == ("<class 'torch.cuda.FloatTensor'>", torch.float32)


@pytest.mark.parametrize("by_name", [True, False])
def test_a_class_may_be_the_default(by_name: bool) -> None:
    torch.set_default_tensor_type("torch.cuda.FloatTensor" if by_name else torch.cuda.FloatTensor)
    try:
        assert torch.ones(2).device == CUDA
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
    assert torch.ones(2).device == CPU


def test_the_lengths_of_sequences_may_be_on_the_cpu() -> None:
    scores = torch.randn(12, 2, 6, device="cuda", requires_grad=True)
    labels = torch.randint(1, 6, (2, 4), device="cuda")
    for where in ("cpu", "cuda"):
        lengths = torch.full((2,), 12, device=where), torch.full((2,), 4, device=where)
        loss = nn.CTCLoss()(scores.log_softmax(-1), labels, *lengths)
        loss.backward()
        assert loss.device == CUDA


def test_what_only_a_device_computes_is_said_to_be_the_simulations_doing() -> None:
    from amplint.confirm.simulated_ops import is_not_simulated

    with pytest.raises(RuntimeError) as raised:
        torch.fft.fft(torch.randn(8, device="cuda").half())
    assert is_not_simulated(raised.value)
    assert not is_not_simulated(RuntimeError("mat1 and mat2 must have the same dtype"))
