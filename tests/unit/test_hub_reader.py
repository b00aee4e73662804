"""Models of the hub, against a server on this machine that answers as the hub does and counts the bytes it sends."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from hub_server import Handler, Hub
from model_files import (
    LLAMA_CONFIG,
    GgufWriter,
    llama_gguf,
    llama_safetensors,
    llama_tensors,
    llama_values,
    safetensors_file,
)

from pytest_roofline.errors import MissingDependency, RooflineUsageError
from pytest_roofline.readers import hub_files
from pytest_roofline.readers.gguf_file import read_gguf
from pytest_roofline.readers.hub import read_hub
from pytest_roofline.readers.safetensors_file import read_safetensors

pytest.importorskip("httpx")
pytest.importorskip("huggingface_hub")

CONFIG = json.dumps(LLAMA_CONFIG).encode()
TABLES = ("lm_head.weight", "model.embed_tokens.weight")
TABLES = ("lm_head.weight", "model.embed_tokens.weight")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub on this machine, and an environment that leads to it."""
    hub = Hub()
    handler = type("OneHandler", (Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    hub.other_host = f"http://localhost:{server.server_port}"
    for name in ("HF_HUB_OFFLINE", "HF_HUB_DOWNLOAD_TIMEOUT", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint + "/")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield hub
    hub.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_config_and_headers_alone_are_fetched(hub: Hub, tmp_path: Path) -> None:
    """Of a 50 MB checkpoint less than 100 kB are sent, and the model is the one that the files hold."""
    config = {**LLAMA_CONFIG, "vocab_size": 200_000}
    tensors = llama_safetensors() | dict.fromkeys(TABLES, ("F16", (200_000, 64)))
    hub.files = {"config.json": json.dumps(config).encode(), "model.safetensors": safetensors_file(tensors)}
    assert len(hub.files["model.safetensors"]) > 50e6
    for name, data in hub.files.items():
        (tmp_path / name).write_bytes(data)
    model, local = read_hub("org/tiny"), read_safetensors(tmp_path)
    assert (model.weights, model.caches, model.notes) == (local.weights, local.caches, local.notes)
    assert model.name == "org/tiny"
    assert model.source.startswith(f"{hub.endpoint}/org/tiny/resolve/main/config.json, ")
    assert hub.bytes_sent < 100_000


def test_the_token_stays_with_the_hub(hub: Hub) -> None:
    """It goes to the endpoint, and not to the host that large files are redirected to."""
    hub.files = {"config.json": CONFIG, "model.safetensors": safetensors_file(llama_safetensors())}
    read_hub("org/tiny")
    tokens = {token for path, _, token in hub.asked if path.startswith("/org/")}
    assert tokens == {"Bearer hf_secret"}
    assert {token for path, _, token in hub.asked if path.startswith("/cdn/")} == {None}


def test_shards_are_read_by_the_index(hub: Hub) -> None:
    """Every file that the index names is asked for its header."""
    tensors = list(llama_safetensors().items())
    places = {}
    for number in range(3):
        name, part = f"model-{number + 1:05d}-of-00003.safetensors", dict(tensors[number * 7 : number * 7 + 7])
        hub.files[name] = safetensors_file(part)
        places |= dict.fromkeys(part, name)
    hub.files["config.json"] = CONFIG
    hub.files["model.safetensors.index.json"] = json.dumps({"weight_map": places}).encode()
    model = read_hub("org/tiny", revision="v1")
    assert sum(weight.stored_bytes or 0 for weight in model.weights) == 2 * model.parameters
    assert all(path.startswith(("/org/tiny/resolve/v1/", "/cdn/")) for path, _, _ in hub.asked)
    assert read_hub("org/tiny:model-00002-of-00003.safetensors").parameters == model.parameters


def test_a_header_longer_than_the_first_bytes_takes_a_second_request(hub: Hub) -> None:
    """What lies beyond the first 32 kB is asked for by its own range."""
    padding = {"__metadata__": {"padding": "x" * 100_000}}
    hub.files = {"config.json": CONFIG, "model.safetensors": safetensors_file(llama_safetensors(), **padding)}
    assert read_hub("org/tiny").kv_elements_per_token() == 128
    ranges = [wanted for path, wanted, _ in hub.asked if path.startswith("/cdn/")]
    assert ranges[-1] is not None
    assert ranges[-1].startswith("bytes=32768-")


def test_without_safetensors_the_config_says_the_sizes(hub: Hub) -> None:
    """A repository of other formats is read by its config, with a note."""
    hub.files = {"config.json": CONFIG, "pytorch_model.bin": b""}
    model = read_hub("org/tiny")
    assert {weight.stored_bytes for weight in model.weights} == {None}
    assert model.notes == ("no safetensors in the repository: sizes by config.json",)


def test_a_gguf_is_read_by_growing_ranges(hub: Hub, tmp_path: Path) -> None:
    """The header with its vocabulary, and nothing of the weights."""
    values = llama_values(tokenizer__ggml__tokens=[f"token {number}" for number in range(50_000)])
    tensors = [(name, (200_000, 64) if "token_embd" in name else shape, kind) for name, shape, kind in llama_tensors()]
    hub.files = {"sub/tiny.gguf": GgufWriter().file(values, tensors)}
    (tmp_path / "tiny.gguf").write_bytes(hub.files["sub/tiny.gguf"])
    model = read_hub("org/tiny:sub/tiny.gguf")
    assert model.weights == read_gguf(tmp_path / "tiny.gguf").weights
    assert len(hub.files["sub/tiny.gguf"]) > 25e6
    assert hub.bytes_sent < 2.5e6


def test_shards_of_a_gguf_are_read_together(hub: Hub) -> None:
    """Naming one on the hub reads all of them."""
    tensors = llama_tensors()
    for number in range(2):
        values = (llama_values() if number == 0 else {}) | {"split.no": number, "split.count": 2}
        hub.files[f"tiny-{number + 1:05d}-of-00002.gguf"] = GgufWriter().file(
            values, tensors[number * 9 :][: 9 + 9 * number * 2]
        )
    assert len(read_hub("org/tiny:tiny-00002-of-00002.gguf").weights) == 12


def test_a_repository_of_gguf_files_lists_them(hub: Hub) -> None:
    """Which to name is said; shards count once, projectors not at all."""
    hub.files = {"a-Q4_K_M.gguf": llama_gguf(), "mmproj-a.gguf": b"", "README.md": b""}
    hub.files |= {f"a-F16-{number:05d}-of-00002.gguf": b"" for number in (1, 2)}
    hub.files["a-00009-of-00003.gguf"] = b""  # a shard that cannot be is no model to name, and stops nobody
    with pytest.raises(
        RooflineUsageError, match=r"2 GGUF files: name one, as in org/tiny:a-F16-00001-of-00002\.gguf"
    ) as caught:
        read_hub("org/tiny")
    assert str(caught.value).endswith("There are: a-F16-00001-of-00002.gguf, a-Q4_K_M.gguf")


def test_a_repository_of_neither_lists_what_it_has(hub: Hub) -> None:
    """Nothing that can be read is an error with the files that are there."""
    hub.files = {"README.md": b"", "model.onnx": b""}
    with pytest.raises(RooflineUsageError, match=r"no GGUF file; there are 2 files: README\.md, model\.onnx"):
        read_hub("org/tiny")


@pytest.mark.parametrize(
    ("status", "headers", "message"),
    [
        (
            401,
            {"X-Error-Code": "GatedRepo"},
            r"a gated model \(401\): ask for access at .*/org/tiny, then set HF_TOKEN",
        ),
        (403, {}, r"a gated model \(403\)"),
        (401, {"X-Error-Code": "RepoNotFound"}, r"no such model, or a private one \(401\): check the name 'org/tiny'"),
        (404, {"X-Error-Code": "RepoNotFound"}, r"no such model, or a private one \(404\)"),
        (404, {"X-Error-Code": "RevisionNotFound"}, r"org/tiny has no revision 'v1' \(404\)"),
        (429, {"Retry-After": "30"}, r"too many requests \(429\): try again in 30 s"),
        (429, {}, r"too many requests \(429\): try again later"),
        (503, {}, r"the hub has a fault \(503\)"),
        (418, {}, r"refused \(418\)"),
    ],
)
def test_refusals_name_the_address_and_what_to_do(hub: Hub, status: int, headers: dict[str, str], message: str) -> None:
    """By the hub's own error codes."""
    hub.refusal = (status, headers)
    with pytest.raises(RooflineUsageError, match=rf"{hub.endpoint}/org/tiny/resolve/v1/config\.json: {message}"):
        read_hub("org/tiny", "v1")


def test_names_that_the_hub_does_not_know(hub: Hub) -> None:
    """An unknown repository, revision and file by the server's own answers."""
    hub.files = {"config.json": CONFIG}
    with pytest.raises(RooflineUsageError, match="no such model, or a private one"):
        read_hub("org/other")
    with pytest.raises(RooflineUsageError, match="org/tiny has no revision 'v2'"):
        read_hub("org/tiny", revision="v2")
    with pytest.raises(RooflineUsageError, match=r"nothing\.gguf: not on the hub \(404\)"):
        read_hub("org/tiny:nothing.gguf")
    with pytest.raises(RooflineUsageError, match=r"no file other\.safetensors; there are 1 files: config\.json"):
        read_hub("org/tiny:other.safetensors")


def test_a_stalled_connection_is_given_up(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never answers is left after the time that is allowed."""
    monkeypatch.setattr(hub_files, "DEFAULT_TIMEOUT_S", 0.1)
    hub.stalls.set()
    with pytest.raises(RooflineUsageError, match=r"no answer within 0\.1 s; try again, or set HF_HUB_DOWNLOAD_TIMEOUT"):
        read_hub("org/tiny")


def test_the_time_that_is_allowed_is_the_hubs_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole seconds; anything else is the default."""
    for given, expected in (("3", 3.0), ("0", 10.0), ("x", 10.0), ("", 10.0)):
        monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", given)
        assert hub_files._timeout_s() == expected


def test_a_server_that_ignores_ranges_sends_no_weights(hub: Hub) -> None:
    """The first bytes are taken and the connection closed; later ones are refused."""
    hub.ignores_ranges = True
    tensors = llama_safetensors() | dict.fromkeys(TABLES, ("F16", (300_000, 64)))
    config = json.dumps({**LLAMA_CONFIG, "vocab_size": 300_000}).encode()
    hub.files = {"config.json": config, "model.safetensors": safetensors_file(tensors)}
    assert read_hub("org/tiny").kv_elements_per_token() == 128
    assert hub.bytes_sent < len(hub.files["model.safetensors"]) / 2
    hub.files["model.safetensors"] = safetensors_file(tensors, __metadata__={"padding": "x" * 100_000})
    with pytest.raises(RooflineUsageError, match="the server ignores range requests"):
        read_hub("org/tiny")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"Content-Encoding": "gzip"}, r"comes compressed \('gzip'\) though it was asked for as it is"),
        ({"Content-Range": "bytes 5-99/1000"}, "the server sent the bytes from 5 on, and those from 0 were asked for"),
    ],
)
def test_bytes_that_are_not_those_of_the_file_are_refused(hub: Hub, header: dict[str, str], message: str) -> None:
    """A proxy that packs what it passes on, a cache that sends another part."""
    hub.files = {"config.json": CONFIG, "model.safetensors": safetensors_file(llama_safetensors())}
    hub.adds = header
    with pytest.raises(RooflineUsageError, match=message):
        read_hub("org/tiny")


