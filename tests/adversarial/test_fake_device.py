"""Cheats that once passed and honest programs that once were accused, on the fake device: each ends as it does here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.errors import BogusMeasurement, MeasurementError
from pytest_roofline.instrument import Instrument
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, parse_budget

WEIGHTS = 4e9
ASKING = Settings(at_least=parse_budget(0.6, "test"))


def place(settings: Settings | None = None, **figures: Any) -> tuple[FakeBackend, FakeModel, Instrument]:
    """A fake device, a model of 4 GB at 80 % of it, and the instrument."""
    backend = FakeBackend(**figures)
    return backend, FakeModel(backend, WEIGHTS, efficiency=0.8), Instrument(Session(added_backends=[backend]), settings)


def checks(result: Result, severity: str) -> list[str]:
    """Names of the checks that found something of this severity."""
    return [finding.check for finding in result.findings if finding.severity == severity]


def fraction(result: Result) -> float:
    """The fraction as a plain number."""
    return float(result.fraction)


# -- impossible results -------------------------------------------------------------------------------------------


def test_an_open_trace_lowers_no_limit() -> None:
    """A declaration of ten times the bytes is impossible, also where the trace cannot contradict it."""
    backend, _, roofline = place(ASKING)
    opaque = FakeModel(backend, WEIGHTS, is_opaque=True)
    with pytest.raises(BogusMeasurement, match="cannot exceed"):
        roofline.decode(opaque.step, traffic=10 * WEIGHTS, reset=opaque.reset)


def test_a_remembered_result_does_not_pass_as_cached() -> None:
    """cache="hot" is no licence: far above the cache there is no verdict, and beyond its size it is impossible."""
    backend, _, roofline = place(ASKING)
    done = backend.launch(read_bytes=5e8)

    def remember() -> object:
        backend.host(2e-5)
        return done

    with pytest.raises(BogusMeasurement, match="cannot exceed"):
        roofline.kernel(remember, bytes_read=5e8, cache="hot")
    small = backend.launch(read_bytes=3e7)
    result = roofline.kernel(lambda: (backend.host(5e-6), small)[1], bytes_read=3e7, cache="hot")
    assert result.verdict.outcome == "inconclusive"


def test_rotated_inputs_are_held_against_the_limit() -> None:
    """Each call of a rotation may have its share of the caches, and no more."""
    backend, _, roofline = place(ASKING)
    done = backend.launch(read_bytes=8e6)
    with pytest.raises(BogusMeasurement, match="cannot exceed"):
        roofline.kernel(
            lambda index: (backend.host(2e-6), done)[1], bytes_read=8e6, inputs=[(index,) for index in range(30)]
        )


@pytest.mark.parametrize("samples", [200, 300, 600])
def test_early_stamps_are_bogus_however_many(samples: int) -> None:
    """Markers of old reads are settled, not forgotten."""
    backend, model, roofline = place()
    times = []
    with pytest.raises(BogusMeasurement, match="missing synchronization"), roofline.audit() as audit:
        for _ in range(samples):
            start = time.perf_counter()
            model.step()
            times.append(time.perf_counter() - start)
        backend.synchronize()
        audit.claim(tokens=samples, samples=times)


def test_a_prompt_among_the_ids_is_not_believed() -> None:
    """More ids than the watched passes can have made give no verdict."""
    _, model, roofline = place()
    with roofline.audit(traffic=WEIGHTS) as audit:
        step = audit.watch(model.step)
        sequence = list(range(300))
        start = time.perf_counter()
        for token in range(30):
            step().item()
            sequence.append(token)
        audit.claim(tokens=len(sequence), seconds=time.perf_counter() - start, ids=sequence)
    assert audit.result.verdict.outcome == "inconclusive"
    assert "tokens-disagree" in checks(audit.result, "inconclusive")


def test_an_inner_audit_hides_nothing_from_the_outer_one() -> None:
    """A read inside two audits is seen by both."""
    backend, model, roofline = place()
    with pytest.raises(BogusMeasurement, match="claimed, but"), roofline.audit() as outer, roofline.audit() as inner:
        start = time.perf_counter()
        for _ in range(32):
            model.step()
        backend.synchronize()
        elapsed = time.perf_counter() - start
        inner.claim(tokens=32, seconds=elapsed)
        outer.claim(tokens=32, seconds=elapsed / 10)


def test_an_empty_second_window_hides_nothing() -> None:
    """Stated windows add up."""
    _, model, roofline = place()
    with pytest.raises(BogusMeasurement), roofline.audit(traffic=WEIGHTS) as audit:
        with audit.window():
            for _ in range(30):
                model.step()
        with audit.window():
            pass
        audit.claim(tokens=30, seconds=1e-3)


# -- honest programs ----------------------------------------------------------------------------------------------


def test_a_stated_window_without_seconds_claims_its_closed_time() -> None:
    """Whoever leaves the time to the tool has claimed none that could be wrong."""
    _, model, roofline = place(ASKING)
    with roofline.audit(traffic=WEIGHTS) as audit:
        with audit.window():
            for _ in range(50):
                model.step()
        audit.claim(tokens=50)
    assert audit.result.verdict.outcome == "passed"
    assert fraction(audit.result) == pytest.approx(0.8, rel=0.02)


def test_several_windows_add_up() -> None:
    """Four laps, one claim of their sum."""
    backend, model, roofline = place(ASKING)
    total = 0.0
    with roofline.audit(traffic=WEIGHTS) as audit:
        for _ in range(4):
            with audit.window():
                start = time.perf_counter()
                for _ in range(10):
                    model.step()
                backend.synchronize()
                total += time.perf_counter() - start
            backend.host(1.0)
        audit.claim(tokens=40, seconds=total)
    assert audit.result.verdict.outcome == "passed"


def test_host_work_and_a_side_stream_after_the_stop_are_not_the_windows() -> None:
    """Where no marker was left at the stop, only work that is seen at the claim is charged."""

    class Unmarked(FakeBackend):
        """Its queues are idle whenever they are asked, as torch's are after a synchronize."""

        is_marker_complete = False

        def mark(self) -> None:  # type: ignore[override]
            return None

    backend = Unmarked()
    model = FakeModel(backend, WEIGHTS, efficiency=0.8)
    roofline = Instrument(Session(added_backends=[backend]))
    with roofline.audit(traffic=WEIGHTS) as audit:
        start = time.perf_counter()
        for _ in range(100):
            model.step()
        backend.synchronize()
        elapsed = time.perf_counter() - start
        backend.host(2.0)
        backend.launch(seconds=2e-3, stream="side")
        audit.claim(tokens=100, seconds=elapsed)
    assert audit.result.verdict.outcome == "passed"


