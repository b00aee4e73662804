"""Two runs side by side: what is called faster or slower, what is refused, and what is only listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up_runs import CEILING, DEVICE, TRAFFIC, document_with, kept_test, result_of, sample_of

from pytest_roofline.comparison.alike import other_device
from pytest_roofline.comparison.change import Change
from pytest_roofline.comparison.runs import RunComparison, compare_runs
from pytest_roofline.comparison.speeds import LEAST_SAMPLES, answer_of
from pytest_roofline.report.comparison import comparison_lines
from pytest_roofline.roofline import Interval


def compared(old: Any, new: Any, **more: Any) -> RunComparison:
    """One test in both runs, with these results."""
    return compare_runs(document_with(kept_test(old)), document_with(kept_test(new)), **more)


def change_of(old: Any, new: Any) -> Change:
    """The only row."""
    found = compared(old, new)
    assert found.refusals == ()
    (change,) = found.changes
    return change


def refusal_of(old: Any, new: Any) -> str:
    """Why the only row is none."""
    found = compared(old, new)
    assert found.changes == ()
    (refusal,) = found.refusals
    return refusal.reason


def times(step_s: float, spread: float = 0.004, count: int = 15) -> list[float]:
    """Samples around a median."""
    return [step_s * (1 + spread * (number - count // 2) / count) for number in range(count)]


@pytest.mark.parametrize(("factor", "answer"), [(0.5, "faster"), (2.0, "slower"), (1.0, "same"), (1.01, "same")])
def test_a_clear_change_has_a_direction(factor: float, answer: str) -> None:
    """The ratio of the medians of the raw samples, with an interval around it; a small change is none."""
    change = change_of(result_of(times(2e-3)), result_of(times(2e-3 * factor)))
    assert change.answer == answer
    assert change.speed == pytest.approx(1 / factor)
    assert change.interval is not None
    assert change.interval.low <= 1 / factor <= change.interval.high
    assert change.reason == ""


def test_a_device_that_was_slower_accuses_nobody() -> None:
    """The probes around the samples fell as far as the step: the clock alone would have said slower."""
    change = change_of(result_of(times(2e-3)), result_of(times(4e-3), [5e11] * 15))
    assert change.answer == "undecided"
    assert change.speed == pytest.approx(0.5)
    assert change.speed_at_same_bandwidth == pytest.approx(1.0)
    assert change.remarks == ("the device gave 0.50x the bandwidth meanwhile; at the same one the speed is 1.00x",)


def test_a_device_that_was_slower_hides_nothing() -> None:
    """The step took four times as long where the device explains two."""
    change = change_of(result_of(times(2e-3)), result_of(times(8e-3), [5e11] * 15))
    assert change.answer == "slower"
    assert change.interval is not None
    assert change.interval.low <= 0.25
    assert 0.5 <= change.interval.high < 0.51


def test_a_faster_device_makes_no_faster_code() -> None:
    """Twice the bandwidth, the same code: that is no improvement of the code."""
    assert change_of(result_of(times(2e-3)), result_of(times(1e-3), [2e12] * 15)).answer == "undecided"


def test_arithmetic_is_not_held_against_the_memory() -> None:
    """A pass that computes is compared by the clock alone, whatever the memory did."""
    bound = {"ceiling": {**CEILING, "bound": "compute"}}
    change = change_of(result_of(times(2e-3), **bound), result_of(times(2e-3), [2e11] * 15, **bound))
    assert change.answer == "same"
    assert change.speed_at_same_bandwidth is None


def test_noise_decides_nothing() -> None:
    """Wide intervals that overlap: neither faster nor slower, and it says so."""
    wide = [1e-3 + 1e-4 * number for number in range(15)]
    change = change_of(result_of(wide), result_of([step * 0.9 for step in wide]))
    assert change.answer == "undecided"
    assert change.reason == "the interval holds both a change and none"


def test_too_few_samples_decide_nothing() -> None:
    """Their extremes bracket no median surely enough, however far they lie apart."""
    few = LEAST_SAMPLES - 1
    change = change_of(result_of([2e-3] * few), result_of([8e-3] * 20))
    assert (change.answer, change.interval) == ("undecided", None)
    assert change.reason == f"{few} samples, {LEAST_SAMPLES} are needed on either side"
    assert change.speed == pytest.approx(0.25)
    enough = change_of(result_of([2e-3] * LEAST_SAMPLES), result_of([8e-3] * LEAST_SAMPLES))
    assert enough.answer == "slower"


def test_one_figure_without_samples_decides_nothing() -> None:
    """An audit that was timed once: both figures are shown, nothing is concluded."""
    audit = {"kind": "audit", "samples": []}
    change = change_of(result_of((), **audit, step_s=2e-3), result_of((), **audit, step_s=1e-3))
    assert (change.answer, change.speed) == ("undecided", 2.0)
    assert change.reason == "one figure without samples: nothing says how far it moves by itself"


def test_samples_that_an_audit_claims_are_samples() -> None:
    """By the test's own clock, which the court has believed."""

    def audit(seconds: float, count: int) -> Any:
        samples = times(seconds, count=count)
        claim = {"tokens": 8.0 * count, "seconds": sum(samples), "is_tokens_seen": True, "samples_s": samples}
        return result_of((), kind="audit", samples=[], claim=claim)

    assert change_of(audit(0.1, 15), audit(0.2, 15)).answer == "slower"
    change = change_of(audit(0.1, 15), audit(0.1, 31))
    assert (change.answer, change.speed) == ("same", pytest.approx(1.0))
    assert change.new.cost_s == pytest.approx(0.1 / 8)


