"""What broke, or tried to break, the readers of files and of the hub: hangs, memory, tracebacks, forged output."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from model_files import GgufWriter, llama_safetensors, llama_tensors, llama_values, safetensors_file
from paper_street import (
    CARD,
    CLOSED_PORT,
    ROOT,
    config_folder,
    gguf,
    is_plain_refusal,
    street,
)

from pytest_roofline import cli
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.checkpoint import read_model

# -- the hub ----------------------------------------------------------------------------------------------------------


HUB_VARIABLES: dict[str, dict[str, str]] = {
    "a SOCKS proxy without socksio": {"ALL_PROXY": "socks5://127.0.0.1:9"},
    "a proxy of no kind": {"HTTPS_PROXY": "garbage://"},
    "certificates that are not there": {"SSL_CERT_FILE": "/no/such/file.pem"},
    "a token beyond ASCII": {"HF_TOKEN": "h\u00e9"},
    "an address of broken IPv6": {"HF_ENDPOINT": "http://[::1"},
    "a port that cannot be": {"HF_ENDPOINT": "http://127.0.0.1:99999999"},
    "a host that IDNA refuses": {"HF_ENDPOINT": "http://xn--a"},
    "a host of points": {"HF_ENDPOINT": "http://....."},
    "bytes in the address": {"HF_ENDPOINT": "http://127.0.0.1:9/\udcff"},
    "a timeout of huggingface_hub that is no number": {"HF_HUB_ETAG_TIMEOUT": "soon"},
    "a token file that is a folder": {"HF_TOKEN_PATH": "/"},
}


@pytest.mark.parametrize("what", HUB_VARIABLES)
def test_variables_that_the_hub_cannot_use(what: str) -> None:
    """Wrong surroundings are wrong use, and name what to change."""
    pytest.importorskip("huggingface_hub")
    assert is_plain_refusal(
        street("predict", "org/name", *CARD, variables={"HF_ENDPOINT": CLOSED_PORT, **HUB_VARIABLES[what]})
    )


@pytest.mark.parametrize("name", ["a--b/c", "a/b."])
def test_a_name_that_the_cache_of_the_hub_refuses(name: str) -> None:
    """Offline as online, where it is a usage error."""
    pytest.importorskip("huggingface_hub")
    assert is_plain_refusal(street("predict", name, *CARD, variables={"HF_HUB_OFFLINE": "1"}))
    assert is_plain_refusal(street("predict", name, *CARD, variables={"HF_ENDPOINT": CLOSED_PORT}))


# -- hangs and memory -------------------------------------------------------------------------------------------------


SLOW = {
    "optional characters": ["re:" + ".?" * 30 + "ZZZ"],
    "alternatives": ["re:" + "(.|.)" * 28 + "ZZZ"],
    "many expressions": [f"re:.*.*.*.*Z{number}" for number in range(2000)],
    "many wildcards": [f"*a{number}*b" for number in range(50_000)],
}


@pytest.mark.parametrize("what", SLOW)
def test_a_list_of_skipped_modules_does_not_hang_the_command(what: str, tmp_path: Path) -> None:
    """Refused, or matched; a hang is neither."""
    block = {"quant_method": "gptq", "bits": 4, "group_size": 128, "modules_to_not_convert": SLOW[what]}
    folder = config_folder(tmp_path / "slow", quantization_config=block, num_hidden_layers=100)
    with contextlib.suppress(subprocess.TimeoutExpired):
        assert street("predict", str(folder), *CARD, patience_s=60)[0] in (0, 2)
        return
    pytest.fail("still running")


def peak_bytes(*arguments: str) -> int:
    """The most memory that the command held: of its own, for ``ru_maxrss`` starts with what its parent held."""
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc here")
    program = (
        "import sys\n"
        "from pytest_roofline.cli import main\n"
        "main(sys.argv[1:])\n"
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return 1024 * int(done.stdout.splitlines()[-1])


def test_a_header_takes_no_more_memory_than_a_few_times_its_size(tmp_path: Path) -> None:
    """A safetensors header of 32 MB that is one name: 900 MB for the 100 MB that are allowed."""
    name = "x" * 32_000_000 + "\U0001f600"
    header = json.dumps({name: {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}}, ensure_ascii=False).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0")
    assert peak_bytes("predict", str(file), *CARD) < 200e6


def test_the_nearest_method_is_not_sought_for_megabytes(tmp_path: Path) -> None:
    """``quant_method`` of 15 MB: 600 MB and seconds for a word of advice."""
    folder = config_folder(tmp_path / "long", quantization_config={"quant_method": "ab" * 7_500_000})
    assert peak_bytes("predict", str(folder), *CARD) < 300e6


@contextlib.contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server on this machine that answers every connection like this; its address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

    def talk(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(2**16)
            answer(connection)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def a_byte_at_a_time(connection: socket.socket) -> None:
    """Never silent for as long as a timeout, and never done."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        connection.sendall(b" ")
        threading.Event().wait(0.2)


