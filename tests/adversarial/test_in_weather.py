"""Honest programs in weather that once had them accused: each was one run of a thousand, and stays."""

from __future__ import annotations

import pytest
from corpus import RECIPES
from corpus.recipe import is_accused
from corpus.weather import in_weather

BY_ID = {recipe.id: recipe for recipe in RECIPES}


@pytest.mark.parametrize(
    ("id_", "seed", "size"),
    [
        # The sheet knows less than the true peak, and the product was measured beside a neighbour.
        ("K09", 42, "small"),
    ],
)
def test_nobody_is_accused(id_: str, seed: int, size: str) -> None:
    """Whatever the weather makes of the figures, no honest program is bogus, and none fails."""
    _, recipe = in_weather(BY_ID[id_], seed)
    ending = recipe.build(seed, size)()  # type: ignore[arg-type]
    assert not is_accused(ending), ending
