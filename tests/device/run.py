"""One command that checks pytest-roofline on a real accelerator, in a few minutes.

::

    python tests/device/run.py [--device cuda:0] [--json OUT]

It measures the probe (read, copy, write, triad, bf16 product), the links to the host, weights that come over
them, a Triton kernel, a decode of a Llama-shaped model with a static cache, with and without a CUDA graph, and
audits that must end in a certain way: honest ones believed, and those that did not wait for all of the work
refused. One line per check; exit 1 when one failed. Without an accelerator it says so and exits 0.
``--device cpu`` runs the same logic, small, on the processor.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a checkout need not be installed
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from links_and_kernels import examine_links, examine_offload, examine_opaque_kernel
from models import StaticDecode, Streamed

from pytest_roofline.backends.torch import TorchBackend
from pytest_roofline.calibration import COPIES_S, Copies
from pytest_roofline.device import Device
from pytest_roofline.errors import BogusMeasurement, RooflineError
from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session
from pytest_roofline.units import format_bytes_per_s, format_flops_per_s, format_fraction, format_seconds

MAX_TIME_S = 8.0
AUDIT_PASSES = 40


class CheckSkippedError(Exception):
    """This check makes no sense here; the text says why."""


class CheckFailedError(Exception):
    """A figure or an ending that should not be."""


@dataclass
class Suite:
    """The checks of one device, and what they showed."""

    device: Device
    tool: Instrument
    session: Session
    records: list[dict[str, Any]] = field(default_factory=list)

    def check(self, name: str, body: Callable[[Suite], tuple[str, dict[str, Any]]]) -> None:
        """Run one check; print its line and keep its record."""
        start = time.perf_counter()
        figures: dict[str, Any] = {}
        try:
            line, figures = body(self)
            outcome = "passed"
        except CheckSkippedError as reason:
            outcome, line = "skipped", str(reason)
        except CheckFailedError as reason:
            outcome, line = "failed", str(reason)
        except (RooflineError, MemoryError, RuntimeError) as error:
            outcome, line = "failed", f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
        print(f"{outcome:8} {name:24} {line}  [{seconds:.1f} s]", flush=True)
        record = {"check": name, "outcome": outcome, "text": line, "elapsed_s": seconds, "figures": figures}
        self.records.append(record)


def require(condition: bool, text: str) -> None:
    """Fail the check with that text."""
    if not condition:
        raise CheckFailedError(text)


# -- the probe
# -----------------------------------------------------------------------------------------------------


def check_device(suite: Suite) -> tuple[str, dict[str, Any]]:
    """The device is known by name and memory, and by its data sheet where it is a common one."""
    device = suite.device
    require(bool(device.name) and (device.memory_bytes or 0) > 0, f"no name or no memory: {device}")
    sheet = device.spec.name if device.spec else "no data sheet"
    notes = f"; {len(device.notes)} notes: {'; '.join(device.notes)}" if device.notes else ""
    return f"{device.name}, {sheet}, driver {device.driver}{notes}", device.to_dict()


def check_probe(suite: Suite) -> tuple[str, dict[str, Any]]:
    """All four patterns are measured, within what the data sheet allows."""
    probe = suite.session.probe(suite.device)
    limit = suite.session.limit(suite.device)
    figures = probe.to_dict() | {"limit_bytes_per_s": limit.bytes_per_s, "limit_source": limit.source}
    rates = [probe.read_bytes_per_s, probe.copy_bytes_per_s, probe.write_bytes_per_s, probe.triad_bytes_per_s]
    line = "read {}, copy {}, write {}, triad {}".format(*map(format_bytes_per_s, rates))
    require(all(rate > 0 for rate in rates), line)
    if not suite.device.is_cpu:
        require(probe.is_trusted, f"the probe does not trust itself: {'; '.join(probe.notes)}")
        require(not limit.is_measured, f"no data sheet and no clock: {limit.source}")
        for name, rate, least in zip(("read", "copy", "write", "triad"), rates, (0.85, 0.7, 0.7, 0.7), strict=True):
            share = rate / limit.bytes_per_s
            require(least <= share <= 1.0, f"{name} is {format_fraction(share)} of {limit.source}")
    return f"{line}; knee {probe.cache_knee_bytes / 1e6:.0f} MB, {format_seconds(probe.elapsed_s)}", figures


def check_matmul(suite: Suite) -> tuple[str, dict[str, Any]]:
    """The measured bf16 peak is a believable part of the printed one."""
    dtype = "float32" if suite.device.is_cpu else "bfloat16"
    peak = suite.session.probe(suite.device).peak_flops_per_s(dtype)
    printed = suite.device.spec.dense_peak_flops_per_s.get(dtype) if suite.device.spec else None
    if printed:
        require(0.5 <= peak / printed <= 1.0, f"{dtype} is {format_fraction(peak / printed)} of the data sheet")
    return f"{dtype} {format_flops_per_s(peak)}", {"dtype": dtype, "flops_per_s": peak, "printed": printed}


def check_counter(suite: Suite) -> tuple[str, dict[str, Any]]:
    """The device's own count of its memory traffic holds on copies, and encloses what kernels of known size move."""
    backend = suite.session.backend_of(suite.device)
    ask = getattr(backend, "traffic_counter", None)
    counter = None if ask is None else ask(suite.device)
    if counter is None:
        raise CheckSkippedError("no counter: NVIDIA from Hopper on has one")
    copies = Copies(device=suite.device, backend=backend, probe=suite.session.probe(suite.device))
    factors = copies.factors(counter, (*COPIES_S, *COPIES_S)) or []
    figures: dict[str, Any] = {"source": counter.source, "factors": [factor.value for factor in factors]}
    words = ", ".join(f"x{factor.value:.3f}" for factor in factors) or "refused"
    require(suite.session.counter(suite.device) is not None, f"the calibration does not hold: {words}")
    work = Streamed(suite.device)
    shares = []
    for rows in (work.weight.shape[0], work.weight.shape[0] // 2):
        part, result = work.weight[:rows], work.result[:rows]
        size = float(part.numel() * part.element_size())
        kernel = suite.tool.kernel(
            lambda part=part, result=result: torch.mv(part, work.vector, out=result),
            bytes_read=size,
            label=f"counted-{rows}",
            max_time_s=MAX_TIME_S,
            device=suite.device.id,
        )
        counted = kernel.evidence.counted
        require(counted is not None, f"nothing was counted of {size / 1e9:.1f} GB per call; calibrated {words}")
        low, high = counted.least_bytes_per_pass / size, counted.most_bytes_per_pass / size
        figures[f"counted_{rows}"] = {"low": low, "high": high, "passes": counted.passes, "span_s": counted.span_s}
        shares.append(f"{low:.2f} to {high:.2f} of {size / 1e9:.1f} GB")
        require(low <= 1.0 <= high, f"{shares[-1]} counted; calibrated {words}")
        require(kernel.verdict.outcome == "passed", f"{kernel.verdict.outcome}: {kernel.findings}")
    return f"calibrated {words}; counted {', '.join(shares)}", figures


# -- links, and kernels that no trace looks into
# ---------------------------------------------------------------------


def discrete(suite: Suite) -> Device:
    """The device, where it has a memory of its own."""
    if suite.device.is_cpu or suite.device.is_unified_memory:
        raise CheckSkippedError("host and device share one memory")
    return suite.device


def sound(report: tuple[str, dict[str, Any], list[str]]) -> tuple[str, dict[str, Any]]:
    """A report without faults; else the check has failed."""
    line, figures, faults = report
    require(not faults, f"{line}: {'; '.join(faults)}")
    return line, figures


def check_links(suite: Suite) -> tuple[str, dict[str, Any]]:
    """To and from the host, pinned and pageable, one way and both."""
    device = discrete(suite)
    return sound(examine_links(device, suite.session.probe(device).links()))


def check_offload(suite: Suite) -> tuple[str, dict[str, Any]]:
    """Weights that a pass fetches from the host are judged against the link."""
    return sound(examine_offload(discrete(suite), suite.tool, MAX_TIME_S))


def check_opaque_kernel(suite: Suite) -> tuple[str, dict[str, Any]]:
    """A Triton kernel needs declared bytes, and is judged by them."""
    if suite.device.is_cpu:
        raise CheckSkippedError("Triton needs an accelerator")
    try:
        return sound(examine_opaque_kernel(suite.device, suite.tool, MAX_TIME_S))
    except ImportError as error:
        raise CheckSkippedError(f"no Triton: {error}") from error


# -- decode
# --------------------------------------------------------------------------------------------------------


def check_decode(suite: Suite, *, with_graph: bool) -> tuple[str, dict[str, Any]]:
    """A decode with a static cache is measured, and nothing about it is bogus."""
    if with_graph and suite.device.kind != "cuda":
        raise CheckSkippedError("CUDA graphs need CUDA")
    model = StaticDecode(suite.device)
    extra: dict[str, Any] = {"model": model.model}
    step: Callable[[], Any] = model.step
    if with_graph:
        # What a graph replays cannot be traced: the bytes are those of the eager step.
        extra = {"traffic": suite.tool.traffic(model.model, step=model.step, context=model.context)}
        model.reset()
        try:
            step = model.captured()
        except RuntimeError as error:
            raise CheckFailedError(f"the capture failed: {error}") from error
    result = suite.tool.decode(
        step,
        **extra,
        batch=1,
        context=model.context,
        reset=model.reset,
        passes_per_reset=model.room,
        max_time_s=MAX_TIME_S,
        label="decode-graph" if with_graph else "decode",
        device=suite.device.id,
    )
    require(result.fraction is not None and result.step_s is not None, f"not measured: {result.findings}")
    fraction, step_s = float(result.fraction or 0.0), float(result.step_s or 0.0)
    require(result.verdict.outcome != "bogus", f"bogus: {result.findings}")
    require(0.0 < fraction < 1.1, f"{format_fraction(fraction)} of the ceiling cannot be")
    if with_graph:
        require(fraction > 0.5, f"a captured decode reaches {format_fraction(fraction)} of the ceiling only")
    words = ", ".join(finding.check for finding in result.findings) or "no findings"
    line = f"{format_fraction(fraction)} of the ceiling, {format_seconds(step_s)} per step, {words}"
    return line, result.to_dict()


# -- audits
# --------------------------------------------------------------------------------------------------------


def audited(suite: Suite, passes_of: Callable[[Streamed], None], *, name: str) -> tuple[BogusMeasurement | None, Any]:
    """Time `passes_of` in the way that a test would, and claim it; the accusation, if there was one."""
    work = Streamed(suite.device)
    passes_of(work)  # warm: the first product chooses its kernel
    work.drain()
    audit = suite.tool.audit(traffic=work.bytes_per_pass, batch=1, label=name, device=suite.device.id)
    try:
        with audit:
            start = time.perf_counter()
            passes_of(work)
            seconds = time.perf_counter() - start
            audit.claim(tokens=AUDIT_PASSES, seconds=seconds)
    except BogusMeasurement as error:
        return error, None
    return None, audit.result


def check_honest_audit(suite: Suite) -> tuple[str, dict[str, Any]]:
    """A loop that waits for all of its work is believed."""

    def passes(work: Streamed) -> None:
        for _ in range(AUDIT_PASSES):
            work.step()
        work.drain()

    accused, result = audited(suite, passes, name="audit-honest")
    require(accused is None, f"an honest audit was accused: {accused}")
    fraction = None if result.fraction is None else float(result.fraction)
    return f"{result.verdict.outcome}, {format_fraction(fraction or 0.0)} of the ceiling", result.to_dict()


def must_be_refused(accused: BogusMeasurement | None, result: Any) -> tuple[str, dict[str, Any]]:
    """The audit ended bogus, for the reason that work was still running."""
    require(accused is not None, f"an audit that did not wait was believed: {result and result.verdict.outcome}")
    findings = accused.verdict.findings if accused and accused.verdict else ()
    names = [finding.check for finding in findings if finding.severity == "bogus"]
    require("not-drained" in names, f"refused for another reason: {names}: {accused}")
    return str(accused).splitlines()[0], {"findings": [finding.to_dict() for finding in findings]}


def check_undrained_audit(suite: Suite) -> tuple[str, dict[str, Any]]:
    """A loop that stops its clock without waiting is refused."""
    if suite.device.is_cpu:
        raise CheckSkippedError("torch on the CPU has nothing to wait for")

    def passes(work: Streamed) -> None:
        for _ in range(AUDIT_PASSES):
            work.step()

    return must_be_refused(*audited(suite, passes, name="audit-undrained"))


def check_side_stream_audit(suite: Suite) -> tuple[str, dict[str, Any]]:
    """Work on a side stream while only the current stream is waited for is refused."""
    if suite.device.kind not in ("cuda", "xpu"):
        raise CheckSkippedError(f"{suite.device.kind} has no side streams")
    module = torch.get_device_module(suite.device.kind)
    side = module.Stream(suite.device.id)

    def passes(work: Streamed) -> None:
        with module.stream(side):
            for _ in range(AUDIT_PASSES):
                work.step()
        module.current_stream(suite.device.index).synchronize()

    return must_be_refused(*audited(suite, passes, name="audit-side-stream"))


def check_wrong_device_audit(suite: Suite) -> tuple[str, dict[str, Any]]:
    """Work on one device while another one is waited for is refused."""
    if suite.device.is_cpu:
        raise CheckSkippedError("torch on the CPU has nothing to wait for")
    if torch.accelerator.device_count() < 2:
        raise CheckSkippedError(f"there is one {suite.device.kind} device: no wrong one to wait for")
    other = 1 if suite.device.index == 0 else 0

    def passes(work: Streamed) -> None:
        for _ in range(AUDIT_PASSES):
            work.step()
        torch.accelerator.synchronize(other)

    return must_be_refused(*audited(suite, passes, name="audit-wrong-device"))


CHECKS: tuple[tuple[str, Callable[[Suite], tuple[str, dict[str, Any]]]], ...] = (
    ("device", check_device),
    ("probe", check_probe),
    ("matmul", check_matmul),
    ("counter", check_counter),
    ("links", check_links),
    ("offloaded", check_offload),
    ("opaque-kernel", check_opaque_kernel),
    ("decode", lambda suite: check_decode(suite, with_graph=False)),
    ("decode-cuda-graph", lambda suite: check_decode(suite, with_graph=True)),
    ("audit-honest", check_honest_audit),
    ("audit-undrained", check_undrained_audit),
    ("audit-side-stream", check_side_stream_audit),
    ("audit-wrong-device", check_wrong_device_audit),
)


def run(wanted: str | None) -> dict[str, Any]:
    """All checks on the wanted device, by default the first accelerator; the record."""
    devices = TorchBackend().devices()
    found = [
        device for device in devices if wanted in (device.id, device.kind) or (wanted is None and not device.is_cpu)
    ]
    if not found:
        here = ", ".join(f"{device.id} ({device.name})" for device in devices)
        return {"skipped": f"no {wanted or 'accelerator'} for torch {torch.__version__}; here: {here}"}
    session = Session()
    suite = Suite(device=session.find_device(found[0].id), tool=Instrument(session), session=session)
    start = time.perf_counter()
    for name, body in CHECKS:
        suite.check(name, body)
    return {
        "schema": 1,
        "device": suite.device.to_dict(),
        "driver": suite.device.driver,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "elapsed_s": time.perf_counter() - start,
        "checks": suite.records,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write the record; 1 when a check failed."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--device", help="cuda:0, xpu, cpu ...; by default the first accelerator")
    parser.add_argument("--json", metavar="OUT", help="write the record to this file")
    options = parser.parse_args(arguments)
    record = run(options.device)
    if "skipped" in record:
        print(f"skipped: {record['skipped']}")
    else:
        outcomes = [check["outcome"] for check in record["checks"]]
        counts = ", ".join(f"{outcomes.count(word)} {word}" for word in ("passed", "failed", "skipped"))
        print(f"{counts} in {record['elapsed_s']:.0f} s on {record['device']['name']}, torch {record['torch']}")
    if options.json:
        Path(options.json).write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return int(any(check["outcome"] == "failed" for check in record.get("checks", ())))


if __name__ == "__main__":
    sys.exit(main())
