"""Bytes counted from a module's parameters, for want of a step."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_roofline.backends.torch import TorchBackend  # noqa: E402
from pytest_roofline.errors import RooflineUsageError  # noqa: E402


class Small(torch.nn.Module):
    """An embedding, a layer and a head, which may be tied."""

    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(100, 8)
        self.layer = torch.nn.Linear(8, 8, bias=False)
        self.head = torch.nn.Linear(8, 100, bias=False)
        if tied:
            self.head.weight = self.table.weight


def count(model: Any, **keywords: Any) -> Any:
    """Count through the backend."""
    return TorchBackend().count_model(model, **keywords)


@pytest.mark.parametrize(
    ("tied", "batch", "elements"), [(False, None, 8 + 64 + 800), (False, 3, 24 + 64 + 800), (True, 3, 64 + 800)]
)
def test_a_table_is_rows_and_a_tied_one_is_read_once(tied: bool, batch: int | None, elements: int) -> None:
    """One row per sequence of a lookup; the whole table where it is the output projection too."""
    traffic = count(Small(tied=tied).bfloat16(), batch=batch)
    assert traffic.bytes_per_pass == traffic.least_bytes_per_pass == elements * 2
    assert (traffic.dtype, traffic.source, traffic.is_closed) == ("bfloat16", "counted", False)
    assert len(traffic.notes) == 1


def test_experts_and_buffers_are_not_among_the_least_bytes() -> None:
    """A pass need not read all of them, so they accuse nobody."""
    model = torch.nn.Module()
    model.dense = torch.nn.Linear(4, 4, bias=False)
    model.experts = torch.nn.Linear(4, 8, bias=False)
    model.register_buffer("packed", torch.zeros(4, 4, dtype=torch.int8))
    model.register_buffer("scale", torch.zeros(4))
    traffic = count(model)
    assert traffic.bytes_per_pass == 64 + 128 + 16
    assert traffic.least_bytes_per_pass == 64
    assert "leave them out" in traffic.notes[1]


@pytest.mark.parametrize("model", [torch.ones(3), torch.nn.ReLU(), torch.nn.Linear(2, 2, device="meta")])
def test_what_has_no_parameters_in_memory_is_wrong_use(model: Any) -> None:
    """A tensor, a module without weights, and one that was never loaded."""
    with pytest.raises(RooflineUsageError, match="count"):
        count(model)


def test_lazy_parameters_hold_nothing_yet() -> None:
    """They have no size; the rest is counted."""
    model = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.Linear(4, 4, bias=False))
    assert count(model).bytes_per_pass == 64
