"""The state of a processor, read from a file system of our own making: each missing file costs its field alone."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import pytest

from pytest_roofline.backends import cpu_conditions, cpu_facts
from pytest_roofline.conditions import QUOTA, Conditions

FILES = {
    "proc/stat": "cpu  9 9 9 9 9 9 9 9\ncpu0 100 0 50 777 777 25 0 25 0 0\ncpu1 100 0 0 9 9 0 0 0 0 0\n",
    "proc/meminfo": "MemTotal: 16000 kB\nSwapTotal: 2000 kB\nSwapFree: 500 kB\n",
    "proc/pressure/cpu": "some avg10=12.50 avg60=3.00 avg300=1.00 total=4540\nfull avg10=0.00 avg60=0.00 total=0\n",
    "proc/self/cgroup": "0::/job\n",
    "sys/fs/cgroup/job/cpu.max": "150000 100000",
    "sys/fs/cgroup/job/cpu.stat": "usage_usec 9\nnr_throttled 3\nthrottled_usec 2500000\n",
    "sys/fs/cgroup/job/memory.max": "2000000",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2400000",
    "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3700000",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "1800000",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance",
}
WHOLE = {
    "machine_busy_s": 3.0,
    "steal_s": 0.25,
    "swap_used_bytes": 1500 * 1024.0,
    "pressure_share": 0.125,
    "quota_cores": 1.5,
    "held_s": ((QUOTA, 2.5),),
    "memory_limit_bytes": 2e6,
    "clock_hz": 1.8e9,
    "max_clock_hz": 3.7e9,
    "governor": "performance, powersave",
    "usable_cores": 2,
    "threads": 4,
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of two processors that tells everything."""
    monkeypatch.setattr(cpu_facts, "usable_cpus", lambda: (0, 1))
    monkeypatch.setattr(os, "sysconf", lambda name: 100)
    for path, text in FILES.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return tmp_path


def told(root: Path) -> dict[str, object]:
    """The fields of a reading that this machine decides."""
    found = cpu_conditions.cpu_conditions(4, root)
    return {name: getattr(found, name) for name in WHOLE}


def test_all_that_a_willing_kernel_tells(root: Path) -> None:
    """The slowest clock, every governor, the tightest limits; shares and seconds, not ticks and percent."""
    assert told(root) == WHOLE


@pytest.mark.parametrize(
    ("path", "lost"),
    [
        ("proc/stat", {"machine_busy_s", "steal_s"}),
        ("proc/meminfo", {"swap_used_bytes"}),
        ("proc/pressure/cpu", {"pressure_share"}),
        ("proc/self/cgroup", {"quota_cores", "held_s", "memory_limit_bytes"}),
        ("sys/fs/cgroup/job/cpu.stat", {"held_s"}),
        ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", {"max_clock_hz"}),
    ],
)
@pytest.mark.parametrize("harm", ["missing", "junk", "empty"])
def test_a_missing_or_senseless_file_costs_its_fields(root: Path, path: str, lost: set[str], harm: str) -> None:
    """The rest stands, and nothing raises."""
    if harm == "missing":
        (root / path).unlink()
    else:
        (root / path).write_text("avg10=x\ncpu0 a b\nthrottled_usec many" if harm == "junk" else "")
    found = told(root)
    assert {name for name, value in found.items() if value in (None, ())} == lost
    assert all(found[name] == WHOLE[name] for name in WHOLE if name not in lost)


def test_a_system_without_these_files_keeps_what_python_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS and Windows: no /proc, no sysconf, no load average."""
    monkeypatch.delattr(os, "getloadavg", raising=False)
    monkeypatch.delattr(os, "sysconf", raising=False)
    found = cpu_conditions.cpu_conditions(4, tmp_path)
    known = {one.name for one in fields(Conditions) if getattr(found, one.name) not in (None, ())}
    assert known == {"threads", "usable_cores", "process_busy_s"}


def test_the_first_version_of_cgroups_counts_in_nanoseconds(tmp_path: Path) -> None:
    """Its file has another name for the same time."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("5:cpu,cpuacct:/job\n")
    (tmp_path / "sys/fs/cgroup/cpu/job").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cpu/job/cpu.stat").write_text("nr_periods 7\nthrottled_time 1500000000\n")
    assert cpu_conditions.quota_held_s(cpu_facts.cgroups(tmp_path, "cpu")) == 1.5


@pytest.mark.parametrize(("text", "setting"), [("always [madvise] never", "madvise"), ("never", None), (None, None)])
def test_the_setting_of_huge_pages_is_the_word_in_brackets(
    tmp_path: Path, text: str | None, setting: str | None
) -> None:
    """A kernel without them has no such file."""
    if text is not None:
        (tmp_path / "sys/kernel/mm/transparent_hugepage").mkdir(parents=True)
        (tmp_path / "sys/kernel/mm/transparent_hugepage/enabled").write_text(text)
    assert cpu_conditions.huge_pages(tmp_path) == setting


@pytest.mark.parametrize(
    ("text", "answer"),
    [("flags\t: fpu hypervisor vme", True), ("flags : fpu vme", False), ("Features : fp", None), ("", None)],
)
def test_a_guest_knows_that_it_is_one(tmp_path: Path, text: str, answer: bool | None) -> None:
    """By a flag of the processor; other architectures say nothing."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(f"processor : 0\n{text}\n")
    assert cpu_conditions.is_virtual(tmp_path) is answer
