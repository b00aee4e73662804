"""From what a user has in hand (names, files, figures) to the records that `prediction` divides.

A model is a name of the catalogue, a ``config.json`` or a folder, a GGUF or safetensors file, or ``org/name`` on the
hub. Weights are stored as the file or the checkpoint says unless a format is named; the KV cache in 16 bits. Readers
are imported when they are needed: a prediction by name reads no file but specs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from pytest_roofline.architecture import Architecture, Storage, Weight
from pytest_roofline.device import Spec
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.formats import Format, Plan
from pytest_roofline.inventory import Inventory, inventory_of, own_draft, rule_inventory
from pytest_roofline.machine import Machine
from pytest_roofline.specs.catalogue import Catalogue
from pytest_roofline.specs.formats import format_named
from pytest_roofline.units import format_bytes_per_s

AS_STORED = "as stored"
PLAIN = "bf16"
OWN_DRAFT = "mtp"
# What frameworks call devices, whatever card it is.
_FRAMEWORK_DEVICES = ("cpu", "gpu", "cuda", "mps", "xpu")
# GGUF file types that are plain formats as well: then what is meant is the format, norms and all.
_PLAIN = ("f32", "f16", "bf16")
_FILE_SUFFIXES = (".json", ".gguf", ".safetensors")
_HUB_NAME = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}(?P<file>:[\w./ +-]{1,200})?", re.ASCII)
# What people turn to when a model does not fit, the largest first.
_SMALLER = ("fp8", "q4_k_m", "int4-g128")
_MIX_EXAMPLE = "llama-3.1-8b"
"""The model whose average a mix of formats is taken from when there are no tensors to mix."""


# -- devices --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Figures from the user's own hand, each in place of the named device's; None where nothing was given."""

    bandwidth_bytes_per_s: float | None = None
    peak_flops_per_s: float | None = None
    memory_bytes: float | None = None
    link_bytes_per_s: float | None = None
    link_latency_s: float = 0.0
    spill_bytes_per_s: float | None = None
    ranks: int = 1


def machine_of(device: str | None, given: Given, catalogue: Catalogue) -> Machine:
    """The named device with the given figures in place of its own; without a name, the given ones alone.

    Raises RooflineUsageError where neither gives a bandwidth, and with the nearest names for an unknown device.
    """
    return machine_with(None if device is None else _spec_of(device, catalogue), given)


def machine_with(spec: Spec | None, given: Given) -> Machine:
    """As `machine_of`, of a card that is at hand."""
    bandwidth, bandwidth_source = _figure(
        given.bandwidth_bytes_per_s, "--bandwidth", spec, "bandwidth_bytes_per_s", spec.source if spec else None
    )
    if bandwidth is None:
        raise RooflineUsageError("which device? give --device NAME, or its figures: --bandwidth 3.35TB/s [--peak ...]")
    memory, memory_source = _figure(given.memory_bytes, "--memory", spec, "memory_bytes")
    most_memory = None if given.memory_bytes is not None or spec is None else _most_memory_bytes(spec)
    # A sheet prints what a link carries both ways together; an all-reduce sends and receives at the same time.
    both_ways = spec.link_bidirectional_bytes_per_s if spec else None
    link, link_source = _figure(given.link_bytes_per_s, "--link", spec, "link_bidirectional_bytes_per_s")
    if given.link_bytes_per_s is None and both_ways is not None:
        link, link_source = both_ways / 2, f"{link_source}; one direction, half of the printed figure"
    spill, spill_source = _figure(given.spill_bytes_per_s, "--spill-bandwidth", spec, "host_link_bytes_per_s")
    name = spec.name if spec else f"a device of {format_bytes_per_s(bandwidth)}"
    return Machine(
        name=name,
        bandwidth_bytes_per_s=bandwidth,
        bandwidth_source=bandwidth_source or name,
        peak_flops_per_s=spec.dense_peak_flops_per_s if spec else {},
        peak_sources={
            dtype: spec.sources.get(f"dense_peak_flops_per_s.{dtype}", spec.source)
            for dtype in spec.dense_peak_flops_per_s
        }
        if spec
        else {},
        given_peak_flops_per_s=given.peak_flops_per_s,
        memory_bytes=memory,
        memory_source=memory_source,
        most_memory_bytes=most_memory,
        is_unified_memory=spec.is_unified_memory if spec else False,
        ranks=given.ranks,
        link_bytes_per_s=link,
        link_source=link_source,
        link_latency_s=given.link_latency_s,
        spill_bytes_per_s=spill,
        spill_source=spill_source,
    )


