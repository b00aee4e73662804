"""Beside the plugins that projects have: what they do to a test does not change what is measured, judged or reported.

Each runs pytest in a process of its own on the fake device, with our plugin and the other one, and nothing else.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from inner_runs import PLUGIN, Run
from other_plugins import LOCK, LOCKED, MANY, beside, not_a_worker  # noqa: F401

# -- order and number -----------------------------------------------------------------------------------------------


def test_randomly(run: Run) -> None:
    """Another order and another seed: the same outcomes, the same figures."""
    results = []
    for seed in ("1", "2"):
        arguments = (*beside("pytest_randomly", "randomly"), "-p", "no:xdist", f"--randomly-seed={seed}", "-v")
        result = run(MANY, *arguments, fresh=True)
        result.assert_outcomes(passed=7, skipped=1, failed=1)
        results.append(
            [line for line in result.outlines if line.startswith("test_many[") or line.startswith("test_bogus ")]
        )
    assert results[0] != results[1]
    assert sorted(results[0]) == sorted(results[1])


def test_repeat(run: Run) -> None:
    """Every repetition is a test of its own, with its row."""
    source = "def test_it(roofline, model):\n    roofline.decode(model.step, model=model)\n"
    result = run(source, *beside("pytest_repeat", "pytest_repeat"), "--count=3", fresh=True)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines([f"test_it[[]{number}-3[]] * passed" for number in (1, 2, 3)])


# -- processes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dist", ["load", "loadgroup", "worksteal", "loadscope"])
def test_xdist(run: Run, dist: str) -> None:
    """However tests are handed out, the summary is complete, and every row is there once."""
    arguments = (*beside("xdist", "xdist"), "-n", "2", f"--dist={dist}")
    source = MANY.replace("def test_bogus", '@pytest.mark.xdist_group("one")\ndef test_bogus')
    result = run(source, *arguments, fresh=True)
    result.assert_outcomes(passed=7, skipped=1, failed=1)
    rows = [line for line in result.outlines if line.startswith("test_many[") and line.endswith("passed")]
    assert len(rows) == 6
    result.stdout.fnmatch_lines(["roofline: fake:0 (Fake Accelerator), mode auto", "1 of 8 not judged"])
    result.stdout.fnmatch_lines_random(["test_bogus* bogus", "INCONCLUSIVE *::test_doubt*: *"])


def forked(run: Run) -> tuple[str, ...]:
    """Arguments that fork every test; skipped where the plugin cannot do that even with a test of nothing."""
    arguments = (*beside("pytest_forked", "pytest_forked"), "--forked")
    if run("def test_it(): pass", *arguments, plugin=("-p", "no:roofline"), conftest="", fresh=True).ret:
        pytest.skip("this pytest-forked does not work with this pytest, without us either")
    return arguments


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked(run: Run) -> None:
    """Every test in a child of its own: records come back with the reports, and require sees that it was measured."""
    result = run(MANY, *forked(run), "--roofline=require", fresh=True)
    result.assert_outcomes(passed=7, failed=2)
    result.stdout.fnmatch_lines(["test_many[[]5[]] * passed", "test_bogus * bogus", "1 of 8 not judged"])
    result.stdout.no_fnmatch_line("*no roofline test measured*")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_test_that_crashes(run: Run) -> None:
    """The child takes the device with it; the tests behind it are measured."""
    source = """
        import os, signal

        def test_crashes(roofline, model):
            roofline.decode(lambda: os.kill(os.getpid(), signal.SIGKILL), model=model)

        def test_after(roofline, model):
            roofline.decode(model.step, model=model)
    """
    result = run(source, *forked(run), *LOCK, conftest=LOCKED, fresh=True)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*CRASHED with signal 9*", "test_after * passed"])


# -- other benchmarks -----------------------------------------------------------------------------------------------

BOTH = """
def test_both(roofline, benchmark, model):
    benchmark(lambda: sum(range(100)))
    assert roofline.decode(model.step, model=model).fraction >= 0.6

def test_theirs(benchmark):
    benchmark(lambda: sum(range(100)))

def test_ours(roofline, model):
    assert roofline.decode(model.step, model=model).fraction >= 0.6
