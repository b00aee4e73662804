"""Vision towers: what a multimodal checkpoint holds beside its text model. Text decoding reads none of it.

Counted so that a checkpoint's size is right. Each function takes the tower's own config (``vision_config``) and the
prefix of its weights. Sizes that a file leaves out are those of transformers' config classes.
"""

from __future__ import annotations

from collections.abc import Callable

from pytest_roofline.architecture import Weight
from pytest_roofline.readers import blocks
from pytest_roofline.readers.blocks import Layers
from pytest_roofline.readers.fields import Fields, shown

Tower = Callable[[Fields, str], list[Weight]]


def idle(name: str, *shape: int, layers: Layers = ()) -> list[Weight]:
    """One tensor (per layer) that text decoding does not touch."""
    return [Weight(name=name, part="vision", shape=shape, use="idle", layers=layers)]


def dense(name: str, outputs: int, inputs: int, layers: Layers = (), *, bias: bool = True) -> list[Weight]:
    """A matrix of (outputs, inputs) and its bias."""
    return [
        *idle(name, outputs, inputs, layers=layers),
        *(idle(f"{name}.bias", outputs, layers=layers) if bias else []),
    ]


def layer_norm(name: str, width: int, layers: Layers = (), *, bias: bool = True) -> list[Weight]:
    """A norm; with `bias` a LayerNorm."""
    return [*idle(name, width, layers=layers), *(idle(f"{name}.bias", width, layers=layers) if bias else [])]


def square(fields: Fields, key: str) -> int:
    """A side that is written as one number or as two equal ones."""
    value = fields.get(key)
    if isinstance(value, (list, tuple)):
        if len(value) != 2 or value[0] != value[1]:
            raise fields.fail(key, f"{shown(value)}: two equal sides are needed")
        return Fields(file=fields.file, values={key: value[0]}, path=fields.path).size(key)
    return fields.size(key)


def patches(fields: Fields) -> int:
    """Patches of one image: ``(image_size / patch_size) ** 2``."""
    image, patch = square(fields, "image_size"), square(fields, "patch_size")
    if patch > image:
        raise fields.fail("patch_size", f"{patch}: larger than the image, {image}")
    return (image // patch) ** 2


def _encoder(prefix: str, width: int, inner: int, layers: Layers, norms: tuple[str, str]) -> list[Weight]:
    """Layers as CLIP has them: four projections, two matrices, two norms, all with biases."""
    attention = (f"{prefix}.self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "out_proj"))
    return [
        *(weight for name in attention for weight in dense(name, width, width, layers)),
        *dense(f"{prefix}.mlp.fc1", inner, width, layers),
        *dense(f"{prefix}.mlp.fc2", width, inner, layers),
        *(weight for name in norms for weight in layer_norm(f"{prefix}.{name}", width, layers)),
    ]


def _clip_layers(fields: Fields, prefix: str) -> list[Weight]:
    layers = tuple(range(blocks.layer_count(fields)))
    width, inner = fields.size("hidden_size"), fields.size("intermediate_size")
    return _encoder(f"{prefix}.encoder.layers.*", width, inner, layers, ("layer_norm1", "layer_norm2"))


def clip(fields: Fields, prefix: str) -> list[Weight]:
    """CLIP's vision model."""
    sizes = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "image_size": 224}
    fields = fields.with_defaults({**sizes, "patch_size": 32, "num_channels": 3})
    width, patch = fields.size("hidden_size"), square(fields, "patch_size")
    return [
        *idle(f"{prefix}.embeddings.class_embedding", width),
        *idle(f"{prefix}.embeddings.patch_embedding", width, fields.size("num_channels"), patch, patch),
        *idle(f"{prefix}.embeddings.position_embedding", patches(fields) + 1, width),
        *layer_norm(f"{prefix}.pre_layrnorm", width),
        *_clip_layers(fields, prefix),
        *layer_norm(f"{prefix}.post_layernorm", width),
    ]


def siglip(fields: Fields, prefix: str) -> list[Weight]:
    """SigLIP, and SigLIP 2 with a fixed number of positions (``num_patches``); a pooling head where it has one."""
    sizes = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "image_size": 224}
    fields = fields.with_defaults({**sizes, "patch_size": 16, "num_channels": 3, "vision_use_head": True})
    width, inner, patch = fields.size("hidden_size"), fields.size("intermediate_size"), square(fields, "patch_size")
    positions = fields.size("num_patches") if fields.has("num_patches") else patches(fields)
    head = f"{prefix}.head"
    pooling = [
        *idle(f"{head}.probe", 1, 1, width),
        *dense(f"{head}.attention.in_proj", 3 * width, width),
        *dense(f"{head}.attention.out_proj", width, width),
        *layer_norm(f"{head}.layernorm", width),
        *dense(f"{head}.mlp.fc1", inner, width),
        *dense(f"{head}.mlp.fc2", width, inner),
    ]
    return [
        *dense(f"{prefix}.embeddings.patch_embedding", width, fields.size("num_channels") * patch * patch),
        *idle(f"{prefix}.embeddings.position_embedding", positions, width),
        *_clip_layers(fields, prefix),
        *layer_norm(f"{prefix}.post_layernorm", width),
        *(pooling if fields.flag("vision_use_head") else []),
    ]


