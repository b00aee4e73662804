"""`roofline.stream` against a server that nobody here wrote: ``transformers serve``, with a tiny random model."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
for package in ("httpx", "fastapi", "uvicorn", "openai", "accelerate"):
    pytest.importorskip(package)

from pytest_roofline.errors import BogusMeasurement  # noqa: E402
from pytest_roofline.instrument import Instrument  # noqa: E402
from pytest_roofline.session import Session  # noqa: E402

TOKENS = 24
SERVE = "from transformers.cli.transformers import main; main()"
PATIENCE_S = 120.0


def save_model(folder: Path) -> None:
    """Two layers that never end by themselves, and a tokenizer of single characters."""
    vocabulary = {"<s>": 0, "</s>": 1, "<unk>": 2}
    for code in range(33, 127):
        vocabulary.setdefault(chr(code), len(vocabulary))
    cut = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    cut.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=cut, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="</s>"
    )
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        bos_token_id=0,
        eos_token_id=None,
    )
    model = transformers.LlamaForCausalLM(config)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 1
    model.save_pretrained(folder)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Its address and the folder of its model; skipped with its last words where it does not start."""
    folder = tmp_path_factory.mktemp("tiny")
    save_model(folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", SERVE, "serve", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    lines: list[str] = []
    is_ready, has_ended = threading.Event(), threading.Event()
    with subprocess.Popen(
        [*command, "--device", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
    ) as process:

        def listen() -> None:
            for line in process.stdout or ():
                lines.append(line)
                if "Uvicorn running" in line:
                    is_ready.set()
            has_ended.set()
            is_ready.set()

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            if not is_ready.wait(PATIENCE_S) or has_ended.is_set():
                pytest.skip(f"transformers serve did not start: {''.join(lines)[-300:]}")
            yield f"http://127.0.0.1:{port}/v1", str(folder)
        finally:
            process.kill()
            process.wait()
            listener.join(5)


def ask(served: tuple[str, str], **more: Any) -> Any:
    """Four requests, two at a time."""
    url, folder = served
    roofline = Instrument(Session())
    return roofline.stream(
        url, **{"served": folder, "tokens": TOKENS, "requests": 4, "concurrency": 2, "prompts": "a b c", **more}
    )


@pytest.mark.parametrize("chat", [True, False])
def test_a_real_server_is_counted_and_judged(served: tuple[str, str], chat: bool) -> None:
    """Tokens by its usage, a time to the first and for each other one, and a fraction of the stated ceiling."""
    result = ask(served, chat=chat, model=served[1], weights="fp32", bandwidth="50GB/s")
    figures = result.stream.to_dict()
    assert (figures["failed"], figures["requests"], figures["tokens"]) == (0, 4, 4 * TOKENS), figures["failures"]
    assert figures["finish_reasons"] == {"length": 4}
    assert result.verdict.outcome == "passed"
    # Weights of 0.3 MB take 6 us at 50 GB/s: no Python on any machine calls its layers in that.
    assert 0 < result.fraction < 0.5
    assert 0 < figures["ttft_s"]["p50"] <= figures["ttft_s"]["p99"]
    assert figures["tpot_s"]["p50"] > 0
    assert figures["prompt_tokens"] > 4 * 32  # each begins with what makes it fresh, character by character
    assert result.aggregate.tokens_per_s == pytest.approx(4 * TOKENS / figures["window_s"])


def test_a_real_server_cannot_be_a_larger_model_than_it_is(served: tuple[str, str]) -> None:
    """Stated to read 100 TB per pass at 1 TB/s, it is too fast by far."""
    with pytest.raises(BogusMeasurement, match="this device cannot exceed"):
        ask(served, traffic=1e14, bandwidth=1e12, tokens_per_pass=1, requests=1, concurrency=1, repeat=False)
