"""Whether two results are of the same device and the same work, or why not. Pure judging of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_roofline.samples import median

_SAME_BYTES = 0.01
_OTHER_BYTES = 0.1
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

    Another batch is other work. Another context is, as the test gave it, where its KV cache is over 1 % of what a pass
    moves; where that is not known, when a pass moves over 10 % more or less. Fewer bytes at the same context are what
    is compared. Where the samples were taken says nothing of the work: how many passes a block had decides that.
    """
    before, after = batch_of(old), batch_of(new)
    if before != after:
        return f"another workload: batch {before:g}, then {after:g}"
    first, second = traffic_of(old, "context"), traffic_of(new, "context")
    if first is None or second is None or first == second:
        return ""
    per_token, whole = traffic_of(new, "kv_bytes_per_token"), traffic_of(new, "bytes_per_pass")
    if per_token is not None and whole:
        is_other = per_token * after * abs(first - second) > _SAME_BYTES * whole
    else:
        former = traffic_of(old, "bytes_per_pass")
        is_other = bool(whole and former) and abs(whole - former) > _OTHER_BYTES * max(whole, former)
    return f"another workload: context {first:g}, then {second:g}" if is_other else ""


def are_samples_apart(old: Record, new: Record) -> bool:
    """Whether the caches of the samples, which grow while they are measured, make over 1 % of a pass between the runs.

    False where the cache's bytes per token are not known.
    """
    shares = [
        median([share_at_start(result, sample["context"]) for sample in result["samples"]])
        for result in (old, new)
        if result["samples"]
    ]
    return len(shares) == 2 and abs(shares[0] - shares[1]) > _SAME_BYTES * max(shares)


def share_at_start(result: Record, context: float | None) -> float:
    """The bytes of a pass at the context that the test gave, over those at this one; 1 where that is not known."""
    start, per_token = traffic_of(result, "context"), traffic_of(result, "kv_bytes_per_token")
    whole = traffic_of(result, "bytes_per_pass")
    if context is None or start is None or per_token is None or not whole:
        return 1.0
    there = whole + per_token * batch_of(result) * (context - start)
    return float(whole / there) if there > 0 else 1.0


def traffic_of(result: Record, key: str) -> Any:
    """A figure of its traffic; None where that is not known."""
    return (result["traffic"] or {}).get(key)


def batch_of(result: Record) -> float:
    """Sequences in a pass; 1 where nobody says."""
    ceiling = result["ceiling"] or {}
    return float(ceiling.get("batch") or traffic_of(result, "batch") or 1)
