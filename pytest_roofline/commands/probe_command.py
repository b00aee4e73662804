"""``roofline probe``: measure what this machine's memory does today."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_roofline.links import Links
    from pytest_roofline.probe import Probe

SCHEMA = 1


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the subcommand and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "probe", allow_abbrev=False, help="Measure what this machine's memory does today"
    )
    parser.add_argument("--device", metavar="DEVICE", help="Id, kind or name pattern: cuda:0, cpu, 'H200*'")
    parser.add_argument(
        "--links", action="store_true", help="Measure the links to the host and to other devices too (some seconds)"
    )
    parser.add_argument("--json", action="store_true", help="Print one JSON object")
    return parser


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """Probe one device; its figures as lines or as JSON."""
    from pytest_roofline.commands.here import open_session

    session = open_session()
    probe = session.probe(session.find_device(arguments.device))
    links = probe.links() if arguments.links else None
    if arguments.json:
        return json.dumps({"schema": SCHEMA, **probe.to_dict()}, allow_nan=False), 0
    lines = [f"{name:<12} {text}" for name, text in _lines(probe)]
    return "\n".join([*lines, *(_link_lines(links) if links is not None else [])]), 0


def _link_lines(links: Links) -> Iterator[str]:
    from pytest_roofline.units import format_bytes_per_s

    for rate in links.rates:
        memory = {True: ", pinned", False: ", pageable", None: ""}[rate.is_pinned]
        ways = f"{rate.source} and {rate.target} at once" if rate.is_both_ways else f"{rate.source} to {rate.target}"
        yield f"{'link':<12} {format_bytes_per_s(rate.bytes_per_s):>10}   {ways}{memory}"
    for note in links.notes:
        yield f"{'note':<12} {note}"


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
