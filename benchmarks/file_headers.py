"""What it takes to read the header of a 400 GB file: seconds and peak memory, each in a process of its own. ::

    python benchmarks/file_headers.py [--gigabytes 400] [--vocabulary 150000]

Makes a sparse GGUF and a sparse safetensors file in a temporary folder (they take no room on most file systems): a
dense model of 120 layers with a vocabulary of 150,000 tokens and 280,000 merges in the GGUF. Beside them, where it is
installed, the ``gguf`` package's own reader on the same GGUF. Exit 1 when one of ours takes over 0.3 s or 200 MB.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ALLOWED_S, ALLOWED_BYTES = 0.3, 200e6
ROOT = Path(__file__).resolve().parent.parent
LAYERS = 120
MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


def text(value: str) -> bytes:
    """A GGUF text."""
    return struct.pack("<Q", len(value.encode())) + value.encode()


def shapes(total_bytes: float, vocabulary: int) -> dict[str, tuple[int, int]]:
    """Matrices of F16 that take about `total_bytes` together."""
    side = int((total_bytes / 2 / (LAYERS * len(MATRICES))) ** 0.5) // 128 * 128
    found = {f"blk.{layer}.{name}.weight": (side, side) for layer in range(LAYERS) for name in MATRICES}
    return {"token_embd.weight": (vocabulary, side), **found}


def write_gguf(path: Path, total_bytes: float, vocabulary: int) -> None:
    """A header in full, and nothing behind it."""
    tensors = shapes(total_bytes, vocabulary)
    side = tensors["token_embd.weight"][1]
    sizes = {"block_count": LAYERS, "embedding_length": side, "attention.head_count": side // 128}
    values = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    values += [text(f"llama.{name}") + struct.pack("<II", 4, size) for name, size in sizes.items()]
    for key, count in (("tokenizer.ggml.tokens", vocabulary), ("tokenizer.ggml.merges", vocabulary * 28 // 15)):
        texts = b"".join(text(f"token{number:x}") for number in range(count))
        values.append(text(key) + struct.pack("<IIQ", 9, 8, count) + texts)
    values.append(text("tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, vocabulary) + bytes(4 * vocabulary))
    entries, offset = [], 0
    for name, (rows, columns) in tensors.items():
        entries.append(text(name) + struct.pack("<IQQIQ", 2, columns, rows, 1, offset))
        offset += 2 * rows * columns
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(values) + b"".join(entries)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(-(-len(header) // 32) * 32 + offset)


def write_safetensors(path: Path, total_bytes: float, vocabulary: int) -> None:
    """The same model as transformers names it, with its config.json beside it."""
    names = dict(
        zip(MATRICES, ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"), strict=True)
    )
    entries, offset, side = {}, 0, 0
    for name, shape in shapes(total_bytes, vocabulary).items():
        side = shape[1]
        if name.startswith("blk."):
            _, layer, matrix, _ = name.split(".")
            room = "self_attn" if matrix.startswith("attn") else "mlp"
            name = f"model.layers.{layer}.{room}.{names[matrix]}.weight"
        else:
            name = "model.embed_tokens.weight"
        size = 2 * shape[0] * shape[1]
        entries[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    norms = [
        f"model.layers.{layer}.{which}_layernorm.weight"
        for layer in range(LAYERS)
        for which in ("input", "post_attention")
    ]
    for name in ["model.norm.weight", *norms]:
        entries[name] = {"dtype": "BF16", "shape": [side], "data_offsets": [offset, offset + 2 * side]}
        offset += 2 * side
    header = json.dumps(entries).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + offset)
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": side,
        "intermediate_size": side,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": side // 128,
        "num_key_value_heads": side // 128,
        "vocab_size": vocabulary,
        "tie_word_embeddings": True,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
    }
    (path.parent / "config.json").write_text(json.dumps(config))


READERS = {
    "ours, GGUF": "from pytest_roofline.readers.gguf_file import read_gguf as read",
    "ours, safetensors": "from pytest_roofline.readers.safetensors_file import read_safetensors as read",
    "gguf package": "from gguf import GGUFReader as read",
}
# The peak of this process image alone: what getrusage says includes the parent's, from before the exec.
CHILD = """
import re, resource, sys, time
sys.path.insert(0, sys.argv[2])
before = time.perf_counter()
{line}
imported = time.perf_counter()
read(sys.argv[1])
done = time.perf_counter()
try:
    peak_kib = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]
except OSError:
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(imported - before, done - imported, peak_kib)
"""


def main() -> int:
    """Make the files, read each in a fresh process, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=400.0, help="Size of each file (default: 400)")
    parser.add_argument("--vocabulary", type=int, default=150_000, help="Tokens in the GGUF (default: 150,000)")
    chosen = parser.parse_args()
    late = False
    with tempfile.TemporaryDirectory() as folder:
        files = {"GGUF": Path(folder, "model.gguf"), "safetensors": Path(folder, "model.safetensors")}
        write_gguf(files["GGUF"], chosen.gigabytes * 1e9, chosen.vocabulary)
        write_safetensors(files["safetensors"], chosen.gigabytes * 1e9, chosen.vocabulary)
        for file in files.values():
            about = file.stat()
            print(f"{file.name}: {about.st_size / 1e9:.0f} GB, {about.st_blocks * 512 / 1e6:.0f} MB of it on disk")
        print(f"{'reader':20} {'import s':>9} {'read s':>8} {'peak MB':>8}")
        for reader, line in READERS.items():
            if reader == "gguf package" and importlib.util.find_spec("gguf") is None:
                print(f"{reader:20} not installed")
                continue
            path = files["safetensors" if "safetensors" in reader else "GGUF"]
            code = [sys.executable, "-c", CHILD.format(line=line), str(path), str(ROOT)]
            done = subprocess.run(code, capture_output=True, text=True, check=False, cwd=folder, env=dict(os.environ))
            if done.returncode:
                print(f"{reader:20} failed: {done.stderr.strip().splitlines()[-1]}")
                late = late or reader.startswith("ours")
                continue
            imported_s, read_s, peak_kib = map(float, done.stdout.split())
            print(f"{reader:20} {imported_s:9.3f} {read_s:8.3f} {peak_kib * 1024 / 1e6:8.0f}")
            late = late or (reader.startswith("ours") and (read_s > ALLOWED_S or peak_kib * 1024 > ALLOWED_BYTES))
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
