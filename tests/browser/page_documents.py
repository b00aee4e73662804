"""Documents of runs that nobody has to measure: as `pytest --roofline-json` writes them, for pages to show."""

from __future__ import annotations

import random
from typing import Any

GB = 1e9
H100: dict[str, Any] = {
    "id": "cuda:0",
    "name": "NVIDIA H100 80GB HBM3",
    "backend": "torch",
    "vendor": "nvidia",
    "uuid": "GPU-1f2e3d4c",
    "memory_bytes": 85.0e9,
    "spec": "H100 SXM",
    "is_unified_memory": False,
    "mig": None,
    "last_level_cache_bytes": 52428800.0,
    "driver_bandwidth_bytes_per_s": 3.352e12,
    "compute_units": 132,
    "driver": "575.51",
    "notes": [],
}
CPU: dict[str, Any] = {
    **H100,
    "id": "cpu",
    "name": "AMD EPYC 9654 96-Core Processor",
    "vendor": "amd",
    "uuid": None,
    "memory_bytes": 25.7e9,
    "spec": None,
    "last_level_cache_bytes": 33554432.0,
    "driver_bandwidth_bytes_per_s": None,
    "compute_units": 2,
    "driver": None,
    "notes": ["no counters: /dev/cpu is not readable"],
}
READ = 3.02e12
STRETCH: dict[str, Any] = {
    "throttled": [],
    "compute_clock_share": None,
    "memory_clock_share": None,
    "held_share": None,
    "neighbours_share": 0.01,
    "steal_share": None,
    "neighbours": [],
}
READING: dict[str, Any] = {
    **{"clock_hz": 1.98e9, "max_clock_hz": 1.98e9, "memory_clock_hz": 2.619e9, "max_memory_clock_hz": 2.619e9},
    **{"power_w": 412.0, "power_limit_w": 700.0, "default_power_limit_w": 700.0, "temperature_c": 54.0},
    **{"throttle_reasons": [], "neighbours": [], "neighbours_use": 0.0, "has_ecc": True, "uncorrected_errors": 0},
    **{"is_repair_pending": False, "is_persistent": True, "mig": None, "load_average": 1.4, "threads": 8},
    **{"usable_cores": 16, "quota_cores": None, "governor": "performance", "memory_limit_bytes": None},
    **{"swap_used_bytes": 0.0, "pressure_share": 0.02},
}


def probe(read: float = READ, knee: float = 78e6) -> dict[str, Any]:
    """A probe whose sweep follows the model of the knee, with a flat top where caches hold everything."""
    sizes = [2.0**exponent * 1e6 for exponent in range(1, 13)]
    sweep = [
        [size, "read", min(2.2 * read, read / max(0.05, 1 - knee / size) if size > knee else 9 * read)]
        for size in sizes
    ]
    return {
        **{"read_bytes_per_s": read, "copy_bytes_per_s": 0.94 * read, "write_bytes_per_s": 0.97 * read},
        **{"triad_bytes_per_s": 0.93 * read, "best_bytes_per_s": read, "cache_knee_bytes": knee},
        **{"cache_bytes_per_s": 2.2 * read, "sweep": sweep, "kernels": {"read": "torch: sum", "copy": "torch: copy_"}},
        **{
            "threads": None,
            "elapsed_s": 0.9,
            "is_trusted": True,
            "link_bytes_per_s": 55e9,
            "links": None,
            "doubts": [],
        },
        **{"peak_flops_per_s": {"bfloat16": 7.4e14, "float32": 5.1e13}, "excess": 1.0, "notes": []},
    }


def measured(device: dict[str, Any] = H100, **changes: Any) -> dict[str, Any]:
    """A device of the document, with its probe."""
    sheet = {
        **{"id": "h100-sxm", "name": "H100 SXM", "bandwidth_bytes_per_s": 3.35e12, "source": "the vendor's sheet"},
        "dense_peak_flops_per_s": {"bfloat16": 9.89e14},
    }
    limit = {"bytes_per_s": 3.352e12, "slack": 1.02, "source": "bus width x clock", "is_measured": False}
    found = {"device": device, "sheet": sheet, "limit": limit, "probe": probe(), "workers": []}
    return {**found, **changes}


