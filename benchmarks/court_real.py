"""Honest programs in torch, JAX and MLX on this machine's CPU: slow or undecided as they may be, never bogus."""

from __future__ import annotations

import importlib
import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from pytest_roofline.errors import BogusMeasurement
from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings

Program = Callable[[Instrument, int], Any]
MAX_TIME_S = 0.6
ROWS = (512, 2048, 6144)
COLUMNS = 2048
PASSES = 24


def _torch_programs() -> list[Program]:
    import torch

    def weights(seed: int) -> Any:
        return torch.rand(ROWS[seed % 3], COLUMNS)

    def decode(roofline: Instrument, seed: int) -> None:
        matrix, hidden = weights(seed), torch.rand(COLUMNS)
        roofline.decode(lambda: torch.mv(matrix, hidden), traffic=matrix.nbytes)

    def layers(roofline: Instrument, seed: int) -> None:
        model = torch.nn.Sequential(*(torch.nn.Linear(COLUMNS, COLUMNS) for _ in range(1 + seed % 3))).eval()
        hidden = torch.rand(1, COLUMNS)
        with torch.inference_mode():
            roofline.decode(lambda: model(hidden), model=model)

    def in_place(roofline: Instrument, seed: int) -> None:
        matrix, hidden = weights(seed), torch.rand(COLUMNS)
        out = torch.empty(matrix.shape[0])
        roofline.decode(lambda: torch.mv(matrix, hidden, out=out), traffic=matrix.nbytes)

    def cached(roofline: Instrument, seed: int) -> None:
        matrix, keys = weights(seed), torch.zeros(256, COLUMNS)
        state = {"at": 0}

        def step() -> Any:
            keys[state["at"] % 256] = matrix[0]
            state["at"] += 1
            return matrix @ keys[(state["at"] - 1) % 256]

        roofline.decode(step, traffic=matrix.nbytes, reset=lambda: state.update(at=0), passes_per_reset=256)

    def copied(roofline: Instrument, seed: int) -> None:
        source = weights(seed)
        target = torch.empty_like(source)
        roofline.kernel(lambda: target.copy_(source), bytes_read=source.nbytes, bytes_written=source.nbytes)

    def audited(roofline: Instrument, seed: int) -> None:
        matrix, hidden = weights(seed), torch.rand(COLUMNS)
        _audit(roofline, matrix.nbytes, lambda: torch.mv(matrix, hidden), lambda output: None)

    def sampled(roofline: Instrument, seed: int) -> None:
        matrix, hidden = weights(seed), torch.rand(COLUMNS)
        _samples(roofline, matrix.nbytes, lambda: torch.mv(matrix, hidden), lambda output: None)

    return [decode, layers, in_place, cached, copied, audited, sampled]


def _jax_programs() -> list[Program]:
    import jax

    numpy: Any = jax.numpy
    normal: Any = jax.random.normal

    def weights(seed: int) -> Any:
        return normal(jax.random.key(seed), (ROWS[seed % 3], COLUMNS))

    multiply: Any = jax.jit(lambda matrix, hidden: matrix @ hidden)

    def decode(roofline: Instrument, seed: int) -> None:
        matrix, hidden = weights(seed), numpy.ones(COLUMNS)
        roofline.decode(lambda: multiply(matrix, hidden), traffic=matrix.nbytes)

    def fed_back(roofline: Instrument, seed: int) -> None:
        matrix = normal(jax.random.key(seed), (COLUMNS, COLUMNS))
        state = {"hidden": numpy.ones(COLUMNS)}
        run: Any = jax.jit(lambda matrix, hidden: numpy.tanh(matrix @ hidden), donate_argnums=1)

        def step() -> Any:
            state["hidden"] = run(matrix, state["hidden"])
            return state["hidden"]

        roofline.decode(
            step, traffic=matrix.nbytes, reset=lambda: state.update(hidden=numpy.ones(COLUMNS)), passes_per_reset=10_000
        )

    def kernel(roofline: Instrument, seed: int) -> None:
        matrix = weights(seed)
        total: Any = jax.jit(lambda matrix: matrix.sum(axis=1))
        roofline.kernel(lambda: total(matrix), bytes_read=matrix.nbytes)

    def audited(roofline: Instrument, seed: int) -> None:
        matrix, hidden = weights(seed), numpy.ones(COLUMNS)

        def step() -> Any:
            return multiply(matrix, hidden)

        step().block_until_ready()
        _audit(roofline, matrix.nbytes, step, lambda output: output.block_until_ready())

    def sampled(roofline: Instrument, seed: int) -> None:
        matrix, hidden = weights(seed), numpy.ones(COLUMNS)

        def step() -> Any:
            return multiply(matrix, hidden)

        step().block_until_ready()
        _samples(roofline, matrix.nbytes, step, lambda output: output.block_until_ready())

    return [decode, fed_back, kernel, audited, sampled]


