"""Device events on the wrong stream, stamped by the host, dead, wrapped or in another unit (R04, R12 to R16)."""

from __future__ import annotations

from unittest import mock

from corpus.recipe import bogus, honest
from corpus.scene import Scene
from pytest_roofline.backends.fake import FakeEvent


@bogus("R04", "claim-exceeds-closed-time", "not-drained", model={"stream": "side"})
def events_on_another_stream(scene: Scene) -> None:
    """Both events stand on a stream that does not do the work."""
    with scene.audit() as audit:
        first, last = scene.events(scene.loop)
        audit.claim(tokens=scene.passes, seconds=max(1e-9, first.elapsed_s(last)))


@bogus("R04-no-bytes-known", "claim-exceeds-closed-time", "not-drained", model={"stream": "side"})
def events_on_another_stream_and_no_bytes(scene: Scene) -> None:
    """The same where nothing is known of the work."""
    with scene.audit(traffic=None) as audit:
        first, last = scene.events(scene.loop)
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=max(1e-9, first.elapsed_s(last)))


@bogus("R12", "claim-exceeds-closed-time", "clock-disagrees")
def one_event_at_both_ends(scene: Scene) -> None:
    """The start is queried for both ends."""
    with scene.audit() as audit:
        first, _ = scene.events(scene.loop)
        audit.claim(tokens=scene.passes, seconds=first.elapsed_s(first))


@bogus("R13", "claim-exceeds-closed-time", "clock-disagrees", event_at_enqueue=True)
def events_stamped_by_the_host(scene: Scene) -> None:
    """Events take their time when they are queued."""
    with scene.audit() as audit:
        first, last = scene.events(scene.loop)
        audit.claim(tokens=scene.passes, seconds=first.elapsed_s(last))


def _scaled(name: str, scale: float, *checks: str) -> object:
    def program(scene: Scene) -> None:
        with scene.audit() as audit:
            first, last = scene.events(scene.loop)
            audit.claim(tokens=scene.passes, seconds=first.elapsed_s(last))

    title = f"Device events whose clock runs at {scale:g} of the time"
    return bogus(name, *checks, title=title, event_scale=scale)(program)


SCALED = (
    _scaled("R14-zero", 0.0, "claim-exceeds-closed-time", "clock-disagrees"),
    _scaled("R14-negative", -1.0, "claim-exceeds-closed-time", "clock-disagrees"),
    _scaled("R15-micro", 1e-3, "clock-disagrees"),
    _scaled("R15-nano", 1e-6, "clock-disagrees"),
    _scaled("R15-half", 0.5, "claim-exceeds-closed-time", "clock-disagrees"),
)


@bogus("R14-clamped", "claim-exceeds-closed-time", "clock-disagrees", event_scale=-1.0)
def negative_event_clamped(scene: Scene) -> None:
    """A negative time is clamped to the smallest positive one, and a rate is made of it."""
    with scene.audit() as audit:
        first, last = scene.events(scene.loop)
        audit.claim(tokens=scene.passes, seconds=max(1e-9, first.elapsed_s(last)))


@bogus("R14-wrapped", "claim-exceeds-closed-time", "clock-disagrees")
def tick_wraps(scene: Scene) -> None:
    """A counter wraps three times between the two events."""
    with scene.audit() as audit:
        first, last = scene.events(scene.loop)
        seconds = first.elapsed_s(last)
        audit.claim(tokens=scene.passes, seconds=seconds % (seconds / 3.5))


@bogus("R15-divided-again", "claim-exceeds-closed-time", "clock-disagrees")
def milliseconds_taken_for_microseconds(scene: Scene) -> None:
    """The events are right, and the program divides by a thousand once too often."""
    with scene.audit() as audit:
        first, last = scene.events(scene.loop)
        audit.claim(tokens=scene.passes, seconds=first.elapsed_s(last) / 1e3)


@bogus("R55-patched-event", "claim-exceeds-closed-time", "clock-disagrees")
def patched_event_class(scene: Scene) -> None:
    """The work patches the events' own elapsed time."""
    real = FakeEvent.elapsed_s
    with scene.audit() as audit:
        with mock.patch.object(FakeEvent, "elapsed_s", lambda self, end: real(self, end) / 7):
            first, last = scene.events(scene.loop)
            seconds = first.elapsed_s(last)
        audit.claim(tokens=scene.passes, seconds=seconds)


@honest("R16", at_least=None, model={"host_s": 2e-3})
def starved_stream(scene: Scene) -> None:
    """Slow host code between the launches: the events show the gaps, which is too slow and not too fast."""
    with scene.audit() as audit:
        first, last = scene.events(scene.loop)
        audit.claim(tokens=scene.passes, seconds=first.elapsed_s(last))


@honest("R16-no-gaps")
def right_events(scene: Scene) -> None:
    """Events on the stream that does the work."""
    with scene.audit() as audit:
        first, last = scene.events(scene.loop)
        audit.claim(tokens=scene.passes, seconds=first.elapsed_s(last))
