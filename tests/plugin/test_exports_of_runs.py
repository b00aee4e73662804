"""`--roofline-export` in whole runs: every source of the option, workers, off mode, files that cannot be written."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from inner_runs import Run

MIXED = """
import pytest

def test_good(roofline, model):
    assert roofline.decode(model.step, model=model).fraction >= 0.6

def test_bogus(roofline, model):
    roofline.decode(model.step, traffic=5e9)

def test_doubt(roofline, small):
    assert roofline.decode(small.step, model=small).fraction >= 0.75

def test_low(roofline, model):
    assert roofline.decode(model.step, model=model).fraction >= 0.9

def test_plain():
    pass
"""


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests may run on GitHub themselves."""
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)


def test_exports_are_written_at_the_end_of_a_run(run: Run, pytester: pytest.Pytester) -> None:
    """True figures are in the file; a line says where it is, and what has no figures."""
    result = run(MIXED, "--roofline-export=bencher=out/b.json")
    result.stdout.fnmatch_lines(
        ["bencher: 2 results in *b.json (without figures: 1 bogus, 1 inconclusive)", "*2 failed, 2 passed, 1 skipped*"]
    )
    found = json.loads((pytester.path / "out/b.json").read_text())
    names = [name.rpartition("::")[2] for name in found]
    assert names == ["test_good", "test_low"]
    good = next(iter(found.values()))
    assert good["fraction-of-ceiling"]["value"] == pytest.approx(0.8, abs=0.02)
    assert good["latency"]["value"] == pytest.approx(2.5e6, rel=0.05)


def test_annotations_are_printed_at_the_test_s_line(run: Run) -> None:
    """A command per test that did not pass, each at the beginning of a line, at the line of its `def`."""
    result = run(MIXED, "--roofline-export=github-annotations")
    name = "test_annotations_are_printed_at_the_test_s_line.py"
    lines = [line for line in result.outlines if line.startswith("::")]
    assert [line.split("::")[1] for line in lines] == [
        f"error file={name},line=6,title=BOGUS%3A test_bogus",
        f"error file={name},line=12,title=failed%3A test_low",
        f"warning file={name},line=9,title=INCONCLUSIVE%3A test_doubt",
    ]
    assert "5.00 GB per pass declared, 2.00 GB read" in lines[0]


def test_annotations_are_printed_only_when_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not because a run is one of GitHub's."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = run(MIXED)
    assert not any(line.startswith("::") for line in result.outlines)


