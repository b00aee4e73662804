"""What the court costs: the time that judging adds to an honest measurement.

*Decode.* Within each measurement everything that only the court needs is timed where it happens: looking at the first
pass (beyond the pass itself), surveys of memory, readings of conditions, logs of compilers, the hardware's counter,
confrontations, the further passes that show whether work was done, and the checks. Its share is that time over the
rest: warm-up, blocks, and the ruler beside them, which a fraction needs anyway. Measurements are the shortest ones
that can decide anything, which is where a fixed cost weighs most; the first of a process is told apart, for it also
imports what the court needs.

*Audit.* Timing code of about half a second, nine samples of several passes, in an audit: what entering, noting a clock
read (with the markers behind it), claiming and leaving take, over the rest.

Not counted is what the court's helper threads take from a step that runs beside them. On the fake by the host's clock
and by the device's own (of an audit by the device's alone: the fake's passes are no work for a host); on the CPU with
torch, alone and beside JAX and MLX, which the court then drains too. Exits 1 when the median of a row is over the bar.

    python benchmarks/court_cost.py [--rounds 9] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest_roofline.trial as trial_module
from pytest_roofline.audit import Audit
from pytest_roofline.backends.fake import FakeBackend, FakeModel, MemoryCounter
from pytest_roofline.clock_watch import ClockWatch
from pytest_roofline.instrument import Instrument
from pytest_roofline.samples import median_interval
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings
from pytest_roofline.stopping import LEAST_SAMPLES

trial: Any = trial_module

RESULTS = Path(__file__).resolve().parent / "results" / "court_cost.json"
BAR = 0.15
TORCH_BYTES = (50e6, 500e6)
COLUMNS = 2048
SAMPLES = 9
PASSES_OF_A_SAMPLE = 4
AUDIT_S = 0.5
"""Time that the bare timing code of an audit takes, about."""
OTHERS = ("jax", "mlx.core")
Clock = Callable[[], float]
Row = dict[str, Any]


class Stopwatch:
    """Seconds by several clocks that passed inside what was wrapped; nested ones count once."""

    def __init__(self, clocks: dict[str, Clock]) -> None:
        self._clocks = clocks
        self._depth = 0
        self.parts: dict[str, dict[str, float]] = {}

    @contextmanager
    def running(self, part: str) -> Iterator[None]:
        """Charge what happens in here to a part of the court."""
        if self._depth:
            yield
            return
        self._depth = 1
        before = self.now()
        try:
            yield
        finally:
            self._depth = 0
            spent = self.parts.setdefault(part, dict.fromkeys(self._clocks, 0.0))
            for name, value in self.now().items():
                spent[name] += value - before[name]

    def now(self) -> dict[str, float]:
        """Every clock."""
        return {name: clock() for name, clock in self._clocks.items()}

    def wrapped(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, charged."""

        def charged(*args: Any, **kwargs: Any) -> Any:
            with self.running(part):
                return function(*args, **kwargs)

        return charged


class _TimedSurveyor:
    def __init__(self, stopwatch: Stopwatch, surveyor: Any) -> None:
        self.survey = stopwatch.wrapped("survey", surveyor.survey)


@contextmanager
def court_timed(stopwatch: Stopwatch) -> Iterator[None]:
    """Charge what only the court needs."""
    find_amounts = stopwatch.wrapped("look", trial.find_amounts)

    def look(*args: Any, **kwargs: Any) -> Any:
        amounts = find_amounts(*args, **kwargs)
        surveyor: Any = None if amounts.surveyor is None else _TimedSurveyor(stopwatch, amounts.surveyor)
        return replace(amounts, surveyor=surveyor)

    watch, logs = trial.ConditionWatch, trial.CompileLogs
    with ExitStack() as stack:
        for owner, name, function in (
            (trial, "find_amounts", look),
            (trial, "judge", stopwatch.wrapped("checks", trial.judge)),
            (trial.Trial, "_proof", stopwatch.wrapped("work", trial.Trial._proof)),
            (trial.Trial, "_confronted", stopwatch.wrapped("confrontation", trial.Trial._confronted)),
            (trial.Trial, "_counted", stopwatch.wrapped("counter", trial.Trial._counted)),
            (trial.Meanwhile, "begin", stopwatch.wrapped("counter", trial.Meanwhile.begin)),
            (trial.Meanwhile, "end", stopwatch.wrapped("counter", trial.Meanwhile.end)),
            (trial.Meanwhile, "counted", stopwatch.wrapped("counter", trial.Meanwhile.counted)),
            (watch, "open", stopwatch.wrapped("conditions", watch.open)),
            (watch, "close", stopwatch.wrapped("conditions", watch.close)),
            (watch, "since_last", stopwatch.wrapped("conditions", watch.since_last)),
            (logs, "__init__", stopwatch.wrapped("compile logs", logs.__init__)),
            (logs, "close", stopwatch.wrapped("compile logs", logs.close)),
        ):
            stack.enter_context(mock.patch.object(owner, name, function))
        yield


