"""The size knob: a larger step, given by the test, has to be possible too."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from court import loop

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.checks.confronted import Alternation
from pytest_roofline.checks.evidence import Evidence, Limit
from pytest_roofline.checks.scaling import does_not_grow
from pytest_roofline.checks.sized import Sized
from pytest_roofline.errors import BogusMeasurement, RooflineUsageError
from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings
from pytest_roofline.verdict import judge

GB = 1e9


def sized(rate: float, *, probe: float = 1e12, turns: int = 5, ratio: float = 4.0) -> Sized:
    """Turns whose blocks show this rate."""
    turn = Alternation(probe_before_bytes_per_s=probe, block_bytes_per_s=rate, probe_after_bytes_per_s=probe)
    return Sized(bytes_per_pass=9 * GB, least_bytes_from_memory=8 * GB, bytes_ratio=ratio, turns=(turn,) * turns)


def limit(bytes_per_s: float, *, is_measured: bool) -> Limit:
    """A sheet, or the best of all probes."""
    slack, source = (1.25, "best of all probes") if is_measured else (1.05, "sheet")
    return Limit(bytes_per_s=bytes_per_s, slack=slack, source=source, is_measured=is_measured)


@pytest.mark.parametrize(
    ("rate", "is_measured", "severity"),
    [
        (1.06e12, False, "bogus"),
        (1.04e12, False, None),
        (1.26e12, True, "bogus"),
        (1.24e12, True, None),
        (inf, False, "bogus"),
    ],
)
def test_a_larger_step_beyond_the_limit_is_bogus(rate: float, is_measured: bool, severity: str | None) -> None:
    """By the slack of what the limit rests on, both sides of it; a block of no time at all is beyond everything."""
    evidence = replace(loop(), limit=limit(1e12, is_measured=is_measured), sized=sized(rate))
    finding = does_not_grow(evidence)
    assert (finding.severity if finding else None) in ({severity} if severity else {None, "note"})
    if severity == "bogus":
        assert finding is not None
        assert finding.check == "does-not-scale"
        assert "the time does not grow with the size" in finding.message
        assert "8.00 GB per pass of the larger step that no cache can hold" in finding.message
        assert finding.remedy
        assert judge(evidence, 0.8).outcome == "bogus"
        assert judge(replace(evidence, allow=frozenset({"does-not-scale"})), 0.8).outcome != "bogus"
        json.dumps(finding.figures, allow_nan=False)


def test_one_possible_turn_accuses_nobody() -> None:
    """Each of the five has to be impossible, beside its own probes."""
    good = sized(2e12)
    slow = replace(good.turns[0], probe_after_bytes_per_s=2e12)
    evidence = replace(loop(), limit=limit(1e12, is_measured=True), sized=replace(good, turns=(*good.turns[:4], slow)))
    finding = does_not_grow(evidence)
    assert finding is None or finding.severity == "note"


@pytest.mark.parametrize("missing", [{"sized": None}, {"limit": None}, {"sized": sized(9e12, turns=4)}])
def test_without_its_evidence_it_is_silent(missing: dict[str, Any]) -> None:
    """No larger step, no limit, or fewer than five turns."""
    assert does_not_grow(replace(loop(), **{"sized": sized(9e12), **missing})) is None


def test_a_time_that_hardly_grows_is_a_note() -> None:
    """Launches may cost more than bytes: that is said, and accuses nobody."""
    own_s = loop().samples[0].closed_step_s
    evidence: Evidence = replace(loop(), sized=sized(8 * GB / (1.02 * own_s)), limit=limit(1e15, is_measured=False))
    finding = does_not_grow(evidence)
    assert finding is not None
    assert finding.severity == "note"
    assert finding.message.endswith("what takes the time is not the bytes")
    assert judge(evidence, 0.8).outcome == judge(replace(evidence, sized=None), 0.8).outcome


# -- through the instrument


def instrument(**device: Any) -> tuple[Instrument, FakeBackend]:
    """A fake device of 1 TB/s."""
    backend = FakeBackend(**{"read_bytes_per_s": 1e12, "launch_s": 2e-6, "memory_bytes": 200 * GB, **device})
    return Instrument(Session(added_backends=[backend]), Settings(max_time_s=2.0)), backend


def test_an_honest_step_grows() -> None:
    """Twice the bytes take twice the time: nothing is found, and the record has what the larger step took."""
    roofline, backend = instrument()
    small, large = (FakeModel(backend, size, efficiency=0.8) for size in (2 * GB, 4 * GB))
    result = roofline.decode(small.step, model=small, reset=small.reset, larger=(large.step, 4 * GB))
    assert result.verdict.outcome == "passed"
    assert not [finding for finding in result.findings if finding.check == "does-not-scale"]
    record = result.to_dict()["sized"]
    assert record["bytes_ratio"] == pytest.approx(2, rel=0.01)
    assert len(record["passes_s"]) == 5


def launches(backend: FakeBackend, share: float) -> Callable[[], Any]:
    """A step that moves this share of 2 GB, whatever it was asked for."""
    model = FakeModel(backend, share * 2 * GB, efficiency=0.95)
    return model.step


def test_work_that_is_the_same_at_every_size_is_bogus() -> None:
    """Under the ceiling at one size; at eight times the size it would be six times over it."""
    roofline, backend = instrument()
    step = launches(backend, 1.0)
    with pytest.raises(BogusMeasurement, match="8x the bytes takes 1x the time"):
        roofline.decode(step, traffic=2 * GB, larger=(step, 16 * GB))


def test_a_step_of_launches_is_only_noted() -> None:
    """A step at a tenth of its ceiling need not grow when it moves twice the bytes."""
    roofline, backend = instrument()
    step = launches(backend, 10.0)
    result = roofline.decode(step, traffic=2 * GB, larger=(step, 4 * GB))
    (finding,) = (finding for finding in result.findings if finding.check == "does-not-scale")
    assert finding.severity == "note"


def test_a_kernel_has_a_size_too() -> None:
    """The same for calls."""
    roofline, backend = instrument()
    step = launches(backend, 1.0)
    with pytest.raises(BogusMeasurement, match="does not grow with the size"):
        roofline.kernel(step, bytes_read=2 * GB, larger=(step, 16 * GB))


def test_what_a_cache_can_hold_is_not_run() -> None:
    """A larger step under the knee can take any time."""
    roofline, backend = instrument(cache_bytes=4 * GB)
    step = launches(backend, 1.0)
    result = roofline.decode(step, traffic=2 * GB, larger=(step, 3.2 * GB))
    assert result.evidence is not None
    assert result.evidence.sized is None


@pytest.mark.parametrize("larger", [3, (1, 2), (print,), (print, 1, 2), "ab"])
def test_a_wrong_pair_is_a_usage_error(larger: Any) -> None:
    """Said before anything runs."""
    roofline, backend = instrument()
    with pytest.raises(RooflineUsageError, match="larger= takes a pair: a step of more work, and its traffic"):
        roofline.decode(launches(backend, 1.0), traffic=2 * GB, larger=larger)


def test_a_larger_step_must_be_larger() -> None:
    """By half at least, with both figures in the message."""
    roofline, backend = instrument()
    step = launches(backend, 1.0)
    with pytest.raises(RooflineUsageError, match=r"at least 2\.80 GB per pass, the step 2\.00 GB: .* 1\.5 times"):
        roofline.decode(step, traffic=2 * GB, larger=(step, 2.8 * GB))
