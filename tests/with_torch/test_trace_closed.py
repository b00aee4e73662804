"""When a trace accounts for everything that was returned, and when it must not claim to."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_roofline.generation_traffic import _has_unseen  # noqa: E402
from pytest_roofline.models.calls import Call  # noqa: E402
from pytest_roofline.models.imprints import Imprints  # noqa: E402
from pytest_roofline.models.ledger import Ledger  # noqa: E402
from pytest_roofline.models.module import trace_module  # noqa: E402
from pytest_roofline.protocol import Trace, TraceRequest  # noqa: E402


def run(step: Any, *args: Any, **known: Any) -> Trace:
    """Trace a step without gradients."""
    with torch.no_grad():
        return trace_module(TraceRequest(step=step, args=args, **known))


@pytest.fixture
def w() -> Any:
    """A square matrix."""
    return torch.randn(256, 256)


def is_open_because(trace: Trace, words: str) -> bool:
    """Whether the trace is open and says why."""
    return not trace.traffic.is_closed and any(words in note for note in trace.traffic.notes)


def test_computed_outputs_close_the_trace(w: Any) -> None:
    """Outputs in nested containers, made by traced operations, are accounted for."""
    trace = run(lambda x: {"logits": [x @ w], "ids": (x @ w).argmax(-1)}, torch.randn(1, 256))
    assert trace.traffic.is_closed
    assert set(trace.outputs) == {"logits", "ids"}


def test_the_same_object_rewritten_in_place_is_closed(w: Any) -> None:
    """A static output buffer that a traced operation writes is honest."""
    buffer = torch.zeros(1, 256)
    assert run(lambda x: torch.mm(x, w, out=buffer), torch.randn(1, 256)).traffic.is_closed
    assert run(lambda x: buffer.copy_(x @ w), torch.randn(1, 256)).traffic.is_closed


def test_a_memoised_output_is_open(w: Any) -> None:
    """An output that was there before and that nothing wrote shows no work."""
    memo = torch.randn(1, 256) @ w
    assert is_open_because(run(lambda: memo), "nothing traced wrote it")
    assert is_open_because(run(lambda: (memo, torch.ones(1) @ w[0, :1])), "nothing traced wrote it")


def test_an_output_filled_outside_the_dispatcher_is_open(w: Any) -> None:
    """Memory allocated here and filled by some other kernel is written by nobody that was seen."""
    assert is_open_because(run(lambda: torch.empty(1, 256)), "written by nothing that was traced")
    assert is_open_because(run(lambda x: torch.empty(1, 256) @ w, 1), "no traced operation wrote")


def fill(target: Any, source: Any) -> None:
    """Write the bytes of one tensor over another by their addresses, as an extension does."""
    size = target.numel() * target.element_size()
    ctypes.memmove(target.data_ptr(), source.data_ptr(), size)


@pytest.mark.parametrize("is_used", [False, True])
@pytest.mark.parametrize("is_viewed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_a_copy_that_an_extension_fills_is_open(w: Any, is_used: bool, is_viewed: bool, dtype: Any) -> None:
    """A traced operation made it, and somebody else what is in it; a view or an addition behind that hides nothing."""
    hidden = (w * 9).to(dtype)
    source = w.to(dtype)

    def step() -> Any:
        made = source.clone()
        fill(made, hidden)
        seen = made.view(-1) if is_viewed else made
        return seen + 1 if is_used else seen

    assert is_open_because(run(step), "written behind the last traced operation")


def test_what_comes_from_another_device_may_still_be_on_its_way(w: Any) -> None:
    """A copy that nobody waited for changes behind the operation that began it: no imprint is taken of its target."""
    ledger = Ledger(has_model=False)
    imprints = Imprints(ledger)
    target = torch.zeros(256, 256)
    ledger.storages.of(target)
    for source, is_open in ((torch.empty(256, 256, device="meta"), False), (w, True)):
        call = Call(
            name="aten.copy_", func=torch.ops.aten.copy_.default, args=(target, source), kwargs={}, result=target
        )
        imprints.take(call)
        target += 1  # it arrives
        imprints.compare(target)
        imprints.close()
        assert bool(ledger.open_reasons) is is_open


def test_a_generation_takes_no_unseen_work_for_idleness(w: Any) -> None:
    """What opens a trace because something ran unseen is known as that where idle passes are counted."""

    def filled() -> Any:
        made = w.clone()
        fill(made, w * 9)
        return made

    def unknown() -> Any:
        return torch.ops.roofline_closed.double(w)

    torch.library.custom_op("roofline_closed::double", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    for step in (filled, unknown):
        assert _has_unseen(run(step).traffic), step.__name__
    assert not _has_unseen(run(lambda: torch.zeros(4)).traffic)


def test_operations_that_write_again_close_the_trace(w: Any) -> None:
    """In place, through views, by lists of tensors and into a buffer that was there: all of it was seen."""

    def step(x: Any) -> Any:
        made = x @ w
        made.view(-1)[3:40].mul_(2)
        made[0].copy_(w[0])
        torch._foreach_add_([made, made.T[2]], 1.0)
        return made.relu_().sum(0, keepdim=True) @ w

    with torch.inference_mode():
        assert run(step, torch.randn(4, 256)).traffic.is_closed
    assert run(step, torch.randn(4, 256)).traffic.is_closed


def test_an_output_of_constants_is_open() -> None:
    """Zeros may have been filled by a kernel that no dispatcher saw."""
    assert is_open_because(run(lambda: torch.zeros(4)), "constants alone")
    buffer = torch.ones(4)
    assert is_open_because(run(lambda: buffer.zero_()), "constants alone")


def test_an_unknown_operation_is_open_and_adds_nothing(w: Any) -> None:
    """Nobody knows what a custom operation reads of its operands."""

    @torch.library.custom_op("roofline_test::product", mutates_args=())
    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    trace = run(lambda x: product(x, w), torch.randn(1, 256))
    assert is_open_because(trace, "roofline_test::product")
    assert trace.traffic.weight_bytes_per_pass == 0


def test_what_an_unknown_operation_made_was_not_there_before(w: Any) -> None:
    """Layouts without a storage and higher-order operations cost the trace, and their results are no weights."""
    sparse = torch.eye(256).to_sparse()
    traffic = run(lambda x: (sparse @ x) @ w, torch.randn(256, 256)).traffic
    assert not traffic.is_closed
    assert traffic.weight_bytes_per_pass == w.nbytes


def test_a_graph_replay_is_open(w: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels of a replayed graph pass no dispatcher, even when other outputs were computed."""

    class Graph:
        def replay(self) -> None:
            """Pretend to run the graph."""

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    original = Graph.replay

    def step(x: Any) -> Any:
        Graph().replay()
        return x @ w

    assert is_open_because(run(step, torch.randn(1, 256)), "graph was replayed")
    assert Graph.replay is original


