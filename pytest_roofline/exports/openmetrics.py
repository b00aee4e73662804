"""OpenMetrics text: gauges of every true figure, and how each test stands.

The format: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md (1.0). A family's name
ends in its unit, its samples stand together, label values escape backslash, quote and line end, and the text ends in
``# EOF``. What is not true has no sample in any gauge of figures: it is one of `roofline_tests`, and a state of
`roofline_test_verdict`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_roofline.exports.measured import (
    VERDICTS,
    Measured,
    shortened,
    tests_of,
    true_figures,
    verdict_of,
    verdicts_in,
)

NAME = "openmetrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """One family of figures; its name ends in `unit`."""

    name: str
    unit: str
    help: str
    value: Callable[[Measured], float | None]


def _rate(is_calls: bool) -> Callable[[Measured], float | None]:
    return lambda one: one.tokens_per_s if (one.rate_unit == "calls/s") is is_calls else None


GAUGES: tuple[Gauge, ...] = (
    Gauge(
        name="roofline_fraction_ratio",
        unit="ratio",
        help="Fraction of the probed ceiling of the device that was reached",
        value=lambda one: one.fraction,
    ),
    Gauge(
        name="roofline_fraction_low_ratio",
        unit="ratio",
        help="Least that the fraction can be, noise and caches allowed for",
        value=lambda one: one.fraction_low,
    ),
    Gauge(
        name="roofline_fraction_high_ratio",
        unit="ratio",
        help="Most that the fraction can be",
        value=lambda one: one.fraction_high,
    ),
    Gauge(
        name="roofline_budget_ratio",
        unit="ratio",
        help="Least fraction that the test asks for",
        value=lambda one: one.at_least,
    ),
    Gauge(
        name="roofline_pass_seconds",
        unit="seconds",
        help="Time of one pass, the median",
        value=lambda one: one.step_s,
    ),
    Gauge(
        name="roofline_first_token_seconds",
        unit="seconds",
        help="Time to the first token",
        value=lambda one: one.ttft_s,
    ),
    Gauge(
        name="roofline_rate_tokens_per_second",
        unit="tokens_per_second",
        help="Tokens per second of the whole batch",
        value=_rate(is_calls=False),
    ),
    Gauge(
        name="roofline_rate_calls_per_second",
        unit="calls_per_second",
        help="Calls of a kernel per second",
        value=_rate(is_calls=True),
    ),
    Gauge(
        name="roofline_traffic_bytes_per_second",
        unit="bytes_per_second",
        help="Bytes that passes moved per second",
        value=lambda one: one.bytes_per_s,
    ),
    Gauge(
        name="roofline_ceiling_bytes_per_second",
        unit="bytes_per_second",
        help="Probed bandwidth of the device for this mix of reads and writes",
        value=lambda one: one.bandwidth_bytes_per_s,
    ),
    Gauge(
        name="roofline_pass_bytes",
        unit="bytes",
        help="Bytes that one pass moves",
        value=lambda one: one.bytes_per_pass,
    ),
)


def openmetrics(document: Mapping[str, Any]) -> str:
    """The whole text, `# EOF` and all."""
    run = document.get("run")
    figures = true_figures(document)
    lines = [
        *_info(run if isinstance(run, Mapping) else {}),
        *gauge_lines(GAUGES, figures, _labels, str),
        "# TYPE roofline_tests gauge",
        "# HELP roofline_tests Tests by verdict",
        *(_sample("roofline_tests", {"verdict": word}, str(n)) for word, n in verdicts_in(document).items()),
        *_states(document),
        "# EOF",
    ]
    return "\n".join(lines) + "\n"


def gauge_lines(
    gauges: Sequence[Gauge],
    figures: Sequence[Measured],
    labels: Callable[[Measured], Mapping[str, str]],
    shown: Callable[[float], str],
) -> Iterator[str]:
    """The families that have a sample, each with its samples together."""
    for gauge in gauges:
        values = [(one, gauge.value(one)) for one in figures]
        samples = [_sample(gauge.name, labels(one), shown(value)) for one, value in values if value is not None]
        if samples:
            yield f"# TYPE {gauge.name} gauge"
            yield f"# UNIT {gauge.name} {gauge.unit}"
            yield f"# HELP {gauge.name} {gauge.help}"
            yield from samples


def _labels(one: Measured) -> dict[str, str]:
    labels = {"test": one.name, "kind": one.kind, "device": one.device, "device_name": one.device_name}
    # What a check was allowed to overlook is no other series' figure.
    return labels | ({"allowed": ",".join(one.allowed)} if one.allowed else {})


def _info(run: Mapping[str, Any]) -> Iterator[str]:
    known = {key: shortened(str(run[key]), 200) for key in ("version", "python", "platform") if run.get(key)}
    if known:
        yield "# TYPE roofline_run info"
        yield "# HELP roofline_run What measured"
        yield _sample("roofline_run_info", known, "1")


def _states(document: Mapping[str, Any]) -> Iterator[str]:
    """One state set per test, a test that was repeated once: its gravest end."""
    gravest: dict[str, str] = {}
    for test in tests_of(document):
        name, verdict = shortened(str(test.get("node_id", ""))), verdict_of(test)
        if name not in gravest or _grave(verdict) < _grave(gravest[name]):
            gravest[name] = verdict
    if gravest:
        yield "# TYPE roofline_test_verdict stateset"
        yield "# HELP roofline_test_verdict How each test ended"
    for name, verdict in gravest.items():
        for state in VERDICTS if verdict in VERDICTS else (*VERDICTS, verdict):
            labels = {"test": name, "roofline_test_verdict": state}
            yield _sample("roofline_test_verdict", labels, "1" if state == verdict else "0")


def _grave(verdict: str) -> int:
    return VERDICTS.index(verdict) if verdict in VERDICTS else len(VERDICTS)


def _sample(name: str, labels: Mapping[str, str], value: str) -> str:
    written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{written}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
