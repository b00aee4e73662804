"""What the calculator lets one choose, for the model of the command line: every device, every format that holds it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_roofline.commands.scenario import (
    Scenario,
    catalogue_of,
    draft_as,
    given_figures,
    inventory_as,
    parsed_option,
)
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.predict import AS_STORED, Given, kv_named, machine_with
from pytest_roofline.report.calculator import Calculation, Card, Choice, KvCache, Weights

if TYPE_CHECKING:
    from pytest_roofline.formats import Format
    from pytest_roofline.specs.catalogue import Catalogue

FIRST_DEVICE = "h100-sxm"
"""Where the page begins when no device is named."""
_COMMON_WEIGHTS = (
    *("bf16", "fp16", "fp8", "int8", "mxfp4", "nvfp4", "int4-g128", "int4", "nf4"),
    *("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k"),
)
_COMMON_KV = ("bf16", "fp16", "fp8", "int8", "q8_0", "q4_0")
_FIGURES = ("device", "bandwidth", "peak", "memory", "link", "spill_bandwidth")
"""Options that state the device; the page has a list of devices for them."""
_MODEL_OPTIONS = (*("params", "active", "kv_per_token", "draft", "draft_tokens", "draft_weights", "link_latency"),)
"""Options that no control of the page changes."""
GIVEN = ""
COMMON, MIXES, FURTHER = "Common", "Mixes of llama.cpp", "Further formats"


def calculation_of(arguments: argparse.Namespace, scenario: Scenario) -> Calculation:
    """The lists of the page, which begins with `scenario`."""
    from pytest_roofline import __version__
    from pytest_roofline.units import parse_seconds

    catalogue = catalogue_of(arguments)
    formats = _formats(catalogue)
    weights, weights_key = _weights(arguments, scenario, formats, catalogue)
    kv, kv_key = _kv(arguments, scenario, formats, catalogue)
    devices, device_key = _devices(arguments, scenario, catalogue)
    return Calculation(
        arguments=_model_arguments(arguments),
        weights=weights,
        kv=kv,
        devices=devices,
        start=scenario.workload,
        start_keys=(weights_key, kv_key, device_key),
        ranks=scenario.machine.ranks,
        link_latency_s=parsed_option(arguments, "link_latency", parse_seconds) or 0.0,
        version=__version__,
    )


def _model_arguments(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The model, and what no control of the page changes, as they were typed."""
    typed = [] if arguments.model is None else [arguments.model]
    for name in _MODEL_OPTIONS:
        if getattr(arguments, name) is not None:
            typed += [_option(name), getattr(arguments, name)]
    for path in arguments.specs:
        typed += ["--specs", path]
    return tuple(typed)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _formats(catalogue: Catalogue) -> list[Format]:
    """Every format whose bits nobody has to state."""
    from pytest_roofline.specs.formats import read_format

    every = [read_format(*entry, 0) for entry in catalogue.entries("formats")]
    return [found for found in every if found.stated_bits is None]


# -- weights --------------------------------------------------------------------------------------------------------


def _weights(
    arguments: argparse.Namespace, scenario: Scenario, formats: list[Format], catalogue: Catalogue
) -> tuple[list[Weights], str]:
    """The model in every format that can hold it, and the key of the one that was given."""
    given = "" if arguments.weights is None else arguments.weights.strip().lower()
    if given.replace("-", " ") == AS_STORED:
        given = ""
    published = "default" if scenario.architecture is None else "as published"
    made = [_stored(arguments, scenario, Choice(key="", label=published, group=COMMON), catalogue)]
    if made[0].inventory.weights.startswith(AS_STORED):  # its name says it already
        made = [replace(made[0], choice=replace(made[0].choice, label=""))]
    wanted = dict(_weight_choices(formats))
    if given and given not in wanted:
        choice = Choice(key=given, label=given, group=COMMON, arguments=("--weights", arguments.weights))
        made.append(_stored(arguments, scenario, choice, catalogue))
    for choice in wanted.values():
        # Some formats cannot hold some models: those are not offered.
        with suppress(RooflineUsageError):
            made.append(_stored(arguments, scenario, choice, catalogue))
    return made, given


