"""What a part of the `roofline` fixture needs of the whole: where things are, and where results are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from pytest_roofline.bench import Bench
from pytest_roofline.checks import Check
from pytest_roofline.device import Device
from pytest_roofline.placement import Placement
from pytest_roofline.protocol import Backend
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings
from pytest_roofline.traffic import Traffic


class InstrumentPart(ABC):
    """Some methods of the instrument, in a room of their own."""

    _session: Session
    _settings: Settings
    _placement: Placement
    _checks: Sequence[Check]

    @abstractmethod
    def traffic(
        self,
        model: Any,
        *,
        batch: int | None = None,
        context: int | None = None,
        step: Callable[..., Any] | None = None,
        weights: str | None = None,
        kv: str | None = None,
    ) -> Traffic:
        """Bytes and FLOPs of one pass of `model`."""

    @abstractmethod
    def _bench(self, device: Device, backend: Backend) -> Bench:
        """The place of a measurement."""

    @abstractmethod
    def _time(self, max_time_s: float | None) -> float:
        """How long a measurement may take, in seconds: as the call says, else as the settings do."""

    @abstractmethod
    def _keep(self, result: Result) -> Result:
        """Remember and report a result; a bogus one raises at once."""
