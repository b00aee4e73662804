"""Was the clock stopped when the work was done, and does the claim fit into its window?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from court import audit, claim, loop, traffic, window
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.checks.claimed import Claim, ClockDrift, Window
from pytest_roofline.checks.clock import (
    DRAIN_REMEDY,
    FORCE_REMEDY,
    claim_exceeds_closed_time,
    clock_disagrees,
    ledger_tokens,
    not_drained,
    output_not_forced,
)
from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.roofline import Interval

PASS_S = 1e-3


def leftover(passes_left: float, passes: float = 100.0, *, claimed_s: float | None = None, **figures: Any) -> Evidence:
    """A window of `passes` passes of 1 ms, of which `passes_left` ran after the stop."""
    left_s = passes_left * PASS_S
    window_s = passes * PASS_S - left_s
    seconds = window_s if claimed_s is None else claimed_s
    return audit(
        window=window(
            **{"window_s": window_s, "leftover_s": left_s, "passes": passes, "idle_drain_s": 5e-6, **figures}
        ),
        claim=claim(passes, seconds),
    )


def severity(finding: Finding | None) -> str | None:
    """How grave, None for silence."""
    return None if finding is None else finding.severity


# -- not-drained


@pytest.mark.parametrize(
    ("passes_left", "expected"),
    [
        (1.9, "note"),
        (2.0, "note"),
        (2.05, "note"),
        (2.2, "inconclusive"),
        (2.5, "inconclusive"),
        (3.0, "bogus"),
        (45.0, "bogus"),
    ],
)
def test_more_than_two_passes_left_of_many_is_bogus(passes_left: float, expected: str) -> None:
    """Of 50 passes the claim gains over 2 % in every case here; two long passes are not told from two and a half."""
    found = severity(not_drained(leftover(passes_left, 50.0)))
    assert found == expected


@pytest.mark.parametrize(
    ("passes_left", "expected"), [(2.0, "note"), (2.05, "note"), (2.2, "bogus"), (2.5, "bogus"), (3.0, "bogus")]
)
def test_watched_passes_that_are_all_alike_leave_no_doubt(passes_left: float, expected: str) -> None:
    """No call waited longer than the mean pass, so there are no long ones."""
    assert severity(not_drained(leftover(passes_left, 50.0, longest_call_s=PASS_S))) == expected


@pytest.mark.parametrize(
    ("longest_s", "expected"), [(1.2e-3, "bogus"), (1.5e-3, "inconclusive"), (0.1, "inconclusive"), (1e-6, "bogus")]
)
def test_long_passes_that_were_seen_may_be_those_in_flight(longest_s: float, expected: str) -> None:
    """Three passes of 1 ms are two of 1.5 ms; a pause of the host is no pass of over twice the mean."""
    assert severity(not_drained(leftover(3.0, longest_call_s=longest_s))) == expected
    assert severity(not_drained(leftover(5.0, longest_call_s=longest_s))) == "bogus"


@pytest.mark.parametrize(
    ("passes_left", "late_s", "expected"),
    [
        (2.0, 0.5e-3, "note"),
        (2.5, 0.5e-3, "note"),
        (2.7, 0.5e-3, "inconclusive"),
        (3.0, 0.5e-3, "inconclusive"),
        (3.0, 0.1e-3, "bogus"),
        (3.5, 0.5e-3, "bogus"),
        (45.0, 0.5e-3, "bogus"),
        (45.0, 50e-3, "note"),
    ],
)
def test_an_end_that_is_seen_late_is_taken_off(passes_left: float, late_s: float, expected: str) -> None:
    """A marker behind nothing came half a pass late, so may the one behind the work: the least leftover accuses."""
    finding = not_drained(leftover(passes_left, 50.0, marker_late_s=late_s))
    assert severity(finding) == expected
    assert finding is not None
    assert finding.figures["least_leftover_s"] == pytest.approx(max(0.0, passes_left * PASS_S - late_s))


def test_a_late_end_is_said() -> None:
    """How late, beside what an idle drain takes; and what would make two passes of it."""
    finding = not_drained(leftover(3.0, 50.0, marker_late_s=0.5e-3))
    assert finding is not None
    assert "(an idle drain takes 5.00 us, and an end is seen up to 500 us late)" in finding.message
    assert finding.message.split("\n")[-1] == (
        "  two passes of look-ahead are honest, and passes of 1.25 ms would make it two: they may have taken up to "
        "1.37 ms for all that is known"
    )
    assert finding.remedy.startswith(DRAIN_REMEDY)
    assert finding.remedy.endswith("or wrap the step with audit.watch(step), which shows how long its passes were")


@pytest.mark.parametrize(("per_token_bytes", "expected"), [(0.0, "bogus"), (1e6, "bogus"), (4e7, "note")])
def test_a_cache_that_grows_makes_the_last_passes_long(per_token_bytes: float, expected: str) -> None:
    """From 2 GB to 6 GB in 100 passes: the last ones take 1.5 times the mean."""
    growing = traffic(2e9, kv_bytes_per_token=per_token_bytes, context=0, weight_bytes_per_pass=2e9)
    evidence = replace(leftover(3.0, 100.0), traffic=growing)
    assert severity(not_drained(evidence)) == expected
    assert severity(not_drained(replace(leftover(8.0, 100.0), traffic=growing))) == "bogus"


def test_a_device_that_changed_its_pace_may_have_had_long_passes() -> None:
    """The probes on both sides of the window differ by 1.6."""
    unsteady = Interval(low=0.5, high=0.8)
    assert severity(not_drained(replace(leftover(3.0, 50.0), fraction=unsteady))) == "inconclusive"
    assert severity(not_drained(replace(leftover(4.0, 50.0), fraction=unsteady))) == "bogus"
    stormy = Interval(low=0.1, high=1.15)
    assert severity(not_drained(replace(leftover(8.0, 50.0), fraction=stormy))) == "inconclusive"
    assert severity(not_drained(replace(leftover(9.0, 50.0), fraction=stormy))) == "bogus"


@given(
    left=st.floats(min_value=0.0, max_value=60.0),
    late_passes=st.floats(min_value=0.0, max_value=3.0),
    longest=st.floats(min_value=1.0, max_value=2.0),
)
@settings(max_examples=60, deadline=None)
def test_two_passes_seen_late_are_never_accused(left: float, late_passes: float, longest: float) -> None:
    """Whatever was in flight: bogus only if it exceeds two of the longest passes even when it was seen that late."""
    shown = left + late_passes
    found = not_drained(leftover(shown, 100.0, marker_late_s=late_passes * PASS_S, longest_call_s=longest * PASS_S))
    if left <= 2 * longest:
        assert severity(found) != "bogus"
    if left > 2 * longest * 1.06 and left > 2.06:
        assert severity(found) == "bogus"


@pytest.mark.parametrize(("idle_s", "expected"), [(4.9e-4, "bogus"), (5e-4, None), (1e-3, None)])
def test_ten_idle_drains_are_what_draining_costs(idle_s: float, expected: str | None) -> None:
    """Five passes of 1 ms left over are bogus only where an idle drain takes under a tenth of that."""
    assert severity(not_drained(leftover(5.0, idle_drain_s=idle_s))) == expected


@pytest.mark.parametrize(("claimed_s", "expected"), [(0.0978, "bogus"), (0.0981, "note"), (0.1, "note")])
def test_only_a_claim_that_profits_is_bogus(claimed_s: float, expected: str) -> None:
    """100 passes take 100 ms closed: claiming up to 2 % more than that allows is honest, with ten passes left over."""
    assert severity(not_drained(leftover(10.0, claimed_s=claimed_s))) == expected


@pytest.mark.parametrize(
    ("passes", "share", "expected"),
    [
        (19.0, 0.09, "note"),
        (19.0, 0.101, "inconclusive"),
        (3.0, 0.5, "inconclusive"),
        (3.0, 0.99, "inconclusive"),
        (3.0, 1.01, "bogus"),
        (1.0, 30.0, "bogus"),
    ],
)
def test_few_passes_are_judged_by_the_share_of_the_window(passes: float, share: float, expected: str) -> None:
    """Under 20 passes look-ahead cannot be told from a missing drain: over 10 % unsure, over 100 % bogus."""
    window_s = passes * PASS_S / (1 + share)
    left_passes = passes - window_s / PASS_S
    assert left_passes <= 2.0
    assert severity(not_drained(leftover(left_passes, passes))) == expected


def test_twenty_passes_may_look_two_ahead() -> None:
    """At 20 passes a leftover of two, 11 % of the window, is honest; at 19 it is not sure."""
    assert severity(not_drained(leftover(2.0, 20.0))) == "note"
    assert severity(not_drained(leftover(2.0, 19.0))) == "inconclusive"


def test_a_drained_window_says_nothing() -> None:
    """No leftover, no window or no claim: silence."""
    assert not_drained(audit()) is None
    assert not_drained(audit(window=None)) is None
    assert not_drained(replace(leftover(50.0), claim=None)) is None
    assert not_drained(loop()) is None


def test_the_message_names_both_times_and_the_cause() -> None:
    """The first line is complete by itself, with figures and units; then what was found; then what to do."""
    evidence = audit(
        window=window(window_s=1.2e-3, leftover_s=46.8e-3, passes=100.0),
        claim=claim(100.0, 1.2e-3),
    )
    finding = not_drained(evidence)
    assert finding is not None
    first, *rest = finding.message.split("\n")
    assert first == (
        "the clock stopped at 1.20 ms at test_it.py:12 but the device finished at 48.0 ms (40x): missing "
        "synchronization"
    )
    assert rest == [
        "  found: 97.5 passes of work, 46.8 ms, left over after the stop (an idle drain takes 5.00 us)",
        "  claimed 83,333 tok/s, the closed time allows 2,083 tok/s",
    ]
    assert finding.remedy == DRAIN_REMEDY
    assert "torch.accelerator.synchronize()" in finding.remedy
    assert finding.figures["leftover_passes"] == pytest.approx(97.5)
    assert finding.figures["possible_tokens_per_s"] == pytest.approx(100 / 0.048)


def test_the_inconclusive_message_says_why_it_is_unsure() -> None:
    """Too few passes to tell look-ahead from a missing drain."""
    finding = not_drained(leftover(1.0, 3.0, stop_where=None))
    assert finding is not None
    assert finding.message.split("\n")[0] == (
        "the clock stopped at 2.00 ms but the device finished at 3.00 ms (1.5x): missing synchronization"
    )
    assert finding.message.split("\n")[-1] == (
        "  3 passes are too few to tell look-ahead from a missing drain (50 % of the window is left over)"
    )


def test_the_note_says_that_the_leftover_is_charged() -> None:
    """Look-ahead is reported, and costs the honest user nothing."""
    finding = not_drained(leftover(1.5, 50.0))
    assert finding is not None
    assert finding.message == (
        "1.5 passes (1.50 ms) were still running when the clock stopped at test_it.py:12; "
        "they are charged to the measurement"
    )


def test_a_window_of_no_time_is_all_leftover() -> None:
    """The same stamp twice: nothing is divided by zero."""
    finding = not_drained(audit(window=window(window_s=0.0, leftover_s=0.1, passes=1.0), claim=claim(1.0, 1e-6)))
    assert severity(finding) == "bogus"


def test_ids_are_the_ledger_where_they_were_seen() -> None:
    """A claim of 100 tokens of which ten were seen gains tenfold."""
    assert ledger_tokens(audit()) == 100.0
    assert ledger_tokens(audit(ids_seen=10)) == 10.0
    assert ledger_tokens(audit(claim=None)) == 0.0
    honest = leftover(10.0, claimed_s=0.1)
    assert severity(not_drained(honest)) == "note"
    assert severity(not_drained(replace(honest, ids_seen=10))) == "bogus"
    assert severity(not_drained(replace(honest, ids_seen=0))) == "bogus"


# -- output-not-forced


def unforced(passes_left: float, passes: float = 100.0, *, drained_passes: float = 0.0, **figures: Any) -> Evidence:
    """Passes of 1 ms, of which so many ran when the claim forced the output, and some more while it drained."""
    left_s = (passes_left + drained_passes) * PASS_S
    return leftover(
        passes_left + drained_passes,
        passes,
        **{"unforced_s": left_s - drained_passes * PASS_S, **figures},
    )


@pytest.mark.parametrize(
    ("passes_left", "passes", "expected"),
    [
        (2.0, 50.0, None),
        (2.05, 50.0, None),
        (2.5, 50.0, "inconclusive"),
        (3.0, 50.0, "bogus"),
        (99.9, 100.0, "bogus"),
        (0.09, 1.0, None),
        (0.3, 1.0, "inconclusive"),
        (0.9, 1.0, "bogus"),
    ],
)
def test_evaluating_at_the_claim_is_judged_like_a_leftover(
    passes_left: float, passes: float, expected: str | None
) -> None:
    """Over two passes is bogus; of few passes, over 10 % is unsure. It is nobody else's business."""
    evidence = unforced(passes_left, passes)
    assert severity(output_not_forced(evidence)) == expected
    assert not_drained(evidence) is None


