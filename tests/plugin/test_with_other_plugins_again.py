"""Plugins that run a test again or stop it midway: nothing is laundered, nothing is left behind.

Each runs pytest in a process of its own on the fake device, with our plugin and the other one, and nothing else.
"""

from __future__ import annotations

import json

import pytest
from inner_runs import Run, all_properties_of
from other_plugins import LOCK, LOCKED, beside, not_a_worker  # noqa: F401

from pytest_roofline.reruns import last_attempts
from pytest_roofline.results.reading import read_results

FIRST_ATTEMPT = """
import pytest
from pytest_roofline.backends.fake import FakeModel
from conftest import BACKEND

ATTEMPTS = []

@pytest.fixture(autouse=True)
def attempt():
    ATTEMPTS.append(1)
    return len(ATTEMPTS)

def of(efficiency):
    return FakeModel(BACKEND, weight_bytes=2e9, efficiency=efficiency)
"""


# -- pytest-rerunfailures -------------------------------------------------------------------------------------------


def test_a_missed_budget_may_be_run_again_but_not_unseen(run: Run, pytester: pytest.Pytester) -> None:
    """It passes on the second attempt; the summary says so, with what the first one ended with, and so does JUnit."""
    source = FIRST_ATTEMPT + (
        "\n@pytest.mark.roofline(at_least=0.6)\ndef test_it(roofline, attempt):\n"
        "    model = of(0.4 if attempt == 1 else 0.8)\n    roofline.decode(model.step, model=model)\n"
    )
    rerun = beside("pytest_rerunfailures", "rerunfailures")
    result = run(source, *rerun, "--reruns=3", "--junitxml=junit.xml", fresh=True)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "test_it * passed",
            "RERUN *::test_it: passed on attempt 2 of 2",
            "  attempt 1 failed: BelowCeiling: 40 % of the probed read ceiling *",
            "*1 passed, 1 rerun*",
        ]
    )
    # Whether the attempts before it are test cases too is up to the other plugin; ours are in the record of the last.
    record = json.loads(all_properties_of(pytester, "test_it")[-1]["roofline"])
    assert record["verdict"] == "passed"
    assert record["results"][0]["fraction"] == pytest.approx(0.8, abs=0.01)
    assert [attempt["verdict"] for attempt in record["attempts"]] == ["failed"]
    assert record["attempts"][0]["results"][0]["fraction"] == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize("later", ["roofline.decode(of(0.8).step, model=of(0.8))", "pytest.skip('not now')", "pass"])
@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")], ids=["alone", "xdist"])
def test_a_bogus_verdict_is_not_laundered_by_a_rerun(run: Run, later: str, workers: tuple[str, ...]) -> None:
    """Whatever a later attempt does, the test ends bogus, by the first one's message; the run is red."""
    if workers:
        pytest.importorskip("xdist")
    source = FIRST_ATTEMPT + (
        "\ndef test_it(roofline, attempt):\n    if attempt == 1:\n"
        f"        roofline.decode(of(0.8).step, traffic=5e9)\n    {later}\n"
    )
    result = run(source, *beside("pytest_rerunfailures", "rerunfailures"), *workers, "--reruns=2", fresh=True)
    result.assert_outcomes(failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "BogusMeasurement: attempt 1 of this test was bogus, and running it again does not undo that: "
            "BogusMeasurement: 5.00 GB per pass declared, 2.00 GB read and written: *",
            "RERUN *::test_it: bogus on attempt 3 of 3",
            "  attempt 1 bogus: BogusMeasurement: 5.00 GB per pass declared, *",
            "  attempt 2 bogus: BogusMeasurement: attempt 1 of this test was bogus, *",
            "BOGUS *::test_it - BogusMeasurement: attempt 1 of this test was bogus, *",
        ]
    )


def test_a_rerun_that_is_bogus_by_itself_says_why(run: Run) -> None:
    """Each attempt is refused for its own figures, not for the one before it."""
    source = "def test_it(roofline, model):\n    roofline.decode(model.step, traffic=5e9)\n"
    result = run(source, *beside("pytest_rerunfailures", "rerunfailures"), "--reruns=1", fresh=True)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["BOGUS *::test_it - BogusMeasurement: 5.00 GB per pass declared, *"])
    result.stdout.no_fnmatch_line("*running it again*")


