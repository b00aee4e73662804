"""What is made of a server's answers, with times that a test states: figures, fractions, and who is accused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_roofline.device import Spec
from pytest_roofline.errors import BelowCeiling
from pytest_roofline.machine import Machine
from pytest_roofline.outcome import outcome_of, sources_of
from pytest_roofline.result import Result
from pytest_roofline.settings import Settings, parse_budget
from pytest_roofline.stated_roof import UNSTATED, StatedRoof
from pytest_roofline.stream_events import Usage
from pytest_roofline.stream_figures import StreamFigures, overlap
from pytest_roofline.stream_trial import prefix_notes, remedy_of, replay_of
from pytest_roofline.stream_verdicts import Bars, Observed, Verdicts, paced_share
from pytest_roofline.streaming import Arrival, Exchange
from pytest_roofline.traffic import Traffic
from pytest_roofline.verdict import error_of

BANDWIDTH = 1e12
WEIGHTS, CACHE = 10e9, 1e6
"""A pass of 10 ms, and a megabyte of cache per token and sequence."""


def exchange(
    start_s: float = 0.0, *, ttft_s: float = 0.1, gap_s: float = 0.0125, tokens: int = 65, each: int = 1, **more: Any
) -> Exchange:
    """One answer: `tokens` tokens, `each` in an event, so far apart."""
    times = [start_s + ttft_s + gap_s * number for number in range(-(-tokens // each))]
    return Exchange(
        **{
            "prompt": "p",
            "start_s": start_s,
            "end_s": times[-1],
            "arrivals": tuple(Arrival(at_s=at, tokens=each) for at in times),
            "useful_s": times[0],
            "usage": Usage(prompt_tokens=0, completion_tokens=tokens),
            "finish_reason": "length",
            "text": "words",
            "asked_tokens": tokens,
            **more,
        }
    )


def traffic_at(batch: int, context: int) -> Traffic:
    """Weights once, and the cache of every sequence."""
    bytes_ = WEIGHTS + batch * context * CACHE
    return Traffic(bytes_per_pass=bytes_, least_bytes_per_pass=bytes_)


def roof(**more: Any) -> StatedRoof:
    """One device of 1 TB/s by its sheet."""
    ranks = more.pop("ranks", 1)
    machine = Machine(name="Card", bandwidth_bytes_per_s=BANDWIDTH, bandwidth_source="sheet", ranks=ranks)
    return StatedRoof(**{"machine": machine, "device": UNSTATED, "traffic_at": traffic_at, **more})


def judged(
    exchanges: list[Exchange],
    *,
    stated: StatedRoof | None = None,
    is_stated: bool = False,
    per_user: float | None = None,
    aggregate: float | None = None,
    at_once: int = 1,
    **observed: Any,
) -> Result:
    """The result per user."""
    figures = StreamFigures(exchanges=tuple(exchanges), asked_at_once=at_once)
    return Verdicts(
        Observed(**{"figures": figures, "asked_tokens": 65, **observed}),
        roof=stated or roof(),
        device=UNSTATED,
        settings=Settings(),
        label="server",
        bars=Bars(per_user=parse_budget(per_user, "x"), aggregate=parse_budget(aggregate, "x")),
        is_tokens_per_pass_stated=is_stated,
    ).result()


def found(result: Result) -> set[tuple[str, str]]:
    """Check and severity of each finding."""
    return {(finding.check, finding.severity) for finding in result.findings}


def row(count: int, **more: Any) -> list[Exchange]:
    """Requests one after the other."""
    return [exchange(2.0 * number, **more) for number in range(count)]


def test_a_fraction_is_of_the_ceiling_at_what_was_seen() -> None:
    """12.5 ms per token where weights and 33 tokens of cache take 10.03 ms: 80 %, alone."""
    result = judged(row(6), per_user=0.7)
    assert result.verdict.outcome == "passed"
    assert float(result.fraction) == pytest.approx(10.0325 / 12.5, rel=1e-3)
    assert result.tokens_per_s_per_user == pytest.approx(80.0)
    missed = judged(row(6), per_user=0.9)
    assert str(error_of(missed.evidence, missed.verdict)).splitlines()[0] == (
        "80 % of the stated (Card) ceiling (80.0 of 99.7 tok/s per user), the test asks for 90 %; memory-bound"
    )


def test_in_aggregate_four_at_once_share_the_weights() -> None:
    """Four answers beside each other: each at 80 %, and the aggregate rate is held against four per pass."""
    result = judged([exchange() for _ in range(4)], per_user=0.7, aggregate=0.6, at_once=4)
    assert result.aggregate is not None
    assert result.stream is not None
    assert result.stream.decoding_at_once == pytest.approx(4.0)
    assert (result.verdict.outcome, result.aggregate.verdict.outcome) == ("passed", "passed")
    assert result.aggregate.tokens_per_s == pytest.approx(4 * 65 / 0.9)
    assert float(result.aggregate.fraction) == pytest.approx(65 / 0.9 * 10.13e-3, rel=1e-3)


def test_a_mean_between_two_numbers_of_sequences_decides_only_what_both_do() -> None:
    """One and a half at once: the aggregate lies between the ceilings at one and at two."""
    result = judged([exchange(), exchange(0.45)], aggregate=0.5, at_once=2)
    assert result.aggregate is not None
    assert result.aggregate.verdict.bounds is not None
    assert result.aggregate.verdict.bounds.low < result.aggregate.verdict.bounds.high


def test_faster_than_a_token_per_pass_is_bogus_where_nothing_is_drafted() -> None:
    """2 ms per token, evenly: passes of 10 ms would have left pauses."""
    for is_stated in (True, False):
        result = judged(row(6, gap_s=0.002, ttft_s=0.002), is_stated=is_stated)
        assert result.verdict.outcome == "bogus"
        assert ("faster-than-limit", "bogus") in found(result)


def test_bursts_of_a_server_that_drafts_accuse_nobody() -> None:
    """Five tokens in each event, 12 ms apart: undecided with the ratio, judged once tokens_per_pass is stated."""
    drafting = row(6, each=5, gap_s=0.012, ttft_s=0.012)
    result = judged(drafting)
    assert result.verdict.outcome == "inconclusive"
    assert ("ceiling-unsure", "inconclusive") in found(result)
    assert "say how many tokens a pass yields" in result.findings[0].remedy
    stated = judged(drafting, stated=roof(tokens_per_pass=5.0), is_stated=True, per_user=0.7)
    assert stated.verdict.outcome == "passed"
    assert judged(drafting, is_stated=True).verdict.outcome == "bogus"


def test_more_than_any_draft_yields_is_bogus_however_it_comes() -> None:
    """A hundred and thirty tokens per pass; what an n-gram draft of llama-server may yield accuses nobody."""
    assert judged(row(6, tokens=390, each=130, gap_s=0.012, ttft_s=0.012)).verdict.outcome == "bogus"
    assert judged(row(6, tokens=195, each=49, gap_s=0.012, ttft_s=0.012)).verdict.outcome == "inconclusive"


def test_output_that_was_held_back_is_undecided_and_not_bogus() -> None:
    """A proxy that gives all tokens together after a second: from sending to last it is not too fast."""
    result = judged(row(6, gap_s=0.0001, ttft_s=1.0), is_stated=True)
    assert result.verdict.outcome == "inconclusive"
    assert any("held back on the way" in finding.message for finding in result.findings)


def test_short_answers_accuse_nobody() -> None:
    """Seven tokens in no time are no evidence."""
    assert ("faster-than-limit", "bogus") not in found(judged(row(6, tokens=7, gap_s=1e-5, ttft_s=1e-5)))


def test_in_aggregate_nobody_is_accused() -> None:
    """More than a device can do by all together may be several of them: undecided. Each request convicts by itself."""
    result = judged(row(6, gap_s=0.002, ttft_s=0.002)[:1], is_stated=True)
    assert result.aggregate is not None
    assert (result.verdict.outcome, result.aggregate.verdict.outcome) == ("bogus", "inconclusive")
    assert ("ceiling-unsure", "inconclusive") in found(result.aggregate)


@pytest.mark.parametrize(("slack", "outcome"), [(1.05, "inconclusive"), (1.25, "passed")])
def test_in_aggregate_nothing_above_the_stated_ceiling_passes(slack: float, outcome: str) -> None:
    """A usage of twice the tokens that were sent: 115 % of a data sheet's ceiling, and within what is less sure."""
    doubled = exchange(gap_s=0.0175, ttft_s=0.0175, each=2, tokens=200, asked_tokens=200)
    together = judged([doubled], stated=roof(slack=slack)).aggregate
    assert together is not None
    assert together.fraction == pytest.approx(1.155, rel=0.01)
    assert together.verdict.outcome == outcome
    if outcome == "inconclusive":
        (finding,) = together.findings
        assert (finding.check, finding.severity) == ("ceiling-unsure", "inconclusive")
        assert finding.message == (
            "in aggregate 115 % of the stated ceiling at least, by 200 tokens in 100 events: more devices than were "
            "stated, tokens counted that were not sent, several tokens per pass, or another model"
        )
        assert "(tp=)" in finding.remedy


