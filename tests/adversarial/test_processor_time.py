"""Clocks of processor time: what they count is work, and no time that passed; whose fault the rest is, who can say?"""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from pytest_roofline.backends.cpu import CpuBackend
from pytest_roofline.checks.claimed import Claim, Window
from pytest_roofline.checks.disagreement import clock_disagrees
from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings
from pytest_roofline.verdict import judge

TOKENS = 100.0
WALL_S = 1.0


def timed(
    processor_s: float, *, returned_s: float | None = None, cores: int | None = 2, claimed: float = 1.0
) -> Evidence:
    """A second of which the clock returned a part, as much as the processor worked for the process unless told."""
    given_s = processor_s if returned_s is None else returned_s
    return Evidence(
        kind="audit",
        label="loop",
        cores=cores,
        claim=Claim(tokens=claimed * TOKENS, seconds=given_s, is_tokens_seen=False),
        ids_seen=round(TOKENS),
        window=Window(
            window_s=WALL_S,
            leftover_s=0.0,
            idle_drain_s=1e-6,
            passes=TOKENS,
            returned_s=given_s,
            private_low_s=WALL_S,
            private_high_s=WALL_S,
            clock="time.process_time",
            cpu_s=processor_s,
        ),
    )


def test_others_had_the_processor_meanwhile() -> None:
    """On a busy machine an honest loop takes less of it than time: no rate, and no accusation."""
    verdict = judge(timed(0.4))
    assert verdict.outcome == "inconclusive"
    (finding,) = verdict.of("inconclusive")
    assert finding.check == "clock-disagrees"
    assert (
        "time.process_time says 400 ms, the private clock 1.00 s (2.5x) for the same stretch: it counts the time of "
        in (finding.message)
    )
    assert "the processor, which worked for 400 ms on this process; for the rest the process waited" in finding.message
    assert finding.remedy == "time with time.perf_counter(), unpatched, in seconds"


def test_a_quiet_machine_is_no_matter() -> None:
    """The two clocks agree there."""
    assert judge(timed(0.995)).outcome == "passed"


@pytest.mark.parametrize(
    "evidence",
    [
        timed(1.0, returned_s=0.05),
        timed(0.05, cores=None),
        replace(timed(0.4), claim=Claim(tokens=TOKENS, seconds=0.04, is_tokens_seen=False)),
        replace(timed(0.4), window=replace(timed(0.4).window, cpu_s=None)),  # type: ignore[type-var]
    ],
    ids=["one thread of several", "beside an accelerator", "a tenth of it claimed", "a clock of another kind"],
)
def test_what_others_explain_is_no_excuse(evidence: Evidence) -> None:
    """Work of other threads, of a device that is no processor, a claim beyond that time, and any other clock."""
    assert judge(evidence).outcome == "bogus"


def test_more_time_than_passed_is_a_note() -> None:
    """Two threads at once: the claim is too slow, and nobody gains."""
    finding = clock_disagrees(timed(1.9))
    assert finding is not None
    assert finding.severity == "note"


def test_on_this_machine_an_honest_loop_is_never_accused() -> None:
    """Whatever else runs here."""
    roofline = Instrument(Session(added_backends=[CpuBackend()]), Settings(device="cpu"))
    with roofline.audit() as audit:
        start = time.process_time()
        total = sum(number * number for number in range(200_000))
        seconds = time.process_time() - start
        audit.claim(tokens=10, seconds=seconds)
    assert total > 0
    assert audit.result.verdict.outcome in ("passed", "inconclusive")
