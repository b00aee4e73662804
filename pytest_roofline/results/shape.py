"""Whether a document has the shape that the shipped schema says, so that whoever reads it need not ask at every key.

A file may have been edited, cut or made by somebody else. This reads what `schema_1.json` is written with (type, enum,
const, properties, required, items, prefixItems, additionalProperties, anyOf and references to its own definitions), and
is no validator of other schemas. Keys that the schema does not know are passed over: a later version may have added
them within the schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_roofline.errors import one_line

Schema = Mapping[str, Any]
_TYPES: Mapping[str, Callable[[Any], bool]] = MappingProxyType(
    {
        "object": lambda value: isinstance(value, dict),
        "array": lambda value: isinstance(value, list),
        "string": lambda value: isinstance(value, str),
        "boolean": lambda value: isinstance(value, bool),
        "null": lambda value: value is None,
        "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
        "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    }
)


def schema_of(number: int) -> dict[str, Any]:
    """The JSON Schema of the results files with this number, as it is shipped; OSError where there is none."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name(f"schema_{number}.json").read_text(encoding="utf-8"))
    return found


def fault_in(value: Any, schema: Schema) -> str | None:
    """The first place where a document differs from its schema, in words; None where it fits."""
    return _fault(value, schema, schema.get("$defs", {}), "")


def _fault(value: Any, schema: Schema, definitions: Schema, where: str) -> str | None:
    while "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        faults = [_fault(value, one, definitions, where) for one in schema["anyOf"]]
        # Every choice in the schema is between null and one other thing, so the last fault is the one that tells most.
        return None if None in faults else faults[-1]
    if not _is_allowed(value, schema):
        return f"{where or 'the document'} is {one_line(repr(value), 60)}, {_wanted(schema)}"
    if isinstance(value, dict):
        return _fault_of_keys(value, schema, definitions, where)
    if isinstance(value, list):
        return _fault_of_items(value, schema, definitions, where)
    return None


def _is_allowed(value: Any, schema: Schema) -> bool:
    if "const" in schema and (value != schema["const"] or isinstance(value, bool)):
        return False
    if "enum" in schema and not any(value == one and type(value) is type(one) for one in schema["enum"]):
        return False
    kinds = schema.get("type", ())
    names = (kinds,) if isinstance(kinds, str) else kinds
    return not names or any(_TYPES[name](value) for name in names)


def _wanted(schema: Schema) -> str:
    if "const" in schema:
        return f"not {schema['const']!r}"
    if "enum" in schema:
        return f"none of {', '.join(map(str, schema['enum']))}"
    kinds = schema["type"]
    return f"no {kinds if isinstance(kinds, str) else ' or '.join(kinds)}"


def _fault_of_keys(value: dict[str, Any], schema: Schema, definitions: Schema, where: str) -> str | None:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where or 'the document'} has no {name!r}"
    for name, item in value.items():
        inner = properties.get(name, others if isinstance(others, dict) else None)
        fault = None if inner is None else _fault(item, inner, definitions, f"{where}.{one_line(name, 60)}".lstrip("."))
        if fault is not None:
            return fault
    return None


def _fault_of_items(value: list[Any], schema: Schema, definitions: Schema, where: str) -> str | None:
    first = schema.get("prefixItems", ())
    if len(value) < schema.get("minItems", 0) or len(value) > schema.get("maxItems", len(value)):
        return f"{where} has {len(value)} items, not {schema['minItems']}"
    inner = schema.get("items")
    for number, item in enumerate(value):
        own = first[number] if number < len(first) else inner
        fault = None if own is None else _fault(item, own, definitions, f"{where}[{number}]")
        if fault is not None:
            return fault
    return None
