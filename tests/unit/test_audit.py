"""The audit on the fake device: which window a claim speaks of, and what was left over when the clock stopped."""

from __future__ import annotations

import time
from time import perf_counter
from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.errors import BogusMeasurement, RooflineUsageError
from pytest_roofline.instrument import Instrument
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings

WEIGHTS = 4e9


class Bench:
    """A fake device with a model of 4 GB, and the instrument that watches it."""

    def __init__(self, settings: Settings | None = None, **figures: Any) -> None:
        self.backend = FakeBackend(**figures)
        self.model = FakeModel(self.backend, WEIGHTS, efficiency=0.8)
        self.roofline = Instrument(Session(added_backends=[self.backend]), settings)

    def drain(self) -> None:
        """What a careful test does before it stops the clock."""
        self.backend.synchronize()


def checks(result: Result, severity: str) -> list[str]:
    """Names of the checks that found something of this severity."""
    return [finding.check for finding in result.findings if finding.severity == severity]


def bogus(excinfo: pytest.ExceptionInfo[BogusMeasurement]) -> list[str]:
    """Names of the checks behind a bogus verdict."""
    verdict = excinfo.value.verdict
    assert verdict is not None
    return [finding.check for finding in verdict.of("bogus")]


def test_an_honest_audit_passes_with_the_true_fraction() -> None:
    """A drained loop of 50 passes is believed, and its fraction is the efficiency of the model."""
    bench = Bench()
    with bench.roofline.audit(traffic=WEIGHTS) as audit:
        bench.model.step()
        bench.drain()
        start = time.perf_counter()
        for _ in range(50):
            bench.model.step()
        bench.drain()
        elapsed = time.perf_counter() - start
        audit.claim(tokens=50, seconds=elapsed)
    assert audit.result.verdict.outcome == "passed"
    assert audit.result.fraction is not None
    assert float(audit.result.fraction) == pytest.approx(0.8, rel=0.02)


@pytest.mark.parametrize("passes", [1, 4, 16, 64, 512])
def test_an_undrained_loop_is_bogus_at_any_length(passes: int) -> None:
    """Queued work that the clock did not wait for is named, with the line that stopped too early."""
    bench = Bench()
    with pytest.raises(BogusMeasurement, match="missing synchronization") as excinfo, bench.roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(passes):
            bench.model.step()
        elapsed = time.perf_counter() - start
        audit.claim(tokens=passes, seconds=elapsed)
    assert bogus(excinfo) == ["not-drained"]
    assert "test_audit.py:" in str(excinfo.value)


def test_a_drain_after_the_stop_is_still_too_late() -> None:
    """Synchronizing on the line after the stop leaves nothing for the claim to find, but the marker saw it."""
    bench = Bench()
    with pytest.raises(BogusMeasurement) as excinfo, bench.roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(64):
            bench.model.step()
        elapsed = time.perf_counter() - start
        bench.drain()
        audit.claim(tokens=64, seconds=elapsed)
    assert bogus(excinfo) == ["not-drained"]


def test_checks_after_the_stop_are_not_charged_to_the_window() -> None:
    """Verification that is queued after an honest stop, and not drained, accuses nobody."""
    bench = Bench()
    with bench.roofline.audit(traffic=WEIGHTS) as audit:
        start = time.perf_counter()
        for _ in range(32):
            bench.model.step()
        bench.drain()
        elapsed = time.perf_counter() - start
        for _ in range(10):
            bench.model.step()
        audit.claim(tokens=32, seconds=elapsed)
    assert audit.result.verdict.outcome == "passed"
    assert audit.result.fraction is not None
    assert float(audit.result.fraction) == pytest.approx(0.8, rel=0.02)


def test_two_passes_of_look_ahead_are_honest() -> None:
    """An engine that schedules the next two steps while this one runs passes, with a note."""
    bench = Bench()
    with bench.roofline.audit(traffic=WEIGHTS) as audit:
        start = time.perf_counter()
        events = []
        for _ in range(40):
            bench.model.step()
            event = bench.backend.event()
            event.record()
            events.append(event)
        events[-2].synchronize()
        elapsed = time.perf_counter() - start
        audit.claim(tokens=40, seconds=elapsed)
    assert audit.result.verdict.outcome == "passed"
    assert checks(audit.result, "note") == ["not-drained"]


