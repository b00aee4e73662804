"""Why a published rate stands above the ceiling: the known mistakes, tried one by one with the figures at hand.

Each cause is undone by arithmetic (the prompt's tokens taken out of the rate, the KV cache at fewer bits, more
sequences per pass ...) and counts only if what remains is possible. Several often fit: they come most likely first,
those that the publication's own words or figures speak for before those that merely fit. Nothing here proves a
mistake; it says what would have to be true.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.prediction import Prediction, predict
from pytest_roofline.units import format_bytes, format_fraction, format_rate, format_ratio

CauseName = Literal[
    "uniform-routing",
    "prompt-counted",
    "kv-format",
    "batch-aggregate",
    "several-tokens-per-pass",
    "mixture-of-experts",
    "smaller-file",
    "head-skipped",
    "prefill-rate",
    "whole-file",
    "embedding-counted",
    "impossible",
]
ROUTING_GAIN = 1.5
"""Genuine batched runs of mixtures beat uniform routing by up to this."""
_NARROWER_KV = ((1.0, "8 bits"), (18 / 32, "4 bits and scales (q4_0)"))
_FEWEST_GENERATED = 16
"""No benchmark rates a run of fewer generated tokens."""
_FEWEST_BITS = 2.0
_LEAST_ACTIVE = 0.02
"""Of a mixture's parameters, those that serve one token: 3.2 % of Kimi K2's, and no published one has far fewer."""
_MOST_SEQUENCES = 2**16
_MOST_ACCEPTED = 4.0
"""Tokens per pass that speculative decoding reaches in practice."""
_BATCHED = re.compile(r"offline|(?<![\w-])server|batch|concurren|users|aggregate|throughput", re.IGNORECASE)
_SPECULATIVE = re.compile(r"specul|\bmtp\b|draft|eagle|medusa|lookahead|n-?gram", re.IGNORECASE)
_MIXTURE = re.compile(r"\bmoe\b|experts|(?<![a-z0-9])a\d+(\.\d+)?b\b", re.IGNORECASE)
_PREFILL = re.compile(r"\bpp\s?\d+|prefill|ubatch", re.IGNORECASE)
# A prompt in one pass, unless the micro-batch is one token.
_PROMPT_PROCESSING = re.compile(r"\bpp\s?(?P<tokens>\d+)|prefill|prompt (?:processing|eval)", re.IGNORECASE)
_ONE_BY_ONE = re.compile(r"ubatch(?:[ -]?size)?\s*=?\s*1\b", re.IGNORECASE)
_SOME_PROMPT = 512
"""Tokens of a prompt whose length is not said: what llama-bench takes."""
# llama-bench and llama-batched-bench time generation by itself: tg128.
_GENERATION = re.compile(r"\btg\s?\d+", re.IGNORECASE)
_FILE_ASSUMED = re.compile(r"(?:file|mix|format|variant|bpw)\s+(?:is\s+)?(?:assumed|unknown)", re.IGNORECASE)
_KV_ASSUMED = re.compile(r"kv[^,;]*assumed|assumed[^,;]*kv", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A rate that somebody published, and what was said about it."""

    tokens_per_s: float
    """Of all sequences together."""
    prompt_tokens: float | None = None
    generated_tokens: float | None = None
    """Of one request. Where only these are known, the prompt follows from the average context."""
    words: str = ""
    """Engine, formats, method, as published: ``vLLM offline``, ``pp512 with ubatch 1``, ``tg128``."""

    def __post_init__(self) -> None:
        for name in ("tokens_per_s", "prompt_tokens", "generated_tokens"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise RooflineUsageError(f"{name} is {value}; it must be positive")

    @property
    def is_generation(self) -> bool:
        """Whether the words say that generated tokens alone were timed, one per pass."""
        return _GENERATION.search(self.words) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One explanation that fits."""

    name: CauseName
    message: str
    """One sentence with the arithmetic in it."""
    fraction: float | None = None
    """Of the ceiling, with the mistake undone; None where that is not a matter of a fraction."""
    is_stated: bool = False
    """Whether the publication's own words or figures speak for it; else it merely fits."""


def diagnose(
    claim: Claim,
    prediction: Prediction,
    *,
    head_bytes: float | None = None,
    ruled_out: Collection[CauseName] = (),
) -> tuple[Cause, ...]:
    """What explains a claim above the ceiling of `prediction`, most likely first; empty for one that needs no excuse.

    A claim under that ceiling may still beat the ceiling that people compute by mistake, from the whole file: then
    the causes name that mistake. `head_bytes` is what the output projection takes, to undo a prefill that skips it;
    `ruled_out` are causes that somebody knows not to be.
    Where nothing stated explains a claim that even the least bytes exclude, ``impossible`` comes first.
    """
    fraction = claim.tokens_per_s / prediction.ceiling_tokens_per_s
    if fraction <= 1:
        mistaken = _mistaken_ceilings(claim, prediction, head_bytes)
        return tuple(cause for cause in mistaken if cause.name not in ruled_out)
    found = [
        cause
        for cause in (
            _routing(claim, prediction, fraction),
            _head(claim, prediction, head_bytes),
            _prefill(claim, prediction),
            _kv_format(claim, prediction),
            _prompt(claim, prediction, fraction),
            _aggregate(claim, prediction),
            _speculative(claim, fraction),
            _mixture(claim, prediction),
            _smaller_file(claim, prediction),
        )
        if cause is not None and cause.name not in ruled_out
    ]
    found.sort(key=lambda cause: not cause.is_stated)
    if claim.tokens_per_s > prediction.limit_tokens_per_s and not any(cause.is_stated for cause in found):
        found.insert(0, _impossible(claim, prediction, fraction, found))
    return tuple(found)


def _routing(claim: Claim, prediction: Prediction, fraction: float) -> Cause | None:
    """The expectation over uniform routing is no bound: tokens that are alike route alike."""
    limit = prediction.limit_tokens_per_s
    inventory = prediction.workload.inventory
    if not inventory.is_mixture or claim.tokens_per_s > limit or limit <= prediction.ceiling_tokens_per_s:
        return None
    machine, ranks = prediction.machine, prediction.machine.ranks
    step_bytes = prediction.tokens / claim.tokens_per_s * machine.bandwidth_bytes_per_s * ranks
    experts = sum(group.weight_bytes for group in inventory.experts)
    others = prediction.bytes_per_pass * ranks - (prediction.weight_bytes_per_pass * ranks - inventory.dense_bytes)
    expected = (prediction.weight_bytes_per_pass * ranks - inventory.dense_bytes) / experts
    return Cause(
        name="uniform-routing",
        message=(
            f"uniform routing expects a pass to read {format_fraction(expected)} of the experts and the step has time "
            f"for {format_fraction(max(0.0, step_bytes - others) / experts)}: an expectation, no bound; with the "
            f"experts of one token alone the ceiling is {format_rate(limit)} tok/s"
        ),
        fraction=claim.tokens_per_s / limit,
        is_stated=fraction <= ROUTING_GAIN,
    )


def _kv_format(claim: Claim, prediction: Prediction) -> Cause | None:
    """A cache of fewer bits than assumed."""
    workload = prediction.workload
    inventory = workload.inventory
    for width, words in _NARROWER_KV:
        if width >= inventory.kv_bytes_per_element or not inventory.kv_bytes_per_token or not workload.context:
            continue
        narrower = replace(inventory, kv_bytes_per_element=width)
        ceiling = predict(prediction.machine, replace(workload, inventory=narrower)).ceiling_tokens_per_s
        if claim.tokens_per_s <= ceiling:
            share = prediction.kv_bytes_per_pass / prediction.bytes_per_pass
            return Cause(
                name="kv-format",
                message=(
                    f"a KV cache of fewer bits, {format_fraction(share)} of the bytes of a pass: at {words} instead of "
                    f"{8 * inventory.kv_bytes_per_element:g} per element the ceiling is {format_rate(ceiling)} tok/s "
                    f"({format_fraction(claim.tokens_per_s / ceiling)})"
                ),
                fraction=claim.tokens_per_s / ceiling,
                # More cache than weights, and an assumption: what else could it be.
                is_stated=bool(_KV_ASSUMED.search(claim.words)) or share > 0.5,
            )
    return None


def _prompt(claim: Claim, prediction: Prediction, fraction: float) -> Cause | None:
    """(prompt + generated) / time: prefill throughput in disguise."""
    if claim.is_generation:
        return None
    prompt, generated, context = claim.prompt_tokens, claim.generated_tokens, float(prediction.workload.context)
    if generated is not None and prompt is None:
        prompt = context - generated / 2
    if generated is None:
        # The average context is prompt + generated / 2, and (prompt + generated) / generated is at least `fraction`.
        most = context / (fraction - 0.5)
        if most < _FEWEST_GENERATED:
            return None
        return Cause(
            name="prompt-counted",
            message=(
                f"a rate that counts the prompt's tokens: at {context:,.0f} tokens of context on average, of requests "
                f"that generate at most {most:,.0f} tokens, since (prompt + generated) / generated must reach "
                f"{_times(fraction)}"
            ),
        )
    if prompt is None or prompt <= 0 or fraction > (prompt + generated) / generated:
        return None
    share = generated / (prompt + generated)
    return Cause(
        name="prompt-counted",
        message=(
            f"the prompt's tokens are counted: {prompt:,.0f} of prompt and {generated:,.0f} generated make the rate "
            f"{_times(1 / share)} too high; {format_rate(claim.tokens_per_s * share)} tok/s were generated "
            f"({format_fraction(fraction * share)})"
        ),
        fraction=fraction * share,
        is_stated=True,
    )


def _aggregate(claim: Claim, prediction: Prediction) -> Cause | None:
    """The rate of a batch against the ceiling of one sequence."""
    workload = prediction.workload
    if workload.batch != 1:
        return None

    def serves(batch: int) -> bool:
        candidate = predict(prediction.machine, replace(workload, batch=batch))
        return candidate.ceiling_tokens_per_s >= claim.tokens_per_s

    least = 2
    while not serves(least):
        least *= 2
        if least > _MOST_SEQUENCES:
            return None
    low = least // 2
    while least - low > 1:
        middle = (least + low) // 2
        low, least = (low, middle) if serves(middle) else (middle, least)
    served = predict(prediction.machine, replace(workload, batch=least))
    if served.fits is False:
        return None
    return Cause(
        name="batch-aggregate",
        message=(
            f"the rate of a batch: at least {least} sequences at once, whose ceiling together is "
            f"{format_rate(served.ceiling_tokens_per_s)} tok/s; one sequence alone has "
            f"{format_rate(prediction.ceiling_tokens_per_s)}"
        ),
        fraction=claim.tokens_per_s / served.ceiling_tokens_per_s,
        is_stated=bool(_BATCHED.search(claim.words)),
    )


def _speculative(claim: Claim, fraction: float) -> Cause | None:
    """A draft, or multi-token prediction: more than one token per pass."""
    is_stated = bool(_SPECULATIVE.search(claim.words))
    if not is_stated and (claim.is_generation or fraction > _MOST_ACCEPTED):
        return None
    return Cause(
        name="several-tokens-per-pass",
        message=f"passes that yield at least {fraction:.2f} tokens each (speculative decoding)",
        is_stated=is_stated,
    )


def _mixture(claim: Claim, prediction: Prediction) -> Cause | None:
    """So many parameters were given, and a pass reads only those of the experts that its token is sent to."""
    workload, inventory = prediction.workload, prediction.workload.inventory
    if not inventory.is_rule or inventory.is_mixture or workload.batch > 1:
        return None
    share = _room_for_weights(claim, prediction) / prediction.weight_bytes_per_pass
    if share < _LEAST_ACTIVE:
        return None
    active = share * inventory.parameters
    return Cause(
        name="mixture-of-experts",
        message=(
            f"a mixture of experts: all {_billions(inventory.parameters)} parameters were counted, and a pass that "
            f"reads at most {_billions(active)} of them could do it (--active)"
        ),
        is_stated=bool(_MIXTURE.search(claim.words)),
    )


def _room_for_weights(claim: Claim, prediction: Prediction) -> float:
    """Bytes of weights that a pass can have read on each device in the time that is claimed, beside the rest of it."""
    moved = prediction.tokens / claim.tokens_per_s * prediction.machine.bandwidth_bytes_per_s
    return moved - (prediction.bytes_per_pass - prediction.weight_bytes_per_pass)


def _smaller_file(claim: Claim, prediction: Prediction) -> Cause | None:
    """Weights of fewer bits than assumed."""
    workload, machine = prediction.workload, prediction.machine
    room = _room_for_weights(claim, prediction)
    elements = workload.inventory.flops_per_token / 2
    if workload.inventory.is_mixture and workload.batch > 1:
        return None
    bits = 8 * room * machine.ranks / elements
    if bits < _FEWEST_BITS:
        return None
    return Cause(
        name="smaller-file",
        message=(
            f"a file of which a pass reads at most {format_bytes(room * machine.ranks)}, {bits:.1f} bits per weight; "
            f"{format_bytes(prediction.weight_bytes_per_pass * machine.ranks)} were assumed"
        ),
        is_stated=bool(_FILE_ASSUMED.search(claim.words)),
    )


def _head(claim: Claim, prediction: Prediction, head_bytes: float | None) -> Cause | None:
    """Prompt tokens fed one at a time: the output projection is needed for the last one alone."""
    if head_bytes is None or claim.is_generation or not _PREFILL.search(claim.words):
        return None
    without = prediction.bytes_per_pass - head_bytes / prediction.machine.ranks
    ceiling = prediction.tokens * prediction.machine.bandwidth_bytes_per_s / without
    if claim.tokens_per_s > ceiling:
        return None
    return Cause(
        name="head-skipped",
        message=(
            f"prefill skips the output projection ({format_bytes(head_bytes)}) for all tokens but the last: "
            f"{format_bytes(without)} per pass, ceiling {format_rate(ceiling)} tok/s "
            f"({format_fraction(claim.tokens_per_s / ceiling)})"
        ),
        fraction=claim.tokens_per_s / ceiling,
        is_stated=True,
    )


def _prefill(claim: Claim, prediction: Prediction) -> Cause | None:
    """A label such as pp512: tokens of a prompt, which go through the weights together."""
    label = _PROMPT_PROCESSING.search(claim.words)
    if label is None or claim.is_generation or _ONE_BY_ONE.search(claim.words):
        return None
    workload = prediction.workload
    tokens = max(1, int(label["tokens"] or claim.prompt_tokens or _SOME_PROMPT))
    floor_s = predict(prediction.machine, replace(workload, prompt=tokens, offload=0.0)).prefill_floor_s
    possible = "" if floor_s is None else f", whose ceiling is {format_rate(tokens / floor_s)} tok/s"
    if floor_s is not None and claim.tokens_per_s > tokens / floor_s:
        return None
    return Cause(
        name="prefill-rate",
        message=(
            f"{label[0]!r} says prompt processing: {tokens:,} tokens go through the weights in one pass{possible}; "
            "tokens are not generated at such a rate"
        ),
        fraction=None if floor_s is None else claim.tokens_per_s * floor_s / tokens,
        is_stated=True,
    )


def _mistaken_ceilings(claim: Claim, prediction: Prediction, head_bytes: float | None) -> tuple[Cause, ...]:
    """Whether a possible claim beats the whole file's ceiling, and why that is none."""
    inventory, machine = prediction.workload.inventory, prediction.machine
    whole = inventory.total_bytes / machine.ranks
    ceiling = prediction.tokens * machine.bandwidth_bytes_per_s / whole
    if claim.tokens_per_s <= ceiling:
        return ()
    over = f"{_times(claim.tokens_per_s / ceiling)} the whole file's ceiling of {format_rate(ceiling)} tok/s"
    fraction = claim.tokens_per_s / prediction.ceiling_tokens_per_s
    read = f"a pass reads {format_bytes(prediction.weight_bytes_per_pass)} of {format_bytes(whole)}"
    if inventory.is_mixture:
        cause = Cause(
            name="whole-file", message=f"{over}: {read}, the experts its tokens are sent to", fraction=fraction
        )
    elif inventory.lookup_bytes:
        table = format_bytes(inventory.lookup_bytes)
        cause = Cause(
            name="embedding-counted",
            message=f"{over}: {read}; the embedding ({table}) is looked up row by row",
            fraction=fraction,
        )
    else:
        return ()
    head = _head(claim, prediction, head_bytes)
    return (cause,) if head is None else (cause, head)


def _impossible(claim: Claim, prediction: Prediction, fraction: float, others: list[Cause]) -> Cause:
    """Nothing that was stated explains it."""
    one = "" if prediction.workload.batch > 1 else " for one sequence"
    tail = "; what follows merely fits" if others else ", and no known mistake fits"
    return Cause(
        name="impossible",
        message=(
            f"{format_rate(claim.tokens_per_s)} tok/s{one} is {_times(fraction)} the ceiling of "
            f"{format_rate(prediction.ceiling_tokens_per_s)} tok/s ({format_bytes(prediction.bytes_per_pass)} per pass "
            f"from {prediction.machine.bandwidth_bytes_per_s / 1e9:,.0f} GB/s): nothing stated explains it{tail}"
        ),
    )


def _times(value: float) -> str:
    """A ratio that may be close to one: ``1.04x``, ``11.6x``, ``240x``."""
    return f"{value:.2f}x" if value < 10 else f"{value:.1f}x" if value < 100 else format_ratio(value)


def _billions(parameters: float) -> str:
    return f"{parameters / 1e9:.3g}B" if parameters < 1e12 else f"{parameters / 1e9:,.0f}B"
