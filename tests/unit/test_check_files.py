"""``roofline check`` of whole files: stated formats, causes that the file excludes, failures, and several runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from results_files import (
    ENGINE_FILES,
    genai_perf,
    guidellm,
    llama_row,
    llmperf,
    sglang_serving,
    tensorrt_llm,
    vllm_serve,
    written,
)

from pytest_roofline.cli import main

CARD = ("llama-3.1-8b", "--device", "h100-sxm")
MIXED_FILE = str(ENGINE_FILES / "llama-bench-q4_k_m-pg.json")
FAST = {
    **{"max_concurrency": 8, "duration": 7.04, "total_input_tokens": 102_400, "total_output_tokens": 25_600},
    **{"output_throughput": 25_600 / 7.04, "total_token_throughput": 128_000 / 7.04, "mean_tpot_ms": 2.0},
}
"""2.1 times what an H100 can do with 16 bits, and possible with 4."""


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Status of ``roofline check``, and what it prints, line ends taken as blanks."""

    def run(*arguments: str) -> tuple[int, str]:
        status = main(["check", *arguments])
        captured = capsys.readouterr()
        return status, " ".join((captured.out + captured.err).split())

    return run


@pytest.fixture
def results(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[dict[str, Any]]]:
    """The rows of ``roofline check --json``."""

    def run(*arguments: str) -> list[dict[str, Any]]:
        main(["check", *arguments, "--json"])
        return list(json.loads(capsys.readouterr().out)["results"])

    return run


@pytest.mark.parametrize(("weights", "verdict"), [("bf16", "bogus"), ("fp8", "bogus"), ("int4-g128", "passed")])
def test_a_stated_format_is_that_of_the_model_that_the_file_names(
    results: Any, said: Any, tmp_path: Path, weights: str, verdict: str
) -> None:
    """As where MODEL is given: the figures are the same, and nothing is said to be missing."""
    path = written(tmp_path, vllm_serve(**FAST))
    options = ("--file", path, "--device", "h100-sxm", "--weights", weights)
    found, named = results(*options), results("llama-3.1-8b", *options)
    keys = ("verdict", "weights", "fraction", "ceiling_tokens_per_s", "bytes_per_pass")
    assert [[row[key] for key in keys] for row in found] == [[row[key] for key in keys] for row in named]
    assert (found[0]["verdict"], found[0]["weights"]) == (verdict, weights)
    assert "not stated" not in said(*options)[1]
    assert "not stated: give --weights" in said(*options[:4])[1]


def test_a_stated_cache_is_that_of_the_model_that_the_file_names(results: Any, tmp_path: Path) -> None:
    """Half of the bytes at 8 bits, in place of what the file says too."""
    path = written(tmp_path, vllm_serve())
    wide, narrow = (results("--file", path, "--device", "h100-sxm", "--kv", kv)[0] for kv in ("bf16", "fp8"))
    assert narrow["kv"] == "fp8"
    assert narrow["kv_bytes_per_pass"] == pytest.approx(wide["kv_bytes_per_pass"] / 2)


@pytest.mark.parametrize("file", ["named", "recognised", "described"])
@pytest.mark.parametrize(
    ("option", "message"),
    [("--weights", "no format is called 'fp88'; nearest: fp8"), ("--kv", "'fp88' is no format of a KV cache")],
)
def test_an_unknown_format_is_refused(said: Any, tmp_path: Path, file: str, option: str, message: str) -> None:
    """Whatever tells the model."""
    paths = {"recognised": MIXED_FILE, "named": written(tmp_path, vllm_serve(), "a.json")}
    path = paths.get(file) or written(tmp_path, [llama_row()], "b.json")
    status, text = said("--file", path, "--device", "h100-sxm", option, "fp88")
    assert status == 2
    assert message in text


def test_a_format_of_other_bytes_than_the_files_is_a_conflict(said: Any, tmp_path: Path) -> None:
    """Of a model that is recognised; of one that is only described, the file's bytes stay, and that is said."""
    options = ("--file", MIXED_FILE, "--bandwidth", "28GB/s", "--metric", "decode", "--weights")
    assert said(*options, "q4_k_m")[0] == 0
    status, text = said(*options, "bf16")
    assert status == 1
    assert "tinyllama-1.1b in bf16 has 2.20 GB" in text
    path = written(tmp_path, [llama_row()])
    _, text = said("--file", path, "--device", "h100-sxm", "--weights", "fp8", "--kv", "fp8")
    assert "--weights fp8 and --kv fp8: not used without a MODEL; the bytes are those of the file" in text


