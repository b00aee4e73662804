"""llama-cpp-python in this process: its counters as results."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_roofline.errors import MissingDependency, RooflineUsageError
from pytest_roofline.published.llama_cpp_python import reported, timed

TIMINGS = SimpleNamespace(t_start_ms=0.0, t_load_ms=9.0, t_p_eval_ms=200.0, t_eval_ms=1000.0, n_p_eval=50, n_eval=100)


@pytest.fixture
def llama_cpp(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in for the module with the one function that is called."""
    module: Any = ModuleType("llama_cpp")
    module.llama_perf_context = lambda context: TIMINGS if context == "the context" else None
    monkeypatch.setitem(sys.modules, "llama_cpp", module)
    return module


@pytest.mark.usefixtures("llama_cpp")
def test_counters_of_a_llama_are_read() -> None:
    """Prompt and decode apart, with the context that the answer had on average and the file it came from."""
    llama = SimpleNamespace(_ctx=SimpleNamespace(ctx="the context"), n_tokens=150, model_path="m.gguf")
    prefill, decode = reported(llama)
    assert (prefill.metric, prefill.tokens_per_s, prefill.prompt_tokens) == ("prefill", 250.0, 50.0)
    assert (decode.metric, decode.tokens_per_s, decode.context) == ("decode", 100.0, 100.0)
    assert decode.model == "m.gguf"


@pytest.mark.usefixtures("llama_cpp")
def test_another_object_is_refused() -> None:
    """What has no context is no Llama."""
    with pytest.raises(RooflineUsageError, match=r"int has no llama.cpp context: a llama_cpp.Llama is needed"):
        list(reported(3))


def test_without_the_package_the_message_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is in it."""
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(MissingDependency, match=r"pip install llama-cpp-python"):
        list(reported(SimpleNamespace(_ctx=SimpleNamespace(ctx="x"))))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"t_eval_ms": 0.0}, r"n_eval: 100 tokens in no time: the counters are off \(no_perf\)"),
        ({"n_eval": None}, r"n_eval: missing: a whole number from 0 is needed"),
        ({"t_eval_ms": float("nan")}, r"t_eval_ms: nan: a finite number"),
        ({"n_eval": -1}, r"n_eval: -1: a whole number from 0"),
    ],
)
def test_counters_that_cannot_be(changed: dict[str, Any], message: str) -> None:
    """Switched off, missing or absurd ones are errors."""
    with pytest.raises(RooflineUsageError, match=message):
        list(timed(SimpleNamespace(**{**vars(TIMINGS), **changed})))


def test_what_did_not_run_is_not_reported() -> None:
    """llama.cpp says 1 token in no time for nothing."""
    nothing = SimpleNamespace(t_p_eval_ms=0.0, t_eval_ms=0.0, n_p_eval=1, n_eval=1)
    assert list(timed(nothing)) == []


def test_the_real_package_where_it_is_installed() -> None:
    """The names that are read are those of its structure."""
    if find_spec("llama_cpp") is None:
        pytest.skip("llama-cpp-python is not installed")
    llama_cpp: Any = import_module("llama_cpp")
    names = {name for name, _ in llama_cpp.llama_perf_context_data._fields_}
    assert {"t_p_eval_ms", "t_eval_ms", "n_p_eval", "n_eval"} <= names
