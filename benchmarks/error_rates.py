"""How often does a verdict err, and how soon does it come? Thousands of runs on the fake device, in recorded weather.

    python benchmarks/error_rates.py [--runs 3400] [--jobs 2]      # some minutes; writes results/error_rates.json

Every run is a whole `roofline.decode` (trace, warm-up, blocks between probes, stopping, court) of a model whose true
fraction is known, on a fake accelerator of 200 GB/s without a data sheet or with one. Three kinds of runs: the true
fraction 5 % above the budget (must not fail), 10 % below it (must not pass), and 0.9 to 1.0 without a budget; all of
them are honest, so none may end bogus. The weather is drawn for each run, and begins at a random moment of it:

* `traces/`: what `record_noise.py` saw on real machines, millisecond by millisecond, relative to the trace's median
* drift by 2x within one to four minutes, slower or faster; bursts, at a fixed interval and at random; a heavy tail of
  single launches; a step by 2x, up or down; and still air

The session's probe is measured in still air or in the same weather, at another moment; a session whose probe cannot be
trusted judges nothing, so such a probe is not used here. Times are virtual: they do not depend on this machine.

`pytest-benchmark`, with its defaults, its own code and the fake's clock for a timer, times the same step in the same
weather, and a read of 128 MB, since a fraction needs both. Without the package that part is left out.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from record_noise import unpack

from pytest_roofline.backends.fake import (
    FakeBackend,
    FakeModel,
    Noise,
    NoiseTrace,
    bursts,
    drift,
    gaussian,
    heavy_tail,
    step_change,
)
from pytest_roofline.device import Device
from pytest_roofline.errors import BogusMeasurement
from pytest_roofline.instrument import Instrument
from pytest_roofline.probe import Probe, probe_device
from pytest_roofline.samples import median, median_interval
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, parse_budget

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "error_rates.json"
RATE = 2e11
WEIGHTS = 2.5e8
READ_BYTES = 2**27
SIDES = {"above": 1.05, "below": 0.90, "unbudgeted": None}
"""True fraction over budget."""
FAILS_ABOVE, PASSES_BELOW, TIME_SHARE = 0.005, 0.01, 0.5
"""The bars: wrong verdicts of either kind, and the median time to a decision over that of pytest-benchmark."""

Weather = list["Noise | NoiseTrace"]


# -- the weather ------------------------------------------------------------------------------------------------------


@cache
def traces() -> dict[str, NoiseTrace]:
    """The recorded ones by name, relative to their medians."""
    found = {}
    for path in sorted((HERE / "traces").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        factors = unpack(record["factors"])
        middle = median(factors)
        found[path.stem] = NoiseTrace([factor / middle for factor in factors], record["period_s"])
    return found


def rising(halves_in_s: float) -> Noise:
    """Bandwidth that doubles once, within so many seconds."""
    return lambda start_s, _random: 2.0 ** max(0.0, 1.0 - start_s / halves_in_s)


def irregular_bursts(random: Random) -> Noise:
    """Bursts of 2x to 5x, of 2 to 60 ms, at random moments, a tenth of the time."""
    edges, at_s = [], 0.0
    while at_s < 40.0:
        length_s = random.uniform(0.002, 0.06)
        at_s += random.expovariate(1 / (9 * length_s))
        edges.append((at_s, at_s + length_s, random.uniform(2.0, 5.0)))
        at_s += length_s
    factors, index = [1.0] * 40_000, 0
    for begin_s, end_s, slowdown in edges:
        for index in range(int(begin_s * 1000), min(40_000, int(end_s * 1000) + 1)):
            factors[index] = slowdown
    return lambda start_s, _random: factors[int(start_s * 1000) % 40_000]


SHAPES: dict[str, Callable[[Random], Weather]] = {
    "still air": lambda random: [gaussian(0.005)],
    "drift by 2x": lambda random: [
        gaussian(0.01),
        drift(random.uniform(60, 240), 2.0) if random.random() < 0.5 else rising(random.uniform(60, 240)),
    ],
    "bursts, regular": lambda random: [
        gaussian(0.01),
        bursts(random.uniform(0.05, 1.0), random.uniform(0.005, 0.04), 3.0),
    ],
    "bursts, irregular": lambda random: [gaussian(0.01), irregular_bursts(random)],
    "heavy tail": lambda random: [gaussian(0.01), heavy_tail(random.uniform(0.002, 0.05))],
    "step by 2x": lambda random: [gaussian(0.01), step_change(random.uniform(0.1, 3.0), random.choice((0.5, 2.0)))],
}


def names_of_weather() -> list[str]:
    """Recorded and made up."""
    return [*traces(), *SHAPES]


def weather(name: str, random: Random) -> Weather:
    """One kind, begun at a moment of its own."""
    if name in SHAPES:
        return SHAPES[name](random)
    trace = traces()[name]
    return [gaussian(0.005), trace.shifted(random.uniform(0.0, trace.length_s))]


# -- one run ----------------------------------------------------------------------------------------------------------


def device_in(noise: Weather, seed: int, *, has_sheet: bool) -> FakeBackend:
    """The accelerator."""
    sheet = 1.1 * RATE if has_sheet else None
    return FakeBackend(read_bytes_per_s=RATE, cache_bytes=4e6, sheet_bytes_per_s=sheet, noise=noise, seed=seed)


@cache
def known_probe(name: str, number: int) -> Probe:
    """The session's probe: in still air, or in this weather where it can be trusted there."""
    backend = device_in(weather(name, Random(f"probe/{name}/{number}")), number, has_sheet=False)
    probe = probe_device(backend.devices()[0], [backend])
    if not probe.is_trusted:
        return known_probe("still air", 0)
    return replace(probe, meter=None)


