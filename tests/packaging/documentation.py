"""README.md and the pages of docs/: their blocks, and a project in which what they show can be run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pytest_roofline"
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
PLUGIN = ("-p", "pytest_roofline.plugin", "-p", "no:cacheprovider")
# What a reader of the pages has already: the modules that a test file imports at its top, a model that decodes and two
# arrays; here on a fake device of 1 TB/s, of which they reach a share, and for which the budgets of the pages hold.
FIXTURES = """
import pytest
from pytest_roofline.backends.fake import FakeBackend, FakeGenerator

BACKEND = FakeBackend(name="H200 (fake)", memory_bytes=64e9)
EFFICIENCY = {efficiency}

def pytest_roofline_backends(config):
    return [BACKEND]

class Llama:
    "What the pages say of it: `step` runs one decode pass, `reset` brings the cache back, `model` has the weights."

    def __init__(self, weight_bytes=2e9):
        self.model = FakeGenerator(
            BACKEND, weight_bytes=weight_bytes, kv_bytes_per_token=1e5, context=64, efficiency=EFFICIENCY
        )
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
def larger():
    return Llama(4e9)

@pytest.fixture
def prompt():
    return {{"input_ids": [[5, 6, 7, 8]]}}

@pytest.fixture
def run_prompt():
    return lambda: BACKEND.launch(read_bytes=2e9, flops=8e12, dtype="bfloat16", efficiency=EFFICIENCY)

class Engine:
    "Works where the test cannot see it, and yields an id when each pass is done."

    def stream(self, tokens):
        decoder = Llama()
        for number in range(tokens):
            decoder.step()
            BACKEND.synchronize()
            yield number

@pytest.fixture
def engine():
    return Engine()

def pytest_collection_modifyitems(items):
    "pytest-benchmark reads the clock of the fake device."
    for item in items:
        if "benchmark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.benchmark(timer=BACKEND.clock))
"""
GIVEN = "import time\n\nimport pytest\n\nfrom conftest import source, target\n\n\n"
# A stand-in for llama-cpp-python over a file of which only the head is on the disk.
LLAMA_CPP = """
import sys
import llama_stand_in
from model_files import F16, F32, GgufWriter, llama_values

@pytest.fixture
def llm(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "llama_cpp", llama_stand_in.stand_in(has_gpu=True))
    blocks, width, feed, kv = 16, 2048, 5632, 512
    shapes = {"attn_q": (width, width), "attn_k": (kv, width), "attn_v": (kv, width), "attn_output": (width, width)}
    shapes |= {"ffn_gate": (feed, width), "ffn_up": (feed, width), "ffn_down": (width, feed)}
    tensors = [("token_embd.weight", (128, width), F16), ("output.weight", (128, width), F16)]
    tensors.append(("output_norm.weight", (width,), F32))
    for block in range(blocks):
        tensors += [(f"blk.{block}.{name}.weight", shape, F16) for name, shape in shapes.items()]
        tensors += [(f"blk.{block}.{name}.weight", (width,), F32) for name in ("attn_norm", "ffn_norm")]
    values = llama_values(
        llama__block_count=blocks, llama__embedding_length=width, llama__feed_forward_length=feed,
        llama__attention__head_count=32, llama__attention__head_count_kv=8,
    )
    matrices = 2 * (blocks * (2 * width * width + 2 * kv * width + 3 * width * feed) + 128 * width)
    norms, table = 4 * width * (2 * blocks + 1), 2 * 128 * width
    head = GgufWriter().file(values, tensors, data=False)
    path = tmp_path / "model.gguf"
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + matrices + norms + table + 64 * len(tensors))
    work = Llama(matrices + norms)
    return llama_stand_in.Llama(
        str(path), n_gpu_layers=-1, size_bytes=matrices + norms + table, work=lambda _: work.step()
    )
"""
# A server that answers at once; what it is said to run could not.
SERVER = """
from answering_server import answer, serving

