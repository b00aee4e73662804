"""The links of a device on the fake: what is measured on demand, and a model that is partly on the other side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeGenerator, FakeModel
from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.instrument import Instrument
from pytest_roofline.links import LINK_BYTES, measure_link, measure_links
from pytest_roofline.protocol import HOST, LinkPath
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, parse_budget
from pytest_roofline.traffic import declared_traffic

GB = 1e9
WEIGHTS = 4 * GB


def instrument(settings: Settings | None = None, **figures: Any) -> tuple[FakeBackend, Instrument]:
    """A fake device and the instrument on it."""
    backend = FakeBackend(**figures)
    return backend, Instrument(Session(added_backends=[backend]), settings)


def links_of(backend: FakeBackend) -> Any:
    """Its first device's links."""
    return measure_links(backend.devices()[0], [backend])


def test_every_path_is_measured_at_its_own_rate() -> None:
    """Pinned and pageable, one way and both, and a peer: each by the figures of the device."""
    found = links_of(
        FakeBackend(
            devices=2, link_bytes_per_s=20 * GB, pageable_share=0.3, duplex_factor=1.5, peer_bytes_per_s=80 * GB
        )
    )
    rates = {(r.source, r.target, r.is_pinned, r.is_both_ways): r.bytes_per_s for r in found.rates}
    expected = {
        (HOST, "fake:0", True, False): 20 * GB,
        ("fake:0", HOST, True, False): 20 * GB,
        (HOST, "fake:0", True, True): 30 * GB,
        (HOST, "fake:0", False, False): 6 * GB,
        ("fake:0", HOST, False, False): 6 * GB,
        (HOST, "fake:0", False, True): 9 * GB,
        ("fake:0", "fake:1", None, False): 80 * GB,
        ("fake:1", "fake:0", None, False): 80 * GB,
    }
    assert rates == {key: pytest.approx(rate, rel=0.05) for key, rate in expected.items()}
    assert found.from_host_bytes_per_s == pytest.approx(20 * GB, rel=0.05)
    assert found.to_host_bytes_per_s == pytest.approx(20 * GB, rel=0.05)
    assert found.bytes_per_s(HOST, "fake:0", is_pinned=False) == pytest.approx(6 * GB, rel=0.05)
    assert found.bytes_per_s("fake:0", HOST, is_both_ways=True) == pytest.approx(30 * GB, rel=0.05)
    assert found.bytes_per_s(HOST, "fake:7") is None
    assert found.slowest.is_pinned is False
    assert found.to_dict()["rates"][0]["source"] == HOST


def test_links_are_measured_on_demand_and_remembered() -> None:
    """A probe has none until somebody asks, and then the same ones; the best rate of the host alone is a part of it."""
    backend, roofline = instrument(link_bytes_per_s=16 * GB)
    probe = roofline._session.probe(backend.devices()[0])
    assert probe.to_dict()["links"] is None
    found = probe.links()
    assert probe.links() is found
    assert probe.to_dict()["links"] == found.to_dict()
    assert probe.link_bytes_per_s == pytest.approx(16 * GB, rel=0.05)


def test_lazy_devices_have_links_too() -> None:
    """What is only built into a graph is submitted, or every link would be infinitely fast."""
    assert links_of(FakeBackend(is_lazy=True, link_bytes_per_s=8 * GB)).from_host_bytes_per_s == pytest.approx(
        8 * GB, rel=0.05
    )


def test_a_device_without_a_link_says_so() -> None:
    """No link by its figures, no backend that measures one, and a processor: each is wrong use in plain words."""
    backend = FakeBackend(link_bytes_per_s=None)
    with pytest.raises(RooflineUsageError, match="the link of fake:0 cannot be measured by: fake"):
        links_of(backend)
    with pytest.raises(RooflineUsageError, match="cannot be measured by: fake"):
        measure_link(backend.devices()[0], [backend])
    with pytest.raises(RooflineUsageError, match="cpu has no link: host and device share one memory"):
        measure_links(Device(name="a processor", kind="cpu", backend="cpu"), [backend])


def test_a_link_without_room_for_its_buffers_says_why() -> None:
    """The reason of the backend is in the message."""

    class Full(FakeBackend):
        def link_paths(self, device: Device, working_set_bytes: float) -> list[LinkPath]:
            assert working_set_bytes == LINK_BYTES
            raise MemoryError("all of it is taken")

    with pytest.raises(RooflineUsageError, match=r"cannot be measured by: fake \(fake: no memory for .*all of it"):
        links_of(Full())


@pytest.mark.parametrize("figures", [{"link_bytes_per_s": 0.0}, {"peer_bytes_per_s": -1.0}, {"duplex_factor": 0.0}])
def test_impossible_links_of_a_fake_are_wrong_use(figures: dict[str, float]) -> None:
    """The message names the figure."""
    with pytest.raises(RooflineUsageError, match=next(iter(figures))):
        FakeBackend(**figures)