"""


def test_pytest_benchmark(run: Run) -> None:
    """Both fixtures in one test, and both tables at the end."""
    arguments = (*beside("pytest_benchmark", "benchmark"), "--benchmark-max-time=0.01", "--benchmark-min-rounds=1")
    result = run(BOTH, *arguments, fresh=True)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines_random(["*- benchmark: 2 tests -*", "*= roofline =*", "test_ours * passed"])


@pytest.mark.parametrize("arguments", [(), ("--codspeed",)], ids=["loaded", "measuring"])
def test_pytest_codspeed(run: Run, arguments: tuple[str, ...]) -> None:
    """Both fixtures in one test, whether or not the other plugin measures; alone it deselects what is not its own."""
    codspeed = beside("pytest_codspeed", "codspeed")
    if not arguments:  # the fixture `benchmark` is then pytest-benchmark's
        codspeed += (*beside("pytest_benchmark", "benchmark"), "--benchmark-disable")
    result = run(BOTH, *codspeed, "--codspeed-max-time=0.01", *arguments, fresh=True)
    if arguments:
        result.assert_outcomes(passed=2, deselected=1)
        result.stdout.fnmatch_lines(["test_both * passed"])
    else:
        result.assert_outcomes(passed=3)
        result.stdout.fnmatch_lines(["test_ours * passed"])


# -- reports --------------------------------------------------------------------------------------------------------


def test_pytest_html(run: Run, pytester: pytest.Pytester) -> None:
    """Its report counts our words as what they are, and shows the message of a bogus test."""
    arguments = (*beside("pytest_html", "metadata", "html"), "--html=report.html", "--self-contained-html")
    run(MANY, *arguments, fresh=True).assert_outcomes(passed=7, skipped=1, failed=1)
    page = (pytester.path / "report.html").read_text(encoding="utf-8")
    assert "1 Failed" in page
    assert "7 Passed" in page
    assert "1 Skipped" in page
    assert "5.00 GB per pass declared" in page


def test_pytest_cov(run: Run, pytester: pytest.Pytester) -> None:
    """The code of a step is covered, and what is timed is timed by a clock that coverage cannot slow here."""
    pytester.makepyfile(steps="def step_of(model):\n    def step():\n        return model.step()\n    return step\n")
    source = (
        "from steps import step_of\n\ndef test_it(roofline, model):\n"
        "    assert roofline.decode(step_of(model), model=model).fraction >= 0.6\n"
    )
    arguments = (*beside("pytest_cov", "pytest_cov"), "--cov=steps", "--cov-report=json:cov.json")
    run(source, *arguments, fresh=True).assert_outcomes(passed=1)
    assert json.loads((pytester.path / "cov.json").read_text())["totals"]["percent_covered"] == 100


WATCHERS = {
    "pytest_instafail": ("instafail", "--instafail"),
    "pytest_clarity": ("clarity",),
    "pytest_mock": ("pytest_mock",),
    "pytest_order": ("pytest_order",),
    "pytest_profiling": ("profiling", "--profile"),
    "pytest_split": ("pytest-split", "--splits=2", "--group=1"),
    "pytest_sugar": ("sugar",),
}


@pytest.mark.parametrize("module", WATCHERS)
def test_what_shows_sorts_or_profiles_tests(run: Run, module: str) -> None:
    """Every row is there, with the verdicts that the tests have without it."""
    name, *arguments = WATCHERS[module]
    result = run(MANY, *beside(module, name), *arguments, fresh=True)
    rows = ["test_many[[]0[]] * 80 % * passed"]
    if module == "pytest_split":  # the first half of them
        result.assert_outcomes(passed=5, deselected=4)
    else:
        result.assert_outcomes(passed=7, skipped=1, failed=1)
        rows += ["test_bogus * 200 % * bogus", "test_doubt * inconclusive"]
    result.stdout.fnmatch_lines_random(rows)


# -- asynchronous tests ---------------------------------------------------------------------------------------------

ASYNCHRONOUS = """
import asyncio
import pytest
from pytest_roofline import RooflineUsageError
from conftest import BACKEND

MARK