def siglip2(fields: Fields, prefix: str) -> list[Weight]:
    """SigLIP 2 for images of any shape: 256 positions unless ``num_patches`` says otherwise."""
    return siglip(fields.with_defaults({"num_patches": 256}), prefix)


def idefics3(fields: Fields, prefix: str) -> list[Weight]:
    """The tower of Idefics3 and SmolVLM: SigLIP's layers without a pooling head."""
    sizes = {"hidden_size": 1152, "intermediate_size": 3072, "image_size": 224, "patch_size": 32}
    return siglip(fields.with_defaults({**sizes, "vision_use_head": False}), prefix)


def pixtral(fields: Fields, prefix: str) -> list[Weight]:
    """Pixtral: gated layers without biases."""
    sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "patch_size": 16}
    fields = fields.with_defaults({**sizes, "num_channels": 3})
    width, inner, patch = fields.size("hidden_size"), fields.size("intermediate_size"), square(fields, "patch_size")
    layers, layer = tuple(range(blocks.layer_count(fields))), f"{prefix}.transformer.layers.*"
    return [
        *idle(f"{prefix}.patch_conv", width, fields.size("num_channels"), patch, patch),
        *layer_norm(f"{prefix}.ln_pre", width, bias=False),
        *_square_projections(f"{layer}.attention", width, layers, bias=False),
        *_gated(f"{layer}.feed_forward", width, inner, layers, bias=False),
        *layer_norm(f"{layer}.attention_norm", width, layers, bias=False),
        *layer_norm(f"{layer}.ffn_norm", width, layers, bias=False),
    ]


def _square_projections(prefix: str, width: int, layers: Layers, *, bias: bool) -> list[Weight]:
    names = (f"{prefix}.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj"))
    return [weight for name in names for weight in dense(name, width, width, layers, bias=bias)]


def _gated(prefix: str, width: int, inner: int, layers: Layers = (), *, bias: bool) -> list[Weight]:
    return [
        *dense(f"{prefix}.gate_proj", inner, width, layers, bias=bias),
        *dense(f"{prefix}.up_proj", inner, width, layers, bias=bias),
        *dense(f"{prefix}.down_proj", width, inner, layers, bias=bias),
    ]


def llama4(fields: Fields, prefix: str) -> list[Weight]:
    """Llama 4's tower with its pixel-shuffle adapter."""
    sizes = {"hidden_size": 768, "intermediate_size": 5632, "num_hidden_layers": 34, "image_size": 448}
    projector = {"projector_input_dim": 4096, "projector_output_dim": 4096}
    fields = fields.with_defaults({**sizes, **projector, "patch_size": 14, "num_channels": 3})
    width, inner, patch = fields.size("hidden_size"), fields.size("intermediate_size"), square(fields, "patch_size")
    layers, layer = tuple(range(blocks.layer_count(fields))), f"{prefix}.model.layers.*"
    middle, outer = fields.size("projector_input_dim"), fields.size("projector_output_dim")
    return [
        *idle(f"{prefix}.class_embedding", width),
        *idle(f"{prefix}.positional_embedding_vlm", patches(fields) + 1, width),
        *dense(f"{prefix}.patch_embedding.linear", width, fields.size("num_channels") * patch * patch, bias=False),
        *layer_norm(f"{prefix}.layernorm_pre", width),
        *layer_norm(f"{prefix}.layernorm_post", width),
        *_encoder(layer, width, inner, layers, ("input_layernorm", "post_attention_layernorm")),
        *dense(f"{prefix}.vision_adapter.mlp.fc1", middle, inner, bias=False),
        *dense(f"{prefix}.vision_adapter.mlp.fc2", outer, middle, bias=False),
    ]


MLLAMA = {
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "num_hidden_layers": 32,
    "num_global_layers": 8,
    "image_size": 448,
    "patch_size": 14,
    "num_channels": 3,
    "max_num_tiles": 4,
    "vision_output_dim": 7680,
}