@pytest.fixture
def url():
    with serving() as state:
        state.script = lambda request: answer(request.get("max_tokens") or request["max_completion_tokens"])
        yield state.url
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page."""

    page: Path
    language: str
    text: str
    line: int

    def __str__(self) -> str:
        return f"{self.page.stem}:{self.line}"

    @property
    def is_tests(self) -> bool:
        """Whether it is a test file, rather than a conftest."""
        return "def test_" in self.text

    def needs(self, fixture: str) -> bool:
        """Whether a test of it uses this fixture."""
        return any(
            fixture in re.split(r"[\s,]+", signature)
            for signature in re.findall(r"^def test_\w+\((.*)\):", self.text, flags=re.MULTILINE)
        )


def text_of(page: Path) -> str:
    """What is on the page."""
    return page.read_text(encoding="utf-8")


def blocks_of(page: Path) -> list[Block]:
    """Every fenced block."""
    text = text_of(page)
    return [
        Block(page=page, language=match[1], text=match[2], line=text.count("\n", 0, match.start()) + 2)
        for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    ]


def prose_of(page: Path) -> str:
    """The page without its blocks."""
    return re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


def inline_of(page: Path) -> list[str]:
    """Code in running text; a line may end in it."""
    return [" ".join(code.split()) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose_of(page))]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
INLINE = [(page, code) for page in PAGES for code in inline_of(page)]


def commands_of(block: Block) -> Iterator[str]:
    """The commands of a shell block, or those behind a prompt; lines that are continued are one."""
    for line in re.sub(r"\\\n\s*", "", block.text).splitlines():
        if block.language != "console" or line.startswith("$ "):
            yield line.removeprefix("$ ").partition(" #")[0].strip()


def headings_of(page: Path) -> list[str]:
    """Its anchors, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text_of(page), flags=re.M | re.S), flags=re.M)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


def section_of(page: Path, title: str) -> str:
    """What stands below a heading, up to the next one of its level or above."""
    # What looks like a heading inside of a block is a comment.
    outside = re.sub(r"^```.*?^```$", lambda block: block[0].replace("\n#", "\n #"), text_of(page), flags=re.M | re.S)
    lines = outside.splitlines()
    (start,) = [at for at, line in enumerate(lines) if re.fullmatch(rf"#+ {re.escape(title)}", line)]
    level = len(lines[start]) - len(lines[start].lstrip("#"))
    end = next(
        (at for at in range(start + 1, len(lines)) if re.match(rf"#{{1,{level}}} ", lines[at])),
        len(lines),
    )
    return "\n".join(lines[start:end])


# -- running ------------------------------------------------------------------------------------------------------


def plain_environment() -> dict[str, str]:
    """The environment with this checkout and its tests in the path, and without settings of roofline or CI."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "GITHUB_")) and name not in ("CI", "BUILD_NUMBER")
    }
    path = os.pathsep.join(str(folder) for folder in (ROOT, ROOT / "tests", ROOT / "tests" / "unit"))
    return {**kept, "PYTHONPATH": path, "COLUMNS": "200", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def run_here(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a module of Python in a folder."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**plain_environment(), **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def pytest_here(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder, without the plugins of this environment."""
    markers = "xdist_group: of pytest-xdist\n    benchmark: of pytest-benchmark"
    (folder / "pytest.ini").write_text(
        f"[pytest]\naddopts = --strict-markers\nmarkers =\n    {markers}\n", encoding="utf-8"
    )
    return run_here(folder, "pytest", *arguments, **environment)


def roofline_here(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run our command in a folder."""
    return run_here(folder, "pytest_roofline", *arguments, **environment)


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """What became of the tests of a run, by pytest's last line."""
    said = done.stdout.strip().splitlines()
    return {word: int(count) for count, word in re.findall(r"(\d+) (\w+)", said[-1].rpartition(" in ")[0])}


def passed(done: subprocess.CompletedProcess[str]) -> int:
    """How many tests passed in a run where nothing else happened."""
    found = outcomes(done)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(found) == {"passed"}, done.stdout + done.stderr
    return found["passed"]


def project(folder: Path, block: Block, *, efficiency: float) -> None:
    """A project with the tests of a block, whose code reaches this share of the device."""
    conftest = FIXTURES.format(efficiency=efficiency)
    conftest += LLAMA_CPP if block.needs("llm") else ""
    conftest += SERVER if block.needs("url") else ""
    (folder / "conftest.py").write_text(conftest, encoding="utf-8")
    (folder / "test_page.py").write_text(GIVEN + block.text, encoding="utf-8")
