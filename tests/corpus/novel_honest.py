"""Honest programs that no catalogue holds (Y01 ...)."""

from __future__ import annotations

import statistics
import time
from typing import Any
from unittest import mock

from corpus.recipe import honest
from corpus.scene import Scene
from pytest_roofline.backends.fake import FakeBackend
from pytest_roofline.backends.fake_array import FakeMarker


@honest("Y01")
def two_streams_that_join(scene: Scene) -> None:
    """Half of each pass on a side stream, which the default one waits for."""

    def step() -> Any:
        scene.launch(scene.weight_bytes / 2, stream="side")
        scene.backend.wait_stream(None, "side")
        return scene.launch(scene.weight_bytes / 2)

    with scene.audit() as audit:
        start = time.perf_counter()
        scene.loop(step=step)
        scene.backend.synchronize("default")
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("Y02")
def prefill_before_the_clock(scene: Scene) -> None:
    """Prefill is timed too, and the claim speaks of decode alone."""
    with scene.audit() as audit:
        scene.timed(step=lambda: scene.launch(7 * scene.weight_bytes))
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@honest("Y03")
def rounded_up(scene: Scene) -> None:
    """The seconds are rounded up by half a per cent, the claim is a little too slow."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=1.005 * seconds)


@honest("Y04")
def rounded_rate(scene: Scene) -> None:
    """A rate with three digits."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, tokens_per_s=float(f"{scene.passes / seconds:.3g}"))


@honest("Y05")
def nanosecond_clock(scene: Scene) -> None:
    """The clock of integer nanoseconds, rightly divided."""
    with scene.audit() as audit:
        start = time.perf_counter_ns()
        scene.loop()
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=(time.perf_counter_ns() - start) / 1e9)


@honest("Y06", clock_step_s=-30.0, clock_step_at_s=60.0, lying_clocks=("time", "time_ns"))
def time_server(scene: Scene) -> None:
    """A time server sets the calendar back while another clock is read."""
    with scene.audit() as audit:
        scene.backend.host(60.0 - 1e-3 - scene.backend.now_s())
        start = time.monotonic()
        scene.loop()
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=time.monotonic() - start)


@honest("Y07")
def two_laps(scene: Scene) -> None:
    """Two stated windows with other work between them."""
    with scene.audit() as audit:
        for _ in range(2):
            with audit.window():
                scene.loop()
            scene.launch(3 * scene.weight_bytes)
        audit.claim(tokens=2 * scene.passes)


@honest("Y08")
def validation_after_the_stop(scene: Scene) -> None:
    """Heavy checks after the stop and before the claim are nobody's passes."""
    with scene.audit() as audit:
        seconds = scene.timed()
        scene.launch(50 * scene.weight_bytes, stream="checks")
        scene.backend.host(0.2)
        audit.claim(tokens=scene.passes, seconds=seconds)


@honest("Y09")
def log_uploaded_meanwhile(scene: Scene) -> None:
    """Another stream copies something small now and then and is still busy at the stop."""
    with scene.audit() as audit:
        start = time.perf_counter()
        for index in range(scene.passes):
            scene.step()
            if index % 8 == 0:
                scene.launch(scene.weight_bytes / 200, stream="upload")
        scene.backend.synchronize("default")
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("Y10", at_least=0.4)
def median_of_an_uneven_run(scene: Scene) -> None:
    """The first samples are slow, and a median is claimed."""
    samples: list[float] = []
    with scene.audit() as audit:
        for index in range(15):
            start = time.perf_counter()
            scene.loop(4)
            scene.backend.host(2e-3 if index < 3 else 0.0)
            scene.backend.synchronize()
            samples.append(time.perf_counter() - start)
        audit.claim(tokens_per_s=4 / statistics.median(samples), samples=samples)


@honest("Y11")
def events_and_a_clock(scene: Scene) -> None:
    """Both are read, and the claim is of the events."""
    with scene.audit() as audit:
        start = time.perf_counter()
        first, last = scene.events(scene.loop)
        assert time.perf_counter() - start > 0
        audit.claim(tokens=scene.passes, seconds=first.elapsed_s(last))


