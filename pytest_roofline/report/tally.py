"""What the reports of a run carried. Under xdist the controller keeps it: it sees the reports of all workers."""

from __future__ import annotations

from typing import Any


class Tally:
    """A plugin with one hook. Of a test that is run again, the last record stays."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.is_header_shown = False
        self.has_measured_nothing = False
        """Set at the end of a run that had to measure and did not."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the record that a test left in its user properties."""
        if report.when == "call":
            for name, value in report.user_properties:
                if name == "roofline":
                    self.texts[report.nodeid] = str(value)

    def records(self) -> dict[str, dict[str, Any]]:
        """By node id: what `properties_of` put under ``roofline``."""
        import json

        return {node_id: json.loads(text) for node_id, text in self.texts.items()}

    def has_measured(self) -> bool:
        """Whether any test measured anything."""
        from pytest_roofline.outcome import UNMEASURED

        results = [result for record in self.records().values() for result in record["results"]]
        return any(result["standing"] != UNMEASURED for result in results)
