"""Multimodal models: a text model inside a wrapper, beside towers that text decoding never touches.

The text model is read by its own family and keeps its figures; its weights take the wrapper's prefix. Towers and
projectors are `idle`: they count for the size of the checkpoint and for nothing else. A tower that cannot be counted
exactly is left out, and a note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pytest_roofline.architecture import Architecture, Weight
from pytest_roofline.readers import merging_towers, projectors, vision_towers
from pytest_roofline.readers.config import read_family
from pytest_roofline.readers.fields import Family, Fields
from pytest_roofline.readers.text_parts import PARTS
from pytest_roofline.readers.vision_towers import Tower, patches

TEXT_KEYS = ("text_config", "llm_config", "language_config")
"""Where a wrapper keeps its text model; the first that is there."""

TOWERS: Mapping[str, Tower] = {
    "clip_vision_model": vision_towers.clip,
    "siglip_vision_model": vision_towers.siglip,
    "siglip2_vision_model": vision_towers.siglip2,
    "pixtral": vision_towers.pixtral,
    "idefics3": vision_towers.idefics3,
    "idefics3_vision": vision_towers.idefics3,
    "smolvlm": vision_towers.idefics3,
    "smolvlm_vision": vision_towers.idefics3,
}
"""Towers that several wrappers use, by the ``model_type`` in their own config."""

Projector = Callable[[Fields, Fields, int, str], list[Weight]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a wrapper calls things in its checkpoint."""

    body: str = "language_model.model."
    """What ``model.`` of the text model is called."""
    head: str = "language_model.lm_head"
    vision: str = "vision_tower"

    def rename(self, weight: Weight) -> Weight:
        """A weight of the text model under the wrapper's prefix."""
        if weight.name.startswith("model."):
            return replace(weight, name=self.body + weight.name.removeprefix("model."))
        if weight.name.startswith("lm_head"):
            return replace(weight, name=self.head + weight.name.removeprefix("lm_head"))
        return weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """How one family of wrappers holds its text model and its tower."""

    text: str
    """The ``model_type`` of the text model where its own config does not say."""
    tower: Tower | None = None
    """The wrapper's own tower; None: the one that ``vision_config`` names."""
    projector: Projector | None = None
    names: Names = Names()
    counted: bool = True
    """Whether the tower can be counted."""


_LLAMA = Names(vision="vision_model")
_QWEN = Names(body="model.", head="lm_head", vision="visual")
_INNER = Names(body="model.language_model.", head="lm_head", vision="model.visual")
_SMOL = Names(body="model.text_model.", head="lm_head", vision="model.vision_model")
_LFM2 = Names(body="model.language_model.", head="lm_head", vision="model.vision_tower")

WRAPPERS: Mapping[str, Wrapper] = {
    "llava": Wrapper(text="llama", projector=projectors.llava),
    "llava_next": Wrapper(text="llama", projector=projectors.llava_newline),
    "llava_next_video": Wrapper(text="llama", projector=projectors.llava_newline),
    "llava_onevision": Wrapper(text="qwen2", projector=projectors.llava_newline),
    "gemma3": Wrapper(text="gemma3_text", projector=projectors.gemma3),
    "paligemma": Wrapper(text="gemma", projector=projectors.paligemma),
    "mistral3": Wrapper(text="mistral", projector=projectors.mistral3),
    "cohere2_vision": Wrapper(text="cohere2", projector=projectors.cohere2),
    "aya_vision": Wrapper(text="cohere2", projector=projectors.aya),
    "lfm2_vl": Wrapper(text="lfm2", projector=projectors.lfm2, names=_LFM2),
    "internvl": Wrapper(text="qwen2", tower=vision_towers.internvl, projector=projectors.internvl),
    "idefics3": Wrapper(text="llama", tower=vision_towers.idefics3, projector=projectors.idefics3, names=_SMOL),
    "smolvlm": Wrapper(text="llama", tower=vision_towers.idefics3, projector=projectors.idefics3, names=_SMOL),
    "llama4": Wrapper(text="llama4_text", tower=vision_towers.llama4, projector=projectors.llama4, names=_LLAMA),
    "mllama": Wrapper(text="mllama_text_model", tower=vision_towers.mllama, projector=projectors.mllama, names=_LLAMA),
    "qwen2_vl": Wrapper(text="qwen2_vl_text", tower=merging_towers.qwen2_vl, names=_QWEN),
    "qwen2_5_vl": Wrapper(text="qwen2_5_vl_text", tower=merging_towers.qwen2_5_vl, names=_QWEN),
    "qwen3_vl": Wrapper(text="qwen3_vl_text", tower=merging_towers.qwen3_vl, names=_INNER),
    "qwen3_vl_moe": Wrapper(text="qwen3_vl_moe_text", tower=merging_towers.qwen3_vl, names=_INNER),
    "qwen3_5": Wrapper(text="qwen3_5_text", tower=merging_towers.qwen3_5, names=_INNER),
    "qwen3_5_moe": Wrapper(text="qwen3_5_moe_text", tower=merging_towers.qwen3_5, names=_INNER),
    "glm4v": Wrapper(text="glm4v_text", tower=merging_towers.glm4v, names=_INNER),
    "glm4v_moe": Wrapper(text="glm4v_moe_text", tower=merging_towers.glm4v, names=_INNER),
    "kimi_k25": Wrapper(text="deepseek_v3", tower=merging_towers.kimi, projector=projectors.kimi),
    # Of these the towers are code of their own or of another library: only the text model is counted.
    "gemma3n": Wrapper(text="gemma3n_text", names=_INNER, counted=False),
    "gemma4": Wrapper(text="gemma4_text", names=_INNER, counted=False),
    "internvl_chat": Wrapper(text="qwen2", counted=False),
    "kimi_vl": Wrapper(text="deepseek_v3", counted=False),
}


