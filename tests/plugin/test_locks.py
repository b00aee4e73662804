"""Tests of several processes that measure on one device: one after the other, by one probe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from inner_runs import FAKE, PLUGIN, ROOT, Run

from pytest_roofline.results.reading import read_results
from pytest_roofline.turnstile import Turnstile

pytest.importorskip("xdist")

# A fake device that other processes have too: it is locked, and its probe is shared.
SHARED = FAKE.replace(
    "BACKEND = FakeBackend()",
    """
class Shared(FakeBackend):
    is_private = False

BACKEND = Shared()
""",
)
WORKERS = ("-p", "xdist.plugin")
HOLDER = """
import sys
from pytest_roofline.backends.fake import FakeBackend
from pytest_roofline.turnstile import Turnstile
with Turnstile(folder=sys.argv[1]).hold(FakeBackend().devices()[0]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of locks of this test alone."""
    folder = tmp_path / "locks"
    monkeypatch.setenv("PYTEST_ROOFLINE_LOCK_FOLDER", str(folder))
    return folder


def test_a_test_waits_shows_for_whom_and_is_inconclusive_in_the_end(run: Run, locks: Path) -> None:
    """Not a hang and not a failure: the line comes at once, the reason names the holder."""
    source = """
        def test_it(roofline, model):
            result = roofline.decode(model.step, model=model)
            assert result.fraction >= 0.6

        def test_probe(roofline_probe):
            pass

        def test_audit(roofline, model):
            with roofline.audit(model=model):
                raise AssertionError("its body began beside another measurement")

        def test_nothing_is_measured(roofline, model):
            assert roofline.traffic(model).bytes_per_pass == 2e9
    """
    command = [sys.executable, "-c", HOLDER, str(locks)]
    variables = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        result = run(source, "-rs", "--roofline-lock-wait=0.01", conftest=SHARED)
        failing = run(source, "--roofline-lock-wait=0.01", "--roofline-inconclusive=fail", conftest=SHARED)
        holder.kill()
    result.assert_outcomes(passed=1, skipped=3)
    lines = [line for line in result.outlines if "waiting for fake:0" in line]
    assert lines == [line for line in lines if f"pid {holder.pid}, since " in line]
    assert len(lines) == 1
    result.stdout.fnmatch_lines(["INCONCLUSIVE*test_it: fake:0 was not free within 10.0 ms: pid *measures on it*"])
    failing.assert_outcomes(passed=1, failed=2, errors=1)
    assert "InconclusiveMeasurement: fake:0 was not free" in failing.stdout.str()


def test_workers_measure_one_after_the_other(
    run: Run, locks: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second worker says that it waits, and no step of one runs while the other is in a step of its own."""
    source = """
        import os, pytest

        def wait_for_go(seen=[]):
            if not seen and not os.path.exists("released"):
                seen.append(1)
                with open("go") as go:  # until the test outside has read that the other one waits
                    go.read()

        @pytest.mark.parametrize("name", ["one", "other"])
        def test_it(roofline, model, name):
            def step():
                os.mkdir("inside")  # fails while another worker is in a step of its own
                try:
                    wait_for_go()
                    return model.step()
                finally:
                    os.rmdir("inside")

            roofline.decode(step, traffic=2e9)
    """
    pytester.makeconftest(SHARED)
    pytester.makepyfile(source)
    go = pytester.path / "go"
    os.mkfifo(go)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    command = [sys.executable, "-m", "pytest", *PLUGIN, *WORKERS, "-n2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        guard = threading.Timer(120, process.kill)
        guard.start()
        try:
            seen = []
            while "waiting for fake:0" not in (line := process.stdout.readline()):
                assert line, "".join(seen)
                seen.append(line)
            assert "measures on it" in line
            (pytester.path / "released").touch()
            with open(go, "w"):  # the first one goes on, and then the second one
                pass
            rest = process.stdout.read()
        finally:
            guard.cancel()
            process.kill()
    assert "2 passed" in rest
    assert "waiting for" not in rest


def test_the_probe_of_a_run_is_measured_once(run: Run, locks: Path, pytester: pytest.Pytester) -> None:
    """By one of the workers, for all of them; the next run measures again, and so does one without workers."""
    counting = (
        SHARED
        + """
import os
from pytest_roofline import probe

measure = probe.probe_device

def counted(*arguments, **more):
    with open("probes", "a") as file:
        file.write(f"{os.getpid()}\\n")
    return measure(*arguments, **more)

probe.probe_device = counted
"""
    )
    source = """
        import os

        def test_it(roofline, roofline_probe, model):
            is_shared = "another worker" in str(roofline_probe.notes)
            with open("rates", "a") as file:
                file.write(f"{os.getpid()} {roofline_probe.read_bytes_per_s} {is_shared}\\n")
            assert roofline.decode(model.step, model=model).fraction >= 0.6
    """
    for runs in (1, 2):
        result = run(
            source, *WORKERS, "--dist=each", "--tx=3*popen", "--roofline-json=out.json", conftest=counting, fresh=True
        )
        result.assert_outcomes(passed=3)
        measured = (pytester.path / "probes").read_text().split()
        assert len(measured) == len(set(measured)) == runs
        rates = [line.split() for line in (pytester.path / "rates").read_text().splitlines()[-3:]]
        assert len({pid for pid, _, _ in rates}) == 3
        assert len({rate for _, rate, _ in rates}) == 1
        assert sorted(shared for _, _, shared in rates) == ["False", "True", "True"]
        assert {pid for pid, _, shared in rates if shared == "False"} == {measured[-1]}
    assert len(read_results(str(pytester.path / "out.json"))["tests"]) == 3
    run(source, conftest=counting, fresh=True).assert_outcomes(passed=1)
    assert len((pytester.path / "probes").read_text().split()) == 3


def test_what_does_not_measure_is_not_slowed(run: Run, locks: Path) -> None:
    """Nothing is imported for locks, and no file is made, before something is measured; nor for a private device."""
    source = """
        import sys

        def test_plain():
            assert not {"filelock", "pytest_roofline.probe_record"} & set(sys.modules)

        def test_traffic(roofline, model):
            roofline.traffic(model)
            assert not {"filelock", "pytest_roofline.probe_record"} & set(sys.modules)
    """
    run(source, conftest=SHARED, fresh=True).assert_outcomes(passed=2)
    assert not locks.exists()
    run("def test_it(roofline, model): roofline.decode(model.step, model=model)", conftest=FAKE).assert_outcomes(
        passed=1
    )
    assert not locks.exists()


def test_the_lock_lasts_as_long_as_the_measuring(run: Run, locks: Path) -> None:
    """Free while the test prepares, while it goes on, and after a body that failed inside an audit."""
    source = """
        import os
        import pytest
        from conftest import BACKEND
        from filelock import FileLock, Timeout

        FOLDER = os.environ["PYTEST_ROOFLINE_LOCK_FOLDER"]

        def is_free():
            try:
                with FileLock(os.path.join(FOLDER, "FAKE-0.lock")).acquire(timeout=0):
                    return True
            except Timeout:
                return False

        def test_it(roofline, model):
            os.makedirs(FOLDER, exist_ok=True)
            seen = []
            def step():
                seen.append(is_free())
                return model.step()
            assert is_free()
            roofline.decode(step, traffic=2e9)
            assert is_free()
            assert not any(seen)

        def test_audit(roofline, model):
            with roofline.audit(model=model) as audit:
                assert not is_free()
                with audit.window():
                    for _ in range(20):
                        model.step()
                audit.claim(tokens=20)
            assert is_free()
            assert audit.result.fraction >= 0.5

        def test_audit_without_traffic(roofline, model):
            with roofline.audit():
                assert not is_free()

        def test_late_claim(roofline, model):
            with roofline.audit(model=model) as audit:
                with audit.window():
                    for _ in range(20):
                        model.step()
            assert is_free()
            audit.claim(tokens=20)
            assert is_free()

        def test_failing_body(roofline, model):
            with pytest.raises(ZeroDivisionError), roofline.audit(model=model):
                1 / 0
            assert is_free()

        def test_failing_step(roofline, model):
            calls = []
            def step():
                calls.append(1)
                if len(calls) > 20:
                    1 / 0
                return model.step()
            with pytest.raises(ZeroDivisionError):
                roofline.decode(step, traffic=2e9)
            assert is_free()
    """
    run(source, conftest=SHARED).assert_outcomes(passed=5, skipped=1)


def test_a_lock_folder_that_cannot_be_costs_the_lock(run: Run, pytester: pytest.Pytester) -> None:
    """A path below a file: everything is measured, and one line says that nothing was locked."""
    source = """
        import pytest

        @pytest.mark.parametrize("time", range(3))
        def test_it(roofline, model, time):
            assert roofline.decode(model.step, model=model).fraction >= 0.6
    """
    result = run(source, "--roofline-lock-folder=conftest.py/locks", conftest=SHARED)
    result.assert_outcomes(passed=3)
    assert len([line for line in result.outlines if "roofline: fake:0 cannot be locked (" in line]) == 1
    workers = run(source, *WORKERS, "-n2", "--roofline-lock-folder=conftest.py/locks", conftest=SHARED, fresh=True)
    workers.assert_outcomes(passed=3)


def test_results_come_from_all_workers(run: Run, locks: Path, pytester: pytest.Pytester) -> None:
    """The controller writes the file, with the worker that measured each."""
    source = """
        import pytest

        @pytest.mark.parametrize("time", range(6))
        def test_it(roofline, model, time):
            assert roofline.decode(model.step, model=model).fraction >= 0.6

        def test_plain():
            pass
    """
    run(source, *WORKERS, "-n2", "--roofline-json=out/results.json", conftest=SHARED, fresh=True).assert_outcomes(
        passed=7
    )
    found = json.loads((pytester.path / "out" / "results.json").read_text())
    assert {test["node_id"].rpartition("[")[2] for test in found["tests"]} == {f"{n}]" for n in range(6)}
    assert {test["worker"] for test in found["tests"]} <= {"gw0", "gw1"}
    assert {test["verdict"] for test in found["tests"]} == {"passed"}
    assert all(test["results"][0]["samples"] for test in found["tests"])
    assert found["end"] == {"exit_status": 0}
    assert Turnstile(folder=str(locks)).folder() == str(locks)