def _mlx_programs() -> list[Program]:
    mx = importlib.import_module("mlx.core")

    def weights(seed: int) -> Any:
        matrix = mx.random.normal((ROWS[seed % 3], COLUMNS))
        mx.eval(matrix)
        return matrix

    def decode(roofline: Instrument, seed: int) -> None:
        matrix, hidden = weights(seed), mx.ones((COLUMNS,))
        mx.eval(hidden)
        roofline.decode(lambda: matrix @ hidden, traffic=matrix.nbytes)

    def kernel(roofline: Instrument, seed: int) -> None:
        matrix = weights(seed)
        roofline.kernel(lambda: matrix.sum(axis=1), bytes_read=matrix.nbytes)

    def audited(roofline: Instrument, seed: int) -> None:
        matrix, hidden = weights(seed), mx.ones((COLUMNS,))
        mx.eval(hidden)
        outputs: list[Any] = []

        def step() -> Any:
            outputs.append(matrix @ hidden)
            return outputs[-1]

        _audit(roofline, matrix.nbytes, step, lambda output: mx.eval(outputs))

    def sampled(roofline: Instrument, seed: int) -> None:
        matrix, hidden = weights(seed), mx.ones((COLUMNS,))
        mx.eval(hidden)
        _samples(roofline, matrix.nbytes, lambda: matrix @ hidden, mx.eval)

    return [decode, kernel, audited, sampled]


def _audit(roofline: Instrument, size_bytes: float, step: Callable[[], Any], wait: Callable[[Any], Any]) -> None:
    with roofline.audit(traffic=size_bytes) as audit:
        start = time.perf_counter()
        output = None
        for _ in range(PASSES):
            output = step()
        wait(output)
        audit.claim(tokens=PASSES, seconds=time.perf_counter() - start, outputs=output)


def _samples(roofline: Instrument, size_bytes: float, step: Callable[[], Any], wait: Callable[[Any], Any]) -> None:
    samples, output = [], None
    with roofline.audit(traffic=size_bytes) as audit:
        for _ in range(9):
            start = time.perf_counter()
            for _ in range(4):
                output = step()
            wait(output)
            samples.append(time.perf_counter() - start)
        audit.claim(tokens_per_s=4 / statistics.median(samples), samples=samples, outputs=output)


FRAMEWORKS: tuple[tuple[str, str, Callable[[], list[Program]]], ...] = (
    ("torch", "torch", _torch_programs),
    ("jax", "jax", _jax_programs),
    ("mlx", "mlx.core", _mlx_programs),
)


def run_honest_programs(runs: int) -> dict[str, Any]:
    """So many runs, shared out among the frameworks that are installed; nothing is asked of their speed."""
    installed = []
    for name, module, programs_of in FRAMEWORKS:
        try:
            importlib.import_module(module)
        except ImportError:
            print(f"  {name} is not installed, and was left out")
            continue
        installed.append((name, programs_of()))
    session = Session()
    frameworks: dict[str, dict[str, int]] = {}
    messages = []
    for turn in range(runs if installed else 0):
        name, programs = installed[turn % len(installed)]
        number = turn // len(installed)
        program = programs[number % len(programs)]
        roofline = Instrument(session, Settings(max_time_s=MAX_TIME_S))
        try:
            program(roofline, number)
            outcome = str(roofline.results[-1].verdict.outcome)
        except BogusMeasurement as error:
            outcome = "bogus"
            messages.append(f"{name} {program.__name__} {number}: {str(error).splitlines()[0][:240]}")
        outcomes = frameworks.setdefault(name, {})
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    total = Counter[str]()
    for outcomes in frameworks.values():
        total.update(outcomes)
    return {
        "runs": sum(total.values()),
        "accused": total["bogus"] + total["failed"],
        "frameworks": frameworks,
        "messages": messages,
    }
