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


def test_slow_probes_between_the_blocks_accuse_nobody() -> None:
    """Launches slow a short probe more than a long block: the limit itself has to be beaten."""
    evidence = replace(loop(), limit=limit(1e12, is_measured=True), sized=sized(0.9e12, probe=0.5e12))
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


def not_held(result: Any) -> str:
    """The note that says why the larger step was not run."""
    assert result.evidence is not None
    assert result.evidence.sized is None
    (note,) = (note for note in result.notes if note.startswith("larger= was not held against the limit: "))
    return str(note.partition(": ")[2])


def test_what_a_cache_can_hold_is_not_run() -> None:
    """A larger step under the knee can take any time."""
    roofline, backend = instrument(cache_bytes=4 * GB)
    step = launches(backend, 1.0)
    result = roofline.decode(step, traffic=2 * GB, larger=(step, 3.2 * GB))
    assert not_held(result).startswith("caches (")


@pytest.mark.parametrize("rotates", [False, True])
def test_a_cold_kernel_keeps_no_cache_cold_for_the_larger_one(rotates: bool) -> None:
    """Evictions, and inputs that rotate, are of the judged calls: a larger one that a cache holds is honest."""
    roofline, backend = instrument(cache_bytes=0.04 * GB)
    small, large = (FakeModel(backend, size, efficiency=0.9, layers=1) for size in (0.008 * GB, 0.03 * GB))
    inputs = [(backend.buffer(0.02 * GB),) for _ in range(10)] if rotates else None
    result = roofline.kernel(
        lambda *_: small.step(), bytes_read=0.008 * GB, inputs=inputs, larger=(large.step, 0.03 * GB)
    )
    assert "give a larger one" in not_held(result)


@pytest.mark.parametrize("is_shared", [False, True])
def test_the_larger_step_has_the_room_of_the_judged_one(is_shared: bool) -> None:
    """With a cache of its own, or two passes with that of the judged step: never more than it holds."""
    roofline, backend = instrument()
    small, own = (
        FakeModel(backend, size, kv_bytes_per_token=1e5, max_context=16, efficiency=0.8) for size in (2 * GB, 4 * GB)
    )

    def twice() -> Any:
        small.step()
        return small.step()

    result = roofline.decode(
        small.step, model=small, reset=small.reset, larger=(twice if is_shared else own.step, 4 * GB)
    )
    assert result.verdict.outcome == "passed"
    assert len(result.to_dict()["sized"]["passes_s"]) == 5


def test_no_room_for_five_blocks_is_said() -> None:
    """A cache of four tokens is never overrun for a second opinion."""
    roofline, backend = instrument()
    small = FakeModel(backend, 2 * GB, kv_bytes_per_token=1e5, max_context=4)
    result = roofline.decode(small.step, model=small, reset=small.reset, larger=(launches(backend, 2.0), 4 * GB))
    assert not_held(result) == "passes_per_reset=4 is no room for five blocks of it"


def test_a_larger_step_beyond_the_memory_is_not_run() -> None:
    """A part of it lies somewhere else, and two memories are faster than one."""
    roofline, backend = instrument(memory_bytes=20 * GB)
    result = roofline.decode(launches(backend, 1.0), traffic=2 * GB, larger=(launches(backend, 0.1), 64 * GB))
    assert "does not fit into the 20.0 GB of the device" in not_held(result)


def test_the_share_that_comes_over_the_link_is_that_of_the_judged_step() -> None:
    """Half of the weights in another memory, read at the same time: the larger step has half of them there, too."""
    roofline, backend = instrument(link_bytes_per_s=0.9e12)
    small, large = launches(backend, 0.55), launches(backend, 1.1)
    result = roofline.decode(small, traffic=2 * GB, offload=0.5, overlap=True, larger=(large, 4 * GB))
    assert result.verdict.outcome != "bogus"
    assert result.evidence is not None
    assert result.evidence.sized is not None
    assert result.evidence.sized.least_bytes_from_memory <= 2 * GB


def test_a_remembered_larger_output_is_bogus() -> None:
    """A memo by shape shows at the second size."""
    roofline, backend = instrument()
    small, large = (FakeModel(backend, size, efficiency=0.8) for size in (2 * GB, 4 * GB))
    kept = large.step()
    with pytest.raises(BogusMeasurement, match=r"does not grow with the size(.|\n)*memory was never written"):
        roofline.decode(small.step, model=small, reset=small.reset, larger=(lambda: kept, 4 * GB))


@pytest.mark.parametrize("sheet", ["derived", None])
@pytest.mark.parametrize(("layers", "launch_s"), [(1, 2e-6), (64, 2e-5), (1, 5e-4)])
@pytest.mark.parametrize("efficiency", [0.05, 0.5, 0.99])
def test_no_honest_larger_step_is_accused(layers: int, launch_s: float, efficiency: float, sheet: str | None) -> None:
    """Bound by launches or by arithmetic, poor kernels and perfect ones, with a sheet and without."""
    roofline, backend = instrument(launch_s=launch_s, sheet_bytes_per_s=sheet)
    small, large = (FakeModel(backend, size, efficiency=efficiency, layers=layers) for size in (1 * GB, 2 * GB))
    result = roofline.decode(small.step, model=small, reset=small.reset, larger=(large.step, large))
    assert result.verdict.outcome != "bogus"


def test_without_the_bytes_of_the_step_there_is_nothing_larger() -> None:
    """A kernel of which only the arithmetic is known."""
    roofline, backend = instrument()
    step = launches(backend, 1.0)
    with pytest.raises(RooflineUsageError, match="larger= needs the bytes of the step that is judged: give traffic="):
        roofline.kernel(step, flops=1e12, larger=(step, 4 * GB))


@pytest.mark.parametrize("larger", [3, (1, 2), (print,), (print, 1, 2), "ab"])
def test_a_wrong_pair_is_a_usage_error(larger: Any) -> None:
    """Said before anything runs."""
    roofline, backend = instrument()
    with pytest.raises(RooflineUsageError, match="larger= takes a pair: a step of more work, and its traffic"):
        roofline.decode(launches(backend, 1.0), traffic=2 * GB, larger=larger)


def test_a_larger_step_must_be_larger() -> None:
    """By half at least, with both figures in the message, and before anything is timed."""
    roofline, backend = instrument()
    step = launches(backend, 1.0)
    with pytest.raises(RooflineUsageError, match=r"at least 2\.80 GB per pass, the step 2\.00 GB: .* 1\.5 times"):
        roofline.decode(step, traffic=2 * GB, larger=(step, 2.8 * GB))


def test_a_probe_that_is_not_trusted_accuses_nobody() -> None:
    """Without a sheet its best rate is the limit, and it says itself that it does not know the memory."""
    evidence = replace(loop(), limit=limit(1e12, is_measured=True), sized=sized(2e12))
    finding = does_not_grow(evidence)
    assert finding is not None
    assert finding.severity == "bogus"
    doubted = does_not_grow(replace(evidence, probe_doubts=("the rate was still rising",)))
    assert doubted is None or doubted.severity == "note"