def read_wrapper(fields: Fields) -> Architecture:
    """The text model of a wrapper with its towers as idle weights.

    Raises RooflineUsageError when the text model is itself a wrapper: no model nests them, and a config that does
    so without end would.
    """
    model_type = fields.text("model_type")
    if fields.path:
        raise fields.fail("model_type", f"{model_type!r}: a wrapper inside a wrapper; a text model is needed here")
    wrapper = WRAPPERS[model_type]
    architecture = read_family(_text(fields, wrapper))
    idle, notes = _idle(fields, wrapper, architecture.hidden)
    return replace(
        architecture,
        name=model_type,
        weights=(*(wrapper.names.rename(weight) for weight in architecture.weights), *idle),
        notes=(*architecture.notes, *notes),
    )


def _text(fields: Fields, wrapper: Wrapper) -> Fields:
    """The fields of the text model; older files (Qwen2-VL) have them beside ``vision_config``.

    Whether the table is tied to the head is said by the wrapper, where it says so, else by the text model.
    """
    key = next((key for key in TEXT_KEYS if fields.has(key)), None)
    if key is None and not fields.has("hidden_size"):
        raise fields.fail("text_config", "missing: it describes the text model, which is what decodes")
    part = fields if key is None else fields.part(key)
    values = dict(part.values)
    if key is None or not part.has("model_type"):
        values["model_type"] = wrapper.text
    if fields.has("tie_word_embeddings"):
        values["tie_word_embeddings"] = fields.flag("tie_word_embeddings")
    text = replace(part, values=values)
    family, defaults = PARTS.get(text.text("model_type"), (text.text("model_type"), {}))
    if key is None:
        defaults = {}
    if family == "mllama_text_model":
        defaults = {**defaults, "cross_attention_tokens": _image_tokens(fields)}
    return replace(text, values={**values, "model_type": family}).with_defaults(defaults)


def _image_tokens(fields: Fields) -> int:
    """Positions that one image leaves for cross-attention: every patch of every tile, and a class token per tile."""
    if not fields.has("vision_config"):
        raise fields.fail("vision_config", "missing: it says how many positions an image takes in cross-attention")
    vision = fields.part("vision_config").with_defaults(vision_towers.MLLAMA)
    return vision.size("max_num_tiles") * (patches(vision) + 1)


def _idle(fields: Fields, wrapper: Wrapper, hidden: int) -> tuple[list[Weight], list[str]]:
    if not wrapper.counted or not fields.has("vision_config"):
        return [], ["its vision and audio towers are left out: the checkpoint is larger than what is counted here"]
    vision = fields.part("vision_config")
    tower = wrapper.tower
    if tower is None:
        kind = vision.text("model_type", "")
        tower = TOWERS.get(kind)
        if tower is None:
            return [], [
                f"its vision tower ({kind or 'of no stated type'}) is left out: it is not known how to count it"
            ]
    weights = tower(vision, wrapper.names.vision)
    if wrapper.projector is not None:
        weights += wrapper.projector(fields, vision, hidden, "multi_modal_projector")
    return weights, ["the vision tower and its projector are not read in text decoding: they count for the size alone"]


FAMILIES: dict[str, Family] = dict.fromkeys(WRAPPERS, read_wrapper)
