"""The command as somebody types it, in a process of its own, and the small files that its breakers are built of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from model_files import GgufWriter, Tensor, llama_tensors, llama_values, safetensors_file

ROOT = Path(__file__).resolve().parents[1]
CARD = ("--device", "h100-sxm")
LLAMA = {
    "model_type": "llama",
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
}
CLOSED_PORT = "http://127.0.0.1:9"
OTHERS = ("HF_", "HUGGING", "ALL_PROXY", "HTTP", "http", "all_proxy", "SSL_", "PYTEST_ROOFLINE")
"""Beginnings of variables that would lead the command elsewhere than the test says."""


def street(
    *arguments: str,
    patience_s: float = 30.0,
    stdout: int = subprocess.PIPE,
    variables: Mapping[str, str] | None = None,
) -> tuple[int, str, str]:
    """The command as somebody types it, with these variables and no others of the hub or of proxies.

    Patience is what makes a hang a failure; it is no limit of speed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
    command = [sys.executable, "-m", "pytest_roofline", *arguments]
    done = subprocess.run(
        command,
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
        cwd=ROOT,
        env={**kept, **(variables or {})},
        timeout=patience_s,
    )
    said = (done.stdout or b"").decode(errors="replace"), done.stderr.decode(errors="replace")
    return done.returncode, *said


def is_plain_refusal(done: tuple[int, str, str]) -> bool:
    """Wrong use said in words: exit 2, nothing on stdout, no traceback."""
    status, out, err = done
    return status == 2 and out == "" and "Traceback" not in err and err.startswith("roofline")


def config_folder(folder: Path, **changed: Any) -> Path:
    """A folder with the config of a small llama."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**LLAMA, **changed}))
    return folder


def checkpoint(folder: Path, tensors: Mapping[str, tuple[str, Sequence[int]]], **changed: Any) -> Path:
    """A config and one safetensors file."""
    config_folder(folder, **changed)
    (folder / "model.safetensors").write_bytes(safetensors_file(tensors))
    return folder


def gguf(folder: Path, tensors: Sequence[Tensor] | None = None, **changed: Any) -> Path:
    """One GGUF file of a small llama of two blocks."""
    file = folder / "model.gguf"
    file.write_bytes(GgufWriter().file(llama_values(**changed), tensors or llama_tensors()))
    return file


def spec_file(folder: Path, text: str) -> str:
    """A spec file with one source, ``doc``."""
    file = folder / "own.yaml"
    file.write_text(f"schema: 1\nsources: {{doc: 'A document'}}\n{text}")
    return str(file)
