"""The file of a report, without a browser: its size, its policy, what goes into it, and how it is asked for."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import random
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_documents import a_test, document, many, result, varied

from pytest_roofline import cli
from pytest_roofline.report.html import MOST_BYTES, html_page, write_html
from pytest_roofline.report.html_data import Detail, page_data
from pytest_roofline.report.html_shell import NEEDS_PLOTLY
from pytest_roofline.results.reading import read_results

pytest.importorskip("plotly")

ALL = Detail(samples=1000, characters=20_000)
HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked=1'>\"'\x00\u202e\U0001f600"


class Elements(HTMLParser):
    """What a browser without scripts would find: tags with their attributes, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text: list[str] = []
        self._is_script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag."""
        self.tags.append((tag, dict(attrs)))
        self._is_script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        """The end of one."""
        self._is_script = False

    def handle_data(self, data: str) -> None:
        """What stands between tags."""
        (self.scripts if self._is_script else self.text).append(data)


def unpacked(page: str) -> dict[str, Any]:
    """The data in the page."""
    coded = re.search(r'id="data">([^<]*)<', page)
    assert coded is not None
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(coded[1])))
    return found


def test_the_documents_of_these_tests_are_as_the_schema_has_them(tmp_path: Path) -> None:
    """Else the page would be tested with what no run writes."""
    path = tmp_path / "results.json"
    for found in (varied(), many(3)):
        path.write_text(json.dumps(found), encoding="utf-8")
        assert read_results(str(path))["devices"] == found["devices"]


def test_a_page_is_the_same_byte_for_byte() -> None:
    """The same document gives the same file: it can be cached and compared."""
    assert html_page(varied()) == html_page(varied())


def test_the_policy_names_the_two_scripts_that_may_run_and_allows_no_request() -> None:
    """The page's own script, and the chart library that it unpacks; everything else is forbidden by default."""
    page = html_page(varied())
    found = Elements(page)
    (policy,) = [
        attributes["content"]
        for tag, attributes in found.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    library = gzip.decompress(base64.b64decode(found.scripts[1]))
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"
        for text in (found.scripts[2].encode(), library)
    ]
    assert rules["script-src"].split() == hashes
    assert rules["default-src"] == "'none'"
    assert "http" not in policy
    assert set(rules) == {"default-src", "script-src", "style-src", "img-src", "base-uri", "form-action"}


def test_hostile_names_make_no_elements() -> None:
    """Of ids, messages, devices, anything: the page has the same elements, and escapes stand in its plain table."""
    calm, wild = (
        Elements(html_page(document(a_test(f"test_a.py::test{name}", result(label=name), reason=name))))
        for name in ("x", HOSTILE)
    )
    assert [tag for tag, _ in wild.tags] == [tag for tag, _ in calm.tags]
    assert not any("\x00" in text or "\u202e" in text for text in wild.text)
    assert any("window.hacked" in text and "\\x00" in text for text in wild.text)


@pytest.mark.parametrize("count", [1, 2000])
def test_a_page_stays_under_five_megabytes(count: int) -> None:
    """With one test and with two thousand of thirty samples each; no test is missing."""
    page = html_page(many(count))
    assert len(page.encode()) < MOST_BYTES == 5_000_000
    assert len(unpacked(page)["rows"]) == count


def test_a_huge_document_is_thinned_and_says_so() -> None:
    """Texts that do not compress, ten kilobytes each: they are cut, samples are left out, and the page knows it."""
    tests = [
        a_test(f"test_a.py::{random.Random(number).randbytes(5000).hex()}", result(0.7 + number / 1e5))
        for number in range(1200)
    ]
    page = html_page(document(*tests))
    data = unpacked(page)
    assert len(page.encode()) < MOST_BYTES
    assert len(data["rows"]) == 1200
    assert data["thinned"] < 24
    assert all(len(row["test"]) < 10_000 for row in data["rows"])


def test_thinning_keeps_both_ends() -> None:
    """Of a long series the first and the last sample stay, and those between are spread evenly."""
    data = page_data(document(a_test("a::b", result(samples=101))), Detail(samples=11, characters=100))
    whole = page_data(document(a_test("a::b", result(samples=101))), ALL)
    column = data["rows"][0]["samples"]["step_s"]
    assert column == whole["rows"][0]["samples"]["step_s"][::10]
    assert (data["thinned"], "thinned" in whole) == (11, False)


def test_rows_are_results_and_tests_without_results() -> None:
    """A test with two results is two rows; a crash is one, failed; an attempt that was run again is none."""
    again = a_test("a::again", result(0.3, "failed"), outcome="rerun")
    crash = a_test("a::crash", outcome="failed")
    data = page_data(document(a_test("a::two", result(), result(label="more")), crash, again), ALL)
    assert [(row["test"], row["verdict"], row["of"]) for row in data["rows"]] == [
        ("a::two", "passed", [1, 2]),
        ("a::two", "passed", [2, 2]),
        ("a::crash", "failed", [0, 0]),
    ]


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
ANYTHING = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("tests", "results", "node_id", "device", "samples", "findings", "probe", "sweep", "run", "id")
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(("run", "tests", "devices", "end", "libraries", "schema")), ANYTHING))
def test_no_document_is_too_odd(found: dict[str, Any]) -> None:
    """Whatever stands where, the data of a page is made, and is JSON without NaN."""
    json.dumps(page_data(found, Detail(samples=3, characters=4)), allow_nan=False)


