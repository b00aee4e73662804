"""``roofline predict``: what is printed, what overrides what, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pytest_roofline.cli import main

RULE = ("--params", "8B", "--bandwidth", "1TB/s")
CONFIG = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
SPECS = """
schema: 1
sources: {sheet: "Data sheet of a made-up card"}
devices:
  - id: made-up
    name: Made-up card
    vendor: Nobody
    device_names: ["Made-up"]
    memory_bytes: {value: 10_000_000_000, source: sheet}
    bandwidth_bytes_per_s: {value: 100_000_000_000, source: sheet}
    link_bidirectional_bytes_per_s: {value: 20_000_000_000, source: sheet}
    host_link_bytes_per_s: {value: 5_000_000_000, source: sheet}
    dense_peak_flops_per_s:
      bfloat16: {value: 1_000_000_000_000, source: sheet}
"""


@pytest.fixture
def specs(tmp_path: Path) -> str:
    """A folder with one card."""
    (tmp_path / "cards.yaml").write_text(SPECS, encoding="utf-8")
    return str(tmp_path)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A small llama's config.json in a folder of its own."""
    folder = tmp_path / "small-llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return folder


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    """What ``roofline predict`` prints."""

    def run(*arguments: str) -> str:
        assert main(["predict", *arguments]) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def predicted(said: Any) -> Any:
    """What ``roofline predict --json`` prints, read again."""

    def run(*arguments: str) -> dict[str, Any]:
        return dict(json.loads(said(*arguments, "--json")))

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Any:
    """What it says on stderr when it exits with 2; nothing is on stdout."""

    def run(*arguments: str) -> str:
        try:
            status = main(["predict", *arguments])
        except SystemExit as ended:
            status = int(ended.code or 0)
        captured = capsys.readouterr()
        assert (status, captured.out) == (2, "")
        return captured.err.removeprefix("roofline predict: ").rstrip("\n")

    return run


# -- what is printed ------------------------------------------------------------------------------------------------


def test_the_text_of_a_prediction(said: Any) -> None:
    """The division with its figures in it, then bound, bytes, what fits, what to expect, sources and notes."""
    assert said("llama-3.1-8b", "--device", "h100-sxm").splitlines()[:12] == [
        "llama-3.1-8b on NVIDIA H100 SXM 80 GB",
        "weights bf16, KV cache bf16",
        "",
        "  3.35 TB/s / 15.01 GB = 223 tok/s",
        "",
        "  bound     memory bandwidth (4.48 ms per pass: memory 4.48 ms, compute 15.2 us)",
        "  weights   15.0 GB per pass, 16.1 GB in all",
        "  KV cache  0 bytes per pass: 0 tokens, 131 kB per token; 15.0 GB per pass in all",
        "  compute   15.01 GFLOP per pass, 1 FLOP/byte; ridge 295 FLOP/byte at 989 TFLOP/s (bfloat16)",
        "  memory    16.1 GB needed of 80.0 GB: fits",
        "  expected  134 to 190 tok/s (60 to 85 % of the ceiling)",
        "  sources   bandwidth: NVIDIA H100 Tensor Core GPU data sheet",
    ]


@pytest.mark.parametrize(
    ("arguments", "division"),
    [
        ("--params 70B --weights bf16 --bandwidth 3.35TB/s", "3.35 TB/s / 140 GB = 23.9 tok/s"),
        (
            "--params 70B --weights int4 --kv-per-token 320KiB --context 2000 --bandwidth 3.35TB/s",
            "3.35 TB/s / 35.66 GB = 94.0 tok/s",
        ),
        (
            "--params 70B --weights bf16 --batch 32 --bandwidth 3.35TB/s",
            "3.35 TB/s / 140 GB x 32 sequences = 766 tok/s (23.9 per user)",
        ),
        (
            "--params 70B --weights bf16 --tokens-per-pass 2.5 --bandwidth 3.35TB/s",
            "3.35 TB/s / 140 GB x 2.5 tokens per pass = 59.8 tok/s",
        ),
        (
            "--params 8B --batch 1000 --bandwidth 3.35TB/s --peak 100TFLOP/s",
            "100 TFLOP/s / 16 TFLOP x 1000 sequences = 6,250 tok/s (6.25 per user)",
        ),
        (
            "--params 8B --bandwidth 1TB/s --offload 0.25 --spill-bandwidth 50GB/s",
            "1 / (12 GB / 1 TB/s + 4 GB / 50 GB/s) = 10.9 tok/s",
        ),
        (
            "--params 8B --bandwidth 1TB/s --offload 0.25 --spill-bandwidth 50GB/s --overlap",
            "1 / (4 GB / 50 GB/s) = 12.5 tok/s",
        ),
        ("llama-3.1-8b --bandwidth 1TB/s --tp 2 --link 1MB/s", "1 / (524 ms between devices) = 1.91 tok/s"),
    ],
)
def test_the_division_says_what_was_divided(arguments: str, division: str, said: Any) -> None:
    """Whatever bounds the pass: bandwidth, peak, spill path, link."""
    assert said(*arguments.split()).splitlines()[3] == f"  {division}"


