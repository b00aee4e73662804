"""``roofline check``: results measured elsewhere, judged by their figures or their file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from model_files import F16, GgufWriter, llama_tensors, llama_values
from results_files import (
    ENGINE_FILES,
    GPT_FAST,
    REAL,
    llama_row,
    llmperf,
    pytest_benchmark,
    tensorrt_llm,
    vllm_latency,
    vllm_serve,
    vllm_throughput,
    written,
)

from pytest_roofline.cli import main

Results = list[dict[str, Any]]
F16_FILE = str(ENGINE_FILES / "llama-bench-f16-depth.json")
MIXED_FILE = str(ENGINE_FILES / "llama-bench-q4_k_m-pg.json")
CARD = ("llama-3.1-8b", "--device", "h100-sxm")
STREAMED, KV = 2_069_209_088, 22_528


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Results]]:
    """Status and results of ``roofline check ... --json``."""

    def run(*arguments: str) -> tuple[int, Results]:
        status = main(["check", *arguments, "--json"])
        printed = capsys.readouterr().out
        found = json.loads(printed) if printed else {"schema": 1, "results": []}
        assert found["schema"] == 1
        return status, found["results"]

    return run


@pytest.fixture
def text(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What ``roofline check`` prints, line ends taken as blanks; on stderr when it is wrong use."""

    def run(*arguments: str) -> str:
        status = main(["check", *arguments])
        captured = capsys.readouterr()
        return " ".join((captured.err if status == 2 else captured.out).split())

    return run


def verdicts(results: Results) -> list[str]:
    """Of each row."""
    return [row["verdict"] for row in results]


def checks(row: dict[str, Any]) -> list[str]:
    """Names of the findings that decided."""
    return [finding["check"] for finding in row["findings"] if finding["severity"] != "note"]


# -- llama-bench's own files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in REAL if "f16" in name])
@pytest.mark.parametrize("model", [("--model", "tinyllama-1.1b"), ()])
def test_bytes_of_a_pass_are_those_of_the_engine(check: Any, name: str, model: Sequence[str]) -> None:
    """The embedding is not streamed, each token of context is, whether MODEL is given or recognised by its size."""
    status, results = check("--llama-bench", str(ENGINE_FILES / name), *model, "--bandwidth", "28GB/s")
    assert verdicts(results) == ["inconclusive", "passed", "inconclusive", "passed"]
    assert status == 1
    for row, context in ((results[1], 12), (results[3], 1036)):
        rounded = name.endswith(".md")
        assert row["weight_bytes_per_pass"] == pytest.approx(STREAMED, rel=2e-4 if rounded else 1e-12)
        assert row["kv_bytes_per_pass"] == KV * context
        expected = row["claimed_tokens_per_s"] * (STREAMED + KV * context) / 28e9
        assert row["fraction"] == pytest.approx(expected, rel=2e-4)
        assert 0.55 < row["fraction"] < 0.70


def test_prefill_is_not_held_against_memory(check: Any, text: Any) -> None:
    """Without a peak nothing is said of it but a lower bound, and what to give; with one it has a roof of its own."""
    arguments = ("--llama-bench", F16_FILE, "--bandwidth", "28GB/s")
    _, results = check(*arguments, "--at-least", "0.5")
    assert checks(results[0]) == ["figures-missing"]
    assert results[0]["fraction_high"] is None
    assert "pp64: prompts are bound by compute, not by memory" in text(*arguments)
    status, results = check(*arguments, "--peak", "200GFLOP/s", "--at-least", "0.5")
    assert (status, verdicts(results)) == (0, ["passed"] * 4)
    assert results[0]["fraction"] == pytest.approx(0.63, abs=0.02)
    status, results = check(*arguments, "--peak", "200GFLOP/s", "--at-least", "0.9", "--metric", "prefill")
    assert verdicts(results) == ["failed", "failed"]


