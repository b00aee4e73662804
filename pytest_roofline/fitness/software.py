"""What may be wrong with the software: debug builds, and variables that make a step wait, log or check."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_roofline.fitness.facts import GRADES, Complaint, Grade, RunnerFacts

_OFF = ("", "0", "false", "off", "no")
WATCHED: tuple[tuple[str, Grade, str], ...] = (
    ("CUDA_LAUNCH_BLOCKING", "blocks judging", "every launch waits for the one before"),
    ("HIP_LAUNCH_BLOCKING", "blocks judging", "every launch waits for the one before"),
    ("AMD_SERIALIZE_KERNEL", "blocks judging", "every kernel waits for the one before"),
    ("PYTORCH_NO_CUDA_MEMORY_CACHING", "blocks judging", "every tensor is allocated by the driver"),
    ("JAX_DISABLE_JIT", "blocks judging", "JAX runs one operation at a time"),
    ("JAX_DEBUG_NANS", "blocks judging", "JAX reads every result back"),
    ("MALLOC_PERTURB_", "blocks judging", "freed memory is written over"),
    ("TORCH_LOGS", "widens intervals", "torch logs while it works"),
    ("TORCH_SHOW_DISPATCH_TRACE", "widens intervals", "torch prints every operation"),
    ("TORCH_CPP_LOG_LEVEL", "worth knowing", "torch's C++ side logs"),
    ("JAX_LOG_COMPILES", "worth knowing", "JAX logs what it compiles"),
    ("PYTHONDEVMODE", "widens intervals", "Python checks memory and warns"),
    ("PYTHONMALLOC", "widens intervals", "Python's allocator is not its own"),
    ("PYTHONTRACEMALLOC", "widens intervals", "Python traces every allocation"),
    ("MALLOC_CHECK_", "widens intervals", "the C library checks every allocation"),
)
"""Variables, how grave each is when it is set, and what it does."""
_ON_CARDS = ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL", "PYTORCH_NO_CUDA_MEMORY_CACHING")
SANITIZERS = ("libasan", "libtsan", "libubsan", "liblsan", "libmsan", "valgrind", "libclang_rt")
KEPT = (*(name for name, _, _ in WATCHED), "LD_PRELOAD", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def debug_environment(facts: RunnerFacts) -> Complaint | None:
    """Variables that are set, together: as grave as the gravest."""
    found = [
        # What slows a card's launches slows no processor.
        (name, "worth knowing" if facts.is_cpu and name in _ON_CARDS else grade, effect)
        for name, grade, effect in WATCHED
        if is_on(facts.environment, name)
    ]
    if not found:
        return None
    said = "; ".join(f"{name}={facts.environment[name]} ({effect})" for name, _, effect in found)
    return Complaint(
        name="debug-environment",
        grade=min((grade for _, grade, _ in found), key=GRADES.index),
        message=f"the environment slows steps down: {said}",
        remedy=f"unset {' '.join(name for name, _, _ in found)}",
        figures={name: facts.environment[name] for name, _, _ in found},
    )


def debug_build(facts: RunnerFacts) -> Complaint | None:
    """Interpreter, framework or process with checks compiled in."""
    preloaded = facts.environment.get("LD_PRELOAD", "")
    found = ["Python is a debug build"] if facts.is_debug_python else []
    found += ["torch is a debug build"] if facts.is_debug_torch else []
    found += [f"a sanitizer is loaded ({preloaded})"] if any(name in preloaded for name in SANITIZERS) else []
    found += ["torch's anomaly detection is on"] if facts.is_watching_gradients else []
    if not found:
        return None
    return Complaint(
        name="debug-build",
        grade="blocks judging",
        message=f"what runs here is not what is served: {', '.join(found)}",
        remedy="install release builds, and measure in a job without sanitizers and checks",
        figures={"found": found},
    )


def is_on(environment: Mapping[str, str], name: str) -> bool:
    """Whether a variable is set to something that switches it on."""
    value = environment.get(name, "").strip().lower()
    if name == "TORCH_CPP_LOG_LEVEL":
        return value in ("info", "0") and value != ""
    if name == "PYTHONMALLOC":
        return value.endswith("debug") or value == "malloc"
    return value not in _OFF


SOFTWARE = (debug_build, debug_environment)
