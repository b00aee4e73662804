"""Tests that are run again after they failed: what is kept of each attempt, and what a later one cannot undo.

A budget that is missed once and reached once may be noise: whoever reruns has chosen that, and the run says so. A bogus
verdict is no noise: it says that the code under test was not measured, so no later attempt turns it green.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_roofline.errors import BogusMeasurement

RERUN = "rerun"
"""What a results file calls the outcome of an attempt that was not the last one."""
Attempt = Mapping[str, Any]
"""What is kept of one: ``verdict``, ``message`` (one line, empty where it passed) and its ``results``."""


def irrevocable(former: Sequence[Attempt], raised: BaseException | None = None) -> BogusMeasurement | None:
    """What a test has to fail with because one of its former attempts was bogus.

    None where none was, and where this attempt, which ended with `raised`, is bogus by itself.
    """
    if isinstance(raised, BogusMeasurement):
        return None
    for number, attempt in enumerate(former, start=1):
        if attempt["verdict"] == "bogus":
            return BogusMeasurement(
                f"attempt {number} of this test was bogus, and running it again does not undo that: "
                f"{attempt['message']}\n"
                "  a bogus figure is one that was not measured; that is no noise that another attempt could average\n"
                f"  what to do: mend what attempt {number} was refused for; with pytest-rerunfailures, "
                "--rerun-except=BogusMeasurement saves the time of the other attempts"
            )
    return None


def last_attempts(tests: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of the tests of a document those as they ended: one that was run again stands in its last attempt as well."""
    return [test for test in tests if test.get("outcome") != RERUN]


def is_run_again(outcome: str) -> bool:
    """Whether the outcome of a report says that the test has not ended: each plugin has its own word for that."""
    return outcome not in ("passed", "failed", "skipped")


def rerun_lines(records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """One line for each test that was run more than once, and one for each of its attempts before the last."""
    for node_id, record in records.items():
        former: Sequence[Attempt] = record.get("attempts", ())
        if former:
            yield f"RERUN {node_id}: {record['verdict']} on attempt {len(former) + 1} of {len(former) + 1}"
        for number, attempt in enumerate(former, start=1):
            message = f": {attempt['message']}" if attempt["message"] else ""
            yield f"  attempt {number} {attempt['verdict']}{message}"
