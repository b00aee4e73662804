"""What the world does to a run: killed processes, full disks, lost devices. Nothing that was measured is lost."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from inner_runs import FAKE, PLUGIN, ROOT, Run
from test_locks import SHARED

from pytest_roofline.results.reading import read_results
from pytest_roofline.turnstile import Turnstile

WORKERS = ("-p", "xdist.plugin")
JSON = "--roofline-json=results.json"
needs_kill = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
# Three tests; the second one does something in the middle of its measurement.
THREE = """
import os, signal

def test_one(roofline, model):
    assert roofline.decode(model.step, model=model).fraction >= 0.6

def test_two(roofline, model):
    calls = []
    def step():
        calls.append(1)
        if len(calls) == 30:
            {deed}
        return model.step()
    roofline.decode(step, traffic=2e9)

def test_three(roofline, model):
    assert roofline.decode(model.step, model=model).fraction >= 0.6
"""


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of locks of this test alone."""
    folder = tmp_path / "locks"
    monkeypatch.setenv("PYTEST_ROOFLINE_LOCK_FOLDER", str(folder))
    return folder


def verdicts(folder: Path) -> dict[str, Any]:
    """The verdict of every test in the results file, by its bare name."""
    found = read_results(str(folder / "results.json"))
    return {test["node_id"].rpartition("::")[2]: test["verdict"] for test in found["tests"]}


@contextmanager
def started(pytester: pytest.Pytester, source: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A run of pytest that goes on beside this test, for two minutes at most."""
    pytester.makeconftest(SHARED)
    pytester.makepyfile(source)
    command = [sys.executable, "-m", "pytest", *PLUGIN, *arguments]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=variables
    ) as process:
        guard = threading.Timer(120, process.kill)
        guard.start()
        try:
            yield process
        finally:
            guard.cancel()
            process.kill()


def take_the_lock(folder: Path) -> None:
    """Measure where the dead have measured; an error where they still hold the device."""
    from pytest_roofline.backends.fake import FakeBackend

    said: list[str] = []
    with Turnstile(folder=str(folder), wait_s=30, say=said.append).hold(FakeBackend().devices()[0]):
        assert not [line for line in said if "cannot be locked" in line]


@needs_kill
def test_a_worker_that_is_killed_in_a_measurement(run: Run, locks: Path, pytester: pytest.Pytester) -> None:
    """Its test is named, the device is free for the worker in its place, and the other tests have their results."""
    pytest.importorskip("xdist")
    source = THREE.format(deed="os.kill(os.getpid(), signal.SIGKILL)")
    result = run(source, *WORKERS, "-n1", JSON, conftest=SHARED, fresh=True)
    result.assert_outcomes(passed=2, failed=1)
    assert verdicts(pytester.path) == {"test_one": "passed", "test_two": None, "test_three": "passed"}
    found = read_results(str(pytester.path / "results.json"))
    (crashed,) = [test for test in found["tests"] if test["verdict"] is None]
    assert crashed["outcome"] == "failed"
    assert "crashed while running" in crashed["reason"]
    assert found["end"] == {"exit_status": 1}


@needs_kill
def test_a_run_that_is_killed_in_a_measurement(locks: Path, pytester: pytest.Pytester) -> None:
    """What was measured before is in the file, which is whole and says that there was no end; the device is free."""
    with started(pytester, THREE.format(deed="os.kill(os.getpid(), signal.SIGKILL)"), JSON) as process:
        assert process.wait() == -signal.SIGKILL
    assert verdicts(pytester.path) == {"test_one": "passed"}
    assert read_results(str(pytester.path / "results.json"))["end"] is None
    take_the_lock(locks)


@needs_kill
def test_a_controller_that_is_killed(locks: Path, pytester: pytest.Pytester) -> None:
    """While a worker measures: the file has its former results, and the worker does not hold on to the device."""
    pytest.importorskip("xdist")
    here, go = pytester.path / "here", pytester.path / "go"
    os.mkfifo(here)
    os.mkfifo(go)
    hold, heard = os.open(go, os.O_RDWR), os.open(here, os.O_RDWR)  # so that nobody waits for the other end
    deed = "go = open('go'); open('here', 'w').write('x'); go.read()"
    with started(pytester, THREE.format(deed=deed), *WORKERS, "-n1", JSON) as process:
        # Until the worker is in the middle of its second test.
        assert select.select([heard], [], [], 100)[0], "the run did not get that far"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert verdicts(pytester.path) == {"test_one": "passed"}
        os.close(heard)
        os.close(hold)  # the orphan's step goes on, if the orphan still lives
        take_the_lock(locks)
    assert read_results(str(pytester.path / "results.json"))["end"] is None


# In a process of its own: pytester, which records the calls of hooks in its own, would keep all of the models.
MANY = """
import pytest

@pytest.mark.parametrize("time", range(8))
def test_it(roofline, model, time):
    assert roofline.decode(model.step, model=model).fraction >= 0.6
"""
# The limit is that of the file system, as it were: the file has room for some of the tests.
FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
"""


@pytest.mark.parametrize(("mode", "code"), [("auto", 0), ("require", 1)])
def test_a_disk_that_fills_up(run: Run, pytester: pytest.Pytester, mode: str, code: int) -> None:
    """The run goes on and says how many tests are missing and why; the file holds the others and is whole."""
    pytest.importorskip("resource")
    result = run(MANY, JSON, f"--roofline={mode}", conftest=FAKE + FULL, fresh=True)
    result.assert_outcomes(passed=8)
    (line,) = [line for line in result.outlines if line.startswith("ERROR: --roofline-json:")]
    kept = len(read_results(str(pytester.path / "results.json"))["tests"])
    assert 0 < kept < 8
    assert line.startswith(f"ERROR: --roofline-json: {8 - kept} of 8 tests are not in ")
    assert line.endswith("File too large")
    assert result.ret == code


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_report_that_nothing_can_be_written_to(run: Run) -> None:
    """The tests keep their outcomes."""
    result = run(MANY, "--roofline-json=/dev/full", fresh=True)
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["ERROR: --roofline-json: 8 of 8 tests are not in /dev/full: No space left on device"])


