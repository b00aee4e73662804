"""``--roofline-budgets`` and ``--roofline-update-budgets`` in runs of pytest."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from inner_runs import FAKE, PLUGIN, Run, record_of
from other_plugins import beside, not_a_worker  # noqa: F401 - a fixture

DECODE = """
import pytest

@pytest.mark.parametrize("size", ["x-1", "y"])
def test_a(roofline, model, size):
    roofline.decode(model.step, model=model)

@pytest.mark.roofline(at_least=0.1)
def test_marked(roofline, model):
    roofline.decode(model.step, model=model)
"""
SHOW = """
import pytest

def shown(roofline):
    settings, device = roofline._settings, roofline.device if hasattr(roofline, "device") else None
    bars = [(name, bar and (bar.figure, bar.place)) for name in ("at_least", "at_most")
            for budget in [getattr(settings, name)]
            for bar in [budget and budget.bar_for(DEVICE)]]
    print("seen", *bars)

from pytest_roofline.device import Device
DEVICE = Device(name="Fake Accelerator", kind="fake", backend="fake")

def test_plain(roofline):
    shown(roofline)

@pytest.mark.roofline(at_least=0.4)
def test_marked(roofline):
    shown(roofline)
    pytest.skip("shown")
"""

Budgets = Callable[[str], Path]


@pytest.fixture
def budgets(pytester: pytest.Pytester) -> Budgets:
    """Write ``budgets.yaml`` beside the tests."""

    def write(text: str) -> Path:
        file = pytester.path / "budgets.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    return write


def test_a_file_judges_and_the_message_names_its_line(run: Run, budgets: Budgets, pytester: pytest.Pytester) -> None:
    """Brackets of a parametrized test stand for themselves; the record says where each figure comes from."""
    budgets(
        "schema: 1\ndefault: 0.5\ntests:\n"
        '  "test_*::test_a[x-1]":\n    Fake*: {at_least: 0.9, at_most: none}\n'
        '  "*::test_a*": {"*": {at_least: 0.6, at_most: 0.7}}\n'
    )
    result = run(DECODE, "--roofline-budgets=budgets.yaml", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "BelowCeiling: 80 % of the probed read ceiling *, the test asks for 90 %; memory-bound*",
            "  budget: at_least=0.9 from budgets.yaml:5 (test_[*]::test_a[[]x-1[]], Fake[*])",
            "AboveBand: 80 % of the probed read ceiling *, above the 70 % that the test expects at most: an improv*",
            "  budget: at_most=0.7 from budgets.yaml:6 ([*]::test_a[*], [*])",
            "  do: give at_most a new number there, and at_least with it; where they stand in a budgets file, "
            "--roofline-update-budgets does",
        ]
    )
    below, above, marked = (record_of(pytester, test) for test in ("test_a[x-1]", "test_a[y]", "test_marked"))
    assert (below["budget_error"], above["budget_error"], marked["budget_error"]) == ("BelowCeiling", "AboveBand", None)
    assert above["results"][0]["at_least_from"] == "budgets.yaml:6 (*::test_a*, *)"
    assert marked["results"][0]["at_least_from"] == "roofline marker, at_least"
    assert marked["results"][0]["at_most_from"] is None


def test_places_of_precedence(
    run: Run, budgets: Budgets, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Marker, command line, environment, budgets file, ini: at_least by itself, at_most by itself."""
    budgets('schema: 1\ndefault: none\ntests: {"*": {"Fake*": {at_least: 0.5, at_most: 0.9}}}\n')
    pytester.makeini("[pytest]\nroofline_at_least = 0.1\nroofline_budgets = budgets.yaml\n")
    result = run(SHOW, "-s")
    result.stdout.fnmatch_lines(
        ["*seen ('at_least', (0.5, 'budgets.yaml:3 *')) ('at_most', (0.9, 'budgets.yaml:3 *'))*"]
    )
    result.stdout.fnmatch_lines(["*seen ('at_least', (0.4, 'roofline marker, at_least')) ('at_most', (0.9,*"])
    monkeypatch.setenv("PYTEST_ROOFLINE_AT_LEAST", "0.2")
    run(SHOW, "-s").stdout.fnmatch_lines(["*seen ('at_least', (0.2, 'environment *')) ('at_most', (0.9, *"])
    result = run(SHOW, "-s", "--roofline-at-least=0.3")
    result.stdout.fnmatch_lines(["*seen ('at_least', (0.3, '--roofline-at-least')) ('at_most', (0.9, *"])
    monkeypatch.delenv("PYTEST_ROOFLINE_AT_LEAST")
    budgets('schema: 1\ndefault: none\ntests: {"other*": 0.5}\n')
    run(SHOW, "-s").stdout.fnmatch_lines(["*seen ('at_least', (0.1, 'ini *')) ('at_most', None)*"])
    budgets("schema: 1\n")
    run(SHOW, "-s").stdout.fnmatch_lines(["*seen ('at_least', (0.55, 'budgets.yaml (its *')) ('at_most', None)*"])


