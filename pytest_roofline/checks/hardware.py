"""The device's own counter as a witness: did the bytes of the passes come from its memory at all?

A counter of memory traffic sees reads and writes of everybody: a neighbour, a reset, a copy only add to it. So more
than was claimed accuses nobody, and fewer bytes than the least of the passes, less what caches can hold, were served
by something else or not at all. The counter does not say by what: a cache that is larger than its measured knee and
memory that moves compressed are honest. It therefore takes the verdict on the memory away, and speaks of missing work
only where nothing honest is left.
"""

from __future__ import annotations

from pytest_roofline.checks.bounds import fraction_bounds, is_compute_bound
from pytest_roofline.checks.ceiling import closed_pass_s, faster_than_limit, memory_bytes
from pytest_roofline.checks.counted import Counted
from pytest_roofline.checks.data import predictable_data, untouched_memory
from pytest_roofline.checks.evidence import Evidence, Finding, Severity
from pytest_roofline.traffic import moved_bytes
from pytest_roofline.units import format_bytes, format_fraction, format_ratio, format_seconds

CLEARLY_FEWER = 0.90
"""On top of the interval that the counter leaves open."""
CLEARLY_MORE = 1.25
COMPRESSED_SHARE = 1 / 8
"""Memory that compresses moves a quarter of the bytes at best; under half of that no compression explains it."""
KNEES_NO_CACHE_EXPLAINS = 4.0
LINK_SHARE = 0.5
"""No link to other memory (the host's, another device's) carries half of what a device's own memory does."""


def memory_counted(evidence: Evidence) -> Finding | None:
    """Clearly fewer bytes came from memory than the passes need, or clearly more; None where no counter was read."""
    counted, needed = evidence.counted, memory_bytes(evidence)
    if counted is None or needed is None or counted.passes <= 0 or counted.place == "several devices":
        return None
    if not can_be_counted(evidence):
        return None
    if is_clearly_fewer(evidence, counted):
        return _fewer(evidence, counted, needed)
    return _more(evidence, counted)


def is_clearly_fewer(evidence: Evidence, counted: Counted) -> bool:
    """Whether fewer bytes were counted than the passes need: question the counter itself before it says so."""
    needed = memory_bytes(evidence)
    return needed is not None and counted.most_bytes_per_pass < CLEARLY_FEWER * needed


def is_rather_few(evidence: Evidence, counted: Counted) -> bool:
    """Whether the count leaves no room for the passes, by however little: worth another look that costs something."""
    needed = memory_bytes(evidence)
    return needed is not None and counted.most_bytes_per_pass < needed


def can_be_counted(evidence: Evidence) -> bool:
    """Whether a count could tell anything: the pass is to be judged by what it moves, and no cache can hold it."""
    needed = memory_bytes(evidence)
    if evidence.is_cache_hot or is_compute_bound(evidence) or needed is None:
        return False
    # A set under two knees has no verdict on the memory anyway.
    return needed > 0 and needed >= evidence.knee_bytes


def _fewer(evidence: Evidence, counted: Counted, needed: float) -> Finding:
    seen, low = counted.most_bytes_per_pass, _low_fraction(evidence, counted)
    figures = {
        "counted_most_bytes_per_pass": seen,
        "counted_least_bytes_per_pass": counted.least_bytes_per_pass,
        "least_bytes_from_memory": needed,
        "cache_knee_bytes": evidence.knee_bytes,
        "counted_passes": counted.passes,
        "counted_span_s": counted.span_s,
        "fraction_low": low,
        "fraction_high": evidence.fraction.high if evidence.fraction else None,
    }
    details = (
        f"\n  found: at most {format_bytes(counted.moved_bytes.high)} moved through the memory of this device in "
        f"{format_seconds(counted.span_s)} around {counted.passes:g} passes, by anybody ({counted.source})\n"
        f"  expected: at least {format_bytes(needed)} per pass, the least of a pass less a cache knee of "
        f"{format_bytes(evidence.knee_bytes)}"
    )
    first = f"{format_bytes(seen)} per pass at most came from memory by the device's own counter"
    if _is_work_missing(evidence, counted, needed):
        times = f" ({format_ratio(needed / seen)})" if seen > 0 else ""
        return Finding(
            check="work-missing",
            severity="bogus",
            message=(
                f"{first}, the pass that was traced needs {format_bytes(needed)}{times}: later passes do not read what "
                f"it read{details}\n"
                "  likely: a result that is remembered, or layers that later passes skip"
            ),
            figures=figures,
            remedy="do the work on every pass",
        )
    check, likely, remedy = _cause(evidence)
    severity = _severity(evidence, low, check)
    between = ""
    if severity == "inconclusive" and low is not None and evidence.fraction is not None:
        asked = f", the test asks for {format_fraction(evidence.at_least)}" if evidence.at_least is not None else ""
        between = (
            f": the fraction of the memory ceiling is between {format_fraction(low)} and "
            f"{format_fraction(evidence.fraction.high)}{asked}"
        )
    return Finding(
        check=check,
        severity=severity,
        message=f"{first}, a pass needs {format_bytes(needed)}{between}{details}\n  likely: {likely}",
        figures=figures,
        remedy=remedy,
    )


