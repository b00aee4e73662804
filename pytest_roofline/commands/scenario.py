"""The options that say what is predicted on what, shared by ``predict`` and ``curve``, and the records they become."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pytest_roofline.errors import RooflineUsageError

if TYPE_CHECKING:
    from pytest_roofline.architecture import Architecture
    from pytest_roofline.inventory import Inventory
    from pytest_roofline.machine import Machine
    from pytest_roofline.predict import Given
    from pytest_roofline.specs.catalogue import Catalogue
    from pytest_roofline.workload import Draft, Workload

SPECS_VARIABLE = "PYTEST_ROOFLINE_SPECS"
# More digits are nobody's number of sequences or tokens.
_WHOLE = re.compile(r"([0-9]{1,15}|[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,3}(?:_[0-9]{3}){1,4})\s*([kKmM]i?)?")
_SHARE = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e-?[0-9]+)?", re.IGNORECASE)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A device, a workload, and the same model in smaller formats (made when they are asked for)."""

    machine: Machine
    workload: Workload
    architecture: Architecture | None
    """What the model's figures are counted from; None: by the rule of thumb, there is none."""
    smaller: Iterable[Inventory]


def add_specs_option(parser: argparse.ArgumentParser) -> None:
    """``--specs``, wherever names are looked up."""
    parser.add_argument(
        "--specs",
        metavar="PATH",
        action="append",
        default=[],
        help=f"More specs of devices, models and formats: a file or a folder; can be repeated (also: {SPECS_VARIABLE})",
    )


def catalogue_of(arguments: argparse.Namespace) -> Catalogue:
    """The specs of the package, of ``--specs`` and of the environment; a fault in those is an error at once."""
    paths = spec_paths(arguments)
    if paths:
        from pytest_roofline.specs.own_files import checked_catalogue

        return checked_catalogue(paths)
    from pytest_roofline.specs.catalogue import Catalogue

    return Catalogue()


def spec_paths(arguments: argparse.Namespace) -> list[str]:
    """The user's own spec files and folders: of ``--specs``, then of the environment."""
    from_environment = os.environ.get(SPECS_VARIABLE, "").split(os.pathsep)
    return [*arguments.specs, *(path for path in from_environment if path)]


def add_scenario_options(parser: argparse.ArgumentParser) -> None:
    """MODEL or its figures, the device or its figures, formats, sequences, ranks, drafts and spills."""
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help="Name of a spec, config.json or folder, GGUF or safetensors, org/name"
    )
    add = parser.add_argument_group("the model").add_argument
    add("--params", metavar="N", help="Instead of MODEL: so many parameters, such as 70B (the rule of thumb)")
    add("--active", metavar="N", help="With --params: those that serve one token of a mixture, such as 40B")
    add("--kv-per-token", metavar="BYTES", help="KV cache per token and sequence, such as 320KiB; in place of MODEL's")
    add("--weights", metavar="FMT", help="Format of the weights: bf16, fp8, int4, int4-g128, q4_k_m, 'as stored' ...")
    add("--kv", metavar="FMT", help="Format of the KV cache: bf16 (default), fp8, q8_0 ...")
    add = parser.add_argument_group("the device").add_argument
    add("--device", metavar="NAME", help="Name of a device spec: h100-sxm, 'RTX 4090', ...")
    add("--bandwidth", metavar="RATE", help="Memory bandwidth, such as 3.35TB/s; in place of the device's")
    add("--peak", metavar="RATE", help="Dense compute peak, such as 989TFLOP/s; in place of the device's")
    add("--memory", metavar="BYTES", help="Size of the memory, such as 80GB; in place of the device's")
    add = parser.add_argument_group("the workload").add_argument
    add("--batch", metavar="B", default="1", help="Sequences decoded together (default: 1); K is 1,024")
    add("--context", metavar="N", default="0", help="Tokens in each sequence's KV cache (default: 0); 128K is 131,072")
    add("--prompt", metavar="N", help="Tokens of a prompt: floor of the time to the first token; 4K is 4,096")
    add("--tokens-per-pass", metavar="X", help="Tokens accepted per sequence and pass: speculation, MTP (default: 1)")
    add("--draft", metavar="MODEL", help="Draft model of speculative decoding, or mtp: the model's own layers")
    add("--draft-tokens", metavar="K", help="Tokens drafted before each pass (default: 1)")
    add("--draft-weights", metavar="FMT", help="Format of the draft's weights (default: as its checkpoint says)")
    add = parser.add_argument_group("several devices, and weights elsewhere").add_argument
    add("--tp", metavar="N", default="1", help="Tensor parallel ranks (default: 1)")
    add("--link", metavar="RATE", help="Between ranks, one direction, such as 450GB/s; in place of the device's")
    add("--link-latency", metavar="TIME", help="Of one all-reduce, such as 10us (default: 0)")
    add(
        "--offload", metavar="FRACTION", default="0", help="Share of the weights outside of the device's memory, 0 to 1"
    )
    add("--spill-bandwidth", metavar="RATE", help="Of the path to them, such as 64GB/s; in place of the device's")
    add("--overlap", action="store_true", help="Spilled and local weights are read at the same time, not in turn")
    add_specs_option(parser)