def test_a_mixed_rate_is_held_against_both_floors_in_turn(check: Any, text: Any) -> None:
    """`-pg`: no verdict on memory from it; with a peak the exact floor of a prefill and so many passes."""
    arguments = ("--llama-bench", MIXED_FILE, "--bandwidth", "28GB/s")
    _, results = check(*arguments)
    assert verdicts(results) == ["inconclusive", "passed", "inconclusive"]
    assert "pp64+tg24: prefill and decode are mixed in one rate" in text(*arguments)
    _, (mixed,) = check(*arguments, "--peak", "200GFLOP/s", "--metric", "mixed")
    assert mixed["verdict"] == "passed"
    _, (prefill,) = check(*arguments, "--peak", "200GFLOP/s", "--metric", "prefill")
    floor_s = 64 / prefill["ceiling_tokens_per_s"] + 24 * mixed["bytes_per_pass"] / 28e9
    assert mixed["ceiling_tokens_per_s"] == pytest.approx(88 / floor_s)


def test_decode_rows_alone_pass(check: Any) -> None:
    """`--metric decode` leaves the others out, and the status is 0."""
    status, results = check("--llama-bench", F16_FILE, "--bandwidth", "28GB/s", "--metric", "decode")
    assert (status, [row["label"] for row in results]) == (0, ["tg24", "tg24 @ d1024"])


def test_a_gguf_file_as_model(check: Any, tmp_path: Path) -> None:
    """Its header gives the exact bytes; a file of another size is not what ran."""
    tensors = llama_tensors(kind=F16)
    model = written(tmp_path, GgufWriter().file(llama_values(), tensors), "tiny.gguf")
    embedding = 128 * 64 * 2
    stored = sum(2 * rows * columns for _, (rows, columns), _ in (t for t in tensors if len(t[1]) == 2))
    stored += 4 * 64 * 5
    row = llama_row(model_size=stored, model_n_params=1, n_depth=100, backends="CPU")
    path = written(tmp_path, [row])
    status, (found,) = check("--llama-bench", path, "--model", model, "--bandwidth", "28GB/s")
    assert (status, found["verdict"]) == (0, "passed")
    assert found["weight_bytes_per_pass"] == stored - embedding
    assert found["kv_bytes_per_pass"] == 2 * 2 * 2 * 16 * 2 * 164
    path = written(tmp_path, [llama_row(model_size=2 * stored, model_n_params=1)])
    _, (found,) = check("--llama-bench", path, "--model", model, "--bandwidth", "28GB/s")
    assert (found["verdict"], checks(found)) == ("inconclusive", ["bytes-disagree"])
    said = found["findings"][0]["message"]
    assert "MODEL is not what was measured: the file was measured with a model of 314 kB (llama 9B F16); tiny" in said


def test_quantized_caches_are_the_rows_own(check: Any, tmp_path: Path) -> None:
    """Keys in Q8_0 and values in F16 are read at their mean size; `--kv` says otherwise."""
    row = llama_row(model_size=16_061_054_976, model_n_params=8_030_261_248, model_type="llama 8B F16")
    path = written(tmp_path, [{**row, "n_depth": 1000, "type_k": "q8_0"}])
    _, (found,) = check("--llama-bench", path, "--bandwidth", "3TB/s")
    assert found["model"] == "llama-3.1-8b" or found["model"].startswith("llama-3")
    per_token = 32 * 2 * 8 * 128 * (34 / 32 + 2) / 2
    assert found["kv_bytes_per_pass"] == pytest.approx(per_token * 1064)
    _, (found,) = check("--llama-bench", path, "llama-3.1-8b", "--kv", "bf16", "--bandwidth", "3TB/s")
    assert found["kv_bytes_per_pass"] == pytest.approx(131_072 * 1064)


def test_a_model_of_unknown_shape_is_known_between_two_sizes(check: Any, text: Any, tmp_path: Path) -> None:
    """At least half of a dense file is read, at most all of it: what lies between decides nothing, what does, does."""
    path = written(tmp_path, [llama_row()])
    arguments = ("--llama-bench", path, "--bandwidth", "3.2TB/s")
    status, (found,) = check(*arguments)
    assert (status, found["verdict"]) == (0, "passed")
    assert (found["fraction_low"], found["fraction_high"]) == pytest.approx((0.25, 0.50))
    assert "give the GGUF file as MODEL" in text(*arguments)
    assert [check(*arguments, "--at-least", share)[1][0]["verdict"] for share in ("0.2", "0.4", "0.6")] == [
        *("passed", "inconclusive", "failed")
    ]
    deep = written(tmp_path, [llama_row(n_depth=4096)])
    _, (found,) = check("--llama-bench", deep, "--bandwidth", "3.2TB/s")
    assert (found["verdict"], found["fraction_high"]) == ("inconclusive", None)
    assert "the KV cache at this depth is not known" in text("--llama-bench", deep, "--bandwidth", "3.2TB/s")
    mixture = written(tmp_path, [llama_row(model_type="qwen3moe 30B.A3B Q4_K - Medium")])
    _, (found,) = check("--llama-bench", mixture, "--bandwidth", "100GB/s")
    assert (found["verdict"], checks(found)) == ("inconclusive", ["figures-missing"])


