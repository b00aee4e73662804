"""What one pass moves."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.traffic import DECLARED, Traffic, declared_traffic

CHECKED = (
    "bytes_per_pass",
    "least_bytes_per_pass",
    "written_bytes_per_pass",
    "extra_bytes_per_pass",
    "flops_per_pass",
    "least_flops_per_pass",
    "weight_bytes_per_pass",
    "kv_bytes_per_pass",
    "kv_bytes_per_token",
    "working_set_bytes",
)


def make(**figures: Any) -> Traffic:
    """A traffic of 100 bytes, changed."""
    return Traffic(**{"bytes_per_pass": 100.0, "least_bytes_per_pass": 80.0, **figures})


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, -math.inf])
def test_impossible_amounts_are_refused_by_name(name: str, value: float) -> None:
    """Negative, NaN and infinite amounts are wrong use, and the message says which one."""
    with pytest.raises(RooflineUsageError, match=f"traffic: {name} is {value}"):
        make(**{name: value})


def test_a_pass_needs_bytes_or_arithmetic() -> None:
    """Zero bytes bound nothing, unless the pass has FLOPs."""
    with pytest.raises(RooflineUsageError, match="0 bytes per pass: a ceiling needs a positive number"):
        make(bytes_per_pass=0.0)
    assert make(bytes_per_pass=0.0, flops_per_pass=1e9).arithmetic_intensity is None


def test_what_is_not_known_follows_from_the_bytes() -> None:
    """The working set defaults to the bytes, and intensity needs both figures."""
    assert make().footprint_bytes == 100.0
    assert make(working_set_bytes=40.0).footprint_bytes == 40.0
    assert make().arithmetic_intensity is None
    assert make(flops_per_pass=250.0).arithmetic_intensity == 2.5


@pytest.mark.parametrize(("written", "share"), [(0.0, 0.0), (25.0, 0.25), (100.0, 1.0), (150.0, 1.0)])
def test_written_share_lies_between_none_and_all(written: float, share: float) -> None:
    """The share of the traffic that is written never exceeds one."""
    assert make(written_bytes_per_pass=written).written_share == share


def test_written_share_of_no_bytes_is_none() -> None:
    """Pure arithmetic writes nothing."""
    assert make(bytes_per_pass=0.0, flops_per_pass=1.0).written_share == 0.0


def test_at_context_grows_the_cache_of_every_sequence() -> None:
    """Bytes, least bytes, KV bytes and working set grow by KV per token x batch; weights and writes do not."""
    before = make(
        kv_bytes_per_pass=20.0,
        kv_bytes_per_token=2.0,
        context=10,
        batch=3,
        working_set_bytes=90.0,
        weight_bytes_per_pass=70.0,
        written_bytes_per_pass=6.0,
    )
    after = before.at_context(15)
    assert (after.bytes_per_pass, after.least_bytes_per_pass) == (130.0, 110.0)
    assert (after.kv_bytes_per_pass, after.working_set_bytes) == (50.0, 120.0)
    assert (after.weight_bytes_per_pass, after.written_bytes_per_pass) == (70.0, 6.0)
    assert after.context == 15
    assert after.at_context(10) == before


def test_at_context_without_knowledge_changes_nothing() -> None:
    """No KV per token, no context or the same context: the very same traffic."""
    for known in (make(context=3), make(kv_bytes_per_token=2.0), make(kv_bytes_per_token=2.0, context=7)):
        assert known.at_context(7) is known


def test_at_context_keeps_an_unknown_working_set_unknown() -> None:
    """It follows the bytes by itself."""
    grown = make(kv_bytes_per_token=1.0, context=0).at_context(5)
    assert grown.working_set_bytes is None
    assert grown.footprint_bytes == 105.0


def test_to_dict_is_json() -> None:
    """Builtin types, the extra parts as lists."""
    record = make(extra=(("KV cache copied each step", 5.0),), notes=("a note",)).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["extra"] == [["KV cache copied each step", 5.0]]
    assert record["working_set_bytes"] == 100.0


def test_declared_traffic_adds_reads_and_writes() -> None:
    """A declaration is taken whole: all of it is compulsory, none of it is traced."""
    traffic = declared_traffic(60, 40, flops=10, dtype="float32", batch=2, context=5)
    assert (traffic.bytes_per_pass, traffic.least_bytes_per_pass) == (100.0, 100.0)
    assert traffic.written_share == 0.4
    assert (traffic.flops_per_pass, traffic.dtype, traffic.batch, traffic.context) == (10.0, "float32", 2, 5)
    assert traffic.source == DECLARED
    assert not traffic.is_closed
    assert declared_traffic(1, flops=0).flops_per_pass is None


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "100", None])
@pytest.mark.parametrize("name", ["bytes_read", "bytes_written"])
def test_declared_nonsense_is_refused(name: str, value: Any) -> None:
    """Only finite numbers from zero on are bytes; a flag or a text is not."""
    with pytest.raises(RooflineUsageError, match=f"{name} is .*; it must be a finite number of bytes per pass"):
        declared_traffic(**{"bytes_read": 1, "bytes_written": 1, name: value})


@pytest.mark.parametrize("flops", [math.nan, -1.0])
def test_declared_nonsense_flops_are_refused(flops: float) -> None:
    """FLOPs too."""
    with pytest.raises(RooflineUsageError, match="flops_per_pass"):
        declared_traffic(1, flops=flops)


def test_declaring_nothing_is_refused() -> None:
    """Zero read and zero written is no pass."""
    with pytest.raises(RooflineUsageError, match="0 bytes per pass"):
        declared_traffic(0, 0)
