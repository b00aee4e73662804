"""Which layer of a mixed model is of which kind, from the lists, patterns and indices that configs say it with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_roofline.readers import blocks
from pytest_roofline.readers.blocks import Layers
from pytest_roofline.readers.fields import Fields, shown

RECURRENT, ATTENTION = "linear_attention", "full_attention"
MIXED = {"mamba": RECURRENT, "linear_attention": RECURRENT, "attention": ATTENTION, "full_attention": ATTENTION}
"""Words of old and of new configs for the two kinds."""


def read_kinds(fields: Fields, key: str, layers: int, words: Mapping[str, str] = MIXED) -> tuple[str, ...]:
    """The kind of each layer from the list at `key`; a list of another length, or an unknown word, is an error."""
    entries = fields.items(key)
    if len(entries) != layers:
        raise fields.fail(key, f"{len(entries)} entries for {layers} layers")
    return tuple(_kind(fields, f"{key}[{index}]", entry, words) for index, entry in enumerate(entries))


def read_pattern(fields: Fields, key: str, letters: Mapping[str, str]) -> tuple[str, ...]:
    """The kind of each layer from a text with a letter per layer, such as ``M-M*``."""
    pattern = fields.text(key)
    if not 1 <= len(pattern) <= blocks.MOST_LAYERS:
        raise fields.fail(key, f"{len(pattern):,} letters: 1 to {blocks.MOST_LAYERS:,} are needed, one per layer")
    return tuple(_kind(fields, f"{key}[{index}]", letter, letters) for index, letter in enumerate(pattern))


def read_indices(fields: Fields, key: str, layers: int) -> Layers:
    """Numbers of layers, listed at `key`, in order; one outside the model is an error."""
    entries = fields.items(key, [])
    for index, entry in enumerate(entries):
        if isinstance(entry, bool) or not isinstance(entry, int) or not 0 <= entry < layers:
            raise fields.fail(f"{key}[{index}]", f"{shown(entry)}: a layer from 0 to {layers - 1} is needed")
    return tuple(sorted(set(entries)))


def periodic(fields: Fields, period: str, offset: str, layers: int) -> Layers:
    """Every layer whose number leaves `offset` when divided by `period` (both keys)."""
    step, first = fields.size(period), fields.count(offset)
    if first >= step:
        raise fields.fail(offset, f"{first}: less than {period}, {step}, is needed")
    return tuple(range(first, layers, step))


def of_kind(kinds: Sequence[str], kind: str) -> Layers:
    """The layers that are of `kind`."""
    return tuple(layer for layer, found in enumerate(kinds) if found == kind)


def others(layers: int, taken: Layers) -> Layers:
    """The layers that are not in `taken`."""
    known = set(taken)
    return tuple(layer for layer in range(layers) if layer not in known)


def _kind(fields: Fields, key: str, word: object, words: Mapping[str, str]) -> str:
    if not isinstance(word, str) or word not in words:
        raise fields.fail(key, f"{shown(word)} is not known here; {', '.join(words)} are")
    return words[word]
