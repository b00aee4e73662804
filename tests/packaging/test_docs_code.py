"""Every Python block of README.md and docs/ runs: on the fake device, or on this processor with its framework."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from documentation import BLOCKS, INLINE, PLUGIN, Block, outcomes, passed, project, pytest_here

from pytest_roofline.audit import Audit
from pytest_roofline.instrument import Instrument
from pytest_roofline.probe import Probe

PYTHON = [block for block in BLOCKS if block.language == "python"]
FRAMEWORKS = ("jax", "mlx", "numpy")


def framework_of(block: Block) -> str | None:
    """The framework that a block imports."""
    found = re.search(rf"^import ({'|'.join(FRAMEWORKS)})\b", block.text, flags=re.MULTILINE)
    return found[1] if found else None


TESTS = [block for block in PYTHON if block.is_tests and not framework_of(block)]
FIRST = [block for block in TESTS if block.needs("fake_model")]
ON_FAKE = [block for block in TESTS if not block.needs("url") and block not in FIRST]
BUDGETED = [block for block in ON_FAKE if re.search(r"fraction >=|at_least=", block.text)]
CONFTESTS = [block for block in PYTHON if not block.is_tests]


def plugins_of(block: Block) -> tuple[str, ...]:
    """Ours, and pytest-benchmark where a test of the block uses it."""
    if not block.needs("benchmark"):
        return PLUGIN
    pytest.importorskip("pytest_benchmark")
    return (*PLUGIN, "-p", "pytest_benchmark.plugin")


def run_block(folder: Path, block: Block, *arguments: str, efficiency: float) -> subprocess.CompletedProcess[str]:
    """Run the tests of a block where the code reaches this share of the device."""
    plugins = plugins_of(block)
    project(folder, block, efficiency=efficiency)
    return pytest_here(folder, *plugins, *arguments)


def test_there_is_code_of_each_kind() -> None:
    """Tests with and without a budget, conftests, every framework: the tests below have something to hold."""
    assert BUDGETED
    assert len(ON_FAKE) > len(BUDGETED)
    assert CONFTESTS
    assert FIRST
    assert {framework_of(block) for block in PYTHON} >= set(FRAMEWORKS)


def test_every_block_has_a_language_that_is_held() -> None:
    """A block without one would be held by no test, but for the map of the house."""
    for block in BLOCKS:
        is_map = block.page.stem == "README" and "plugin.py" in block.text
        assert is_map or block.language in ("python", "console", "sh", "bash", "yaml"), str(block)


@pytest.mark.parametrize("block", ON_FAKE, ids=str)
def test_a_block_passes(tmp_path: Path, block: Block) -> None:
    """It runs as it stands where its code is good; one that asks for a ceiling alone measures nothing."""
    mode = "auto" if "roofline.ceiling" in block.text else "require"
    done = run_block(tmp_path, block, f"--roofline={mode}", efficiency=0.9)
    assert passed(done) == block.text.count("def test_")


@pytest.mark.parametrize("block", ON_FAKE, ids=str)
def test_a_block_passes_unmeasured(tmp_path: Path, block: Block) -> None:
    """With --roofline=off, whatever the code is."""
    done = run_block(tmp_path, block, "--roofline=off", efficiency=0.2)
    assert passed(done) == block.text.count("def test_")


@pytest.mark.parametrize("block", BUDGETED, ids=str)
def test_a_block_fails_where_the_code_is_slow(tmp_path: Path, block: Block) -> None:
    """Its budget is a budget: at 20 % of the device none of them passes, and none is called bogus."""
    done = run_block(tmp_path, block, efficiency=0.2)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^FAILED test_page\.py::\w+ - ", done.stdout, flags=re.MULTILINE), done.stdout
    assert "BOGUS" not in done.stdout


@pytest.mark.parametrize("block", [block for block in TESTS if block.needs("url")], ids=str)
def test_a_server_is_asked(tmp_path: Path, block: Block) -> None:
    """One that answers at once passes with --roofline=off; measured it is refused, being 70 times too fast."""
    pytest.importorskip("httpx")
    assert passed(run_block(tmp_path, block, "--roofline=off", efficiency=0.9)) == 1
    done = run_block(tmp_path, block, "--roofline=auto", efficiency=0.9)
    refused = r"^BOGUS test_page\.py::test_server - .* \[faster-than-limit\]$"
    assert re.search(refused, done.stdout, flags=re.MULTILINE), done.stdout + done.stderr


@pytest.mark.parametrize("mode", ["auto", "off"])
@pytest.mark.parametrize("block", [block for block in PYTHON if framework_of(block)], ids=str)
def test_a_block_of_a_framework_runs_here(tmp_path: Path, block: Block, mode: str) -> None:
    """On this processor; a machine that is busy may leave it undecided, and nothing accuses it."""
    framework = framework_of(block) or ""
    if find_spec(framework) is None:  # what a run inside this process has imported before cannot be imported again here
        pytest.importorskip(framework)
    (tmp_path / "test_page.py").write_text(block.text, encoding="utf-8")
    done = pytest_here(tmp_path, *PLUGIN, f"--roofline={mode}", "--roofline-inconclusive=pass", "-rA")
    assert passed(done) == 1
    assert "BOGUS" not in done.stdout


@pytest.mark.parametrize("block", CONFTESTS, ids=str)
@pytest.mark.parametrize("plugin", [PLUGIN, ()], ids=["with", "without"])
def test_a_conftest_works(tmp_path: Path, block: Block, plugin: tuple[str, ...]) -> None:
    """With the plugin its fake is the device, where it has one; without it, the project's other tests still run."""
    (tmp_path / "conftest.py").write_text(block.text, encoding="utf-8")
    is_fake = plugin and "FakeBackend" in block.text
    source = "def test_it(roofline_device): assert roofline_device.id == 'fake:0'" if is_fake else "def test_it(): pass"
    (tmp_path / "test_it.py").write_text(source, encoding="utf-8")
    assert passed(pytest_here(tmp_path, *plugin)) == 1


