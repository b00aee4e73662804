"""What a finished run writes into its file of budgets: figures are ratcheted up to what was measured, less a margin.

A figure is written for a test on a device of this name, and for nothing else: patterns and the default stay what a
person made of them. The new `at_least` is the lower end of the fraction's interval (noise and caches together), less
5 %, to two digits. It replaces a lower one from 2 % on, so that a lucky run does not creep; a higher one it replaces
only with consent ("loosen"), and only where the test missed it. `at_most` is never made, and raised only where a result
is above it: to the upper end of the interval, and 5 %.

A test writes nothing where anything of it is bogus, inconclusive, unmeasured or without a fraction, where it failed for
another reason than its budget, was run again, or has a budget of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_roofline.budgets.document import (
    DEFAULT_AT_LEAST,
    FIGURES,
    SCHEMA,
    BudgetsFile,
    budgets_in,
    is_default_place,
)
from pytest_roofline.budgets.edits import Edit, EditRefused, edited, quoted, shown
from pytest_roofline.budgets.patterns import is_wild, ungrouped
from pytest_roofline.budgets.storage import BudgetsText
from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.settings import Bar, names_of
from pytest_roofline.units import format_fraction

MARGIN = 0.05
"""Between what was measured and the figure that is written."""
LEAST_STEP = 0.02
"""By how much a measurement has to beat a figure before it replaces it."""
LONGEST_LIST = 20
HEAD = f"""\
# Fractions of the ceiling that tests have to reach, by device. --roofline-update-budgets raises them to what was
# measured, less {MARGIN:.0%}; comments and order stay. A name of a device may be a pattern: H100*, cpu, "*".
schema: {SCHEMA}
default: {DEFAULT_AT_LEAST:g}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """New figures of a test on a device, with those that they replace and what was measured."""

    edit: Edit
    device: str
    former: Mapping[str, float | None]
    low: float
    high: float

    @property
    def word(self) -> str:
        """What it does, by the figure that judges most."""
        for figure, value in self.edit.figures.items():
            old = self.former.get(figure)
            return "new" if old is None else "raised" if value > old else "lowered"
        return "kept"

    def line(self) -> str:
        """Which test, where, from what to what."""
        steps = [
            f"{name} {shown(figure)}" if (old := self.former.get(name)) is None else f"{name} {old:g} -> {figure:g}"
            for name, figure in self.edit.figures.items()
        ]
        measured = f"{format_fraction(self.low)} to {format_fraction(self.high)}"
        return f"{one_line(self.edit.test_id)} on {one_line(self.device)}: {', '.join(steps)} (measured {measured})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run changes, and why some tests write nothing: by reason, which."""

    changes: tuple[Change, ...]
    silent: Mapping[str, Sequence[str]]


def update(
    path: str, name: str, document: Mapping[str, Any], *, loosen: bool = False, is_grouped: bool = False
) -> list[str]:
    """Bring the file up to date with a finished run; lines that say what was changed.

    `is_grouped`: whether the run's test ids end in the groups of pytest-xdist. OSError where the file cannot be
    written, RooflineUsageError where it is no budgets file or cannot be changed safely: then it is as it was.
    """
    plan = Plan(changes=(), silent={})

    def changed(text: str | None) -> str | None:
        nonlocal plan
        budgets = budgets_in(text.replace("\r\n", "\n"), name) if text is not None else None
        plan = planned(document, budgets, loosen=loosen, is_grouped=is_grouped)
        edits = [change.edit for change in plan.changes]
        return edited(HEAD if text is None else text, edits, name) if edits else None

    BudgetsText(path, name).rewrite(changed)
    return report(plan, name)


def report(plan: Plan, name: str) -> list[str]:
    """The lines of a plan that was carried out."""
    words = [change.word for change in plan.changes]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    lines = [f"{name}: {counts or 'nothing to change'}"]
    lines += [f"  {change.line()}" for change in plan.changes[:LONGEST_LIST]]
    if len(plan.changes) > LONGEST_LIST:
        lines.append(f"  and {len(plan.changes) - LONGEST_LIST} more")
    for reason, tests in plan.silent.items():
        more = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
        lines.append(f"  not written, {reason}: {one_line(tests[0])}{more}")
    return lines


def planned(
    document: Mapping[str, Any], budgets: BudgetsFile | None, *, loosen: bool = False, is_grouped: bool = False
) -> Plan:
    """What this run would change in these budgets; without any every measured test gets its figure."""
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for test in document["tests"]:
        runs.setdefault(ungrouped(test["node_id"]) if is_grouped else test["node_id"], []).append(test)
    changes: list[Change] = []
    silent: dict[str, list[str]] = {}
    for test_id, tests in runs.items():
        reason = next(filter(None, (_reason(test, loosen=loosen) for test in tests)), None)
        reason = reason or _unwritable(test_id)
        if reason is None:
            results = [result for test in tests for result in test["results"]]
            try:
                changes += list(_changes(test_id, results, budgets, loosen=loosen))
                continue
            except RooflineUsageError as error:  # two patterns tie for it, or its name cannot be written
                reason = str(error)
        silent.setdefault(reason, []).append(test_id)
    return Plan(changes=tuple(changes), silent=silent)


# -- whether a test may write ---------------------------------------------------------------------------------------


