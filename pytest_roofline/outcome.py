"""What the results of a test, and the way its body ended, make of the test. Knows no pytest; decides, raises nothing.

Precedence: bogus, inconclusive, failed, passed. A bogus result has raised already; when the test caught that, it is
the test's own business. Only an AssertionError whose last recorded comparison was of an undecided fraction, on the
asserting line, becomes inconclusive: every other exception stays what it is.
"""

from __future__ import annotations

import ast
import json
import linecache
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal

from pytest_roofline.checks import EXCUSES
from pytest_roofline.errors import (
    AboveBand,
    BelowCeiling,
    BogusMeasurement,
    InconclusiveMeasurement,
    RooflineError,
    RooflineUsageError,
)
from pytest_roofline.result import UNITTESTS_OWN
from pytest_roofline.tally import RECORD
from pytest_roofline.units import format_fraction
from pytest_roofline.verdict import error_of, judge

if TYPE_CHECKING:
    from pytest_roofline.audit import Audit
    from pytest_roofline.reruns import Attempt
    from pytest_roofline.result import Comparison, Result
    from pytest_roofline.settings import Settings

SCHEMA = 1
CAUGHT: Final = "bogus (caught)"
UNMEASURED: Final = "not measured"
Standing = Literal["bogus", "bogus (caught)", "inconclusive", "failed", "passed", "not measured"]
_PRECEDENCE: tuple[Standing, ...] = ("bogus", "inconclusive", "failed", "bogus (caught)", "passed", "not measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a test stands: in one word, in a reason where it is inconclusive, and result by result.

    `error` is what the test has to fail with although its body ended well; None leaves the body's own ending.
    """

    standing: Standing
    standings: tuple[Standing, ...] = ()
    """Of each result, in their order."""
    reason: str = ""
    error: RooflineError | None = None

    @property
    def is_inconclusive(self) -> bool:
        """Whether the policy for inconclusive tests applies."""
        return self.standing == "inconclusive"


def outcome_of(
    results: Sequence[Result], audits: Sequence[Audit], settings: Settings, raised: BaseException | None = None
) -> Outcome:
    """Weigh the results of a test whose body ended with `raised`, or well."""
    if settings.mode == "off":
        return Outcome(standing=UNMEASURED, standings=tuple(UNMEASURED for _ in results))
    if raised is not None:
        return _of_exception(results, raised)
    doubts = [_doubt(result, settings) for result in results]
    standings: list[Standing] = [
        "inconclusive" if doubt else _standing(result) for result, doubt in zip(results, doubts, strict=True)
    ]
    reasons = [doubt for doubt in doubts if doubt]
    if any(audit.is_open for audit in audits):
        reasons.append("an audit ended without a claim, so nothing could be judged: call audit.claim(...) in it")
    if reasons:
        return Outcome(standing="inconclusive", standings=tuple(standings), reason="; ".join(reasons))
    if settings.is_budget_explicit and not results:
        error = RooflineUsageError(
            "the marker asks for at_least, but nothing was measured: call roofline.decode, prefill, kernel, generate, "
            "stream, audit or annotate in the test"
        )
        return Outcome(standing="failed", error=error)
    failed = [result for result in results if result.verdict.outcome == "failed"]
    return Outcome(
        standing=_worst(standings),
        standings=tuple(standings),
        error=_budget_error(failed, settings) if failed else None,
    )


def _of_exception(results: Sequence[Result], raised: BaseException) -> Outcome:
    """The body raised: only doubt about the very fraction that was asserted changes anything."""
    standings = [_standing(result) for result in results]
    if isinstance(raised, BogusMeasurement):
        # The one that came through is the last; those before it were caught.
        if standings and standings[-1] == CAUGHT:
            standings[-1] = "bogus"
        return Outcome(standing="bogus", standings=tuple(standings))
    if isinstance(raised, InconclusiveMeasurement):
        return Outcome(standing="inconclusive", standings=tuple(standings), reason=_first_line(str(raised)))
    asserted = None
    if isinstance(raised, AssertionError) and not isinstance(raised, (BelowCeiling, AboveBand)):
        asserted = asserted_comparison(results, raised)
    if asserted is not None:
        index, comparison = asserted
        result = results[index]
        reason = _court_doubt(result) or _undecided(result, comparison) or _excused(result, comparison)
        if reason and result.verdict.outcome != "failed":  # that its budget was missed is no matter of doubt
            standings[index] = "inconclusive"
            return Outcome(standing="inconclusive", standings=tuple(standings), reason=reason)
        standings[index] = "failed"
    return Outcome(standing="failed", standings=tuple(standings))


def _standing(result: Result) -> Standing:
    if result.verdict.outcome == "bogus":
        return CAUGHT  # whoever asks knows whether it came through
    if not result.fraction.is_measured:
        return UNMEASURED
    return result.verdict.outcome


def _worst(standings: Sequence[Standing]) -> Standing:
    return min(standings, key=_PRECEDENCE.index, default="passed")


# -- doubt ----------------------------------------------------------------------------------------------------------


def _doubt(result: Result, settings: Settings) -> str:
    """Why this result of a test that ended well decides nothing; empty when it decides."""
    if result.verdict.outcome == "bogus":
        return ""
    if found := _court_doubt(result):
        return found
    if result.verdict.outcome == "failed":
        return ""  # its budget was missed, whatever else the test wanted to know of it
    for comparison in result.fraction.comparisons:
        if undecided := _undecided(result, comparison):
            return undecided
    budget = settings.at_least
    is_missing = result.fraction.is_measured and math.isnan(result.fraction)
    if is_missing and settings.is_budget_explicit and budget is not None and budget.judges(result.device):
        asked = budget.for_device(result.device)
        if asked is not None:
            return (
                f"{result.label}: there is no fraction to hold against at_least={asked:g}: "
                "give model= or traffic=, so that the bytes of a pass are known"
            )
    return ""


def _court_doubt(result: Result) -> str:
    if result.verdict.outcome != "inconclusive":
        return ""
    return _first_line(str(error_of(result.evidence, result.verdict)))


def _excused(result: Result, comparison: Comparison) -> str:
    """What explains a figure that an assert found too low as it would explain a missed budget; empty when nothing does.

    The court did not know what the test would ask for, and contention is held against the gap.
    """
    if comparison.truth or comparison.operator not in (">=", ">"):
        return ""
    evidence = replace(result.evidence, at_least=comparison.other)
    verdict = judge(evidence, float(result.fraction), EXCUSES)
    return _first_line(str(error_of(evidence, verdict))) if verdict.outcome == "inconclusive" else ""


def _undecided(result: Result, comparison: Comparison) -> str:
    if comparison.is_decided:
        return ""
    bounds = result.fraction.bounds
    is_known = math.isfinite(bounds.high)
    between = f"between {format_fraction(bounds.low)} and {format_fraction(bounds.high)}" if is_known else "not known"
    if not is_known:
        between += f" ({_why_unknown(result)})"
    return (
        f"{result.label}: the fraction is {between}, which does not decide "
        f"{comparison.operator} {format_fraction(comparison.other)}"
    )


def _why_unknown(result: Result) -> str:
    """What keeps a fraction from being known."""
    seen = result.evidence.exchanged
    if seen is not None and seen.tokens is None:
        return "the server does not say how many tokens it sent: no usage, no ids and no log probabilities"
    if seen is not None and result.ceiling is None:
        return "there is no ceiling: state model= or traffic=, and device= or bandwidth=, of the server"
    if result.traffic is None:
        return "the bytes of a pass are not known: give model= or traffic="
    if seen is not None:
        return "no answer has two outputs with tokens between them"
    return "the time of a pass cannot be told from the noise: it needs more passes, or longer ones"


def asserted_comparison(results: Sequence[Result], raised: BaseException) -> tuple[int, Comparison] | None:
    """The comparison that an AssertionError is about, with the index of its result; None when it is about no fraction.

    It was made in the statement that raised. Where that compares several fractions, the last false one decided.
    """
    place = _innermost(raised.__traceback__)
    if place is None:
        return None
    file, line = place
    lines = range(line, line + 1)
    found: list[tuple[int, Comparison]] = []
    for index, result in enumerate(results):
        comparisons = result.fraction.comparisons
        near = [comparison for comparison in comparisons if comparison.where[0] == file]
        if near and len(lines) == 1:
            lines = statement_lines(file, line)
        here = [comparison for comparison in near if comparison.where[1] in lines]
        if here:
            found.append((index, here[-1]))
    false = [entry for entry in found if not entry[1].truth]
    return (false or found)[-1] if found else None


def _innermost(traceback: TracebackType | None) -> tuple[str, int] | None:
    """Where it was raised; an assertion of unittest is the line that calls it."""
    place = None
    while traceback is not None:
        if UNITTESTS_OWN not in traceback.tb_frame.f_globals:
            place = traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next
    return place


def statement_lines(file: str, line: int) -> range:
    """The lines of the innermost statement at this line: an assert may span several."""
    lines = range(line, line + 1)
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return lines
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or node.lineno):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return lines


def _budget_error(failed: Sequence[Result], settings: Settings) -> RooflineError | None:
    """The first result's error, with the place of its budget; the others in a line each."""
    error = error_of(failed[0].evidence, failed[0].verdict)
    more = [error_of(result.evidence, result.verdict) for result in failed[1:]]
    if not isinstance(error, (BelowCeiling, AboveBand)):
        return error
    lines = _place_lines(failed[0], settings, is_above=isinstance(error, AboveBand))
    lines += [
        f"  and {result.label}: {_first_line(str(other))}" for result, other in zip(failed[1:], more, strict=True)
    ]
    return type(error)("\n".join([str(error), *lines]), failed[0].verdict)


def _place_lines(result: Result, settings: Settings, *, is_above: bool) -> list[str]:
    """Where the budget was given that decided, and what to do where it wants a new number."""
    name, figure = ("at_most", result.verdict.at_most) if is_above else ("at_least", result.verdict.at_least)
    place = sources_of(result, settings)[f"{name}_from"]
    lines = [f"  budget: {name}={figure:g} from {place}"] if place else []
    if is_above:
        lines.append(
            "  do: give at_most a new number there, and at_least with it; where they stand in a budgets file, "
            "--roofline-update-budgets does"
        )
    return lines


def sources_of(result: Result, settings: Settings) -> dict[str, str | None]:
    """Where at_least and at_most of a result were given; None where nothing asks."""
    if not result.fraction.is_measured:
        return {"at_least_from": None, "at_most_from": None}
    low, high = settings.at_least, settings.at_most
    seen = result.evidence.exchanged
    argument = f"{seen.asked_by}= of roofline.stream" if seen is not None and seen.asked_by else None
    return {
        "at_least_from": argument or (low.place_of(result.verdict.at_least, result.device) if low else None),
        "at_most_from": high.place_of(result.verdict.at_most, result.device) if high else None,
    }


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0]


