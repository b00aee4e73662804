"""Runs of pytest with the plugin and a fake accelerator of 1 TB/s, on a virtual clock."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import pytest
from inner_runs import FAKE, PLUGIN, ROOT, Run

# What runs in this process would be imported anew in every inner run, were it not here before.
import pytest_roofline.backends.fake
import pytest_roofline.budgets.document
import pytest_roofline.instrument
import pytest_roofline.outcome
import pytest_roofline.probe
import pytest_roofline.report.terminal  # noqa: F401

with suppress(ImportError):  # an optional one: two copies of it would not know each other's exceptions
    import httpcore  # noqa: F401
    import httpx  # noqa: F401


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest on this test file, in this process; `conftest` takes the place of the one with the fake.

    Entry points are not loaded, so that it makes no difference whether this package is installed.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("COLUMNS", "240")  # pytest cuts its short summary there
    monkeypatch.syspath_prepend(ROOT)
    for name in [name for name in os.environ if name.startswith("PYTEST_ROOFLINE")]:
        monkeypatch.delenv(name)

    def run_pytest(
        source: str, *arguments: str, conftest: str = FAKE, plugin: tuple[str, ...] = PLUGIN, fresh: bool = False
    ) -> pytest.RunResult:
        pytester.makeconftest(conftest)
        pytester.makepyfile(source)
        if not fresh:
            return pytester.runpytest_inprocess(*plugin, *arguments)
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        return pytester.run(sys.executable, "-m", "pytest", *plugin, *arguments, timeout=120)

    return run_pytest
