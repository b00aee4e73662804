"""Honest programs whose timing looks wrong: queues, look-ahead, synchronous devices, compilation, order."""

from __future__ import annotations

import time
from typing import Any

from corpus.recipe import Program, honest, undecidable
from corpus.scene import Scene


@honest("K17")
def synchronous_backend(scene: Scene) -> None:
    """Every pass is finished before its call returns; there is nothing to drain."""
    with scene.audit() as audit:
        start = time.perf_counter()
        scene.loop(step=lambda: scene.step().block_until_ready())
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("K17-decode", queue_depth=1, model={"layers": 1})
def queue_of_one(scene: Scene) -> None:
    """A device that takes one launch at a time."""
    scene.decode()


@honest("K18", queue_depth=8)
def queue_that_is_full(scene: Scene) -> None:
    """No wait inside the loop: the queue keeps it at the device's pace, and the drain at the end is charged."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@honest("K18-two-in-flight", queue_depth=2, model={"layers": 1})
def full_queue_of_two(scene: Scene) -> None:
    """A queue of two passes, and no wait at the end of a loop of many."""
    with scene.audit() as audit:
        start = time.perf_counter()
        scene.loop(200)
        audit.claim(tokens=200, seconds=time.perf_counter() - start)


def _look_ahead(scene: Scene, steps: int) -> None:
    flying: list[Any] = []
    with scene.audit() as audit:
        start = time.perf_counter()
        for _ in range(scene.passes):
            flying.append(scene.step())
            if len(flying) > steps:
                flying.pop(0).block_until_ready()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("K19-one")
def look_ahead_of_one(scene: Scene) -> None:
    """The engine launches the next step while this one runs; one is in flight at the stop."""
    _look_ahead(scene, 1)


@honest("K19-two", queue_depth=4096)
def look_ahead_of_almost_two(scene: Scene) -> None:
    """Two steps in flight, the first of them nearly done."""
    flying: list[Any] = []
    with scene.audit() as audit:
        start = time.perf_counter()
        for _ in range(scene.passes):
            flying.append(scene.step())
            if len(flying) > 2:
                flying.pop(0).block_until_ready()
                scene.backend.host(0.1 * scene.weight_bytes / scene.rate)
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("K22")
def wait_in_every_step(scene: Scene) -> None:
    """A wait in every step costs a little, and is honest."""
    with scene.audit() as audit:
        start = time.perf_counter()
        for _ in range(scene.passes):
            scene.step()
            scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("K22-samples")
def samples_that_are_drained(scene: Scene) -> None:
    """Samples of a few passes each, drained."""
    samples: list[float] = []
    with scene.audit() as audit:
        samples.extend(scene.timed(5) for _ in range(15))
        audit.claim(tokens=75, samples=samples)


@honest("R71-before")
def compiled_before_the_window(scene: Scene) -> None:
    """The first run compiles, before the window."""
    with scene.audit() as audit:
        scene.backend.compile(2.0)
        scene.loop(3)
        scene.backend.synchronize()
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@undecidable("R71", "compiled-in-window")
def compiled_inside_the_window(scene: Scene) -> None:
    """The first call of the window compiles, which is why the budget is missed."""
    with scene.audit() as audit:
        start = time.perf_counter()
        scene.backend.compile(0.8 * scene.passes * scene.weight_bytes / scene.rate / scene.efficiency)
        scene.loop()
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("R71-no-budget", at_least=None)
def compiled_inside_without_a_budget(scene: Scene) -> None:
    """The same where nothing is asked for: slow is no fault."""
    with scene.audit() as audit:
        start = time.perf_counter()
        scene.backend.compile(1.0)
        scene.loop()
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("R71-new-shapes", "does-not-scale", "too-few-samples", at_least=None)
def compiled_now_and_then(scene: Scene) -> None:
    """Every eleventh pass meets a new shape."""
    calls = [0]

    def step() -> Any:
        calls[0] += 1
        if calls[0] % 11 == 0:
            scene.backend.compile(0.02)
        return scene.step()

    scene.decode(step)


@honest("R72")
def first_contender_pays(scene: Scene) -> None:
    """The same code twice: the first one pays for the allocator, and neither is accused."""
    grown = [False]

    def step() -> Any:
        if not grown[0]:
            grown[0] = True
            scene.backend.host(0.3)
        return scene.step()

    scene.decode(step)
    scene.decode(step)


@honest("R91", at_least=None, model={"host_s": 5e-3})
def host_bound(scene: Scene) -> None:
    """Milliseconds of Python for each step: slow, and honest."""
    scene.decode()


@honest("R91-audited", at_least=None, model={"host_s": 5e-3})
def host_bound_in_an_audit(scene: Scene) -> None:
    """The same, timed by the program."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@honest("K12")
def pipelined_kernel(scene: Scene) -> None:
    """A kernel that fetches the next layer on a second stream while this one is computed, and joins it."""

    def step() -> Any:
        scene.launch(scene.weight_bytes / 3, stream="fetch")
        scene.launch(scene.weight_bytes / 3)
        scene.backend.wait_stream(None, "fetch")
        return scene.launch(scene.weight_bytes / 3, size=64)

    scene.roofline.decode(step, traffic=scene.weight_bytes, passes_per_reset=10**6)


class _Blocks:
    """Foresees the length of a block from those before it: short and long ones come in the order S L L S."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.lengths, self.passes = scene, [1, 1], 0

    def reset(self) -> None:
        self.scene.model.reset()
        self.lengths.append(self.passes)
        self.passes = 0

    @property
    def is_short(self) -> bool:
        return self.lengths[-2] >= 2 * min(self.lengths[-4:])


def _compiles_in(*, short: bool) -> Program:
    """A compilation as long as ten passes in every short, or every long block of twenty."""

    def program(scene: Scene) -> None:
        blocks = _Blocks(scene)

        def step() -> Any:
            if not blocks.passes and blocks.is_short == short:
                scene.backend.compile(10 * scene.weight_bytes / scene.rate / scene.efficiency)
            blocks.passes += 1
            return scene.step()

        scene.decode(step, reset=blocks.reset, passes_per_reset=20)

    return program


# The slope is too small, or too large, and what was compiled is why.
COMPILED_BETWEEN = (
    undecidable("R71-in-the-short-blocks", "compiled-in-window", title="Every block of N passes compiles")(
        _compiles_in(short=True)
    ),
    honest("R71-in-the-long-blocks", "compiled-in-window", "does-not-scale", at_least=None, title="Every block of 2N")(
        _compiles_in(short=False)
    ),
)