def test_an_output_that_costs_what_an_evaluated_one_does_accuses_nobody() -> None:
    """Ten idle forces are free, and so is what the claim does not profit from."""
    assert output_not_forced(unforced(5.0, 50.0, idle_drain_s=5e-4)) is None
    assert output_not_forced(replace(unforced(50.0), claim=claim(100.0, 0.1))) is None
    assert output_not_forced(audit()) is None
    assert output_not_forced(loop()) is None


def test_a_drain_and_an_evaluation_are_told_apart() -> None:
    """Thirty passes were running, fifty more were never submitted."""
    evidence = unforced(50.0, drained_passes=30.0)
    assert severity(not_drained(evidence)) == "bogus"
    assert severity(output_not_forced(evidence)) == "bogus"


def test_the_message_of_an_unforced_output() -> None:
    """The line, both times, the cause, the passes, and where the call belongs."""
    finding = output_not_forced(unforced(99.0))
    assert finding is not None
    assert finding.message.split("\n") == [
        "the clock stopped at 1.00 ms at test_it.py:12 but evaluating the output took 99.0 ms more (100x): the graph "
        "was never evaluated before the clock stopped",
        "  found: 99.0 of 100 passes ran when the claim read the output (an output that is evaluated takes 5.00 us); "
        "waiting for the device proves nothing about work that was never submitted to it",
        "  claimed 100,000 tok/s, the closed time allows 1,000 tok/s",
    ]
    assert finding.remedy == FORCE_REMEDY
    assert finding.remedy.startswith("mx.eval(out) belongs before the stop")


