"""Which device a measurement happens on: the one that holds the bytes of the pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.protocol import Backend
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings


class Placement:
    """Finds device and backend by what the caller asked for, what the model is on, and what the pass touched."""

    def __init__(self, session: Session, settings: Settings) -> None:
        self._session = session
        self._settings = settings

    def device_of_pass(self, device: Device, touched: str | None, asked: str | None) -> Device:
        """The device whose memory the pass touched; an error where another one was asked for."""
        if touched is None or touched == device.id:
            return device
        found = self._session.find_device(touched)
        if asked is not None and found.id != self._session.find_device(asked).id:
            raise RooflineUsageError(
                f"the step reads memory of {touched}, but {asked!r} was asked for: move the model, or drop device="
            )
        return found

    def place(self, wanted: str | None, model: Any, holders: Sequence[Any] = ()) -> tuple[Device, Backend]:
        """The device that holds the bytes of the pass, and the backend that drives it, as far as can be seen now.

        The model decides, and being elsewhere than asked is an error. Else the device asked for; else what the step
        and its inputs hold (the trace has the last word there); else the session's default.
        """
        asked = wanted or self._settings.device
        found = self._holder(model)
        if found is not None:
            device, backend = found
            if self._settings.mode != "off" and asked and self._session.find_device(asked).id != device.id:
                raise RooflineUsageError(
                    f"the model is on {device.id}, but {asked!r} was asked for: move the model, or drop device="
                )
            return device, backend
        if asked is not None and self._settings.mode == "off":
            asked = None  # nothing is measured, so a device that is not here is missed by nobody
        if asked is None:
            for holder in holders:
                found = self._holder(holder)
                if found is not None:
                    return found
        device = self._session.find_device(asked)
        return device, self._session.backend_of(device)

    def _holder(self, holder: Any) -> tuple[Device, Backend] | None:
        """The device that holds this, and its backend; None for what no backend knows."""
        if holder is None:
            return None
        for backend in self._session.backends.loaded():
            name = backend.device_of(holder)
            if name is not None:
                device = next((device for device in backend.devices() if device.id == name), None)
                return device or self._session.find_device(name), backend
        return None
