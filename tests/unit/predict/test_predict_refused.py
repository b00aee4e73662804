"""``roofline predict``: what is refused, in one line."""

from __future__ import annotations

from typing import Any

import pytest
from predict_inputs import RULE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("llama-3.1-8b",), "which device? give --device NAME, or its figures: --bandwidth 3.35TB/s [--peak ...]"),
        (("--device", "h100-sxm"), "which MODEL? a spec's name, a file, or --params 70B"),
        (("llama-3.1-8b", *RULE), "MODEL 'llama-3.1-8b' or --params 8B, not both"),
        (
            ("llama-3.1-8b", "--bandwidth", "1TB/s", "--active", "3B"),
            "--active goes with --params; MODEL has its own count",
        ),
        (
            ("llama-3.1-8b", "--bandwidth", "1TB/s", "--active", "1B"),
            "--active goes with --params; MODEL has its own count",
        ),
        ((*RULE, "--draft-tokens", "4"), "--draft-tokens goes with --draft MODEL"),
        ((*RULE, "--draft", "mtp"), "--draft mtp needs a MODEL: --params knows no layers"),
        ((*RULE, "--batch", "0"), "--batch: '0' is no whole number from 1, such as 1"),
        ((*RULE, "--batch", "2.5"), "--batch: '2.5' is no whole number from 1, such as 1"),
        ((*RULE, "--context", "-1"), "--context: '-1' is no whole number from 0, such as 1"),
        ((*RULE, "--prompt", "many"), "--prompt: 'many' is no whole number from 1, such as 1"),
        ((*RULE, "--context", "1.5K"), "--context: '1.5K' is no whole number from 0, such as 1"),
        ((*RULE, "--context", "128KB"), "--context: '128KB' is no whole number from 0, such as 1"),
        ((*RULE, "--context", "1G"), "--context: '1G' is no whole number from 0, such as 1"),
        (
            ("--params", "40B", "--active", "70B", "--bandwidth", "1TB/s"),
            "70B active parameters of 40B: more than there are",
        ),
        (
            ("--params", "8B", "--bandwidth", "3.35"),
            "--bandwidth: '3.35' is not a bandwidth: no unit; did you mean 3.35TB/s?",
        ),
        (
            ("--params", "70", "--bandwidth", "1TB/s"),
            "--params: '70' is not a number of parameters: no unit; did you mean 70B?",
        ),
        ((*RULE, "--tp", "0"), "--tp: '0' is no whole number from 1, such as 1"),
        ((*RULE, "--offload", "25%"), "--offload: '25%' is no share from 0 to 1, such as 0.25"),
        ((*RULE, "--offload", "nan"), "--offload: 'nan' is no share from 0 to 1, such as 0.25"),
        (
            ("--params", "8B", "--bandwidth", "-3TB/s"),
            "--bandwidth: '-3TB/s' is not a bandwidth; write a positive one such as 3.35TB/s, 273GB/s or 1e12",
        ),
        (
            (*RULE, "--memory", "80"),
            None,
        ),
        (
            (*RULE, "--words-per-token", "x"),
            "--words-per-token: 'x' is not a number; write a positive one such as 1, 2.5 or 1e3",
        ),
        (
            ("--params", "70GB", "--bandwidth", "1TB/s"),
            "--params: '70GB' is not a number of parameters; write a positive one such as "
            "70B, 8.03B, 350M, 1.5T or 7e9",
        ),
        (
            ("--params", "7B", "--active", "8B", "--bandwidth", "1TB/s"),
            "8B active parameters of 7B: more than there are",
        ),
    ],
)
def test_wrong_use_is_one_line(arguments: tuple[str, ...], message: str | None, refused: Any, said: Any) -> None:
    """With the option, what was given, and what is accepted; a plain number of bytes is one of those."""
    if message is None:
        assert "80 bytes" in said(*arguments)
    else:
        assert refused(*arguments) == message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("llama-3.1-8", "--bandwidth", "1TB/s"), ("no model is called 'llama-3.1-8'", "llama-3.1-8b")),
        (("llama-3.1-8b", "--device", "h100-sx"), ("no device is called 'h100-sx'", "h100-sxm")),
        (("llama-3.1-8b", "--device", "h100"), ("'h100' means several devices", "h100-pcie")),
        ((*RULE, "--weights", "itn4"), ("itn4", "int4")),
        ((*RULE, "--weights", "q4_k_x"), ("q4_k_x", "q4_k")),
        (
            ("llama-3.1-8b", "--bandwidth", "1TB/s", "--weights", "q5kx"),
            ("no format is called 'q5kx'; nearest: q5_k", "Of llama.cpp's file types, nearest: q5_k_s, q5_k_m"),
        ),
        (("8B", "--bandwidth", "1TB/s"), ("no model is called '8B'", "whatever the model: --params 8B")),
        ((*RULE, "--kv", "fp9"), ("fp9", "fp8")),
        ((*RULE, "--kv", "nf4"), ("format 'nf4' is for weights; no engine is known that keeps a KV cache in it",)),
        ((*RULE, "--kv", "int3"), ("'int3' is no format of a KV cache; there are fp8-tensor", "kivi-2bit")),
        (
            ("--params", "8B", "--device", "CPU"),
            ("--device CPU: no data sheet", "roofline probe", "--bandwidth 51.2GB"),
        ),
        (("--params", "8B", "--device", "cuda:0"), ("--device cuda:0: no data sheet", "no device is called 'cuda:0'")),
        ((*RULE, "--weights", "kivi-2bit"), ("format 'kivi-2bit' is for KV caches, not for weights",)),
        (("./nowhere", "--bandwidth", "1TB/s"), ("nowhere: no such file or folder",)),
        (("nowhere.gguf", "--bandwidth", "1TB/s"), ("nowhere.gguf: no such file or folder",)),
        (("llama-3.1-8b", "--bandwidth", "1TB/s", "--weights", "as stored"), ("does not say how tensors are stored",)),
        (("llama-3.1-8b", "--bandwidth", "1TB/s", "--draft", "mtp"), ("no multi-token-prediction layers are known",)),
        ((*RULE, "--bacth", "2"), ("unknown argument '--bacth'; did you mean --batch",)),
        (("phi-4", "l4"), ("unknown argument 'l4'; one MODEL is taken, and a device is named by --device 'l4'",)),
        ((*RULE, "--offload", "0.5"), ("give --spill-bandwidth, such as 64GB/s",)),
    ],
)
def test_unknown_names_come_with_the_nearest(arguments: tuple[str, ...], words: tuple[str, ...], refused: Any) -> None:
    """Of models, devices, formats and options."""
    message = refused(*arguments)
    assert all(word in message for word in words), message
