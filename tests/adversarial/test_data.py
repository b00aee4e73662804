"""Bytes that never came from memory: untouched pages, patterns, rings of up to 32 knees; and throttled devices."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel, Throttle
from pytest_roofline.errors import BelowCeiling, BogusMeasurement
from pytest_roofline.instrument import Instrument
from pytest_roofline.result import Result
from pytest_roofline.samples import median
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, parse_budget

RATE = 1e12
CACHE = 40e6
ASKING = Settings(at_least=parse_budget(0.6, "test"))


def place(settings: Settings | None = None, **figures: Any) -> tuple[FakeBackend, Instrument]:
    """A fake device and the instrument."""
    backend = FakeBackend(**figures)
    return backend, Instrument(Session(added_backends=[backend]), settings)


def severities(result: Result) -> dict[str, str]:
    """How grave each check's finding is."""
    return {finding.check: finding.severity for finding in result.findings}


def two_part_step(backend: FakeBackend, plain_bytes: float, other_bytes: float, data: Any) -> Callable[[], object]:
    """A pass at 80 % over ordinary weights and over others that hold `data`."""
    plain = backend.buffer(plain_bytes, role="weights")
    other = backend.buffer(other_bytes, role="weights", data=data)
    return lambda: backend.launch(buffer=[plain, other], efficiency=0.8)


# -- untouched pages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight_bytes", [4e8, 8e9])
def test_untouched_weights_above_the_limit_are_named(weight_bytes: float) -> None:
    """3.2 times what memory gives: bogus, and the first line says why."""
    backend, roofline = place()
    model = FakeModel(backend, weight_bytes, data="untouched")
    with pytest.raises(BogusMeasurement, match="never written") as caught:
        roofline.decode(model.step, model=model, reset=model.reset)
    assert caught.value.verdict is not None
    assert [finding.check for finding in caught.value.verdict.of("bogus")] == ["untouched-memory", "faster-than-limit"]


def test_untouched_weights_under_the_limit_give_no_verdict() -> None:
    """A sixth of the speed of cache is a believable rate, and says nothing of memory."""
    backend, roofline = place(ASKING)
    model = FakeModel(backend, 4e9, data="untouched", efficiency=0.2)
    result = roofline.decode(model.step, model=model, reset=model.reset)
    assert result.verdict.outcome == "inconclusive"
    assert severities(result)["untouched-memory"] == "inconclusive"


def test_a_part_that_was_never_written_decides_only_where_it_can() -> None:
    """A fifth of the pass untouched: no verdict at the edge of the budget, a note well above it."""
    backend, roofline = place(Settings(at_least=parse_budget(0.8, "test")))
    result = roofline.decode(two_part_step(backend, 3.2e9, 0.8e9, "untouched"), traffic=4e9)
    assert severities(result) == {"untouched-memory": "inconclusive"}
    backend, roofline = place(Settings(at_least=parse_budget(0.5, "test")))
    result = roofline.decode(two_part_step(backend, 3.2e9, 0.8e9, "untouched"), traffic=4e9)
    assert result.verdict.outcome == "passed"
    assert severities(result) == {"untouched-memory": "note"}


def test_untouched_weights_excuse_no_miss() -> None:
    """Too slow in spite of them is too slow."""
    backend, roofline = place(ASKING)
    model = FakeModel(backend, 4e9, data="untouched", efficiency=0.1)
    result = roofline.decode(model.step, model=model, reset=model.reset)
    assert result.verdict.outcome == "failed"
    with pytest.raises(BelowCeiling, match="never written"):
        raise_verdict(result)


def raise_verdict(result: Result) -> None:
    """What the test would see."""
    from pytest_roofline.verdict import error_of

    error = error_of(result.evidence, result.verdict) if result.evidence is not None else None
    assert error is not None
    raise error


def test_memory_that_is_written_before_it_is_read_is_honest() -> None:
    """Allocated empty and filled by the program: ordinary memory."""
    backend, roofline = place(ASKING)
    weights = backend.buffer(4e9, role="weights", data="untouched")
    backend.launch(writes=weights)
    result = roofline.decode(lambda: backend.launch(buffer=weights, efficiency=0.8), traffic=4e9)
    assert result.verdict.outcome == "passed"
    assert severities(result) == {}


