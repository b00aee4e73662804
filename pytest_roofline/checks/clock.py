"""Was the clock stopped when the work was done, and does the claim fit into the time that passed?

These checks need no knowledge of the hardware. A claimed rate may not exceed the ledger's tokens over the closed
time of its window.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_roofline.checks.amounts import tokens_disagree
from pytest_roofline.checks.ceiling import compute_unsure, faster_than_limit
from pytest_roofline.checks.claimed import Claim, Window
from pytest_roofline.checks.device_events import events_disagree
from pytest_roofline.checks.disagreement import clock_disagrees
from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.checks.leftover import TOLERANCE, Leftover, excess, is_idle_like, judge_leftover, ledger_tokens
from pytest_roofline.units import format_fraction, format_rate, format_ratio, format_seconds

ENTERING_S = 100e-6
"""Between the tool's reading of the clock and the test's own, at both ends of a stated window together."""
INTERPRETER_S = 1e-3
"""Until a thread has the interpreter back from others that only woke up, at both ends."""

DRAIN_REMEDY = (
    "drain the device before stopping the clock (torch.accelerator.synchronize(), jax.block_until_ready(out), "
    "mx.eval(out), or out.item()) on the device and stream that do the work"
)

WATCH_REMEDY = "or wrap the step with audit.watch(step), which shows how long its passes were"

FORCE_REMEDY = "mx.eval(out) belongs before the stop (or out.item(), or torch_xla.sync() and reading the value)"

RECEIPT_REMEDY = "stop the clock when the last id has been received (the last item of the stream, the answer's end)"


def _ending(window: Window) -> str:
    return "the last id was received" if window.is_by_receipt else "the device finished"


def _stop(window: Window) -> str:
    return f" at {window.stop_where}" if window.stop_where else ""


def _two_long_passes(leftover: Leftover) -> str:
    return (
        f"two passes of look-ahead are honest, and passes of {format_seconds(leftover.least_s / 2)} would make it two: "
        f"they may have taken up to {format_seconds(leftover.longest_pass_s)} for all that is known"
    )


def _late(window: Window) -> str:
    late_s = window.marker_late_s
    return f", and an end is seen up to {format_seconds(late_s)} late" if late_s > window.idle_drain_s else ""


def not_drained(evidence: Evidence) -> Finding | None:
    """The device was still working when the clock was stopped, and the claim profits from it.

    What only evaluating a lazy graph took is `output-not-forced`'s to judge, what ran beside device events
    `events_disagree`'s.
    """
    whole, claim = evidence.window, evidence.claim
    if whole is None or claim is None or claim.seconds <= 0 or whole.leftover_s <= whole.unforced_s + whole.beside_s:
        return None
    window = replace(
        whole,
        window_s=whole.window_s + whole.beside_s,
        leftover_s=whole.leftover_s - whole.unforced_s - whole.beside_s,
        unforced_s=0.0,
        beside_s=0.0,
    )
    share = window.leftover_s / window.window_s if window.window_s > 0 else float("inf")
    leftover_passes = window.leftover_s / whole.pass_s if whole.pass_s > 0 else 0.0
    leftover = judge_leftover(evidence, whole, window.leftover_s, open_s=window.window_s, closed_s=window.closed_s)
    severity = leftover.severity
    if severity == "note" and is_idle_like(window, window.leftover_s):
        return None  # that is what draining an idle device costs
    figures = {
        "window_s": window.window_s,
        "leftover_s": window.leftover_s,
        "closed_s": window.closed_s,
        "leftover_passes": leftover_passes,
        "least_leftover_s": leftover.least_s,
        "longest_pass_s": leftover.longest_pass_s,
        "marker_late_s": window.marker_late_s,
        "idle_drain_s": window.idle_drain_s,
        "passes": window.passes,
        "claimed_tokens_per_s": claim.tokens_per_s,
        "possible_tokens_per_s": ledger_tokens(evidence) / window.closed_s if window.closed_s > 0 else None,
    }
    if severity == "note":
        return Finding(
            check="not-drained",
            severity="note",
            message=(
                f"{leftover_passes:.1f} passes ({format_seconds(window.leftover_s)}) were still running when the clock "
                f"stopped{_stop(window)}; they are charged to the measurement"
            ),
            figures=figures,
        )
    message = (
        f"the clock stopped at {format_seconds(window.window_s)}{_stop(window)} but {_ending(window)} at "
        f"{format_seconds(window.closed_s)} ({format_ratio(window.closed_s / max(window.window_s, 1e-12))}): "
        f"missing synchronization\n"
        f"  found: {leftover_passes:.1f} passes of work, {format_seconds(window.leftover_s)}, left over after the stop "
        f"(an idle drain takes {format_seconds(window.idle_drain_s)}{_late(window)})\n"
        f"  claimed {format_rate(claim.tokens_per_s)} tok/s, the closed time allows "
        f"{format_rate(ledger_tokens(evidence) / window.closed_s)} tok/s"
    )
    remedy = RECEIPT_REMEDY if window.is_by_receipt else DRAIN_REMEDY
    if leftover.is_two_long_passes and severity == "inconclusive":
        message += f"\n  {_two_long_passes(leftover)}"
        remedy = f"{DRAIN_REMEDY}; {WATCH_REMEDY}"
    elif severity == "inconclusive":
        message += (
            f"\n  {window.passes:g} passes are too few to tell look-ahead from a missing drain "
            f"({format_fraction(share)} of the window is left over)"
        )
    return Finding(check="not-drained", severity=severity, message=message, figures=figures, remedy=remedy)


def output_not_forced(evidence: Evidence) -> Finding | None:
    """A lazy graph was never evaluated before the clock stopped: evaluating it at the claim took the work's time."""
    window, claim = evidence.window, evidence.claim
    if window is None or claim is None or claim.seconds <= 0 or window.unforced_s <= 0:
        return None
    leftover = judge_leftover(evidence, window, window.unforced_s, open_s=window.window_s, closed_s=window.closed_s)
    severity = leftover.severity
    if severity == "note":
        return None
    passes = window.unforced_s / window.pass_s
    return Finding(
        check="output-not-forced",
        severity=severity,
        message=(
            f"the clock stopped at {format_seconds(window.window_s)}{_stop(window)} but evaluating the output took "
            f"{format_seconds(window.unforced_s)} more "
            f"({format_ratio(window.closed_s / max(window.window_s, 1e-12))}): the graph was never evaluated before "
            f"the clock stopped\n"
            f"  found: {passes:.1f} of {window.passes:g} passes ran when the claim read the output "
            f"(an output that is evaluated takes {format_seconds(window.idle_drain_s)}); waiting for the device "
            f"proves nothing about work that was never submitted to it\n"
            f"  claimed {format_rate(claim.tokens_per_s)} tok/s, the closed time allows "
            f"{format_rate(ledger_tokens(evidence) / window.closed_s)} tok/s"
            + (f"\n  {_two_long_passes(leftover)}" if leftover.is_two_long_passes else "")
        ),
        figures={
            "window_s": window.window_s,
            "unforced_s": window.unforced_s,
            "unforced_passes": passes,
            "closed_s": window.closed_s,
            "idle_force_s": window.idle_drain_s,
            "claimed_tokens_per_s": claim.tokens_per_s,
            "possible_tokens_per_s": ledger_tokens(evidence) / window.closed_s,
        },
        remedy=FORCE_REMEDY,
    )


