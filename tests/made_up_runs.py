"""Documents of finished runs, made up: one result with whatever figures a test wants, in everything that a file has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

DEVICE: Mapping[str, Any] = {
    "id": "fake:0",
    "name": "Fake Accelerator",
    "backend": "fake",
    "vendor": "fake",
    "uuid": "FAKE-0",
    "memory_bytes": 64e9,
    "spec": None,
    "is_unified_memory": False,
    "mig": None,
    "last_level_cache_bytes": 40e6,
    "driver_bandwidth_bytes_per_s": None,
    "compute_units": 100,
    "driver": "1.0",
    "notes": [],
}
TRAFFIC: Mapping[str, Any] = {
    "bytes_per_pass": 2e9,
    "least_bytes_per_pass": 2e9,
    "weight_bytes_per_pass": 2e9,
    "kv_bytes_per_pass": 0.0,
    "kv_bytes_per_token": None,
    "written_bytes_per_pass": 0.0,
    "repeated_bytes_per_pass": 0.0,
    "spilled_bytes_per_pass": 0.0,
    "extra_bytes_per_pass": 0.0,
    "extra": [],
    "flops_per_pass": None,
    "working_set_bytes": 2e9,
    "arithmetic_intensity": None,
    "dtype": "bfloat16",
    "batch": 1,
    "context": 0,
    "source": "trace",
    "is_closed": True,
    "notes": [],
}
CEILING: Mapping[str, Any] = {
    "bandwidth_bytes_per_s": 1e12,
    "bandwidth_source": "probe",
    "peak_flops_per_s": None,
    "batch": 1,
    "tokens_per_pass": 1.0,
    "bytes_per_pass": 2e9,
    "flops_per_pass": None,
    "arithmetic_intensity": None,
    "ridge_point": None,
    "bound": "memory",
    "spill_bytes_per_pass": 0.0,
    "spill_bytes_per_s": None,
    "spill_source": None,
    "spill_s": 0.0,
    "is_overlapped": False,
    "step_floor_s": 2e-3,
    "ceiling_tokens_per_s": 500.0,
    "ceiling_tokens_per_s_per_user": 500.0,
}


def sample_of(step_s: float, ruler: float = 1e12, context: float | None = None) -> dict[str, Any]:
    """One sample between two probes of the same rate."""
    return {
        "passes": 4,
        "step_s": step_s,
        "fixed_s": 0.0,
        "closed_step_s": step_s,
        "ruler_before_bytes_per_s": ruler,
        "ruler_after_bytes_per_s": ruler,
        "fraction": 2e9 / ruler / step_s if step_s else None,
        "context": context,
        "compiled": None,
        "conditions": None,
    }


def result_of(steps_s: Sequence[float] = (2.5e-3,) * 12, rulers: Sequence[float] | None = None, **more: Any) -> Any:
    """A decode result with these samples; `more` takes the place of its other keys."""
    pairs = zip(steps_s, rulers or [1e12] * len(steps_s), strict=True)
    middle = sorted(steps_s)[len(steps_s) // 2] if steps_s else 2.5e-3
    return {
        "schema": 1,
        "kind": "decode",
        "label": "step",
        "device": dict(DEVICE),
        "verdict": "passed",
        "standing": "passed",
        "fraction": 0.8,
        "fraction_low": 0.79,
        "fraction_high": 0.81,
        "at_least": 0.6,
        "at_least_from": None,
        "at_most": None,
        "at_most_from": None,
        "allowed": [],
        "mbu": None,
        "step_s": middle,
        "fixed_s": 0.0,
        "tokens_per_s": 1 / middle if middle else None,
        "tokens_per_s_per_user": 1 / middle if middle else None,
        "bytes_per_s": 8e11,
        "ttft_s": None,
        "passes": 144,
        "elapsed_s": 0.5,
        "ceiling": dict(CEILING),
        "traffic": dict(TRAFFIC),
        "findings": [],
        "samples": [sample_of(step_s, ruler) for step_s, ruler in pairs],
        "limit": {"bytes_per_s": 1e12, "slack": 1.25, "source": "the best of all probes", "is_measured": True},
        "confrontation": [],
        "sized": None,
        "claim": None,
        "window": None,
        "compiled": None,
        "comparisons": [],
        "conditions": {},
        "notes": [],
        "not_checked": [],
        "stream": None,
        **more,
    }


def kept_test(*results: Any, node_id: str = "test_it.py::test_decode", **more: Any) -> dict[str, Any]:
    """A test that passed with these results."""
    return {
        "node_id": node_id,
        "outcome": "passed",
        "duration_s": 1.0,
        "worker": None,
        "file": node_id.partition("::")[0],
        "line": 1,
        "message": "",
        "budget_error": None,
        "mode": "auto",
        "verdict": "passed",
        "reason": "",
        "results": list(results),
        "attempts": [],
        **more,
    }


def document_with(*tests: Any, **more: Any) -> dict[str, Any]:
    """A finished run of these tests."""
    return {
        "schema": 1,
        "kind": "pytest-roofline results",
        "run": {
            "version": "0.1.0",
            "python": "3.11.0",
            "platform": "Linux",
            "arguments": [],
            "started_at": "2026-01-01T00:00:00+00:00",
            "commit": None,
            **more.pop("run", {}),
        },
        "tests": list(tests),
        "libraries": {},
        "devices": [],
        "end": {"exit_status": 0},
        **more,
    }
