"""Models that are not running, as traffic of the fixture: the same figures as ``roofline predict``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.instrument import Instrument
from pytest_roofline.paper import is_on_paper, paper_traffic
from pytest_roofline.session import Session

CONFIG = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}
LAYER = 256 * (256 + 2 * 64) + 256 * 256 + 3 * 256 * 512 + 2 * 256
STREAMED = 4 * LAYER + 256 + 256 * 1000
KV_BYTES = 2 * 4 * 2 * 32 * 2


class Config:
    """What transformers' configuration objects look like from outside."""

    model_type = "llama"

    def to_dict(self) -> dict[str, Any]:
        """The keys of a config.json."""
        return CONFIG


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a config.json."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


@pytest.fixture
def roofline() -> Instrument:
    """The instrument on a fake device."""
    return Instrument(Session(added_backends=[FakeBackend()]))


def test_a_mapping_a_path_and_an_object_agree(folder: Path, roofline: Instrument) -> None:
    """However the config comes, a pass reads the same bytes."""
    given = [CONFIG, Config(), folder, str(folder / "config.json"), folder / "config.json"]
    found = [roofline.traffic(model, batch=2, context=100) for model in given]
    for traffic in found:
        assert traffic.weight_bytes_per_pass == 2 * STREAMED
        assert traffic.kv_bytes_per_pass == 2 * 100 * KV_BYTES
        assert traffic.bytes_per_pass == 2 * STREAMED + 200 * KV_BYTES == traffic.least_bytes_per_pass
        assert traffic.kv_bytes_per_token == KV_BYTES
        assert traffic.batch == 2
        assert traffic.context == 100


def test_a_name_of_the_catalogue_in_other_formats(roofline: Instrument) -> None:
    """`weights=` and `kv=` name the formats, as on the command line."""
    plain = roofline.traffic("llama-3.1-8b", context=1000)
    small = roofline.traffic("llama-3.1-8b", context=1000, weights="int4", kv="fp8")
    assert plain.weight_bytes_per_pass == 2 * 7_504_924_672
    assert plain.kv_bytes_per_pass == 131_072_000
    assert small.weight_bytes_per_pass == pytest.approx(plain.weight_bytes_per_pass / 4, rel=0.001)
    assert small.kv_bytes_per_pass == plain.kv_bytes_per_pass / 2
    assert "int4" in small.notes[0]


def test_a_mixture_is_convicted_by_the_experts_of_one_token(roofline: Instrument) -> None:
    """A batch is expected to hit more experts than it must."""
    traffic = roofline.traffic("mixtral-8x7b", batch=8)
    assert traffic.least_bytes_per_pass == roofline.traffic("mixtral-8x7b").bytes_per_pass
    assert traffic.bytes_per_pass > 2 * traffic.least_bytes_per_pass


def test_a_ceiling_and_a_decode_from_a_config() -> None:
    """The ceiling divides the probed rate by the counted bytes, and decode is judged by them."""
    backend = FakeBackend(read_bytes_per_s=1e12)
    roofline = Instrument(Session(added_backends=[backend]))
    wide = {
        **CONFIG,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_hidden_layers": 8,
    }
    ceiling = roofline.ceiling(wide)
    traffic = roofline.traffic(wide)
    assert ceiling.tokens_per_s == pytest.approx(1e12 / traffic.bytes_per_pass, rel=0.05)
    model = FakeModel(backend, traffic.bytes_per_pass, efficiency=0.7)
    for result in (
        roofline.decode(model.step, traffic=wide, reset=model.reset),
        roofline.decode(model.step, model=wide, reset=model.reset),
    ):
        assert result.verdict.outcome == "passed"
        assert float(result.fraction or 0) == pytest.approx(0.7, rel=0.03)


def test_a_prompt_is_counted_by_its_flops() -> None:
    """The head once per sequence, every other matrix once per token, attention causal."""
    traffic = paper_traffic(CONFIG, batch=2, prompt_tokens=50)
    matrices = 4 * (LAYER - 2 * 256)
    attention = 4 * 2 * 8 * (32 + 32) * 50 * 51 // 2
    assert traffic.flops_per_pass == 2 * (2 * matrices * 50 + 2 * 256 * 1000 + attention)
    assert traffic.bytes_per_pass == 2 * STREAMED


@pytest.mark.parametrize(
    ("model", "expected"),
    [("name", True), (Path("x"), True), ({}, True), (Config(), True), (5.0, False), (object(), False), (None, False)],
)
def test_what_is_on_paper(model: Any, expected: bool) -> None:
    """A path or name, a mapping, a config object; nothing that runs."""
    assert is_on_paper(model) is expected


def test_an_unknown_name_says_what_comes_near(roofline: Instrument) -> None:
    """The error of the command line, in the test."""
    with pytest.raises(RooflineUsageError, match="llama-3"):
        roofline.traffic("lama-3.1-8b")


def test_quantized_operands_are_judged_by_the_fastest_product_that_may_run_them() -> None:
    """Where a device's own int8 product is slow, a kernel unpacks: the measured 16 bit product counts."""
    roofline = Instrument(Session(added_backends=[FakeBackend()]))
    ceiling = roofline.ceiling("llama-3.1-8b", weights="q4_k_m", batch=512)
    assert ceiling.peak_flops_per_s is not None
    assert ceiling.bound == "compute"