def test_what_does_not_fit_is_said(said: Any) -> None:
    """As bound, beside the memory, and in the notes with what would fit; the status is 0."""
    text = said("--params", "70B", "--bandwidth", "1TB/s", "--memory", "24GB", "--weights", "int8")
    assert "  bound     capacity: it does not fit; if it did, memory bandwidth" in text
    assert "  memory    70.0 GB needed of 24.0 GB: does NOT fit\n" in text
    assert "would fit: 3 such devices" in text


@pytest.mark.parametrize("model", [("llama-3.1-70b",), ("--params", "70B")])
def test_smaller_formats_that_would_fit(model: tuple[str, ...], predicted: Any) -> None:
    """140 GB do not fit 80 GB; in 8 bits and in 4 they do, in what is smaller still too."""
    notes = predicted(*model, "--device", "h100-sxm")["notes"]
    assert "would fit: weights in fp8 or q4_k_m or int4-g128" in notes
    notes = predicted(*model, "--device", "h100-sxm", "--weights", "q8_0")["notes"]
    assert not any("weights in" in note for note in notes)


def test_text_per_second(said: Any, predicted: Any) -> None:
    """Tokenizers differ: words or characters per token are the user's word."""
    text = said(*RULE, "--words-per-token", "0.75", "--chars-per-token", "4.2")
    assert "(60 to 85 % of the ceiling); the ceiling is 46.9 words/s; the ceiling is 262 chars/s" in " ".join(
        text.split()
    )
    found = predicted(*RULE, "--words-per-token", "0.75")
    assert found["ceiling_words_per_s"] == 62.5 * 0.75
    assert "ceiling_chars_per_s" not in found


def test_the_first_token_in_words(said: Any) -> None:
    """The rule, labelled, and the exact figure."""
    text = said("--params", "8.03B", "--bandwidth", "273GB/s", "--peak", "125TFLOP/s", "--prompt", "1000")
    assert "TTFT      128 ms by the rule 2 x 8.03B x 1,000 tokens / peak; exact 128 ms (16.06 TFLOP)" in text


# -- where figures come from ----------------------------------------------------------------------------------------


def test_given_figures_override_those_of_the_device_one_by_one(predicted: Any) -> None:
    """Each with the option as its source; the others stay."""
    plain = predicted("llama-3.1-8b", "--device", "h100-sxm")
    found = predicted("llama-3.1-8b", "--device", "h100-sxm", "--bandwidth", "3TB/s", "--peak", "500TFLOP/s")
    assert found["bandwidth_source"] == "given: --bandwidth, in place of the figure of NVIDIA H100 SXM 80 GB"
    assert (found["bandwidth_bytes_per_s"], found["peak_flops_per_s"]) == (3e12, 5e14)
    assert found["peak_source"] == "given: --peak"
    assert found["memory_bytes"] == plain["memory_bytes"] == 80e9
    assert predicted("llama-3.1-8b", "--device", "h100-sxm", "--memory", "24GB")["memory_bytes"] == 24e9


