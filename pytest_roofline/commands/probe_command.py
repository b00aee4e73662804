"""``roofline probe``: measure what this machine's memory does today."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_roofline.probe import Probe

SCHEMA = 1


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the subcommand and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "probe", allow_abbrev=False, help="Measure what this machine's memory does today"
    )
    parser.add_argument("--device", metavar="DEVICE", help="Id, kind or name pattern: cuda:0, cpu, 'H200*'")
    parser.add_argument("--json", action="store_true", help="Print one JSON object")
    return parser


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """Probe one device; its figures as lines or as JSON."""
    from pytest_roofline.session import Session

    session = Session()
    probe = session.probe(session.find_device(arguments.device))
    if arguments.json:
        return json.dumps({"schema": SCHEMA, **probe.to_dict()}, allow_nan=False), 0
    return "\n".join(f"{name:<12} {text}" for name, text in _lines(probe)), 0


def _lines(probe: Probe) -> list[tuple[str, str]]:
    from pytest_roofline.device import PATTERNS
    from pytest_roofline.units import format_bytes, format_bytes_per_s, format_seconds

    def rate(value: float, kernel: Any = None) -> str:
        return f"{format_bytes_per_s(value):>10}" + (f"   {kernel}" if kernel else "")

    lines = [("device", f"{probe.device.id} ({probe.device.name})")]
    lines += [
        (pattern, rate(getattr(probe, f"{pattern}_bytes_per_s"), probe.kernels.get(pattern))) for pattern in PATTERNS
    ]
    lines += [
        ("best", rate(probe.best_bytes_per_s)),
        ("in cache", rate(probe.cache_bytes_per_s)),
        ("cache knee", f"{format_bytes(probe.cache_knee_bytes):>10}"),
        ("measured in", f"{format_seconds(probe.elapsed_s):>10}"),
        ("trusted", "yes" if probe.is_trusted else "no"),
    ]
    return lines + [("note", note) for note in probe.notes]