def test_no_stated_ceiling_is_called_probed() -> None:
    """Twice the ceiling, by whichever reading: what was stated is said to be stated."""
    for result in (judged(row(1, gap_s=0.005, ttft_s=0.005)), judged(row(6, gap_s=0.0001, ttft_s=1.0), is_stated=True)):
        assert result.aggregate is not None
        said = [finding.message for one in (result, result.aggregate) for finding in one.findings]
        assert said
        assert not any("probed" in message for message in said)
        assert any("stated ceiling" in message for message in said)


def test_whose_budget_was_missed_and_which_argument_gave_it() -> None:
    """Per user or in aggregate, and the argument of the call."""
    missed = judged(row(6), per_user=0.9, aggregate=0.9)
    assert missed.aggregate is not None
    outcome = outcome_of([missed, missed.aggregate], [], Settings())
    assert isinstance(outcome.error, BelowCeiling)
    first, *_, user, other = str(outcome.error).splitlines()
    assert "of the stated (Card) ceiling (80.0 of 99.7 tok/s per user), the test asks for 90 %" in first
    assert user == "  budget: at_least=0.9 from at_least_per_user= of roofline.stream"
    assert other.startswith("  and server, in aggregate: ")
    assert "tok/s in aggregate), the test asks for 90 %" in other
    assert sources_of(missed.aggregate, Settings())["at_least_from"] == "at_least_aggregate= of roofline.stream"
    by_marker = replace(Settings(), at_least=parse_budget(0.9, "the marker"))
    assert sources_of(judged(row(6)), by_marker)["at_least_from"] == "the marker"


