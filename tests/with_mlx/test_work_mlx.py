"""Was the work done, in MLX: a handle that is returned again must hold what the pass wrote."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

mx = pytest.importorskip("mlx.core")

from pytest_roofline.amounts import find_amounts  # noqa: E402
from pytest_roofline.backends.mlx import MlxBackend  # noqa: E402
from pytest_roofline.checks.evidence import Evidence  # noqa: E402
from pytest_roofline.checks.work import stale_output, work_missing  # noqa: E402
from pytest_roofline.loop import Loop  # noqa: E402
from pytest_roofline.workproof import Question, WorkProof  # noqa: E402

BACKEND = MlxBackend()
WEIGHTS = mx.random.uniform(-1, 1, (128, 128), key=mx.random.key(0))


def accused(step: Callable[..., Any], **asked: Any) -> list[str]:
    """Checks that call a step's work bogus."""
    loop = Loop(step, backend=BACKEND, drains=[BACKEND], is_stateless=True)
    amounts = find_amounts(
        loop, step, backends=[BACKEND], backend=BACKEND, model=None, declared=1e6, batch=1, context=0
    )
    loop.run(3)
    question = Question(step=step, is_stateless=True, **asked)
    evidence = Evidence(kind="decode", work=WorkProof(question, loop, BACKEND, amounts, pass_s=1e-3).look().work)
    found = [finding for finding in (stale_output(evidence), work_missing(evidence)) if finding is not None]
    return [finding.check for finding in found if finding.severity == "bogus"]


def test_a_memo_is_stale_and_put_back() -> None:
    """What functools.lru_cache hands out keeps what it was overwritten with, and holds its result afterwards."""

    @functools.lru_cache
    def remember() -> Any:
        return WEIGHTS @ WEIGHTS

    assert accused(remember) == ["stale-output"]
    assert mx.array_equal(remember(), WEIGHTS @ WEIGHTS)


def test_lazy_products_are_honest() -> None:
    """A new graph each pass, also against a reference; nothing can be tampered with."""
    assert accused(lambda: WEIGHTS @ WEIGHTS, reference=lambda: WEIGHTS @ WEIGHTS, tamper=True) == []


def test_a_handle_that_is_written_each_pass_is_honest() -> None:
    """In place, as far as MLX knows such a thing."""
    holder = functools.lru_cache(lambda: mx.zeros((128, 128)))

    def step() -> Any:
        holder()[...] = WEIGHTS @ WEIGHTS
        return holder()

    assert accused(step) == []


def test_skipped_work_is_missing() -> None:
    """Every other pass returns its operand."""
    calls = [0]

    def step() -> Any:
        calls[0] += 1
        return WEIGHTS @ WEIGHTS if calls[0] % 2 else WEIGHTS + 0

    assert accused(step, reference=lambda: WEIGHTS @ WEIGHTS) == ["work-missing"]
