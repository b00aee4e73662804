"""What the reports of a run carried. Under xdist the controller keeps it: it sees the reports of all workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

RECORD = "roofline"
"""The user property with the record of a test, as JSON text."""
ABSENT = "roofline.absent"
"""The user property that says which device a test did not find."""


class Tally:
    """Records by node id, devices that tests did not find, and what the run is red for besides its tests."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        self.faults: Sequence[str] = ()
        self.is_header_shown = False

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep what a test left in its user properties; of a test that is run again, the last of it."""
        for name, value in report.user_properties:
            if name == RECORD and report.when == "call":
                self.texts[report.nodeid] = value
                self.absent.pop(report.nodeid, None)  # a former attempt's: now it was there
            elif name == ABSENT:
                self.absent[report.nodeid] = value
