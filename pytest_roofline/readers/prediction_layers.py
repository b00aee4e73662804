"""Layers for multi-token prediction: a block behind the last layer that drafts the token after the next.

They are `idle` until a prediction drafts with them. What the checkpoint shares with the model, or holds as a copy of
it (the embedding, the head), is not counted among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from pytest_roofline.architecture import Weight
from pytest_roofline.readers.blocks import MOST_LAYERS, Layers, linear, norms
from pytest_roofline.readers.fields import Fields

NUMBERED = "model.layers.*"
"""DeepSeek and GLM number them as further layers of the model."""
NEXTN = "num_nextn_predict_layers"


def prediction_count(fields: Fields, key: str = NEXTN) -> int:
    """How many layers (modules, of Nemotron-H) predict further tokens; 0 where the config does not say."""
    count = fields.count(key, 0)
    if count > MOST_LAYERS:
        raise fields.fail(key, f"{count:,} layers: more than {MOST_LAYERS:,} are not believed")
    return count


def idle(weights: Iterable[Weight]) -> list[Weight]:
    """The same weights as plain decoding sees them: not touched."""
    return [replace(weight, use="idle", experts_per_token=None) for weight in weights]


def numbered_layers(fields: Fields, hidden: int, first: int, block: Callable[[Layers], list[Weight]]) -> list[Weight]:
    """As DeepSeek V3 has them (README_WEIGHTS.md), from layer `first` on.

    A layer like the model's own, norms of the token's embedding and of the hidden state, the projection of both to one
    width, and the norm before the shared head. `block`: the weights of the layers themselves.
    """
    layers = tuple(range(first, first + prediction_count(fields)))
    if not layers:
        return []
    return idle(
        [
            *linear(f"{NUMBERED}.eh_proj", "other", hidden, 2 * hidden, layers),
            *norms(NUMBERED, ("enorm", "hnorm", "shared_head.norm"), hidden, layers),
            *block(layers),
        ]
    )
