"""Two runs, test by test: which results belong together, and what else is not the same. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_roofline.comparison.change import Change, Refusal, change_of
from pytest_roofline.comparison.speeds import THRESHOLD
from pytest_roofline.reruns import last_attempts

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Two runs, test by test."""

    threshold: float
    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    only_old: tuple[str, ...]
    """Node ids of tests that the new run does not have."""
    only_new: tuple[str, ...]
    differences: tuple[str, ...]
    """What else is not the same: commit, versions."""

    @property
    def regressions(self) -> tuple[Change, ...]:
        """What became slower by more than the threshold, whatever noise did."""
        return tuple(change for change in self.changes if change.is_slower_by(self.threshold))

    @property
    def nothing_compared(self) -> str:
        """Why there is no row at all, in one line; empty where there is one. A comparison of nothing finds nothing."""
        if self.changes:
            return ""
        if not self.refusals:
            return "nothing was compared: no test is in both runs"
        count = len(self.refusals)
        return f"nothing was compared: {'the only row' if count == 1 else f'each of {count} rows'} was refused"

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only."""
        return {
            "threshold": self.threshold,
            "nothing_compared": self.nothing_compared or None,
            "changes": [
                {**change.to_dict(), "is_regression": change.is_slower_by(self.threshold)} for change in self.changes
            ],
            "not_compared": [refusal.to_dict() for refusal in self.refusals],
            "only_old": list(self.only_old),
            "only_new": list(self.only_new),
            "differences": list(self.differences),
        }


def compare_runs(old: Record, new: Record, *, threshold: float = THRESHOLD) -> RunComparison:
    """Every test of two documents of `results.reading`; `threshold`: what is too little to be called a change."""
    before, after = _by_name(old["tests"]), _by_name(new["tests"])
    rows = [row for name in after if name in before for row in _rows(name, before[name], after[name], threshold)]
    return RunComparison(
        threshold=threshold,
        changes=tuple(row for row in rows if isinstance(row, Change)),
        refusals=tuple(row for row in rows if isinstance(row, Refusal)),
        only_old=tuple(name for name in before if name not in after),
        only_new=tuple(name for name in after if name not in before),
        differences=tuple(_differences(old, new)),
    )


# -- which belong together ----------------------------------------------------------------------------------------


def _by_name(tests: Sequence[Record]) -> dict[str, Record]:
    """Tests by node id; with the worker where several ran the same one. Only the last attempt of each."""
    last = last_attempts(tests)
    counts: dict[str, set[str | None]] = {}
    for test in last:
        counts.setdefault(test["node_id"], set()).add(test["worker"])
    return {
        test["node_id"] if len(counts[test["node_id"]]) == 1 else f"{test['node_id']} [{test['worker']}]": test
        for test in last
    }


def _rows(name: str, old: Record, new: Record, threshold: float) -> Iterator[Change | Refusal]:
    for run, test in (("old", old), ("new", new)):
        if test["verdict"] is None:
            yield Refusal(node_id=name, label="", reason=f"the {run} run has no result: the test did not survive it")
            return
    before, after = _by_label(old["results"]), _by_label(new["results"])
    if not before and not after:
        yield Refusal(node_id=name, label="", reason="nothing was measured in either run")
    labels = list(dict.fromkeys((*before, *after)))
    for label in labels:
        shown = label[0] if len(labels) > 1 else ""
        if label in before and label in after:
            yield change_of(name, shown, before[label], after[label], threshold)
        else:
            run = "old" if label in before else "new"
            yield Refusal(node_id=name, label=shown, reason=f"only the {run} run has this measurement")


def _by_label(results: Sequence[Record]) -> dict[tuple[str, str, int], Record]:
    """Results by label, kind, and how often both came before."""
    found: dict[tuple[str, str, int], Record] = {}
    for result in results:
        number = sum(key[:2] == (result["label"], result["kind"]) for key in found)
        found[result["label"], result["kind"], number] = result
    return found


# -- what else is not the same --------------------------------------------------------------------------------------


def _differences(old: Record, new: Record) -> Iterator[str]:
    before, after = ((run["run"]["commit"] or {}).get("id") for run in (old, new))
    if before and after and before != after:
        yield f"commit {before[:12]}, then {after[:12]}"
    if old["run"]["python"] != new["run"]["python"]:
        yield f"python {old['run']['python']}, then {new['run']['python']}"
    libraries = old["libraries"], new["libraries"]
    for name in sorted(libraries[0].keys() & libraries[1].keys()):
        if libraries[0][name] != libraries[1][name]:
            yield f"{name} {libraries[0][name]}, then {libraries[1][name]}"
    drivers = [_drivers(run["tests"]) for run in (old, new)]
    for name in drivers[0].keys() & drivers[1].keys():
        if drivers[0][name] != drivers[1][name]:
            yield f"driver of {name} {drivers[0][name]}, then {drivers[1][name]}"


def _drivers(tests: Iterable[Record]) -> dict[str, str]:
    devices = [result["device"] for test in tests for result in test["results"]]
    return {device["name"]: device["driver"] for device in devices if device["driver"] is not None}