def of_decode(name: str, clocks: dict[str, Clock], measure: Callable[[], Any], rounds: int) -> list[Row]:
    """The court's share of so many measurements, by each clock; the first one apart."""
    shares: dict[str, list[float]] = {clock: [] for clock in clocks}
    parts: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {clock: [] for clock in clocks}
    for _ in range(rounds + 1):
        stopwatch = Stopwatch(clocks)
        before = stopwatch.now()
        with court_timed(stopwatch):
            result = measure()
        whole = {clock: value - before[clock] for clock, value in stopwatch.now().items()}
        for clock in clocks:
            court = sum(spent[clock] for spent in stopwatch.parts.values())
            if clock == "device" or len(clocks) == 1:  # the pass itself is not the court's
                court -= min(result.step_s or 0.0, stopwatch.parts["look"][clock])
            shares[clock].append(court / (whole[clock] - court))
            seconds[clock].append(whole[clock])
        for part, spent in stopwatch.parts.items():
            parts.setdefault(part, []).append(next(iter(spent.values())))
    return [
        _row(f"decode {name}", clock, shares[clock][1:], seconds[clock][1:]) | _details(shares[clock][0], parts)
        for clock in clocks
    ]


@contextmanager
def audit_timed(stopwatch: Stopwatch) -> Iterator[None]:
    """Charge everything that an audit does of its own."""
    with ExitStack() as stack:
        for owner, name, part in (
            (Audit, "__enter__", "entering"),
            (Audit, "claim", "claiming"),
            (Audit, "__exit__", "leaving"),
            (ClockWatch, "_note", "clock reads"),
        ):
            function = stopwatch.wrapped(part, getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, function))
        yield


def of_audit(
    name: str, clocks: dict[str, Clock], make: Callable[[], Instrument], step: Callable[[], Any], rounds: int
) -> list[Row]:
    """The court's share of timing code that runs in an audit, by each clock; the first one apart."""
    passes = PASSES_OF_A_SAMPLE
    begun = time.perf_counter()
    while len(clocks) == 1 and time.perf_counter() - begun < AUDIT_S / SAMPLES:
        step()
        passes += 1
    shares: dict[str, list[float]] = {clock: [] for clock in clocks}
    seconds: dict[str, list[float]] = {clock: [] for clock in clocks}
    parts: dict[str, list[float]] = {}
    for _ in range(rounds + 1):
        stopwatch = Stopwatch(clocks)
        roofline, samples = make(), []
        before = stopwatch.now()
        with audit_timed(stopwatch), roofline.audit() as audit:
            for _ in range(SAMPLES):
                start = time.perf_counter()
                for _ in range(passes):
                    output = step()
                if len(clocks) > 1:
                    output.item()
                samples.append(time.perf_counter() - start)
            audit.claim(tokens_per_s=passes / statistics.median(samples), samples=samples)
        whole = {clock: value - before[clock] for clock, value in stopwatch.now().items()}
        for clock in clocks:
            court = sum(spent[clock] for spent in stopwatch.parts.values())
            shares[clock].append(court / (whole[clock] - court))
            seconds[clock].append(whole[clock])
        for part, spent in stopwatch.parts.items():
            parts.setdefault(part, []).append(next(iter(spent.values())))
    return [
        _row(f"audit {name}", clock, shares[clock][1:], seconds[clock][1:]) | _details(shares[clock][0], parts)
        for clock in clocks
    ]


def _details(first: float, parts: dict[str, list[float]]) -> Row:
    return {
        "first": round(first, 4),
        "parts_ms": {part: round(statistics.median(times[1:]) * 1e3, 3) for part, times in parts.items()},
    }


def _row(name: str, clock: str, shares: list[float], seconds: list[float]) -> Row:
    interval = median_interval(shares)
    return {
        "row": name,
        "clock": clock,
        "rounds": len(shares),
        "share": round(statistics.median(shares), 4),
        "interval": [round(interval.low, 4), round(interval.high, 4)],
        "measurement_s": round(statistics.median(seconds), 4),
    }


# -- what is measured -------------------------------------------------------------------------------------------------


