"""``pytest --roofline-selftest``: a handful of cheats on the user's own device, each of which has to be refused.

They run in place of the project's tests. A cheat that this device cannot express (an undrained loop where nothing is
asynchronous) is skipped with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_roofline.errors import BogusMeasurement
from pytest_roofline.instrument import Instrument

WEIGHT_BYTES = 2**27
SIZE = 4096
STEPS = 16
MAX_TIME_S = 3.0


class Subject:
    """A matrix on the device under test, and one pass over it."""

    def __init__(self, torch: Any, device: str) -> None:
        self.torch = torch
        self.is_asynchronous = device != "cpu"
        self.weights = torch.randn(WEIGHT_BYTES // 4 // SIZE, SIZE, device=device)
        self.state = torch.randn(SIZE, device=device)

    @property
    def traffic_bytes(self) -> float:
        """Of one pass."""
        return float(self.weights.nbytes)

    def step(self) -> Any:
        """Multiply by all weights."""
        return self.torch.mv(self.weights, self.state)

    def ids(self) -> Any:
        """The same, and a token from it."""
        return self.step().argmax(keepdim=True)


@pytest.fixture
def subject(roofline_device: Any) -> Subject:
    """On the device that tests measure on; skipped where torch does not drive it."""
    torch = pytest.importorskip("torch")
    if roofline_device.backend not in ("torch", "cpu"):
        pytest.skip(f"the canaries need torch, and {roofline_device.id} is driven by {roofline_device.backend}")
    return Subject(torch, roofline_device.id)


def refused(run: Callable[[], object]) -> str:
    """What the court said; a failure where it said nothing."""
    with pytest.raises(BogusMeasurement) as caught:
        run()
    words = str(caught.value).splitlines()[0]
    print(words)
    return words


def test_a_clock_stopped_before_the_device(roofline: Instrument, subject: Subject) -> None:
    """A loop without a wait."""
    if not subject.is_asynchronous:
        pytest.skip("nothing is asynchronous on a CPU: there is no clock to stop too early")

    def cheat() -> None:
        with roofline.audit(traffic=subject.traffic_bytes) as audit:
            start = time.perf_counter()
            for _ in range(STEPS):
                output = subject.step()
            audit.claim(tokens=STEPS, seconds=time.perf_counter() - start, outputs=output)

    assert "missing synchronization" in refused(cheat)


def test_a_time_divided_by_ten(roofline: Instrument, subject: Subject) -> None:
    """The clock is honest, and what is claimed of it is not."""

    def cheat() -> None:
        with roofline.audit(traffic=subject.traffic_bytes) as audit:
            start = time.perf_counter()
            for _ in range(STEPS):
                subject.step().sum().item()
            audit.claim(tokens=STEPS, seconds=(time.perf_counter() - start) / 10)

    assert "claim" in refused(cheat)


def test_bytes_counted_twice(roofline: Instrument, subject: Subject) -> None:
    """Half of what is declared is read."""
    traffic = 2 * subject.traffic_bytes
    assert "bytes-disagree" in refused(
        lambda: roofline.decode(subject.step, traffic=traffic, reset=lambda: None, max_time_s=MAX_TIME_S)
    )


def test_a_prompt_counted_as_output(roofline: Instrument, subject: Subject) -> None:
    """Nine tokens are claimed for each id that comes out."""

    def cheat() -> object:
        return roofline.decode(
            subject.ids, traffic=subject.traffic_bytes, tokens_per_pass=9, reset=lambda: None, max_time_s=MAX_TIME_S
        )

    assert "tokens-disagree" in refused(cheat)


def test_a_remembered_result(roofline: Instrument, subject: Subject) -> None:
    """The first pass works, and the others return what it made."""
    made: list[Any] = []

    def step() -> Any:
        made[:] = made or [subject.step()]
        return made[0]

    refused(lambda: roofline.decode(step, traffic=subject.traffic_bytes, reset=lambda: None, max_time_s=MAX_TIME_S))


def test_an_honest_pass(roofline: Instrument, subject: Subject) -> None:
    """The same pass without a trick is not refused."""
    result = roofline.decode(subject.step, traffic=subject.traffic_bytes, reset=lambda: None, max_time_s=MAX_TIME_S)
    assert result.verdict.outcome != "bogus"