# -- claim-exceeds-closed-time


@pytest.mark.parametrize(("seconds", "expected"), [(0.25, None), (0.2452, None), (0.2449, "bogus"), (0.0025, "bogus")])
def test_a_claim_must_fit_into_its_window(seconds: float, expected: str | None) -> None:
    """100 tokens in a window of 250 ms: up to 2 % more is the cost of reading clocks."""
    assert severity(claim_exceeds_closed_time(audit(claim=claim(100.0, seconds)))) == expected


def test_what_was_left_over_is_the_business_of_not_drained() -> None:
    """The claim is held against the window here: two passes of look-ahead accuse nobody twice."""
    assert claim_exceeds_closed_time(leftover(2.0, 20.0)) is None


def test_claim_message() -> None:
    """Claimed and possible rate, and how the window was closed."""
    finding = claim_exceeds_closed_time(audit(claim=claim(100.0, 0.025), window=window(leftover_s=0.01)))
    assert finding is not None
    assert finding.message.split("\n") == [
        "4,000 tok/s claimed, but 100 tokens in 260 ms are 385 tok/s (10x less)",
        "  the window was closed by the tool (watched clock at test_it.py:12): 250 ms and 10.0 ms left over",
        "  likely: a wrong divisor, another unit, or only part of the time counted",
    ]
    assert finding.remedy == "claim the tokens and the seconds of the same stretch of the run"
    assert finding.figures["possible_tokens_per_s"] == pytest.approx(100 / 0.26)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
