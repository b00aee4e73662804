"""Which pages of this process were never written, as Linux tells without privileges.

A private anonymous page that was read before it was written is mapped to the one zero page of the system (or to the
one huge zero page). ``/proc/self/pagemap`` shows it as present, and not mapped exclusively by this process. Pages
shared with a forked child, or merged by the kernel, show the same two flags; but those are resident memory, and
``/proc/self/smaps`` counts resident and shared bytes of every mapping, which no zero page is part of. So a mapping's
untouched bytes are at most those that are not resident, and at least the suspicious ones less the shared ones.

Files, memory files and shared mappings have no zero pages: reading allocates, or finds the page cache. What was
swapped out was written. Elsewhere (macOS, Windows, sandboxes without these files) nothing is known.
"""

from __future__ import annotations

import mmap
import os
import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_roofline.residency import Span, Survey, places

ROOT = Path("/")
RUNS = 512
RUN_PAGES = 8
"""Runs of neighbouring pages cost one read each: 4,096 pages in about a millisecond."""

_PRESENT, _SWAPPED, _EXCLUSIVE = 1 << 63, 1 << 62, 1 << 56
_ENTRY_BYTES = 8
_COUNTED = ("Size", "Rss", "Swap", "Shared_Clean", "Shared_Dirty")


@dataclass(slots=True, kw_only=True)
class _Mapping:
    """One private anonymous mapping, in bytes; `suspects` of the sampled pages lie in it."""

    start: int
    stop: int
    figures: dict[str, int]
    suspects: int = 0

    def untouched_bytes(self, total_bytes: float, sampled: int) -> float:
        """What is surely untouched, when so many sampled pages stand for so many bytes."""
        if not all(name in self.figures for name in _COUNTED):
            return 0.0
        shared = self.figures["Shared_Clean"] + self.figures["Shared_Dirty"]
        absent = self.figures["Size"] - self.figures["Rss"] - self.figures["Swap"]
        return max(0.0, min(total_bytes * self.suspects / sampled - shared, absent))


def survey_pages(spans: Sequence[Span], *, root: Path = ROOT, page_bytes: int = mmap.PAGESIZE) -> Survey | None:
    """How many bytes of these stretches were never written; None where the system does not say.

    Looks at up to 4,096 whole pages. Reads no memory, so it changes nothing. Pages that nobody has read yet are not
    counted: look after the step has run.
    """
    ranges = [pages for span in spans if (pages := _whole_pages(span, page_bytes))]
    total_pages = sum(len(pages) for pages in ranges)
    if not total_pages:
        return None
    try:
        suspects, sampled = _suspects(ranges, root / "proc/self/pagemap")
        if not sampled:
            return None
        untouched = 0.0
        if suspects:
            mappings = _mappings([page * page_bytes for page in suspects], root / "proc/self/smaps")
            untouched = sum(mapping.untouched_bytes(total_pages * page_bytes, sampled) for mapping in mappings)
    except (OSError, ValueError, OverflowError):
        return None
    return Survey(untouched_bytes=min(untouched, float(total_pages * page_bytes)), sampled=sampled)


def _whole_pages(span: Span, page_bytes: int) -> range:
    """Numbers of the pages that lie in a stretch entirely: the others may hold something else, which was written."""
    return range(-(-span.start // page_bytes), (span.start + span.length_bytes) // page_bytes)


def _suspects(ranges: Sequence[range], pagemap: Path) -> tuple[list[int], int]:
    """Sampled pages that are there and not this process's own, and how many pages were sampled."""
    seen: dict[int, bool] = {}
    descriptor = os.open(pagemap, os.O_RDONLY)
    try:
        for index, offset in places([len(pages) for pages in ranges], RUNS):
            run = ranges[index][offset : offset + RUN_PAGES]
            data = os.pread(descriptor, _ENTRY_BYTES * len(run), run[0] * _ENTRY_BYTES)
            entries = struct.unpack(f"={len(data) // _ENTRY_BYTES}Q", data[: len(data) // _ENTRY_BYTES * _ENTRY_BYTES])
            for page, entry in zip(run, entries, strict=False):
                seen[page] = bool(entry & _PRESENT) and not entry & (_SWAPPED | _EXCLUSIVE)
    finally:
        os.close(descriptor)
    return [page for page, is_suspect in seen.items() if is_suspect], len(seen)


def _mappings(addresses: Sequence[int], smaps: Path) -> list[_Mapping]:
    """The private anonymous mappings that the addresses lie in."""
    found = [mapping for mapping in _all_mappings(smaps) if mapping is not None]
    starts = [mapping.start for mapping in found]
    for address in addresses:
        index = bisect_right(starts, address) - 1
        if index >= 0 and address < found[index].stop:
            found[index].suspects += 1
    return [mapping for mapping in found if mapping.suspects]


def _all_mappings(smaps: Path) -> list[_Mapping]:
    found: list[_Mapping] = []
    current: _Mapping | None = None
    for line in smaps.read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split(None, 5)
        if len(words) >= 5 and "-" in words[0] and not words[0].endswith(":"):
            start, _, stop = words[0].partition("-")
            is_anonymous = words[1].endswith("p") and words[4] == "0"
            current = _Mapping(start=int(start, 16), stop=int(stop, 16), figures={}) if is_anonymous else None
            if current is not None:
                found.append(current)
        elif current is not None and len(words) >= 2 and words[0][:-1] in _COUNTED and words[1].isdigit():
            current.figures[words[0][:-1]] = int(words[1]) * 1024
    return found
