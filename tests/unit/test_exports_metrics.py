"""OpenMetrics text, read by the parser of prometheus_client, and GitLab's report, read as GitLab reads it."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_documents import HOSTILE, bogus, case, document, doubtful, hostile, mixed, result

from pytest_roofline.exports.gitlab import gitlab_metrics
from pytest_roofline.exports.openmetrics import GAUGES, openmetrics


def families(text: str) -> dict[str, Any]:
    """Every family by its name, by the parser of the format's own client library."""
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    return {family.name: family for family in parser.text_string_to_metric_families(text)}


def gitlab_reads(text: str) -> dict[str, str]:
    """What GitLab takes from a report: each line cut at the first #, split as a shell does, name and value."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        words = shlex.split(re.sub(r"#.*$", "", line))
        if len(words) > 1:
            assert words[0] not in found
            found[words[0]] = words[1]
    return found


def test_the_client_library_reads_it() -> None:
    """Types, units and help are there, and each true result has a sample in each family that it has a figure for."""
    found = families(openmetrics(mixed()))
    fraction = found["roofline_fraction_ratio"]
    assert (fraction.type, fraction.unit) == ("gauge", "ratio")
    assert fraction.documentation == "Fraction of the probed ceiling of the device that was reached"
    assert {sample.labels["test"]: sample.value for sample in fraction.samples} == {
        "t.py::test_passed": 0.746,
        "t.py::test_failed": 0.41,
    }
    assert found["roofline_pass_seconds"].samples[0].value == 0.8e-3
    assert found["roofline_rate_tokens_per_second"].samples[0].value == 1250.0
    assert "roofline_rate_calls_per_second" not in found
    assert found["roofline_run"].samples[0].labels["version"] == "0.1.0"


def test_tests_without_figures_are_counted_and_labelled() -> None:
    """By verdict, and each test by a state set of which one is 1."""
    found = families(openmetrics(mixed()))
    counted = {sample.labels["verdict"]: sample.value for sample in found["roofline_tests"].samples}
    assert counted["bogus"] == counted["inconclusive"] == counted["crashed"] == 1
    states = {
        sample.labels["test"]: sample.labels["roofline_test_verdict"]
        for sample in found["roofline_test_verdict"].samples
        if sample.value
    }
    assert states["t.py::test_bogus"] == "bogus"
    assert states["t.py::test_doubt"] == "inconclusive"
    assert len(states) == 6


def test_a_kernel_has_calls_and_no_tokens() -> None:
    """Its rate is another family, for it is another unit."""
    found = families(openmetrics(document(case("a", result(kind="kernel")))))
    assert "roofline_rate_tokens_per_second" not in found
    assert found["roofline_rate_calls_per_second"].samples[0].value == 1250.0


def test_what_was_allowed_is_a_label() -> None:
    """A figure that a doubt was allowed for is no point of the same series."""
    found = families(openmetrics(document(case("a", result(allowed=["cache-resident", "drifted"])))))
    assert found["roofline_fraction_ratio"].samples[0].labels["allowed"] == "cache-resident,drifted"


@pytest.mark.parametrize("gauge", GAUGES, ids=lambda gauge: gauge.name)
def test_a_family_s_name_ends_in_its_unit(gauge: Any) -> None:
    """As the format asks."""
    assert gauge.name.endswith(f"_{gauge.unit}")


def test_hostile_ids_are_labels_like_any_other() -> None:
    """Quotes, line ends, control characters, halves of characters, ten thousand of them: the parser reads each one."""
    text = openmetrics(hostile())
    assert text.endswith("# EOF\n")
    assert len(families(text)["roofline_fraction_ratio"].samples) == len(HOSTILE)


@given(st.lists(st.text(max_size=40), max_size=6))
@settings(max_examples=60, deadline=None)
def test_any_ids_are_read(ids: list[str]) -> None:
    """Whatever tests are called, repeated ones included, both readers read every figure."""
    made = document(*(case(node_id, result()) for node_id in ids))
    found = families(openmetrics(made))
    assert len(found["roofline_fraction_ratio"].samples if ids else []) == len(ids)
    read = gitlab_reads(gitlab_metrics(made))
    assert sum(name.startswith("roofline_fraction_ratio") for name in read) == len(ids)


def test_a_test_that_was_repeated_has_one_state() -> None:
    """Its gravest end; two state sets of one name would be no valid text."""
    made = document(case("a", result()), case("a", bogus()), case("a", doubtful()))
    found = families(openmetrics(made))
    states = [one.labels["roofline_test_verdict"] for one in found["roofline_test_verdict"].samples if one.value]
    assert states == ["bogus"]


def test_gitlab_reads_its_report_as_metrics() -> None:
    """Name with labels and value per line; three digits, for it compares values as text."""
    read = gitlab_reads(gitlab_metrics(mixed()))
    assert read["roofline_fraction_ratio{test=t.py::test_passed,device=cuda:0}"] == "0.746"
    assert read["roofline_tests{verdict=bogus}"] == "1"
    assert not any("test_bogus" in name or "test_doubt" in name for name in read)


def test_gitlab_reads_hostile_ids() -> None:
    """A # in a label would cut the line; each id keeps a metric of its own, in both readers."""
    text = gitlab_metrics(hostile())
    assert sum(name.startswith("roofline_pass_seconds") for name in gitlab_reads(text)) == len(HOSTILE)
    assert len(families(text)["roofline_pass_seconds"].samples) == len(HOSTILE)
    assert not any("#" in line for line in text.split("\n") if not line.startswith("# "))
