"""What a run writes down: by the published schema, with all that its figures came from, whatever ended it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from inner_runs import FAKE, Run
from made_up_runs import document_with, kept_test, result_of
from other_plugins import beside
from test_faults import JSON, THREE, locks, started  # noqa: F401 - a fixture

from pytest_roofline.results.reading import read_results
from pytest_roofline.results.shape import fault_in, schema_of

SHARED = FAKE.replace(
    "BACKEND = FakeBackend()",
    """
class Shared(FakeBackend):
    is_private = False

BACKEND = Shared()
""",
)
EVERY_VERDICT = """
import pytest

def test_passed(roofline, model):
    assert roofline.decode(model.step, model=model, context=128).fraction >= 0.6

def test_missed(roofline, model):
    assert roofline.decode(model.step, model=model).fraction >= 0.95

@pytest.mark.roofline(at_least=0.9)
def test_failed(roofline, model):
    roofline.decode(model.step, model=model)

def test_bogus(roofline, model):
    roofline.decode(model.step, traffic=5e9)

def test_caught(roofline, model):
    from pytest_roofline import BogusMeasurement

    with pytest.raises(BogusMeasurement):
        roofline.decode(model.step, traffic=5e9)

def test_doubt(roofline, small):
    assert roofline.decode(small.step, model=small).fraction >= 0.5

@pytest.mark.roofline(allow=("cache-resident",))
def test_allowed(roofline, small):
    roofline.decode(small.step, model=small)
"""
EVERY_KIND = """
import time
import pytest
from conftest import BACKEND
from pytest_roofline.backends.fake import FakeGenerator

def test_prefill(roofline, model):
    roofline.prefill(lambda: model.step(), model=model, prompt_tokens=100)

def test_kernel(roofline):
    roofline.kernel(lambda: BACKEND.launch(read_bytes=1e9), bytes_read=1e9)
    roofline.kernel(lambda: BACKEND.launch(read_bytes=1e6), bytes_read=1e6, cache="hot")

def test_generate(roofline):
    model = FakeGenerator(BACKEND, 4e9, kv_bytes_per_token=1e6)
    roofline.generate(model, {"input_ids": [[5] * 30]}, max_new_tokens=17)

def test_audit(roofline, model):
    with roofline.audit(model=model) as audit:
        times = []
        for _ in range(8):
            start = time.perf_counter()
            for _ in range(20):
                model.step()
            BACKEND.synchronize()
            times.append(time.perf_counter() - start)
        audit.claim(tokens=160, samples=times)

def test_window(roofline, model):
    with roofline.audit(model=model) as audit:
        with audit.window():
            for _ in range(20):
                model.step()
        audit.claim(tokens=20)

def test_not_drained(roofline, model):
    with roofline.audit(model=model) as audit:
        start = time.perf_counter()
        for _ in range(50):
            model.step()
        audit.claim(tokens=50, seconds=time.perf_counter() - start)

def test_no_claim(roofline, model):
    with roofline.audit(model=model):
        model.step()
"""


def checked(path: Path) -> dict[str, Any]:
    """A results file, as it lies there, held against the schema; the reader adds nothing, and no test takes 64 KB."""
    text = path.read_text(encoding="utf-8")
    assert max(len(line) for line in text.splitlines() if line.startswith('{"node_id"')) < 64_000
    raw: dict[str, Any] = json.loads(text)
    valid(raw)
    found = read_results(str(path))
    assert found == raw
    return found


def valid(document: Any) -> None:
    """The schema's own words for the first fault; by our own reader of it where `jsonschema` is not installed."""
    assert fault_in(document, schema_of(1)) is None
    try:
        import jsonschema
    except ImportError:
        return
    jsonschema.Draft202012Validator.check_schema(schema_of(1))
    jsonschema.Draft202012Validator(schema_of(1)).validate(document)


@pytest.fixture
def jsonschema_is_here() -> None:
    """For tests that are about the standard."""
    pytest.importorskip("jsonschema")


def by_name(document: dict[str, Any]) -> dict[str, Any]:
    """Its tests by their bare names."""
    return {test["node_id"].rpartition("::")[2]: test for test in document["tests"]}


def test_the_schema_closes_what_it_can(jsonschema_is_here: None) -> None:
    """An additional key anywhere but in figures is an error, so that a new one has to be written into the schema."""
    import jsonschema

    validator = jsonschema.Draft202012Validator(schema_of(1))
    whole = document_with(kept_test(result_of()))
    assert validator.is_valid(whole)
    test = whole["tests"][0]
    result = test["results"][0]
    for part in (whole, whole["run"], test, result, result["device"], result["samples"][0], result["ceiling"]):
        part["new"] = 1
        assert not validator.is_valid(whole)
        del part["new"]
    assert validator.is_valid(whole)