def test_the_summary_goes_where_github_says(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appended to the file of the step."""
    summary = pytester.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    run(MIXED, "--roofline-export=github-summary")
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("### Roofline: 1 **BOGUS**, 1 **INCONCLUSIVE**, 1 failed, 1 passed\n")
    assert "```mermaid" in text


@pytest.mark.parametrize("source", ["environment", "ini"])
def test_the_option_has_its_twins(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """Environment and ini file ask for the same."""
    if source == "environment":
        monkeypatch.setenv("PYTEST_ROOFLINE_EXPORT", "openmetrics=m.txt,gitlab-metrics")
    else:
        pytester.makeini("[pytest]\nroofline_export = openmetrics=m.txt, gitlab-metrics\n")
    run(MIXED)
    assert (pytester.path / "m.txt").read_text().endswith("# EOF\n")
    assert 'roofline_tests{verdict="bogus"} 1' in (pytester.path / "metrics.txt").read_text()


def test_a_wrong_name_ends_the_run_before_it_begins(run: Run) -> None:
    """With the names that are known."""
    result = run(MIXED, "--roofline-export=benchr")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --roofline-export: 'benchr' is no format of an export; did you mean bencher? Known are github-summ*"]
    )


@pytest.mark.parametrize(("mode", "code"), [("auto", 0), ("require", 1)])
def test_a_file_that_cannot_be_written_is_a_red_line(run: Run, pytester: pytest.Pytester, mode: str, code: int) -> None:
    """What stands in its way came during the run: no test is lost; with --roofline=require the run is red."""
    source = (
        "from pathlib import Path\n\n\ndef test_it(roofline, model):\n    roofline.decode(model.step, model=model)\n"
        "    Path('file').write_text('in the way')\n"
    )
    result = run(source, f"--roofline={mode}", "--roofline-export=bencher=file/b.json,github-annotations")
    assert result.ret == code
    result.stdout.fnmatch_lines(["ERROR: --roofline-export: *file*"])
    result.assert_outcomes(passed=1)


def test_off_mode_and_a_run_without_roofline_tests_export_no_figures(run: Run, pytester: pytest.Pytester) -> None:
    """The files are valid and say so."""
    run(MIXED, "--roofline=off", "--roofline-export=bencher=off.json,gitlab-metrics=off.txt")
    assert json.loads((pytester.path / "off.json").read_text()) == {}
    assert 'roofline_tests{verdict="not%20measured"} 4' in (pytester.path / "off.txt").read_text()
    run("def test_plain():\n    pass\n", "--roofline-export=bencher=none.json,github-summary=none.md")
    assert json.loads((pytester.path / "none.json").read_text()) == {}
    assert (pytester.path / "none.md").read_text() == "### Roofline: nothing was measured\n\n"


def test_workers_of_xdist_are_exported_by_the_controller(run: Run, pytester: pytest.Pytester) -> None:
    """Each test once, whichever worker ran it."""
    pytest.importorskip("xdist")
    run(MIXED, "-p", "xdist", "-n", "2", "--roofline-export=bencher=b.json,github-annotations", fresh=True)
    found = json.loads((pytester.path / "b.json").read_text())
    assert sorted(name.rpartition("::")[2] for name in found) == ["test_good", "test_low"]


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
@pytest.mark.parametrize("family", ["xunit2", "xunit1"])
def test_junit_holds_the_record_as_properties(
    run: Run, pytester: pytest.Pytester, workers: tuple[str, ...], family: str
) -> None:
    """As pytest's own `record_property` puts them, in either family, and so for junitparser too."""
    if workers:
        pytest.importorskip("xdist")
    pytester.makeini(f"[pytest]\njunit_family = {family}\n")
    source = MIXED + '\ndef test_own(record_property):\n    record_property("own", 1)\n'
    # pytest warns whoever uses its fixture with xunit2, and writes the property all the same.
    run(source, "--junitxml=junit.xml", "-W", "ignore:record_property", *workers, fresh=bool(workers))
    tree = ElementTree.parse(pytester.path / "junit.xml")
    cases = {found.get("name"): found for found in tree.iter("testcase")}
    own = [entry.attrib for entry in cases["test_own"].findall("properties/property")]
    assert own == [{"name": "own", "value": "1"}]
    for name, verdict in (("good", "passed"), ("bogus", "bogus"), ("doubt", "inconclusive"), ("low", "failed")):
        found = {
            entry.attrib["name"]: entry.attrib["value"]
            for entry in cases[f"test_{name}"].findall("properties/property")
        }
        assert set(found) - {"roofline.fraction"} == {"roofline", "roofline.verdict", "roofline.device"}
        assert found["roofline.verdict"] == verdict
        assert json.loads(found["roofline"])["verdict"] == verdict


def test_junitparser_reads_the_properties(run: Run, pytester: pytest.Pytester) -> None:
    """The library that many CI tools read these files with."""
    junitparser = pytest.importorskip("junitparser")
    source = MIXED + (
        "\n@pytest.mark.parametrize('text', ['a<b>&\"\\x1b[2J\\u2028\\x00'])\n"
        "def test_hostile(roofline, model, text):\n    roofline.decode(model.step, model=model, label=text)\n"
    )
    run(source, "--junitxml=junit.xml")
    xml = junitparser.JUnitXml.fromfile(str(pytester.path / "junit.xml"))
    cases = [found for suite in xml for found in suite]
    assert len(cases) == 6
    properties = {
        found.name: {one.name: one.value for listed in found.iterchildren(junitparser.Properties) for one in listed}
        for found in cases
    }
    assert properties["test_bogus"]["roofline.verdict"] == "bogus"
    assert float(properties["test_good"]["roofline.fraction"]) == pytest.approx(0.8, abs=0.02)
    (hostile,) = [found for name, found in properties.items() if name.startswith("test_hostile")]
    assert json.loads(hostile["roofline"])["results"][0]["label"] == 'a<b>&"\x1b[2J\u2028\x00'
    assert properties["test_plain"] == {}


def test_roofline_report_exports_a_file_of_results(
    run: Run, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same formats from a run of yesterday; what none can be made of is wrong use."""
    from pytest_roofline.cli import main

    run(MIXED, "--roofline-json=r.json", "--roofline-export=bencher=then.json")
    capsys.readouterr()
    assert main(["report", "r.json", "--export", "bencher=now.json,github-annotations"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("bencher: 2 results in ")
    assert said[1].startswith("::error file=test_roofline_report_exports_a_file_of_results.py,line=6,title=BOGUS%3A ")
    assert (pytester.path / "now.json").read_text() == (pytester.path / "then.json").read_text()
    assert main(["report", "r.json", "--export", "bencher", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "tests": 4, "cut_off": None, "exports": ["bencher"]}
    for asked, error in (
        ((), "nothing to make of it: --html FILE, or --export NAME=FILE (or both)"),
        (("--export", "benchr"), "--export: 'benchr' is no format of an export; did you mean bencher?"),
        (("--export", "bencher=r.json/x"), "r.json/x: cannot be written: "),
    ):
        assert main(["report", "r.json", *asked]) == 2
        assert error in capsys.readouterr().err
