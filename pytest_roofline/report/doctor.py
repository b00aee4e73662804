"""What the doctor says: fit or not, what is wrong by its grade and how to fix it, what was looked at, what was not."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from pytest_roofline.errors import one_line
from pytest_roofline.fitness import GRADES, Complaint, RunnerFacts, is_fit
from pytest_roofline.units import format_bytes, format_bytes_per_s, format_fraction, format_ratio, format_seconds

WIDTH = 100
_LABEL = 16
_LONGEST_TEXT = 2000


def doctor_lines(
    facts: RunnerFacts, found: tuple[Complaint, ...], not_checked: Sequence[str], width: int = WIDTH
) -> Iterator[str]:
    """The verdict in one line, complaints with their remedies, a table of what was seen, what could not be.

    All but the verdict keeps to `width` cells.
    """
    yield _verdict(facts, found)
    for grade in GRADES:
        graded = [one for one in found if one.grade == grade]
        if graded:
            yield ""
            yield grade
        for one in graded:
            yield from _wrapped(f"  {one.name}: ", one.message, "    ", width)
            if one.remedy:
                yield from _wrapped("    -> ", one.remedy, "       ", width)
    rows = list(_rows(facts))
    if rows:
        yield ""
        yield "what was seen"
        for label, text in rows:
            yield from _wrapped(f"  {label:<{_LABEL}}", text, " " * (_LABEL + 2), width)
    if not_checked:
        yield ""
        yield "what could not be checked"
        for text in not_checked:
            yield from _wrapped("  - ", text, "    ", width)


def _verdict(facts: RunnerFacts, found: tuple[Complaint, ...]) -> str:
    where = facts.wanted or "this runner"
    if facts.device is not None:
        where = f"{facts.device.id} ({one_line(facts.device.name)})"
    blocking = [one.name for one in found if one.grade == "blocks judging"]
    if not is_fit(found):
        return f"{where}: NOT FIT to judge performance ({', '.join(blocking)})"
    wide = sum(one.grade == "widens intervals" for one in found)
    but = f", with wider intervals ({wide} reason{'s' if wide > 1 else ''})" if wide else ""
    measured = "; its bandwidth was not measured" if facts.short_probes is None else ""
    return f"{where}: fit to judge performance{but}{measured}"


def _rows(facts: RunnerFacts) -> Iterator[tuple[str, str]]:
    """What was seen, in the order in which it matters; what is not known has no row."""
    now, held = facts.conditions, facts.held
    if facts.short_probes is not None:
        low, high = facts.short_probes.range_bytes_per_s
        yield (
            "bandwidth",
            f"{format_bytes_per_s(facts.short_probes.usual_bytes_per_s)} read, {format_bytes_per_s(low)} to "
            f"{format_bytes_per_s(high)} ({format_ratio(facts.short_probes.spread)}) in "
            f"{len(facts.short_probes.rates_bytes_per_s)} probes within {format_seconds(facts.short_probes.elapsed_s)}",
        )
    if facts.sheet_bytes_per_s is not None:
        yield "printed", format_bytes_per_s(facts.sheet_bytes_per_s)
    if facts.free_memory_bytes is not None and facts.device is not None:
        cache = facts.cache_bytes
        kind = "cache knee" if facts.is_knee_measured else "last-level cache as reported"
        yield (
            "memory",
            f"{format_bytes(facts.free_memory_bytes)} free" + (f", {kind} {format_bytes(cache)}" if cache else ""),
        )
    if now.clock_hz is not None:
        top = "" if now.max_clock_hz is None else f" of {now.max_clock_hz / 1e6:,.0f} MHz"
        yield "clock", f"{now.clock_hz / 1e6:,.0f} MHz{top}"
    if now.power_w is not None:
        limit = "" if now.power_limit_w is None else f", limit {now.power_limit_w:.0f} W"
        yield "power", f"{now.power_w:.0f} W{limit}"
    if now.temperature_c is not None:
        yield "temperature", f"{now.temperature_c:.0f} degrees C"
    if now.uncorrected_errors is not None:
        yield "memory errors", f"{now.uncorrected_errors} uncorrected"
    if now.usable_cores is not None:
        quota = "no quota" if now.quota_cores is None else f"a quota of {now.quota_cores:g}"
        threads = "" if facts.step_threads is None else f", {facts.step_threads} threads ({facts.threads_source})"
        yield "cores", f"{now.usable_cores} usable, {quota}{threads}"
    if now.governor is not None:
        yield "governor", now.governor
    if held is not None and held.neighbours_share is not None:
        stolen = "" if held.steal_share is None else f", of it {format_fraction(held.steal_share)} by the hypervisor"
        whose = "of the cores" if facts.is_cpu else "of the device's time"
        yield "used by others", f"{format_fraction(held.neighbours_share)} {whose}{stolen}"
    if now.load_average is not None:
        pressure = "" if now.pressure_share is None else f", tasks waited {format_fraction(now.pressure_share)} of 10 s"
        yield "load", f"{now.load_average:.2f} (average of a minute){pressure}"
    if now.swap_used_bytes is not None:
        yield "swap", f"{format_bytes(now.swap_used_bytes)} in use"
    if facts.huge_pages is not None:
        yield "huge pages", facts.huge_pages
    if facts.is_virtual is not None:
        yield "machine", "virtual" if facts.is_virtual else "not virtual"


def _wrapped(first: str, text: str, rest: str, width: int) -> list[str]:
    return textwrap.wrap(
        one_line(text, _LONGEST_TEXT),
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
