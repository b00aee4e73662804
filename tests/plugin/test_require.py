"""--roofline=require: a run that measured nothing, or that did not find its device, is red and says which it was."""

from __future__ import annotations

import pytest
from inner_runs import FAKE, Run

ONE = """
def test_it(roofline, model):
    assert roofline.decode(model.step, model=model).fraction >= 0.6
"""
NOTHING = "ERROR: --roofline=require: no roofline test measured anything"
REQUIRE = "--roofline=require"
XDIST = ("-p", "xdist", "-n", "2")
# The device is there until the step of some test pulls it out.
FRAGILE = FAKE.replace(
    "BACKEND = FakeBackend()",
    """
class Fragile(FakeBackend):
    lost = ()

    def devices(self):
        return tuple(device for device in super().devices() if device.id not in self.lost)

BACKEND = Fragile(devices=2)
""",
)


def is_red(result: pytest.RunResult, *lines: str) -> None:
    """The exit status is not zero, and these lines stand in the output."""
    assert result.ret not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    result.stdout.fnmatch_lines(list(lines))


# -- nothing was measured -------------------------------------------------------------------------------------------

# Not by `importorskip`, which our own suite may turn into a failure.
MISSING = """
import pytest
try:
    import a_framework_that_is_missing
except ImportError:
    pytest.skip("it is missing", allow_module_level=True)
"""


@pytest.mark.parametrize(
    ("source", "arguments", "instead"),
    [
        (ONE, ("-k", "nothing_has_this_name"), "1 deselected"),
        (ONE, (*XDIST, "-k", "nothing_has_this_name"), "*"),  # only the workers know what was deselected
        ("def test_it(roofline): pass", (), "1 passed"),
        ("def test_it(roofline): pass", XDIST, "1 passed"),
        ("def test_plain(): pass", (), "1 passed"),
        ("# no test at all", (), "nothing was collected"),
        ("import pytest\n@pytest.mark.skip\ndef test_it(roofline): pass", (), "1 skipped"),
        ("import pytest\npytest.skip('not here', allow_module_level=True)", (), "1 skipped"),
        ("import pytest\npytest.skip('not here', allow_module_level=True)", XDIST, "*"),
        (MISSING, (), "*"),
        ("def test_it(roofline): assert roofline.traffic(2e9).bytes_per_pass == 2e9", (), "1 passed"),
        ("def test_it(roofline): assert roofline.ceiling(2e9).tokens_per_s > 0", (), "1 passed"),
        ("def test_it(roofline_probe): assert roofline_probe.read_bytes_per_s > 0", (), "1 passed"),
        ("import pytest\n@pytest.mark.xfail\ndef test_it(roofline): assert False", (), "*"),
    ],
    ids=[
        "deselected",
        "deselected-xdist",
        "passes",
        "passes-xdist",
        "unrelated",
        "empty",
        "skipped",
        "module-skipped",
        "module-skipped-xdist",
        "framework-missing",
        "only-traffic",
        "only-ceiling",
        "only-probe",
        "xfailed",
    ],
)
def test_a_green_run_that_measured_nothing_is_red(
    run: Run, source: str, arguments: tuple[str, ...], instead: str
) -> None:
    """Whatever the reason why nothing was measured; the line says what became of the tests instead."""
    if "xdist" in arguments:
        pytest.importorskip("xdist")
    result = run(source, REQUIRE, *arguments, fresh="xdist" in arguments)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    is_red(result, f"{NOTHING} ({instead})")


@pytest.mark.parametrize("workers", [(), XDIST], ids=["alone", "xdist"])
def test_a_collection_error_is_not_hidden(run: Run, workers: tuple[str, ...]) -> None:
    """Pytest's own status stays, and the line stands below its errors."""
    if workers:
        pytest.importorskip("xdist")
    result = run("import a_framework_that_is_missing", REQUIRE, *workers, fresh=bool(workers))
    is_red(result, "*ModuleNotFoundError*", f"{NOTHING} (1 error)")


@pytest.mark.parametrize("workers", [(), XDIST], ids=["alone", "xdist"])
def test_stopped_before_the_first_measurement(run: Run, workers: tuple[str, ...]) -> None:
    """With -x a failure ends the run before any roofline test: red by the failure, and said."""
    if workers:
        pytest.importorskip("xdist")
    source = "def test_a(): assert False\n" + ("" if workers else ONE)
    is_red(run(source, REQUIRE, "-x", *workers, fresh=bool(workers)), f"{NOTHING} (1 failed)")


def test_last_failed_with_none_left(run: Run) -> None:
    """``--lf --lfnf=none`` after a green run deselects everything, which measures nothing."""
    plugin = ("-p", "pytest_roofline.plugin")
    assert run(ONE, REQUIRE, plugin=plugin).ret == pytest.ExitCode.OK
    is_red(run(ONE, REQUIRE, "--lf", "--lfnf=none", plugin=plugin), f"{NOTHING} (1 deselected)")


def test_a_status_that_another_plugin_softens_is_red_all_the_same(run: Run) -> None:
    """Some let a run without tests pass; we look after them."""
    lenient = "\ndef pytest_sessionfinish(session):\n    session.exitstatus = 0\n"
    is_red(run("# no test", REQUIRE, conftest=FAKE + lenient), f"{NOTHING} (nothing was collected)")


