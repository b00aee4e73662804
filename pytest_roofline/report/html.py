"""The page of a finished run: one HTML file to look at, from the document of its results.

It shows the roofline with every test as a point, the probe's sweep with the cache knee, a table that sorts and filters,
and for each test its samples between the re-probes, its traffic, findings, conditions and where it ran.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest_roofline
from pytest_roofline.errors import one_line
from pytest_roofline.report.html_data import Detail, page_data
from pytest_roofline.report.html_shell import page_of
from pytest_roofline.units import format_fraction
from pytest_roofline.whole_file import write_whole

MOST_BYTES = 5_000_000
"""A page is kept under this size, so that CI systems show it and mail takes it."""
_DETAILS = (
    Detail(samples=1000, characters=20_000),
    Detail(samples=100, characters=4000),
    Detail(samples=20, characters=1000),
    Detail(samples=0, characters=200),
)
_STYLES = ("page.css", "report.css")
_SCRIPTS = (
    "words.js",
    "payload.js",
    "charts.js",
    "roof.js",
    "sweep.js",
    "samples.js",
    "table.js",
    "details.js",
    "report.js",
)
_MOST_PLAIN_ROWS = 500
_GRAVITY = ("bogus", "failed", "inconclusive", "bogus (caught)", "passed", "not measured")


def html_page(document: Mapping[str, Any]) -> str:
    """The page, under 5 MB: where it would be larger, series are thinned and texts cut, and the page says so.

    MissingDependency without plotly, whose chart library goes into it.
    """
    page = ""
    for detail in _DETAILS:
        data = {**page_data(document, detail), "version": pytest_roofline.__version__}
        page = page_of(
            title=_title(data["rows"]), styles=_STYLES, scripts=_SCRIPTS, data=data, fallback=_fallback(data["rows"])
        )
        if len(page.encode()) < MOST_BYTES:
            break
    return page


def write_html(document: Mapping[str, Any], file: str) -> int:
    """Write the page to `file`, whole or not at all, making its folder where there is none; how many bytes it takes.

    OSError where it cannot be written.
    """
    page = html_page(document).encode()
    write_whole(file, page)
    return len(page)


# -- for readers without scripts ------------------------------------------------------------------------------------


def _title(rows: Sequence[Mapping[str, Any]]) -> str:
    return f"{_said(rows)} - roofline report"


def _said(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many tests ended how, the gravest first."""
    verdicts = {row["test"]: row["test_verdict"] for row in rows}
    counts = Counter(verdicts.values())
    order = [*_GRAVITY, *(word for word in counts if word not in _GRAVITY)]
    parts = [f"{counts[word]} {one_line(word)}" for word in order if counts[word]]
    return ", ".join(parts) or "no roofline tests"


def _fallback(rows: Sequence[Mapping[str, Any]]) -> str:
    """A plain table, for viewers of CI artifacts that run no scripts; the gravest come first, and not all of many."""
    ordered = sorted(rows, key=lambda row: _GRAVITY.index(row["verdict"]) if row["verdict"] in _GRAVITY else 0)
    shown = ordered[:_MOST_PLAIN_ROWS]
    more = f"<p>{len(rows) - len(shown)} more are left out here.</p>" if len(rows) > len(shown) else ""
    lines = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in _cells(row))}</tr>" for row in shown)
    return (
        f"<main><h1>{html.escape(_said(rows))}</h1><p>This viewer runs no scripts, so there are no charts. "
        "Save the file and open it in a browser to see all of it.</p><table><thead><tr><th>Verdict</th><th>Test</th>"
        f"<th>Of the ceiling</th><th>Why</th></tr></thead><tbody>{lines}</tbody></table>{more}</main>"
    )


def _cells(row: Mapping[str, Any]) -> Iterator[str]:
    fraction = row.get("fraction")
    findings = [finding for finding in row["findings"] if finding.get("severity") != "note"]
    why = str(findings[0].get("message", "")) if findings else row.get("reason", "")
    yield one_line(row["verdict"])
    yield one_line(row["test"], 200)
    yield format_fraction(fraction) if isinstance(fraction, (int, float)) else "-"
    yield one_line(str(why).split("\n", 1)[0], 300)
