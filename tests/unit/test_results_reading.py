"""Results files are read whichever version wrote them; what does not fit is named, and nothing is guessed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_runs import document_with, kept_test, result_of

from pytest_roofline.comparison.runs import compare_runs
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.reruns import last_attempts
from pytest_roofline.results import document, reading
from pytest_roofline.results.reading import read_results, results_given
from pytest_roofline.results.shape import fault_in, schema_of

# As the first version with --roofline-json wrote it, before a release: decode, kernel and audit, every verdict, tests
# with two results and with none, one that crashed its worker and one that was run again.
FIRST = Path(__file__).with_name("results_schema_1.json")


def written(folder: Path, content: Any) -> str:
    """A file with this document."""
    path = folder / "results.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def test_a_document_comes_back_as_it_was(tmp_path: Path) -> None:
    """Every key of it."""
    content = document_with(kept_test(result_of()))
    assert read_results(written(tmp_path, content)) == content


def test_a_file_of_the_first_version_is_read() -> None:
    """With every key that came since, as not known: whoever reads it needs to ask for none."""
    raw = json.loads(FIRST.read_text(encoding="utf-8"))
    assert "libraries" not in raw
    found = read_results(str(FIRST))
    assert fault_in(found, schema_of(document.SCHEMA)) is None
    assert (found["libraries"], found["devices"], found["run"]["commit"]) == ({}, [], None)
    assert {test["verdict"] for test in found["tests"]} == {
        *("passed", "failed", "bogus", "bogus (caught)", "inconclusive", None),
    }
    every = document_with(kept_test(result_of()))
    for test in found["tests"]:
        assert every["tests"][0].keys() <= test.keys()
        attempts = [test, *test["attempts"]]
        results = [result for attempt in attempts for result in attempt["results"]]
        assert all(every["tests"][0]["results"][0].keys() <= result.keys() for result in results)
    for test, former in zip(found["tests"], raw["tests"], strict=True):
        for name in former.keys() - {"results", "attempts"}:
            assert test[name] == former[name]
        for result, once in zip(test["results"], former.get("results", ()), strict=True):
            assert {name: result[name] for name in once} == once
    assert any(test["attempts"] for test in found["tests"])
    assert compare_runs(found, found).changes


def test_a_new_schema_costs_one_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the one before are brought to it; a later one is refused as ever."""

    def of_2(found: dict[str, Any]) -> dict[str, Any]:
        return {"trials": found.pop("tests"), **found, "schema": 2}

    def of_3(found: dict[str, Any]) -> dict[str, Any]:
        return {"tests": found.pop("trials"), **found, "schema": 3}

    later = copy.deepcopy(schema_of(1))
    later["properties"]["schema"]["const"] = 3
    monkeypatch.setattr(reading, "SCHEMA", 3)
    monkeypatch.setattr(reading, "MIGRATIONS", MappingProxyType({1: of_2, 2: of_3}))
    monkeypatch.setattr(reading, "schema_of", lambda number: later)
    content = document_with(kept_test(result_of()))
    assert read_results(written(tmp_path, content)) == {**content, "schema": 3}
    with pytest.raises(ValueError, match=r"has schema 4; this version reads 1 to 3: it was written by a later version"):
        read_results(written(tmp_path, {**content, "schema": 4}))


def test_every_schema_is_shipped() -> None:
    """One file for each number, and a migration from each one but the last."""
    for number in range(1, document.SCHEMA + 1):
        assert schema_of(number)["properties"]["schema"] == {"const": number}
    assert set(reading.MIGRATIONS) == set(range(1, document.SCHEMA))


@pytest.mark.parametrize("schema", [0, -1, 2, 1.0, "1", None, True, [1]])
def test_other_schemas_are_refused(tmp_path: Path, schema: Any) -> None:
    """They may mean other things by the same names."""
    with pytest.raises(ValueError, match=r"results.json has schema .*; this version reads 1"):
        read_results(written(tmp_path, document_with(schema=schema)))


