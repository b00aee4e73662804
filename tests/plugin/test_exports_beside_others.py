"""pytest-benchmark's fixture annotated and pytest-html's page illustrated, each by the real plugin in a process."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from inner_runs import Run
from other_plugins import beside, not_a_worker  # noqa: F401

BENCHMARK = """
import pytest
from conftest import BACKEND

@pytest.mark.benchmark(timer=BACKEND.clock)
def test_honest(benchmark, roofline, model):
    benchmark.pedantic(lambda: (model.step(), BACKEND.drain()), rounds=20)
    assert roofline.annotate(benchmark, model=model).fraction >= 0.6

@pytest.mark.benchmark(timer=BACKEND.clock)
def test_unsynced(benchmark, roofline, model):
    benchmark.pedantic(model.step, rounds=20)
    roofline.annotate(benchmark, model=model)

@pytest.mark.roofline(at_least=0.9)
@pytest.mark.benchmark(timer=BACKEND.clock)
def test_slow(benchmark, roofline, model):
    benchmark.pedantic(lambda: (model.step(), BACKEND.drain()), rounds=20)
    roofline.annotate(benchmark, model=model)
"""

HTML = """
import pytest

@pytest.mark.parametrize("text", ["<b>&\\\\N", "plain"])
def test_good(roofline, model, text):
    roofline.decode(model.step, model=model, label=f"<script>{text}</script>")

def test_bogus(roofline, model):
    roofline.decode(model.step, traffic=5e9)

def test_plain():
    pass

def test_own(roofline, model, extras):
    import pytest_html
    extras.append(pytest_html.extras.text("own", name="mine"))
    roofline.decode(model.step, model=model)
"""


# -- pytest-benchmark -------------------------------------------------------------------------------------------------


def test_benchmarks_are_judged_and_their_json_annotated(run: Run, pytester: pytest.Pytester) -> None:
    """True figures are in the extra information of pytest-benchmark's own file, of a bogus one only the verdict."""
    plugin = beside("pytest_benchmark", "benchmark")
    result = run(BENCHMARK, *plugin, "--benchmark-json=b.json", fresh=True)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*BOGUS *::test_unsynced - BogusMeasurement: * from memory, but this device cannot exceed *",
            "*FAILED *::test_slow - BelowCeiling: 80 % of the probed read ceiling * the test asks for 90 %*",
        ]
    )
    written = json.loads((pytester.path / "b.json").read_text())
    infos = {one["name"]: one["extra_info"] for one in written["benchmarks"]}
    assert infos["test_honest"]["roofline_fraction"] == pytest.approx(0.8, abs=0.02)
    assert infos["test_honest"]["roofline_verdict"] == "passed"
    assert infos["test_slow"]["roofline_verdict"] == "failed"
    assert set(infos["test_unsynced"]) == {"roofline_verdict", "roofline_device", "roofline_reason"}


@pytest.mark.parametrize(
    ("asked", "outcomes"), [("--benchmark-disable", {"skipped": 3}), ("--roofline=off", {"passed": 3})]
)
def test_what_was_not_measured_is_not_judged(run: Run, asked: str, outcomes: dict[str, int]) -> None:
    """A disabled benchmark decides nothing, and --roofline=off asks for nothing to be decided."""
    result = run(BENCHMARK, *beside("pytest_benchmark", "benchmark"), asked, fresh=True)
    result.assert_outcomes(**outcomes)
    if "skipped" in outcomes:
        result.stdout.fnmatch_lines(["INCONCLUSIVE *::test_honest: pytest-benchmark measured nothing: *"])


def test_the_export_in_its_layout_is_compared_by_the_plugin_itself(run: Run, pytester: pytest.Pytester) -> None:
    """A file of an earlier run, given to ``--benchmark-compare`` beside real benchmarks of the same name."""
    plugin = beside("pytest_benchmark", "benchmark")
    run(BENCHMARK, *plugin, "--roofline-export=pytest-benchmark=.b/0001_x.json", fresh=True)
    exported = json.loads((pytester.path / ".b/0001_x.json").read_text())
    assert [one["name"] for one in exported["benchmarks"]] == ["test_honest", "test_slow"]
    again = run(BENCHMARK, *plugin, "--benchmark-storage=.b", "--benchmark-compare=0001", fresh=True)
    again.stdout.fnmatch_lines(["*test_honest*(*0001_x*)*"])


# -- pytest-html ------------------------------------------------------------------------------------------------------


def page_of(pytester: pytest.Pytester) -> dict[str, list[dict[str, Any]]]:
    """Extras of each test in the page, by its id."""
    text = (pytester.path / "page.html").read_text(encoding="utf-8")
    blob = re.search(r'data-jsonblob="([^"]*)"', text)
    assert blob is not None
    tests = json.loads(html.unescape(blob[1]))["tests"]
    return {name.rpartition("::")[2]: rows[0]["extras"] for name, rows in tests.items()}


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
@pytest.mark.parametrize("kind", [(), ("--self-contained-html",)], ids=["assets", "self-contained"])
def test_a_page_shows_the_results_of_each_test(
    run: Run, pytester: pytest.Pytester, workers: tuple[str, ...], kind: tuple[str, ...]
) -> None:
    """A table per test, escaped; of a bogus result the reason and no figures; extras of the test's own stay."""
    if workers:
        pytest.importorskip("xdist")
    plugins = (*beside("pytest_metadata", "metadata"), *beside("pytest_html", "html", "html_fixtures"))
    result = run(HTML, *plugins, "--html=page.html", *kind, *workers, fresh=True)
    result.assert_outcomes(passed=4, failed=1)
    extras = page_of(pytester)
    assert extras["test_plain"] == []
    (good,) = extras["test_good[plain]"]
    assert "80 %" in good["content"]
    assert "&lt;script&gt;plain&lt;/script&gt;" in good["content"]
    assert all("<script" not in one["content"] for found in extras.values() for one in found)
    (bogus,) = extras["test_bogus"]
    assert "5.00 GB per pass declared" in bogus["content"]
    assert "<td" in bogus["content"]
    assert "tok/s</td>" not in bogus["content"]
    assert [one["format_type"] for one in extras["test_own"]] == ["text", "html"]


def test_without_a_page_nothing_is_drawn(run: Run) -> None:
    """pytest-html that is only installed gets no extras, and the room that draws them is not loaded."""
    plugins = (*beside("pytest_metadata", "metadata"), *beside("pytest_html", "html", "html_fixtures"))
    source = (
        "import sys\n\ndef test_it(roofline, model):\n    roofline.decode(model.step, model=model)\n\n"
        "def test_then():\n    assert not any('exports' in name for name in sys.modules if 'roofline' in name)\n"
    )
    run(source, *plugins, fresh=True).assert_outcomes(passed=2)
