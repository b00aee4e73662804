"""A reader for each tool: what it takes from a file in that tool's layout, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from results_files import (
    GENAI_PERF_CSV,
    GPT_FAST,
    MLPERF,
    genai_perf,
    guidellm,
    llmperf,
    pytest_benchmark,
    sglang_one_batch,
    sglang_serving,
    tensorrt_llm,
    vllm_latency,
    vllm_serve,
    vllm_throughput,
    written,
)

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.published.registry import TOOLS, read_results
from pytest_roofline.published.reported import Reported

Row = tuple[str, str, float]
SERVED: list[Row] = [("vllm", "output", 1280.0), ("vllm", "tpot", 50.0), ("vllm", "total", 6400.0)]


def rows(found: list[Reported]) -> list[Row]:
    """Tool, metric and rate (or seconds) of each."""
    return [(row.tool, row.metric, round(row.tokens_per_s or row.seconds or 0.0, 6)) for row in found]


CASES: list[tuple[Any, list[Row]]] = [
    (vllm_serve(), SERVED),
    (vllm_latency(), [("vllm", "latency", 1.5)]),
    (vllm_throughput(), [("vllm", "total", 6400.0)]),
    (sglang_serving(), [("sglang", metric, rate) for _, metric, rate in SERVED]),
    (sglang_one_batch(), [("sglang", "decode", 500.0), ("sglang", "prefill", 20480.0)]),
    (
        tensorrt_llm(),
        [("tensorrt-llm", "output", 2560.0), ("tensorrt-llm", "tpot", 71.428571), ("tensorrt-llm", "total", 12800.0)],
    ),
    (genai_perf(), [("genai-perf", "output", 1280.0), ("genai-perf", "tpot", 50.0)]),
    (GENAI_PERF_CSV, [("genai-perf", "output", 1280.0), ("genai-perf", "tpot", 50.0)]),
    (guidellm(), [("guidellm", "output", 1280.0), ("guidellm", "tpot", 50.0)]),
    (llmperf(), [("llmperf", "output", 1280.0)]),
    (
        MLPERF.format(scenario="Offline", rate="Samples per second: 5\nTokens per second: 1300"),
        [("mlperf", "output", 1300.0), ("mlperf", "tpot", 50.0)],
    ),
    (MLPERF.format(scenario="Server", rate=""), [("mlperf", "output", 1280.0), ("mlperf", "tpot", 50.0)]),
    (GPT_FAST, [("gpt-fast", "output", 98.0)]),
    (pytest_benchmark(tokens=128), [("pytest-benchmark", "latency", 2.0)]),
]


@pytest.mark.parametrize(("content", "expected"), CASES, ids=[expected[0][0] for _, expected in CASES])
def test_each_layout_is_recognised_and_read(tmp_path: Path, content: Any, expected: list[Row]) -> None:
    """Without a tool's name its layout is enough; with it the same is read."""
    path = written(tmp_path, content)
    assert rows(read_results(path)) == expected
    assert rows(read_results(path, expected[0][0])) == expected


@pytest.mark.parametrize(("content", "expected"), CASES, ids=[expected[0][0] for _, expected in CASES])
def test_no_other_reader_takes_it(tmp_path: Path, content: Any, expected: list[Row]) -> None:
    """A layout belongs to one tool."""
    path = written(tmp_path, content)
    for tool in TOOLS:
        if tool not in (expected[0][0], "csv"):
            with pytest.raises(RooflineUsageError, match=f"is no file of {tool}"):
                read_results(path, tool)


def test_sequences_at_once_lie_between_two_figures(tmp_path: Path) -> None:
    """Those that decode (rate x time per token) and those that were in flight, by what the tool counts."""
    for content, high in ((vllm_serve(), 32.0), (sglang_serving(), 30.0), (genai_perf(), 32.0), (guidellm(), 31.0)):
        batch = read_results(written(tmp_path, content))[0].batch
        assert batch is not None
        assert (batch.low, batch.high) == pytest.approx((25.6, high))
    assert read_results(written(tmp_path, vllm_serve(max_concurrency=None)))[0].batch is None
    one = read_results(written(tmp_path, vllm_serve(max_concurrency=1)))[0].batch
    assert one is not None
    assert (one.low, one.high) == (1.0, 1.0)


