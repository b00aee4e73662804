"""``--roofline-selftest``: the canaries take the place of the project's tests."""

from __future__ import annotations

import pytest


def test_the_canaries_run_in_place_of_the_tests(pytester: pytest.Pytester) -> None:
    """None of the project's own tests is collected, and every canary is."""
    pytester.makepyfile("def test_of_the_project(): assert False\n")
    result = pytester.runpytest_subprocess("--roofline-selftest", "--collect-only", "-q")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*test_of_the_project*")
    result.stdout.fnmatch_lines_random(["*test_a_time_divided_by_ten*", "*test_an_honest_pass*"])