def test_keys_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    """Within a schema keys may be added, also below."""
    content = document_with(kept_test(result_of(later={"a": 1}), later=2), later=3)
    assert read_results(written(tmp_path, content))["later"] == 3


@pytest.mark.parametrize(
    ("place", "value", "fault"),
    [
        (("tests",), {}, "tests is {}, no array"),
        (("tests", 0, "verdict"), "fine", "tests[0].verdict is 'fine', none of bogus, bogus (caught),"),
        (
            ("tests", 0, "results", 0, "samples", 2, "step_s"),
            "x",
            "tests[0].results[0].samples[2].step_s is 'x', no nu",
        ),
        (("tests", 0, "results", 0, "device"), None, "tests[0].results[0].device is None, no object"),
        (("tests", 0, "results", 0, "ceiling", "bound"), 1, "tests[0].results[0].ceiling.bound is 1, none of memory"),
        (("tests", 0, "results", 0, "passes"), True, "tests[0].results[0].passes is True, no integer"),
        (("tests", 0, "results", 0, "traffic", "extra"), [["a"]], "traffic.extra[0] has 1 items, not 2"),
        (("libraries",), {"torch": 2}, "libraries.torch is 2, no string"),
        (("run", "arguments"), "-v", "run.arguments is '-v', no array"),
        (("end",), 0, "end is 0, no object"),
    ],
)
def test_damage_is_named(tmp_path: Path, place: tuple[Any, ...], value: Any, fault: str) -> None:
    """The file, the place and what is wrong there, so that nothing that reads a document meets it."""
    content = document_with(kept_test(result_of()))
    inner: Any = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(ValueError, match="is damaged: ") as caught:
        read_results(written(tmp_path, content))
    assert fault in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    """One that every file of the schema has."""
    result = result_of()
    del result["samples"]
    with pytest.raises(ValueError, match=r"is damaged: tests\[0\]\.results\[0\] has no 'samples'"):
        read_results(written(tmp_path, document_with(kept_test(result))))


def test_hostile_names_forge_no_line(tmp_path: Path) -> None:
    """What a file calls its keys is printed as an escape."""
    with pytest.raises(RooflineUsageError) as caught:
        results_given(written(tmp_path, document_with(libraries={"\x1b[2J\nPASSED": 1})), "OLD.json")
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_the_last_attempt_is_the_end() -> None:
    """What was run again stands in the file with every attempt, for whoever looks; the last one has the others."""
    first, last = kept_test(outcome="rerun"), kept_test(result_of())
    assert last_attempts(document_with(first, last)["tests"]) == [last]


# -- the reader's own look at the shape, against a validator of the standard -----------------------------------------


def places_in(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a document."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places_in(item, (*place, key))


def without_closed(schema: Any) -> Any:
    """The same schema with other keys allowed, as the reader has it."""
    if isinstance(schema, dict):
        return {
            name: without_closed(item)
            for name, item in schema.items()
            if name != "additionalProperties" or item is not False
        }
    return [without_closed(item) for item in schema] if isinstance(schema, list) else schema


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
)


@given(st.randoms(use_true_random=False), ODD, st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_shape_is_what_a_validator_says(chance: Any, odd: Any, is_removed: bool) -> None:
    """With anything in the place of anything, or anything missing: the reader and `jsonschema` agree."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = schema_of(1)
    finding = {"check": "drifted", "severity": "note", "message": "", "figures": {"a": 1}, "remedy": ""}
    content = document_with(kept_test(result_of([1e-3, 2e-3], findings=[finding])))
    place = chance.choice([one for one in places_in(content) if one])
    inner: Any = content
    for key in place[:-1]:
        inner = inner[key]
    if is_removed:
        del inner[place[-1]]
    else:
        inner[place[-1]] = odd
    validator = jsonschema.Draft202012Validator(without_closed(schema))
    # For the standard 1.0 is an integer and equals 1; the files that are written have none where a whole number is due.
    if isinstance(odd, float) and odd.is_integer() and not is_removed:
        return
    assert (fault_in(content, schema) is None) == validator.is_valid(content)
