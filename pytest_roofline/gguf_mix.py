"""The mixes of llama.cpp: which GGML type each tensor of a ``Q4_K_M`` (or ``IQ3_XS`` ...) file is stored in.

A file type is a base type plus rules by tensor and layer: the output projection and parts of attention and of the
feed-forward get more bits, vectors and routers stay in fp32, rows that a block does not divide fall back to a type of
smaller blocks. The rules are those of ``llama-quantize`` (ggml-org/llama.cpp, src/llama-quant.cpp and the converter),
without an importance matrix: with one, IQ4_XS and IQ4_NL give ``ffn_down`` fewer bits in some layers, Q4_0 and Q5_0
more. (IQ3_XXS and what is smaller cannot be made without one: they are as they are with it.) Hand-made mixes (the
"dynamic" ones) follow no rule: read the file.

Not counted: the header, alignment, and what a GGUF file has and a checkpoint has not (the 64 fp32 rope factors of
Llama 3.1: 256 bytes). Not applied: the rules for the Falcon architecture, and the re-shaping of latent attention's
``kv_b_proj``. A fused ``attn_qkv`` goes by the rule of ``attn_v``, as in llama.cpp today; older files have it in one
type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pytest_roofline.architecture import Architecture, Weight
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.formats import Plan
from pytest_roofline.ggml import BLOCKS

# File type, and the type of what no rule lifts.
_BASES: Mapping[str, str] = MappingProxyType(
    {
        **{name: name for name in ("F32", "F16", "BF16", "Q1_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q6_K", "Q8_0")},
        **dict.fromkeys(("Q2_K", "Q2_K_S"), "Q2_K"),
        **dict.fromkeys(("Q3_K_S", "Q3_K_M", "Q3_K_L"), "Q3_K"),
        **dict.fromkeys(("Q4_K_S", "Q4_K_M"), "Q4_K"),
        **dict.fromkeys(("Q5_K_S", "Q5_K_M"), "Q5_K"),
        **{name: name for name in ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ4_NL", "IQ4_XS")},
        "IQ2_S": "IQ2_XS",
        "IQ2_M": "IQ2_S",
        **dict.fromkeys(("IQ3_XS", "IQ3_S", "IQ3_M"), "IQ3_S"),
        **{name: name for name in ("TQ1_0", "TQ2_0")},
        "MXFP4_MOE": "MXFP4",
    }
)
# What llama-quantize takes these names for.
_SHORT_NAMES: Mapping[str, str] = MappingProxyType({"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"})
# What stands in where a block does not divide the rows.
_FALLBACKS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_XS"), "IQ4_NL"),
        **dict.fromkeys(("Q2_K", "Q3_K", "TQ1_0", "TQ2_0"), "Q4_0"),
        "Q4_K": "Q5_0",
        "Q5_K": "Q5_1",
        "Q6_K": "Q8_0",
    }
)
COMPUTE_DTYPE = "int8"
"""What llama.cpp multiplies quantized types in: by activations of 8 bits, on int8 units where there are some."""
_PLAIN = ("F32", "F16", "BF16")
_UNDER_THREE_BITS = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M")
_FP32_PARTS = ("norm", "bias", "router", "conv")
# Gemma 3n's alternating updates and low-rank residuals: matrices, yet too small to quantize.
_PLAIN_NAMES = ("altup", "laurel", "per_layer_model_proj")
_VALUE_PARTS = ("attn_v", "attn_qkv")
_ENTRY_PARTS = ("ffn_gate", "ffn_up", "ffn_gate_up")


def file_types() -> tuple[str, ...]:
    """The file types that `mix_plan` knows, as llama.cpp spells them."""
    return tuple(sorted(_BASES))


def is_file_type(name: str) -> bool:
    """Whether `name` is a file type, whatever its case, hyphens and underscores (``q4km``). ``q4_k`` alone is a tensor
    type, not a mix."""
    return _spelled(name) in _BASES


def near_file_types(name: str) -> list[str]:
    """The file types whose names are nearest to `name`, in small letters; empty where none is near."""
    import difflib  # only to complain

    plain = {_squashed(known): known.lower() for known in _BASES}
    return [plain[close] for close in difflib.get_close_matches(_squashed(name)[:60], plain, n=3, cutoff=0.6)]


def mix_plan(name: str, architecture: Architecture) -> Plan:
    """What each weight of `architecture` takes in a GGUF file of type `name`, in bytes: `Mix.weight_bytes`."""
    return read_mix(name, architecture).weight_bytes


def read_mix(name: str, architecture: Architecture) -> Mix:
    """The mix `name` for one model. A name that is no file type is a RooflineUsageError with the nearest ones.

    ``Q3_K``, ``Q4_K`` and ``Q5_K`` stand for their _M mixes, as llama-quantize has it.
    """
    spelled = _spelled(name)
    file_type = _SHORT_NAMES.get(spelled, spelled)
    base = _BASES.get(file_type)
    if base is None:
        import difflib  # only to complain

        close = difflib.get_close_matches(spelled, file_types(), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else f"known ones: {', '.join(file_types())}"
        raise RooflineUsageError(f"{name!r:.60} is not a file type of llama.cpp; {hint}")
    routed = [weight.experts for weight in architecture.weights if weight.use == "routed"]
    gqa = _heads_per_value(architecture.weights)
    layers = architecture.layers or 1 + max((max(w.layers, default=0) for w in architecture.weights), default=0)
    return Mix(
        file_type=file_type,
        base=base,
        layers=layers,
        experts=max(routed, default=0),
        gqa=gqa,
        is_tied=not any(weight.part == "head" for weight in architecture.weights),
        # The rule says "the 70B model": grouped heads on 80 layers.
        is_70b=layers == 80 and gqa > 1 and not routed,
        value_layers=_holders(architecture.weights, _VALUE_PARTS),
        down_layers=_holders(architecture.weights, ("ffn_down",)),
        entry_layers=_holders(architecture.weights, _ENTRY_PARTS),
        down_order=_down_order(architecture.weights),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """One file type on one model."""

    file_type: str
    base: str
    layers: int
    experts: int
    """Routed experts of a layer; 0 for a dense model."""
    gqa: float
    """Query heads per value head."""
    is_tied: bool
    is_70b: bool
    value_layers: tuple[int, ...]
    """The layers that have a value projection (or a fused one), in order; likewise the next two."""
    down_layers: tuple[int, ...]
    entry_layers: tuple[int, ...]
    down_order: tuple[tuple[int, bool], ...]
    """(layer, is shared or dense) of every down projection in the order of the file."""

    def weight_bytes(self, weight: Weight) -> float:
        """All tensors of `weight` in this mix, whole blocks, in bytes."""
        elements_of_one = weight.elements // max(1, len(weight.layers))
        total = 0
        for name, count in Counter(self.types(weight)).items():
            elements, size = BLOCKS[name]
            total += count * (elements_of_one // elements) * size
        return float(total)

    def types(self, weight: Weight) -> tuple[str, ...]:
        """The GGML type of this weight on each of its layers (one alone where it has none)."""
        if weight.use == "vector" or len(weight.shape) < 2 or weight.part in _FP32_PARTS:
            return ("F32",) * max(1, len(weight.layers))
        # A vision tower is a file of its own beside the model's, in 16 bits.
        if weight.part == "vision" or any(name in weight.name for name in _PLAIN_NAMES):
            return ("F16",) * max(1, len(weight.layers))
        return tuple(self._fitting(self._chosen(weight, layer), weight) for layer in weight.layers or (0,))

    def _fitting(self, name: str, weight: Weight) -> str:
        """`name`, or what stands in for it when its blocks do not divide the rows."""
        for candidate in (name, _FALLBACKS.get(name)):
            if candidate is not None and weight.shape[-1] % BLOCKS[candidate][0] == 0:
                return candidate
        return "F16"

    def _chosen(self, weight: Weight, layer: int) -> str:
        """The type by the rules, before the shape has its say."""
        if self.base in _PLAIN:
            return self.base
        part = weight.part
        if part == "head" or (part == "embedding" and self.is_tied):
            return self._output(weight)
        if self.file_type == "MXFP4_MOE":
            return "MXFP4" if weight.experts > 1 else "Q8_0"
        if part == "embedding":
            return self._embedding()
        if self.file_type in _UNDER_THREE_BITS:
            return self._under_three_bits(weight, layer)
        if part in _VALUE_PARTS:
            return self._value(layer)
        if part in ("attn_q", "attn_k"):
            return self._query_or_key(part)
        if part == "attn_output":
            return self._attention_output()
        if part == "ffn_down":
            return self._down(layer)
        if part in _ENTRY_PARTS and self.file_type == "IQ3_XS":
            at, count = self._place(layer, self.entry_layers)
            return "IQ3_XXS" if count // 8 <= at < 7 * count // 8 else self.base
        return self.base

    def _output(self, weight: Weight) -> str:
        if self.file_type == "MXFP4_MOE" or self.base == "Q8_0" or weight.shape[-1] % BLOCKS[self.base][0]:
            return "Q8_0"
        return "Q5_K" if self.file_type in (*_UNDER_THREE_BITS, "IQ3_XXS") else "Q6_K"

    def _embedding(self) -> str:
        if self.file_type in ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS"):
            return "Q2_K"
        if self.file_type in ("IQ2_S", "IQ2_M", "IQ3_XXS"):
            return "IQ3_S"
        return "Q4_K" if self.file_type in ("TQ1_0", "TQ2_0") else self.base

    def _under_three_bits(self, weight: Weight, layer: int) -> str:
        lifted = "IQ3_S" if self.file_type in ("IQ2_S", "IQ2_M") else "Q2_K"
        if weight.part in _VALUE_PARTS:
            return "Q4_K" if self.gqa >= 4 or self.experts >= 4 else lifted
        if weight.part == "attn_k" and self.experts == 8:
            return "Q4_K"
        if weight.part == "ffn_down":
            # Counted through the file here: a layer with a shared expert counts twice.
            order = self.down_order
            key = (layer, weight.use != "routed")
            at = order.index(key) if key in order else layer
            return lifted if at < self.layers // 8 else self.base
        if weight.part == "attn_output":
            if self.experts == 8:
                return "Q5_K"
            if self.file_type in ("IQ1_S", "IQ1_M"):
                return "IQ2_XXS"
            return "IQ3_S" if self.file_type in ("IQ2_S", "IQ2_M") else self.base
        return self.base

    def _value(self, layer: int) -> str:
        if self.experts == 8:
            return "Q8_0"
        at = self.value_layers.index(layer) if layer in self.value_layers else layer
        shared = self.gqa >= 4
        kind = self.file_type
        chosen = self.base
        if kind in ("Q2_K", "Q2_K_S", "IQ3_XS", "IQ3_S", "IQ3_XXS") and shared:
            chosen = "Q4_K"
        elif kind == "Q2_K":
            chosen = "Q3_K"
        elif kind == "IQ3_M":
            chosen = "Q4_K"
        elif kind == "Q3_K_M":
            chosen = "Q5_K" if at < 2 else "Q4_K"
        elif kind == "Q3_K_L" or (kind in ("IQ4_NL", "IQ4_XS") and shared) or (kind == "Q4_K_S" and at < 4):
            chosen = "Q5_K"
        elif kind in ("Q4_K_M", "Q5_K_M") and _gets_more_bits(at, len(self.value_layers)):
            chosen = "Q6_K"
        return "Q5_K" if self.is_70b and chosen in ("Q3_K", "Q4_K") else chosen

    def _query_or_key(self, part: str) -> str:
        if part == "attn_k" and self.experts == 8:
            return "Q8_0"
        return {"IQ3_XS": "IQ3_XXS", "IQ3_XXS": "IQ2_S"}.get(self.file_type, self.base)

    def _attention_output(self) -> str:
        kind = self.file_type
        if self.experts == 8:
            is_small = kind in ("Q2_K", "Q3_K_S", "Q3_K_M", "Q4_K_S", "Q4_K_M")
            is_lifted = is_small or kind in ("IQ3_XXS", "IQ3_XS", "IQ3_S", "IQ3_M", "IQ4_NL", "IQ4_XS")
            return "Q5_K" if is_lifted else self.base
        lifted = {"Q2_K": "Q3_K", "IQ3_XXS": "IQ3_S", "Q3_K_M": "Q4_K", "Q3_K_L": "Q5_K", "IQ3_M": "Q4_K"}
        return lifted.get(kind, self.base)

    def _down(self, layer: int) -> str:
        kind = self.file_type
        at, count = self._place(layer, self.down_layers)
        is_early = at < count // 8
        if kind == "Q2_K":
            return "Q3_K"
        if kind == "Q3_K_L":
            return "Q5_K"
        if kind == "Q3_K_M":
            return "Q5_K" if at < count // 16 else "Q4_K"
        if kind in ("Q4_K_M", "Q5_K_M"):
            return "Q6_K" if _gets_more_bits(at, count) else self.base
        if kind == "IQ3_M" and self.experts == 8 and _gets_more_bits(at, count):
            return "Q4_K"
        if is_early and kind in ("Q2_K_S", "IQ3_M"):
            return "Q4_K"
        return "Q5_K" if is_early and kind in ("Q4_K_S", "IQ4_NL", "IQ4_XS") else self.base

    def _place(self, layer: int, holders: tuple[int, ...]) -> tuple[int, int]:
        """Where a layer stands for the rules, and of how many: its number among experts, else its turn in the file."""
        at = layer if self.experts > 1 or layer not in holders else holders.index(layer)
        return at, self.layers


def _gets_more_bits(at: int, count: int) -> bool:
    """The first and the last eighth of the layers, and every third between them."""
    return at < count // 8 or at >= 7 * count // 8 or (at - count // 8) % 3 == 2


def _heads_per_value(weights: Iterable[Weight]) -> float:
    """Query heads per value head, from the widths of the first attention layer; 1 where there is none."""
    firsts: dict[str, Weight] = {}
    for weight in sorted(weights, key=lambda weight: min(weight.layers, default=0)):
        firsts.setdefault(weight.part, weight)
    output, value, fused = (firsts.get(part) for part in ("attn_output", "attn_v", "attn_qkv"))
    if output is None:
        return 1.0
    queries = output.shape[-1]
    if value is not None:
        return queries / value.shape[0]
    if fused is not None and fused.shape[0] > queries:
        return 2 * queries / (fused.shape[0] - queries)
    return 1.0


def _holders(weights: Iterable[Weight], parts: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(sorted({layer for weight in weights if weight.part in parts for layer in weight.layers}))


def _down_order(weights: Iterable[Weight]) -> tuple[tuple[int, bool], ...]:
    spots = {(layer, w.use != "routed") for w in weights if w.part == "ffn_down" for layer in w.layers}
    return tuple(sorted(spots))


def _spelled(name: str) -> str:
    """As llama.cpp spells it; another name than those of file types as it is, in capitals."""
    wanted = _squashed(name)
    return next((known for known in (*_BASES, *_SHORT_NAMES) if _squashed(known) == wanted), name.strip().upper())


def _squashed(name: str) -> str:
    return "".join(name.upper().replace("-", "_").replace("_", " ").split())