def result(
    fraction: float = 0.78,
    standing: str = "passed",
    *,
    bytes_per_pass: float = 16.1 * GB,
    intensity: float = 1.0,
    samples: int = 24,
    device: dict[str, Any] = H100,
    read: float = READ,
    **changes: Any,
) -> dict[str, Any]:
    """One decode, of so many bytes at this fraction of the ceiling; its samples waver a little, by a fixed seed."""
    chance = random.Random(f"{fraction} {bytes_per_pass}")
    floor = max(bytes_per_pass / read, intensity * bytes_per_pass / 7.4e14)
    step = floor / fraction
    kv = 0.13 * bytes_per_pass
    verdict = standing.split(" ", 1)[0]
    found: dict[str, Any] = {
        **{
            "schema": 1,
            "kind": "decode",
            "label": "decode",
            "device": device,
            "verdict": verdict,
            "standing": standing,
        },
        **{"fraction": fraction, "fraction_low": 0.97 * fraction, "fraction_high": fraction, "at_least": 0.6},
        **{"at_most": None, "allowed": [], "mbu": 0.9 * fraction, "step_s": step, "fixed_s": 2e-5},
        **{"tokens_per_s": 1 / step, "tokens_per_s_per_user": 1 / step, "bytes_per_s": bytes_per_pass / step},
        **{"ttft_s": None, "passes": 480, "elapsed_s": 3.1, "findings": [], "limit": None, "confrontation": []},
        **{"claim": None, "window": None, "compiled": None, "comparisons": [], "stream": None},
        "conditions": {
            "before": READING,
            "during": {
                **STRETCH,
                **{"readings": 12, "highest_temperature_c": 61.0, "highest_power_w": 655.0},
                **{"highest_pressure_share": 0.03, "highest_load_average": 1.6},
            },
            "after": {**READING, "temperature_c": 60.0},
        },
        "notes": ["context from the trace: 2048"],
        "not_checked": ["that the output depends on the weights: give reference= or tamper=True"],
        "ceiling": {
            **{"bandwidth_bytes_per_s": read, "bandwidth_source": "probe, reading", "peak_flops_per_s": 7.4e14},
            **{"batch": 1, "tokens_per_pass": 1.0, "bytes_per_pass": bytes_per_pass},
            **{"flops_per_pass": intensity * bytes_per_pass, "arithmetic_intensity": intensity, "ridge_point": 245.0},
            **{"bound": "memory" if intensity < 245 else "compute", "spill_bytes_per_pass": 0.0},
            **{"spill_bytes_per_s": None, "spill_source": None, "spill_s": 0.0, "is_overlapped": False},
            **{"step_floor_s": floor, "ceiling_tokens_per_s": 1 / floor},
            "ceiling_tokens_per_s_per_user": 1 / floor,
        },
        "traffic": {
            **{"bytes_per_pass": bytes_per_pass, "least_bytes_per_pass": bytes_per_pass},
            **{
                "weight_bytes_per_pass": bytes_per_pass - kv - 1e6,
                "kv_bytes_per_pass": kv,
                "kv_bytes_per_token": 131072.0,
            },
            **{"written_bytes_per_pass": 1e6, "repeated_bytes_per_pass": 0.0, "spilled_bytes_per_pass": 0.0},
            **{"extra_bytes_per_pass": 0.0, "extra": [], "flops_per_pass": intensity * bytes_per_pass},
            **{"working_set_bytes": bytes_per_pass, "arithmetic_intensity": intensity, "dtype": "bfloat16", "batch": 1},
            **{"context": 2048, "source": "traced", "is_closed": True, "notes": []},
        },
        "samples": [_sample(step, fraction, read, chance) for _ in range(samples)],
    }
    return {**found, **changes}


def _sample(step: float, fraction: float, read: float, chance: random.Random) -> dict[str, Any]:
    ruler = read * chance.gauss(1.0, 0.01)
    own = step * chance.gauss(1.0, 0.012)
    return {
        **{"passes": 20, "step_s": own, "fixed_s": 2e-5, "closed_step_s": own * 1.002, "fraction": fraction},
        **{"ruler_before_bytes_per_s": ruler, "ruler_after_bytes_per_s": ruler * chance.gauss(1.0, 0.006)},
        **{"context": 2078.0, "compiled": None, "conditions": STRETCH},
    }


