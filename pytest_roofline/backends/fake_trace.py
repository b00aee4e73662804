"""What one step on a fake device moved, from what its launches declare."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_roofline.backends.fake_array import FakeArray
from pytest_roofline.backends.fake_memory import FakeBuffer
from pytest_roofline.backends.fake_queue import Launch
from pytest_roofline.residency import Survey
from pytest_roofline.traffic import TRACED, Traffic

READ_AGAIN = "the same bytes read again in one step"
WRITTEN_AGAIN = "the same bytes written again in one step"
INTERMEDIATES = "intermediates written and read"


@dataclass(slots=True, kw_only=True)
class Recording:
    """What happened while a trace looked on."""

    first_serial: int
    launches: list[Launch] = field(default_factory=list)
    replays: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What is known of the model beside its launches; None is not known."""

    batch: int | None = None
    context: int | None = None
    kv_bytes_per_token: float | None = None


class _Ledger:
    """Distinct and repeated bytes of the reads (or the writes) of a step."""

    def __init__(self) -> None:
        self.distinct: dict[FakeBuffer, float] = {}
        self.anonymous_bytes = 0.0
        self.repeated_bytes = 0.0

    def add(self, buffer: FakeBuffer | None, length_bytes: float) -> None:
        if buffer is None:
            self.anonymous_bytes += length_bytes
            return
        before = self.distinct.get(buffer, 0.0)
        reach = max(before, min(length_bytes, buffer.size_bytes))
        self.distinct[buffer] = reach
        self.repeated_bytes += length_bytes - (reach - before)

    def of_role(self, role: str) -> float:
        return sum(length for buffer, length in self.distinct.items() if buffer.role == role)

    @property
    def total_bytes(self) -> float:
        return self.anonymous_bytes + sum(self.distinct.values())


_PATTERNS = {"constant": "one value", "predictable": "a regular pattern"}


class FakeSurveyor:
    """The buffers that a step read, as long as they live, and how much of each."""

    def __init__(self, recording: Recording, *, compresses: bool) -> None:
        self._compresses = compresses
        read = _Ledger()
        for launch in recording.launches:
            for buffer, length_bytes in launch.reads:
                if buffer is not None and buffer.role != "scratch":
                    read.add(buffer, length_bytes)
        self._parts = [(weakref.ref(buffer), length_bytes) for buffer, length_bytes in read.distinct.items()]

    def survey(self) -> Survey | None:
        """What the buffers hold by now; a real device's are sampled, these simply say so."""
        sizes: defaultdict[str, float] = defaultdict(float)
        for reference, length_bytes in self._parts:
            buffer = reference()
            if buffer is not None and not buffer.is_freed:
                sizes[buffer.data] += length_bytes
        if not sizes:
            return None
        largest = max(_PATTERNS, key=lambda data: sizes[data])
        return Survey(
            untouched_bytes=sizes["untouched"],
            predictable_bytes=sizes["constant"] + sizes["predictable"],
            sampled=len(self._parts),
            pattern=_PATTERNS[largest],
            may_compress=self._compresses,
        )


def traffic_of(recording: Recording, outputs: Sequence[FakeArray], facts: ModelFacts) -> Traffic | None:
    """The traffic of a step; None when it moved no bytes and did no arithmetic (`seconds=` tells of neither).

    Reads of a buffer count once however often they happen, up to the longest; what is read again,
    intermediates and launches that call themselves `extra` are extra bytes. Closed unless a launch is opaque,
    a graph was replayed, nothing was returned, or something returned was written by no launch that was seen.
    """
    reads, writes = _Ledger(), _Ledger()
    extra: defaultdict[str, float] = defaultdict(float)
    flops_by_dtype: defaultdict[str | None, float] = defaultdict(float)
    for launch in recording.launches:
        flops_by_dtype[launch.dtype] += launch.flops
        for ledger, accesses in ((reads, launch.reads), (writes, launch.writes)):
            for buffer, length_bytes in accesses:
                if launch.extra is not None:
                    extra[launch.extra] += length_bytes
                elif buffer is not None and buffer.role == "scratch":
                    extra[INTERMEDIATES] += length_bytes
                else:
                    ledger.add(buffer, length_bytes)
    if reads.repeated_bytes:
        extra[READ_AGAIN] += reads.repeated_bytes
    if writes.repeated_bytes:
        extra[WRITTEN_AGAIN] += writes.repeated_bytes
    total_bytes = reads.total_bytes + writes.total_bytes
    flops = sum(flops_by_dtype.values())
    if not (total_bytes or flops):
        return None
    touched = {
        buffer: max(reads.distinct.get(buffer, 0.0), writes.distinct.get(buffer, 0.0))
        for buffer in (*reads.distinct, *writes.distinct)
    }
    reasons = _why_open(recording, outputs)
    return Traffic(
        bytes_per_pass=total_bytes,
        least_bytes_per_pass=total_bytes,
        weight_bytes_per_pass=reads.of_role("weights") or None,
        kv_bytes_per_pass=reads.of_role("kv"),
        kv_bytes_per_token=facts.kv_bytes_per_token,
        written_bytes_per_pass=writes.total_bytes,
        extra_bytes_per_pass=sum(extra.values()),
        extra=tuple(sorted(((name, value) for name, value in extra.items() if value), key=lambda part: -part[1])),
        flops_per_pass=flops or None,
        working_set_bytes=sum(touched.values()) + reads.anonymous_bytes + writes.anonymous_bytes,
        dtype=max(flops_by_dtype, key=lambda dtype: flops_by_dtype[dtype]) if flops else None,
        batch=facts.batch,
        context=facts.context,
        source=TRACED,
        is_closed=not reasons,
        notes=tuple(f"open trace: {reason}" for reason in reasons),
    )


def bytes_by_device(recording: Recording) -> tuple[tuple[str, float], ...]:
    """What the launches of each device read, the one with most bytes first."""
    ledgers: defaultdict[int, _Ledger] = defaultdict(_Ledger)
    for launch in recording.launches:
        for buffer, length_bytes in launch.reads:
            ledgers[launch.device_index].add(buffer, length_bytes)
    sizes = {f"fake:{index}": ledger.total_bytes for index, ledger in ledgers.items()}
    return tuple(sorted(sizes.items(), key=lambda item: -item[1]))


def _why_open(recording: Recording, outputs: Sequence[FakeArray]) -> tuple[str, ...]:
    reasons = []
    opaque = sum(launch.is_opaque for launch in recording.launches)
    if opaque:
        reasons.append(f"{opaque} opaque launches")
    if recording.replays:
        reasons.append(f"{recording.replays} graph replays")
    if not outputs:
        reasons.append("the step returned no array")
    seen = {id(launch) for launch in recording.launches}
    unexplained = sum(
        array.serial >= recording.first_serial and (array.launch is None or id(array.launch) not in seen)
        for array in outputs
    )
    if unexplained:
        reasons.append(f"{unexplained} outputs written by no launch that was seen")
    return tuple(reasons)