def test_an_earlier_file_makes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file from before probes and commits were written, cut off in its second test."""
    run = {"version": "0.1.0", "python": "3.11", "platform": "Linux", "arguments": []}
    head = json.dumps({"schema": 1, "kind": "pytest-roofline results", "run": run})[:-1] + ',\n"tests": [\n'
    path = tmp_path / "old.json"
    old = {name: value for name, value in result().items() if name not in ("limit", "claim", "window", "comparisons")}
    path.write_text(f'{head}{json.dumps(a_test("a::b", old))},\n{{"node_id": "a::c', encoding="utf-8")
    assert cli.main(["report", str(path), "--html", str(tmp_path / "deep" / "page.html")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{path}: cut off: 1 test is in it, the run's end is not",
        f"report: {tmp_path / 'deep' / 'page.html'}",
    ]
    data = unpacked((tmp_path / "deep" / "page.html").read_text(encoding="utf-8"))
    assert ("end" in data, len(data["rows"]), data["probes"]) == (False, 1, [])


def test_the_command_says_what_it_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json: one object."""
    path, page = tmp_path / "results.json", tmp_path / "page.html"
    path.write_text(json.dumps(varied()), encoding="utf-8")
    assert cli.main(["report", str(path), "--html", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        **{"schema": 1, "html": str(page), "bytes": page.stat().st_size, "tests": len(varied()["tests"])},
        "cut_off": None,
    }


def test_what_the_command_cannot_read_or_write_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, and which file it is."""
    good, bad = tmp_path / "results.json", tmp_path / "other.json"
    good.write_text(json.dumps(varied()), encoding="utf-8")
    bad.write_text("{}", encoding="utf-8")
    for arguments, said in (
        ((str(tmp_path / "none.json"), "--html", "x.html"), "none.json' cannot be read: No such file or directory"),
        ((str(bad), "--html", "x.html"), "other.json is no results file of pytest-roofline"),
        ((str(good), "--html", str(tmp_path)), f"--html: {tmp_path}: cannot be written: Is a directory"),
        ((str(good), "--html", str(good / "x.html")), "x.html: cannot be written: "),
    ):
        assert cli.main(["report", *arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("roofline report: ")
        assert said in line


def test_a_page_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    """Neither a draft, nor half a page over the one before."""
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        write_html(varied(), str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert [one.name for one in tmp_path.parent.iterdir() if one.name.startswith(f"{tmp_path.name}.")] == []


def test_what_is_no_plain_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """A pipe stays a pipe; a link stays a link, and what it points to becomes the page."""
    (tmp_path / "real.html").write_text("old", encoding="utf-8")
    (tmp_path / "link.html").symlink_to("real.html")
    size = write_html(varied(), str(tmp_path / "link.html"))
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").stat().st_size == size
    write_html(varied(), os.devnull)
    assert not os.path.isfile(os.devnull)


def test_without_plotly_the_sentence_names_the_command(tmp_path: Path) -> None:
    """The command that installs it."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps(varied()), encoding="utf-8")
    code = "import sys; sys.modules['plotly'] = None; from pytest_roofline.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "report", str(path), "--html", str(tmp_path / "x.html")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, f"roofline report: {NEEDS_PLOTLY}\n")
    assert "pip install 'pytest-roofline[report]'" in NEEDS_PLOTLY


# -- at the end of a run --------------------------------------------------------------------------------------------


def test_an_option_writes_the_page_at_the_end_of_a_run(pytester: pytest.Pytester) -> None:
    """One line says where it is; its data are the run's, whose steps were not measured here."""
    pytester.makepyfile("def test_it(roofline):\n    roofline.decode(lambda: 1, traffic=1e9)\n")
    done = pytester.runpytest_subprocess("--roofline=off", "--roofline-html=out/page.html", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["report: out/page.html"])
    data = unpacked((pytester.path / "out" / "page.html").read_text(encoding="utf-8"))
    (row,) = data["rows"]
    assert (row["mode"], row["verdict"], data["end"]) == ("off", "not measured", {"exit_status": 0})


def test_an_option_without_plotly_ends_the_session_before_it_begins(pytester: pytest.Pytester) -> None:
    """A usage error, not a surprise after an hour."""
    pytester.makeconftest("import sys\nsys.modules['plotly'] = None\n")
    pytester.makepyfile("def test_it(roofline):\n    raise SystemExit\n")
    done = pytester.runpytest_subprocess("--roofline-html=page.html", "-p", "no:cacheprovider")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"ERROR: {NEEDS_PLOTLY.replace('[', '[[]')}"])


def test_a_folder_in_place_of_a_page_is_said_before_anything_runs(pytester: pytest.Pytester) -> None:
    """A usage error as well."""
    pytester.makepyfile("def test_it(roofline):\n    raise SystemExit\n")
    done = pytester.runpytest_subprocess("--roofline-html=.", "-p", "no:cacheprovider")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: --roofline-html: '.' cannot be written: Is a directory"])


def test_a_page_that_cannot_be_written_is_a_red_line(pytester: pytest.Pytester) -> None:
    """What stands in its way came during the run: the tests keep their outcomes."""
    pytester.makepyfile(test_it="def test_it(roofline):\n    open('file', 'w').close()\n")
    done = pytester.runpytest_subprocess("--roofline=off", "--roofline-html=file/x.html", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["ERROR: --roofline-html: *file/x.html: File exists"])