class KnownSession(Session):
    """A session that has its probe already, as every test but the first finds it."""

    known: Probe

    def probe(self, device: Device) -> Probe:
        """What was measured before."""
        return self.known


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How one run ended."""

    side: str
    weather: str
    outcome: str
    checks: tuple[str, ...]
    samples: int
    elapsed_s: float
    bias: float
    """Measured over true fraction."""


def run(task: tuple[str, str, int]) -> Run:
    """One measurement of a model whose fraction is known."""
    side, name, seed = task
    random = Random(f"{side}/{name}/{seed}")
    ratio = SIDES[side]
    budget = random.uniform(0.3, 0.8)
    fraction = random.uniform(0.9, 1.0) if ratio is None else budget * ratio
    backend = device_in(weather(name, random), seed, has_sheet=seed % 2 == 0)
    model = FakeModel(backend, WEIGHTS, efficiency=fraction, layers=1)
    session = KnownSession(added_backends=[backend])
    pool = ["still air", name][seed // 2 % 2]
    session.known = known_probe(pool, seed // 4 % 3)
    settings = Settings(at_least=None if ratio is None else parse_budget(budget, "error rates"))
    roofline = Instrument(session, settings)
    try:
        result = roofline.decode(model.step, model=model, reset=model.reset)
    except BogusMeasurement:
        result = roofline.results[-1]
    verdict = result.verdict
    return Run(
        side=side,
        weather=name,
        outcome=verdict.outcome,
        checks=tuple(finding.check for finding in verdict.findings if finding.severity != "note"),
        samples=len(result.samples),
        elapsed_s=result.elapsed_s,
        bias=float(result.fraction) / fraction,
    )


# -- pytest-benchmark -------------------------------------------------------------------------------------------------


def bench_default(task: tuple[str, int]) -> dict[str, float] | None:
    """pytest-benchmark's default run of the step, and of a read: virtual seconds, and how wrong their ratio is."""
    try:
        fixtures: Any = importlib.import_module("pytest_benchmark.fixture")
        names: Any = importlib.import_module("pytest_benchmark.utils")
    except ImportError:
        return None
    name, seed = task
    random = Random(f"benchmark/{name}/{seed}")
    fraction = random.uniform(0.3, 0.8)
    backend = device_in(weather(name, random), seed, has_sheet=False)
    model = FakeModel(backend, WEIGHTS, efficiency=fraction, layers=1)
    source = backend.buffer(READ_BYTES, name="source")

    def step() -> None:
        model.step()
        backend.synchronize()

    def read() -> None:
        backend.launch(buffer=source)
        backend.synchronize()

    class Node:
        name = nodeid = "test"

    times, spent = [], []
    for function in (read, step):
        start_s = backend.now_s()
        fixture = fixtures.BenchmarkFixture(
            Node(),
            disable_gc=False,
            timer=names.NameWrapper(backend.clock),
            min_rounds=5,
            min_time=0.000005,
            max_time=1.0,
            precision=None,
            confidence=None,
            warmup=False,
            warmup_iterations=100_000,
            calibration_precision=10,
            add_stats=lambda _stats: None,
            logger=_Silence(),
            warner=None,
            disabled=False,
            cprofile=None,
            cprofile_loops=None,
            cprofile_dump=None,
        )
        fixture(function)
        spent.append(backend.now_s() - start_s)
        times.append([float(value) for value in fixture.stats.stats.data])
    interval = [median_interval(values, 0.99) for values in times]
    scale = WEIGHTS / READ_BYTES / fraction  # from a ratio of times to measured over true fraction
    low, high = interval[0].low / interval[1].high * scale, interval[0].high / interval[1].low * scale
    return {
        "read_s": spent[0],
        "step_s": spent[1],
        "is_true_inside": float(low <= 1.0 <= high),
        "is_off_by_5_percent": float(low > 1.05 or high < 0.95),
    }


