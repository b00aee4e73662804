"""What benchmarks of servers have in common: counts over a run, and how many sequences decode at once.

Little's law over the run: sequences that decode at once, on average, are output tokens per second x seconds per output
token. Those that are in flight (waiting and in prefill too) are at most the concurrency that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pytest_roofline.published.reported import Metric, Reported, exactly
from pytest_roofline.roofline import Interval

_MORE = 1.02
"""By which factor a total that counts prompts exceeds a rate that does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRun:
    """One run against a server or an engine, in SI units."""

    tool: str
    where: str
    output_tokens_per_s: float | None = None
    output_key: str = "output_throughput"
    total_tokens_per_s: float | None = None
    total_key: str = "total_token_throughput"
    is_total_judged: bool = True
    """Else it only shows that the output's rate counts no prompts."""
    tpot_s: float | None = None
    """Mean seconds per output token of one sequence, the first token left out."""
    tpot_key: str = "mean_tpot_ms"
    seconds: float | None = None
    prompt_tokens_sum: float | None = None
    output_tokens_sum: float | None = None
    requests: float | None = None
    """Those that were answered."""
    failed: float = 0.0
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    """Of one request, on average; else they follow from the sums."""
    most_at_once: float | None = None
    """Concurrency that was asked for, or the most that was seen."""
    mean_at_once: float | None = None
    tokens_per_pass: float | None = None
    model: str | None = None
    ranks: int | None = None
    weights: str | None = None
    kv_formats: tuple[str, ...] = ()
    count_slack: float = 1.0
    words: str = ""
    remarks: tuple[str, ...] = ()

    def reported(self) -> Iterator[Reported]:
        """Each rate that the run gives: over all sequences, of one, and prompts counted."""
        if self.output_tokens_per_s is not None:
            recomputed = None
            if self.output_tokens_sum and self.seconds:
                recomputed = self.output_tokens_sum / self.seconds
            is_alone = (self.total_tokens_per_s or 0.0) > _MORE * self.output_tokens_per_s
            output = self._one("output", self.output_key, tokens_per_s=self.output_tokens_per_s, recomputed=recomputed)
            yield replace(output, is_prompt_excluded=is_alone)
        if self.tpot_s is not None:
            yield self._one("tpot", self.tpot_key, tokens_per_s=1.0 / self.tpot_s)
        if self.total_tokens_per_s is not None and self.is_total_judged:
            recomputed = None
            if self.output_tokens_sum and self.prompt_tokens_sum and self.seconds:
                recomputed = (self.output_tokens_sum + self.prompt_tokens_sum) / self.seconds
            yield self._one("total", self.total_key, tokens_per_s=self.total_tokens_per_s, recomputed=recomputed)

    def _one(self, metric: Metric, label: str, *, tokens_per_s: float, recomputed: float | None = None) -> Reported:
        prompt, output = self._per_request()
        batch, source = self._at_once()
        return Reported(
            tool=self.tool,
            label=label,
            where=self.where,
            metric=metric,
            tokens_per_s=tokens_per_s,
            recomputed_tokens_per_s=recomputed,
            batch=batch,
            batch_source=source,
            context=None if prompt is None or output is None else prompt + output / 2,
            prompt_tokens=prompt,
            generated_tokens=output,
            answered_requests=self.requests,
            failed_requests=self.failed,
            tokens_per_pass=self.tokens_per_pass,
            model=self.model,
            weights=self.weights,
            kv_formats=self.kv_formats,
            ranks=self.ranks,
            count_slack=self.count_slack,
            words=self.words,
            remarks=self.remarks,
        )

    def _per_request(self) -> tuple[float | None, float | None]:
        prompt, output = self.prompt_tokens, self.output_tokens
        if prompt is None and self.prompt_tokens_sum and self.requests:
            prompt = self.prompt_tokens_sum / self.requests
        if output is None and self.output_tokens_sum and self.requests:
            output = self.output_tokens_sum / self.requests
        return prompt, output

    def _at_once(self) -> tuple[Interval | None, str]:
        most = self.most_at_once
        if most == 1:
            return exactly(1.0), "one request at a time"
        low, source = 1.0, ""
        if self.output_tokens_per_s is not None and self.tpot_s is not None:
            low = max(1.0, self.output_tokens_per_s * self.tpot_s)
            source = f"on average {low:.3g} decode at once (output rate x time per output token)"
        high = self.mean_at_once if self.mean_at_once is not None else most
        if high is None:
            return None, source
        if not source:
            source = f"at most {high:g} at once"
        return Interval(low=min(low, max(high, 1.0)), high=max(high, 1.0)), source
