"""auto, off and require."""

from __future__ import annotations

from textwrap import dedent

import pytest
from inner_runs import FAKE, Run

ONE = """
def test_it(roofline, model):
    result = roofline.decode(model.step, model=model)
    assert result.fraction >= 0.6
"""
NO_FAKE = FAKE.replace("return [BACKEND]", "return []")
# Only the processor is here, whatever this machine has: the fake, under the id of the CPU, shadows it.
ONLY_CPU = FAKE.replace(
    "BACKEND = FakeBackend()",
    dedent(
        """
        from dataclasses import replace
        from pytest_roofline.backends import Backends

        class Processor(FakeBackend):
            def devices(self):
                (device,) = super().devices()
                return (replace(device, kind="cpu", name="Old Processor", uuid="P0"),)

            def device_of(self, obj):
                return "cpu" if super().device_of(obj) else None

            def trace(self, request):
                found = super().trace(request)
                return None if found is None else replace(found, device_ids=("cpu",))

        Backends.loaded = lambda self: self._added
        BACKEND = Processor()
        """
    ),
)


def test_the_first_added_device_is_the_default(run: Run) -> None:
    """No option, a fake through the hook: it measures, and the header says so."""
    result = run(ONE)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["roofline: fake:0 (Fake Accelerator), mode auto"])


@pytest.mark.parametrize("name", ["fake", "fake:1", "FAKE:1", "fake acc*"])
def test_a_device_is_found_by_id_kind_or_pattern(run: Run, name: str) -> None:
    """The option picks among devices; the default would be fake:0."""
    conftest = FAKE.replace("FakeBackend()", "FakeBackend(devices=2)")
    source = "def test_it(roofline_device):\n    print('on', roofline_device.id)\n"
    result = run(source, "-s", f"--roofline-device={name}", conftest=conftest)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"*on fake:{1 if ':1' in name.lower() else 0}"])


def test_auto_without_an_accelerator_measures_on_the_cpu_and_does_not_judge_a_plain_budget(run: Run) -> None:
    """Said once in the header; the budget without an entry for the CPU is reported, the one with an entry judged."""
    source = """
        import pytest

        @pytest.mark.roofline(at_least=0.9)
        def test_reported(roofline, model):
            roofline.decode(model.step, model=model)

        @pytest.mark.roofline(at_least={"cpu": 0.9, "*": 0.1})
        def test_judged(roofline, model):
            roofline.decode(model.step, model=model)
    """
    result = run(source, conftest=ONLY_CPU, fresh=True)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "roofline: cpu (Old Processor), mode auto: no accelerator here, measured on the CPU",
            "test_reported * cpu * passed",
            "test_judged * cpu * failed",
            "*test_reported: at_least=0.9 is reported, not judged*",
        ]
    )


def test_require_wants_an_accelerator_unless_the_cpu_is_named(run: Run) -> None:
    """The CPU alone is no device for require, until option or marker names it."""
    result = run(ONE, "--roofline=require", "-rE", conftest=ONLY_CPU, fresh=True)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "DeviceUnavailable: --roofline=require finds no accelerator, only cpu (Old Processor); *",
            "  so does a test that only asks a server (roofline.stream): the device that it judges is stated, *",
            "ERROR: --roofline=require: finds no accelerator, only cpu (Old Processor); * --roofline-device=cpu (*)",
            "ERROR *--roofline=require finds no accelerator, only cpu (Old Processor); * --roofline-device=cpu",
        ]
    )
    result = run(ONE, "--roofline=require", "--roofline-device=cpu", conftest=ONLY_CPU, fresh=True)
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.OK


def test_a_test_that_asks_a_server_names_the_cpu_by_its_marker(run: Run) -> None:
    """Nothing local is measured there, and other tests of the run are refused as before."""
    pytest.importorskip("httpx")
    from answering_server import serving

    with serving() as server:
        source = f"""
            import pytest

            @pytest.mark.roofline(device="cpu")
            def test_server(roofline):
                roofline.stream({server.url!r}, traffic=1.0, bandwidth="1000TB/s", tokens=16, requests=2, repeat=False)

            def test_local(roofline): pass
        """
        result = run(source, "--roofline=require", conftest=ONLY_CPU, fresh=True)
    result.assert_outcomes(passed=1, errors=1)
    assert result.ret != pytest.ExitCode.OK
    line = "ERROR: --roofline=require: finds no accelerator, only cpu (Old Processor); *(*::test_local)"
    result.stdout.fnmatch_lines([line])


