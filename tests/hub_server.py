"""A server that answers as the hub does: resolve addresses, redirects of large files, ranges, its error codes."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any


class Hub:
    """What the server holds, how it misbehaves, and what it was asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.refusal: tuple[int, dict[str, str]] | None = None
        self.ignores_ranges = False
        self.hides_sizes = False
        self.redirects_for_ever = False
        self.adds: dict[str, str] = {}
        """Headers of each part that is sent, in place of the right ones."""
        self.stalls = threading.Event()
        self.released = threading.Event()
        self.bytes_sent = 0
        self.asked: list[tuple[str, str | None, str | None]] = []
        """Path, range and authorization of each request."""
        self.endpoint = ""
        self.other_host = ""

    def missing(self, path: str) -> str:
        """The hub's word for what is not there."""
        if not path.startswith(("/org/tiny/", "/api/models/org/tiny")):
            return "RepoNotFound"
        return "EntryNotFound" if re.search(r"/resolve/(main|v1)/", path) else "RevisionNotFound"


class Handler(BaseHTTPRequestHandler):
    """Resolve addresses, a redirect of large files to another host, ranges, errors in headers."""

    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *parts: Any) -> None:
        """Nothing on the terminal."""

    def answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        """Send, and count what was taken."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if not self.hub.hides_sizes:
            self.send_header("Content-Length", str(len(body)))
        else:
            self.close_connection = True
        self.end_headers()
        for start in range(0, len(body), 2**14):
            try:
                self.wfile.write(body[start : start + 2**14])
            except OSError:  # the reader has what it wanted
                self.close_connection = True
                return
            self.hub.bytes_sent += len(body[start : start + 2**14])

    def do_GET(self) -> None:
        """One request."""
        hub = self.hub
        hub.asked.append((self.path, self.headers.get("Range"), self.headers.get("Authorization")))
        if hub.stalls.is_set():
            hub.released.wait(30)
        elif hub.refusal is not None:
            self.answer(hub.refusal[0], hub.refusal[1])
        elif hub.redirects_for_ever:
            self.answer(302, {"Location": self.path})
        elif re.fullmatch(r"/api/models/org/tiny(/revision/\w+)?", self.path):
            self.answer(200, {}, json.dumps({"siblings": [{"rfilename": name} for name in hub.files]}).encode())
        elif match := re.fullmatch(r"/org/tiny/resolve/(?:main|v1)/(.+)", self.path):
            self.resolve(match[1])
        elif match := re.fullmatch(r"/cdn/(.+)", self.path):
            self.send(hub.files[match[1]])
        else:
            self.answer(404, {"X-Error-Code": hub.missing(self.path)})

    def resolve(self, name: str) -> None:
        """Small files from here, large ones from elsewhere."""
        if name not in self.hub.files:
            self.answer(404, {"X-Error-Code": "EntryNotFound"})
        elif name.endswith((".safetensors", ".gguf")):
            size = len(self.hub.files[name])
            headers = {"X-Linked-Size": str(size), "X-Repo-Commit": "c0ffee", "ETag": '"abc"'}
            self.answer(302, {**headers, "Location": f"{self.hub.other_host}/cdn/{name}"})
        else:
            self.send(self.hub.files[name])

    def send(self, whole: bytes) -> None:
        """All of it, or the range that was asked for."""
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        if wanted is None or self.hub.ignores_ranges:
            self.answer(200, {}, whole)
            return
        start, end = int(wanted[1]), min(int(wanted[2]), len(whole) - 1)
        if start >= len(whole):
            self.answer(416, {"Content-Range": f"bytes */{len(whole)}"})
            return
        span = {} if self.hub.hides_sizes else {"Content-Range": f"bytes {start}-{end}/{len(whole)}"}
        self.answer(206, {**span, "Accept-Ranges": "bytes", **self.hub.adds}, whole[start : end + 1])