@pytest.mark.parametrize("seen", [window(), None])
def test_no_work_takes_no_time(seconds: float, seen: Window | None) -> None:
    """A clock that returns zero or runs backwards: the claim cannot be true, whatever window was seen."""
    finding = claim_exceeds_closed_time(audit(claim=claim(100.0, seconds), window=seen, is_window_unknown=seen is None))
    assert finding is not None
    assert finding.severity == "bogus"
    assert finding.message.startswith("an elapsed time of ")
    assert finding.message.endswith(
        " was claimed, and no work takes that: a timer that was read twice at one end, wrapped, or is too coarse"
    )
    assert "time.perf_counter()" in finding.remedy


def test_no_time_names_the_line_where_it_is_known() -> None:
    """The stop is in the first line."""
    finding = claim_exceeds_closed_time(audit(claim=claim(100.0, 0.0)))
    assert finding is not None
    assert finding.message.startswith("an elapsed time of 0 ns at test_it.py:12 was claimed, and no work takes that")


def test_an_unknown_window_is_inconclusive() -> None:
    """Rule (d): several reads, none of which fits the claim, and no samples."""
    finding = claim_exceeds_closed_time(audit(window=None, is_window_unknown=True, reads=7))
    assert finding is not None
    assert (finding.check, finding.severity) == ("claim-exceeds-closed-time", "inconclusive")
    assert finding.message == (
        "7 clock reads were seen and no two of them are 250 ms apart, which is what the claim says: "
        "its window is not known"
    )
    assert "audit.window()" in finding.remedy
    assert "samples=" in finding.remedy


