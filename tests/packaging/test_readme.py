"""README.md is true: its code runs, and the options, commands, files and names that it mentions are there."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_roofline.instrument import Instrument
from pytest_roofline.options import MODES, OPTIONS, POLICIES, SELFTEST
from pytest_roofline.settings import parse_allow

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pytest_roofline"
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PLUGIN = ("-p", "pytest_roofline.plugin", "-p", "no:cacheprovider")
# What a reader of the README has already: the modules that a test file imports at its top, a model that decodes and two
# arrays; here on a fake device of 1 TB/s, of which they reach a share, and for which the README's budgets hold.
FIXTURES = """
import pytest
from pytest_roofline.backends.fake import FakeBackend, FakeGenerator

BACKEND = FakeBackend(name="H200 (fake)")
EFFICIENCY = {efficiency}

def pytest_roofline_backends(config):
    return [BACKEND]

class Llama:
    "What the README says of it: `step` runs one decode pass, `reset` brings the cache back, `model` has the weights."

    def __init__(self):
        self.model = FakeGenerator(BACKEND, weight_bytes=2e9, kv_bytes_per_token=1e5, context=64, efficiency=EFFICIENCY)
        self.step = self.model.step
        self.reset = self.model.reset

class Array:
    nbytes = 1_000_000_000

    def copy_(self, other):
        return BACKEND.launch(read_bytes=other.nbytes, write_bytes=self.nbytes, efficiency=EFFICIENCY)

source, target = Array(), Array()

@pytest.fixture
def llama():
    return Llama()

@pytest.fixture
def prompt():
    return {{"input_ids": [[5, 6, 7, 8]]}}
"""
GIVEN = "import time\n\nimport pytest\n\nfrom conftest import source, target\n\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block."""

    language: str
    text: str
    line: int

    @property
    def is_tests(self) -> bool:
        """Whether it is a test file, rather than a conftest."""
        return "def test_" in self.text


def blocks(text: str) -> list[Block]:
    """Every fenced block of a Markdown text."""
    return [
        Block(language=match[1], text=match[2], line=text.count("\n", 0, match.start()) + 2)
        for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    ]


BLOCKS = blocks(TEXT)
PYTHON = [block for block in BLOCKS if block.language == "python"]
TESTS = [block for block in PYTHON if block.is_tests]
CONFTESTS = [block for block in PYTHON if not block.is_tests]
INLINE = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", TEXT)
COMMAND_LINES = [
    line.partition("#")[0].strip()
    for line in [*(line for block in BLOCKS if block.language != "python" for line in block.text.splitlines()), *INLINE]
]


