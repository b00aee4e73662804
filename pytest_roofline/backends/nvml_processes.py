"""Which other processes use a card, by NVML: neither this process nor those it started."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pytest_roofline.units import format_bytes

_FRESH_US = 2_000_000
"""Samples of use that are older than the newest by more than this are of another time."""
_DEEPEST = 64


def others_of(processes: Sequence[Any], root: Path = Path("/")) -> list[Any]:
    """The processes that are not ours: neither this one nor its children and theirs.

    Inside a container the driver may give process ids of the host, so this process can be in the list under an id that
    nobody here knows. When its own id is missing, one unknown id is taken to be this process.
    """
    others = [one for one in processes if one.pid != os.getpid()]
    if len(others) == len(processes):
        hidden = [one for one in others if not _is_visible(one.pid)]
        others = [one for one in others if one not in hidden[:1]]
    return [one for one in others if not is_descendant(one.pid, root)]


def titles(others: Sequence[Any], name_of: Callable[[int], str | None]) -> tuple[str, ...]:
    """Each as ``process 4242 (python3), 12.0 GB``, as far as the driver tells."""
    lines = []
    for one in others:
        name, used = name_of(one.pid), getattr(one, "usedGpuMemory", None)
        title = f"process {one.pid}" + (f" ({os.path.basename(name)})" if name else "")
        has_size = isinstance(used, (int, float)) and not isinstance(used, bool) and used > 0
        lines.append(title + (f", {format_bytes(float(used))}" if has_size and used is not None else ""))
    return tuple(lines)


def use_of(others: Sequence[Any], samples: Sequence[Any]) -> float | None:
    """Part of the card's time that these processes use now, 0 to 1, from the driver's samples; None without any.

    Time in which a process had a kernel on the card, not what the kernel did with it.
    """
    if not others:
        return 0.0
    if not samples:
        return None
    newest = max(sample.timeStamp for sample in samples)
    wanted = {one.pid for one in others}
    latest: dict[int, Any] = {}
    for sample in samples:
        is_fresh = sample.pid in wanted and newest - sample.timeStamp <= _FRESH_US
        if is_fresh and (sample.pid not in latest or latest[sample.pid].timeStamp < sample.timeStamp):
            latest[sample.pid] = sample
    # The driver writes 101 and more where it has no figure.
    used = sum(float(sample.smUtil) for sample in latest.values() if 0 <= sample.smUtil <= 100)
    return min(1.0, used / 100)


def is_descendant(pid: int, root: Path = Path("/"), *, of: int | None = None) -> bool:
    """Whether the process `of` (None: this one) started that one, or an ancestor of it (Linux; elsewhere never)."""
    wanted = os.getpid() if of is None else of
    for _ in range(_DEEPEST):
        parent = _parent(pid, root)
        if parent is not None and parent == wanted:
            return True
        if parent is None or parent <= 1:
            return False
        pid = parent
    return False


def _parent(pid: int, root: Path) -> int | None:
    try:
        text = (root / f"proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name, in brackets, may hold spaces and brackets: what follows the last one is state and parent.
    words = text.rpartition(")")[2].split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else None


def _is_visible(pid: int) -> bool:
    try:
        os.kill(pid, 0) if os.name == "posix" else None
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError, OSError):
        return True
    return True
