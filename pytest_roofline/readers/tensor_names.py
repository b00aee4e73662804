"""What the tensors of a GGUF file are for, by their names.

The names are those of the format: ``token_embd.weight``, ``blk.3.ffn_up_exps.weight``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BLOCK = re.compile(r"^blk\.(\d{1,5})\.(.+)$")
_ONE_EXPERT = re.compile(r"^ffn_(gate|up|down)\.(\d{1,5})\.weight$")
"""Files of 2023 and 2024 hold a tensor for each expert of a Mixtral."""
_APART = ("v.", "mm.", "a.", "resampler.", "enc.", "s.", "t.")
"""Towers for pictures and sound, and an encoder: text decoding does not touch them."""
_TABLES = ("token_embd", "per_layer_token_embd", "position_embd", "token_types", "nextn.embed_tokens")

_PARTS = {
    "attn_q": "attn_q",
    "attn_q_a": "attn_q",
    "attn_q_b": "attn_q",
    "attn_k": "attn_k",
    "attn_k_b": "attn_k",
    "attn_kv_a_mqa": "attn_k",
    "attn_kv_b": "attn_k",
    "attn_v": "attn_v",
    "attn_v_b": "attn_v",
    "attn_qkv": "attn_qkv",
    "attn_gate": "attn_q",
    "attn_output": "attn_output",
    "output": "head",
    "nextn.shared_head_head": "head",
    "ffn_gate_inp": "router",
    "ffn_gate_inp_shexp": "router",
    "altup_router": "router",
}
_FEED_FORWARD = re.compile(r"^ffn_(gate_up|gate|up|down)(_exps|_chexps|_shexp)?$")
_STATE = re.compile(
    r"^(ssm_(a|d|conv1d|conv1d_[qkv])|shortconv\.conv|altup_(correct|predict)_.*|exp_probs_b|attn_sinks"
    r"|layer_out.*)$"
)
"""Multiplied by element, not as a matrix: decays, short convolutions, corrections. Never quantized."""
_KNOWN = re.compile(
    r"^(ssm_.*|shortconv\..*|laurel_.*|inp_gate|proj|per_layer_model_proj|ffn_latent_.*|rope_.*|.*norm.*|time_mix_.*"
    r"|channel_mix_.*|altup_.*|nextn\..*|indexer\..*|attn_rot_embd)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorName:
    """A tensor's name taken apart."""

    pattern: str
    """With ``*`` for the block's and the expert's number, without ``.weight``."""
    part: str
    """The word of `Weight.part`."""
    block: int | None = None
    expert: int | None = None
    """For files that hold a tensor per expert."""
    is_routed: bool = False
    """One expert of many; where `expert` is None the tensor's first axis counts them."""
    is_table: bool = False
    """Rows picked by number."""
    is_apart: bool = False
    """Of a vision or audio tower, of an encoder."""
    is_vector: bool = False
    """Read whole and never quantized, whatever its shape."""
    is_known: bool = True


def take_apart(name: str) -> TensorName:
    """What a tensor is for; a name that is not known comes back with ``is_known`` false and part ``other``."""
    if name.startswith(_APART):
        return TensorName(pattern=re.sub(r"\.\d+\.", ".*.", name), part="vision", is_apart=True)
    match = _BLOCK.match(name)
    block = int(match[1]) if match else None
    rest = match[2] if match else name
    prefix = "blk.*." if match else ""
    if one := _ONE_EXPERT.match(rest):
        return TensorName(
            pattern=f"{prefix}ffn_{one[1]}.*",
            part=f"ffn_{one[1]}",
            block=block,
            expert=int(one[2]),
            is_routed=True,
        )
    stem = rest.removesuffix(".weight")
    base = stem.removesuffix(".bias")
    routed = base.endswith(("_exps", "_chexps")) and "norm" not in base
    feed_forward = _FEED_FORWARD.match(base)
    is_vector = stem != base or _STATE.match(base) is not None or "norm" in base or base.startswith("rope_")
    if stem != base:
        part = "bias"
    elif feed_forward:
        part = f"ffn_{feed_forward[1]}"
    elif base in _TABLES:
        part = "embedding"
    elif base in _PARTS:
        part = _PARTS[base]
    elif "norm" in base:
        part = "norm"
    else:
        part = "conv" if "conv" in base else "state" if base.startswith("ssm_") else "other"
    return TensorName(
        pattern=prefix + stem,
        part=part,
        block=block,
        is_routed=routed,
        is_table=base in _TABLES,
        is_vector=is_vector and not (routed and stem == base),
        is_known=part != "other" or is_vector or _KNOWN.match(base) is not None,
    )
