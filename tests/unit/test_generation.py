"""The ledger of a generation: which ids are new, how many its passes can have yielded, and what a pass of it moves."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.checks.amounts import ids_without_passes
from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.checks.generated import Generated
from pytest_roofline.checks.work import passes_idle
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.generation import Look, Pass, Run, generation_request, new_ids
from pytest_roofline.generation_traffic import idle_passes, traffic_of_passes, traffic_of_runs, with_draft
from pytest_roofline.traffic import Traffic

END, PAD = 2, 0


def run(passes: int = 10, *, tokens: int | None = None, sequences: int = 1, **figures: Any) -> Run:
    """A prefill of 8 tokens and so many decode passes of 10 ms."""
    length = passes + 1 if tokens is None else tokens
    return Run(
        **{
            "start_s": 0.0,
            "first_token_s": 0.05,
            "end_s": 0.05 + 0.01 * passes,
            "prefill": (Pass(rows=sequences, positions=8),),
            "decode": (Pass(rows=sequences, positions=1),) * passes,
            "prompt_tokens": 8,
            "context": 8.0,
            "ids": (tuple(range(100, 100 + length)),) * sequences,
            **figures,
        }
    )


def traffic(size: float = 1e9, **figures: Any) -> Traffic:
    """A traced pass that moves so many bytes."""
    return Traffic(
        **{
            "bytes_per_pass": size,
            "least_bytes_per_pass": size,
            "weight_bytes_per_pass": size,
            "source": "traced",
            "is_closed": True,
            **figures,
        }
    )


# -- ids ----------------------------------------------------------------------------------------------------------


def ids(*rows: list[int], padding: int | None = PAD) -> tuple[tuple[int, ...], ...]:
    """The new ids behind a prompt of two."""
    return new_ids(rows, 2, ends=frozenset({END, 3}), padding=padding)


def test_the_prompt_is_no_token_and_the_end_is_one() -> None:
    """A pass computed the end of the sequence; what stands behind it was computed for nobody."""
    assert ids([9, 9, 5, 6, 7]) == ((5, 6, 7),)
    assert ids([9, 9, 5, END, 7, 8]) == ((5, END),)
    assert ids([9, END, 5, 3, END]) == ((5, 3),)


def test_padding_behind_a_sequence_is_no_token() -> None:
    """A sequence that a stop string ended is padded to the length of the others."""
    assert ids([9, 9, 5, 6, 7, 8], [9, 9, 5, PAD, PAD, PAD]) == ((5, 6, 7, 8), (5,))


def test_a_pad_id_that_was_generated_counts() -> None:
    """A lone sequence is not padded, and neither is the longest of several."""
    assert ids([9, 9, 5, PAD, PAD]) == ((5, PAD, PAD),)
    assert ids([9, 9, 5, PAD], [9, 9, 6, PAD]) == ((5, PAD), (6, PAD))
    assert ids([9, 9, 5, PAD], [9, 9, 6, 7], padding=None) == ((5, PAD), (6, 7))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), min_size=7, max_size=7), min_size=1, max_size=4))
def test_new_ids_are_beginnings_of_what_stands_behind_the_prompt(rows: list[list[int]]) -> None:
    """Never more than was returned, in order, and an end stands at the end alone."""
    for row, found in zip(rows, ids(*rows), strict=True):
        assert row[2 : 2 + len(found)] == list(found)
        assert not any(one in (END, 3) for one in found[:-1])


# -- a run --------------------------------------------------------------------------------------------------------


def test_the_first_token_is_the_prefills_and_the_others_the_decode_passes() -> None:
    """TTFT and the time of a pass share nothing."""
    one = run(10)
    assert one.ttft_s == pytest.approx(0.05)
    assert one.step_s == pytest.approx(0.01)
    assert (one.tokens, one.decode_tokens, one.decode_passes, one.draft_passes) == (11, 10, 10, 0)
    assert one.possible_tokens == 11


def test_the_context_of_the_passes_is_the_mean_of_those_that_ran() -> None:
    """The first of ten sees the prompt of 8, the last 9 tokens more."""
    assert run(10).mean_context == 12.5
    assert run(1).mean_context == 8.0
    # Three tokens a pass: 8, 11, 14, 17.
    assert run(4, tokens=13).mean_context == 12.5
    # Two tokens were verified in the prefill, so the first pass begins one later.
    assert run(4, tokens=6, first_tokens=2).mean_context == 9 + 1.5


def test_a_draft_is_counted_apart() -> None:
    """Its passes are nobody's tokens, and no time is divided by them."""
    verified = (Pass(rows=1, positions=1, is_draft=True),) * 3 + (Pass(rows=1, positions=4),)
    one = run(5, decode=verified * 5, ids=(tuple(range(16)),))
    assert (one.decode_passes, one.draft_passes, one.decode_tokens) == (5, 15, 15)
    assert one.possible_tokens == 21
    assert one.growth_per_pass == 3.0


