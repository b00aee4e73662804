"""A stand-in for llama-cpp-python: its `Llama` as far as a generation goes, over memory of a fake device or none.

Method names, arguments, counters and their order are those of the package (0.3): a prompt is computed in batches of
`n_batch`, a prompt that was there before is not computed again, counters say 1 for none and are set back by a verbose
object, and the id that ends a sequence is not in the text.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

VOCABULARY = 128


class Llama:
    """`work(tokens)` is what a pass costs.

    `kind` is *honest*, or a way to cheat. *idle*: `eval` keeps its books and computes nothing. *stuck*: logits are
    written once. `ends_after` so many ids the sequence ends itself. Of what `draft_model` proposes the first `accepts`
    are taken.
    """

    def __init__(
        self,
        model_path: str,
        *,
        n_gpu_layers: int = 0,
        n_batch: int = 512,
        n_threads: int = 1,
        n_ctx: int = 512,
        no_perf: bool = False,
        verbose: bool = False,
        type_k: int = 1,
        type_v: int = 1,
        kind: str = "honest",
        work: Callable[[int], Any] = lambda _: None,
        ends_after: int | None = None,
        size_bytes: int = 0,
        draft_model: Callable[..., Any] | None = None,
        accepts: int = 2,
    ) -> None:
        self.model_path, self.n_batch, self.n_threads, self.verbose = model_path, n_batch, n_threads, verbose
        self.context_params = SimpleNamespace(no_perf=no_perf, type_k=type_k, type_v=type_v)
        self.model_params = SimpleNamespace(n_gpu_layers=0x7FFFFFFF if n_gpu_layers == -1 else n_gpu_layers)
        self.metadata = {"general.architecture": "llama", "llama.block_count": "2"}
        self.cache = self.lora_path = None
        self.n_tokens = 0
        self._kind, self._work, self._ends_after = kind, work, ends_after
        self.draft_model, self._accepts = draft_model, accepts
        self._input_ids = [0] * n_ctx
        self._logits = (ctypes.c_float * VOCABULARY)()
        self._counts = {"n_p_eval": 0, "n_eval": 0, "t_eval_ms": 0.0}
        self._ctx = SimpleNamespace(ctx=self)
        self._model = SimpleNamespace(model=SimpleNamespace(size=size_bytes) if size_bytes else None)
        self.remembered: list[int] = []
        self.evaluated: list[int] = []
        """Tokens of each call of `eval`."""

    def n_vocab(self) -> int:
        """Ids that there are."""
        return VOCABULARY

    def reset(self) -> None:
        """Forget what is cached."""
        self.n_tokens = 0

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        """An id for each byte, behind a first one."""
        return [*([1] if add_bos else []), *(3 + one % (VOCABULARY - 3) for one in text)]

    def eval(self, tokens: Sequence[int]) -> None:
        """Compute these tokens, in batches."""
        self.evaluated.append(len(tokens))
        for begin in range(0, len(tokens), self.n_batch):
            batch = tokens[begin : begin + self.n_batch]
            if self._kind != "idle":
                self._work(len(batch))
                self._counts["n_eval" if len(batch) == 1 else "n_p_eval"] += len(batch)
                self._counts["t_eval_ms"] += len(batch) == 1
            self._input_ids[self.n_tokens : self.n_tokens + len(batch)] = batch
            self.n_tokens += len(batch)
        if self._kind != "stuck" or not any(self._logits):
            seed = sum(self._input_ids[: self.n_tokens]) + 7 * self.n_tokens
            self._logits[:] = [float((seed * (number + 1)) % 97) for number in range(VOCABULARY)]

    def generate(self, tokens: Sequence[int], *, reset: bool = True) -> Iterator[int]:
        """Ids, as they come."""
        tokens = list(tokens)
        if reset and self.n_tokens and self._input_ids[: len(tokens) - 1] == tokens[:-1]:
            self.n_tokens, tokens = len(tokens) - 1, tokens[-1:]
        elif reset:
            self.reset()
        while True:
            self.eval(tokens)
            token = 3 + int(self._logits[5]) % (VOCABULARY - 3)
            yield token
            tokens = [token]
            while self.draft_model is not None:
                guesses = list(self.draft_model([*self._input_ids[: self.n_tokens], token]))
                self.eval([token, *guesses])
                accepted = guesses[: self._accepts]
                self.n_tokens -= len(guesses) - len(accepted)
                yield from accepted
                token = 3 + int(self._logits[5]) % (VOCABULARY - 3)
                yield token

    def create_completion(self, prompt: Any, max_tokens: int | None = 16, temperature: float = 0.8) -> dict[str, Any]:
        """A completion, as the package returns it."""
        if self.verbose:
            llama_perf_context_reset(self)
        ids = self.tokenize(prompt.encode()) if isinstance(prompt, str) else prompt
        new: list[int] = []
        reason = "length"
        for token in self.generate(ids):
            if self._ends_after is not None and len(new) + 1 >= self._ends_after:
                reason = "stop"
                break
            new.append(token)
            if max_tokens is not None and len(new) >= max_tokens:
                break
        self.remembered = new
        return {
            "choices": [{"text": " ".join(map(str, new)), "finish_reason": reason}],
            "usage": {"prompt_tokens": len(ids), "completion_tokens": len(new)},
        }

    def create_chat_completion(self, messages: Sequence[dict[str, str]], **kwargs: Any) -> dict[str, Any]:
        """Of the contents, one behind the other."""
        return self.create_completion("".join(one["content"] for one in messages), **kwargs)


class Remembering(Llama):
    """Hands out the ids of its first call, without computing anything."""

    def generate(self, tokens: Sequence[int], *, reset: bool = True) -> Iterator[int]:
        """Of the first call, from the second one on."""
        if self.remembered:
            yield from list(self.remembered)
            return
        yield from super().generate(tokens, reset=reset)


def llama_perf_context(context: Llama) -> Any:
    """Counters since they were set back; 1 for none."""
    counts = context._counts
    return SimpleNamespace(
        n_p_eval=max(1, counts["n_p_eval"]), n_eval=max(1, counts["n_eval"]), t_eval_ms=counts["t_eval_ms"]
    )


def llama_perf_context_reset(context: Llama) -> None:
    """Set them back."""
    context._counts.update(n_p_eval=0, n_eval=0, t_eval_ms=0.0)


def stand_in(*, has_gpu: bool = False) -> ModuleType:
    """The module, with the C functions that are called."""
    named = ModuleType("llama_cpp")
    module: Any = named
    for made in (Llama, Remembering):
        made.__module__ = "llama_cpp"
        setattr(module, made.__name__, made)
    module.llama_perf_context = llama_perf_context
    module.llama_perf_context_reset = llama_perf_context_reset
    module.llama_synchronize = lambda context: None
    module.llama_n_threads = lambda context: context.n_threads
    module.llama_get_logits_ith = lambda context, index: ctypes.cast(context._logits, ctypes.POINTER(ctypes.c_float))
    module.llama_model_size = lambda model: model.size
    module.llama_supports_gpu_offload = lambda: has_gpu
    return named
