"""What is wrong with a runner: from facts to complaints, every text of which stands here."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pytest_roofline.conditions import Conditions, Stretch
from pytest_roofline.device import Device
from pytest_roofline.fitness import (
    EXAMINATIONS,
    GRADES,
    Complaint,
    RunnerFacts,
    ShortProbes,
    complaints,
    is_fit,
    unchecked,
)
from pytest_roofline.report.doctor import doctor_lines

CPU = Device(name="Xeon", kind="cpu", backend="cpu", compute_units=4)
CARD = Device(name="NVIDIA H200", kind="cuda", backend="torch", vendor="NVIDIA", uuid="GPU-7")
STEADY = ShortProbes(rates_bytes_per_s=(1e10,) * 24, elapsed_s=4.0)
WELL = Conditions(
    clock_hz=1.98e9,
    max_clock_hz=1.98e9,
    throttle_reasons=("application clocks setting",),
    power_limit_w=700.0,
    default_power_limit_w=700.0,
    temperature_c=40.0,
    uncorrected_errors=0,
    is_repair_pending=False,
    is_persistent=True,
    usable_cores=4,
)
CALM = Conditions(
    clock_hz=3e9,
    governor="performance",
    usable_cores=4,
    steal_s=0.0,
    machine_busy_s=1.0,
    pressure_share=0.0,
    swap_used_bytes=0.0,
    load_average=0.1,
)


def processor(conditions: Conditions = CALM, **figures: Any) -> RunnerFacts:
    """A quiet machine whose processor was asked for by name."""
    facts = RunnerFacts(
        wanted="cpu",
        device=CPU,
        conditions=conditions,
        held=Stretch(neighbours_share=0.01, steal_share=0.0),
        short_probes=STEADY,
        best_bytes_per_s=1e10,
        cache_bytes=32e6,
        is_knee_measured=True,
        free_memory_bytes=8e9,
        step_threads=4,
        threads_source="OMP_NUM_THREADS=4",
        huge_pages="madvise",
        is_virtual=True,
        is_debug_torch=False,
    )
    return replace(facts, **figures)


def card(conditions: Conditions = WELL, **figures: Any) -> RunnerFacts:
    """A card that nobody else uses, its clocks locked."""
    facts = RunnerFacts(
        device=CARD,
        conditions=conditions,
        held=Stretch(),
        short_probes=ShortProbes(rates_bytes_per_s=(4.5e12,) * 24, elapsed_s=4.0),
        best_bytes_per_s=4.5e12,
        sheet_bytes_per_s=4.8e12,
        cache_bytes=100e6,
        is_knee_measured=True,
        free_memory_bytes=140e9,
        step_threads=4,
        is_debug_torch=False,
    )
    return replace(facts, **figures)


def the_one(facts: RunnerFacts) -> Complaint:
    """The only complaint."""
    (found,) = complaints(facts)
    return found


@pytest.mark.parametrize("facts", [processor(), card()])
def test_a_runner_that_is_well_has_no_complaint(facts: RunnerFacts) -> None:
    """And is fit."""
    assert complaints(facts) == ()
    assert is_fit(())


CARDS = [
    (
        "shared-card",
        "blocks judging",
        card(replace(WELL, neighbours=("process 7 (train), 12.0 GB", "process 8"), neighbours_use=0.4)),
        "other processes are on cuda:0 and use 40 % of its time: process 7 (train), 12.0 GB; process 8",
        "end them, wait for them, or measure on a card of your own (CUDA_VISIBLE_DEVICES, --roofline-device)",
    ),
    (
        "shared-card",
        "worth knowing",
        card(replace(WELL, neighbours=("process 7",), neighbours_use=0.0)),
        "other processes are on cuda:0 and use 0.0 % of its time: process 7",
        "end them, wait for them",
    ),
    (
        "shared-card",
        "blocks judging",
        card(held=Stretch(neighbours=("process 9",))),
        "other processes are on cuda:0: process 9",
        "end them",
    ),
    (
        "throttled",
        "blocks judging",
        card(
            replace(WELL, throttle_reasons=(*WELL.throttle_reasons, "thermal slowdown (hardware)"), temperature_c=91.0)
        ),
        "cuda:0 holds its clocks down: thermal slowdown (hardware), at 91 degrees C",
        "let it cool down; then look at its fans and its power supply (nvidia-smi -q -d PERFORMANCE)",
    ),
    (
        "throttled",
        "widens intervals",
        card(held=Stretch(reasons=("power cap",))),
        "cuda:0 holds its clocks down: power cap, at 40 degrees C",
        "raise the power limit, or lock the clock at what it holds under load",
    ),
    (
        "unlocked-clocks",
        "worth knowing",
        card(replace(WELL, throttle_reasons=())),
        "the compute clock is not locked: it moves up to 1,980 MHz with load, at 1,980 MHz now",
        "sudo nvidia-smi -i GPU-7 -lgc 1680,1680 (a clock that it holds under load; -rgc undoes it). Decoding hardly "
        "follows this clock, prefill does",
    ),
    (
        "power-cap",
        "widens intervals",
        card(replace(WELL, power_limit_w=350.0)),
        "the power limit is 350 W, 50 % of the default of 700 W",
        "sudo nvidia-smi -i GPU-7 -pl 700, or keep budgets that were made under this cap",
    ),
    (
        "memory-errors",
        "blocks judging",
        card(replace(WELL, uncorrected_errors=3, is_repair_pending=True)),
        "the device reports 3 memory errors that ECC could not correct and a repair of its memory that waits for "
        "a reset",
        "reset it while nobody uses it (nvidia-smi -q -d ECC,ROW_REMAPPER says more); replace it if they return",
    ),
    (
        "persistence-off",
        "worth knowing",
        card(replace(WELL, is_persistent=False)),
        "persistence mode is off: the driver is unloaded with its last process, and forgets locked clocks",
        "sudo nvidia-smi -i GPU-7 -pm 1",
    ),
    (
        "mig-slice",
        "worth knowing",
        card(replace(WELL, mig="1g.18gb")),
        "this is a MIG slice (1g.18gb): a share of the bandwidth, beside others that share its power and heat",
        "judge it by its own fraction (that is done), and keep the other slices idle while budgets are made",
    ),
    (
        "no-driver-library",
        "widens intervals",
        card(Conditions(usable_cores=4), is_container=True),
        "this container has no clocks, throttling or other users of the card to be read (NVML tells nothing of "
        "it): none "
        "can explain a miss",
        "start the container with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    ),
    (
        "no-driver-library",
        "widens intervals",
        card(Conditions(), device=replace(CARD, notes=("NVML did not answer within 2 s and is not asked again",))),
        "there are no clocks, throttling or other users of the card to be read (NVML did not answer within 2 s "
        "and is not "
        "asked again): none can explain a miss",
        "pip install nvidia-ml-py, and see that nvidia-smi works here",
    ),
    (
        "below-data-sheet",
        "widens intervals",
        card(best_bytes_per_s=2.4e12),
        "the probe reaches 2.40 TB/s, 50 % of the 4.80 TB/s that are printed for it: it is not well, not alone, or "
        "another device",
        "compare with another card of its kind (roofline probe); look at heat, power and memory errors",
    ),
]
HOSTS = [
    (
        "moving-bandwidth",
        "widens intervals",
        processor(short_probes=ShortProbes(rates_bytes_per_s=(8e9, 8e9, *(1e10,) * 20, 1.2e10, 1.2e10), elapsed_s=4.0)),
        "24 short probes within 4.00 s read 8.00 GB/s to 12.0 GB/s (1.5x): a virtual machine shares its host's memory",
        "use a dedicated runner, or an instance large enough to have its host to itself; --roofline-max-time=30 "
        "gives a "
        "measurement more time to decide",
    ),
    (
        "moving-bandwidth",
        "blocks judging",
        processor(short_probes=ShortProbes(rates_bytes_per_s=(4e9, 1e10), elapsed_s=1.0), is_virtual=False),
        "2 short probes within 1.00 s read 4.00 GB/s to 10.0 GB/s (2.5x): somebody else uses the memory",
        "use a dedicated runner",
    ),
    (
        "busy-processor",
        "blocks judging",
        processor(held=Stretch(neighbours_share=0.9)),
        "others used 90 % of this process's cores while they were probed (load average 0.1)",
        "run one job at a time on this runner (top shows who it is), and tests that measure in one worker",
    ),
    (
        "busy-processor",
        "widens intervals",
        processor(held=Stretch(neighbours_share=0.2)),
        "others used 20 % of this process's cores while they were probed (load average 0.1)",
        "run one job at a time",
    ),
    (
        "waiting-tasks",
        "widens intervals",
        processor(replace(CALM, pressure_share=0.6), held=None),
        "tasks waited for a processor in 60 % of the last ten seconds",
        "run one job at a time on this runner (top shows who it is)",
    ),
    (
        "stolen-time",
        "blocks judging",
        processor(held=Stretch(steal_share=0.3)),
        "the hypervisor gave 30 % of the processor time to other guests (steal)",
        "use an instance type whose processors are not shared, or a machine of your own",
    ),
    (
        "stolen-time",
        "widens intervals",
        processor(held=Stretch(steal_share=0.05)),
        "the hypervisor gave 5.0 % of the processor time to other guests (steal)",
        "use an instance type",
    ),
    (
        "quota-below-threads",
        "blocks judging",
        processor(replace(CALM, quota_cores=1.5)),
        "a cgroup allows 1.5 processors' worth of time and a step uses 4 threads (OMP_NUM_THREADS=4): they are stopped "
        "together for a part of every tenth of a second",
        "OMP_NUM_THREADS=1, or give the container 4 processors (docker run --cpus, Kubernetes limits.cpu)",
    ),
    (
        "affinity-below-threads",
        "blocks judging",
        processor(replace(CALM, usable_cores=2)),
        "this process may use 2 cores and a step uses 4 threads (OMP_NUM_THREADS=4)",
        "OMP_NUM_THREADS=2, or a wider affinity (taskset, docker run --cpuset-cpus)",
    ),
    (
        "held-by-quota",
        "blocks judging",
        processor(held=Stretch(held_share=0.25)),
        "a cgroup's quota held this process back for 25 % of its cores' time",
        "raise the quota, or run fewer threads than it allows",
    ),
    (
        "too-little-memory",
        "blocks judging",
        processor(replace(CALM, memory_limit_bytes=2e8), free_memory_bytes=1e8),
        "100 MB of memory are free (a cgroup allows 200 MB) and the cache reaches to 32.0 MB: a probe needs 4 "
        "times that "
        "(128 MB) to read memory and not the cache",
        "free memory, or give the runner more",
    ),
    (
        "too-little-memory",
        "worth knowing",
        processor(free_memory_bytes=1e9, cache_bytes=480e6, is_knee_measured=False),
        "1.00 GB of memory are free and a last-level cache is reported of 480 MB: a probe needs 4 times that "
        "(1.92 GB) to "
        "read memory and not the cache",
        "free memory",
    ),
    (
        "swap-in-use",
        "widens intervals",
        processor(replace(CALM, swap_used_bytes=2e9)),
        "2.00 GB are in swap: memory ran out, and pages come back at the rate of a disk",
        "free memory, then sudo swapoff -a && sudo swapon -a brings the pages back",
    ),
    (
        "slow-governor",
        "widens intervals",
        processor(replace(CALM, governor="performance, powersave")),
        "the frequency governor is performance, powersave: cores begin slow and follow the load",
        "sudo cpupower frequency-set -g performance",
    ),
    (
        "slow-governor",
        "worth knowing",
        processor(replace(CALM, governor="schedutil")),
        "the frequency governor is schedutil: cores begin slow and follow the load",
        "sudo cpupower",
    ),
    (
        "no-huge-pages",
        "worth knowing",
        processor(huge_pages="never"),
        "transparent huge pages are off (never): reading gigabytes spends a part of its time on page tables",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    ),
]
SOFTWARE = [
    (
        "debug-environment",
        "blocks judging",
        card(environment={"CUDA_LAUNCH_BLOCKING": "1", "TORCH_LOGS": "+dynamo", "JAX_DISABLE_JIT": "0"}),
        "the environment slows steps down: CUDA_LAUNCH_BLOCKING=1 (every launch waits for the one before); "
        "TORCH_LOGS=+dynamo (torch logs while it works)",
        "unset CUDA_LAUNCH_BLOCKING TORCH_LOGS",
    ),
    (
        "debug-environment",
        "worth knowing",
        processor(environment={"CUDA_LAUNCH_BLOCKING": "1"}),
        "the environment slows steps down: CUDA_LAUNCH_BLOCKING=1 (every launch waits for the one before)",
        "unset CUDA_LAUNCH_BLOCKING",
    ),
    (
        "debug-environment",
        "widens intervals",
        processor(
            environment={"PYTHONMALLOC": "pymalloc_debug", "TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONDEVMODE": "off"}
        ),
        "the environment slows steps down: PYTHONMALLOC=pymalloc_debug (Python's allocator is not its own)",
        "unset PYTHONMALLOC",
    ),
    (
        "debug-build",
        "blocks judging",
        processor(
            is_debug_python=True,
            is_debug_torch=True,
            is_watching_gradients=True,
            environment={"LD_PRELOAD": "/usr/lib/libasan.so.8"},
        ),
        "what runs here is not what is served: Python is a debug build, torch is a debug build, a sanitizer is loaded "
        "(/usr/lib/libasan.so.8), torch's anomaly detection is on",
        "install release builds, and measure in a job without sanitizers and checks",
    ),
]
WHOLE = [
    (
        "missing-device",
        "blocks judging",
        RunnerFacts(wanted="cuda", problem="no device here matches 'cuda'; here are: cpu (Xeon)", is_debug_torch=False),
        "no device here matches 'cuda'; here are: cpu (Xeon)",
        "see that its driver is loaded (nvidia-smi) and that the framework finds it (torch.cuda.is_available())",
    ),
    (
        "no-accelerator",
        "worth knowing",
        processor(wanted=None),
        "no accelerator was found: this is about the CPU, on which budgets for a GPU are not judged",
        "on a runner that should have one: roofline doctor --device cuda; else name it: --device cpu",
    ),
    (
        "no-accelerator",
        "widens intervals",
        processor(wanted=None, has_nvidia_driver=True),
        "no accelerator was found, although the kernel has NVIDIA's driver: this is about the CPU, on which "
        "budgets for a "
        "GPU are not judged",
        "on a runner that should have one",
    ),
    (
        "untrusted-probe",
        "blocks judging",
        processor(probe_doubts=("the rate still falls",)),
        "the probe of this device cannot be trusted: the rate still falls",
        "free memory and end other jobs, then run it again; roofline probe shows all of its figures",
    ),
    (
        "untrusted-probe",
        "blocks judging",
        processor(probe_problem="no memory for its buffers", short_probes=None),
        "the probe of this device cannot be trusted: no memory for its buffers",
        "free memory",
    ),
]
CASES = [*CARDS, *HOSTS, *SOFTWARE, *WHOLE]


@pytest.mark.parametrize(("name", "grade", "facts", "message", "remedy"), CASES)
def test_each_complaint_in_its_own_words(name: str, grade: str, facts: RunnerFacts, message: str, remedy: str) -> None:
    """One fact is wrong, one complaint is made: how grave, what, and what to do."""
    found = the_one(facts)
    assert (found.name, found.grade, found.message) == (name, grade, message)
    assert found.remedy.startswith(remedy)
    assert is_fit((found,)) == (grade != "blocks judging")
    json.dumps(found.to_dict(), allow_nan=False)


def test_every_examination_has_a_case() -> None:
    """A complaint that no test has seen is a text that nobody has read."""
    seen = {examine.__name__ for examine in EXAMINATIONS for _, _, facts, _, _ in CASES if examine(facts) is not None}
    assert seen == {examine.__name__ for examine in EXAMINATIONS}


def test_the_gravest_comes_first() -> None:
    """Whatever order they were found in."""
    facts = processor(replace(CALM, governor="powersave"), huge_pages="never", is_debug_python=True)
    grades = [one.grade for one in complaints(facts)]
    assert grades == sorted(grades, key=GRADES.index)
    assert len(set(grades)) == 3


def test_a_fit_runner_beside_a_card_keeps_its_own_rules() -> None:
    """What others do on the host's cores, its swap and its quota do not make a card unfit."""
    host = replace(WELL, swap_used_bytes=1e9, quota_cores=1.0, usable_cores=2, pressure_share=0.5, governor="powersave")
    found = complaints(card(host, held=Stretch(steal_share=0.4, held_share=0.2), huge_pages="never"))
    assert {one.grade for one in found} == {"worth knowing"}