def test_a_position_beside_the_logits_is_no_id() -> None:
    """A functional cache's step returns logits and a position; the batch made eight tokens all the same."""
    backend, _, roofline = place()
    model = FakeModel(backend, WEIGHTS, batch=8)

    def step() -> object:
        model.step()
        return backend.array(8000), backend.array(1, is_int=True)

    assert roofline.decode(step, traffic=WEIGHTS, batch=8).verdict.outcome != "bogus"


def test_a_reset_that_prefills_is_where_the_context_is_read() -> None:
    """The state before the first reset may be of another length."""
    backend, _, roofline = place(ASKING)
    model = FakeModel(backend, WEIGHTS, kv_bytes_per_token=1e6, efficiency=0.8)

    def reset() -> None:
        model.reset()
        model.context = 4000

    result = roofline.decode(model.step, model=model, reset=reset)
    assert result.verdict.outcome == "passed"
    assert fraction(result) == pytest.approx(0.8, rel=0.03)


def test_a_static_cache_is_not_overrun_whatever_was_stated() -> None:
    """Of the room that was stated and the room that was seen, the smaller one holds."""
    backend, _, roofline = place()
    model = FakeModel(backend, WEIGHTS, kv_bytes_per_token=1e5, max_context=32)
    result = roofline.decode(model.step, model=model, reset=model.reset, passes_per_reset=1000)
    assert result.samples


def test_the_tokens_of_one_sample_may_be_claimed() -> None:
    """Five samples of a hundred passes, claimed by rate, with or without the tokens of one."""
    backend, model, roofline = place(ASKING)
    for arguments in ({"tokens": 100}, {}):
        samples = []
        with roofline.audit(traffic=WEIGHTS) as audit:
            for _ in range(5):
                start = time.perf_counter()
                for _ in range(100):
                    model.step()
                backend.synchronize()
                samples.append(time.perf_counter() - start)
            audit.claim(tokens_per_s=100 / sorted(samples)[2], samples=samples, **arguments)
        assert audit.result.verdict.outcome == "passed"


def test_the_time_of_one_token_may_be_claimed() -> None:
    """One token in a 32nd of the time, where 32 passes were watched."""
    backend, model, roofline = place(ASKING)
    with roofline.audit(traffic=WEIGHTS) as audit:
        step = audit.watch(model.step)
        start = time.perf_counter()
        for _ in range(32):
            step()
        backend.synchronize()
        audit.claim(tokens=1, seconds=(time.perf_counter() - start) / 32)
    assert audit.result.verdict.outcome == "passed"