@pytest.mark.parametrize("argument", ["--collect-only", "--cache-show", "--setup-only", "--fixtures-per-test"])
@pytest.mark.parametrize("workers", [(), XDIST], ids=["alone", "xdist"])
def test_a_run_that_runs_nothing_is_not_red(run: Run, argument: str, workers: tuple[str, ...]) -> None:
    """Listing is not measuring, also where require stands in the ini file of the project."""
    if workers:
        pytest.importorskip("xdist")
    plugin = ("-p", "pytest_roofline.plugin")
    result = run(ONE, "-o", "roofline=require", argument, *workers, plugin=plugin, fresh=True)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("ERROR: *")


def test_an_undecided_measurement_fails(run: Run) -> None:
    """It was measured, so the run is not empty; but it decided nothing, and that is red under require."""
    source = "def test_it(roofline, small):\n    assert roofline.decode(small.step, model=small).fraction >= 0.5\n"
    result = run(source, REQUIRE)
    result.assert_outcomes(failed=1)
    is_red(result, "1 of 1 not judged")
    result.stdout.no_fnmatch_line(f"{NOTHING}*")


def test_an_audit_without_a_claim_measured_nothing(run: Run) -> None:
    """It fails by itself, and the run has nothing to show."""
    source = "def test_it(roofline):\n    with roofline.audit():\n        pass\n"
    is_red(run(source, REQUIRE), "*InconclusiveMeasurement: an audit ended without a claim*", f"{NOTHING} (1 failed)")


# -- the device is not there ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [(), XDIST], ids=["alone", "xdist"])
def test_a_marker_names_an_absent_device(run: Run, workers: tuple[str, ...]) -> None:
    """The line names the device and the test, below a run in which another test was measured."""
    if workers:
        pytest.importorskip("xdist")
    source = ONE + "\nimport pytest\n@pytest.mark.roofline(device='cuda:9')\ndef test_there(roofline): pass\n"
    result = run(source, REQUIRE, *workers, fresh=bool(workers))
    result.assert_outcomes(passed=1, errors=1)
    is_red(result, "ERROR: --roofline=require: no device here matches 'cuda:9'; here are: fake:0 *(*::test_there)")
    result.stdout.no_fnmatch_line(f"{NOTHING}*")


def test_an_expected_failure_does_not_excuse_an_absent_device(run: Run) -> None:
    """For pytest the error is the expected failure, and the run would be green."""
    there = "@pytest.mark.roofline(device='cuda:9')\ndef test_there(roofline): pass\n"
    source = f"{ONE}\nimport pytest\n@pytest.mark.xfail\n{there}"
    result = run(source, REQUIRE)
    result.assert_outcomes(passed=1, xfailed=1)
    is_red(result, "ERROR: --roofline=require: no device here matches 'cuda:9'; *")


def test_an_absent_device_of_the_option(run: Run) -> None:
    """Every test errs by it; the line is there once, with their number."""
    source = "def test_a(roofline): pass\ndef test_b(roofline): pass\n"
    result = run(source, REQUIRE, "--roofline-device=cuda:9")
    result.assert_outcomes(errors=2)
    is_red(result, "ERROR: --roofline=require: no device here matches 'cuda:9'; *::test_a and 1 more)", f"{NOTHING} *")


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")], ids=["alone", "xdist"])
def test_a_device_that_is_lost_midway(run: Run, workers: tuple[str, ...]) -> None:
    """The next test does not quietly move to the other device, and does not skip: it names the one that is gone."""
    if workers:
        pytest.importorskip("xdist")
    source = """
        import pytest
        from conftest import BACKEND

        def test_before(roofline, model):
            roofline.decode(model.step, model=model)
            BACKEND.lost = ("fake:0",)

        def test_after(roofline):
            pytest.skip("no device")
    """
    result = run(source, REQUIRE, *workers, conftest=FRAGILE, fresh=bool(workers))
    result.assert_outcomes(passed=1, errors=1)
    is_red(
        result,
        "ERROR: --roofline=require: fake:0 (Fake Accelerator) was here when this run began, and is gone *::test_after)",
    )
    result = run(source, *workers, conftest=FRAGILE, fresh=True)
    result.assert_outcomes(passed=1, skipped=1)  # by default that is the test's own business


def test_a_device_that_is_lost_in_a_measurement(run: Run) -> None:
    """What its driver raises fails the test, and the tests behind it name the device."""
    source = """
        from conftest import BACKEND

        def test_in_between(roofline, model):
            def step():
                BACKEND.lost = ("fake:0", "fake:1")
                raise RuntimeError("device lost")
            roofline.decode(step, model=model)

        def test_after(roofline, model):
            roofline.decode(model.step, model=model)
    """
    result = run(source, REQUIRE, conftest=FRAGILE, fresh=True)
    result.assert_outcomes(failed=1, errors=1)
    is_red(result, "ERROR: --roofline=require: fake:0 (Fake Accelerator) was here *", f"{NOTHING} (1 error, 1 failed)")
