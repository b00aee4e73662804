"""MLPerf Inference: ``mlperf_log_summary.txt`` of a run with token latencies.

Read as loadgen/results.cc (mlcommons/inference at 05a9cec) writes it: lines of a name, a colon and a value. Offline
has tokens over the whole run, Server those completed, SingleStream those of one query at a time. *Inferred* ones are
samples times a fixed number of tokens (GPT-J). A summary that counts samples alone has no rate of tokens, and is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_roofline.published.document import Document
from pytest_roofline.published.entry import Entry
from pytest_roofline.published.reported import Reported
from pytest_roofline.published.servers import ServedRun

NAME = "mlperf"
KEYS = ("MLPerf Results Summary", "SUT name", "Scenario", "Result is")
_LINE = re.compile(r"[ \t]*(?P<name>[^:\n]{1,80}?)[ \t]*:[ \t]*(?P<value>[^\n]{0,200}?)[ \t\r]*")
_RATES = {
    "Offline": "Tokens per second",
    "Server": "Completed tokens per second",
    "SingleStream": "TPS w/o loadgen overhead",
}

_INFERRED = " (inferred)"


def recognises(document: Document) -> bool:
    """Whether the title is there."""
    return document.kind == "text" and "MLPerf Results Summary" in document.text[:4000]


def read(document: Document) -> Iterator[Reported]:
    """The rate of the run, and the pace of one sequence where there is one."""
    found = (_LINE.fullmatch(line) for line in document.text.splitlines())
    lines: dict[str, str] = {}
    for line in found:
        if line is not None:
            lines.setdefault(line["name"], line["value"])
    entry = Entry(where=document.file, values=lines, is_text=True)
    scenario, mode = entry.text("Scenario") or "", entry.text("Mode") or ""
    if scenario not in _RATES:
        raise entry.fail("Scenario", f"{scenario[:40]!r}: {', '.join(_RATES)} are known")
    if mode != "PerformanceOnly":
        raise entry.fail("Mode", f"{mode[:40]!r}: PerformanceOnly is needed; other runs are not timed for speed")
    counted = _RATES[scenario]
    key = counted if entry.has(counted) or not entry.has(counted + _INFERRED) else counted + _INFERRED
    if not entry.has(key):
        raise entry.fail(key, "missing: the run counted samples, not tokens (use_token_latencies=1 counts them)")
    tpot_ns = entry.positive_or_none("Mean Time to Output Token (ns)")
    verdict = entry.text("Result is") or ""
    remarks = [] if key == counted else ["its tokens were inferred: samples times a fixed number for each"]
    if verdict != "VALID":
        remarks.append(f"MLPerf's own result is {verdict[:20]}")
    yield from ServedRun(
        tool=NAME,
        where=document.file,
        output_tokens_per_s=entry.positive(key),
        output_key=key,
        tpot_s=None if tpot_ns is None else tpot_ns * 1e-9,
        tpot_key="Mean Time to Output Token (ns)",
        most_at_once=1.0 if scenario == "SingleStream" else None,
        words=f"MLPerf {scenario.lower()}",
        remarks=tuple(remarks),
    ).reported()