def test_a_side_stream_is_seen_at_the_claim() -> None:
    """Work on a stream that the test did not wait for outlasts the marked queues."""
    bench = Bench()
    with pytest.raises(BogusMeasurement) as excinfo, bench.roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(32):
            bench.backend.launch(read_bytes=WEIGHTS, stream="side")
        elapsed = time.perf_counter() - start
        audit.claim(tokens=32, seconds=elapsed)
    assert bogus(excinfo) == ["not-drained"]


def test_a_synchronize_that_lies_does_not_help() -> None:
    """A call that returns early leaves its work to the tool's own drain."""
    bench = Bench(sync_lies="early")
    with pytest.raises(BogusMeasurement) as excinfo, bench.roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(32):
            bench.model.step()
        bench.drain()
        elapsed = time.perf_counter() - start
        audit.claim(tokens=32, seconds=elapsed)
    assert bogus(excinfo) == ["not-drained"]


def test_a_slow_clock_is_named() -> None:
    """A public clock at half speed makes the claim twice too fast."""
    bench = Bench(clock_scale=0.5)
    with pytest.raises(BogusMeasurement, match="for the same stretch") as excinfo, bench.roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(32):
            bench.model.step()
        bench.drain()
        audit.claim(tokens=32, seconds=time.perf_counter() - start)
    assert bogus(excinfo) == ["clock-disagrees"]


def test_a_fast_clock_is_a_note() -> None:
    """A clock that runs fast makes a result look slow: nobody gains, nobody is accused."""
    bench = Bench(clock_scale=1.5)
    with bench.roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(32):
            bench.model.step()
        bench.drain()
        audit.claim(tokens=32, seconds=time.perf_counter() - start)
    assert audit.result.verdict.outcome == "passed"
    assert checks(audit.result, "note") == ["clock-disagrees"]


def test_a_clock_patched_inside_the_audit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that puts a slower clock in place of the real one is caught by the clock's own advance."""
    bench = Bench()
    with pytest.raises(BogusMeasurement) as excinfo, bench.roofline.audit() as audit:
        real = time.perf_counter
        monkeypatch.setattr(time, "perf_counter", lambda: real() / 10)
        start = time.perf_counter()
        for _ in range(32):
            bench.model.step()
        bench.drain()
        audit.claim(tokens=32, seconds=time.perf_counter() - start)
    assert set(bogus(excinfo)) <= {"clock-disagrees", "claim-exceeds-closed-time"}


def test_a_clock_imported_by_name_is_watched() -> None:
    """`from time import perf_counter` in the test module is found and put back."""
    bench = Bench()
    before = perf_counter
    with pytest.raises(BogusMeasurement, match="missing synchronization"), bench.roofline.audit() as audit:
        start = perf_counter()
        for _ in range(32):
            bench.model.step()
        elapsed = perf_counter() - start
        audit.claim(tokens=32, seconds=elapsed)
    assert perf_counter is before


def test_the_clocks_are_put_back() -> None:
    """After an audit the time module is as it was, also when the body raised."""
    bench = Bench()
    before = (time.perf_counter, time.time, time.monotonic)
    with pytest.raises(ZeroDivisionError), bench.roofline.audit():
        raise ZeroDivisionError
    assert (time.perf_counter, time.time, time.monotonic) == before


def test_a_body_that_raises_is_drained_and_silent() -> None:
    """The body's own exception comes through, nothing is judged, and nothing is left running."""
    bench = Bench()
    with pytest.raises(RuntimeError, match="mine"), bench.roofline.audit(traffic=WEIGHTS) as audit:
        bench.model.step()
        audit.claim(tokens=1, seconds=1e-9)
        raise RuntimeError("mine")
    assert bench.backend.pending() == 0
    assert bench.roofline.results == []
    assert not audit.is_open


def test_a_wrong_divisor_is_bogus() -> None:
    """A claim that divides the time by another number than it says does not fit the window."""
    bench = Bench()
    with pytest.raises(BogusMeasurement, match="claimed, but") as excinfo, bench.roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(32):
            bench.model.step()
        bench.drain()
        elapsed = time.perf_counter() - start
        audit.claim(tokens=32, seconds=elapsed / 2)
    assert bogus(excinfo) == ["claim-exceeds-closed-time"]


def test_several_reads_and_none_that_fits_is_inconclusive() -> None:
    """With reads that cannot explain the claim, and no samples, the window is not known."""
    bench = Bench()
    with bench.roofline.audit() as audit:
        for _ in range(3):
            time.perf_counter()
            bench.model.step()
            bench.drain()
        audit.claim(tokens=3, seconds=123.0)
    assert audit.result.verdict.outcome == "inconclusive"
    assert checks(audit.result, "inconclusive") == ["claim-exceeds-closed-time"]


