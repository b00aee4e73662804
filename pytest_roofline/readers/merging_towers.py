"""Vision towers that merge neighbouring patches at their end: Qwen2-VL to Qwen3.5, GLM-4V, Kimi K2.5.

As in `vision_towers`, nothing here is read by text decoding; it is counted for the size of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_roofline.architecture import Weight
from pytest_roofline.readers import blocks
from pytest_roofline.readers.blocks import Layers
from pytest_roofline.readers.fields import Fields
from pytest_roofline.readers.vision_towers import dense, idle, layer_norm, patches, square

_PATCH: Mapping[str, Any] = {"in_channels": 3, "patch_size": 14, "temporal_patch_size": 2, "spatial_merge_size": 2}


def _pixels(fields: Fields) -> int:
    """Inputs of the patch embedding: channels x frames x side x side."""
    side = square(fields, "patch_size")
    return fields.size(fields.either("in_channels", "in_chans")) * fields.size("temporal_patch_size") * side * side


def _blocks(prefix: str, width: int, layers: Layers, *, bias: bool, norm_bias: bool) -> list[Weight]:
    """Attention with a fused matrix, and two norms."""
    return [
        *layer_norm(f"{prefix}.norm1", width, layers, bias=norm_bias),
        *layer_norm(f"{prefix}.norm2", width, layers, bias=norm_bias),
        *dense(f"{prefix}.attn.qkv", 3 * width, width, layers, bias=bias),
        *dense(f"{prefix}.attn.proj", width, width, layers, bias=bias),
    ]


def qwen2_vl(fields: Fields, prefix: str) -> list[Weight]:
    """Qwen2-VL: plain layers; ``hidden_size`` is the width of what leaves the tower."""
    fields = fields.with_defaults({**_PATCH, "depth": 32, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4})
    width, layers = fields.size("embed_dim"), tuple(range(blocks.layer_count(fields, "depth")))
    inner, merged = width * fields.size("mlp_ratio"), width * fields.size("spatial_merge_size") ** 2
    block = f"{prefix}.blocks.*"
    return [
        *dense(f"{prefix}.patch_embed.proj", width, _pixels(fields), bias=False),
        *_blocks(block, width, layers, bias=True, norm_bias=True),
        *dense(f"{block}.mlp.fc1", inner, width, layers),
        *dense(f"{block}.mlp.fc2", width, inner, layers),
        *layer_norm(f"{prefix}.merger.ln_q", width),
        *dense(f"{prefix}.merger.mlp.0", merged, merged),
        *dense(f"{prefix}.merger.mlp.2", fields.size("hidden_size"), merged),
    ]


def qwen2_5_vl(fields: Fields, prefix: str) -> list[Weight]:
    """Qwen2.5-VL: gated layers with biases."""
    sizes = {"depth": 32, "hidden_size": 3584, "intermediate_size": 3420, "out_hidden_size": 3584}
    fields = fields.with_defaults({**_PATCH, **sizes})
    width, layers = fields.size("hidden_size"), tuple(range(blocks.layer_count(fields, "depth")))
    inner, merged = fields.size("intermediate_size"), width * fields.size("spatial_merge_size") ** 2
    block = f"{prefix}.blocks.*"
    return [
        *dense(f"{prefix}.patch_embed.proj", width, _pixels(fields), bias=False),
        *_blocks(block, width, layers, bias=True, norm_bias=False),
        *dense(f"{block}.mlp.gate_proj", inner, width, layers),
        *dense(f"{block}.mlp.up_proj", inner, width, layers),
        *dense(f"{block}.mlp.down_proj", width, inner, layers),
        *layer_norm(f"{prefix}.merger.ln_q", width, bias=False),
        *dense(f"{prefix}.merger.mlp.0", merged, merged),
        *dense(f"{prefix}.merger.mlp.2", fields.size("out_hidden_size"), merged),
    ]


def qwen3_vl(fields: Fields, prefix: str) -> list[Weight]:
    """Qwen3-VL, with a merger for each of ``deepstack_visual_indexes``, whose norms come after merging."""
    return qwen3_5(fields.with_defaults({"deepstack_visual_indexes": [8, 16, 24]}), prefix)


def qwen3_5(fields: Fields, prefix: str) -> list[Weight]:
    """Qwen3.5: as Qwen3-VL with one merger."""
    sizes = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "out_hidden_size": 3584}
    fields = fields.with_defaults({**_PATCH, **sizes, "patch_size": 16, "num_position_embeddings": 2304})
    width, layers = fields.size("hidden_size"), tuple(range(blocks.layer_count(fields, "depth")))
    inner, output = fields.size("intermediate_size"), fields.size("out_hidden_size")
    merged, block = width * fields.size("spatial_merge_size") ** 2, f"{prefix}.blocks.*"
    weights = [
        *dense(f"{prefix}.patch_embed.proj", width, _pixels(fields)),
        *idle(f"{prefix}.pos_embed", fields.size("num_position_embeddings"), width),
        *_blocks(block, width, layers, bias=True, norm_bias=True),
        *dense(f"{block}.mlp.linear_fc1", inner, width, layers),
        *dense(f"{block}.mlp.linear_fc2", width, inner, layers),
        *layer_norm(f"{prefix}.merger.norm", width),
        *dense(f"{prefix}.merger.linear_fc1", merged, merged),
        *dense(f"{prefix}.merger.linear_fc2", output, merged),
    ]
    stacked = tuple(range(len(fields.items("deepstack_visual_indexes", []))))
    if stacked:
        merger = f"{prefix}.deepstack_merger_list.*"
        weights += layer_norm(f"{merger}.norm", merged, stacked)
        weights += dense(f"{merger}.linear_fc1", merged, merged, stacked)
        weights += dense(f"{merger}.linear_fc2", output, merged, stacked)
    return weights


def glm4v(fields: Fields, prefix: str) -> list[Weight]:
    """GLM-4V: gated layers of ``out_hidden_size`` inside, a strided convolution, and a gated merger."""
    sizes = {"depth": 24, "hidden_size": 1536, "intermediate_size": 13696, "out_hidden_size": 4096, "image_size": 336}
    fields = fields.with_defaults({**_PATCH, **sizes, "attention_bias": False})
    width, layers = fields.size("hidden_size"), tuple(range(blocks.layer_count(fields, "depth")))
    output, context = fields.size("out_hidden_size"), fields.size("intermediate_size")
    merge, bias, block = fields.size("spatial_merge_size"), fields.flag("attention_bias"), f"{prefix}.blocks.*"
    merger = f"{prefix}.merger"
    return [
        *idle(f"{prefix}.embeddings.position_embedding", patches(fields), width),
        *dense(f"{prefix}.patch_embed.proj", width, _pixels(fields)),
        *layer_norm(f"{block}.norm1", width, layers, bias=False),
        *layer_norm(f"{block}.norm2", width, layers, bias=False),
        *dense(f"{block}.attn.qkv", 3 * width, width, layers, bias=bias),
        *dense(f"{block}.attn.proj", width, width, layers, bias=False),
        *_gate_up_down(f"{block}.mlp", width, output, layers),
        *dense(f"{merger}.proj", output, output, bias=False),
        *layer_norm(f"{merger}.post_projection_norm", output),
        *_gate_up_down(merger, output, context),
        *layer_norm(f"{prefix}.post_conv_layernorm", width, bias=False),
        *idle(f"{prefix}.downsample", output, width, merge, merge),
        *idle(f"{prefix}.downsample.bias", output),
        *layer_norm(f"{prefix}.post_layernorm", width, bias=False),
    ]


def _gate_up_down(prefix: str, width: int, inner: int, layers: Layers = ()) -> list[Weight]:
    return [
        *dense(f"{prefix}.gate_proj", inner, width, layers, bias=False),
        *dense(f"{prefix}.up_proj", inner, width, layers, bias=False),
        *dense(f"{prefix}.down_proj", width, inner, layers, bias=False),
    ]


def kimi(fields: Fields, prefix: str) -> list[Weight]:
    """MoonViT as in Kimi K2.5: a grid of learned positions."""
    sizes = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14}
    fields = fields.with_defaults({**sizes, "pos_emb_height": 64, "pos_emb_width": 64})
    width, inner, side = fields.size("hidden_size"), fields.size("intermediate_size"), square(fields, "patch_size")
    layers, layer = tuple(range(blocks.layer_count(fields))), f"{prefix}.layers.*"
    return [
        *dense(f"{prefix}.patch_embed.proj", width, 3 * side * side),
        *idle(
            f"{prefix}.patch_embed.pos_emb.position_embeddings",
            fields.size("pos_emb_height"),
            fields.size("pos_emb_width"),
            width,
        ),
        *layer_norm(f"{layer}.norm1", width, layers),
        *layer_norm(f"{layer}.norm2", width, layers),
        *(
            w
            for name in ("q_proj", "k_proj", "v_proj", "proj")
            for w in dense(f"{layer}.attn.{name}", width, width, layers)
        ),
        *dense(f"{layer}.mlp.fc1", inner, width, layers),
        *dense(f"{layer}.mlp.fc2", width, inner, layers),
        *layer_norm(f"{prefix}.final_layernorm", width),
    ]
