"""Bytes that need not come from memory: caches, compressed data, pages never written (R31 to R35); easy data (R61)."""

from __future__ import annotations

from typing import Any

from corpus.recipe import Program, Recipe, bogus, honest, undecidable
from corpus.scene import Scene
from pytest_roofline.backends.fake_memory import Data

CACHE_BYTES = 400e6
"""Of the devices here: a pass over it is long against a launch."""


def _ring(times: float) -> Program:
    def program(scene: Scene) -> None:
        buffer = scene.backend.buffer(times * CACHE_BYTES, role="weights")
        scene.roofline.decode(
            lambda: scene.backend.launch(buffer=buffer, efficiency=scene.efficiency),
            traffic=times * CACHE_BYTES,
            passes_per_reset=10**6,
        )

    return program


def _of_ring(times: float, policy: str) -> Recipe:
    name, title = f"R31-{times:g}-caches-{policy}", f"A set of {times:g} caches read again and again ({policy})"
    if times <= 1:
        return undecidable(name, "cache-resident", title=title, cache_bytes=CACHE_BYTES, cache_policy=policy)(
            _ring(times)
        )
    # Between, the interval decides or it does not; nobody is accused either way.
    return honest(name, "cache-resident", title=title, cache_bytes=CACHE_BYTES, cache_policy=policy)(_ring(times))


RINGS = tuple(_of_ring(times, policy) for times in (0.5, 1, 2, 4, 8, 16, 32) for policy in ("lru", "best"))


@honest("R31-judged-hot", cache_bytes=CACHE_BYTES, cache_policy="best")
def cache_judged_as_a_cache(scene: Scene) -> None:
    """Half a cache, judged against the cache."""
    buffer = scene.backend.buffer(CACHE_BYTES / 2)
    scene.roofline.kernel(
        lambda: scene.backend.launch(buffer=buffer, efficiency=scene.efficiency),
        bytes_read=CACHE_BYTES / 2,
        cache="hot",
    )


@undecidable("R33", "cache-resident", "ceiling-unsure", cache_bytes=CACHE_BYTES)
def writes_that_stay_in_cache(scene: Scene) -> None:
    """A buffer smaller than the cache is filled over and over; nothing is written back before the stop."""
    size = CACHE_BYTES / 2
    buffer = scene.backend.buffer(size)
    with scene.audit(traffic=size) as audit:
        seconds = scene.timed(10 * scene.passes, lambda: scene.backend.launch(write_bytes=size, writes=buffer))
        audit.claim(tokens=10 * scene.passes, seconds=seconds)


def _model_of(data: str) -> dict[str, Any]:
    return {"data": data}


def _decode(scene: Scene) -> None:
    scene.decode()


DATA = (
    bogus(
        "R34-constant",
        "predictable-data",
        title="Constant weights on a device that compresses",
        compresses=True,
        model=_model_of("constant"),
    )(_decode),
    bogus(
        "R34-sequence",
        "predictable-data",
        title="Weights that count up on a device that compresses",
        compresses=True,
        model=_model_of("predictable"),
    )(_decode),
    honest("R34-random", title="Random weights on a device that compresses", compresses=True)(_decode),
    honest("R34-moved-whole", title="Constant weights on a device that does not compress", model=_model_of("constant"))(
        _decode
    ),
    bogus("R35", "untouched-memory", title="Weights that nobody ever wrote", model=_model_of("untouched"))(_decode),
)


@undecidable("R35-a-part", "untouched-memory", at_least=0.7)
def some_pages_never_written(scene: Scene) -> None:
    """A fifth of the weights was never written: too little to be impossible, too much to be believed."""
    written = scene.backend.buffer(0.8 * scene.weight_bytes, role="weights")
    bare = scene.backend.buffer(0.2 * scene.weight_bytes, role="weights", data="untouched")
    scene.roofline.decode(
        lambda: scene.backend.launch(buffer=[written, bare], efficiency=0.66), traffic=scene.weight_bytes
    )


@honest("R35-written", model={"data": "untouched"})
def pages_written_before(scene: Scene) -> None:
    """Memory that is filled before it is read."""
    bare = scene.backend.buffer(scene.weight_bytes, role="weights", data="untouched")
    scene.backend.launch(writes=bare)
    scene.roofline.decode(
        lambda: scene.backend.launch(buffer=bare, efficiency=scene.efficiency), traffic=scene.weight_bytes
    )


# -- R61: products of easy data ---------------------------------------------------------------------------------------


def _product_of(data: Data) -> Program:
    def program(scene: Scene) -> None:
        size = 8192 if scene.is_large else 4096
        part, flops = 2.0 * size**2, 2.0 * size**3
        operands = [scene.backend.buffer(part, data=data, role="weights") for _ in range(2)]

        def product() -> Any:
            return scene.backend.launch(
                buffer=operands, write_bytes=part, flops=flops, dtype="bfloat16", efficiency=0.99
            )

        scene.roofline.kernel(product, bytes_read=2 * part, bytes_written=part, flops=flops, dtype="bfloat16")

    return program


EASY = (
    undecidable("R61-zeros", "predictable-data", title="A product of zeros, within what power explains", at_least=0.88)(
        _product_of("constant")
    ),
    undecidable("R61-integers", "predictable-data", title="A product of whole numbers", at_least=0.88)(
        _product_of("predictable")
    ),
    honest("R61-random", title="A product of random numbers against the same budget", at_least=0.88)(
        _product_of("random")
    ),
    honest("R61-far-above", title="A product of zeros far above its budget", at_least=0.6)(_product_of("constant")),
)
