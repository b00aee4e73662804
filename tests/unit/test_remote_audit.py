"""Audits of engines in another process: on a fake device that nobody drains, and on a real child of this process."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.errors import BogusMeasurement, MeasurementError, RooflineUsageError
from pytest_roofline.instrument import Instrument
from pytest_roofline.receipts import NOT_SEEN, SEVERAL, UNRECEIVED
from pytest_roofline.result import Result
from pytest_roofline.session import Session

WEIGHTS = 4e9


class Engine:
    """Takes a request at once, works on a device that the test cannot see, and yields an id when each pass is done."""

    def __init__(self) -> None:
        self.backend = FakeBackend()
        self.model = FakeModel(self.backend, WEIGHTS, efficiency=0.8)
        self.roofline = Instrument(Session(added_backends=[self.backend]))

    def submit(self, tokens: int) -> None:
        """All passes are queued; nobody has waited."""
        for _ in range(tokens):
            self.model.step()

    def ids(self, tokens: int) -> Iterator[int]:
        """One id after each pass."""
        for number in range(tokens):
            self.model.step()
            self.backend.synchronize()
            yield number


def found(result: Result) -> set[tuple[str, str]]:
    """Check and severity of each finding."""
    return {(finding.check, finding.severity) for finding in result.findings}


def test_an_honest_remote_audit_passes_with_the_true_fraction() -> None:
    """Ids that came before the stop close the window; what could not be checked is listed."""
    engine = Engine()
    with engine.roofline.audit(traffic=WEIGHTS, remote=True) as audit:
        start = time.perf_counter()
        ids = list(audit.received(engine.ids(50)))
        elapsed = time.perf_counter() - start
        audit.claim(tokens=50, seconds=elapsed, ids=ids)
    assert audit.result.verdict.outcome == "passed"
    assert audit.result.kind == "remote"
    assert float(audit.result.fraction) == pytest.approx(0.8, rel=0.03)
    assert audit.result.not_checked == NOT_SEEN


def test_a_clock_that_stopped_before_the_ids_came_is_bogus() -> None:
    """Submitted and timed, then received: the message says when the last id was received."""
    engine = Engine()
    with (
        pytest.raises(BogusMeasurement, match=r"but the last id was received at .*missing synchronization") as caught,
        engine.roofline.audit(traffic=WEIGHTS, remote=True) as audit,
    ):
        start = time.perf_counter()
        stream = audit.received(engine.ids(50))
        elapsed = time.perf_counter() - start
        ids = list(stream)
        audit.claim(tokens=50, seconds=elapsed, ids=ids)
    assert "[not-drained]" in str(caught.value)
    assert "stop the clock when the last id has been received" in str(caught.value)


def test_a_run_after_the_timed_one_accuses_nobody() -> None:
    """What comes after as many ids as were claimed belongs to another run."""
    engine = Engine()
    with engine.roofline.audit(traffic=WEIGHTS, remote=True) as audit:
        list(audit.received(engine.ids(5)))
        start = time.perf_counter()
        ids = list(audit.received(engine.ids(50)))
        elapsed = time.perf_counter() - start
        list(audit.received(engine.ids(50)))
        audit.claim(tokens=50, seconds=elapsed, ids=ids)
    assert audit.result.verdict.outcome == "passed"


def test_more_tokens_than_ids_that_came_is_bogus() -> None:
    """Also where the claim gives no ids of its own: those that were received are counted."""
    engine = Engine()
    with (
        pytest.raises(BogusMeasurement, match="100 tokens claimed, 50 ids returned"),
        engine.roofline.audit(traffic=WEIGHTS, remote=True) as audit,
    ):
        start = time.perf_counter()
        list(audit.received(engine.ids(50)))
        audit.claim(tokens=100, seconds=time.perf_counter() - start)


def test_the_limit_convicts_what_was_never_received() -> None:
    """Passes that were only submitted: no drain shows it here, and the device cannot be so fast."""
    engine = Engine()
    with (
        pytest.raises(BogusMeasurement, match="this device cannot exceed"),
        engine.roofline.audit(traffic=WEIGHTS, remote=True) as audit,
    ):
        start = time.perf_counter()
        engine.submit(50)
        elapsed = time.perf_counter() - start
        audit.claim(tokens=50, seconds=elapsed, ids=list(range(50)))


def test_without_ids_a_remote_audit_is_wrong_use() -> None:
    """They are its drain. A local audit has no receipts, and what is no ids is refused."""
    engine = Engine()
    with pytest.raises(RooflineUsageError, match="drained by its ids"), engine.roofline.audit(remote=True) as audit:
        audit.claim(tokens=50, seconds=1.0)
    with pytest.raises(RooflineUsageError, match="audit\\(remote=True\\)"), engine.roofline.audit() as audit:
        audit.received([1])
    with pytest.raises(RooflineUsageError, match="cannot be seen"), engine.roofline.audit(remote=True) as audit:
        audit.watch(engine.model.step)
    with pytest.raises(RooflineUsageError, match="given a str"), engine.roofline.audit(remote=True) as audit:
        list(audit.received(["text"]))


def test_ids_that_are_only_claimed_are_believed_and_said() -> None:
    """An engine that returns everything at once: nobody saw when; several stretches are not told apart."""
    engine = Engine()
    with engine.roofline.audit(traffic=WEIGHTS, remote=True) as audit:
        start = time.perf_counter()
        ids = list(engine.ids(50))
        audit.claim(tokens=50, seconds=time.perf_counter() - start, ids=ids)
    assert audit.result.verdict.outcome == "passed"
    assert UNRECEIVED in audit.result.not_checked
    with engine.roofline.audit(traffic=WEIGHTS, remote=True) as audit:
        samples = []
        for _ in range(3):
            start = time.perf_counter()
            ids = list(audit.received(engine.ids(20)))
            samples.append(time.perf_counter() - start)
        audit.claim(tokens=60, samples=samples, ids=ids * 3)
    assert audit.result.verdict.outcome == "passed"
    assert SEVERAL in audit.result.not_checked


def test_memory_that_the_engine_took_leaves_the_first_probe_as_the_ruler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ruler of under four knees is not used: the note says so. A local audit has no such excuse."""
    engine = Engine()
    engine.roofline._session.probe(engine.backend.devices()[0])  # before the engine takes the memory

    def short(*details: Any, **more: Any) -> None:
        raise MeasurementError("no room for a read of 128 MB")

    monkeypatch.setattr("pytest_roofline.bench.Ruler", short)
    with engine.roofline.audit(traffic=WEIGHTS, remote=True) as audit:
        start = time.perf_counter()
        ids = list(audit.received(engine.ids(50)))
        audit.claim(tokens=50, seconds=time.perf_counter() - start, ids=ids)
    (note,) = (note for note in audit.result.notes if note.startswith("the memory is taken"))
    assert note.endswith("no room for a read of 128 MB")
    assert float(audit.result.fraction) == pytest.approx(0.8, rel=0.03)
    with pytest.raises(MeasurementError), engine.roofline.audit(traffic=WEIGHTS):
        pass


