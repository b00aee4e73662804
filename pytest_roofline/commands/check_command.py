"""``roofline check``: judge a result measured elsewhere, by figures on the command line or a file of a known tool."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_roofline.commands.claims import chosen, claims_of
from pytest_roofline.commands.scenario import add_scenario_options, catalogue_of, machine_in, scenario_of, share_of
from pytest_roofline.errors import RooflineUsageError, one_line

if TYPE_CHECKING:
    from pytest_roofline.machine import Machine
    from pytest_roofline.published.judgement import Judgement
    from pytest_roofline.published.reported import Reported
    from pytest_roofline.published.roof import Subject
    from pytest_roofline.specs.catalogue import Catalogue

SCHEMA = 1
_FILES = (".gguf", ".safetensors")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the subcommand and its options: those of ``predict``, a file of each tool, figures."""
    from pytest_roofline.published.registry import TOOLS
    from pytest_roofline.published.reported import METRICS

    parser: argparse.ArgumentParser = commands.add_parser(
        "check",
        allow_abbrev=False,
        usage="roofline check [MODEL] (--tokens-per-s X | --file FILE | ...) [--device NAME] [options]",
        help="Judge a result measured elsewhere, by its figures or its file",
        epilog="Exit status: 0 all passed, 1 one did not, 2 wrong use. Example: roofline check llama-3.1-8b --device "
        "h100-sxm --tokens-per-s 180 --at-least 0.6",
    )
    add_scenario_options(parser)
    parser.set_defaults(batch=None, context=None)  # so that it shows whether one was given
    parser.add_argument("--model", dest="named_model", metavar="MODEL", help="The same as MODEL")
    add = parser.add_argument_group("the result to judge").add_argument
    add("--tokens-per-s", metavar="X", help="Figure to judge: tokens/s of all sequences together")
    add("--tpot", metavar="TIME", help="Figure to judge: time per output token of one, such as 10.8ms")
    add("--generated", metavar="N", help="Tokens generated per request, where they are not in the file")
    add("--per-device", action="store_true", help="The rate is that of one device of --tp, not of all")
    add("--file", metavar="FILE", help="File of a tool that is recognised by its layout")
    for tool, words in TOOLS.items():
        add(f"--{tool}", dest=f"file_{tool}", metavar="FILE", help=words)
    add("--columns", metavar="LIST", help="Of --csv: tokens-per-s=tps,batch=bs,tpot=itl:ms ...")
    add("--metric", choices=(*METRICS, "all"), help="Judge this figure of the file alone")
    add = parser.add_argument_group("the verdict").add_argument
    add("--at-least", metavar="FRACTION", help="Share of the ceiling that it has to reach, 0 to 1")
    add("--probe", action="store_true", help="Measure this machine's memory in place of --device")
    parser.add_argument("--json", action="store_true", help="Print one JSON object")
    return parser


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """Every result with its verdict; status 1 where one did not pass."""
    if arguments.named_model is not None:
        if arguments.model is not None:
            raise RooflineUsageError(f"MODEL {arguments.model!r} or --model {arguments.named_model}, not both")
        arguments.model = arguments.named_model
    at_least = None if arguments.at_least is None else share_of(arguments.at_least, "--at-least")
    results = chosen(claims_of(arguments), arguments.metric)
    judgements = _judged(arguments, results, at_least)
    status = 0 if all(judgement.verdict == "passed" for judgement in judgements) else 1
    if arguments.json:
        found = {"schema": SCHEMA, "results": [judgement.to_dict() for judgement in judgements]}
        return json.dumps(found, allow_nan=False), status
    from pytest_roofline.report.judgement import judgement_lines

    return "\n".join(judgement_lines(judgements)), status


