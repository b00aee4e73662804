"""What a page of ``roofline curve --html`` is held to: the same question asked of ``roofline predict``."""

from __future__ import annotations

import json
import math
import random
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from model_files import Q4_0, Q8_0, GgufWriter, llama_tensors, llama_values

from pytest_roofline.cli import main

TOLERANCE = 1e-9
# Grouped heads; experts; a latent; windows; windows, experts and quantized weights; states and latents beside KV
# heads; chunks; images; parameters alone; drafts of both kinds; a GGUF file; a selection of what is kept.
MODELS: Mapping[str, tuple[str, ...]] = {
    "grouped heads": ("llama-3.1-8b", "--device", "h100-sxm"),
    "experts": ("qwen3-30b-a3b", "--device", "rtx-4090", "--offload", "0.25"),
    "a latent": ("deepseek-v3-r1", "--device", "h200-sxm", "--tp", "8", "--link-latency", "10us"),
    "windows": ("gemma-3-27b", "--device", "rtx-3090", "--weights", "q4_k_m"),
    "windows and experts": ("gpt-oss-120b", "--device", "h100-sxm", "--prompt", "3000"),
    "linear attention": ("qwen3-next-80b-a3b", "--device", "h100-sxm"),
    "states": ("falcon-h1-7b", "--device", "a100-sxm-80gb", "--kv", "fp8"),
    "chunks": ("llama-4-scout", "--bandwidth", "3TB/s", "--peak", "900TFLOP/s", "--memory", "80GB"),
    "parameters alone": ("--params", "70B", "--active", "13B", "--kv-per-token", "320KiB", "--device", "h100-sxm"),
    "a draft": ("llama-3.1-70b", "--draft", "llama-3.2-1b", "--draft-tokens", "4", "--device", "h100-sxm"),
    "its own draft": ("deepseek-v3-r1", "--draft", "mtp", "--device", "h100-sxm", "--weights", "fp8-block"),
    "a file": ("tiny.gguf", "--device", "l4"),
    "a selection": ("sparse.json", "--device", "h200-sxm", "--tp", "2"),
}
"""Arguments of ``roofline curve`` and, less what the page sets, of ``roofline predict``."""

SPARSE = {
    **{"model_type": "deepseek_v32", "vocab_size": 4096, "hidden_size": 512, "num_hidden_layers": 8},
    **{"num_attention_heads": 8, "intermediate_size": 1024, "moe_intermediate_size": 256, "n_routed_experts": 16},
    **{"num_experts_per_tok": 2, "q_lora_rank": 128, "kv_lora_rank": 128, "qk_rope_head_dim": 64, "v_head_dim": 64},
    **{"qk_nope_head_dim": 64, "index_topk": 512, "index_head_dim": 128, "index_n_heads": 4},
}
"""The config of the model that reads a selection of what it keeps."""

COMPARED = (
    *("weight_bytes_total", "weight_bytes_per_pass", "kv_bytes_per_token", "kv_bytes_per_pass", "draft_bytes_per_pass"),
    *("bytes_per_pass", "spill_bytes_per_pass", "link_bytes_per_pass", "least_bytes_per_pass", "flops_per_pass"),
    *("arithmetic_intensity", "ridge_point", "memory_s", "spill_s", "compute_s", "link_s", "step_floor_s", "bound"),
    *("step_bound", "memory_needed_bytes", "fits", "ceiling_tokens_per_s", "ceiling_tokens_per_s_per_user"),
    *("limit_tokens_per_s", "peak_flops_per_s", "peak_dtype", "ttft_floor_s", "prefill_flops", "prefill_floor_s"),
)


