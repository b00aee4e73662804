"""What a figure was measured on: the model that a file names or describes, where nobody gives one.

llama-bench tells the size of all tensors, the number of parameters and the type. A model of the library with exactly so
many parameters, which takes so many bytes in that type, has the shape of the one that ran. Else a pass over a dense
model reads all that is stored but the embedding, where that is a table of its own: then the head is another one as
large, so that at least half of the file is read. Of mixtures, and of models with tables in every layer, nothing is
known.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from pytest_roofline.architecture import Architecture
from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.inventory import Inventory, rule_inventory
from pytest_roofline.machine import Machine
from pytest_roofline.predict import inventory_in, kv_named, rule_in
from pytest_roofline.published.reported import Reported
from pytest_roofline.published.roof import Subject
from pytest_roofline.specs.catalogue import Catalogue
from pytest_roofline.specs.models import model_named
from pytest_roofline.units import format_bytes
from pytest_roofline.workload import Workload

SAME_FILE = 0.01
SAME_MIX = 0.03
"""A mix by its rules and one that was made with an importance matrix differ by no more."""
_SAME_PARAMETERS = 1e-5
"""The factors of a rotary embedding are in a file and not in a checkpoint."""
_LEAST_SHARE = 0.5
_DENSE = re.compile(
    r"(llama|qwen2|qwen3|gemma2?|phi2|falcon|starcoder2|gptneox|bloom|mpt|stablelm|internlm2|command-r|cohere2|olmo2?)"
    r" [\d.]+B\b"
)
_MIXTURE = re.compile(r"[\d.]+x[\d.]+B|\bA[\d.]+B\b|\.A[\d.]+B|moe", re.IGNORECASE)


def with_kv_of(inventory: Inventory, reported: Reported, catalogue: Catalogue) -> Inventory:
    """The same with its KV cache in the formats that the file names, keys and values on average."""
    if not reported.kv_formats or inventory.is_rule or not inventory.caches:
        return inventory
    try:
        formats = [kv_named(name, catalogue) for name in reported.kv_formats]
    except RooflineUsageError as error:
        raise RooflineUsageError(f"{reported.where}: {error}") from None
    mean = sum(found.bytes_per_element for found in formats) / len(formats)
    return replace(inventory, kv=" and ".join(dict.fromkeys(found.id for found in formats)), kv_bytes_per_element=mean)


def as_stored(inventory: Inventory, reported: Reported) -> Inventory:
    """The same with the bytes that the file has more or fewer than the count (norms in fp32), tables left alone."""
    stored = reported.stored_bytes
    if stored is None or reported.stored_rounding or inventory.is_rule or inventory.is_mixture:
        return inventory
    more = stored - inventory.total_bytes
    return replace(inventory, dense_bytes=inventory.dense_bytes + more) if abs(more) <= SAME_MIX * stored else inventory


def named_architecture(reported: Reported, catalogue: Catalogue) -> Architecture | None:
    """The model of the library that the file names (with its publisher or without), or None."""
    if not reported.model:
        return None
    for name in (reported.model, reported.model.rstrip("/").rsplit("/", 1)[-1]):
        with suppress(RooflineUsageError):
            return model_named(name, catalogue)
    return None


def recognised_inventory(reported: Reported, kv: str | None, catalogue: Catalogue) -> Inventory | None:
    """The model of the library that has the parameters and the bytes of the file, its KV cache in `kv`; or None."""
    parameters, stored = reported.parameters, reported.stored_bytes
    if parameters is None or stored is None or reported.weights is None:
        return None
    same = max(_SAME_PARAMETERS, 0.01 if reported.stored_rounding else 0.0)
    found: list[Inventory] = []
    for row in catalogue.rows("models"):
        with suppress(RooflineUsageError):
            architecture = model_named(row["id"], catalogue)
            if abs(architecture.parameters / parameters - 1) > same:
                continue
            inventory = inventory_in(architecture, reported.weights, kv, catalogue)
            if abs(inventory.total_bytes / stored - 1) <= max(SAME_FILE, reported.stored_rounding):
                found.append(inventory)
    shapes = {(one.dense_bytes, one.kv_bytes_per_token) for one in found}
    return found[0] if len(shapes) == 1 else None


def described_subject(
    reported: Reported,
    machine: Machine,
    workload: Workload,
    catalogue: Catalogue,
    *,
    weights: str | None = None,
    kv: str | None = None,
) -> Subject:
    """The subject of a row that comes without a MODEL, in the formats that the command line states, if it does.

    RooflineUsageError where its file tells nothing of a model, and with the nearest names for an unknown format. Bytes
    of weights that the file tells stay as they are: a stated format with others is a conflict.
    """
    architecture = named_architecture(reported, catalogue)
    if architecture is not None:
        stated = weights or reported.weights
        named = inventory_in(architecture, stated, kv, catalogue)
        if kv is None:
            named = with_kv_of(named, reported, catalogue)
        remark = f"the file names {named.model}: taken from the library, weights {named.weights}"
        remark += " (not stated: give --weights)" if stated is None else " (--weights)" if weights is not None else ""
        found = _known(named, machine, workload, remark)
        return replace(found, is_format_assumed=stated is None, conflict=conflict_of(reported, named, is_file=False))
    inventory = recognised_inventory(reported, kv, catalogue)
    if inventory is not None:
        inventory = inventory if kv is not None else with_kv_of(inventory, reported, catalogue)
        inventory = as_stored(inventory, reported)
        remark = f"recognised as {inventory.model} by its {reported.parameters:,.0f} parameters"
        known = _known(inventory, machine, workload, remark)
        if weights is None:
            return known
        asked = inventory_in(model_named(inventory.model, catalogue), weights, kv, catalogue)
        return replace(known, conflict=conflict_of(reported, asked, is_file=False))
    if reported.stored_bytes is None:
        raise RooflineUsageError(
            f"{reported.where}: which model? the file does not tell enough of it: give MODEL (a spec's name, a "
            "config.json, a GGUF or safetensors file)"
        )
    rule_in(  # refuses an unknown format
        1.0, active_parameters=None, kv_bytes_per_token=0.0, weights=weights, kv=kv, catalogue=catalogue
    )
    subject = _stored(reported, machine, workload)
    unused = [f"{option} {one_line(name, 30)}" for option, name in (("--weights", weights), ("--kv", kv)) if name]
    if not unused:
        return subject
    remark = f"{' and '.join(unused)}: not used without a MODEL; the bytes are those of the file"
    return replace(subject, remarks=(*subject.remarks, remark))


def _known(inventory: Inventory, machine: Machine, workload: Workload, remark: str) -> Subject:
    return Subject(machine=machine, workload=replace(workload, inventory=inventory), least=inventory, remarks=(remark,))


def _stored(reported: Reported, machine: Machine, workload: Workload) -> Subject:
    """Between half of the stored bytes and all of them; no KV cache is known."""
    words = reported.model_type or ""
    stored, parameters = reported.stored_bytes or 0.0, reported.parameters or reported.stored_bytes or 0.0
    is_dense = _DENSE.match(words) is not None and _MIXTURE.search(words) is None
    model = one_line(words, 60) or "a model of unknown type"

    def so_many(share: float) -> Inventory:
        inventory = rule_inventory(
            parameters * share,
            bytes_per_parameter=stored / parameters,
            weights=reported.weights or "as stored",
            kv="not known",
        )
        return replace(inventory, model=model, source=f"{format_bytes(stored)} of tensors, by {reported.where}")

    if not is_dense:
        return Subject(
            machine=machine,
            workload=replace(workload, inventory=so_many(1.0)),
            # Something of it is read; a thousandth bounds nothing that could be believed.
            least=so_many(1e-3),
            is_most_known=False,
            missing=(f"MODEL: how much of {format_bytes(stored)} a pass of {model} reads is not known",),
        )
    missing: tuple[str, ...] = ()
    if reported.depth:
        missing = ("MODEL: the KV cache at this depth is not known",)
    return Subject(
        machine=machine,
        workload=replace(workload, inventory=so_many(1.0)),
        least=so_many(_LEAST_SHARE * (1 - reported.stored_rounding)),
        is_most_known=not missing,
        missing=missing,
        remarks=(
            f"the embedding is a part of {format_bytes(stored)} that a pass does not read; its size is not known: "
            "give the GGUF file as MODEL",
        ),
    )


def conflict_of(reported: Reported, inventory: Inventory, *, is_file: bool) -> str | None:
    """Why MODEL cannot be the model that ran, or None."""
    stored = reported.stored_bytes
    if stored is None or inventory.is_rule:
        return None
    tolerance = max(SAME_FILE if is_file else SAME_MIX, reported.stored_rounding)
    if abs(inventory.total_bytes / stored - 1) <= tolerance:
        return None
    return (
        f"the file was measured with a model of {format_bytes(stored)}"
        + (f" ({one_line(reported.model_type, 60)})" if reported.model_type else "")
        + f"; {inventory.model} in {inventory.weights} has {format_bytes(inventory.total_bytes)}"
    )
