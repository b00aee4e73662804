"""What a finished run writes into its budgets: measured, less a margin; never lower unasked, never from doubt."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_roofline.budgets.document import budgets_in, read_budgets
from pytest_roofline.budgets.storage import BudgetsText, check_writable
from pytest_roofline.budgets.updates import planned, update
from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError

TEST = "tests/test_a.py::test_it"
H100 = Device(name="NVIDIA H100 80GB HBM3", kind="cuda", backend="torch", vendor="NVIDIA")
A100 = Device(name="NVIDIA A100-SXM4-80GB", kind="cuda", index=1, backend="torch", vendor="NVIDIA")
CPU = Device(name="AMD EPYC 9B45", kind="cpu", backend="cpu", vendor="AuthenticAMD")
OWN = 'schema: 1\ntests:\n  "tests/test_a.py::test_it":\n    h100 80gb hbm3: 0.60  # slow\n'


def result(low: float = 0.7, high: float = 0.72, device: Device = H100, **more: Any) -> dict[str, Any]:
    """The record of one result, as far as budgets look at it."""
    return {
        "device": device.to_dict(),
        "fraction": (low + high) / 2,
        "fraction_low": low,
        "fraction_high": high,
        "standing": "passed",
        "at_least": None,
        "at_least_from": None,
        "at_most": None,
        "at_most_from": None,
        **more,
    }


def a_test(*results: dict[str, Any], node_id: str = TEST, **more: Any) -> dict[str, Any]:
    """The record of one test that passed."""
    found = list(results or [result()])
    passed = {"outcome": "passed", "verdict": "passed", "budget_error": None, "attempts": []}
    return {"node_id": node_id, "results": found, **passed, **more}


MISSED = {"outcome": "failed", "verdict": "failed", "budget_error": "BelowCeiling"}
ABOVE = {"outcome": "failed", "verdict": "failed", "budget_error": "AboveBand"}


def changed(text: str | None, *tests: dict[str, Any], **how: bool) -> dict[tuple[str, str], dict[str, float]]:
    """What the tests change in a file of this text: by test and device key."""
    plan = planned({"tests": list(tests)}, budgets_in(text, "b.yaml") if text is not None else None, **how)
    return {(one.edit.test_id, one.edit.device): dict(one.edit.figures) for one in plan.changes}


def silent(*tests: dict[str, Any], text: str = "schema: 1\n", **how: bool) -> list[str]:
    """Why the tests write nothing."""
    plan = planned({"tests": list(tests)}, budgets_in(text, "b.yaml"), **how)
    assert plan.changes == ()
    return list(plan.silent)


@pytest.mark.parametrize(
    ("text", "device", "low", "wanted"),
    [
        (None, H100, 0.70, {"at_least": 0.66}),  # 0.665, down
        (None, H100, 0.40, {"at_least": 0.38}),  # a new file: nothing asked for more before
        (None, H100, 1.20, {"at_least": 1.0}),
        (None, H100, 0.0234, {"at_least": 0.022}),
        ("schema: 1\n", H100, 0.70, {"at_least": 0.66}),
        ("schema: 1\n", H100, 0.58, None),  # 0.551: not 2 % above the default
        ("schema: 1\n", H100, 0.40, None),  # never lower than what judges it
        ("schema: 1\n", CPU, 0.40, {"at_least": 0.38}),  # a default does not judge a CPU
        ("schema: 1\ndefault: none\n", H100, 0.40, {"at_least": 0.38}),
        ("schema: 1\ndefault: {cpu: 0.5}\n", CPU, 0.40, None),
        (OWN, H100, 0.70, {"at_least": 0.66}),
        (OWN, H100, 0.64, None),  # 0.608: a lucky run does not creep
        (OWN, H100, 0.50, None),
        ('schema: 1\ntests: {"tests/*": {H100*: 0.6}}', H100, 0.70, {"at_least": 0.66}),
        ('schema: 1\ntests: {"tests/*": none}', H100, 0.70, None),  # a person's word
        ('schema: 1\ntests: {"tests/test_a.py::test_it": {H100*: none}}', H100, 0.70, None),
    ],
)
def test_a_figure_is_ratcheted(text: str | None, device: Device, low: float, wanted: dict[str, float] | None) -> None:
    """The lower end of the interval, less 5 %, where that is 2 % above what judges the test now."""
    found = changed(text, a_test(result(low, low + 0.01, device)))
    assert list(found.values()) == ([wanted] if wanted else [])


def test_a_figure_is_of_one_test_on_one_device() -> None:
    """Patterns stay as they are; the key is the test's own name of the device where it has one."""
    assert set(changed(OWN, a_test())) == {(TEST, "h100 80gb hbm3")}
    assert set(changed('schema: 1\ntests: {"tests/*": {H100*: 0.6}}', a_test())) == {(TEST, H100.name)}
    assert set(changed(f'schema: 1\ntests: {{"{TEST}": {{H100*: 0.6}}}}', a_test())) == {(TEST, H100.name)}
    several = a_test(result(0.7), result(0.9, 0.95, A100), result(0.8))
    assert changed(None, several, a_test(result(0.5), node_id="b.py::b")) == {
        (TEST, H100.name): {"at_least": 0.66},  # of two results on one device the lower one
        (TEST, A100.name): {"at_least": 0.85},
        ("b.py::b", H100.name): {"at_least": 0.47},
    }


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        (a_test(verdict="bogus", outcome="failed"), "bogus"),
        (a_test(verdict="bogus (caught)"), "bogus (caught)"),
        (a_test(verdict="inconclusive", outcome="skipped"), "inconclusive"),
        (a_test(verdict="inconclusive"), "inconclusive"),  # --roofline-inconclusive=pass
        (a_test(verdict="not measured"), "not measured"),
        (a_test(verdict=None, outcome="failed"), "not measured"),  # a crash
        ({**a_test(), "results": []}, "not measured"),
        (a_test(outcome="failed"), "failed"),
        (a_test(verdict="failed", outcome="failed"), "failed"),  # an assertion of its own
        (a_test(**{**MISSED, "outcome": "skipped"}), "skipped"),  # an expected failure
        (a_test(attempts=[{"verdict": "failed", "message": ""}]), "run again"),
        (a_test(outcome="rerun"), "run again"),
        (a_test(result(), result(standing="inconclusive")), "bogus, inconclusive or unmeasured in part"),
        (a_test(result(), result(standing="bogus (caught)")), "bogus, inconclusive or unmeasured in part"),
        (a_test(result(fraction_low=None, fraction_high=None)), "no fraction to budget"),
        (a_test(result(at_least=0.5, at_least_from="roofline marker, at_least")), "the test has a budget of its own"),
        (a_test(result(at_least=0.5)), "the test has a budget of its own"),  # an argument of the call
        (a_test(result(standing="failed", at_least=0.8, at_least_from="b.yaml:2"), **MISSED), "below its budget"),
        (a_test(node_id="t.py::t[a*]"), "an id with * or ? is a pattern in the file"),
        (a_test(node_id="t.py::t[" + "x" * 1000 + "]"), "a name of 1,009 characters"),
        (
            a_test(result(device=Device(name="Card *", kind="cuda", backend="torch"))),
            "the device's name 'Card *' would",
        ),
    ],
)
def test_what_is_not_sure_writes_nothing(test: dict[str, Any], reason: str) -> None:
    """Not even in a new file, and what goes for a part of a test goes for all of it; the reason is said."""
    (found,) = silent(test)
    assert found.startswith(reason)
    assert not planned({"tests": [test]}, None).changes
    if "below" not in reason:
        assert silent(test, loosen=True) == [found]