def test_lengths_speculation_and_ranks_are_taken(tmp_path: Path) -> None:
    """Mean lengths of a request, tokens accepted per pass, ranks and formats."""
    served = read_results(written(tmp_path, vllm_serve(spec_decode_acceptance_length=2.5, failed=3)))[0]
    assert (served.prompt_tokens, served.generated_tokens, served.context) == (1024.0, 256.0, 1152.0)
    assert (served.tokens_per_pass, served.answered_requests, served.failed_requests) == (2.5, 200.0, 3.0)
    ranked = read_results(written(tmp_path, tensorrt_llm()))[0]
    assert (ranked.ranks, ranked.weights, ranked.model) == (2, "fp8", "meta-llama/Llama-3.1-8B")
    accepted = GPT_FAST + "Mean Accepted: 1.5\n"
    assert read_results(written(tmp_path, accepted))[0].tokens_per_pass == 2.5


def test_the_model_that_guidellm_asked_for(tmp_path: Path) -> None:
    """As the server knows it; a report without one is read all the same."""
    report = guidellm()
    assert read_results(written(tmp_path, report))[0].model is None
    report["benchmarks"][0]["config"]["backend"] = {"target": "http://x", "model": "Qwen/Qwen3-4B"}
    assert read_results(written(tmp_path, report))[0].model == "Qwen/Qwen3-4B"


def test_tokens_that_mlperf_inferred(tmp_path: Path) -> None:
    """Samples times a fixed number: a rate all the same, and said to be one of that kind."""
    text = MLPERF.format(scenario="Offline", rate="Samples per second: 189.8\nTokens per second (inferred): 13096.6")
    found = read_results(written(tmp_path, text))[0]
    assert (found.tokens_per_s, found.label) == (13096.6, "Tokens per second (inferred)")
    assert found.remarks == ("its tokens were inferred: samples times a fixed number for each",)


def test_the_cache_of_tensorrt_llm_has_a_format_of_its_own(tmp_path: Path) -> None:
    """Where the engine names one; else nothing is said of it."""
    report = tensorrt_llm()
    assert read_results(written(tmp_path, report))[0].kv_formats == ()
    report["engine"]["kv_cache_dtype"] = "FP8"
    assert read_results(written(tmp_path, report))[0].kv_formats == ("fp8",)


def test_tokens_accepted_by_tensorrt_llm(tmp_path: Path) -> None:
    """The mean length that was accepted; without a draft there is none."""
    length = {"acceptance_length_percentiles": {"average": 2.75}}
    assert read_results(written(tmp_path, {**tensorrt_llm(), "decoding_stats": length}))[0].tokens_per_pass == 2.75
    nothing = {"acceptance_length_percentiles": None}
    assert read_results(written(tmp_path, {**tensorrt_llm(), "decoding_stats": nothing}))[0].tokens_per_pass is None


def test_concurrency_of_aiperf(tmp_path: Path) -> None:
    """Of the only phase that is no warm-up; a sweep or a request rate has none."""
    phases = [{"name": "warmup", "concurrency": 2}, {"name": "profiling", "type": "concurrency", "concurrency": 16}]
    path = written(tmp_path, genai_perf(input_config={"phases": phases}, inter_token_latency=None))
    batch = read_results(path)[0].batch
    assert batch is not None
    assert (batch.low, batch.high) == (1.0, 16.0)
    for config in ({"phases": phases * 2}, {"phases": [{"name": "profiling", "rate": 5}]}, {}):
        assert read_results(written(tmp_path, genai_perf(input_config=config)))[0].batch is None


