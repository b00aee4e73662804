"""The rule by which benchmarks/cost.py calls something dearer than it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The program, as a module."""
    monkeypatch.syspath_prepend(FOLDER)
    import cost

    yield cost
    for name in ("cost", "cost_runs"):
        sys.modules.pop(name, None)


def ratio(median: float, low: float | None = None) -> dict[str, float]:
    """A ratio whose interval begins at its median unless said otherwise."""
    return {"median": median, "low": median if low is None else low, "high": median}


def test_twenty_percent_are_too_much(cost: ModuleType) -> None:
    """Over the committed ratio by 20 %, with the figure; noise whose interval holds the old one is none."""
    committed = {"load": ratio(0.1), "a call": ratio(2.0)}
    assert cost.regressions({"load": ratio(0.119), "a call": ratio(1.0)}, committed) == []
    assert cost.regressions({"load": ratio(0.13), "a call": ratio(2.0)}, committed) == [
        "load: 0.13, 0.1 is committed (+30%)"
    ]
    assert cost.regressions({"load": ratio(0.13, low=0.09), "a call": ratio(2.0)}, committed) == []


def test_what_was_not_measured_is_no_pass(cost: ModuleType) -> None:
    """A tool that is missing beside us would leave its ratio out unseen."""
    assert cost.regressions({}, {"load": ratio(0.1)}) == ["load: not measured now; install what it is compared with"]
