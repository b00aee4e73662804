"""Traffic of a model that is not running: a config, a GGUF or safetensors file, a folder, a name of the catalogue.

The same arithmetic as ``roofline predict``, so that the two never disagree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from pytest_roofline.architecture import Architecture
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.traffic import COUNTED, Traffic

_SIZE = re.compile(r"\s*[\d.,_]+\s*[kKMGT]i?B(ytes)?\s*")
"""An amount of bytes in words, which no name of a model is."""
_CACHE_DTYPES = ("float32", "float16", "bfloat16")


def is_on_paper(model: Any) -> bool:
    """Whether this describes a model instead of being one: a path or name, a mapping, a config object."""
    return isinstance(model, (Architecture, str, PathLike, Mapping)) or (
        hasattr(model, "to_dict") and hasattr(model, "model_type")
    )


def paper_traffic(
    model: Any,
    *,
    batch: int | None = None,
    context: int | None = None,
    weights: str | None = None,
    kv: str | None = None,
    prompt_tokens: int | None = None,
    specs_paths: Sequence[str] = (),
) -> Traffic:
    """One decode pass of it, with its weights and KV cache in these formats (the checkpoint's own, and 16 bits).

    With `prompt_tokens` the pass is a prefill of so many tokens per sequence: the head once per sequence, attention
    causal. The least bytes of a mixture are those of one token's experts; the expected ones assume uniform routing. Not
    counted: rows of looked-up tables, the KV row that the pass writes, activations. RooflineUsageError where the
    model, a format or a name is not known.
    """
    # A test that declares its bytes never needs the library of specs: it is read when it is asked for.
    from pytest_roofline.predict import architecture_of, inventory_in
    from pytest_roofline.specs.catalogue import Catalogue

    if isinstance(model, str) and _SIZE.fullmatch(model):
        raise RooflineUsageError(f"{model!r} is no model: bytes per pass are a plain number, traffic=2e9 for 2 GB")
    catalogue = Catalogue(specs_paths)
    if isinstance(model, (str, PathLike)):
        architecture = architecture_of(str(model), catalogue)
    else:
        from pytest_roofline.readers.checkpoint import read_model

        architecture = read_model(model)
    inventory = inventory_in(architecture, weights, kv, catalogue)
    sequences, length = batch or 1, context or 0
    notes = (f"bytes counted from {architecture.source}, weights {inventory.weights}, KV {inventory.kv}",)
    if prompt_tokens is not None:
        return Traffic(
            bytes_per_pass=inventory.weight_bytes_per_pass(float(sequences * prompt_tokens)),
            least_bytes_per_pass=inventory.at_least().dense_bytes,
            flops_per_pass=sequences * inventory.prefill_flops(prompt_tokens),
            dtype=inventory.compute_dtype,
            batch=batch,
            context=context,
            source=COUNTED,
            notes=notes,
        )
    cached = inventory.kv_bytes_read(length)
    read = inventory.weight_bytes_per_pass(float(sequences))
    kv_bytes = sequences * cached
    flops = inventory.flops_per_pass(float(sequences), length)
    least = inventory.at_least()
    return Traffic(
        bytes_per_pass=read + kv_bytes,
        least_bytes_per_pass=least.dense_bytes + sequences * least.kv_bytes_read(length),
        weight_bytes_per_pass=read,
        kv_bytes_per_pass=kv_bytes,
        # What the next token adds: windows that are full add nothing.
        kv_bytes_per_token=inventory.kv_bytes_read(length + 1) - cached,
        flops_per_pass=flops,
        dtype=inventory.compute_dtype,
        batch=batch,
        context=context,
        source=COUNTED,
        notes=notes,
    )


def with_cache(counted: Traffic, config: Any, *, batch: int | None, context: int | None) -> Traffic:
    """A live model's counted weights with the KV cache that its own config tells, in the weights' dtype.

    Unchanged without a `context`, and where there is no config or none that is known. The least bytes stay those of the
    weights: an engine may keep its cache in fewer bits than the model has.
    """
    if context is None or not is_on_paper(config) or isinstance(config, (str, PathLike)):
        return counted
    from pytest_roofline.predict import inventory_in
    from pytest_roofline.readers.config import read_config
    from pytest_roofline.specs.catalogue import Catalogue

    try:
        architecture = read_config(config)
        kv = counted.dtype if counted.dtype in _CACHE_DTYPES else None
        inventory = inventory_in(architecture, None, kv, Catalogue())
    except RooflineUsageError:
        return counted  # as much as is known
    cached = inventory.kv_bytes_read(context)
    kv_bytes = (batch or 1) * cached
    return replace(
        counted,
        bytes_per_pass=counted.bytes_per_pass + kv_bytes,
        kv_bytes_per_pass=kv_bytes,
        kv_bytes_per_token=inventory.kv_bytes_read(context + 1) - cached,
        notes=(
            f"weights counted from the parameters, the KV cache ({inventory.kv}) from the config",
            *counted.notes[1:],
        ),
    )