def test_guesses_that_the_prefill_verified_are_its_own() -> None:
    """Speculative decoding hands guesses to the prefill as well; what it yields is not the decode passes'."""
    one = run(2, prefill=(Pass(rows=1, positions=10),), ids=((1, 2, 3, 4, 5),), first_tokens=3)
    assert one.decode_tokens == 2
    assert one.possible_tokens == 5


def test_a_prefill_in_chunks_yields_one_token() -> None:
    """The chunks add up to the prompt."""
    one = run(3, prefill=(Pass(rows=2, positions=4), Pass(rows=2, positions=4)), sequences=2)
    assert one.possible_tokens == 8
    assert one.tokens == 8


def test_without_a_first_token_the_whole_run_is_the_window() -> None:
    """Nobody showed when it came: then every pass and all of the time count."""
    one = run(3, first_token_s=None, end_s=0.4, tokens=4)
    assert (one.ttft_s, one.decode_s, one.decode_passes, one.decode_tokens) == (None, 0.4, 4, 4)


def test_passes_that_hide_their_positions_accuse_nobody() -> None:
    """Then nothing is known of what they can have yielded."""
    assert run(3, decode=(Pass(rows=None, positions=None),)).possible_tokens is None
    assert run(3, prefill=(Pass(rows=None, positions=None),)).possible_tokens is None


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 6))
def test_an_honest_run_never_has_more_tokens_than_positions(passes: int, sequences: int, guesses: int) -> None:
    """However many guesses a pass verifies, and however many of them hold."""
    decode = (Pass(rows=sequences, positions=guesses),) * passes
    longest = 1 + passes * guesses
    one = run(passes, sequences=sequences, decode=decode, ids=(tuple(range(longest)),) * sequences)
    assert one.possible_tokens is not None
    assert one.tokens <= one.possible_tokens


# -- bytes --------------------------------------------------------------------------------------------------------


def test_the_bytes_are_those_of_all_passes_that_ran() -> None:
    """Three passes were traced at contexts 8, 9 and 10; ten passes have a mean context of 12.5."""
    kv = 1000.0
    traced = tuple(
        (number, traffic(1e6 + kv * (7 + number), kv_bytes_per_token=kv, context=7 + number, batch=1))
        for number in (1, 2, 3)
    )
    one = run(10)
    base = traffic_of_passes(Look(run=one, traced=traced))
    assert base is not None
    assert base.context == 9
    assert traffic_of_runs(base, None, [one], 0.0).bytes_per_pass == pytest.approx(1e6 + kv * 12.5)
    # A run of two passes and one of ten: each pass counts once.
    mixed = traffic_of_runs(base, None, [one, run(2)], 0.0)
    assert mixed.bytes_per_pass == pytest.approx(1e6 + kv * (10 * 12.5 + 2 * 8.5) / 12)


