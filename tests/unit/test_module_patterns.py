"""Patterns of module paths: they match as `re` and `fnmatch` do, and never take long."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.architecture import Storage
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.module_patterns import ModulePatterns, PatternFault
from pytest_roofline.readers.quantization import is_skipped

ATOMS = st.sampled_from(["a", "b", ".", r"\.", r"\d", r"\w", "[ab]", "[^a]", "[a-c]", "(a|b.)", "(?:a*b)", "(|b)", "0"])
PIECES = st.lists(st.tuples(ATOMS, st.sampled_from(["", "*", "+", "?"])).map("".join), max_size=5).map("".join)
EXPRESSIONS = st.tuples(st.sampled_from(["", "^"]), PIECES, st.sampled_from(["", "$", "|b", "|c$"])).map("".join)
PATHS = st.lists(st.text("ab0", min_size=1, max_size=3), min_size=1, max_size=3).map(".".join)
WILDCARDS = st.lists(st.sampled_from(["a", "b", ".", "0", "?", "*", "[ab]", "[!a]"]), max_size=6).map("".join)


@settings(max_examples=60, deadline=None)
@given(EXPRESSIONS, st.lists(PATHS, min_size=1, max_size=5))
def test_an_expression_matches_as_re_does(expression: str, paths: list[str]) -> None:
    """From the beginning of a path, to any place in it."""
    patterns = ModulePatterns()
    patterns.add_expression(expression)
    for path in paths:
        assert patterns.holds(path) == (re.match(expression, path) is not None), (expression, path)


@settings(max_examples=60, deadline=None)
@given(WILDCARDS, st.lists(PATHS, min_size=1, max_size=5))
def test_a_wildcard_matches_as_fnmatch_does(wildcard: str, paths: list[str]) -> None:
    """From the beginning of any word of a path, to the end of any."""
    patterns = ModulePatterns()
    patterns.add_wildcard(wildcard)
    for path in paths:
        words = path.split(".")
        tails = [".".join(words[start:]) for start in range(len(words))]
        expected = any(fnmatchcase(tail, form) for tail in tails for form in (wildcard, f"{wildcard}.*"))
        assert patterns.holds(path) == expected, (wildcard, path)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("a{2}", "'{' is not known in this place"),
        ("*a", "'*' is not known in this place"),
        ("(a", "an opening bracket without a closing one"),
        ("a)", "a closing bracket without an opening one"),
        ("(?=a)", "'(?' is known as '(?:' only"),
        ("[a", "'[' without its ']'"),
        ("[b-a]", "'b-a' is no range of ASCII"),
        (r"\bq", r"'\b' is not known"),
        ("(" * 30 + ")" * 30, "groups over 20 deep"),
    ],
)
def test_what_is_not_known_is_said(expression: str, problem: str) -> None:
    """Look-ahead, counts and the like are no part of it."""
    with pytest.raises(PatternFault, match=re.escape(problem)):
        ModulePatterns().add_expression(expression)


def test_what_is_repeated_is_not_tried_twice() -> None:
    """Expressions that take other engines for ever are a walk along the path, of so many steps."""
    patterns = ModulePatterns()
    for expression in (".?" * 30 + "Z", "(.|.)" * 28 + "Z", "(a+)+$", "(a|a)*b", ".*" * 40 + "Z"):
        patterns.add_expression(expression)
    assert not patterns.holds("a" * 200 + ".c")
    assert patterns.holds("a" * 200)


def test_matching_that_takes_too_long_is_refused() -> None:
    """Whatever the config lists: what is refused is the list."""
    storage = Storage(
        format="fp8",
        skipped=tuple(f"*{number % 10}*{number // 10}*b" for number in range(3000)),
        source="quantization_config (fp8)",
    )
    with pytest.raises(RooflineUsageError, match=r"^quantization_config \(fp8\): its list .*more than [\d,]+ steps"):
        for layer in range(10_000):
            is_skipped(storage, f"model.layers.{layer}.mlp.down_proj")