@pytest.mark.parametrize(("seconds", "expected"), [(1.0, None), (1.02, None), (1.021, "bogus"), (1000.0, "bogus")])
def test_a_claim_without_a_window_must_fit_into_the_audit(seconds: float, expected: str | None) -> None:
    """Rule (e): the whole audit lasted a second; milliseconds claimed as seconds do not fit."""
    evidence = audit(window=None, claim=claim(100.0, seconds), reads=0)
    finding = claim_exceeds_closed_time(evidence)
    assert severity(finding) == expected
    if finding is not None:
        assert finding.message.endswith(
            "claimed, but the whole audit lasted 1.00 s: the clock behind the claim runs in another unit"
        )
        assert "milliseconds" in finding.remedy


def test_nothing_is_known_of_the_audit_length() -> None:
    """Absence of evidence accuses nobody."""
    assert claim_exceeds_closed_time(audit(window=None, whole_audit_s=None, claim=claim(1.0, 1e9))) is None
    assert claim_exceeds_closed_time(loop()) is None


def test_tokens_that_were_never_seen_are_another_checks_business() -> None:
    """The time is right and the prompt was counted: tokens-disagree says so, once."""
    assert claim_exceeds_closed_time(audit(ids_seen=10)) is None


@pytest.mark.parametrize("ids_seen", [99, 50, 1, 0])
def test_unseen_tokens_do_not_excuse_the_time(ids_seen: int) -> None:
    """Claimed ten times too fast, whatever the ids say: the time alone is bogus."""
    finding = claim_exceeds_closed_time(audit(claim=claim(100.0, 0.025), ids_seen=ids_seen))
    assert severity(finding) == "bogus"
    assert finding is not None
    assert ("less)" in finding.message) is (ids_seen > 0)


def test_a_window_of_no_time_divides_nothing() -> None:
    """The same stamp twice without leftover: tokens in no time, said without a division."""
    evidence = audit(claim=claim(100.0, 0.25), window=window(window_s=0.0), ids_seen=0, tokens_claimed=None)
    assert severity(claim_exceeds_closed_time(evidence)) == "bogus"


# -- the only stretch that was timed, and a claim of another time


def beside(seconds: float, *, likely: Window | None = None, **figures: Any) -> Evidence:
    """100 passes of 2 GB claimed in so many seconds; device events that nothing ties to it saw 250 ms."""
    seen = window(source="Event, the only device events that were read", returned_s=0.25)
    return audit(
        window=None,
        is_window_unknown=True,
        events_read=1,
        claim=claim(100.0, seconds),
        likely=seen if likely is None else likely,
        **figures,
    )


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (1e-9, "bogus"),
        (0.25 / 7, "bogus"),
        (0.17, "bogus"),
        (0.185, "inconclusive"),
        (0.25, "inconclusive"),
        (0.9, "inconclusive"),
    ],
)
def test_an_impossible_claim_is_held_against_the_only_stretch(seconds: float, expected: str) -> None:
    """Below 178 ms no device with this sheet reads the bytes; from there on the claim may be of another stretch."""
    assert severity(claim_exceeds_closed_time(beside(seconds))) == expected


def test_the_only_stretch_accuses_nobody_by_itself() -> None:
    """No limit, an allowed one, and a limit that is no sheet's: its window is not known."""
    assert severity(claim_exceeds_closed_time(beside(1e-3, limit=None))) == "inconclusive"
    assert severity(claim_exceeds_closed_time(beside(1e-3, traffic=None, declared=None))) == "inconclusive"
    allowed = beside(1e-3, allow=frozenset({"faster-than-limit"}))
    assert severity(claim_exceeds_closed_time(allowed)) == "inconclusive"
    assert severity(claim_exceeds_closed_time(beside(1e-3, likely=window(window_s=0.0)))) == "inconclusive"
    assert severity(claim_exceeds_closed_time(replace(beside(1e-3), likely=None))) == "inconclusive"


