"""The clock stopped before the device: missing waits, waits for something else, lazy graphs (R01 to R10)."""

from __future__ import annotations

import time
from typing import Any

from corpus.recipe import bogus
from corpus.scene import Scene


def _stopped_at_once(scene: Scene, passes: int, **arguments: Any) -> None:
    with scene.audit(**arguments) as audit:
        start = time.perf_counter()
        scene.loop(passes)
        audit.claim(tokens=passes, seconds=time.perf_counter() - start)


@bogus("R01-below-the-queue", "not-drained")
def no_wait(scene: Scene) -> None:
    """A loop without a wait, all of it still queued when the clock stops."""
    _stopped_at_once(scene, scene.passes)


@bogus("R01-above-the-queue", "not-drained", queue_depth=32, model={"layers": 1})
def no_wait_in_a_long_loop(scene: Scene) -> None:
    """A loop many times longer than the queue, so that the missing wait is a few per cent of it."""
    _stopped_at_once(scene, 300 + 2 * scene.passes)


@bogus("R01-few-passes", "not-drained")
def no_wait_after_few_passes(scene: Scene) -> None:
    """Four passes and no wait."""
    _stopped_at_once(scene, 4, traffic=None)


@bogus("R01-one-pass", "not-drained")
def no_wait_after_one_pass(scene: Scene) -> None:
    """One pass and no wait."""
    _stopped_at_once(scene, 1, traffic=None)


@bogus("R01-no-bytes-known", "not-drained")
def no_wait_and_no_bytes(scene: Scene) -> None:
    """No wait, and nothing is known of the work: the clock alone shows it."""
    _stopped_at_once(scene, scene.passes, traffic=None)


@bogus("R01-rate-only", "not-drained")
def no_wait_and_a_rate(scene: Scene) -> None:
    """No wait, and only a rate is claimed."""
    with scene.audit() as audit:
        start = time.perf_counter()
        scene.loop()
        audit.claim(tokens_per_s=scene.passes / (time.perf_counter() - start), tokens=scene.passes)


@bogus("R02-other-device", "not-drained", devices=2, model={"device": 1})
def default_device_waited_for(scene: Scene) -> None:
    """The model is on the second device, and the first one is waited for."""
    with scene.audit(device="fake:1") as audit:
        start = time.perf_counter()
        scene.loop()
        scene.backend.synchronize(device=0)
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@bogus("R02-other-queue", "not-drained", model={"stream": "work"})
def idle_queue_waited_for(scene: Scene) -> None:
    """The stream that is waited for was never used."""
    with scene.audit() as audit:
        start = time.perf_counter()
        scene.loop()
        scene.backend.synchronize("idle")
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@bogus("R02-lying-sync", "not-drained", devices=2, sync_lies="wrong-device")
def sync_of_the_wrong_device(scene: Scene) -> None:
    """A synchronize that waits for another device than the one it was given."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("R03", "not-drained", "claim-exceeds-closed-time", queue_depth=16, model={"stream": "library", "layers": 1})
def foreign_stream(scene: Scene) -> None:
    """A library works on its own stream, the caller waits on the default one; a full queue blocks now and then."""
    samples = []
    with scene.audit() as audit:
        for _ in range(12):
            start = time.perf_counter()
            scene.loop(1)
            scene.backend.synchronize("default")
            samples.append(time.perf_counter() - start)
        audit.claim(tokens=12, samples=samples)


@bogus("R06-samples", "not-drained", "claim-exceeds-closed-time")
def early_stamps(scene: Scene) -> None:
    """Each sample stops at the launch; one wait follows all of them."""
    samples = []
    with scene.audit() as audit:
        for _ in range(scene.passes):
            start = time.perf_counter()
            scene.step()
            samples.append(time.perf_counter() - start)
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, samples=samples)


@bogus("R06-sum-of-samples", "not-drained", "claim-exceeds-closed-time")
def early_stamps_added(scene: Scene) -> None:
    """The same, and their sum is claimed as the time of the run."""
    total = 0.0
    with scene.audit() as audit:
        for _ in range(scene.passes):
            start = time.perf_counter()
            scene.step()
            total += time.perf_counter() - start
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=total)


@bogus("R06-first-token", "not-drained")
def first_token_stamped_early(scene: Scene) -> None:
    """The stamp of the first token is taken when its pass was launched."""
    with scene.audit(traffic=None) as audit:
        start = time.perf_counter()
        scene.launch(8 * scene.weight_bytes)
        audit.claim(tokens=1, seconds=time.perf_counter() - start)


@bogus("R07", "output-not-forced", is_lazy=True)
def lazy_graph(scene: Scene) -> None:
    """A graph of passes and a correctly placed synchronize; nobody ever evaluates it."""
    with scene.audit() as audit:
        start = time.perf_counter()
        output = scene.loop()
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start, outputs=output)


@bogus("R07-read-after-the-stop", "faster-than-limit", is_lazy=True)
def lazy_graph_read_late(scene: Scene) -> None:
    """The value is read after the stop, before the claim: only the bytes can tell."""
    with scene.audit() as audit:
        start = time.perf_counter()
        output = scene.loop()
        scene.backend.synchronize()
        seconds = time.perf_counter() - start
        output.item()
        audit.claim(tokens=scene.passes, seconds=seconds, outputs=output)


@bogus("R07-started-only", "not-drained", is_lazy=True)
def lazy_graph_started(scene: Scene) -> None:
    """The graph is submitted and not waited for."""
    with scene.audit() as audit:
        start = time.perf_counter()
        output = scene.loop()
        scene.backend.submit(output)
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start, outputs=output)


@bogus("R07-dropped", "faster-than-limit", is_lazy=True)
def lazy_graph_dropped(scene: Scene) -> None:
    """Every output is dropped unread, so the work never happens."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("R09", "not-drained")
def wait_after_the_stop(scene: Scene) -> None:
    """The wait exists, one line too late."""
    with scene.audit() as audit:
        start = time.perf_counter()
        scene.loop()
        seconds = time.perf_counter() - start
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("R09-no-bytes-known", "not-drained")
def wait_after_the_stop_and_no_bytes(scene: Scene) -> None:
    """The same where nothing is known of the work."""
    with scene.audit(traffic=None) as audit:
        start = time.perf_counter()
        scene.loop()
        seconds = time.perf_counter() - start
        scene.backend.synchronize()
        scene.backend.host(0.01)
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("R10-no-branch", "not-drained")
def no_branch_for_this_backend(scene: Scene) -> None:
    """A synchronize with a branch for every backend but this one."""

    def synchronize(name: str) -> None:
        if name in ("cuda", "mps"):
            scene.backend.synchronize()

    with scene.audit() as audit:
        start = time.perf_counter()
        scene.loop()
        synchronize("fake")
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


@bogus("R10-returns-early", "not-drained", sync_lies="early")
def sync_returns_early(scene: Scene) -> None:
    """A runtime whose synchronize does not wait."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("R10-drain-returns-early", "not-drained", sync_lies="early", drain_lies=True)
def every_wait_returns_early(scene: Scene) -> None:
    """Neither its synchronize nor its drain waits: the markers and the outputs still tell."""
    with scene.audit() as audit:
        start = time.perf_counter()
        output = scene.loop()
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start, outputs=output)