def test_a_server_that_hides_sizes_is_an_error(hub: Hub) -> None:
    """Without the file's size a truncated one cannot be told."""
    hub.hides_sizes = True
    hub.files = {"config.json": CONFIG, "model.safetensors": safetensors_file(llama_safetensors())}
    with pytest.raises(RooflineUsageError, match="does not say how large the file is"):
        read_hub("org/tiny")


def test_redirects_without_end_are_left(hub: Hub) -> None:
    """After eight of them."""
    hub.redirects_for_ever = True
    with pytest.raises(RooflineUsageError, match="redirected over 8 times"):
        read_hub("org/tiny")


def test_nobody_at_the_endpoint(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused connection, and an endpoint that is none."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(RooflineUsageError, match=r"http://127\.0\.0\.1:1/.*\(ConnectError\).*HF_HUB_OFFLINE=1"):
        read_hub("org/tiny")
    monkeypatch.setenv("HF_ENDPOINT", "ftp://x")
    with pytest.raises(RooflineUsageError, match="HF_ENDPOINT is 'ftp://x'"):
        read_hub("org/tiny")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"model_type": "nothing"}', b'{"model_type": "llama"}'])
def test_a_config_that_is_none_names_its_address(hub: Hub, data: bytes) -> None:
    """Broken JSON, an unknown family, a missing size."""
    hub.files = {"config.json": data}
    with pytest.raises(RooflineUsageError, match=rf"{hub.endpoint}/org/tiny/resolve/main/config\.json: "):
        read_hub("org/tiny")