def test_a_pass_that_skips_its_work_lowers_the_bytes_of_all() -> None:
    """Skipping every other pass does not make the others' bytes count twice; one open trace opens them all."""
    traced = ((1, traffic(3e6)), (2, traffic(1.0, is_closed=False)), (3, traffic(3e6)))
    base = traffic_of_passes(Look(run=run(), traced=traced))
    assert base is not None
    assert base.bytes_per_pass == pytest.approx(2e6, rel=1e-3)
    assert not base.is_closed
    assert traffic_of_passes(Look(run=run())) is None


def test_the_drafts_reads_are_added() -> None:
    """Once from memory for sure; each further time what a cache cannot have kept."""
    whole = with_draft(traffic(1e9), traffic(1e8), 4.0, 0.0)
    assert whole.bytes_per_pass == pytest.approx(1.4e9)
    assert whole.least_bytes_per_pass == pytest.approx(1.1e9)
    assert whole.footprint_bytes == pytest.approx(1.1e9)
    assert with_draft(traffic(1e9), traffic(1e8), 4.0, 3e7).bytes_per_pass == pytest.approx(1e9 + 1e8 + 3 * 7e7)
    assert with_draft(traffic(1e9), traffic(1e8), 4.0, 1e9).bytes_per_pass == pytest.approx(1.1e9)
    assert with_draft(traffic(1e9), traffic(1e8), 0.5, 0.0).bytes_per_pass == pytest.approx(1.05e9)


def test_without_a_draft_nothing_is_added() -> None:
    """Neither where there is none nor where it ran no pass."""
    assert with_draft(traffic(), None, 3.0, 0.0) == traffic()
    assert with_draft(traffic(), traffic(1e8), 0.0, 0.0) == traffic()


# -- the check ----------------------------------------------------------------------------------------------------


def judged(**figures: Any) -> Any:
    """The finding for a run of 12 tokens."""
    seen = Generated(**{"tokens": 12, "possible_tokens": 0, "passes": 0, **figures})
    return ids_without_passes(Evidence(kind="generate", generated=seen))


def test_ids_that_passes_explain_are_fine() -> None:
    """Also more positions than ids, as finished sequences and refused guesses leave them."""
    assert judged(possible_tokens=12, passes=12) is None
    assert judged(possible_tokens=40, passes=12) is None
    assert judged(possible_tokens=None) is None
    assert ids_without_passes(Evidence(kind="decode")) is None


@pytest.mark.parametrize(
    ("replay", "words"),
    [("same-ids", "3 other prompts of the same shape gave the same ids"), ("by-prompt", "this one does not")],
)
def test_a_replay_is_bogus(replay: str, words: str) -> None:
    """Ids without passes, and another prompt that shows why."""
    finding = judged(replay=replay, prompts=3)
    assert (finding.check, finding.severity) == ("tokens-disagree", "bogus")
    assert finding.message.startswith(
        "12 new ids were returned, and the 0 passes of the model that ran can have yielded 0: the ids are remembered"
    )
    assert words in finding.message


@pytest.mark.parametrize("replay", ["no", "unknown"])
def test_an_engine_whose_passes_are_not_seen_is_not_accused(replay: str) -> None:
    """It answers every prompt anew, or no other prompt could be tried."""
    finding = judged(replay=replay)
    assert (finding.check, finding.severity) == ("tokens-disagree", "inconclusive")
    assert "they were computed where this tool cannot see passes" in finding.message


# -- wrong use ----------------------------------------------------------------------------------------------------

MODEL = SimpleNamespace(generate=lambda **_: None)
TENSOR = SimpleNamespace(shape=(1, 3))


