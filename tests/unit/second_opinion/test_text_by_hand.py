"""A second opinion on what is printed: a pocket calculator comes to the same."""

from __future__ import annotations

import math
import re

import pytest
from by_hand import Command, Text, amount

# -- the text -------------------------------------------------------------------------------------------------------

TEXT_CASES = [
    "llama-3.1-8b --device h100-sxm",
    "llama-3.1-70b --device h200 --weights fp8 --batch 32 --context 4096",
    "gpt-oss-120b --device dgx-spark --context 8000",
    "qwen3-30b-a3b --device 'RTX 4090' --weights q4_k_m --context 12345",
    "--params 70B --weights int4 --bandwidth 3.35TB/s --context 2000 --kv-per-token 320KiB",
    "llama-3.1-70b --device h100-sxm --tp 4 --batch 8 --tokens-per-pass 2.5",
    "--params 70B --bandwidth 3.35TB/s --peak 989TFLOP/s --batch 1000",
    "deepseek-v3-r1 --device h200 --tp 8 --batch 128 --context 4096 --weights fp8-block",
    "smollm2-135m --device 'Apple M4' --words-per-token 0.75",
]


@pytest.mark.parametrize("arguments", TEXT_CASES)
def test_the_division_as_printed(arguments: str, predicted: Command, printed: Text) -> None:
    """Whoever takes the printed figures to a pocket calculator gets the printed result, and the JSON's."""
    found, text = predicted(arguments), printed(arguments)
    device = " per device" if "--tp" in arguments else ""
    division = re.search(
        r"([\d.,]+ [kMGTP]?(?:B/s|FLOP/s)) / ([\d.,]+ [kMGTP]?(?:B|FLOP))((?: x [\d.,]+ [a-z ]+?)*) = ([\d.,]+) tok/s",
        text,
    )
    assert division is not None, text
    result = amount(division[1]) / amount(division[2])
    for factor in re.findall(r" x ([\d.,]+)", division[3]):
        result *= float(factor.replace(",", ""))
    shown = float(division[4].replace(",", ""))
    assert result == pytest.approx(found["ceiling_tokens_per_s"], rel=2e-3)
    # A printed rate has three digits or all that are left of the point.
    assert shown == pytest.approx(found["ceiling_tokens_per_s"], rel=5e-3)
    expected = re.search(r"expected ([\d.,]+) to ([\d.,]+) tok/s \(60 to 85 % of the ceiling: what", text)
    assert expected is not None
    assert [float(part.replace(",", "")) for part in expected.groups()] == pytest.approx(
        found["expected_tokens_per_s"], rel=1e-2
    )
    weights = re.search(rf"weights ([\d.]+ [kMGT]?B) per pass{device}, ([\d.]+ [kMGT]?B) stored", text)
    assert weights is not None
    assert amount(weights[1]) == pytest.approx(found["weight_bytes_per_pass"], rel=5e-3)
    assert amount(weights[2]) == pytest.approx(found["weight_bytes_total"], rel=5e-3)
    together = re.search(rf"per pass ([\d.]+ [kMGT]?B){device}: weights \+ KV cache", text)
    assert together is not None
    assert amount(together[1]) == pytest.approx(found["bytes_per_pass"], rel=5e-3)
    needed = re.search(rf"memory ([\d.]+ [kMGT]?B) needed{device}", text)
    assert needed is not None
    assert amount(needed[1]) == pytest.approx(found["memory_needed_bytes"], rel=5e-3)
    compute = re.search(rf"compute ([\d.]+ [kMGTP]?FLOP) per pass{device}, ([\d.,]+) FLOP/byte", text)
    assert compute is not None
    assert amount(compute[1]) == pytest.approx(found["flops_per_pass"], rel=5e-3)
    assert float(compute[2].replace(",", "")) == pytest.approx(found["arithmetic_intensity"], rel=5e-3)
    assert math.isclose(found["arithmetic_intensity"], found["flops_per_pass"] / found["bytes_per_pass"])