@pytest.mark.parametrize("rates", [(1e10,), (1e10, 1.1e10), (*(1e10,) * 19, 2e10)])
def test_one_odd_probe_in_twenty_is_no_moving_bandwidth(rates: tuple[float, ...]) -> None:
    """Nor is a spread within the noise of a probe."""
    assert complaints(processor(short_probes=ShortProbes(rates_bytes_per_s=rates, elapsed_s=1.0))) == ()


OTHERS = "what the tests set in their own process (torch's anomaly detection, thread counts): it is another process"


def test_what_could_not_be_checked_is_said_with_the_reason() -> None:
    """Everything that is None, and why it may be so."""
    bare = processor(Conditions(), short_probes=None, is_quick=True, huge_pages=None, is_debug_torch=None)
    assert unchecked(bare) == (
        "whether the bandwidth holds still, and where the cache ends: --quick does not measure",
        OTHERS,
        "whether torch is a debug build: it is not installed here, or does not say",
        "the processor's clock: the kernel reports none, as in most virtual machines",
        "the frequency governor: the kernel reports none",
        "time stolen by a hypervisor: only Linux counts it",
        "what others use of the cores: only Linux counts it",
        "pressure stall information: the kernel reports none",
        "swap: the system does not say",
        "huge pages: the kernel reports no setting",
        "heat of the processor: nothing here reads it",
    )
    assert unchecked(card()) == (OTHERS,)
    assert unchecked(card(Conditions())) == (
        OTHERS,
        "clocks, throttling, power, heat and other users of the device: its driver tells nothing",
    )
    half = Conditions(clock_hz=1e9, neighbours=("process 7",))
    assert unchecked(card(half, short_probes=None))[2:] == (
        "whether its power is capped: its driver does not say",
        "its temperature: its driver does not say",
        "memory errors (without ECC they are not counted): its driver does not say",
        "persistence mode: its driver does not say",
        "how much of its time the other processes use: its driver does not say",
    )
    assert unchecked(card(short_probes=None))[0].endswith("the probe gave no figure")
    assert unchecked(RunnerFacts(problem="none")) == ("the device: it is not here",)


