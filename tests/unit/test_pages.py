"""Pages that were never written: by the files of an invented kernel, and by the one that runs this test."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pytest_roofline.backends.pages import survey_pages
from pytest_roofline.residency import Span

PAGE = 4096
PRESENT, SWAPPED, FILE, EXCLUSIVE = 1 << 63, 1 << 62, 1 << 61, 1 << 56
OWN, ZERO, HUGE_ZERO = PRESENT | EXCLUSIVE, PRESENT, PRESENT | FILE
KIB_OF_A_PAGE = PAGE // 1024
START = 0x40000


def kernel(folder: Path, entries: list[int], *mappings: tuple[int, int, dict[str, int], str]) -> Path:
    """A root whose pagemap holds these entries from START on, and these mappings: pages, resident facts, header."""
    (folder / "proc/self").mkdir(parents=True)
    table = [0] * (START // PAGE) + entries
    (folder / "proc/self/pagemap").write_bytes(struct.pack(f"={len(table)}Q", *table))
    lines = ["00010000-00020000 r-xp 00000000 fe:00 260386                     /usr/bin/program", "Rss: 8 kB"]
    for first, pages, figures, kind in mappings:
        start = START + first * PAGE
        lines.append(f"{start:08x}-{start + pages * PAGE:08x} {kind}")
        facts = {"Size": pages, "Rss": 0, "Swap": 0, "Shared_Clean": 0, "Shared_Dirty": 0, **figures}
        lines += [f"{name}:{facts[name] * KIB_OF_A_PAGE:>16} kB" for name in facts]
        lines += ["THPeligible:           1", "VmFlags: rd wr mr mw me ac "]
    (folder / "proc/self/smaps").write_text("\n".join(lines) + "\n")
    return folder


PRIVATE = "rw-p 00000000 00:00 0 "
SHARED = "rw-s 00000000 00:01 1029                       /dev/zero (deleted)"
MAPPED_FILE = "rw-p 00000000 fe:00 77                         /models/model.safetensors"
HEAP = "rw-p 00000000 00:00 0                          [heap]"


def look(root: Path, pages: int, first: int = 0) -> Any:
    """Survey so many whole pages."""
    return survey_pages([Span(start=START + first * PAGE, length_bytes=pages * PAGE)], root=root, page_bytes=PAGE)


@pytest.mark.parametrize("entry", [ZERO, HUGE_ZERO])
@pytest.mark.parametrize("kind", [PRIVATE, HEAP])
def test_pages_read_and_never_written_are_found(tmp_path: Path, entry: int, kind: str) -> None:
    """The zero page, and the huge one, which is flagged as a file's."""
    found = look(kernel(tmp_path, [entry] * 100, (0, 100, {}, kind)), 100)
    assert found.untouched_bytes == 100 * PAGE
    assert found.sampled == 100


@pytest.mark.parametrize(
    ("entry", "figures", "kind"),
    [
        (OWN, {"Rss": 100}, PRIVATE),
        (0, {}, PRIVATE),  # reserved, and nobody has read it yet
        (SWAPPED, {"Swap": 100}, PRIVATE),
        (PRESENT, {"Rss": 100, "Shared_Dirty": 100}, PRIVATE),  # shared with a forked child
        (PRESENT, {"Rss": 100, "Shared_Clean": 100}, PRIVATE),  # merged with equal pages
        (PRESENT, {"Rss": 100}, PRIVATE),  # a kernel that never sets the exclusive flag
        (PRESENT | FILE, {"Rss": 0}, MAPPED_FILE),
        (PRESENT | FILE, {"Rss": 100}, MAPPED_FILE),
        (PRESENT | FILE, {"Rss": 100}, SHARED),
        (PRESENT | FILE, {"Rss": 0}, SHARED),
    ],
)
def test_honest_pages_are_not_accused(tmp_path: Path, entry: int, figures: dict[str, int], kind: str) -> None:
    """Written, unread, swapped, forked, merged, mapped from a file, shared."""
    assert look(kernel(tmp_path, [entry] * 100, (0, 100, figures, kind)), 100).untouched_bytes == 0