def _judged(arguments: argparse.Namespace, results: Iterable[Reported], at_least: float | None) -> list[Judgement]:
    from pytest_roofline.published.judgement import judge_reported
    from pytest_roofline.published.roof import roof_over

    catalogue = catalogue_of(arguments)
    slack = _slack(arguments)
    subjects: dict[tuple[Any, ...], Subject] = {}
    judgements = []
    for reported in results:
        key = (
            *(reported.weights, reported.kv_formats, reported.model, reported.model_type, reported.parameters),
            *(reported.stored_bytes, reported.ranks, reported.tokens_per_pass, bool(reported.depth)),
        )
        if key not in subjects:
            subjects[key] = _subject(arguments, reported, catalogue, slack)
        subject = subjects[key]
        roof = None if subject.conflict is not None else roof_over(reported, subject)
        is_asked = reported.metric not in ("prefill", "mixed") or arguments.metric == reported.metric
        judgements.append(judge_reported(reported, subject, roof, at_least=at_least if is_asked else None))
    return judgements


def _slack(arguments: argparse.Namespace) -> dict[str, Any]:
    """How far a figure may lie above the limit, by what the bandwidth rests on; a probe is made here."""
    from pytest_roofline.published.roof import DATASHEET_SLACK, STATED_SLACK

    if not arguments.probe:
        is_stated = arguments.bandwidth is not None
        return {"slack": STATED_SLACK if is_stated else DATASHEET_SLACK, "unsure_slack": DATASHEET_SLACK}
    if arguments.device is not None or arguments.bandwidth is not None:
        raise RooflineUsageError("--probe measures this machine: without --device and --bandwidth")
    from pytest_roofline.commands.here import open_session

    session = open_session()
    probe = session.probe(session.find_device(None))
    arguments.bandwidth = repr(float(probe.read_bytes_per_s))
    arguments.probed = f"{probe.device.id} ({one_line(probe.device.name)}), probed: read"
    best = probe.best_bytes_per_s / probe.read_bytes_per_s
    return {"slack": 2.0 * best, "unsure_slack": 1.25 * best}


def _subject(arguments: argparse.Namespace, reported: Reported, catalogue: Catalogue, slack: dict[str, Any]) -> Subject:
    from pytest_roofline.inventory import rule_inventory
    from pytest_roofline.published.roof import Subject
    from pytest_roofline.published.subject import as_stored, conflict_of, described_subject, with_kv_of
    from pytest_roofline.workload import Workload

    own = argparse.Namespace(**vars(arguments))
    own.batch, own.context, own.prompt = "1", "0" if arguments.context is None else arguments.context, None
    accepted = reported.tokens_per_pass
    if own.tokens_per_pass is None and accepted is not None and accepted >= 1:
        own.tokens_per_pass = repr(accepted)
    if own.tp == "1" and reported.ranks is not None:
        own.tp = str(reported.ranks)
    if own.model is None and own.params is None:
        nothing = rule_inventory(1.0, bytes_per_parameter=1.0, weights="", kv="")
        workload = Workload(
            inventory=nothing,
            tokens_per_pass=1.0 if own.tokens_per_pass is None else float(own.tokens_per_pass),
            offload=share_of(own.offload, "--offload"),
            is_overlapped=own.overlap,
        )
        found = described_subject(
            reported, machine_in(own, catalogue), workload, catalogue, weights=own.weights, kv=own.kv
        )
        return replace(found, machine=_sourced(arguments, found.machine), **slack)
    is_file = own.model is not None and (own.model.endswith(_FILES) or os.path.isdir(own.model))
    if own.weights is None and reported.weights is not None and not is_file and own.model is not None:
        own.weights = reported.weights
    scenario = scenario_of(own)
    inventory = scenario.workload.inventory
    if arguments.kv is None and arguments.kv_per_token is None:
        inventory = with_kv_of(inventory, reported, catalogue)
    conflict = conflict_of(reported, inventory, is_file=is_file)
    if not is_file and conflict is None:
        inventory = as_stored(inventory, reported)
    return Subject(
        machine=_sourced(arguments, scenario.machine),
        workload=replace(scenario.workload, inventory=inventory),
        least=inventory,
        conflict=conflict,
        **slack,
    )


def _sourced(arguments: argparse.Namespace, machine: Machine) -> Machine:
    probed = getattr(arguments, "probed", None)
    return machine if probed is None else replace(machine, name=probed, bandwidth_source="measured now by a probe")
