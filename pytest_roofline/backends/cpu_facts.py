"""What the operating system tells about the processor and its memory: every fact may be missing, none is guessed.

Linux answers through /proc and /sys, macOS through `sysctl`; elsewhere the standard library's few answers
remain. `root` is where the file system starts, so that a test can stand another machine there.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path

ROOT = Path("/")
_VENDORS = {
    "GenuineIntel": "Intel",
    "AuthenticAMD": "AMD",
    "HygonGenuine": "Hygon",
    "0x41": "ARM",
    "0xc0": "Ampere",
}
_SUFFIXES = {"K": 2**10, "M": 2**20, "G": 2**30}
_UNLIMITED = 2**60
"""Version 1 of cgroups has no word for "no limit": it reports a number near 2**63."""


def text_of(path: Path) -> str | None:
    """What a file holds, without the white space around it; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _table(path: Path) -> dict[str, str]:
    """The first value of every key of a ``key : value`` file."""
    found: dict[str, str] = {}
    for line in (text_of(path) or "").splitlines():
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(key.strip(), value.strip())
    return found


def _sysctl(name: str) -> str | None:
    if platform.system() != "Darwin":
        return None
    try:
        answer = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


def model_name(root: Path = ROOT) -> str:
    """What the processor calls itself; the architecture where it does not say."""
    table = _table(root / "proc/cpuinfo")
    named = table.get("model name") or table.get("Hardware") or _sysctl("machdep.cpu.brand_string")
    return named or platform.processor() or platform.machine() or "CPU"


def vendor(root: Path = ROOT) -> str | None:
    """Who made the processor."""
    table = _table(root / "proc/cpuinfo")
    code = table.get("vendor_id") or table.get("CPU implementer") or ""
    if not code and (_sysctl("machdep.cpu.brand_string") or "").startswith("Apple"):
        return "Apple"
    return _VENDORS.get(code, code or None)


def usable_cpus() -> tuple[int, ...]:
    """Numbers of the logical processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        try:
            return tuple(sorted(os.sched_getaffinity(0)))
        except OSError:
            pass
    return tuple(range(os.cpu_count() or 1))


def core_count(root: Path = ROOT) -> int:
    """Logical processors that this process can keep busy.

    Its affinity, or less where a cgroup's quota is less.
    """
    quota = cpu_quota(cgroups(root, "cpu"))
    allowed = len(usable_cpus())
    return allowed if quota is None else max(1, min(allowed, ceil(quota)))


def cgroups(root: Path, controller: str) -> list[Path]:
    """Folders of this process's cgroup and its parents, innermost first: each of them may set a limit."""
    folders: list[Path] = []
    for line in (text_of(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        names, colon, inside = rest.partition(":")
        if not colon or (names and controller not in names.split(",")):
            continue
        top = root / "sys/fs/cgroup" / (controller if names else "")
        folder = top / inside.strip().lstrip("/")
        # In a container the path may name a folder of the host; then only the top is there.
        folders += [place for place in (folder, *folder.parents) if place == top or top in place.parents]
    return folders


def cpu_quota(folders: Sequence[Path]) -> float | None:
    """Processors' worth of time per second, by the tightest of these cgroups; None without a quota."""
    quotas = []
    for folder in folders:
        words = (text_of(folder / "cpu.max") or "").split()
        if not words:
            words = [text_of(folder / name) or "" for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
        try:
            quota, period = float(words[0]), float(words[1])
        except (ValueError, IndexError):
            continue
        if quota > 0 and period > 0:
            quotas.append(quota / period)
    return min(quotas, default=None)


def _cgroup_free_bytes(root: Path) -> float | None:
    rooms = []
    for folder, limit_bytes, used_name in _memory_limits(root):
        used = text_of(folder / used_name)
        rooms.append(limit_bytes - float(used if used and used.isdigit() else 0) + _file_cache_bytes(folder))
    return min(rooms, default=None)


def memory_limit_bytes(root: Path = ROOT) -> float | None:
    """Memory that the tightest cgroup allows; None without a limit."""
    return min((limit_bytes for _, limit_bytes, _ in _memory_limits(root)), default=None)


def _memory_limits(root: Path) -> Iterator[tuple[Path, float, str]]:
    """Every cgroup that sets a limit, the limit, and the file that says how much of it is used."""
    for folder in cgroups(root, "memory"):
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit = text_of(folder / limit_name)
            if limit and limit.isdigit() and int(limit) < _UNLIMITED:
                yield folder, float(limit), used_name


def _file_cache_bytes(folder: Path) -> float:
    """Memory that a cgroup is charged for and gives back on demand: pages of files that nobody uses now."""
    for line in (text_of(folder / "memory.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file") and value.isdigit():
            return float(value)
    return 0.0


def memory_bytes(root: Path = ROOT) -> float | None:
    """Physical memory of the machine."""
    total = meminfo_bytes(root, "MemTotal")
    if total is None and (reported := _sysctl("hw.memsize")):
        total = float(reported)
    return total


def free_memory_bytes(root: Path = ROOT) -> float | None:
    """Memory that can be taken without swapping and within the cgroup's limit; None when neither is known."""
    known = [free for free in (meminfo_bytes(root, "MemAvailable"), _cgroup_free_bytes(root)) if free is not None]
    if not known and (total := memory_bytes(root)):
        return total / 4  # a system that does not report it: a quarter is modest
    return max(0.0, min(known)) if known else None


def meminfo_bytes(root: Path, key: str) -> float | None:
    """One figure of /proc/meminfo."""
    words = _table(root / "proc/meminfo").get(key, "").split()
    return float(words[0]) * 1024 if words and words[0].isdigit() else None


def last_level_cache_bytes(root: Path = ROOT) -> float | None:
    """Last-level cache as reported, all instances together that serve the processors of this process.

    A virtual machine may report its host's whole socket, or a part of it: a hint, never a measurement.
    """
    instances: dict[tuple[int, str], float] = {}
    for cpu in usable_cpus():
        for index in sorted((root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index[0-9]*")):
            level, size = text_of(index / "level"), text_of(index / "size")
            if not level or not size or not level.isdigit() or text_of(index / "type") == "Instruction":
                continue
            number, suffix = (size[:-1], size[-1]) if size[-1] in _SUFFIXES else (size, "")
            if number.isdigit():
                shared = text_of(index / "shared_cpu_list") or str(cpu)
                instances[int(level), shared] = float(number) * _SUFFIXES.get(suffix, 1)
    if instances:
        last = max(level for level, _ in instances)
        return sum(size for (level, _), size in instances.items() if level == last)
    reported = _sysctl("hw.l3cachesize") or _sysctl("hw.perflevel0.l2cachesize") or _sysctl("hw.l2cachesize")
    return float(reported) if reported and reported.isdigit() and int(reported) else None