def test_half_of_a_tensor(tmp_path: Path) -> None:
    """Every second stretch of pages written."""
    entries = ([ZERO] * 64 + [OWN] * 64) * 64
    found = look(kernel(tmp_path, entries, (0, len(entries), {"Rss": len(entries) // 2}, PRIVATE)), len(entries))
    assert found.untouched_bytes == pytest.approx(len(entries) / 2 * PAGE, rel=0.1)
    assert found.sampled <= 4096


def test_forked_pages_beside_reserved_ones_are_not_taken_for_them(tmp_path: Path) -> None:
    """A mapping of which half is shared with a child and half was never used: the tensor is the shared half."""
    root = kernel(tmp_path, [PRESENT] * 100 + [0] * 100, (0, 200, {"Rss": 100, "Shared_Dirty": 100}, PRIVATE))
    assert look(root, 100).untouched_bytes == 0


def test_only_whole_pages_are_looked_at(tmp_path: Path) -> None:
    """The first and the last may hold something else."""
    root = kernel(tmp_path, [ZERO] * 3, (0, 3, {}, PRIVATE))
    inner = survey_pages([Span(start=START + 1, length_bytes=3 * PAGE - 2)], root=root, page_bytes=PAGE)
    assert inner is not None
    assert inner.untouched_bytes == PAGE
    assert survey_pages([Span(start=START + 1, length_bytes=PAGE)], root=root, page_bytes=PAGE) is None


def test_a_suspicious_page_in_no_mapping_counts_for_nothing(tmp_path: Path) -> None:
    """Unmapped since."""
    assert look(kernel(tmp_path, [ZERO] * 10), 10).untouched_bytes == 0


def test_mappings_whose_facts_are_missing_count_for_nothing(tmp_path: Path) -> None:
    """A kernel that does not say what is shared."""
    root = kernel(tmp_path, [ZERO] * 10, (0, 10, {}, PRIVATE))
    smaps = root / "proc/self/smaps"
    smaps.write_text(smaps.read_text().replace("Shared_Dirty", "Something"))
    assert look(root, 10).untouched_bytes == 0


def test_where_the_system_does_not_say_nothing_is_known(tmp_path: Path) -> None:
    """No such files, an empty one, nothing to look at, an address beyond all."""
    assert look(tmp_path, 10) is None
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/pagemap").write_bytes(b"")
    assert look(tmp_path, 10) is None
    assert survey_pages([], root=tmp_path) is None
    assert survey_pages([Span(start=2**64, length_bytes=PAGE)], root=tmp_path, page_bytes=PAGE) is None


# -- this kernel --------------------------------------------------------------------------------------------------

LENGTH = 8 * 2**20


def span_of(mapping: mmap.mmap) -> Span:
    """Where it lies."""
    return Span(start=ctypes.addressof(ctypes.c_char.from_buffer(mapping)), length_bytes=len(mapping))


def read(mapping: mmap.mmap) -> None:
    """Touch every page."""
    assert all(mapping[at] in (0, 7) for at in range(0, len(mapping), mmap.PAGESIZE))


def write(mapping: mmap.mmap) -> None:
    """Write to every page."""
    for at in range(0, len(mapping), mmap.PAGESIZE):
        mapping[at] = 7


def private(advice: str) -> mmap.mmap:
    """Private anonymous memory, with huge pages or without."""
    mapping = mmap.mmap(-1, LENGTH, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapping.madvise(getattr(mmap, advice))
    return mapping


needs_pagemap = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not os.access("/proc/self/pagemap", os.R_OK), reason="needs a pagemap"
)


@needs_pagemap
@pytest.mark.parametrize("advice", ["MADV_NOHUGEPAGE", "MADV_HUGEPAGE"])
def test_this_kernel_tells_untouched_memory_from_written(advice: str) -> None:
    """Reserved, read, written: only what was read and not written is untouched."""
    mapping = private(advice)
    assert survey_pages([span_of(mapping)]).untouched_bytes == 0  # type: ignore[union-attr]
    read(mapping)
    assert survey_pages([span_of(mapping)]).untouched_bytes == LENGTH  # type: ignore[union-attr]
    write(mapping)
    assert survey_pages([span_of(mapping)]).untouched_bytes == 0  # type: ignore[union-attr]


FORKED = """
import ctypes, mmap, os
from pytest_roofline.backends.pages import survey_pages
from pytest_roofline.residency import Span

mapping = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(mapping), mmap.PAGESIZE):
    mapping[at] = 7
out, into = os.pipe()
child = os.fork()
if not child:
    os.close(into)
    os.read(out, 1)
    os._exit(0)
print(survey_pages([Span(start=ctypes.addressof(ctypes.c_char.from_buffer(mapping)), length_bytes=len(mapping))]))
os.close(into)
os.waitpid(child, 0)
"""


@needs_pagemap
def test_this_kernel_shows_forked_memory_as_written() -> None:
    """While a child lives, all pages are shared with it; in a process of its own, for frameworks dislike forks."""
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("Survey(untouched_bytes=0.0,")


@needs_pagemap
@pytest.mark.parametrize("flags", ["MAP_PRIVATE", "MAP_SHARED"])
def test_this_kernel_shows_files_and_shared_memory_as_written(flags: str) -> None:
    """A sparse file of zeros, and anonymous memory that is shared."""
    with tempfile.TemporaryFile() as file:
        file.truncate(LENGTH)
        mapping = mmap.mmap(file.fileno(), LENGTH, flags=getattr(mmap, flags))
        read(mapping)
        assert survey_pages([span_of(mapping)]).untouched_bytes == 0  # type: ignore[union-attr]
    shared = mmap.mmap(-1, LENGTH)
    read(shared)
    assert survey_pages([span_of(shared)]).untouched_bytes == 0  # type: ignore[union-attr]