def test_an_attempt_before_the_last_silences_the_test() -> None:
    """A test that is luckier the second time is no ground for a figure."""
    assert silent(a_test(outcome="rerun", verdict="failed"), a_test()) == ["run again"]


def test_nothing_above_zero_writes_nothing() -> None:
    """An interval that reaches down to nothing."""
    assert changed(None, a_test(result(0.0, 0.7))) == {}


def test_a_missed_figure_is_lowered_only_with_consent() -> None:
    """Where the test missed it, and nothing else went wrong."""
    missed = a_test(result(0.5, 0.52, standing="failed", at_least=0.6, at_least_from="b.yaml:4"), **MISSED)
    assert changed(OWN, missed) == {}
    assert changed(OWN, missed, loosen=True) == {(TEST, "h100 80gb hbm3"): {"at_least": 0.47}}
    assert changed("schema: 1\n", missed, loosen=True) == {(TEST, H100.name): {"at_least": 0.47}}
    assert changed(OWN, a_test(result(0.61, 0.62)), loosen=True) == {}  # it passes, so the figure may stay


BAND = f'schema: 1\ntests: {{"{TEST}": {{H100*: {{at_least: 0.5, at_most: 0.65}}}}}}'


def test_an_improvement_above_the_band_raises_both() -> None:
    """To the ends of the interval and 5 %, up to 1.5; a test inside its band leaves at_most alone."""
    above = result(0.7, 0.72, standing="failed", at_most=0.65, at_most_from="b.yaml:2")
    assert changed(BAND, a_test(above, **ABOVE)) == {(TEST, H100.name): {"at_least": 0.66, "at_most": 0.76}}
    higher = {**above, "fraction_low": 1.4, "fraction_high": 1.49}
    assert changed(BAND, a_test(higher, **ABOVE)) == {(TEST, H100.name): {"at_least": 1.0, "at_most": 1.5}}
    assert changed(BAND, a_test(result(0.6, 0.62))) == {(TEST, H100.name): {"at_least": 0.57}}
    own = {**above, "at_most_from": "roofline marker, at_most"}
    assert silent(a_test(own, **ABOVE)) == ["the test has a budget of its own"]


