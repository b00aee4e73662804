"""What may be wrong with the machine: a bandwidth that moves, others on its cores, quotas, swap, too little memory."""

from __future__ import annotations

from typing import Any

from pytest_roofline.fitness.facts import Complaint, Grade, RunnerFacts
from pytest_roofline.units import format_bytes, format_bytes_per_s, format_fraction, format_ratio, format_seconds

MOVES = 1.15
LEAPS = 2.0
"""Spread of the short probes from which intervals widen, and from which nothing can be judged."""
BUSY_SHARE = 0.10
CROWDED_SHARE = 0.50
"""Part of the cores that others use: from here on intervals widen, from here on a step is mostly stalled."""
STOLEN_SHARE = 0.01
ROBBED_SHARE = 0.20
SWAPPED_BYTES = 64e6
KNEES = 4
"""So many caches' worth of memory a probe needs, so that what it reads comes from memory."""
_SLOW_GOVERNORS = ("powersave", "ondemand", "conservative", "schedutil", "userspace")


def _of_host(facts: RunnerFacts, name: str, grade: Grade, message: str, remedy: str, **figures: Any) -> Complaint:
    """A complaint of this grade where the processor is judged; an accelerator's steps are only launched from there."""
    grade = grade if facts.is_cpu else "worth knowing"
    return Complaint(name=name, grade=grade, message=message, remedy=remedy, figures=figures)


def _graded(share: float, blocking: float) -> Grade:
    return "blocks judging" if share >= blocking else "widens intervals"


def moving_bandwidth(facts: RunnerFacts) -> Complaint | None:
    """Short probes over some seconds differ."""
    probes = facts.short_probes
    if probes is None or len(probes.rates_bytes_per_s) < 2 or probes.spread < MOVES:
        return None
    low, high = probes.range_bytes_per_s
    whose = "a virtual machine shares its host's memory" if facts.is_virtual else "somebody else uses the memory"
    return Complaint(
        name="moving-bandwidth",
        grade=_graded(probes.spread, LEAPS),
        message=(
            f"{len(probes.rates_bytes_per_s)} short probes within {format_seconds(probes.elapsed_s)} read "
            f"{format_bytes_per_s(low)} to {format_bytes_per_s(high)} ({format_ratio(probes.spread)}): {whose}"
        ),
        remedy=(
            "use a dedicated runner, or an instance large enough to have its host to itself; --roofline-max-time=30 "
            "gives a measurement more time to decide"
        ),
        figures={"low_bytes_per_s": low, "high_bytes_per_s": high, "spread": probes.spread},
    )


def stolen_time(facts: RunnerFacts) -> Complaint | None:
    """The hypervisor gives this machine's processors to others."""
    share = facts.held.steal_share if facts.held is not None else None
    if share is None or share < STOLEN_SHARE:
        return None
    return _of_host(
        facts,
        "stolen-time",
        _graded(share, ROBBED_SHARE),
        f"the hypervisor gave {format_fraction(share)} of the processor time to other guests (steal)",
        "use an instance type whose processors are not shared, or a machine of your own",
        steal_share=share,
    )


def busy_processor(facts: RunnerFacts) -> Complaint | None:
    """Others use the cores; a step waits at every barrier for the one that is taken away."""
    share = facts.held.neighbours_share if facts.held is not None and facts.is_cpu else None
    if share is None or share < BUSY_SHARE:
        return None
    load = facts.conditions.load_average
    waiting = "" if load is None else f" (load average {load:.1f})"
    return _of_host(
        facts,
        "busy-processor",
        _graded(share, CROWDED_SHARE),
        f"others used {format_fraction(share)} of this process's cores while they were probed{waiting}",
        "run one job at a time on this runner (top shows who it is), and tests that measure in one worker",
        neighbours_share=share,
        load_average=load,
    )


def waiting_tasks(facts: RunnerFacts) -> Complaint | None:
    """Where nothing was probed, the kernel's own account of the last ten seconds."""
    share = facts.conditions.pressure_share
    has_better = facts.is_cpu and facts.held is not None and facts.held.neighbours_share is not None
    if share is None or share < BUSY_SHARE or has_better:
        return None
    return _of_host(
        facts,
        "waiting-tasks",
        "widens intervals",
        f"tasks waited for a processor in {format_fraction(share)} of the last ten seconds",
        "run one job at a time on this runner (top shows who it is)",
        pressure_share=share,
    )