def test_a_small_file_that_is_large_is_left(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config of a gigabyte is not taken."""
    monkeypatch.setattr("pytest_roofline.readers.hub.LARGEST_CONFIG_BYTES", 1000)
    hub.files = {"config.json": b" " * 5_000_000}
    with pytest.raises(RooflineUsageError, match="more than 1,000 bytes: not what its name says"):
        read_hub("org/tiny")
    assert hub.bytes_sent < 5_000_000


@pytest.mark.parametrize(
    "name", ["", "a b", "../x", "org/../x", "/etc/passwd", "a/b/c", "org/tiny:../x.gguf", "http://x/y", "a--b/c"]
)
def test_what_is_no_name_is_never_asked_for(hub: Hub, name: str) -> None:
    """Paths and addresses are no names of models."""
    with pytest.raises(RooflineUsageError, match="is no name"):
        read_hub(name)
    assert hub.asked == []


@pytest.mark.parametrize("revision", ["", "a b", "../..", "x?y"])
def test_what_is_no_revision_is_never_asked_for(hub: Hub, revision: str) -> None:
    """A revision is a branch, a tag or a commit."""
    with pytest.raises(RooflineUsageError, match="is no revision"):
        read_hub("org/tiny", revision)
    assert hub.asked == []


def test_offline_reads_the_cache_alone(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With HF_HUB_OFFLINE nothing is asked for; what is not in the cache is an error that says so."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found: dict[str, str] = {}
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda repository, name, revision: found.get(name))
    with pytest.raises(
        RooflineUsageError, match=r"org/tiny: config\.json is not in the local cache, and HF_HUB_OFFLINE"
    ):
        read_hub("org/tiny")
    (tmp_path / "config.json").write_bytes(CONFIG)
    found["config.json"] = str(tmp_path / "config.json")
    assert {weight.stored_bytes for weight in read_hub("org/tiny").weights} == {None}
    (tmp_path / "model.safetensors").write_bytes(safetensors_file(llama_safetensors()))
    assert None not in {weight.stored_bytes for weight in read_hub("org/tiny").weights}
    assert hub.asked == []


@pytest.mark.parametrize("library", ["httpx", "huggingface_hub"])
def test_a_missing_library_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """The hub extra is optional."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(MissingDependency, match=rf"needs {library}: pip install 'pytest-roofline\[hub\]'"):
        read_hub("org/tiny")
    if library == "huggingface_hub":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        with pytest.raises(MissingDependency, match="needs huggingface_hub"):
            read_hub("org/tiny")