def on_the_fake(rounds: int) -> Iterator[Row]:
    """Its device has a clock of its own, on which only device work and launches count.

    Where it counts its traffic, by that clock alone: what its counter takes of the host is the fake's own arithmetic.
    """
    yield from _on_a_fake("fake", FakeBackend(), rounds, {"host": time.perf_counter})
    yield from _on_a_fake("fake that counts", FakeBackend(counter=MemoryCounter(step_percent=1.0)), rounds, {})


def _on_a_fake(name: str, backend: FakeBackend, rounds: int, clocks: dict[str, Clock]) -> Iterator[Row]:
    model = FakeModel(backend, 4e9, efficiency=0.8)
    session = Session(added_backends=[backend])
    settings = Settings(stopping=f"fixed:{LEAST_SAMPLES}")

    def decode() -> Any:
        return Instrument(session, settings).decode(model.step, model=model, reset=model.reset)

    decode()  # the session's probe is nobody's
    yield from of_decode(name, {**clocks, "device": backend.clock}, decode, rounds)
    device = {"device": backend.clock, "host": time.process_time}
    yield of_audit(name, device, lambda: Instrument(session, settings), model.step, rounds)[0]


def on_torch(rounds: int) -> Iterator[Row]:
    """Layers of one width on the CPU, alone and beside other frameworks."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        print("torch is not installed, and was left out", file=sys.stderr)
        return
    settings = Settings(stopping=f"fixed:{LEAST_SAMPLES}")
    session = Session()
    host: dict[str, Clock] = {"host": time.perf_counter}
    for size_bytes in TORCH_BYTES:
        layers = round(size_bytes / (4 * COLUMNS * COLUMNS))
        model = torch.nn.Sequential(*(torch.nn.Linear(COLUMNS, COLUMNS, bias=False) for _ in range(layers))).eval()
        hidden = torch.rand(1, COLUMNS)
        with torch.inference_mode():

            def step(model: Any = model, hidden: Any = hidden) -> Any:
                return model(hidden)

            def decode(model: Any = model, step: Callable[[], Any] = step) -> Any:
                roofline = Instrument(session, settings)
                return roofline.decode(step, model=model, passes_per_reset=10**9)

            session.probe(session.find_device("cpu"))
            name = f"torch {size_bytes / 1e6:.0f} MB"
            yield from of_decode(name, host, decode, rounds)
            yield from of_audit(name, host, lambda: Instrument(session, settings), step, rounds)
    beside = []
    for other in OTHERS:
        try:
            module: Any = importlib.import_module(other)
        except ImportError:
            print(f"{other} is not installed, and was left out", file=sys.stderr)
            continue
        (module.numpy.ones(1) + 1).block_until_ready() if other == "jax" else module.eval(module.ones(1) + 1)
        beside.append(other.partition(".")[0])
    if beside:
        name = f"torch {TORCH_BYTES[-1] / 1e6:.0f} MB beside {' and '.join(beside)}"
        with torch.inference_mode():
            yield from of_decode(name, host, decode, rounds)
            yield from of_audit(name, host, lambda: Instrument(session, settings), step, rounds)


def main() -> int:
    """Measure, print, write the record where one is asked for."""
    parser = argparse.ArgumentParser(description="The time that judging adds to an honest measurement.")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, nargs="?", const=RESULTS)
    options = parser.parse_args()
    rows = []
    for source in (on_the_fake, on_torch):
        for row in source(options.rounds):
            rows.append(row)
            low, high = row["interval"]
            share = f"{row['share']:8.2%}  ({low:.2%} to {high:.2%}) of {row['measurement_s']} s"
            print(f"{row['row']:40}{row['clock']:8}{share}", file=sys.stderr, flush=True)
    worst = max(rows, key=lambda row: row["share"])
    cpu = Session().find_device("cpu")
    record = {
        "schema": 1,
        "bar": BAR,
        "is_held": worst["share"] < BAR,
        "worst": [worst["row"], worst["share"]],
        "machine": {
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "last_level_cache_bytes": cpu.last_level_cache_bytes,
            "load_average": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        },
        "rows": rows,
    }
    text = json.dumps(record, indent=2)
    print(text)
    if options.json is not None:
        options.json.parent.mkdir(exist_ok=True)
        options.json.write_text(text + "\n", encoding="utf-8")
    print(
        f"{worst['row']}: the court adds {worst['share']:.1%}; bar: under {BAR:.0%}: "
        f"{'held' if record['is_held'] else 'MISSED'}",
        file=sys.stderr,
    )
    return 0 if record["is_held"] else 1


if __name__ == "__main__":
    sys.exit(main())
