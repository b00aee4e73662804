"""Looking a runner over: on the fake device, on file systems of our own making, and once on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_roofline import cli
from pytest_roofline.backends import cpu_facts
from pytest_roofline.backends.fake import FakeBackend, Neighbour, Throttle, gaussian
from pytest_roofline.conditions import Conditions
from pytest_roofline.errors import InconclusiveMeasurement, MeasurementError
from pytest_roofline.examination import PROBES, examine
from pytest_roofline.fitness import RunnerFacts, complaints, is_fit, unchecked
from pytest_roofline.fitness.software import KEPT
from pytest_roofline.session import Session

ROOT = Path(__file__).resolve().parents[2]
LONG = 1e9
NOWHERE = Path("/nonexistent")


def examined(*, is_quick: bool = False, root: Path = NOWHERE, environ: Any = None, **figures: Any) -> RunnerFacts:
    """What is found out about a fake device."""
    session = Session(added_backends=[FakeBackend(**figures)])
    return examine(session, "fake:0", is_quick=is_quick, environ=environ or {"OMP_NUM_THREADS": "1"}, root=root)


def names(facts: RunnerFacts) -> list[tuple[str, str]]:
    """Complaints by name and grade."""
    return [(one.name, one.grade) for one in complaints(facts)]


def test_a_quiet_device_is_fit() -> None:
    """Probed two dozen times over four seconds of its own time, which take no time of ours."""
    facts = examined()
    assert names(facts) == []
    assert facts.short_probes is not None
    assert len(facts.short_probes.rates_bytes_per_s) == PROBES
    assert facts.short_probes.elapsed_s > 2.5
    assert facts.short_probes.usual_bytes_per_s == pytest.approx(1e12, rel=0.02)
    assert facts.is_knee_measured


@pytest.mark.parametrize(
    ("figures", "name", "grade"),
    [
        ({"throttle": [Throttle(start_s=0, end_s=LONG, slowdown=2)]}, "throttled", "blocks judging"),
        ({"neighbours": [Neighbour(start_s=0, end_s=LONG, share=0.5)]}, "shared-card", "blocks judging"),
        ({"state": Conditions(uncorrected_errors=1)}, "memory-errors", "blocks judging"),
        ({"state": Conditions(power_limit_w=300, default_power_limit_w=400)}, "power-cap", "widens intervals"),
        ({"noise": lambda now_s, _: 1.0 + 2.0 * (now_s % 1.0)}, "moving-bandwidth", "blocks judging"),
        ({"noise": lambda now_s, _: 1.0 + 0.4 * (now_s % 1.0)}, "moving-bandwidth", "widens intervals"),
        ({"sheet_bytes_per_s": 2e12}, "below-data-sheet", "widens intervals"),
    ],
)
def test_what_the_fake_plays_is_found(figures: dict[str, Any], name: str, grade: str) -> None:
    """Each illness of the device comes out as its complaint."""
    assert (name, grade) in names(examined(**figures))


def test_noise_of_two_percent_is_no_complaint() -> None:
    """As every device has it."""
    assert names(examined(noise=gaussian(0.02), seed=1)) == []


def test_quick_measures_nothing() -> None:
    """Only what the system tells, and it says so."""
    facts = examined(is_quick=True)
    assert (facts.short_probes, facts.held, facts.best_bytes_per_s, facts.is_knee_measured) == (None, None, None, False)
    assert any("--quick does not measure" in one for one in unchecked(facts))


def test_a_device_that_is_not_here_is_a_finding() -> None:
    """Not an error: the answer to the question is no."""
    facts = examine(Session(added_backends=[FakeBackend()]), "tpu:7", is_quick=True, environ={}, root=NOWHERE)
    assert [one[0] for one in names(facts)] == ["missing-device"]
    assert not is_fit(complaints(facts))
    assert "no device here matches 'tpu:7'; here are: " in complaints(facts)[0].message


@pytest.mark.parametrize(
    "error", [MeasurementError("no memory\ndo: free some"), InconclusiveMeasurement("x"), MemoryError()]
)
def test_a_probe_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """With what it said; the rest of the examination stands."""

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Session, "probe", fail)
    facts = examined()
    assert ("untrusted-probe", "blocks judging") in names(facts)
    assert facts.probe_problem in ("no memory", "x", "MemoryError")
    assert facts.conditions.clock_hz == 1.5e9


def test_a_driver_that_raises_costs_its_fields() -> None:
    """The device is looked at without it."""

    def gone(_: float) -> Conditions:
        raise RuntimeError("GPU is lost")

    facts = examined(state=gone)
    assert facts.conditions.clock_hz is None
    assert facts.short_probes is not None


@pytest.mark.parametrize(
    ("environ", "threads", "source"),
    [
        ({"OMP_NUM_THREADS": "3,2"}, 3, "OMP_NUM_THREADS=3"),
        ({"OMP_NUM_THREADS": "many", "MKL_NUM_THREADS": "5"}, 5, "MKL_NUM_THREADS=5"),
        ({"OMP_NUM_THREADS": "0"}, 4, "one per core, as frameworks do by default"),
    ],
)
def test_threads_come_from_whoever_says_so(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], threads: int, source: str
) -> None:
    """The environment, else torch where it is loaded, else the affinity."""
    monkeypatch.setattr(cpu_facts, "usable_cpus", lambda: (0, 1, 2, 3))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    facts = examined(is_quick=True, environ=environ)
    assert (facts.step_threads, facts.threads_source) == (threads, source)


def test_only_variables_that_matter_are_kept() -> None:
    """A report is shown to others: no secret gets into it."""
    facts = examined(is_quick=True, environ={"TORCH_LOGS": "all", "TOKEN": "secret", "OMP_NUM_THREADS": "1"})
    assert dict(facts.environment) == {"TORCH_LOGS": "all", "OMP_NUM_THREADS": "1"}


def test_a_machine_of_files_is_read(tmp_path: Path) -> None:
    """Huge pages, a hypervisor's flag, a container's sign, a quota, swap and NVIDIA's driver."""
    for path, text in {
        "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]",
        "proc/cpuinfo": "flags : fpu hypervisor\n",
        "proc/meminfo": "SwapTotal: 4000000 kB\nSwapFree: 0 kB\n",
        "proc/self/cgroup": "0::/docker/job\n",
        "sys/fs/cgroup/docker/job/cpu.max": "100000 100000",
        "proc/driver/nvidia/version": "550",
    }.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    facts = examined(is_quick=True, root=tmp_path)
    assert (facts.huge_pages, facts.is_virtual, facts.is_container, facts.has_nvidia_driver) == (
        "never",
        True,
        True,
        True,
    )
    assert (facts.conditions.quota_cores, facts.conditions.swap_used_bytes) == (1.0, 4.096e9)
    (tmp_path / "proc/self/cgroup").write_text("0::/user.slice\n")
    assert not examined(is_quick=True, root=tmp_path).is_container
    (tmp_path / ".dockerenv").touch()
    assert examined(is_quick=True, root=tmp_path).is_container


