"""One figure that a tool wrote down, in SI units, with what it counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pytest_roofline.checks.streamed import MOST_FAILED_SHARE
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.roofline import Interval

Metric = Literal["decode", "prefill", "mixed", "output", "tpot", "total", "latency"]
METRICS: tuple[Metric, ...] = ("decode", "prefill", "mixed", "output", "tpot", "total", "latency")
"""What a rate counts::

    decode   generated tokens, and the time of decode passes alone
    prefill  tokens of prompts
    mixed    tokens of a prompt and generated ones in one rate, both counts known
    output   generated tokens over a whole run: the time of prefill, queues and ramps is inside
    tpot     one sequence's own pace between its tokens
    total    tokens of prompts and generated ones over a whole run
    latency  seconds from a batch of prompts to the last of its tokens
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """One row. None: the file does not say."""

    tool: str
    label: str
    """What the tool calls it: ``tg128 @ d1024``, ``output_throughput``."""
    where: str
    """Where it stands, for messages: ``bench.json, row 3``."""
    metric: Metric
    tokens_per_s: float | None = None
    """As claimed. Of one sequence for ``tpot``, of one device where `is_per_device`, else of all together."""
    seconds: float | None = None
    """Of ``latency`` alone."""
    noise: Interval | None = None
    """Where the claimed rate lies: least and largest sample, else one standard deviation to each side."""
    recomputed_tokens_per_s: float | None = None
    """From the file's own tokens and seconds."""
    recomputed_tolerance: float = 0.02
    """By which rounding, or a mean of rates, may differ from it."""
    is_prompt_excluded: bool = False
    """Whether the file's other figures show that no token of a prompt is in the rate."""
    is_per_device: bool = False
    batch: Interval | None = None
    """Sequences that decode at once; one value where it is exact."""
    batch_source: str = ""
    context: float | None = None
    """Tokens in each sequence's cache, on average over the passes."""
    is_context_exact: bool = False
    """Whether all sequences have the same context, so that the least of it is known too."""
    depth: float = 0.0
    """Tokens that are in the cache before anything is timed."""
    prompt_tokens: float | None = None
    generated_tokens: float | None = None
    """Of one request, on average."""
    answered_requests: float | None = None
    failed_requests: float = 0.0
    """Of the run; what is reported is of those that were answered."""
    is_first_token_prefilled: bool = True
    """Whether the pass over the prompt yields the first of the generated tokens."""
    tokens_per_pass: float | None = None
    model: str | None = None
    weights: str | None = None
    kv_formats: tuple[str, ...] = ()
    """Of keys and of values."""
    ranks: int | None = None
    stored_bytes: float | None = None
    """Of the model's file, tables included."""
    stored_rounding: float = 0.0
    """By which share of itself `stored_bytes` may be off."""
    parameters: float | None = None
    model_type: str | None = None
    """llama.cpp's words: ``llama 8B Q4_K - Medium``."""
    count_slack: float = 1.0
    """By which factor a rate may honestly exceed its limit: tokens that another tokenizer split again."""
    is_head_skipped: bool = False
    """Whether embeddings were asked for, without the output projection."""
    device_layers: float | None = None
    """Layers that were put on the device; those that are left are in the host's memory."""
    unjudged: str | None = None
    """Why no budget can be held against it, whatever is known of the model; the limit still holds."""
    words: str = ""
    """Engine and method in words, for the diagnosis."""
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("tokens_per_s", "seconds", "recomputed_tokens_per_s", "tokens_per_pass"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise RooflineUsageError(f"{self.where}: {name} is {value}; it must be positive")
        if (self.tokens_per_s is None) == (self.seconds is None):
            raise RooflineUsageError(f"{self.where}: a rate or a latency is needed, and not both")

    @property
    def has_many_failed(self) -> bool:
        """Whether so many requests failed that those that were answered may be the easy ones."""
        failed, answered = self.failed_requests, self.answered_requests
        return answered is not None and failed > MOST_FAILED_SHARE * (failed + answered)

    @property
    def is_per_user(self) -> bool:
        """Whether the rate is that of one sequence."""
        return self.metric == "tpot"


def exactly(value: float) -> Interval:
    """An interval of one value."""
    return Interval(low=value, high=value)
