"""Devices that count their own memory traffic: what only such a counter sees, and honest passes beside one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corpus.recipe import bogus, honest, undecidable
from corpus.scene import Scene
from pytest_roofline.backends.fake import FakeModel, MemoryCounter, Neighbour
from pytest_roofline.verdict import Verdict

WHOLE_PERCENTS = MemoryCounter(step_percent=1.0)


def _later(scene: Scene, other: Callable[[], Any]) -> Callable[[], Any]:
    """A step that does its work when it is looked at, and something else from then on."""
    calls: list[int] = []

    def step() -> Any:
        calls.append(1)
        return scene.model.step() if len(calls) == 1 else other()

    return step


@bogus("HW1", "work-missing", counter=WHOLE_PERCENTS)
def nothing_read(scene: Scene) -> Verdict | None:
    """Passes after the first read nothing, and take as long as if they did."""
    pass_s = scene.weight_bytes / (scene.efficiency * scene.rate)
    step = _later(scene, lambda: scene.backend.launch(seconds=pass_s))
    scene.decode(step, reset=lambda: None)
    return None


@undecidable("HW2", "cache-resident", counter=WHOLE_PERCENTS)
def half_read(scene: Scene) -> Verdict | None:
    """Passes after the first skip two thirds of the weights, and take as long as if they did not."""
    part = FakeModel(scene.backend, scene.weight_bytes / 3, efficiency=scene.efficiency / 3)
    scene.decode(_later(scene, part.step), reset=part.reset)
    return None


@undecidable("HW3", "bytes-disagree", counter=WHOLE_PERCENTS)
def tripled(scene: Scene) -> Verdict | None:
    """Three times the bytes declared for a pass that no trace can see and that is slow enough for it."""
    part = FakeModel(scene.backend, scene.weight_bytes / 3, efficiency=scene.efficiency / 3, is_opaque=True)
    scene.decode(part.step, traffic=scene.weight_bytes, reset=part.reset)
    return None


@honest("HW4", counter=WHOLE_PERCENTS)
def confirmed(scene: Scene) -> Verdict | None:
    """A decode that the counter confirms, in whole percents."""
    scene.decode()
    return None


@honest("HW5", "too-few-samples", counter=MemoryCounter(), neighbours=[Neighbour(start_s=3.0, end_s=1e9, share=0.2)])
def beside_a_neighbour(scene: Scene) -> Verdict | None:
    """A neighbour that adds a fifth of the bandwidth to what is counted, from some moment on."""
    scene.decode()
    return None


@honest("HW6", counter=MemoryCounter(lost_at_s=3.5))
def lost(scene: Scene) -> Verdict | None:
    """Permission that is lost while the session runs."""
    scene.decode()
    scene.decode()
    return None


@honest("HW7", counter=MemoryCounter(scale=0.3))
def wrong(scene: Scene) -> Verdict | None:
    """A counter that sees three bytes in ten: it does not hold on copies, and is not asked."""
    scene.decode()
    return None


@honest("HW8", counter=WHOLE_PERCENTS, cache_policy="best")
def audited(scene: Scene) -> Verdict | None:
    """An audit with a warm-up and a check around its window, on a device that counts."""
    with scene.audit() as audit:
        scene.timed(3)
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)
        scene.timed(2)
    return None