def _reason(test: Mapping[str, Any], *, loosen: bool) -> str | None:
    """Why a test writes nothing, in words that stand for several of them; None where it may."""
    if test.get("attempts") or test["outcome"] == "rerun":
        return "run again"
    if test["verdict"] not in ("passed", "failed"):
        return str(test["verdict"] or "not measured")
    results = test.get("results") or ()
    if not results:
        return "not measured"
    if test["outcome"] not in ("passed", "failed"):
        return str(test["outcome"])
    if test["outcome"] == "failed" and test.get("budget_error") is None:
        return "failed"
    if any(result["standing"] not in ("passed", "failed") for result in results):
        return "bogus, inconclusive or unmeasured in part"
    if any(None in (result["fraction_low"], result["fraction_high"]) for result in results):
        return "no fraction to budget"
    if any(_has_own(result) for result in results):
        return "the test has a budget of its own"
    if not loosen and any(result["standing"] == "failed" and not _is_above(result) for result in results):
        if any(is_default_place(result.get("at_least_from") or "") for result in results):
            return "below the file's default (=loosen gives it a lower figure of its own, or write one)"
        return "below its budget (--roofline-update-budgets=loosen lowers it)"
    return None


def _is_above(result: Mapping[str, Any]) -> bool:
    return result["at_most"] is not None and result["fraction_low"] > result["at_most"]


def _has_own(result: Mapping[str, Any]) -> bool:
    """Whether a marker or an argument judges it, before any file is asked."""
    return any(
        (result[figure] is not None and source is None) or (source or "").startswith("roofline marker")
        for figure in FIGURES
        for source in [result.get(f"{figure}_from")]
    )


def _unwritable(test_id: str) -> str | None:
    if is_wild(test_id):
        return "an id with * or ? is a pattern in the file, and would speak for other tests"
    try:
        quoted(test_id)
    except EditRefused as error:
        return str(error)
    return None


# -- the new figures ------------------------------------------------------------------------------------------------


def _changes(
    test_id: str, results: Sequence[Mapping[str, Any]], budgets: BudgetsFile | None, *, loosen: bool
) -> Iterator[Change]:
    """One change for each device of a test whose figures have to change."""
    by_device: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        by_device.setdefault(result["device"]["name"], []).append(result)
    for name, group in by_device.items():
        device = _device(group[0]["device"])
        low = min(result["fraction_low"] for result in group)
        high = max(result["fraction_high"] for result in group)
        bars = {figure: _bar(budgets, test_id, figure, device) for figure in FIGURES}
        is_missed = any(result["standing"] == "failed" and not _is_above(result) for result in group)
        figures: dict[str, float] = {}
        least = _least(low, bars["at_least"], device, loosen=loosen and is_missed)
        if least is not None:
            figures["at_least"] = least
        most = bars["at_most"].figure if bars["at_most"] is not None else None
        top = max(result["fraction_low"] for result in group)
        if most is not None and top > most:
            figures["at_most"] = min(_two_digits(high * (1 + MARGIN), math.ceil), FIGURES["at_most"])
        if figures:
            former = {figure: bar.figure if bar is not None else None for figure, bar in bars.items()}
            edit = Edit(test_id=test_id, device=_key(budgets, test_id, device), figures=figures)
            yield Change(edit=edit, device=name, former=former, low=low, high=high)


def _least(low: float, bar: Bar | None, device: Device, *, loosen: bool) -> float | None:
    """The new at_least; None where the one that is there stays."""
    figure = min(_two_digits(low * (1 - MARGIN), math.floor), FIGURES["at_least"])
    if figure <= 0:
        return None
    if bar is None or (device.is_cpu and bar.pattern == "*" and bar.figure is not None):
        return figure  # nothing judges it yet: a plain figure does not on a CPU
    if bar.figure is None:
        return None  # exempt, by a person's word
    if figure >= bar.figure * (1 + LEAST_STEP) or (loosen and figure < bar.figure):
        return figure
    return None


def _bar(budgets: BudgetsFile | None, test_id: str, figure: str, device: Device) -> Bar | None:
    budget = budgets.budget_for(test_id, figure) if budgets is not None else None
    return budget.bar_for(device) if budget is not None else None


def _key(budgets: BudgetsFile | None, test_id: str, device: Device) -> str:
    """How the test's own entry calls this very device; else its name."""
    entries = [entry for entry in budgets.tests if entry.pattern == test_id] if budgets is not None else []
    keys = [one.pattern for entry in entries for one in entry.devices if one.pattern.lower() in names_of(device)]
    if not keys and (is_wild(device.name) or device.name in FIGURES):
        raise EditRefused(f"the device's name {one_line(device.name)!r} would be a pattern in the file")
    return max(keys, key=len, default=device.name)


def _device(record: Mapping[str, Any]) -> Device:
    kind, _, index = str(record["id"]).partition(":")
    return Device(
        name=record["name"],
        kind=kind,
        index=int(index) if index.isdecimal() else 0,
        backend=record["backend"],
        vendor=record["vendor"],
    )


def _two_digits(value: float, rounded: Callable[[float], int]) -> float:
    """Two significant digits, up or down, and never finer than a file holds."""
    if value <= 0:
        return 0.0
    digits = min(9, 1 - math.floor(math.log10(value)))
    # Of 0.57 * 100 a float makes 56.99999999999999.
    scale: float = 10.0**digits
    return round(rounded(round(value * scale, 6)) / scale, 9)