def mllama(fields: Fields, prefix: str) -> list[Weight]:
    """Llama 3.2's tower: local layers, gated global layers, and embeddings for each arrangement of tiles."""
    fields = fields.with_defaults(MLLAMA)
    width, inner, patch = fields.size("hidden_size"), fields.size("intermediate_size"), square(fields, "patch_size")
    tiles, rows = fields.size("max_num_tiles"), patches(fields) + 1
    # One row per arrangement of tiles, and one for none.
    arrangements = 1 + len(fields.items("supported_aspect_ratios", [()] * 8))
    tables = {"pre_tile_positional_embedding": tiles * width, "post_tile_positional_embedding": tiles * width}
    return [
        *idle(f"{prefix}.class_embedding", width),
        *idle(f"{prefix}.patch_embedding", width, fields.size("num_channels"), patch, patch),
        *idle(f"{prefix}.gated_positional_embedding.gate", 1),
        *idle(f"{prefix}.gated_positional_embedding.embedding", rows, width),
        *idle(f"{prefix}.gated_positional_embedding.tile_embedding", arrangements, tiles * rows * width),
        *(weight for name in tables for weight in idle(f"{prefix}.{name}.gate", 1)),
        *(weight for name, size in tables.items() for weight in idle(f"{prefix}.{name}.embedding", arrangements, size)),
        *layer_norm(f"{prefix}.layernorm_pre", width),
        *layer_norm(f"{prefix}.layernorm_post", width),
        *_mllama_layers(f"{prefix}.transformer", width, inner, tuple(range(blocks.layer_count(fields)))),
        *_mllama_layers(
            f"{prefix}.global_transformer",
            width,
            inner,
            tuple(range(blocks.layer_count(fields, "num_global_layers"))),
            gated=True,
        ),
    ]


def _mllama_layers(prefix: str, width: int, inner: int, layers: Layers, *, gated: bool = False) -> list[Weight]:
    layer = f"{prefix}.layers.*"
    gates = [*idle(f"{layer}.gate_attn", 1, layers=layers), *idle(f"{layer}.gate_ffn", 1, layers=layers)]
    return [
        *_square_projections(f"{layer}.self_attn", width, layers, bias=False),
        *dense(f"{layer}.mlp.fc1", inner, width, layers),
        *dense(f"{layer}.mlp.fc2", width, inner, layers),
        *layer_norm(f"{layer}.input_layernorm", width, layers),
        *layer_norm(f"{layer}.post_attention_layernorm", width, layers),
        *(gates if gated else []),
    ]


def internvl(fields: Fields, prefix: str) -> list[Weight]:
    """InternViT in transformers' own form."""
    sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "image_size": 448}
    flags = {"attention_bias": False, "use_qk_norm": False, "use_mask_token": False, "use_mean_pooling": True}
    kinds = {"norm_type": "layer_norm", "use_absolute_position_embeddings": True}
    fields = fields.with_defaults({**sizes, **flags, **kinds, "patch_size": 14, "num_channels": 3})
    width, inner, patch = fields.size("hidden_size"), fields.size("intermediate_size"), square(fields, "patch_size")
    layers, layer = tuple(range(blocks.layer_count(fields))), f"{prefix}.encoder.layer.*"
    bias, normed = fields.flag("attention_bias"), fields.text("norm_type") == "layer_norm"
    weights = [
        *idle(f"{prefix}.embeddings.cls_token", 1, 1, width),
        *dense(f"{prefix}.embeddings.patch_embeddings.projection", width, fields.size("num_channels") * patch * patch),
        *(w for name in ("lambda_1", "lambda_2") for w in idle(f"{layer}.{name}", width, layers=layers)),
        *(w for name in "qkv" for w in dense(f"{layer}.attention.{name}_proj", width, width, layers, bias=bias)),
        *dense(f"{layer}.attention.projection_layer", width, width, layers),
        *dense(f"{layer}.mlp.fc1", inner, width, layers),
        *dense(f"{layer}.mlp.fc2", width, inner, layers),
        *layer_norm(f"{layer}.layernorm_before", width, layers, bias=normed),
        *layer_norm(f"{layer}.layernorm_after", width, layers, bias=normed),
    ]
    if fields.flag("use_absolute_position_embeddings"):
        weights += idle(f"{prefix}.embeddings.position_embeddings", 1, patches(fields) + 1, width)
    if fields.flag("use_mask_token"):
        weights += idle(f"{prefix}.embeddings.mask_token", 1, 1, width)
    if fields.flag("use_qk_norm"):
        weights += [w for name in "qk" for w in idle(f"{layer}.attention.{name}_norm", width, layers=layers)]
    return weights if fields.flag("use_mean_pooling") else [*weights, *layer_norm(f"{prefix}.layernorm", width)]