def claim_exceeds_closed_time(evidence: Evidence) -> Finding | None:
    """The claimed rate does not fit into the window even without what was left over."""
    claim = evidence.claim
    if claim is None:
        return None
    if claim.seconds <= 0:
        where = _stop(evidence.window) if evidence.window else ""
        return Finding(
            check="claim-exceeds-closed-time",
            severity="bogus",
            message=(
                f"an elapsed time of {format_seconds(claim.seconds)}{where} "
                f"was claimed, and no work takes that: a timer that "
                "was read twice at one end, wrapped, or is too coarse"
            ),
            figures={"claimed_s": claim.seconds},
            remedy="time more passes, with time.perf_counter()",
        )
    if evidence.is_window_unknown:
        longer = _longer_than_audit(evidence, claim)
        if longer is not None and longer.severity == "bogus":
            return longer
        impossible = _impossible_beside(evidence, claim)
        if impossible is not None:
            return impossible
        return Finding(
            check="claim-exceeds-closed-time",
            severity="inconclusive",
            message=(
                f"{_reads_seen(evidence, format_seconds(claim.seconds))}, which is what the claim says: its window is "
                "not known"
            ),
            figures={"reads": evidence.reads, "claimed_s": claim.seconds},
            remedy="put the timed part into `with audit.window():`, or pass the single timings as samples=[...]",
        )
    window = evidence.window
    if window is None:
        return _longer_than_audit(evidence, claim)
    tokens = ledger_tokens(evidence)
    # What was left over after the stop is `not-drained`'s to judge: a little of it is honest.
    if excess(claim, _timed_inside_s(window), tokens) <= 1 + TOLERANCE:
        return None
    if _is_clock_the_cause(evidence) or _are_tokens_the_cause(evidence, claim, window):
        return None  # those checks name it
    possible = tokens / window.closed_s if window.closed_s > 0 else 0.0
    # Who timed the passes inside of a stated window may have begun late, and have been stopped early.
    held_up_s = 0.0 if window.held_up_s is None else window.held_up_s + INTERPRETER_S * window.stops
    is_held_up = held_up_s > 0 and excess(claim, _timed_inside_s(window) - held_up_s, tokens) <= 1 + TOLERANCE
    waited = f" (up to {format_seconds(held_up_s)} of it for a processor or the interpreter)" if is_held_up else ""
    return Finding(
        check="claim-exceeds-closed-time",
        severity="inconclusive" if is_held_up else "bogus",
        message=(
            f"{format_rate(claim.tokens_per_s)} tok/s claimed, but {tokens:g} tokens in "
            f"{format_seconds(window.closed_s)} are {format_rate(possible)} tok/s"
            f"{_less(claim.tokens_per_s, possible)}\n"
            f"  the window was closed by the tool ({window.source}{_stop(window)}): "
            f"{format_seconds(window.window_s)} and {format_seconds(window.leftover_s)} left over{waited}\n"
            f"  likely: a wrong divisor, another unit, or only part of the time counted"
        ),
        figures={
            "claimed_tokens_per_s": claim.tokens_per_s,
            "claimed_s": claim.seconds,
            "window_s": window.window_s,
            "closed_s": window.closed_s,
            "tokens": tokens,
            "possible_tokens_per_s": possible,
        },
        remedy="claim the tokens and the seconds of the same stretch of the run",
    )