def _spec_of(device: str, catalogue: Catalogue) -> Spec:
    try:
        return catalogue.device(device)
    except RooflineUsageError as error:
        if device.strip().lower().partition(":")[0] not in _FRAMEWORK_DEVICES:
            raise
        raise RooflineUsageError(
            f"--device {device.strip()}: no data sheet says how fast this machine's memory is\n"
            "Measure it with `roofline probe`, and give what that prints: --bandwidth 51.2GB/s [--memory 32GB]\n"
            f"(As the name of a card: {error})"
        ) from error


def _most_memory_bytes(spec: Spec) -> float | None:
    """A card's GB read as GiB, as drivers report them; None where the figure is not one of whole GB or is shared."""
    whole_gb, rest = divmod(spec.memory_bytes, 1e9)
    return None if rest or spec.is_unified_memory else whole_gb * 2**30


def _figure(
    given: float | None, option: str, spec: Spec | None, key: str, source: str | None = None
) -> tuple[float | None, str | None]:
    """A figure and where it comes from: the option if there is one, else the spec."""
    if given is not None:
        return given, f"given: {option}" + ("" if spec is None else f", in place of the figure of {spec.name}")
    value = None if spec is None else getattr(spec, key)
    if spec is None or value is None:
        return None, None
    return value, source or spec.sources.get(key, spec.source)


# -- models ---------------------------------------------------------------------------------------------------------


def architecture_of(model: str, catalogue: Catalogue, *, has_caches: bool = True) -> Architecture:
    """A model by a name of the catalogue, by file or folder, or by ``org/name`` (``org/name:file.gguf``) on the hub.

    A name of the catalogue goes before a folder of the same name (``./name`` is the folder), and a file before the
    hub. Without `has_caches` a file need not tell what its layers keep per token: somebody else does. Raises
    RooflineUsageError with the nearest names for what is none of them.
    """
    # Of os.path, because it takes a name that no file can have for one that is not there.
    path = os.path.expanduser(model)
    on_hub = _HUB_NAME.fullmatch(model)
    if on_hub is not None and on_hub["file"] and not os.path.exists(path):
        return _architecture_on_hub(model, has_caches)
    if model.endswith(_FILE_SUFFIXES) or model.startswith((".", "/", "~")):
        return _architecture_of_path(path, has_caches)
    from pytest_roofline.specs.models import model_named

    try:
        return model_named(model, catalogue)
    except RooflineUsageError:
        if os.path.exists(path):
            return _architecture_of_path(path, has_caches)
        if on_hub is None:
            raise
    return _architecture_on_hub(model, has_caches)


def _architecture_on_hub(model: str, has_caches: bool) -> Architecture:
    from pytest_roofline.readers.hub import read_hub

    return read_hub(model, caches=None if has_caches else ())


def _architecture_of_path(path: str, has_caches: bool) -> Architecture:
    if not os.path.lexists(path):  # a link that leads nowhere is said by the reader
        raise RooflineUsageError(
            f"{path[:256]}: no such file or folder; a config.json, a folder with one, a .gguf or .safetensors file is "
            "needed"
        )
    from pytest_roofline.readers.checkpoint import read_model

    return read_model(path, caches=None if has_caches else ())


# -- formats --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAs:
    """How the weights are stored: a plan, its name, and what products of them run in."""

    plan: Plan
    name: str
    compute_dtype: str