def test_reruns_can_leave_out_what_is_bogus(run: Run) -> None:
    """The names of our exceptions are what its filters want; one that is left out is run once."""
    source = FIRST_ATTEMPT + (
        "\ndef test_bogus(roofline):\n    roofline.decode(of(0.8).step, traffic=5e9)\n"
        "\n@pytest.mark.roofline(at_least=0.9)\ndef test_slow(roofline):\n"
        "    roofline.decode(of(0.5).step, traffic=2e9)\n"
    )
    rerun = beside("pytest_rerunfailures", "rerunfailures")
    result = run(source, *rerun, "--reruns=1", "--rerun-except=BogusMeasurement", fresh=True)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["RERUN *::test_slow: failed on attempt 2 of 2", "*2 failed, 1 rerun*"])
    result.stdout.no_fnmatch_line("RERUN *::test_bogus*")


def test_an_undecided_test_that_fails_may_be_run_again(run: Run) -> None:
    """With the policy that fails it; the letter of the first attempt is the other plugin's."""
    source = FIRST_ATTEMPT + (
        "\n@pytest.mark.roofline(at_least=0.6)\ndef test_it(roofline, small, attempt):\n"
        "    model = small if attempt == 1 else of(0.8)\n    roofline.decode(model.step, model=model)\n"
    )
    rerun = beside("pytest_rerunfailures", "rerunfailures")
    result = run(source, *rerun, "--reruns=1", "--roofline=require", fresh=True)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "*.py R*",
            "RERUN *::test_it: passed on attempt 2 of 2",
            "  attempt 1 inconclusive: a pass touches 60.0 MB *",
            "*1 passed, 1 rerun*",
        ]
    )


# -- pytest-retry and flaky -----------------------------------------------------------------------------------------

RETRIED = (
    FIRST_ATTEMPT
    + """
MARKS

MARK
@pytest.mark.roofline(at_least=0.6)
def test_slow_first(roofline, attempt):
    model = of(0.4 if attempt == 1 else 0.8)
    roofline.decode(model.step, model=model)

MARK
def test_bogus_first(roofline, attempt):
    roofline.decode(of(0.8).step, traffic=5e9 if attempt == 1 else 2e9)

MARK
@pytest.mark.roofline(at_least=0.6)
def test_bogus_last(roofline, attempt):
    roofline.decode(of(0.4).step, traffic=5e9 if attempt > 1 else 2e9)
"""
).replace("ATTEMPTS.append(1)\n    return len(ATTEMPTS)", "ATTEMPTS.append(node)\n    return ATTEMPTS.count(node)")


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")], ids=["alone", "xdist"])
@pytest.mark.parametrize(
    ("module", "name", "marks", "mark"),
    [
        ("pytest_retry", "pytest-retry", "", "@pytest.mark.flaky(retries=1)"),
        ("flaky", "flaky", "from flaky import flaky", "@flaky(max_runs=2)"),
    ],
    ids=["pytest-retry", "flaky"],
)
def test_plugins_that_retry_behind_the_report(
    run: Run, pytester: pytest.Pytester, module: str, name: str, marks: str, mark: str, workers: tuple[str, ...]
) -> None:
    """Table, JUnit and results file speak of the last attempt, whose outcome the report has; bogus stays bogus."""
    if workers:
        pytest.importorskip("xdist")
    source = RETRIED.replace("def attempt():", "def attempt(request):\n    node = request.node.nodeid")
    source = source.replace("MARKS", marks).replace("MARK", mark)
    files = ("--junitxml=junit.xml", "--roofline-json=results.json")
    result = run(source, *beside(module, name), *workers, *files, fresh=True)
    result.stdout.fnmatch_lines_random(
        [
            "test_slow_first * 80 % * passed",
            "RERUN *::test_slow_first: passed on attempt 2 of 2",
            "RERUN *::test_bogus_first: bogus on attempt 2 of 2",
            "RERUN *::test_bogus_last: bogus on attempt 2 of 2",
            "BOGUS *::test_bogus_first - *BogusMeasurement: attempt 1 of this test was bogus, *",
            "BOGUS *::test_bogus_last - *BogusMeasurement: 5.00 GB per pass declared, *",
            "*2 failed, 1 passed*",
        ]
    )
    ends = {"test_slow_first": "passed", "test_bogus_first": "bogus", "test_bogus_last": "bogus"}
    assert {test: all_properties_of(pytester, test)[-1]["roofline.verdict"] for test in ends} == ends
    tests = last_attempts(read_results(str(pytester.path / "results.json"))["tests"])
    assert {test["node_id"].rpartition("::")[2]: test["verdict"] for test in tests} == ends


