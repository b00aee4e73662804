"""Files of results in the layouts that tools write: keys and nesting are theirs, the figures are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ENGINE_FILES = Path(__file__).parent / "engine_files"
REAL = tuple(sorted(file.name for file in ENGINE_FILES.glob("llama-bench-*")))
"""What llama-bench wrote itself."""


def vllm_serve(**changed: Any) -> dict[str, Any]:
    """``vllm bench serve --save-result``: 200 requests of 1,024 + 256 tokens in 40 s, 32 at a time."""
    made = {
        **{"date": "20260101-000000", "endpoint_type": "vllm", "backend": "vllm", "label": None},
        **{"model_id": "meta-llama/Llama-3.1-8B-Instruct", "tokenizer_id": "x", "num_prompts": 200},
        **{"request_rate": "inf", "burstiness": 1.0, "max_concurrency": 32, "duration": 40.0, "completed": 200},
        **{"failed": 0, "total_input_tokens": 204_800, "total_output_tokens": 51_200, "request_throughput": 5.0},
        **{"request_goodput": None, "output_throughput": 1280.0, "total_token_throughput": 6400.0},
        **{"mean_ttft_ms": 300.1, "median_ttft_ms": 280.0, "std_ttft_ms": 10.0, "p99_ttft_ms": 900.0},
        **{"mean_tpot_ms": 20.0, "median_tpot_ms": 20.0, "std_tpot_ms": float("nan"), "p99_tpot_ms": 30.0},
    }
    return {**made, **changed}


def vllm_latency(**changed: Any) -> dict[str, Any]:
    """``vllm bench latency --output-json``."""
    return {"avg_latency": 1.5, "std_latency": 0.1, "latencies": [1.4, 1.6], "percentiles": {"50": 1.5}, **changed}


def vllm_throughput(**changed: Any) -> dict[str, Any]:
    """``vllm bench throughput --output-json``."""
    made = {"elapsed_time": 40.0, "num_requests": 200, "total_num_tokens": 256_000}
    return {**made, "requests_per_second": 5.0, "tokens_per_second": 6400.0, **changed}


def sglang_serving(**changed: Any) -> dict[str, Any]:
    """A line of SGLang's ``bench_serving``; a request rate without a bound is written as Infinity."""
    made = {
        **{"backend": "sglang", "dataset_name": "random", "request_rate": float("inf"), "max_concurrency": 32},
        **{"duration": 40.0, "completed": 200, "total_input_tokens": 204_800, "total_output_tokens": 51_200},
        **{"total_output_tokens_retokenized": 51_100, "request_throughput": 5.0, "input_throughput": 5120.0},
        **{"output_throughput": 1280.0, "total_throughput": 6400.0, "mean_tpot_ms": 20.0, "concurrency": 30.0},
        "accept_length": None,
    }
    return {**made, **changed}


def sglang_one_batch(**changed: Any) -> dict[str, Any]:
    """A line of SGLang's ``bench_one_batch``."""
    made = {"run_name": "r", "batch_size": 4, "input_len": 1024, "output_len": 128, "prefill_latency": 0.2}
    made |= {"prefill_throughput": 20_480.0, "median_decode_latency": 0.008, "median_decode_throughput": 500.0}
    return {**made, "total_latency": 1.3, "overall_throughput": 3544.0, **changed}


def tensorrt_llm(**performance: Any) -> dict[str, Any]:
    """The report of ``trtllm-bench throughput`` on two ranks."""
    return {
        "engine": {"model": "meta-llama/Llama-3.1-8B", "version": "1.0", "backend": "Pytorch", "quantization": "FP8"},
        "world_info": {"tp_size": 2, "pp_size": 1, "ep_size": 1, "world_size": 2, "max_batch_size": 64},
        "request_info": {
            **{"num_requests": 200, "avg_num_concurrent_requests": 40.0},
            **{"avg_input_length": 1024.0, "avg_output_length": 256.0},
        },
        "performance": {
            **{"total_latency_ms": 20_000.0, "avg_request_latency_ms": 4000.0, "request_throughput_req_s": 10.0},
            **{"system_output_throughput_tok_s": 2560.0, "system_total_throughput_tok_s": 12_800.0},
            **{"output_throughput_per_user_tok_s": 64.0, "output_throughput_per_gpu_tok_s": 1280.0, **performance},
        },
        "streaming_metrics": {"token_output_speed_tok_s": 70.0, "avg_ttft_ms": 200.0, "avg_tpot_ms": 14.0},
        "dataset": {},
    }


def genai_perf(**changed: Any) -> dict[str, Any]:
    """``profile_export_genai_perf.json``."""
    made = {
        "request_throughput": {"unit": "requests/sec", "avg": 5.0},
        "request_latency": {"unit": "ms", "avg": 6000.0, "p50": 5900.0},
        "inter_token_latency": {"unit": "ms", "avg": 20.0, "p50": 19.0},
        "output_token_throughput": {"unit": "tokens/sec", "avg": 1280.0},
        "output_token_throughput_per_user": {"unit": "tokens/sec/user", "avg": 50.0},
        "output_sequence_length": {"unit": "tokens", "avg": 256.0},
        "input_sequence_length": {"unit": "tokens", "avg": 1024.0},
        "input_config": {"perf_analyzer": {"stimulus": {"concurrency": 32}}},
    }
    return {**made, **changed}


