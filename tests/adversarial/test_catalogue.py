"""Every known fault and every honest look-alike is shown by a program, or declared out of reach with a reason."""

from __future__ import annotations

import pytest
from corpus import RECIPES
from corpus.catalogue import ALSO, FAULTS, LOOK_ALIKES, OUT_OF_REACH, UNDECIDED, number_of, programs_of


@pytest.mark.parametrize("number", FAULTS)
def test_a_fault_has_a_cheat_or_a_reason_why_not(number: str) -> None:
    """Each is shown by a program; where none of them is a cheat, the catalogue says why nobody is convicted by it."""
    programs = programs_of(number, RECIPES)
    assert programs, FAULTS[number]
    is_caught = any(recipe.kind == "bogus" for recipe in programs)
    assert is_caught or UNDECIDED.get(number), FAULTS[number]


@pytest.mark.parametrize("number", LOOK_ALIKES)
def test_a_look_alike_has_an_honest_program(number: str) -> None:
    """And it is one that must not be accused."""
    assert [recipe.id for recipe in programs_of(number, RECIPES) if recipe.kind == "honest"], LOOK_ALIKES[number]


def test_every_numbered_program_is_in_the_catalogue() -> None:
    """A number that nobody explains would count for nothing."""
    numbers = {number_of(recipe.id) for recipe in RECIPES if recipe.id[0] in "RK"}
    assert numbers <= set(FAULTS) | set(LOOK_ALIKES)


def test_what_the_catalogue_names_exists() -> None:
    """Reasons are for faults that it lists, programs are of the corpus, and a reason is no excuse for a cheat."""
    ids = {recipe.id for recipe in RECIPES}
    assert {id_ for programs in ALSO.values() for id_ in programs} <= ids
    assert set(ALSO) <= set(FAULTS) | set(LOOK_ALIKES)
    assert set(UNDECIDED) <= set(FAULTS)
    caught = {number for number in FAULTS if any(one.kind == "bogus" for one in programs_of(number, RECIPES))}
    assert not caught & set(UNDECIDED)
    assert all(len(reason) > 20 for reason in (*UNDECIDED.values(), *OUT_OF_REACH.values()))
