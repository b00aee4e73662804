"""`roofline.stream` against servers that nobody here wrote: llama-cpp-python's and llama.cpp's ``llama-server``."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from pytest_roofline.errors import MeasurementError
from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session

TOKENS = 12
PATIENCE_S = 60.0
WHOLE = {"ignore_eos": True}
READY = ("Uvicorn running", "server is listening", "listening on http")


def started(command: list[str], port: int) -> Iterator[str]:
    """The address of a server once it says that it listens; skipped with its last words where it does not start."""
    lines: list[str] = []
    is_ready, has_ended = threading.Event(), threading.Event()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:

        def listen() -> None:
            for line in process.stdout or ():
                lines.append(line)
                if any(word in line for word in READY):
                    is_ready.set()
            has_ended.set()
            is_ready.set()

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            if not is_ready.wait(PATIENCE_S) or has_ended.is_set():
                pytest.skip(f"{command[0]} did not start: {''.join(lines)[-300:]}")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
            process.wait()
            listener.join(5)


def free_port() -> int:
    """One that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def python_server(gguf_file: str) -> Iterator[str]:
    """``python -m llama_cpp.server``."""
    for package in ("httpx", "fastapi", "uvicorn", "sse_starlette", "pydantic_settings", "starlette_context"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    port = free_port()
    command = [sys.executable, "-m", "llama_cpp.server", "--model", gguf_file, "--host", "127.0.0.1"]
    yield from started([*command, "--port", str(port), "--n_ctx", "512", "--n_threads", "1"], port)


def native(gguf_file: str, *options: str) -> Iterator[str]:
    """``llama-server``, by ``LLAMA_SERVER`` or on the path; one thread, two slots."""
    program = os.environ.get("LLAMA_SERVER") or shutil.which("llama-server")
    if program is None:
        pytest.skip("llama-server is neither on the path nor named by LLAMA_SERVER")
    if find_spec("httpx") is None:
        pytest.skip("httpx is not installed")
    port = free_port()
    command = [program, "-m", gguf_file, "--host", "127.0.0.1", "--port", str(port), "-c", "1024", "-np", "2"]
    yield from started([*command, "-t", "1", *options], port)


@pytest.fixture(scope="module")
def native_server(gguf_file: str) -> Iterator[str]:
    """Without a draft."""
    yield from native(gguf_file)


@pytest.fixture(scope="module")
def drafting_server(gguf_file: str) -> Iterator[str]:
    """The model drafts for itself, so everything that it proposes is accepted."""
    yield from native(gguf_file, "--spec-type", "draft-simple", "-md", gguf_file, "-td", "1", "--spec-draft-n-max", "3")


def ask(url: str, gguf_file: str, **more: Any) -> Any:
    """Two requests, one at a time, of a server that is stated to be what it is."""
    asked = {"tokens": TOKENS, "requests": 2, "concurrency": 1, "warmup": 0, "prompts": "once", "repeat": False, **more}
    return Instrument(Session()).stream(url, model=gguf_file, bandwidth="500GB/s", **asked)


@pytest.mark.parametrize("chat", [True, False])
def test_the_server_of_llama_cpp_python(python_server: str, gguf_file: str, chat: bool) -> None:
    """What is known of its tokens is counted, and what it does not say is said."""
    result = ask(python_server, gguf_file, chat=chat)
    figures = result.stream.to_dict()
    assert (figures["failed"], figures["requests"]) == (0, 2), figures["failures"]
    assert result.verdict.outcome in ("passed", "inconclusive"), result.findings
    assert 0 < figures["ttft_s"]["p50"] <= figures["ttft_s"]["p99"]


@pytest.mark.parametrize("chat", [True, False])
def test_the_server_of_llama_cpp(native_server: str, gguf_file: str, chat: bool) -> None:
    """Usage comes with the last event, and its tokens are counted by it; two at once are seen as two."""
    result = ask(native_server, gguf_file, chat=chat, concurrency=2, body=WHOLE)
    figures = result.stream.to_dict()
    assert (figures["failed"], figures["tokens"]) == (0, 2 * TOKENS), figures["failures"]
    assert figures["finish_reasons"] == {"length": 2}
    assert result.verdict.outcome in ("passed", "inconclusive"), result.findings
    assert 0 < result.fraction < 1
    assert 1.0 < figures["at_once"] <= 2.0
    assert result.aggregate.tokens_per_s == pytest.approx(2 * TOKENS / figures["window_s"])


@pytest.mark.parametrize("chat", [True, False])
def test_log_probabilities_bear_its_usage_out(native_server: str, gguf_file: str, chat: bool) -> None:
    """One for each token, under `content` for both kinds; nothing is in doubt."""
    body = {**WHOLE, "logprobs": True, "top_logprobs": 1} if chat else {**WHOLE, "logprobs": 1}
    result = ask(native_server, gguf_file, chat=chat, body=body)
    assert [one.logprobs for one in result.stream.exchanges] == [TOKENS] * 2
    assert "tokens-disagree" not in {finding.check for finding in result.findings}


def test_an_answer_that_ends_itself_is_said(native_server: str, gguf_file: str) -> None:
    """With the end made likely it comes soon: fewer tokens than asked for, none of them made up."""
    body = {"logit_bias": [[2, 2.5]], "temperature": 1.0}
    result = ask(native_server, gguf_file, body=body, tokens=400, requests=4, concurrency=2)
    figures = result.stream.to_dict()
    answered = 4 - figures["failed"]  # an end that comes first is an answer without any output
    assert figures["finish_reasons"] == {"stop": answered}, figures
    assert 0 < figures["tokens"] < 400 * answered
    assert any("answers ended before the 400 tokens that were asked for" in note for note in result.notes)


def test_its_cache_of_prompts_is_found_and_fresh_prompts_are_not_in_it(native_server: str, gguf_file: str) -> None:
    """Prompts begin with what no cache knows; the one that is asked twice is nearly all from the cache."""
    prompt = "once upon a time there was a long long story"
    result = ask(native_server, gguf_file, chat=False, prompts=prompt, repeat=True, body=WHOLE)
    (kept,) = [note for note in result.notes if "of a repeated prompt" in note]
    cached, whole = (int(word) for word in kept.split(",")[0].split() if word.isdigit())
    assert whole > len(prompt) > 0.5 * whole
    assert cached >= whole - 2
    assert result.stream.cached_share < 0.1
    warm = ask(native_server, gguf_file, chat=False, prompts=prompt, fresh=False, warmup=2, body=WHOLE)
    assert warm.stream.cached_share > 0.5
    assert any("of the prompt tokens were cached" in note for note in warm.notes)
    cold = {**WHOLE, "cache_prompt": False}
    assert ask(native_server, gguf_file, chat=False, fresh=False, warmup=1, body=cold).stream.cached_share == 0


def test_progress_and_timings_in_each_event_are_no_output(native_server: str, gguf_file: str) -> None:
    """Events of the prompt's progress are not the first token, and a running count is not added up."""
    body = {**WHOLE, "return_progress": True, "timings_per_token": True, "stream_options": None}
    for chat in (True, False):
        result = ask(native_server, gguf_file, chat=chat, body=body)
        for one in result.stream.exchanges:
            assert (one.tokens, one.error) == (TOKENS, None)
            assert len(one.arrivals) <= TOKENS


def test_a_prompt_that_does_not_fit_is_said_by_the_server(native_server: str, gguf_file: str) -> None:
    """Its refusal is the error, with its words."""
    with pytest.raises(MeasurementError, match=r"HTTP 400: .*exceed"):
        ask(native_server, gguf_file, chat=False, prompts="once upon a time " * 100)


def test_a_server_that_drafts_says_how_much_and_is_judged_by_it(drafting_server: str, gguf_file: str) -> None:
    """Its timings count what was accepted: more than two tokens a pass, of four at most."""
    result = ask(drafting_server, gguf_file, tokens=40, body=WHOLE)
    assert result.stream.tokens == 80
    drafted, accepted = result.stream.drafted
    assert 0 < accepted <= drafted
    said = result.stream.said_tokens_per_pass
    assert 1.5 < said <= 4.0
    assert any(f"{accepted} of {drafted} drafted tokens were accepted, {said:.3g} tokens per pass" in note
               for note in result.notes)  # fmt: skip
    stated = ask(drafting_server, gguf_file, tokens=40, body=WHOLE, tokens_per_pass=said)
    assert stated.verdict.outcome in ("passed", "inconclusive"), stated.findings
    assert stated.evidence.tokens_per_pass == said