def test_weights_in_another_memory_have_no_verdict(check: Any, text: Any, tmp_path: Path) -> None:
    """Layers left to the host are read at its rate; all of them on the device, or `--offload`, are judged."""
    row = llama_row(model_size=16_061_054_976, model_n_params=8_030_261_248, model_type="llama 8B F16")
    path = written(tmp_path, [{**row, "n_gpu_layers": 20}])
    arguments = ("--llama-bench", path, "llama-3.1-8b", "--device", "h100-sxm")
    _, (found,) = check(*arguments)
    assert (found["verdict"], checks(found)) == ("inconclusive", ["weights-spilled"])
    assert "20 of 32 layers are on the device" in text(*arguments)
    slow = {**row, "n_gpu_layers": 20, "avg_ts": 5.0, "samples_ns": [25_600_000_000]}
    path = written(tmp_path, [slow])
    assert check(*arguments, "--offload", "0.4")[1][0]["verdict"] == "passed"
    path = written(tmp_path, [{**row, "n_gpu_layers": 33}])
    assert check(*arguments)[1][0]["verdict"] == "passed"


def test_a_rate_above_its_own_samples_is_bogus(check: Any, text: Any, tmp_path: Path) -> None:
    """Only the printed rate was edited: no hardware knowledge is needed, whatever the bandwidth."""
    path = written(tmp_path, [llama_row(avg_ts=300.0)])
    status, (found,) = check("--llama-bench", path, "--bandwidth", "100TB/s")
    assert (status, found["verdict"], checks(found)) == (1, "bogus", ["claim-exceeds-closed-time"])
    said = text("--llama-bench", path, "--bandwidth", "100TB/s")
    assert "300 tok/s claimed, 100 tok/s by its own tokens and seconds (3.00x)" in said


@pytest.mark.parametrize("name", REAL)
def test_three_times_as_fast_is_bogus(check: Any, tmp_path: Path, name: str) -> None:
    """The same files on a third of the bandwidth: decode cannot be true, and what could be is not accused."""
    _, results = check("--llama-bench", str(ENGINE_FILES / name), "--bandwidth", "9GB/s")
    decode = [row for row in results if row["metric"] == "decode"]
    assert set(verdicts(decode)) == {"bogus"}
    assert all(checks(row) == ["faster-than-limit"] for row in decode)
    assert "bogus" not in verdicts([row for row in results if row["metric"] != "decode"])


def test_repetitions_around_a_budget_decide_nothing(check: Any, text: Any) -> None:
    """8.5 and 7.7 tok/s are 63 and 57 %: 60 % lies between them."""
    arguments = ("--llama-bench", F16_FILE, "--bandwidth", "28GB/s", "--metric", "decode", "--at-least")
    assert checks(check(*arguments, "0.60")[1][0]) == ["too-few-samples"]
    assert check(*arguments, "0.50")[1][0]["verdict"] == "passed"
    assert check(*arguments, "0.70")[1][0]["verdict"] == "failed"
    said = text(*arguments, "0.60")
    assert "between 57 % and 63 % of the ceiling: 60 % lies inside do: repeat it more often (llama-bench -r)" in said


def test_a_pass_without_the_head_is_not_accused(check: Any, tmp_path: Path) -> None:
    """`--embeddings`: less is read than a decode pass needs, so nothing is called bogus for it, and nothing passed."""
    row = llama_row(model_size=16_061_054_976, model_n_params=8_030_261_248, model_type="llama 8B F16")
    fast = {**row, "avg_ts": 240.0, "samples_ns": [128e9 / 240]}
    for embeddings, verdict in ((True, "inconclusive"), (False, "bogus")):
        path = written(tmp_path, [{**fast, "embeddings": embeddings}])
        assert check("--llama-bench", path, *CARD)[1][0]["verdict"] == verdict
    path = written(tmp_path, [{**row, "embeddings": True}])
    assert checks(check("--llama-bench", path, *CARD)[1][0]) == ["head-skipped"]
    path = written(tmp_path, [{**row, "no_kv_offload": True}])
    assert checks(check("--llama-bench", path, *CARD)[1][0]) == ["weights-spilled"]