def test_two_patterns_that_tie_are_said() -> None:
    """The other tests are written all the same."""
    text = 'schema: 1\ntests: {"*_a.py::*": 0.5, "*test_it*": 0.6}'
    plan = planned({"tests": [a_test(), a_test(node_id="b.py::b")]}, budgets_in(text, "b.yaml"))
    assert [change.edit.test_id for change in plan.changes] == ["b.py::b"]
    assert "ties with" in next(iter(plan.silent))


def test_groups_of_xdist_are_left_out_of_ids() -> None:
    """They are no part of what a run without workers calls the test."""
    assert set(changed(None, a_test(node_id=f"{TEST}@gpu"), is_grouped=True)) == {(TEST, H100.name)}
    assert set(changed(None, a_test(node_id=f"{TEST}[a@b]"), is_grouped=True)) == {(f"{TEST}[a@b]", H100.name)}


# -- the file -------------------------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., list[str]]:
    """Update ``budgets.yaml`` with these tests."""

    def update_file(*tests: dict[str, Any], **how: bool) -> list[str]:
        return update(str(tmp_path / "budgets.yaml"), "budgets.yaml", {"tests": list(tests)}, **how)

    return update_file


def test_a_new_file(tmp_path: Path, write: Callable[..., list[str]]) -> None:
    """With its schema, the default, a comment that says who writes it; and it is read as any other."""
    assert write(a_test(), a_test(result(0.5, 0.5, CPU), node_id='b.py::b["x"]')) == [
        "budgets.yaml: 2 new",
        "  tests/test_a.py::test_it on NVIDIA H100 80GB HBM3: at_least 0.66 (measured 70 % to 72 %)",
        '  b.py::b["x"] on AMD EPYC 9B45: at_least 0.47 (measured 50 % to 50 %)',
    ]
    text = (tmp_path / "budgets.yaml").read_text(encoding="utf-8")
    assert text.startswith("# Fractions of the ceiling")
    assert text.endswith(
        "schema: 1\ndefault: 0.55\ntests:\n"
        '  "b.py::b[\\"x\\"]":\n    "AMD EPYC 9B45": 0.47\n'
        '  "tests/test_a.py::test_it":\n    "NVIDIA H100 80GB HBM3": 0.66\n'
    )
    assert read_budgets(str(tmp_path / "budgets.yaml")).budget_for(TEST, "at_least").for_device(H100) == 0.66  # type: ignore[union-attr]


def test_the_same_run_twice_changes_nothing(tmp_path: Path, write: Callable[..., list[str]]) -> None:
    """Neither figures nor the file itself."""
    tests = [a_test(), a_test(result(0.5, 0.5, CPU), node_id="b.py::b")]
    write(*tests)
    before = (tmp_path / "budgets.yaml").stat()
    assert write(*tests) == ["budgets.yaml: nothing to change"]
    after = (tmp_path / "budgets.yaml").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert sorted(os.listdir(tmp_path)) == ["budgets.yaml"]


