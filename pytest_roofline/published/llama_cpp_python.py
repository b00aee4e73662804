"""llama-cpp-python in this process: what its ``Llama`` object counted and timed.

``llama_perf_context`` (llama.cpp's own counters since the context was made or `llama_perf_context_reset`) has `n_eval`
tokens decoded one by one in `t_eval_ms`, and `n_p_eval` tokens of prompts in `t_p_eval_ms`. llama.cpp reports at least
1 of each; one token in no time was none. llama-cpp-python 0.3 has them under these names. Counters can be off
(``no_perf``): then nothing is reported.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from pytest_roofline.errors import MissingDependency, RooflineUsageError
from pytest_roofline.published.entry import Entry
from pytest_roofline.published.reported import Reported, exactly

NAME = "llama-cpp-python"
_FIELDS = ("t_p_eval_ms", "t_eval_ms", "n_p_eval", "n_eval")


def reported(llama: Any) -> Iterator[Reported]:
    """Prefill and decode of a ``llama_cpp.Llama`` since its counters were reset.

    Raises MissingDependency where llama_cpp is not installed, RooflineUsageError for an object that is no ``Llama``.
    """
    try:
        module: Any = importlib.import_module("llama_cpp")
    except ImportError as error:
        raise MissingDependency(f"llama_cpp cannot be imported ({error}): pip install llama-cpp-python") from error
    context = getattr(getattr(llama, "_ctx", None), "ctx", None) or getattr(llama, "ctx", None)
    if context is None:
        raise RooflineUsageError(f"{type(llama).__name__} has no llama.cpp context: a llama_cpp.Llama is needed")
    timings = module.llama_perf_context(context)
    return timed(timings, tokens=getattr(llama, "n_tokens", None), model=getattr(llama, "model_path", None))


def timed(timings: Any, *, tokens: int | None = None, model: str | None = None) -> Iterator[Reported]:
    """The same from a ``llama_perf_context_data``; `tokens` that the cache holds now, prompt and answer."""
    entry = Entry(where="llama_perf_context", values={name: getattr(timings, name, None) for name in _FIELDS})
    decoded, prompt = entry.count("n_eval"), entry.count("n_p_eval")
    decode_ms, prompt_ms = entry.number("t_eval_ms") or 0.0, entry.number("t_p_eval_ms") or 0.0
    for count, milliseconds, name in ((prompt, prompt_ms, "n_p_eval"), (decoded, decode_ms, "n_eval")):
        if count > 1 and milliseconds <= 0:
            raise entry.fail(name, f"{count:,} tokens in no time: the counters are off (no_perf)")
    if prompt_ms > 0:
        yield Reported(
            tool=NAME,
            label=f"prompt, {prompt:,} tokens",
            where=entry.where,
            metric="prefill",
            tokens_per_s=prompt / (prompt_ms * 1e-3),
            batch=exactly(1.0),
            prompt_tokens=float(prompt),
            model=model,
            words="llama.cpp prefill",
        )
    if decode_ms > 0:
        yield Reported(
            tool=NAME,
            label=f"decode, {decoded:,} tokens",
            where=entry.where,
            metric="decode",
            tokens_per_s=decoded / (decode_ms * 1e-3),
            batch=exactly(1.0),
            batch_source="one sequence",
            context=None if tokens is None else max(0.0, tokens - decoded / 2),
            generated_tokens=float(decoded),
            is_first_token_prefilled=False,
            model=model,
            words="llama.cpp",
        )