@pytest.mark.parametrize(
    ("model", "inputs", "kwargs", "message"),
    [
        (object(), TENSOR, {}, "needs a model with a generate method, and a object has none"),
        (MODEL, None, {}, "needs a prompt: inputs="),
        (MODEL, {"attention_mask": TENSOR}, {}, "needs a prompt: inputs="),
        (MODEL, "a text", {}, "inputs is a str; give what the tokenizer returns"),
        (MODEL, [[1, 2]], {}, "inputs is a list; give what the tokenizer returns"),
        (MODEL, {"input_ids": TENSOR}, {"input_ids": TENSOR}, "input_ids is given twice"),
        (MODEL, TENSOR, {"input_ids": TENSOR}, "the prompt is given twice"),
        (MODEL, TENSOR, {"max_new_tokens": 1}, "max_new_tokens is 1: the prefill yields the first token"),
        (MODEL, TENSOR, {"generation_config": SimpleNamespace(max_new_tokens=1)}, "max_new_tokens is 1"),
        (
            MODEL,
            TENSOR,
            {"streamer": object(), "num_beams": 2},
            "streamer cannot follow beam search (num_beams is 2)",
        ),
    ],
)
def test_wrong_use_is_said_before_anything_runs(model: Any, inputs: Any, kwargs: dict[str, Any], message: str) -> None:
    """One line that names what was given."""
    with pytest.raises(RooflineUsageError) as caught:
        generation_request(model, inputs, kwargs)
    assert message in str(caught.value)


def test_inputs_are_a_tensor_or_a_mapping() -> None:
    """A tensor goes in by position's name, what a tokenizer returns by its own names."""
    assert generation_request(MODEL, TENSOR, {"max_new_tokens": 4}).arguments == {"inputs": TENSOR, "max_new_tokens": 4}
    given = {"input_ids": TENSOR, "attention_mask": TENSOR}
    assert generation_request(MODEL, given, {}).arguments == given
    assert generation_request(MODEL, None, {"input_ids": TENSOR}).arguments == {"input_ids": TENSOR}


def test_a_run_is_compared_without_its_outputs() -> None:
    """They may be tensors, which have no truth value."""
    assert run(outputs=object()) == replace(run(), outputs=object())


def traced(*bytes_per_pass: float, is_closed: bool = True, notes: tuple[str, ...] = ()) -> Look:
    """A look whose decode passes moved so much."""
    seen = [
        Traffic(bytes_per_pass=one, least_bytes_per_pass=one, is_closed=is_closed, notes=notes)
        for one in bytes_per_pass
    ]
    return Look(run=run(), traced=tuple(enumerate(seen, 1)))


def test_a_pass_that_moves_nothing_beside_others_is_idle() -> None:
    """A growing cache is none, nor what a replayed graph hides, nor a model of which nothing is seen at all."""
    assert idle_passes(traced(1.0, 1e9, 1.0)) == 2
    assert idle_passes(traced(1.0, 1e9, is_closed=False, notes=("open trace: nothing traced wrote it",))) == 1
    assert idle_passes(traced(1e9, 1.01e9, 1.02e9)) == 0
    for unseen in (
        "open trace: a CUDA graph was replayed; its operations cannot be seen",
        "open trace: norm is a Triton kernel, whose reads are not known",
        "open trace: mine::op is not an operation whose reads are known",
    ):
        assert idle_passes(traced(1e9, 1.0, 1.0, is_closed=False, notes=(unseen,))) == 0
    assert idle_passes(traced(1.0, 1.0)) == 0
    assert idle_passes(traced()) == 0


def test_idle_passes_leave_no_time_of_a_pass() -> None:
    """Undecided, with both counts; none at all says nothing."""
    seen = Generated(tokens=10, possible_tokens=10, passes=10, traced_passes=3, idle_passes=1)
    finding = passes_idle(Evidence(kind="generate", generated=seen))
    assert finding is not None
    assert (finding.check, finding.severity) == ("work-missing", "inconclusive")
    assert finding.message.startswith("1 of 3 decode passes that were traced read next to nothing")
    assert passes_idle(Evidence(kind="generate", generated=replace(seen, idle_passes=0))) is None
    assert passes_idle(Evidence(kind="decode")) is None
