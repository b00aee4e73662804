"""Whatever stands in a config: an architecture or a usage error comes out, soon."""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.architecture import Architecture
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.config import known_families, read_config
from pytest_roofline.readers.defaults import CORE, DEFAULTS
from pytest_roofline.readers.quantization import METHODS

KEYS = sorted(
    {key for row in DEFAULTS.values() for key in row}
    | {*CORE, "head_dim", "num_key_value_heads", "layer_types", "sliding_window", "dtype", "torch_dtype"}
    | {"n_embd", "n_layer", "n_head", "d_model", "n_heads", "n_layers", "text_config", "architectures"}
    | {"num_local_experts", "num_experts", "n_routed_experts", "num_experts_per_tok", "mlp_only_layers"}
)
SIZES = st.sampled_from([1, 2, 4, 8, 16, 64, 128, 256, 4096])
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10),
    st.sampled_from([10**400, 2**40, 2**40 + 1, 10_001, 10**4000, float("nan"), math.inf, -0.0, 1.5, 4.0]),
    st.text(max_size=8),
    st.lists(st.sampled_from(["full_attention", "sliding_attention", 0, 1, None]), max_size=4),
    st.dictionaries(
        st.sampled_from(["dtype", "model_type", "default"]), st.integers() | st.text(max_size=5), max_size=2
    ),
)
BLOCKS = st.fixed_dictionaries(
    {},
    optional={
        "quant_method": st.sampled_from([*sorted(METHODS), "other"]),
        "bits": st.integers(0, 9) | ODD,
        "group_size": st.integers(-1, 200) | ODD,
        "modules_to_not_convert": st.lists(st.sampled_from(["lm_head", "re:(", "re:.*", "*", ""]), max_size=3) | ODD,
        "load_in_4bit": st.booleans() | ODD,
        "quant_type": st.sampled_from(["int4_weight_only", "int8_weight_only"]) | ODD,
        "quant_algo": st.sampled_from(["FP8", "NVFP4"]) | ODD,
        "config_groups": st.dictionaries(st.text(max_size=3), st.fixed_dictionaries({"weights": ODD}), max_size=2)
        | ODD,
        "kv_cache_scheme": ODD,
        "weight_block_size": st.just([128, 128]) | ODD,
    },
)


def outcome(source: Any) -> Architecture | str:
    """What came out: an architecture, or the text of a usage error."""
    try:
        return read_config(source)
    except RooflineUsageError as error:
        return str(error)


@settings(max_examples=60, deadline=2000)
@given(
    family=st.sampled_from(known_families()),
    sizes=st.fixed_dictionaries(dict.fromkeys(CORE, SIZES)),
    values=st.dictionaries(st.sampled_from(KEYS), SIZES | ODD, max_size=6),
    block=st.none() | BLOCKS | ODD,
)
def test_any_value_of_any_known_key_ends_well(
    family: str, sizes: dict[str, int], values: dict[str, Any], block: Any
) -> None:
    """Odd values in plausible configs of every family."""
    found = outcome({"model_type": family, **sizes, **values, "quantization_config": block})
    if isinstance(found, Architecture):
        assert found.parameters > 0
        assert 0 < found.streamed_parameters <= found.parameters
        assert found.kv_elements_per_token() >= 0
        assert 0 < found.layers <= 10_000
    else:
        assert found.splitlines()[0].startswith("config: ")


@settings(max_examples=40, deadline=2000)
@given(text=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_in_a_file_end_well(text: bytes) -> None:
    """A file of anything: an error that names it."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "config.json"
        file.write_bytes(text)
        found = outcome(file)
        assert isinstance(found, str)
        assert found.startswith(str(file))


@settings(max_examples=40, deadline=2000)
@given(st.recursive(ODD, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner)))
def test_any_json_ends_well(value: Any) -> None:
    """JSON of any shape, as file and as value."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "config.json"
        file.write_text(json.dumps(value))
        assert isinstance(outcome(file), str)
    if not isinstance(value, str):
        assert isinstance(outcome(value), str)