def test_cards_of_the_user(specs: str, predicted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By ``--specs``, and by the environment."""
    assert predicted("--params", "8B", "--device", "made-up", "--specs", specs)["device"] == "Made-up card"
    monkeypatch.setenv("PYTEST_ROOFLINE_SPECS", specs)
    assert predicted("--params", "8B", "--device", "made-up")["bandwidth_source"] == "Data sheet of a made-up card"


def test_links_of_the_device(specs: str, predicted: Any) -> None:
    """Half of what both directions of its link carry together; its path to the host for spilled weights."""
    device = ("--device", "made-up", "--specs", specs)
    found = predicted("llama-3.1-8b", *device, "--tp", "4", "--offload", "0.5", "--link-latency", "10us")
    assert (found["link_bytes_per_s"], found["spill_bytes_per_s"]) == (1e10, 5e9)
    assert found["link_source"] == "Data sheet of a made-up card; one direction, half of the printed figure"
    assert found["link_s"] == pytest.approx(64 * 1.5 * 4096 * 2 / 1e10 + 64e-5)
    given = predicted(
        "llama-3.1-8b", *device, "--tp", "4", "--link", "1GB/s", "--offload", "0.5", "--spill-bandwidth", "1GB/s"
    )
    assert (given["link_bytes_per_s"], given["spill_bytes_per_s"]) == (1e9, 1e9)


# -- models and formats ---------------------------------------------------------------------------------------------


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


# -- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("llama-3.1-8b",), "which device? give --device NAME, or its figures: --bandwidth 3.35TB/s [--peak ...]"),
        (("--device", "h100-sxm"), "which MODEL? a spec's name, a file, or --params 70B"),
        (("llama-3.1-8b", *RULE), "MODEL 'llama-3.1-8b' or --params 8B, not both"),
        (
            ("llama-3.1-8b", "--bandwidth", "1TB/s", "--active", "3B"),
            "--active goes with --params; MODEL has its own count",
        ),
        (
            ("llama-3.1-8b", "--bandwidth", "1TB/s", "--active", "1B"),
            "--active goes with --params; MODEL has its own count",
        ),
        ((*RULE, "--draft-tokens", "4"), "--draft-tokens goes with --draft MODEL"),
        ((*RULE, "--draft", "mtp"), "--draft mtp needs a MODEL: --params knows no layers"),
        ((*RULE, "--batch", "0"), "--batch: '0' is no whole number from 1, such as 1"),
        ((*RULE, "--batch", "2.5"), "--batch: '2.5' is no whole number from 1, such as 1"),
        ((*RULE, "--context", "-1"), "--context: '-1' is no whole number from 0, such as 1"),
        ((*RULE, "--prompt", "many"), "--prompt: 'many' is no whole number from 1, such as 1"),
        ((*RULE, "--tp", "0"), "--tp: '0' is no whole number from 1, such as 1"),
        ((*RULE, "--offload", "25%"), "--offload: '25%' is no share from 0 to 1, such as 0.25"),
        ((*RULE, "--offload", "nan"), "--offload: 'nan' is no share from 0 to 1, such as 0.25"),
        (
            ("--params", "8B", "--bandwidth", "-3TB/s"),
            "--bandwidth: '-3TB/s' is not a bandwidth; write a positive one such as 3.35TB/s, 273GB/s or 1e12",
        ),
        (
            (*RULE, "--memory", "80"),
            None,
        ),
        (
            (*RULE, "--words-per-token", "x"),
            "--words-per-token: 'x' is not a number; write a positive one such as 1, 2.5 or 1e3",
        ),
        (
            ("--params", "70GB", "--bandwidth", "1TB/s"),
            "--params: '70GB' is not a number of parameters; write a positive one such as "
            "70B, 8.03B, 350M, 1.5T or 7e9",
        ),
        (
            ("--params", "7B", "--active", "8B", "--bandwidth", "1TB/s"),
            "8e+09 active parameters of 7e+09: more than there are",
        ),
    ],
)
def test_wrong_use_is_one_line(arguments: tuple[str, ...], message: str | None, refused: Any, said: Any) -> None:
    """With the option, what was given, and what is accepted; a plain number of bytes is one of those."""
    if message is None:
        assert "80 bytes" in said(*arguments)
    else:
        assert refused(*arguments) == message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("llama-3.1-8", "--bandwidth", "1TB/s"), ("no model is called 'llama-3.1-8'", "llama-3.1-8b")),
        (("llama-3.1-8b", "--device", "h100-sx"), ("no device is called 'h100-sx'", "h100-sxm")),
        (("llama-3.1-8b", "--device", "h100"), ("'h100' means several devices", "h100-pcie")),
        ((*RULE, "--weights", "itn4"), ("itn4", "int4")),
        ((*RULE, "--weights", "q4_k_x"), ("q4_k_x", "q4_k")),
        ((*RULE, "--kv", "fp9"), ("fp9", "fp8")),
        ((*RULE, "--kv", "nf4"), ("format 'nf4' is for weights; no engine is known that keeps a KV cache in it",)),
        ((*RULE, "--weights", "kivi-2bit"), ("format 'kivi-2bit' is for KV caches, not for weights",)),
        (("./nowhere", "--bandwidth", "1TB/s"), ("nowhere: no such file or folder",)),
        (("nowhere.gguf", "--bandwidth", "1TB/s"), ("nowhere.gguf: no such file or folder",)),
        (("llama-3.1-8b", "--bandwidth", "1TB/s", "--weights", "as stored"), ("does not say how tensors are stored",)),
        (("llama-3.1-8b", "--bandwidth", "1TB/s", "--draft", "mtp"), ("no multi-token-prediction layers are known",)),
        ((*RULE, "--bacth", "2"), ("unknown argument '--bacth'; did you mean --batch",)),
        ((*RULE, "--offload", "0.5"), ("give --spill-bandwidth, such as 64GB/s",)),
    ],
)
def test_unknown_names_come_with_the_nearest(arguments: tuple[str, ...], words: tuple[str, ...], refused: Any) -> None:
    """Of models, devices, formats and options."""
    message = refused(*arguments)
    assert all(word in message for word in words), message


def test_a_kv_cache_that_is_given_replaces_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    """`--kv-per-token` beside MODEL is taken as it stands, and said so."""
    assert (
        main(
            ["predict", "llama-3.1-8b", "--device", "h100-sxm", "--context", "1000", "--kv-per-token", "1MB", "--json"]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["kv_bytes_per_pass"] == 1e9
    assert found["kv_bytes_per_token"] == 1e6
    assert any("1,000,000 bytes per token (given: --kv-per-token)" in note for note in found["notes"])


def test_a_given_kv_cache_and_a_kv_format_contradict_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """One of the two says how large it is."""
    assert main(["predict", "llama-3.1-8b", "--device", "h100-sxm", "--kv-per-token", "1MB", "--kv", "fp8"]) == 2
    assert "give one of them" in capsys.readouterr().err
