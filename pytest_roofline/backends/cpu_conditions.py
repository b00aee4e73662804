"""The state of the processor now, as the kernel tells it: clocks, load, steal, quota, memory pressure.

Everything is read from files of /proc and /sys (Linux); elsewhere the load average and the count of cores remain.
What is missing or holds nonsense is None. Some twenty small reads, half a millisecond in all.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pytest_roofline.backends import cpu_facts
from pytest_roofline.backends.cpu_facts import ROOT, text_of
from pytest_roofline.conditions import QUOTA, Conditions

_CPUFREQ = "sys/devices/system/cpu/cpu{}/cpufreq"
_HELD_NS = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
"""Under which name the two versions of cgroups count what a quota held back, and its unit in seconds."""

MOST_CHILDREN = 1000
"""Of which the times are read."""


def cpu_conditions(threads: int, root: Path = ROOT) -> Conditions:
    """One reading for a step that uses so many threads."""
    cores = cpu_facts.usable_cpus()
    busy = busy_s(cores, root)
    groups = cpu_facts.cgroups(root, "cpu")
    held = quota_held_s(groups)
    scaled = _scaled(cores, root)
    return Conditions(
        clock_hz=_lowest_hz(scaled, "scaling_cur_freq"),
        max_clock_hz=_lowest_hz(scaled, "cpuinfo_max_freq"),
        held_s=() if held is None else ((QUOTA, held),),
        load_average=_load_average(),
        threads=threads,
        usable_cores=len(cores),
        quota_cores=cpu_facts.cpu_quota(groups),
        governor=_governor(scaled),
        memory_limit_bytes=cpu_facts.memory_limit_bytes(root),
        swap_used_bytes=_swap_used_bytes(root),
        pressure_share=_pressure_share(root),
        machine_busy_s=None if busy is None else busy[0],
        process_busy_s=own_busy_s(root),
        steal_s=None if busy is None else busy[1],
    )


def busy_s(cores: Sequence[int], root: Path = ROOT) -> tuple[float, float] | None:
    """Seconds that these processors have been busy for anybody since the machine started, and those stolen of them.

    Time that a hypervisor gave to other guests (steal) counts as busy: it was not ours. Linux only.
    """
    text = text_of(root / "proc/stat")
    if text is None or not hasattr(os, "sysconf"):
        return None
    wanted = {f"cpu{number}" for number in cores}
    ticks = stolen = 0
    for line in text.splitlines():
        name, *figures = line.split() or [""]
        if name in wanted and len(figures) >= 8 and all(figure.isdigit() for figure in figures[:8]):
            user, nice, system, _idle, _iowait, interrupts, soft_interrupts, steal = map(int, figures[:8])
            ticks += user + nice + system + interrupts + soft_interrupts + steal
            stolen += steal
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    return (ticks / ticks_per_s, stolen / ticks_per_s) if ticks else None


def own_busy_s(root: Path = ROOT) -> float:
    """Processor seconds of this process and of all that it started, and they: a test's own work is no neighbour's.

    Those that have ended count once they have been waited for, which the kernel adds to whoever waited. Living ones are
    found where Linux lists children; elsewhere only the others count.
    """
    times = os.times()
    seconds = times.user + times.system + times.children_user + times.children_system
    if not hasattr(os, "sysconf"):
        return seconds
    ticks, found, queue = 0, 0, list(_children("self", root))
    while queue and found < MOST_CHILDREN:
        child, found = queue.pop(), found + 1
        ticks += _ticks_of(child, root)
        queue += _children(child, root)
    return seconds + ticks / os.sysconf("SC_CLK_TCK")


def _children(process: str, root: Path) -> Sequence[str]:
    """Processes that any thread of it started, and that live."""
    try:
        threads = list((root / f"proc/{process}/task").iterdir())
    except OSError:
        return ()
    return [child for thread in threads for child in (text_of(thread / "children") or "").split() if child.isdigit()]


def _ticks_of(process: str, root: Path) -> int:
    """What it used, and what those used that it waited for."""
    # The name, in brackets, may hold spaces and brackets; the times are the 12th to 15th word behind it.
    words = (text_of(root / f"proc/{process}/stat") or "").rpartition(")")[2].split()[11:15]
    return sum(map(int, words)) if len(words) == 4 and all(word.isdigit() for word in words) else 0


def quota_held_s(groups: Sequence[Path]) -> float | None:
    """Processor seconds in which a cgroup's quota kept this process waiting so far; None where no quota is counted."""
    counted = []
    for folder in groups:
        for line in (text_of(folder / "cpu.stat") or "").splitlines():
            name, _, value = line.partition(" ")
            if name in _HELD_NS and value.strip().isdigit():
                counted.append(int(value) * _HELD_NS[name])
    return max(counted, default=None)


def huge_pages(root: Path = ROOT) -> str | None:
    """The kernel's setting for transparent huge pages: ``always``, ``madvise`` or ``never``."""
    for word in (text_of(root / "sys/kernel/mm/transparent_hugepage/enabled") or "").split():
        if word.startswith("[") and word.endswith("]"):
            return word[1:-1]
    return None


def is_virtual(root: Path = ROOT) -> bool | None:
    """Whether the processor says that a hypervisor runs it; None where it has no flags (other than x86)."""
    for line in (text_of(root / "proc/cpuinfo") or "").splitlines():
        key, _, flags = line.partition(":")
        if key.strip() == "flags":
            return "hypervisor" in flags.split()
    return None


def _load_average() -> float | None:
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return None  # no such figure on this system


def _lowest_hz(scaled: Sequence[Path], name: str) -> float | None:
    """The slowest of the processors: a parallel step waits for it."""
    texts = [text_of(folder / name) for folder in scaled]
    return min((float(text) * 1e3 for text in texts if text and text.isdigit()), default=None)


def _governor(scaled: Sequence[Path]) -> str | None:
    names = {text_of(folder / "scaling_governor") for folder in scaled}
    return ", ".join(sorted(name for name in names if name)) or None


def _scaled(cores: Sequence[int], root: Path) -> Sequence[Path]:
    """Where the kernel describes the frequency of up to eight processors, evenly spread: 256 would take milliseconds.

    Empty where it scales none, as in most virtual machines.
    """
    folders = [root / _CPUFREQ.format(core) for core in cores[:: max(1, len(cores) // 8)][:8]]
    return folders if folders and folders[0].is_dir() else ()


def _swap_used_bytes(root: Path) -> float | None:
    total, free = (cpu_facts.meminfo_bytes(root, key) for key in ("SwapTotal", "SwapFree"))
    return None if total is None or free is None else max(0.0, total - free)


def _pressure_share(root: Path) -> float | None:
    """``some avg10`` of /proc/pressure/cpu."""
    for word in (text_of(root / "proc/pressure/cpu") or "").split():
        name, _, value = word.partition("=")
        if name == "avg10":
            try:
                return min(1.0, max(0.0, float(value) / 100))
            except ValueError:
                return None
    return None