def test_a_cause_that_the_file_excludes_is_not_named(said: Any, tmp_path: Path) -> None:
    """A time per token counts no prompts, nor does a rate that is the generated tokens over the seconds, or of which
    the total with prompts is a multiple; where nothing excludes it, it is named."""
    made = guidellm()
    for name, mean in (("output_tokens_per_second", 9600.0), ("tokens_per_second", 48_000.0)):
        made["benchmarks"][0]["metrics"][name]["successful"]["mean"] = mean
    made["benchmarks"][0]["metrics"]["inter_token_latency_ms"]["successful"]["mean"] = 1.5
    for content in (vllm_serve(**FAST), vllm_serve(**{**FAST, "duration": None}), made):
        status, text = said("--file", written(tmp_path, content), *CARD)
        assert status == 1
        assert "faster-than-limit" in text
        assert "prompt's tokens" not in text
        assert "nothing stated explains it; it may be passes that yield at least" in text
    unknown = vllm_serve(**{**FAST, "duration": None, "total_token_throughput": None})
    _, text = said("--file", written(tmp_path, unknown), *CARD, "--metric", "output")
    assert "the prompt's tokens are counted" in text
    assert (
        "the prompt's tokens are counted" not in said("--file", written(tmp_path, unknown), *CARD)[1].split("or:")[-1]
    )


def test_a_time_per_token_may_be_that_of_several_devices(said: Any) -> None:
    """As a rate may."""
    assert "or: the pace of several devices: 4 together could do it (--tp 4)" in said("--tpot", "2ms", *CARD)[1]
    assert "or: the rate of several devices: 4 together could do it (--tp 4)" in said("--tokens-per-s", "500", *CARD)[1]


def test_table_and_reason_say_one_figure(said: Any) -> None:
    """And what the lower one is; the peak to give is a placeholder, not somebody else's."""
    _, text = said("--file", MIXED_FILE, "--bandwidth", "28GB/s")
    for share, low in (("3.2 %", "2.6 %"), ("34 %", "32 %")):
        assert f"over {share} INCONCLUSIVE" in text
        assert f": over {share} of the ceiling ({low} at the low end of its repetitions), and no more" in text
    assert "do: give --peak RATE (the device's dense peak), or a --device that has one" in text
    assert "989" not in text


def test_several_runs_of_a_file_are_told_apart(said: Any, tmp_path: Path) -> None:
    """In the table and in what is said of each; one run has its tool's words alone."""
    slow = vllm_serve(max_concurrency=16, output_throughput=600.0, total_token_throughput=3000.0)
    _, text = said("--file", written(tmp_path, [vllm_serve(), slow]), *CARD)
    for name in ("output_throughput", "mean_tpot_ms"):
        assert f"{name}, row 1 " in text
        assert f"{name}, row 2 " in text
    assert "output_throughput, row 2: 12 to 16 sequences at once" in text
    lines = "\n".join(json.dumps(sglang_serving()) for _ in range(2))
    assert "mean_tpot_ms, row 2 " in said("--file", written(tmp_path, lines), *CARD)[1]
    assert ", row" not in said("--file", written(tmp_path, vllm_serve()), *CARD)[1]


def _failing(tool: str, failed: int) -> dict[str, Any]:
    """A run of 100 answered requests and so many that failed."""
    if tool == "guidellm":
        made = guidellm()
        made["benchmarks"][0]["metrics"]["request_totals"] = {"successful": 100, "errored": failed, "incomplete": 80}
        return made
    if tool == "genai-perf":
        return genai_perf(request_count={"avg": 100.0}, error_request_count={"avg": float(failed)})
    if tool == "llmperf":
        return llmperf(results_num_completed_requests=100, results_number_errors=failed)
    if tool == "older vllm":
        return vllm_serve(completed=100, failed=None, num_prompts=100 + failed)
    return vllm_serve(completed=100, failed=failed, num_prompts=100 + failed)


@pytest.mark.parametrize("tool", ["vllm", "older vllm", "guidellm", "genai-perf", "llmperf"])
def test_many_failed_requests_decide_nothing(results: Any, said: Any, tmp_path: Path, tool: str) -> None:
    """Over a tenth of them: those that were answered may be the easy ones. Few are a note, and none excuses a rate
    that cannot be true."""
    path = written(tmp_path, _failing(tool, 50))
    assert {row["verdict"] for row in results("--file", path, *CARD)} == {"inconclusive"}
    assert "50 of 150 requests failed, and all figures are of the other 100" in said("--file", path, *CARD)[1]
    path = written(tmp_path, _failing(tool, 5))
    assert {row["verdict"] for row in results("--file", path, *CARD)} == {"passed"}
    assert "5 requests failed" in said("--file", path, *CARD)[1]
    assert results("--file", written(tmp_path, _failing(tool, 50)), "llama-3.1-70b", "--bandwidth", "100GB/s")[0][
        "verdict"
    ] == "bogus"  # fmt: skip


def test_a_report_without_counts_of_requests_is_judged(results: Any, tmp_path: Path) -> None:
    """Absence of evidence."""
    assert {row["verdict"] for row in results("--file", written(tmp_path, tensorrt_llm()), *CARD)} == {"passed"}