GENAI_PERF_CSV = """\
Metric,avg,min,max,p99,p95,p90,p75,p50,p25,p10,p5,p1
Inter Token Latency (ms),20.00,18.00,22.00,21.00,21.00,21.00,20.00,20.00,19.00,19.00,18.00,18.00
Output Sequence Length (tokens),256.00,256.00,256.00,256.00,256.00,256.00,256.00,256.00,256.00,256.00,256.00,256.00
Input Sequence Length (tokens),"1,024.00","1,024.00","1,024.00",N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A

Metric,Value
Output Token Throughput (tokens/sec),"1,280.00"
Request Throughput (per sec),5.00
"""


def guidellm() -> dict[str, Any]:
    """GuideLLM's ``benchmarks.json``: one run with 32 streams."""

    def split(mean: float) -> dict[str, Any]:
        one = {"mean": mean, "median": mean, "count": 200}
        return {"successful": one, "incomplete": {"mean": 0.0}, "errored": {"mean": 0.0}, "total": one}

    metrics = {
        "request_concurrency": split(31.0),
        "prompt_token_count": split(1024.0),
        "output_token_count": split(256.0),
        "time_per_output_token_ms": split(21.0),
        "inter_token_latency_ms": split(20.0),
        "output_tokens_per_second": split(1280.0),
        "tokens_per_second": split(6400.0),
    }
    strategy = {"type_": "concurrent", "streams": 32}
    return {
        "metadata": {"version": 2, "guidellm_version": "0.8.1"},
        "config": {},
        "benchmarks": [{"type_": "generative_benchmark", "config": {"strategy": strategy}, "metrics": metrics}],
    }


def llmperf(**changed: Any) -> dict[str, Any]:
    """LLMPerf's summary: nested keys joined."""
    made = {
        **{"version": "2023-08-31", "name": "x", "model": "meta-llama/Llama-3.1-8B-Instruct"},
        **{"mean_input_tokens": 1024, "mean_output_tokens": 256, "num_concurrent_requests": 32},
        **{"results_number_input_tokens_mean": 1024.0, "results_number_output_tokens_mean": 256.0},
        **{"results_inter_token_latency_s_mean": 0.021, "results_number_errors": 3},
        "results_mean_output_throughput_token_per_s": 1280.0,
    }
    return {**made, **changed}


MLPERF = """\
================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : {scenario}
Mode     : PerformanceOnly
{rate}
Result is : VALID
  Min duration satisfied : Yes

================================================
Additional Stats
================================================
Min latency (ns)                : 1000
Completed tokens per second                 : 1280
Mean Time to Output Token (ns)               : 20000000
"""

GPT_FAST = """\
Using device=cuda
Loading model ...
Time to load model: 3.10 seconds
Compilation time: 45.00 seconds
Hello, my name is
Time for inference 1: 2.05 sec total, 97.50 tokens/sec
Bandwidth achieved: 1500.00 GB/s
Time for inference 2: 2.05 sec total, 98.50 tokens/sec
Bandwidth achieved: 1500.00 GB/s
==========
Average tokens/sec: 98.00
Memory used: 16.00 GB
"""


def pytest_benchmark(**extra: Any) -> dict[str, Any]:
    """``pytest --benchmark-json``: one benchmark, 2 s a call."""
    stats = {"min": 1.9, "max": 2.1, "mean": 2.0, "stddev": 0.1, "rounds": 5, "iterations": 1, "ops": 0.5}
    one = {"group": None, "name": "test_generate", "fullname": "t.py::test_generate", "params": None, "param": None}
    return {
        "machine_info": {},
        "commit_info": {},
        "benchmarks": [{**one, "extra_info": extra, "options": {}, "stats": stats}],
        "datetime": "2026-01-01T00:00:00",
        "version": "5.3.1",
    }


def llama_row(**changed: Any) -> dict[str, Any]:
    """A row of llama-bench's JSON: 128 tokens of a dense model of 16 GB in two repetitions."""
    made = {
        **{"build_commit": "0c1e570", "backends": "CUDA", "gpu_info": "NVIDIA X", "model_type": "llama 9B F16"},
        **{"model_size": 16_000_000_000, "model_n_params": 8_000_000_000, "n_batch": 2048, "n_ubatch": 512},
        **{"type_k": "f16", "type_v": "f16", "n_gpu_layers": -1, "n_cpu_moe": 0, "split_mode": "layer"},
        **{"tensor_buft_overrides": "none", "n_prompt": 0, "n_gen": 128, "n_depth": 0},
        **{"test_time": "2026-01-01T00:00:00Z", "avg_ns": 1_280_000_000, "stddev_ns": 0},
        **{"avg_ts": 100.0, "stddev_ts": 0.0, "samples_ns": [1_280_000_000] * 2, "samples_ts": [100.0] * 2},
    }
    return {**made, **changed}


def written(folder: Path, content: Any, name: str = "results.json") -> str:
    """The path of a new file with this text, these bytes, or this as JSON."""
    file = folder / name
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(file)
