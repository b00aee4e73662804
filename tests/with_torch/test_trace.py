"""What one traced step must read and write: the rules, each on a plain function."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_roofline.models.module import module_traffic, trace_module  # noqa: E402
from pytest_roofline.protocol import Trace, TraceRequest  # noqa: E402

N = 256
MATRIX = N * N * 4


def run(step: Any, *args: Any, **known: Any) -> Trace:
    """Trace a step without gradients."""
    with torch.no_grad():
        return trace_module(TraceRequest(step=step, args=args, **known))


def weights_of(step: Any, *args: Any, **known: Any) -> float | None:
    """Weight bytes of a step."""
    return run(step, *args, **known).traffic.weight_bytes_per_pass


@pytest.fixture
def w() -> Any:
    """A square float32 matrix."""
    return torch.randn(N, N)


@pytest.fixture
def x() -> Any:
    """One row of activations."""
    return torch.randn(1, N)


# weights


def test_a_weight_counts_once_however_often_it_is_read(w: Any, x: Any) -> None:
    """Two products with the same matrix, one transposed, need it once."""
    assert weights_of(lambda x: x @ w @ w.t(), x) == MATRIX


def test_views_count_their_slices(w: Any, x: Any) -> None:
    """A fused matrix sliced into parts counts the parts that are used."""
    fused = torch.randn(3 * N, N)
    q, _, v = fused.chunk(3)
    assert weights_of(lambda x: (x @ q.t(), x @ v.t()), x) == 2 * MATRIX
    assert weights_of(lambda x: x @ fused[:, : N // 2].t()[: N // 2, :64], x[:, : N // 2]) == 64 * N // 2 * 4


def test_reshapes_and_aliases_are_free(w: Any, x: Any) -> None:
    """Another shape of the same bytes is the same bytes."""
    assert weights_of(lambda x: (x @ w.view(N, N), x @ w.reshape(-1).view(N, N), x @ w.detach()), x) == MATRIX


def test_broadcast_tensors_count_their_distinct_bytes(x: Any) -> None:
    """An expanded row is one row."""
    row = torch.randn(1, 1 << 15)
    assert weights_of(lambda: row.expand(64, -1) * 2) == row.nbytes


def test_a_tied_head_counts_once() -> None:
    """Rows looked up in a table that is also the output projection are not counted again."""
    table = torch.nn.Embedding(1000, 64)
    head = torch.nn.Linear(64, 1000, bias=False)
    head.weight = table.weight
    model = torch.nn.Sequential(table, head)
    assert weights_of(model, torch.tensor([[3]]), model=model) == table.weight.nbytes


def test_the_same_memory_under_two_storages_counts_once(w: Any, x: Any) -> None:
    """DLPack makes a second storage object over the same bytes."""
    other = torch.from_dlpack(w)
    assert weights_of(lambda x: (x @ w, x @ other), x) == MATRIX


def test_buffers_are_weights_too(x: Any) -> None:
    """What a model registers as a buffer counts as its weight."""
    model = torch.nn.BatchNorm1d(N).eval()
    assert weights_of(model, x) == 4 * N * 4


def test_intermediates_are_not_traffic(w: Any) -> None:
    """Activations made and used inside the step are in neither figure."""
    x = torch.randn(64, N)
    traffic = run(lambda x: ((x @ w).relu() * 2).sum(), x).traffic
    assert traffic.bytes_per_pass == MATRIX + x.nbytes + 4


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_every_grad_mode_gives_the_same_bytes(guard: Any, x: Any) -> None:
    """Inference mode hands over composite operations, which count as what they are made of."""
    model = torch.nn.Sequential(torch.nn.Linear(N, N), torch.nn.LayerNorm(N))
    with guard():
        traffic = trace_module(TraceRequest(step=model, args=(x,))).traffic
    assert traffic.weight_bytes_per_pass == MATRIX + 3 * N * 4
    assert traffic.flops_per_pass == 2 * N * N


# rows picked by an index


@pytest.mark.parametrize(
    "pick",
    [
        lambda table, ids: torch.nn.functional.embedding(ids, table) * 2,
        lambda table, ids: table[ids] * 2,
        lambda table, ids: table.index_select(0, ids) * 2,
        lambda table, ids: table.gather(0, ids[:, None].expand(-1, 64)) * 2,
        lambda table, ids: torch.stack([table[i] for i in ids]) * 2,
    ],
)
def test_lookups_count_rows_not_tables(pick: Any) -> None:
    """However rows are picked, only the distinct ones are read."""
    table = torch.randn(5000, 64)
    assert weights_of(pick, table, torch.tensor([7, 4999, 7])) == 0  # both are arguments: inputs, not weights
    ids = torch.tensor([7, 4999, 7])
    assert weights_of(lambda: pick(table, ids)) == 2 * 64 * 4 + ids.nbytes


def test_single_elements_count_as_elements() -> None:
    """A gather along the last dimension, and take, read single elements."""
    table = torch.randn(100, 5000)
    ids = torch.tensor([[3], [9]])
    traffic = run(lambda: table.gather(1, ids) + table.take(ids)).traffic
    assert traffic.weight_bytes_per_pass == (4 + ids.numel() - 2) * 4 + ids.nbytes


def test_rows_that_nothing_consumes_are_not_needed(w: Any, x: Any) -> None:
    """A copy of a whole matrix of which one half is multiplied needs that half."""
    assert weights_of(lambda x: x @ w.clone()[:, : N // 2].t().t(), x) == MATRIX // 2


# experts


def test_grouped_products_count_the_experts_hit() -> None:
    """Experts without tokens are not read, the whole tensor notwithstanding."""
    experts = torch.randn(8, 64, 64, dtype=torch.bfloat16)
    ends = torch.tensor([0, 2, 2, 3, 3, 3, 3, 3], dtype=torch.int32)
    x = torch.randn(3, 64, dtype=torch.bfloat16)
    traffic = run(lambda x: torch._grouped_mm(x, experts.transpose(1, 2), offs=ends), x).traffic
    assert traffic.weight_bytes_per_pass == 2 * 64 * 64 * 2 + ends.nbytes
    assert traffic.flops_per_pass == 2 * 3 * 64 * 64


def test_gathered_experts_count_once_and_their_copies_as_extra() -> None:
    """Weights gathered per token read each expert hit once; the copies are extra."""
    experts = torch.randn(8, 128, 128)
    ids = torch.tensor([1, 1, 5])
    traffic = run(lambda x: torch.bmm(experts[ids], x), torch.randn(3, 128, 1)).traffic
    assert traffic.weight_bytes_per_pass == 2 * 128 * 128 * 4 + ids.nbytes
    assert dict(traffic.extra) == {"weights gathered into a copy each step": 2 * 3 * 128 * 128 * 4}


def test_experts_in_modules_of_their_own_count_those_hit() -> None:
    """One module per expert: those hit are read, and the least bytes hold those of a single token."""

    class Mixture(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = torch.nn.Linear(64, 4, bias=False)
            self.experts = torch.nn.ModuleList(torch.nn.Linear(64, 64, bias=False) for _ in range(4))
            with torch.no_grad():
                self.gate.weight.copy_(torch.eye(4, 64))

        def forward(self, x: Any) -> Any:
            """Each token to its one expert."""
            chosen = self.gate(x).topk(1).indices[:, 0].tolist()
            return torch.stack([self.experts[at](row) for at, row in zip(chosen, x, strict=True)])

    model = Mixture()
    x = torch.eye(4, 64)[[0, 2, 0]]  # the gate sends these to experts 0, 2 and 0
    traffic = run(model, x, model=model).traffic
    expert = 64 * 64 * 4
    assert traffic.weight_bytes_per_pass == model.gate.weight.nbytes + 2 * expert
    assert traffic.bytes_per_pass - traffic.least_bytes_per_pass == expert


# quantized weights


def test_quantized_weights_count_at_stored_size(x: Any) -> None:
    """An int8 weight and its scales are read as stored; making it float each step is extra."""
    stored = torch.randint(-128, 127, (N, N), dtype=torch.int8)
    scales = torch.rand(N, 1)
    traffic = run(lambda x: x @ (stored.float() * scales).t(), x, model=_holder(stored, scales)).traffic
    assert traffic.weight_bytes_per_pass == stored.nbytes + scales.nbytes
    names = dict(traffic.extra)
    assert names["weights dequantized each step"] == 2 * MATRIX
    assert names["weights cast each step"] == 2 * MATRIX


def test_packed_nibbles_count_half_a_byte() -> None:
    """Weights unpacked from nibbles are read at half a byte each."""
    packed = torch.randint(0, 255, (N, N // 2), dtype=torch.uint8)

    def step(x: Any) -> Any:
        low, high = packed & 15, packed >> 4
        return x @ torch.stack([low, high], -1).view(N, N).float().t()

    assert weights_of(step, torch.randn(1, N), model=_holder(packed)) == packed.nbytes


def test_integer_and_float8_products_count_their_operands() -> None:
    """Kernels that take stored integers read them as stored."""
    a = torch.randint(-8, 8, (32, N), dtype=torch.int8)
    b = torch.randint(-8, 8, (N, N), dtype=torch.int8)
    traffic = run(lambda a: torch._int_mm(a, b), a).traffic
    assert traffic.weight_bytes_per_pass == b.nbytes
    assert traffic.flops_per_pass == 2 * 32 * N * N
    small = torch.randn(N, N).to(torch.float8_e4m3fn)
    assert weights_of(lambda x: x @ small.float(), torch.randn(1, N)) == N * N


class Wrapped(torch.Tensor):
    """A weight that stores int8 and shows float32."""

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        """Wrap a stored tensor."""
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=torch.float32)

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __tensor_flatten__(self) -> Any:
        """Names of the inner tensors."""
        return ["inner"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do everything on the float version."""
        if func is torch.ops.aten.detach.default:
            return Wrapped(args[0].inner)
        args = torch.utils._pytree.tree_map_only(Wrapped, lambda t: t.inner.float(), args)
        return func(*args, **(kwargs or {}))