def work(pipe: Connection) -> None:
    """The other process: sums memory of its own for each token, and sends its id."""
    import array

    data = array.array("d", bytes(8 * 200_000))
    while (tokens := pipe.recv()) is not None:
        for number in range(tokens):
            sum(data)
            pipe.send(number)


@pytest.fixture
def worker() -> Iterator[Connection]:
    """A child of this process that works."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=work, args=(there,), daemon=True)
    child.start()
    yield here
    here.send(None)
    child.join(20)


@pytest.mark.parametrize("has_waited", [True, False])
def test_a_step_in_a_child_process(worker: Connection, has_waited: bool) -> None:
    """By the real clock: who waits for the ids is believed, who times the sending is not."""
    roofline = Instrument(Session())
    audit = roofline.audit(remote=True, device="cpu")

    def run() -> None:
        with audit:
            start = time.perf_counter()
            worker.send(40)
            stream = audit.received(worker.recv() for _ in range(40))
            if has_waited:
                ids = list(stream)
                elapsed = time.perf_counter() - start
            else:
                elapsed = time.perf_counter() - start
                ids = list(stream)
            audit.claim(tokens=40, seconds=elapsed, ids=ids)

    if has_waited:
        run()
        assert audit.result.verdict.outcome == "passed"
        assert set(NOT_SEEN) <= set(audit.result.not_checked)
    else:
        with pytest.raises(BogusMeasurement, match="the last id was received at"):
            run()