def a_test(node_id: str, *results: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A test of the document with these results; its verdict is that of the first."""
    verdict = results[0]["standing"] if results else None
    outcome = {"passed": "passed", "not measured": "passed", "bogus (caught)": "passed", "inconclusive": "skipped"}
    found = {
        **{"node_id": node_id, "outcome": outcome.get(str(verdict), "failed"), "duration_s": 4.2, "worker": None},
        **{"file": node_id.split("::", 1)[0], "line": 12, "message": "", "mode": "require", "verdict": verdict},
        **{"reason": "", "results": list(results), "attempts": []},
    }
    return {**found, **changes}


def document(*tests: dict[str, Any], devices: list[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    """A whole run."""
    found = {
        **{"schema": 1, "kind": "pytest-roofline results", "tests": list(tests)},
        "run": {
            **{
                "version": "0.1.0",
                "python": "3.11.9",
                "platform": "Linux-6.8-x86_64",
                "started_at": "2026-05-04T09:30:12+00:00",
            },
            "arguments": ["-q", "--roofline=require", "--roofline-html=report.html"],
            "commit": {
                "id": "9f3c1d2e4b5a69788796a5b4c3d2e1f001122334",
                "branch": "main",
                "is_dirty": False,
                "source": "git",
            },
        },
        "libraries": {"torch": "2.13.0", "transformers": "5.2.0", "pytest": "9.0.1"},
        "devices": [measured()] if devices is None else devices,
        "end": {"exit_status": 1},
    }
    return {**found, **changes}


def finding(check: str, severity: str, message: str, remedy: str = "", **figures: Any) -> dict[str, Any]:
    """One finding of a result."""
    return {"check": check, "severity": severity, "message": message, "figures": figures, "remedy": remedy}


def varied() -> dict[str, Any]:
    """A run with everything: two devices, all verdicts, extra traffic, a crash, a rerun, a prefill, throttling."""
    drained = finding(
        *(
            "not-drained",
            "bogus",
            "the clock stopped at 1.2 ms but the device finished at 48.0 ms (40x): missing synchronization",
        ),
        "call torch.cuda.synchronize() before the clock is read",
        leftover_s=0.0468,
        window_s=0.0012,
        claimed_tokens_per_s=16_500.0,
    )
    copied = [["KV cache copied each step", 5.2 * GB], ["mask materialized", 0.4 * GB]]
    slow = result(0.41, "failed", tokens_per_s=98.2)
    slow["traffic"] = {**slow["traffic"], "extra_bytes_per_pass": 5.6 * GB, "extra": copied}
    hot = result(0.55, "inconclusive", bytes_per_pass=8 * GB, samples=30)
    for sample in hot["samples"][12:19]:
        sample["conditions"] = {**STRETCH, "throttled": ["thermal slowdown"], "compute_clock_share": 0.71}
        sample["step_s"] *= 1.4
    hot["findings"] = [
        finding("throttled", "inconclusive", "the card was held down for 31 % of the measurement", held_share=0.31)
    ]
    on_cpu = {"device": CPU, "read": 21e9}
    few = {**on_cpu, "bytes_per_pass": 40e6}
    unknown = result(0.66, "passed", bytes_per_pass=3 * GB)
    for record in (unknown["ceiling"], unknown["traffic"]):
        record["flops_per_pass"] = record["arithmetic_intensity"] = None
    tests = [
        a_test("tests/test_decode.py::test_llama_8b[bf16]", result(0.81)),
        a_test("tests/test_decode.py::test_llama_8b[fp8]", result(0.74, bytes_per_pass=8.6 * GB)),
        a_test("tests/test_decode.py::test_llama_8b[int4-g128]", result(0.63, bytes_per_pass=5.0 * GB, intensity=3.4)),
        a_test("tests/test_decode.py::test_batch[16]", result(0.72, bytes_per_pass=21 * GB, intensity=13.0)),
        a_test("tests/test_decode.py::test_batch[64]", result(0.69, bytes_per_pass=36 * GB, intensity=38.0)),
        a_test(
            "tests/test_decode.py::test_long_context", slow, message="BelowCeiling: 41 % of the probed read ceiling"
        ),
        a_test(
            "tests/test_prefill.py::test_prompt_4k",
            result(0.71, bytes_per_pass=16.5 * GB, intensity=2100, kind="prefill", ttft_s=0.113),
        ),
        a_test(
            "tests/test_claims.py::test_three_times_faster",
            result(3.4, "bogus", bytes_per_pass=16 * GB, findings=[drained], kind="audit", samples=0),
        ),
        a_test(
            "tests/test_claims.py::test_it_is_refused",
            result(1.9, "bogus (caught)", bytes_per_pass=9 * GB, findings=[drained], kind="audit", samples=0),
        ),
        a_test("tests/test_decode.py::test_hot_card", hot, reason=hot["findings"][0]["message"]),
        a_test(
            "tests/test_moe.py::test_experts",
            result(0.58, "passed", bytes_per_pass=12 * GB, intensity=4),
            result(0.61, "passed", bytes_per_pass=13 * GB, intensity=6, label="decode, batch 8"),
        ),
        a_test("tests/test_kernels.py::test_gemv", unknown),
        a_test("tests/test_cpu.py::test_tiny", result(0.88, **on_cpu, bytes_per_pass=420e6)),
        a_test(
            "tests/test_cpu.py::test_cached",
            result(0.93, "inconclusive", **few),
            reason="40.0 MB a pass, the cache holds 33.6 MB",
        ),
        a_test("tests/test_decode.py::test_crash", outcome="failed", reason="worker 'gw1' crashed", mode=None),
        a_test(
            "tests/test_decode.py::test_again",
            result(0.7),
            attempts=[{"verdict": "failed", "message": "BelowCeiling: 52 %", "results": []}],
        ),
    ]
    cpu_probe = {
        **probe(21e9, 30e6),
        "peak_flops_per_s": {"float32": 1.1e11},
        "threads": 2,
        "kernels": {"read": "libc: memcmp"},
    }
    return document(*tests, devices=[measured(), measured(CPU, sheet=None, probe=cpu_probe)])


def many(count: int) -> dict[str, Any]:
    """A run of so many tests, of all verdicts."""
    chance = random.Random(7)
    verdicts = ["passed"] * 12 + ["failed", "bogus", "inconclusive"]
    return document(
        *(
            a_test(
                f"tests/test_models.py::test_decode[model-{number:04}-batch-{2 ** chance.randrange(7)}]",
                result(
                    round(chance.uniform(0.3, 0.95), 4),
                    chance.choice(verdicts),
                    bytes_per_pass=chance.uniform(0.5, 60) * GB,
                    intensity=10 ** chance.uniform(-0.5, 3.2),
                    samples=30,
                ),
            )
            for number in range(count)
        )
    )
