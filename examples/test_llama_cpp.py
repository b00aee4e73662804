"""llama.cpp in this process: completions of llama-cpp-python, judged by their decode passes and the file's bytes."""

from __future__ import annotations

import pytest

BUDGET = {"cpu": 0.05, "*": 0.4}


@pytest.fixture(scope="module")
def completer(tmp_path_factory):
    """A Llama over a small file; skipped where llama-cpp-python, or gguf to write the file, is not installed."""
    llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    pytest.importorskip("gguf", reason="gguf is not installed, so there is no file to read")
    from tiny_gguf import write_llama

    path = write_llama(tmp_path_factory.mktemp("gguf") / "tiny.gguf")
    return llama_cpp.Llama(str(path), n_ctx=256, verbose=False)


@pytest.mark.roofline(at_least=BUDGET)
def test_llama_cpp(roofline, completer):
    """Each completion is a sample; what a pass reads is counted from the file."""
    result = roofline.generate(completer, "once upon a time", max_tokens=8, temperature=0.0)
    print(result)