def test_returning_nothing_is_closed_only_if_state_changed(w: Any) -> None:
    """A step that returns no tensor is accounted for by the state that it leaves."""
    state = torch.zeros(1, 256)

    def step(x: Any) -> int:
        state.copy_(x @ w)
        return 3

    assert run(step, torch.randn(1, 256)).traffic.is_closed
    assert is_open_because(run(lambda x: int((x @ w).argmax()), torch.randn(1, 256)), "returned no tensor")
    nothing = run(lambda: None).traffic
    assert not nothing.is_closed
    assert nothing.least_bytes_per_pass == 0


def test_arguments_and_weights_may_be_returned_along(w: Any) -> None:
    """Echoing an argument or a parameter neither closes nor opens a trace."""
    model = torch.nn.Linear(256, 256)
    x = torch.randn(1, 256)
    assert run(lambda x: (model(x), x, model.weight), x, model=model).traffic.is_closed
    assert not run(lambda x: x, x).traffic.is_closed


class Runner:
    """Holds a matrix, like a user's wrapper."""

    def __init__(self, w: Any) -> None:
        self.w = w

    def step(self, x: Any, scale: float = 1.0) -> Any:
        """One product."""
        return x @ self.w * scale


def test_any_callable_is_a_step(w: Any) -> None:
    """Bound methods, partials and modules are steps."""
    x = torch.randn(1, 256)
    model = torch.nn.Linear(256, 256, bias=False)
    for step in (Runner(w).step, functools.partial(Runner(w).step, scale=2.0), model, model.forward):
        assert run(step, x).traffic.weight_bytes_per_pass == w.nbytes