def test_steps_that_noise_made_negative_have_no_ratio() -> None:
    """A slope between two blocks can be; the interval is open then, and the ratio unknown."""
    change = change_of(result_of([-1e-3] * 12), result_of([1e-3] * 12))
    assert (change.answer, change.speed) == ("undecided", None)
    assert change_of(result_of([1e-3] * 12), result_of([-1e-3] * 12)).to_dict()["speed_ratio_high"] is None


@pytest.mark.parametrize("standing", ["bogus", "bogus (caught)", "inconclusive", "not measured"])
@pytest.mark.parametrize("is_new", [False, True])
def test_what_is_no_figure_is_not_compared(standing: str, is_new: bool) -> None:
    """A bogus figure is never shown beside a true one."""
    other = result_of(standing=standing)
    reason = refusal_of(result_of(), other) if is_new else refusal_of(other, result_of())
    assert standing.split(" (")[0] in reason
    assert f"in the {'new' if is_new else 'old'} run" in reason


def test_a_missed_budget_is_a_figure() -> None:
    """It is true, and below what was asked for."""
    assert change_of(result_of(), result_of(verdict="failed", standing="failed")).answer == "same"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, ""),
        ({"name": "Other"}, "another device: Fake Accelerator, then Other"),
        ({"uuid": "FAKE-1"}, "another Fake Accelerator: FAKE-0, then FAKE-1, and no data sheet says that they are"),
        ({"mig": "1g.18gb"}, "another slice of Fake Accelerator: all of it, then 1g.18gb"),
        ({"uuid": None}, ""),
        ({"uuid": None, "compute_units": 50}, "another Fake Accelerator: 100, then 50"),
        ({"uuid": None, "compute_units": None}, "then an unknown number of cores or units"),
        ({"uuid": None, "spec": "Fake 80 GB"}, "another card of the name Fake Accelerator: no sheet, then Fake 80 GB"),
    ],
)
def test_only_the_same_device_is_compared(changed: Any, reason: str) -> None:
    """By name, and uuid or else data sheet; the row of another one carries the reason."""
    found = other_device(DEVICE, {**DEVICE, **changed})
    assert reason in found
    assert bool(reason) == bool(found)
    assert other_device(DEVICE, dict(DEVICE)) == ""
    if reason:
        assert refusal_of(result_of(), result_of(device={**DEVICE, **changed})) == found


