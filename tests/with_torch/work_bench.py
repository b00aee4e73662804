"""A step is looked at, runs a block, and has its work looked at, as in a trial but without a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pytest_roofline.amounts import find_amounts
from pytest_roofline.backends.torch import TorchBackend
from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.checks.work import stale_output, work_missing
from pytest_roofline.loop import Loop
from pytest_roofline.workproof import Proof, Question, WorkProof, completed, witness_of

BACKEND = TorchBackend()


def prove(
    step: Callable[..., Any],
    *,
    reset: Callable[[], Any] | None = None,
    room: int | None = 1000,
    is_kernel: bool = False,
    model: Any = None,
    passes: int = 3,
    **asked: Any,
) -> Proof:
    """Look at a step, run a block of it, and then at its work, as a trial does."""
    inputs = asked.pop("inputs", None)
    watcher = witness_of(BACKEND) if asked.get("tamper") else None
    loop = Loop(
        step,
        backend=BACKEND,
        drains=[BACKEND],
        inputs=inputs,
        reset=reset,
        passes_per_reset=None if is_kernel else room,
        is_stateless=is_kernel,
        may_return_nothing=is_kernel,
    )
    amounts = find_amounts(
        loop,
        watcher.watched(step) if watcher else step,
        backends=[BACKEND],
        backend=BACKEND,
        model=model,
        declared=1e6,
        batch=1,
        context=0,
        may_return_nothing=is_kernel,
    )
    loop.run(passes)
    question = Question(
        step=step, model=model, has_inputs=inputs is not None, is_stateless=is_kernel, is_decode=not is_kernel, **asked
    )
    proof = WorkProof(question, loop, BACKEND, amounts, pass_s=1e-3).look(watcher)
    return Proof(work=proof.work, not_checked=completed(amounts, proof))


def accused(proof: Proof) -> list[str]:
    """Checks that call it bogus."""
    evidence = Evidence(kind="decode", work=proof.work)
    found = [finding for finding in (stale_output(evidence), work_missing(evidence)) if finding is not None]
    return [finding.check for finding in found if finding.severity == "bogus"]


def fate(proof: Proof) -> str | None:
    """What became of overwritten outputs."""
    return proof.work.overwritten.fate if proof.work and proof.work.overwritten else None


def layers(count: int = 4) -> list[Any]:
    """Square matrices of a small network."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(128, 128, generator=generator) / 11 for _ in range(count)]


def run(stack: list[Any], hidden: Any) -> Any:
    """A small residual network."""
    for layer in stack:
        hidden = hidden + torch.tanh(hidden @ layer)
    return hidden
