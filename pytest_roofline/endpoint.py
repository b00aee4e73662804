"""A client of one OpenAI-compatible endpoint: sends prompts, reads the streamed answers, and keeps the time.

The only room that knows httpx, which is imported when an endpoint is opened. A moment is taken when bytes have been
read, on the private clock: events that came in one read came at one time, as far as a client can tell.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any

from pytest_roofline.backends.private_clock import clock
from pytest_roofline.errors import MissingDependency, RooflineUsageError, one_line
from pytest_roofline.sse import BrokenStream, EventReader
from pytest_roofline.stream_events import read_delta
from pytest_roofline.streaming import Exchange, Intake

MOST_AT_ONCE = 512
"""Each has a thread; beyond it the client would measure itself."""
LARGEST_ANSWER_BYTES = 2**28
LARGEST_REFUSAL_BYTES = 2**16
LINGER_S = 0.05
"""For the end of an answer behind its [DONE]; a server that leaves the connection open then is left."""
_CHAT, _COMPLETIONS = "/chat/completions", "/completions"
_LOCAL = ("localhost", "127.0.0.1", "::1")


class Endpoint:
    """One endpoint, as a context manager.

    `url` ends in ``/v1`` (then `chat` says which of the two it is; the default is a chat) or in the whole path.
    `served` is the name that the server knows the model by; None: the first one that its ``/models`` lists. `body` is
    added to every request, and a None in it takes a key out. `timeout_s`: without a byte, and for a whole answer ten
    times as long. Raises MissingDependency without httpx.
    """

    def __init__(
        self,
        url: str,
        *,
        chat: bool | None = None,
        served: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingDependency(
                "roofline.stream needs httpx, which is not installed: pip install 'pytest-roofline[server]'"
            ) from None
        self._httpx: Any = httpx
        base = str(url).rstrip("/")
        try:
            address = httpx.URL(base)
            if address.scheme not in ("http", "https") or not address.host:
                raise ValueError("no http or https address")
        except (httpx.InvalidURL, ValueError, TypeError) as error:
            raise RooflineUsageError(
                f"url is {url!r:.200}: {one_line(str(error))}; the address of a server is needed, such as "
                "http://localhost:8000/v1"
            ) from None
        is_whole = base.endswith(_COMPLETIONS)
        self.is_chat = base.endswith(_CHAT) if is_whole else chat is not False
        if is_whole and chat is not None and chat is not self.is_chat:
            raise RooflineUsageError(f"url is {base:.200}, and chat={chat}: they speak of different endpoints")
        self.url = base if is_whole else base + (_CHAT if self.is_chat else _COMPLETIONS)
        self._base = base.removesuffix(_COMPLETIONS).removesuffix("/chat") if is_whole else base
        self._served = served
        self._body = dict(body or {})
        several = [f"{key}={self._body[key]!r:.20}" for key in ("n", "best_of") if self._body.get(key, 1) != 1]
        if several:
            raise RooflineUsageError(f"body has {', '.join(several)}: one answer per request can be timed")
        self._timeout_s = timeout_s
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "User-Agent": "pytest-roofline"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        self._client: Any = httpx.Client(
            headers=headers,
            timeout=timeout_s,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=MOST_AT_ONCE),
            trust_env=address.host not in _LOCAL,  # a proxy of the company does not lead to this machine
        )
        self._lock = threading.Lock()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    @property
    def served(self) -> str:
        """The name that the server knows the model by."""
        with self._lock:
            if self._served is None:
                self._served = self._first_of_models()
            return self._served

    def _first_of_models(self) -> str:
        try:
            listed = self._client.get(f"{self._base}/models").json()["data"]
            return str(listed[0]["id"])
        except (self._httpx.HTTPError, ValueError, LookupError, TypeError) as error:
            raise RooflineUsageError(
                f"{self._base}/models does not name a model ({type(error).__name__}: {one_line(str(error))}); is the "
                "server running there? say served= where it lists none"
            ) from None

    def ask_all(self, prompts: Sequence[str], *, tokens: int, at_once: int) -> list[Exchange]:
        """Each prompt once, so many under way at any time; answers in the order of the prompts."""
        _ = self.served
        pool = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="roofline-stream")
        try:
            return list(pool.map(lambda prompt: self.ask(prompt, tokens=tokens), prompts))
        except BaseException:  # a timeout of the test, say: nobody waits for what is still under way
            self._client.close()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def ask(self, prompt: str, *, tokens: int) -> Exchange:
        """One prompt. What goes wrong with it is in the `error` of the answer."""
        request = self._request(prompt, tokens)
        intake = Intake(prompt=prompt, start_s=clock(), asked_tokens=tokens)
        try:
            try:
                error = self._read(request, intake)
            except (self._httpx.RemoteProtocolError, self._httpx.ReadError, self._httpx.WriteError):
                # A connection that was kept may have been closed meanwhile; its time stays in this request's.
                if intake.has_begun:
                    raise
                intake.remark("requests were sent a second time: their connection had been closed before an answer")
                error = self._read(request, intake)
        except (self._httpx.HTTPError, self._httpx.StreamError, BrokenStream, OSError) as failure:
            # After its last event a server may leave the connection open: nothing is missing then.
            error = None if intake.is_done else f"{type(failure).__name__}: {failure}"
        return intake.close(clock(), error)

    def _request(self, prompt: str, tokens: int) -> dict[str, Any]:
        asked: dict[str, Any] = (
            {"messages": [{"role": "user", "content": prompt}]} if self.is_chat else {"prompt": prompt}
        )
        asked |= {
            "model": self.served,
            "max_tokens": tokens,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return {key: value for key, value in (asked | self._body).items() if value is not None}

    def _read(self, request: dict[str, Any], intake: Intake) -> str | None:
        """Take the answer's events; what is wrong with it, None for nothing."""
        reader = EventReader()
        until_s, size_bytes = clock() + 10 * self._timeout_s, 0
        with self._client.stream("POST", self.url, json=request) as response, ExitStack() as held:
            intake.has_begun = True
            refusal = _refusal(response)
            if refusal is not None:
                return refusal
            is_leaving = False
            for chunk in response.iter_bytes():
                at_s = clock()
                size_bytes += len(chunk)
                for event in reader.feed(chunk):
                    intake.take(read_delta(event.data, event.name), at_s)
                if intake.has_failed:
                    return None
                if intake.is_done and not is_leaving:
                    is_leaving = True
                    held.callback(_leave_later(response))
                if at_s > until_s or size_bytes > LARGEST_ANSWER_BYTES:
                    return (
                        None if intake.is_done else f"no end after {size_bytes:,} bytes and {10 * self._timeout_s:g} s"
                    )
        at_s = clock()
        for event in reader.close():
            intake.take(read_delta(event.data, event.name), at_s)
        return None


