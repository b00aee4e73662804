"""Was the work done? The output of a pass must come from this pass, from its input and from the weights."""

from __future__ import annotations

import math

from pytest_roofline.checks.attempts import Compared, FreshInput, Overwritten, Tampered
from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.units import format_bytes

LARGEST_ERROR_SHARE = 8.0
"""How many times the tolerance of the root mean square error a single element may be off."""
_DEFAULT_REMEDY = "return what this pass computed: no memo, no buffer that an earlier call filled"


def stale_output(evidence: Evidence) -> Finding | None:
    """Outputs that the pass did not write, or that do not change with its input."""
    work = evidence.work
    if work is None:
        return None
    for finding in (
        _of_overwritten(work.overwritten) if work.overwritten is not None else None,
        _of_fresh_input(work.fresh_input) if work.fresh_input is not None else None,
    ):
        if finding is not None:
            return finding
    return None


def work_missing(evidence: Evidence) -> Finding | None:
    """Outputs that differ from the reference's, or that do not depend on a weight of the pass."""
    work = evidence.work
    if work is None:
        return None
    found = [
        _of_compared(work.compared) if work.compared is not None else None,
        _of_tampered(work.tampered) if work.tampered is not None else None,
    ]
    findings = [finding for finding in found if finding is not None]
    return min(findings, key=lambda finding: finding.severity == "note", default=None)


def _of_overwritten(seen: Overwritten) -> Finding | None:
    figures = {
        "fate": seen.fate,
        "arrays": seen.arrays,
        "size_bytes": seen.size_bytes,
        "is_made_by_step": seen.is_made_by_step,
        "is_work_seen": seen.is_work_seen,
    }
    size = f"{_count(seen.arrays, 'array')}, {format_bytes(seen.size_bytes)}"
    if seen.fate == "unwritten":
        return Finding(
            check="stale-output",
            severity="bogus",
            message=(
                f"the output of a pass was written by nobody: it is memory that the step allocated and returned as "
                f"it came ({size})\n"
                "  found: every element still held what the memory had been filled with when it was allocated\n"
                "  expected: an output that the pass writes\n"
                "  likely: a kernel that failed to launch or has no code for this device, or one that relies on the "
                "memory of an earlier result being handed out again"
            ),
            figures=figures,
            remedy="check the launch for errors, and write every element of the output",
        )
    if seen.fate == "wakes-on-nan":
        return Finding(
            check="stale-output",
            severity="bogus",
            message=(
                f"the step writes its output only when it finds NaN in it ({size})\n"
                "  found: overwritten with numbers, the output was returned untouched; overwritten with NaN, it was "
                "written\n"
                "  expected: an output that every pass writes\n"
                "  likely: a step that looks whether it is being checked"
            ),
            figures=figures,
            remedy=_DEFAULT_REMEDY,
        )
    if seen.fate != "untouched":
        return None
    if seen.is_made_by_step:
        return Finding(
            check="stale-output",
            severity="bogus",
            message=(
                f"a pass returned an earlier pass's output and did not write it ({size})\n"
                "  found: overwritten before a further pass, the same memory was returned with every element as it "
                "had been overwritten\n"
                "  expected: the pass writes its output, in place or elsewhere\n"
                "  likely: a memo (functools.lru_cache, a dict by address or by shape), or a graph replay that no "
                "longer writes this buffer"
            ),
            figures=figures,
            remedy=_DEFAULT_REMEDY,
        )
    if seen.is_work_seen:
        return None  # it returns something that it was given, and the work can be seen beside it
    return Finding(
        check="stale-output",
        severity="inconclusive",
        message=(
            f"what the step returns is not written by the step, so nothing shows that a pass did any work ({size})\n"
            "  found: overwritten before a further pass, the same memory was returned as it had been overwritten, and "
            "no read of the weights was seen\n"
            "  expected: an output that the pass computes\n"
            "  likely: a result computed before the measurement, or a placeholder returned beside work that leaves no "
            "trace here"
        ),
        figures=figures,
        remedy="return the output of the pass (logits, ids, or the static buffer that a graph writes)",
    )


def _of_fresh_input(seen: FreshInput) -> Finding | None:
    if not seen.is_identical:
        return None
    where = "fresh values at the same address" if seen.is_same_address else "two different inputs"
    return Finding(
        check="stale-output",
        severity="bogus",
        message=(
            f"{where} gave the same output, bit for bit ({_count(seen.elements, 'element')})\n"
            "  found: every floating element of the outputs is identical\n"
            "  expected: outputs that differ, as their inputs do\n"
            "  likely: a result remembered by the identity, the address or the shape of its arguments, or arguments "
            "that are never read (a captured graph that still reads its first input)"
        ),
        figures={"elements": seen.elements, "is_same_address": seen.is_same_address},
        remedy="compute from the arguments of the call; copy them into the static input of a graph before its replay",
    )


