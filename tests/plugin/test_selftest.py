"""``--roofline-selftest``: the canaries take the place of the project's tests."""

from __future__ import annotations

import os

import pytest


def test_the_canaries_run_in_place_of_the_tests(pytester: pytest.Pytester) -> None:
    """None of the project's own tests is collected, and every canary is."""
    pytester.makepyfile("def test_of_the_project(): assert False\n")
    result = pytester.runpytest_subprocess("--roofline-selftest", "--collect-only", "-q")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*test_of_the_project*")
    result.stdout.fnmatch_lines_random(["*test_a_time_divided_by_ten*", "*test_an_honest_pass*"])


@pytest.mark.parametrize("arguments", [(), ("-q", "-q"), ("-p", "xdist", "-n", "1")], ids=["plain", "quiet", "xdist"])
def test_where_no_canary_can_run_the_run_is_red(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """Nothing was refused, so nothing was shown: one line says it and why."""
    if "xdist" in arguments:
        pytest.importorskip("xdist")
    pytester.makepyfile(no_torch="import sys; sys.modules['torch'] = None")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=os.pathsep)
    result = pytester.runpytest_subprocess("-p", "no_torch", "--roofline-selftest", "--roofline-device=cpu", *arguments)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["ERROR: --roofline-selftest: nothing was shown, every canary was skipped: *import 'torch'*"]
    )
    assert result.stdout.str().count("nothing was shown") == 1