def _leave_later(response: Any) -> Callable[[], None]:
    """Stop reading this answer after a while, from another thread; returns what calls that off.

    The slot of the request would be taken until the timeout otherwise, and no rate of the server would be its own.
    """
    stream = response.extensions.get("network_stream")
    connection: Any = stream.get_extra_info("socket") if stream is not None else None
    lock, close = threading.Lock(), response.close
    is_over = False

    def closing() -> None:
        """From here on the connection may be another request's."""
        nonlocal is_over
        with lock:
            is_over = True
        close()

    def leave() -> None:
        with lock, suppress(OSError):
            if not is_over:
                connection.shutdown(socket.SHUT_RD)

    timer = threading.Timer(LINGER_S, leave)
    timer.daemon = True
    if connection is not None:
        response.close = closing
        timer.start()
    return timer.cancel


def _refusal(response: Any) -> str | None:
    """Why this is no stream of events; None where it is one."""
    kind = response.headers.get("content-type", "").lower()
    if response.status_code == 200 and "event-stream" in kind:
        return None
    said = bytearray()
    for chunk in response.iter_bytes():
        said += chunk
        if len(said) > LARGEST_REFUSAL_BYTES:
            break
    text = one_line(" ".join(said.decode("utf-8", "replace").split()))
    if response.status_code != 200:
        return f"HTTP {response.status_code}: {text}"
    return f"no stream of events, but {kind or 'an answer without a type'}: {text}"