def test_cards_of_one_sheet_are_compared() -> None:
    """A pool of runners has several of them; the row says that it was another one."""
    one, other = ({**DEVICE, "uuid": uuid, "spec": "NVIDIA H200"} for uuid in ("GPU-1", "GPU-2"))
    change = change_of(result_of(device=one), result_of(device=other))
    assert (change.answer, change.remarks) == ("same", ("another card of the same kind",))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ({"batch": 1}, {"batch": 8}, "another workload: batch 1, then 8"),
        ({"context": 2048}, {"context": 8192}, ""),
        ({"context": 2048}, {"context": 8192, "bytes_per_pass": 2.1e9}, ""),
        (
            {"context": 2048},
            {"context": 8192, "bytes_per_pass": 2.3e9},
            "another workload: context 2048, then 8192",
        ),
        ({"context": 2048}, {"context": 2060}, ""),
        ({"context": 64, "kv_bytes_per_token": 1e5}, {"context": 128, "kv_bytes_per_token": 1e5}, ""),
        (
            {"context": 64, "kv_bytes_per_token": 1e6},
            {"context": 128, "kv_bytes_per_token": 1e6},
            "another workload: context 64, then 128",
        ),
    ],
)
def test_only_the_same_work_is_compared(old: Any, new: Any, reason: str) -> None:
    """A batch makes more tokens without any change of the code; a longer cache fewer."""
    sides = [
        result_of(traffic={**TRAFFIC, **side}, ceiling={**CEILING, "batch": side.get("batch", 1)})
        for side in (old, new)
    ]
    found = compared(*sides)
    assert [refusal.reason for refusal in found.refusals] == ([reason] if reason else [])


def test_the_context_is_the_one_that_the_test_gave() -> None:
    """Where its samples were taken depends on how many passes a block had: half as fast is slower, not other work."""
    old, new = (
        result_of(samples=[sample_of(step_s, context=context)] * 12) for step_s, context in ((2e-3, 8.25), (4e-3, 4.5))
    )
    found = compared(old, new)
    assert [change.answer for change in found.changes] == ["slower"]
    assert len(found.regressions) == 1


def test_a_cache_that_grew_while_it_was_measured_accuses_nobody() -> None:
    """More samples, a longer cache, more bytes: slower by the clock, and as fast as before at the same context."""
    traffic = {**TRAFFIC, "kv_bytes_per_token": 1e6}
    old, new = (
        result_of(
            traffic=traffic,
            samples=[sample_of(step_s, context=context) for step_s in times((2e9 + 1e6 * context) / 1e12)],
        )
        for context in (100.0, 1000.0)
    )
    change = change_of(old, new)
    assert (change.answer, change.is_slower_by(0.05)) == ("undecided", False)
    assert change.interval is not None
    assert change.interval.low == pytest.approx(0.7, rel=0.01)
    assert change.interval.high == pytest.approx(1.0, rel=0.01)
    slow = result_of(traffic=traffic, samples=[sample_of(2 * 3e9 / 1e12, context=1000.0)] * 12)
    assert change_of(old, slow).answer == "slower"


def test_fewer_bytes_are_an_improvement() -> None:
    """Quantized weights: faster, and the row says why."""
    small = result_of(times(1e-3), traffic={**TRAFFIC, "bytes_per_pass": 1e9})
    change = change_of(result_of(times(2e-3)), small)
    assert (change.answer, change.remarks) == ("faster", ("2.00 GB per pass, then 1.00 GB",))


def test_tokens_per_pass_count() -> None:
    """Twice the tokens of a pass in the same time is twice as fast."""
    change = change_of(result_of(times(2e-3)), result_of(times(2e-3), ceiling={**CEILING, "tokens_per_pass": 2.0}))
    assert (change.answer, change.speed) == ("faster", pytest.approx(2.0))


def test_tests_of_one_run_are_listed() -> None:
    """Nothing is concluded from their absence."""
    old = document_with(kept_test(result_of(), node_id="a.py::gone"), kept_test(result_of(), node_id="a.py::both"))
    new = document_with(kept_test(result_of(), node_id="a.py::both"), kept_test(result_of(), node_id="a.py::new"))
    found = compare_runs(old, new)
    assert (found.only_old, found.only_new) == (("a.py::gone",), ("a.py::new",))
    assert [change.node_id for change in found.changes] == ["a.py::both"]


def test_results_of_one_test_are_told_apart() -> None:
    """By label and kind, those that are alike by their order; what only one run has is said."""
    old = document_with(kept_test(result_of(times(1e-3)), result_of(times(4e-3)), result_of(label="other")))
    new = document_with(kept_test(result_of(times(1e-3)), result_of(times(2e-3))))
    found = compare_runs(old, new)
    assert [(change.label, change.answer) for change in found.changes] == [("step", "same"), ("step", "faster")]
    assert [(one.label, one.reason) for one in found.refusals] == [("other", "only the old run has this measurement")]


