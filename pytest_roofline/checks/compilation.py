"""Was something compiled, captured or set up for the first time inside the measured stretch?

It only adds time: it may explain a result that is too slow, so that a miss is unsure; it never excuses one that is
too fast. Where every block compiles, compiling is what the program does, and its slowness is its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_roofline.checks.bounds import fraction_bounds
from pytest_roofline.checks.claimed import CompiledInWindow
from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.samples import enough_samples, median, median_interval
from pytest_roofline.units import format_fraction, format_ratio, format_seconds

COMPILE_REMEDY = (
    "warm up before the window with the shapes that it uses, and keep them fixed (static caches, padded lengths, "
    "torch._dynamo.mark_dynamic)"
)
FIRST_FACTOR = 10.0
"""A first call this many times slower than the later ones set something up."""
FIRST_SHARE = 0.02
"""Of the window: less is not worth a word."""
FEWEST_OF_A_HALF = 4
HALVES_APART = 1.05


def compiled_in_window(evidence: Evidence) -> Finding | None:
    """Compilations and graph captures inside the blocks of a loop, or inside the window of an audit."""
    if evidence.kind == "audit":
        return _compiled_in_audit(evidence)
    marked = [sample.compiled for sample in evidence.samples if sample.compiled is not None]
    if not marked:
        return None
    clean = [sample.fraction for sample in evidence.samples if sample.compiled is None]
    seconds = sum(one.seconds for one in marked)
    explains = _is_missed(evidence) and enough_samples(len(clean)) and _reaches(evidence, median_interval(clean).high)
    count = len(evidence.samples)
    rest = "compiling is what this step does" if not clean else "they are charged to the samples they fell into"
    if explains:
        rest = (
            f"without those the fraction is up to {format_fraction(median_interval(clean).high)}, the test asks for "
            f"{format_fraction(evidence.at_least or 0.0)}"
        )
    return Finding(
        check="compiled-in-window",
        severity="inconclusive" if explains else "note",
        message=(
            f"{_named(marked)} while {len(marked)} of {count} samples were taken ({format_seconds(seconds)}): {rest}"
        ),
        figures={
            "compilations": sum(one.count for one in marked),
            "compile_s": seconds,
            "samples_marked": len(marked),
            "samples": count,
        },
        remedy=COMPILE_REMEDY,
    )


def _compiled_in_audit(evidence: Evidence) -> Finding | None:
    compiled, window = evidence.compiled, evidence.window
    if compiled is None or window is None:
        return None
    explains, without = _without(evidence, compiled.seconds)
    share = compiled.seconds / window.closed_s if window.closed_s > 0 else 0.0
    rest = f"{format_fraction(share)} of the window of {format_seconds(window.closed_s)}"
    if explains:
        rest += (
            f"; without it the fraction is {format_fraction(without)}, the test asks for "
            f"{format_fraction(evidence.at_least or 0.0)}"
        )
    return Finding(
        check="compiled-in-window",
        severity="inconclusive" if explains else "note",
        message=f"{_named([compiled])} inside the window: {format_seconds(compiled.seconds)}, {rest}",
        figures={"compilations": compiled.count, "compile_s": compiled.seconds, "window_s": window.closed_s},
        remedy=COMPILE_REMEDY,
    )


def first_call_in_window(evidence: Evidence) -> Finding | None:
    """The first watched pass of a window took far longer than the later ones: something was set up inside it."""
    window, first, later = evidence.window, evidence.first_pass_s, evidence.later_pass_s
    if window is None or first is None or later is None or evidence.compiled is not None:
        return None  # a compilation that was seen is the better explanation
    extra = first - later
    if later <= 0 or first < FIRST_FACTOR * later or extra < FIRST_SHARE * window.closed_s:
        return None
    explains, without = _without(evidence, extra)
    rest = "it is charged to the measurement"
    if explains:
        rest = (
            f"without that the fraction is {format_fraction(without)}, the test asks for "
            f"{format_fraction(evidence.at_least or 0.0)}"
        )
    return Finding(
        check="compiled-in-window",
        severity="inconclusive" if explains else "note",
        message=(
            f"the first pass of the window took {format_seconds(first)}, the later ones {format_seconds(later)} "
            f"({format_ratio(first / later)}): compilation, autotuning or allocation inside the window; {rest}"
        ),
        figures={"first_pass_s": first, "later_pass_s": later, "window_s": window.closed_s},
        remedy="run the step a few times before the window begins",
    )


def halves_disagree(evidence: Evidence) -> Finding | None:
    """Two halves of the same measurement that share no value: what should be equal is not, and a note says so."""
    fractions = [sample.fraction for sample in evidence.samples]
    middle = len(fractions) // 2
    for first, second, names in (
        (fractions[:middle], fractions[middle:], "the first and the second half"),
        (
            fractions[0::2],
            fractions[1::2],
            "every other sample and the rest, which differ in the order of their blocks",
        ),
    ):
        if min(len(first), len(second)) < FEWEST_OF_A_HALF:
            continue
        low, high = sorted((first, second), key=median)
        if min(high) > max(low) and median(low) > 0 and median(high) > HALVES_APART * median(low):
            return Finding(
                check="drifted",
                severity="note",
                message=(
                    f"A/A: {names} of {len(fractions)} samples have no value in common "
                    f"({format_fraction(median(first))} and {format_fraction(median(second))}): the step itself changed"
                ),
                figures={"first_fraction": median(first), "second_fraction": median(second)},
            )
    return None


def _named(compiled: Sequence[CompiledInWindow]) -> str:
    names = list(dict.fromkeys(name for one in compiled for name in one.what))
    count = sum(one.count for one in compiled)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{count} compilation{'' if count == 1 else 's'} ({shown})"


def _is_missed(evidence: Evidence) -> bool:
    bounds = fraction_bounds(evidence)
    return evidence.at_least is not None and bounds is not None and bounds.clears(evidence.at_least) is False


def _reaches(evidence: Evidence, fraction: float) -> bool:
    return evidence.at_least is not None and fraction >= evidence.at_least


def _without(evidence: Evidence, seconds: float) -> tuple[bool, float]:
    """Whether a budget that was missed would be met without so many seconds, and the fraction then."""
    bounds, window = fraction_bounds(evidence), evidence.window
    if bounds is None or window is None or not 0 < seconds < window.closed_s:
        return False, 0.0
    fraction = bounds.high * window.closed_s / (window.closed_s - seconds)
    return _is_missed(evidence) and _reaches(evidence, fraction), fraction
