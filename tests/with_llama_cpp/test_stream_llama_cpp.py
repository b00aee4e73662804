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

from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session

TOKENS = 12
PATIENCE_S = 60.0
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


@pytest.fixture(scope="module")
def native_server(gguf_file: str) -> Iterator[str]:
    """``llama-server``, by ``LLAMA_SERVER`` or on the path."""
    program = os.environ.get("LLAMA_SERVER") or shutil.which("llama-server")
    if program is None:
        pytest.skip("llama-server is neither on the path nor named by LLAMA_SERVER")
    if find_spec("httpx") is None:
        pytest.skip("httpx is not installed")
    port = free_port()
    command = [program, "-m", gguf_file, "--host", "127.0.0.1", "--port", str(port), "-c", "1024", "-np", "2"]
    yield from started([*command, "-t", "1"], port)


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
    """Usage comes with the last event, and its tokens are counted by it."""
    result = ask(native_server, gguf_file, chat=chat, concurrency=2, body={"ignore_eos": True})
    figures = result.stream.to_dict()
    assert (figures["failed"], figures["tokens"]) == (0, 2 * TOKENS), figures["failures"]
    assert result.verdict.outcome in ("passed", "inconclusive"), result.findings
    assert 0 < result.fraction < 1