class _Silence:
    def debug(self, *_text: object, **_style: object) -> None:
        """Nothing is shown."""


# -- the record -------------------------------------------------------------------------------------------------------


def upper_bound(hits: int, count: int, error: float = 0.05) -> float:
    """Clopper and Pearson's one-sided upper bound of a rate: at it, so few hits have a chance of `error`."""
    if hits >= count:
        return 1.0
    low, high = hits / count, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        chance = sum(
            math.exp(
                math.lgamma(count + 1)
                - math.lgamma(k + 1)
                - math.lgamma(count - k + 1)
                + k * math.log(middle)
                + (count - k) * math.log1p(-middle)
            )
            for k in range(hits + 1)
        )
        low, high = (middle, high) if chance > error else (low, middle)
    return high


def rate(runs: Sequence[Run], outcome: str) -> dict[str, Any]:
    """How many ended so, of how many, and the bound."""
    hits = sum(run.outcome == outcome for run in runs)
    return {"hits": hits, "of": len(runs), "upper_bound_95": round(upper_bound(hits, len(runs)), 6)}


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """The wrong verdicts, the right ones, those that were left open, and the times."""
    by_side = {side: [run for run in runs if run.side == side] for side in SIDES}
    decided = [run for run in runs if run.side != "unbudgeted" and run.outcome in ("passed", "failed")]
    judged = [run for run in runs if run.side != "unbudgeted"]
    return {
        "fails_5_percent_above": rate(by_side["above"], "failed"),
        "passes_10_percent_below": rate(by_side["below"], "passed"),
        "bogus": rate(runs, "bogus"),
        "decided_above": rate(by_side["above"], "passed"),
        "decided_below": rate(by_side["below"], "failed"),
        "median_samples": median([run.samples for run in judged]),
        "median_time_s": round(median([run.elapsed_s for run in judged]), 3),
        "median_time_of_decided_s": round(median([run.elapsed_s for run in decided]), 3) if decided else None,
        "median_bias": round(median([run.bias for run in runs if math.isfinite(run.bias)] or [math.nan]), 4),
        "open_because": dict(Counter(run.checks[0] for run in judged if run.outcome == "inconclusive" and run.checks)),
    }