def test_require_fails_a_marked_test_whose_device_is_absent(run: Run) -> None:
    """What auto skips is an error here: a skipped test must not look like a green one."""
    source = "import pytest\n\n@pytest.mark.roofline(device='cuda:9')\ndef test_it(roofline): pass\n"
    run(source).assert_outcomes(skipped=1)
    run(source, "--roofline=require").assert_outcomes(errors=1)


@pytest.mark.parametrize("arguments", [(), ("-p", "xdist", "-n", "1"), ("-q", "-q")], ids=["plain", "xdist", "quiet"])
@pytest.mark.parametrize("body", ["pass", "import pytest; pytest.skip('later')"], ids=["passes", "skips"])
def test_require_is_an_error_when_nothing_was_measured(run: Run, arguments: tuple[str, ...], body: str) -> None:
    """All green, nothing measured: the exit status says it, and so does a line."""
    result = run(f"def test_it(roofline):\n    {body}\n", "--roofline=require", *arguments, fresh=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: --roofline=require: no roofline test measured anything (*)"])


def test_require_is_content_when_something_was_measured(run: Run) -> None:
    """One measured test is enough, also when it was measured by a worker of xdist."""
    assert run(ONE, "--roofline=require").ret == pytest.ExitCode.OK
    assert run(ONE, "--roofline=require", "-p", "xdist", "-n", "1", fresh=True).ret == pytest.ExitCode.OK


@pytest.mark.parametrize("argument", ["--collect-only", "--fixtures", "--setup-plan"])
def test_require_asks_nothing_of_runs_that_run_nothing(run: Run, argument: str) -> None:
    """Listing tests measures nothing, and that is fine."""
    result = run(ONE, "--roofline=require", argument)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*no roofline test measured*")


def test_off_runs_steps_once_and_measures_nothing(run: Run) -> None:
    """Every comparison with the fraction is true, nothing is probed, budgets are not judged."""
    conftest = FAKE + "\ndef pytest_roofline_probe_finished(probe):\n    raise AssertionError('probed')\n"
    result = run(
        """
        import pytest

        @pytest.mark.roofline(at_least=0.99)
        def test_it(roofline, model):
            calls = []
            result = roofline.decode(lambda: (calls.append(1), model.step())[1], model=model)
            assert len(calls) == 1
            assert result.fraction >= 5
            assert result.fraction < 0.1
            assert str(result.fraction) == "not measured (--roofline=off)"

        def test_probe(roofline_probe): pass

        @pytest.mark.roofline(device="cuda:9")
        def test_elsewhere(roofline, model):
            pass
        """,
        "--roofline=off",
        conftest=conftest,
    )
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(
        ["roofline: off, steps run once and nothing is measured", "test_it * fake:0 * not measured"]
    )


def test_no_line_of_ours_where_no_test_is_ours(run: Run) -> None:
    """Unrelated suites see nothing of the plugin."""
    result = run("def test_it(): pass\n")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*roofline*")
    result = run(ONE, "--collect-only")
    result.stdout.no_fnmatch_line("roofline:*")


def test_the_fixture_may_be_asked_for_in_the_middle_of_a_test(run: Run) -> None:
    """``getfixturevalue`` works as well, and the test is judged like any other."""
    result = run(
        """
        def test_it(request, small):
            roofline = request.getfixturevalue("roofline")
            roofline.decode(small.step, model=small)
        """,
        conftest=NO_FAKE.replace("return []", "return [BACKEND]"),
    )
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["1 of 1 not judged"])


@pytest.mark.parametrize("budget", ["{'H200*': 0.7}", "{'H200*': 0.85, 'A100*': 0.8, 'B200': 0.9, 'mps': 0.5}"])
def test_a_budget_without_an_entry_for_the_device_is_reported(run: Run, budget: str) -> None:
    """A note names the device on a CPU and elsewhere; no figure decides, and none leaves the result undecided."""
    source = f"""
        import pytest

        @pytest.mark.roofline(at_least={budget})
        def test_it(roofline, model):
            roofline.decode(model.step, model=model)
    """
    for conftest, device in ((ONLY_CPU, "cpu (Old Processor)"), (FAKE, "fake:0 (Fake Accelerator)")):
        result = run(source, conftest=conftest, fresh=True)
        result.assert_outcomes(passed=1)
        said = " ".join(result.stdout.str().split())
        assert "test_it: at_least={H200*: 0." in said
        assert f"is reported, not judged: no entry fits {device}" in said