def test_an_open_trace_accuses_no_page() -> None:
    """What a trace cannot account for supports no finding of untouched memory."""
    backend, roofline = place()
    model = FakeModel(backend, 4e9, data="untouched", efficiency=0.2, is_opaque=True)
    result = roofline.decode(model.step, model=model, reset=model.reset)
    assert "untouched-memory" not in severities(result)


# -- patterns -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("data", "words"), [("constant", "one value"), ("predictable", "a regular pattern")])
def test_patterns_on_a_device_that_compresses_are_named(data: Any, words: str) -> None:
    """Three to four times what memory gives, with honest clocks: the message says which data did it."""
    backend, roofline = place(compresses=True)
    model = FakeModel(backend, 4e9, data=data)
    with pytest.raises(BogusMeasurement, match=f"hold {words}, of which a device that compresses") as caught:
        roofline.decode(model.step, model=model, reset=model.reset)
    assert caught.value.verdict is not None
    assert caught.value.verdict.of("bogus")[0].check == "predictable-data"


def test_patterns_under_the_limit_give_no_verdict() -> None:
    """At a believable rate too, constant weights tell nothing of real ones."""
    backend, roofline = place(ASKING, compresses=True)
    model = FakeModel(backend, 4e9, data="constant", efficiency=0.2)
    result = roofline.decode(model.step, model=model, reset=model.reset)
    assert result.verdict.outcome == "inconclusive"
    finding = next(found for found in result.findings if found.check == "predictable-data")
    assert "random or trained weights" in finding.remedy


def test_random_weights_on_a_device_that_compresses_are_honest() -> None:
    """Compression does nothing for them."""
    backend, roofline = place(ASKING, compresses=True)
    model = FakeModel(backend, 4e9)
    result = roofline.decode(model.step, model=model, reset=model.reset)
    assert result.verdict.outcome == "passed"
    assert severities(result) == {}


def test_constant_weights_where_nothing_is_compressed_are_honest() -> None:
    """The device moves them whole: a pass, with a note."""
    backend, roofline = place(ASKING)
    model = FakeModel(backend, 4e9, data="constant")
    result = roofline.decode(model.step, model=model, reset=model.reset)
    assert result.verdict.outcome == "passed"
    assert severities(result) == {"predictable-data": "note"}


def test_a_few_constant_rows_are_honest() -> None:
    """Padded rows and zero biases are a small part of a pass: no word."""
    backend, roofline = place(ASKING, compresses=True)
    result = roofline.decode(two_part_step(backend, 3.95e9, 0.05e9, "constant"), traffic=4e9)
    assert result.verdict.outcome == "passed"
    assert severities(result) == {}


# -- caches: the true fraction lies in the interval ---------------------------------------------------------------


def ruler(result: Result) -> float:
    """What the probes beside the blocks read, which is what the fraction is of."""
    return median([rate for s in result.samples for rate in (s.ruler_before_bytes_per_s, s.ruler_after_bytes_per_s)])


def held_bytes(policy: str, knees: float) -> float:
    """How much of a ring this cache serves in every round: all that fits, or of a larger ring nothing at all."""
    if knees <= 1:
        return knees * CACHE
    return CACHE if policy == "best" else 0.0


def assert_inside(result: Result, from_memory_bytes: float) -> None:
    """The fraction that the bytes from memory alone make lies in the interval, to a thousandth of the ruler."""
    bounds = result.verdict.bounds
    assert result.step_s is not None
    assert bounds is not None
    true = from_memory_bytes / result.step_s / ruler(result)
    assert bounds.low - 1e-3 <= true <= bounds.high + 1e-3


