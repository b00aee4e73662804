"""What a server's streamed answers can and cannot show: tokens, failures, replays, output that was held back."""

from __future__ import annotations

from pytest_roofline.checks.amounts import TOKENS_TOLERANCE
from pytest_roofline.checks.bounds import fraction_bounds
from pytest_roofline.checks.ceiling import faster_than_limit
from pytest_roofline.checks.evidence import SHEET_SLACK, Evidence, Finding
from pytest_roofline.units import format_fraction, format_ratio, format_seconds

UNSEEN_TOKENS = 8
"""Of each answer: ends, roles and the like have no text."""
SEVERAL = 0.05
"""By how much more tokens than events there are where some events hold several, or some tokens had none."""
MOST_FAILED_SHARE = 0.1
"""Of more failures than this the answered requests may be those that were easy."""


def tokens_unseen(evidence: Evidence) -> Finding | None:
    """No count of tokens at all, or a count that the log probabilities do not bear out.

    Ids are counted by `tokens_disagree`. Some servers leave log probabilities out (of held-back text, say), so a lack
    of them accuses nobody.
    """
    seen = evidence.exchanged
    if seen is None or not seen.answered:
        return None
    if seen.tokens is None:
        return Finding(
            check="tokens-disagree",
            severity="note" if evidence.at_least is None else "inconclusive",
            message=(
                "the server does not say how many tokens it sent: no usage, no ids and no log probabilities; chunks "
                "are no tokens, so there are only times"
            ),
            figures={"answered": seen.answered, "chunks": seen.chunks},
            remedy="have it send usage (stream_options include_usage), or ask for logprobs",
        )
    possible = seen.possible_by_logprobs
    if possible is None or seen.tokens <= possible * (1 + TOKENS_TOLERANCE):
        return None
    return Finding(
        check="tokens-disagree",
        severity="inconclusive",
        message=(
            f"{seen.tokens} tokens by the server's usage, log probabilities of {possible} were sent "
            f"({format_ratio(seen.tokens / possible) if possible else 'none'}): the prompt was counted, or some were "
            "left out"
        ),
        figures={"usage_tokens": seen.tokens, "possible_tokens": possible},
        remedy="have the server send token ids (vLLM: return_token_ids), which settle it",
    )


def usage_doubtful(evidence: Evidence) -> Finding | None:
    """A usage that contradicts itself, or that counts more tokens than its text has bytes.

    No accusation: a server may send tokens that have no text, and say nothing of the reasoning that it hides.
    """
    seen = evidence.exchanged
    if seen is None or not seen.tokens or evidence.ids_seen is not None:
        return None
    if seen.contradicted:
        return Finding(
            check="tokens-disagree",
            severity="inconclusive",
            message=(
                f"usage contradicts itself in {seen.contradicted} of {seen.answered} answers: prompt and completion "
                "are more than the total, so one of them was counted in the other"
            ),
            figures={"answers": seen.contradicted, "answered": seen.answered, "usage_tokens": seen.tokens},
            remedy="have the server count the completion without its prompt, or send token ids",
        )
    most = seen.most_tokens_by_text
    if most is None or seen.tokens <= most * (1 + TOKENS_TOLERANCE) + UNSEEN_TOKENS * seen.answered:
        return None
    return Finding(
        check="tokens-disagree",
        severity="inconclusive",
        message=(
            f"{seen.tokens} tokens by the server's usage in {most} bytes of text: no text has more tokens than bytes, "
            "so the prompt was counted, or tokens that nobody was sent"
        ),
        figures={"usage_tokens": seen.tokens, "text_bytes": most},
        remedy="have the server send token ids (vLLM: return_token_ids), or say its reasoning tokens in usage",
    )


def requests_failed(evidence: Evidence) -> Finding | None:
    """Failed requests are in no rate: a note, and no verdict where they are many."""
    seen = evidence.exchanged
    if seen is None or not seen.failed:
        return None
    whole = seen.failed + seen.answered
    is_many = seen.failed > MOST_FAILED_SHARE * whole
    return Finding(
        check="work-missing",
        severity="inconclusive" if is_many else "note",
        message=(
            f"{seen.failed} of {whole} requests failed, and all rates are of the other {seen.answered}: "
            f"{'; '.join(seen.failures)}"
        ),
        figures={"failed": seen.failed, "requests": whole, "failures": list(seen.failures)},
        remedy="ask for less at once, or look into the server's log",
    )