def test_wrapper_subclasses_are_seen_through(x: Any) -> None:
    """The bytes of a wrapped weight are those of the tensor inside."""
    model = torch.nn.Linear(N, N, bias=False)
    stored = torch.randint(-8, 8, (N, N), dtype=torch.int8)
    model.weight = torch.nn.Parameter(Wrapped(stored), requires_grad=False)
    traffic = run(model, x).traffic
    assert traffic.weight_bytes_per_pass == stored.nbytes
    assert traffic.is_closed


# FLOPs

HEADS, WIDTH = 2, 64


def test_causal_attention_counts_half_its_flops() -> None:
    """The least FLOPs leave out what a causal mask hides."""
    q = torch.randn(1, HEADS, 16, WIDTH)
    step = torch.nn.functional.scaled_dot_product_attention
    traffic = run(lambda q: step(q, q, q, is_causal=True), q).traffic
    assert traffic.flops_per_pass == 4 * HEADS * 16 * 16 * WIDTH
    assert traffic.least_flops_per_pass == traffic.flops_per_pass / 2


def test_the_head_counts_once_per_sequence() -> None:
    """Logits of all positions are more than anybody needs of a prompt."""
    model = torch.nn.Sequential(torch.nn.Embedding(100, 64), torch.nn.Linear(64, 100))
    traffic = run(model, torch.zeros(2, 8, dtype=torch.int64)).traffic
    assert traffic.flops_per_pass == 2 * 16 * 64 * 100
    assert traffic.least_flops_per_pass == 2 * 2 * 64 * 100