# -- pytest-timeout -------------------------------------------------------------------------------------------------

STUCK = """
import subprocess, sys, threading
import pytest
from conftest import BACKEND

def stuck_after(passes, model, wait):
    "A step that never returns once so many passes were launched."
    done = []
    def step():
        output = model.step()
        done.append(1)
        if len(done) > passes:
            wait()
        return output
    return step

@pytest.mark.timeout(2, func_only=True)  # the probe is made before, however slow this machine is
@pytest.mark.parametrize("passes", [0, 12])
def test_stuck(roofline, roofline_probe, model, passes):
    import signal
    wait = getattr(signal, "pause", None) if WAITS_FOR_SIGNAL else threading.Event().wait
    roofline.decode(stuck_after(passes, model, wait), model=model)

def test_after(roofline, model):
    assert BACKEND.pending_s() == 0.0
    roofline.decode(model.step, model=model)

def test_somebody_else():
    more = ["--roofline-lock-folder=locks", "--roofline-lock-wait=1", "--roofline=require", "--roofline-device=cpu"]
    plugin = ["-p", "pytest_roofline.plugin", "-p", "no:cacheprovider", __file__ + "::test_after"]
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "timeout", *plugin, *more], capture_output=True)
    assert done.returncode == 0, done.stdout.decode()
"""


@pytest.mark.skipif(not hasattr(__import__("signal"), "pause"), reason="no signals to wait for on this system")
def test_a_timeout_by_signal_in_a_measurement(run: Run) -> None:
    """That test fails. The device is drained, and free for the next test and for another process."""
    arguments = (*beside("pytest_timeout", "timeout"), "--timeout-method=signal", *LOCK)
    result = run(STUCK.replace("WAITS_FOR_SIGNAL", "True"), *arguments, conftest=LOCKED, fresh=True)
    result.assert_outcomes(passed=2, failed=2)
    for passes in ("0", "12"):
        result.stdout.fnmatch_lines([f"FAILED *::test_stuck[[]{passes}[]] - Failed: Timeout *"])


def test_a_timeout_by_thread_in_a_measurement(run: Run) -> None:
    """That ends the process in the middle of it, while it holds the device: the next process has it all the same."""
    arguments = (*beside("pytest_timeout", "timeout"), "--timeout-method=thread", *LOCK)
    source = STUCK.replace("WAITS_FOR_SIGNAL", "False")
    result = run(source, *arguments, conftest=LOCKED, fresh=True)
    assert result.ret == 1
    assert "Timeout" in result.stderr.str() + result.stdout.str()
    result = run(
        source, *arguments, "--roofline=require", "--roofline-device=cpu", "-k", "after", conftest=LOCKED, fresh=True
    )
    result.assert_outcomes(passed=1, deselected=3)


TOLD = """
import pytest

def told(word, item):
    with open("timers", "a") as file:
        file.write(f"{word} {item.name}\\n")

@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item, settings):
    told(f"set {settings.timeout:g}", item)

@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item):
    told("stop", item)
"""


def test_a_timeout_does_not_run_while_the_device_is_waited_for(run: Run, pytester: pytest.Pytester) -> None:
    """Somebody else's measurement is no fault of the test: behind the wait it has its whole time again."""
    timeout = beside("pytest_timeout", "timeout")
    source = """
        import pytest, subprocess, sys
        from conftest import BACKEND

        HOLDER = "import sys\\nfrom pytest_roofline.turnstile import Turnstile\\nfrom conftest import BACKEND\\n"
        HOLDER += "with Turnstile(folder='locks').hold(BACKEND.devices()[0]): print(flush=True); sys.stdin.read()"

        @pytest.mark.timeout(300)
        def test_waits(roofline, model):
            command = [sys.executable, "-c", HOLDER]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
                holder.stdout.readline()
                try:
                    roofline.decode(model.step, model=model)
                finally:
                    holder.kill()

        def test_free(roofline, model):
            roofline.decode(model.step, model=model)
    """
    lock = ("--roofline-lock-folder=locks", "--roofline-lock-wait=0.01")
    result = run(source, *timeout, *lock, conftest=LOCKED + TOLD, fresh=True)
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["INCONCLUSIVE *::test_waits: cpu was not free within 10.0 ms: *"])
    told = (pytester.path / "timers").read_text().splitlines()
    assert told[:4] == ["set 300 test_waits", "stop test_waits", "set 300 test_waits", "stop test_waits"]
    assert not [line for line in told if "test_free" in line and line.startswith("set")]