def _weight_choices(formats: list[Format]) -> Iterator[tuple[str, Choice]]:
    """Names of formats by group, each once: what is common, file types of llama.cpp, then the others."""
    from pytest_roofline.gguf_mix import file_types

    words = {found.id: found.name for found in formats if found.for_weights}
    mixes = [name.lower() for name in file_types()]
    seen = set()
    for group, names in ((COMMON, _COMMON_WEIGHTS), (MIXES, mixes), (FURTHER, list(words))):
        for name in names:
            if name not in seen and (name in words or name in mixes):
                seen.add(name)
                yield name, Choice(key=name, label=name, group=group, arguments=("--weights", name))


def _stored(arguments: argparse.Namespace, scenario: Scenario, choice: Choice, catalogue: Catalogue) -> Weights:
    named = argparse.Namespace(**{**vars(arguments), "weights": choice.arguments[1] if choice.arguments else None})
    inventory = inventory_as(named, scenario.architecture, catalogue)
    draft = scenario.workload.draft
    if draft is not None and draft.is_own:
        draft = draft_as(named, scenario.architecture, inventory, catalogue)
    return Weights(choice=choice, inventory=inventory, draft=None if draft is None else draft.inventory)


# -- the KV cache ---------------------------------------------------------------------------------------------------


def _kv(
    arguments: argparse.Namespace, scenario: Scenario, formats: list[Format], catalogue: Catalogue
) -> tuple[list[KvCache], str]:
    """The KV cache in every format; where its bytes were stated, as it is alone."""
    inventory, draft = scenario.workload.inventory, scenario.workload.draft
    if arguments.kv_per_token is not None or scenario.architecture is None:
        only = KvCache(
            choice=Choice(
                key="",
                label="as given" if inventory.caches else "not counted",
                group=COMMON,
                arguments=() if arguments.kv is None else ("--kv", arguments.kv),
            ),
            name=inventory.kv,
            bytes_per_element=inventory.kv_bytes_per_element,
            draft_bytes_per_element=None if draft is None else draft.inventory.kv_bytes_per_element,
        )
        return [only], ""
    plain = argparse.Namespace(**{**vars(arguments), "kv": None})
    inventory = inventory_as(plain, scenario.architecture, catalogue)
    draft = draft_as(plain, scenario.architecture, inventory, catalogue)
    made = [
        KvCache(
            choice=Choice(key="", label="default", group=COMMON),
            name=inventory.kv,
            bytes_per_element=inventory.kv_bytes_per_element,
            draft_bytes_per_element=None if draft is None else draft.inventory.kv_bytes_per_element,
        )
    ]
    given = "" if arguments.kv is None else arguments.kv.strip().lower()
    names = [found.id for found in formats if found.for_kv]
    common = [name for name in _COMMON_KV if name in names]
    for name in dict.fromkeys([given, *common, *names]):
        if name:
            found = kv_named(name, catalogue)
            made.append(
                KvCache(
                    choice=Choice(
                        key=name,
                        label=name,
                        group=COMMON if name in (given, *common) else FURTHER,
                        arguments=("--kv", name),
                    ),
                    name=found.id,
                    bytes_per_element=found.bytes_per_element,
                    draft_bytes_per_element=None if draft is None else found.bytes_per_element,
                )
            )
    return made, given


# -- devices --------------------------------------------------------------------------------------------------------


def _devices(arguments: argparse.Namespace, scenario: Scenario, catalogue: Catalogue) -> tuple[list[Card], str]:
    """Every device of the specs, by vendor, and the one that was given where it is none of them."""
    cards = [
        Card(
            choice=Choice(key=spec.id, label=spec.name, group=spec.vendor or "Others", arguments=("--device", spec.id)),
            machine=machine_with(spec, Given()),
        )
        for spec in catalogue.devices()
    ]
    typed = [(name, getattr(arguments, name)) for name in _FIGURES if getattr(arguments, name) is not None]
    figures = [name for name, _ in typed if name != "device"]
    start = scenario.machine
    if not figures:
        for card in cards:
            if card.machine.name == start.name:
                return cards, card.choice.key
    given = Card(
        choice=Choice(
            key=GIVEN,
            label=f"{start.name}, figures as given" if figures and arguments.device is not None else start.name,
            group="Given",
            arguments=tuple(word for name, value in typed for word in (_option(name), value)),
        ),
        machine=machine_with(
            None if arguments.device is None else catalogue.device(arguments.device), given_figures(arguments)
        ),
    )
    return [given, *cards], GIVEN