def test_the_message_of_an_impossible_claim_beside_a_stretch() -> None:
    """Both rates, both times, the line, and why the claim is of no other stretch."""
    finding = claim_exceeds_closed_time(beside(0.025))
    assert finding is not None
    assert finding.message.split("\n") == [
        "4,000 tok/s claimed, 100 tokens in 25.0 ms, but the only stretch that was timed took 250 ms: 100 tokens in "
        "that are 400 tok/s (10x less)",
        "  found: Event, the only device events that were read at test_it.py:12; by the private clock it took 250 ms, "
        "and was given as 250 ms",
        "  the claim cannot be of another stretch either: 8.00 TB/s from memory, but this device cannot exceed "
        "1.10 TB/s (7.3x)",
        "  likely: a time that was clamped, wrapped, divided, or told by a patched event or clock",
    ]
    assert finding.remedy == "claim the time as it was read, unclamped, in seconds"
    assert finding.figures["possible_tokens_per_s"] == pytest.approx(400.0)


# -- clock-disagrees


def stretched(scale: float, *, claimed: Claim | None = None, low: float = 0.25, high: float = 0.25) -> Evidence:
    """The window lasted `low` to `high` on the private clock; the test's clock returned `scale` times 250 ms."""
    returned = 0.25 * scale
    return audit(
        window=window(returned_s=returned, private_low_s=low, private_high_s=high),
        claim=claimed or claim(100.0, returned),
    )


@pytest.mark.parametrize(
    ("scale", "expected"), [(1.0, None), (0.9901, None), (0.97, "bogus"), (0.5, "bogus"), (1.009, None), (1.02, "note")]
)
def test_a_slow_clock_is_bogus_and_a_fast_one_is_a_note(scale: float, expected: str | None) -> None:
    """Over 1 % apart; accused only where the claim profits from it."""
    assert severity(clock_disagrees(stretched(scale))) == expected


def test_a_clock_that_disagrees_without_profit_is_a_note() -> None:
    """A claim that fits into the private window is honest, whatever its clock said."""
    assert severity(clock_disagrees(stretched(0.5, claimed=claim(100.0, 0.25)))) == "note"
    assert severity(clock_disagrees(stretched(0.985))) == "note"
    assert severity(clock_disagrees(replace(stretched(0.5), claim=None))) == "note"


def test_preempted_reads_are_no_disagreement() -> None:
    """Whatever lies between the private bounds agrees."""
    assert clock_disagrees(stretched(1.0, low=0.2, high=0.4)) is None
    assert clock_disagrees(stretched(0.81, low=0.2, high=0.4)) is None


def test_very_short_windows_have_two_microseconds_of_slack() -> None:
    """One per cent of a microsecond is no resolution of any clock."""
    short = window(window_s=1e-6, returned_s=2.9e-6, private_low_s=1e-6, private_high_s=1e-6)
    assert clock_disagrees(audit(window=short)) is None
    assert clock_disagrees(audit(window=replace(short, returned_s=3.1e-6))) is not None


def test_clock_message() -> None:
    """Which clock, both readings, and where."""
    finding = clock_disagrees(stretched(0.5))
    assert finding is not None
    assert finding.message == (
        "time.perf_counter says 125 ms, the private clock 250 ms (2x) for the same stretch at test_it.py:12: "
        "the clock was patched, stepped, or read in another unit"
    )
    assert finding.remedy == "time with time.perf_counter(), unpatched, in seconds"
    backwards = clock_disagrees(stretched(-1.0))
    assert backwards is not None
    assert "(not positive)" in backwards.message
    unnamed = audit(window=window(returned_s=0.1, private_low_s=0.25, private_high_s=0.25, clock=None, stop_where=None))
    told = clock_disagrees(unnamed)
    assert told is not None
    assert told.message.startswith("the clock says 100 ms")