def test_vllm_before_there_was_a_total(tmp_path: Path) -> None:
    """Files of 2024 have the rate of prompts in place of that of both; the rest is the same."""
    older = vllm_serve(input_throughput=5120.0, max_concurrency=None)
    del older["total_token_throughput"], older["max_concurrency"], older["failed"], older["burstiness"]
    found = read_results(written(tmp_path, older))
    assert rows(found) == SERVED[:2]
    assert (found[0].model, found[0].prompt_tokens) == ("meta-llama/Llama-3.1-8B-Instruct", 1024.0)


def test_sglang_before_there_was_a_concurrency(tmp_path: Path) -> None:
    """Files of 2024 have latencies alone: all of them over the duration is the mean number in flight."""
    older = sglang_serving(mean_e2e_latency_ms=6000.0, median_itl_ms=20.0, max_concurrency=None)
    for key in ("request_throughput", "input_throughput", "total_throughput", "mean_tpot_ms", "concurrency"):
        del older[key]
    (found,) = read_results(written(tmp_path, older))
    assert found.batch is not None
    assert (found.metric, found.tokens_per_s, found.batch.high) == ("output", 1280.0, 30.0)


def test_aiperf_names_its_model_its_totals_and_its_seconds(tmp_path: Path) -> None:
    """A rate above its own tokens over its own seconds can be seen."""
    config = {"models": {"items": [{"name": "llama-3.1-8b"}]}, "phases": [{"name": "profiling", "concurrency": 32}]}
    path = written(
        tmp_path,
        genai_perf(
            input_config=config,
            benchmark_duration={"unit": "sec", "avg": 40.0},
            total_isl={"unit": "tokens", "avg": 204_800.0},
            total_osl={"unit": "tokens", "avg": 51_200.0},
            total_token_throughput={"unit": "tokens/sec", "avg": 6400.0},
        ),
    )
    found = read_results(path)
    assert rows(found) == [("genai-perf", metric, rate) for _, metric, rate in SERVED]
    assert [row.recomputed_tokens_per_s for row in found] == [1280.0, None, 6400.0]
    assert {row.model for row in found} == {"llama-3.1-8b"}
    several = {"model_names": ["a", "b"]}
    assert read_results(written(tmp_path, genai_perf(input_config=several)))[0].model is None


def test_a_run_that_was_cut_short_says_so(tmp_path: Path) -> None:
    """An export that calls itself incomplete, and a summary that MLPerf calls invalid."""
    assert read_results(written(tmp_path, genai_perf(is_complete=False)))[0].remarks == (
        "the run did not end as planned",
    )
    invalid = MLPERF.format(scenario="Server", rate="").replace("VALID", "INVALID")
    assert read_results(written(tmp_path, invalid))[0].remarks == ("MLPerf's own result is INVALID",)


def test_counts_of_other_tokenizers_leave_room(tmp_path: Path) -> None:
    """A text that was split again may have more tokens than the model made."""
    assert read_results(written(tmp_path, llmperf()))[0].count_slack == 1.5
    assert read_results(written(tmp_path, genai_perf()))[0].count_slack == 1.25
    assert read_results(written(tmp_path, vllm_serve()))[0].count_slack == 1.0


def test_lines_of_several_runs(tmp_path: Path) -> None:
    """JSON lines and appended results: each line is a run of its own, and named."""
    import json

    text = "\n".join(json.dumps(sglang_one_batch(batch_size=batch)) for batch in (1, 2))
    found = read_results(written(tmp_path, text))
    assert [row.where.rsplit(", ", 1)[1] for row in found] == ["row 1", "row 1", "row 2", "row 2"]