def test_attempts_before_the_last_are_not_compared() -> None:
    """Of a test that was run again its last attempt is its end."""
    first = kept_test(result_of(times(9e-3)), outcome="rerun", verdict="failed")
    old = document_with(kept_test(result_of(times(2e-3))))
    new = document_with(first, kept_test(result_of(times(2e-3))))
    assert [change.answer for change in compare_runs(old, new).changes] == ["same"]


def test_workers_that_run_the_same_tests_are_told_apart() -> None:
    """``--dist=each``: every worker has its own row."""
    tests = [kept_test(result_of(times(step_s)), worker=worker) for worker, step_s in (("gw0", 2e-3), ("gw1", 4e-3))]
    found = compare_runs(document_with(*tests), document_with(*tests))
    assert [change.node_id for change in found.changes] == [f"test_it.py::test_decode [gw{n}]" for n in (0, 1)]
    assert {change.answer for change in found.changes} == {"same"}


@pytest.mark.parametrize("is_new", [False, True])
def test_a_test_that_nobody_survived_is_not_compared(is_new: bool) -> None:
    """Its worker crashed: there is no result."""
    pair = [kept_test(result_of()), kept_test(verdict=None, mode=None, outcome="failed")]
    old, new = pair if is_new else pair[::-1]
    (refusal,) = compare_runs(document_with(old), document_with(new)).refusals
    assert refusal.reason == f"the {'new' if is_new else 'old'} run has no result: the test did not survive it"


def test_tests_that_measured_nothing_are_said() -> None:
    """An audit without a claim leaves a record without results."""
    (refusal,) = compare_runs(document_with(kept_test()), document_with(kept_test())).refusals
    assert refusal.reason == "nothing was measured in either run"


def test_a_regression_lies_beyond_the_threshold() -> None:
    """All of the interval: slower by 4 % to 6 % is slower, and by more than 5 % only perhaps."""
    change = change_of(result_of(times(2e-3)), result_of(times(2e-3 * 1.06)))
    assert change.answer == "slower"
    assert change.is_slower_by(0.05)
    assert not change.is_slower_by(0.06)
    found = compared(result_of(times(2e-3)), result_of(times(2e-3 * 1.06)), threshold=0.1)
    assert [one.answer for one in found.changes] == ["same"]
    assert found.regressions == ()


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (0.96, 1.04, "same"),
        (1.01, 1.04, "same"),
        (1.01, 1.2, "faster"),
        (0.8, 0.99, "slower"),
        (0.9, 1.1, "undecided"),
        (1.0, 1.2, "undecided"),
        (0.8, 1.0, "undecided"),
    ],
)
def test_what_an_interval_says(low: float, high: float, answer: str) -> None:
    """Too little to be called a change goes before a direction; an end at 1 is none."""
    assert answer_of(Interval(low=low, high=high), 0.05) == answer
    assert answer_of(None, 0.05) == "undecided"


def test_what_else_is_not_the_same() -> None:
    """Commit, Python, libraries that both runs have, and the driver."""
    old = document_with(
        kept_test(result_of()),
        run={"commit": {"id": "a" * 40, "branch": None, "is_dirty": False, "source": "git"}},
        libraries={"torch": "2.12.0", "jax": "0.9"},
    )
    new = document_with(
        kept_test(result_of(device={**DEVICE, "driver": "2.0"})),
        run={"commit": {"id": "b" * 40, "branch": None, "is_dirty": True, "source": "git"}, "python": "3.12.0"},
        libraries={"torch": "2.13.0"},
    )
    assert compare_runs(old, new).differences == (
        "commit aaaaaaaaaaaa, then bbbbbbbbbbbb",
        "python 3.11.0, then 3.12.0",
        "torch 2.12.0, then 2.13.0",
        "driver of Fake Accelerator 1.0, then 2.0",
    )
    assert compare_runs(old, old).differences == ()


