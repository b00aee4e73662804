"""Bad input: a clear error at the right test, the session goes on, and nothing stays locked."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from inner_runs import FAKE, ROOT, Run


def test_each_wrong_measurement_is_an_error_at_its_test(run: Run) -> None:
    """Wrong bytes, a step that raises or returns nothing: each fails its own test, the last one still measures."""
    result = run(
        """
        import pytest

        @pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf")])
        def test_bytes(roofline, model, wrong):
            roofline.decode(model.step, traffic=wrong)

        def test_raises(roofline):
            def step():
                raise KeyError("no such layer")
            roofline.decode(step, traffic=2e9)

        def test_nothing(roofline):
            roofline.decode(lambda: None, traffic=2e9)

        def test_no_bytes(roofline, model):
            roofline.decode(model.step)

        def test_goes_on(roofline, model):
            assert roofline.decode(model.step, model=model).fraction > 0.7
        """,
        "-rf",
    )
    result.assert_outcomes(failed=7, passed=1)
    result.stdout.fnmatch_lines(
        [
            "E*KeyError: 'no such layer'",
            "FAILED *::test_bytes[[]0[]] - RooflineUsageError: *0 *",
            "FAILED *::test_bytes[[]-1[]] - RooflineUsageError: *-1 *",
            "FAILED *::test_bytes[[]nan[]] - RooflineUsageError: *nan *",
            "FAILED *::test_raises - KeyError: 'no such layer'",
            "FAILED *::test_nothing - RooflineUsageError: the step returned nothing*",
            "FAILED *::test_no_bytes - RooflineUsageError: roofline.decode needs the bytes of a pass*",
        ]
    )


def test_wrong_markers(run: Run) -> None:
    """Each wrong marker is an error of its own test that says what is known; a plain skip goes before."""
    result = run(
        """
        import pytest

        @pytest.mark.roofline(at_leest=0.6)
        def test_unknown(): pass

        @pytest.mark.roofline(0.6)
        def test_positional(): pass

        @pytest.mark.roofline(at_least=60)
        def test_percent(): pass

        @pytest.mark.roofline(at_least={"cpu": "much"})
        def test_mapping(): pass

        @pytest.mark.roofline(at_least=0.9, at_most=0.8)
        def test_band(): pass

        @pytest.mark.roofline(device=0)
        def test_device(): pass

        @pytest.mark.roofline(allow="cache-residents")
        def test_allow(): pass

        @pytest.mark.skip(reason="later")
        @pytest.mark.roofline(at_leest=0.6)
        def test_skipped(): pass

        def test_goes_on(): pass
        """,
        "-rE",
    )
    result.assert_outcomes(errors=7, skipped=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "UsageError: roofline marker: unknown at_leest; known are at_least, at_most, device, allow",
            "UsageError: roofline marker: positional argument 0.6; give it by keyword, known are *",
            "UsageError: roofline marker, at_least: 60 is no fraction of the ceiling*",
            "UsageError: roofline marker, at_least: 'much' is no fraction of the ceiling*",
            "UsageError: roofline marker: at_least=0.9 is above at_most=0.8, so nothing can pass",
            "UsageError: roofline marker, device: 0 is no device; examples: *",
            "UsageError: roofline marker, allow: no check is named cache-residents; did you mean cache-resident? *",
        ]
    )


def test_a_marker_budget_without_a_result_is_an_error(run: Run) -> None:
    """The marker promised a measurement."""
    result = run(
        """
        import pytest

        @pytest.mark.roofline(at_least=0.6)
        def test_forgot(roofline): pass

        @pytest.mark.roofline(at_least=0.6)
        def test_no_fixture(): pass
        """,
        "-rf",
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*::test_forgot - RooflineUsageError: the marker asks for at_least, but nothing*"])


def test_a_device_that_does_not_exist(run: Run) -> None:
    """A marker's absent device skips its test; the option's is an error at every test, listing those here."""
    source = """
        import pytest

        @pytest.mark.roofline(device="cuda:7")
        def test_marked(roofline): pass

        def test_plain(roofline_device): pass

        def test_unrelated(): pass
    """
    result = run(source, "-rs")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(
        ["SKIPPED [[]1[]] test_a_device*.py:*: no device here matches 'cuda:7'; here are: fake:0*"]
    )
    result = run(source, "--roofline-device=tpu", "-rE")
    result.assert_outcomes(errors=1, skipped=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "roofline: no device here matches 'tpu'; here are: fake:0 (Fake Accelerator), cpu *",
            "DeviceUnavailable: no device here matches 'tpu'; here are: fake:0 (Fake Accelerator), cpu *",
        ]
    )


def test_no_memory_for_the_probe(run: Run) -> None:
    """Without memory for the probe nothing can be judged: skipped with the reason and the remedy, not an error."""
    conftest = FAKE.replace(
        "BACKEND = FakeBackend()",
        dedent(
            """
            class Full(FakeBackend):
                def kernels(self, device, pattern, working_set_bytes):
                    raise MemoryError("0 bytes are free")

            BACKEND = Full()
            """
        ),
    )
    result = run(
        """
        def test_probe(roofline_probe): pass
        def test_measures(roofline, model): roofline.decode(model.step, model=model)
        def test_unrelated(): pass
        """,
        "-rs",
        conftest=conftest,
    )
    result.assert_outcomes(skipped=2, passed=1)
    result.stdout.fnmatch_lines(["SKIPPED *inconclusive: fake:0 has too little free memory to be probed: *"])


def test_an_interruption_leaves_nothing_behind(run: Run, pytester: pytest.Pytester) -> None:
    """Ctrl-C in the middle of a measurement ends the session as ever, drained and with the lock free."""
    conftest = FAKE.replace(
        "BACKEND = FakeBackend()",
        dedent(
            """
            from contextlib import contextmanager
            from pytest_roofline.session import Session

            class Noted(FakeBackend):
                drained = 0
                def drain(self):
                    type(self).drained += 1
                    super().drain()

            BACKEND = Noted()
            LOCKS = []

            @pytest.fixture(autouse=True)
            def watch_lock(monkeypatch):
                lock = Session.lock

                @contextmanager
                def noted(self, device):
                    LOCKS.append("taken")
                    try:
                        with lock(self, device):
                            yield
                    finally:
                        LOCKS.append("free")

                monkeypatch.setattr(Session, "lock", noted)

            def pytest_unconfigure(config):
                print("locks", LOCKS.count("taken") - LOCKS.count("free"), len(LOCKS) > 0)
            """
        ),
    )
    result = run(
        """
        from conftest import BACKEND

        def test_interrupted(roofline, model):
            def step():
                if BACKEND.drained > 200:
                    raise KeyboardInterrupt
                return model.step()
            roofline.decode(step, model=model)

        def test_never_reached(): pass
        """,
        "-s",
        conftest=conftest,
        fresh=True,
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*KeyboardInterrupt*", "locks 0 True"])


def test_options_of_another_plugin(run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that another plugin holds is a usage error that says what to do."""
    Path(pytester.path, "rival.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--roofline-device', dest='rival')\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{pytester.path}:{ROOT}")
    result = pytester.runpytest_subprocess("-p", "rival", "-p", "pytest_roofline.plugin")
    assert result.ret != pytest.ExitCode.OK
    # Before pytest 9 the names meet only when the command line is read: then argparse names the option, and not we.
    ours = "ERROR: pytest-roofline cannot add its options*--roofline-device*-p no:NAME*"
    theirs = "*--roofline-device: conflicting option string*"
    result.stderr.fnmatch_lines([ours if pytest.version_tuple >= (9,) else theirs])


def test_a_dest_of_another_plugin_does_not_collide(run: Run, pytester: pytest.Pytester) -> None:
    """Generic dests (device, json, mode) of others stay theirs: all of ours carry the prefix."""
    conftest = FAKE + dedent(
        """
        def pytest_addoption(parser):
            for name in ("device", "mode", "specs", "inconclusive", "max-time", "at-least"):
                parser.addoption(f"--rival-{name}", dest=name.replace("-", "_"), default="theirs")
        """
    )
    result = run(
        """
        def test_it(pytestconfig, roofline_device):
            assert pytestconfig.getoption("device") == "theirs"
            assert roofline_device.id == "fake:0"
        """,
        conftest=conftest,
    )
    result.assert_outcomes(passed=1)
