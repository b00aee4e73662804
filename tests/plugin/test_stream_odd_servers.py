"""Servers that cheat, and honest ones that look odd: no cheat is fine, nobody honest is accused."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any

import pytest

pytest.importorskip("httpx")

from answering_server import DONE, Server, answer, chat, event, serving, usage_of

from pytest_roofline.errors import BogusMeasurement, MeasurementError
from pytest_roofline.instrument import Instrument
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings

SLOW_DEVICE = {"traffic": 1e12, "bandwidth": 1e12, "tokens_per_pass": 1}
"""A pass of one second: whatever localhost answers is too fast for it."""
FAST_DEVICE = {"traffic": 1.0, "bandwidth": "1000TB/s"}
"""A pass of a femtosecond: nothing is too fast for it."""
END = event(chat(None, finish="length"))


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of this test's own."""
    with serving() as state:
        yield state


def ask(server: Server, pieces: Iterable[bytes] | None = None, **more: Any) -> Result:
    """Two requests of sixteen tokens, each answered with these pieces."""
    if pieces is not None:
        held = list(pieces)
        server.script = lambda request: held
    asked = {"tokens": 16, "requests": 2, "warmup": 0, "repeat": False, **more}
    return Instrument(Session(), Settings()).stream(server.url, **asked)


def words(count: int, **choice: Any) -> list[bytes]:
    """So many events of one word."""
    return [event(chat(f"w{number} ", **choice)) for number in range(count)]


def closing(tokens: int, **usage: Any) -> list[bytes]:
    """The end of an answer, with its usage."""
    return [END, event({"choices": [], "usage": usage_of(tokens, **usage)}), DONE]


def findings(result: Result) -> set[tuple[str, str]]:
    """Check and severity of each."""
    return {(finding.check, finding.severity) for finding in result.findings}


# -- cheats: each is refused, or has no verdict ---------------------------------------------------------------------

REFUSED: dict[str, tuple[list[bytes], str]] = {
    "chunks counted as tokens": (
        [*(event(chat("x", token_ids=[1] if n % 4 == 0 else [])) for n in range(64)), *closing(64)],
        "64 tokens claimed, 16 ids returned",
    ),
    "tokens behind [DONE]": (
        [*words(16, token_ids=[1]), *closing(64), *words(48, token_ids=[1])],
        "64 tokens claimed, 16 ids returned",
    ),
    "the requested length": ([*words(3, token_ids=[1]), *closing(16)], "16 tokens claimed, 3 ids returned"),
}


@pytest.mark.parametrize("cheat", REFUSED)
def test_more_tokens_than_ids_are_refused_whatever_is_said_of_them(server: Server, cheat: str) -> None:
    """Also on a device for which nothing is too fast."""
    pieces, said = REFUSED[cheat]
    with pytest.raises(BogusMeasurement, match=said):
        ask(server, pieces, **FAST_DEVICE)


TOO_FAST: dict[str, list[bytes]] = {
    "a canned answer": answer(16),
    "reasoning that nobody saw": [
        *words(16),
        *closing(640, completion_tokens_details={"reasoning_tokens": 624}),
    ],
    "several tokens in an event, and none drafted": [
        *(event(chat("a b c d ", token_ids=[1, 2, 3, 4])) for _ in range(4)),
        *closing(16),
    ],
    "all in one event": [event(chat("word " * 16)), *closing(16)],
    "times of its own": [event({**chat(f"w{n} "), "created": 4_000_000_000 + 1000 * n}) for n in range(16)]
    + closing(16),
}


@pytest.mark.parametrize("cheat", TOO_FAST)
def test_what_the_stated_device_cannot_do_is_refused(server: Server, cheat: str) -> None:
    """By the client's clock, from sending to the last output."""
    with pytest.raises(BogusMeasurement, match="from memory, but this device cannot exceed"):
        ask(server, TOO_FAST[cheat], **SLOW_DEVICE)