async def test_plain(roofline, model):
    assert roofline.decode(model.step, model=model).fraction >= 0.6

@pytest.mark.roofline(at_least=0.9)
async def test_slow(roofline, model):
    roofline.decode(model.step, model=model)

async def test_doubt(roofline, small):
    assert roofline.decode(small.step, model=small).fraction >= 0.85

async def test_unrun(roofline, model):
    async def step():
        return model.step()
    with pytest.raises(RooflineUsageError, match="has not run"):
        roofline.decode(step, model=model)

async def test_audit(roofline, model):
    async def step():
        await asyncio.sleep(0)
        return model.step()
    with roofline.audit(traffic=2e9) as audit:
        start = BACKEND.perf_counter()
        for _ in range(50):
            out = await step()
        BACKEND.synchronize()
        audit.claim(tokens=50, seconds=BACKEND.perf_counter() - start, outputs=out)
    assert audit.result.fraction >= 0.6

async def test_unwaited(roofline, model):
    with roofline.audit(traffic=2e9) as audit:
        start = BACKEND.perf_counter()
        for _ in range(50):
            await asyncio.sleep(0)
            out = model.step()
        audit.claim(tokens=50, seconds=BACKEND.perf_counter() - start, outputs=out)
"""


@pytest.mark.parametrize(
    ("module", "name", "mark"),
    [
        ("pytest_asyncio", "asyncio", "pytestmark = pytest.mark.asyncio"),
        (
            "anyio",
            "anyio",
            "pytestmark = pytest.mark.anyio\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'",
        ),
    ],
    ids=["pytest-asyncio", "anyio"],
)
def test_asynchronous_tests(run: Run, module: str, name: str, mark: str) -> None:
    """Measured and judged as any; a step that is a coroutine has not run, so that is wrong use; audits may await."""
    source = ASYNCHRONOUS.replace("MARK", mark)
    # The settings of other plugins are theirs: one of them warns where its own are not given.
    result = run(source, *beside(module, name), "-W", "ignore", fresh=True)
    result.assert_outcomes(passed=3, failed=2, skipped=1)
    result.stdout.fnmatch_lines_random(
        [
            "test_plain* passed",
            "INCONCLUSIVE *::test_doubt*",
            "FAILED *::test_slow* - BelowCeiling: 80 % *",
            "BOGUS *::test_unwaited* - BogusMeasurement: the clock stopped at *",
        ]
    )


# -- all of them ----------------------------------------------------------------------------------------------------

ALL = {
    "pytest_rerunfailures": ("rerunfailures",),
    "pytest_randomly": ("randomly",),
    "pytest_repeat": ("pytest_repeat",),
    "pytest_timeout": ("timeout",),
    "xdist": ("xdist",),
    "pytest_benchmark": ("benchmark",),
    "pytest_html": ("metadata", "html"),
    "pytest_asyncio": ("asyncio",),
    "anyio": ("anyio",),
    "pytest_cov": ("pytest_cov",),
}


def test_all_of_them_at_once(run: Run) -> None:
    """No two of us hold one name of an option, and everything that is reported is still reported."""
    arguments = [argument for module, names in ALL.items() for argument in beside(module, *names)]
    result = run(MANY, *arguments, "-W", "ignore", "--reruns=1", "--roofline=require", fresh=True)
    result.assert_outcomes(passed=7, failed=2)
    result.stdout.fnmatch_lines_random(
        ["RERUN *::test_bogus: bogus on attempt 2 of 2", "test_many[[]0[]] * passed", "1 of 8 not judged"]
    )


def test_without_the_cache(run: Run, pytester: pytest.Pytester) -> None:
    """``-p no:cacheprovider``: nothing of ours needs pytest's cache, and nothing is left where the tests are."""
    assert "no:cacheprovider" in PLUGIN
    result = run(MANY, "-p", "no:terminal", "-p", "no:junitxml", "-p", "no:stepwise", fresh=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    left = {path.name for path in Path(pytester.path).iterdir()} - {"__pycache__"}
    assert left == {
        "conftest.py",
        "test_without_the_cache.py",
        *(name for name in left if name in ("stdout", "stderr")),
    }
