"""The memory that all kernels of a CPU's probe share: what is in it, how it grows, and what it gives back."""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_roofline.backends import arena as module
from pytest_roofline.backends import libc
from pytest_roofline.backends.arena import TILE_BYTES, Arena, ArenaBackend, tile
from pytest_roofline.backends.cpu import CpuBackend
from pytest_roofline.backends.fake import FakeBackend
from pytest_roofline.backends.libc import Library

MIB = 2**20


def arena(source_bytes: int = 8 * MIB, target_bytes: int = 4 * MIB, *, is_stretchable: bool = False) -> Arena:
    """With addresses, and no memory yet."""
    return Arena(Library(), 2, source_bytes, target_bytes, is_stretchable=is_stretchable)


def content(memory: Arena, start: int, length: int) -> bytes:
    """What the source holds there."""
    return ctypes.string_at(memory.source.address + start, length)


def budget(steps: int) -> Callable[[], bool]:
    """Time for so many steps."""
    looks = iter(range(steps))
    return lambda: next(looks, None) is not None


def test_the_data_has_no_absent_byte_and_is_random() -> None:
    """A search for zero goes to the end; all other halves of a word occur about equally often."""
    data = tile()
    assert len(data) == TILE_BYTES
    assert 0 not in data
    halves = {data[offset : offset + 2] for offset in range(0, TILE_BYTES, 2)}
    assert len(halves) == 256


def test_the_data_is_ordinary_numbers_in_every_reading() -> None:
    """As float32, bfloat16 and float16: between 1 and 2 in size, of both signs; so no zeros, infinities or NaN."""
    data = tile()
    words = data[: 4 * 4096]
    order = "<" if sys.byteorder == "little" else ">"
    singles = struct.unpack(f"{order}4096f", words)
    halves = struct.unpack(f"{order}8192e", words)
    upper = 2 if sys.byteorder == "little" else 0
    brains = [
        struct.unpack(">f", (words[at : at + 2][::-1] if upper else words[at : at + 2]) + b"\0\0")[0]
        for at in range(0, len(words), 2)
    ]
    for numbers in (singles, halves, brains):
        assert all(1 <= abs(number) < 2 for number in numbers)
        assert 0.45 < sum(number > 0 for number in numbers) / len(numbers) < 0.55


def test_the_data_repeats_itself_every_tile() -> None:
    """Parts of the source that are whole tiles apart are equal, and others are not."""
    memory = arena()
    memory.fill(8 * MIB, 4 * MIB)
    assert content(memory, 0, MIB) == content(memory, 3 * MIB, MIB) == tile()
    assert content(memory, 100, MIB) == content(memory, 7 * MIB - MIB + 100, MIB)
    assert content(memory, 0, 4096) != content(memory, 4096, 4096)


def test_nothing_is_filled_before_it_is_asked_for() -> None:
    """Addresses cost nothing; filling twice fills what is new."""
    memory = arena()
    assert memory.room_bytes("read") == 0
    memory.fill(4 * MIB, 2 * MIB)
    assert (memory.source.filled_bytes, memory.target.filled_bytes) == (4 * MIB, 2 * MIB)
    memory.source.memory.write(0, b"x", 1)
    memory.fill(64 * MIB, 64 * MIB)
    assert (memory.source.filled_bytes, memory.target.filled_bytes) == (8 * MIB, 4 * MIB)
    assert content(memory, 0, 1) == b"x"


