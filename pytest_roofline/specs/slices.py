"""MIG slices of a card: memory bandwidth follows the slices of memory, arithmetic those of compute.

Source: NVIDIA Multi-Instance GPU User Guide, "Supported MIG Profiles" and "Partitioning": memory is cut in eighths (in
quarters on A30 and RTX PRO 6000), compute in sevenths (quarters). A 1g has one slice of memory or two, a 2g two, a 3g
and a 4g four, a 7g all of them; where compute is cut in quarters, both follow the same number.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pytest_roofline.device import Spec
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.units import format_bytes

_SLICE_NAME = re.compile(r"(?P<card>.*\S)\s+MIG\s+(?P<profile>\S+)", re.IGNORECASE)
_LONGEST_NAME = 100
# As people write it: ``h100-sxm 1g.10gb``, ``h100-sxm:mig-1g.10gb``.
_SHORT_NAME = re.compile(
    r"(?P<card>.*?[^\s:-])[\s:-]{1,3}(MIG[\s:-])?(?P<profile>[1-7]g\.[0-9]{1,4}gb\S*)", re.IGNORECASE
)
# The tail names what a slice has besides (media engines, graphics); it takes no bandwidth.
_PROFILE = re.compile(r"(?P<compute>[1-7])g\.(?P<gigabytes>[0-9]{1,4})gb([+-][a-z.]{1,12})*", re.IGNORECASE)
_MEMORY_SLICES: dict[int, dict[int, tuple[int, ...]]] = {
    8: {1: (1, 2), 2: (2,), 3: (4,), 4: (4,), 7: (8,)},
    4: {1: (1,), 2: (2,), 4: (4,)},
}
"""By slices of memory of the card, then by slices of compute: the slices of memory that a profile may have."""
_COMPUTE_SLICES = {8: 7, 4: 4}
# A profile's name is rounded, and from the memory that the driver leaves: 1g.23gb of 180 GB, 7g.269gb of 288 GB.
_TOLERANCE = 0.10


def split_slice_name(name: str) -> tuple[str, str | None]:
    """The card and the profile in ``CARD MIG 1g.10gb`` or ``CARD 1g.10gb``; no profile in any other name."""
    found = _SLICE_NAME.fullmatch(name.strip())
    if found is None and len(name) <= _LONGEST_NAME:
        found = _SHORT_NAME.fullmatch(name.strip())
    return (found["card"], found["profile"]) if found else (name, None)


def mig_share(name: str, spec: Spec) -> float:
    """The fraction of a card's memory, hence of its memory bandwidth and cache, that a MIG slice has.

    `name` is a driver's ("NVIDIA A100-SXM4-80GB MIG 1g.10gb") or the profile alone ("1g.10gb"). Raises
    RooflineUsageError for a card that has no slices and for a profile that is none of this card's.
    """
    memory, slices, _ = _profile(name, spec)
    return memory / slices


def slice_of(spec: Spec, profile: str) -> Spec:
    """A card's slice as a card of its own: memory, bandwidth and cache by its share of memory, peaks by its share of
    compute. NVLink does not reach into a slice; the link to the host is shared, and stays. Errors as in `mig_share`.
    """
    memory, slices, compute = _profile(profile, spec)
    share, compute_share = memory / slices, compute / _COMPUTE_SLICES[slices]
    words = f"{memory} of {slices} memory slices, NVIDIA Multi-Instance GPU User Guide"
    peak_words = f"{compute} of {_COMPUTE_SLICES[slices]} compute slices, NVIDIA Multi-Instance GPU User Guide"
    sources = {
        key: f"{text}; {peak_words if 'peak' in key or key == 'compute_units' else words}"
        for key, text in spec.sources.items()
        if key not in ("link_bidirectional_bytes_per_s", "mig.memory_slices")
    }
    if "host_link_bytes_per_s" in sources:
        sources["host_link_bytes_per_s"] = spec.sources["host_link_bytes_per_s"]
    cache, units = spec.last_level_cache_bytes, spec.compute_units
    return replace(
        spec,
        name=f"{spec.name}, MIG {profile}",
        aliases=(),
        device_names=tuple(f"{name} MIG {profile}" for name in spec.device_names),
        memory_bytes=spec.memory_bytes * share,
        bandwidth_bytes_per_s=spec.bandwidth_bytes_per_s * share,
        last_level_cache_bytes=None if cache is None else cache * share,
        dense_peak_flops_per_s={key: peak * compute_share for key, peak in spec.dense_peak_flops_per_s.items()},
        sparse_peak_flops_per_s={key: peak * compute_share for key, peak in spec.sparse_peak_flops_per_s.items()},
        link_bidirectional_bytes_per_s=None,
        compute_units=None if units is None else units * compute_share,
        mig_memory_slices=None,
        source=f"{spec.source}; {words}",
        sources=sources,
    )


def _profile(name: str, spec: Spec) -> tuple[int, int, int]:
    """Slices of memory of a profile, those of the whole card, and the profile's slices of compute."""
    profile = split_slice_name(name)[1] or name.strip()
    slices = spec.mig_memory_slices
    if slices is None:
        raise RooflineUsageError(f"{spec.name} has no MIG slices in its spec, and {profile[:40]!r} is one")
    found = _PROFILE.fullmatch(profile)
    choices: tuple[int, ...] = _MEMORY_SLICES[slices].get(int(found["compute"]), ()) if found else ()
    if found:
        for memory in choices:
            size_bytes = spec.memory_bytes * memory / slices
            if abs(float(found["gigabytes"]) * 1e9 / size_bytes - 1) <= _TOLERANCE:
                return memory, slices, int(found["compute"])
    sizes = " or ".join(format_bytes(spec.memory_bytes * memory / slices) for memory in choices)
    known = ", ".join(f"{compute}g" for compute in _MEMORY_SLICES[slices])
    raise RooflineUsageError(
        f"{profile[:40]!r} is no MIG profile of {spec.name} ({format_bytes(spec.memory_bytes)}): "
        + (f"{found['compute']}g has {sizes}" if found and sizes else f"write one of {known} with its memory: 1g.10gb")
    )
