"""Honest programs whose outputs or bytes look wrong: static buffers, caches in place, donation, ids and logits."""

from __future__ import annotations

import time
from typing import Any

from corpus.recipe import honest
from corpus.scene import Scene


@honest("K11-static-graph")
def static_graph_buffers(scene: Scene) -> None:
    """A graph rewrites the same output in place on every replay."""
    graph = scene.backend.graph(lambda: scene.launch(scene.weight_bytes, size=64))
    scene.roofline.decode(graph.replay, traffic=scene.weight_bytes, passes_per_reset=10**6)


@honest("K11-static-graph-audited")
def static_graph_in_an_audit(scene: Scene) -> None:
    """Replays that are drained."""
    graph = scene.backend.graph(lambda: scene.loop(10))
    with scene.audit() as audit:
        seconds = scene.timed(step=graph.replay)
        audit.claim(tokens=10 * scene.passes, seconds=seconds)


@honest("K11-cache-in-place", model={"kv_bytes_per_token": 1e5, "context": 4000, "batch": 4})
def cache_in_place(scene: Scene) -> None:
    """A KV cache that grows in place, row by row."""
    scene.decode()


@honest("K11-static-cache", model={"kv_bytes_per_token": 1e5, "context": 1000, "max_context": 1400})
def static_cache(scene: Scene) -> None:
    """A static cache with room for some passes."""
    scene.decode()


@honest("K11-donation")
def donated_outputs(scene: Scene) -> None:
    """Each pass consumes the output of the one before, whose array is gone by then."""
    last: list[Any] = []

    def step() -> Any:
        if last:
            last.pop().delete()
        last.append(scene.launch(scene.weight_bytes, size=64))
        return last[0]

    scene.roofline.decode(step, traffic=scene.weight_bytes, reset=lambda: None)


@honest("K11-same-object")
def one_object_written_anew(scene: Scene) -> None:
    """A container that is returned every time, its array being new."""
    output: dict[str, Any] = {}

    def step() -> Any:
        output["logits"] = scene.launch(scene.weight_bytes, size=64)
        return output

    scene.roofline.decode(step, traffic=scene.weight_bytes, reset=lambda: None)


@honest("K11-ids-and-logits", model={"batch": 4})
def ids_beside_logits(scene: Scene) -> None:
    """Ids, logits and a position of its own come out of one pass."""

    def step() -> Any:
        ids = scene.step()
        return {"ids": ids, "logits": scene.backend.launch(seconds=1e-6, size=4)}

    scene.decode(step, batch=4)


@honest("K11-lazy", is_lazy=True)
def lazy_and_submitted(scene: Scene) -> None:
    """A lazy framework, whose passes the loop submits one by one."""
    scene.decode()


@honest("K11-lazy-audited", is_lazy=True)
def lazy_and_evaluated(scene: Scene) -> None:
    """A lazy loop that is evaluated before the stop."""
    with scene.audit() as audit:
        start = time.perf_counter()
        output = scene.loop()
        output.item()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start, outputs=output)


@honest("K04-fraction")
def tokens_per_pass_as_a_mean(scene: Scene) -> None:
    """A mean acceptance of 2.37 tokens, and no ids to count."""
    scene.roofline.decode(
        lambda: scene.launch(scene.weight_bytes, size=64),
        traffic=scene.weight_bytes,
        tokens_per_pass=2.37,
        reset=lambda: None,
    )


@honest("K04-batch", model={"batch": 32, "kv_bytes_per_token": 2e4, "context": 512})
def large_batch(scene: Scene) -> None:
    """A batch of 32 makes more tokens than bandwidth over bytes."""
    scene.decode()


@honest("K21", at_least=None, model={"copies_kv": True, "kv_bytes_per_token": 2e5, "context": 8192})
def cache_copied_each_step(scene: Scene) -> None:
    """A cache that is concatenated anew: slow, and honest."""
    scene.decode()


@honest("K21-low", at_least=None, model={"efficiency": 0.2})
def a_fifth_of_the_ceiling(scene: Scene) -> None:
    """Low utilisation is no fault."""
    scene.decode()


@honest("K21-read-again", at_least=None)
def cache_read_once_per_query_head(scene: Scene) -> None:
    """Each byte of the cache is loaded eight times; counted once."""
    kv = scene.backend.buffer(scene.weight_bytes / 4, role="kv")

    def step() -> Any:
        for _ in range(8):
            scene.backend.launch(buffer=kv, efficiency=scene.efficiency)
        return scene.step()

    scene.decode(step, traffic=1.25 * scene.weight_bytes)


@honest("K10", "cache-resident", cache_bytes=400e6, cache_policy="best", model={"weight_bytes": 300e6})
def model_that_fits_the_cache(scene: Scene) -> None:
    """A model smaller than the cache decodes faster than memory: no verdict, and no accusation."""
    scene.decode()


@honest("K10-audited", "cache-resident", cache_bytes=400e6, cache_policy="best", model={"weight_bytes": 300e6})
def model_that_fits_the_cache_in_an_audit(scene: Scene) -> None:
    """The same, timed by the program."""
    with scene.audit() as audit:
        scene.loop(5)
        scene.backend.synchronize()
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@honest("K24", "cache-resident", "too-few-samples", at_least=None, model={"weight_bytes": 20e6})
def tiny_fixture(scene: Scene) -> None:
    """A fixture of 20 MB, half of the cache: nothing can be said of the memory, and nobody is accused."""
    scene.decode()
