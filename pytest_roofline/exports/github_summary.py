"""A job summary of GitHub Actions: Markdown with a picture and the table, graver things first.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands (``GITHUB_STEP_SUMMARY``). GitHub
drops images that are no address on the web, so the picture is a Mermaid chart
(https://mermaid.js.org/syntax/xyChart.html), which it draws itself; where nobody draws those (forges with a summary of
the same name), the bars in the table are the picture. A step's summary of over 1 MiB is not shown at all: rows that
do not fit are left out and counted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_roofline.exports.measured import (
    VERDICTS,
    Measured,
    measured_in,
    shortened,
    tests_of,
    verdict_of,
    verdicts_in,
)
from pytest_roofline.units import format_bytes, format_bytes_per_s, format_fraction, format_rate, format_seconds

NAME = "github-summary"
ROOM_BYTES = 1024 * 1024
"""What a step may write in all."""
_MARGIN_BYTES = 1024
_BARS = 30
_BAR_PIXELS = 24
_FRAME_PIXELS = 120
_COLOURS = "#3987c9, #d1495b"
"""Of bars and line; both can be told from a light and from a dark page."""
_BLOCKS = 10
_HEADINGS = ("test", "device", "pass", "rate", "bytes", "fraction of the ceiling", "bound", "verdict")
_FIGURES = len(_HEADINGS) - 3


def github_summary(document: Mapping[str, Any], room_bytes: int = ROOM_BYTES) -> str:
    """The Markdown, in at most `room_bytes` less what other writers of the step may need; empty where nothing fits."""
    rows = sorted(measured_in(document), key=lambda one: _grave(one.standing))
    lines = [f"### Roofline: {_counts(document)}", ""]
    ceilings = [*_ceilings(rows)]
    lines += [*ceilings, ""] if ceilings else []
    chart = _chart([one for one in rows if one.is_true and one.fraction is not None])
    left = room_bytes - _MARGIN_BYTES - _size(lines)
    if left < 0:
        return ""
    if chart and _size(chart) < left / 2:
        lines += chart
        left -= _size(chart)
    return "\n".join([*lines, *_fitting(rows, _unmeasured(document), left)]) + "\n"


def _counts(document: Mapping[str, Any]) -> str:
    counted = verdicts_in(document)
    words = [f"{count} {_shown_verdict(verdict)}" for verdict, count in counted.items() if count]
    return ", ".join(words) or "nothing was measured"


def _ceilings(rows: Sequence[Measured]) -> Iterator[str]:
    """Which devices, each with the ceilings that were held against it."""
    found: dict[tuple[str, str], list[float]] = {}
    for one in rows:
        rates = found.setdefault((one.device, one.device_name), [])
        if one.bandwidth_bytes_per_s is not None:
            rates.append(one.bandwidth_bytes_per_s)
    for (device, name), rates in found.items():
        probed = f": ceiling {format_bytes_per_s(max(rates))}" if rates else ""
        yield f"- {_code(device)} {_text(name)}{probed}"


def _fitting(rows: Sequence[Measured], unmeasured: Sequence[str], left: int) -> list[str]:
    """The table and what is said below it, each with as many lines as there is room for."""
    if not rows and not unmeasured:
        return []
    table = [f"| {' | '.join(_HEADINGS)} |", f"|{' --- |' * 2}{' ---: |' * 3}{' --- |' * 3}"] if rows else []
    said = [f"- {_code(one.name)}: {_text(one.reason)}" for one in rows if one.reason] + list(unmeasured)
    body = [*table, *(_row(one) for one in rows)]
    kept = _kept(body, left if not said else left * 2 // 3)
    lines = body[:kept]
    if kept < len(body):
        lines = lines[:-1] if len(lines) > len(table) else []
        lines.append(f"\n{len(body) - max(len(lines), len(table))} more rows do not fit into the summary of a step.")
    left -= _size(lines)
    if said:
        kept = _kept(said, left - 200)
        lines += ["", *said[:kept]]
        lines += [f"- {len(said) - kept} more do not fit."] if kept < len(said) else []
    return lines


def _kept(lines: Sequence[str], left: int) -> int:
    for number, line in enumerate(lines):
        left -= _size([line])
        if left < 0:
            return number
    return len(lines)


def _row(one: Measured) -> str:
    verdict = f"{_shown_verdict(one.standing)}{f' ({len(one.allowed)} allowed)' if one.allowed else ''}"
    cells = [_code(one.name), _code(one.device)]
    if one.is_true:
        fraction = "" if one.fraction is None else f"{_bar(one.fraction)} {format_fraction(one.fraction)}"
        if fraction and one.at_least is not None:
            fraction += f" of {format_fraction(one.at_least)}"
        cells += [
            "" if one.step_s is None else format_seconds(one.step_s),
            "" if one.tokens_per_s is None else f"{format_rate(one.tokens_per_s)} {one.rate_unit}",
            "" if one.bytes_per_pass is None else format_bytes(one.bytes_per_pass),
            fraction,
            _text(one.bound),
        ]
    else:
        cells += [""] * _FIGURES
    return f"| {' | '.join([*cells, verdict])} |"


def _unmeasured(document: Mapping[str, Any]) -> list[str]:
    """Tests that say why they were not judged, and have no result to say it of."""
    return [
        f"- {_code(shortened(str(test.get('node_id', ''))))}: {_text(shortened(str(test['reason']).split(chr(10))[0]))}"
        for test in tests_of(document)
        if test.get("reason")
        and (verdict_of(test) in ("inconclusive", "crashed") or not test.get("results"))
        and not any(_says(result) for result in test.get("results") or ())
    ]


def _says(result: Any) -> bool:
    """Whether a result's own findings explain an inconclusive test, so that its reason would be the same line again."""
    findings = result.get("findings") if isinstance(result, Mapping) else None
    return any(isinstance(one, Mapping) and one.get("severity") == "inconclusive" for one in findings or ())


