"""Marker, command line, environment, ini, default: one order for every setting, and errors that name the place."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest
from inner_runs import FAKE, PLUGIN, Run

from pytest_roofline.given import READERS, Marker, read_budget, read_paths, read_seconds
from pytest_roofline.options import MARKER_KEYWORDS, OPTIONS

SHOW = """
import pytest

def test_it(roofline):
    settings = roofline._settings
    print("seen", settings.mode, settings.device, settings.max_time_s, settings.inconclusive, settings.at_least)

{marker}
def test_marked(roofline):
    print("marked", roofline._settings.device, roofline._settings.at_least, roofline._settings.is_budget_explicit)
    if roofline._settings.at_least:
        pytest.skip("seen")
"""
PLAIN = SHOW.format(marker="")
MARKED = SHOW.format(marker="@pytest.mark.roofline(device='fake:0', at_least={'fake*': 0.4})")


def test_defaults(run: Run) -> None:
    """Nothing given: auto, any device, 10 s, skip, no budget."""
    run(PLAIN, "-s").stdout.fnmatch_lines(["*seen auto None 10.0 skip None*"])


def test_each_source_goes_before_the_next(run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ini over default, environment over ini, command line over environment, marker over all."""
    pytester.makeini("[pytest]\nroofline_device = fake:1\nroofline_max_time = 3\nroofline_inconclusive = fail\n")
    conftest = FAKE.replace("FakeBackend()", "FakeBackend(devices=4)")
    run(PLAIN, "-s", conftest=conftest).stdout.fnmatch_lines(["*seen auto fake:1 3.0 fail*"])
    monkeypatch.setenv("PYTEST_ROOFLINE_DEVICE", "fake:2")
    monkeypatch.setenv("PYTEST_ROOFLINE_MAX_TIME", "")  # an empty variable is an unset one
    run(PLAIN, "-s", conftest=conftest).stdout.fnmatch_lines(["*seen auto fake:2 3.0 fail*"])
    result = run(
        MARKED,
        "-s",
        "--roofline-device=fake:3",
        "--roofline-max-time=2",
        "--roofline-inconclusive=pass",
        "--roofline-at-least=0.5",
        conftest=conftest,
    )
    result.stdout.fnmatch_lines(
        [
            "*seen auto fake:3 2.0 pass Budget(by_pattern=(('[*]', 0.5),))*",
            "*marked fake:0 Budget(by_pattern=(('fake[*]', 0.4),)) True*",
        ]
    )


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_has_three_spellings_with_one_prefix(option: Any) -> None:
    """Flag, ini key (which is the dest) and environment variable are one name, and the help reads well."""
    suffix = "" if option.name == "mode" else f"_{option.name}"
    assert option.ini == f"roofline{suffix}"
    assert option.environment == f"PYTEST_ROOFLINE{suffix.upper()}"
    assert option.flag == "--" + option.ini.replace("_", "-")
    assert option.help[0].isupper()
    assert option.help.endswith(".") == (". " in option.help)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--roofline=on", "--roofline: 'on' is not one of auto, off, require"),
        ("--roofline-inconclusive=ignore", "--roofline-inconclusive: 'ignore' is not one of skip, fail, pass"),
        ("--roofline-max-time=soon", "--roofline-max-time: 'soon' is no positive number of seconds"),
        ("--roofline-max-time=-1", "--roofline-max-time: '-1' is no positive number of seconds"),
        ("--roofline-at-least=60", "--roofline-at-least: 60.0 is no fraction of the ceiling*"),
        ("--roofline-at-least=H200*=much", "--roofline-at-least: 'H200[*]=much' is no fraction of the ceiling*"),
        ("--roofline-specs=missing", "--roofline-specs: 'missing' is no file and no folder"),
    ],
)
def test_a_wrong_option_is_a_usage_error(run: Run, argument: str, message: str) -> None:
    """Before anything runs, with the place in the message."""
    result = run("def test_it(): pass\n", argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_a_wrong_variable_or_ini_key_is_named(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says where the value stands."""
    monkeypatch.setenv("PYTEST_ROOFLINE_MAX_TIME", "0")
    run("def test_it(): pass\n").stderr.fnmatch_lines(
        ["ERROR: environment PYTEST_ROOFLINE_MAX_TIME: '0' is no positive number of seconds"]
    )
    monkeypatch.delenv("PYTEST_ROOFLINE_MAX_TIME")
    pytester.makeini("[pytest]\nroofline = always\n")
    run("def test_it(): pass\n").stderr.fnmatch_lines(
        ["ERROR: ini roofline: 'always' is not one of auto, off, require"]
    )


def test_a_wrong_spec_file_is_named_though_nothing_is_looked_up(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it was given, its file and its key; the ini file names it from its own folder."""
    folder = pytester.mkdir("cards")
    file = folder / "mine.yaml"
    file.write_text("schema: 1\nsources: {sheet: A sheet}\ndevices:\n  - id: mine\n    colour: red\n", encoding="utf-8")
    said = "mine.yaml: devices.mine.colour: unknown key; known ones: *"
    for argument in ("cards", "cards/mine.yaml"):
        result = run("def test_it(roofline): pass\n", f"--roofline-specs={argument}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: --roofline-specs: *{said}"])
    monkeypatch.setenv("PYTEST_ROOFLINE_SPECS", "cards")
    run("def test_it(roofline): pass\n").stderr.fnmatch_lines([f"ERROR: environment PYTEST_ROOFLINE_SPECS: *{said}"])
    monkeypatch.delenv("PYTEST_ROOFLINE_SPECS")
    pytester.makeini("[pytest]\nroofline_specs = cards\n")
    here = str(pytester.path)
    monkeypatch.chdir(pytester.mkdir("elsewhere"))
    run("def test_it(roofline): pass\n", here).stderr.fnmatch_lines([f"ERROR: ini roofline_specs: *{said}"])
    run("def test_it(): pass\n", here).assert_outcomes(passed=1)  # nobody measures, and nothing is read
    file.write_text(file.read_text(encoding="utf-8").replace("colour: red", "name: Mine"), encoding="utf-8")
    run("def test_it(roofline): pass\n", here).stderr.fnmatch_lines(["*devices.mine.vendor: missing"])


def test_readers_take_what_the_help_promises(tmp_path: Path) -> None:
    """Text of a budget by device, numbers as text, several files and folders of specs."""
    budget = read_budget("H200*=0.7, cpu=0.3", "here")
    assert budget is not None
    assert budget.by_pattern == (("H200*", 0.7), ("cpu", 0.3))
    assert read_seconds("2.5", "here") == 2.5
    file = tmp_path / "cards.yaml"
    file.touch()
    assert read_paths(f"{tmp_path}", "here") == (str(tmp_path),)
    assert read_paths(f"{tmp_path}{os.pathsep}{file}", "here") == (str(tmp_path), str(file))


def test_markers_merge_from_the_closest_outwards(run: Run) -> None:
    """A class may give the device, its tests their budgets; the closest mark of a field wins."""
    result = run(
        """
        import pytest

        @pytest.mark.roofline(device="fake:1", at_least=0.3)
        class TestAll:
            @pytest.mark.roofline(at_least=0.4)
            def test_it(self, roofline):
                print("seen", roofline._settings.device, roofline._settings.at_least)
                pytest.skip("seen")
        """,
        "-s",
        conftest=FAKE.replace("FakeBackend()", "FakeBackend(devices=2)"),
    )
    result.stdout.fnmatch_lines(["*seen fake:1 Budget(by_pattern=(('[*]', 0.4),))*"])


def test_the_marker_is_registered_with_its_fields(run: Run) -> None:
    """The help line is made from the fields, and --strict-markers knows the marker."""
    result = run("def test_it(): pass\n", "--markers", "--strict-markers")
    result.stdout.fnmatch_lines(["@pytest.mark.roofline(at_least=None, at_most=None, device=None, allow=()): judge *"])
    assert tuple(MARKER_KEYWORDS) == ("at_least", "at_most", "device", "allow")
    assert tuple(MARKER_KEYWORDS) == tuple(field.name for field in dataclasses.fields(Marker))


def test_every_option_has_its_reader() -> None:
    """The table names readers, so that it can be loaded without them."""
    assert {option.reader for option in OPTIONS} == set(READERS)


def test_every_advertised_keyword_is_accepted(run: Run) -> None:
    """What the help line names works."""
    result = run(
        """
        import pytest

        @pytest.mark.roofline(at_least=0.6, at_most=0.9, device="fake:0", allow=("drifted",))
        def test_it(roofline, model):
            roofline.decode(model.step, model=model)
        """
    )
    result.assert_outcomes(passed=1)


def test_help_and_fixtures_read_well(run: Run) -> None:
    """The options have a group of their own, the fixtures a sentence each."""
    run("", "--help").stdout.fnmatch_lines(
        ["roofline:", "*--roofline={auto,off,require}*", "*--roofline-device=DEVICE*"]
    )
    run("", "--fixtures").stdout.fnmatch_lines(
        [
            "roofline_device [[]session scope[]] -- *",
            "    The device that measurements run on: *",
            "roofline_probe [[]session scope[]] -- *",
            "roofline -- *",
            "    Measure inference code against the roofline of its device: *",
        ]
    )


def test_plugin_arguments_are_those_of_the_inner_runs() -> None:
    """The helper names the plugin by its module, so that an installed copy is not loaded twice."""
    assert "pytest_roofline.plugin" in PLUGIN
