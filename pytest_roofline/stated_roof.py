"""The roof over a server that nobody here can probe: what the user states of its model and its device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_roofline.checks.evidence import MEASURED_SLACK, SHEET_SLACK, Limit
from pytest_roofline.device import Device, Spec
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.machine import Machine
from pytest_roofline.roofline import Ceiling
from pytest_roofline.traffic import Traffic
from pytest_roofline.units import format_bytes, format_bytes_per_s, parse_bytes_per_s, parse_flops_per_s

UNSTATED = Device(name="an endpoint", kind="remote", backend="remote")
"""The device of a server of which nothing was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRoof:
    """Ceilings and the limit of one machine, ranks together, for passes of a model that was stated.

    Ranks are taken to divide everything and to exchange nothing, which is the most that they can do.
    """

    machine: Machine
    device: Device
    traffic_at: Callable[[int, int], Traffic]
    """A pass at so many sequences and so many tokens of context each."""
    tokens_per_pass: float = 1.0
    slack: float = SHEET_SLACK

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Of all ranks."""
        return self.machine.ranks * self.machine.bandwidth_bytes_per_s

    @property
    def knee_bytes(self) -> float:
        """What the caches of all ranks may hold, by the data sheet; 0 where it does not say."""
        spec = self.device.spec
        return self.machine.ranks * (spec.last_level_cache_bytes or 0.0) if spec is not None else 0.0

    @property
    def overflow(self) -> str:
        """Why the model cannot be what runs on the device: a pass reads more than its memory holds; else empty."""
        memory_bytes, read = self.machine.memory_bytes, self.traffic_at(1, 0).least_bytes_per_pass
        if memory_bytes is None or self.machine.holds(read / self.machine.ranks):
            return ""
        return (
            f"the stated model cannot run there: {format_bytes(read)} per pass, {self.machine.ranks} x "
            f"{format_bytes(memory_bytes)} of memory on {self.machine.name}"
        )

    @property
    def limit(self) -> Limit:
        """The largest credible bandwidth. A figure of the user's own may be of any pattern: it has the wider slack."""
        ranks = f"{self.machine.ranks} x " if self.machine.ranks > 1 else ""
        rate = format_bytes_per_s(self.machine.bandwidth_bytes_per_s)
        return Limit(
            bytes_per_s=self.bandwidth_bytes_per_s,
            slack=self.slack,
            source=f"{ranks}{rate} as stated ({self.machine.bandwidth_source})",
        )

    @property
    def peak_limit_flops_per_s(self) -> float | None:
        """The largest dense peak of any dtype, of all ranks."""
        peak = self.machine.largest_peak_flops_per_s
        return None if peak is None else self.machine.ranks * peak

    def ceiling(self, batch: int, context: float) -> Ceiling:
        """At so many sequences at once."""
        traffic = self.traffic_at(max(1, batch), max(0, round(context)))
        peak = self.machine.peak(traffic.dtype) if traffic.dtype and traffic.flops_per_pass else None
        return Ceiling(
            traffic=traffic,
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s,
            bandwidth_source=f"stated ({self.machine.name})",
            peak_flops_per_s=None if peak is None else self.machine.ranks * peak[0],
            peak_source=None if peak is None else peak[1],
            batch=max(1, batch),
            tokens_per_pass=self.tokens_per_pass,
        )


def stated_roof(
    device: str | None,
    bandwidth: float | str | None,
    peak: float | str | None,
    *,
    tp: int,
    traffic_at: Callable[[int, int], Traffic],
    tokens_per_pass: float,
    specs_paths: Sequence[str] = (),
) -> StatedRoof:
    """The roof by a device's name, or by its figures. RooflineUsageError with the nearest names for an unknown one."""
    # Who states nothing never needs the library of specs: it is read when it is asked for.
    from pytest_roofline.predict import Given, machine_of
    from pytest_roofline.specs.catalogue import Catalogue

    catalogue = Catalogue(specs_paths)
    given = Given(
        bandwidth_bytes_per_s=_figure(bandwidth, "bandwidth", parse_bytes_per_s),
        peak_flops_per_s=_figure(peak, "peak", parse_flops_per_s),
        ranks=tp,
    )
    machine = machine_of(device, given, catalogue)
    spec: Spec | None = catalogue.device(device) if device is not None else None
    return StatedRoof(
        machine=machine,
        device=Device(
            name=machine.name,
            kind="remote",
            backend="remote",
            vendor=spec.vendor if spec else None,
            memory_bytes=machine.memory_bytes,
            spec=spec,
            notes=("stated, not seen",),
        ),
        traffic_at=traffic_at,
        tokens_per_pass=tokens_per_pass,
        slack=SHEET_SLACK if given.bandwidth_bytes_per_s is None else MEASURED_SLACK,
    )


def _figure(value: float | str | None, name: str, parse: Callable[[str], float]) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise RooflineUsageError(f"{name} is {value!r}; a positive figure in SI units, or text such as '3.35TB/s'")
    return float(value)