def summary_of_benchmark(runs: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Times, and how often the interval of its own rounds misses the truth."""
    return {
        "runs": len(runs),
        "median_step_s": round(median([one["step_s"] for one in runs]), 3),
        "median_step_and_read_s": round(median([one["step_s"] + one["read_s"] for one in runs]), 3),
        "interval_misses_the_truth": round(1 - sum(one["is_true_inside"] for one in runs) / len(runs), 4),
        "interval_is_off_by_5_percent": round(sum(one["is_off_by_5_percent"] for one in runs) / len(runs), 4),
    }


def record_of(runs: Sequence[Run], rivals: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Everything that is published."""
    record: dict[str, Any] = {
        "schema": 1,
        "runs": len(runs),
        "all": summary(runs),
        "by_weather": {name: summary([one for one in runs if one.weather == name]) for name in names_of_weather()},
    }
    if rivals:
        flat = [one for several in rivals.values() for one in several]
        record["pytest_benchmark"] = {
            "all": summary_of_benchmark(flat),
            "by_weather": {name: summary_of_benchmark(several) for name, several in rivals.items()},
        }
        ours, theirs = record["all"]["median_time_s"], record["pytest_benchmark"]["all"]
        record["time_share"] = {
            "of_step_and_read": round(ours / theirs["median_step_and_read_s"], 3),
            "of_step_alone": round(ours / theirs["median_step_s"], 3),
        }
    return record


def missed(record: dict[str, Any]) -> list[str]:
    """Every bar that is not held, in words: by the upper bound of the rate over all, by the rate in each weather."""
    found = []
    for name, part in [("all", record["all"]), *record["by_weather"].items()]:
        for key, bar in (("fails_5_percent_above", FAILS_ABOVE), ("passes_10_percent_below", PASSES_BELOW)):
            seen = part[key]["upper_bound_95"] if name == "all" else part[key]["hits"] / part[key]["of"]
            if seen >= bar:
                found.append(f"{name}: {key} {part[key]['hits']} of {part[key]['of']}, the bar is {bar:.1%}")
        if part["bogus"]["hits"]:
            found.append(f"{name}: {part['bogus']['hits']} honest runs bogus of {part['bogus']['of']}")
    share = record.get("time_share", {}).get("of_step_and_read", 0.0)
    if share > TIME_SHARE:
        found.append(f"time to a decision is {share} of pytest-benchmark's, the bar is {TIME_SHARE}")
    return found


def show(record: dict[str, Any]) -> None:
    """A line per weather."""
    print(f"{'weather':22}{'fails +5%':>12}{'passes -10%':>12}{'bogus':>10}{'decided':>9}{'time':>8}{'bias':>8}")
    for name, part in [*record["by_weather"].items(), ("all", record["all"])]:
        right = part["decided_above"]["hits"] + part["decided_below"]["hits"]
        of = part["decided_above"]["of"] + part["decided_below"]["of"]
        cells = [
            f"{part[key]['hits']}/{part[key]['of']}" for key in ("fails_5_percent_above", "passes_10_percent_below")
        ]
        bogus = f"{part['bogus']['hits']}/{part['bogus']['of']}"
        print(
            f"{name:22}{cells[0]:>12}{cells[1]:>12}{bogus:>10}{right / of:>9.1%}"
            f"{part['median_time_s']:>7.2f}s{part['median_bias']:>8.3f}"
        )
    if "pytest_benchmark" in record:
        for name, part in record["pytest_benchmark"]["by_weather"].items():
            print(
                f"pytest-benchmark, {name:22} {part['median_step_s']:.2f} s, with a read "
                f"{part['median_step_and_read_s']:.2f} s; its interval of the fraction is off by 5 % or more in "
                f"{part['interval_is_off_by_5_percent']:.1%}"
            )
        print(f"time to a decision over pytest-benchmark's: {record['time_share']}")


def tasks_of(runs: int) -> list[tuple[str, str, int]]:
    """So many runs of each side, every weather in turn."""
    names = names_of_weather()
    return [(side, names[number % len(names)], number // len(names)) for side in SIDES for number in range(runs)]


def main() -> int:
    """Run, print, write the record; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description="Error rates of the verdict, on the fake device.")
    parser.add_argument("--runs", type=int, default=3400, help="of each of the three kinds")
    parser.add_argument("--rivals", type=int, default=40, help="runs of pytest-benchmark in each weather")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--dry", action="store_true", help="write no record")
    options = parser.parse_args()
    start = time.perf_counter()
    rivalry = [(name, seed) for name in names_of_weather() for seed in range(options.rivals)]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        runs = pool.map(run, tasks_of(options.runs), chunksize=20)
        others = pool.map(bench_default, rivalry, chunksize=5)
    rivals: dict[str, list[dict[str, float]]] = {}
    for (name, _), one in zip(rivalry, others, strict=True):
        if one is not None:
            rivals.setdefault(name, []).append(one)
    record = record_of(runs, rivals)
    record["elapsed_s"] = round(time.perf_counter() - start, 1)
    show(record)
    failures = missed(record)
    for text in failures:
        print(f"MISSED {text}")
    if not options.dry:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