def test_what_was_changed_is_said(tmp_path: Path, write: Callable[..., list[str]]) -> None:
    """From what to what, measured how, and why others wrote nothing."""
    (tmp_path / "budgets.yaml").write_text(OWN, encoding="utf-8")
    lines = write(
        a_test(),
        a_test(node_id="b.py::b", verdict="bogus", outcome="failed"),
        a_test(node_id="b.py::c", verdict="bogus", outcome="failed"),
    )
    assert lines == [
        "budgets.yaml: 1 raised",
        "  tests/test_a.py::test_it on NVIDIA H100 80GB HBM3: at_least 0.6 -> 0.66 (measured 70 % to 72 %)",
        "  not written, bogus: b.py::b and 1 more",
    ]
    assert (tmp_path / "budgets.yaml").read_text(encoding="utf-8") == OWN.replace("0.60", "0.66")
    missed = a_test(result(0.5, 0.52, standing="failed", at_least=0.66, at_least_from="b.yaml:4"), **MISSED)
    assert write(missed) == [
        "budgets.yaml: nothing to change",
        "  not written, below its budget (--roofline-update-budgets=loosen lowers it): tests/test_a.py::test_it",
    ]
    assert write(missed, loosen=True)[0] == "budgets.yaml: 1 lowered"
    many = write(*(a_test(node_id=f"m.py::t[{number}]") for number in range(30)))
    assert (many[0], len(many), many[-1]) == ("budgets.yaml: 30 raised", 22, "  and 10 more")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_mode_links_line_ends_and_mark_are_kept(tmp_path: Path, write: Callable[..., list[str]], mark: bytes) -> None:
    """A link stays one, what it leads to is replaced, in its own folder, with the mode that it had."""
    (tmp_path / "there").mkdir()
    real = tmp_path / "there" / "real.yaml"
    real.write_bytes(mark + OWN.replace("\n", "\r\n").encode())
    real.chmod(0o640)
    try:
        (tmp_path / "budgets.yaml").symlink_to(real)
    except OSError:
        pytest.skip("no links here")
    write(a_test())
    assert (tmp_path / "budgets.yaml").is_symlink()
    assert real.read_bytes() == mark + OWN.replace("0.60", "0.66").replace("\n", "\r\n").encode()
    assert stat.S_IMODE(real.stat().st_mode) == (0o640 if sys.platform != "win32" else 0o666)
    assert os.listdir(tmp_path / "there") == ["real.yaml"]


def test_a_file_that_is_wrong_stays_as_it_is(tmp_path: Path, write: Callable[..., list[str]]) -> None:
    """Another encoding, an unknown key, too much of it, a folder in its place."""
    file = tmp_path / "budgets.yaml"
    for content in (b"schema: 1 # \xff", b"schema: 1\nolder: 0.5\n", b"", b"#" * 1_048_570 + b"\nschema: 1\n"):
        file.write_bytes(content)
        with pytest.raises(RooflineUsageError, match=r"^budgets\.yaml:|budgets\.yaml: "):
            write(a_test())
        assert file.read_bytes() == content
    file.unlink()
    file.mkdir()
    with pytest.raises(RooflineUsageError, match="is not a file"):
        write(a_test())
    assert os.listdir(tmp_path) == ["budgets.yaml"]


def test_a_file_that_would_be_too_large_is_refused(tmp_path: Path, write: Callable[..., list[str]]) -> None:
    """What this version writes it reads again."""
    file = tmp_path / "budgets.yaml"
    file.write_bytes(b"schema: 1\n#" + b"x" * (2**20 - 20))
    with pytest.raises(RooflineUsageError, match=r"budgets\.yaml: would be over 1,048,576 bytes: give patterns"):
        write(a_test())
    assert file.stat().st_size == 2**20 - 9