# -- a model that does not fit


def spilled_step(backend: FakeBackend, share: float, *, slowdown: float = 1.0, overlap: bool = False) -> Any:
    """A decode step of which so much comes over the link, after the rest or beside it."""
    own = backend.buffer(WEIGHTS * (1 - share), role="weights")
    rate = backend._hardware[0].link_bytes_per_s or 1.0
    link_s = slowdown * WEIGHTS * share / rate

    def step() -> Any:
        memory_s = own.size_bytes / backend._hardware[0].read_bytes_per_s
        if overlap:
            return backend.launch(seconds=max(memory_s * slowdown, link_s), size=64)
        backend.launch(seconds=link_s)
        return backend.launch(seconds=memory_s * slowdown, size=64)

    return step


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("share", [0.02, 0.5])
@pytest.mark.parametrize("slowdown", [1.0, 2.0])
def test_a_spilled_model_is_judged_against_the_slower_path(share: float, overlap: bool, slowdown: float) -> None:
    """Half as fast as both paths allow is half of the ceiling, whether they add up or overlap, whichever is slower."""
    backend, roofline = instrument(link_bytes_per_s=25 * GB)
    step = spilled_step(backend, share, slowdown=slowdown, overlap=overlap)
    result = roofline.decode(step, traffic=WEIGHTS, offload=share, overlap=overlap, passes_per_reset=10**6)
    assert float(result.fraction) == pytest.approx(1 / slowdown, rel=0.05)
    assert result.ceiling.bound == ("memory" if share == 0.02 else "link")
    assert result.verdict.outcome == "passed"
    scheme = "overlapped: the slower path counts" if overlap else "the times add up"
    assert any("per pass come through the spill path at 25" in note and scheme in note for note in result.notes)
    assert "of them over the link" in repr(result.fraction)


def test_a_budget_that_is_missed_over_the_link_names_both_paths() -> None:
    """The message says that the ceiling is that of memory and link."""
    backend, roofline = instrument(Settings(at_least=parse_budget(0.9, "test")))
    step = spilled_step(backend, 0.5, slowdown=2.0)
    result = roofline.decode(step, traffic=WEIGHTS, offload=0.5, passes_per_reset=10**6)
    assert result.verdict.outcome == "failed"
    from pytest_roofline.verdict import error_of

    error = str(error_of(result.evidence, result.verdict))
    assert error.startswith("50 % of the probed read and link ceiling") and "link-bound" in error


def test_weights_beside_the_memory_are_not_held_against_its_bandwidth() -> None:
    """Spilled weights that the host multiplies by itself move through no memory of the device: nobody is bogus."""
    backend, roofline = instrument(link_bytes_per_s=25 * GB)
    own = backend.buffer(WEIGHTS / 4, role="weights")
    result = roofline.decode(
        lambda: backend.launch(buffer=own, size=64), traffic=WEIGHTS, offload=0.75, overlap=True, passes_per_reset=10**6
    )
    assert result.verdict.outcome == "inconclusive"  # 1 GB of 4 in the time for one: faster than the link, and no lie


@pytest.mark.parametrize(("overlap", "seconds"), [(False, 3e-3 + 40e-3), (True, 40e-3)])
def test_the_ceiling_of_a_spilled_model_is_that_of_predict(overlap: bool, seconds: float) -> None:
    """The same arithmetic: 3 GB at 1 TB/s and 1 GB at 25 GB/s, added up or the slower of the two."""
    _, roofline = instrument(link_bytes_per_s=25 * GB)
    found = roofline.ceiling(WEIGHTS, offload=0.25, overlap=overlap)
    assert found.step_s == pytest.approx(seconds, rel=0.05)
    assert found.to_dict()["spill_bytes_per_pass"] == GB
    assert (found.bound, found.is_overlapped) == ("link", overlap)
    assert found.floor_s(2 * found.bandwidth_bytes_per_s) == pytest.approx(
        seconds if overlap else seconds - 1.5e-3, rel=0.05
    )


def test_only_weights_are_spilled() -> None:
    """KV cache and writes stay where they are."""
    traffic = declared_traffic(3 * GB, 1 * GB)
    _, roofline = instrument()
    assert roofline.ceiling(traffic, offload=1.0).traffic.spilled_bytes_per_pass == 3 * GB


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), True, "half"])
def test_a_share_that_is_none_is_wrong_use(share: Any) -> None:
    """The words are those of predict."""
    _, roofline = instrument()
    with pytest.raises(RooflineUsageError, match="a share of the weights from 0 to 1 is needed"):
        roofline.ceiling(WEIGHTS, offload=share)


def test_a_device_without_a_link_has_no_ceiling_for_spilled_weights() -> None:
    """Nothing is guessed."""
    _, roofline = instrument(link_bytes_per_s=None)
    with pytest.raises(RooflineUsageError, match="the link of fake:0 cannot be measured"):
        roofline.ceiling(WEIGHTS, offload=0.5)


