"""What the reports of a run carried. Under xdist the controller keeps it: it sees the reports of all workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest

from pytest_roofline.reruns import is_run_again

RECORD = "roofline"
"""The user property with the record of a test, as JSON text."""
ABSENT = "roofline.absent"
"""The user property that says which device a test did not find."""
ORIGIN = "roofline_origin"
"""The attribute of a report that says, as JSON text, where the figures of its process come from, once it knows more."""
WORDS: Mapping[str, tuple[str, tuple[str, dict[str, bool]]]] = MappingProxyType(
    {
        "bogus": ("B", ("BOGUS", {"red": True})),
        "inconclusive": ("I", ("INCONCLUSIVE", {"yellow": True})),
    }
)


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

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str | tuple[str, dict[str, bool]]] | None:
        """Letter and word of a bogus or inconclusive test; outcome and category stay pytest's."""
        return status_of(report)


TALLY: pytest.StashKey[Tally] = pytest.StashKey()


def tally_of(config: pytest.Config) -> Tally:
    """The tally of this run; it counts from the first call on."""
    if TALLY not in config.stash:
        config.stash[TALLY] = Tally()
        config.pluginmanager.register(config.stash[TALLY], "roofline-tally")
    return config.stash[TALLY]


def status_of(report: Any) -> tuple[str, str, str | tuple[str, dict[str, bool]]] | None:
    """Letter and word of a bogus or inconclusive test; None for what is no report of one."""
    if report.when != "call" or is_run_again(report.outcome) or hasattr(report, "wasxfail"):
        return None
    standing = str(dict(report.user_properties).get("roofline.verdict"))
    if standing not in WORDS or (standing == "bogus" and not report.failed):
        return None
    letter, word = WORDS[standing]
    # The short summary of pytest before 8.3 knows no word with a colour.
    return report.outcome, letter, word if pytest.version_tuple >= (8, 3) else word[0]
