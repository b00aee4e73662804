"""What a measurement may be told."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_roofline.checks.evidence import CHECK_NAMES
from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.settings import Budget, Settings, matches, parse_allow, parse_budget

H200 = Device(name="NVIDIA H200 NVL", kind="cuda", index=1, backend="torch", vendor="NVIDIA")
CPU = Device(name="AMD EPYC 9B45", kind="cpu", backend="cpu", vendor="AuthenticAMD")


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("H200*", True),
        ("h200 nvl", True),
        ("NVIDIA H200*", True),
        ("cuda:1", True),
        ("CUDA", True),
        ("*", True),
        ("cuda:0", False),
        ("H200", False),
        ("H100*", False),
        ("cpu", False),
    ],
)
def test_patterns_fit_id_kind_or_name(pattern: str, fits: bool) -> None:
    """A name fits whole, with or without its vendor; case is ignored."""
    assert matches(pattern, H200) is fits


def test_a_device_without_vendor_is_matched_by_its_name() -> None:
    """Nothing is cut off where no vendor is known."""
    assert matches("Apple M4*", Device(name="Apple M4 Max", kind="mps", backend="torch"))


def test_the_longest_pattern_wins() -> None:
    """The more exact entry speaks for the device; none that fits means no budget."""
    budget = parse_budget({"*": 0.1, "H200*": 0.7, "cuda": 0.5}, "at_least")
    assert budget is not None
    assert budget.for_device(H200) == 0.7
    assert budget.for_device(CPU) == 0.1
    assert Budget(by_pattern=(("cpu", 0.3),)).for_device(H200) is None


@pytest.mark.parametrize(
    ("value", "judged"),
    [(0.6, False), ({"H200*": 0.6}, False), ({"*": 0.6}, False), ({"cpu": 0.3}, True), ({"amd epyc*": 0.3}, True)],
)
def test_a_cpu_is_judged_only_where_it_is_named(value: Any, judged: bool) -> None:
    """A plain figure was written with an accelerator in mind."""
    budget = parse_budget(value, "at_least")
    assert budget is not None
    assert budget.judges(CPU) is judged
    assert budget.judges(H200)


@pytest.mark.parametrize("figure", [0, -0.1, 1.0001, math.nan, math.inf, True, "0.6", None, [0.6]])
def test_a_budget_is_a_fraction(figure: Any) -> None:
    """Above 0 and up to 1; anything else is refused, with the place named."""
    with pytest.raises(RooflineUsageError, match=r"marker: .* is no fraction of the ceiling"):
        parse_budget({"cpu": figure}, "marker")


def test_plain_budgets() -> None:
    """None is no budget, a number is one for every device, 1 is allowed."""
    assert parse_budget(None, "ini") is None
    assert parse_budget(0.6, "ini") == Budget(by_pattern=(("*", 0.6),))
    assert parse_budget(1, "ini") == Budget(by_pattern=(("*", 1.0),))


@pytest.mark.parametrize("value", [{}, {"": 0.6}, {7: 0.6}])
def test_budgets_by_device_need_device_patterns(value: Any) -> None:
    """An empty mapping budgets nothing, and a pattern is a text."""
    with pytest.raises(RooflineUsageError, match="ini: "):
        parse_budget(value, "ini")


@pytest.mark.parametrize("value", ["drifted", ("drifted",), ["drifted"], {"drifted"}, frozenset({"drifted"})])
def test_allow_takes_a_name_or_several(value: Any) -> None:
    """Each way of writing it ends as the same set."""
    assert parse_allow(value, "marker") == {"drifted"}


def test_allow_knows_every_check() -> None:
    """All names may be given together, and none at all."""
    assert parse_allow(CHECK_NAMES, "marker") == set(CHECK_NAMES)
    assert parse_allow((), "marker") == frozenset()


@pytest.mark.parametrize("value", [None, 7, {"drifted": True}])
def test_allow_refuses_other_types(value: Any) -> None:
    """It is a tuple of names."""
    with pytest.raises(RooflineUsageError, match=r"marker: allow is .*; give a tuple of names of checks"):
        parse_allow(value, "marker")


def test_an_unknown_check_is_refused_with_the_known_ones() -> None:
    """The message lists what may be given."""
    with pytest.raises(
        RooflineUsageError, match=r"marker: no check is named cache, nothing; known: not-drained, .*rank-window"
    ):
        parse_allow(("nothing", "drifted", "cache"), "marker")


def test_defaults() -> None:
    """Auto mode, 10 s, undecided tests skip, nothing is allowed."""
    settings = Settings()
    assert (settings.mode, settings.max_time_s, settings.inconclusive) == ("auto", 10.0, "skip")
    assert settings.allow == frozenset()
    assert settings.at_least is settings.at_most is settings.device is None
