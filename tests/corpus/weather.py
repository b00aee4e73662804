"""Honest programs in bad weather: drift, bursts, tails, steps, heat, neighbours, and noise of a real machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from corpus.recipe import Recipe
from pytest_roofline.backends.fake import (
    Neighbour,
    Noise,
    Throttle,
    bursts,
    drift,
    gaussian,
    heavy_tail,
    step_change,
)

TRACES = Path(__file__).with_name("noise_traces.json")
DISTURBANCES = ("noise", "throttle", "neighbours")
WITH_BUDGET = frozenset(
    ("K11-static-graph", "K11-cache-in-place", "K11-donation", "K04-batch", "K04-emitted", "R28-right", "Y14", "Y18")
)
"""Programs that keep a budget of 40 % in any weather: the probes beside their blocks feel the same."""


def recorded(factors: list[float], offset: int, period_s: float) -> Noise:
    """Noise of a real machine: the durations of equal work over time, relative to the fastest of them."""

    def factor(start_s: float, _random: Random) -> float:
        return factors[(offset + int(start_s / period_s)) % len(factors)]

    return factor


def traces() -> list[list[float]]:
    """What was recorded."""
    return [list(trace["factors"]) for trace in json.loads(TRACES.read_text(encoding="utf-8"))["traces"]]


def _windows(random: Random, make: Callable[[float, float], Any]) -> list[Any]:
    found, at_s = [], random.uniform(0, 0.5)
    while at_s < 60:
        end_s = at_s + random.uniform(0.02, 2.0)
        found.append(make(at_s, end_s))
        at_s = end_s + random.uniform(0.02, 2.0)
    return found


def weather(random: Random) -> tuple[str, dict[str, Any]]:
    """A kind of weather, and the figures of a device that stands in it."""
    kinds: dict[str, Callable[[], dict[str, Any]]] = {
        "drift by two": lambda: {"noise": [gaussian(0.01), drift(random.uniform(2, 60), 2.0)]},
        "bursts": lambda: {
            "noise": [gaussian(0.01), bursts(random.uniform(0.05, 1), random.uniform(0.005, 0.04), 3.0)]
        },
        "heavy tail": lambda: {"noise": [gaussian(0.01), heavy_tail(random.uniform(0.002, 0.05))]},
        "step change": lambda: {"noise": [gaussian(0.01), step_change(random.uniform(0.2, 4.0))]},
        "throttled": lambda: {
            "throttle": _windows(
                random,
                lambda start, end: Throttle(
                    start_s=start, end_s=end, slowdown=random.uniform(1.1, 3), is_visible=random.random() < 0.5
                ),
            )
        },
        "neighbours": lambda: {
            "neighbours": _windows(
                random,
                lambda start, end: Neighbour(
                    start_s=start, end_s=end, share=random.uniform(0.1, 0.7), is_visible=random.random() < 0.5
                ),
            )
        },
        "jitter": lambda: {"noise": gaussian(random.uniform(0.01, 0.05))},
        "recorded": lambda: {
            "noise": recorded(random.choice(traces()), random.randrange(10_000), random.choice((1e-3, 5e-3, 20e-3)))
        },
    }
    name = random.choice(sorted(kinds))
    return name, kinds[name]()


def in_weather(recipe: Recipe, seed: int) -> tuple[str, Recipe]:
    """The recipe in weather drawn from the seed; only programs that the probes follow keep a budget."""
    name, figures = weather(Random(f"weather/{recipe.id}/{seed}"))
    budget = 0.4 if recipe.id in WITH_BUDGET else None
    return name, replace(recipe, figures={**recipe.figures, **figures}, at_least=budget)


def is_weatherproof(recipe: Recipe) -> bool:
    """Whether it is an honest program that brings no disturbance of its own."""
    return recipe.kind == "honest" and not any(name in recipe.figures for name in DISTURBANCES)