# -- figures --------------------------------------------------------------------------------------------------------


def test_figures_of_the_command_line(check: Any, text: Any) -> None:
    """A rate and a time per token that agree, against a datasheet."""
    status, results = check("--tokens-per-s", "93", "--tpot", "10.8ms", *CARD)
    assert (status, verdicts(results)) == (0, ["passed", "passed"])
    assert results[0]["fraction"] == pytest.approx(93 / 223.2, rel=0.01)
    assert "well-made engines reach 60 % to 85 % of the ceiling" in text("--tokens-per-s", "93", *CARD)
    assert "no context is given" in text("--tokens-per-s", "93", *CARD)


def test_below_a_budget_and_above_it(check: Any, text: Any) -> None:
    """Failed with both figures, or passed."""
    assert check("--tokens-per-s", "93", *CARD, "--at-least", "0.4")[0] == 0
    status, (found,) = check("--tokens-per-s", "93", *CARD, "--at-least", "0.6")
    assert (status, found["verdict"], found["at_least"]) == (1, "failed", 0.6)
    assert "42 % of the ceiling (93.0 of 223 tok/s), 60 % is asked for" in text(
        "--tokens-per-s", "93", *CARD, "--at-least", "0.6"
    )


def test_a_rate_over_the_datasheet_is_bogus_with_its_arithmetic(text: Any) -> None:
    """The first line has both figures and the division; the causes that fit follow."""
    said = text("--tokens-per-s", "400", *CARD)
    assert "400 tok/s is 1.79x the ceiling of 223 tok/s (3.35 TB/s / 15.01 GB per pass)" in said
    assert "the rate of a batch: at least 2 sequences at once" in said
    assert "passes that yield at least 1.79 tokens each" in said
    assert "the rate of several devices: 2 together could do it (--tp 2)" in said


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        (("--tokens-per-s", "2000", "--prompt", "4000", "--generated", "100"), "prompt-counted"),
        (("--tokens-per-s", "207", "--context", "16000", "--kv", "bf16"), "kv-format"),
        (("--tokens-per-s", "700"), "batch-aggregate"),
    ],
)
def test_known_mistakes_are_recognised(check: Any, given: Sequence[str], cause: str) -> None:
    """The factor between a figure and its ceiling has a name."""
    _, (found,) = check(*given, *CARD)
    decisive = next(finding for finding in found["findings"] if finding["severity"] == "bogus")
    assert cause in decisive["figures"]["causes"]


def test_what_explains_a_rate_can_be_stated(check: Any) -> None:
    """Sequences, tokens per pass, ranks: with them the same figure passes."""
    for stated in (("--batch", "2"), ("--tokens-per-pass", "2"), ("--tp", "4")):
        assert check("--tokens-per-s", "400", *CARD, *stated)[1][0]["verdict"] == "passed", stated


def test_a_rate_per_device_counts_for_all_of_them(check: Any) -> None:
    """What each of four cards does together is held against the ceiling of four; one sequence's pace is no share."""
    four = ("--tokens-per-s", "100", "--tpot", "2.5ms", *CARD, "--tp", "4", "--batch", "1")
    together, alone = check(*four, "--per-device")[1]
    assert together["claimed_tokens_per_s"] == 400
    assert (together["fraction"], alone["fraction"]) == (
        pytest.approx(alone["fraction"]),
        pytest.approx(0.45, abs=0.01),
    )
    assert check(*four)[1][0]["claimed_tokens_per_s"] == 100


def test_a_stated_bandwidth_is_less_sure_than_a_datasheet(check: Any) -> None:
    """Nobody knows what pattern it was measured with: up to 1.25x is undecided."""
    rates = {"240": "inconclusive", "270": "inconclusive", "300": "bogus", "220": "passed"}
    for rate, verdict in rates.items():
        assert check("--tokens-per-s", rate, "llama-3.1-8b", "--bandwidth", "3.35TB/s")[1][0]["verdict"] == verdict
    assert check("--tokens-per-s", "240", *CARD)[1][0]["verdict"] == "bogus"
    assert check("--tokens-per-s", "230", *CARD)[1][0]["verdict"] == "passed"


