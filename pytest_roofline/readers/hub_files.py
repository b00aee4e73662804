"""Parts of files on the Hugging Face hub, by HTTP range requests: a few kilobytes of a repository of terabytes.

``huggingface_hub`` gives the addresses, the token and the local cache. Its ``get_safetensors_metadata`` is not used: it
takes whatever a server sends, all of a file where that ignores the range. Here the answer is streamed and the
connection closed when the bytes asked for are there.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

from pytest_roofline.errors import MissingDependency, RooflineUsageError

DEFAULT_ENDPOINT = "https://huggingface.co"
DEFAULT_TIMEOUT_S = 10.0
MOST_REDIRECTS = 8
PATIENCE_BYTES = 2**18
"""What has to come within two timeouts: a server that sends a byte a second would never come to an end."""
_SURROUNDINGS = re.compile(r"(ALL|HTTPS?|NO)_PROXY|SSL_CERT_(FILE|DIR)", re.IGNORECASE)
"""Variables that decide how httpx connects."""


_SIZE = re.compile(r"[0-9]{1,18}")
_RANGE = re.compile(r"bytes ([0-9]{1,18})-")


class NotOnHub(RooflineUsageError):
    """The repository has no such file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Bytes of a file, and how many the whole has."""

    data: bytes
    size_bytes: int | None
    """None where the server did not say."""


class HubFiles:
    """One repository at one revision, as a context manager.

    Honours ``HF_ENDPOINT``, ``HF_TOKEN`` (and the token that ``hf auth login`` has saved) and
    ``HF_HUB_DOWNLOAD_TIMEOUT``: the seconds without a byte after which it gives up (10). After twice as many it gives
    up where an answer has not begun, or `PATIENCE_BYTES` of it have not come. `bytes_read` counts what came. Variables
    that cannot be used are a `RooflineUsageError` that names them.
    """

    def __init__(self, repository: str, revision: str | None = None) -> None:
        huggingface_hub = import_hub(repository)
        try:
            import httpx
        except ImportError as error:
            raise _missing(repository, error) from None
        self.repository = repository
        self.revision = revision
        self.bytes_read = 0
        self.endpoint = (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
        if not re.match(r"https?://[^/]", self.endpoint) or not self.endpoint.isascii():
            raise RooflineUsageError(f"HF_ENDPOINT is {self.endpoint!r:.200}: an http or https address is needed")
        try:
            address = httpx.URL(self.endpoint)
            _ = address.host  # idna speaks up when the host is asked for
            if not 0 < (address.port or 80) < 2**16:
                raise ValueError(f"port {address.port}")
        except (httpx.InvalidURL, ValueError) as error:
            raise RooflineUsageError(f"HF_ENDPOINT is {self.endpoint!r:.200}, no address: {error!s:.200}") from None
        self._httpx: Any = httpx
        self._address: Callable[..., str] = huggingface_hub.hf_hub_url
        token = _token(huggingface_hub)
        # Byte counts are those of the file only when nothing is compressed on the way.
        headers = {"Accept-Encoding": "identity", "User-Agent": "pytest-roofline"}
        try:
            self._client: Any = httpx.Client(
                headers=headers if token is None else {**headers, "Authorization": f"Bearer {token}"},
                timeout=_timeout_s(),
                follow_redirects=True,
                max_redirects=MOST_REDIRECTS,
            )
        except (httpx.InvalidURL, ImportError, OSError, ValueError) as error:
            names = [name for name in os.environ if _SURROUNDINGS.fullmatch(name)]
            raise RooflineUsageError(
                f"{repository}: no connection can be made: {error!s:.200} ({type(error).__name__}); check "
                f"{', '.join(sorted(names)) or 'the proxy and the certificates of this machine'}"
            ) from None

    def __enter__(self) -> HubFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def url(self, name: str) -> str:
        """The address of a file."""
        try:
            return self._address(self.repository, name, revision=self.revision, endpoint=self.endpoint)
        except ValueError as error:
            raise RooflineUsageError(
                f"{self.repository!r:.200} is no name of a model on the hub: {error!s:.200}"
            ) from None

    def part(self, name: str, offset: int, size_bytes: int) -> Part:
        """`size_bytes` of a file from `offset`, fewer at its end; never more, whatever the server sends."""
        wanted = {"Range": f"bytes={offset}-{offset + size_bytes - 1}"}
        return self._get(self.url(name), wanted, offset, size_bytes)

    def whole(self, name: str, largest_bytes: int) -> bytes:
        """A small file; more than `largest_bytes` is an error."""
        got = self._get(self.url(name), {}, 0, largest_bytes + 1).data
        if len(got) > largest_bytes:
            raise RooflineUsageError(f"{self.url(name)}: more than {largest_bytes:,} bytes: not what its name says")
        return got

    def names(self) -> list[str]:
        """The files of the repository, as the hub's API lists them; ``gguf`` and others alike."""
        from pytest_roofline.readers.json_file import parse_json_object

        url = f"{self.endpoint}/api/models/{self.repository}"
        url += f"/revision/{self.revision}" if self.revision is not None else ""
        listed = parse_json_object(self._get(url, {}, 0, 2**25).data, url).get("siblings")
        found = (
            [entry.get("rfilename") for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        )
        return sorted(name for name in found if isinstance(name, str))

    def _get(self, url: str, headers: dict[str, str], offset: int, size_bytes: int) -> Part:
        """`_ask` with an end to patience: timeouts of httpx hold between two bytes, and not for looking up a host."""
        said: SimpleQueue[Part | BaseException | None] = SimpleQueue()

        def ask() -> None:
            try:
                said.put(self._ask(url, headers, offset, size_bytes, lambda: said.put(None)))
            except BaseException as error:
                said.put(error)

        # A daemon: where it waits for ever, the process ends all the same.
        threading.Thread(target=ask, daemon=True).start()
        while True:
            try:
                got = said.get(timeout=2 * _timeout_s())
            except Empty:
                raise RooflineUsageError(
                    f"{url}: the server is too slow: under {PATIENCE_BYTES:,} bytes within {2 * _timeout_s():g} s; try "
                    f"again, or set HF_HUB_DOWNLOAD_TIMEOUT=SECONDS"
                ) from None
            if isinstance(got, Part):
                return got
            if got is not None:
                raise got

    def _ask(self, url: str, headers: dict[str, str], offset: int, size_bytes: int, come: Callable[[], object]) -> Part:
        """The answer; `come` is called when it begins, and for every `PATIENCE_BYTES` of it."""
        httpx = self._httpx
        try:
            with self._client.stream("GET", url, headers=headers) as response:
                if response.status_code == 416:
                    return Part(data=b"", size_bytes=_whole_size(response.headers, 0))
                if response.status_code not in (200, 206):
                    raise self._refused(url, response)
                if response.status_code == 200 and offset > 0:
                    raise RooflineUsageError(
                        f"{url}: the server ignores range requests, and would send the whole file: name a local copy"
                    )
                _check_part(url, response.headers, offset if response.status_code == 206 else None)
                data = bytearray()
                come()
                for chunk in response.iter_raw(PATIENCE_BYTES):
                    come()
                    data += chunk
                    if len(data) >= size_bytes:
                        break
                self.bytes_read += len(data)
                start = offset if response.status_code == 206 else 0
                return Part(data=bytes(data[:size_bytes]), size_bytes=_whole_size(response.headers, start))
        except httpx.TimeoutException:
            raise RooflineUsageError(
                f"{url}: no answer within {_timeout_s():g} s; try again, or set HF_HUB_DOWNLOAD_TIMEOUT=SECONDS"
            ) from None
        except httpx.TooManyRedirects:
            raise RooflineUsageError(f"{url}: redirected over {MOST_REDIRECTS} times; is HF_ENDPOINT right?") from None
        except RooflineUsageError:
            raise
        # Of httpx, of idna (a redirect to a host that cannot be) and of ssl.
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
            raise RooflineUsageError(
                f"{url}: {error!s:.200} ({type(error).__name__}); check the connection, the proxy and HF_ENDPOINT, or "
                f"set HF_HUB_OFFLINE=1 to read what is in the local cache"
            ) from None

    def _refused(self, url: str, response: Any) -> RooflineUsageError:
        """What an answer that is no file means, and what to do."""
        status, code = response.status_code, response.headers.get("X-Error-Code", "")
        if code == "GatedRepo" or status == 403:
            return RooflineUsageError(
                f"{url}: a gated model ({status}): ask for access at {self.endpoint}/{self.repository}, "
                f"then set HF_TOKEN"
            )
        if code == "RevisionNotFound":
            return RooflineUsageError(f"{url}: {self.repository} has no revision {self.revision!r} ({status})")
        if code == "RepoNotFound" or status == 401:
            return RooflineUsageError(
                f"{url}: no such model, or a private one ({status}): check the name {self.repository!r}, "
                f"or set HF_TOKEN"
            )
        if status == 404:
            return NotOnHub(f"{url}: not on the hub (404): check {self.repository!r} and the file's name")
        if status == 429:
            after = response.headers.get("Retry-After", "")
            wait = f" in {after} s" if after.isdecimal() else " later"
            return RooflineUsageError(f"{url}: too many requests (429): try again{wait}, or set HF_TOKEN")
        problem = "the hub has a fault" if status >= 500 else "refused"
        return RooflineUsageError(f"{url}: {problem} ({status}): try again later")


class HubWindow:
    """A file on the hub of which only the first bytes are wanted (see `FileWindow`)."""

    def __init__(self, files: HubFiles, name: str, *, first_bytes: int, chunk_bytes: int) -> None:
        self.name = files.url(name)
        self.chunk_bytes = chunk_bytes
        self._files = files
        self._file = name
        first = files.part(name, 0, first_bytes)
        if first.size_bytes is None:
            raise RooflineUsageError(f"{self.name}: the server does not say how large the file is: name a local copy")
        self._first = first.data
        self.size_bytes = first.size_bytes

    def read(self, offset: int, size_bytes: int) -> bytes:
        """`size_bytes` from `offset`, fewer only at the end of the file."""
        if offset + size_bytes <= len(self._first):
            return self._first[offset : offset + size_bytes]
        head = self._first[offset:]
        return head + self._files.part(self._file, offset + len(head), size_bytes - len(head)).data


def _whole_size(headers: Any, offset: int) -> int | None:
    """The whole file's size, by ``Content-Range: bytes 0-99/5000``, else by the length of an answer from `offset`."""
    total = str(headers.get("Content-Range", "")).rpartition("/")[2]
    if _SIZE.fullmatch(total):
        return int(total)
    length = str(headers.get("Content-Length", ""))
    return offset + int(length) if _SIZE.fullmatch(length) else None


def _check_part(url: str, headers: Any, offset: int | None) -> None:
    """Raises RooflineUsageError for bytes that are not those of the file, or of another place in it."""
    packing = str(headers.get("Content-Encoding", "identity")).strip().lower()
    if packing not in ("", "identity"):
        raise RooflineUsageError(
            f"{url}: comes compressed ({packing[:40]!r}) though it was asked for as it is: is a proxy in between? "
            "Name a local copy"
        )
    begun = _RANGE.match(str(headers.get("Content-Range", "")))
    if offset is not None and begun is not None and int(begun[1]) != offset:
        raise RooflineUsageError(
            f"{url}: the server sent the bytes from {int(begun[1]):,} on, and those from {offset:,} were asked for: "
            "name a local copy"
        )


def import_hub(repository: str) -> Any:
    """``huggingface_hub``, which reads its variables when it is imported and raises whatever they make it."""
    try:
        import huggingface_hub

        with contextlib.redirect_stdout(io.StringIO()):  # its own complaint is printed there
            _ = huggingface_hub.hf_hub_url, huggingface_hub.get_token, huggingface_hub.try_to_load_from_cache
    except ImportError as error:
        raise _missing(repository, error) from None
    except Exception as error:
        names = sorted(name for name in os.environ if name.startswith(("HF_", "HUGGING")) and name != "HF_TOKEN")
        raise RooflineUsageError(
            f"{repository}: huggingface_hub cannot be imported: {error!s:.200} ({type(error).__name__}); check "
            f"{', '.join(names) or 'its installation'}"
        ) from None
    return huggingface_hub


def _missing(repository: str, error: ImportError) -> MissingDependency:
    return MissingDependency(
        f"{repository}: reading from the hub needs {error.name}: pip install 'pytest-roofline[hub]'"
    )


def _token(huggingface_hub: Any) -> str | None:
    try:
        token: str | None = huggingface_hub.get_token()
    except (OSError, ValueError) as error:
        raise RooflineUsageError(f"the token of the hub cannot be read: {error!s:.200}; check HF_TOKEN_PATH") from None
    if token is not None and not (token.isascii() and token.isprintable()):
        raise RooflineUsageError("HF_TOKEN, or the saved token, holds characters that no token has: set it again")
    return token


def _timeout_s() -> float:
    given = os.environ.get("HF_HUB_DOWNLOAD_TIMEOUT", "")
    return float(given) if re.fullmatch(r"[1-9]\d{0,4}", given) else DEFAULT_TIMEOUT_S
