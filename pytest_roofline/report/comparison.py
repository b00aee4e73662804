"""Two runs side by side, for a terminal: one line per result, and below it what has to be known of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isinf

from pytest_roofline.comparison.change import Change, Side
from pytest_roofline.comparison.runs import RunComparison
from pytest_roofline.report.cells import padded, printable, told_apart, width_of
from pytest_roofline.units import format_rate, format_seconds

_WIDTH = 80
_LEAST_NAME = 12
_BETWEEN = "  "
_HEADINGS = ("test", "old", "new", "speed", "between", "")


def comparison_lines(found: RunComparison, *, old_name: str, notes: Sequence[str] = ()) -> list[str]:
    """What changed, what was not compared and why, which tests only one run has; old first, then new.

    That nothing was compared at all is for the caller to say (`RunComparison.nothing_compared`), as gravely as it is.
    """
    lines = [f"compared with {printable(old_name)}"]
    lines += [f"  {printable(line)}" for line in (*notes, *found.differences)]
    if found.changes:
        lines += _table(found.changes)
    lines += [f"NOT COMPARED {_name(one.node_id, one.label)}: {printable(one.reason)}" for one in found.refusals]
    lines += [f"ONLY IN THE OLD RUN {printable(name)}" for name in found.only_old]
    lines += [f"ONLY IN THE NEW RUN {printable(name)}" for name in found.only_new]
    return [*lines, *_conclusion(found)]


def _name(node_id: str, label: str) -> str:
    name = printable(node_id)
    return f"{name}: {printable(label)}" if label else name


def _names(changes: Sequence[Change]) -> list[str]:
    """Without their files, where that leaves every row a name of its own."""
    short = [_name(change.node_id.partition("::")[2] or change.node_id, change.label) for change in changes]
    return short if len(set(short)) == len(short) else [_name(change.node_id, change.label) for change in changes]


def _table(changes: Sequence[Change]) -> Iterator[str]:
    names = _names(changes)
    figures = [_cells(change) for change in changes]
    widths = [max(map(width_of, column)) for column in zip(_HEADINGS[1:], *figures, strict=True)]
    room = max(_LEAST_NAME, _WIDTH - sum(widths) - len(_BETWEEN) * len(widths))
    short = told_apart(names, room)
    rows = [(short[name], *cells) for name, cells in zip(names, figures, strict=True)]
    widths.insert(0, max(width_of(row[0]) for row in (_HEADINGS, *rows)))
    yield _line(_HEADINGS, widths)
    for change, row in zip(changes, rows, strict=True):
        yield _line(row, widths)
        for remark in ((change.reason,) if change.reason else ()) + change.remarks:
            yield f"  {printable(remark)}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    last = len(row) - 1
    cells = [padded(cell, widths[index], is_right=0 < index < last) for index, cell in enumerate(row)]
    return _BETWEEN.join(cells).rstrip()


def _cells(change: Change) -> tuple[str, ...]:
    bounds = change.interval
    high = "any" if bounds and isinf(bounds.high) else f"{bounds.high:.2f}" if bounds else ""
    return (
        _figure(change.kind, change.old),
        _figure(change.kind, change.new),
        "-" if change.speed is None else f"{change.speed:.2f}x",
        f"{bounds.low:.2f} to {high}" if bounds else "-",
        change.answer,
    )


def _figure(kind: str, side: Side) -> str:
    """Tokens per second of all sequences; the time of a call, where no tokens are counted."""
    if kind != "kernel" and side.tokens_per_s is not None:
        return f"{format_rate(side.tokens_per_s)} tok/s"
    return "-" if side.cost_s is None or side.cost_s <= 0 else format_seconds(side.cost_s)


def _conclusion(found: RunComparison) -> Iterator[str]:
    counts = dict.fromkeys(("faster", "slower", "same", "undecided"), 0)
    for change in found.changes:
        counts[change.answer] += 1
    said = ", ".join(f"{count} {answer}" for answer, count in counts.items() if count)
    yield f"{len(found.changes)} compared{f' ({said})' if said else ''}, {len(found.refusals)} not"
    if slower := len(found.regressions):
        yield f"{slower} slower by more than {found.threshold * 100:g} %, beyond what noise explains"
