"""Throttling: it takes failures away that its clocks explain, and does nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from court import MEASURED, SHEET, audit, ceiling, loop, sample, traced
from test_nvml import Library

from pytest_roofline.backends.nvml import Nvml
from pytest_roofline.checks.environment import throttled
from pytest_roofline.checks.evidence import Clocks, Evidence
from pytest_roofline.conditions import QUOTA, Conditions, Stretch, stretch_of
from pytest_roofline.roofline import Interval
from pytest_roofline.verdict import judge

HOT = ("thermal slowdown (hardware)",)
TOP_HZ = 2.619e9


def clocks_of(before: Conditions, after: Conditions) -> Clocks | None:
    """The evidence made of two readings, a second apart."""
    return Clocks.of(stretch_of(before, after, elapsed_s=1.0, memory_clock_hz=TOP_HZ))


def missed(fraction: float = 0.4, **figures: Any) -> Evidence:
    """A decode at 40 % that is asked for 60 %."""
    return loop(**{"fraction": Interval(low=fraction, high=fraction), "at_least": 0.6, **figures})


@pytest.mark.parametrize(
    ("memory_share", "severity"),
    [(None, "note"), (1.0, "note"), (0.7, "note"), (0.5, "inconclusive")],
)
def test_the_memory_clock_excuses_what_memory_bounds(memory_share: float | None, severity: str) -> None:
    """The probes read 91 % of the sheet, so they ran at 91 % of the clock at least: half of it explains 1.8x."""
    found = throttled(missed(clocks=Clocks(compute_share=None, memory_share=memory_share, reasons=HOT)))
    assert found is not None
    assert found.severity == severity


def test_the_message_says_reason_clock_and_gap() -> None:
    """What the device said, by how much, and what it may have cost."""
    found = throttled(missed(clocks=Clocks(memory_share=0.5, reasons=HOT)))
    assert found is not None
    assert found.message == (
        "the device throttled itself while it was measured (thermal slowdown (hardware)): its memory clock ran at 50 % "
        "of its maximum, which may have slowed this pass by 1.8x: 40 % may be up to 73 % at full clocks, the test asks "
        "for 60 %"
    )
    assert found.remedy.startswith("let the device cool down")
    assert judge(missed(clocks=Clocks(memory_share=0.5, reasons=HOT)), 0.4).outcome == "inconclusive"


def test_the_compute_clock_does_not_excuse_what_memory_bounds() -> None:
    """A power cap lowers the clock of the compute units alone."""
    found = throttled(missed(clocks=Clocks(compute_share=0.4, memory_share=1.0, reasons=("power cap",))))
    assert found is not None
    assert found.severity == "note"


def test_where_the_memory_clock_is_not_known_the_other_one_speaks() -> None:
    """Better than nothing: the device is throttled, and nobody else says by how much."""
    found = throttled(missed(clocks=Clocks(compute_share=0.4, reasons=HOT)))
    assert found is not None
    assert found.severity == "inconclusive"
    assert "its compute clock ran at 40 %" in found.message


def test_probes_that_were_throttled_too_leave_nothing_to_excuse() -> None:
    """Half the sheet at half the clock: the fraction is of that, and a miss is one."""
    slow = sample(0.4, ruler_before_bytes_per_s=0.5e12, ruler_after_bytes_per_s=0.5e12)
    found = throttled(missed(samples=(slow,) * 9, clocks=Clocks(memory_share=0.5, reasons=HOT)))
    assert found is not None
    assert found.severity == "note"
    assert found.figures["slowdown"] == 1.0


@pytest.mark.parametrize(("is_measured", "severity"), [(True, "inconclusive"), (False, "note")])
def test_the_compute_clock_excuses_what_arithmetic_bounds(is_measured: bool, severity: str) -> None:
    """Unless the peak it is held against was measured at that clock: half of what is printed, at half the clock."""
    of = traced(flops_per_pass=1e15)
    found = throttled(
        missed(
            ceiling=ceiling(of, peak_flops_per_s=1e14),
            traffic=of,
            peak_limit_flops_per_s=1e14 if is_measured else 2e14,
            is_peak_limit_measured=is_measured,
            clocks=Clocks(compute_share=0.5, memory_share=1.0, reasons=HOT),
        )
    )
    assert found is not None
    assert found.severity == severity


def test_a_window_is_excused_by_the_probes_around_it() -> None:
    """An audit has no samples: its fraction tells what was probed."""
    slow = audit(
        fraction=Interval(low=0.4, high=0.4),
        at_least=0.6,
        limit=SHEET,
        clocks=Clocks(memory_share=0.5, reasons=HOT),
    )
    found = throttled(slow)
    assert found is not None
    assert found.severity == "inconclusive"


@pytest.mark.parametrize("clocks", [None, Clocks(), Clocks(memory_share=0.2)])
def test_a_device_that_admits_nothing_is_not_excused(clocks: Clocks | None) -> None:
    """Low clocks without a reason are those of an idle device."""
    assert throttled(missed(clocks=clocks)) is None
    assert judge(missed(clocks=clocks), 0.4).outcome == "failed"


def test_it_neither_creates_a_failure_nor_excuses_a_wonder() -> None:
    """A hit stays a hit, a rate that cannot be stays bogus."""
    clocks = Clocks(memory_share=0.5, reasons=HOT)
    assert judge(loop(at_least=0.6, clocks=clocks), 0.8).outcome == "passed"
    assert judge(loop(*(5.0,) * 9, at_least=0.6, clocks=clocks), 5.0).outcome == "bogus"


def marked(count: int, *, share: float = 0.5) -> Evidence:
    """Nine samples at 40 %, so many of which ran at this share of the memory clock, and say so."""
    hot = Stretch(memory_share=share, reasons=HOT)
    samples = tuple(sample(0.4, conditions=hot if number < count else Stretch()) for number in range(9))
    return missed(samples=samples, clocks=Clocks(memory_share=share, reasons=HOT))


@pytest.mark.parametrize(("count", "severity"), [(1, "note"), (9, "inconclusive")])
def test_each_sample_is_excused_by_its_own_clock(count: int, severity: str) -> None:
    """One throttled sample in nine moves no median; nine of them do. None is left out, and each is named."""
    found = throttled(marked(count))
    assert found is not None
    assert found.severity == severity
    assert found.figures["throttled_samples"] == list(range(1, count + 1))
    assert f", in {count} of 9 samples" in found.message
    assert judge(marked(count), 0.4).outcome == ("inconclusive" if severity == "inconclusive" else "failed")


def test_a_quota_is_said_in_its_own_words() -> None:
    """A processor's clock is not at fault, and what helps is another thing."""
    held = Clocks(reasons=(QUOTA,), held_share=0.5)
    found = throttled(missed(clocks=held, limit=MEASURED))
    assert found is not None
    assert found.severity == "inconclusive"
    assert found.message.startswith(
        "this process was held back while it was measured (processor quota of the cgroup): 50 % of the time of its "
        "cores, which may have slowed this pass by 2x: 40 % may be up to 80 % without it"
    )
    assert found.remedy == "raise the quota, or run fewer threads than it allows"
    slow = missed(fraction=0.2, clocks=held, limit=MEASURED)
    assert judge(slow, 0.2).outcome == "failed", "half of the time does not explain a third"