def test_a_csv_whose_columns_are_named(tmp_path: Path) -> None:
    """Columns by name, with units; a prompt makes the rate one over a whole run."""
    path = written(tmp_path, "name;x,tps,bs,itl\na,100,4,40\n\nb,200,8,40\n", "t.csv")
    found = read_results(path, "csv", columns="tokens-per-s=tps,batch=bs,tpot=itl:ms,label=name;x")
    assert rows(found) == [("csv", "decode", 100), ("csv", "tpot", 25), ("csv", "decode", 200), ("csv", "tpot", 25)]
    assert [row.label for row in found] == ["a", "a tpot", "b", "b tpot"]
    assert rows(read_results(path, "csv", columns="tokens-per-s=tps:tok/min"))[0][2] == pytest.approx(
        100 / 60, rel=1e-5
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (None, r"--csv needs its columns named, such as --columns tokens-per-s=tps"),
        ("rate=tps", r"--columns: 'rate=tps': one of tokens-per-s, tpot"),
        ("batch=bs", r"--columns: neither tokens-per-s nor tpot is named"),
        ("tpot=itl:h", r"--columns: 'tpot=itl:h': no unit 'h' of tpot; known: s, ms, us, ns"),
        ("batch=bs:ms,tpot=itl", r"no unit 'ms' of batch; known: none"),
        ("tpot=nope", r"no column 'nope'; there are 'tps', 'bs', 'itl'"),
        ("tpot=bs", r"line 2: bs: 0: a positive number is needed"),
    ],
)
def test_wrong_columns_say_what_is_known(tmp_path: Path, columns: str | None, message: str) -> None:
    """Names, units and columns that are not there."""
    path = written(tmp_path, "tps,bs,itl\n100,0,40\n", "t.csv")
    with pytest.raises(RooflineUsageError, match=message):
        read_results(path, "csv", columns=columns)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": 1}, r"is of no tool that is known \(llama-bench, vllm, .*\)$"),
        (
            {"output_throughput": 5.0, "mean_tpot_ms": 2.0, "model_id": "x"},
            r"nearest is vllm: it has output_throughput, mean_tpot_ms, model_id, and lacks total_token_throughput",
        ),
        ("plain words\n", r"is of no tool that is known"),
        (vllm_serve(output_throughput=0), r"output_throughput: 0: a positive number is needed"),
        (vllm_serve(output_throughput="fast"), r"output_throughput: 'fast': a number is needed"),
        (
            tensorrt_llm(system_output_throughput_tok_s=float("nan")),
            r"performance: system_output_throughput_tok_s: nan",
        ),
        (genai_perf(inter_token_latency={"unit": "min", "avg": 2}), r"inter_token_latency: unit: 'min': ms or us"),
        (genai_perf(inter_token_latency=[1, 2], output_token_throughput={"unit": "tokens/sec"}), r"a JSON object is"),
        (MLPERF.format(scenario="Offline", rate="").replace("Performance", "Accuracy"), r"Mode: 'AccuracyOnly'"),
        (MLPERF.format(scenario="Offline", rate="").replace("Completed tokens", "x"), r"counted samples, not tokens"),
        (MLPERF.format(scenario="MultiStream", rate=""), r"Scenario: 'MultiStream': Offline, Server, SingleStream are"),
        (GPT_FAST.replace("Average", "Mean"), r"0 lines 'Average tokens/sec'"),
        (GPT_FAST.replace("98.00", "0.00"), r"'0.00': a positive number of tokens/sec is needed"),
        (vllm_serve(completed=0, failed=8, output_throughput=0.0), r"completed: 0: no request was answered, 8 failed"),
        (sglang_serving(completed=0), r"completed: 0: no request was answered"),
        ([vllm_serve(), {"a": 1}], r"row 2: total_token_throughput: missing: neither bench serve"),
        (pytest_benchmark(tokens="many"), r"benchmark 1, extra_info: tokens: 'many': a number is needed"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    """By file and key, with the nearest layout where one is near."""
    with pytest.raises(RooflineUsageError, match=message):
        read_results(written(tmp_path, content))


def test_no_reader_of_that_name(tmp_path: Path) -> None:
    """The known ones are listed."""
    with pytest.raises(RooflineUsageError, match="no reader 'tgi'; known are llama-bench, vllm"):
        read_results(written(tmp_path, {}), "tgi")