# writes


def test_what_was_there_before_and_outputs_are_written(w: Any, x: Any) -> None:
    """Writes to earlier tensors and fresh outputs are compulsory; both are in the bytes of the pass."""
    kept = torch.zeros(1, N)
    traffic = run(lambda x: (kept.copy_(x @ w), x @ w), x).traffic
    assert traffic.written_bytes_per_pass == 2 * N * 4
    assert traffic.bytes_per_pass == MATRIX + x.nbytes + 2 * N * 4


def test_bytes_written_first_are_not_read_from_before(w: Any, x: Any) -> None:
    """A workspace that the step fills before it reads it is nobody's input."""
    workspace = torch.zeros(1, N)

    def step(x: Any) -> Any:
        torch.mm(x, w, out=workspace)
        return workspace @ w

    traffic = run(step, x).traffic
    assert traffic.bytes_per_pass == MATRIX + x.nbytes + 2 * N * 4


# extra bytes of weights


def test_copies_of_weights_are_extra(w: Any, x: Any) -> None:
    """A weight cast or copied each step is read once; the copy's write and read are extra, largest first."""
    traffic = run(lambda x: (x.double() @ w.double(), x @ w.t().contiguous()), x).traffic
    assert traffic.weight_bytes_per_pass == MATRIX
    assert traffic.extra == (("weights cast each step", 4 * MATRIX), ("weights copied each step", 2 * MATRIX))
    assert traffic.extra_bytes_per_pass == 6 * MATRIX


def test_autocast_casts_are_extra(w: Any, x: Any) -> None:
    """Autocast makes another copy of each weight, which is read at its stored size all the same."""
    model = torch.nn.Linear(N, N, bias=False)
    with torch.autocast("cpu", torch.bfloat16):
        traffic = run(model, x).traffic
    assert traffic.weight_bytes_per_pass == MATRIX
    assert traffic.extra == (("weights cast each step", MATRIX),)


def test_small_copies_stay_out_of_the_extra_bytes() -> None:
    """Copies under 64 KiB are noise."""
    small = torch.randn(64, 64)
    assert run(lambda x: x @ small.clone(), torch.randn(1, 64)).traffic.extra == ()


def _holder(*tensors: Any) -> Any:
    model = torch.nn.Module()
    for at, tensor in enumerate(tensors):
        model.register_buffer(f"stored{at}", tensor)
    return model


def test_module_traffic_is_the_traffic_of_one_call(x: Any) -> None:
    """The short form returns the same figures; something that cannot be called is wrong use."""
    model = torch.nn.Linear(N, N)
    assert module_traffic(model, model, x).weight_bytes_per_pass == MATRIX + N * 4
    with pytest.raises(ValueError, match="step to run once"):
        module_traffic(model, None)  # type: ignore[arg-type]


def test_nothing_of_the_step_is_kept(x: Any) -> None:
    """After the trace is dropped, the model and its tensors are free."""
    model = torch.nn.Linear(N, N)
    seen = [weakref.ref(model), weakref.ref(model.weight)]
    trace = run(model, x)
    del model
    gc.collect()
    assert [ref() for ref in seen] == [None, None]
    assert trace.traffic.is_closed
