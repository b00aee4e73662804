"""What a `Llama` of llama-cpp-python tells of itself: its counters, logits and threads, and where its layers are.

Nothing is imported before there is such an object. Names are those of llama-cpp-python 0.3; what an older or newer one
lacks is not known then, and nobody is held to it.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

ALL_LAYERS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """llama.cpp's own counts since they were set back."""

    decoded: int
    """Tokens that were computed alone: decode passes, and a prompt's last token where it was left over."""
    prompt: int
    """Tokens that were computed several at a time."""
    decode_s: float

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.decoded + self.prompt


class LlamaFacts:
    """Reads one `Llama`; every answer is None where this version cannot tell."""

    def __init__(self, llama: Any) -> None:
        self._llama = llama
        self._module: Any = sys.modules.get("llama_cpp")

    # -- the context --------------------------------------------------------------------------------------------

    @property
    def has_counters(self) -> bool:
        """Whether llama.cpp counts: this version has the calls, and `no_perf` does not switch them off."""
        has_calls = self._has("llama_perf_context") and self._has("llama_perf_context_reset")
        return has_calls and not bool(self._parameter("context_params", "no_perf", False))

    def reset_counters(self) -> None:
        """Set llama.cpp's counters back: a verbose `Llama` does so itself before each completion."""
        if self.has_counters:
            self._module.llama_perf_context_reset(self._context)

    def counted(self) -> Counted | None:
        """The counters now. llama.cpp says 1 for none, so each of the two counts may be one too many."""
        if not self.has_counters:
            return None
        found = self._module.llama_perf_context(self._context)
        return Counted(decoded=int(found.n_eval), prompt=int(found.n_p_eval), decode_s=float(found.t_eval_ms) * 1e-3)

    def synchronize(self) -> None:
        """Wait until whatever was submitted has been computed."""
        if self._has("llama_synchronize"):
            self._module.llama_synchronize(self._context)

    def logits(self) -> ctypes.Array[ctypes.c_float] | None:
        """The memory that holds the logits of the last position, as it is: not a copy."""
        vocabulary = self.vocabulary
        if not vocabulary or not self._has("llama_get_logits_ith"):
            return None
        self.synchronize()
        found = self._module.llama_get_logits_ith(self._context, -1)
        if not found:
            return None
        address = ctypes.cast(found, ctypes.c_void_p).value
        return None if address is None else (ctypes.c_float * vocabulary).from_address(address)

    @property
    def threads(self) -> int | None:
        """Threads that a decode pass uses on the processor."""
        if self._has("llama_n_threads"):
            return int(self._module.llama_n_threads(self._context))
        found = getattr(self._llama, "n_threads", None)
        return found if isinstance(found, int) else None

    @property
    def cache_types(self) -> tuple[int, int] | None:
        """GGML's numbers of the types that keys and values are cached in."""
        found = [self._parameter("context_params", name, None) for name in ("type_k", "type_v")]
        return (int(found[0]), int(found[1])) if None not in found else None

    # -- the model ----------------------------------------------------------------------------------------------

    @property
    def vocabulary(self) -> int:
        """Number of tokens it knows; 0 where it does not say."""
        count = getattr(self._llama, "n_vocab", None)
        return int(count()) if callable(count) else 0

    @property
    def stored_bytes(self) -> int | None:
        """Of all tensors that were loaded."""
        model = getattr(getattr(self._llama, "_model", None), "model", None)
        return int(self._module.llama_model_size(model)) if model and self._has("llama_model_size") else None

    @property
    def device_layers(self) -> int:
        """Layers that were asked to be put on an accelerator; `ALL_LAYERS`, or 0 where this build supports none."""
        supports = self._has("llama_supports_gpu_offload") and bool(self._module.llama_supports_gpu_offload())
        layers = int(self._parameter("model_params", "n_gpu_layers", 0)) if supports else 0
        # The output matrix counts as one more.
        return ALL_LAYERS if layers < 0 or layers > self.layers else layers

    @property
    def layers(self) -> int:
        """Layers of the model by its metadata; 0 where it does not say."""
        metadata = getattr(self._llama, "metadata", None) or {}
        found = str(metadata.get(f"{metadata.get('general.architecture')}.block_count", "0"))
        return int(found) if found.isdigit() else 0

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def _context(self) -> Any:
        return getattr(getattr(self._llama, "_ctx", None), "ctx", None) or getattr(self._llama, "ctx", None)

    def _has(self, name: str) -> bool:
        return callable(getattr(self._module, name, None)) and bool(self._context)

    def _parameter(self, holder: str, name: str, default: Any) -> Any:
        found = getattr(getattr(self._llama, holder, None), name, default)
        return default if found is None else found