def test_lines() -> None:
    """One line for each row, below it what has to be known of it, and a conclusion; within 80 cells."""
    old = document_with(
        kept_test(result_of(times(2e-3)), node_id="tests/a.py::test_quick"),
        kept_test(result_of(times(2e-3)), node_id="tests/a.py::test_slow"),
        kept_test(result_of(standing="bogus"), node_id="tests/a.py::test_cheat"),
        kept_test(result_of(), node_id="tests/a.py::test_\x1b[2Jgone"),
    )
    new = document_with(
        kept_test(result_of(times(1e-3)), node_id="tests/a.py::test_quick"),
        kept_test(result_of(times(4e-3)), node_id="tests/a.py::test_slow"),
        kept_test(result_of(), node_id="tests/a.py::test_cheat"),
    )
    assert comparison_lines(compare_runs(old, new), old_name="old.json") == [
        "compared with old.json",
        "test              old          new  speed       between",
        "test_quick  500 tok/s  1,000 tok/s  2.00x  1.99 to 2.01  faster",
        "test_slow   500 tok/s    250 tok/s  0.50x  0.50 to 0.50  slower",
        "NOT COMPARED tests/a.py::test_cheat: bogus in the old run: that was no figure",
        "ONLY IN THE OLD RUN tests/a.py::test_\\x1b[2Jgone",
        "2 compared (1 faster, 1 slower), 1 not",
        "1 slower by more than 5 %, beyond what noise explains",
    ]


def test_lines_of_runs_with_nothing_in_common() -> None:
    """They say so, for nothing that was compared is no green comparison."""
    found = compare_runs(document_with(), document_with())
    assert comparison_lines(found, old_name="old.json") == ["compared with old.json", "0 compared, 0 not"]
    assert found.nothing_compared == "nothing was compared: no test is in both runs"
    bogus = kept_test(result_of(standing="bogus"))
    found = compare_runs(document_with(bogus), document_with(bogus))
    assert found.nothing_compared == "nothing was compared: the only row was refused"
    both = document_with(bogus, kept_test(result_of(standing="bogus"), node_id="a.py::b"))
    assert compare_runs(both, both).nothing_compared == "nothing was compared: each of 2 rows was refused"
    fine = document_with(kept_test(result_of()))
    assert compare_runs(fine, fine).nothing_compared == ""


def test_the_table_has_eighty_cells() -> None:
    """The middle of a long name goes, and names stay apart."""
    tests = [kept_test(result_of(times(2e-6)), node_id=f"a.py::test_{'x' * 200}[{name}]") for name in ("one", "two")]
    document = document_with(*tests)
    lines = comparison_lines(compare_runs(document, document), old_name="old.json")
    assert max(map(len, lines[1:])) == 80
    assert [line.split()[0][-5:] for line in lines[2:4]] == ["[one]", "[two]"]


def test_kernels_have_times() -> None:
    """Their calls yield no tokens; what has no figure has a dash."""
    document = document_with(
        kept_test(result_of(times(2e-3), kind="kernel"), node_id="a.py::test_kernel"),
        kept_test(result_of((), step_s=None, tokens_per_s=None), node_id="a.py::test_none"),
    )
    lines = comparison_lines(compare_runs(document, document), old_name="old.json")
    assert lines[2].split() == ["test_kernel", "2.00", "ms", "2.00", "ms", "1.00x", "1.00", "to", "1.00", "same"]
    assert lines[3].split() == ["test_none", "-", "-", "-", "-", "undecided"]


def test_names_that_are_not_unique_have_their_file() -> None:
    """Tests of one name in two files, and two measurements of one test."""
    document = document_with(
        kept_test(result_of(), node_id="a.py::test_it"), kept_test(result_of(), node_id="b.py::test_it")
    )
    lines = comparison_lines(compare_runs(document, document), old_name="old.json")
    assert [line.split()[0] for line in lines[2:4]] == ["a.py::test_it", "b.py::test_it"]
    twice = document_with(kept_test(result_of(label="first"), result_of(label="second")))
    lines = comparison_lines(compare_runs(twice, twice), old_name="old.json")
    assert [line.split("  ")[0] for line in lines[2:4]] == ["test_decode: first", "test_decode: second"]


def test_the_example_of_the_recipes() -> None:
    """It is what is printed, to the letter."""
    text = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
    _, begin, rest = text.partition("$ roofline compare old.json new.json\n")
    assert begin
    sides = [
        document_with(
            kept_test(result_of(times(1 / rate, spread), tokens_per_s=rate)),
            run={"commit": {"id": commit, "branch": None, "is_dirty": False, "source": "git"}},
        )
        for rate, spread, commit in ((98.0, 0.02, "3f1c5a0d9e21"), (131.0, 0.02, "8b7d2c4410aa"))
    ]
    lines = comparison_lines(compare_runs(*sides), old_name="old.json")
    assert rest.partition("```")[0].splitlines() == lines
