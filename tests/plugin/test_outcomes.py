"""The four outcomes as pytest reports them: category, letter, word, text, properties."""

from __future__ import annotations

from textwrap import dedent

import pytest
from inner_runs import FAKE, Run, properties_of, record_of

FOUR = """
import pytest
from pytest_roofline import BelowCeiling, BogusMeasurement

def test_passes(roofline, model):
    result = roofline.decode(model.step, model=model)
    assert result.fraction >= 0.6

@pytest.mark.roofline(at_least=0.9)
def test_fails(roofline, model):
    roofline.decode(model.step, model=model)

def test_doubt(roofline, small):
    result = roofline.decode(small.step, model=small)
    assert result.fraction >= 0.85

def test_bogus(roofline, model):
    roofline.decode(model.step, traffic=5e9)

def test_caught(roofline, model):
    with pytest.raises(BogusMeasurement, match="5.00 GB per pass declared"):
        roofline.decode(model.step, traffic=5e9)

@pytest.mark.xfail(raises=BelowCeiling, strict=True)
@pytest.mark.roofline(at_least=0.9)
def test_known_slow(roofline, model):
    roofline.decode(model.step, model=model)

@pytest.mark.skip(reason="not today")
def test_skipped():
    pass
"""

UNDECIDED = """
import pytest

@pytest.mark.roofline(at_least=0.5)
def test_doubt(roofline, small):
    roofline.decode(small.step, model=small)

def test_asserts(roofline, small):
    assert roofline.decode(small.step, model=small).fraction >= 0.5
"""


@pytest.fixture
def four(run: Run) -> pytest.RunResult:
    """A run with every outcome in it."""
    return run(FOUR, "-rA", "--junitxml=junit.xml")


def test_every_outcome(pytester: pytest.Pytester, four: pytest.RunResult) -> None:
    """Categories stay pytest's, letters and words are ours, and each kind of text is where it belongs."""
    four.assert_outcomes(passed=2, failed=2, skipped=2, xfailed=1)
    four.stdout.fnmatch_lines(
        [
            "roofline: fake:0 (Fake Accelerator), mode auto",
            "*test_every_outcome.py .FIB.xs*",
            "*= FAILURES =*",
            "BelowCeiling: 80 % of the probed read ceiling (400 of * tok/s), the test asks for 90 %; memory-bound",
            ">*roofline.decode(model.step, traffic=5e9)",
            "E*BogusMeasurement: 5.00 GB per pass declared, 2.00 GB read and written: *",
            "*test_every_outcome.py:*: BogusMeasurement",
            "*= roofline =*",
            "test * device * step * tok/s * B/step * fraction * bound * verdict",
            "test_passes * fake:0 * 2.50 ms * 400 * 2.00 GB * 80 % * memory * passed",
            "test_fails * failed",
            "test_doubt * 60.0 MB * inconclusive",
            "test_bogus * bogus",
            "test_caught * bogus (caught)",
            "INCONCLUSIVE *::test_doubt: a pass touches 60.0 MB *",
            "1 of 6 not judged",
            "*= short test summary info =*",
            "SKIPPED * not today",
            "SKIPPED [[]1[]] test_every_outcome.py:1?: inconclusive: a pass touches 60.0 MB *",
            "FAILED *::test_fails - BelowCeiling: 80 % of *",
            "BOGUS *::test_bogus - BogusMeasurement: 5.00 GB *",
        ]
    )
    # The way through this package is nobody's business.
    four.stdout.no_fnmatch_line("*instrument.py*")
    four.stdout.no_fnmatch_line("*plugin.py*")
    properties = properties_of(pytester, "test_passes")
    assert (properties["roofline.verdict"], properties["roofline.device"]) == ("passed", "fake:0")
    assert float(properties["roofline.fraction"]) == pytest.approx(0.8, abs=0.01)
    record = record_of(pytester, "test_passes")
    assert record["schema"] == 1
    assert record["results"][0]["traffic"]["bytes_per_pass"] == 2e9
    assert properties_of(pytester, "test_bogus")["roofline.verdict"] == "bogus"
    assert properties_of(pytester, "test_caught")["roofline.verdict"] == "bogus (caught)"
    assert properties_of(pytester, "test_skipped") == {}
    assert 'skipped type="pytest.skip" message="inconclusive: a pass' in (pytester.path / "junit.xml").read_text()


