"""Checks that may not decide: by marker, command line, environment and ini, and always said."""

from __future__ import annotations

import pytest
from inner_runs import Run, record_of

from pytest_roofline.checks.evidence import CHECK_NAMES

UNDECIDED = """
import pytest

{marker}
def test_it(roofline, small):
    result = roofline.decode(small.step, model=small)
    print("allowed", *result.verdict.allowed)
"""
PLAIN = UNDECIDED.format(marker="@pytest.mark.roofline(at_least=0.5)")
MARKED = UNDECIDED.format(marker="@pytest.mark.roofline(at_least=0.5, allow=('cache-resident',))")


def test_without_allowing_it_the_cache_leaves_no_verdict(run: Run) -> None:
    """What the other tests of this file allow does decide."""
    run(PLAIN).assert_outcomes(skipped=1)


@pytest.mark.parametrize("source", ["marker", "command line", "environment", "ini"])
def test_each_source_may_allow_a_check(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """The test passes, and the row, the note, the verdict and the record say by grace of what."""
    arguments = ["-s", "--junitxml=junit.xml"]
    if source == "command line":
        arguments.append("--roofline-allow=cache-resident, drifted")
    elif source == "environment":
        monkeypatch.setenv("PYTEST_ROOFLINE_ALLOW", "cache-resident")
    elif source == "ini":
        pytester.makeini("[pytest]\nroofline_allow = cache-resident\n")
    result = run(MARKED if source == "marker" else PLAIN, *arguments)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*allowed cache-resident*"])
    result.stdout.fnmatch_lines(
        ["test_it * passed (1 allowed)", "  test_it: cache-resident allowed: a pass touches 60.0 MB and *"]
    )
    (record,) = record_of(pytester, "test_it")["results"]
    assert record["allowed"] == ["cache-resident"]
    (finding,) = [finding for finding in record["findings"] if finding["check"] == "cache-resident"]
    assert finding["severity"] == "note"
    assert finding["message"].endswith(" (allowed, so it decides nothing)")


def test_a_marker_goes_before_the_options(run: Run) -> None:
    """A test that names what it allows is not allowed more by the command line; an empty tuple allows nothing."""
    other = UNDECIDED.format(marker="@pytest.mark.roofline(at_least=0.5, allow=('drifted',))")
    none = UNDECIDED.format(marker="@pytest.mark.roofline(at_least=0.5, allow=())")
    for source in (other, none):
        run(source, "--roofline-allow=cache-resident").assert_outcomes(skipped=1)


def test_an_allowed_check_hides_no_other(run: Run) -> None:
    """Everything else allowed, each cheat is still refused by its own check; and its own name excuses it alone."""
    others = ",".join(name for name in CHECK_NAMES if name != "bytes-disagree")
    source = """
    def test_it(roofline, model):
        roofline.decode(model.step, traffic=3e9, reset=model.reset)
    """
    result = run(source, f"--roofline-allow={others}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*BogusMeasurement: *bytes-disagree*"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("cache", "no check is named cache; known: not-drained, *rank-window"),
        (
            "cache-residnt,drift",
            "*named cache-residnt, drift; did you mean cache-resident or drifted? known: *",
        ),
    ],
)
def test_an_unknown_name_is_a_usage_error(run: Run, given: str, message: str) -> None:
    """Before anything runs, with the nearest names."""
    result = run("def test_it(): pass\n", f"--roofline-allow={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --roofline-allow: {message}"])
