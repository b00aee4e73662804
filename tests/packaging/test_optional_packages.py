"""What is optional: extras that the package uses, and tests that skip without them unless all are called for."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
TESTS = """
import pytest

def test_missing():
    pytest.importorskip("no_such_package_here")

def test_there():
    assert pytest.importorskip("json").dumps([]) == "[]"
"""


def imported() -> set[str]:
    """The first words of everything that the package imports, wherever it stands."""
    found = set()
    for file in (ROOT / "pytest_roofline").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize(("switch", "missing"), [(None, "skipped"), ("0", "skipped"), ("1", "failed")])
def test_the_switch_turns_skips_into_failures(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, switch: str | None, missing: str
) -> None:
    """Of tests that need a package that is not installed; those whose package is there run either way."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("ROOFLINE_TESTS_NEED_ALL", raising=False)
    if switch is not None:
        monkeypatch.setenv("ROOFLINE_TESTS_NEED_ALL", switch)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    done.assert_outcomes(passed=1, **{missing: 1})
    if missing == "failed":
        done.stdout.fnmatch_lines(["*no_such_package_here is needed (ROOFLINE_TESTS_NEED_ALL is set)*"])


def test_the_switch_knows_where_a_package_cannot_be(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is not made for this system is skipped, whatever the switch says."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("ROOFLINE_TESTS_NEED_ALL", "1")
    pytester.makeconftest(CONFTEST.replace('{"mlx": "linux"}', '{"no_such_package_here": "plan9"}'))
    pytester.makepyfile(TESTS)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1, skipped=1)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is new in Python 3.11")
def test_every_extra_is_imported_and_installed_by_the_tests() -> None:
    """No extra brings what the package never imports, and the environment with everything installs each of them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {
        re.split(r"[\s<>=\[]", requirement)[0]
        for requirements in project["optional-dependencies"].values()
        for requirement in requirements
    }
    assert extras <= imported()
    complete = {line.split()[1] for line in tox_lines() if line.startswith("py311: ") and "=" in line}
    assert extras <= {re.split(r"[<>=\[]", requirement)[0] for requirement in complete}
    assert "py311: ROOFLINE_TESTS_NEED_ALL = 1" in tox_lines()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is new in Python 3.11")
def test_a_source_archive_has_what_its_tests_need() -> None:
    """Benchmarks too: a test recomputes their rows."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    included = set(build["targets"]["sdist"]["include"])
    assert {"pytest_roofline", "specs", "tests", "examples", "benchmarks", "docs", "README.md", "tox.ini"} <= included


def tox_lines() -> list[str]:
    """The lines of tox.ini without their indentation."""
    return [line.strip() for line in (ROOT / "tox.ini").read_text(encoding="utf-8").splitlines()]
