"""More honest programs: servers, streams, pauses, logs and buffers as people write them (W01 ...)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import statistics
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any
from unittest import mock

from corpus.recipe import honest
from corpus.scene import Scene
from pytest_roofline.backends.fake import Neighbour


@honest("W01")
def round_four_streams_all_joined(scene: Scene) -> None:
    """Passes go round four streams, each behind the one before, and all are waited for."""
    with scene.audit() as audit:
        start = time.perf_counter()
        for index in range(scene.passes):
            stream = f"s{index % 4}"
            scene.backend.wait_stream(stream, f"s{(index - 1) % 4}")
            scene.launch(scene.weight_bytes, stream=stream)
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("W02")
def captured_inside_the_audit(scene: Scene) -> None:
    """The graph is warmed up and captured inside the audit, before the clock."""
    with scene.audit() as audit:
        scene.loop(3)
        graph = scene.backend.graph(lambda: scene.launch(scene.weight_bytes, size=64))
        graph.replay()
        scene.backend.synchronize()
        seconds = scene.timed(step=graph.replay)
        audit.claim(tokens=scene.passes, seconds=seconds)


@honest("W03")
def two_graphs_in_turn(scene: Scene) -> None:
    """Two graphs with an output each are replayed in turn, so that the host may read one meanwhile."""
    graphs = [scene.backend.graph(lambda: scene.launch(scene.weight_bytes, size=64)) for _ in range(2)]
    turns = [0]

    def step() -> Any:
        turns[0] += 1
        return graphs[turns[0] % 2].replay()

    scene.roofline.decode(step, traffic=scene.weight_bytes, passes_per_reset=10**6)


@honest("W04", model={"batch": 8})
def sequences_that_end_early(scene: Scene) -> None:
    """Some sequences of a batch end early, and only what came before their end is counted."""
    with scene.audit(batch=8) as audit:
        ends = [scene.random.randint(scene.passes * 3 // 4, scene.passes) for _ in range(8)]
        seconds = scene.timed()
        audit.claim(tokens=sum(ends), seconds=seconds, ids=list(range(sum(ends))))


@honest("W05")
def stream_counted_by_ids(scene: Scene) -> None:
    """A stream of chunks of one to five tokens, counted by their ids."""

    def chunks() -> Iterator[list[int]]:
        left = scene.passes
        while left:
            count = min(left, scene.random.randint(1, 5))
            left -= count
            yield [int(scene.step().item()[0]) for _ in range(count)]

    with scene.audit() as audit:
        ids: list[int] = []
        start = time.perf_counter()
        for chunk in chunks():
            ids.extend(chunk)
        audit.claim(tokens=len(ids), seconds=time.perf_counter() - start, ids=ids)


@honest("W06")
def asynchronous_generator_that_reads(scene: Scene) -> None:
    """An asynchronous generator reads each token before it yields it."""

    async def tokens() -> AsyncIterator[int]:
        for _ in range(scene.passes):
            yield int(scene.step().item()[0])
            await asyncio.sleep(0)

    async def serve() -> list[int]:
        return [token async for token in tokens()]

    with scene.audit() as audit:
        start = time.perf_counter()
        ids = asyncio.run(serve())
        audit.claim(tokens=len(ids), seconds=time.perf_counter() - start, ids=ids)


@honest("W07")
def thread_that_does_the_work(scene: Scene) -> None:
    """A thread runs the passes, and is joined before the stop."""
    with scene.audit() as audit:
        start = time.perf_counter()
        worker = threading.Thread(target=lambda: [scene.step() for _ in range(scene.passes)])
        worker.start()
        worker.join()
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("W08")
def clock_frozen_by_another_test(scene: Scene) -> None:
    """The clock was frozen for a while before the timed part, and put back."""
    with scene.audit() as audit:
        with mock.patch("time.perf_counter", return_value=1.0):
            assert time.perf_counter() == 1.0
            scene.loop(3)
        scene.backend.synchronize()
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@honest("W09", is_lazy=True)
def lazy_outputs_read_one_by_one(scene: Scene) -> None:
    """A lazy framework whose every output is read."""
    with scene.audit() as audit:
        start = time.perf_counter()
        for _ in range(scene.passes):
            scene.step().item()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("W10")
def donated_in_an_audit(scene: Scene) -> None:
    """Each output is donated to the next pass; the last one alone is alive at the end."""
    with scene.audit() as audit:
        output = scene.launch(scene.weight_bytes)
        scene.backend.synchronize()
        start = time.perf_counter()
        for _ in range(scene.passes):
            after = scene.launch(scene.weight_bytes)
            output.delete()
            output = after
        output.item()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start, outputs=output)


@honest("W11")
def ring_of_outputs(scene: Scene) -> None:
    """Outputs are handed out from a ring of four static ones, each of which is written in its turn."""
    graphs = [scene.backend.graph(lambda: scene.launch(scene.weight_bytes, size=64)) for _ in range(4)]
    turns = [0]

    def step() -> Any:
        turns[0] += 1
        return {"logits": graphs[turns[0] % 4].replay(), "position": turns[0]}

    scene.roofline.decode(step, traffic=scene.weight_bytes, passes_per_reset=10**6)


@honest("W12")
def acceptance_told_by_the_output(scene: Scene) -> None:
    """Speculation accepts one to five tokens, and a function reads from the output how many."""

    def step() -> Any:
        return scene.launch(scene.weight_bytes, size=scene.random.randint(1, 5), is_int=True)

    scene.roofline.decode(
        step, traffic=scene.weight_bytes, tokens_per_pass=lambda output: output.size, reset=lambda: None
    )


@honest("W13", at_least=None)
def layers_computed_twice(scene: Scene) -> None:
    """Checkpoints are computed again, so that every weight is read twice, and counted once."""
    scene.roofline.decode(
        lambda: (scene.launch(scene.weight_bytes), scene.launch(scene.weight_bytes, size=64))[1],
        traffic=scene.weight_bytes,
        passes_per_reset=10**6,
    )


@honest("W14", at_least=None)
def offloaded_layers_copied_back(scene: Scene) -> None:
    """A third of the layers lies on the host, and is copied for each pass."""

    def step() -> Any:
        scene.backend.launch(seconds=3 * scene.weight_bytes / scene.rate, stream="copies")
        scene.backend.wait_stream(None, "copies")
        return scene.step()

    with scene.audit() as audit:
        seconds = scene.timed(step=step)
        audit.claim(tokens=scene.passes, seconds=seconds)


@honest("W15", "compiled-in-window", at_least=0.1)
def warm_up_inside_the_window(scene: Scene) -> None:
    """Five slow passes of a warm-up are inside the window, and their time is claimed with the rest."""
    with scene.audit() as audit:
        step = audit.watch(scene.step)
        start = time.perf_counter()
        for index in range(scene.passes):
            if index < 5:
                scene.backend.host(5 * scene.weight_bytes / scene.rate)
            step()
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("W16")
def clock_read_for_a_progress_bar(scene: Scene) -> None:
    """A progress bar reads the clock in every iteration."""
    with scene.audit() as audit:
        shown = []
        start = time.perf_counter()
        for _ in range(scene.passes):
            scene.step().item()
            shown.append(time.perf_counter())
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("W17")
def steps_with_timers_of_their_own(scene: Scene) -> None:
    """Each step has a timer around it for a log, and the loop one of its own."""
    log: list[float] = []

    def step() -> None:
        begun = time.monotonic()
        scene.step()
        log.append(time.monotonic() - begun)

    with scene.audit() as audit:
        seconds = scene.timed(step=step)
        audit.claim(tokens=scene.passes, seconds=seconds)
    assert len(log) == scene.passes


@honest("W18", at_least=0.2)
def failures_that_take_time(scene: Scene) -> None:
    """A third of the requests fails half way and is sent again; only answers are counted."""

    def request(index: int) -> None:
        scene.loop(2)
        if index % 3 == 0:
            raise ConnectionError
        scene.loop(2)

    with scene.audit() as audit:
        count = 0
        start = time.perf_counter()
        for index in range(scene.passes):
            with contextlib.suppress(ConnectionError):
                request(index)
                count += 4
        scene.backend.synchronize()
        audit.claim(tokens=count, seconds=time.perf_counter() - start)


@honest("W19", at_least=None)
def sleep_between_passes(scene: Scene) -> None:
    """A loop that sleeps to keep to a rate."""
    scene.decode(lambda: (scene.backend.host(2e-3), scene.step())[1])


@honest("W20", at_least=0.3)
def pauses_of_the_collector(scene: Scene) -> None:
    """Every now and then the host collects its garbage."""
    calls = [0]

    def step() -> Any:
        calls[0] += 1
        if calls[0] % 40 == 0:
            gc.collect(0)
            scene.backend.host(scene.weight_bytes / scene.rate)
        return scene.step()

    scene.decode(step)


@honest(
    "W21",
    "cache-resident",
    "drifted",
    "device-shared",
    "too-few-samples",
    at_least=0.4,
    neighbours=[Neighbour(start_s=at / 10, end_s=at / 10 + 0.03, share=0.5) for at in range(2000)],
)
def neighbour_in_bursts(scene: Scene) -> None:
    """A neighbour takes half of the device for a third of the time."""
    scene.decode()


@honest(
    "W22",
    "drifted",
    "device-shared",
    at_least=0.4,
    neighbours=[Neighbour(start_s=at / 10, end_s=at / 10 + 0.03, share=0.5) for at in range(2000)],
)
def neighbour_in_bursts_of_an_audit(scene: Scene) -> None:
    """The same, timed by the program."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@honest("W23")