def _low_fraction(evidence: Evidence, counted: Counted) -> float | None:
    """The fraction, if no more bytes were moved for it than were counted."""
    noise, traffic = evidence.fraction, evidence.traffic
    if noise is None or traffic is None or traffic.bytes_per_pass <= 0:
        return None
    return noise.low * min(1.0, counted.most_bytes_per_pass / traffic.bytes_per_pass)


def _is_work_missing(evidence: Evidence, counted: Counted, needed: float) -> bool:
    """Whether no cache, no compression and no other memory can have served the passes.

    Asks for a closed trace: what one pass read is certain then, and that it read it from this device alone.
    """
    traced, limit, pass_s = evidence.traced, evidence.limit, closed_pass_s(evidence)
    if evidence.kind == "audit" or traced is None or not traced.is_closed or counted.place != "one device":
        return False
    if limit is None or limit.is_measured or pass_s is None or pass_s <= 0:
        return False
    least = min(needed, traced.least_bytes_per_pass - evidence.knee_bytes)
    return (
        least >= KNEES_NO_CACHE_EXPLAINS * evidence.knee_bytes
        and counted.most_bytes_per_pass < COMPRESSED_SHARE * least
        and least / pass_s >= LINK_SHARE * limit.bytes_per_s
        and (evidence.survey is None or not (evidence.survey.predictable_bytes or evidence.survey.untouched_bytes))
    )


def _cause(evidence: Evidence) -> tuple[str, str, str]:
    """The check whose cause is the likeliest, that cause, and what to do about it."""
    survey, traced = evidence.survey, evidence.traced
    is_closed = traced is not None and traced.is_closed
    if survey is not None and survey.untouched_bytes and is_closed:
        return (
            "untouched-memory",
            "memory that was never written, which is not read from where it lies",
            "write the weights before they are measured: load them, or fill them with random numbers",
        )
    if survey is not None and survey.predictable_bytes:
        return (
            "predictable-data",
            f"{survey.pattern or 'regular data'}, which this device moves compressed",
            "measure with random or trained weights: torch.randn, tensor.normal_(), or a checkpoint",
        )
    if evidence.kind == "audit":
        return (
            "bytes-disagree",
            "several tokens of a pass counted as passes, bytes that a pass does not move, work that was skipped, or "
            "memory of another device or the host",
            "state tokens_per_pass=, watch the step (audit.watch), and give the bytes that lie on this device",
        )
    if not is_closed and evidence.declared is not None:
        return (
            "bytes-disagree",
            "bytes declared that a pass does not move, work that was skipped, or memory of another device or the host",
            "declare the bytes of one pass that lie on this device, or pass model= and let the trace count them",
        )
    return (
        "cache-resident",
        "caches that hold more than the probe saw, or work that only the first pass did",
        "use a larger working set, rotate several copies of the inputs, or have the work shown by reference=",
    )


def _severity(evidence: Evidence, low: float | None, check: str) -> Severity:
    """Undecided where the bytes that were not seen decide; a note where something else has said it already."""
    noise = evidence.fraction
    if noise is None or low is None:
        return "note"
    fast = faster_than_limit(evidence)
    if fast is not None and fast.severity == "bogus":
        return "note"
    said = {"predictable-data": predictable_data, "untouched-memory": untouched_memory}.get(check)
    earlier = said(evidence) if said is not None else None
    if earlier is not None and earlier.severity != "note":
        return "note"
    if evidence.at_least is None and evidence.at_most is None:
        return "inconclusive"
    if evidence.at_least is not None and noise.clears(evidence.at_least) is True and low < evidence.at_least:
        return "inconclusive"
    if evidence.at_most is not None and noise.low > evidence.at_most >= low:
        return "inconclusive"
    return "note"


def _more(evidence: Evidence, counted: Counted) -> Finding | None:
    """A note where more moved than a pass is known to move: it only costs, so nobody gains by it."""
    traffic = evidence.traffic
    if not counted.is_exact or traffic is None or fraction_bounds(evidence) is None:
        return None
    known = max(moved_bytes(each) for each in (traffic, evidence.traced) if each is not None)
    seen = counted.least_bytes_per_pass
    if known <= 0 or seen < CLEARLY_MORE * known:
        return None
    return Finding(
        check="bytes-disagree",
        severity="note",
        message=(
            f"{format_bytes(seen)} per pass moved through memory by the device's own counter, {format_bytes(known)} "
            f"are accounted for ({format_ratio(seen / known)}): the pass reads or writes more than it must, or another "
            "process uses this memory"
        ),
        figures={
            "counted_least_bytes_per_pass": seen,
            "known_bytes_per_pass": known,
            "counted_passes": counted.passes,
            "counted_span_s": counted.span_s,
        },
    )
