"""`roofline.stream` against a server that answers well and badly: what is counted, what is judged, what is refused."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("httpx")

from answering_server import DONE, Server, answer, apart, chat, event, serving, usage_of

from pytest_roofline.errors import BogusMeasurement, MeasurementError, MissingDependency, RooflineUsageError
from pytest_roofline.instrument import Instrument
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings

SLOW_DEVICE = {"traffic": 1e12, "bandwidth": 1e12}
"""A pass of one second: whatever localhost answers is too fast for it."""
FAST_DEVICE = {"traffic": 1.0, "bandwidth": "1000TB/s"}
"""A pass of a femtosecond: nothing is too fast for it."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of this test's own."""
    with serving() as state:
        yield state


@pytest.fixture
def instrument() -> Instrument:
    """Without pytest around it."""
    return Instrument(Session(), Settings())


def ask(instrument: Instrument, server: Server, **more: Any) -> Result:
    """Two requests of sixteen tokens, one after the other, nothing repeated."""
    return instrument.stream(server.url, **{"tokens": 16, "requests": 2, "warmup": 0, "repeat": False, **more})


def messages(result: Result) -> str:
    """All that the court said."""
    return "\n".join(f"{finding.check}/{finding.severity}: {finding.message}" for finding in result.findings)


def test_figures_without_a_roof_are_not_judged(instrument: Instrument, server: Server) -> None:
    """TTFT, TPOT, rates and counts are there; no fraction, and a note that says what to state."""
    result = ask(instrument, server)
    assert result.verdict.outcome == "passed"
    assert result.stream is not None
    figures = result.stream.to_dict()
    assert (figures["tokens"], figures["requests"], figures["failed"]) == (32, 2, 0)
    assert figures["finish_reasons"] == {"length": 2}
    assert 0 < figures["ttft_s"]["p50"] <= figures["ttft_s"]["p99"]
    assert any(note.startswith("figures only, not judged: state model=") for note in result.notes)
    assert result.aggregate is not None
    assert [one.label for one in instrument.results] == [f"{server.url}, per user", f"{server.url}, in aggregate"]
    assert result.to_dict()["stream"] == figures
    assert any("passes of a remote server cannot be seen" in line for line in result.not_checked)


def test_what_is_sent(instrument: Instrument, server: Server) -> None:
    """The model that the server lists, a stream with usage, fresh prompts, the key, and what `body` adds and takes."""
    ask(instrument, server, prompts=["one", "two"], api_key="k", body={"temperature": None, "ignore_eos": True})
    first, second = server.asked
    assert (first["model"], first["stream"], first["stream_options"]) == ("tiny", True, {"include_usage": True})
    assert (first["max_tokens"], first["ignore_eos"]) == (16, True)
    assert "temperature" not in first
    prompts = [request["messages"][0]["content"] for request in (first, second)]
    assert [prompt.split("\n")[1] for prompt in prompts] == ["one", "two"]
    assert prompts[0].split("\n")[0] != prompts[1].split("\n")[0]
    assert server.headers[0]["Authorization"] == "Bearer k"
    assert server.paths == ["/v1/chat/completions"] * 2


def test_completions_and_whole_addresses(instrument: Instrument, server: Server) -> None:
    """A completion sends `prompt`, by `chat=False` or by its path; a path that contradicts is wrong use."""
    server.script = lambda request: [event({"choices": [{"text": "a b", "finish_reason": "stop"}]}), DONE]
    ask(instrument, server, chat=False, requests=1, fresh=False, prompts="p")
    server.url += "/completions"
    ask(instrument, server, requests=1)
    assert server.paths == ["/v1/completions"] * 2
    assert server.asked[0]["prompt"] == "p"
    with pytest.raises(RooflineUsageError, match="they speak of different endpoints"):
        ask(instrument, server, chat=True)


