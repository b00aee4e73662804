"""A model on paper: what a pass touches, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_roofline.architecture import Architecture, CacheLayers, Weight, distinct_experts, share
from pytest_roofline.errors import RooflineUsageError


def weight(**changes: Any) -> Weight:
    """A projection in four layers."""
    return Weight(
        **{"name": "q", "part": "attn_q", "shape": (8, 4), "use": "matrix", "layers": (0, 1, 2, 3), **changes}
    )


def experts(total: int = 16, per_token: float = 2) -> Weight:
    """Expert matrices in four layers."""
    return weight(name="experts", part="ffn_up", use="routed", experts=total, experts_per_token=per_token)


MIXTURE = Architecture(
    name="mixture",
    weights=(
        weight(),
        experts(),
        weight(name="embedding", part="embedding", shape=(100, 4), use="lookup", layers=()),
        weight(name="norm", part="norm", shape=(4,), use="vector"),
        weight(name="vision", part="vision", shape=(50, 50), use="idle", layers=()),
    ),
    caches=(
        CacheLayers(name="attention", layers=2, elements_per_token=16),
        CacheLayers(name="sliding attention", layers=2, elements_per_token=16, window=128),
        CacheLayers(name="cross attention", layers=1, elements_per_token=16, fixed_tokens=64),
    ),
    source="a test",
)


def test_parameters_by_use() -> None:
    """All experts are capacity, the ones that a token is sent to are active, a table is not streamed."""
    assert MIXTURE.parameters == 4 * 32 + 4 * 16 * 32 + 400 + 16
    assert MIXTURE.active_parameters == 4 * 32 + 4 * 2 * 32 + 400 + 16
    assert MIXTURE.streamed_parameters == MIXTURE.active_parameters - 400
    assert MIXTURE.idle_parameters == 2500
    assert MIXTURE.is_mixture
    assert MIXTURE.kv_elements_per_token() == 4 * 16


def test_a_weight_counts_its_layers_and_experts() -> None:
    """One per layer and expert; one where it belongs to no layer."""
    assert experts().count == 64
    assert weight(layers=()).count == 1
    assert experts().elements == 64 * 32


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"shape": ()}, "positive whole numbers"),
        ({"shape": (0, 4)}, "positive whole numbers"),
        ({"shape": (-8, 4)}, "positive whole numbers"),
        ({"shape": (8.0, 4)}, "positive whole numbers"),
        ({"shape": (True, 4)}, "positive whole numbers"),
        ({"use": "sometimes"}, "one of matrix, vector, lookup, routed, idle"),
        ({"use": "routed"}, "routed weights, and they need it"),
        ({"experts_per_token": 2}, "routed weights, and they need it"),
        ({"use": "routed", "experts": 8, "experts_per_token": 9}, "9 experts per token of 8"),
        ({"use": "routed", "experts": 8, "experts_per_token": 0}, "must be positive"),
    ],
)
def test_absurd_weights_are_refused(changes: dict[str, Any], problem: str) -> None:
    """The error names the weight and what is wrong with it."""
    with pytest.raises(RooflineUsageError, match=problem) as refused:
        weight(**changes)
    assert str(refused.value).startswith("q: ")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"layers": -1}, "layers is -1"),
        ({"window": 0}, "window is 0"),
        ({"chunk": -5}, "chunk is -5"),
        ({"kv_heads": 0}, "kv_heads is 0"),
        ({"selected": 0}, "selected is 0"),
    ],
)
def test_absurd_caches_are_refused(changes: dict[str, Any], problem: str) -> None:
    """The error names the cache and the field."""
    with pytest.raises(RooflineUsageError, match=f"cache of attention: {problem}"):
        CacheLayers(**{"name": "attention", "layers": 1, **changes})


def test_a_model_without_weights_is_refused() -> None:
    """There is nothing to divide by."""
    with pytest.raises(RooflineUsageError, match="nothing: a model without weights"):
        Architecture(name="nothing", weights=(), source="a test")


@pytest.mark.parametrize(
    ("cache", "context", "read", "kept"),
    [
        ({}, 1000, 1000, 1000),
        ({"window": 128}, 1000, 128, 128),
        ({"window": 128}, 100, 100, 100),
        ({"chunk": 256}, 255, 255, 255),
        ({"chunk": 256}, 256, 0, 256),
        ({"chunk": 256}, 512, 0, 256),
        ({"chunk": 256}, 257, 1, 256),
        ({"chunk": 256}, 0, 0, 0),
        ({"fixed_tokens": 64}, 1000, 64, 64),
        ({"selected": 128}, 1000, 128, 1000),
        ({"selected": 128}, 100, 100, 100),
        ({"selected": 128, "window": 64}, 1000, 64, 64),
    ],
)
def test_how_caches_grow(cache: dict[str, Any], context: int, read: int, kept: int) -> None:
    """A window stops growing, a chunk starts anew but has to be kept whole, an image's tokens never grow, and of
    a selection all that it is picked from is kept."""
    layers = CacheLayers(name="attention", layers=1, elements_per_token=1, **cache)
    assert layers.positions(context) == read
    assert layers.kept_positions(context) == kept


def test_shares_of_a_pass() -> None:
    """Matrices and vectors whole, tables not at all, experts as the batch hits them."""
    uses = {one.name: share(one, 1.0) for one in MIXTURE.weights}
    assert uses == {"q": 1.0, "experts": 2 / 16, "embedding": 0.0, "norm": 1.0, "vision": 0.0}
    assert share(experts(), 8.0) == pytest.approx(1 - (1 - 2 / 16) ** 8)


@given(
    total=st.integers(1, 512),
    picked=st.integers(1, 512),
    tokens=st.floats(1, 1e4),
)
def test_distinct_experts_lie_between_those_of_one_token_and_all(total: int, picked: int, tokens: float) -> None:
    """At least the k of one token, at most all, and never fewer for more tokens."""
    picked = min(picked, total)
    found = distinct_experts(total, picked, tokens)
    assert picked * (1 - 1e-9) <= found <= total * (1 + 1e-9)
    assert distinct_experts(total, picked, tokens + 1) >= found * (1 - 1e-9)
