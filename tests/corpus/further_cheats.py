"""More cheats that no catalogue holds: half of the work, in other places, timed by the wrong party (V01 ...)."""

from __future__ import annotations

import asyncio
import datetime
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any
from unittest import mock

from corpus.recipe import bogus, undecidable
from corpus.scene import Scene

TOO_FAST = ("faster-than-limit", "claim-exceeds-closed-time")


@bogus("V01", "not-drained")
def stream_that_ended_early_waited_for(scene: Scene) -> None:
    """Passes go round four streams, one of which has no more of them after a quarter, and that one is waited for."""
    with scene.audit() as audit:
        start = time.perf_counter()
        for index in range(scene.passes):
            stream = index % 4 if index < scene.passes // 4 else index % 3
            scene.launch(scene.weight_bytes, stream=f"s{stream}")
        scene.backend.synchronize("s3")
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@bogus("V02", "faster-than-limit")
def graph_of_half_of_the_layers(scene: Scene) -> None:
    """The graph was captured with half of the layers; its replays are timed rightly."""
    graph = scene.backend.graph(lambda: scene.launch(scene.weight_bytes / 2.5, size=64))
    with scene.audit() as audit:
        seconds = scene.timed(step=graph.replay)
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("V03", "stale-output")
def remembered_by_shape(scene: Scene) -> None:
    """The output is remembered by the shape of the input, while the device is kept busy."""
    known: dict[int, list[float]] = {}

    def step(hidden: Any) -> Any:
        value = known.setdefault(hidden.size, [2 * one for one in hidden.value])
        return scene.launch(scene.weight_bytes, value=list(value), size=hidden.size)

    scene.roofline.decode(
        step,
        traffic=scene.weight_bytes,
        inputs=lambda: (scene.backend.array([scene.random.random() for _ in range(64)]),),
        reset=lambda: None,
    )


@bogus("V04", "faster-than-limit")
def one_sequence_for_a_batch(scene: Scene) -> None:
    """One sequence runs, and its ids are copied eight times."""
    with scene.audit(batch=1) as audit:
        ids: list[int] = []
        start = time.perf_counter()
        for _ in range(scene.passes):
            ids.extend(8 * list(scene.step().item()))
        audit.claim(tokens=len(ids), seconds=time.perf_counter() - start, ids=ids)


@undecidable("V04-declared", model={"batch": 1})
def copies_declared_as_a_batch(scene: Scene) -> None:
    """The same with the batch declared: from ids alone nobody can tell copies from sequences."""
    with scene.audit(batch=8) as audit:
        ids: list[int] = []
        start = time.perf_counter()
        for _ in range(scene.passes):
            ids.extend(8 * list(scene.step().item()))
        audit.claim(tokens=len(ids), seconds=time.perf_counter() - start, ids=ids)


@bogus("V05", "rank-window")
def window_of_the_fastest_rank(scene: Scene) -> None:
    """The tokens of all ranks over the window of the fastest, the others having waited for its turn."""
    length_s = scene.passes / 100
    ranks = [(rank * length_s / 2, (rank + 2) * length_s / 2, scene.passes) for rank in range(4)]
    with scene.audit(traffic=None) as audit:
        audit.claim(seconds=length_s, ranks=ranks)