def arguments_of(name: str, folder: Path) -> list[str]:
    """The arguments of one of `MODELS`; its file, if it has one, stands in `folder`."""
    first, *others = MODELS[name]
    if not first.endswith((".gguf", ".json")):
        return [first, *others]
    file = folder / first
    if first.endswith(".json"):
        file.write_text(json.dumps(SPARSE), encoding="utf-8")
        return [str(file), *others]
    tensors = [
        (tensor, shape, Q8_0 if tensor == "output.weight" else kind) for tensor, shape, kind in llama_tensors(kind=Q4_0)
    ]
    file.write_bytes(GgufWriter().file(llama_values(), tensors))
    return [str(file), *others]


def page_of(arguments: list[str], file: Path) -> str:
    """The text of the page that these arguments write into `file`."""
    with redirect_stdout(StringIO()):
        assert main(["curve", *arguments, "--html", str(file)]) == 0
    return file.read_text(encoding="utf-8")


def table_in(page: str) -> dict[str, Any]:
    """The table that a page calculates with."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found is not None
    table: dict[str, Any] = json.loads(found[1])
    return table


def predicted(arguments: list[str]) -> dict[str, Any]:
    """What ``roofline predict`` says."""
    printed = StringIO()
    with redirect_stdout(printed):
        assert main(["predict", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(printed.getvalue())
    return found


def random_settings(table: Mapping[str, Any], dice: random.Random) -> Iterator[dict[str, Any]]:
    """Settings of a page, at random: any device, any formats, any workload."""
    spilling = [device for device in table["devices"] if device["spill_bytes_per_s"] is not None]
    most = 9.0 if table["draft"] is None else table["draft"]["tokens"] + 1.0
    while True:
        is_offloaded = dice.random() < 0.25
        yield {
            "device": dice.choice(spilling if is_offloaded else table["devices"])["key"],
            "weights": dice.choice(table["weights"])["key"],
            "kv": dice.choice(table["kv"])["key"],
            "ranks": dice.choice((1, 1, 1, 2, 3, 4, 5, 8, 16, 72)),
            "batch": dice.choice((1, round(math.exp(dice.uniform(0, 8.5))))),
            "context": dice.choice((0, *(round(math.exp(dice.uniform(4, 13))) for _ in range(3)))),
            "prompt": dice.choice((0, round(math.exp(dice.uniform(2, 12))))),
            "tokens_per_pass": dice.choice((1, most, round(dice.uniform(1, most), 2))),
            "offload": round(dice.uniform(0.01, 1), 3) if is_offloaded else 0,
            "is_overlapped": is_offloaded and dice.random() < 0.5,
        }


def arguments_for(table: Mapping[str, Any], settings: Mapping[str, Any], model: list[str]) -> list[str]:
    """What asks ``roofline predict`` the same; `model`: what says the model and its draft."""
    device = next(entry for entry in table["devices"] if entry["key"] == settings["device"])
    asked = [*model, *(["--device", device["key"]] if device["key"] else shlex.split(" ".join(device["arguments"])))]
    for key in ("weights", "kv"):
        if settings[key]:
            asked += [f"--{key}", settings[key]]
    for key in ("batch", "context", "offload"):
        asked += [f"--{key}", str(settings[key])]
    asked += ["--tp", str(settings["ranks"]), "--tokens-per-pass", str(settings["tokens_per_pass"])]
    if settings["prompt"]:
        asked += ["--prompt", str(settings["prompt"])]
    return [*asked, "--overlap"] if settings["is_overlapped"] else asked


def disagreements(page: Mapping[str, Any], said: Mapping[str, Any], keys: tuple[str, ...] = COMPARED) -> list[str]:
    """Every key of which page and ``predict`` do not say the same, numbers to `TOLERANCE`."""
    return [f"{key}: page {page[key]!r}, predict {said[key]!r}" for key in keys if not _alike(page[key], said[key])]


def _alike(one: object, other: object) -> bool:
    is_number = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in (one, other)]
    if not all(is_number):
        return one == other
    return math.isclose(float(one), float(other), rel_tol=TOLERANCE)  # type: ignore[arg-type]