def inventory_in(architecture: Architecture, weights: str | None, kv: str | None, catalogue: Catalogue) -> Inventory:
    """The model with its weights and its KV cache in these formats; None: as its checkpoint says, and 16 bits."""
    stored = stored_as(architecture, weights, catalogue)
    declared_kv = architecture.storage.kv_format if architecture.storage is not None else None
    kv_format = kv_named(kv or declared_kv or PLAIN, catalogue)
    return inventory_of(
        architecture,
        stored.plan,
        weights=stored.name,
        kv=kv_format.id,
        kv_bytes_per_element=kv_format.bytes_per_element,
        compute_dtype=stored.compute_dtype,
    )


def own_draft_in(
    architecture: Architecture, inventory: Inventory, weights: str | None, catalogue: Catalogue
) -> Inventory:
    """The model's multi-token-prediction layers, stored as the model itself."""
    return own_draft(architecture, stored_as(architecture, weights, catalogue).plan, inventory)


def kv_named(name: str, catalogue: Catalogue) -> Format:
    """A format of KV caches by name. Raises RooflineUsageError that offers formats of KV caches alone."""
    try:
        found = format_named(name, catalogue)
    except RooflineUsageError as error:
        raise RooflineUsageError(f"{name!r:.60} is no format of a KV cache; {_kv_formats(catalogue)}") from error
    if not found.for_kv:
        raise RooflineUsageError(
            f"format {found.id!r} is for weights; no engine is known that keeps a KV cache in it; "
            f"{_kv_formats(catalogue)}"
        )
    return found


def _kv_formats(catalogue: Catalogue) -> str:
    from pytest_roofline.specs.formats import read_format

    every = [read_format(*entry, 0) for entry in catalogue.entries("formats")]
    return f"there are {', '.join(found.id for found in every if found.for_kv and found.stated_bits is None)}"


def stored_as(architecture: Architecture, weights: str | None, catalogue: Catalogue) -> StoredAs:
    """How the weights are stored: in a format or a GGUF mix by name, as the file has them, as the checkpoint says."""
    if weights is not None and weights.strip().lower().replace("-", " ") != AS_STORED:
        return _named(weights, architecture, catalogue)
    if all(weight.stored_bytes is not None for weight in architecture.weights):
        return _as_stored(architecture, catalogue)
    if weights is not None:
        raise RooflineUsageError(f"{architecture.name}: {architecture.source} does not say how tensors are stored")
    if architecture.storage is None:
        return _in_format(format_named(architecture.dtype, catalogue))
    return _as_declared(architecture, architecture.storage, catalogue)


def _named(weights: str, architecture: Architecture, catalogue: Catalogue) -> StoredAs:
    from pytest_roofline.gguf_mix import COMPUTE_DTYPE, is_file_type, near_file_types, read_mix

    if is_file_type(weights) and re.sub(r"[\s_-]", "", weights).lower() not in _PLAIN:
        # Converters leave the layers that only draft out: the rules of a mix go by the others.
        drafting = set(map(id, architecture.prediction_weights))
        decoding = tuple(weight for weight in architecture.weights if id(weight) not in drafting)
        mix = read_mix(weights, replace(architecture, weights=decoding))
        return StoredAs(plan=mix.weight_bytes, name=mix.file_type.lower(), compute_dtype=COMPUTE_DTYPE)
    try:
        return _in_format(weights_named(weights, catalogue))
    except RooflineUsageError as error:
        near = ", ".join(near_file_types(weights))
        raise RooflineUsageError(
            f"{error}\nOf llama.cpp's file types, nearest: {near}" if near else str(error)
        ) from error


def weights_named(name: str, catalogue: Catalogue) -> Format:
    """A format of weights by name."""
    found = format_named(name, catalogue)
    if not found.for_weights:
        raise RooflineUsageError(f"format {found.id!r} is for KV caches, not for weights")
    return found


def _in_format(found: Format) -> StoredAs:
    return StoredAs(plan=found.weight_bytes, name=found.id, compute_dtype=found.compute_dtype)