def test_figures_of_two_places_that_cannot_both_hold_are_an_error(run: Run, budgets: Budgets) -> None:
    """With both places, and no verdict."""
    budgets("schema: 1\n")
    source = DECODE.replace("at_least=0.1", "at_most=0.5")
    result = run(source, "--roofline-budgets=budgets.yaml", "-k", "marked")
    result.assert_outcomes(failed=1, deselected=2)
    result.stdout.fnmatch_lines(
        ["*RooflineUsageError: at_least=0.55 (budgets.yaml (*)) is above at_most=0.5 (roofline marker, at_most) on F*"]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schema: 1\ntests:\n  t: '0.5'\n", "budgets.yaml:3: tests.t: a number in a string: '0.5'*"),
        ("schema: 2\n", "budgets.yaml:1: schema: '2' is not known; this version reads 1"),
        ("schema: 1\ntests: {a: &x 0.5, b: *x}\n", "budgets.yaml: line 2: YAML anchors and aliases are not allowed*"),
    ],
)
def test_a_wrong_file_ends_the_run_before_its_first_test(run: Run, budgets: Budgets, text: str, message: str) -> None:
    """As any wrong option; with -qq, where nobody looks at headers, and in workers each test says it."""
    budgets(text)
    result = run(DECODE, "--roofline-budgets=budgets.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
    result = run(DECODE, "--roofline-budgets=budgets.yaml", "-qq")
    result.stdout.fnmatch_lines([f"UsageError: {message}"] * 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--roofline-budgets=gone.yaml",),
            "--roofline-budgets: 'gone.yaml' is not there; --roofline-update-budgets *",
        ),
        (("--roofline-update-budgets",), "--roofline-update-budgets: which file? Name it with --roofline-budgets=FILE"),
        (
            ("--roofline-budgets=b.yaml", "--roofline-update-budgets", "tests"),
            "--roofline-update-budgets: 'tests' is neither 'tighten' nor 'loosen'; before a path write "
            "--roofline-update-budgets=tighten",
        ),
        (("--roofline-budgets=.", "--roofline-update-budgets"), "*is not a file: a budgets file is a YAML file"),
    ],
)
def test_wrong_options_are_usage_errors(run: Run, arguments: tuple[str, ...], message: str) -> None:
    """Before anything is measured."""
    result = run(DECODE, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_an_ini_file_names_it_from_its_own_folder(run: Run, budgets: Budgets, pytester: pytest.Pytester) -> None:
    """Wherever pytest is started."""
    budgets("schema: 1\ndefault: {Fake*: 0.9}\n")
    pytester.makeini("[pytest]\nroofline_budgets = budgets.yaml\n")
    folder = pytester.mkdir("sub")
    pytester.makeconftest(FAKE)
    (folder / "test_it.py").write_text(DECODE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*budget: at_least=0.9 from budgets.yaml:2 (default, Fake[*])*"])


# -- updating -------------------------------------------------------------------------------------------------------

UPDATE = ("--roofline-budgets=budgets.yaml", "--roofline-update-budgets")


def test_a_new_file_is_made_and_the_next_run_is_judged_by_it(run: Run, pytester: pytest.Pytester) -> None:
    """Measured tests get their figures; one that has its own in a marker is left out, and said so."""
    result = run(DECODE, *UPDATE)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "budgets.yaml: 2 new",
            "  *::test_a[[]x-1[]] on Fake Accelerator: at_least 0.7? (measured 7? % to 8? %)",
            "  *::test_a[[]y[]] on Fake Accelerator: at_least 0.7? (measured 7? % to 8? %)",
            "  not written, the test has a budget of its own: *::test_marked",
        ]
    )
    text = (pytester.path / "budgets.yaml").read_text(encoding="utf-8")
    assert (
        len(re.findall(r'^  "test_.*\.py::test_a\[.*\]":\n    "Fake Accelerator": 0\.7\d\n', text, re.MULTILINE)) == 2
    )
    result = run(DECODE, *UPDATE, "--junitxml=junit.xml")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["budgets.yaml: nothing to change"])
    assert (pytester.path / "budgets.yaml").read_text(encoding="utf-8") == text
    assert record_of(pytester, "test_a[y]")["results"][0]["at_least_from"].startswith("budgets.yaml:9 (test_a_new_file")
    slower = FAKE.replace("weight_bytes=2e9)", "weight_bytes=2e9, efficiency=0.6)")
    result = run(DECODE, "--roofline-budgets=budgets.yaml", conftest=slower)
    result.assert_outcomes(passed=1, failed=2)
    result = run(DECODE, *UPDATE, conftest=slower)
    result.stdout.fnmatch_lines(
        ["budgets.yaml: nothing to change", "  not written, below its budget (*loosen*and 1 more"]
    )
    assert (pytester.path / "budgets.yaml").read_text(encoding="utf-8") == text
    result = run(DECODE, UPDATE[0], "--roofline-update-budgets=loosen", conftest=slower)
    result.stdout.fnmatch_lines(["budgets.yaml: 2 lowered", "  *::test_a[[]x-1[]] on Fake*: at_least 0.7? -> 0.5? *"])
    run(DECODE, "--roofline-budgets=budgets.yaml", conftest=slower).assert_outcomes(passed=3)


