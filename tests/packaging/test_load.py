"""Loading the plugin is cheap: what stays out of `sys.modules` until a test measures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "numpy", "yaml", "rich", "jax", "pynvml", "filelock", "mlx")
OURS = {
    "pytest_roofline",
    "pytest_roofline.options",
    "pytest_roofline.plugin",
}
SHOW = """
import sys

def pytest_unconfigure(config):
    roots = {heavy!r} + ("pytest_roofline",)
    print("MODULES", *sorted(name for name in sys.modules if name.split(".")[0] in roots))
"""


def modules_after(folder: Path, source: str, *arguments: str) -> set[str]:
    """Our modules and heavy ones that a run of pytest on this test file has imported."""
    (folder / "conftest.py").write_text(SHOW.format(heavy=HEAVY), encoding="utf-8")
    (folder / "test_it.py").write_text(source, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    plugins = ["-p", "pytest_roofline.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-s", *plugins, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("MODULES")]
    return set(line.split()[1:])


@pytest.mark.parametrize(
    ("source", "arguments", "more"),
    [
        ("", ("--collect-only",), set()),
        ("def test_unrelated(tmp_path):\n    pass\n", (), set()),
        ("def test_measures(roofline):\n    pass\n", ("--collect-only",), set()),
        ("", ("--roofline-device=cpu", "--roofline-max-time=1"), {"pytest_roofline.given", "pytest_roofline.hall"}),
        (
            "def test_unrelated():\n    pass\n",
            ("--roofline-specs=.",),
            {"pytest_roofline.given", "pytest_roofline.hall"},
        ),
    ],
    ids=["empty", "unrelated", "collected", "options", "specs"],
)
def test_nothing_heavy_is_imported_before_a_test_measures(
    tmp_path: Path, source: str, arguments: tuple[str, ...], more: set[str]
) -> None:
    """No framework, no yaml, no rich, and of this package the door alone, and what reads options where some are."""
    assert modules_after(tmp_path, source, *arguments) == OURS | more


def test_importing_the_package_imports_nothing_else() -> None:
    """Neither the rooms of the package nor importlib.metadata, which is slow."""
    code = (
        "import sys; before = set(sys.modules); import pytest_roofline; "
        "print(*sorted(set(sys.modules) - before - {'typing', '__future__'}))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import typing; {code}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["pytest_roofline"]


def test_the_plugin_is_small() -> None:
    """Wiring only: under 150 lines."""
    assert len((ROOT / "pytest_roofline" / "plugin.py").read_text(encoding="utf-8").splitlines()) < 150