# -- the report -----------------------------------------------------------------------------------------------------


def report(facts: RunnerFacts) -> list[str]:
    """What is printed."""
    return list(doctor_lines(facts, complaints(facts), unchecked(facts)))


@pytest.mark.parametrize("width", [40, 80, 100])
def test_the_report_keeps_to_its_width(width: int) -> None:
    """All but the verdict, which is one line; no word is lost by it."""
    facts = processor(replace(CALM, governor="powersave", swap_used_bytes=1e9), short_probes=None, is_quick=True)
    first, *lines = doctor_lines(facts, complaints(facts), unchecked(facts), width)
    assert [first] == report(facts)[:1]
    assert max(map(len, lines)) <= width
    assert " ".join(lines).split() == " ".join(report(facts)[1:]).split()


@pytest.mark.parametrize(
    ("facts", "first"),
    [
        (card(), "cuda:0 (NVIDIA H200): fit to judge performance"),
        (
            card(replace(WELL, power_limit_w=350.0)),
            "cuda:0 (NVIDIA H200): fit to judge performance, with wider intervals (1 reason)",
        ),
        (
            processor(replace(CALM, governor="powersave", swap_used_bytes=1e9), short_probes=None, is_quick=True),
            "cpu (Xeon): fit to judge performance, with wider intervals (2 reasons); its bandwidth was not measured",
        ),
        (
            processor(replace(CALM, quota_cores=1.0), is_debug_python=True),
            "cpu (Xeon): NOT FIT to judge performance (quota-below-threads, debug-build)",
        ),
        (RunnerFacts(wanted="cuda", problem="no device"), "cuda: NOT FIT to judge performance (missing-device)"),
        (RunnerFacts(problem="no device"), "this runner: NOT FIT to judge performance (missing-device)"),
    ],
)
def test_the_first_line_is_the_answer(facts: RunnerFacts, first: str) -> None:
    """Complete by itself, with the names of what is in the way."""
    assert report(facts)[0] == first