UNSURE: dict[str, tuple[list[bytes], str, str]] = {
    "usage without words": (
        [*words(16), *closing(640)],
        "tokens-disagree",
        "1280 tokens by the server's usage in 108 bytes of text: no text has more tokens than bytes",
    ),
    "the prompt in the completion": (
        [*words(16), END, event({"choices": [], "usage": {**usage_of(36), "total_tokens": 36}}), DONE],
        "tokens-disagree",
        "usage contradicts itself in 2 of 2 answers: prompt and completion are more than the total",
    ),
    "everything at once": ([b"".join(answer(16))], "too-few-samples", "no answer has two outputs with tokens between"),
    "no count at all": ([*words(16), END, DONE], "tokens-disagree", "does not say how many tokens it sent"),
    "one token in every event's usage": (
        [*(event(chat("x", usage=usage_of(1))) for _ in range(16)), END, DONE],
        "tokens-disagree",
        "does not say how many tokens it sent",
    ),
}


@pytest.mark.parametrize("cheat", UNSURE)
def test_counts_that_cannot_be_right_have_no_verdict(server: Server, cheat: str) -> None:
    """A budget next to nothing would be met by any figure; it decides nothing here."""
    pieces, check, said = UNSURE[cheat]
    result = ask(server, pieces, at_least_per_user=1e-15, at_least_aggregate=1e-15, **FAST_DEVICE)
    assert result.verdict.outcome == "inconclusive", result.findings
    assert any(one.check == check and said in one.message for one in result.findings), result.findings


def test_a_prompt_of_more_tokens_than_bytes_raises_no_ceiling(server: Server) -> None:
    """A hundred thousand tokens of context would be most of a pass; the prompt sent has under two hundred bytes."""
    stated = {"model": "llama-3.1-8b", "bandwidth": "1000TB/s"}
    honest = ask(server, answer(16), **stated)
    inflated = ask(server, [*words(16), *closing(16, prompt=100_000)], **stated)
    assert honest.ceiling is not None
    assert inflated.ceiling is not None
    assert inflated.ceiling.traffic.bytes_per_pass < 1.02 * honest.ceiling.traffic.bytes_per_pass
    assert any("count more tokens of their prompt than it has bytes" in note for note in inflated.notes)
    assert not any("more tokens of their prompt" in note for note in honest.notes)


@pytest.mark.parametrize("reason", ["error", "abort", "cancelled"])
def test_an_answer_that_was_given_up_is_a_failed_request(server: Server, reason: str) -> None:
    """Its tokens are in no rate, whatever its usage says."""
    answers = iter([[*words(16), event(chat(None, finish=reason)), *closing(64)[1:]], answer(16)])
    server.script = lambda request: next(answers)
    result = ask(server, **FAST_DEVICE)
    assert result.stream is not None
    assert (len(result.stream.failed), result.stream.tokens) == (1, 16)
    assert ("work-missing", "inconclusive") in findings(result)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_refusals_between_answers_are_in_no_rate(server: Server, status: int) -> None:
    """Fast failures raise no figure, and the status is said."""

    def script(request: dict[str, Any]) -> list[bytes]:
        server.status = status if server.status == 200 else 200
        return answer(16) if server.status == 200 else [b"busy"]

    server.script = script
    result = ask(server, requests=4, **FAST_DEVICE)
    assert result.stream is not None
    assert (len(result.stream.failed), result.stream.tokens) == (2, 32)
    assert result.verdict.outcome == "inconclusive"
    assert any(f"HTTP {status}: busy" in finding.message for finding in result.findings)


def test_a_ready_answer_that_takes_its_time_is_said(server: Server) -> None:
    """Slow enough for the device, so it is judged; but no prompt had anything to do with it."""
    result = ask(server, answer(16), requests=3, **FAST_DEVICE)
    assert any(note.startswith("all 3 answers are the same text, though no prompt was") for note in result.notes)
    result = ask(server, answer(16), requests=3, fresh=False, **FAST_DEVICE)
    assert not any("the same text" in note for note in result.notes)


def test_fewer_tokens_than_ids_are_taken_and_said(server: Server) -> None:
    """Nobody gains by it."""
    result = ask(server, [*words(16, token_ids=[1]), *closing(8)], **FAST_DEVICE)
    assert result.verdict.outcome == "passed"
    assert result.stream is not None
    assert result.stream.tokens == 16
    assert any(note.startswith("more ids came than usage counts") for note in result.notes)