def several_audits(scene: Scene) -> None:
    """Three audits in a row, and a decode between them."""
    for _ in range(2):
        with scene.audit() as audit:
            seconds = scene.timed()
            audit.claim(tokens=scene.passes, seconds=seconds)
    scene.decode()
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@honest("W24", "tokens-disagree")
def batch_that_changes(scene: Scene) -> None:
    """A server whose batch comes and goes between one and eight, its tokens counted by ids."""
    ids: list[int] = []

    def step() -> Any:
        ids.extend(range(scene.random.randint(1, 8)))
        return scene.step()

    with scene.audit(batch=1, tokens_per_pass=8) as audit:
        seconds = scene.timed(step=audit.watch(step))
        audit.claim(tokens=len(ids), seconds=seconds, ids=ids)


@honest("W25")
def prompt_taken_off_the_ids(scene: Scene) -> None:
    """What comes back holds the prompt, which is taken off before it is counted."""
    prompt = 1000
    with scene.audit() as audit:
        scene.launch(4 * scene.weight_bytes)
        scene.backend.synchronize()
        seconds = scene.timed()
        ids = list(range(prompt + scene.passes))[prompt:]
        audit.claim(tokens=len(ids), seconds=seconds, ids=ids)


@honest("W26")
def clock_started_before_the_audit(scene: Scene) -> None:
    """The clock was started before the audit was entered; the claim is of a loop inside."""
    begun = scene.backend.perf_counter()
    with scene.audit() as audit:
        start = time.perf_counter()
        scene.loop()
        scene.backend.synchronize()
        now = time.perf_counter()
        assert now > begun
        audit.claim(tokens=scene.passes, seconds=now - start)