def test_a_server_that_counts_nothing_says_so_in_a_note_and_in_doubt() -> None:
    """No budget: passed, with a note. An assertion about the fraction: undecided, for that reason and not for noise."""
    result = judged([replace(one, usage=Usage()) for one in row(6)])
    assert result.verdict.outcome == "passed"
    assert any(note.startswith("the server does not say how many tokens it sent") for note in result.notes)
    assert not result.fraction >= 0.1
    outcome = outcome_of([result], [], Settings())
    assert outcome.is_inconclusive
    assert outcome.reason == (
        "server, per user: the fraction is not known (the server does not say how many tokens it sent: no usage, no "
        "ids and no log probabilities), which does not decide >= 10 %"
    )


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("HTTP 401: bad key", "api_key="),
        ("HTTP 404: no such path", "it ends in /v1"),
        ("HTTP 400: stream_options is unknown", "body= adds keys"),
        ("HTTP 429: slow down", "concurrency="),
        ("HTTP 500: model overloaded", "server's log"),
        ("ReadTimeout: timed out", "timeout_s="),
        ("ConnectError: refused", "whether a server runs there"),
        ("no stream of events, but text/html: hello", "it ends in /v1"),
        ("an answer without any output, of which usage counts 40 tokens", "tokens="),
        ("CUDA out of memory", "look into its log"),
        ("RemoteProtocolError: peer closed connection", "look into its log"),
    ],
)
def test_each_failure_has_the_remedy_that_fits(error: str, remedy: str) -> None:
    """An address that answers is right: it is named only where it may be wrong."""
    said = remedy_of(error)
    assert remedy in said
    assert ("/v1" in said) == error.startswith(("HTTP 404", "ConnectError", "no stream"))


def test_a_replay_is_named() -> None:
    """Fresh prompts: a note. Repeated ones: no verdict. Beyond the limit: bogus, by the limit."""
    fresh, repeated = exchange(), exchange(ttft_s=0.001, gap_s=1e-5)
    replay = replay_of(fresh, repeated)
    assert replay is not None
    assert ("stale-output", "note") in found(judged(row(6), replay=replay))
    result = judged(row(6), replay=replay, are_prompts_fresh=False)
    assert ("stale-output", "inconclusive") in found(result)
    assert "a repeated prompt is answered from memory: 65 tokens in" in result.findings[0].message
    bogus = judged([exchange(ttft_s=1e-3, gap_s=1e-5)], replay=replay, are_prompts_fresh=False)
    assert bogus.verdict.outcome == "bogus"
    assert ("stale-output", "inconclusive") in found(bogus)