# -- honest servers that look odd -----------------------------------------------------------------------------------


def squeezed(pieces: Iterable[bytes]) -> list[bytes]:
    """The same, compressed piece by piece."""
    packer = zlib.compressobj(wbits=31)
    return [*(packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in pieces), packer.flush()]


THOUGHT = {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}
CALL = {"tool_calls": [{"index": 0, "function": {"arguments": '{"a": 1}'}}]}
ODD: dict[str, tuple[list[bytes], int, dict[str, Any]]] = {
    "empty events and pings": (
        [part for piece in answer(16) for part in (piece, b"data:\n\n", b"event: ping\ndata: 2026-01-01 00:00:00\n\n")],
        16,
        {},
    ),
    "compressed though nobody asked": (squeezed(answer(16)), 16, {"Content-Encoding": "gzip"}),
    "a body that ends too soon": (answer(16)[:-1], 16, {"Content-Length": "1000000"}),
    "content in parts": (
        [
            event({"choices": [{"delta": THOUGHT}]}),
            *(event({"choices": [{"delta": {"content": [{"type": "text", "text": "w "}]}}]}) for _ in range(15)),
            *closing(16),
        ],
        16,
        {},
    ),
    "tools are called and nothing is said": (
        [*(event({"choices": [{"delta": CALL}]}) for _ in range(16)), *closing(16)],
        16,
        {},
    ),
    "a function is called": (
        [*(event({"choices": [{"delta": {"function_call": {"arguments": "{"}}}]}) for _ in range(16)), *closing(16)],
        16,
        {},
    ),
    "counts with a point": ([*words(16), *closing(16.0)], 16, {}),  # type: ignore[arg-type]
    "usage beside the choice": (
        [*words(16), event({"choices": [{"delta": {}, "finish_reason": "length", "usage": usage_of(16)}]}), DONE],
        16,
        {},
    ),
    "timings in place of usage": (
        [*words(16), event({**chat(None, finish="length"), "timings": {"predicted_n": 16, "cache_n": 3}}), DONE],
        16,
        {},
    ),
    "reasoning counted beside the completion": (
        [
            *words(16),
            END,
            event(
                {
                    "choices": [],
                    "usage": {
                        **usage_of(16),
                        "total_tokens": 20 + 16 + 300,
                        "completion_tokens_details": {"reasoning_tokens": 300},
                    },
                }
            ),
            DONE,
        ],
        316,
        {},
    ),
    "neither id nor time": (
        [event({**chat(f"w{n} "), "id": "", "created": None, "model": None}) for n in range(16)] + closing(16),
        16,
        {},
    ),
    "why it ended as an object": (
        [*words(16), event({"choices": [{"finish_reason": {"type": "length"}}], "usage": usage_of(16)}), DONE],
        16,
        {},
    ),
    "more reasoning than there is of anything": (
        [*words(16), *closing(16, completion_tokens_details={"reasoning_tokens": 17})],
        16,
        {},
    ),
    "a total before the end alone": (
        [
            event({"choices": [], "usage": usage_of(0)}),
            *words(16),
            END,
            event({"choices": [], "usage": {"completion_tokens": 16}}),
            DONE,
        ],
        16,
        {},
    ),
    "a total that knows more": ([*words(16), *closing(16, total_tokens=400)], 16, {}),
    "a message in place of a delta": (
        [*(event({"choices": [{"message": {"content": "w "}}]}) for _ in range(16)), *closing(16)],
        16,
        {},
    ),
    "words of a hidden kind": (
        [*(event({"choices": [{"delta": {"reasoning": "hm "}}]}) for _ in range(8)), *words(8), *closing(16)],
        16,
        {},
    ),
}


@pytest.mark.parametrize("how", ODD)
def test_an_honest_server_is_counted_and_not_accused(server: Server, how: str) -> None:
    """Whatever its layout, its tokens are known and each answer is one."""
    pieces, tokens, headers = ODD[how]
    server.more_headers = headers
    result = ask(server, pieces, **FAST_DEVICE)
    assert result.stream is not None
    assert [(one.tokens, one.error) for one in result.stream.exchanges] == [(tokens, None)] * 2
    assert result.verdict.outcome == "passed", result.findings


