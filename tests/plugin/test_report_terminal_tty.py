"""Runs on a terminal: the line of progress comes and goes, and pytest's own output is what it would be without it."""

from __future__ import annotations

import re
import sys

import pytest
from inner_runs import FAKE

if sys.platform == "win32":
    pytest.skip("there is no pty here", allow_module_level=True)
pytest.importorskip("pyte")

from terminals import DRAWS_ALWAYS, DRAWS_NEVER, run_on_terminal

SOURCE = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_passes(roofline, model, number):
    print("captured")
    assert roofline.decode(model.step, model=model).fraction >= 0.6

@pytest.mark.roofline(at_least=0.9)
def test_fails(roofline, model):
    roofline.decode(model.step, model=model)

def test_of_its_own_timing(roofline, model):
    with roofline.audit(traffic=2e9) as audit:
        with audit.window():
            for _ in range(40):
                output = model.step()
            output.item()
        audit.claim(tokens=40, seconds=1.0, outputs=output)

def test_is_none_of_ours(capsys):
    print("captured")
    assert capsys.readouterr().out == "captured\\n"
"""


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        ((), (80, 200)),
        (("-v", "-rA", "--no-header"), (80, 12)),
        (("--capture=sys", "-x"), (60, 9)),
        (("--setup-show", "--color=no", "--no-summary"), (40, 20)),
    ],
)
def test_what_is_left_is_what_pytest_wrote(
    pytester: pytest.Pytester, arguments: tuple[str, ...], size: tuple[int, int]
) -> None:
    """The screen at the end is that of a run without progress, also where it has scrolled; and progress was shown."""
    watched = run_on_terminal(pytester, SOURCE, *arguments, size=size)
    plain = run_on_terminal(pytester, SOURCE, *arguments, size=size, conftest=FAKE + DRAWS_NEVER)
    assert b"warming up" in watched.raw
    assert b"sample 3" in watched.raw
    assert b"probing fake:0" in watched.raw
    assert b"warming up" not in plain.raw
    assert watched.rows == plain.rows
    assert watched.status == plain.status == 1


def test_every_stage_is_shown(pytester: pytest.Pytester) -> None:
    """Whose test, the first pass, the probe, warming up, samples with the fraction so far, and a test's own timing."""
    raw = run_on_terminal(pytester, SOURCE, "--color=no").raw.decode()
    for pattern in (
        r"roofline test_passes\[0\]: the first pass, untimed",
        r"roofline test_passes\[0\]: probing fake:0: read [\d.]+ [MG]B, [\d.]+ of 1 s",
        r"roofline test_passes\[0\]: warming up, [\d.]+ of 10 s",
        r"roofline test_passes\[2\]: sample 5, 80 % so far, [\d.]+ of 10 s",
        r"roofline test_of_its_own_timing: the test's own timing",
    ):
        assert re.search(pattern, raw), pattern
    assert "\x1b[36m" not in raw


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("-q",), {}),
        (("-s",), {}),
        (("--capture=tee-sys", "-x"), {}),
        (("-p", "no:terminal", "-x"), {}),
        (("--log-cli-level=INFO", "-x"), {}),
        (("--roofline=off",), {}),
        (("-x",), {"CI": "true"}),
    ],
)
def test_nothing_is_drawn_where_nobody_looks(
    pytester: pytest.Pytester, arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    """Quiet runs, logs of CI systems, and runs in which tests write to the terminal themselves."""
    shown = run_on_terminal(pytester, SOURCE, *arguments, **environment)
    assert b"warming up" not in shown.raw
    assert b"probing" not in shown.raw
    assert b"\x1b7" not in shown.raw


def test_workers_draw_nothing(pytester: pytest.Pytester) -> None:
    """Of several at once none has the terminal."""
    pytest.importorskip("xdist")
    shown = run_on_terminal(pytester, SOURCE, "-p", "xdist", "-n", "2")
    assert b"warming up" not in shown.raw
    assert any("test_passes[1]" in row and "passed" in row for row in shown.rows)


def test_an_interruption_leaves_clean_lines(pytester: pytest.Pytester) -> None:
    """Ctrl-C between two samples: pytest says so, and the line of progress is gone."""
    source = """
import os, signal

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs this may have begun by ignoring it

def test_long(roofline, model):
    count = iter(range(1000))

    def step():
        if next(count) == 40:
            os.kill(os.getpid(), signal.SIGINT)
        return model.step()

    roofline.decode(step, model=model)
"""
    shown = run_on_terminal(pytester, source, "-v")
    assert b"sample 1" in shown.raw
    assert shown.status == 2
    assert any("KeyboardInterrupt" in row for row in shown.rows)
    assert not any(row.startswith("roofline test_long") for row in shown.rows)
    (test,) = [row for row in shown.rows if "::test_long" in row]
    assert test.strip().endswith("::test_long")


def test_a_redirection_of_the_test_is_left_alone(pytester: pytest.Pytester) -> None:
    """Drawing goes around pytest's capturing: what a test redirects stays redirected."""
    source = """
import contextlib, io, sys

def test_it(roofline, model):
    with contextlib.redirect_stdout(io.StringIO()) as kept:
        roofline.decode(model.step, model=model)
        assert sys.stdout is kept
        print("after it")
    assert kept.getvalue() == "after it\\n"
"""
    shown = run_on_terminal(pytester, source)
    assert b"sample 2" in shown.raw
    assert shown.status == 0


def test_words_of_verdicts_follow_the_colours_of_pytest(pytester: pytest.Pytester) -> None:
    """Red, green or none: as --color, FORCE_COLOR and the terminal have it, for it is pytest that paints them."""
    for arguments, environment, is_coloured in (
        ((), {}, True),
        (("--color=no",), {"FORCE_COLOR": "1"}, False),
        ((), {"TERM": "dumb", "FORCE_COLOR": "1"}, True),
    ):
        raw = run_on_terminal(pytester, SOURCE, *arguments, **environment).raw.decode()
        assert ("\x1b[31mfailed\x1b[0m" in raw) is is_coloured, (arguments, environment)
        assert ("\x1b[32mpassed\x1b[0m" in raw) is is_coloured, (arguments, environment)


@pytest.mark.parametrize("columns", [40, 130])
def test_the_table_fits_the_terminal(pytester: pytest.Pytester, columns: int) -> None:
    """No row of it is wrapped, whatever the width, and every test can be told from the others."""
    source = """
import pytest

@pytest.mark.parametrize("cache", ["bfloat16-static-2048", "bfloat16-static-4096", "bfloat16-dynamic-4096"])
def test_decodes_as_fast_as_the_card_allows(roofline, model, cache):
    roofline.decode(model.step, model=model)
"""
    rows = run_on_terminal(pytester, source, "--color=no", size=(columns, 100), conftest=FAKE + DRAWS_ALWAYS).rows
    start = next(number for number, row in enumerate(rows) if row.startswith("test ") and "fraction" in row)
    table = rows[start + 1 : start + 4]
    assert len({row.split("  ")[0] for row in table}) == 3
    assert all("80 %" in row and row.endswith("passed") for row in table)
