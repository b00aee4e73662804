"""A file of results, read back: of this version or an earlier one, whole or cut off.

Everything that reads a finished run reads the document that comes from here. It has every key of the current schema,
whichever version wrote the file: a key that is younger than the file holds what stands for "not known".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.results.document import KIND, SCHEMA, UNKNOWN_ORIGIN
from pytest_roofline.results.shape import fault_in, schema_of

Document = dict[str, Any]
# To bump the schema: raise document.SCHEMA, add schema_N.json, and a function here that makes a document of N out of
# one of N - 1. A file that is older goes through several.
MIGRATIONS: Mapping[int, Callable[[Document], Document]] = MappingProxyType({})
"""By the schema that a document has: to one of the next."""
_LATER_OF_RUN: Mapping[str, Any] = MappingProxyType({"started_at": None, "commit": None})
_LATER_OF_TEST: Mapping[str, Any] = MappingProxyType(
    {"file": None, "line": None, "message": "", "budget_error": None, "mode": None, "results": (), "attempts": ()}
)
_LATER_OF_RESULT: Mapping[str, Any] = MappingProxyType(
    {
        "allowed": (),
        "at_least_from": None,
        "at_most_from": None,
        "limit": None,
        "confrontation": (),
        "sized": None,
        "claim": None,
        "window": None,
        "compiled": None,
        "comparisons": (),
        "stream": None,
    }
)
"""Keys that came within the schema, with what a file without them says by that."""


def read_results(path: str) -> Document:
    """The document at `path`; one that was cut off without its last, unfinished line, and with `end` null.

    OSError where it cannot be read; ValueError, in one line that names the file, where it is none of ours, damaged, or
    of a later schema.
    """
    with open(path, encoding="utf-8") as file:
        try:
            text = file.read()
        except UnicodeDecodeError:
            raise ValueError(f"{path} is no results file of pytest-roofline: it is no text") from None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = _salvaged(text)
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise ValueError(f"{path} is no results file of pytest-roofline")
    schema = found.get("schema")
    if isinstance(schema, bool) or not isinstance(schema, int) or not 1 <= schema <= SCHEMA:
        raise ValueError(
            f"{path} has schema {one_line(repr(schema))}; this version reads {_known()}"
            + (": it was written by a later version of pytest-roofline" if isinstance(schema, int) else "")
        )
    for number in range(schema, SCHEMA):
        found = MIGRATIONS[number](found)
    if (fault := fault_in(found, schema_of(SCHEMA))) is not None:
        raise ValueError(f"{path} is damaged: {fault}")
    return _completed(found)


def results_given(path: str, where: str) -> Document:
    """The same of a path that a user gave; RooflineUsageError, which begins with `where`, if it cannot be read."""
    try:
        return read_results(path)
    except OSError as error:
        raise RooflineUsageError(f"{where}: {path!r} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise RooflineUsageError(f"{where}: {error}") from None


def cut_off(document: Mapping[str, Any]) -> str:
    """What a file holds that its run did not finish, in one line; empty where the run's end is in it."""
    if document["end"] is not None:
        return ""
    count = len(document["tests"])
    tests = "1 test is" if count == 1 else f"{count} tests are"
    return f"cut off: {tests} in it, the run's end is not"


def _known() -> str:
    return "1" if SCHEMA == 1 else f"1 to {SCHEMA}"


def _completed(found: Document) -> Document:
    """With every key of the schema."""
    run = {**_LATER_OF_RUN, **found["run"]}
    tests = [_with_results({**_builtin(_LATER_OF_TEST), **test}) for test in found["tests"]]
    for test in tests:
        test["attempts"] = [_with_results(attempt) for attempt in test["attempts"]]
    return {**_builtin(UNKNOWN_ORIGIN), **found, "run": run, "tests": tests, "end": found.get("end")}


def _with_results(record: Document) -> Document:
    """A test, or an attempt of one."""
    return {**record, "results": [{**_builtin(_LATER_OF_RESULT), **result} for result in record["results"]]}


def _builtin(later: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in later.items()}


def _salvaged(text: str) -> Any:
    head, *lines = text.split("\n")
    try:
        found = json.loads(head.removesuffix(",") + "}")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or "run" not in found:
        return None
    tests: list[Any] = []
    rest = iter(lines[1:])
    for line in rest:
        try:
            tests.append(json.loads(line.removesuffix(",")))
        except (ValueError, RecursionError):
            break
    found = {**found, "tests": tests}
    for line in rest:
        try:
            found.update(json.loads(f"{{{line.removesuffix(',')}}}"))
        except (ValueError, RecursionError):
            break
    return {**found, "end": None}
