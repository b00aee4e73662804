"""Whether two results are of the same device and the same work, or why not. Pure judging of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_roofline.samples import median

_SAME_CONTEXT = 0.1
_SAME_BYTES = 0.01
Record = Mapping[str, Any]


def other_device(old: Record, new: Record) -> str:
    """Why two records are not of the same device; empty where they are, as far as anybody can tell.

    The same name, and the same uuid, else the same data sheet; a device without either has to agree in its units.
    """
    if old["name"] != new["name"]:
        return f"another device: {old['name']}, then {new['name']}"
    if old["mig"] != new["mig"]:
        return f"another slice of {new['name']}: {old['mig'] or 'all of it'}, then {new['mig'] or 'all of it'}"
    if old["uuid"] is not None and old["uuid"] == new["uuid"]:
        return ""
    if old["spec"] != new["spec"]:
        return f"another card of the name {new['name']}: {old['spec'] or 'no sheet'}, then {new['spec'] or 'no sheet'}"
    if old["spec"] is not None:
        return ""
    if old["uuid"] is not None and new["uuid"] is not None:
        return f"another {new['name']}: {old['uuid']}, then {new['uuid']}, and no data sheet says that they are alike"
    if old["compute_units"] != new["compute_units"]:
        return f"another {new['name']}: {_units(old)}, then {_units(new)}"
    return ""


def _units(device: Record) -> str:
    return "an unknown number of cores or units" if device["compute_units"] is None else f"{device['compute_units']:g}"


def other_work(old: Record, new: Record) -> str:
    """Why two results are not of the same work; empty where they are.

    Another batch is other work. Another context is, where its KV cache is over 1 % of what a pass moves; where that is
    not known, when it is over 10 % longer. Fewer bytes for the same tokens are what is compared.
    """
    before, after = batch_of(old), batch_of(new)
    if before != after:
        return f"another workload: batch {before:g}, then {after:g}"
    first, second = _context(old), _context(new)
    if first is None or second is None:
        return ""
    grown = abs(first - second)
    per_token, whole = traffic_of(new, "kv_bytes_per_token"), traffic_of(new, "bytes_per_pass")
    is_other = (
        per_token * after * grown > _SAME_BYTES * whole
        if per_token is not None and whole
        else grown > _SAME_CONTEXT * max(first, second)
    )
    return f"another workload: context {first:g}, then {second:g}" if is_other else ""


def _context(result: Record) -> float | None:
    """Where its samples were taken: a cache grows while it is measured."""
    contexts = [sample["context"] for sample in result["samples"] if sample["context"] is not None]
    return median(contexts) if contexts else traffic_of(result, "context")


def traffic_of(result: Record, key: str) -> Any:
    """A figure of its traffic; None where that is not known."""
    return (result["traffic"] or {}).get(key)


def batch_of(result: Record) -> float:
    """Sequences in a pass; 1 where nobody says."""
    ceiling = result["ceiling"] or {}
    return float(ceiling.get("batch") or traffic_of(result, "batch") or 1)