def _as_stored(architecture: Architecture, catalogue: Catalogue) -> StoredAs:
    """Every tensor at its size in the file; what most of it is stored in gives the name and the arithmetic."""
    sizes: dict[str, int] = {}
    for weight in architecture.weights:
        if weight.use in ("matrix", "routed") and weight.stored_format is not None:
            sizes[weight.stored_format] = sizes.get(weight.stored_format, 0) + weight.elements
    most = max(sizes, key=lambda name: sizes[name], default=architecture.dtype)
    return StoredAs(
        plan=lambda weight: float(weight.stored_bytes or 0),
        name=f"{AS_STORED} ({most})",
        compute_dtype=format_named(most, catalogue).compute_dtype,
    )


def _as_declared(architecture: Architecture, storage: Storage, catalogue: Catalogue) -> StoredAs:
    """As the checkpoint's own quantization_config says: a format, and modules that stay in the plain dtype."""
    from pytest_roofline.readers.quantization import divide

    quantized = weights_named(storage.format, catalogue)
    plain = format_named(architecture.dtype, catalogue)

    def plan(weight: Weight) -> float:
        stored, kept = divide(storage, weight)
        return (quantized.weight_bytes(stored) if stored else 0.0) + (plain.weight_bytes(kept) if kept else 0.0)

    return StoredAs(plan=plan, name=quantized.id, compute_dtype=quantized.compute_dtype)


def smaller_inventories(
    architecture: Architecture, inventory: Inventory, kv: str | None, catalogue: Catalogue
) -> Iterator[Inventory]:
    """The model in the formats that people turn to when it does not fit, as far as they are smaller."""
    for name in _SMALLER:
        # A format that cannot hold this model is no advice, and no reason to fail.
        with suppress(RooflineUsageError):
            other = inventory_in(architecture, name, kv, catalogue)
            if other.total_bytes < inventory.total_bytes:
                yield other


# -- the rule of thumb ----------------------------------------------------------------------------------------------


def rule_in(
    parameters: float,
    *,
    active_parameters: float | None,
    kv_bytes_per_token: float,
    weights: str | None,
    kv: str | None,
    catalogue: Catalogue,
) -> Inventory:
    """So many parameters in a format: no tables, no head, no layers. A mix counts with its average over one model."""
    kv_format = kv_named(kv or PLAIN, catalogue)
    notes: tuple[str, ...] = ()
    try:
        found = weights_named(weights or PLAIN, catalogue)
        bytes_per_parameter, name, dtype = found.bytes_per_element, found.id, found.compute_dtype
    except RooflineUsageError:
        from pytest_roofline.gguf_mix import is_file_type

        if weights is None or not is_file_type(weights):
            raise
        mixed = mixed_example(weights, catalogue)
        bytes_per_parameter, name, dtype = mixed.total_bytes / mixed.parameters, mixed.weights, mixed.compute_dtype
        notes = (
            f"{name} is a mix of formats by tensor: its average over {mixed.model}, "
            f"{8 * bytes_per_parameter:.2f} bits per parameter, is taken",
        )
    return rule_inventory(
        parameters,
        active_parameters=active_parameters,
        kv_bytes_per_token=kv_bytes_per_token,
        bytes_per_parameter=bytes_per_parameter,
        weights=name,
        kv=kv_format.id,
        compute_dtype=dtype,
        notes=notes,
    )


def mixed_example(file_type: str, catalogue: Catalogue) -> Inventory:
    """The model that stands for all where a mix of formats has no tensors to mix, as a file of this type."""
    from pytest_roofline.specs.models import model_named

    return inventory_in(model_named(_MIX_EXAMPLE, catalogue), file_type, None, catalogue)


def smaller_rules(inventory: Inventory, catalogue: Catalogue) -> Iterator[Inventory]:
    """As `smaller_inventories`, by the rule of thumb."""
    kv_bytes_per_token = inventory.kv_bytes_per_token
    for name in _SMALLER:
        with suppress(RooflineUsageError):
            other = rule_in(
                inventory.parameters,
                active_parameters=inventory.active_parameters,
                kv_bytes_per_token=kv_bytes_per_token,
                weights=name,
                kv=inventory.kv,
                catalogue=catalogue,
            )
            if other.total_bytes < inventory.total_bytes:
                yield other