def _timed_inside_s(window: Window) -> float:
    """The window; of a stated one what is left of it for who reads a clock inside: entering and leaving takes time."""
    return window.window_s if window.held_up_s is None else window.window_s - ENTERING_S * window.stops


def _impossible_beside(evidence: Evidence, claim: Claim) -> Finding | None:
    """The claim exceeds what the device can do, and the only stretch that was timed says by how much it is wrong.

    Nothing ties the two, so the stretch alone accuses nobody: the claim may be of another one, by a clock unseen.
    """
    likely = evidence.likely
    if likely is None or likely.closed_s <= 0:
        return None
    tokens = evidence.ids_seen if evidence.ids_seen is not None else claim.tokens
    if excess(claim, likely.closed_s, tokens) <= 1 + TOLERANCE:
        return None
    limits = (faster_than_limit(evidence), compute_unsure(evidence))
    beyond = next((one for one in limits if one is not None and one.severity == "bogus"), None)
    if beyond is None or beyond.check in evidence.allow:
        return None
    possible = tokens / likely.closed_s
    given = "" if likely.returned_s is None else f", and was given as {format_seconds(likely.returned_s)}"
    return Finding(
        check="claim-exceeds-closed-time",
        severity="bogus",
        message=(
            f"{format_rate(claim.tokens_per_s)} tok/s claimed, {tokens:g} tokens in {format_seconds(claim.seconds)}, "
            f"but the only stretch that was timed took {format_seconds(likely.closed_s)}: {tokens:g} tokens in that "
            f"are {format_rate(possible)} tok/s{_less(claim.tokens_per_s, possible)}\n"
            f"  found: {likely.source}{_stop(likely)}; by the private clock it took "
            f"{format_seconds(likely.closed_s)}{given}\n"
            f"  the claim cannot be of another stretch either: {beyond.message.splitlines()[0]}\n"
            "  likely: a time that was clamped, wrapped, divided, or told by a patched event or clock"
        ),
        figures={
            "claimed_tokens_per_s": claim.tokens_per_s,
            "claimed_s": claim.seconds,
            "closed_s": likely.closed_s,
            "returned_s": likely.returned_s,
            "tokens": tokens,
            "possible_tokens_per_s": possible,
        },
        remedy="claim the time as it was read, unclamped, in seconds",
    )


def _reads_seen(evidence: Evidence, seconds: str) -> str:
    if not evidence.events_read:
        return f"{evidence.reads} clock reads were seen and no two of them are {seconds} apart"
    count = evidence.events_read
    events = f"{count} time{'' if count == 1 else 's'} between device events"
    clocks = f" and {evidence.reads} clock reads" if evidence.reads else ""
    return f"{events}{clocks} were seen, and nothing that is made of them is {seconds}"


def _less(claimed: float, possible: float) -> str:
    return f" ({format_ratio(claimed / possible)} less)" if possible > 0 else ""


def _is_clock_the_cause(evidence: Evidence) -> bool:
    """Whether `clock-disagrees` says it already; a note of it, or an allowed one, explains nothing."""
    causes = [(clock_disagrees(evidence), ("bogus", "inconclusive")), (events_disagree(evidence), ("bogus",))]
    return any(
        cause is not None and cause.severity in grave and cause.check not in evidence.allow for cause, grave in causes
    )


def _are_tokens_the_cause(evidence: Evidence, claim: Claim, window: Window) -> bool:
    """Whether the claimed time is right and only its tokens were never seen, which `tokens-disagree` says."""
    return window.window_s <= claim.seconds * (1 + TOLERANCE) and tokens_disagree(evidence) is not None


def _longer_than_audit(evidence: Evidence, claim: Claim) -> Finding | None:
    """No clock read was seen (device events, C timers): the claim must at least fit into the audit and its pace."""
    whole = evidence.whole_audit_s
    if evidence.ranks:
        return None  # their windows may lie before the audit
    if whole is None or claim.seconds <= whole * (1 + TOLERANCE):
        return None
    return Finding(
        check="claim-exceeds-closed-time",
        # With a read inside, its start may lie before the audit: too slow a claim, and nobody's gain.
        severity="note" if evidence.reads else "bogus",
        message=(
            f"{format_seconds(claim.seconds)} claimed, but the whole audit lasted {format_seconds(whole)}: "
            "the clock behind the claim runs in another unit"
        ),
        figures={"claimed_s": claim.seconds, "whole_audit_s": whole},
        remedy="claim seconds; device events give milliseconds, profilers micro- or nanoseconds",
    )
