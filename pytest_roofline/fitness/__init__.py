"""Is a runner fit to judge performance? Pure functions from what was found out to complaints in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pytest_roofline.fitness.card import CARD
from pytest_roofline.fitness.facts import GRADES, Complaint, Grade, RunnerFacts, ShortProbes
from pytest_roofline.fitness.host import HOST
from pytest_roofline.fitness.software import SOFTWARE

__all__ = [
    "Complaint",
    "complaints",
    "EXAMINATIONS",
    "Grade",
    "GRADES",
    "is_fit",
    "RunnerFacts",
    "ShortProbes",
    "unchecked",
]


def missing_device(facts: RunnerFacts) -> Complaint | None:
    """What was asked for is not here."""
    if facts.problem is None:
        return None
    return Complaint(
        name="missing-device",
        grade="blocks judging",
        message=facts.problem,
        remedy="see that its driver is loaded (nvidia-smi) and that the framework finds it (torch.cuda.is_available())",
    )


def no_accelerator(facts: RunnerFacts) -> Complaint | None:
    """Nobody asked for the processor, and there is nothing else."""
    if facts.wanted is not None or not facts.is_cpu:
        return None
    driver = ", although the kernel has NVIDIA's driver" if facts.has_nvidia_driver else ""
    return Complaint(
        name="no-accelerator",
        grade="widens intervals" if driver else "worth knowing",
        message=f"no accelerator was found{driver}: this is about the CPU, on which budgets for a GPU are not judged",
        remedy="on a runner that should have one: roofline doctor --device cuda; else name it: --device cpu",
    )


def untrusted_probe(facts: RunnerFacts) -> Complaint | None:
    """The probe found no figure, or one that it does not believe."""
    reasons = [facts.probe_problem] if facts.probe_problem else list(facts.probe_doubts)
    if not reasons:
        return None
    return Complaint(
        name="untrusted-probe",
        grade="blocks judging",
        message=f"the probe of this device cannot be trusted: {'; '.join(reasons)}",
        remedy="free memory and end other jobs, then run it again; roofline probe shows all of its figures",
        figures={"reasons": reasons},
    )


EXAMINATIONS: tuple[Callable[[RunnerFacts], Complaint | None], ...] = (
    missing_device,
    untrusted_probe,
    *CARD,
    *HOST,
    *SOFTWARE,
    no_accelerator,
)


def complaints(facts: RunnerFacts) -> tuple[Complaint, ...]:
    """Everything that is wrong, the gravest first."""
    found = [one for one in (examine(facts) for examine in EXAMINATIONS) if one is not None]
    return tuple(sorted(found, key=lambda one: GRADES.index(one.grade)))


def is_fit(found: tuple[Complaint, ...]) -> bool:
    """Whether nothing blocks judging."""
    return all(one.grade != "blocks judging" for one in found)


def unchecked(facts: RunnerFacts) -> tuple[str, ...]:
    """What could not be looked at, each with the reason: silence about these means nothing."""
    return tuple(_unchecked(facts))


def _unchecked(facts: RunnerFacts) -> Iterator[str]:
    now = facts.conditions
    if facts.device is None:
        yield "the device: it is not here"
        return
    if facts.short_probes is None:
        why = "--quick does not measure" if facts.is_quick else "the probe gave no figure"
        yield f"whether the bandwidth holds still, and where the cache ends: {why}"
    yield "what the tests set in their own process (torch's anomaly detection, thread counts): it is another process"
    if facts.is_debug_torch is None:
        yield "whether torch is a debug build: it is not installed here, or does not say"
    if facts.is_cpu:
        yield from _unchecked_processor(facts)
        return
    if now.clock_hz is None:
        yield "clocks, throttling, power, heat and other users of the device: its driver tells nothing"
        return
    for is_known, what in (
        (now.power_limit_w is not None and now.default_power_limit_w is not None, "whether its power is capped"),
        (now.temperature_c is not None, "its temperature"),
        (now.uncorrected_errors is not None, "memory errors (without ECC they are not counted)"),
        (now.is_persistent is not None, "persistence mode"),
        (not now.neighbours or now.neighbours_use is not None, "how much of its time the other processes use"),
    ):
        if not is_known:
            yield f"{what}: its driver does not say"


def _unchecked_processor(facts: RunnerFacts) -> Iterator[str]:
    now = facts.conditions
    for is_known, what, why in (
        (now.clock_hz is not None, "the processor's clock", "the kernel reports none, as in most virtual machines"),
        (now.governor is not None, "the frequency governor", "the kernel reports none"),
        (now.steal_s is not None, "time stolen by a hypervisor", "only Linux counts it"),
        (now.machine_busy_s is not None, "what others use of the cores", "only Linux counts it"),
        (now.pressure_share is not None, "pressure stall information", "the kernel reports none"),
        (now.swap_used_bytes is not None, "swap", "the system does not say"),
        (facts.huge_pages is not None, "huge pages", "the kernel reports no setting"),
        (now.temperature_c is not None, "heat of the processor", "nothing here reads it"),
    ):
        if not is_known:
            yield f"{what}: {why}"