def test_the_report_of_a_card() -> None:
    """Complaints by grade with their remedies, a table, and what was not checked, within 100 columns."""
    now = replace(WELL, power_w=512.0, neighbours=("process 7",), neighbours_use=0.5, mig="1g.18gb", load_average=1.0)
    lines = report(card(now, held=Stretch(neighbours_share=0.5)))
    text = "\n".join(lines)
    for part in (
        "\n\nblocks judging\n  shared-card: other processes are on cuda:0 and use 50 %",
        "\n    -> end them",
        "\n\nworth knowing\n  mig-slice: ",
        "\n\nwhat was seen\n  bandwidth       4.50 TB/s read, 4.50 TB/s to 4.50 TB/s (1x) in 24 probes within 4.00 s\n",
        "\n  printed         4.80 TB/s\n",
        "\n  memory          140 GB free, cache knee 100 MB\n",
        "\n  clock           1,980 MHz of 1,980 MHz\n",
        "\n  power           512 W, limit 700 W\n",
        "\n  temperature     40 degrees C\n",
        "\n  memory errors   0 uncorrected\n",
        "\n  used by others  50 % of the device's time\n",
        "\n\nwhat could not be checked\n  - what the tests set",
    ):
        assert part in text
    assert max(map(len, lines)) <= 100


def test_the_report_of_a_processor() -> None:
    """Cores, threads, governor, steal, load, swap, huge pages, and whether it is a guest."""
    text = "\n".join(report(processor(replace(CALM, quota_cores=8.0))))
    for part in (
        "\n  cores           4 usable, a quota of 8, 4 threads (OMP_NUM_THREADS=4)\n",
        "\n  governor        performance\n",
        "\n  used by others  1.0 % of the cores, of it 0.0 % by the hypervisor\n",
        "\n  load            0.10 (average of a minute), tasks waited 0.0 % of 10 s\n",
        "\n  swap            0 bytes in use\n",
        "\n  huge pages      madvise\n",
        "\n  machine         virtual\n",
    ):
        assert part in text