def pytest_here(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder, without the plugins of this environment."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n", encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=folder,
        env={**plain_environment(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def plain_environment() -> dict[str, str]:
    """The environment with this checkout in the path, and without settings of roofline."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_ROOFLINE")}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}


def passed(done: subprocess.CompletedProcess[str]) -> int:
    """How many tests passed in a run where nothing else happened."""
    last = done.stdout.splitlines()[-1]
    match = re.search(r"(\d+) passed in ", last)
    assert done.returncode == 0, done.stdout + done.stderr
    assert match is not None, last
    assert not re.search(r"failed|skipped|error|xfailed", last), done.stdout
    return int(match[1])


def help_of(*command: str) -> str:
    """What a command of ours prints for --help; fails where there is none."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest_roofline", *command, "--help"],
        env=plain_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"README mentions `roofline {' '.join(command)}`: {done.stderr}"
    return done.stdout


# -- code ---------------------------------------------------------------------------------------------------------


def test_the_readme_has_code() -> None:
    """Both kinds of blocks are found, so that the tests below have something to hold."""
    assert TESTS
    assert CONFTESTS


def run_block(folder: Path, block: Block, *arguments: str, efficiency: float) -> subprocess.CompletedProcess[str]:
    """Run a test of the README where the code reaches this share of the device."""
    (folder / "conftest.py").write_text(FIXTURES.format(efficiency=efficiency), encoding="utf-8")
    (folder / "test_readme.py").write_text(GIVEN + block.text, encoding="utf-8")
    return pytest_here(folder, *PLUGIN, *arguments)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("block", TESTS, ids=lambda block: f"line {block.line}")
def test_a_test_of_the_readme_passes(tmp_path: Path, block: Block, mode: str) -> None:
    """It runs as it stands: measured where its code is good, and with --roofline=off whatever the code is."""
    done = run_block(tmp_path, block, f"--roofline={mode}", efficiency=0.2 if mode == "off" else 0.9)
    assert passed(done) == block.text.count("def test_")


@pytest.mark.parametrize("block", TESTS, ids=lambda block: f"line {block.line}")
def test_a_test_of_the_readme_fails_where_the_code_is_slow(tmp_path: Path, block: Block) -> None:
    """Its budget is a budget: at 20 % of the device none of them passes, and none is called bogus."""
    done = run_block(tmp_path, block, efficiency=0.2)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^FAILED test_readme\.py::\w+ - ", done.stdout, flags=re.MULTILINE), done.stdout


@pytest.mark.parametrize("block", CONFTESTS, ids=lambda block: f"line {block.line}")
@pytest.mark.parametrize("plugin", [PLUGIN, ()], ids=["with", "without"])
def test_a_conftest_of_the_readme_works(tmp_path: Path, block: Block, plugin: tuple[str, ...]) -> None:
    """With the plugin its fake is the device; without it, the project's other tests still run."""
    (tmp_path / "conftest.py").write_text(block.text, encoding="utf-8")
    source = "def test_it(roofline_device): assert roofline_device.id == 'fake:0'" if plugin else "def test_it(): pass"
    (tmp_path / "test_it.py").write_text(source, encoding="utf-8")
    assert passed(pytest_here(tmp_path, *plugin)) == 1


def test_inline_calls_of_the_fixture_exist() -> None:
    """`roofline.NAME(keyword=...)` in running text names a method of the tool and its parameters."""
    seen = 0
    for code in INLINE:
        if not code.startswith("roofline."):
            continue
        for call in [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]:
            assert isinstance(call.func, ast.Attribute), code
            parameters = inspect.signature(getattr(Instrument, call.func.attr)).parameters
            assert {keyword.arg for keyword in call.keywords} <= set(parameters), code
            seen += 1
    assert seen


# -- options and commands -----------------------------------------------------------------------------------------


def test_the_options_of_the_readme_exist() -> None:
    """Each `--roofline...` is one of ours, and what is given to it is a value that it takes."""
    known = {option.flag: option for option in OPTIONS}
    mentioned = re.findall(r"(--roofline[\w-]*)(?:=([\w.|\\-]+))?", TEXT)
    assert mentioned
    for flag, values in mentioned:
        if flag == SELFTEST:
            continue
        assert flag in known, flag
        choices = {"mode": MODES, "inconclusive": POLICIES}.get(known[flag].name)
        for value in re.split(r"\\?\|", values) if values else ():
            assert choices is None or value in choices, f"{flag}={value}"


def test_every_option_is_in_the_readme() -> None:
    """The reference is complete."""
    assert [flag for flag in (SELFTEST, *(option.flag for option in OPTIONS)) if flag not in TEXT] == []


def test_the_commands_of_the_readme_exist() -> None:
    """`roofline COMMAND --option`: the command answers, and its help names every option that is shown."""
    lines = [line for line in COMMAND_LINES if re.match(r"roofline [a-z]", line)]
    assert lines
    for line in lines:
        words = line.split()[1:]
        command = [word for word in words[:2] if re.fullmatch(r"[a-z]+", word)]
        # A second word may be a command of a command, or the first argument.
        text = help_of(command[0])
        if len(command) == 2 and re.search(rf"\b{command[1]}\b", text):
            text += help_of(*command)
        for word in words:
            if word.startswith("--"):
                assert re.search(rf"{word.partition('=')[0]}\b", text), line


def test_the_tox_commands_of_the_readme_exist() -> None:
    """Each environment that is named is one of tox.ini."""
    text = (ROOT / "tox.ini").read_text(encoding="utf-8")
    listed = re.search(r"^env_list = (.*)$", text, flags=re.MULTILINE)
    assert listed is not None
    expanded = re.sub(
        r"(\w+)\{([\d,]+)\}", lambda match: ", ".join(match[1] + part for part in match[2].split(",")), listed[1]
    )
    named = re.findall(r"tox run -e ([\w,]+)", TEXT)
    assert named
    assert {name for names in named for name in names.split(",")} <= set(expanded.split(", "))


@pytest.mark.parametrize(("option", "expected"), [("--help", "--roofline="), ("--markers", "@pytest.mark.roofline(")])
def test_pytest_prints_the_reference(tmp_path: Path, option: str, expected: str) -> None:
    """`pytest --help` and `pytest --markers` say what the README promises that they say."""
    assert f"`pytest {option}`" in TEXT
    assert expected in pytest_here(tmp_path, *PLUGIN, option).stdout


def test_pytest_prints_the_fixtures(tmp_path: Path) -> None:
    """`pytest --fixtures` names the three, with a sentence each."""
    assert "`pytest --fixtures`" in TEXT
    shown = pytest_here(tmp_path, *PLUGIN, "--fixtures").stdout
    for name in ("roofline", "roofline_device", "roofline_probe"):
        assert re.search(rf"^{name}\b.*\n    \S", shown, flags=re.MULTILINE), name


# -- names and files ----------------------------------------------------------------------------------------------


def test_the_checks_of_the_readme_exist() -> None:
    """Each name of a check, and each one that a test allows."""
    names = [name for name in INLINE if re.fullmatch(r"[a-z]+(-[a-z]+)+", name)]
    assert names
    assert parse_allow(names, "README.md") == set(names)


def test_the_modules_of_the_readme_can_be_imported() -> None:
    """Each `pytest_roofline.x.y` that is mentioned."""
    names = set(re.findall(r"pytest_roofline(?:\.\w+)+", TEXT))
    assert names
    for name in names:
        importlib.import_module(name)


def test_the_files_of_the_readme_exist() -> None:
    """Each path and each file name in code, in the repository or in the package (a conftest is the reader's)."""
    code = [*(block.text for block in BLOCKS if block.language != "python"), *INLINE]
    mentioned = {
        path
        for text in code
        for path in re.findall(r"(?<![\w./-])[\w./-]+(?:\.(?:py|md|ini|toml)\b|/(?=[\s,)]|$))", text)
    }
    assert mentioned
    missing = [
        path for path in mentioned - {"conftest.py"} if not ((ROOT / path).exists() or (PACKAGE / path).exists())
    ]
    assert missing == []


def test_the_map_of_the_readme_is_complete() -> None:
    """Every module and every room of the package stands in the map, and once."""
    (chart,) = [block.text for block in BLOCKS if "plugin.py" in block.text.split()]
    places = [word for line in chart.splitlines() for word in line.split() if re.fullmatch(r"\w+(\.py|/)", word)]
    modules = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py", "__main__.py"}
    rooms = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(places) == sorted(modules | rooms)


def test_the_demo_shows_as_many_refusals_as_the_readme_says() -> None:
    """Five tests that must not pass."""
    words = {"three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
    match = re.search(r"runs (\w+) tests that must not pass", TEXT)
    assert match is not None
    assert len(list((ROOT / "examples" / "refused").glob("*.py"))) == words[match[1]]