def test_of_several_reads_the_pair_that_fits_is_the_window() -> None:
    """A warm-up that is timed too does not confuse the window of the claim."""
    bench = Bench()
    with bench.roofline.audit(traffic=WEIGHTS) as audit:
        began = time.perf_counter()
        bench.model.step()
        bench.drain()
        assert time.perf_counter() > began
        start = time.perf_counter()
        for _ in range(32):
            bench.model.step()
        bench.drain()
        elapsed = time.perf_counter() - start
        audit.claim(tokens=32, seconds=elapsed)
    assert audit.result.verdict.outcome == "passed"
    assert audit.result.step_s == pytest.approx(5e-3, rel=0.02)


def test_a_median_of_drained_samples_is_honest() -> None:
    """Single timings, each drained, claimed by their median."""
    bench = Bench()
    samples = []
    with bench.roofline.audit(traffic=WEIGHTS) as audit:
        for _ in range(20):
            start = time.perf_counter()
            bench.model.step()
            bench.drain()
            samples.append(time.perf_counter() - start)
        audit.claim(tokens=20, samples=samples)
    assert audit.result.verdict.outcome == "passed"


def test_early_stamps_are_bogus() -> None:
    """Stamps taken at submission, one drain at the very end: the samples are of launches, not of passes."""
    bench = Bench()
    samples = []
    with pytest.raises(BogusMeasurement) as excinfo, bench.roofline.audit() as audit:
        for _ in range(20):
            start = time.perf_counter()
            bench.model.step()
            samples.append(time.perf_counter() - start)
        bench.drain()
        audit.claim(tokens=20, samples=samples)
    assert bogus(excinfo) == ["not-drained"]


def test_a_stated_window_is_drained_at_both_ends() -> None:
    """`audit.window()` needs no clock read, and charges what was left over."""
    bench = Bench()
    with bench.roofline.audit(traffic=WEIGHTS) as audit:
        with audit.window():
            for _ in range(32):
                bench.model.step()
            bench.drain()
        audit.claim(tokens=32)
    assert audit.result.verdict.outcome == "passed"
    assert audit.result.tokens_per_s == pytest.approx(200, rel=0.02)


def test_more_tokens_than_ids_is_bogus() -> None:
    """A prompt counted as output is seen in the ids."""
    bench = Bench()
    with pytest.raises(BogusMeasurement, match="32 ids returned") as excinfo, bench.roofline.audit() as audit:
        start = time.perf_counter()
        ids = [bench.model.step() for _ in range(32)]
        bench.drain()
        audit.claim(tokens=1032, seconds=time.perf_counter() - start, ids=ids)
    assert bogus(excinfo) == ["tokens-disagree"]


def test_watched_passes_fewer_than_claimed_are_inconclusive() -> None:
    """Without ids, more tokens than the watched passes can have made may be speculation: no verdict."""
    bench = Bench()
    with bench.roofline.audit() as audit:
        step = audit.watch(bench.model.step)
        start = time.perf_counter()
        for _ in range(32):
            step()
        bench.drain()
        audit.claim(tokens=64, seconds=time.perf_counter() - start)
    assert audit.result.verdict.outcome == "inconclusive"
    assert "tokens-disagree" in checks(audit.result, "inconclusive")


def test_a_claim_without_a_clock_read_is_judged_by_its_events() -> None:
    """Device events instead of host clocks: they are the window, and a note says so."""
    bench = Bench()
    with bench.roofline.audit(traffic=WEIGHTS) as audit:
        first = bench.backend.event()
        last = bench.backend.event()
        first.record()
        for _ in range(32):
            bench.model.step()
        last.record()
        last.synchronize()
        audit.claim(tokens=32, seconds=first.elapsed_s(last))
    assert audit.result.verdict.outcome == "passed"
    assert any("timed by device events (FakeEvent)" in note for note in audit.result.notes)


def test_seconds_longer_than_the_audit_are_bogus() -> None:
    """Milliseconds claimed as seconds do not fit into the audit."""
    bench = Bench()
    with pytest.raises(BogusMeasurement, match="another unit") as excinfo, bench.roofline.audit() as audit:
        for _ in range(32):
            bench.model.step()
        bench.drain()
        audit.claim(tokens=32, seconds=160.0)
    assert bogus(excinfo) == ["claim-exceeds-closed-time"]