def test_another_text_or_a_ninth_of_the_time_is_no_replay() -> None:
    """Greedy decoding gives the same text, and a warm machine is faster."""
    assert replay_of(exchange(), exchange(ttft_s=0.001, gap_s=1e-5, text="others")) is None
    assert replay_of(exchange(), exchange(ttft_s=0.0, gap_s=0.0125 / 8)) is None
    assert replay_of(exchange(), exchange(ttft_s=0.0, gap_s=1e-6, error="lost")) is None


def test_a_sooner_first_token_of_a_repeated_prompt_is_said() -> None:
    """Where the server counts no cached tokens, the time alone speaks, as likely."""
    (note,) = prefix_notes(exchange(ttft_s=0.5), exchange(ttft_s=0.1))
    assert note.startswith("a repeated prompt is answered sooner (TTFT 100 ms instead of 500 ms)")
    assert prefix_notes(exchange(), exchange()) == []


def test_log_probabilities_that_fall_short_accuse_nobody() -> None:
    """Servers leave some out: no verdict, and what would settle it."""
    result = judged(row(6, logprobs=40))
    assert result.verdict.outcome == "inconclusive"
    assert "log probabilities of 240 were sent" in result.findings[0].message
    assert judged(row(6, logprobs=64, finish_reason="stop"), per_user=0.7).verdict.outcome == "passed"


def test_caches_of_a_stated_card_are_taken_off_the_limit() -> None:
    """What its last level holds of a pass need not come from memory."""
    spec = Spec(name="Card", memory_bytes=1e12, bandwidth_bytes_per_s=1e12, source="s", last_level_cache_bytes=9.9e9)
    device = UNSTATED.__class__(name="Card", kind="remote", backend="remote", spec=spec)
    result = judged(row(6, gap_s=0.002, ttft_s=0.002), stated=roof(device=device), is_stated=True)
    assert result.verdict.outcome != "bogus"


def test_arithmetic_of_others_accuses_nobody() -> None:
    """Eight at once do eight times the arithmetic in a pass, but nobody knows that they were in the fastest one's."""

    def heavy(batch: int, context: int) -> Traffic:
        return replace(traffic_at(batch, context), flops_per_pass=batch * 1e12, dtype="bfloat16")

    machine = Machine(
        name="Card", bandwidth_bytes_per_s=BANDWIDTH, bandwidth_source="sheet", peak_flops_per_s={"bfloat16": 2e14}
    )
    eight = [exchange() for _ in range(8)]
    result = judged(eight, stated=roof(machine=machine, traffic_at=heavy), is_stated=True)
    assert result.verdict.outcome != "bogus", [finding.message for finding in result.findings]
    alone = judged(row(6, gap_s=0.011, ttft_s=0.011), stated=roof(machine=machine, traffic_at=heavy), is_stated=True)
    assert alone.verdict.outcome == "passed"


def test_two_ranks_have_twice_the_bandwidth() -> None:
    """The floor halves, and with it the fraction."""
    assert float(judged(row(6), stated=roof(ranks=2)).fraction) == pytest.approx(10.0325 / 25, rel=1e-3)


def test_a_model_that_does_not_fit_is_said() -> None:
    """Ten gigabytes on a card of eight: whatever runs there, it is another model."""
    machine = Machine(name="Card", bandwidth_bytes_per_s=1e12, bandwidth_source="sheet", memory_bytes=8e9)
    notes = judged(row(6), stated=roof(machine=machine)).notes
    assert any(note.startswith("the stated model cannot run there: 10.0 GB per pass, 1 x 8.00 GB") for note in notes)


def test_overlap_is_weighted_by_time() -> None:
    """Two together for half of the time are one and a half; gaps do not count."""
    assert overlap([(0, 2), (1, 2)]) == pytest.approx(1.5)
    assert overlap([(0, 1), (5, 6)]) == pytest.approx(1.0)
    assert overlap([]) == 0.0


def test_the_time_of_what_came_with_the_first_event_is_not_counted() -> None:
    """Twelve tokens, four in each of three events: eight of them lie between the first and the last."""
    assert exchange(tokens=12, each=4, gap_s=0.4).tpot_s == pytest.approx(0.1)
    assert exchange(tokens=1).tpot_s is None