def test_an_undecided_rate_says_what_would_decide(text: Any) -> None:
    """The factor that the limit may be off, and the option that makes it surer."""
    said = text("--tokens-per-s", "240", "llama-3.1-8b", "--bandwidth", "3.35TB/s")
    assert "INCONCLUSIVE ceiling-unsure" in said
    assert "given: --bandwidth: a limit that may be too low by up to 1.25x" in said
    assert "do: name the device (--device), so that its data sheet gives the limit" in said


def test_two_figures_tell_how_many_sequences_there_were(check: Any) -> None:
    """Rate x time per token; a batch that was stated contradicts what it cannot be."""
    _, results = check("--tokens-per-s", "1280", "--tpot", "20ms", *CARD)
    assert results[0]["batch"] == [pytest.approx(25.6), pytest.approx(25.6)]
    assert verdicts(results) == ["passed", "passed"]
    _, results = check("--tokens-per-s", "1280", "--tpot", "20ms", "--batch", "8", *CARD)
    assert (results[0]["verdict"], checks(results[0])) == ("bogus", ["claim-exceeds-closed-time"])


def test_a_probe_in_place_of_a_device(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's own bandwidth, with the room of something that was measured."""

    @dataclass(frozen=True)
    class Device:
        id: str = "cpu"
        name: str = "a stand-in"

    @dataclass(frozen=True)
    class Probe:
        device: Device = Device()
        read_bytes_per_s: float = 28e9
        best_bytes_per_s: float = 35e9

    class Session:
        def __init__(self, **_: object) -> None: ...

        def find_device(self, wanted: str | None) -> Device:
            return Device()

        def probe(self, device: Device) -> Probe:
            return Probe()

    monkeypatch.setattr("pytest_roofline.session.Session", Session)
    _, (found,) = check("--tokens-per-s", "1.2", "llama-3.1-8b", "--probe")
    assert (found["verdict"], found["bandwidth_bytes_per_s"], found["device"]) == (
        *("passed", 28e9),
        "cpu (a stand-in), probed: read",
    )
    expected = {"2.8": "passed", "3.5": "inconclusive", "5": "bogus"}
    for rate, verdict in expected.items():
        assert check("--tokens-per-s", rate, "llama-3.1-8b", "--probe")[1][0]["verdict"] == verdict


# -- files of others ------------------------------------------------------------------------------------------------


def test_a_server_is_judged_between_two_concurrencies(check: Any, text: Any, tmp_path: Path) -> None:
    """Those that decode on average, and those that were asked for; prefill lowers the ceiling that can be met."""
    path = written(tmp_path, vllm_serve())
    status, (output, tpot) = check("--vllm", path, "--device", "h100-sxm")
    assert (status, output["verdict"], tpot["verdict"]) == (0, "passed", "passed")
    assert output["model"] == "llama-3.1-8b"
    assert output["batch"] == [pytest.approx(25.6), 32.0]
    assert output["fraction"] < 0.25 < output["fraction_high"] < 0.40
    assert tpot["fraction"] == pytest.approx(50.0 * tpot["bytes_per_pass"] / 3.35e12)
    assert "the time of prefill is in this rate, and not in its ceiling" in text("--vllm", path, "--device", "h100-sxm")
    for budget, verdict in (("0.2", "passed"), ("0.26", "inconclusive"), ("0.5", "failed")):
        assert check("--vllm", path, "--device", "h100-sxm", "--at-least", budget)[1][0]["verdict"] == verdict


def test_weights_that_a_file_does_not_state_accuse_less(check: Any, text: Any, tmp_path: Path) -> None:
    """A model's name says nothing of its format: 8 bits are honest where 16 were assumed, until they are stated."""
    path = written(tmp_path, vllm_serve(max_concurrency=1, mean_tpot_ms=2.9, output_throughput=300.0, duration=None))
    _, results = check("--vllm", path, "--device", "h100-sxm")
    assert verdicts(results) == ["inconclusive", "inconclusive"]
    said = text("--vllm", path, "--device", "h100-sxm")
    assert "weights bf16 (not stated: give --weights)" in said
    assert "do: state the format of the weights (--weights)" in said
    assert verdicts(check("--vllm", path, *CARD, "--weights", "fp8")[1]) == ["passed", "passed"]
    assert verdicts(check("--vllm", path, *CARD)[1]) == ["bogus", "bogus"]


def test_without_a_concurrency_a_server_is_undecided(check: Any, text: Any, tmp_path: Path) -> None:
    """And the answer says what to give."""
    path = written(tmp_path, vllm_serve(max_concurrency=None))
    _, results = check("--vllm", path, "--device", "h100-sxm")
    assert verdicts(results) == ["inconclusive", "inconclusive"]
    said = text("--vllm", path, "--device", "h100-sxm")
    assert "do: give --batch: how many sequences decoded at once" in said
    assert "2 of 2 not judged" in said
    assert check("--vllm", path, "--device", "h100-sxm", "--batch", "32")[0] == 0
    fast = written(tmp_path, vllm_serve(max_concurrency=None, mean_tpot_ms=2.0))
    assert check("--vllm", fast, *CARD)[1][1]["verdict"] == "bogus"


def test_a_rate_that_counts_prompts_is_taken_apart(check: Any, text: Any, tmp_path: Path) -> None:
    """Where lengths are known; else the answer asks for them."""
    path = written(tmp_path, vllm_serve())
    _, (found,) = check("--vllm", path, "--device", "h100-sxm", "--metric", "total")
    assert found["claimed_tokens_per_s"] == pytest.approx(1280)
    said = text("--vllm", path, "--device", "h100-sxm", "--metric", "total")
    assert "6,400 tok/s count prompts: 256 of 1,280 tokens of a request are generated" in said
    path = written(tmp_path, vllm_throughput())
    arguments = ("--vllm", path, *CARD, "--batch", "64")
    assert "prompts are counted in the rate do: give --prompt and --generated" in text(*arguments)
    assert check(*arguments, "--prompt", "1024", "--generated", "256")[0] == 0


def test_seconds_of_a_call_need_its_tokens(check: Any, text: Any, tmp_path: Path) -> None:
    """A latency without lengths has no verdict; with them it is held against prefill and passes."""
    path = written(tmp_path, vllm_latency())
    assert "give --generated, the tokens that each sequence gets in it, --prompt and --batch" in text(
        "--vllm", path, *CARD
    )
    lengths = ("--batch", "8", "--prompt", "32", "--generated", "128")
    _, (found,) = check("--vllm", path, *CARD, *lengths)
    assert (found["verdict"], found["claimed_tokens_per_s"]) == ("passed", pytest.approx(8 * 128 / 1.5))
    fast = written(tmp_path, vllm_latency(avg_latency=0.3))
    assert check("--vllm", fast, *CARD, *lengths)[1][0]["verdict"] == "bogus"


def test_a_benchmark_of_pytest_says_its_tokens(check: Any, tmp_path: Path) -> None:
    """In extra_info, or on the command line; a call that does not wait for its device is caught by the ceiling."""
    path = written(tmp_path, pytest_benchmark(tokens=128, context=100))
    assert check("--pytest-benchmark", path, *CARD)[1][0]["verdict"] == "passed"
    path = written(tmp_path, pytest_benchmark())
    assert check("--pytest-benchmark", path, *CARD)[1][0]["verdict"] == "inconclusive"
    assert check("--pytest-benchmark", path, *CARD, "--generated", "4000")[1][0]["verdict"] == "bogus"


def test_ranks_and_formats_are_the_files_own(check: Any, tmp_path: Path) -> None:
    """Two ranks in FP8, with no option for either."""
    _, (found, _) = check("--tensorrt-llm", written(tmp_path, tensorrt_llm()), "--device", "h100-sxm")
    assert (found["verdict"], found["ranks"], found["weights"]) == ("passed", 2, "fp8")


def test_tokens_that_another_tokenizer_counted_accuse_less(check: Any, tmp_path: Path) -> None:
    """Up to the room that a count leaves nothing is bogus."""
    rate = "results_mean_output_throughput_token_per_s"
    for tokens_per_s, verdict in ((260.0, "passed"), (400.0, "bogus")):
        path = written(tmp_path, llmperf(num_concurrent_requests=1, **{rate: tokens_per_s}))
        assert check("--llmperf", path, *CARD)[1][0]["verdict"] == verdict


def test_a_log_of_gpt_fast(check: Any, tmp_path: Path) -> None:
    """Its rate has the prompt's pass inside: a budget that it misses needs the prompt's length."""
    path = written(tmp_path, GPT_FAST)
    assert check("--gpt-fast", path, *CARD)[0] == 0
    _, (found,) = check("--gpt-fast", path, *CARD, "--at-least", "0.6")
    assert (found["verdict"], checks(found)) == ("inconclusive", ["figures-missing"])
    assert (
        "--prompt and --generated, and a --peak: the time of prefill is in this rate" in found["findings"][0]["remedy"]
    )
    lengths = ("--prompt", "6", "--generated", "200")
    assert check("--gpt-fast", path, *CARD, "--at-least", "0.6", *lengths)[1][0]["verdict"] == "failed"


# -- wrong use ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), r"one file of results (--llama-bench FILE, --file FILE ...) or figures"),
        (("--tokens-per-s", "9", "--file", F16_FILE), r"not several"),
        (("--llama-bench", F16_FILE, "--vllm", F16_FILE), r"not several"),
        (("--tokens-per-s", "fast", *CARD), r"--tokens-per-s: 'fast' is not a number"),
        (("--tokens-per-s", "-9", *CARD), r"--tokens-per-s: '-9' is not a number"),
        (("--tpot", "0", *CARD), r"--tpot: '0' is not a duration"),
        (("--tokens-per-s", "9", *CARD, "--model", "x"), r"MODEL 'llama-3.1-8b' or --model x, not both"),
        (("--tokens-per-s", "9", "llama-3.1-8b"), r"which device?"),
        (("--tokens-per-s", "9", "--device", "h100-sxm"), r"which model? the file does not tell enough of it"),
        (("--tokens-per-s", "9", "llama-3.1-8x", "--device", "h100-sxm"), r"llama-3.1-8b"),
        (("--tokens-per-s", "9", *CARD, "--at-least", "60"), r"--at-least: '60' is no share from 0 to 1"),
        (
            ("--tokens-per-s", "9", *CARD, "--metric", "prefill"),
            r"--metric prefill: there is no such figure;",
        ),
        (("--tokens-per-s", "9", *CARD, "--columns", "a=b"), r"--columns goes with --csv FILE"),
        (("--tokens-per-s", "9", *CARD, "--probe"), r"--probe measures this machine: without --device"),
        (("--llama-bench", F16_FILE, "--bandwidth", "28GB/s", "--batch", "8"), r"--batch 8: llama-bench runs one"),
        (("--llama-bench", "/nowhere", "--bandwidth", "28GB/s"), r"/nowhere: cannot be read"),
        (("--vllm", F16_FILE, "--bandwidth", "28GB/s"), r"is no file of vllm"),
    ],
)
def test_wrong_use_is_status_2(text: Any, arguments: Sequence[str], message: str) -> None:
    """One line that says what is missing, twice there or wrong."""
    assert message in text(*arguments)
    assert main(["check", *arguments]) == 2