def test_every_verdict(run: Run, pytester: pytest.Pytester) -> None:
    """Each of them by the schema, with message, place, samples, limit and comparisons."""
    run(EVERY_VERDICT, JSON).assert_outcomes(passed=3, failed=3, skipped=1)
    tests = by_name(checked(pytester.path / "results.json"))
    assert {name: test["verdict"] for name, test in tests.items()} == {
        "test_passed": "passed",
        "test_missed": "failed",
        "test_failed": "failed",
        "test_bogus": "bogus",
        "test_caught": "bogus (caught)",
        "test_doubt": "inconclusive",
        "test_allowed": "passed",
    }
    assert tests["test_failed"]["message"].startswith("BelowCeiling: ")
    assert tests["test_passed"]["message"] == ""
    assert tests["test_doubt"]["message"].startswith("Skipped: inconclusive: ")
    assert tests["test_passed"]["file"] == "test_every_verdict.py"
    assert tests["test_passed"]["line"] == 3
    (result,) = tests["test_missed"]["results"]
    assert result["comparisons"] == [{"operator": ">=", "other": 0.95, "truth": False, "is_decided": True}]
    assert len(result["samples"]) >= 10
    assert {"ruler_before_bytes_per_s", "ruler_after_bytes_per_s"} <= result["samples"][0].keys()
    assert result["limit"]["bytes_per_s"] > 0
    (bogus,) = tests["test_bogus"]["results"]
    (finding,) = [one for one in bogus["findings"] if one["severity"] == "bogus"]
    assert finding["figures"]
    assert finding["remedy"]


def test_every_kind(run: Run, pytester: pytest.Pytester) -> None:
    """Kernel, prefill, generate and audits of all endings by the schema; the samples that an audit claims are kept."""
    run(EVERY_KIND, JSON)
    tests = by_name(checked(pytester.path / "results.json"))
    assert {name: [result["kind"] for result in test["results"]] for name, test in tests.items()} == {
        "test_prefill": ["prefill"],
        "test_kernel": ["kernel", "kernel"],
        "test_generate": ["generate"],
        "test_audit": ["audit"],
        "test_window": ["audit"],
        "test_not_drained": ["audit"],
        "test_no_claim": [],
    }
    (audit,) = tests["test_audit"]["results"]
    assert len(audit["claim"]["samples_s"]) == 8
    (window,) = tests["test_window"]["results"]
    assert window["window"]["closed_s"] >= window["window"]["window_s"] > 0
    assert tests["test_no_claim"]["verdict"] == "inconclusive"


def test_streams(run: Run, pytester: pytest.Pytester) -> None:
    """Every request of a server's answers is kept, none of their texts."""
    pytest.importorskip("httpx")
    source = """
        from answering_server import serving

        def test_it(roofline):
            with serving() as server:
                roofline.stream(server.url, tokens=16, requests=3, warmup=0, repeat=False)
    """
    run(source, JSON)
    (test,) = checked(pytester.path / "results.json")["tests"]
    for result in test["results"]:
        assert len(result["stream"]["exchanges"]) == 3
        assert all(one["ttft_s"] > 0 for one in result["stream"]["exchanges"])


