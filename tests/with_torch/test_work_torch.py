"""Was the work done, in torch on the CPU: cheats that no clock need catch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from work_bench import accused, fate, layers, prove, run  # noqa: E402


@pytest.fixture(scope="module")
def weights() -> Any:
    """A quarter of a megabyte."""
    return torch.rand(256, 256, generator=torch.Generator().manual_seed(1)) - 0.5


def test_a_memo_is_stale(weights: Any) -> None:
    """functools.lru_cache returns what the first call made."""

    @functools.lru_cache
    def remember() -> Any:
        return weights @ weights

    assert accused(prove(remember)) == ["stale-output"]


def test_a_memo_of_a_kernel_is_stale_and_its_output_is_put_back(weights: Any) -> None:
    """Whatever was overwritten holds its old values afterwards."""
    made: list[Any] = []

    def remember() -> Any:
        if not made:
            made.append(weights @ weights)
        return made[0]

    assert accused(prove(remember, is_kernel=True)) == ["stale-output"]
    assert torch.equal(made[0], weights @ weights)


def test_a_memo_by_address_is_stale(weights: Any) -> None:
    """Fixed addresses are looked up: the repeated argument shows it, and so do fresh values at its address."""
    memo: dict[int, Any] = {}

    def by_address(hidden: Any) -> Any:
        if hidden.data_ptr() not in memo:
            memo[hidden.data_ptr()] = weights @ hidden
        return memo[hidden.data_ptr()]

    draws = [(torch.rand(256),) for _ in range(4)]
    proof = prove(by_address, is_kernel=True, inputs=draws)
    assert accused(proof) == ["stale-output"]
    assert proof.work is not None
    assert proof.work.fresh_input is not None
    assert proof.work.fresh_input.is_identical
    assert proof.work.fresh_input.is_same_address


def test_a_copy_of_a_memo_by_address_is_stale(weights: Any) -> None:
    """A copy survives the overwriting of what was returned, but not fresh values at the same address."""
    memo: dict[int, Any] = {}

    def by_address(hidden: Any) -> Any:
        if hidden.data_ptr() not in memo:
            memo[hidden.data_ptr()] = weights @ hidden
        return memo[hidden.data_ptr()].clone()

    draws = [(torch.rand(256),) for _ in range(4)]
    before = [draw[0].clone() for draw in draws]
    proof = prove(by_address, is_kernel=True, inputs=draws)
    assert fate(proof) == "renewed"
    assert accused(proof) == ["stale-output"]
    assert all(torch.equal(draw[0], copy) for draw, copy in zip(draws, before, strict=True))


def compare_and_copy(weights: Any, hidden: Any) -> Callable[[], Any]:
    """Compares its input with the last one, and copies the last output."""
    last: list[Any] = []

    def step() -> Any:
        if last and torch.equal(last[0], hidden):
            return last[1].clone()
        last[:] = [hidden.clone(), weights @ hidden]
        return last[1].clone()

    return step


def test_compare_and_copy_does_not_follow_its_weights(weights: Any) -> None:
    """The input is the same, a weight is not: the output must change; the weight is as it was afterwards."""
    own = weights.clone()
    step = compare_and_copy(own, torch.rand(256))
    proof = prove(step, tamper=True, is_kernel=True)
    assert accused(proof) == ["work-missing"]
    assert torch.equal(own, weights)


def test_empty_memory_is_written_by_nobody(weights: Any) -> None:
    """The allocator hands out an earlier result, and the step returns it as its own."""

    def lazy() -> Any:
        return torch.empty(256, 256)

    proof = prove(lazy, is_kernel=True)
    assert fate(proof) == "unwritten"
    assert accused(proof) == ["stale-output"]


def test_a_buffer_that_is_no_longer_written_is_stale(weights: Any) -> None:
    """The first call fills the static buffer; the replays after it write somewhere else."""
    out, elsewhere, calls = torch.zeros(256, 256), torch.zeros(256, 256), [0]

    def replay() -> Any:
        calls[0] += 1
        torch.mm(weights, weights, out=out if calls[0] == 1 else elsewhere)
        return out

    assert accused(prove(replay)) == ["stale-output"]


def test_a_step_that_works_only_when_it_sees_nan_is_stale(weights: Any) -> None:
    """NaN alone as a poison would wake it; numbers do not."""
    out = torch.full((256, 256), float("nan"))

    def sleepy() -> Any:
        if bool(torch.isnan(out).any()):
            torch.mm(weights, weights, out=out)
        return out

    proof = prove(sleepy, is_kernel=True)
    assert fate(proof) == "wakes-on-nan"
    assert accused(proof) == ["stale-output"]
    assert torch.equal(out, weights @ weights)


def test_layers_skipped_every_other_pass_are_missing() -> None:
    """Three passes in a row against the reference."""
    stack, hidden, calls = layers(), torch.rand(4, 128), [0]

    def step() -> Any:
        calls[0] += 1
        return run(stack if calls[0] % 2 else stack[:2], hidden)

    proof = prove(step, is_kernel=True, reference=lambda: run(stack, hidden))
    assert accused(proof) == ["work-missing"]


def test_a_lower_precision_is_missing_work() -> None:
    """float32 declared, bfloat16 computed."""
    stack, hidden = layers(), torch.rand(4, 128)
    low = [layer.bfloat16() for layer in stack]
    proof = prove(lambda: run(low, hidden.bfloat16()).float(), is_kernel=True, reference=lambda: run(stack, hidden))
    assert accused(proof) == ["work-missing"]


def test_an_output_that_ignores_its_input_is_stale() -> None:
    """A captured graph that still reads its first input."""
    stack, static = layers(), torch.rand(4, 128)
    proof = prove(lambda hidden: run(stack, static), is_kernel=True, inputs=lambda: (torch.rand(4, 128),))
    assert accused(proof) == ["stale-output"]
