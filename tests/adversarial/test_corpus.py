"""Every recipe of the corpus ends as it must: cheats bogus by the right check, honest programs never accused."""

from __future__ import annotations

from collections import Counter

import pytest
from corpus import RECIPES, SIZES, Recipe, Size, is_accused

from pytest_roofline.checks.evidence import CHECK_NAMES

SEEDS = (0,)
"""One is enough to keep them all as they are; benchmarks/court.py runs ten."""
OPEN: dict[str, str] = {}
"""Recipes that do not end as they must yet, and why."""


def _parameters() -> list[object]:
    return [
        pytest.param(recipe, marks=[pytest.mark.xfail(reason=OPEN[recipe.id], strict=True)], id=recipe.id)
        if recipe.id in OPEN
        else pytest.param(recipe, id=recipe.id)
        for recipe in RECIPES
    ]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("recipe", _parameters())
def test_a_recipe_ends_as_it_must(recipe: Recipe, size: Size) -> None:
    """Its outcome and the check behind it, for every seed."""
    endings = [recipe.build(seed, size)() for seed in SEEDS]
    missed = [ending for ending in endings if not recipe.is_met_by(ending)]
    assert not missed, f"{recipe.title}: {missed[0].outcome} by {missed[0].checks}\n{missed[0].message}"


def test_every_open_recipe_is_in_the_corpus() -> None:
    """What is open is named by its id, and exists."""
    assert set(OPEN) <= {recipe.id for recipe in RECIPES}


def test_the_corpus_is_well_formed() -> None:
    """Ids are unique, titles are there, checks exist, and every cheat names the check that must catch it."""
    twice = [id_ for id_, count in Counter(recipe.id for recipe in RECIPES).items() if count > 1]
    assert not twice
    for recipe in RECIPES:
        assert recipe.title, recipe.id
        assert set(recipe.checks) <= set(CHECK_NAMES), recipe.id
        assert recipe.checks or recipe.kind != "bogus", recipe.id


def test_the_corpus_holds_both_sides() -> None:
    """A corpus of cheats alone is passed by whoever accuses everybody."""
    kinds = Counter(recipe.kind for recipe in RECIPES)
    assert kinds["bogus"] >= 100
    assert kinds["honest"] >= 100
    assert kinds["undecidable"] >= 10


def test_a_recipe_repeats_itself() -> None:
    """The same seed gives the same ending, figures and words included."""
    recipe = next(recipe for recipe in RECIPES if recipe.id == "R01-below-the-queue")
    first, second = (recipe.build(7, "small")() for _ in range(2))
    assert first == second
    assert first.outcome == "bogus"
    assert first.message.startswith("the clock stopped at ")
    assert is_accused(first)
    assert recipe.build(8, "small")().message != first.message


def test_a_court_without_checks_misses_the_cheats() -> None:
    """The corpus can fail: without the checks nothing is caught."""
    recipe = next(recipe for recipe in RECIPES if recipe.id == "R09")
    ending = recipe.build(0, "small", checks=())()
    assert ending.outcome == "passed"
    assert not recipe.is_met_by(ending)
