"""Whatever is typed, the answer is a figure or one error of ours."""

from __future__ import annotations

import contextlib
import io
import json
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import steady

from pytest_roofline.cli import main
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.units import (
    format_bytes,
    format_bytes_per_s,
    format_flops_per_s,
    parse_bytes,
    parse_bytes_per_s,
    parse_count,
    parse_flops_per_s,
    parse_number,
    parse_seconds,
)

few = settings(steady, max_examples=40)
PARSERS = (parse_bytes, parse_bytes_per_s, parse_count, parse_flops_per_s, parse_number, parse_seconds)
scribbles = st.text(max_size=80) | st.from_regex(
    r"[-+]?[0-9._]{1,5}(e[-+]?[0-9]{1,3})? ?[A-Za-z/]{0,7}", fullmatch=True
)
OPTIONS = ("params", "bandwidth", "peak", "memory", "batch", "context", "prompt", "tp", "offload", "tokens-per-pass")


@few
@given(text=scribbles)
def test_a_parser_answers_with_a_figure_or_our_error(text: str) -> None:
    """Positive and finite, or none."""
    for parse in PARSERS:
        value: float | None = None
        with contextlib.suppress(RooflineUsageError):
            value = parse(text)
        assert value is None or (math.isfinite(value) and value > 0)


@few
@given(value=st.floats(min_value=1e3, max_value=9e17))
def test_what_is_printed_can_be_typed(value: float) -> None:
    """To its three digits."""
    assert parse_bytes(format_bytes(value)) == pytest.approx(value, rel=0.0051)
    assert parse_bytes_per_s(format_bytes_per_s(value)) == pytest.approx(value, rel=0.0051)
    assert parse_flops_per_s(format_flops_per_s(value)) == pytest.approx(value, rel=0.0051)


@few
@given(option=st.sampled_from(OPTIONS), text=scribbles)
@example(option="params", text="1e300")
@example(option="bandwidth", text="1e-300")
@example(option="memory", text="1e308")
@example(option="tokens-per-pass", text="1e300")
@example(option="tp", text="999999999999999")
@example(option="context", text="999999999999999")
def test_the_command_never_breaks(option: str, text: str) -> None:
    """A prediction in JSON, or status 2 with a word on stderr: never a traceback, never a NaN."""
    arguments = {"params": "8B", "bandwidth": "1TB/s", "peak": "100TFLOP/s", "memory": "80GB", option: text}
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(["predict", *(f"--{name}={value}" for name, value in arguments.items()), "--json"])
        except SystemExit as ended:
            status = int(ended.code or 0)
    if status == 0:
        assert json.loads(out.getvalue())["ceiling_tokens_per_s"] > 0
    else:
        assert (status, out.getvalue()) == (2, "")
        assert err.getvalue().startswith("roofline predict: ")


@few
@given(name=st.text(max_size=300))
@example(name="a\0b")
@example(name="x" * 5000)
@example(name="~nobody-of-that-name/model")
@example(name="./" + "y" * 5000)
def test_a_name_is_known_or_refused(name: str) -> None:
    """Whatever it holds; a name is looked up, not opened."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setenv("HF_HUB_OFFLINE", "1")
        try:
            status = main(["predict", "--bandwidth=1TB/s", "--", name])
        except SystemExit as ended:
            status = int(ended.code or 0)
    assert status == 2
    assert err.getvalue()
