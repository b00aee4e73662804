"""Which readers there are, and which of them a file is for. A new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.published.document import Document, read_document
from pytest_roofline.published.reported import Reported

TOOLS: Mapping[str, str] = MappingProxyType(
    {
        "llama-bench": "llama.cpp's llama-bench: JSON, JSONL, CSV, SQL or Markdown",
        "vllm": "vllm bench serve, latency or throughput: JSON",
        "sglang": "SGLang's bench_serving or bench_one_batch: JSONL",
        "tensorrt-llm": "trtllm-bench --report_json",
        "genai-perf": "GenAI-Perf or AIPerf: profile export, JSON or CSV",
        "guidellm": "GuideLLM: benchmarks.json",
        "llmperf": "LLMPerf: ..._summary.json",
        "mlperf": "MLPerf Inference: mlperf_log_summary.txt",
        "pytest-benchmark": "pytest-benchmark: --benchmark-json",
        "gpt-fast": "gpt-fast: what generate.py printed",
        "csv": "any CSV, with --columns",
    }
)
"""Tools by the name of their option, and what is read of them."""
_FEWEST_SHARED = 2


def _reader(tool: str) -> Any:
    name = "columns" if tool == "csv" else tool.replace("-", "_")
    module = {"vllm": "vllm_bench", "sglang": "sglang_bench", "tensorrt_llm": "tensorrt_llm_bench"}.get(name, name)
    return import_module(f"pytest_roofline.published.{module}")


def read_results(path: str, tool: str | None = None, *, columns: str | None = None) -> list[Reported]:
    """The results in a file of `tool`; without a tool, of the one whose layout it has.

    Raises RooflineUsageError for a file that cannot be read, is of no known layout (the nearest is named), or holds no
    result.
    """
    document = read_document(path)
    if tool is None:
        tool = _tool_of(document)
    elif tool not in TOOLS:
        raise RooflineUsageError(f"no reader {tool[:40]!r}; known are {', '.join(TOOLS)}")
    reader = _reader(tool)
    if tool == "csv":
        found = list(reader.read(document, columns))
    else:
        if not reader.recognises(document):
            raise document.fail(f"is no file of {tool} ({TOOLS[tool]}){_nearest(document)}")
        found = list(reader.read(document))
    if not found:
        raise document.fail(f"holds no result of {tool}")
    return found


def _tool_of(document: Document) -> str:
    for tool in TOOLS:
        if _reader(tool).recognises(document):
            return tool
    raise document.fail(f"is of no tool that is known ({', '.join(TOOLS)}){_nearest(document)}")


def _nearest(document: Document) -> str:
    """The tool with most of the keys that the file has, where there are some."""
    keys = set(document.values[0]) if document.values else set()
    shared = {
        tool: [key for key in _reader(tool).KEYS if key in keys or (not keys and key in document.text[:100_000])]
        for tool in TOOLS
    }
    best = max(shared, key=lambda tool: len(shared[tool]))
    if len(shared[best]) < _FEWEST_SHARED:
        return ""
    missing = [key for key in _reader(best).KEYS if key not in shared[best]]
    lacks = f", and lacks {', '.join(missing[:4])}" if missing else ", in another layout than is known"
    return f"; nearest is {best}: it has {one_line(', '.join(shared[best][:4]), 120)}{lacks}"