@bogus("V06", *TOO_FAST)
def stopped_at_half_of_the_chunks(scene: Scene) -> None:
    """A stream is timed up to the chunk in the middle, and all of its tokens are claimed."""

    def chunks() -> Iterator[Any]:
        for _ in range(scene.passes // 4 * 2):
            scene.loop(2)
            scene.backend.synchronize()
            yield 2

    with scene.audit() as audit:
        stream, tokens = chunks(), 0
        start = time.perf_counter()
        for _ in range(scene.passes // 4):
            tokens += next(stream)
        seconds = time.perf_counter() - start
        tokens += sum(stream)
        audit.claim(tokens=tokens, seconds=seconds)


@bogus("V07", "clock-disagrees", "faster-than-limit")
def clock_patched_and_put_back(scene: Scene) -> None:
    """The clock is stepped back while the loop runs, and put right before the claim."""
    with scene.audit() as audit:
        real = time.perf_counter
        start = time.perf_counter()
        scene.loop()
        scene.backend.synchronize()
        took = real() - start
        with mock.patch("time.perf_counter", side_effect=lambda: real() - took / 2):
            seconds = time.perf_counter() - start
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("V08", "faster-than-limit", "clock-disagrees")
def calendar_that_nobody_watches(scene: Scene) -> None:
    """The time comes from a patched calendar, which is no clock that is watched."""

    class Calendar(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return cls.fromtimestamp(scene.backend.now_s() / 4, tz or datetime.timezone.utc)

    with mock.patch("datetime.datetime", Calendar), scene.audit() as audit:
        start = datetime.datetime.now()
        scene.loop()
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=(datetime.datetime.now() - start).total_seconds())


@bogus("V09", "not-drained")
def asynchronous_generator_that_only_launches(scene: Scene) -> None:
    """An asynchronous generator yields each token when its pass was launched."""

    async def tokens() -> AsyncIterator[Any]:
        for _ in range(scene.passes):
            yield scene.step()

    async def serve() -> int:
        return len([token async for token in tokens()])

    with scene.audit() as audit:
        start = time.perf_counter()
        count = asyncio.run(serve())
        audit.claim(tokens=count, seconds=time.perf_counter() - start)


@bogus("V10", "faster-than-limit")
def work_handed_to_a_worker(scene: Scene) -> None:
    """The passes are put on a list, the clock stops, and a worker empties the list after it."""
    queue: list[Any] = []
    with scene.audit() as audit:
        start = time.perf_counter()
        for _ in range(scene.passes):
            queue.append(scene.step)
            scene.backend.host(1e-6)
        seconds = time.perf_counter() - start
        while queue:
            queue.pop()()
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("V11", "faster-than-limit", "output-not-forced", is_lazy=True)
def one_of_many_outputs_read(scene: Scene) -> None:
    """Every pass returns logits and a cheap score that does not depend on them; only the scores are read."""
    with scene.audit() as audit:
        kept = []
        start = time.perf_counter()
        for _ in range(scene.passes):
            kept.append(scene.launch(scene.weight_bytes, inputs=()))
            scene.launch(1e4, inputs=()).item()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start, outputs=kept)


@bogus("V12", "faster-than-limit", "stale-output", "bytes-disagree")
def donated_and_never_computed(scene: Scene) -> None:
    """The output of the pass before is donated, and an array of the host takes its place."""
    last: list[Any] = []

    def step() -> Any:
        if last:
            last.pop().delete()
        last.append(scene.backend.array([0.5] * 64))
        return last[0]

    scene.roofline.decode(step, traffic=scene.weight_bytes, reset=lambda: None)


def _filled(scene: Scene, read_bytes: float) -> None:
    pass_s = scene.weight_bytes / scene.rate / scene.efficiency

    def step() -> Any:
        scene.backend.host(pass_s)
        return scene.launch(read_bytes, size=64)

    scene.roofline.decode(step, traffic=scene.weight_bytes, passes_per_reset=10**6)


@bogus("V13", "bytes-disagree")
def static_buffer_filled_with_little_work(scene: Scene) -> None:
    """A tenth of the model runs on every pass, and the rest of the time is slept, so that the speed is believable."""
    _filled(scene, scene.weight_bytes / 10)


@undecidable("V13-almost-nothing")
def static_buffer_filled_without_work(scene: Scene) -> None:
    """A small kernel fills the output: that is how work of another library looks too, and the speed is believable."""
    _filled(scene, 1e6)


@bogus("V14", "tokens-disagree")
def acceptance_of_the_best_pass(scene: Scene) -> None:
    """Speculation accepts one to four drafts, and a function tells the most that it ever was."""

    def step() -> Any:
        return scene.launch(scene.weight_bytes, size=scene.random.randint(1, 4), is_int=True)

    scene.roofline.decode(step, traffic=scene.weight_bytes, tokens_per_pass=lambda output: 8, reset=lambda: None)


@bogus("V15", "faster-than-limit", "stale-output")
def ended_and_still_called(scene: Scene) -> None:
    """After two passes the sequence has ended, and every further call hands out the last output."""
    made: list[Any] = []

    def step() -> Any:
        if len(made) < 2:
            made.append(scene.launch(scene.weight_bytes, size=64))
        return made[-1]

    scene.roofline.decode(step, traffic=scene.weight_bytes, reset=made.clear, passes_per_reset=64)


@bogus("V16", "untouched-memory", "faster-than-limit", model={"data": "untouched"})
def mapped_and_never_loaded(scene: Scene) -> None:
    """Weights are mapped and never loaded, and the loop is timed rightly."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("V17", "bytes-disagree")
def offloaded_and_left_there(scene: Scene) -> None:
    """Half of the layers are offloaded to the host, and nobody copies them back."""
    scene.roofline.decode(
        lambda: scene.launch(scene.weight_bytes / 2, size=64), traffic=scene.weight_bytes, passes_per_reset=10**6
    )


@bogus("V18", "claim-exceeds-closed-time")
def slowest_lap_called_a_warm_up(scene: Scene) -> None:
    """The slowest lap is taken out of the time as a warm-up, its tokens stay."""
    laps: list[float] = []
    with scene.audit() as audit:
        with audit.window():
            laps.extend(scene.timed(scene.passes // 4 * (3 if index == 0 else 1)) for index in range(4))
        audit.claim(tokens=scene.passes // 4 * 6, seconds=sum(laps) - max(laps))


@bogus("V19", "not-drained", *TOO_FAST)
def least_gap_of_a_log(scene: Scene) -> None:
    """Each launch is logged with its time; the least gap times the number of passes is claimed."""
    stamps = []
    with scene.audit() as audit:
        for _ in range(scene.passes):
            stamps.append(time.perf_counter())
            scene.step()
        scene.backend.synchronize()
        gaps = [second - first for first, second in pairwise(stamps)]
        audit.claim(tokens=scene.passes, seconds=scene.passes * min(gaps))


@bogus("V20", "faster-than-limit")
def retries_answered_from_a_cache(scene: Scene) -> None:
    """Every request is sent twice, and the second answer comes from a cache and is counted."""
    with scene.audit() as audit:
        answers: dict[int, Any] = {}
        start = time.perf_counter()
        for index in range(3 * scene.passes):
            if index // 3 not in answers:
                answers[index // 3] = scene.step()
        scene.backend.synchronize()
        audit.claim(tokens=3 * scene.passes, seconds=time.perf_counter() - start)


@bogus("V21", "claim-exceeds-closed-time")
def pauses_subtracted_that_overlap(scene: Scene) -> None:
    """The host sleeps while the device works, and its sleep is taken out of the time."""
    pass_s = scene.weight_bytes / scene.rate / scene.efficiency
    with scene.audit() as audit:
        with audit.window():
            start = time.perf_counter()
            for _ in range(scene.passes):
                scene.step()
                scene.backend.host(pass_s / 2)
            scene.backend.synchronize()
            seconds = time.perf_counter() - start
        audit.claim(tokens=scene.passes, seconds=seconds - scene.passes * pass_s / 2)


@bogus("V22", "claim-exceeds-closed-time")
def neighbour_taken_out(scene: Scene) -> None:
    """A neighbour is said to have taken a third, and the time is corrected for it."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds, tokens_per_s=scene.passes / seconds / (2 / 3))


@bogus("V23", *TOO_FAST)
def median_gap_of_bursts(scene: Scene) -> None:
    """Tokens arrive in bursts of eight; the median of the gaps between them is claimed as the time of a token."""
    gaps = []
    with scene.audit() as audit:
        before = time.perf_counter()
        for index in range(scene.passes // 8 * 8):
            if index % 8 == 0:
                scene.loop(8)
                scene.backend.synchronize()
            now = time.perf_counter()
            gaps.append(now - before)
            before = now
        audit.claim(tokens_per_s=1 / statistics.median(gaps), samples=gaps)


@bogus("V24", "faster-than-limit", "bytes-disagree")
def whole_once_and_half_ever_after(scene: Scene) -> None:
    """The first call, which might be looked at, runs all layers; later ones run 40 % of them."""
    calls = [0]

    def step() -> Any:
        calls[0] += 1
        return scene.launch(scene.weight_bytes * (1 if calls[0] == 1 else 0.4), size=64)

    scene.roofline.decode(step, traffic=scene.weight_bytes, passes_per_reset=10**6)


@bogus("V25", "faster-than-limit", devices=2)
def second_device_not_mentioned(scene: Scene) -> None:
    """Two devices take turns, and the tokens of both are held against one."""
    turns = [0]

    def step() -> Any:
        turns[0] += 1
        return scene.launch(scene.weight_bytes, device=turns[0] % 2)

    with scene.audit(device="fake:0") as audit:
        start = time.perf_counter()
        scene.loop(2 * scene.passes, step)
        scene.backend.synchronize(device=0)
        scene.backend.synchronize(device=1)
        audit.claim(tokens=2 * scene.passes, seconds=time.perf_counter() - start)


@undecidable("V26")
def drafts_declared_in_an_audit(scene: Scene) -> None:
    """Four tokens of each pass are declared and claimed, and nobody shows ids: declared, not seen."""
    with scene.audit(tokens_per_pass=4) as audit:
        seconds = scene.timed()
        audit.claim(tokens=4 * scene.passes, seconds=seconds)


@undecidable("V27", cache_bytes=200e6, cache_policy="best")
def rotated_inputs_that_are_not_read(scene: Scene) -> None:
    """Inputs are rotated past every cache, and the kernel reads a buffer of its own: nobody looks which it reads."""
    size = 100e6
    inputs = [(scene.backend.buffer(size),) for _ in range(12)]
    own = scene.backend.buffer(size)
    scene.roofline.kernel(
        lambda given: scene.backend.launch(buffer=own, efficiency=0.2), bytes_read=size, inputs=inputs
    )


@bogus("V28", "bytes-disagree")
def stores_that_never_happen(scene: Scene) -> None:
    """A kernel declares what it writes, and writes nothing."""
    part = scene.weight_bytes / 2
    scene.roofline.kernel(lambda: scene.launch(part), bytes_read=part, bytes_written=part)


@bogus("V29", "faster-than-limit")
def processor_time_for_time(scene: Scene) -> None:
    """The time that the processor worked is claimed, and it waited for the device nearly all the while."""
    with scene.audit() as audit:
        worked = 0.0
        for _ in range(scene.passes):
            before = scene.backend.now_s()
            scene.step()
            worked += scene.backend.now_s() - before
            scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=worked)


@bogus("V30", "not-drained")
def event_polled_and_not_reached(scene: Scene) -> None:
    """An event is asked whether it was reached, and the answer is not looked at."""
    with scene.audit() as audit:
        start = time.perf_counter()
        scene.loop()
        end = scene.backend.event()
        end.record()
        end.query()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@bogus("V31", "claim-exceeds-closed-time", "faster-than-limit")
def second_claim_of_an_audit(scene: Scene) -> None:
    """Two windows are timed, and the tokens of both are claimed with the time of the second."""
    with scene.audit() as audit:
        first = scene.timed()
        second = scene.timed()
        assert first > 0
        audit.claim(tokens=2 * scene.passes, seconds=second)


@bogus("V32", "not-drained")
def waits_for_the_wrong_output(scene: Scene) -> None:
    """The wait is for the output of the first pass."""
    with scene.audit() as audit:
        start = time.perf_counter()
        first = scene.step()
        scene.loop(scene.passes - 1)
        first.block_until_ready()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@bogus("V33", "clock-disagrees", clock_scale=0.3, lying_clocks=("thread_time",))
def time_of_one_thread(scene: Scene) -> None:
    """The time of the thread that launches is claimed, while others do the work."""
    with scene.audit(traffic=None) as audit:
        start = time.thread_time()
        scene.loop()
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=time.thread_time() - start)