# -- bytes on two devices, as a trace sees them


class TwoPlaces(FakeBackend):
    """Its traces see a part of the weights, beside its own, in the host's memory or on a peer."""

    where: tuple[str, float] = ("", 0.0)

    def trace(self, request: Any) -> Any:
        """What the fake saw, and those."""
        found = super().trace(request)
        if found is None:
            return None
        name, size = self.where
        counted = found.traffic
        grown = {
            f"{key}_bytes_per_pass": getattr(counted, f"{key}_bytes_per_pass") + size for key in ("weight", "least")
        }
        traffic = replace(counted, bytes_per_pass=counted.bytes_per_pass + size, **grown)
        by_device = (*found.bytes_by_device, (name, size))
        return replace(found, traffic=traffic, device_ids=(*found.device_ids, name), bytes_by_device=by_device)


def seen_elsewhere(backend: TwoPlaces, where: str, link_s: float, settings: Settings | None = None) -> Any:
    """A decode whose trace saw a quarter of the weights there."""
    backend.where = (where, WEIGHTS / 4)
    roofline = Instrument(Session(added_backends=[backend]), settings)
    model = FakeModel(backend, WEIGHTS * 3 / 4)

    def step() -> Any:
        backend.launch(seconds=link_s)
        return model.step()

    return roofline.decode(step, model=model, passes_per_reset=10**6)


def test_weights_that_a_trace_saw_with_the_host_come_over_the_link() -> None:
    """Offloaded modules need no word of the caller: the ceiling is that of both paths in turn."""
    result = seen_elsewhere(TwoPlaces(link_bytes_per_s=25 * GB), "cpu", 40e-3)
    assert float(result.fraction) == pytest.approx(1.0, rel=0.05)
    assert result.ceiling.bound == "link"
    assert result.traffic.spilled_bytes_per_pass == GB


@pytest.mark.parametrize(("where", "link"), [("cpu", None), ("fake:1", 25 * GB)])
def test_weights_on_another_device_without_a_known_path_are_not_judged(where: str, link: float | None) -> None:
    """Neither accused nor failed: the message says what lies where."""
    settings = Settings(at_least=parse_budget(0.9, "test"))
    result = seen_elsewhere(TwoPlaces(devices=2, link_bytes_per_s=link), where, 40e-3, settings)
    assert result.verdict.outcome == "inconclusive"
    assert any(f"1.00 GB on {where}" in finding.message for finding in result.findings)


def test_what_is_too_small_to_matter_elsewhere_is_no_other_place() -> None:
    """Positions and ids come from the host in every honest program."""
    backend = TwoPlaces(link_bytes_per_s=None)
    backend.where = ("cpu", 64.0)
    roofline = Instrument(Session(added_backends=[backend]))
    model = FakeModel(backend, WEIGHTS)
    assert roofline.decode(model.step, model=model, passes_per_reset=10**6).verdict.outcome == "passed"


def test_more_said_to_be_spilled_than_a_trace_leaves_room_for_is_not_judged() -> None:
    """All of the weights were read in the device's memory: half of them over the link would be a floor too high."""
    backend, roofline = instrument()
    model = FakeModel(backend, WEIGHTS, efficiency=0.2)
    result = roofline.decode(model.step, model=model, offload=0.1, passes_per_reset=10**6)
    assert result.verdict.outcome == "inconclusive"
    (finding,) = [one for one in result.findings if one.check == "bytes-disagree"]
    assert "400 MB per pass said to lie outside" in finding.message and "4.00 GB of 4.00 GB" in finding.message


class OffloadedGenerator(FakeBackend):
    """Its generating models keep a quarter of their weights with the host."""

    def watch_generation(self, request: Any, drain: Any) -> Any:
        """The fake's watch, whose first look sees where the weights lie."""
        watch = super().watch_generation(request, drain)
        look = watch.look
        places = {"device_ids": ("fake:0", "cpu"), "bytes_by_device": (("fake:0", 3 * GB), ("cpu", GB))}
        watch.look = lambda: replace(look(), **places)  # type: ignore[method-assign]
        return watch


def test_generation_by_an_offloaded_model_is_not_judged_by_the_memory_alone() -> None:
    """The ceiling of one memory would fail an honest model."""
    backend = OffloadedGenerator()
    roofline = Instrument(Session(added_backends=[backend]), Settings(at_least=parse_budget(0.9, "test")))
    model = FakeGenerator(backend, WEIGHTS, efficiency=0.3)
    result = roofline.generate(model, {"input_ids": [[5] * 300]}, max_new_tokens=9)
    assert result.verdict.outcome == "inconclusive"
    assert any("1.00 GB on cpu" in finding.message for finding in result.findings)
