"""The paths of tensors in checkpoints: what they have in common, and the layer that each belongs to."""

from __future__ import annotations

import re

_WRAPPERS = re.compile(r"^((model|language_model|text_model|llm|transformer|backbone)\.)+(?=.)")
"""Checkpoints of one model differ in these: ``language_model.model.layers`` is ``model.language_model.layers``."""


def pattern_of(path: str) -> tuple[str, int | None]:
    """``model.layers.3.mlp.experts.7.up_proj`` as ``model.layers.*.mlp.experts.*.up_proj`` and 3."""
    parts = path.split(".")
    layer = None
    for place, part in enumerate(parts):
        if part.isdecimal():
            parts[place] = "*"
            if layer is None and part.isascii() and len(part) < 10:
                layer = int(part)
    return ".".join(parts), layer


def bare(path: str) -> str:
    """A path without the wrappers around the text model."""
    return _WRAPPERS.sub("", path)
