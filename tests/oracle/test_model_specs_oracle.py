"""The library of models against transformers: each config of it, built on the meta device and counted."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from meta_oracle import measure  # noqa: E402

from pytest_roofline.specs.catalogue import Catalogue  # noqa: E402
from pytest_roofline.specs.models import read_model  # noqa: E402

ENTRIES = {entry["id"]: (reader, entry) for reader, entry in Catalogue().entries("models")}
# Kimi K2 is DeepSeek-V3 in other sizes; its own code says no more.
SAME = {"kimi_k2": "deepseek_v3"}


def text_config(config: dict[str, Any]) -> Any:
    """The transformers config of the text part, as the classes themselves would read it."""
    values = {key: value for key, value in config.get("text_config", config).items() if key != "quantization_config"}
    model_type = values.pop("model_type")
    if "text_config" in config and "tie_word_embeddings" in config:
        values["tie_word_embeddings"] = config["tie_word_embeddings"]
    return transformers.CONFIG_MAPPING[SAME.get(model_type, model_type)](**values)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_model_of_the_library_counts_as_its_class_does(name: str) -> None:
    """Parameters, and those that one token reads, agree to the last one."""
    reader, entry = ENTRIES[name]
    figures = measure(text_config(entry["config"]))
    model = read_model(reader, entry, 0)
    assert model.parameters == figures.parameters
    assert model.streamed_parameters == pytest.approx(float(figures.streamed), rel=1e-12)
