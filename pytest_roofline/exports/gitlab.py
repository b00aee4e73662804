"""GitLab's metrics report: what a merge request shows beside the figures of the branch that it goes into.

https://docs.gitlab.com/ci/testing/metrics_reports (``artifacts:reports:metrics``, by default ``metrics.txt``). GitLab
says OpenMetrics and reads less: it cuts each line at the first ``#``, even in a label, splits the rest as a shell
does, and takes the first word as the name and the second as the value. It compares values as text. So a test's id is
written per cent encoded, and figures have three digits: the fourth one differs in every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pytest_roofline.exports.measured import Measured, true_figures, verdicts_in
from pytest_roofline.exports.openmetrics import GAUGES, gauge_lines

NAME = "gitlab-metrics"
SHOWN = frozenset(
    {
        "roofline_fraction_ratio",
        "roofline_pass_seconds",
        "roofline_first_token_seconds",
        "roofline_rate_tokens_per_second",
        "roofline_rate_calls_per_second",
    }
)
"""What a reviewer compares; the rest is in `openmetrics`."""
_PLAIN = "/:[]()+=,@~*"
"""Characters that neither a shell nor OpenMetrics takes for anything else inside of quotes."""


def gitlab_metrics(document: Mapping[str, Any]) -> str:
    """The report; the counts of verdicts are in it even where nothing was measured."""
    gauges = [gauge for gauge in GAUGES if gauge.name in SHOWN]
    lines = [
        *gauge_lines(gauges, true_figures(document), _labels, lambda value: f"{value:.3g}"),
        "# TYPE roofline_tests gauge",
        *(f'roofline_tests{{verdict="{quote(word)}"}} {count}' for word, count in verdicts_in(document).items()),
        "# EOF",
    ]
    return "\n".join(lines) + "\n"


def _labels(one: Measured) -> dict[str, str]:
    return {"test": quote(one.name, safe=_PLAIN), "device": quote(one.device, safe=_PLAIN)}
