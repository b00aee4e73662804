"""``roofline predict``: how fast a model can decode on a device, before either is at hand."""

from __future__ import annotations

import argparse
import json
from typing import Any

from pytest_roofline.commands.scenario import add_scenario_options, scenario_of
from pytest_roofline.errors import RooflineUsageError


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the subcommand and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "predict",
        allow_abbrev=False,
        usage="roofline predict [MODEL] [--device NAME] [options]",
        help="How fast a model can decode on a device",
        epilog="Examples: roofline predict llama-3.1-8b --device h100-sxm --context 8K; roofline predict --params 70B "
        "--weights int4-g128 --bandwidth 1008GB/s",
    )
    add_scenario_options(parser)
    parser.add_argument("--words-per-token", metavar="X", help="Say it in words per second too, such as 0.75")
    parser.add_argument("--chars-per-token", metavar="X", help="Say it in characters per second too, such as 4.2")
    parser.add_argument("--json", action="store_true", help="Print one JSON object")
    return parser


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """The prediction as text or JSON. A model that does not fit is a result, with status 0."""
    from pytest_roofline.prediction import predict
    from pytest_roofline.remarks import explained

    scenario = scenario_of(arguments)
    prediction = explained(predict(scenario.machine, scenario.workload), scenario.smaller)
    text_rates = {
        unit: rate * prediction.ceiling_tokens_per_s
        for unit, rate in (
            ("words", _per_token(arguments.words_per_token, "--words-per-token")),
            ("chars", _per_token(arguments.chars_per_token, "--chars-per-token")),
        )
        if rate is not None
    }
    if arguments.json:
        found = {**prediction.to_dict(), **{f"ceiling_{unit}_per_s": rate for unit, rate in text_rates.items()}}
        return json.dumps(found, allow_nan=False), 0
    from pytest_roofline.report.prediction import prediction_lines

    return "\n".join(prediction_lines(prediction, text_rates)), 0


def _per_token(text: str | None, option: str) -> float | None:
    from pytest_roofline.units import parse_number

    if text is None:
        return None
    try:
        return parse_number(text)
    except RooflineUsageError as error:
        raise RooflineUsageError(f"{option}: {error}") from error
