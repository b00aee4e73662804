"""What only CUDA has, with stand-ins for the device's properties, the driver's library and the graphs."""

from __future__ import annotations

import gc
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_roofline.backends import torch_cuda  # noqa: E402
from pytest_roofline.backends.nvml import NvmlFacts, NvmlMissingError  # noqa: E402
from pytest_roofline.backends.torch import TorchBackend  # noqa: E402
from pytest_roofline.backends.torch_accelerator import Accelerator  # noqa: E402
from pytest_roofline.backends.torch_cuda import CudaAccelerator  # noqa: E402
from pytest_roofline.device import Device, Spec  # noqa: E402
from pytest_roofline.protocol import Conditions  # noqa: E402
from pytest_roofline.specs import load_devices  # noqa: E402

GIB = 2**30
H100 = "NVIDIA H100 80GB HBM3"
A100 = "NVIDIA A100-SXM4-80GB"


class Properties:
    """The property record of a device."""

    def __init__(self, **members: Any) -> None:
        self.total_memory = 79.1 * GIB
        self.multi_processor_count = 132
        self.L2_cache_size = 50 * 2**20
        self.uuid = "1234-5678"
        self.is_integrated = 0
        self.__dict__.update(members)


class Driver:
    """NVML as the layer uses it."""

    def __init__(self, **facts: Any) -> None:
        known = {
            "uuid": "GPU-1234-5678",
            "bus_width_bits": 5120,
            "memory_clock_hz": 2619e6,
            "has_ecc": True,
            "is_overclocked": False,
            "driver": "550",
            "card_memory_bytes": 80 * GIB,
        }
        self._facts = NvmlFacts(**(known | facts))
        self.asked: list[Any] = []

    def facts(self, uuid: Any, bus_id: Any) -> NvmlFacts:
        """What it was made with."""
        self.asked.append((uuid, bus_id))
        return self._facts

    def conditions(self, uuid: Any, bus_id: Any) -> Conditions:
        """A hot device."""
        self.asked.append((uuid, bus_id))
        return Conditions(temperature_c=91.0)


@pytest.fixture(scope="module")
def cards() -> tuple[Spec, ...]:
    """The package's own cards."""
    return load_devices()


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, cards: tuple[Spec, ...]) -> Any:
    """Make a CUDA layer for a device of that name."""

    def made(name: str = H100, driver: Any = None, **members: Any) -> CudaAccelerator:
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: name)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: Properties(**members))
        cuda = CudaAccelerator(specs=cards, nvml=driver or Driver())
        cuda._count = 2
        return cuda

    return made


def test_an_ordinary_card(make: Any) -> None:
    """Everything is known and nothing is noted."""
    found = make().device(1)
    assert (found.id, found.name, found.vendor, found.uuid) == ("cuda:1", H100, "NVIDIA", "GPU-1234-5678")
    assert found.spec.id == "h100-sxm"
    assert found.driver_bandwidth_bytes_per_s == pytest.approx(3.352e12, rel=1e-3)
    assert (found.bus_width_bits, found.memory_clock_hz) == (5120, 2619e6)
    assert (found.compute_units, found.last_level_cache_bytes) == (132, 50 * 2**20)
    assert (found.is_unified_memory, found.has_ecc, found.is_overclocked, found.mig) == (False, True, False, None)
    assert (found.driver, found.notes) == ("550", ())


def test_nvml_is_asked_by_uuid_and_bus_id(make: Any) -> None:
    """Never by an index: CUDA_VISIBLE_DEVICES renumbers."""
    driver = Driver()
    make(driver=driver, pci_bus_id=0x1B, pci_device_id=0, pci_domain_id=0).device(0)
    assert driver.asked == [("GPU-1234-5678", "00000000:1B:00.0")]