@honest("Y12")
def events_of_every_pass(scene: Scene) -> None:
    """An event pair per pass, and their median."""
    samples: list[float] = []
    with scene.audit() as audit:
        for _ in range(scene.passes):
            first, last = scene.events(scene.step)
            samples.append(first.elapsed_s(last))
        audit.claim(tokens=scene.passes, samples=samples)


@honest("Y13")
def sum_of_laps(scene: Scene) -> None:
    """Laps that are drained one by one, and added up."""
    total = 0.0
    with scene.audit() as audit:
        for _ in range(8):
            total += scene.timed(scene.passes // 4)
            scene.backend.host(0.01)
        audit.claim(tokens=8 * (scene.passes // 4), seconds=total)


@honest("Y14", "too-few-samples", model={"batch": 8, "kv_bytes_per_token": 3e4, "context": 300})
def reset_that_prefills(scene: Scene) -> None:
    """A reset runs a prompt, which is not timed."""

    def reset() -> None:
        scene.model.reset()
        scene.launch(12 * scene.weight_bytes)

    scene.decode(reset=reset)


@honest("Y15")
def frozen_clock_of_another(scene: Scene) -> None:
    """Another component has frozen a clock that this program does not read."""
    with scene.audit() as audit:
        with mock.patch("time.monotonic", return_value=12.0):
            seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@honest("Y16", devices=2)
def two_devices_both_waited_for(scene: Scene) -> None:
    """A step on two devices at once, both of which are waited for."""

    def step() -> Any:
        scene.launch(scene.weight_bytes, device=1)
        return scene.launch(scene.weight_bytes)

    with scene.audit() as audit:
        start = time.perf_counter()
        scene.loop(step=step)
        scene.backend.synchronize(device=0)
        scene.backend.synchronize(device=1)
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("Y17", devices=2, model={"device": 1})
def other_tenant_on_another_device(scene: Scene) -> None:
    """A second device is busy with something of its own, before and after."""
    with scene.audit(device="fake:1") as audit:
        scene.launch(scene.weight_bytes / 50, device=0)
        start = time.perf_counter()
        scene.loop()
        scene.backend.synchronize(device=1)
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("Y18", model={"efficiency": 0.97})
def very_good_kernel(scene: Scene) -> None:
    """Almost all of the ceiling."""
    scene.decode(traffic=scene.weight_bytes)


@honest("Y19")
def ids_streamed_to_the_host(scene: Scene) -> None:
    """Every token is read to the host, as a server does, and counted."""
    ids: list[int] = []
    with scene.audit() as audit:
        step = audit.watch(scene.step)
        start = time.perf_counter()
        for _ in range(scene.passes):
            ids.extend(step().item())
        audit.claim(tokens=len(ids), seconds=time.perf_counter() - start, ids=ids)


@honest("Y20")
def time_of_one_token(scene: Scene) -> None:
    """The time of one token is claimed, where many were watched."""
    with scene.audit() as audit:
        seconds = scene.timed(step=audit.watch(scene.step))
        audit.claim(tokens=1, seconds=seconds / scene.passes)


@honest("Y21", "too-few-samples")
def draft_and_target(scene: Scene) -> None:
    """A small draft model runs four times for each pass of the target, all of it declared."""
    draft = scene.backend.buffer(scene.weight_bytes / 16, role="weights")

    def step() -> Any:
        for _ in range(4):
            scene.backend.launch(buffer=draft, efficiency=scene.efficiency)
        return scene.launch(scene.weight_bytes, size=64)

    scene.roofline.decode(step, traffic=1.0625 * scene.weight_bytes, tokens_per_pass=3, reset=lambda: None)


@honest("Y22")
def mean_of_samples_after_a_slow_first_one(scene: Scene) -> None:
    """The mean of some samples, the first of which is slow, and the tokens of one of them."""
    samples: list[float] = []
    with scene.audit() as audit:
        for index in range(12):
            start = time.perf_counter()
            scene.loop(4)
            scene.backend.host(20 * scene.weight_bytes / scene.rate if index == 0 else 0.0)
            scene.backend.synchronize()
            samples.append(time.perf_counter() - start)
        audit.claim(tokens=4, tokens_per_s=4 / statistics.mean(samples), samples=samples)


@honest("Y23")
def all_tokens_of_all_samples(scene: Scene) -> None:
    """The same, all tokens over the sum of the samples being claimed."""
    samples: list[float] = []
    with scene.audit() as audit:
        samples.extend(scene.timed(4) for _ in range(12))
        audit.claim(tokens=48, tokens_per_s=48 / sum(samples), samples=samples)


@honest("Y24", queue_depth=64)
def second_thread_of_launches(scene: Scene) -> None:
    """Two requests are served in turn on two streams, each waited for by its own event."""
    with scene.audit() as audit:
        start = time.perf_counter()
        ends = []
        for index in range(scene.passes):
            stream = f"request {index % 2}"
            scene.launch(scene.weight_bytes, stream=stream)
            end = scene.backend.event()
            end.record(stream)
            ends.append(end)
        for end in ends:
            end.synchronize()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@honest("Y25", model={"kv_bytes_per_token": 4e5, "context": 64})
def cache_that_grows_all_the_while(scene: Scene) -> None:
    """A loop in which the cache outgrows its start; declared at its start."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@honest("Y26")
def warm_up_inside_the_audit(scene: Scene) -> None:
    """Warm-up, two dry runs and a pause are inside the audit, and none of them is in the claim."""
    with scene.audit() as audit:
        for _ in range(2):
            scene.timed(7)
        scene.backend.host(0.05)
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


class LateMarkers(FakeBackend):
    """Its markers are stamped by a thread that wakes up a tenth of a millisecond late, as on a busy host."""

    def mark(self) -> FakeMarker:
        """A moment later than it was."""
        moment_s = super().mark().finished_s() if self.pending() == 0 else self.now_s() + self.pending_s()
        return FakeMarker(moment_s + 130e-6, self._wait)

    def _wait(self, moment_s: float) -> None:
        self.wait_until(moment_s, 0)


@honest("Y27", backend=LateMarkers, sync_s=45e-6, model={"weight_bytes": 4e8})
def short_samples_on_a_busy_host(scene: Scene) -> None:
    """Short samples, each drained; the stamp behind each comes late, as draining an idle device does too."""
    samples: list[float] = []
    with scene.audit() as audit:
        for _ in range(9):
            samples.append(scene.timed(4))
            scene.backend.host(2e-4)
        audit.claim(tokens_per_s=4 / statistics.median(samples), samples=samples)


@honest("Y28", backend=LateMarkers, sync_s=45e-6, read_bytes_per_s=1e12, model={"weight_bytes": 4e8})
def look_ahead_of_two_on_a_busy_host(scene: Scene) -> None:
    """Two passes in flight at the stop, and the stamp behind them comes late."""
    flying: list[Any] = []
    with scene.audit() as audit:
        start = time.perf_counter()
        for _ in range(30):
            flying.append(scene.step())
            if len(flying) > 2:
                flying.pop(0).block_until_ready()
        audit.claim(tokens=30, seconds=time.perf_counter() - start)


@honest("Y29", backend=LateMarkers, sync_s=45e-6, read_bytes_per_s=3e12, model={"weight_bytes": 4e8})
def laps_on_a_busy_host(scene: Scene) -> None:
    """Laps with pauses between them, each drained, and their sum."""
    total = 0.0
    with scene.audit() as audit:
        for _ in range(12):
            total += scene.timed(4)
            scene.backend.host(0.1)
        audit.claim(tokens=48, seconds=total)


@honest("Y30")
def rate_of_an_uneven_run(scene: Scene) -> None:
    """A few samples are much faster than most, and all tokens over the sum of the samples are claimed."""
    pass_s = scene.weight_bytes / scene.rate / scene.efficiency
    samples: list[float] = []
    with scene.audit() as audit:
        for index in range(12):
            start = time.perf_counter()
            scene.loop(4)
            scene.backend.synchronize()
            scene.backend.host(pass_s if index % 3 else 0.0)
            samples.append(time.perf_counter() - start)
        audit.claim(tokens=48, tokens_per_s=48 / sum(samples), samples=samples)
