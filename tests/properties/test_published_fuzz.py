"""Readers of results and the verdict on them: nothing in a file is a crash, and faster is never more credible."""

from __future__ import annotations

import io
import json
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.cli import main
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.published.document import read_document
from pytest_roofline.published.registry import TOOLS, read_results

FEW = settings(max_examples=60, deadline=None)
VERDICTS = {"passed", "failed", "bogus", "inconclusive"}
ROW = {
    **{"backends": "CUDA", "model_type": "llama 8B F16", "model_size": 16_061_054_976, "model_n_params": 8_030_261_248},
    **{"type_k": "f16", "type_v": "f16", "n_gpu_layers": -1, "n_prompt": 0, "n_gen": 128, "n_depth": 0},
    **{"avg_ns": 1_280_000_000, "stddev_ns": 0, "avg_ts": 100.0, "stddev_ts": 0.0, "samples_ns": [1_280_000_000]},
}
SERVE = {
    **{"model_id": "x", "max_concurrency": 32, "duration": 40.0, "completed": 200, "total_input_tokens": 204_800},
    **{"total_output_tokens": 51_200, "request_throughput": 5.0, "output_throughput": 1280.0},
    **{"total_token_throughput": 6400.0, "mean_tpot_ms": 20.0},
}
WORDS = (
    "MLPerf Results Summary\nScenario : Server\nMode     : PerformanceOnly\nCompleted tokens per second : ",
    "Time for inference 1: 2.05 sec total, 97.50 tokens/sec\nAverage tokens/sec: ",
    "INSERT INTO llama_bench (n_prompt, n_gen, avg_ts) VALUES (",
    "n_prompt,n_gen,avg_ts\n0,24,",
    "| model | test | t/s |\n| --- | --- | --- |\n| m | tg9 | ",
    "Metric,avg,\nOutput Token Throughput (tokens/sec),",
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


def read(content: bytes, tool: str | None) -> None:
    """Read these bytes as a file; RooflineUsageError is the only way to refuse them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results")
        path.write_bytes(content)
        complaint = str(path)
        try:
            read_results(str(path), tool, columns="tokens-per-s=a")
        except RooflineUsageError as error:
            complaint = str(error)
        assert str(path) in complaint


def judged(content: Any, *arguments: str) -> list[dict[str, Any]]:
    """The results of ``roofline check`` on this as a JSON file; empty for one that is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results.json")
        path.write_text(json.dumps(content))
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(io.StringIO()):
            status = main(["check", "--file", str(path), "llama-3.1-8b", "--device", "h100-sxm", "--json", *arguments])
    assert status in (0, 1, 2)
    if status == 2:
        return []
    found = json.loads(printed.getvalue())["results"]
    assert (status == 0) == all(row["verdict"] == "passed" for row in found)
    return list(found)


@FEW
@given(st.binary(max_size=200), st.sampled_from([None, *TOOLS]))
def test_any_bytes_are_read_or_refused_by_name(content: bytes, tool: str | None) -> None:
    """Whatever a file holds, its name is in the complaint."""
    read(content, tool)


@FEW
@given(st.sampled_from(WORDS), st.text(max_size=60), st.sampled_from([None, *TOOLS]))
def test_any_end_of_a_text_is_read_or_refused(begin: str, end: str, tool: str | None) -> None:
    """Tables, logs and scripts that go on in any way."""
    read((begin + end).encode("utf-8", "replace"), tool)


@FEW
@given(st.sampled_from([ROW, SERVE]), st.data())
def test_any_value_of_a_known_key_is_judged_or_refused(base: dict[str, Any], data: st.DataObject) -> None:
    """One value of a sound file replaced by anything: a verdict in builtin numbers, or a complaint."""
    key = data.draw(st.sampled_from(sorted(base)))
    for row in judged([{**base, key: data.draw(values)}]):
        assert row["verdict"] in VERDICTS
        assert row["fraction"] is None or row["fraction"] > 0


@FEW
@given(st.floats(1e-3, 1e7), st.floats(1.0, 1e3))
def test_faster_is_never_more_credible(rate: float, factor: float) -> None:
    """What cannot be true at one rate cannot be true at a higher one, and the fraction is proportional."""

    def at(rate: float) -> dict[str, Any]:
        seconds = 128 / rate
        row = {**ROW, "avg_ts": rate, "avg_ns": seconds * 1e9, "samples_ns": [seconds * 1e9]}
        (found,) = judged([row])
        return found

    slow, fast = at(rate), at(rate * factor)
    assert fast["fraction"] / slow["fraction"] == factor or abs(fast["fraction"] / slow["fraction"] / factor - 1) < 1e-9
    if slow["verdict"] == "bogus":
        assert fast["verdict"] == "bogus"
    assert (slow["verdict"] == "bogus") == (rate > 1.05 * slow["limit_tokens_per_s"])


@FEW
@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(10.0, 400.0))
def test_a_higher_budget_is_never_easier(low: float, high: float, rate: float) -> None:
    """Passed, then undecided, then failed as the budget rises; bogus whatever it is."""
    order = {"passed": 0, "inconclusive": 1, "failed": 2}
    low, high = sorted((low, high))
    row = {**ROW, "avg_ts": rate, "avg_ns": 128e9 / rate, "samples_ns": [120e9 / rate, 136e9 / rate]}
    easy, hard = (judged([row], "--at-least", f"{share:.6f}")[0]["verdict"] for share in (low, high))
    assert easy == hard == "bogus" or order[easy] <= order[hard]


@FEW
@given(st.binary(max_size=64))
def test_documents_of_any_bytes(content: bytes) -> None:
    """The text of a file, or a complaint that names it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x")
        path.write_bytes(content)
        try:
            said = read_document(str(path)).file
        except RooflineUsageError as error:
            said = str(error)
        assert str(path) in said