def test_faster_than_the_stated_device_is_bogus(instrument: Instrument, server: Server) -> None:
    """Sixteen tokens of a terabyte each at 1 TB/s: refused with the arithmetic, and with what was stated."""
    with pytest.raises(BogusMeasurement, match=r"from memory, but this device cannot exceed 1\.00 TB/s") as caught:
        ask(instrument, server, tokens_per_pass=1, **SLOW_DEVICE)
    assert "as stated (given: --bandwidth)" in str(caught.value)
    assert "[faster-than-limit]" in str(caught.value)


def test_usage_above_the_ids_is_bogus(instrument: Instrument, server: Server) -> None:
    """A usage of 160 over sixteen ids; the end of a text alone is no difference."""
    server.script = lambda request: answer(16, ids=True, finish="stop", said=17)
    assert ask(instrument, server).verdict.outcome == "passed"
    server.script = lambda request: answer(16, ids=True, said=160)
    with pytest.raises(BogusMeasurement, match="160 tokens claimed, 16 ids returned"):
        ask(instrument, server)


def test_a_budget_per_user_and_one_in_aggregate(instrument: Instrument, server: Server) -> None:
    """Each is judged by itself: a femtosecond of a pass is next to nothing of what localhost takes."""
    server.script = lambda request: apart(answer(16))
    result = ask(instrument, server, at_least_per_user=0.5, **FAST_DEVICE)
    assert result.verdict.outcome == "failed"
    assert result.aggregate is not None
    assert result.aggregate.verdict.outcome == "passed"
    result = ask(instrument, server, at_least_aggregate=0.5, **FAST_DEVICE)
    assert result.aggregate is not None
    assert (result.verdict.outcome, result.aggregate.verdict.outcome) == ("passed", "failed")
    assert 0 < result.fraction < 1e-6


def test_requests_at_once_are_seen(instrument: Instrument, server: Server) -> None:
    """Four at a time, whose answers wait for each other between their first and last token."""
    barrier = threading.Barrier(4, timeout=20)

    def script(request: dict[str, Any]) -> Iterator[bytes]:
        whole = answer(16)
        barrier.wait()
        yield from whole[:4]
        barrier.wait()
        yield from whole[4:]

    server.script = script
    result = ask(instrument, server, requests=4, concurrency=4)
    assert result.stream is not None
    assert len(result.stream.answered) == 4
    assert 1.0 < result.stream.at_once <= 4.0
    assert result.stream.asked_at_once == 4


def test_fewer_at_once_than_asked_for_is_said(instrument: Instrument, server: Server) -> None:
    """A single request cannot be eight at once."""
    result = ask(instrument, server, requests=1, concurrency=8)
    assert any("8 requests at once were asked for, 1.0 were seen" in note for note in result.notes)


