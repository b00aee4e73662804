"""Small models on paper and a machine of round figures, for tests of predictions."""

from __future__ import annotations

from typing import Any

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.inventory import Inventory, inventory_of
from pytest_roofline.machine import Machine

HIDDEN = 1000
LAYERS = (0, 1)


def plain(weight: Weight) -> float:
    """Two bytes per element."""
    return 2.0 * weight.elements


def dense(**changes: Any) -> Architecture:
    """Two layers of one square matrix, a looked-up embedding, a head, a norm, a vision tower; 100 KV elements."""
    parts: dict[str, Any] = {
        "name": "dense",
        "weights": (
            Weight(name="embed", part="embedding", shape=(500, HIDDEN), use="lookup"),
            Weight(name="layers.*.mlp", part="ffn_up", shape=(HIDDEN, HIDDEN), use="matrix", layers=LAYERS),
            Weight(name="norm", part="norm", shape=(HIDDEN,), use="vector"),
            Weight(name="lm_head", part="head", shape=(500, HIDDEN), use="matrix"),
            Weight(name="vision.proj", part="vision", shape=(300, HIDDEN), use="idle"),
        ),
        "caches": (CacheLayers(name="attention", layers=2, elements_per_token=100, flops_per_position=400),),
        "layers": 2,
        "hidden": HIDDEN,
        "max_context": 8192,
        "source": "made for tests",
    }
    return Architecture(**{**parts, **changes})


def mixture(experts: int = 8, used: int = 2) -> Architecture:
    """One matrix for all and `experts` of which a token uses some."""
    return dense(
        name="mixture",
        weights=(
            Weight(name="layers.*.attn", part="attn_q", shape=(HIDDEN, HIDDEN), use="matrix", layers=LAYERS),
            Weight(
                name="layers.*.experts.*.up",
                part="ffn_up",
                shape=(100, HIDDEN),
                use="routed",
                layers=LAYERS,
                experts=experts,
                experts_per_token=used,
            ),
        ),
    )


def counted(architecture: Architecture, **changes: Any) -> Inventory:
    """The inventory in 16 bits."""
    return inventory_of(architecture, plain, **{"weights": "bf16", "kv": "bf16", **changes})


def machine(**changes: Any) -> Machine:
    """1 GB/s, 1 TFLOP/s in 16 bits, 1 GB."""
    figures: dict[str, Any] = {
        "name": "round",
        "bandwidth_bytes_per_s": 1e9,
        "bandwidth_source": "sheet",
        "peak_flops_per_s": {"bfloat16": 1e12},
        "peak_sources": {"bfloat16": "peak sheet"},
        "memory_bytes": 1e9,
        "memory_source": "sheet",
    }
    return Machine(**{**figures, **changes})
