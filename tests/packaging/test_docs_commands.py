"""Every command of README.md and docs/ answers, and every output that they show is what is printed."""

from __future__ import annotations

import importlib
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from documentation import (
    BLOCKS,
    INLINE,
    PAGES,
    PLUGIN,
    ROOT,
    Block,
    commands_of,
    headings_of,
    inline_of,
    passed,
    project,
    prose_of,
    pytest_here,
    roofline_here,
    text_of,
)

from pytest_roofline.options import MODES, OPTIONS, POLICIES, SELFTEST
from pytest_roofline.settings import parse_allow

CONSOLE = [block for block in BLOCKS if block.language == "console"]
SHELL = [block for block in BLOCKS if block.language in ("sh", "bash")]
# Shown as they are printed for runs that a test makes up: there they are held to the letter.
ELSEWHERE = {"roofline compare old.json new.json": ROOT / "tests" / "unit" / "test_comparison.py"}
ANYTHING = "..."
FOLDERS = "examples|benchmarks|docs|specs|tests|pytest_roofline"
DECODE = Block(
    page=PAGES[0],
    language="python",
    line=0,
    text="def test_decode(roofline, llama):\n"
    "    result = roofline.decode(llama.step, model=llama.model, reset=llama.reset)\n"
    "    assert result.fraction >= 0.60\n",
)


