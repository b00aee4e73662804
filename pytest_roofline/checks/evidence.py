"""What the court is shown. Plain figures, gathered by the workshop; nothing here measures.

One `Evidence` holds everything about one result. Parts that do not apply are None or empty, and the checks that
need them stay silent: absence of evidence accuses nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_roofline.checks.attempts import Work
from pytest_roofline.checks.claimed import (
    Claim,
    ClockDrift,
    CompiledInWindow,
    RankWindow,
    Window,
)
from pytest_roofline.checks.confronted import Alternation
from pytest_roofline.checks.counted import Counted
from pytest_roofline.checks.exchanged import Exchanged
from pytest_roofline.checks.generated import Generated
from pytest_roofline.checks.sized import Sized
from pytest_roofline.conditions import Stretch
from pytest_roofline.residency import Survey
from pytest_roofline.roofline import Ceiling, Interval
from pytest_roofline.samples import between
from pytest_roofline.traffic import Traffic

DRIVER_SLACK = 1.02
SHEET_SLACK = 1.05
MEASURED_SLACK = 1.25
"""By how much a result must exceed a limit to be called impossible, by what the limit rests on."""

Severity = Literal["bogus", "inconclusive", "note"]
Kind = Literal["decode", "prefill", "kernel", "audit", "generate", "stream"]

CHECK_NAMES = (
    "not-drained",
    "output-not-forced",
    "claim-exceeds-closed-time",
    "clock-disagrees",
    "does-not-scale",
    "faster-than-limit",
    "bytes-disagree",
    "cache-resident",
    "untouched-memory",
    "predictable-data",
    "stale-output",
    "work-missing",
    "tokens-disagree",
    "ceiling-unsure",
    "device-shared",
    "throttled",
    "drifted",
    "too-few-samples",
    "compiled-in-window",
    "rank-window",
)
"""Every name that a finding may carry, and that `allow=` may hold. Some are reserved for checks yet to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that the court noticed: which check, how grave, in words, in figures, and what to do."""

    check: str
    severity: Severity
    message: str
    figures: dict[str, Any] = field(default_factory=dict)
    remedy: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only."""
        return {
            "check": self.check,
            "severity": self.severity,
            "message": self.message,
            "figures": dict(self.figures),
            "remedy": self.remedy,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The largest credible bandwidth of a device, and how much a result must exceed it to be called impossible.

    `is_measured` says that no sheet exists: the figure is the best of all probes, which an accusation may not rest
    on alone (`confrontation` in the evidence has to confirm it).
    """

    bytes_per_s: float
    slack: float
    source: str
    is_measured: bool = False

    @property
    def with_slack_bytes_per_s(self) -> float:
        """What a result has to exceed."""
        return self.bytes_per_s * self.slack


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A block of N and one of 2N passes, between two quick probes.

    `step_s` is the slope, ``(t_2N - t_N) / N``; `fixed_s` what remains per block. `closed_step_s` is the longer
    block's whole closed time per pass: contention can only lengthen it, so it is what an accusation rests on.
    """

    passes: int
    step_s: float
    fixed_s: float
    closed_step_s: float
    ruler_before_bytes_per_s: float
    ruler_after_bytes_per_s: float
    fraction: float
    """Of the ceiling at `ruler_bytes_per_s`."""
    context: float | None = None
    compiled: CompiledInWindow | None = None
    """What was compiled while its blocks ran."""
    conditions: Stretch | None = None
    """How the device was meanwhile. A throttled sample is kept, and says so here."""

    @property
    def ruler_bytes_per_s(self) -> float:
        """The two bracketing probes together: their harmonic mean, for it is times that add up, not rates."""
        return between(self.ruler_before_bytes_per_s, self.ruler_after_bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """What a device admits of its clocks around a measurement: the lower of before and after, None is not known.

    Shares are of the highest clock of that kind; `held_share` is the part of the time that a processor's quota kept the
    process waiting. `reasons` are those for which the device held its clocks down itself;
    idleness and clocks that somebody set are none of them.
    """

    compute_share: float | None = None
    memory_share: float | None = None
    reasons: tuple[str, ...] = ()
    held_share: float | None = None

    @classmethod
    def of(cls, stretch: Stretch | None) -> Clocks | None:
        """What a stretch of time tells; None where the device admits nothing."""
        if stretch is None or not stretch.is_throttled:
            return None
        return cls(
            compute_share=stretch.compute_share,
            memory_share=stretch.memory_share,
            reasons=stretch.reasons,
            held_share=stretch.held_share,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Bandwidth of one device by three witnesses that know nothing of each other; None where one has no figure."""

    sheet_bytes_per_s: float | None = None
    """The data sheet of its name."""
    sheet_name: str = ""
    driver_bytes_per_s: float | None = None
    """Bus width times memory clock."""
    probe_bytes_per_s: float | None = None
    """The best of all probes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that is known about one result."""

    kind: Kind
    label: str = "step"
    ceiling: Ceiling | None = None
    traffic: Traffic | None = None
    """What the fraction is taken from."""
    declared: Traffic | None = None
    traced: Traffic | None = None
    limit: Limit | None = None
    knee_bytes: float = 0.0
    samples: tuple[Sample, ...] = ()
    confrontation: tuple[Alternation, ...] = ()
    sized: Sized | None = None
    """What a larger step took, where the test gave one."""
    fraction: Interval | None = None
    """Interval of the fraction from noise alone, before what caches may have done."""
    at_least: float | None = None
    at_most: float | None = None
    is_cache_hot: bool = False
    """The caller asked to be judged against the cache."""
    elsewhere: tuple[tuple[str, float], ...] = ()  # bytes of a pass on other devices, no rate of whose links is known
    timed_out: bool = False
    window: Window | None = None
    claim: Claim | None = None
    drifts: tuple[ClockDrift, ...] = ()
    reads: int = 0
    clocks_read: frozenset[str] = frozenset()
    """Names of the clocks behind those reads."""
    events_read: int = 0
    """Times between device events that the test read."""
    compiled: CompiledInWindow | None = None
    """What was compiled inside the window of an audit."""
    first_pass_s: float | None = None
    later_pass_s: float | None = None
    """Host time of the first watched pass of an audit's window, and the median of the later ones."""
    is_window_unknown: bool = False
    """Several clock reads, and none of them fits the claim."""
    likely: Window | None = None
    """The only stretch that was timed where the window is unknown: nothing ties the claim to it."""
    whole_audit_s: float | None = None
    tokens_claimed: float | None = None
    ids_seen: int | None = None
    batch: int = 1
    tokens_per_pass: float = 1.0
    neighbours_share: float | None = None
    """Part of this process's cores, or of the device's time, that others used while measuring, 0 to 1; None where it is
    not known."""
    steal_share: float | None = None
    """The part of it that the hypervisor gave to other guests."""
    neighbours: tuple[str, ...] = ()
    """Other processes that were seen on this very device, as text."""
    cores: int | None = None
    """Cores that this process may use; None on other devices."""
    probe_doubts: tuple[str, ...] = ()
    """Why the session's probe cannot be trusted; empty when it can."""
    probe_excess: float = 1.0
    """How many times the probed rates may exceed what memory gives: the fraction may be so many times better."""
    peak_limit_flops_per_s: float | None = None
    is_peak_limit_measured: bool = True
    survey: Survey | None = None
    """What lies in the memory that the traced pass reads."""
    clocks: Clocks | None = None
    identity: Identity | None = None
    ranks: tuple[RankWindow, ...] = ()
    """Windows of several ranks that the claim speaks of together; empty for one process."""
    do_ranks_share_tokens: bool = False
    """Whether every rank worked on the same tokens (tensor parallel), which then count once."""
    are_ranks_borne_out: bool = True
    """Whether the claiming process timed one of their windows, or its clocks went through all of them meanwhile."""
    work: Work | None = None
    """What was tried after the measurement; None where nothing was."""
    counted: Counted | None = None
    """What the device's own counter saw; None where there is no counter that can be relied on."""
    generated: Generated | None = None
    exchanged: Exchanged | None = None
    """What a server's streamed answers showed."""
    suspended_s: float = 0.0
    """Part of an audit's window in which this process did not run at all, and what ran after the window's end."""
    suspended_late_s: float = 0.0
    notes: tuple[str, ...] = ()
    allow: frozenset[str] = frozenset()

    @property
    def ranks_apart(self) -> int:
        """Ranks that made tokens of their own: each of them ran the passes of its share alone."""
        return 1 if self.do_ranks_share_tokens else max(1, len(self.ranks))

    @property
    def least_share(self) -> float:
        """Part of all tokens that the rank with the fewest made: which of them this process is, nobody says."""
        if self.do_ranks_share_tokens or not self.ranks:
            return 1.0
        return min(rank.tokens for rank in self.ranks) / sum(rank.tokens for rank in self.ranks)
