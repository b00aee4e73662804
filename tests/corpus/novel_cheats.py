"""Cheats that no catalogue holds: work hidden beside, before or behind the window, and claims made to fit (X01 ...)."""

from __future__ import annotations

import statistics
import time
from typing import Any

from corpus.recipe import bogus, undecidable
from corpus.scene import Scene


@bogus("X01", "not-drained")
def half_of_the_layers_on_a_side_stream(scene: Scene) -> None:
    """Three quarters of every pass are put off to a stream that the wait does not cover."""
    with scene.audit() as audit:
        start = time.perf_counter()
        scene.loop(step=lambda: scene.launch(scene.weight_bytes / 4))
        scene.loop(step=lambda: scene.launch(0.75 * scene.weight_bytes, stream="side"))
        scene.backend.synchronize("default")
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@bogus("X02", "not-drained", devices=2)
def one_of_two_devices_waited_for(scene: Scene) -> None:
    """A tensor parallel step on two devices, of which the faster half is waited for."""

    def step() -> Any:
        scene.launch(scene.weight_bytes / 8)
        return scene.launch(scene.weight_bytes, device=1)

    with scene.audit() as audit:
        start = time.perf_counter()
        scene.loop(step=step)
        scene.backend.synchronize(device=0)
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@bogus("X03", "faster-than-limit", "tokens-disagree")
def clock_started_half_way(scene: Scene) -> None:
    """Two thirds of the passes are drained before the clock starts, and all of them are claimed."""
    with scene.audit() as audit:
        scene.loop(2 * scene.passes)
        scene.backend.synchronize()
        seconds = scene.timed()
        audit.claim(tokens=3 * scene.passes, seconds=seconds)


@bogus("X04", "claim-exceeds-closed-time")
def best_sample_claimed(scene: Scene) -> None:
    """Every third sample is of a shorter loop; the best one is claimed as the rate of all."""
    samples: list[float] = []
    with scene.audit() as audit:
        samples.extend(scene.timed(4 if index % 3 else 2) for index in range(12))
        audit.claim(tokens_per_s=4 / min(samples), tokens=4, samples=samples)