def test_without_nvml_cudas_own_properties_serve(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Width and clock are there in newer versions of torch; one note says what is missing, once."""
    loads: list[int] = []

    def missing() -> Any:
        loads.append(1)
        raise NvmlMissingError("NVML: not available")

    monkeypatch.setattr(torch_cuda, "Nvml", missing)
    cuda = make(memory_bus_width=5120, memory_clock_rate=2619000)
    cuda._nvml = None
    found = cuda.device(0)
    assert found.driver_bandwidth_bytes_per_s == pytest.approx(3.352e12, rel=1e-3)
    assert found.uuid == "GPU-1234-5678"
    assert found.spec.id == "h100-sxm"
    assert found.notes == ("NVML: not available",)
    assert cuda.conditions(found) == Conditions()
    assert loads == [1]


def test_an_older_torch_without_nvml_knows_name_and_memory(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Still the right card, by its data sheet."""
    cuda = make(uuid=None)
    cuda._nvml, cuda._nvml_problem = None, "NVML: not available"
    found = cuda.device(0)
    assert (found.driver_bandwidth_bytes_per_s, found.uuid) == (None, None)
    assert found.spec.id == "h100-sxm"


def test_unified_memory_has_no_bandwidth_from_its_clock(make: Any) -> None:
    """What CUDA says of a Jetson multiplies to a fifth of the truth."""
    driver = Driver(bus_width_bits=None, memory_clock_hz=None, card_memory_bytes=None, memory_bytes=None)
    found = make(
        "NVIDIA GB10",
        driver,
        is_integrated=1,
        total_memory=128.5e9,
        memory_bus_width=128,
        memory_clock_rate=1_300_000,
    ).device(0)
    assert found.is_unified_memory is True
    assert found.driver_bandwidth_bytes_per_s is None
    assert found.spec.id == "gb10"
    assert any("shared with the host" in note for note in found.notes)


@pytest.mark.parametrize("name", ["Orin", "NVIDIA Thor", "NVIDIA GB10"])
def test_unified_parts_are_known_by_name_too(make: Any, name: str) -> None:
    """Some drivers do not set the flag."""
    assert make(name).device(0).is_unified_memory is True


def test_a_mig_slice_is_the_slice(make: Any) -> None:
    """Its memory, and its share of the card's bandwidth, cache and data sheet."""
    driver = Driver(
        uuid="MIG-1234-5678",
        memory_clock_hz=1593e6,
        mig="1g.10gb",
        mig_memory_fraction=1 / 8,
        memory_bytes=9.5 * GIB,
    )
    found = make(f"{A100} MIG 1g.10gb", driver, total_memory=9.5 * GIB, multi_processor_count=14).device(0)
    assert (found.mig, found.uuid) == ("1g.10gb", "MIG-1234-5678")
    assert found.memory_bytes == 9.5 * GIB
    assert found.driver_bandwidth_bytes_per_s == pytest.approx(2.039e12 / 8, rel=1e-3)
    assert found.spec.name == "NVIDIA A100 SXM 80 GB, MIG 1g.10gb"
    assert found.spec.bandwidth_bytes_per_s == pytest.approx(2.039e12 / 8)
    assert found.spec.memory_bytes == pytest.approx(10e9)


def test_a_mig_slice_of_unknown_share_has_no_sheet(make: Any) -> None:
    """Rather no limit than that of the whole card or of another slice."""
    driver = Driver(mig=None, card_memory_bytes=None, notes=("NVML: no device",))
    found = make(f"{A100} MIG 1g.10gb", driver, total_memory=9.5 * GIB).device(0)
    assert (found.mig, found.spec, found.driver_bandwidth_bytes_per_s) == ("unknown profile", None, None)
    assert any("share of the card is not known" in note for note in found.notes)


@pytest.mark.parametrize(
    ("clock_hz", "spec_id", "has_rate"),
    [(1000e6, "h100-sxm", False), (3500e6, None, True)],
)
def test_where_driver_and_sheet_disagree_the_larger_stays(
    make: Any, clock_hz: float, spec_id: str | None, has_rate: bool
) -> None:
    """A limit that is too low would accuse honest measurements; a note tells of both."""
    found = make(driver=Driver(memory_clock_hz=clock_hz)).device(0)
    assert (found.spec.id if found.spec else None) == spec_id
    assert (found.driver_bandwidth_bytes_per_s is not None) is has_rate
    assert (found.contradicted_spec.id if found.contradicted_spec else None) == (None if spec_id else "h100-sxm")
    assert any("the data sheet says 3.35 TB/s" in note for note in found.notes)


def test_an_unknown_card_keeps_the_drivers_rate(make: Any) -> None:
    """No sheet is needed where the driver tells."""
    found = make("NVIDIA Future 9000").device(0)
    assert found.spec is None
    assert found.driver_bandwidth_bytes_per_s == pytest.approx(3.352e12, rel=1e-3)


def test_properties_that_cannot_be_read_cost_fields(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is there all the same."""
    cuda = make()

    def refuse(index: int) -> Any:
        raise RuntimeError("CUDA error: unknown error")

    monkeypatch.setattr(torch.cuda, "get_device_properties", refuse)
    found = cuda.device(0)
    assert (found.name, found.compute_units) == (H100, None)
    assert any("CUDA error" in note for note in found.notes)


def test_rocm_has_neither_nvml_nor_a_bandwidth_from_its_clock(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clock and width give half the rate on some parts."""
    monkeypatch.setattr(torch.version, "hip", "6.4")
    cuda = make(
        "AMD Instinct MI300X", total_memory=206e9, memory_bus_width=8192, memory_clock_rate=1_300_000, uuid=None
    )
    found = cuda.device(0)
    assert (found.vendor, found.spec.id, found.driver_bandwidth_bytes_per_s) == ("AMD", "mi300x", None)
    assert cuda.conditions(found) == Conditions()


def test_conditions_come_from_nvml(make: Any) -> None:
    """By uuid; by bus id where there is none."""
    driver = Driver()
    cuda = make(driver=driver, pci_bus_id=2, pci_device_id=1)
    device = Device(name=H100, kind="cuda", backend="torch", uuid="GPU-1")
    assert cuda.conditions(device).temperature_c == 91.0
    cuda.conditions(Device(name=H100, kind="cuda", backend="torch"))
    assert driver.asked == [("GPU-1", None), (None, "00000000:02:01.0")]


def test_a_primary_context_is_asked_for_not_made(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch knows; where a build does not tell, memory that was taken does."""
    cuda = make()
    monkeypatch.setattr(torch._C, "_cuda_hasPrimaryContext", lambda index: index == 1, raising=False)
    assert [cuda.has_context(index) for index in (0, 1)] == [False, True]
    monkeypatch.delattr(torch._C, "_cuda_hasPrimaryContext")
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda index: 0)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda index: 7 if index == 0 else 0)
    assert [cuda.has_context(index) for index in (0, 1)] == [True, False]


class Graphs:
    """Stands in for the streams and graphs of torch.cuda, and records what happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
        self.log: list[str] = []
        log, graphs = self.log, self

        class Stream:
            def wait_stream(self, other: Any) -> None:
                """Nothing to wait for."""

            def synchronize(self) -> None:
                log.append("synchronize")

        class Graph:
            def capture_begin(self, **options: Any) -> None:
                assert not gc.isenabled()
                if fails:
                    raise RuntimeError("capture failed")
                log.append(f"begin {options['capture_error_mode']}")

            def capture_end(self) -> None:
                log.append("end")

            def replay(self) -> None:
                log.append(f"replay on {graphs.current}")

        @contextmanager
        def device(index: int) -> Any:
            graphs.current = index
            yield
            graphs.current = None

        self.current: int | None = None
        monkeypatch.setattr(torch.cuda, "device", device)
        monkeypatch.setattr(torch.cuda, "Stream", lambda index: Stream())
        monkeypatch.setattr(torch.cuda, "current_stream", lambda index: Stream())
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)


def test_a_short_launch_becomes_a_graph_of_many(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run once outside, captured with the collector held, and replayed on its own device."""
    graphs = Graphs(monkeypatch)
    launch, times = make().repeated(lambda: graphs.log.append("launch"), 1, 10e-6)
    assert times == 30
    assert graphs.log == []
    launch()
    assert graphs.log.pop() == "replay on 1"
    assert graphs.log == ["launch", "synchronize", "begin thread_local", *["launch"] * 30, "end"]
    assert gc.isenabled()
    launch()
    assert graphs.log[-1] == "replay on 1"


@pytest.mark.parametrize(("seconds", "times"), [(99e-6, 4), (1e-9, 256), (0.0, 256), (100e-6, 1), (1.0, 1)])
def test_how_often_depends_on_the_length(
    make: Any, monkeypatch: pytest.MonkeyPatch, seconds: float, times: int
) -> None:
    """Long launches stay as they are."""
    Graphs(monkeypatch)
    assert make().repeated(lambda: None, 0, seconds)[1] == times


def test_a_capture_that_fails_leaves_a_loop(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count of bytes stays right, and the collector is as it was."""
    graphs = Graphs(monkeypatch, fails=True)
    launch, times = make().repeated(lambda: graphs.log.append("launch"), 0, 100e-6 / 2)
    launch()
    graphs.log.clear()
    launch()
    assert graphs.log == ["launch"] * times
    assert gc.isenabled()
    gc.disable()
    try:
        make().repeated(lambda: None, 0, 1e-6)[0]()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_counter_is_asked_by_uuid_with_the_drivers_peak(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML's count of memory traffic, on the backend's clock; none without NVML, on ROCm and on the CPU."""
    asked: list[Any] = []

    def opened(nvml: Any, uuid: Any, bus_id: Any, *, peak_bytes_per_s: Any, clock: Any) -> str:
        asked.append((uuid, bus_id, peak_bytes_per_s, clock()))
        return "counter"

    monkeypatch.setattr(torch_cuda, "open_gpm", opened)
    cuda = make()
    backend = TorchBackend(accelerator=cuda, clock=lambda: 7.0)
    device = cuda.device(1)
    assert backend.traffic_counter(device) == "counter"
    assert asked == [("GPU-1234-5678", None, device.driver_bandwidth_bytes_per_s, 7.0)]
    assert backend.traffic_counter(backend.devices()[-1]) is None
    monkeypatch.setattr(torch.version, "hip", "6.0")
    assert cuda.traffic_counter(device, lambda: 0.0) is None
    monkeypatch.setattr(torch.version, "hip", None)

    def missing() -> Any:
        raise NvmlMissingError("NVML: not available")

    monkeypatch.setattr(torch_cuda, "Nvml", missing)
    assert CudaAccelerator(specs=()).traffic_counter(device, lambda: 0.0) is None
    assert Accelerator("xpu", specs=()).traffic_counter(device, lambda: 0.0) is None