def test_both_parts_grow_in_turns_as_long_as_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the time ends early each part has some, and neither is left out; a part of it is said to be there."""
    monkeypatch.setattr(module, "_FIRST_BYTES", 4 * MIB)
    monkeypatch.setattr(module, "_STEP_BYTES", 2 * MIB)
    memory = arena(256 * MIB, 128 * MIB)
    memory.fill(256 * MIB, 128 * MIB, budget(0))
    assert (memory.source.filled_bytes, memory.target.filled_bytes) == (2 * MIB, 2 * MIB)
    memory.fill(256 * MIB, 128 * MIB, budget(3))
    assert (memory.source.filled_bytes, memory.target.filled_bytes) == (8 * MIB, 4 * MIB)


def test_room_is_what_both_parts_allow() -> None:
    """A copy reads as much as it writes, a triad reads two parts and writes one."""
    memory = arena()
    memory.fill(8 * MIB, 2 * MIB)
    rooms = {pattern: memory.room_bytes(pattern) / MIB for pattern in ("read", "copy", "write", "triad")}
    assert rooms == {"read": 8, "copy": 4, "write": 2, "triad": 6}


def test_what_is_trimmed_is_given_back() -> None:
    """The rest stays as it was; where the system takes back no parts, all of it stays."""
    memory = arena()
    memory.fill(8 * MIB, 2 * MIB)
    memory.trim(16 * MIB)
    assert memory.source.filled_bytes == 8 * MIB
    memory.trim(3 * MIB)
    assert memory.source.filled_bytes in (4 * MIB, 8 * MIB)
    assert content(memory, 3 * MIB, MIB) == tile()
    memory.fill(8 * MIB, 2 * MIB)
    assert content(memory, 7 * MIB, MIB) == tile()


def test_trimming_where_the_system_takes_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: the arena keeps what it has."""
    monkeypatch.delattr(mmap, "MADV_DONTNEED", raising=False)
    memory = arena()
    memory.fill(8 * MIB, 2 * MIB)
    memory.trim(2 * MIB)
    assert memory.source.filled_bytes == 8 * MIB


def test_a_stretchable_target_is_lent_to_each_thread() -> None:
    """Two long ranges over its share, half of it apart; asked again they are the same, until the target grows."""
    memory = arena(2 * MIB, 8 * MIB, is_stretchable=True)
    memory.fill(2 * MIB, 4 * MIB)
    ranges = memory.stretched(2, 64 * MIB, 5 * MIB)
    if ranges is None:
        pytest.skip("this system maps no memory file")
    assert len(ranges) == 2
    assert memory.stretched(2, 64 * MIB, 5 * MIB) is ranges
    assert memory.stretched(2, 2 * MIB - 1, 5 * MIB) is None  # half a share would be no whole tile
    for thread, (first, second) in enumerate(ranges):
        assert first.physical_bytes == second.physical_bytes == 2 * MIB
        assert min(first.length, second.length) >= 5 * MIB
        memory.target.memory.write(2 * MIB * thread + MIB, b"here", 4)
        assert ctypes.string_at(first.address + MIB, 4) == ctypes.string_at(second.address, 4) == b"here"
    memory.fill(2 * MIB, 8 * MIB)
    grown = memory.stretched(2, 64 * MIB, 5 * MIB)
    assert grown is not None
    assert grown[0][0].physical_bytes == 4 * MIB


def test_what_cannot_be_stretched_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain memory, a share under two tiles, a system without memory files or with too few mappings: None."""
    plain = arena()
    plain.fill(8 * MIB, 4 * MIB)
    assert plain.stretched(2, 64 * MIB, 64 * MIB) is None
    small = arena(2 * MIB, 2 * MIB, is_stretchable=True)
    small.fill(2 * MIB, 2 * MIB)
    assert small.stretched(2, 64 * MIB, 64 * MIB) is None
    full = arena(2 * MIB, 4 * MIB, is_stretchable=True)
    full.fill(2 * MIB, 4 * MIB)
    full._library.mmap = lambda *arguments: -1
    assert full.stretched(2, 64 * MIB, 64 * MIB) is None
    monkeypatch.delattr(libc.os, "memfd_create", raising=False)
    assert not arena(is_stretchable=True).is_stretchable


def test_addresses_that_cannot_be_had_are_a_memory_error() -> None:
    """An absurd size does not come back as an OSError from somewhere below."""
    with pytest.raises(MemoryError, match="could not be mapped"):
        arena(2**61, MIB)


def test_who_shares_memory() -> None:
    """The bare processor does; a backend that lacks the verbs is none of them."""
    assert isinstance(CpuBackend(root=Path("/")), ArenaBackend)
    assert not isinstance(FakeBackend(), ArenaBackend)