def test_pace_is_the_share_of_long_pauses() -> None:
    """Of even small pauses nothing, of bursts all."""
    assert paced_share(exchange(gap_s=0.002), 0.01) == 0.0
    assert paced_share(exchange(gap_s=0.012), 0.01) == pytest.approx(1.0)
    assert paced_share(exchange(tokens=1), 0.01) == 0.0


def waiting_first(start_s: float, *, together: int, spread_s: float, gap_s: float, tokens: int = 65) -> Exchange:
    """An answer whose first tokens are let go within `spread_s` after a second, and the others as they are made."""
    times = [start_s + 1.0 + spread_s * number / together for number in range(together)]
    times += [times[-1] + gap_s * number for number in range(1, tokens - together + 1)]
    return exchange(
        start_s,
        tokens=tokens,
        end_s=times[-1],
        arrivals=tuple(Arrival(at_s=at, tokens=None) for at in times),
        useful_s=times[0],
    )


@pytest.mark.parametrize("spread_s", [0.0, 0.003, 0.2])
def test_output_that_waited_for_the_first_raises_no_fraction(spread_s: float) -> None:
    """A pass of 10 ms and a token in 25 ms are 40 %; half of them let go at once would look like 80 %."""
    held = [waiting_first(3.0 * number, together=33, spread_s=spread_s, gap_s=0.025) for number in range(6)]
    result = judged(held, per_user=0.6)
    assert float(result.fraction) == pytest.approx(10.03e-3 / 25e-3, rel=0.01)
    assert result.verdict.outcome == "failed"
    assert result.tokens_per_s_per_user == pytest.approx(40.0)
    assert result.stream is not None
    assert result.stream.to_dict()["tpot_s"]["p50"] == pytest.approx(0.025)


def test_two_tokens_read_together_at_first_change_little() -> None:
    """As a busy client reads them: the time of the others is what it was."""
    read_late = [waiting_first(2.0 * number, together=2, spread_s=0.0, gap_s=0.0125) for number in range(6)]
    assert float(judged(read_late).fraction) == pytest.approx(10.0325 / 12.5, rel=1e-3)


