"""A server on localhost is asked as any OpenAI-compatible one, and held against the model and device it is said to be.

It is no language model: it sends a token every few milliseconds, or all of them at once.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

MODEL, CARD = "llama-3.2-1b", "rtx-4090"


class Handler(BaseHTTPRequestHandler):
    """Streams as many words as it is asked for, `pause_s` apart."""

    pause_s = 0.005

    def log_message(self, *parts):
        """Nothing on the terminal."""

    def do_POST(self):
        """One request."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for number in range(asked["max_tokens"]):
            time.sleep(self.pause_s)
            self.send({"choices": [{"delta": {"content": f"word{number} "}}]})
        usage = {"prompt_tokens": 40, "completion_tokens": asked["max_tokens"]}
        self.send({"choices": [{"delta": {}, "finish_reason": "length"}], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def send(self, body):
        """One event, at once."""
        self.wfile.write(f"data: {json.dumps(body)}\n\n".encode())
        self.wfile.flush()


@pytest.fixture
def url():
    pytest.importorskip("httpx")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_a_server_per_user_and_in_aggregate(roofline, url):
    """Four users at a time; each gets a token in 5 ms, where the card could read the model in 2.5 ms."""
    result = roofline.stream(url, served="demo", model=MODEL, device=CARD, concurrency=4, tokens=48)
    figures = result.stream.to_dict()
    ttft_s, tpot_s = figures["ttft_s"], figures["tpot_s"]
    print(f"{result.fraction:.0%} of the ceiling per user, {result.aggregate.fraction:.0%} in aggregate")
    print(
        f"TTFT {ttft_s['p50']:.4f} s, p99 {ttft_s['p99']:.4f} s; TPOT {tpot_s['p50']:.4f} s, p99 {tpot_s['p99']:.4f} s"
    )
    print(
        f"{figures['tokens_per_s']:.0f} tok/s, {figures['at_once']:.1f} at once; not checked: {result.not_checked[0]}"
    )
    assert result.verdict.outcome == "passed"


def test_a_server_too_fast_for_its_model_is_refused(roofline, url, monkeypatch):
    """All tokens at once: a model of 70 billion parameters on this card cannot have made them."""
    from pytest_roofline import BogusMeasurement

    monkeypatch.setattr(Handler, "pause_s", 0.0)
    with pytest.raises(BogusMeasurement) as caught:
        roofline.stream(url, served="demo", model="llama-3.1-70b", device=CARD, tokens_per_pass=1, tokens=48)
    print(caught.value)
