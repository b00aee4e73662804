"""What the exports take from a document of results: one record per result, with a name that no other one has.

The document may be of an earlier version, or written by somebody else: what is missing is None, never an error.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_roofline.errors import one_line
from pytest_roofline.reruns import last_attempts
from pytest_roofline.units import format_fraction, format_rate

VERDICTS = ("bogus", "inconclusive", "failed", "bogus (caught)", "passed", "not measured", "crashed")
"""Every word that a test may end in, gravest first; `crashed`: its worker did not survive it."""
TRUE = frozenset({"passed", "failed"})
"""How a result stands whose figures are true; nobody else's are exported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One result of one test, in SI base units; None is not known. Figures of what is not `is_true` are no figures."""

    name: str
    """The test's id, with the result's label where it has several; of printable characters, the only one of its run."""
    node_id: str
    label: str
    kind: str
    device: str
    device_name: str
    standing: str
    fraction: float | None = None
    fraction_low: float | None = None
    fraction_high: float | None = None
    at_least: float | None = None
    step_s: float | None = None
    tokens_per_s: float | None = None
    """Of the whole batch; calls per second of a kernel."""
    ceiling_tokens_per_s: float | None = None
    """By the session's probe; the fraction is by those around each block, and need not be their quotient."""
    bytes_per_s: float | None = None
    bytes_per_pass: float | None = None
    bandwidth_bytes_per_s: float | None = None
    mbu: float | None = None
    ttft_s: float | None = None
    bound: str = ""
    batch: float | None = None
    tokens_per_pass: float | None = None
    samples_s: tuple[float, ...] = ()
    """Seconds of a pass, sample by sample."""
    allowed: tuple[str, ...] = ()
    """Checks that would have decided, had the test not allowed them."""
    findings: tuple[tuple[str, str, str], ...] = ()
    """Check, severity and first line of each finding."""

    @property
    def is_true(self) -> bool:
        """Whether its figures may be passed on."""
        return self.standing in TRUE

    @property
    def rate_unit(self) -> str:
        """What its rate counts."""
        return "calls/s" if self.kind == "kernel" else "tok/s"

    @property
    def reason(self) -> str:
        """Why it did not pass, in one line with figures; empty where its findings say nothing of it."""
        for check, severity, line in self.findings:
            if severity == "bogus" and self.standing.startswith("bogus"):
                return f"{line} [{check}]"
            if severity == "inconclusive" and self.standing == "inconclusive":
                return f"{line} [{check}]"
        if self.standing != "failed" or self.fraction is None:
            return ""
        asked = f", at least {format_fraction(self.at_least)} is asked for" if self.at_least is not None else ""
        rate = f" at {format_rate(self.tokens_per_s)} {self.rate_unit}" if self.tokens_per_s is not None else ""
        return f"{format_fraction(self.fraction)} of the ceiling{rate}{asked}"


def measured_in(document: Mapping[str, Any]) -> tuple[Measured, ...]:
    """Every result of a document, in its order, whatever its verdict."""
    used: set[str] = set()
    found = []
    for test in tests_of(document):
        results = [result for result in _sequence(test.get("results")) if isinstance(result, Mapping)]
        for result in results:
            node_id, label = str(test.get("node_id", "")), str(result.get("label") or "")
            name = node_id if len(results) == 1 else f"{node_id}: {label}"
            found.append(_measured(result, node_id, label, _only(shortened(name), used)))
    return tuple(found)


def true_figures(document: Mapping[str, Any]) -> tuple[Measured, ...]:
    """The results whose figures may be passed on."""
    return tuple(one for one in measured_in(document) if one.is_true)


def tests_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tests of a document that used the tool, as they ended."""
    return last_attempts(test for test in _sequence(document.get("tests")) if isinstance(test, Mapping))


def verdict_of(test: Mapping[str, Any]) -> str:
    """How a test ended, in one of `VERDICTS`."""
    verdict = test.get("verdict")
    return "crashed" if verdict is None else str(verdict)


def verdicts_in(document: Mapping[str, Any]) -> dict[str, int]:
    """How many tests ended in each verdict, gravest first; a verdict that this version does not know comes last."""
    counted = Counter(verdict_of(test) for test in tests_of(document))
    known = {verdict: counted.pop(verdict, 0) for verdict in VERDICTS}
    return known | dict(sorted(counted.items()))


def shortened(text: str, longest: int = 400) -> str:
    """A name in printable characters; one that is cut ends in a digest of the whole, so that it stays itself.

    Ids may hold anything, and ten thousand of it: line ends, escapes that clear a terminal, halves of characters.
    """
    line = one_line(text, max(len(text), 1) * 10)
    if len(line) <= longest:
        return line
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{line[: longest - len(digest) - 1]}~{digest}"


def _only(name: str, used: set[str]) -> str:
    """The name, or with a number behind it where it is taken (a test that was repeated)."""
    candidate, number = name, 1
    while candidate in used:
        number += 1
        candidate = f"{name} ({number})"
    used.add(candidate)
    return candidate


def _measured(result: Mapping[str, Any], node_id: str, label: str, name: str) -> Measured:
    device, ceiling, traffic = (_mapping(result.get(key)) for key in ("device", "ceiling", "traffic"))
    return Measured(
        name=name,
        node_id=node_id,
        label=shortened(label, 120),
        kind=str(result.get("kind") or ""),
        device=shortened(str(device.get("id") or ""), 120),
        device_name=shortened(str(device.get("name") or ""), 120),
        standing=str(result.get("standing") or result.get("verdict") or ""),
        fraction=number(result.get("fraction")),
        fraction_low=number(result.get("fraction_low")),
        fraction_high=number(result.get("fraction_high")),
        at_least=number(result.get("at_least")),
        step_s=number(result.get("step_s")),
        tokens_per_s=number(result.get("tokens_per_s")),
        ceiling_tokens_per_s=number(ceiling.get("ceiling_tokens_per_s")),
        bytes_per_s=number(result.get("bytes_per_s")),
        bytes_per_pass=number(traffic.get("bytes_per_pass")),
        bandwidth_bytes_per_s=number(ceiling.get("bandwidth_bytes_per_s")),
        mbu=number(result.get("mbu")),
        ttft_s=number(result.get("ttft_s")),
        bound=str(ceiling.get("bound") or ""),
        batch=number(ceiling.get("batch")),
        tokens_per_pass=number(ceiling.get("tokens_per_pass")),
        samples_s=tuple(_steps(result)),
        allowed=tuple(str(name) for name in _sequence(result.get("allowed"))),
        findings=tuple(
            (str(one.get("check")), str(one.get("severity")), one_line(str(one.get("message")).split("\n", 1)[0], 400))
            for one in _sequence(result.get("findings"))
            if isinstance(one, Mapping)
        ),
    )


def _steps(result: Mapping[str, Any]) -> Iterator[float]:
    for sample in _sequence(result.get("samples")):
        step_s = number(_mapping(sample).get("step_s"))
        if step_s is not None:
            yield step_s


def number(value: Any) -> float | None:
    """A finite number, or None: a document that somebody else wrote may hold anything."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return as_float if math.isfinite(as_float) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()
