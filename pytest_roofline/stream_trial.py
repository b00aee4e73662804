"""One measurement of a server: a warm-up, requests, and one prompt asked twice, for what the server may remember."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_roofline.checks import CHECKS, Check
from pytest_roofline.checks.exchanged import Replay
from pytest_roofline.endpoint import MOST_AT_ONCE, Endpoint
from pytest_roofline.errors import MeasurementError, RooflineUsageError
from pytest_roofline.ledger import finite
from pytest_roofline.result import Result, unmeasured_result
from pytest_roofline.settings import Settings, parse_budget, whole_number
from pytest_roofline.stated_roof import UNSTATED, StatedRoof
from pytest_roofline.stream_figures import StreamFigures
from pytest_roofline.stream_verdicts import LEAST_TOKENS, Bars, Observed, Verdicts
from pytest_roofline.streaming import Exchange
from pytest_roofline.units import format_seconds

PROMPT = "Describe a long walk along a river, from its spring to the sea, with every village on the way."
REPLAY_RATIO = 10.0
_ADDRESS = "check the address (it ends in /v1), and the name of the model (served=)"
_ACCEPTED = "see what the server accepts (body= adds keys, and takes those out that are None)"
_KEY = "give the server's key: api_key="
_LOAD = "look into the server's log, and ask for less at once (concurrency=)"
_SLOW = "see whether the server is busy or hangs (its log), or give it longer: timeout_s="
_SERVERS_OWN = "the server broke off or said this itself: look into its log"
_REMEDIES = (
    ("HTTP 401", _KEY),
    ("HTTP 403", _KEY),
    ("HTTP 404", _ADDRESS),
    ("HTTP 405", _ADDRESS),
    ("HTTP 408", _SLOW),
    ("HTTP 429", _LOAD),
    ("HTTP 4", f"{_ACCEPTED}, and the name of the model (served=)"),
    ("HTTP 5", _LOAD),
    ("HTTP ", _ADDRESS),
    ("no stream of events", f"{_ADDRESS}; {_ACCEPTED}"),
    ("ConnectTimeout", f"{_ADDRESS}, and whether a server can be reached there"),
    ("ConnectError", f"{_ADDRESS}, and whether a server runs there"),
    ("ReadTimeout", _SLOW),
    ("WriteTimeout", _SLOW),
    ("PoolTimeout", _SLOW),
    ("no end after", _SLOW),
    ("an answer without any output", "ask for more tokens (tokens=), or have it think less (body=)"),
)
"""By how an error begins; the first that fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJob:
    """What is asked of a server."""

    prompts: tuple[str, ...]
    tokens: int
    requests: int
    at_once: int
    warmup: int
    is_fresh: bool
    is_repeat_tried: bool
    label: str
    is_tokens_per_pass_stated: bool
    bars: Bars = field(default_factory=Bars)

    def prompt(self, index: int, *, is_fresh: bool) -> str:
        """One prompt; a fresh one begins with what no cache of prefixes can have seen."""
        text = self.prompts[index % len(self.prompts)]
        return f"{uuid.uuid4().hex}\n{text}" if is_fresh else text


def stream_job(
    *,
    prompts: str | Sequence[str] | None,
    tokens: int,
    requests: int | None,
    concurrency: int,
    warmup: int,
    fresh: bool,
    repeat: bool,
    label: str,
    tokens_per_pass: float | None,
    at_least_per_user: Any,
    at_least_aggregate: Any,
    tp: int,
    timeout_s: float,
) -> StreamJob:
    """The request, checked at the border. RooflineUsageError names what is wrong with it."""
    texts = (PROMPT,) if prompts is None else (prompts,) if isinstance(prompts, str) else tuple(prompts)
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise RooflineUsageError("prompts is no text, or a sequence of texts, none of them empty")
    for name, value, least, most in (
        ("tokens", tokens, 2, 2**20),
        ("concurrency", concurrency, 1, MOST_AT_ONCE),
        ("requests", requests, 1, 10**6),
        ("warmup", warmup, 0, 10**4),
        ("tp", tp, 1, 2**16),
    ):
        if value is None and name != "requests":
            raise RooflineUsageError(f"{name} is None; a whole number is needed")
        whole_number(name, value, least, most)
    for name, figure, lowest in (("tokens_per_pass", tokens_per_pass, 1.0), ("timeout_s", timeout_s, 1e-3)):
        number = finite(figure, name)
        if number is not None and number < lowest:
            raise RooflineUsageError(f"{name} is {figure!r}; it must be {lowest:g} or more")
    return StreamJob(
        prompts=texts,
        tokens=tokens,
        requests=max(6, 2 * concurrency) if requests is None else requests,
        at_once=concurrency,
        warmup=warmup,
        is_fresh=fresh,
        is_repeat_tried=repeat,
        label=label,
        is_tokens_per_pass_stated=tokens_per_pass is not None,
        bars=Bars(
            per_user=parse_budget(at_least_per_user, "at_least_per_user"),
            aggregate=parse_budget(at_least_aggregate, "at_least_aggregate"),
        ),
    )


