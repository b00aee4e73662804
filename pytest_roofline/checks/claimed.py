"""What an audit sees of a measurement that the test makes itself: clock reads, events, the window, the claim."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRead:
    """The test read a public clock. `private_low_s` and `private_high_s` enclose the moment on the private clock."""

    clock: str
    value_s: float | None
    """What the test was given, in seconds; None when only the moment of the call was seen."""
    private_low_s: float
    private_high_s: float
    where: str
    """``file.py:12``, the line that read the clock."""
    finished_s: float | None = None
    """When the work submitted before this read was done, on the private clock; None when nothing was pending."""
    cpu_s: float | None = None
    """What the processor had spent on this process by then; None where the clock read counts no such time."""

    @property
    def leftover_s(self) -> float:
        """How long the device still worked for what had been submitted before this read."""
        return 0.0 if self.finished_s is None else max(0.0, self.finished_s - self.private_high_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInterval:
    """The test read the time between two device events. Moments are None where no marker tells them."""

    name: str
    """Class of the events."""
    value_s: float
    """What the test was given, in seconds."""
    where: str
    """``file.py:12``, the line that recorded the second event (else the one that read the time)."""
    began_s: float | None = None
    """The latest that the device can have reached the first event, on the private clock."""
    ended_s: float | None = None
    """When everything that was submitted before the second event was done, on every queue with a marker."""
    submitted_low_s: float | None = None
    submitted_high_s: float | None = None
    """When the host had recorded the first event, and when it was about to record the second."""
    latest_s: float | None = None
    """The longest that the stretch can have been."""

    @property
    def closed_s(self) -> float | None:
        """The shortest that the work between the two records took, on every queue; None where it is not known."""
        return None if self.began_s is None or self.ended_s is None else max(0.0, self.ended_s - self.began_s)

    @property
    def host_s(self) -> float | None:
        """Host time between the two records."""
        if self.submitted_low_s is None or self.submitted_high_s is None:
            return None
        return self.submitted_high_s - self.submitted_low_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The stretch of time that a claim speaks of, closed by the tool: `closed_s` includes the leftover."""

    window_s: float
    leftover_s: float
    idle_drain_s: float
    passes: float
    """Passes of the window: watched, else from the claim."""
    are_passes_watched: bool = False
    returned_s: float | None = None
    """The same window as the test's own clock gave it; None when it was not read through a known clock."""
    private_low_s: float | None = None
    private_high_s: float | None = None
    """The private clock's bounds on the window: a preempted read is no disagreement."""
    stop_where: str | None = None
    clock: str | None = None
    source: str = "watched clock"
    unforced_s: float = 0.0
    """Part of the leftover that was spent on evaluating outputs that nobody had evaluated before the stop."""
    beside_s: float = 0.0
    """Part of the leftover that ran beside device events, by the markers: `window_s` is what the events gave."""
    is_by_events: bool = False
    """Timed by device events: `returned_s` is what they gave."""
    host_s: float | None = None
    """Host time between the two records of such a window."""
    is_by_receipt: bool = False
    """Of an engine in another process: the leftover is until its ids had been received."""
    stops: int = 1
    """How often the clock was stopped: samples and laps have a leftover each, and each is seen a little late."""
    marker_late_s: float = 0.0
    """By how much an end may be seen too late: what a marker behind nothing took at worst."""
    cpu_s: float | None = None
    """What the processor spent on all threads of this process meanwhile; None where the test's clock is no such one."""
    held_up_s: float | None = None
    """Part of a stated window in which its thread was ready to run, and was not: who timed it inside may have missed
    that. None of windows that the test timed itself."""
    passes_behind: int = 0
    """Watched passes that began behind the window, where none or too few began in it."""
    longest_call_s: float | None = None
    """The longest from call to call of a watched step, the first quarter apart: passes waited for took no more."""

    @property
    def closed_s(self) -> float:
        """From the start to the moment when the device had finished."""
        return self.window_s + self.leftover_s

    @property
    def pass_s(self) -> float:
        """Closed time of one pass."""
        return self.closed_s / self.passes if self.passes else self.closed_s


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledInWindow:
    """Compilations and graph captures inside one measured stretch."""

    what: tuple[str, ...]
    """What was compiled, each once."""
    count: int
    seconds: float
    """Host time that they took of the stretch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockDrift:
    """How far a public clock advanced between two moments of an audit, against the private clock."""

    clock: str
    public_s: float
    private_low_s: float
    private_high_s: float
    resolution_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the test says of its own measurement."""

    tokens: float
    seconds: float
    is_tokens_seen: bool
    """Whether the tokens were counted from ids, rather than declared."""
    samples_s: tuple[float, ...] = ()

    @property
    def tokens_per_s(self) -> float:
        """The claimed rate; infinite where no time is claimed, for a clock may return zero or run backwards."""
        return self.tokens / self.seconds if self.seconds > 0 else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankWindow:
    """One rank's stretch of time, on a clock that all ranks share (seconds after a common barrier), and its tokens."""

    start_s: float
    stop_s: float
    tokens: float
