"""The library of number formats: what weights and KV caches are stored in, figures from the format's own source.

An entry of a file's ``formats`` list::

    - id: int4-g128
      name: 4-bit integers, a scale and a zero per 128
      aliases: [gptq, awq]
      for: [weights]
      payload_bits: {value: 4, source: gptq}
      overheads:
        - {bits: {value: 20, source: gptq}, per: group, elements: 128}
      kept_parts: [head, embedding, router]
      vector_bytes: {value: 2, source: gptq}
      compute_dtype: bfloat16

In place of ``payload_bits`` alone there may be ``block: {elements: 256, bytes: {value: 144, source: ggml}}``, for
formats that come in whole blocks (what a block holds beside ``payload_bits``, where that is given, is overhead), or
``stated_bits: {least: ..., most: ...}`` for those whose bits a user states (``exl2-4.65bpw``). ``part_bits`` gives
parts a payload of their own.
No name may stand for two formats.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any, cast

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.formats import SCOPES, Format, Overhead, Scope
from pytest_roofline.specs.catalogue import Catalogue
from pytest_roofline.specs.document import Reader, kind_of

_KEYS = frozenset(
    {
        *("id", "name", "aliases", "for", "payload_bits", "block", "stated_bits"),
        *("overheads", "kept_parts", "part_bits", "vector_bytes", "compute_dtype"),
    }
)
_USES = ("weights", "kv")
_PARTS = frozenset(
    {
        *("attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "ffn_gate_up"),
        *("embedding", "head", "router", "conv", "state", "vision", "other"),
    }
)
_DTYPES = frozenset({"float64", "float32", "bfloat16", "float16", "float8", "float4", "int8", "int4"})
_ID = re.compile(r"[a-z0-9]+([-_.#][a-z0-9]+)*")
_STATED = re.compile(r"(?:(?P<family>[a-z][a-z0-9]*)[\s_-]+)?(?P<bits>\d+(?:\.\d+)?)(?P<unit>[\s_-]?bpw)?", re.ASCII)
# The family of a format of which nothing is known but its average: ``4.65bpw``.
_ANY_FAMILY = "bpw"


def format_named(name: str, catalogue: Catalogue | None = None) -> Format:
    """One format by id, alias or full name, whatever its case, spaces, hyphens and underscores.

    ``exl2-4.65bpw``, ``exl3-3.0`` and ``4.65bpw`` state their bits. Raises RooflineUsageError with the nearest names
    for an unknown one, and for bits that are missing or that the format cannot have.
    """
    library = Catalogue() if catalogue is None else catalogue
    stated = _STATED.fullmatch(name.strip().lower())
    if stated is not None and (stated["unit"] or "." in stated["bits"]):
        made = _with_bits(library, name, stated)
        if made is not None:
            return made
    try:
        found = read_format(*library.raw("formats", name), 0)
    except RooflineUsageError:
        made = None if stated is None else _with_bits(library, name, stated)
        if made is None:
            raise
        return made
    if found.stated_bits is not None:
        example = _stated_id(found, "4.65")
        raise RooflineUsageError(f"format {found.id!r} has no number of bits of its own: state them, as in {example}")
    return found


def _with_bits(library: Catalogue, name: str, stated: re.Match[str]) -> Format | None:
    """The format that ``FAMILY-BITSbpw`` states; None where there is no family whose bits are stated."""
    if not (stated["family"] or stated["unit"]):
        return None
    try:
        family = read_format(*library.raw("formats", stated["family"] or _ANY_FAMILY), 0)
    except RooflineUsageError:
        return None
    if family.stated_bits is None:
        return None
    bits = float(stated["bits"])
    least, most = family.stated_bits
    if not least <= bits <= most:
        raise RooflineUsageError(
            f"{name!r:.60}: {bits:g} bits per weight cannot be; {family.id} has {least:g} to {most:g}"
        )
    return dataclasses.replace(
        family,
        id=_stated_id(family, f"{bits:g}"),
        name=f"{family.name}, {bits:g} bits per weight as stated",
        aliases=(),
        payload_bits=bits,
        stated_bits=None,
    )


def _stated_id(family: Format, bits: str) -> str:
    return f"{bits}bpw" if family.id == _ANY_FAMILY else f"{family.id}-{bits}bpw"


def read_format(reader: Reader, value: Any, position: int) -> Format:
    """One entry of a ``formats`` list. Raises RooflineUsageError with file and key."""
    raw_id = value.get("id") if isinstance(value, dict) else None
    key = f"formats.{raw_id}" if isinstance(raw_id, str) else f"formats[{position}]"
    entry = reader.known(value, key, _KEYS)
    for name in ("id", "name", "for"):
        if name not in entry:
            raise reader.fail(f"{key}.{name}", "missing")
    format_id = reader.text(entry["id"], f"{key}.id")
    if not _ID.fullmatch(format_id):
        raise reader.fail(f"{key}.id", f"{format_id!r}: lower-case words joined by - or _ are needed")
    sources: list[str] = []
    payload, overheads, stated = _payload(reader, entry, key, sources)
    vector_bytes = 2.0
    if "vector_bytes" in entry:
        vector_bytes = _figure(reader, entry["vector_bytes"], f"{key}.vector_bytes", sources)
    part_bits = tuple(
        (part, _figure(reader, figure, f"{key}.part_bits.{part}", sources))
        for part, figure in reader.known(entry.get("part_bits", {}), f"{key}.part_bits", _PARTS).items()
    )
    uses = _words(reader, entry["for"], f"{key}.for", _USES)
    (dtype,) = _words(reader, [entry.get("compute_dtype", "bfloat16")], f"{key}.compute_dtype", _DTYPES)
    overheads.extend(
        _overhead(reader, item, f"{key}.overheads[{index}]", sources)
        for index, item in enumerate(_list(reader, entry.get("overheads", []), f"{key}.overheads"))
    )
    try:
        return Format(
            id=format_id,
            name=reader.text(entry["name"], f"{key}.name"),
            aliases=reader.texts(entry.get("aliases", []), f"{key}.aliases"),
            payload_bits=payload,
            overheads=tuple(overheads),
            vector_bytes=vector_bytes,
            kept_parts=_words(reader, entry.get("kept_parts", []), f"{key}.kept_parts", _PARTS),
            part_bits=part_bits,
            stated_bits=stated,
            compute_dtype=dtype,
            for_weights="weights" in uses,
            for_kv="kv" in uses,
            source=sources[0],
            sources=tuple(dict.fromkeys(sources)),
        )
    except RooflineUsageError as error:
        if str(error).startswith(str(reader.file)):
            raise
        raise reader.fail(key, str(error)) from error


def _payload(
    reader: Reader, entry: dict[str, Any], key: str, sources: list[str]
) -> tuple[float, list[Overhead], tuple[float, float] | None]:
    """Bits per element, what comes on top by whole blocks, and the range where a user states them."""
    given = [name for name in ("payload_bits", "block", "stated_bits") if name in entry]
    if not given or ("stated_bits" in given and len(given) > 1):
        raise reader.fail(f"{key}.payload_bits", "missing: payload_bits, a block, or stated_bits alone is needed")
    if "stated_bits" in entry:
        limits = reader.known(entry["stated_bits"], f"{key}.stated_bits", ("least", "most"))
        least, most = (
            _figure(reader, limits.get(name), f"{key}.stated_bits.{name}", sources) for name in ("least", "most")
        )
        return least, [], (least, most)
    payload = None
    if "payload_bits" in entry:
        payload = _figure(reader, entry["payload_bits"], f"{key}.payload_bits", sources)
        if "block" not in entry:
            return payload, [], None
    block = reader.known(entry["block"], f"{key}.block", ("elements", "bytes"))
    elements = _count(reader, block.get("elements"), f"{key}.block.elements")
    block_bits = 8 * _figure(reader, block.get("bytes"), f"{key}.block.bytes", sources)
    if payload is None:
        return block_bits / elements, [], None
    extra = block_bits - payload * elements
    if extra < 0:
        raise reader.fail(f"{key}.block.bytes", f"{block_bits:g} bits: {elements} elements of {payload:g} are more")
    return payload, [Overhead(bits=extra, per="group", elements=elements)] if extra else [], None


def _overhead(reader: Reader, value: Any, key: str, sources: list[str]) -> Overhead:
    item = reader.known(value, key, ("bits", "per", "elements"))
    bits = _figure(reader, item.get("bits"), f"{key}.bits", sources)
    (scope,) = _words(reader, [item.get("per")], f"{key}.per", SCOPES)
    elements = _count(reader, item["elements"], f"{key}.elements") if "elements" in item else None
    try:
        return Overhead(bits=bits, per=cast(Scope, scope), elements=elements)
    except RooflineUsageError as error:
        raise reader.fail(key, str(error)) from error


def _figure(reader: Reader, value: Any, key: str, sources: list[str]) -> float:
    figure, source = reader.number(value, key)
    sources.append(source)
    return figure


def _count(reader: Reader, value: Any, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise reader.fail(key, f"a whole number from 1 is needed here, not {kind_of(value)}")
    return value


def _list(reader: Reader, value: Any, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise reader.fail(key, f"a list is needed here, not {kind_of(value)}")
    return value


def _words(reader: Reader, value: Any, key: str, known: Iterable[str]) -> tuple[str, ...]:
    words = reader.texts(value, key)
    for word in words:
        if word not in known:
            raise reader.fail(key, f"{word!r} is not known; known ones: {', '.join(sorted(known))}")
    return words