def _chart(rows: Sequence[Measured]) -> list[str]:
    """Fractions as bars, budgets as a line where every bar has one."""
    if not rows:
        return []
    shown = rows[:_BARS]
    percents = [100 * (one.fraction or 0.0) for one in shown]
    labels = ", ".join(f'"{number}. {_plain(one.name)}"' for number, one in enumerate(shown, 1))
    more = f", {len(shown)} of {len(rows)}" if len(shown) < len(rows) else ""
    budgets = [one.at_least for one in shown]
    has_budgets = all(budget is not None for budget in budgets)
    line = ", the line is what is asked for" if has_budgets else ""
    look = {
        "xyChart": {"width": 800, "height": _FRAME_PIXELS + _BAR_PIXELS * len(shown)},
        "themeVariables": {"xyChart": {"plotColorPalette": _COLOURS}},
    }
    lines = [
        "```mermaid",
        f"%%{{init: {json.dumps(look)}}}%%",
        "xychart-beta horizontal",
        f'    title "Per cent of the ceiling{more}{line}"',
        f"    x-axis [{labels}]",
        f'    y-axis "per cent" 0 --> {max(100, *(math.ceil(percent) for percent in percents))}',
        f"    bar [{', '.join(f'{max(0.0, percent):.1f}' for percent in percents)}]",
    ]
    if has_budgets:
        lines.append(f"    line [{', '.join(f'{100 * (budget or 0.0):.1f}' for budget in budgets)}]")
    return [*lines, "```", ""]


def _bar(fraction: float) -> str:
    full = min(_BLOCKS, max(0, round(_BLOCKS * fraction)))
    return "\N{FULL BLOCK}" * full + "\N{LIGHT SHADE}" * (_BLOCKS - full)


def _grave(standing: str) -> int:
    return VERDICTS.index(standing) if standing in VERDICTS else len(VERDICTS)


def _shown_verdict(verdict: str) -> str:
    return f"**{verdict.upper()}**" if verdict in ("bogus", "inconclusive") else _text(verdict)


def _plain(name: str) -> str:
    """The end of an id in characters that a chart's grammar does not read: the table below has the whole."""
    test = re.sub(r"[^A-Za-z0-9_.-]+", " ", name.split("::", 1)[-1]).strip()
    return test if len(test) <= 40 else f"{test[:18].strip()}...{test[-18:].strip()}"


def _code(text: str) -> str:
    return f"<code>{_text(text)}</code>" if text else ""


def _text(text: str) -> str:
    """Text that is no Markdown and no HTML: whatever could be either is written as an entity."""
    return "".join(
        character if character.isalnum() or character in " .,%()/-+='" else f"&#{ord(character)};"
        for character in shortened(text, 400)
    )


def _size(lines: Sequence[str]) -> int:
    return sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)