def drafts_unsure(evidence: Evidence) -> Finding | None:
    """Faster than a token per pass allows, and nobody said how many a pass yields: it may be speculation."""
    seen = evidence.exchanged
    if seen is None or seen.draft_ratio is None:
        return None
    if seen.are_drafts_said:
        sign = "and this one says that it does"
    elif seen.is_held_back:
        sign = "and its output came all together, so that its pace cannot be seen (a proxy or a server that buffers)"
    else:
        sign = f"and its output came in bursts with {format_fraction(seen.paced_share)} of the time between them"
    return Finding(
        check="ceiling-unsure",
        severity="inconclusive",
        message=(
            f"{format_ratio(seen.draft_ratio)} what one token per pass allows: a server that drafts may be so fast, "
            f"{sign}"
        ),
        figures={"ratio": seen.draft_ratio, "paced_share": seen.paced_share},
        remedy="say how many tokens a pass yields: tokens_per_pass=2.8, or tokens_per_pass=1 where nothing is drafted",
    )


def held_back(evidence: Evidence) -> Finding | None:
    """Output that came faster than it can be made, while the whole request was not too fast: it had been waiting."""
    seen, fraction = evidence.exchanged, evidence.fraction
    if seen is None or seen.is_aggregate or fraction is None or seen.draft_ratio is not None:
        return None
    if fraction.low <= SHEET_SLACK or faster_than_limit(evidence) is not None:
        return None
    return Finding(
        check="ceiling-unsure",
        severity="inconclusive",
        message=(
            f"between first and last output the tokens came {format_ratio(fraction.low)} as fast as the stated "
            "ceiling, from sending to last they did not: the first ones were held back on the way (a proxy or a server "
            "that buffers)"
        ),
        figures={"fraction_low": fraction.low},
        remedy="ask for more tokens, or switch the buffering of answers off (X-Accel-Buffering: no)",
    )


def above_stated(evidence: Evidence) -> Finding | None:
    """All together above the stated ceiling by more than its slack, caches allowed for.

    That convicts nobody, for there may be more devices than were stated; but nothing honest of those stated does it.
    """
    seen, bounds = evidence.exchanged, fraction_bounds(evidence)
    if seen is None or not seen.is_aggregate or seen.slack is None or bounds is None or bounds.low <= seen.slack:
        return None
    return Finding(
        check="ceiling-unsure",
        severity="inconclusive",
        message=(
            f"in aggregate {format_fraction(bounds.low)} of the stated ceiling at least, by {seen.tokens} tokens in "
            f"{seen.chunks} events: more devices than were stated, tokens counted that were not sent, several tokens "
            "per pass, or another model"
        ),
        figures={"fraction_low": bounds.low, "slack": seen.slack, "tokens": seen.tokens, "chunks": seen.chunks},
        remedy=(
            "state all devices behind the address (tp=), weights= and tokens_per_pass=, and have the server send token "
            "ids, which settle how many there were"
        ),
    )


def answers_replayed(evidence: Evidence) -> Finding | None:
    """A repeated prompt is answered from memory: where the measured ones were repeated, too, nothing was measured."""
    seen = evidence.exchanged
    if seen is None or seen.replay is None:
        return None
    replay = seen.replay
    message = (
        f"a repeated prompt is answered from memory: {replay.tokens} tokens in {format_seconds(replay.repeated_s)}, "
        f"the same text took {format_seconds(replay.fresh_s)} when the prompt was new "
        f"({format_ratio(replay.fresh_s / replay.repeated_s)})"
    )
    figures = {"tokens": replay.tokens, "repeated_s": replay.repeated_s, "fresh_s": replay.fresh_s}
    if seen.are_prompts_fresh:
        text = f"{message}; the prompts that were measured were all new"
        return Finding(check="stale-output", severity="note", message=text, figures=figures)
    return Finding(
        check="stale-output",
        severity="inconclusive",
        message=f"{message}, and so may have been those that were measured",
        figures=figures,
        remedy="measure with fresh prompts (fresh=True), or switch the server's cache of answers off",
    )


def answers_too_few(evidence: Evidence) -> Finding | None:
    """The budget lies inside of what the requests tell, or none of them tells anything."""
    seen, noise = evidence.exchanged, evidence.fraction
    if seen is None or evidence.at_least is None or evidence.ceiling is None or seen.tokens is None:
        return None
    figures = {
        "answered": seen.answered,
        "fraction_low": noise.low if noise else None,
        "fraction_high": noise.high if noise else None,
    }
    if noise is None:
        message = "no answer has two outputs with tokens between them, so there is no time per token"
    elif noise.clears(evidence.at_least) is None:
        message = (
            f"{seen.answered} answers put the fraction between {format_fraction(noise.low)} and "
            f"{format_fraction(noise.high)}: the budget of {format_fraction(evidence.at_least)} is inside"
        )
    else:
        return None
    return Finding(
        check="too-few-samples",
        severity="inconclusive",
        message=message,
        figures=figures,
        remedy=(
            "have the server say how many tokens an event holds (logprobs, token ids, usage in every event)"
            if noise is not None and not seen.is_aggregate and seen.tokens > seen.chunks * (1 + SEVERAL)
            else "ask for more tokens (tokens=) of more requests (requests=)"
        ),
    )
