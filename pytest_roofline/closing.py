"""From what an audit saw to its ledger: tokens, seconds, window and passes of one claim.

Pure: nothing is measured here. Which stretch the claim speaks of is found by `closed_window`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_roofline.checks.claimed import Claim, ClockDrift
from pytest_roofline.checks.ranks import combine
from pytest_roofline.closed_window import SAME, Seen
from pytest_roofline.compile_logs import compiled_within
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.ledger import Ledger
from pytest_roofline.protocol import Compilation
from pytest_roofline.samples import median

STAMPED_S = 1e-3
"""By so much a stamp of another process may lie outside: a time server moves ``time.time`` a little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """Everything that closing one claim needs."""

    seen: Seen
    compilations: Sequence[Compilation] = ()
    is_lazy: bool = False
    drifts: tuple[ClockDrift, ...]
    public_stretches: Sequence[tuple[float, float]] = ()
    """The audit up to its claim on each public clock."""
    whole_audit_s: float

    def ledger(self) -> Ledger:
        """The ledger of the claim. Raises RooflineUsageError when it says neither how many nor how long."""
        notes: list[str] = []
        seen, claimed = self.seen, self.seen.claimed
        tokens = self._tokens()
        found = seen.find(tokens, notes)
        if claimed.ids is None:
            notes.append(f"{tokens:g} tokens are declared, not seen: pass ids= to have them counted")
        first_and_later = seen.passes.first_and_later_s(found.bounds)
        return Ledger(
            claim=Claim(
                tokens=tokens,
                seconds=found.claimed_s,
                is_tokens_seen=claimed.ids is not None,
                samples_s=claimed.samples_s,
            ),
            tokens_claimed=tokens,
            ids_seen=self._ids_seen(tokens),
            window=found.window,
            bounds=tuple(found.bounds),
            entry_s=claimed.entry_s,
            is_window_unknown=found.is_unknown,
            likely=found.likely,
            reads=len(seen.reads),
            events_read=len(seen.events),
            compiled=compiled_within(self.compilations, found.bounds),
            first_pass_s=first_and_later[0] if first_and_later else None,
            later_pass_s=first_and_later[1] if first_and_later else None,
            clocks_read=frozenset(read.clock for read in seen.reads),
            drifts=self.drifts,
            whole_audit_s=self.whole_audit_s,
            passes=found.window.passes if found.window is not None else seen.passes_of(tokens),
            batch=seen.batch,
            tokens_per_pass=seen.tokens_per_pass,
            outputs=claimed.outputs,
            ranks=claimed.ranks,
            do_ranks_share_tokens=claimed.do_ranks_share_tokens,
            are_ranks_borne_out=found.window is not None or self._are_ranks_inside(),
            notes=tuple(notes),
            not_checked=tuple(self._not_checked()),
        )

    def _are_ranks_inside(self) -> bool:
        """Whether all stamps of the ranks lie in this audit by one clock, or as seconds after a barrier in it."""
        together = combine(self.seen.claimed.ranks)
        stretches = (*self.public_stretches, (0.0, self.whole_audit_s))
        return together is None or any(
            low - STAMPED_S <= together.start_s and together.stop_s <= high + STAMPED_S for low, high in stretches
        )

    def _not_checked(self) -> Iterator[str]:
        if self.seen.is_watching_passes:
            return
        yield "passes were not watched: wrap the step with audit.watch(step)"
        if self.is_lazy and self.seen.claimed.outputs is None:
            yield (
                "a lazy framework never runs what nobody evaluates, and results that were dropped unread cannot be "
                "seen: pass outputs=, or wrap the step with audit.watch(step)"
            )

    def _ids_seen(self, tokens: float) -> int | None:
        """Ids of all samples together: who claims the rate of one sample may give the ids of one, too."""
        ids, count = self.seen.claimed.ids, len(self.seen.claimed.samples_s)
        return ids * count if ids and count and abs(ids * count - tokens) <= SAME * tokens else ids

    def _is_of_one_sample(self) -> bool:
        """Whether the seconds claimed are those of one sample, so that the tokens are, too: what the claim divides."""
        seconds, samples = self.seen.claimed.seconds, self.seen.claimed.samples_s
        if seconds is None or len(samples) < 2 or abs(seconds - sum(samples)) <= SAME * sum(samples):
            return False
        typical = (median(samples), sum(samples) / len(samples))
        return any(abs(seconds - one) <= SAME * one for one in typical)

    def _tokens(self) -> float:
        claimed = self.seen.claimed
        if claimed.ranks and claimed.tokens is None:
            together = combine(claimed.ranks, do_share_tokens=claimed.do_ranks_share_tokens)
            if together is not None:
                return together.tokens
        if claimed.samples_s and claimed.tokens_per_s is not None:
            per_sample = claimed.tokens_per_s * median(claimed.samples_s)
            if claimed.tokens is None or abs(claimed.tokens - per_sample) <= SAME * per_sample:
                return per_sample * len(claimed.samples_s)  # the tokens of one sample were meant
            by_mean = claimed.tokens_per_s * sum(claimed.samples_s) / len(claimed.samples_s)
            if abs(claimed.tokens - by_mean) <= SAME * by_mean:
                return claimed.tokens * len(claimed.samples_s)
        if claimed.tokens is not None:
            return claimed.tokens * (len(claimed.samples_s) if self._is_of_one_sample() else 1)
        if claimed.tokens_per_s is not None and claimed.seconds is not None:
            return claimed.tokens_per_s * claimed.seconds
        if claimed.ids:
            return float(claimed.ids)
        if self.seen.passes.starts_s:
            return self.seen.passes_meant() * self.seen.batch * self.seen.tokens_per_pass
        raise RooflineUsageError(
            "audit.claim was given no tokens: pass tokens= and seconds=, or ids=, or wrap the step in audit.watch"
        )