def test_a_report_that_cannot_be_is_a_usage_error(run: Run, pytester: pytest.Pytester) -> None:
    """Before anything is measured; a listing of tests leaves a former file alone."""
    result = run(MANY, "--roofline-json=conftest.py/results.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --roofline-json: 'conftest.py/results.json' cannot be written: *"])
    (pytester.path / "results.json").write_text("former")
    run(MANY, JSON, "--collect-only").assert_outcomes()
    assert (pytester.path / "results.json").read_text() == "former"


@pytest.mark.parametrize("verb", ["drain", "force"])
def test_a_device_that_is_lost_in_a_measurement(run: Run, locks: Path, pytester: pytest.Pytester, verb: str) -> None:
    """A failure with the driver's own words, neither a verdict nor a hang; what was measured before is kept."""
    lost = f"""
class Losable(FakeBackend):
    is_private = False
    is_lost = False

    def {verb}(self, *arguments):
        if self.is_lost:
            raise RuntimeError("CUDA error: device lost")
        return super().{verb}(*arguments)

BACKEND = Losable()
"""
    conftest = FAKE.replace("BACKEND = FakeBackend()", lost)
    source = "from conftest import BACKEND\n" + THREE.format(deed="BACKEND.is_lost = True")
    result = run(source, JSON, conftest=conftest, fresh=True)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["FAILED *test_two - RuntimeError: CUDA error: device lost"])
    assert verdicts(pytester.path) == {"test_one": "passed"}
    take_the_lock(locks)


def test_conditions_that_fail_midway_cost_the_conditions(run: Run) -> None:
    """A driver that stops answering, or answers with errors: the measurement is judged without it."""
    conftest = FAKE.replace(
        "BACKEND = FakeBackend()",
        """
class Silent(FakeBackend):
    asked = 0

    def conditions(self, device):
        self.asked += 1
        if self.asked > 1:
            raise RuntimeError("NVML: GPU is lost")
        return super().conditions(device)

BACKEND = Silent()
""",
    )
    result = run(MANY, conftest=conftest, fresh=True)
    result.assert_outcomes(passed=8)


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_a_clock_that_is_set_changes_no_verdict_of_our_own_loop(run: Run, step_s: float) -> None:
    """Forwards and back, in the middle of a measurement: only the private clock counts."""
    source = """
        import time

        def test_it(roofline, model, monkeypatch):
            real, calls = time.time, []
            for name in ("time", "monotonic", "perf_counter"):
                monkeypatch.setattr(time, name, lambda: real() + (STEP if len(calls) > 40 else 0))
            def step():
                calls.append(1)
                return model.step()
            result = roofline.decode(step, traffic=2e9)
            assert 0.78 <= result.fraction <= 0.82
            assert not result.verdict.of("bogus")
            assert len(calls) > 41
    """
    run(source.replace("STEP", repr(step_s))).assert_outcomes(passed=1)