def observe(job: StreamJob, endpoint: Endpoint) -> Observed:
    """Warm up, measure, and ask one prompt twice. MeasurementError where no request was answered."""
    if job.warmup:
        first = [job.prompt(index, is_fresh=job.is_fresh) for index in range(job.warmup)]
        endpoint.ask_all(first, tokens=job.tokens, at_once=min(job.at_once, job.warmup))
    prompts = [job.prompt(index, is_fresh=job.is_fresh) for index in range(job.requests)]
    exchanges = endpoint.ask_all(prompts, tokens=job.tokens, at_once=job.at_once)
    figures = StreamFigures(exchanges=tuple(exchanges), asked_at_once=job.at_once)
    if not figures.answered:
        said = list(dict.fromkeys(one.error or "no output" for one in exchanges))
        raise MeasurementError(
            f"none of {len(exchanges)} requests to {endpoint.url} was answered: {'; '.join(said):.500}\n"
            f"  do: {'; or '.join(dict.fromkeys(remedy_of(error) for error in said))}"
        )
    if not job.is_repeat_tried:
        return Observed(figures=figures, asked_tokens=job.tokens, are_prompts_fresh=job.is_fresh)
    prompt = job.prompt(0, is_fresh=True)
    fresh, repeated = (endpoint.ask(prompt, tokens=job.tokens) for _ in range(2))
    return Observed(
        figures=figures,
        asked_tokens=job.tokens,
        are_prompts_fresh=job.is_fresh,
        replay=replay_of(fresh, repeated),
        notes=tuple(prefix_notes(fresh, repeated)),
    )


def remedy_of(error: str) -> str:
    """What to do about the error of a request, by the words that `Endpoint` and `Intake` have for its kinds."""
    return next((remedy for beginning, remedy in _REMEDIES if error.startswith(beginning)), _SERVERS_OWN)


def replay_of(fresh: Exchange, repeated: Exchange) -> Replay | None:
    """Whether the second answer to a prompt is the first one, given from memory."""
    if not fresh.is_answered or not repeated.is_answered or repeated.closed_s <= 0:
        return None
    is_same = fresh.text == repeated.text and (fresh.tokens or len(fresh.arrivals)) >= LEAST_TOKENS
    if not is_same or fresh.closed_s < REPLAY_RATIO * repeated.closed_s:
        return None
    return Replay(tokens=fresh.tokens or len(fresh.arrivals), fresh_s=fresh.closed_s, repeated_s=repeated.closed_s)


def prefix_notes(fresh: Exchange, repeated: Exchange) -> list[str]:
    """What the two answers tell of a prefix cache."""
    before, after = fresh.ttft_s, repeated.ttft_s
    if not fresh.is_answered or not repeated.is_answered or before is None or after is None:
        return ["whether a repeated prompt is answered sooner could not be tried: a request failed"]
    cached, prompt = repeated.usage.cached_tokens or 0, repeated.usage.prompt_tokens or 0
    times = f"TTFT {format_seconds(after)} instead of {format_seconds(before)}"
    if cached:
        return [f"the server keeps prefixes: of a repeated prompt {cached} of {prompt} tokens were cached, {times}"]
    if after < before / 2:
        return [f"a repeated prompt is answered sooner ({times}), as with a warm prefix cache; the server counts none"]
    return []


def run_stream(
    job: StreamJob,
    *,
    open_endpoint: Callable[[], Endpoint],
    roof: StatedRoof | None,
    settings: Settings,
    checks: Sequence[Check] = CHECKS,
) -> Result:
    """Measure and judge: the result per user, with that in aggregate in its `aggregate`."""
    device = roof.device if roof is not None else UNSTATED
    with open_endpoint() as endpoint:
        if settings.mode == "off":
            answers = endpoint.ask_all([job.prompt(0, is_fresh=job.is_fresh)], tokens=job.tokens, at_once=1)
            return unmeasured_result("stream", job.label, device, [one.text for one in answers])
        observed = observe(job, endpoint)
    return Verdicts(
        observed,
        roof=roof,
        device=device,
        settings=settings,
        label=job.label,
        bars=job.bars,
        is_tokens_per_pass_stated=job.is_tokens_per_pass_stated,
        checks=checks,
    ).result()