def continue_for_ever(connection: socket.socket) -> None:
    """Interim answers, and never the final one."""
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        threading.Event().wait(0.2)


@pytest.mark.parametrize("answer", [a_byte_at_a_time, continue_for_ever])
def test_a_server_that_never_comes_to_an_end(answer: Callable[[socket.socket], None]) -> None:
    """With a timeout of one second, half a minute is more than patience."""
    pytest.importorskip("huggingface_hub")
    with answering(answer) as endpoint, contextlib.suppress(subprocess.TimeoutExpired):
        variables = {"HF_ENDPOINT": endpoint, "HF_HUB_DOWNLOAD_TIMEOUT": "1"}
        assert is_plain_refusal(street("predict", "org/name", *CARD, patience_s=30, variables=variables))
        return
    pytest.fail("still running")


def a_size_of_many_digits(connection: socket.socket) -> None:
    """No config, and a file of 10**5000 bytes."""
    size = b"9" * 5000
    connection.sendall(b"HTTP/1.1 206 Partial Content\r\nContent-Length: 8\r\nContent-Range: bytes 0-7/" + size)
    connection.sendall(b'\r\nConnection: close\r\n\r\n{"a": 1}')


def elsewhere_by_a_name_that_is_none(connection: socket.socket) -> None:
    """A redirect to a host that IDNA refuses."""
    connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://xn--a/\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize("answer", [a_size_of_many_digits, elsewhere_by_a_name_that_is_none])
def test_an_answer_that_no_server_gives(answer: Callable[[socket.socket], None]) -> None:
    """Refused with the address."""
    pytest.importorskip("huggingface_hub")
    with answering(answer) as endpoint:
        done = street("predict", "org/name", *CARD, variables={"HF_ENDPOINT": endpoint})
    assert is_plain_refusal(done)
    assert endpoint in done[2]


# -- what is printed of strangers' texts ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["\x1b[2Jtiny", "tiny\n\n  3.35 TB/s / 1 B = 999,999 tok/s", "x" * 60_000])
def test_the_name_in_a_file_forges_no_output(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No control characters, no lines of its own, no page of it."""
    assert cli.main(["predict", str(gguf(tmp_path, general__name=name)), *CARD]) == 0
    first, second, *_ = capsys.readouterr().out.split("\n")
    assert first.isprintable()
    assert len(first) < 300
    assert second.startswith("weights ")


# -- what holds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gguf", "safetensors"])
def test_a_file_that_is_cut_anywhere_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    """At every length up to the end of the header, and at some in the data."""
    if kind == "gguf":
        whole, file = GgufWriter().file(llama_values(), llama_tensors()), tmp_path / "model.gguf"
    else:
        config_folder(tmp_path)
        whole, file = safetensors_file(llama_safetensors()), tmp_path / "model.safetensors"
    for length in [*range(0, 600, 3), *range(600, len(whole), 4001), len(whole) - 1]:
        file.write_bytes(whole[:length])
        with pytest.raises(RooflineUsageError, match=re.escape(str(file))):
            read_model(file)


def test_pipes_devices_loops_and_folders_are_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever stands where a config should; nothing waits for a writer."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes here")
    for name in ("pipe", "loop", "folder", "index"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / "config.json")
    os.mkfifo(tmp_path / "index" / "model.safetensors.index.json")
    (tmp_path / "loop" / "config.json").symlink_to("config.json")
    (tmp_path / "folder" / "config.json").mkdir()
    for name in ("pipe", "loop", "folder", "index", "pipe/config.json", "loop/config.json", "folder/config.json"):
        assert cli.main(["predict", str(tmp_path / name), *CARD]) == 2
        assert str(tmp_path / name) in capsys.readouterr().err
    assert cli.main(["predict", "/dev/zero", *CARD]) == 2
    assert "/dev/zero" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd.safetensors", "a/b.safetensors", 7, None, ""])
def test_an_index_leads_nowhere_else(name: Any, tmp_path: Path) -> None:
    """Only to files beside it."""
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(RooflineUsageError, match=re.escape(f"{index}: weight_map.a")):
        read_model(tmp_path)