@pytest.mark.parametrize("policy", ["lru", "best"])
@pytest.mark.parametrize("knees", [0.5, 1, 1.5, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("parts", [1, 4])
def test_the_true_fraction_of_a_ring_lies_in_its_interval(policy: Any, knees: float, parts: int) -> None:
    """Of a ring of W bytes what came from memory, over time and ruler, is between f (1 - K / W) and f."""
    backend, roofline = place(cache_policy=policy, cache_bytes=CACHE)
    size_bytes = knees * CACHE
    ring = [backend.buffer(size_bytes / parts, role="weights") for _ in range(parts)]
    result = roofline.decode(lambda: backend.launch(buffer=ring, efficiency=0.8), traffic=size_bytes)
    assert_inside(result, size_bytes - held_bytes(policy, knees))


@pytest.mark.parametrize("policy", ["lru", "best"])
@pytest.mark.parametrize("knees", [0.5, 1, 1.5, 2, 4, 8, 16, 32])
def test_writes_that_stay_in_cache_are_inside_the_interval(policy: Any, knees: float) -> None:
    """A fill whose end has not reached memory when the clock stops: at most a knee of each pass is missing."""
    backend, roofline = place(cache_policy=policy, cache_bytes=CACHE)
    size_bytes = knees * CACHE
    target = backend.buffer(size_bytes)
    result = roofline.decode(lambda: backend.launch(writes=target, efficiency=0.8), traffic=size_bytes)
    assert_inside(result, size_bytes - held_bytes(policy, knees))


# -- identity -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sheet", "words"), [(0.5e12, "2x what"), (4e12, "25 % of what")])
def test_a_driver_of_another_card_accuses_nobody_and_is_noted(sheet: float, words: str) -> None:
    """Half or four times of what the probe reads: the largest counts, an honest run passes, the report says so."""
    backend, roofline = place(ASKING, sheet_bytes_per_s=sheet)
    model = FakeModel(backend, 4e9)
    result = roofline.decode(model.step, model=model, reset=model.reset)
    assert result.verdict.outcome == "passed"
    assert severities(result) == {"ceiling-unsure": "note"}
    assert words in result.findings[0].message
    assert "the largest counts as the limit" in result.findings[0].message


def test_an_audit_notes_it_too() -> None:
    """The user's own clock, held against the same limit."""
    backend, roofline = place(sheet_bytes_per_s=0.5e12)
    model = FakeModel(backend, 4e9)
    with roofline.audit(traffic=4e9) as audit:
        start = time.perf_counter()
        for _ in range(20):
            model.step()
        backend.synchronize()
        audit.claim(tokens=20, seconds=time.perf_counter() - start)
    assert severities(audit.result)["ceiling-unsure"] == "note"


# -- throttling ---------------------------------------------------------------------------------------------------


COMPUTE_BOUND: dict[str, Any] = {"bytes_read": 1e9, "flops": 1e12, "dtype": "bfloat16"}


def compute_bound(backend: FakeBackend) -> Callable[[], object]:
    """A pass that arithmetic bounds, at 90 % of the peak."""
    weights = backend.buffer(1e9, role="weights")
    return lambda: backend.launch(buffer=weights, flops=1e12, dtype="bfloat16", efficiency=0.9)


@pytest.mark.parametrize(("is_visible", "outcome"), [(True, "inconclusive"), (False, "failed")])
def test_a_miss_that_the_devices_own_clocks_explain_is_no_failure(is_visible: bool, outcome: str) -> None:
    """Half the clock after the peak was measured; a device that does not say so is excused nothing."""
    throttle = Throttle(start_s=100.0, end_s=1e6, slowdown=2.0, is_visible=is_visible)
    backend, roofline = place(ASKING, throttle=[throttle])
    step = compute_bound(backend)
    fast = roofline.kernel(step, **COMPUTE_BOUND)
    assert fast.verdict.outcome == "passed"
    backend.host(200.0)
    slow = roofline.kernel(step, **COMPUTE_BOUND)
    assert slow.verdict.outcome == outcome
    assert ("throttled" in severities(slow)) is is_visible


def test_throttling_excuses_nothing_that_is_too_fast() -> None:
    """An impossible rate stays impossible on a throttled device."""
    backend, roofline = place(throttle=[Throttle(start_s=0.0, end_s=1e6, slowdown=2.0)])
    done = backend.launch(read_bytes=4e9)
    with pytest.raises(BogusMeasurement, match="cannot exceed"):
        roofline.decode(lambda: (backend.host(1e-5), done)[1], traffic=4e9)


def test_throttling_that_the_probes_follow_excuses_nothing() -> None:
    """Throttled from the first probe to the last, the fraction is that of the throttled device: a miss is one."""
    backend, roofline = place(ASKING, throttle=[Throttle(start_s=0.0, end_s=1e6, slowdown=2.0)])
    model = FakeModel(backend, 4e9, efficiency=0.4)
    result = roofline.decode(model.step, model=model, reset=model.reset)
    assert result.verdict.outcome == "failed"
    assert severities(result)["throttled"] == "note"