@pytest.mark.parametrize(("text", "answer"), [("debug = True\n", True), ("x = 1\ndebug = False\n", False), ("", None)])
def test_torch_is_asked_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, answer: bool | None
) -> None:
    """Its version file says how it was built."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "torch/version.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert examined(is_quick=True).is_debug_torch is answer


# -- the command ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("figures", "status"), [({}, 0), ({"state": Conditions(uncorrected_errors=1)}, 1)])
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_exit_status_is_the_answer(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    figures: dict[str, Any],
    status: int,
    form: tuple[str, ...],
) -> None:
    """0 fit, 1 not fit, in both forms."""
    backend = FakeBackend(**figures)
    monkeypatch.setattr("pytest_roofline.session.Session", lambda **_: Session(added_backends=[backend]))
    monkeypatch.setattr(cpu_facts, "usable_cpus", lambda: tuple(range(64)))
    for name in ("OMP_NUM_THREADS", *KEPT):
        monkeypatch.delenv(name, raising=False)
    assert cli.main(["doctor", "--device", "fake", *form]) == status
    out = capsys.readouterr().out
    if form:
        record = json.loads(out)
        assert (record["schema"], record["is_fit"], record["device"]["id"]) == (1, status == 0, "fake:0")
        assert [one["name"] for one in record["findings"] if one["grade"] == "blocks judging"] == (
            ["memory-errors"] if status else []
        )
        assert len(record["probes"]["read_bytes_per_s"]) == PROBES
        assert set(record["findings"][0]) == {"name", "grade", "message", "remedy", "figures"} if status else True
    else:
        assert out.startswith(
            "fake:0 (Fake Accelerator): " + ("NOT FIT" if status else "fit") + " to judge performance"
        )


@pytest.mark.parametrize("wrong", [["--devise", "cpu"], ["extra"], ["--device"]])
def test_wrong_use_is_2(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With what was meant."""
    with pytest.raises(SystemExit, match="2"):
        cli.main(["doctor", *wrong])
    assert capsys.readouterr().err


def test_on_this_machine_without_a_framework() -> None:
    """Quick, in a process of its own: neither pytest nor torch is loaded, and the answer is one object of JSON."""
    program = (
        "import sys\n"
        "from pytest_roofline.cli import main\n"
        "status = main(['doctor', '--device', 'cpu', '--quick', '--json'])\n"
        "loaded = [name for name in ('torch', 'pytest', 'rich', 'numpy', 'jax') if name in sys.modules]\n"
        "sys.exit(f'loaded {loaded}' if loaded else status)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ}
    )
    assert done.returncode in (0, 1), done.stderr
    record = json.loads(done.stdout)
    assert (record["schema"], record["device"]["id"], record["probes"]) == (1, "cpu", None)
    assert (done.returncode == 0) == record["is_fit"]
    assert record["not_checked"]