@pytest.mark.parametrize("kind", ["Text/Event-Stream", "text/event-stream; charset=utf-8"])
def test_a_stream_is_one_however_its_type_is_written(server: Server, kind: str) -> None:
    """Letters and parameters make no difference."""
    server.kind = kind
    assert ask(server, answer(16)).verdict.outcome == "passed"


def test_a_connection_left_open_holds_nobody_up(server: Server) -> None:
    """The answer is over with [DONE]: the next request does not wait for the end of the connection."""
    hold = threading.Event()

    def script(request: dict[str, Any]) -> Iterator[bytes]:
        yield from answer(16)
        hold.wait(60)

    server.script = script
    began = perf_counter()
    result = ask(server, requests=3, timeout_s=60, **FAST_DEVICE)
    took_s = perf_counter() - began
    hold.set()
    assert result.stream is not None
    assert [one.error for one in result.stream.exchanges] == [None] * 3
    assert took_s < 50  # three timeouts would have been 180 s
    assert result.stream.window_s < 50


def test_a_connection_that_was_closed_is_opened_again_and_said(server: Server) -> None:
    """A server may close what was kept open; where it does so each time, the request has failed."""
    lost = iter([True, False, True, True])

    def script(request: dict[str, Any]) -> list[bytes]:
        if next(lost):
            raise ConnectionAbortedError  # the handler ends here, and with it the connection
        return answer(16)

    server.script = script
    result = ask(server, **FAST_DEVICE)
    assert result.stream is not None
    assert [one.error is None for one in result.stream.exchanges] == [True, False]
    assert "without sending a response" in (result.stream.exchanges[1].error or "")
    assert any(note.startswith("requests were sent a second time") for note in result.notes)
    assert len(server.asked) == 4


def test_a_broken_body_before_the_end_is_a_failure(server: Server) -> None:
    """Without a finish_reason nobody knows what is missing."""
    server.more_headers = {"Content-Length": "1000000"}
    with pytest.raises(MeasurementError, match="none of 2 requests"):
        ask(server, words(5))


def test_drafts_that_the_server_tells_of_are_said(server: Server) -> None:
    """llama.cpp: of 12 drafted tokens 10 were accepted, so 15 tokens behind the first came out of 5 passes."""
    timings = {"predicted_n": 16, "draft_n": 12, "draft_n_accepted": 10}
    pieces = [*words(16), event({**chat(None, finish="length", usage=usage_of(16)), "timings": timings}), DONE]
    result = ask(server, pieces, **FAST_DEVICE)
    assert any(
        "20 of 24 drafted tokens were accepted, 3 tokens per pass; say tokens_per_pass=, and" in note
        for note in result.notes
    )
    result = ask(server, pieces, **{**FAST_DEVICE, "tokens_per_pass": 3})
    assert any("3 tokens per pass; what the draft reads" in note for note in result.notes)


def test_no_event_is_a_traceback(server: Server) -> None:
    """Strange values in every place that is read."""
    strange: list[Any] = [None, True, -1, 1e400, "x", [], {}, [None], [[]], [{}], {"a": {}}, "\ud800", 10**30]
    bodies: list[Any] = [
        {"choices": [{"delta": {key: value}}]} for key in ("content", "tool_calls") for value in strange
    ]
    bodies += [{"choices": value} for value in strange if not isinstance(value, float)]
    bodies += [
        {"choices": [{key: one}]} for key in ("text", "logprobs", "token_ids", "finish_reason") for one in strange
    ]
    bodies += [{"choices": [], "usage": one, "timings": one} for one in strange]
    server.script = lambda request: [*(f"data: {_json(body)}\n\n".encode() for body in bodies), *answer(16)]
    result = ask(server)
    assert result.verdict.outcome in ("passed", "inconclusive")


def _json(body: Any) -> str:
    """As some servers write it: Infinity, and half a character, as they are."""
    import json

    return json.dumps(body)