MANY_ENDS = """
import pytest
from pytest_roofline import BogusMeasurement

def test_improved(roofline, model):
    roofline.decode(model.step, model=model)

def test_asserts(roofline, model):
    roofline.decode(model.step, model=model)
    assert 1 == 2

def test_improved_and_asserts(roofline, model):
    roofline.decode(model.step, model=model)
    assert 1 == 2

def test_bogus(roofline, model):
    roofline.decode(model.step, traffic=5e9)

def test_caught(roofline, model):
    with pytest.raises(BogusMeasurement):
        roofline.decode(model.step, traffic=5e9)
    roofline.decode(model.step, model=model)

def test_doubt(roofline, small):
    assert roofline.decode(small.step, model=small).fraction >= 0.5

@pytest.mark.xfail
def test_expected(roofline, model):
    roofline.decode(model.step, model=model)
    assert 1 == 2

def test_good(roofline, model):
    roofline.decode(model.step, model=model)
"""


def test_only_what_is_sure_is_written(run: Run, budgets: Budgets) -> None:
    """An improvement above its band raises both figures; comments stay; every other end of a test writes nothing."""
    file = budgets(
        "# ours\nschema: 1\ndefault: 0.2  # low\ntests:\n"
        '  "*::test_improved*":  # since May\n    Fake*: {at_least: 0.3, at_most: 0.5}\n'
    )
    before = file.read_text(encoding="utf-8")
    result = run(MANY_ENDS, *UPDATE)
    after = file.read_text(encoding="utf-8")
    assert after.startswith(before)
    assert re.findall(r"::(test_\w+)", after[len(before) :]) == ["test_good", "test_improved"]
    assert re.search(r'"Fake Accelerator": \{at_least: 0\.7\d, at_most: 0\.8\d\}\n', after)
    result.stdout.fnmatch_lines_random(
        [
            "  *::test_improved on Fake Accelerator: at_least 0.3 -> 0.7?, at_most 0.5 -> 0.8? (measured *",
            "  not written, failed: *::test_asserts and 1 more",
            "  not written, bogus (caught): *::test_caught",
            "  not written, skipped: *::test_expected",
            "  not written, bogus: *::test_bogus",
            "  not written, inconclusive: *::test_doubt*",
        ]
    )
    run(MANY_ENDS, "--roofline-budgets=budgets.yaml", "-k", "good or test_improved and not asserts").assert_outcomes(
        passed=2, deselected=6
    )


def test_nothing_measured_writes_nothing(run: Run, pytester: pytest.Pytester) -> None:
    """Neither with --roofline=off nor in a run that only lists."""
    run(DECODE, *UPDATE, "--roofline=off").stdout.fnmatch_lines(["budgets.yaml: nothing to change"])
    run(DECODE, *UPDATE, "--collect-only").assert_outcomes()
    assert not (pytester.path / "budgets.yaml").exists()


def test_several_devices(run: Run, pytester: pytest.Pytester) -> None:
    """Each by its name."""
    two = "from pytest_roofline.backends.fake import FakeDevice\n"
    two += "BACKEND = FakeBackend(devices=[FakeDevice(), FakeDevice(name='Other Card')])"
    conftest = FAKE.replace("BACKEND = FakeBackend()", two)
    source = """
        import pytest
        from conftest import BACKEND
        from pytest_roofline.backends.fake import FakeModel

        @pytest.mark.roofline(device="fake:1")
        def test_other(roofline):
            model = FakeModel(BACKEND, weight_bytes=2e9, efficiency=0.6, device=1)
            roofline.decode(model.step, model=model)

        def test_it(roofline, model):
            roofline.decode(model.step, model=model)
    """
    run(source, *UPDATE, conftest=conftest).assert_outcomes(passed=2)
    text = (pytester.path / "budgets.yaml").read_text(encoding="utf-8")
    assert re.search(r'test_it":\n    "Fake Accelerator": 0\.7\d\n  .*::test_other":\n    "Other Card": 0\.5\d\n', text)