def test_a_write_that_fails_leaves_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, a lost race with another program: the old file, and no litter."""
    file = tmp_path / "budgets.yaml"
    file.write_text(OWN, encoding="utf-8")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr(os, "fsync", full)
        update(str(file), "budgets.yaml", {"tests": [a_test()]})

    def written_meanwhile(text: str | None) -> str:
        file.write_text(f"{text}#", encoding="utf-8")
        return "mine"

    with pytest.raises(OSError, match=r"budgets\.yaml: somebody else writes it, too"):
        BudgetsText(str(file), "budgets.yaml").rewrite(written_meanwhile)
    assert file.read_text(encoding="utf-8") == OWN + "###"
    assert os.listdir(tmp_path) == ["budgets.yaml"]


def test_what_somebody_writes_meanwhile_is_not_lost(tmp_path: Path) -> None:
    """The change is made once more, on what is there now."""
    file = tmp_path / "budgets.yaml"
    file.write_text("one\n", encoding="utf-8")
    asked: list[str | None] = []

    def change(text: str | None) -> str:
        asked.append(text)
        if len(asked) == 1:
            file.write_text("two\n", encoding="utf-8")
        return f"{text}three\n"

    BudgetsText(str(file), "budgets.yaml").rewrite(change)
    assert asked == ["one\n", "two\n"]
    assert file.read_text(encoding="utf-8") == "two\nthree\n"


def test_what_cannot_be_written_is_known_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder or a file that is read-only: an error before anything is measured, and at the end."""
    file = tmp_path / "budgets.yaml"
    check_writable(str(tmp_path / "new" / "folder" / "budgets.yaml"), "budgets.yaml")
    file.write_text(OWN, encoding="utf-8")
    check_writable(str(file), "budgets.yaml")
    allowed = os.access  # whoever tests as root may write anywhere
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(file) and allowed(path, mode))
    with pytest.raises(RooflineUsageError, match=r"'budgets\.yaml' cannot be written: Permission denied"):
        check_writable(str(file), "budgets.yaml")
    with pytest.raises(PermissionError):
        update(str(file), "budgets.yaml", {"tests": [a_test()]})
    assert file.read_text(encoding="utf-8") == OWN
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(RooflineUsageError, match=r"'budgets\.yaml' cannot be written: Permission denied"):
        check_writable(str(tmp_path / "new.yaml"), "budgets.yaml")
    monkeypatch.setattr(os, "access", allowed)
    with pytest.raises(RooflineUsageError, match=r"'budgets\.yaml' cannot be written: Not a directory"):
        check_writable(str(file / "budgets.yaml"), "budgets.yaml")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    runs=st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(["a.py::t", "a.py::t[1-x]", "b.py::u"]),
                st.sampled_from([H100, A100, CPU]),
                st.floats(0.01, 1.2),
                st.floats(0, 0.2),
            ),
            min_size=1,
            max_size=5,
        ),
        min_size=1,
        max_size=4,
    ),
    text=st.sampled_from([None, "schema: 1\n", 'schema: 1\ntests:\n  "a.py::*":\n    H100*: 0.7  # o\n    cpu: 0.3\n']),
)
def test_no_sequence_of_runs_lowers_a_figure(tmp_path: Path, runs: list[list[Any]], text: str | None) -> None:
    """Each figure is at most what was measured, less the margin, or what was asked for before; and never less."""
    file = tmp_path / "budgets.yaml"
    file.unlink(missing_ok=True)
    if text is not None:
        file.write_text(text, encoding="utf-8")

    def figures() -> dict[tuple[str, str], float]:
        budgets = read_budgets(str(file))
        found = {}
        for test_id in ("a.py::t", "a.py::t[1-x]", "b.py::u", "c.py::v"):
            for device in (H100, A100, CPU):
                budget = budgets.budget_for(test_id, "at_least")
                assert budget is not None
                value = budget.for_device(device)
                found[test_id, device.name] = value if value is not None and budget.judges(device) else 0.0
        return found

    before = figures() if text is not None else {}
    for run in runs:
        tests = [a_test(result(low, low + width, device), node_id=test_id) for test_id, device, low, width in run]
        update(str(file), "b.yaml", {"tests": tests})
        after = figures()
        measured: dict[tuple[str, str], float] = {}
        for test_id, device, low, _ in run:
            measured[test_id, device.name] = min(low, measured.get((test_id, device.name), low))
        for key, value in after.items():
            assert value >= before.get(key, 0.0)
            default = 0.0 if key[1] == CPU.name else 0.55
            if value != before.get(key, default):
                assert value <= measured[key] * 0.95 + 1e-9
        before = after
        update(str(file), "b.yaml", {"tests": tests})
        assert figures() == after


@pytest.mark.parametrize("text", ["schema: 1\ndefault: 0.55\n", "schema: 1\n"], ids=["written", "not written"])
def test_a_new_test_below_the_default_gets_a_figure_only_with_consent(text: str) -> None:
    """It failed by the default, which stays as it is; above it the test gets its own."""
    place = budgets_in(text, "b.yaml").budget_for(TEST, "at_least")
    assert place is not None
    below = result(0.4, 0.42, standing="failed", at_least=0.55, at_least_from=place.places[0])
    missed = a_test(below, **MISSED)
    (reason,) = silent(missed, text=text)
    assert reason == "below the file's default (=loosen gives it a lower figure of its own, or write one)"
    assert changed(text, missed, loosen=True) == {(TEST, H100.name): {"at_least": 0.38}}
    assert changed(text, a_test(result(0.7))) == {(TEST, H100.name): {"at_least": 0.66}}