def test_watched_warm_ups_are_no_claimed_tokens() -> None:
    """Without tokens=, those of the window are meant."""
    backend, model, roofline = place(ASKING)
    with roofline.audit(traffic=WEIGHTS) as audit:
        step = audit.watch(model.step)
        for _ in range(5):
            step()
        backend.synchronize()
        samples = []
        for _ in range(20):
            start = time.perf_counter()
            step()
            backend.synchronize()
            samples.append(time.perf_counter() - start)
        audit.claim(samples=samples)
    assert audit.result.verdict.outcome == "passed"


def test_a_watched_generator_is_contradictory_not_slow() -> None:
    """One call that made 64 ids fails no budget."""
    backend, model, roofline = place(ASKING)

    def generate(count: int) -> Iterator[object]:
        for _ in range(count):
            yield model.step()

    with roofline.audit(traffic=WEIGHTS) as audit:
        watched = audit.watch(generate)
        start = time.perf_counter()
        ids = list(watched(64))
        backend.synchronize()
        audit.claim(tokens=64, seconds=time.perf_counter() - start, ids=ids)
    assert audit.result.verdict.outcome == "inconclusive"


def test_a_frozen_clock_that_nobody_read_accuses_nobody() -> None:
    """Another component's `time.monotonic` is frozen; the laps were taken with `perf_counter`."""
    backend, model, roofline = place()
    total = 0.0
    with roofline.audit(traffic=WEIGHTS) as audit, mock.patch("time.monotonic", return_value=42.0):
        for _ in range(7):
            start = time.perf_counter()
            for _ in range(5):
                model.step()
            backend.synchronize()
            total += time.perf_counter() - start
            backend.host(0.013)
        audit.claim(tokens=35, seconds=total)
    assert audit.result.verdict.outcome != "bogus"


def test_an_open_trace_misses_no_budget() -> None:
    """Bytes that could not all be traced are a lower bound, and so is the fraction of them."""
    backend, _, roofline = place(ASKING)

    def step() -> object:
        backend.launch(seconds=4e-3, is_opaque=True)
        return backend.launch(read_bytes=1e8)

    result = roofline.decode(step, model=FakeModel(backend, WEIGHTS))
    assert result.verdict.outcome == "inconclusive"
    assert "ceiling-unsure" in checks(result, "inconclusive")


def test_a_closure_may_hold_things_of_another_device() -> None:
    """Only a model contradicts the device that was asked for before anything ran."""
    backend = FakeBackend(devices=2)
    roofline = Instrument(Session(added_backends=[backend]), Settings(device="fake:1"))
    elsewhere = backend.buffer(4, device=0)
    model = FakeModel(backend, WEIGHTS, device=1)

    def step() -> object:
        assert elsewhere is not None
        return model.step()

    assert roofline.decode(step, traffic=WEIGHTS, reset=model.reset).device.id == "fake:1"


def test_off_misses_no_device() -> None:
    """Nothing is measured, so the device that was asked for may be elsewhere."""
    _, model, roofline = place(Settings(mode="off", device="cuda:7"))
    assert roofline.decode(model.step, traffic=WEIGHTS).verdict.outcome == "passed"


# -- nothing is left behind ---------------------------------------------------------------------------------------


def test_a_clock_that_raises_leaves_nothing_patched() -> None:
    """A mocked clock that has run out of readings ends no audit half way."""
    _, _, roofline = place()
    before = time.perf_counter
    with mock.patch("time.monotonic", side_effect=[0.0]), roofline.audit():
        pass
    assert time.perf_counter is before


def test_what_the_body_raised_is_what_its_test_ends_with() -> None:
    """A device that cannot be drained any more does not replace the exception that came first."""

    class Poisoned(FakeBackend):
        """Fails to drain once it was told to."""

        is_poisoned = False

        def drain(self) -> None:
            if self.is_poisoned:
                raise MeasurementError("the context is gone")
            super().drain()

    backend = Poisoned()
    roofline = Instrument(Session(added_backends=[backend]))
    with pytest.raises(ZeroDivisionError), roofline.audit():
        backend.is_poisoned = True
        raise ZeroDivisionError
    backend.is_poisoned = False

    def step() -> object:
        backend.is_poisoned = True
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        roofline.decode(step, traffic=1e9)


def test_an_unclaimed_audit_gives_its_buffers_back() -> None:
    """The probe beside a window does not outlive it."""
    backend, model, roofline = place()
    with roofline.audit(traffic=WEIGHTS):
        model.step()
    free = backend.free_memory_bytes(backend.devices()[0])
    for _ in range(3):
        with roofline.audit(traffic=WEIGHTS):
            model.step()
    assert backend.free_memory_bytes(backend.devices()[0]) == free


def test_an_audit_that_was_never_entered_is_open() -> None:
    """Nothing was judged, so the test cannot end green."""
    _, _, roofline = place()
    assert roofline.audit().is_open