def _of_compared(seen: Compared) -> Finding | None:
    if seen.reason:
        return _not_tried("work-missing", "reference=", seen.reason)
    if not seen.elements and not seen.ids:
        return None
    figures = {
        "passes": seen.passes,
        "worst_pass": seen.worst_pass,
        "elements": seen.elements,
        "rms_error": seen.rms_error if math.isfinite(seen.rms_error) else None,
        "largest_error": seen.largest_error if math.isfinite(seen.largest_error) else None,
        "tolerance": seen.tolerance,
        "dtype": seen.dtype,
        "ids": seen.ids,
        "ids_differing": seen.ids_differing,
        "is_same_state": seen.is_same_state,
        "is_path_same": seen.is_path_same,
    }
    if not seen.elements:
        if not seen.ids_differing:
            return None
        return Finding(
            check="work-missing",
            severity="inconclusive",
            message=(
                f"{seen.ids_differing} of {seen.ids} ids differ from the reference's, and ids alone cannot show why: "
                "one close call chooses another token"
            ),
            figures=figures,
            remedy="return the logits beside the ids, from the step and from the reference",
        )
    allowed_largest = LARGEST_ERROR_SHARE * seen.tolerance
    if seen.rms_error <= seen.tolerance and seen.largest_error <= allowed_largest:
        return None
    first = (
        f"the output of pass {seen.worst_pass} is not the reference's: off by {seen.rms_error:.3g} of its magnitude, "
        f"{seen.tolerance:.3g} is what {seen.dtype} explains"
    )
    detail = (
        f"\n  found: over {seen.elements} elements a root mean square error of {seen.rms_error:.3g} and a largest one "
        f"of {seen.largest_error:.3g}, relative to the reference's root mean square\n"
        f"  expected: at most {seen.tolerance:.3g} and {allowed_largest:.3g}\n"
    )
    if seen.is_same_state and seen.is_path_same:
        return Finding(
            check="work-missing",
            severity="bogus",
            message=(
                f"{first}{detail}  likely: layers, rows or passes that are skipped, a lower precision than the dtype "
                "declared, or a result of an earlier pass"
            ),
            figures=figures,
            remedy="compute what the reference computes, or give the reference of what the step computes",
        )
    why = (
        "an earlier pass chose another token, so the inputs differ from there"
        if seen.is_same_state
        else "there is no reset, so step and reference may not have begun in the same state"
    )
    return Finding(
        check="work-missing",
        severity="inconclusive",
        message=f"{first}; {why}{detail}  likely: {why}",
        figures=figures,
        remedy="give reset=, which brings the state of both back, and return logits",
    )


def _of_tampered(seen: Tampered) -> Finding | None:
    if seen.reason:
        return _not_tried("work-missing", "tamper=True", seen.reason)
    if not seen.weights or seen.is_changed:
        return None
    return Finding(
        check="work-missing",
        severity="bogus",
        message=(
            f"a weight was changed and the output was not: nothing moved in any of {len(seen.weights)} tries\n"
            f"  found: a row of a weight of {', '.join(seen.weights)} was changed, one at a time, and every floating "
            "element of the output stayed the same, bit for bit\n"
            "  expected: another output, for the first pass multiplied by these weights\n"
            "  likely: a result that is remembered, or layers that later passes skip"
        ),
        figures={"tries": len(seen.weights), "weights": list(seen.weights)},
        remedy="read the weights on every pass",
    )


def _not_tried(check: str, asked: str, reason: str) -> Finding:
    """Who asked for a proof and did not get it is told, beside the result that stands without it."""
    return Finding(
        check=check,
        severity="note",
        message=f"{asked} was asked for and not tried: {reason}",
        figures={"reason": reason},
        remedy="give reset=, which brings the state of the step back (lambda: None for one that has none)",
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def passes_idle(evidence: Evidence) -> Finding | None:
    """Some calls of the model compute and some do not: then none of them is a pass that could be timed.

    No accusation: a model that hands out what it has computed ahead (drafts of its own) looks like that too.
    """
    seen = evidence.generated
    if seen is None or not seen.idle_passes:
        return None
    return Finding(
        check="work-missing",
        severity="inconclusive",
        message=(
            f"{seen.idle_passes} of {seen.traced_passes} decode passes that were traced read next to nothing: what "
            "they returned was there before, so there is no time of a pass, and tokens per second are not the model's"
        ),
        figures={"idle_passes": seen.idle_passes, "traced_passes": seen.traced_passes},
        remedy="run the model in every pass; what verifies several tokens at once is measured with roofline.decode",
    )
