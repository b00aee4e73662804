"""What pytest-html shows below a test's row: its results in a small table, as an extra of the report.

https://pytest-html.readthedocs.io/en/latest/user_guide.html#extra-content. An extra of the format ``html`` goes into
the page as it is, so everything here is escaped. It takes the colours of the page, and no script.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from pytest_roofline.exports.measured import Measured, measured_in
from pytest_roofline.units import format_bytes, format_fraction, format_rate, format_seconds

HEADINGS = ("roofline", "device", "pass", "rate", "bytes per pass", "fraction", "asked for", "bound", "verdict")
_FIGURES = len(HEADINGS) - 3


def pytest_html_extra(node_id: str, record: Mapping[str, Any]) -> str | None:
    """The table of one test, from its record; None where it has no result.

    None, too, where pytest-html could not name an extra of this test: it takes the id apart as if it were escaped.
    """
    rows = measured_in({"tests": [{**record, "node_id": node_id}]})
    if not rows or not _can_be_named(node_id):
        return None
    cell = 'style="padding:2px 8px;text-align:left"'
    head = "".join(f"<th {cell}>{escape(heading)}</th>" for heading in HEADINGS)
    body = "".join(
        f"<tr>{''.join(f'<td {cell}>{escape(text)}</td>' for text in _cells(one))}</tr>"
        + (f'<tr><td {cell} colspan="{len(HEADINGS)}">{escape(one.reason)}</td></tr>' if one.reason else "")
        for one in rows
    )
    return f'<table class="roofline"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cells(one: Measured) -> list[str]:
    figures = [""] * _FIGURES
    if one.is_true:
        figures = [
            "" if one.step_s is None else format_seconds(one.step_s),
            "" if one.tokens_per_s is None else f"{format_rate(one.tokens_per_s)} {one.rate_unit}",
            "" if one.bytes_per_pass is None else format_bytes(one.bytes_per_pass),
            "" if one.fraction is None else format_fraction(one.fraction),
            "" if one.at_least is None else format_fraction(one.at_least),
            one.bound,
        ]
    allowed = f" ({len(one.allowed)} allowed)" if one.allowed else ""
    return [one.label, f"{one.device} ({one.device_name})", *figures, f"{one.standing}{allowed}"]


def _can_be_named(node_id: str) -> bool:
    try:
        node_id.encode("utf-8").decode("unicode_escape")
    except UnicodeError:
        return False
    return True