FAULTS: dict[str, tuple[list[bytes], str]] = {
    "an error in the middle": (
        [*answer(4)[:3], event({"error": {"message": "CUDA out of memory", "code": 500}})],
        "CUDA out of memory",
    ),
    "cut off": (answer(16)[:5], "the answer broke off: no finish_reason, and no [DONE]"),
    "cut within an event": ([*answer(4)[:3], b'data: {"choices": [{"del'], "an event that is no JSON"),
    "no output": ([event({"choices": []}), DONE], "an answer without any output"),
    "a line without an end": ([b"data: " + b"x" * (2**22 + 7)], "an event of over 4,194,304 bytes without an end"),
    "no object": ([b"data: [1, 2]\n\n", DONE], "an event that is no object: [1, 2]"),
    "too deep": ([b"data: " + b"[" * 100_000 + b"\n\n", DONE], "an event that is no JSON"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_answer_is_a_failed_request(instrument: Instrument, server: Server, fault: str) -> None:
    """It is in no rate; half of the requests failing leaves the rest without a verdict, and says why."""
    broken, said = FAULTS[fault]
    answers = iter([broken, answer(16)])
    server.script = lambda request: next(answers)
    result = ask(instrument, server)
    assert result.stream is not None
    assert (len(result.stream.failed), result.stream.tokens) == (1, 16)
    assert result.verdict.outcome == "inconclusive"
    assert f"1 of 2 requests failed, and all rates are of the other 1: {'BrokenStream: ' * ('line' in fault)}" in (
        messages(result)
    )
    assert said in messages(result)


def test_nothing_answered_is_an_error_that_says_why(instrument: Instrument, server: Server) -> None:
    """Refusals with their status and words; an answer that is no stream; nobody there."""
    server.status, server.kind = 400, "application/json"
    server.script = lambda request: [b'{"message": "stream_options is\\n unknown"}']
    with pytest.raises(MeasurementError, match=r"none of 2 requests .*HTTP 400: .*stream_options is"):
        ask(instrument, server)
    server.status = 200
    with pytest.raises(MeasurementError, match="no stream of events, but application/json"):
        ask(instrument, server)
    with pytest.raises(MeasurementError, match=r"none of 1 requests .*ConnectError"):
        instrument.stream("http://127.0.0.1:9/v1", served="x", requests=1, warmup=0)
    with pytest.raises(RooflineUsageError, match="is the server running there"):
        instrument.stream("http://127.0.0.1:9/v1")


HONEST: dict[str, tuple[list[bytes], int]] = {
    "carriage returns": ([piece.replace(b"\n", b"\r\n") for piece in answer(16)], 16),
    "a byte at a time": ([bytes([byte]) for byte in b"".join(answer(16))], 16),
    "characters cut in two": (
        [part for piece in (event(chat("\u00e9\U0001f600" * 3)), *answer(15)) for part in (piece[:33], piece[33:])],
        15,
    ),
    "comments between": ([part for piece in answer(16) for part in (b": keep-alive\n\n", piece)], 16),
    "no [DONE]": (answer(16)[:-1], 16),
    "no last empty line": ([*answer(16)[:-1], b"data: [DONE]"], 16),
    "usage with every chunk": (
        [*(event(chat("x", usage=usage_of(n + 1))) for n in range(16)), event(chat(None, finish="length")), DONE],
        16,
    ),
    "usage twice": ([*answer(16)[:-1], event({"choices": [], "usage": usage_of(16)}), DONE], 16),
    "chunks of many tokens": (
        [
            *(event(chat("a b c d ", token_ids=[1, 2, 3, 4])) for _ in range(4)),
            event(chat(None, finish="length", usage=usage_of(16))),
            DONE,
        ],
        16,
    ),
    "no choices at first": ([event({"choices": [], "prompt_filter_results": []}), *answer(16)], 16),
}


@pytest.mark.parametrize("how", HONEST)
def test_an_honest_answer_is_counted_however_it_comes(instrument: Instrument, server: Server, how: str) -> None:
    """The same tokens, and nobody is accused."""
    pieces, tokens = HONEST[how]
    server.script = lambda request: pieces
    result = ask(instrument, server, **FAST_DEVICE)
    assert result.stream is not None
    assert [(one.tokens, one.error) for one in result.stream.exchanges] == [(tokens, None)] * 2
    assert result.verdict.outcome == "passed", messages(result)
    assert "\ufffd" not in "".join(one.text for one in result.stream.exchanges)


def test_chunks_are_never_taken_for_tokens(instrument: Instrument, server: Server) -> None:
    """Without usage, ids and log probabilities there are times, and a budget is undecided with the reason."""
    server.script = lambda request: [*(event(chat("x")) for _ in range(16)), event(chat(None, finish="stop")), DONE]
    result = ask(instrument, server, at_least_per_user=0.5, **FAST_DEVICE)
    assert result.stream is not None
    assert (result.stream.tokens, result.stream.tpot_s) == (None, None)
    assert result.verdict.outcome == "inconclusive"
    assert "does not say how many tokens it sent" in messages(result)


def test_hidden_reasoning_is_counted_and_said(instrument: Instrument, server: Server) -> None:
    """Of 64 tokens 48 were not shown: no contradiction to sixteen ids, and the useful answer's time is apart."""
    details = {"completion_tokens_details": {"reasoning_tokens": 48}}
    pieces = [
        *(event(chat("x", token_ids=[1])) for _ in range(16)),
        event(chat(None, finish="length", usage=usage_of(64, **details))),
        DONE,
    ]
    server.script = lambda request: pieces
    result = ask(instrument, server)
    assert any("96 of 128 tokens are reasoning that was not shown" in note for note in result.notes)
    server.script = lambda request: [event({"choices": [{"delta": {"reasoning_content": "hm"}}]}), *pieces]
    shown = ask(instrument, server)
    assert shown.stream is not None
    for one in shown.stream.answered:
        assert one.hidden_tokens == 0
        assert one.ttft_s is not None
        assert one.time_to_useful_s is not None
        assert one.ttft_s <= one.time_to_useful_s


def test_early_ends_and_cached_prompts_are_said(instrument: Instrument, server: Server) -> None:
    """Nine of sixteen tokens, and half of the prompt from a cache."""
    usage = usage_of(9, prompt_tokens_details={"cached_tokens": 10})
    server.script = lambda request: [
        *(event(chat("x")) for _ in range(9)),
        event(chat(None, finish="stop", usage=usage)),
        DONE,
    ]
    result = ask(instrument, server)
    assert any("2 of 2 answers ended before the 16 tokens" in note for note in result.notes)
    assert any(note.startswith("50 % of the prompt tokens were cached") for note in result.notes)


def test_a_kept_prefix_is_found_by_asking_twice(instrument: Instrument, server: Server) -> None:
    """The second time the server counts cached tokens; the prompts that were measured are all new."""
    seen: set[str] = set()

    def script(request: dict[str, Any]) -> list[bytes]:
        prompt = request["messages"][0]["content"]
        cached = 16 if prompt in seen else 0
        seen.add(prompt)
        usage = usage_of(4, prompt_tokens_details={"cached_tokens": cached})
        return [*answer(4)[:-2], event({"choices": [], "usage": usage}), DONE]

    server.script = script
    result = ask(instrument, server, repeat=True)
    assert any("of a repeated prompt 16 of 20 tokens were cached" in note for note in result.notes)
    assert result.stream is not None
    assert result.stream.cached_share == 0


def test_without_httpx_one_sentence_says_what_to_install(
    instrument: Instrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named is the extra."""
    real = builtins.__import__

    def without(name: str, *details: Any, **more: Any) -> Any:
        if name == "httpx":
            raise ImportError(name)
        return real(name, *details, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependency, match=r"pip install 'pytest-roofline\[server\]'"):
        instrument.stream("http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"url": "localhost:8000"}, "the address of a server is needed"),
        ({"prompts": []}, "prompts is no text"),
        ({"body": {"n": 4}}, "body has n=4: one answer per request can be timed"),
        ({"prompts": [""]}, "prompts is no text"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"concurrency": 513}, "concurrency is 513"),
        ({"tokens": 1}, "tokens is 1"),
        ({"requests": 0}, "requests is 0"),
        ({"tp": 1.5}, "tp is 1.5"),
        ({"tokens_per_pass": 0.5}, "tokens_per_pass is 0.5"),
        ({"timeout_s": 0}, "timeout_s is 0"),
        ({"at_least_per_user": 60}, "at_least_per_user: 60 is no fraction"),
        ({"traffic": 1e9, "bandwidth": -1}, "bandwidth is -1"),
        ({"traffic": 1e9, "device": "h100-sxn"}, "h100-sxm"),
        ({"traffic": 1e9, "model": "llama-3.1-8b"}, "not both"),
    ],
)
def test_wrong_use_is_said_before_anything_is_sent(
    instrument: Instrument, server: Server, arguments: dict[str, Any], said: str
) -> None:
    """Each with its name."""
    with pytest.raises(RooflineUsageError, match=said):
        instrument.stream(arguments.pop("url", server.url), **arguments)
    assert not server.asked


def test_off_asks_once_and_measures_nothing(server: Server) -> None:
    """Every comparison is true."""
    result = ask(Instrument(Session(), Settings(mode="off")), server, **SLOW_DEVICE)
    assert result.fraction >= 0.9
    assert len(server.asked) == 1