def quota_below_threads(facts: RunnerFacts) -> Complaint | None:
    """A cgroup stops all threads for the rest of a period once they have used up their time."""
    quota, threads = facts.conditions.quota_cores, facts.step_threads
    if quota is None or threads is None or threads <= quota:
        return None
    return _of_host(
        facts,
        "quota-below-threads",
        "blocks judging",
        f"a cgroup allows {quota:g} processors' worth of time and a step uses {threads} threads "
        f"({facts.threads_source}): they are stopped together for a part of every tenth of a second",
        f"OMP_NUM_THREADS={max(1, int(quota))}, or give the container {threads} processors (docker run --cpus, "
        "Kubernetes limits.cpu)",
        quota_cores=quota,
        threads=threads,
    )


def affinity_below_threads(facts: RunnerFacts) -> Complaint | None:
    """More threads than cores: some wait while the others stand at the barrier."""
    cores, threads = facts.conditions.usable_cores, facts.step_threads
    if cores is None or threads is None or threads <= cores:
        return None
    return _of_host(
        facts,
        "affinity-below-threads",
        "blocks judging",
        f"this process may use {cores} cores and a step uses {threads} threads ({facts.threads_source})",
        f"OMP_NUM_THREADS={cores}, or a wider affinity (taskset, docker run --cpuset-cpus)",
        usable_cores=cores,
        threads=threads,
    )


def held_by_quota(facts: RunnerFacts) -> Complaint | None:
    """It happened while the probes ran."""
    share = facts.held.held_share if facts.held is not None else None
    if share is None:
        return None
    return _of_host(
        facts,
        "held-by-quota",
        "blocks judging",
        f"a cgroup's quota held this process back for {format_fraction(share)} of its cores' time",
        "raise the quota, or run fewer threads than it allows",
        held_share=share,
    )


def swap_in_use(facts: RunnerFacts) -> Complaint | None:
    """Memory ran out once: pages of a model may have to come back from a disk."""
    used = facts.conditions.swap_used_bytes
    if used is None or used < SWAPPED_BYTES:
        return None
    return _of_host(
        facts,
        "swap-in-use",
        "widens intervals",
        f"{format_bytes(used)} are in swap: memory ran out, and pages come back at the rate of a disk",
        "free memory, then sudo swapoff -a && sudo swapon -a brings the pages back",
        swap_used_bytes=used,
    )


def too_little_memory(facts: RunnerFacts) -> Complaint | None:
    """The probe cannot get past the caches."""
    free, cache = facts.free_memory_bytes, facts.cache_bytes
    if free is None or not cache or free >= KNEES * cache:
        return None
    what = "the cache reaches to" if facts.is_knee_measured else "a last-level cache is reported of"
    limit = facts.conditions.memory_limit_bytes
    within = f" (a cgroup allows {format_bytes(limit)})" if limit is not None and facts.is_cpu else ""
    return Complaint(
        name="too-little-memory",
        # A virtual machine reports its host's whole cache: by that alone nobody is unfit.
        grade="blocks judging" if facts.is_knee_measured else "worth knowing",
        message=(
            f"{format_bytes(free)} of memory are free{within} and {what} {format_bytes(cache)}: a probe needs {KNEES} "
            f"times that ({format_bytes(KNEES * cache)}) to read memory and not the cache"
        ),
        remedy="free memory, or give the runner more",
        figures={"free_memory_bytes": free, "cache_bytes": cache, "needed_bytes": KNEES * cache},
    )


def slow_governor(facts: RunnerFacts) -> Complaint | None:
    """The kernel lowers the clock of an idle core, and takes a while to raise it."""
    governor = facts.conditions.governor
    slow = [name for name in (governor or "").split(", ") if name in _SLOW_GOVERNORS]
    if not slow or not facts.is_cpu:
        return None
    return _of_host(
        facts,
        "slow-governor",
        "widens intervals" if "powersave" in slow else "worth knowing",
        f"the frequency governor is {governor}: cores begin slow and follow the load",
        "sudo cpupower frequency-set -g performance",
        governor=governor,
    )


def no_huge_pages(facts: RunnerFacts) -> Complaint | None:
    """Every 4 KiB of a model need an entry of their own in the page table."""
    if facts.huge_pages != "never" or not facts.is_cpu:
        return None
    return _of_host(
        facts,
        "no-huge-pages",
        "worth knowing",
        "transparent huge pages are off (never): reading gigabytes spends a part of its time on page tables",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    )


HOST = (
    moving_bandwidth,
    busy_processor,
    waiting_tasks,
    stolen_time,
    quota_below_threads,
    affinity_below_threads,
    held_by_quota,
    too_little_memory,
    swap_in_use,
    slow_governor,
    no_huge_pages,
)
