"""Tests that are no plain functions with the fixture in their signature, and processes that only see their reports."""

from __future__ import annotations

import json
import os

import pytest
from inner_runs import FAKE, Run, properties_of, record_of

CASES = """
import unittest

import pytest

class TestCases(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def fixtures(self, roofline, model, small):
        self.roofline, self.model, self.small = roofline, model, small

    def test_good(self):
        self.assertGreaterEqual(self.roofline.decode(self.model.step, model=self.model).fraction, 0.6)

    def test_bogus(self):
        self.roofline.decode(self.model.step, traffic=5e9)

    def test_doubt(self):
        assert self.roofline.decode(self.small.step, model=self.small).fraction >= 0.85

    def test_doubt_of_unittest(self):
        result = self.roofline.decode(self.small.step, model=self.small)
        self.assertGreaterEqual(
            result.fraction,
            0.85,
        )

    def test_low(self):
        self.assertGreater(self.roofline.decode(self.model.step, model=self.model).fraction, 0.95)

    @pytest.mark.roofline(at_least=0.95)
    def test_budget(self):
        self.roofline.decode(self.model.step, model=self.model)

    def test_other(self):
        self.roofline.decode(self.model.step, model=self.model)
        self.assertEqual(1, 2)

    def test_skip(self):
        self.skipTest("not today")
"""


def test_cases_of_unittest(run: Run, pytester: pytest.Pytester) -> None:
    """What the body of a TestCase raised makes the same outcomes, letters and words as that of a function."""
    result = run(CASES, "--junit-xml=junit.xml", "-rA", "--tb=short")
    result.assert_outcomes(passed=1, skipped=3, failed=4)
    verdicts = {
        name: properties_of(pytester, f"test_{name}")["roofline.verdict"]
        for name in ("good", "bogus", "doubt", "doubt_of_unittest", "low", "budget", "other")
    }
    assert verdicts == {
        "good": "passed",
        "bogus": "bogus",
        "doubt": "inconclusive",
        "doubt_of_unittest": "inconclusive",
        "low": "failed",
        "budget": "failed",
        "other": "failed",
    }
    result.stdout.fnmatch_lines_random(
        [
            "BOGUS *::TestCases::test_bogus - BogusMeasurement: 5.00 GB per pass declared*",
            "FAILED *::TestCases::test_low - AssertionError: <80 % of the ceiling*",
            "INCONCLUSIVE *::TestCases::test_doubt: *",
            "2 of 7 not judged",
        ]
    )


@pytest.mark.parametrize(("policy", "ends"), [("pass", {"passed": 3}), ("fail", {"passed": 1, "failed": 2})])
def test_the_policy_holds_for_cases_of_unittest(run: Run, policy: str, ends: dict[str, int]) -> None:
    """An inconclusive one passes or fails as it is asked for."""
    run(CASES, f"--roofline-inconclusive={policy}", "-k", "good or doubt").assert_outcomes(deselected=5, **ends)


def test_a_broken_teardown_of_unittest_is_no_doubt(run: Run) -> None:
    """A second error, of tearDown, keeps an undecided test red and a bogus one bogus; it is reported as ever."""
    source = CASES + "\n    def tearDown(self):\n        raise ValueError('down')\n"
    result = run(source, "-k", "test_doubt or test_bogus")
    result.assert_outcomes(failed=3, errors=3, deselected=5)
    result.stdout.fnmatch_lines_random(
        ["BOGUS *::test_bogus - *", "FAILED *::test_doubt - *", "ERROR *::test_doubt - ValueError: down"]
    )


def test_a_bogus_case_of_unittest_stays_bogus(run: Run) -> None:
    """Run again until it is green: the first attempt is remembered."""
    pytest.importorskip("pytest_rerunfailures")
    source = """
        import unittest, pytest

        RATES = iter((5e9, 2e9, 2e9))

        class TestCases(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def fixtures(self, roofline, model):
                self.roofline, self.model = roofline, model

            def test_it(self):
                self.roofline.decode(self.model.step, traffic=next(RATES))
    """
    result = run(source, "-p", "pytest_rerunfailures", "--reruns=2", fresh=True)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["BOGUS *::test_it - BogusMeasurement: attempt 1 of t*"])


SUBTESTS = """
import unittest, pytest

def test_doubt(roofline, small, subtests):
    with subtests.test("part"):
        assert roofline.decode(small.step, model=small).fraction >= 0.85

def test_low(roofline, model, subtests):
    with subtests.test("part"):
        assert roofline.decode(model.step, model=model).fraction >= 0.95

def test_bogus(roofline, model, subtests):
    with subtests.test("part"):
        roofline.decode(model.step, traffic=5e9)

class TestCases(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def fixtures(self, roofline, small):
        self.roofline, self.small = roofline, small

    def test_doubt(self):
        with self.subTest("part"):
            assert self.roofline.decode(self.small.step, model=self.small).fraction >= 0.85
"""


@pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="no subtests in this pytest")
@pytest.mark.parametrize("policy", ["skip", "pass", "fail"])
def test_subtests(run: Run, pytester: pytest.Pytester, policy: str) -> None:
    """A part of a test that decides nothing fails no more than the whole would; what is low or bogus does."""
    result = run(SUBTESTS, f"--roofline-inconclusive={policy}", "-rA", "--roofline-json=results.json")
    assert len(json.loads((pytester.path / "results.json").read_text())["devices"]) == 1
    failed = [line.split(" - ")[0].rpartition("::")[2] for line in result.outlines if line.startswith("SUBFAILED")]
    assert failed == (["test_doubt", "test_low", "test_bogus", "test_doubt"] if policy == "fail" else failed[-2:])
    result.stdout.fnmatch_lines_random(
        ["SUBFAILED*::test_low - assert <80 %*", "SUBFAILED*::test_bogus - BogusMeasurement: 5.00 GB per pass*"]
    )
    if policy == "skip":
        result.stdout.fnmatch_lines(["2 of 4 not judged"])


DYNAMIC = """
def test_good(request, model):
    roofline = request.getfixturevalue("roofline")
    assert roofline.decode(model.step, model=model).fraction >= 0.6

def test_bogus(request, model):
    request.getfixturevalue("roofline").decode(model.step, traffic=5e9)
"""


def test_a_fixture_that_is_asked_for_in_the_body(run: Run, pytester: pytest.Pytester) -> None:
    """The message has no module before it, and the results know the device and its probe."""
    result = run(DYNAMIC, "--roofline-json=results.json")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["BOGUS *::test_bogus - BogusMeasurement: 5.00 GB per pass declared*"])
    (device,) = json.loads((pytester.path / "results.json").read_text())["devices"]
    assert device["device"]["id"] == "fake:0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("arguments", [(), ("--roofline=require", "--roofline-device=fake:0", "-q")])
def test_children_that_ask_in_the_body(run: Run, arguments: tuple[str, ...]) -> None:
    """The parent sees nothing of roofline but the reports: its table is complete, and require is content."""
    pytest.importorskip("pytest_forked")
    forked = ("-p", "pytest_forked", "--forked")
    if run("def test_it(): pass", *forked, plugin=("-p", "no:roofline"), conftest="", fresh=True).ret:
        pytest.skip("this pytest-forked does not work with this pytest, without us either")
    result = run(DYNAMIC, *forked, *arguments, fresh=True)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["test_good * passed", "test_bogus * bogus"])
    result.stdout.no_fnmatch_line("*no roofline test measured*")


def test_reports_of_other_processes_are_counted(run: Run) -> None:
    """As soon as anything of roofline is asked for, whoever runs the tests; a stand-in hands in one report."""
    conftest = (
        FAKE
        + """
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    text = '{"schema": 1, "mode": "require", "verdict": "passed", "reason": "", "results": [{"standing": "passed"}]}'
    item.ihook.pytest_runtest_logreport(report=pytest.TestReport(
        item.nodeid, item.location, {}, "passed", None, "call",
        user_properties=[("roofline", text), ("roofline.verdict", "passed")],
    ))
    return True
"""
    )
    result = run("def test_it(): pass", "-qq", "--roofline=require", conftest=conftest)
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*no roofline test measured*")


def test_a_doctest_keeps_its_output(run: Run, pytester: pytest.Pytester) -> None:
    """What pytest captures is left alone for a moment; the place where a doctest looks for its output stays."""
    pytester.makepyfile(
        module='''
        """
        >>> roofline, model = getfixture("roofline"), getfixture("model")
        >>> roofline.decode(model.step, model=model).fraction > 0.6
        True
        """
        '''
    )
    result = run("", "--doctest-modules", "module.py")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["module * passed"])


def test_a_redirection_stays_behind_what_is_said_at_once(run: Run) -> None:
    """A line in the middle of a test takes no redirect_stdout away from it."""
    source = """
        import io
        from contextlib import redirect_stdout
        from pytest_roofline.item import say_at_once

        def test_it(request, roofline):
            with redirect_stdout(io.StringIO()) as kept:
                say_at_once(request.config, "waiting for the device")
                print("mine")
            assert kept.getvalue() == "mine\\n"
    """
    result = run(source)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["waiting for the device"])


def test_without_a_terminal_an_ending_stays_what_it_is(run: Run, pytester: pytest.Pytester) -> None:
    """Options of pytest's terminal plugin are not there then."""
    result = run(
        "def test_bogus(roofline, model):\n    roofline.decode(model.step, traffic=5e9)",
        "-p",
        "no:terminal",
        "--junit-xml=junit.xml",
    )
    assert result.ret == 1
    text = (pytester.path / "junit.xml").read_text()
    assert "BogusMeasurement: 5.00 GB per pass declared" in text
    assert "no option named" not in text
    assert record_of(pytester, "test_bogus")["verdict"] == "bogus"