def plain_output(text: str) -> list[str]:
    """Lines whose figures are the same on every machine: without the name of the device, and whether it is fit."""
    text = re.sub(r"^(\w+) \(.*\): (NOT FIT|fit) to judge performance.*$", r"\1: judged", text, flags=re.MULTILINE)
    text = re.sub(r" in [\d.]+s( =+)?$", r" in a moment\1", text, flags=re.MULTILINE)
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def is_shown(shown: list[str], printed: list[str]) -> bool:
    """Whether lines are those that are shown; a line of dots stands for any number of them."""
    if not shown:
        return not printed
    if shown[0].strip() == ANYTHING:
        return any(is_shown(shown[1:], printed[at:]) for at in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and is_shown(shown[1:], printed[1:])


def test_dots_stand_for_any_lines_and_for_nothing_else() -> None:
    """What is compared is compared to the letter."""
    assert is_shown(["a", "...", "d"], ["a", "b", "c", "d"])
    assert is_shown(["a", "..."], ["a"])
    assert not is_shown(["a", "d"], ["a", "b", "d"])
    assert not is_shown(["a", "...", "e"], ["a", "d"])
    assert not is_shown(["223 tok/s"], ["224 tok/s"])


@pytest.mark.parametrize("block", CONSOLE, ids=str)
def test_an_output_is_what_is_printed(tmp_path: Path, block: Block) -> None:
    """To the letter, but for times and for the machine that a doctor looks at."""
    command, _, shown = block.text.partition("\n")
    command = command.removeprefix("$ ")
    if command in ELSEWHERE:
        assert command in text_of(ELSEWHERE[command])
        return
    program, *arguments = shlex.split(command)
    if program == "pytest":
        project(tmp_path, DECODE, efficiency=0.41)
        (tmp_path / "test_page.py").rename(tmp_path / "test_decode.py")
        done = pytest_here(tmp_path, *PLUGIN, *arguments, COLUMNS="100")
    else:
        assert program == "roofline"
        (tmp_path / "examples").symlink_to(ROOT / "examples")
        done = roofline_here(tmp_path, *arguments)
    assert is_shown(plain_output(shown), plain_output(done.stdout)), done.stdout + done.stderr


@pytest.mark.parametrize("block", [block for block in SHELL if "#!" not in block.text], ids=str)
def test_the_commands_of_a_shell_block_run(tmp_path: Path, block: Block) -> None:
    """In a project whose tests pass on the fake device, with the file of budgets and the results of an earlier run."""
    runs = [line for line in commands_of(block) if line.split()[0] in ("pytest", "roofline")]
    others = {line.split()[0] for line in commands_of(block)} - {"pytest", "roofline"}
    assert others <= {"pip", "tox"}
    if any("html" in line for line in runs):
        pytest.importorskip("plotly")
    if runs:
        project(tmp_path, DECODE, efficiency=0.9)
        (tmp_path / "budgets.yaml").write_text("schema: 1\n", encoding="utf-8")
        assert passed(pytest_here(tmp_path, *PLUGIN, "--roofline-json=results.json")) == 1
    for line in runs:
        program, *arguments = shlex.split(line)
        if program == "pytest":
            assert passed(pytest_here(tmp_path, *PLUGIN, *arguments)) == 1
        else:
            done = roofline_here(tmp_path, *arguments)
            assert done.returncode == 0, done.stdout + done.stderr
        for file in re.findall(r"(?:html[= ]|export[= ]|,)(?:[\w-]+=)?([\w.-]+\.(?:html|txt|json))", line):
            assert (tmp_path / file).stat().st_size > 0, (line, file)


# -- what is named is there -----------------------------------------------------------------------------------------


@cache
def help_of(command: str) -> str:
    """What a command of ours prints for --help; fails where there is none."""
    done = roofline_here(ROOT, command, "--help")
    assert done.returncode == 0, f"the pages mention `roofline {command}`: {done.stderr}"
    return done.stdout


def test_the_commands_in_running_text_exist() -> None:
    """`roofline COMMAND --option`: the command answers, and its help names every option that is shown."""
    lines = [code for _, code in INLINE if re.match(r"roofline [a-z]", code)]
    assert len(lines) > 10
    for line in lines:
        command, *words = line.split()[1:]
        for word in words:
            if word.startswith("--"):
                assert re.search(rf"{word.partition('=')[0]}\b", help_of(command)), line


def test_options_in_tables_of_commands_exist() -> None:
    """Every `--option` in code that is no option of pytest or of another plugin is one of some command of ours."""
    ours = "".join(map(help_of, ("predict", "curve", "check", "probe", "doctor", "specs", "report", "compare")))
    others = {
        *("--help", "--markers", "--fixtures", "--color", "--lf", "--ignore", "--junit-xml", "--dist", "--exclusive"),
        *("--rerun-except", "--adapter", "--wait"),
    }
    for page, code in INLINE:
        for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", code):
            is_known = flag.startswith("--roofline") or flag in others or re.search(rf"{flag}\b", ours)
            assert is_known, f"{page.name}: {code}"


def test_the_options_of_pytest_exist() -> None:
    """Each `--roofline...` is one of ours, and what is given to it is a value that it takes."""
    known = {option.flag: option for option in OPTIONS}
    seen = 0
    for page in PAGES:
        for flag, values in re.findall(r"(--roofline[\w-]*)(?:=([\w.|\\-]+))?", text_of(page)):
            seen += 1
            if flag == SELFTEST:
                continue
            assert flag in known, f"{page.name}: {flag}"
            choices = {"mode": MODES, "inconclusive": POLICIES}.get(known[flag].name)
            for value in re.split(r"\\?\|", values) if values else ():
                assert choices is None or value in choices, f"{page.name}: {flag}={value}"
    assert seen > 20


def test_the_checks_exist() -> None:
    """Every name in `allow=(...)` and in the tables of checks, wherever it stands."""
    for page in PAGES:
        for names in re.findall(r"allow=\(([^)]*)\)|--roofline-allow=([a-z,-]+)", text_of(page)):
            for name in re.findall(r"[a-z]+(?:-[a-z]+)*", names[0] or names[1]):
                assert parse_allow([name], page.name) == {name}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file, and every anchor a heading in it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in headings_of(file), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_exist(page: Path) -> None:
    """Each path of the repository in code."""
    made = {"conftest.py", "config.json", "config.toml", "llama.py"}
    mentioned = {
        path
        for code in inline_of(page)
        for path in re.findall(
            r"(?<![\w./<-])(?:examples|benchmarks|docs|specs|tests|pytest_roofline)/[\w./-]*\w", code
        )
        if "*" not in code
    }
    missing = [path for path in mentioned - made if not (ROOT / path).exists()]
    assert missing == []


def test_the_modules_can_be_imported() -> None:
    """Each `pytest_roofline.x.y` that is mentioned."""
    names = {name for page in PAGES for name in re.findall(r"\bpytest_roofline(?:\.[a-z_]+)+", text_of(page))}
    assert names
    for name in names:
        importlib.import_module(name)


def test_a_page_says_nothing_twice() -> None:
    """No paragraph stands on two pages, or twice on one."""
    seen: dict[str, str] = {}
    for page in PAGES:
        for paragraph in re.split(r"\n\s*\n", prose_of(page)):
            words = " ".join(paragraph.split())
            if len(words) > 100:
                assert words not in seen, f"{page.name} and {seen[words]}: {words[:80]}"
                seen[words] = page.name