def test_neither_torch_nor_pytest_is_loaded() -> None:
    """A file is judged by arithmetic alone."""
    code = (
        "import sys; from pytest_roofline.cli import main;"
        f"main(['check', '--llama-bench', {F16_FILE!r}, '--bandwidth', '28GB/s']);"
        "sys.exit(', '.join(sorted({'torch', 'pytest', 'numpy', 'jax'} & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_a_time_without_a_unit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """10.8 is ms in nearly every report, and no seconds."""
    figures = ("--params", "8B", "--bandwidth", "3.35TB/s", "--tpot", "10.8")
    assert main(["check", *figures]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("roofline check: --tpot: '10.8' is not a duration: no unit; did you mean 10.8ms?")


def test_an_inferred_batch_is_said(check: Any, text: Any) -> None:
    """Tokens/s times the time per token is how many decode at once; a batch that is stated needs no such note."""
    arguments = ("--params", "8B", "--bandwidth", "3.35TB/s", "--tokens-per-s", "740", "--tpot", "10.8ms")
    words = "batch 8 is inferred: 740 tok/s x 10.8 ms per token of one sequence; --batch states it"
    assert words in " ".join(text(*arguments).split())
    _, rows = check(*arguments)
    assert all(words in [finding["message"] for finding in row["findings"]] for row in rows)
    assert "is inferred" not in text(*arguments, "--batch", "8")
