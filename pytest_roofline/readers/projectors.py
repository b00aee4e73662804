"""What stands between a vision tower and the text model: idle in text decoding, as the tower.

Each function takes the wrapper's config, the tower's config, the width of the text model and a prefix.
"""

from __future__ import annotations

from pytest_roofline.architecture import Weight
from pytest_roofline.readers.fields import Fields, shown
from pytest_roofline.readers.vision_towers import dense, idle, layer_norm

_WIDTHS = {
    "clip_vision_model": 768,
    "siglip_vision_model": 768,
    "siglip2_vision_model": 768,
    "pixtral": 1024,
    "idefics3": 1152,
    "idefics3_vision": 1152,
    "smolvlm": 1152,
    "smolvlm_vision": 1152,
    "kimi_k25_vision": 1152,
    "internvl_vision": 1024,
}
"""Widths of the towers' config classes, where a file leaves them out."""


def _width(vision: Fields) -> int:
    return vision.size("hidden_size", _WIDTHS.get(vision.text("model_type", "")))


def _features(fields: Fields) -> int:
    """How many layers of the tower are joined: one, or as many as ``vision_feature_layer`` lists."""
    chosen = fields.get("vision_feature_layer")
    if not isinstance(chosen, (list, tuple)):
        return 1
    if not chosen:
        raise fields.fail("vision_feature_layer", "empty: at least one layer is needed")
    return len(chosen)


def llava(fields: Fields, vision: Fields, hidden: int, prefix: str) -> list[Weight]:
    """Two matrices."""
    bias = fields.flag("multimodal_projector_bias", True)
    return [
        *dense(f"{prefix}.linear_1", hidden, _features(fields) * _width(vision), bias=bias),
        *dense(f"{prefix}.linear_2", hidden, hidden, bias=bias),
    ]


def llava_newline(fields: Fields, vision: Fields, hidden: int, prefix: str) -> list[Weight]:
    """Two matrices and a learned end of an image's row."""
    return [*llava(fields, vision, hidden, prefix), *idle("image_newline", hidden)]


def gemma3(fields: Fields, vision: Fields, hidden: int, prefix: str) -> list[Weight]:
    """One matrix and a norm."""
    width = _width(vision)
    return [
        *idle(f"{prefix}.mm_input_projection_weight", width, hidden),
        *layer_norm(f"{prefix}.mm_soft_emb_norm", width, bias=False),
    ]


def paligemma(fields: Fields, vision: Fields, hidden: int, prefix: str) -> list[Weight]:
    """One matrix."""
    return dense(f"{prefix}.linear", vision.size("projection_dim", 2048), _width(vision))


def mistral3(fields: Fields, vision: Fields, hidden: int, prefix: str) -> list[Weight]:
    """A norm, a merger of neighbouring patches and two matrices."""
    width, bias = _width(vision), fields.flag("multimodal_projector_bias", False)
    merged = width * fields.size("spatial_merge_size", 2) ** 2
    return [
        *layer_norm(f"{prefix}.norm", width, bias=False),
        *dense(f"{prefix}.patch_merger.merging_layer", width, merged, bias=False),
        *dense(f"{prefix}.linear_1", hidden, _features(fields) * width, bias=bias),
        *dense(f"{prefix}.linear_2", hidden, hidden, bias=bias),
    ]


def cohere2(fields: Fields, vision: Fields, hidden: int, prefix: str) -> list[Weight]:
    """A gated pair: half of the first matrix's outputs enter the second."""
    inner = fields.size("alignment_intermediate_size", 36864)
    return _aligned(vision, fields.size("downsample_factor", 2), inner, hidden, prefix)


def aya(fields: Fields, vision: Fields, hidden: int, prefix: str) -> list[Weight]:
    """As `cohere2` behind a norm."""
    factor = fields.size("downsample_factor", 2)
    inner = fields.size("alignment_intermediate_size", hidden)
    norm = layer_norm(f"{prefix}.layernorm", _width(vision) * factor**2)
    return [*norm, *_aligned(vision, factor, inner, hidden, prefix)]


def _aligned(vision: Fields, factor: int, inner: int, hidden: int, prefix: str) -> list[Weight]:
    return [
        *dense(f"{prefix}.linear_1", inner, _width(vision) * factor**2),
        *dense(f"{prefix}.linear_2", hidden, max(1, inner // 2)),
    ]


def lfm2(fields: Fields, vision: Fields, hidden: int, prefix: str) -> list[Weight]:
    """A norm where it has one, and two matrices."""
    merged = _width(vision) * fields.size("downsample_factor", 2) ** 2
    inner, bias = fields.size("projector_hidden_size", 2560), fields.flag("projector_bias", True)
    return [
        *(layer_norm(f"{prefix}.layer_norm", merged) if fields.flag("projector_use_layernorm", True) else []),
        *dense(f"{prefix}.linear_1", inner, merged, bias=bias),
        *dense(f"{prefix}.linear_2", hidden, inner, bias=bias),
    ]


def internvl(fields: Fields, vision: Fields, hidden: int, prefix: str) -> list[Weight]:
    """A norm and two matrices behind pixel shuffle; ``downsample_ratio`` is a half or another unit fraction."""
    ratio = fields.get("downsample_ratio")
    ratio = 0.5 if ratio is None else ratio
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 1 / 1024 <= ratio <= 1:
        raise fields.fail("downsample_ratio", f"{shown(ratio)}: a number above 0 and up to 1 is needed")
    merged = _width(vision) * int(1 / ratio) ** 2
    return [
        *layer_norm(f"{prefix}.layer_norm", merged),
        *dense(f"{prefix}.linear_1", hidden, merged),
        *dense(f"{prefix}.linear_2", hidden, hidden),
    ]


def idefics3(fields: Fields, vision: Fields, hidden: int, prefix: str) -> list[Weight]:
    """One matrix behind pixel shuffle."""
    merged = _width(vision.with_defaults({"model_type": "idefics3"})) * fields.size("scale_factor", 2) ** 2
    return dense("model.connector.modality_projection.proj", hidden, merged, bias=False)


def llama4(fields: Fields, vision: Fields, hidden: int, prefix: str) -> list[Weight]:
    """One matrix."""
    return dense(f"{prefix}.linear_1", hidden, vision.size("vision_output_dim", 7680), bias=False)


def mllama(fields: Fields, vision: Fields, hidden: int, prefix: str) -> list[Weight]:
    """One matrix from the tower's last and intermediate layers together."""
    return dense(prefix, hidden, vision.size("vision_output_dim", 7680))


def kimi(fields: Fields, vision: Fields, hidden: int, prefix: str) -> list[Weight]:
    """A norm and two matrices over merged patches."""
    kernel = vision.items("merge_kernel_size", [2, 2])
    if len(kernel) != 2 or not all(isinstance(side, int) and 1 <= side <= 1024 for side in kernel):
        raise vision.fail("merge_kernel_size", f"{shown(kernel)}: two whole numbers are needed")
    width = _width(vision)
    merged = width * kernel[0] * kernel[1]
    return [
        *layer_norm("mm_projector.pre_norm", width),
        *dense("mm_projector.in_proj", merged, merged),
        *dense("mm_projector.out_proj", hidden, merged),
    ]
