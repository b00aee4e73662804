"""``roofline predict``: models by config, folder, file, name and repository; formats, drafts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from predict_inputs import CONFIG, RULE


@pytest.mark.parametrize("suffix", ["", "config.json"])
def test_a_config_by_file_or_folder(suffix: str, config: Path, predicted: Any) -> None:
    """The exact count of what is in it."""
    found = predicted(str(config / suffix), "--bandwidth", "1TB/s")
    layer = 2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 512 + 2 * 256
    assert found["weight_bytes_total"] == 2 * (2 * layer + 2 * 1000 * 256 + 256)
    assert found["weight_bytes_per_pass"] == found["weight_bytes_total"] - 2 * 1000 * 256
    assert found["kv_bytes_per_token"] == 2 * 2 * 2 * 64 * 2


def test_a_folder_by_its_bare_name(config: Path, predicted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no spec bears it; a spec of that name would go first, and ``./name`` is always the folder."""
    monkeypatch.chdir(config.parent)
    found = predicted("small-llama", "--bandwidth", "1TB/s")
    assert predicted("./small-llama", "--bandwidth", "1TB/s") == found
    config.rename(config.parent / "llama-3.1-8b")
    assert predicted("llama-3.1-8b", "--bandwidth", "1TB/s")["parameters"] == 8_030_261_248
    assert predicted("./llama-3.1-8b", "--bandwidth", "1TB/s")["parameters"] == found["parameters"]


def test_a_checkpoint_that_is_quantized_says_so_itself(config: Path, predicted: Any) -> None:
    """Its format is the default; what its config skips stays in 16 bits."""
    block = {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]}
    (config / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": block}), encoding="utf-8")
    found = predicted(str(config), "--bandwidth", "1TB/s")
    assert found["weights"] == "fp8-block"
    plain = predicted(str(config), "--bandwidth", "1TB/s", "--weights", "bf16")
    assert plain["weight_bytes_per_pass"] / 2 < found["weight_bytes_per_pass"] < plain["weight_bytes_per_pass"]


def test_a_file_counts_as_it_is_stored(config: Path, predicted: Any) -> None:
    """Half of the layers' matrices in FP8: the file's own bytes, unless a format is named."""
    tensors = {"model.embed_tokens": (1000, 256), "model.norm": (256,), "lm_head": (1000, 256)}
    for layer in range(2):
        for name, shape in {
            **dict.fromkeys(("input_layernorm", "post_attention_layernorm"), (256,)),
            **dict.fromkeys(("self_attn.q_proj", "self_attn.o_proj"), (256, 256)),
            **dict.fromkeys(("self_attn.k_proj", "self_attn.v_proj"), (128, 256)),
            **dict.fromkeys(("mlp.gate_proj", "mlp.up_proj"), (512, 256)),
            "mlp.down_proj": (256, 512),
        }.items():
            tensors[f"model.layers.{layer}.{name}"] = shape
    header, end = {}, 0
    for name, shape in tensors.items():
        is_half = ".mlp." in name
        start, end = end, end + math.prod(shape) * (1 if is_half else 2)
        dtype = "F8_E4M3" if is_half else "BF16"
        header[f"{name}.weight"] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with open(config / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    found = predicted(str(config), "--bandwidth", "1TB/s")
    assert found["weight_bytes_total"] == end
    assert found["weight_bytes_per_pass"] == end - 1000 * 256 * 2
    assert found["weights"] == "as stored (fp8)"
    assert predicted(str(config), "--bandwidth", "1TB/s", "--weights", "as-stored") == found
    plain = predicted(str(config), "--bandwidth", "1TB/s", "--weights", "bf16")
    assert plain["weight_bytes_total"] == 2 * sum(map(math.prod, tensors.values()))


def test_a_name_with_an_organization_is_asked_of_the_hub(monkeypatch: pytest.MonkeyPatch, predicted: Any) -> None:
    """When no spec bears it and no folder has it; a file of it after a colon."""
    from pytest_roofline.readers import hub
    from pytest_roofline.readers.config import read_config

    asked: list[str] = []

    def read_hub(name: str, caches: Any) -> Any:
        assert caches is None
        asked.append(name)
        return read_config(CONFIG, name=name)

    monkeypatch.setattr(hub, "read_hub", read_hub)
    for name in ("nobody/small-llama", "nobody/small-llama:q4.gguf"):
        assert predicted(name, "--bandwidth", "1TB/s")["model"] == name
    assert predicted("meta-llama/Llama-3.1-8B", "--bandwidth", "1TB/s")["model"] == "llama-3.1-8b"
    assert asked == ["nobody/small-llama", "nobody/small-llama:q4.gguf"]


@pytest.mark.parametrize(
    ("weights", "bits"), [("int4", 4.0), ("int4-g128", 4.15625), ("q4_k", 4.5), ("q8_0", 8.5), ("mxfp4", 4.25)]
)
def test_formats_with_their_scales(weights: str, bits: float, predicted: Any) -> None:
    """Payload alone for ``int4``, scales included for the others."""
    assert predicted(*RULE, "--weights", weights)["weight_bytes_total"] == 8e9 * bits / 8


def test_the_kv_cache_has_a_format_of_its_own(predicted: Any) -> None:
    """16 bits unless one is named."""
    arguments = ("llama-3.1-8b", "--bandwidth", "1TB/s", "--context", "1000")
    whole, half = predicted(*arguments), predicted(*arguments, "--kv", "fp8")
    assert (whole["kv"], half["kv"]) == ("bf16", "fp8")
    assert whole["kv_bytes_per_pass"] == 2 * half["kv_bytes_per_pass"] == 131_072_000


def test_a_draft_model(predicted: Any) -> None:
    """All that it drafts counts as accepted unless told; its reads are added for each token."""
    arguments = ("llama-3.1-70b", "--bandwidth", "3.35TB/s", "--draft", "llama-3.2-1b", "--draft-tokens", "4")
    found = predicted(*arguments)
    small = predicted("llama-3.2-1b", "--bandwidth", "3.35TB/s")
    assert found["draft_bytes_per_pass"] == 4 * small["bytes_per_pass"]
    assert found["tokens_per_pass"] == 5.0
    assert predicted(*arguments, "--tokens-per-pass", "2.5")["tokens_per_pass"] == 2.5
    halved = predicted(*arguments, "--draft-weights", "fp8")
    assert halved["draft_bytes_per_pass"] == pytest.approx(found["draft_bytes_per_pass"] / 2, rel=1e-3)


def test_a_unified_memory_is_shared(predicted: Any) -> None:
    """Said of a device whose memory the system uses too."""
    assert any("shared with the system" in note for note in predicted("llama-3.1-8b", "--device", "dgx-spark")["notes"])