def test_bursts_that_a_busy_client_reads_late_are_bursts() -> None:
    """Five tokens a pass of 12 ms, each an event that takes 1.5 ms to read: pauses of 6 ms between them, not of 12."""

    def read_slowly(start_s: float) -> Exchange:
        times = [start_s + 0.012 * (1 + number // 5) + 0.0015 * (number % 5) for number in range(65)]
        arrivals = tuple(Arrival(at_s=at, tokens=None) for at in times)
        return exchange(start_s, end_s=times[-1], arrivals=arrivals, useful_s=times[0])

    result = judged([read_slowly(2.0 * number) for number in range(6)])
    assert result.verdict.outcome == "inconclusive"
    assert "say how many tokens a pass yields" in result.findings[0].remedy


def test_a_client_that_was_held_up_amid_a_burst_makes_nobody_a_cheat() -> None:
    """Five tokens a pass of 10 ms, and 5 ms in which nothing was read: eight pauses then, and time for seven passes."""

    def read_late(start_s: float) -> Exchange:
        made = [start_s + 0.01 * (number // 5) + 0.0002 * (number % 5) for number in range(40)]
        times = [start_s + 0.0351 if start_s + 0.0301 < at < start_s + 0.0351 else at for at in made]
        return exchange(
            start_s - 0.01,
            tokens=40,
            end_s=times[-1],
            arrivals=tuple(Arrival(at_s=at, tokens=None) for at in times),
            useful_s=times[0],
        )

    answers = [read_late(1.0 + number) for number in range(6)]
    assert sum(gap >= 0.0048 for gap in answers[0].gaps_s) == 8
    result = judged(answers)
    assert result.verdict.outcome == "inconclusive"
    assert ("ceiling-unsure", "inconclusive") in found(result)


def test_output_that_came_all_together_may_have_been_drafted() -> None:
    """No pace is left to see through such a proxy. Who states what a pass yields is held to it; so is an even pace."""
    held = row(6, gap_s=0.0, ttft_s=0.2)
    result = judged(held)
    assert result.verdict.outcome == "inconclusive"
    assert any(
        "its output came all together, so that its pace cannot be seen" in finding.message
        for finding in result.findings
    )
    assert judged(held, is_stated=True).verdict.outcome == "bogus"
    assert judged(row(6, gap_s=0.002, ttft_s=0.07)).verdict.outcome == "bogus"


def test_a_server_that_says_that_it_drafts_is_not_accused_of_it() -> None:
    """In an even stream no pace is left to see. Its word makes no rate, and nobody else's silence one."""
    for drafted, outcome in ((48, "inconclusive"), (None, "bogus")):
        usage = Usage(prompt_tokens=0, completion_tokens=65, drafted_tokens=drafted, accepted_tokens=drafted)
        result = judged(row(6, gap_s=0.003, ttft_s=0.003, usage=usage))
        assert result.verdict.outcome == outcome
    said = judged(row(6, gap_s=0.0, ttft_s=0.2, usage=replace(usage, drafted_tokens=48, accepted_tokens=48)))
    assert any(
        "a server that drafts may be so fast, and this one says that it does" in one.message for one in said.findings
    )
    assert judged(row(6, gap_s=0.0, ttft_s=0.002, usage=replace(usage, drafted_tokens=48))).verdict.outcome == "bogus"


def test_an_even_pace_of_half_a_pass_is_no_burst() -> None:
    """Every pause is over half a pass, but from one to the next it is no whole one: bogus, as before."""
    assert paced_share(exchange(gap_s=0.006), 0.01) == 0.0
    assert judged(row(6, gap_s=0.006, ttft_s=0.006)).verdict.outcome == "bogus"


def test_reasoning_that_came_unseen_is_in_no_time_per_token() -> None:
    """65 tokens of which 32 are hidden reasoning before the first of 33 ids: 32 of them lie in the time."""
    arrivals = tuple(Arrival(at_s=1.0 + 0.0125 * number, tokens=1) for number in range(33))
    usage = Usage(prompt_tokens=0, completion_tokens=65, reasoning_tokens=32)
    seen = exchange(arrivals=arrivals, end_s=1.4, usage=usage, ids=33)
    assert seen.tpot_s == pytest.approx(0.0125)
    running = replace(seen, ids=None, arrivals=(Arrival(at_s=1.0, tokens=33), *arrivals[1:]))
    assert running.tpot_s == pytest.approx(0.0125)


def parsed(start_s: float, *, ttft_s: float) -> Exchange:
    """65 tokens by usage in 33 events of 25 ms: the others were hidden by a parser, or two each came together."""
    times = [start_s + ttft_s + 0.025 * number for number in range(33)]
    arrivals = tuple(Arrival(at_s=at, tokens=None) for at in times)
    return exchange(start_s, end_s=times[-1], arrivals=arrivals, useful_s=times[0])


def test_tokens_that_a_parser_may_have_hidden_decide_nothing() -> None:
    """There was time for 32 of them before the first event: 12.5 ms a token, or 25; 60 % lies between."""
    result = judged([parsed(3.0 * number, ttft_s=0.9) for number in range(6)], per_user=0.6)
    assert result.verdict.outcome == "inconclusive"
    assert result.verdict.bounds is not None
    assert result.verdict.bounds.low == pytest.approx(10.03 / 25, rel=0.02)
    assert result.verdict.bounds.high == pytest.approx(10.03 / 12.5, rel=0.02)
    (found,) = [finding for finding in result.findings if finding.check == "too-few-samples"]
    assert found.remedy.startswith("have the server say how many tokens an event holds")
    assert judged([parsed(3.0 * number, ttft_s=0.9) for number in range(6)], per_user=0.3).verdict.outcome == "passed"
    assert judged([parsed(3.0 * number, ttft_s=0.9) for number in range(6)], per_user=0.9).verdict.outcome == "failed"


def test_tokens_for_which_there_was_no_time_came_in_the_events() -> None:
    """Of 20 ms before the first event two tokens can have been hidden: the others came two by two."""
    result = judged([parsed(3.0 * number, ttft_s=0.02) for number in range(6)], per_user=0.7)
    assert result.verdict.outcome == "passed"
    assert result.verdict.bounds is not None
    assert result.verdict.bounds.low > 0.95 * result.verdict.bounds.high


def test_events_that_say_their_tokens_leave_no_doubt() -> None:
    """Two ids in each: 12.5 ms, whatever came before the first."""
    times = [0.9 + 0.025 * number for number in range(33)]
    arrivals = tuple(Arrival(at_s=at, tokens=2 if number else 1) for number, at in enumerate(times))
    sure = exchange(end_s=times[-1], arrivals=arrivals, ids=65)
    assert sure.slowest_tpot(0.01) == sure.tpot_behind(0.01) == pytest.approx(0.0125)