def run_first(folder: Path, block: Block, efficiency: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The tests on the fake device, with nothing but the conftest of their page."""
    (conftest,) = [one for one in CONFTESTS if one.page == block.page and "def fake_model" in one.text]
    assert "efficiency=0.8" in conftest.text
    (folder / "conftest.py").write_text(conftest.text.replace("efficiency=0.8", efficiency), encoding="utf-8")
    (folder / "test_first.py").write_text(block.text, encoding="utf-8")
    return pytest_here(folder, *PLUGIN, *arguments)


@pytest.mark.parametrize("block", FIRST, ids=str)
def test_the_first_tests_on_the_fake_device_need_the_page_alone(tmp_path: Path, block: Block) -> None:
    """They pass with its conftest as it stands, and the model's fails where it is made slow."""
    assert passed(run_first(tmp_path, block, "efficiency=0.8", "--roofline=require")) == 2
    done = run_first(tmp_path, block, "efficiency=0.3")
    assert outcomes(done) == {"failed": 1, "passed": 1}, done.stdout
    assert "BOGUS" not in done.stdout


@pytest.mark.parametrize("block", FIRST, ids=str)
def test_a_plain_function_on_the_fake_device_is_what_the_page_says(tmp_path: Path, block: Block) -> None:
    """Refused there for it launches nothing; host work of the fake's own takes its time."""
    plain = "def test_it(roofline): roofline.decode(lambda: [1], traffic=2e9, reset=lambda: None)\n"
    slept = (
        "def test_slept(roofline, backend):\n"
        "    step = lambda: backend.host(2e-3) or [1]\n"
        "    assert roofline.decode(step, traffic=2e9, reset=lambda: None).fraction > 0.4\n"
    )
    run_first(tmp_path, block, "efficiency=0.8", "--collect-only")
    (tmp_path / "test_first.py").write_text(plain + slept, encoding="utf-8")
    done = pytest_here(tmp_path, *PLUGIN)
    assert re.search(r"^BOGUS test_first.py::test_it - .*", done.stdout, flags=re.MULTILINE), done.stdout
    assert "[faster-than-limit]" in done.stdout
    assert outcomes(done) == {"failed": 1, "passed": 1}, done.stdout


def test_inline_calls_exist() -> None:
    """`roofline.NAME(keyword=...)` and its like in running text name a method of ours and its parameters."""
    rooms = {"roofline": Instrument, "audit": Audit, "roofline_probe": Probe}
    seen = 0
    for page, code in INLINE:
        if not re.match(rf"({'|'.join(rooms)})\.\w+\(", code):
            continue
        for call in [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]:
            assert isinstance(call.func, ast.Attribute), code
            if not isinstance(call.func.value, ast.Name) or call.func.value.id not in rooms:
                continue
            found = getattr(rooms[call.func.value.id], call.func.attr, None)
            assert found is not None, f"{page.name}: {code}"
            parameters = inspect.signature(found).parameters
            is_open = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
            assert is_open or {keyword.arg for keyword in call.keywords} <= set(parameters), f"{page.name}: {code}"
            seen += 1
    assert seen >= 5