@pytest.mark.parametrize("dist", ["load", "loadgroup"])
def test_under_xdist_the_controller_writes(run: Run, pytester: pytest.Pytester, budgets: Budgets, dist: str) -> None:
    """Once, of all workers' tests, without the groups behind their ids; and the workers judge by it."""
    workers = (*beside("xdist", "xdist"), "-n", "2", f"--dist={dist}")
    source = DECODE.replace("@pytest.mark.param", '@pytest.mark.xdist_group("gpu")\n@pytest.mark.param')
    result = run(source, *workers, *UPDATE, fresh=True)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["budgets.yaml: 2 new"])
    text = (pytester.path / "budgets.yaml").read_text(encoding="utf-8")
    assert "@gpu" not in text
    budgets(text.replace("0.7", "0.9"))
    result = run(source, *workers, "--roofline-budgets=budgets.yaml", fresh=True)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*budget: at_least=0.9? from budgets.yaml:*"])
    result.stdout.no_fnmatch_line("*unused*")


def test_a_file_that_cannot_be_changed_is_one_red_line(run: Run, budgets: Budgets, pytester: pytest.Pytester) -> None:
    """The tests keep their outcomes; with require the run is red."""
    file = budgets("schema: 1\n")
    spoils = "\ndef test_spoils():\n    with open('budgets.yaml', 'a') as file:\n        file.write('more: 1\\n')\n"
    result = run(DECODE + spoils, *UPDATE)
    result.assert_outcomes(passed=4)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["ERROR: --roofline-update-budgets: budgets.yaml:2: more: unknown key*"])
    file.write_text("schema: 1\n", encoding="utf-8")
    assert run(DECODE + spoils, *UPDATE, "--roofline=require").ret == pytest.ExitCode.TESTS_FAILED
    assert file.read_text(encoding="utf-8") == "schema: 1\nmore: 1\n"


# -- unused entries -------------------------------------------------------------------------------------------------

OLD = """\
schema: 1
tests:
  "*::test_a*": 0.5
  "gone.py::test_old": 0.5
  "test_unused*.py::test_other": 0.5
"""


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ((), [4, 5]),
        (("-k", "marked"), [4, 5]),  # deselected tests were seen
        (("test_unused_entries_are_named_only_where_all_were_seen.py",), []),
        (("test_unused_entries_are_named_only_where_all_were_seen.py::test_marked", "-v"), None),
        (("--lf",), []),
        (("--ignore=elsewhere", "-v"), None),
        (("-q",), []),
    ],
)
def test_unused_entries_are_named_only_where_all_were_seen(
    run: Run, budgets: Budgets, arguments: tuple[str, ...], lines: list[int] | None
) -> None:
    """On their lines; with -v a part of the suite says that it is one."""
    budgets(OLD)
    plugin = PLUGIN[:2] if "--lf" in arguments else PLUGIN
    result = run(DECODE, "--roofline-budgets=budgets.yaml", *arguments, plugin=plugin)
    assert result.ret == 0
    found = [int(line.split(":")[1]) for line in result.outlines if ": unused" in line]
    assert found == (lines or [])
    is_part = any("only a part of the suite ran" in line for line in result.outlines)
    assert is_part == (lines is None)


def test_modules_that_skip_themselves_may_have_had_the_tests(
    run: Run, budgets: Budgets, pytester: pytest.Pytester
) -> None:
    """An entry is not unused because a library is missing here."""
    budgets(OLD + '  "test_gpu.py::test_it": 0.5\n')
    pytester.makepyfile(test_gpu="import pytest\npytest.importorskip('nowhere')\ndef test_it(): pass\n")
    result = run(DECODE, "--roofline-budgets=budgets.yaml")
    assert [line.split(":")[1] for line in result.outlines if ": unused" in line] == ["4"]


def test_runs_without_roofline_tests_pay_nothing(run: Run, budgets: Budgets, pytester: pytest.Pytester) -> None:
    """A file that the ini names is not read, not even a wrong one."""
    budgets("schema: nonsense")
    pytester.makeini("[pytest]\nroofline_budgets = budgets.yaml\n")
    source = "import sys\n\ndef test_it():\n    assert not {'yaml', 'pytest_roofline.settings'} & set(sys.modules)\n"
    run(source, conftest="", fresh=True).assert_outcomes(passed=1)


def test_the_record_is_json_with_places(run: Run, budgets: Budgets, pytester: pytest.Pytester) -> None:
    """And fits the schema of results files."""
    budgets("schema: 1\n")
    run(DECODE, "--roofline-budgets=budgets.yaml", "--roofline-json=results.json").assert_outcomes(passed=3)
    from pytest_roofline.results.reading import read_results

    document = read_results(str(pytester.path / "results.json"))
    assert json.loads((pytester.path / "results.json").read_text(encoding="utf-8"))["tests"][0]["budget_error"] is None
    assert [test["results"][0]["at_least"] for test in document["tests"]] == [0.55, 0.55, 0.1]
