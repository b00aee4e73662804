"""Work that was remembered, skipped, removed or never started (R51 to R59)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from corpus.recipe import bogus, honest
from corpus.scene import Scene

NOT_DONE = ("stale-output", "work-missing", "faster-than-limit")


@bogus("R51-memo", "stale-output", "faster-than-limit")
def remembered(scene: Scene) -> None:
    """The first call works, the others hand out what it found."""
    made: list[Any] = []

    def step() -> Any:
        if not made:
            made.append(scene.launch(scene.weight_bytes, size=64))
        return made[0]

    scene.roofline.decode(step, traffic=scene.weight_bytes, passes_per_reset=10**6)


@bogus("R51-memo-that-takes-its-time", "stale-output")
def remembered_and_slow(scene: Scene) -> None:
    """The same at a believable speed: only the output shows it."""
    made: list[Any] = []
    pass_s = scene.weight_bytes / scene.rate / scene.efficiency

    def step() -> Any:
        if not made:
            made.append(scene.launch(scene.weight_bytes, size=64))
        scene.backend.host(pass_s)
        return made[0]

    scene.roofline.decode(step, traffic=scene.weight_bytes, passes_per_reset=10**6)


def _inputs(scene: Scene) -> Any:
    return lambda: (scene.backend.array([scene.random.random() for _ in range(64)]),)


@bogus("R51-by-address", "stale-output")
def remembered_by_address(scene: Scene) -> None:
    """The output is looked up by the identity of the input; the device reads the weights all the same."""
    known: dict[int, list[float]] = {}

    def step(hidden: Any) -> Any:
        value = known.setdefault(0, [2 * one for one in hidden.value])
        return scene.launch(scene.weight_bytes, value=value, size=64)

    scene.roofline.decode(step, traffic=scene.weight_bytes, inputs=_inputs(scene), reset=lambda: None)


@honest("R51-fresh")
def computed_from_its_input(scene: Scene) -> None:
    """The output follows the input."""

    def step(hidden: Any) -> Any:
        return scene.launch(scene.weight_bytes, value=[2 * one for one in hidden.value], size=64)

    scene.roofline.decode(step, traffic=scene.weight_bytes, inputs=_inputs(scene), reset=lambda: None)


@bogus("R53", *NOT_DONE)
def stale_buffer(scene: Scene) -> None:
    """The allocator hands out the freed result of the reference, and the step writes nothing."""
    freed = scene.launch(scene.weight_bytes, size=64)
    scene.roofline.decode(lambda: freed, traffic=scene.weight_bytes, passes_per_reset=10**6)


@bogus("R57-unused", *NOT_DONE, launch_s=5e-5)
def unused_result_removed(scene: Scene) -> None:
    """The compiler removed what nobody used; a small kernel is left."""
    scene.roofline.decode(lambda: scene.launch(1e4, size=64), traffic=scene.weight_bytes, passes_per_reset=10**6)


@bogus("R57-folded", *NOT_DONE)
def constants_folded(scene: Scene) -> None:
    """The product of captured constants was folded at compile time; each call returns the folded value."""
    scene.backend.compile(0.4)
    folded = scene.backend.array([0.5] * 64)
    scene.roofline.decode(lambda: folded, traffic=scene.weight_bytes, passes_per_reset=10**6)


@bogus("R59", *NOT_DONE)
def launch_failed(scene: Scene) -> None:
    """The kernel has no code for this device, the error is ignored, and the output is what lay there."""
    output = scene.backend.array([0.0] * 64)

    def step() -> Any:
        scene.backend.host(8e-6)
        return output

    scene.roofline.decode(step, traffic=scene.weight_bytes, passes_per_reset=10**6)


@bogus("R59-audited", "faster-than-limit")
def launch_failed_in_an_audit(scene: Scene) -> None:
    """The same, timed by the program itself."""
    with scene.audit() as audit:
        seconds = scene.timed(step=lambda: scene.backend.host(8e-6))
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("R51-captured-once", *NOT_DONE)
def only_the_first_call_enqueues(scene: Scene) -> None:
    """A loop is captured whose calls after the first enqueue nothing; the graph is counted as all of them."""
    calls = 16

    def captured() -> Any:
        output = scene.launch(scene.weight_bytes, size=64)
        for _ in range(calls - 1):
            pass
        return output

    graph = scene.backend.graph(captured)
    scene.roofline.decode(graph.replay, traffic=calls * scene.weight_bytes, passes_per_reset=10**6)


@bogus("R51-layers-skipped", "work-missing")
def layers_skipped_on_every_third_pass(scene: Scene) -> None:
    """Half of the layers are skipped now and then, which a reference shows."""
    calls = [0]

    def launched(scale: float, bytes_: float) -> Any:
        return scene.launch(bytes_, value=[scale * index for index in range(64)], size=64)

    def step() -> Any:
        calls[0] += 1
        skips = calls[0] % 3 == 0
        return launched(0.7, scene.weight_bytes / 2) if skips else launched(1.0, scene.weight_bytes)

    scene.roofline.decode(
        step,
        traffic=scene.weight_bytes,
        reset=lambda: None,
        reference=lambda: launched(1.0, scene.weight_bytes),
    )


@honest("R51-reference")
def as_the_reference_within_rounding(scene: Scene) -> None:
    """Outputs that differ from the reference's by what their dtype explains."""

    def launched(scale: float) -> Any:
        return scene.launch(scene.weight_bytes, value=[scale * index for index in range(64)], size=64)

    scene.roofline.decode(
        lambda: launched(1.001), traffic=scene.weight_bytes, reset=lambda: None, reference=lambda: launched(1.0)
    )


def _woken_by(scene: Scene, is_alarmed: Callable[[list[float]], bool]) -> None:
    """A static output that is written only when what lies in it looks overwritten, at a believable speed."""
    output = scene.launch(scene.weight_bytes, value=[float(index) for index in range(64)], size=64)
    pass_s = scene.weight_bytes / scene.rate / scene.efficiency

    def step() -> Any:
        scene.backend.host(pass_s)
        if is_alarmed(output.value):
            output.launch = scene.launch(scene.weight_bytes, size=64).launch
            output.value = [float(index) for index in range(64)]
        return output

    scene.roofline.decode(step, traffic=scene.weight_bytes, passes_per_reset=10**6)


@bogus("R51-wakes-on-nan", "stale-output")
def woken_by_nan(scene: Scene) -> None:
    """The output is computed only when NaN is found in it."""
    _woken_by(scene, lambda values: any(math.isnan(value) for value in values))


@bogus("R51-wakes-on-another-number", "stale-output")
def woken_by_any_other_number(scene: Scene) -> None:
    """The output is computed only when it is not what it was."""
    _woken_by(scene, lambda values: values != [float(index) for index in range(64)])
