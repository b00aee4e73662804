"""Laws of reading server-sent events: how the bytes are cut and how lines end makes no difference."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.sse import BrokenStream, EventReader, ServerEvent
from pytest_roofline.stream_events import Delta, read_delta
from pytest_roofline.streaming import Intake, percentile

LINE = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=20)
EVENTS = st.lists(st.lists(LINE, min_size=1, max_size=3), max_size=6)


def read(pieces: list[bytes]) -> list[ServerEvent]:
    """All events of an answer that came in these pieces."""
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.close()


@settings(max_examples=60, deadline=None)
@given(EVENTS, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 400), max_size=8), st.booleans())
def test_cuts_and_line_ends_change_nothing(events: list[list[str]], end: str, cuts: list[int], has_bom: bool) -> None:
    """Also within a character, within CRLF, and with a byte order mark and comments."""
    text = "".join("".join(f"data: {line}{end}" for line in lines) + f": alive{end}{end}" for lines in events)
    whole = (b"\xef\xbb\xbf" if has_bom else b"") + text.encode()
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    pieces = [whole[start:stop] for start, stop in pairwise(places)]
    assert read(pieces) == [ServerEvent(data="\n".join(lines)) for lines in events]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=10))
def test_no_bytes_break_it(pieces: list[bytes]) -> None:
    """Whatever comes is events, or is none; and every event is a delta or an error in words."""
    for event in read(pieces):
        delta = read_delta(event.data, event.name)
        assert delta.error is None or delta.error.isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "delta", "usage", "content", "text", "logprobs", "tokens", "token_ids", "completion_tokens",
             "prompt_tokens", "error", "finish_reason", "reasoning_content", "completion_tokens_details"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(JSON, max_size=6))
def test_no_json_breaks_the_ledger(bodies: list[object]) -> None:
    """Whatever objects a server sends, the answer can be closed, and its counts are whole numbers from zero."""
    import json

    intake = Intake(prompt="p", start_s=0.0)
    for at, body in enumerate(bodies):
        intake.take(read_delta(json.dumps(body)), float(at))
    exchange = intake.close(10.0)
    assert exchange.tokens is None or exchange.tokens >= 0
    assert exchange.is_answered or exchange.error
    assert exchange.closed_s >= 0


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 60, b"x" * 60, b"data: x\n" * 40])
def test_lines_and_events_are_bounded(piece: bytes) -> None:
    """One line, a line that is no data, and an event of many lines."""
    with pytest.raises(BrokenStream, match="over 50 bytes"):
        EventReader(longest_bytes=50).feed(piece)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0.01, 1))
def test_a_percentile_is_by_nearest_rank(values: list[float], share: float) -> None:
    """A measured value that at least this share does not exceed, and no smaller one does."""
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    smaller = [value for value in values if value < found]
    assert len(smaller) < share * len(values) + 1e-9


def test_usage_is_a_running_sum_and_not_added_up() -> None:
    """The last figure counts; where it falls, the largest does, and a remark says so."""
    for counts, tokens, remarks in (([1, 2, 3, 3], 3, 0), ([1, 2, 1], 2, 1)):
        intake = Intake(prompt="p", start_s=0.0)
        for at, count in enumerate(counts):
            intake.take(read_delta(f'{{"choices": [{{"text": "x"}}], "usage": {{"completion_tokens": {count}}}}}'), at)
        intake.take(Delta(finish_reason="stop", is_done=False), 9.0)
        intake.take(Delta(is_done=True), 9.0)
        exchange = intake.close(9.0)
        assert exchange.tokens == tokens
        assert len(exchange.remarks) == remarks