@pytest.mark.parametrize("seconds", [0.0, -1.78e-3])
def test_no_time_and_negative_time_are_bogus(seconds: float) -> None:
    """An elapsed time of zero or less is a broken timer."""
    bench = Bench()
    with pytest.raises(BogusMeasurement, match="no work takes") as excinfo, bench.roofline.audit() as audit:
        bench.model.step()
        bench.drain()
        audit.claim(tokens=1, seconds=seconds)
    assert bogus(excinfo) == ["claim-exceeds-closed-time"]


def test_a_claim_after_the_block_is_judged_there() -> None:
    """Bogus raises at the later of claim and exit."""
    bench = Bench()
    with bench.roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(32):
            bench.model.step()
        elapsed = time.perf_counter() - start
    with pytest.raises(BogusMeasurement, match="missing synchronization"):
        audit.claim(tokens=32, seconds=elapsed)


def test_an_audit_without_a_claim_stays_open() -> None:
    """Whoever ends the test can see that nothing was claimed."""
    bench = Bench()
    with bench.roofline.audit() as audit:
        bench.model.step()
    assert audit.is_open
    with pytest.raises(RooflineUsageError, match="no result yet"):
        _ = audit.result


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": 0, "seconds": 1}, "tokens is 0"),
        ({"tokens": 1, "seconds": float("nan")}, "seconds is nan"),
        ({"tokens": True, "seconds": 1}, "tokens is True"),
        ({"tokens_per_s": -5}, "tokens_per_s is -5"),
        ({"seconds": 1}, "no tokens"),
        ({"tokens": 5}, "neither seconds nor a rate"),
    ],
)
def test_bad_claims_are_usage_errors(arguments: dict[str, Any], message: str) -> None:
    """Wrong figures are refused at the claim or the exit, with the figure named."""
    bench = Bench()
    with pytest.raises(RooflineUsageError, match=message), bench.roofline.audit() as audit:
        audit.claim(**arguments)


def test_an_audit_is_used_once() -> None:
    """Entering twice, or claiming twice, is refused with what to do instead."""
    bench = Bench()
    audit = bench.roofline.audit()
    with audit:
        bench.model.step()
        audit.claim(tokens=1, seconds=5e-3)
        with pytest.raises(RooflineUsageError, match="one claim"):
            audit.claim(tokens=1, seconds=5e-3)
    with pytest.raises(RooflineUsageError, match="entered once"):
        audit.__enter__()


def test_work_from_before_is_not_charged() -> None:
    """The device is drained before the audit starts, so a neighbour's leftover is not this window's."""
    bench = Bench()
    for _ in range(20):
        bench.model.step()
    with bench.roofline.audit(traffic=WEIGHTS) as audit:
        start = time.perf_counter()
        for _ in range(32):
            bench.model.step()
        bench.drain()
        audit.claim(tokens=32, seconds=time.perf_counter() - start)
    assert audit.result.step_s == pytest.approx(5e-3, rel=0.02)


def test_a_lazy_graph_behind_a_correct_synchronize_is_bogus() -> None:
    """A lazy framework runs nothing until its outputs are forced: synchronizing proves nothing."""
    bench = Bench(is_lazy=True)
    with pytest.raises(BogusMeasurement, match="never evaluated") as excinfo, bench.roofline.audit() as audit:
        start = time.perf_counter()
        outputs = [bench.model.step() for _ in range(32)]
        bench.drain()
        audit.claim(tokens=32, seconds=time.perf_counter() - start, outputs=outputs)
    assert bogus(excinfo) == ["output-not-forced"]


def test_off_measures_nothing_and_believes_everything() -> None:
    """With --roofline=off the audit only runs."""
    bench = Bench(Settings(mode="off"))
    with bench.roofline.audit(traffic=WEIGHTS) as audit:
        start = time.perf_counter()
        bench.model.step()
        audit.claim(tokens=1, seconds=time.perf_counter() - start)
    assert audit.result.fraction is not None
    assert audit.result.fraction >= 0.99
    assert repr(audit.result.fraction) == "not measured (--roofline=off)"


def test_a_rate_that_its_own_seconds_do_not_give_is_bogus() -> None:
    """tokens, seconds and tokens_per_s of one claim have to agree: the rate is what is claimed."""
    bench = Bench()
    with pytest.raises(BogusMeasurement, match="claimed, but") as excinfo, bench.roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(32):
            bench.model.step()
        bench.drain()
        elapsed = time.perf_counter() - start
        audit.claim(tokens=32, seconds=elapsed, tokens_per_s=10 * 32 / elapsed)
    assert bogus(excinfo) == ["claim-exceeds-closed-time"]
