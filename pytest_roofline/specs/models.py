"""The library of models: what publishers' configs say, read by the same reader as a config.json.

An entry of a file's ``models`` list::

    - id: llama-3.1-8b
      name: Llama 3.1 8B
      aliases: [meta-llama/Llama-3.1-8B-Instruct]
      published: "8B"                                          # what the publisher calls its size
      parameters: {value: 8_030_261_248, source: count}        # the exact total: the config must count to it
      config: {model_type: llama, hidden_size: 4096, ...}      # as the publisher's config.json has it
      source: config                                           # the config's document

Without a config a model is declared by its figures, and predicted by the rule of thumb (every parameter read)::

    - id: in-house-70b
      name: In-house 70B
      parameters: {value: 70_000_000_000, source: card}
      active_parameters: {value: 12_000_000_000, source: card}     # of a mixture
      kv_bytes_per_token: {value: 327_680, source: card}           # at 16 bits
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.config import read_config
from pytest_roofline.specs.catalogue import Catalogue
from pytest_roofline.specs.document import Reader, kind_of

_WORDS = frozenset({"id", "name", "aliases", "published"})
_CONFIG_KEYS = _WORDS | {"parameters", "config", "source"}
_DECLARED_KEYS = _WORDS | {"parameters", "active_parameters", "kv_bytes_per_token"}
_ID = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*")
# A count without a shape is laid out in rows of this width, so that groups and blocks of any format divide it.
_WIDTH = 4096
_KV_BYTES = 2
"""Per element of a declared KV cache: 16 bits."""


def model_named(name: str, catalogue: Catalogue | None = None) -> Architecture:
    """One model by id, alias or full name, whatever its case, spaces, hyphens and underscores.

    Only the entry that bears the name is parsed. Raises RooflineUsageError with the nearest names for an unknown one.
    """
    reader, entry = (Catalogue() if catalogue is None else catalogue).raw("models", name)
    return read_model(reader, entry, 0)


def read_model(reader: Reader, value: Any, position: int) -> Architecture:
    """One entry of a `models` list. The stated number of parameters must be what its config counts to."""
    raw_id = value.get("id") if isinstance(value, dict) else None
    key = f"models.{raw_id}" if isinstance(raw_id, str) else f"models[{position}]"
    has_config = isinstance(value, dict) and "config" in value
    entry = reader.known(value, key, _CONFIG_KEYS if has_config else _DECLARED_KEYS)
    for name in ("id", "name", "source") if has_config else ("id", "name", "parameters"):
        if name not in entry:
            hint = " (or a config: the keys of a config.json)" if name == "parameters" else ""
            raise reader.fail(f"{key}.{name}", f"missing{hint}")
    if not _ID.fullmatch(reader.text(entry["id"], f"{key}.id")):
        raise reader.fail(f"{key}.id", f"{entry['id']!r}: lower-case words joined by hyphens or points are needed")
    reader.text(entry["name"], f"{key}.name")
    reader.texts(entry.get("aliases", []), f"{key}.aliases")
    if "published" in entry:
        reader.text(entry["published"], f"{key}.published")
    return _configured(reader, entry, key) if has_config else _declared(reader, entry, key)


def _configured(reader: Reader, entry: dict[str, Any], key: str) -> Architecture:
    config = entry["config"]
    if not isinstance(config, dict):
        raise reader.fail(f"{key}.config", f"a mapping is needed here, not {kind_of(config)}")
    document = reader.source(entry["source"], f"{key}.source")
    try:
        architecture = read_config({**config, "_name_or_path": None})
    except RooflineUsageError as error:
        # A config without a file of its own is called "config" in its errors: this is where it stands.
        raise RooflineUsageError(f"{reader.file}: {key}.config.{str(error).removeprefix('config: ')}") from error
    if "parameters" in entry:
        stated, _ = reader.number(entry["parameters"], f"{key}.parameters")
        if stated != architecture.parameters:
            raise reader.fail(
                f"{key}.parameters.value",
                f"{stated:,.0f} parameters are stated and the config counts {architecture.parameters:,}",
            )
    return dataclasses.replace(architecture, name=entry["id"], source=document)


def _declared(reader: Reader, entry: dict[str, Any], key: str) -> Architecture:
    """The rule of thumb: so many parameters, all of them read, or a share of them by each token."""
    parameters, source = _whole(reader, entry, key, "parameters")
    share: float | None = None
    if "active_parameters" in entry:
        active, _ = _whole(reader, entry, key, "active_parameters")
        if active > parameters:
            raise reader.fail(f"{key}.active_parameters.value", f"{active:,} of {parameters:,}: more than there are")
        share = active / parameters if active < parameters else None
    caches: tuple[CacheLayers, ...] = ()
    if "kv_bytes_per_token" in entry:
        kv_bytes, _ = _whole(reader, entry, key, "kv_bytes_per_token")
        if kv_bytes % _KV_BYTES:
            raise reader.fail(f"{key}.kv_bytes_per_token.value", f"{kv_bytes}: whole elements of 16 bits are needed")
        caches = (CacheLayers(name="attention", layers=1, elements_per_token=kv_bytes // _KV_BYTES),)
    rows, rest = divmod(parameters, _WIDTH)
    shapes = [shape for shape in ((rows, _WIDTH), (1, rest)) if 0 not in shape]
    rule = "by the rule of thumb: every parameter is read, tables included"
    if share is not None:
        rule = f"by the rule of thumb: each token is sent to the same {share:.1%} of the parameters, tables included"
    return Architecture(
        name=entry["id"],
        weights=tuple(
            Weight(
                name="model",
                part="other",
                shape=shape,
                use="matrix" if share is None else "routed",
                experts_per_token=share,
            )
            for shape in shapes
        ),
        caches=caches,
        source=source,
        notes=(rule,),
    )


def _whole(reader: Reader, entry: dict[str, Any], key: str, name: str) -> tuple[int, str]:
    """A figure that counts something."""
    figure, source = reader.number(entry[name], f"{key}.{name}")
    if figure != int(figure):
        raise reader.fail(f"{key}.{name}.value", f"{figure:g}: a whole number is needed")
    return int(figure), source
