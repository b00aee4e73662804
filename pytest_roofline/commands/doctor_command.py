"""``roofline doctor``: whether this runner can judge performance, what is wrong with it, and how to fix it."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_roofline.fitness import Complaint, RunnerFacts

SCHEMA = 1
_NARROWEST = 40


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the subcommand and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        allow_abbrev=False,
        help="Say whether this runner can judge performance, what is wrong, and how to fix it",
        epilog="Exit status: 0 fit, 1 not fit, 2 wrong use.",
    )
    parser.add_argument("--device", metavar="DEVICE", help="Id, kind or name pattern: cuda:0, cpu, 'H200*'")
    parser.add_argument("--quick", action="store_true", help="Measure nothing: what the system tells, within a second")
    parser.add_argument("--json", action="store_true", help="Print one JSON object")
    return parser


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """Look the runner over; complaints as text or as JSON, status 1 where one of them blocks judging."""
    from pytest_roofline.commands.here import open_session
    from pytest_roofline.examination import examine
    from pytest_roofline.fitness import complaints, is_fit, unchecked

    facts = examine(open_session(), arguments.device, is_quick=arguments.quick)
    found, not_checked = complaints(facts), unchecked(facts)
    status = 0 if is_fit(found) else 1
    if arguments.json:
        return json.dumps(_record(facts, found, not_checked), allow_nan=False), status
    import shutil

    from pytest_roofline.report.doctor import WIDTH, doctor_lines

    columns = shutil.get_terminal_size((WIDTH, 0)).columns
    return "\n".join(doctor_lines(facts, found, not_checked, max(_NARROWEST, min(WIDTH, columns)))), status


def _record(facts: RunnerFacts, found: tuple[Complaint, ...], not_checked: tuple[str, ...]) -> dict[str, Any]:
    from pytest_roofline.fitness import is_fit
    from pytest_roofline.result import plain

    probes = facts.short_probes
    record = plain(
        {
            "schema": SCHEMA,
            "device": facts.device.to_dict() if facts.device else None,
            "is_fit": is_fit(found),
            "findings": [one.to_dict() for one in found],
            "not_checked": list(not_checked),
            "conditions": facts.conditions.to_dict(),
            "while_probing": facts.held.to_dict() if facts.held else None,
            "probes": {
                "read_bytes_per_s": list(probes.rates_bytes_per_s),
                "elapsed_s": probes.elapsed_s,
                "spread": probes.spread,
            }
            if probes
            else None,
            "cache_knee_bytes": facts.cache_bytes if facts.is_knee_measured else None,
            "free_memory_bytes": facts.free_memory_bytes,
            "threads": facts.step_threads,
            "is_virtual": facts.is_virtual,
            "huge_pages": facts.huge_pages,
        }
    )
    if not isinstance(record, dict):  # pragma: no cover - a dict stays a dict
        raise TypeError("a record must be a dict")
    return record
