"""docs/reference.md is complete: whatever the package lets its users name stands in it."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from documentation import PLUGIN, ROOT, pytest_here, roofline_here, section_of, text_of

import pytest_roofline
from pytest_roofline import hookspecs
from pytest_roofline.audit import Audit
from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.checks.evidence import CHECK_NAMES
from pytest_roofline.cli import COMMANDS
from pytest_roofline.device import Device
from pytest_roofline.exports.registry import NAMES
from pytest_roofline.instrument import Instrument
from pytest_roofline.options import FIXTURES, MARKER_KEYWORDS, MODES, OPTIONS, POLICIES, SELFTEST
from pytest_roofline.probe import Probe
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.stopping import CRITERIA

PAGE = ROOT / "docs" / "reference.md"
TEXT = text_of(PAGE)
SHARED_FLAGS = "What is asked of `predict`, `curve` and `check` alike:"
EXAMPLES = {
    "predict": ("llama-3.1-8b", "--device", "h100-sxm", "--words-per-token", "1", "--chars-per-token", "4"),
    "curve": ("llama-3.1-8b", "--device", "h100-sxm"),
    "check": ("llama-3.1-8b", "--device", "h100-sxm", "--tokens-per-s", "93"),
    "doctor": ("--quick",),
}


def words_in(text: str) -> set[str]:
    """Every name in code: whole, by its words, and without what it is called with."""
    code = re.findall(r"`([^`]+)`", text)
    return {word for one in code for word in (one, *re.findall(r"[\w.-]+", one))}


def missing(names: Iterable[str], text: str) -> list[str]:
    """Names that do not stand in code in the text."""
    known = words_in(text)
    return [name for name in names if name not in known]


def public_of(kind: Any) -> list[str]:
    """Public methods and properties of a class, and its fields."""
    fields = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    return [*fields, *(name for name in vars(kind) if not name.startswith("_") and name not in fields)]


def methods_of(kind: type) -> dict[str, inspect.Signature]:
    """Public methods with their signatures, those of the classes below it too."""
    return {
        name: inspect.signature(found)
        for name, found in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def row_of(name: str, text: str) -> str:
    """The row of a table that begins with this name."""
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}`")]
    return row


# -- the side of pytest -----------------------------------------------------------------------------------------------


def test_every_option_with_its_twins() -> None:
    """Flag, ini and environment, in one row; and the values of those that have a few."""
    table = section_of(PAGE, "Options")
    for option in OPTIONS:
        (row,) = [line for line in table.splitlines() if re.match(rf"\| `{option.flag}(=[^`]*)?` ", line)]
        assert f"| `{option.ini}` | `{option.environment}` |" in row
    assert SELFTEST in table
    assert missing([*MODES, *POLICIES], table.replace("\\|", " ")) == []
    assert [name for name in CRITERIA if f"`{name}" not in table] == []


def test_every_fixture_and_every_method_with_its_arguments() -> None:
    """What a test can call, and what it can say."""
    assert missing(FIXTURES, section_of(PAGE, "Fixtures")) == []
    tool = section_of(PAGE, "The tool: `roofline`")
    for name, signature in methods_of(Instrument).items():
        row = row_of(f"roofline.{name}", tool)
        kept = [
            parameter.name
            for parameter in signature.parameters.values()
            if parameter.name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        assert missing(kept, row) == [], name
        told = re.split(r", ", row.split("|")[2].split("`")[1])
        assert set(told) == set(kept), name
    assert missing(["roofline.results", "roofline.audits"], tool) == []


def test_every_method_of_an_audit() -> None:
    """And the arguments of its claim."""
    tool = section_of(PAGE, "The tool: `roofline`")
    for name in public_of(Audit):
        row_of(f"audit.{name}", tool)
    claimed = [name for name in inspect.signature(Audit.claim).parameters if name != "self"]
    assert missing(claimed, row_of("audit.claim", tool)) == []


@pytest.mark.parametrize(("kind", "title"), [(Result, "Result"), (Probe, "Probe"), (Device, "Device")])
def test_every_public_field(kind: type, title: str) -> None:
    """Fields, properties and methods; of a device those that its record has, too."""
    internal = {
        Probe: {"device", "meter", "rates", "measure_peaks_again"},
        Device: {
            "key",
            "is_cpu",
            "to_dict",
            "contradicted_spec",
            "bus_width_bits",
            "memory_clock_hz",
            "is_overclocked",
        },
    }.get(kind, set())
    assert missing([name for name in public_of(kind) if name not in internal], section_of(PAGE, title)) == []


def test_the_marker_and_its_keywords() -> None:
    """All that it takes."""
    section = section_of(PAGE, "Marker")
    for name in MARKER_KEYWORDS:
        row_of(name, section)


def test_every_check_stands_in_one_row() -> None:
    """With what it means, and what to do."""
    section = section_of(PAGE, "Checks")
    for name in CHECK_NAMES:
        row = row_of(name, section)
        assert all(len(cell.strip()) > 8 for cell in row.strip("| ").split("|")[1:]), row
    assert len(re.findall(r"^\| `", section, flags=re.MULTILINE)) == len(CHECK_NAMES)


def test_every_hook_with_its_arguments() -> None:
    """As it is declared."""
    section = section_of(PAGE, "Hooks")
    for name, found in inspect.getmembers(hookspecs, inspect.isfunction):
        if name.startswith("pytest_roofline_"):
            assert f"| `{name}({', '.join(inspect.signature(found).parameters)})` |" in section


def test_every_exception() -> None:
    """Those that the package exports."""
    section = section_of(PAGE, "Exceptions")
    exported = [name for name in pytest_roofline.__all__ if isinstance(getattr(pytest_roofline, name), type)]
    errors = [name for name in exported if issubclass(getattr(pytest_roofline, name), Exception)]
    assert errors
    assert missing(errors, section) == []


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_of_a_command(command: str) -> None:
    """Those that several share stand above them."""
    section = section_of(PAGE, f"`roofline {command}`") + TEXT.partition(SHARED_FLAGS)[2].partition("###")[0]
    told = roofline_here(ROOT, command, "--help").stdout
    flags = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", told.partition("options:")[2].partition("Exit status")[0]))
    assert "--help" in flags
    texts = {flag for flag in flags if re.search(rf"^  (?:-\w, )?{flag}\b", told, flags=re.MULTILINE)}
    assert missing(sorted(texts - {"--help", "--json"}), section) == []
    assert "--json" in TEXT


@pytest.mark.parametrize("command", EXAMPLES)
def test_every_key_of_the_json_of_a_command(command: str) -> None:
    """Of the object; of a curve's points and a check's results, too."""
    section = section_of(PAGE, f"`roofline {command}`")
    found = json.loads(roofline_here(ROOT, command, *EXAMPLES[command], "--json").stdout)
    rows = {"curve": "points", "check": "results"}
    keys = {**found, **found[rows[command]][0]} if command in rows else found
    assert missing(keys, section + " `schema`") == []


def test_every_key_of_a_probe_and_of_a_comparison(tmp_path: Path) -> None:
    """Of runs on the fake device."""
    session = Session(added_backends=[FakeBackend()])
    probe = session.probe(session.find_device(None))
    assert missing(probe.to_dict(), section_of(PAGE, "`roofline probe`")) == []
    (tmp_path / "conftest.py").write_text(
        "import pytest\nfrom pytest_roofline.backends.fake import FakeBackend, FakeModel\n"
        "BACKEND = FakeBackend()\ndef pytest_roofline_backends(config): return [BACKEND]\n"
        "@pytest.fixture\ndef model(): return FakeModel(BACKEND, weight_bytes=2e9)\n",
        encoding="utf-8",
    )
    (tmp_path / "test_it.py").write_text(
        "def test_it(roofline, model): roofline.decode(model.step, model=model)\n", encoding="utf-8"
    )
    assert pytest_here(tmp_path, *PLUGIN, "--roofline-json=a.json").returncode == 0
    compared = json.loads(roofline_here(tmp_path, "compare", "a.json", "a.json", "--json").stdout)
    assert missing({**compared, **compared["changes"][0]}, section_of(PAGE, "`roofline compare`")) == []
    reported = json.loads(roofline_here(tmp_path, "report", "a.json", "--export", "bencher", "--json").stdout)
    assert missing(reported, section_of(PAGE, "`roofline report`")) == []


def test_every_finding_of_the_doctor() -> None:
    """By the names in its source."""
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "pytest_roofline" / "fitness").glob("*.py"))
    names = set(re.findall(r'^        name="([a-z-]+)"', sources, flags=re.MULTILINE))
    assert len(names) > 10
    assert missing(sorted(names), section_of(PAGE, "`roofline doctor`")) == []


# -- files ------------------------------------------------------------------------------------------------------------


def test_every_key_of_the_results_file() -> None:
    """Of the document, its run, its tests, their results and samples, and its devices."""
    section = section_of(PAGE, "Results file")
    file = ROOT / "pytest_roofline" / "results" / "schema_1.json"
    schema: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    names = ("run", "commit", "test", "result", "sample", "measured_device")
    parts = [schema, *(schema["$defs"][name] for name in names)]
    for part in parts:
        assert missing(part["properties"], section) == []


def test_every_key_of_a_result() -> None:
    """As `to_dict` writes it."""
    backend = FakeBackend()
    model = FakeModel(backend, weight_bytes=2e9)
    result = Instrument(Session(added_backends=[backend])).decode(model.step, model=model)
    assert missing(result.to_dict(), section_of(PAGE, "Results file")) == []
    assert missing(result.verdict.to_dict(), section_of(PAGE, "Results file") + section_of(PAGE, "Result")) == []


def test_every_format_of_an_export() -> None:
    """With what reads it."""
    section = section_of(PAGE, "Exports")
    assert [name for name in NAMES if f"`{name}`" not in section and name != "github-action-benchmark-smaller"] == []
    assert "with `-smaller` behind it" in section


# -- what is printed for --help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "expected"), [("--help", "--roofline="), ("--markers", "@pytest.mark.roofline(")])
def test_pytest_prints_the_short_form(tmp_path: Path, option: str, expected: str) -> None:
    """`pytest --help` and `pytest --markers` say what the page promises that they say."""
    assert f"`pytest {option}`" in TEXT
    assert expected in pytest_here(tmp_path, *PLUGIN, option).stdout


def test_pytest_prints_the_fixtures(tmp_path: Path) -> None:
    """`pytest --fixtures` names the three, with a sentence each."""
    assert "`pytest --fixtures`" in TEXT
    shown = pytest_here(tmp_path, *PLUGIN, "--fixtures").stdout
    for name in FIXTURES:
        assert re.search(rf"^{name}\b.*\n    \S", shown, flags=re.MULTILINE), name


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_begins_with_what_it_does(command: str) -> None:
    """The line that the list of commands has for it, and a usage of few lines."""
    (line,) = re.findall(rf"^    {command} +(\S.*)$", roofline_here(ROOT, "--help").stdout, flags=re.MULTILINE)
    usage, said = roofline_here(ROOT, command, "--help").stdout.split("\n\n")[:2]
    assert usage.startswith(f"usage: roofline {command} ")
    assert usage.count("\n") < 3
    assert said == f"{line}."


def test_an_ini_twin_says_whose_it_is(tmp_path: Path) -> None:
    """In `pytest --help`, for each of them."""
    told = " ".join(pytest_here(tmp_path, *PLUGIN, "--help").stdout.split())
    for option in OPTIONS:
        assert f"{option.ini} (string): The same as {option.flag}, which goes before it" in told