class OwnError(Exception):
    """The user's own."""


def test_exceptions_of_the_step_pass_unchanged() -> None:
    """A step that raises raises, and nothing stays patched or watched."""
    error = OwnError("mine")
    replay = torch.cuda.CUDAGraph.replay

    def step() -> None:
        raise error

    with pytest.raises(OwnError) as caught:
        run(step)
    assert caught.value is error
    assert torch.cuda.CUDAGraph.replay is replay
    assert torch.utils._python_dispatch._len_torch_dispatch_stack() == 0


def test_freed_storages_are_not_mistaken_for_new_ones(w: Any) -> None:
    """Buffers that come and go at the same address are different buffers."""

    def step(x: Any) -> Any:
        for _ in range(50):
            x = (x @ w) / 16
        return x

    trace = run(step, torch.randn(1, 256))
    assert trace.traffic.weight_bytes_per_pass == w.nbytes
    assert trace.traffic.is_closed


class Layer:
    """A layer of a static cache, as a step may hold it."""

    is_sliding = False

    def __init__(self, room: int, length: int) -> None:
        self.keys, self.values = torch.randn(2, 1, 2, room, 64)
        self.max_cache_len = room
        self.length = length

    def get_seq_length(self) -> int:
        """Tokens in the cache."""
        return self.length


class Cache:
    """A cache of layers."""

    def __init__(self, *layers: Layer) -> None:
        self.layers = list(layers)


CACHE = Cache(Layer(32, 5), Layer(32, 5))


@pytest.mark.parametrize("way", ["argument", "closure", "global", "partial", "attribute", "nested"])
def test_a_static_cache_is_found_where_a_step_may_hold_it(way: str, w: Any) -> None:
    """The room left is read from a cache in the arguments, closure, globals, partial or bound object."""
    cache = Cache(Layer(32, 5), Layer(32, 5))
    holder = Runner(w)
    holder.cache = cache  # type: ignore[attr-defined]

    def attend(cache: Any) -> Any:
        layer = cache.layers[0]
        query = torch.ones(1, 2, 1, 64)
        return torch.softmax(query @ layer.keys.transpose(2, 3), -1) @ layer.values

    steps: dict[str, Any] = {
        "argument": (attend, cache),
        "closure": (lambda: attend(cache),),
        "global": (lambda: attend(CACHE),),
        "partial": (functools.partial(attend, cache=cache),),
        "attribute": (lambda: attend(holder.cache),),  # type: ignore[attr-defined]
        "nested": (lambda: [attend(c) for c in [cache]],),
    }
    trace = run(*steps[way])
    assert trace.context_room == 27
    assert trace.traffic.context == 5
    assert trace.traffic.kv_bytes_per_pass == 2 * 2 * 5 * 64 * 4


def test_a_cache_that_the_step_does_not_use_is_ignored(w: Any) -> None:
    """Somebody else's cache within reach tells nothing about this step."""
    other = Cache(Layer(32, 5))
    trace = run(lambda x: (other, x @ w)[1], torch.randn(1, 256))
    assert trace.context_room is None
    assert trace.traffic.context is None


def test_a_compiled_step_is_traced_as_the_eager_program(w: Any) -> None:
    """What a compiled step must read stays; its extra bytes are marked as those of the eager program."""
    compiled = torch.compile(lambda x: x @ w.double().t(), backend="eager")
    traffic = run(compiled, torch.randn(1, 256, dtype=torch.float64)).traffic
    assert traffic.weight_bytes_per_pass == w.nbytes
    assert traffic.extra
    assert all("eager program" in name for name, _ in traffic.extra)
