"""The corpus: every known way to fool a benchmark, and honest programs that look like it, as programs on the fake.

Each recipe is one small program with the ending that it must have. The tests run each at two sizes with three
seeds; ``benchmarks/court.py`` runs all of them more often and counts.
"""

from __future__ import annotations

from types import ModuleType

from corpus import (
    amounts,
    clocks,
    counted,
    events,
    further_cheats,
    further_honest,
    honest_counting,
    honest_machines,
    honest_timing,
    identities,
    memory,
    novel_cheats,
    novel_honest,
    ranks,
    tokens,
    waiting,
    work,
)
from corpus.recipe import Ending, Kind, Recipe, is_accused
from corpus.scene import SIZES, Scene, Size

__all__ = ["Ending", "Kind", "RECIPES", "Recipe", "SIZES", "Scene", "Size", "is_accused"]


def _recipes_in(module: ModuleType) -> list[Recipe]:
    found: list[Recipe] = []
    for value in vars(module).values():
        if isinstance(value, Recipe):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(item for item in value if isinstance(item, Recipe))
    return found


RECIPES: tuple[Recipe, ...] = tuple(
    recipe
    for module in (
        waiting,
        events,
        clocks,
        counted,
        amounts,
        memory,
        identities,
        tokens,
        work,
        ranks,
        novel_cheats,
        further_cheats,
        honest_timing,
        honest_counting,
        honest_machines,
        novel_honest,
        further_honest,
    )
    for recipe in _recipes_in(module)
)
"""All of them; ids are unique."""
