"""The canaries on this machine's processor: every cheat that it can express is refused."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")


def test_the_guard_bites_here(pytester: pytest.Pytester) -> None:
    """Only what needs an asynchronous device is skipped; the honest pass is not refused."""
    result = pytester.runpytest_subprocess("--roofline-selftest", "--roofline-device=cpu", "-rs")
    result.assert_outcomes(passed=5, skipped=1)
    result.stdout.fnmatch_lines(["*nothing is asynchronous on a CPU*"])