@honest("W27", clock_scale=1.0005)
def clock_that_is_slewed(scene: Scene) -> None:
    """A time server slews the clock by half a thousandth."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@honest("W28")
def median_of_events(scene: Scene) -> None:
    """Event pairs around eight passes each, their median, and the tokens of one of them."""
    samples = []
    with scene.audit() as audit:
        for _ in range(9):
            first, last = scene.events(lambda: scene.loop(8))
            samples.append(first.elapsed_s(last))
        audit.claim(tokens=8, tokens_per_s=8 / statistics.median(samples), samples=samples)


@honest("W29")
def ranks_a_little_apart(scene: Scene) -> None:
    """Ranks that start within a hundredth of their window, all tokens over the common one."""
    length_s = scene.passes / 100
    ranks = [(rank * length_s / 400, rank * length_s / 400 + length_s, scene.passes) for rank in range(4)]
    with scene.audit(traffic=None) as audit:
        audit.claim(tokens=4 * scene.passes, seconds=length_s * (1 + 3 / 400), ranks=ranks)


@honest("W30")
def first_pass_that_tunes(scene: Scene) -> None:
    """The first pass tries ten kernels, and the warm-up has it."""
    tuned = [False]

    def step() -> Any:
        if not tuned[0]:
            tuned[0] = True
            for _ in range(10):
                scene.step()
            scene.model.reset()
        return scene.step()

    scene.decode(step)


@honest("W31")
def static_input_beside_the_output(scene: Scene) -> None:
    """The step returns what it was given beside what it made."""
    given = scene.backend.array([0.5] * 64)
    scene.roofline.decode(
        lambda: {"hidden": given, "logits": scene.launch(scene.weight_bytes, size=64)},
        traffic=scene.weight_bytes,
        passes_per_reset=10**6,
    )


@honest("W32")
def copies_to_the_host_behind_the_work(scene: Scene) -> None:
    """Logits are copied to the host on a stream of their own, and the last copy is waited for."""
    with scene.audit() as audit:
        start = time.perf_counter()
        for _ in range(scene.passes):
            scene.step()
            scene.backend.wait_stream("copies", None)
            scene.launch(1e5, stream="copies")
        scene.backend.synchronize("copies")
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("W33", model={"kv_bytes_per_token": 3e5, "context": 500})
def window_of_a_long_chat(scene: Scene) -> None:
    """A cache that grows from turn to turn, and a stated window for each turn."""
    with scene.audit() as audit:
        for _ in range(3):
            with audit.window():
                scene.loop(scene.passes // 3)
                scene.backend.synchronize()
            scene.backend.host(0.05)
        audit.claim(tokens=scene.passes // 3 * 3)


@honest("W34", queue_depth=4, model={"layers": 1})
def full_queue_and_samples(scene: Scene) -> None:
    """A queue of four is always full; samples of a hundred passes each are drained."""
    samples: list[float] = []
    with scene.audit() as audit:
        samples.extend(scene.timed(100) for _ in range(5))
        audit.claim(tokens=500, seconds=sum(samples), samples=samples)
