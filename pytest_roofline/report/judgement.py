"""Judged results as text: one row each, and what stands behind every one that did not pass."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_roofline.errors import one_line
from pytest_roofline.published.judgement import Judgement, expected_words
from pytest_roofline.units import format_fraction, format_rate, format_seconds

WIDTH = 100
HEADINGS = ("result", "claimed", "ceiling", "fraction", "verdict", "why")
_WORDS = {"passed": "passed", "failed": "FAILED", "bogus": "BOGUS", "inconclusive": "INCONCLUSIVE"}
_LONGEST_LABEL = 40
_LONGEST_TEXT = 2000
_PLACE = re.compile(r"(?:row|line|benchmark) \d+$", re.ASCII)


def judgement_lines(judgements: Sequence[Judgement]) -> Iterator[str]:
    """A heading for each model and device, a table, then the findings of each row."""
    names = _names(judgements)
    rows = [HEADINGS, *map(_row, judgements, names)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS) - 1)]
    yield from dict.fromkeys(map(_heading, judgements))
    yield ""
    for row in rows:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
    yield ""
    shared = _shared_notes(judgements)
    for judgement, name in zip(judgements, names, strict=True):
        yield from _details(judgement, name, shared)
    for message in shared:
        yield from _wrapped("note", message)
    roofs = [judgement.roof for judgement in judgements if judgement.roof is not None]
    if roofs:
        yield from _wrapped("expected", expected_words(roofs[0].prediction))
    undecided = sum(judgement.verdict == "inconclusive" for judgement in judgements)
    if undecided:
        yield f"{undecided} of {len(judgements)} not judged"


def _heading(judgement: Judgement) -> str:
    machine, model = judgement.subject.machine, judgement.subject.least
    ranks = "" if machine.ranks == 1 else f"{machine.ranks} x "
    return (
        f"{one_line(model.model)} on {ranks}{one_line(machine.name)}, weights {one_line(model.weights)}, "
        f"KV cache {one_line(model.kv)}"
    )


def _names(judgements: Sequence[Judgement]) -> list[str]:
    """What each row is called: as its tool calls it, with its place in the file where several are called so."""
    labels = [one_line(judgement.reported.label, _LONGEST_LABEL) for judgement in judgements]
    counted = Counter(labels)
    places = [_PLACE.search(judgement.reported.where) for judgement in judgements]
    return [
        label if place is None or counted[label] < 2 else f"{label}, {place[0]}"
        for label, place in zip(labels, places, strict=True)
    ]


def _row(judgement: Judgement, name: str) -> tuple[str, ...]:
    roof, reported = judgement.roof, judgement.reported
    claimed = "-" if judgement.claimed_tokens_per_s is None else f"{format_rate(judgement.claimed_tokens_per_s)} tok/s"
    if reported.seconds is not None and judgement.claimed_tokens_per_s is None:
        claimed = format_seconds(reported.seconds)
    ceiling = "-"
    if roof is not None:
        ceiling = f"{format_rate(roof.ceiling.high)} tok/s"
        if 0 < roof.ceiling.low < 0.999 * roof.ceiling.high:
            ceiling = f"{format_rate(roof.ceiling.low)} to {ceiling}"
    return (
        name,
        claimed,
        ceiling,
        _fraction(judgement),
        _WORDS[judgement.verdict],
        _why(judgement),
    )


def _fraction(judgement: Judgement) -> str:
    roof, fraction = judgement.roof, judgement.fraction
    if roof is None or fraction is None:
        return "-"
    if roof.ceiling.low <= 0:
        return f"over {format_fraction(fraction)}"
    highest = fraction * roof.ceiling.high / roof.ceiling.low
    if highest > 1.005 * fraction and fraction < 1:
        return f"{format_fraction(fraction)} to {format_fraction(min(highest, 1.0))}"
    return format_fraction(fraction)


def _why(judgement: Judgement) -> str:
    """The check that decided, or nothing."""
    severity = judgement.verdict
    decisive = [finding.check for finding in judgement.findings if finding.severity == severity]
    if severity == "failed":
        decisive = ["below-ceiling"]
    return ", ".join(dict.fromkeys(decisive))


def _shared_notes(judgements: Sequence[Judgement]) -> list[str]:
    """Notes of every row of several, said once."""
    if len(judgements) < 2:
        return []
    notes = [
        dict.fromkeys(finding.message for finding in judgement.findings if finding.severity == "note")
        for judgement in judgements
    ]
    return [message for message in notes[0] if all(message in others for others in notes[1:])]


def _details(judgement: Judgement, name: str, shared: Sequence[str]) -> Iterator[str]:
    for finding in judgement.findings:
        if finding.message in shared:
            continue
        for number, line in enumerate(finding.message.split("\n")):
            yield from _wrapped(name if not number else "", line.strip())
        if finding.remedy:
            yield from _wrapped("", f"do: {finding.remedy}")


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        one_line(text, _LONGEST_TEXT),
        WIDTH,
        initial_indent=f"  {label}: " if label else "    ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