def scenario_of(arguments: argparse.Namespace) -> Scenario:
    """The records that the options stand for. Raises RooflineUsageError that names the option."""
    from pytest_roofline.predict import architecture_of, smaller_inventories, smaller_rules
    from pytest_roofline.units import parse_number
    from pytest_roofline.workload import Workload

    catalogue = catalogue_of(arguments)
    machine = machine_in(arguments, catalogue)
    architecture: Architecture | None = None
    smaller: Iterable[Inventory]
    if arguments.params is not None:
        if arguments.model is not None:
            raise RooflineUsageError(f"MODEL {arguments.model!r} or --params {arguments.params}, not both")
        if arguments.draft == "mtp":
            raise RooflineUsageError("--draft mtp needs a MODEL: --params knows no layers")
        inventory = inventory_as(arguments, None, catalogue)
        smaller = smaller_rules(inventory, catalogue)
    else:
        if arguments.active is not None:
            raise RooflineUsageError("--active goes with --params; MODEL has its own count")
        if arguments.model is None:
            raise RooflineUsageError("which MODEL? a spec's name, a file, or --params 70B")
        if arguments.kv_per_token is not None and arguments.kv is not None:
            raise RooflineUsageError("--kv-per-token states the bytes that --kv would decide: give one of them")
        try:
            architecture = architecture_of(arguments.model, catalogue, has_caches=arguments.kv_per_token is None)
        except RooflineUsageError as error:
            raise RooflineUsageError(f"{error}{_hint_of_count(arguments.model)}") from error
        inventory = inventory_as(arguments, architecture, catalogue)
        smaller = smaller_inventories(architecture, inventory, arguments.kv, catalogue)
    draft = draft_as(arguments, architecture, inventory, catalogue)
    accepted = parsed_option(arguments, "tokens_per_pass", parse_number)
    if accepted is None:
        accepted = 1.0 if draft is None else draft.tokens + 1.0
    return Scenario(
        machine=machine,
        workload=Workload(
            inventory=inventory,
            batch=whole(arguments.batch, "--batch", least=1),
            context=whole(arguments.context, "--context", least=0),
            prompt=None if arguments.prompt is None else whole(arguments.prompt, "--prompt", least=1),
            tokens_per_pass=accepted,
            draft=draft,
            offload=share_of(arguments.offload, "--offload"),
            is_overlapped=arguments.overlap,
        ),
        architecture=architecture,
        smaller=smaller,
    )


def _hint_of_count(model: str) -> str:
    """What to say of a MODEL that is a number of parameters."""
    from pytest_roofline.units import parse_count

    try:
        parse_count(model)
    except RooflineUsageError:
        return ""
    return f"\nFor so many parameters, whatever the model: --params {model.strip()}"


def inventory_as(arguments: argparse.Namespace, architecture: Architecture | None, catalogue: Catalogue) -> Inventory:
    """The model in the formats that the options name; without an architecture by the rule of thumb."""
    from pytest_roofline.predict import inventory_in
    from pytest_roofline.units import parse_bytes

    if architecture is None:
        return _rule(arguments, catalogue)
    declared = parsed_option(arguments, "kv_per_token", parse_bytes)
    inventory = inventory_in(architecture, arguments.weights, arguments.kv, catalogue)
    return inventory if declared is None else inventory.with_kv(declared, "given: --kv-per-token")