@pytest.mark.parametrize("columns", [40, 80])
def test_the_table_fits_the_width(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Every line between the headings and the first inconclusive test."""
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run(FOUR).outlines
    start = next(index for index, line in enumerate(lines) if line.startswith("test ") and "verdict" in line)
    stop = next(index for index, line in enumerate(lines) if line.startswith("INCONCLUSIVE"))
    assert stop - start > 6
    assert max(map(len, lines[start:stop])) <= columns


def test_xdist_shows_the_same(run: Run, pytester: pytest.Pytester) -> None:
    """Two workers: letters, words, table, device and properties come from the reports."""
    pytest.importorskip("xdist")
    result = run(FOUR, "-p", "xdist", "-n", "2", "--junitxml=junit.xml", fresh=True)
    result.assert_outcomes(passed=2, failed=2, skipped=2, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "*= roofline =*",
            "roofline: fake:0 (Fake Accelerator), mode auto",
            "test * verdict",
            "1 of 6 not judged",
            "BOGUS *::test_bogus*",
        ]
    )
    result.stdout.fnmatch_lines_random(["test_passes * passed", "test_bogus * bogus", "INCONCLUSIVE *::test_doubt: *"])
    assert record_of(pytester, "test_passes")["verdict"] == "passed"


@pytest.mark.parametrize(
    ("arguments", "outcomes"),
    [
        ((), {"skipped": 2}),
        (("--roofline-inconclusive=fail",), {"failed": 2}),
        (("--roofline-inconclusive=pass",), {"passed": 2}),
        (("--roofline=require",), {"failed": 2}),
        (("--roofline=require", "--roofline-inconclusive=pass"), {"failed": 2}),
    ],
)
def test_policy_for_inconclusive_tests(run: Run, arguments: tuple[str, ...], outcomes: dict[str, int]) -> None:
    """Skip by default, else as the option says; require makes it fail. The word is the same, and all are counted."""
    result = run(UNDECIDED, "-v", "-rf", *arguments)
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines(["*::test_doubt INCONCLUSIVE*", "*::test_asserts INCONCLUSIVE*", "2 of 2 not judged"])
    if "failed" in outcomes:
        result.stdout.fnmatch_lines(["*INCONCLUSIVE *::test_doubt - InconclusiveMeasurement: a pass touches 60.0 MB*"])


def test_last_failed_runs_the_bogus_test_again(run: Run) -> None:
    """A bogus test is a failed test for the cache of pytest."""
    source = """
        def test_bogus(roofline, model):
            roofline.decode(model.step, traffic=5e9)

        def test_fine():
            pass
    """
    plugin = ("-p", "pytest_roofline.plugin")
    run(source, plugin=plugin).assert_outcomes(failed=1, passed=1)
    run(source, "--lf", plugin=plugin).assert_outcomes(failed=1)


def test_without_a_terminal(run: Run, pytester: pytest.Pytester) -> None:
    """Nothing needs the terminal reporter."""
    result = run(FOUR, "-p", "no:terminal", "--junitxml=junit.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert record_of(pytester, "test_bogus")["verdict"] == "bogus"


def test_full_trace_shows_our_frames(run: Run) -> None:
    """Whoever asks for everything gets everything."""
    result = run("def test_bogus(roofline, model):\n    roofline.decode(model.step, traffic=5e9)\n", "--full-trace")
    result.stdout.fnmatch_lines(["*instrument.py*"])


def test_audits(run: Run) -> None:
    """Without a claim inconclusive; a bogus claim that is caught is the test's own business."""
    result = run(
        """
        import pytest
        from pytest_roofline import BogusMeasurement
        from conftest import BACKEND

        def test_unclaimed(roofline):
            with roofline.audit():
                pass

        def test_caught(roofline, model):
            with pytest.raises(BogusMeasurement):
                with roofline.audit(traffic=2e9) as audit:
                    start = BACKEND.perf_counter()
                    for _ in range(100):
                        out = model.step()
                    seconds = BACKEND.perf_counter() - start
                    audit.claim(tokens=100, seconds=seconds, outputs=out)
        """
    )
    result.assert_outcomes(skipped=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "test_caught * bogus (caught)",
            "INCONCLUSIVE *::test_unclaimed: an audit ended without a claim*",
            "1 of 2 not judged",
        ]
    )


def test_extra_bytes_and_shared_notes_are_shown(run: Run) -> None:
    """The KV cache copied each step is named with its bytes; a note that several tests share is said once."""
    result = run(
        """
        import pytest
        from pytest_roofline.backends.fake import FakeModel
        from conftest import BACKEND

        @pytest.mark.parametrize("number", [1, 2])
        def test_copies(roofline, number):
            model = FakeModel(BACKEND, weight_bytes=2e9, kv_bytes_per_token=1e5, context=2000, copies_kv=True)
            roofline.decode(model.step, model=model, reset=model.reset, passes_per_reset=64)
        """
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["  test_copies[[]1[]] and 1 more: KV cache copied each step: 400 MB more per step"])


def test_quiet_is_quiet(run: Run) -> None:
    """With -q -q there is neither header nor table."""
    result = run("def test_it(roofline, model):\n    roofline.decode(model.step, model=model)\n", "-q", "-q")
    result.stdout.no_fnmatch_line("*roofline*")


def test_a_test_that_is_run_again_has_one_record(run: Run, pytester: pytest.Pytester) -> None:
    """Running the same item twice leaves one record in its properties."""
    conftest_again = """
        def pytest_runtest_protocol(item, nextitem):
            from _pytest.runner import runtestprotocol
            runtestprotocol(item, nextitem=nextitem, log=False)
            item._initrequest()
            return None
    """
    source = "def test_it(roofline, model):\n    roofline.decode(model.step, model=model)\n"
    run(source, "--junitxml=junit.xml", conftest=FAKE + dedent(conftest_again)).assert_outcomes(passed=1)
    assert len((pytester.path / "junit.xml").read_text().split('name="roofline"')) == 2