def test_only_the_ends_that_give_a_reason_count() -> None:
    """Before, an idle device at a fifth of its clock; after, a throttled one at half."""
    before = Conditions(clock_hz=0.3e9, max_clock_hz=1.5e9, memory_clock_hz=0.4e9)
    after = Conditions(clock_hz=0.75e9, max_clock_hz=1.5e9, memory_clock_hz=2.619e9, throttle_reasons=HOT)
    assert clocks_of(before, after) == Clocks(compute_share=0.5, memory_share=1.0, reasons=HOT)
    assert clocks_of(before, before) is None


def test_clocks_that_somebody_set_are_no_throttling() -> None:
    """They hold for the probe as well."""
    locked = Conditions(clock_hz=0.75e9, max_clock_hz=1.5e9, throttle_reasons=("application clocks setting",))
    assert clocks_of(locked, locked) is None


@pytest.mark.parametrize(
    ("mask", "memory_mhz", "clocks"),
    [
        (0x0, 2619, None),
        (0x1, 405, None),  # idle
        (0x2, 1310, None),  # somebody set it
        (0x4, 2619, Clocks(compute_share=1200 / 1980, memory_share=1.0, reasons=("power cap",))),
        (0x40, 1310, Clocks(compute_share=1200 / 1980, memory_share=1310 / 2619, reasons=HOT)),
    ],
)
def test_what_nvml_says_becomes_evidence(mask: int, memory_mhz: int, clocks: Clocks | None) -> None:
    """From the driver's bit mask and clocks, by a stand-in for pynvml."""
    library = Library(nvmlDeviceGetCurrentClocksEventReasons=mask, nvmlDeviceGetClockInfo={1: 1200, 2: memory_mhz})
    now = Nvml(library).conditions("GPU-1234")
    found = clocks_of(Conditions(), now)
    if clocks is None:
        assert found is None
    else:
        assert found is not None
        assert found.reasons == clocks.reasons
        assert found.compute_share == pytest.approx(clocks.compute_share)
        assert found.memory_share == pytest.approx(clocks.memory_share)