# -- what reports carry ---------------------------------------------------------------------------------------------


def attempt_of(outcome: Outcome, raised: BaseException | None) -> Attempt:
    """What is kept of one run of a test, whether or not it is run again: in words, for the results are recorded."""
    error = outcome.error or (raised if outcome.standing not in ("inconclusive", UNMEASURED) else None)
    message = f"{type(error).__name__}: {_first_line(str(error))}" if error is not None else outcome.reason
    return {"verdict": outcome.standing, "message": message}


def results_in(properties: Sequence[tuple[str, object]]) -> list[dict[str, Any]]:
    """The results in the record that a test left; none where it left no record."""
    for name, value in properties:
        if name == RECORD:
            results: list[dict[str, Any]] = json.loads(str(value))["results"]
            return results
    return []


def _slowed_by() -> list[str]:
    """What makes every line or call of Python slower in this process, and a miss of a step that is bound by them."""
    hooks = (("sys.settrace", sys.gettrace()), ("sys.setprofile", sys.getprofile()))
    names = [name for name, hook in hooks if hook is not None]
    if not names:
        return []
    watched = f"{' and '.join(names)} is in use (coverage, a debugger, a profiler)"
    return [f"{watched}: the Python of a step is slower than without"]


def properties_of(
    outcome: Outcome, results: Sequence[Result], settings: Settings, former: Sequence[Attempt] = ()
) -> list[tuple[str, str | float]]:
    """The user properties of a test: JSON text under ``roofline`` and flat values, for JUnit XML and the controller.

    Of a test that was run again `former` are the attempts before this one; the record has them as ``attempts``.
    """
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "mode": settings.mode,
        "verdict": outcome.standing,
        "reason": outcome.reason,
        "budget_error": type(outcome.error).__name__ if isinstance(outcome.error, (BelowCeiling, AboveBand)) else None,
        "results": [
            {
                **result.to_dict(),
                "notes": [*result.notes, *(_slowed_by() if standing == "failed" else ())],
                **sources_of(result, settings),
                "standing": standing,
            }
            for result, standing in zip(results, outcome.standings, strict=True)
        ],
    }
    if former:
        record["attempts"] = list(former)
    flat: list[tuple[str, str | float]] = [("roofline.verdict", outcome.standing)]
    fractions = [
        float(result.fraction) for result in results if result.fraction.is_measured and math.isfinite(result.fraction)
    ]
    if fractions:
        # A budget applies to every result, so the lowest one stands for the test.
        flat.append(("roofline.fraction", min(fractions)))
    if results:
        flat.append(("roofline.device", ", ".join(dict.fromkeys(result.device.id for result in results))))
    return [(RECORD, json.dumps(record)), *flat]
