"""Documents of finished runs, as `--roofline-json` writes them, with made-up figures and hostile names."""

from __future__ import annotations

from typing import Any

HOSTILE = (
    "tests/test_it.py::test_quotes[a\"b\\c-'d']",
    "tests/test_it.py::test_lines[one\ntwo\r\nthree\u2028four\x85]",
    "tests/test_it.py::test_command[%0A::error file=x::y,z]",
    "tests/test_it.py::Class::test_parts[a::b, c=d]",
    "tests/test_\u00fcn\u00efcode.py::test_\U0001f680[\u4e2d\u6587]",
    "tests/test_it.py::test_half[\ud800]",
    "tests/test_it.py::test_shell[#$(rm -rf) `x` {y}]",
    "tests/test_it.py::test_html[</td></table><script>alert(1)</script>&amp;]",
    "tests/test_it.py::test_markdown[| a | **b** ](x) @someone ``` |]",
    "tests/test_it.py::test_terminal[\x1b[2J\x00\x07]",
    "tests/test_it.py::test_direction[\u202etxt.exe]",
    f"tests/test_it.py::test_long[{'x' * 10_000}]",
    f"tests/test_it.py::test_long[{'x' * 10_000}y]",
)
"""Ids that tests could have."""
DEVICE = {"id": "cuda:0", "name": 'NVIDIA "H100"\nPCIe', "uuid": "GPU-1"}


def result(**changed: Any) -> dict[str, Any]:
    """One result that passed: 2 GB per pass in 0.8 ms on 3.35 TB/s."""
    samples = [{"step_s": 0.8e-3 * (1 + 0.01 * (number - 3)), "passes": 4} for number in range(7)]
    made: dict[str, Any] = {
        **{"schema": 1, "kind": "decode", "label": "step", "device": DEVICE, "verdict": "passed", "standing": "passed"},
        **{"fraction": 0.746, "fraction_low": 0.73, "fraction_high": 0.76, "at_least": 0.6, "at_most": None},
        **{"allowed": [], "mbu": 0.746, "step_s": 0.8e-3, "fixed_s": 1e-5, "tokens_per_s": 1250.0},
        **{"tokens_per_s_per_user": 1250.0, "bytes_per_s": 2.5e12, "ttft_s": None, "passes": 28, "elapsed_s": 1.0},
        "ceiling": {
            **{"bandwidth_bytes_per_s": 3.35e12, "bound": "memory", "batch": 1, "tokens_per_pass": 1.0},
            "ceiling_tokens_per_s": 1675.0,
        },
        "traffic": {"bytes_per_pass": 2e9},
        "findings": [],
        "samples": samples,
        "notes": [],
    }
    return {**made, **changed}


def bogus(**changed: Any) -> dict[str, Any]:
    """A result whose figures cannot be true."""
    finding = {
        **{"check": "faster-than-limit", "severity": "bogus", "figures": {}, "remedy": ""},
        "message": "41.0 TB/s from memory, but this device cannot exceed 3.35 TB/s (12x)\n  found: much",
    }
    made = {"verdict": "bogus", "standing": "bogus", "fraction": 12.3, "findings": [finding]}
    return result(**{**made, "tokens_per_s": 98_765.0, "step_s": 1.23e-5, **changed})


def doubtful(**changed: Any) -> dict[str, Any]:
    """A result that was not judged."""
    finding = {
        **{"check": "cache-resident", "severity": "inconclusive", "figures": {}, "remedy": ""},
        "message": "a pass touches 60.0 MB and up to 40.0 MB of it can come from cache",
    }
    return result(**{"verdict": "inconclusive", "standing": "inconclusive", "fraction": 0.777, "findings": [finding]})


def case(node_id: str, *results: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """One test with its results; its verdict is that of the gravest."""
    order = ("bogus", "inconclusive", "failed", "bogus (caught)", "passed", "not measured")
    verdict = min((one["standing"] for one in results), key=order.index, default="passed")
    made: dict[str, Any] = {
        **{"node_id": node_id, "outcome": "passed", "duration_s": 1.0, "worker": None, "mode": "auto"},
        **{"file": node_id.split("::", 1)[0], "line": 12, "message": "", "reason": "", "attempts": []},
    }
    return {**made, "verdict": verdict, "results": list(results), **changed}


def document(*tests: dict[str, Any]) -> dict[str, Any]:
    """A finished run."""
    run = {
        **{"version": "0.1.0", "python": "3.11.2", "platform": "Linux-6.1", "arguments": []},
        "started_at": "2026-01-02T03:04:05+00:00",
        "commit": {"id": "c0ffee", "branch": "main", "is_dirty": False, "source": "git"},
    }
    return {"schema": 1, "kind": "pytest-roofline results", "run": run, "tests": list(tests), "end": {"exit_status": 0}}


def mixed() -> dict[str, Any]:
    """One of each: passed, failed, bogus, inconclusive, not measured, and a worker that crashed."""
    return document(
        case("t.py::test_passed", result()),
        case(
            "t.py::test_failed",
            result(verdict="failed", standing="failed", fraction=0.41),
            outcome="failed",
            message="BelowCeiling: 41 % of the probed read ceiling (98 of 238 tok/s), the test asks for 60 %",
        ),
        case("t.py::test_bogus", bogus(), outcome="failed"),
        case("t.py::test_doubt", doubtful(), outcome="skipped", reason="a pass touches 60.0 MB\nand more"),
        case("t.py::test_off", result(standing="not measured", fraction=None, step_s=None, tokens_per_s=None)),
        case("t.py::test_crashed", verdict=None, reason="worker 'gw0' crashed", outcome="failed"),
    )


def hostile() -> dict[str, Any]:
    """A passed result for every hostile id."""
    return document(*(case(node_id, result()) for node_id in HOSTILE))
