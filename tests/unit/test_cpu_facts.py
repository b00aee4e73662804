"""What the operating system tells about a processor, read from a file system of our own making."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_roofline.backends import cpu_facts
from pytest_roofline.backends.libc import streaming_threshold_bytes


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine on which this process may use processors 0 to 3."""
    monkeypatch.setattr(cpu_facts, "usable_cpus", lambda: (0, 1, 2, 3))
    monkeypatch.setattr(cpu_facts, "_sysctl", lambda name: None)
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    """Put a file onto the machine."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def test_an_empty_machine_gives_what_the_library_knows(root: Path) -> None:
    """No file is needed: names fall back, figures are None."""
    assert cpu_facts.model_name(root)
    assert cpu_facts.vendor(root) is None
    assert cpu_facts.core_count(root) == 4
    assert cpu_facts.memory_limit_bytes(root) is None


def test_names_of_an_x86_processor(root: Path) -> None:
    """Model and vendor come from /proc/cpuinfo, the vendor by its usual name."""
    write(root, "proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9654\n")
    assert cpu_facts.model_name(root) == "AMD EPYC 9654"
    assert cpu_facts.vendor(root) == "AMD"


def test_an_unknown_vendor_keeps_its_code(root: Path) -> None:
    """Better its own word than none."""
    write(root, "proc/cpuinfo", "vendor_id : Shanghai\n")
    assert cpu_facts.vendor(root) == "Shanghai"


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 4), ("150000 100000", 2), ("50000 100000", 1), ("900000 100000", 4), ("junk", 4), ("", 4)],
)
def test_a_quota_limits_the_cores(root: Path, quota: str, cores: int) -> None:
    """One and a half processors' worth of time keeps two threads busy; a larger quota changes nothing."""
    write(root, "proc/self/cgroup", "0::/job\n")
    write(root, "sys/fs/cgroup/job/cpu.max", quota)
    assert cpu_facts.core_count(root) == cores


def test_the_quota_of_a_parent_counts(root: Path) -> None:
    """The tightest of all levels holds."""
    write(root, "proc/self/cgroup", "0::/slice/job\n")
    write(root, "sys/fs/cgroup/slice/job/cpu.max", "max 100000")
    write(root, "sys/fs/cgroup/slice/cpu.max", "200000 100000")
    assert cpu_facts.core_count(root) == 2


def test_the_first_version_of_cgroups(root: Path) -> None:
    """Its controllers have folders and file names of their own."""
    write(root, "proc/self/cgroup", "5:cpu,cpuacct:/job\n4:memory:/job\n")
    write(root, "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000")
    write(root, "sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000")
    write(root, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000000")
    write(root, "sys/fs/cgroup/memory/job/memory.usage_in_bytes", "400000")
    write(root, "proc/meminfo", "MemTotal: 16 kB\nMemAvailable:   8000 kB\n")
    assert cpu_facts.core_count(root) == 1
    assert cpu_facts.free_memory_bytes(root) == 600_000


def test_free_memory_is_the_least_of_all_limits(root: Path) -> None:
    """Available memory of the machine, or the room under the cgroup's limit, file cache given back."""
    write(root, "proc/meminfo", "MemTotal:    16000 kB\nMemAvailable:   8000 kB\n")
    assert cpu_facts.memory_bytes(root) == 16_000 * 1024
    assert cpu_facts.free_memory_bytes(root) == 8_000 * 1024
    write(root, "proc/self/cgroup", "0::/job\n")
    write(root, "sys/fs/cgroup/job/memory.max", "2000000")
    write(root, "sys/fs/cgroup/job/memory.current", "1500000")
    write(root, "sys/fs/cgroup/job/memory.stat", "anon 900000\ninactive_file 300000\n")
    assert cpu_facts.free_memory_bytes(root) == 800_000
    write(root, "sys/fs/cgroup/job/memory.max", "max")
    assert cpu_facts.free_memory_bytes(root) == 8_000 * 1024


def cache(root: Path, cpu: int, index: int, level: int, kind: str, size: str, shared: str) -> None:
    """Describe one cache of one processor as /sys does."""
    folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
    for name, value in (("level", str(level)), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
        write(root, f"{folder}/{name}", value + "\n")


def test_the_last_level_cache_is_the_sum_of_its_instances(root: Path) -> None:
    """Two groups of two cores with 32 MiB each report 64 MiB, and no instruction cache counts."""
    for cpu in range(4):
        cache(root, cpu, 0, 1, "Data", "32K", str(cpu))
        cache(root, cpu, 1, 9, "Instruction", "64K", str(cpu))
        cache(root, cpu, 3, 3, "Unified", "32M" if cpu < 2 else "32768K", "0-1" if cpu < 2 else "2-3")
    assert cpu_facts.last_level_cache_bytes(root) == 64 * 2**20


def test_a_cache_that_is_not_described_is_not_known(root: Path) -> None:
    """Half of a description is none."""
    write(root, "sys/devices/system/cpu/cpu0/cache/index3/level", "3")
    assert cpu_facts.last_level_cache_bytes(root) is None


def test_the_threshold_of_streaming_stores_is_what_the_loader_says(root: Path) -> None:
    """A loader that lists its tunables is believed; one that says nothing, or no loader, gives None."""
    assert streaming_threshold_bytes(root) is None
    loader = root / "ld-linux-test.so.2"
    write(root, "proc/self/maps", f"7f00-7f01 r-xp 00000000 00:00 1     {loader}\n")
    loader.write_text("#!/bin/sh\necho 'glibc.cpu.x86_non_temporal_threshold: 0xc0000 (min: 0x4040, max: 0xfff)'\n")
    assert streaming_threshold_bytes(root) is None  # not executable
    loader.chmod(0o755)
    assert streaming_threshold_bytes(root) == 0xC0000
    loader.write_text("#!/bin/sh\necho something else\n")
    assert streaming_threshold_bytes(root) is None
