"""Gemma: a table tied to the head, norms around both halves of a layer, windows in most layers."""

from __future__ import annotations

from pytest_roofline.architecture import Architecture
from pytest_roofline.readers.decoder import Style, read_decoder, typed_windows
from pytest_roofline.readers.fields import Family, Fields

_SANDWICH = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


def _gemma(fields: Fields) -> Architecture:
    return read_decoder(fields, Style())


def _gemma2(fields: Fields) -> Architecture:
    """Local and global layers take turns, local first."""
    return read_decoder(fields, Style(norms=_SANDWICH, windows=typed_windows(2)))


def _gemma3(fields: Fields) -> Architecture:
    """Five local layers, then a global one, unless ``layer_types`` or ``sliding_window_pattern`` say otherwise."""
    return read_decoder(
        fields, Style(query_norm="head", norms=_SANDWICH, windows=typed_windows(6, key="sliding_window_pattern"))
    )


def _vaultgemma(fields: Fields) -> Architecture:
    return read_decoder(fields, Style(norms=("input_layernorm", "pre_feedforward_layernorm"), windows=typed_windows(2)))


FAMILIES: dict[str, Family] = {
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "vaultgemma": _vaultgemma,
}
