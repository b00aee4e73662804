"""A server on localhost that answers as OpenAI-compatible ones do, and as broken ones do: each test writes its script.

Nothing sleeps: where requests have to overlap, a barrier holds the answers until all have come.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = Callable[[dict[str, Any]], Iterable[bytes]]


def event(body: Any, *, end: str = "\n\n") -> bytes:
    """One event with this object as its data."""
    return f"data: {json.dumps(body, ensure_ascii=False)}{end}".encode()


def chat(text: str | None = None, *, finish: str | None = None, usage: Any = None, **choice: Any) -> dict[str, Any]:
    """One chunk of a chat."""
    delta = {} if text is None else {"content": text}
    body: dict[str, Any] = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **choice}]}
    return body if usage is None else {**body, "usage": usage}


def usage_of(tokens: int, *, prompt: int = 20, **more: Any) -> dict[str, Any]:
    """What servers say at the end."""
    return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens, **more}


DONE = b"data: [DONE]\n\n"


def answer(tokens: int, *, said: int | None = None, finish: str = "length", ids: bool = False) -> list[bytes]:
    """A sound answer of so many tokens, one each; `said` in its usage."""
    extra = {"token_ids": [7]} if ids else {}
    chunks = [event(chat(f"w{number} ", **extra)) for number in range(tokens)]
    last = event({"choices": [], "usage": usage_of(tokens if said is None else said)})
    return [event(chat("")), *chunks, event(chat(None, finish=finish)), last, DONE]


def apart(pieces: list[bytes]) -> list[bytes]:
    """The same with comments between that are larger than what a client reads at once: so no two come in one read."""
    return [part for piece in pieces for part in (piece, b": " + b" " * 200_000 + b"\n\n")]


class Server:
    """Its address, its script, and what it was asked."""

    def __init__(self) -> None:
        self.script: Script = lambda request: answer(16)
        self.status = 200
        self.kind = "text/event-stream"
        self.more_headers: dict[str, str] = {}
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.url = ""


class Handler(BaseHTTPRequestHandler):
    """Lists one model, and answers a POST by the script, one flush per piece; the end of the connection ends it."""

    server_of_test: Server

    def log_message(self, *parts: Any) -> None:
        """Nothing on the terminal."""

    def do_GET(self) -> None:
        """The list of models."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"object": "list", "data": [{"id": "tiny"}]}).encode())

    def do_POST(self) -> None:
        """One request."""
        state = self.server_of_test
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        state.asked.append(request)
        state.headers.append(dict(self.headers))
        state.paths.append(self.path)
        try:
            pieces = state.script(request)
        except ConnectionError:
            return  # nothing is answered, and the connection ends
        self.send_response(state.status)
        self.send_header("Content-Type", state.kind)
        for name, value in state.more_headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for piece in pieces:
                self.wfile.write(piece)
                self.wfile.flush()
        except OSError:
            pass  # the client has seen enough


@contextmanager
def serving() -> Iterator[Server]:
    """A server for as long as the block lasts."""
    state = Server()
    handler = type("TestHandler", (Handler,), {"server_of_test": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