def test_benchmarks(run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pytest-benchmark timed, judged."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # it would measure nothing in ours
    arguments = beside("pytest_benchmark", "benchmark")
    source = """
        from conftest import BACKEND

        def test_it(benchmark, roofline, model):
            def step():
                model.step()
                BACKEND.synchronize()
            benchmark.pedantic(step, rounds=5, iterations=1)
            roofline.annotate(benchmark, model=model)
    """
    run(source, JSON, *arguments, "-W", "ignore")
    (test,) = checked(pytester.path / "results.json")["tests"]
    assert [result["kind"] for result in test["results"]] == ["benchmark"]


def test_what_the_figures_came_from(run: Run, pytester: pytest.Pytester) -> None:
    """Device, driver, sheet, probe with sweep and knee, libraries, commit, command line and when it began."""
    pytester.makefile(".ini", pytest="[pytest]\n")
    run(EVERY_VERDICT, JSON, "-k", "passed or missed")
    found = checked(pytester.path / "results.json")
    (entry,) = found["devices"]
    assert entry["workers"] == []
    assert entry["device"] == found["tests"][0]["results"][0]["device"]
    assert entry["device"]["name"] == "Fake Accelerator"
    assert entry["limit"]["bytes_per_s"] > 0
    probe = entry["probe"]
    assert probe["cache_knee_bytes"] > 0
    assert len(probe["sweep"]) >= 5
    assert "device" not in probe
    assert found["libraries"]["pytest"] == pytest.__version__
    assert found["libraries"]["pytest-roofline"] == found["run"]["version"]
    assert JSON in found["run"]["arguments"]
    assert found["run"]["started_at"].endswith("+00:00")
    assert found["end"] == {"exit_status": 1}


def test_peaks_that_a_test_asked_for(run: Run, pytester: pytest.Pytester) -> None:
    """What is measured on demand joins the probe, which still stands there once."""
    source = """
        def test_one(roofline, model):
            assert roofline.decode(model.step, model=model).fraction >= 0.6

        def test_two(roofline, roofline_probe, model):
            assert roofline_probe.peak_flops_per_s("bfloat16") > 0
            assert roofline.decode(model.step, model=model).fraction >= 0.6
    """
    run(source, JSON).assert_outcomes(passed=2)
    (entry,) = checked(pytester.path / "results.json")["devices"]
    assert entry["probe"]["peak_flops_per_s"]["bfloat16"] > 0


def test_nothing_measured(run: Run, pytester: pytest.Pytester) -> None:
    """``--roofline=off``: the tests are there, without a figure, and no device was probed."""
    run(EVERY_VERDICT, JSON, "--roofline=off", "-k", "passed or missed")
    found = checked(pytester.path / "results.json")
    assert {test["verdict"] for test in found["tests"]} == {"not measured"}
    assert {test["mode"] for test in found["tests"]} == {"off"}
    assert found["devices"] == []


def test_tests_that_are_run_again(run: Run, pytester: pytest.Pytester) -> None:
    """Each attempt by the schema; the last one has those before it."""
    again = beside("pytest_rerunfailures", "rerunfailures")
    run(EVERY_VERDICT, JSON, *again, "--reruns=1", "-W", "ignore", "-k", "failed or bogus", fresh=True)
    found = checked(pytester.path / "results.json")
    ends = [(test["node_id"].rpartition("::")[2], test["outcome"], len(test["attempts"])) for test in found["tests"]]
    assert ("test_failed", "rerun", 0) in ends
    assert ("test_failed", "failed", 1) in ends
    (last,) = [test for test in found["tests"] if test["attempts"] and "test_bogus" in test["node_id"]]
    assert last["attempts"][0]["verdict"] == "bogus"
    assert last["attempts"][0]["results"][0]["findings"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_workers_bring_what_they_found(run: Run, locks: Path, pytester: pytest.Pytester) -> None:  # noqa: F811
    """Several of them, one probe: it stands there once, with all that used it, although one of them was killed."""
    pytest.importorskip("xdist")
    source = THREE.format(deed="os.kill(os.getpid(), signal.SIGKILL)")
    run(source, "-p", "xdist.plugin", "-n2", JSON, conftest=SHARED, fresh=True)
    found = checked(pytester.path / "results.json")
    (entry,) = found["devices"]
    assert entry["workers"]
    assert set(entry["workers"]) <= {"gw0", "gw1", "gw2", "gw3"}
    assert entry["probe"]["sweep"]
    (crashed,) = [test for test in found["tests"] if test["verdict"] is None]
    assert (crashed["mode"], crashed["results"], crashed["outcome"]) == (None, [], "failed")
    assert "crashed while running" in crashed["reason"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_a_run_that_is_killed_says_where_its_figures_came_from(pytester: pytest.Pytester, locks: Path) -> None:  # noqa: F811
    """After every test the file is whole, with the probe."""
    with started(pytester, THREE.format(deed="os.kill(os.getpid(), signal.SIGKILL)"), JSON) as process:
        assert process.wait() == -signal.SIGKILL
    found = checked(pytester.path / "results.json")
    assert found["end"] is None
    assert len(found["tests"]) == 1
    assert len(found["devices"]) == 1


def test_without_a_repository(run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """No git, none of a CI's variables, or nothing committed: no commit, and no error."""
    monkeypatch.setenv("PATH", "")
    for name in [name for name in os.environ if name.endswith(("_SHA", "_COMMIT", "_SHA1", "SOURCEVERSION"))]:
        monkeypatch.delenv(name)
    run(EVERY_VERDICT, JSON, "-k", "passed")
    assert checked(pytester.path / "results.json")["run"]["commit"] is None
    monkeypatch.setenv("GITHUB_SHA", "abc")
    run(EVERY_VERDICT, JSON, "-k", "passed")
    commit = checked(pytester.path / "results.json")["run"]["commit"]
    assert commit == {"id": "abc", "branch": None, "is_dirty": None, "source": "GITHUB_SHA"}


def test_in_a_repository(run: Run, pytester: pytest.Pytester) -> None:
    """The commit that was checked out, and whether what was tested is that commit."""

    def git(*words: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false", *words]
        done = subprocess.run(command, cwd=pytester.path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    try:
        git("init", "-q", "-b", "main")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git here")
    run(EVERY_VERDICT, JSON, "-k", "passed")
    assert read_results(str(pytester.path / "results.json"))["run"]["commit"] is None
    git("add", "conftest.py")
    git("commit", "-q", "-m", "first")
    run(EVERY_VERDICT, JSON, "-k", "passed")
    commit = checked(pytester.path / "results.json")["run"]["commit"]
    assert commit == {"id": git("rev-parse", "HEAD"), "branch": "main", "is_dirty": False, "source": "git"}
    (pytester.path / "conftest.py").write_text("# changed\n" + FAKE)
    run(EVERY_VERDICT, JSON, "-k", "passed", conftest="# changed\n" + FAKE)
    assert read_results(str(pytester.path / "results.json"))["run"]["commit"]["is_dirty"] is True
