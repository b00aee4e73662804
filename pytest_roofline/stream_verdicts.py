"""From the answers of a server to two results: of each user, and of all together. Pure.

Every window was closed by the client, by the last event that it received. A request is too fast only by its closed
time, from sending to the last output, with a single sequence's least bytes per pass: whatever the server batches,
caches of a prompt, or holds back on the way, it needs so many passes for so many tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_roofline.bench import budgets_for, fraction_of
from pytest_roofline.checks import CHECKS, Check
from pytest_roofline.checks.ceiling import is_beyond
from pytest_roofline.checks.claimed import Claim, Window
from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.checks.exchanged import Exchanged, Replay
from pytest_roofline.device import Device
from pytest_roofline.result import Result
from pytest_roofline.roofline import Interval
from pytest_roofline.settings import Budget, Settings
from pytest_roofline.stated_roof import StatedRoof
from pytest_roofline.stream_figures import StreamFigures
from pytest_roofline.streaming import ONE_EACH, TEMPLATE_TOKENS, Exchange
from pytest_roofline.units import format_fraction
from pytest_roofline.verdict import judge

LEAST_TOKENS = 8
"""A shorter answer accuses nobody: its time is mostly the way there and back."""
MOST_DRAFTED = 65.0
"""Tokens that a pass yields at most where nobody said how many: llama-server's n-gram drafts are of up to 64."""
PACED_SHARE = 0.3
"""A server that drafts answers pass by pass, so much of its time lies in pauses; a single stall is no such pace."""
HELD_SHARE = 0.2
"""Output that came within so little of the time from sending to the end was held back, and no pace is left in it."""
SHORTENED = 0.5
"""Of a pass: a pause looks as short as this where a busy client reads the output before it a little late."""
SAME_TEXT = 32
"""Characters: shorter answers are alike by chance."""
NOT_JUDGED = "figures only, not judged: state model= (or traffic=) and device= (or bandwidth=) of the server"
UNCOUNTED = (
    "the server does not say how many tokens it sent (no usage, no ids, no log probabilities): there are times, and no "
    "rate and no fraction"
)
NOT_CHECKED = (
    "the passes of a remote server cannot be seen: tokens are by its own usage and ids, a pass by what was stated",
    "model, weights and device behind the endpoint are stated, not seen",
    "who else uses the server, its clocks and its throttling",
    "whether the answers are those of the model",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the requests showed, before anything is judged."""

    figures: StreamFigures
    asked_tokens: int
    are_prompts_fresh: bool = True
    replay: Replay | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """What a test asks for, in place of its marker's and options' `at_least`; None: those."""

    per_user: Budget | None = None
    aggregate: Budget | None = None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """From what was observed to the two results. Pure."""

    observed: Observed
    roof: StatedRoof | None = field(kw_only=True)
    device: Device = field(kw_only=True)
    settings: Settings = field(kw_only=True)
    label: str = field(kw_only=True)
    bars: Bars = field(kw_only=True, default_factory=Bars)
    is_tokens_per_pass_stated: bool = field(kw_only=True)
    checks: Sequence[Check] = field(kw_only=True, default=CHECKS)

    def result(self) -> Result:
        """Per user, with that in aggregate in it."""
        figures = replace(self.observed.figures, least_token_s=self._least_token_s)
        paced = replace(self, observed=replace(self.observed, figures=figures))
        return replace(paced._judged(paced._per_user()), aggregate=paced._judged(paced._aggregate()))

    # -- evidence -----------------------------------------------------------------------------------------------

    @property
    def _least_token_s(self) -> float:
        """What a token takes at least on the stated device, caches and slack allowed for; 0 where none is stated."""
        if self.roof is None:
            return 0.0
        return self._least_pass_s(self.roof) / self.roof.slack / self.roof.tokens_per_pass

    @staticmethod
    def _least_pass_s(roof: StatedRoof) -> float:
        least_bytes = roof.traffic_at(1, 0).least_bytes_per_pass - roof.knee_bytes
        return max(0.0, least_bytes) / roof.bandwidth_bytes_per_s

    def _per_user(self) -> Evidence:
        """The limit is held against the fastest request; the fraction is that of the median one."""
        figures, roof = self.observed.figures, self.roof
        fastest = figures.fastest(LEAST_TOKENS)
        evidence = self._evidence(False, figures.decoding_at_once)
        if fastest is not None and (tokens := fastest.tokens) is not None:
            possible = fastest.possible_tokens if fastest.ids is not None else None
            evidence = replace(evidence, **self._closed(tokens, fastest.closed_s, 1.0, possible))
        ceiling = evidence.ceiling
        if roof is None or ceiling is None:
            return evidence
        tpots = figures.tpot_interval_s
        if tpots is not None:
            least, most = self._floors(figures.decoding_at_once)
            low, high = least / roof.tokens_per_pass / tpots.high, most / roof.tokens_per_pass / tpots.low
            evidence = replace(evidence, fraction=Interval(low=low, high=high))
        # Only one sequence's own least bytes and FLOPs convict, at no context: how many others its passes served is not
        # known, and what the server says of its prompt is its own word.
        alone = roof.traffic_at(1, 0)
        flops = alone.flops_per_pass if alone.least_flops_per_pass is None else alone.least_flops_per_pass
        evidence = replace(
            evidence,
            declared=alone,
            traffic=replace(ceiling.traffic, least_flops_per_pass=flops or 0.0),
            limit=roof.limit if fastest is not None else None,
        )
        return self._with_drafts(evidence, fastest)

    def _with_drafts(self, evidence: Evidence, fastest: Exchange | None) -> Evidence:
        """Where nobody said how many tokens a pass yields, a pace of passes may explain what is too fast for one.

        So may the server's word that it drafts, and output that was held back on the way: no pace is left in that.
        """
        window, roof = evidence.window, self.roof
        if self.is_tokens_per_pass_stated or fastest is None or window is None or roof is None:
            return evidence
        if evidence.declared is None or not is_beyond(evidence, window.pass_s):
            return evidence
        least_s = self._least_pass_s(roof)
        paced = paced_share(fastest, least_s / roof.slack)
        ratio = least_s / window.pass_s
        is_said = self.observed.figures.drafted[0] > 0
        is_held = sum(fastest.gaps_s) < HELD_SHARE * fastest.closed_s
        if ratio > MOST_DRAFTED or not (is_said or is_held or paced >= PACED_SHARE) or evidence.exchanged is None:
            return evidence
        exchanged = replace(
            evidence.exchanged,
            draft_ratio=ratio,
            paced_share=paced,
            are_drafts_said=is_said,
            is_held_back=is_held,
        )
        return replace(evidence, exchanged=exchanged, limit=None, peak_limit_flops_per_s=None)

    def _aggregate(self) -> Evidence:
        """All tokens by the whole window. No limit convicts here: there may be more devices than were stated."""
        figures, roof = self.observed.figures, self.roof
        evidence = self._evidence(True, figures.at_once)
        if figures.tokens is None or figures.window_s <= 0:
            return evidence
        possible = figures.possible_tokens if figures.are_ids_seen else None
        evidence = replace(evidence, **self._closed(figures.tokens, figures.window_s, figures.at_once, possible))
        if roof is None or evidence.ceiling is None:
            return evidence
        low, high = (
            figures.tokens / figures.window_s * floor_s / (batch * roof.tokens_per_pass)
            for floor_s, batch in zip(self._floors(figures.at_once), _around(figures.at_once), strict=True)
        )
        return replace(evidence, fraction=Interval(low=min(low, high), high=max(low, high)))

    def _evidence(self, is_aggregate: bool, at_once: float) -> Evidence:
        figures, roof, settings = self.observed.figures, self.roof, self.settings
        own = self.bars.aggregate if is_aggregate else self.bars.per_user
        budgets = budgets_for(settings if own is None else replace(settings, at_least=own), self.device)
        batch = max(1, round(at_once))
        ceiling = roof.ceiling(batch, figures.context) if roof is not None else None
        by_logprobs = None if figures.are_ids_seen else figures.possible_tokens
        return Evidence(
            kind="stream",
            label=f"{self.label}, {'in aggregate' if is_aggregate else 'per user'}",
            ceiling=ceiling,
            traffic=ceiling.traffic if ceiling is not None else None,
            knee_bytes=roof.knee_bytes if roof is not None else 0.0,
            at_least=budgets.at_least if roof is not None else None,
            at_most=budgets.at_most if roof is not None else None,
            batch=batch,
            tokens_per_pass=roof.tokens_per_pass if roof is not None else 1.0,
            peak_limit_flops_per_s=roof.peak_limit_flops_per_s if roof is not None and not is_aggregate else None,
            is_peak_limit_measured=False,
            exchanged=Exchanged(
                is_aggregate=is_aggregate,
                answered=len(figures.answered),
                slack=roof.slack if roof is not None else None,
                asked_by=None if own is None else f"at_least_{'aggregate' if is_aggregate else 'per_user'}",
                failed=len(figures.failed),
                failures=tuple(dict.fromkeys(one.error or "no output" for one in figures.failed))[:4],
                chunks=sum(len(one.arrivals) for one in figures.answered),
                tokens=figures.tokens,
                possible_by_logprobs=by_logprobs,
                most_tokens_by_text=figures.most_tokens_by_text,
                contradicted=sum(one.usage.is_contradicted for one in figures.answered),
                replay=self.observed.replay,
                are_prompts_fresh=self.observed.are_prompts_fresh,
            ),
            allow=settings.allow,
        )

    def _closed(self, tokens: int, seconds: float, at_once: float, possible: int | None) -> dict[str, Any]:
        """Window and claim of a stretch that the client closed by the last output."""
        per_pass = self.roof.tokens_per_pass if self.roof is not None else 1.0
        return {
            "window": Window(
                window_s=seconds,
                leftover_s=0.0,
                idle_drain_s=0.0,
                passes=tokens / (max(1.0, at_once) * per_pass),
                source="sending to the last event received",
            ),
            "claim": Claim(tokens=float(tokens), seconds=seconds, is_tokens_seen=possible is not None),
            "tokens_claimed": float(tokens),
            "ids_seen": None if possible is None else min(possible, tokens),
        }

    def _floors(self, at_once: float) -> tuple[float, ...]:
        """The floor of a pass at the whole numbers of sequences around the mean that was seen."""
        roof = self.roof
        if roof is None:  # pragma: no cover - asked only where there is one
            return (0.0, 0.0)
        return tuple(roof.ceiling(batch, self.observed.figures.context).step_s for batch in _around(at_once))

    # -- the result ---------------------------------------------------------------------------------------------

    def _judged(self, evidence: Evidence) -> Result:
        figures, noise = self.observed.figures, evidence.fraction
        is_aggregate = evidence.exchanged is not None and evidence.exchanged.is_aggregate
        verdict = judge(evidence, (noise.low + noise.high) / 2 if noise is not None else None, self.checks)
        traffic, per_pass = evidence.traffic, evidence.tokens_per_pass
        rate = figures.tokens_per_s
        per_user = 1 / figures.tpot_s if figures.tpot_s else None
        pass_s = evidence.window.pass_s if is_aggregate and evidence.window is not None else None
        if not is_aggregate and figures.tpot_s:
            pass_s = figures.tpot_s * per_pass
        return Result(
            kind="stream",
            label=evidence.label,
            device=self.device,
            fraction=fraction_of(evidence, verdict, None),
            mbu=traffic.bytes_per_pass / pass_s / self.roof.bandwidth_bytes_per_s
            if traffic is not None and pass_s and self.roof is not None
            else None,
            step_s=pass_s,
            fixed_s=None,
            tokens_per_s=rate,
            tokens_per_s_per_user=per_user,
            bytes_per_s=traffic.bytes_per_pass / pass_s if traffic is not None and pass_s else None,
            ceiling=evidence.ceiling,
            traffic=traffic,
            verdict=verdict,
            evidence=evidence,
            passes=0,  # nobody saw one
            ttft_s=figures.ttft_s,
            elapsed_s=figures.window_s,
            notes=tuple(self._notes()),
            not_checked=self._not_checked(),
            outputs=[one.text for one in figures.answered],
            stream=figures,
        )

    def _not_checked(self) -> tuple[str, ...]:
        if self.is_tokens_per_pass_stated:
            return NOT_CHECKED
        return (
            *NOT_CHECKED,
            "how many tokens a pass yields: one is taken, say tokens_per_pass= where the server drafts",
        )

    def _notes(self) -> list[str]:
        figures, notes = self.observed.figures, list(self.observed.notes)
        if self.roof is None:
            notes.append(NOT_JUDGED)
        elif self.roof.overflow:
            notes.append(self.roof.overflow)
        if figures.answered and figures.tokens is None:
            notes.append(UNCOUNTED)
        if not self.observed.are_prompts_fresh:
            notes.append("the prompts were sent as they are: a cache of prefixes may have been warm")
        cached = figures.cached_share
        if cached:
            notes.append(f"{format_fraction(cached)} of the prompt tokens were cached: TTFT is not that of new prompts")
        doubtful = sum(one.is_prompt_doubtful for one in figures.answered)
        if doubtful:
            notes.append(
                f"{doubtful} of {len(figures.answered)} answers count more tokens of their prompt than it has bytes "
                f"and {TEMPLATE_TOKENS} around it: no more are taken for their context"
            )
        said = figures.said_tokens_per_pass
        if said is not None:
            drafted, accepted = figures.drafted
            notes.append(
                f"the server says that it drafts: {accepted} of {drafted} drafted tokens were accepted, {said:.3g} "
                f"tokens per pass; {'' if self.is_tokens_per_pass_stated else 'say tokens_per_pass=, and '}what the "
                "draft reads is in no ceiling"
            )
        texts = {one.text for one in figures.answered}
        if (
            self.observed.are_prompts_fresh
            and len(figures.answered) > 2
            and len(texts) == 1
            and len(*texts) >= SAME_TEXT
        ):
            notes.append(
                f"all {len(figures.answered)} answers are the same text, though no prompt was: the server may have it "
                "ready"
            )
        chunks = figures.tokens_per_chunk
        if chunks is not None and abs(chunks - 1) > ONE_EACH:
            notes.append(f"an event holds {chunks:.2g} tokens: the times between events are not those between tokens")
        if figures.at_once < 0.8 * figures.asked_at_once:
            notes.append(
                f"{figures.asked_at_once} requests at once were asked for, {figures.at_once:.1f} were seen: too few "
                "requests for so many, or they failed"
            )
        elif figures.decoding_at_once < min(0.8 * figures.at_once, figures.at_once - 0.5):
            notes.append(
                f"of {figures.at_once:.1f} requests at once {figures.decoding_at_once:.1f} were being answered: the "
                "others waited for their first token"
            )
        if figures.ended_early:
            notes.append(
                f"{figures.ended_early} of {len(figures.answered)} answers ended before the "
                f"{self.observed.asked_tokens} tokens that were asked for; body={{'ignore_eos': True}} has them all, "
                "where the server knows it"
            )
        asked = self.observed.asked_tokens
        beyond = sum(one.tokens is not None and one.tokens > asked for one in figures.answered)
        if beyond:
            notes.append(f"{beyond} of {len(figures.answered)} answers have more than the {asked} tokens asked for")
        hidden = sum(one.hidden_tokens for one in figures.answered)
        if hidden:
            notes.append(f"{hidden} of {figures.tokens} tokens are reasoning that was not shown; they are counted")
        return [*notes, *dict.fromkeys(remark for one in figures.answered for remark in one.remarks)]


def paced_share(exchange: Exchange, pass_s: float) -> float:
    """Part of the time between first and last output that lies in pauses, where the output came pass by pass; else 0.

    What one pass yields may reach a busy client a little later than it was sent, so a pause may look shorter than a
    pass. Bursts cannot: from the begin of one to the begin of the next it is a pass at least, by the mean. One of them
    may look like two, where the client was held up amid its output.
    """
    gaps = exchange.gaps_s
    whole, pauses = sum(gaps), [gap for gap in gaps if gap >= SHORTENED * pass_s]
    if not pauses or whole / max(1, len(pauses) - 1) < pass_s:
        return 0.0
    return sum(pauses) / whole


def _around(at_once: float) -> tuple[int, int]:
    """The whole numbers of sequences around a mean."""
    near = round(at_once)
    if abs(at_once - near) < 0.02:
        return max(1, near), max(1, near)
    return max(1, math.floor(at_once)), max(1, math.ceil(at_once))