@bogus("X05", "claim-exceeds-closed-time")
def overhead_subtracted(scene: Scene) -> None:
    """An "overhead" is measured with a few passes of work, and subtracted from the time."""
    with scene.audit() as audit:
        with audit.window():
            seconds = scene.timed()
        overhead = scene.timed(scene.passes // 3)
        audit.claim(tokens=scene.passes, seconds=seconds - overhead)


@undecidable("X05-unstated", "claim-exceeds-closed-time")
def overhead_subtracted_from_an_unknown_window(scene: Scene) -> None:
    """The same where nobody said which stretch is meant: no two reads are so far apart."""
    with scene.audit(traffic=None) as audit:
        seconds = scene.timed()
        overhead = scene.timed(scene.passes // 3)
        audit.claim(tokens=scene.passes, seconds=seconds - overhead)


@bogus("X06", "faster-than-limit", "stale-output")
def every_other_pass_skipped(scene: Scene) -> None:
    """Every other call hands out the output of the one before."""
    calls, last = [0], [None]

    def step() -> Any:
        calls[0] += 1
        if calls[0] % 2:
            last[0] = scene.launch(scene.weight_bytes, size=64)
        return last[0]

    scene.roofline.decode(step, traffic=scene.weight_bytes, passes_per_reset=10**6)


@bogus("X07", "faster-than-limit", "stale-output", "work-missing")
def worked_ahead_in_the_reset(scene: Scene) -> None:
    """The reset, which nobody times, computes the outputs of all passes that follow."""
    ready: list[Any] = []

    def reset() -> None:
        ready[:] = [scene.launch(scene.weight_bytes, size=64) for _ in range(64)]

    def step() -> Any:
        return ready.pop() if ready else scene.launch(scene.weight_bytes, size=64)

    scene.roofline.decode(step, traffic=scene.weight_bytes, reset=reset, passes_per_reset=64)


@bogus("X08", "faster-than-limit", is_lazy=True)
def only_the_last_branch_evaluated(scene: Scene) -> None:
    """A lazy graph whose passes do not depend on each other, and only the last one is read."""
    with scene.audit() as audit:
        start = time.perf_counter()
        output = scene.loop(step=lambda: scene.launch(scene.weight_bytes, inputs=()))
        output.item()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start, outputs=output)


@bogus("X09", "faster-than-limit", "claim-exceeds-closed-time")
def event_recorded_before_the_end(scene: Scene) -> None:
    """The second event is recorded before half of the passes are launched."""
    with scene.audit() as audit:
        first, last = scene.backend.event(), scene.backend.event()
        first.record()
        scene.loop()
        last.record()
        scene.loop()
        scene.backend.synchronize()
        audit.claim(tokens=2 * scene.passes, seconds=first.elapsed_s(last))


@bogus("X10", "tokens-disagree")
def batch_that_is_not_there(scene: Scene) -> None:
    """A batch of eight is declared, and one id comes out."""
    scene.decode(batch=8)


@bogus("X11", "bytes-disagree")
def larger_model_declared(scene: Scene) -> None:
    """The bytes are those of the model that the report names, a smaller one runs."""
    scene.decode(traffic=1.9 * scene.weight_bytes)


@bogus("X12", "bytes-disagree", model={"kv_bytes_per_token": 2e5})
def context_that_is_not_there(scene: Scene) -> None:
    """A context of 16k is declared; every pass runs on an empty cache."""

    def step() -> Any:
        scene.model.reset()
        return scene.step()

    scene.decode(step, traffic=scene.model.traffic.at_context(16384), context=16384)


@bogus("X13", "tokens-disagree")
def more_tokens_than_come_out(scene: Scene) -> None:
    """A function says that each pass makes four tokens, and one id is returned."""
    scene.decode(tokens_per_pass=lambda output: 4)


@bogus("X14", "faster-than-limit", "claim-exceeds-closed-time")
def work_before_the_stated_window(scene: Scene) -> None:
    """The window is stated around the last quarter of the passes."""
    with scene.audit() as audit:
        scene.loop(3 * scene.passes)
        with audit.window():
            scene.loop()
        audit.claim(tokens=4 * scene.passes)


@bogus("X15", "not-drained", "claim-exceeds-closed-time")
def median_of_unfinished_samples(scene: Scene) -> None:
    """Nine of ten samples are not drained; the tenth pays for all, and a median forgets it."""
    samples: list[float] = []
    with scene.audit() as audit:
        for index in range(30):
            start = time.perf_counter()
            scene.step()
            if index % 10 == 9:
                scene.backend.synchronize()
            samples.append(time.perf_counter() - start)
        audit.claim(tokens_per_s=1 / statistics.median(samples), samples=samples)


@bogus("X16", "claim-exceeds-closed-time")
def mean_without_the_slow_ones(scene: Scene) -> None:
    """Laps over the average are dropped as outliers, their tokens are kept."""
    laps: list[float] = []
    with scene.audit() as audit:
        with audit.window():
            laps.extend(scene.timed(6 if index % 2 else 3) for index in range(10))
        fast = [lap for lap in laps if lap < statistics.mean(laps)]
        audit.claim(tokens=45, seconds=10 * statistics.mean(fast))


@bogus("X17", "not-drained")
def waits_for_the_pass_before(scene: Scene) -> None:
    """The wait is for the output of eight passes ago, so that eight are always in flight."""
    flying: list[Any] = []
    with scene.audit() as audit:
        start = time.perf_counter()
        for _ in range(scene.passes):
            flying.append(scene.step())
            if len(flying) > 8:
                flying.pop(0).block_until_ready()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@undecidable("X18")
def early_exit_without_a_reference(scene: Scene) -> None:
    """Every tenth pass leaves out half of the layers, and nothing is given to compare with: inside the margins."""
    calls = [0]

    def step() -> Any:
        calls[0] += 1
        return scene.launch(scene.weight_bytes / (1 if calls[0] % 10 else 2), size=64)

    scene.roofline.decode(step, traffic=scene.weight_bytes, passes_per_reset=10**6)


@bogus("X19", "untouched-memory", "faster-than-limit", model={"data": "untouched", "is_opaque": True})
def never_written_and_out_of_sight(scene: Scene) -> None:
    """Weights that nobody wrote, behind launches that no trace can see into."""
    scene.decode(traffic=scene.weight_bytes)


@bogus("X20", "not-drained")
def graph_replayed_without_a_wait(scene: Scene) -> None:
    """A graph of ten passes is replayed, and the replays are timed."""
    graph = scene.backend.graph(lambda: scene.loop(10))
    with scene.audit() as audit:
        start = time.perf_counter()
        for _ in range(scene.passes):
            graph.replay()
        audit.claim(tokens=10 * scene.passes, seconds=time.perf_counter() - start)


@bogus("X21", "clock-disagrees", clock_scale=0.9)
def clock_a_tenth_too_slow(scene: Scene) -> None:
    """A clock that loses a tenth, far below any ceiling."""
    with scene.audit(traffic=None) as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("X22", "faster-than-limit", sheet_bytes_per_s=None)
def no_sheet_and_four_times_the_bytes(scene: Scene) -> None:
    """No sheet exists, and the claim is far beyond the best of all probes."""
    with scene.audit(traffic=4 * scene.weight_bytes) as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("X23", "faster-than-limit", "stale-output", sheet_bytes_per_s=None)
def no_sheet_and_a_memo(scene: Scene) -> None:
    """No sheet exists, and nothing runs: every alternation of probe and block shows it."""
    done = scene.launch(scene.weight_bytes, size=64)
    scene.roofline.decode(lambda: done, traffic=scene.weight_bytes, passes_per_reset=10**6)