def drift(
    scale: float, clock: str = "time.perf_counter", *, over_s: float = 1.0, resolution_s: float = 0.0
) -> ClockDrift:
    """A public clock that advanced by `scale` times the private second."""
    return ClockDrift(
        clock=clock, public_s=scale * over_s, private_low_s=over_s, private_high_s=over_s, resolution_s=resolution_s
    )


@pytest.mark.parametrize(
    ("scale", "expected"), [(1.0, None), (0.9891, None), (0.9889, "bogus"), (1.0109, None), (1.02, "note")]
)
def test_a_clock_that_fell_behind_without_a_window_was_patched(scale: float, expected: str | None) -> None:
    """No read was seen because the clock was replaced; its advance from entry to claim tells. 1 % and 1 ms are free."""
    assert severity(clock_disagrees(audit(window=None, reads=0, drifts=(drift(scale),)))) == expected


def test_a_wall_clock_that_was_set_back_accuses_nobody() -> None:
    """A time server may set it back while device events time an honest run: unsure, not bogus."""
    evidence = audit(window=None, reads=0, drifts=(drift(0.5, "time.time"),))
    assert severity(clock_disagrees(evidence)) == "inconclusive"
    assert severity(clock_disagrees(replace(evidence, claim=None))) == "note"


def test_a_coarse_clock_has_two_ticks_of_slack() -> None:
    """15 ms ticks cannot agree to a millisecond."""
    assert clock_disagrees(audit(window=None, drifts=(drift(0.96, resolution_s=15.6e-3),))) is None
    assert clock_disagrees(audit(window=None, drifts=(drift(0.95, resolution_s=15.6e-3),))) is not None


def test_another_clock_than_the_claims_is_a_note() -> None:
    """The window was read through an honest counter; the wall clock was stepped."""
    honest = window(returned_s=0.25, private_low_s=0.25, private_high_s=0.25)
    finding = clock_disagrees(audit(window=honest, drifts=(drift(0.5, "time.time"),)))
    assert finding is not None
    assert (finding.severity, finding.remedy) == ("note", "")
    assert finding.message == "time.time advanced by 500 ms while 1.00 s passed; the claim rests on another clock"


def test_the_gravest_disagreement_is_told() -> None:
    """A stepped wall clock does not hide that the claim's own clock ran slow."""
    own = window(returned_s=0.25, private_low_s=0.25, private_high_s=0.25)
    drifts = (drift(0.5, "time.time"), drift(0.5))
    slow = audit(window=own, claim=claim(100.0, 0.125), drifts=drifts)
    finding = clock_disagrees(slow)
    assert finding is not None
    assert finding.severity == "bogus"
    assert finding.message.startswith("time.perf_counter says")
    unseen = clock_disagrees(audit(window=None, drifts=drifts))
    assert severity(unseen) == "bogus"


def test_a_stated_window_takes_any_clock_as_the_claims() -> None:
    """``audit.window()`` saw no read: what disagrees is told, and accused only where the claim profits."""
    stated = window(clock=None, stop_where=None, source="audit.window()")
    assert severity(clock_disagrees(audit(window=stated, drifts=(drift(0.5, "time.time"),)))) == "note"
    gained = audit(window=stated, claim=claim(100.0, 0.1), drifts=(drift(0.5, "time.time"),))
    assert severity(clock_disagrees(gained)) == "bogus"


def test_the_clock_is_named_once() -> None:
    """Where the clock is the cause, the claim's excess is not told again."""
    assert claim_exceeds_closed_time(stretched(0.5)) is None


def test_a_note_about_a_clock_does_not_hide_a_wrong_divisor() -> None:
    """The wall clock was stepped, and the claim is ten times too fast by an honest counter."""
    honest = window(returned_s=0.25, private_low_s=0.25, private_high_s=0.25)
    evidence = audit(window=honest, claim=claim(1000.0, 0.25, is_tokens_seen=False), drifts=(drift(0.5, "time.time"),))
    assert claim_exceeds_closed_time(evidence) is None
    wrong = replace(evidence, claim=claim(100.0, 0.025))
    assert severity(clock_disagrees(wrong)) == "note"
    assert severity(claim_exceeds_closed_time(wrong)) == "bogus"


def test_allowing_the_clock_does_not_allow_the_claim() -> None:
    """Each check is allowed one at a time."""
    evidence = replace(stretched(0.5), allow=frozenset({"clock-disagrees"}))
    assert severity(claim_exceeds_closed_time(evidence)) == "bogus"