def machine_in(arguments: argparse.Namespace, catalogue: Catalogue) -> Machine:
    """The device that the options stand for."""
    from pytest_roofline.predict import machine_of

    return machine_of(arguments.device, given_figures(arguments), catalogue)


def given_figures(arguments: argparse.Namespace) -> Given:
    """The device's figures that the options state, and the ranks."""
    from pytest_roofline.predict import Given
    from pytest_roofline.units import parse_bytes, parse_bytes_per_s, parse_flops_per_s, parse_seconds

    return Given(
        bandwidth_bytes_per_s=parsed_option(arguments, "bandwidth", parse_bytes_per_s),
        peak_flops_per_s=parsed_option(arguments, "peak", parse_flops_per_s),
        memory_bytes=parsed_option(arguments, "memory", parse_bytes),
        link_bytes_per_s=parsed_option(arguments, "link", parse_bytes_per_s),
        link_latency_s=parsed_option(arguments, "link_latency", parse_seconds) or 0.0,
        spill_bytes_per_s=parsed_option(arguments, "spill_bandwidth", parse_bytes_per_s),
        ranks=whole(arguments.tp, "--tp", least=1),
    )


def _rule(arguments: argparse.Namespace, catalogue: Catalogue) -> Inventory:
    from pytest_roofline.predict import rule_in
    from pytest_roofline.units import parse_bytes, parse_count

    return rule_in(
        parsed_option(arguments, "params", parse_count) or 0.0,
        active_parameters=parsed_option(arguments, "active", parse_count),
        kv_bytes_per_token=parsed_option(arguments, "kv_per_token", parse_bytes) or 0.0,
        weights=arguments.weights,
        kv=arguments.kv,
        catalogue=catalogue,
    )


def draft_as(
    arguments: argparse.Namespace, architecture: Architecture | None, inventory: Inventory, catalogue: Catalogue
) -> Draft | None:
    """The draft that the options name, beside this model; None without one."""
    from pytest_roofline.predict import OWN_DRAFT, architecture_of, inventory_in, own_draft_in
    from pytest_roofline.workload import Draft

    if arguments.draft is None:
        for option in ("draft_tokens", "draft_weights"):
            if getattr(arguments, option) is not None:
                raise RooflineUsageError(f"--{option.replace('_', '-')} goes with --draft MODEL")
        return None
    tokens = whole(arguments.draft_tokens or "1", "--draft-tokens", least=1)
    if arguments.draft == OWN_DRAFT and architecture is not None:
        return Draft(
            inventory=own_draft_in(architecture, inventory, arguments.weights, catalogue), tokens=tokens, is_own=True
        )
    drafting = architecture_of(arguments.draft, catalogue)
    return Draft(inventory=inventory_in(drafting, arguments.draft_weights, arguments.kv, catalogue), tokens=tokens)


def parsed_option(arguments: argparse.Namespace, name: str, parse: Callable[[str], _Value]) -> _Value | None:
    """The value of an option; None when it was not given. What is wrong with it names the option."""
    text = getattr(arguments, name)
    if text is None:
        return None
    try:
        return parse(text)
    except RooflineUsageError as error:
        raise RooflineUsageError(f"--{name.replace('_', '-')}: {error}") from error


def whole(text: str, option: str, *, least: int) -> int:
    """A whole number, at least so large. ``128K`` is 128 x 1,024 and ``1M`` 1,024 x 1,024, as in the names of models
    and their contexts."""
    found = _WHOLE.fullmatch(text.strip())
    scale = 1 if found is None or not found[2] else 1024 if found[2][0] in "kK" else 1024**2
    value = -1 if found is None else int(re.sub("[,_]", "", found[1])) * scale
    if value < least:
        raise RooflineUsageError(f"{option}: {text[:64]!r} is no whole number from {least}, such as {max(least, 1)}")
    return value


def share_of(text: str, option: str) -> float:
    """A share from 0 to 1."""
    value = float(text) if _SHARE.fullmatch(text.strip()) else -1.0
    if not 0.0 <= value <= 1.0:
        raise RooflineUsageError(f"{option}: {text[:64]!r} is no share from 0 to 1, such as 0.25")
    return value
