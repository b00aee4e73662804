"""Was the work done, in torch on the CPU: honest programs that look like cheats."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from work_bench import accused, fate, layers, prove, run  # noqa: E402

from pytest_roofline.checks.evidence import Evidence  # noqa: E402
from pytest_roofline.checks.work import work_missing  # noqa: E402


@pytest.fixture(scope="module")
def weights() -> Any:
    """A quarter of a megabyte."""
    return torch.rand(256, 256, generator=torch.Generator().manual_seed(1)) - 0.5


def test_a_static_buffer_rewritten_in_place_is_honest(weights: Any) -> None:
    """As a CUDA graph does it: the same object each time."""
    out = torch.zeros(256, 256)
    for is_kernel in (False, True):
        proof = prove(lambda: torch.mm(weights, weights, out=out), is_kernel=is_kernel)
        assert fate(proof) == "renewed"
        assert accused(proof) == []


def test_a_static_buffer_written_outside_torch_is_honest(weights: Any) -> None:
    """No operation shows that it is written, as in a replay: only the overwritten memory does."""
    import ctypes

    out, result = torch.zeros(256, 256), weights @ weights

    def replay() -> Any:
        ctypes.memmove(out.data_ptr(), result.data_ptr(), result.nbytes)
        return out

    for reset in (None, lambda: None):
        proof = prove(replay, reset=reset)
        assert accused(proof) == []
    assert fate(prove(replay, is_kernel=True)) == "renewed"


def test_new_outputs_cost_one_pass(weights: Any) -> None:
    """The step of every eager program."""
    calls = [0]

    def step() -> Any:
        calls[0] += 1
        return weights @ weights

    proof = prove(step, passes=3)
    assert fate(proof) == "renewed"
    assert calls[0] == 1 + 3 + 1


def test_a_residual_stream_in_place_is_honest(weights: Any) -> None:
    """The output is the state, read and written: it is never overwritten without a reset, and put back with one."""
    stream = torch.rand(256)

    def step() -> Any:
        return stream.add_(weights @ stream, alpha=1e-3)

    assert accused(prove(step)) == []
    assert bool(torch.isfinite(stream).all())
    assert accused(prove(step, reset=lambda: stream.fill_(0.5))) == []
    assert torch.equal(stream, torch.full((256,), 0.5))


def test_a_recurrent_state_survives_bit_for_bit(weights: Any) -> None:
    """A state that is handed from pass to pass is exactly what so many honest passes make of it."""

    def run_on(passes: int, state: list[Any]) -> None:
        for _ in range(passes):
            state[0] = torch.tanh(weights @ state[0])

    state, calls = [torch.ones(256)], [0]

    def step() -> Any:
        calls[0] += 1
        run_on(1, state)
        return state[0]

    assert accused(prove(step)) == []
    other = [torch.ones(256)]
    run_on(calls[0], other)
    assert torch.equal(state[0], other[0])


def test_an_idempotent_kernel_in_place_is_honest() -> None:
    """After the first call nothing changes any more, and yet every call writes."""
    buffer = torch.rand(4096) - 0.5
    assert accused(prove(buffer.relu_, is_kernel=True)) == []


def test_parameters_and_arguments_passed_through_are_honest() -> None:
    """What the step was given is neither overwritten nor held against it."""
    layer = torch.nn.Linear(128, 128)
    before = layer.weight.detach().clone()

    def step() -> Any:
        layer(torch.ones(128))
        return layer.weight.detach()[:4]

    assert accused(prove(step, model=layer)) == []
    assert accused(prove(step, model=layer, reset=lambda: None)) == []
    assert torch.equal(layer.weight, before)
    hidden = torch.rand(1, 128)

    def through() -> Any:
        layer(hidden)
        return hidden

    for is_kernel in (False, True):
        kept = hidden.clone()
        assert accused(prove(through, is_kernel=is_kernel)) == []
        assert torch.equal(hidden, kept)


def test_memory_of_others_is_never_written(tmp_path: Any) -> None:
    """Mapped, shared and foreign memory is left alone, also where a step returns it unchanged."""
    numpy = pytest.importorskip("numpy")
    path = tmp_path / "weights.pt"
    torch.save(torch.rand(1024), path)
    mapped = torch.load(path, mmap=True)
    shared = torch.rand(1024).share_memory_()
    locked = numpy.ones(1024, dtype=numpy.float32)
    locked.flags.writeable = False
    foreign = torch.from_numpy(numpy.ones(1024, dtype=numpy.float32))
    for buffer in (mapped, shared, foreign):
        before = buffer.clone()
        proof = prove(lambda buffer=buffer: buffer, is_kernel=True)
        assert accused(proof) == []
        assert torch.equal(buffer, before)
        assert any("not torch's own" in line for line in proof.not_checked)


def test_a_returned_cache_is_honest(weights: Any) -> None:
    """One row of a returned static cache is written per pass; the rest of it is what earlier passes left."""
    keys, place = torch.zeros(64, 256), [0]

    def step() -> Any:
        keys[place[0] % 64] = weights @ torch.ones(256)
        place[0] += 1
        return {"past": (keys, keys)}

    def reset() -> None:
        place[0] = 0

    assert accused(prove(step)) == []
    assert accused(prove(step, reset=reset, room=40)) == []


def test_ids_alone_tell_nothing_when_overwritten(weights: Any) -> None:
    """They are not touched, and the result says so."""
    proof = prove(lambda: (weights @ weights).argmax(-1))
    assert accused(proof) == []
    assert any("integers tell nothing" in line for line in proof.not_checked)


def test_a_kernel_that_returns_nothing_is_honest(weights: Any) -> None:
    """Its output cannot be found; with a reference its arguments are compared."""
    draws = [(torch.rand(256, 256), torch.zeros(256, 256)) for _ in range(3)]

    def kernel(source: Any, out: Any) -> None:
        torch.mm(weights, source, out=out)

    proof = prove(kernel, is_kernel=True, inputs=draws, reference=lambda source, out: out.copy_(weights @ source))
    assert accused(proof) == []
    assert any("returns nothing" in line for line in proof.not_checked)


def test_strange_outputs_are_honest(weights: Any) -> None:
    """Expanded, empty, half, eighth, scalar, inference and wrapped outputs that are handed out again."""
    buffers = {
        "expanded": torch.zeros(1, 8).expand(16, 8),
        "empty": torch.zeros(0),
        "half": torch.zeros(8, dtype=torch.float16),
        "eighth": torch.zeros(8).to(torch.float8_e4m3fn),
        "scalar": torch.zeros(()),
        "leaf": torch.zeros(8, requires_grad=True),
    }
    with torch.inference_mode():
        buffers["inference"] = torch.zeros(8)
    for buffer in buffers.values():

        def step(buffer: Any = buffer) -> Any:
            result = weights @ weights
            return result, buffer

        assert accused(prove(step, is_kernel=True)) == []
        assert not bool(buffer.detach().float().any())


def test_the_same_passes_as_the_reference_are_honest() -> None:
    """Another order of summation, in the dtype declared."""
    stack, hidden = [layer.bfloat16() for layer in layers()], torch.rand(4, 128).bfloat16()

    def other_order() -> Any:
        state = hidden
        for layer in stack:
            halves = state[:, :64] @ layer[:64] + state[:, 64:] @ layer[64:]
            state = state + torch.tanh(halves)
        return state

    proof = prove(other_order, is_kernel=True, reference=lambda: run(stack, hidden))
    assert accused(proof) == []
    assert "the outputs were not compared with a reference" not in proof.not_checked


def test_a_reference_without_a_reset_accuses_nobody() -> None:
    """The step is passes ahead of it: that is a doubt, and says what would settle it."""
    stack, state = layers(), [torch.rand(4, 128)]

    def step() -> Any:
        state[0] = run(stack, state[0])
        return state[0]

    proof = prove(step, reference=lambda: run(stack[:1], state[0]))
    finding = work_missing(Evidence(kind="decode", work=proof.work))
    assert finding is not None
    assert finding.severity == "inconclusive"
    assert "no reset" in finding.message
